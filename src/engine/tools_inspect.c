/*
 * tools_inspect: include/sluice_tools.h: what a model's files hold, and decoded copies of tensors.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "format/safetensors_write.h"
#include "sluice_tools.h"

#define DECODE_ELEMENTS (1u << 16) /* decoded at a time; a multiple of every block */

/* ---- dump ---- */

static enum status dump_tensor(const struct file_set *files, const struct tensor_entry *tensor, struct safetensors_writer *writer,
                               uint8_t *raw, float *values, struct error *err) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    uint64_t total = tensor->size_bytes / info->block_bytes * info->block_elements, offset = tensor->offset_bytes;
    for (uint64_t done = 0; done < total;) {
        uint64_t count = total - done < DECODE_ELEMENTS ? total - done : DECODE_ELEMENTS;
        count -= count % info->block_elements;
        uint64_t bytes = count / info->block_elements * info->block_bytes;
        TRY(file_set_read(files, tensor->file, offset, raw, bytes, err));
        info->decode(raw, values, count);
        TRY(safetensors_writer_append(writer, values, count * sizeof *values, err));
        done += count;
        offset += bytes;
    }
    return STATUS_OK;
}

static enum status declare(const struct catalogue *catalogue, const struct tensor_entry *tensor, struct safetensors_writer *writer,
                           struct error *err) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    if (!info->decode)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: format %s cannot be decoded by this version", catalogue_path(catalogue),
                         TEXT_ARGUMENTS(tensor->name), info->name);
    char *name = memory_copy_text(tensor->name.data, tensor->name.size_bytes);
    enum status status = name ? safetensors_writer_declare(writer, name, "F32", tensor->shape, tensor->rank, err)
                              : error_set(err, STATUS_NO_MEMORY, "no memory for a tensor's name");
    memory_free(name);
    return status;
}

struct selection {
    const struct catalogue *catalogue;
    const char *const *names;
    size_t name_count;
};

static const struct tensor_entry *selected(const struct selection *s, size_t index) {
    return s->name_count ? catalogue_find(s->catalogue, text_of(s->names[index])) : catalogue_tensor(s->catalogue, index);
}

static enum status dump(const struct selection *s, const struct file_set *files, const char *out_path, struct error *err) {
    size_t count = s->name_count ? s->name_count : (size_t)catalogue_tensor_count(s->catalogue);
    for (size_t i = 0; i < count; i++)
        if (!selected(s, i))
            return error_set(err, STATUS_NOT_FOUND, "%s has no tensor '%s' (inspect --tensors lists them)", catalogue_path(s->catalogue),
                             s->names[i]);
    struct safetensors_writer *writer;
    uint8_t *raw = memory_alloc_array(DECODE_ELEMENTS, 8);
    float *values = memory_alloc_array(DECODE_ELEMENTS, sizeof *values);
    enum status status = raw && values ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory to decode tensors");
    if (status == STATUS_OK)
        status = safetensors_writer_create(out_path, &writer, err);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = declare(s->catalogue, selected(s, i), writer, err);
        for (size_t i = 0; i < count && status == STATUS_OK; i++)
            status = dump_tensor(files, selected(s, i), writer, raw, values, err);
        if (status == STATUS_OK)
            status = safetensors_writer_finish(writer, err);
        else
            safetensors_writer_abandon(writer);
    }
    memory_free(raw);
    memory_free(values);
    return status;
}

sluice_status sluice_tool_dump(const char *path, const char *const *names, size_t name_count, const char *out_path, sluice_error *error) {
    struct error err = {0};
    struct file_set *files = NULL;
    struct catalogue *catalogue = NULL;
    enum status status = file_set_create(&files, &err);
    if (status == STATUS_OK)
        status = catalogue_open(path, files, &catalogue, &err);
    if (status == STATUS_OK) {
        struct selection selection = {catalogue, names, name_count};
        status = dump(&selection, files, out_path, &err);
    }
    catalogue_close(catalogue);
    file_set_destroy(files);
    return engine_report(status, &err, error);
}

/* ---- inspect ---- */

static json_t *formats_json(const struct catalogue *catalogue) {
    uint64_t bytes[DTYPE_COUNT] = {0}, total = 0;
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        bytes[catalogue_tensor(catalogue, i)->dtype] += catalogue_tensor(catalogue, i)->size_bytes;
        total += catalogue_tensor(catalogue, i)->size_bytes;
    }
    json_t *formats = json_object();
    for (enum dtype d = 0; d < DTYPE_COUNT; d++)
        if (bytes[d])
            (void)json_object_set_new(formats, dtype_info(d)->name, json_real((double)bytes[d] / (double)total));
    return formats;
}

static json_t *tensors_json(const struct catalogue *catalogue) {
    json_t *list = json_array();
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *t = catalogue_tensor(catalogue, i);
        json_t *shape = json_array();
        for (uint32_t d = 0; d < t->rank; d++)
            (void)json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        (void)json_array_append_new(list,
                                    json_pack("{s:o,s:s,s:o,s:i,s:I,s:I}", "name", json_stringn_nocheck(t->name.data, t->name.size_bytes),
                                              "format", dtype_info(t->dtype)->name, "shape", shape, "file", (int)t->file, "offset_bytes",
                                              (json_int_t)t->offset_bytes, "size_bytes", (json_int_t)t->size_bytes));
    }
    return list;
}

