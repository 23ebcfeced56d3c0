/*
 * model: opening.
 */
#include "model/model.h"

#include "base/memory.h"
#include "model/arch/arch_rows.h"
#include "model/plan_draft.h"

#define UNUSED_LISTED 50

static enum status build(struct model *model, const struct file_set *files, const struct feature_request *features, struct error *err) {
    struct binder binder;
    struct byte_buffer unused;
    byte_buffer_init(&unused, 1 << 20);
    enum status status = bind_init(&binder, model->catalogue, files, model->arch, &model->params, &model->plan, err);
    if (status == STATUS_OK)
        status = plan_build(&binder, features, err);
    if (status == STATUS_OK)
        status = bind_unused(&binder, UNUSED_LISTED, &unused, &model->unused_count, err);
    if (status == STATUS_OK && model->unused_count > 0)
        model->unused_names = byte_buffer_take(&unused);
    byte_buffer_deinit(&unused);
    bind_deinit(&binder);
    return status;
}

/* Keys that would make another network than the family's blocks compute. */
static enum status refuse_keys(const struct model *model, struct error *err) {
    bool flag;
    double number;
    bool hf = catalogue_world(model->catalogue) == CATALOGUE_HF;
    for (const char *const *key = model->arch->hf_refused; hf && key && *key; key++) {
        const struct meta_value *value = params_meta(&model->params, model->catalogue, *key);
        if ((meta_bool(value, &flag) && flag) || (meta_f64(value, &number) && number != 0))
            return error_set(err, STATUS_UNSUPPORTED, "%s: config.json sets %s, a variant of %s that is not supported",
                             catalogue_path(model->catalogue), *key, model->arch->name);
    }
    return STATUS_OK;
}

/* config.json names an activation; a family has one. Others (clamped, with parameters) go by names of their own. */
static enum status check_activation(const struct model *model, struct error *err) {
    static const char *const keys[] = {"hidden_activation", "hidden_act", "mlp_hidden_act", "activation"};
    static const char *const known[GATE_KIND_COUNT][4] = {[GATE_SILU] = {"silu", "swish", "swiglu"},
                                                          [GATE_GELU_TANH] = {"gelu_pytorch_tanh", "gelu_new", "gelu"},
                                                          [GATE_GELU_ERF] = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"},
                                                          [GATE_RELU2] = {"relu2"}};
    const char *const *names = known[model->arch->gate];
    struct text name;
    if (catalogue_world(model->catalogue) != CATALOGUE_HF || !names[0])
        return STATUS_OK;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        if (!meta_text(params_meta(&model->params, model->catalogue, keys[k]), &name))
            continue;
        for (int i = 0; i < 4 && names[i]; i++)
            if (text_is(name, names[i]))
                return STATUS_OK;
        return error_set(err, STATUS_UNSUPPORTED, "%s: config.json sets %s to '%.*s'; %s models are computed with '%s' only",
                         catalogue_path(model->catalogue), keys[k], (int)(name.size_bytes < 60 ? name.size_bytes : 60), name.data,
                         model->arch->name, names[0]);
    }
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
        status = refuse_keys(model, err);
    if (status == STATUS_OK)
        status = check_activation(model, err);
    if (status == STATUS_OK)
        status = build(model, files, NULL, err);
    if (status != STATUS_OK) {
        model_close(model);
        return status;
    }
    model->context = params_u32(&model->params, PARAM_CONTEXT, 0);
    *out = model;
    return STATUS_OK;
}

static enum status list_missing(const struct catalogue *catalogue, const struct file_set *files, struct byte_buffer *out,
                                struct error *err) {
    char prefix[64];
    const struct arch_spec *arch;
    struct params params = {0};
    struct plan plan = {0};
    struct binder binder = {0};
    struct error build_error;
    enum status status = arch_find(catalogue, &arch, prefix, sizeof prefix, err);
    if (status == STATUS_OK)
        status = params_read(&params, catalogue, prefix, arch->params, err);
    if (status == STATUS_OK)
        status = bind_init(&binder, catalogue, files, arch, &params, &plan, err);
    if (status == STATUS_OK && plan_build(&binder, NULL, &build_error) != STATUS_OK)
        status = byte_buffer_append_text(out, byte_buffer_text(&binder.missing), err);
    bind_deinit(&binder);
    plan_deinit(&plan);
    params_deinit(&params);
    return status;
}

