/*
 * model: opening.
 */
#include "model/model.h"

#include "base/memory.h"
#include "model/plan_build.h"

#define UNUSED_LISTED 50

static enum status build(struct model *model, const struct file_set *files, struct error *err) {
    struct binder binder;
    struct byte_buffer unused;
    byte_buffer_init(&unused, 1 << 20);
    enum status status = bind_init(&binder, model->catalogue, files, model->arch, &model->params, &model->plan, err);
    if (status == STATUS_OK)
        status = plan_build(&binder, err);
    if (status == STATUS_OK)
        status = bind_unused(&binder, UNUSED_LISTED, &unused, &model->unused_count, err);
    if (status == STATUS_OK && model->unused_count > 0)
        model->unused_names = byte_buffer_take(&unused);
    byte_buffer_deinit(&unused);
    bind_deinit(&binder);
    return status;
}

/* Flags that would make another network than the family's blocks compute. */
static enum status refuse_flags(const struct model *model, struct error *err) {
    bool flag;
    bool hf = catalogue_world(model->catalogue) == CATALOGUE_HF;
    for (const char *const *key = model->arch->hf_refused; hf && key && *key; key++)
        if (meta_bool(params_meta(&model->params, model->catalogue, *key), &flag) && flag)
            return error_set(err, STATUS_UNSUPPORTED, "%s: config.json sets %s, a variant of %s that is not supported",
                             catalogue_path(model->catalogue), *key, model->arch->name);
    return STATUS_OK;
}

enum status model_open(const char *path, struct file_set *files, struct model **out, struct error *err) {
    char prefix[64];
    *out = NULL;
    struct model *model = memory_alloc(sizeof *model);
    if (!model)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open %s", path);
    enum status status = catalogue_open(path, files, &model->catalogue, err);
    if (status == STATUS_OK)
        status = arch_find(model->catalogue, &model->arch, prefix, sizeof prefix, err);
    if (status == STATUS_OK)
        status = params_read(&model->params, model->catalogue, prefix, model->arch->params, err);
    if (status == STATUS_OK)
        status = refuse_flags(model, err);
    if (status == STATUS_OK)
        status = build(model, files, err);
    if (status != STATUS_OK) {
        model_close(model);
        return status;
    }
    model->context = params_u32(&model->params, PARAM_CONTEXT, 0);
    *out = model;
    return STATUS_OK;
}

void model_close(struct model *model) {
    if (!model)
        return;
    plan_deinit(&model->plan);
    params_deinit(&model->params);
    catalogue_close(model->catalogue);
    memory_free(model->unused_names);
    memory_free(model);
}