static uint64_t kv_bytes_per_token(const struct plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < plan->state_count; s++)
        bytes += 2ull * plan->states[s].kv_heads * (plan->states[s].head_dim + plan->states[s].v_dim);
    return bytes;
}

static void add_model(json_t *root, sluice_model *m) {
    sluice_info info;
    sluice_get_info(m, &info);
    uint64_t active = 0;
    const struct plan *plan = &m->model->plan;
    for (uint32_t w = 0; w < plan->weight_count; w++)
        active += plan->weights[w].rows_only ? 0 : plan_weight_bytes(&plan->weights[w]) * (plan->weights[w].experts ? plan->top_k : 1);
    json_t *end = json_array();
    for (uint32_t i = 0; i < info.end_id_count; i++)
        (void)json_array_append_new(end, json_integer((json_int_t)info.end_ids[i]));
    json_t *more =
        json_pack("{s:s,s:I,s:I,s:i,s:i,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:s,s:o,s:I}", "family", info.family, "parameters",
                  (json_int_t)info.parameters, "active_parameters", (json_int_t)info.active_parameters, "layers", (int)info.layers,
                  "hidden", (int)info.hidden, "vocab", (int)info.vocab, "context", (int)info.context, "experts", (int)info.experts,
                  "experts_per_token", (int)info.experts_per_token, "weight_bytes", (json_int_t)info.file_bytes, "bytes_per_token",
                  (json_int_t)active, "kv_bytes_per_token", (json_int_t)kv_bytes_per_token(plan), "tokenizer",
                  info.has_tokenizer ? "yes" : "missing", "end_ids", end, "unused_tensors", (json_int_t)m->model->unused_count);
    (void)json_object_update_new(root, more);
    if (m->model->unused_names)
        (void)json_object_set_new(root, "unused_names", json_string_nocheck(m->model->unused_names));
}

static void print_value(FILE *out, const char *key, const json_t *value) {
    char size[32];
    if (json_is_integer(value) && strstr(key, "bytes"))
        (void)fprintf(out, "%-20s %s\n", key, text_format_size((uint64_t)json_integer_value(value), size, sizeof size));
    else if (json_is_integer(value))
        (void)fprintf(out, "%-20s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
    else if (json_is_string(value))
        (void)fprintf(out, "%-20s %s\n", key, json_string_value(value));
}

static void print_text(FILE *out, json_t *root) {
    const char *key;
    json_t *value, *item;
    size_t index;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "formats") == 0) {
            const char *format;
            (void)fprintf(out, "%-20s", key);
            json_object_foreach(value, format, item)(void) fprintf(out, " %s %.1f %%", format, 100 * json_real_value(item));
            (void)fprintf(out, "\n");
        } else if (strcmp(key, "tensors") == 0) {
            json_array_foreach(value, index, item) {
                char *shape = json_dumps(json_object_get(item, "shape"), JSON_COMPACT);
                (void)fprintf(out, "  %-48s %-8s %s\n", json_string_value(json_object_get(item, "name")),
                              json_string_value(json_object_get(item, "format")), shape ? shape : "");
                memory_free(shape);
            }
        } else if (strcmp(key, "end_ids") == 0) {
            (void)fprintf(out, "%-20s", key);
            json_array_foreach(value, index, item)(void) fprintf(out, " %" JSON_INTEGER_FORMAT, json_integer_value(item));
            (void)fprintf(out, "\n");
        } else {
            print_value(out, key, value);
        }
    }
}

static enum status inspect(const char *path, bool json, bool tensors, FILE *out, struct file_set *files, struct error *err) {
    struct catalogue *catalogue = NULL;
    TRY(catalogue_open(path, files, &catalogue, err));
    json_t *root =
        json_pack("{s:s,s:s,s:i,s:I,s:o}", "path", path, "kind",
                  catalogue_world(catalogue) == CATALOGUE_GGUF ? "GGUF" : "Hugging Face / MLX", "files", (int)file_set_count(files),
                  "tensor_count", (json_int_t)catalogue_tensor_count(catalogue), "formats", formats_json(catalogue));
    sluice_model *model = NULL;
    sluice_error problem = {0};
    if (root && sluice_open(path, &model, &problem) == SLUICE_OK)
        add_model(root, model);
    else if (root)
        (void)json_object_set_new(root, "problem", json_string_nocheck(problem.text));
    if (root && tensors)
        (void)json_object_set_new(root, "tensors", tensors_json(catalogue));
    sluice_close(model);
    catalogue_close(catalogue);
    if (!root)
        return error_set(err, STATUS_NO_MEMORY, "no memory to describe %s", path);
    if (json) {
        (void)json_dumpf(root, out, JSON_INDENT(2));
        (void)fputc('\n', out);
    } else {
        print_text(out, root);
    }
    json_decref(root);
    return STATUS_OK;
}

sluice_status sluice_tool_inspect(const char *path, bool json, bool tensors, FILE *out, sluice_error *error) {
    struct error err = {0};
    struct file_set *files = NULL;
    enum status status = file_set_create(&files, &err);
    if (status == STATUS_OK)
        status = inspect(path, json, tensors, out, files, &err);
    file_set_destroy(files);
    return engine_report(status, &err, error);
}