enum status model_list_missing(const char *path, struct byte_buffer *out, struct error *err) {
    struct file_set *files = NULL;
    struct catalogue *catalogue = NULL;
    TRY(file_set_create(&files, err));
    enum status status = catalogue_open(path, files, &catalogue, err);
    if (status == STATUS_OK)
        status = list_missing(catalogue, files, out, err);
    catalogue_close(catalogue);
    file_set_destroy(files);
    return status;
}

/* ---- drafters ---- */

/* The target's plan once more, with what the drafter reads of it. */
static enum status rebuild_target(struct model *target, const struct file_set *files, const struct feature_request *features,
                                  struct error *err) {
    plan_deinit(&target->plan);
    memory_free(target->unused_names);
    target->unused_names = NULL;
    return build(target, files, features, err);
}

/* Names of the target, for the drafter's plan; own: the same names for a prediction layer, or an empty binder over the drafter's files. */
static enum status build_draft(struct model *draft, struct model *target, const struct file_set *files, struct draft_request *request,
                               const struct role_names *names, struct error *err) {
    struct binder own = {0}, shared = {0};
    struct feature_request features;
    const bool predicts = request->form == DRAFT_PREDICTION;
    const struct binder like = {.catalogue = predicts ? target->catalogue : draft->catalogue,
                                .files = files,
                                .arch = draft->arch,
                                .params = predicts ? &target->params : &draft->params,
                                .plan = &draft->plan};
    enum status status = draft_features(request, like.catalogue, target->params.layers, &features, err);
    if (status == STATUS_OK)
        status = rebuild_target(target, files, &features, err);
    if (status == STATUS_OK)
        status = bind_init(&shared, target->catalogue, files, target->arch, &target->params, &draft->plan, err);
    if (status == STATUS_OK)
        status = bind_init_named(&own, &like, names, err);
    request->target = &shared;
    request->target_plan = &target->plan;
    if (status == STATUS_OK)
        status = plan_draft_build(&own, request, err);
    bind_deinit(&own);
    bind_deinit(&shared);
    return status;
}

static enum status open_prediction(struct model *draft, struct model *target, const struct file_set *files, struct error *err) {
    struct draft_request request;
    struct role_names names;
    draft->arch = target->arch;
    draft->context = target->context;
    TRY(role_names_init(&names, target->catalogue, target->arch->roles, params_u32(&target->params, PARAM_LAYER_PARTS, 0), err));
    TRY(draft_find_prediction(&names, target->params.layers, &request, err));
    return build_draft(draft, target, files, &request, &names, err);
}

static enum status open_drafter(struct model *draft, const char *path, struct model *target, struct file_set *files, struct error *err) {
    struct draft_request request;
    TRY(catalogue_open(path, files, &draft->catalogue, err));
    struct role_names names = {.catalogue = draft->catalogue};
    TRY(draft_find_form(&names, &request, err));
    bool assistant = request.form == DRAFT_ASSISTANT, inner = catalogue_meta(draft->catalogue, "transformer_layer_config/hidden_size");
    draft->arch = assistant ? &arch_gemma4 : request.form == DRAFT_ALONE ? &arch_eagle_alone : &arch_eagle;
    names.overrides = draft->arch->roles;
    TRY(params_read(&draft->params, draft->catalogue,
                    assistant ? "text_config/"
                    : inner   ? "transformer_layer_config/"
                              : "",
                    draft->arch->params, err));
    draft->context = params_u32(&draft->params, PARAM_CONTEXT, 0);
    return build_draft(draft, target, files, &request, &names, err);
}

enum status model_open_draft(struct model *target, const char *path, struct file_set *files, struct model **out, struct error *err) {
    *out = NULL;
    struct model *draft = memory_alloc(sizeof *draft);
    if (!draft)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open a drafter");
    enum status status = path ? open_drafter(draft, path, target, files, err) : open_prediction(draft, target, files, err);
    if (status != STATUS_OK) {
        model_close(draft);
        return status;
    }
    *out = draft;
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
