/*
 * bind: tensors -> plan.
 */
#include "model/bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "dtype/scalar_convert.h"
#include "model/bind_stored.h"

#define MISSING_KEPT 200
#define MISSING_SHOWN 12      /* in an error's text */
#define VECTOR_MAX (1u << 22) /* elements; larger tensors are matrices */

enum status bind_init(struct binder *binder, const struct catalogue *catalogue, const struct file_set *files, const struct arch_spec *arch,
                      const struct params *params, struct plan *plan, struct error *err) {
    *binder = (struct binder){.catalogue = catalogue, .files = files, .arch = arch, .params = params, .plan = plan};
    byte_buffer_init(&binder->missing, 1 << 16);
    binder->used = memory_alloc_array(catalogue_tensor_count(catalogue) + 1, sizeof *binder->used);
    if (!binder->used)
        return error_set(err, STATUS_NO_MEMORY, "no memory to bind %llu tensors", (unsigned long long)catalogue_tensor_count(catalogue));
    TRY(bind_check_method(binder, err));
    return role_names_init(&binder->names, catalogue, arch->roles, params_u32(params, PARAM_LAYER_PARTS, 0), err);
}

enum status bind_init_named(struct binder *binder, const struct binder *like, const struct role_names *names, struct error *err) {
    *binder = *like;
    byte_buffer_init(&binder->missing, 1 << 16);
    binder->missing_count = 0;
    binder->names = *names;
    binder->used = memory_alloc_array(catalogue_tensor_count(like->catalogue) + 1, sizeof *binder->used);
    if (!binder->used)
        return error_set(err, STATUS_NO_MEMORY, "no memory to bind a drafter");
    return bind_check_method(binder, err);
}

void bind_deinit(struct binder *binder) {
    memory_free(binder->used);
    byte_buffer_deinit(&binder->missing);
    *binder = (struct binder){0};
}

void bind_mark_used(struct binder *binder, const struct tensor_entry *tensor) {
    uint64_t index = (uint64_t)(tensor - catalogue_tensor(binder->catalogue, 0));
    CHECK(index < catalogue_tensor_count(binder->catalogue));
    binder->used[index] = true;
}

enum status bind_missing(struct binder *binder, enum role role, uint32_t layer, struct error *err) {
    char name[288];
    if (binder->missing_count++ < MISSING_KEPT)
        return byte_buffer_printf(&binder->missing, err, "%s\n", role_wanted_name(&binder->names, role, layer, name, sizeof name));
    return STATUS_OK;
}

enum status bind_finish(struct binder *binder, struct error *err) {
    if (binder->missing_count == 0)
        return STATUS_OK;
    struct text list = byte_buffer_text(&binder->missing);
    char shown[600];
    size_t used = 0, names = 0, at = 0;
    for (; at < list.size_bytes && names < MISSING_SHOWN && used + 2 < sizeof shown; at++) {
        bool end = list.data[at] == '\n';
        names += end;
        shown[used++] = end ? ',' : list.data[at];
        if (end)
            shown[used++] = ' ';
    }
    bool all = at == list.size_bytes && names == binder->missing_count;
    return error_set(err, STATUS_NOT_FOUND, "%s: %u tensor%s that a %s model needs %s not in the files: %.*s%s",
                     catalogue_path(binder->catalogue), binder->missing_count, binder->missing_count > 1 ? "s" : "", binder->arch->name,
                     binder->missing_count > 1 ? "are" : "is", (int)(all ? used - 2 : used), shown, all ? "" : "...");
}

enum status bind_unused(const struct binder *binder, uint32_t limit, struct byte_buffer *out, uint64_t *count, struct error *err) {
    *count = 0;
    for (uint64_t i = 0; i < catalogue_tensor_count(binder->catalogue); i++) {
        if (binder->used[i])
            continue;
        if ((*count)++ < limit) {
            TRY(byte_buffer_append_text(out, catalogue_tensor(binder->catalogue, i)->name, err));
            TRY(byte_buffer_append(out, "\n", 1, err));
        }
    }
    return STATUS_OK;
}

static const char *shape_text(const struct tensor_entry *tensor, char *buffer, size_t buffer_bytes) {
    size_t used = 0;
    buffer[0] = 0;
    for (uint32_t i = 0; i < tensor->rank && used + 24 < buffer_bytes; i++)
        used += (size_t)snprintf(buffer + used, buffer_bytes - used, "[%" PRIu64 "]", tensor->shape[i]);
    return buffer;
}

enum status bind_wrong_shape(const struct binder *binder, const struct tensor_entry *tensor, const char *needed, struct error *err) {
    char found[160];
    return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s has shape %s, but the model's metadata asks for %s",
                     catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), shape_text(tensor, found, sizeof found), needed);
}

static enum status name_weight(const struct bind_matrix_request *request, struct plan_weight *weight, struct error *err) {
    char name[96];
    if (role_is_per_layer(request->role))
        (void)snprintf(name, sizeof name, "blk.%u.%s", request->layer, role_name(request->role));
    else
        (void)snprintf(name, sizeof name, "%s", role_name(request->role));
    weight->name = memory_copy_text(name, strlen(name));
    weight->layer = role_is_per_layer(request->role) ? (int32_t)request->layer : -1;
    return weight->name ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for the plan of the model");
}

enum status bind_add_weight(struct binder *binder, const struct bind_matrix_request *request, struct plan_weight *weight, uint32_t *out,
                            struct error *err) {
    enum status status = name_weight(request, weight, err);
    if (status == STATUS_OK)
        status = plan_add_weight(binder->plan, weight, out, err);
    if (status != STATUS_OK) {
        memory_free((void *)weight->name);
        memory_free(weight->expert_offsets);
        memory_free(weight->expert_scales);
    }
    return status;
}

/* Binds to a matrix or stack that is known to be there. */
static enum status add_stored(struct binder *binder, const struct bind_matrix_request *request, const struct stored *stored, uint32_t *out,
                              struct error *err) {
    struct plan_weight weight = {.rows = request->rows, .cols = request->cols, .experts = stored->experts};
    enum status status = bind_stored(binder, stored, &weight, err);
    if (status != STATUS_OK) {
        memory_free(weight.expert_scales);
        return status;
    }
    return bind_add_weight(binder, request, &weight, out, err);
}

enum status bind_matrix(struct binder *binder, const struct bind_matrix_request *request, uint32_t *out, struct error *err) {
    *out = PLAN_NONE;
    struct stored stored = {.codes = bind_find_codes(binder, request->role, request->layer, -1), .rows = request->rows, .row_step = 1};
    if (stored.codes && request->fused == request->role) /* the role's own tensor holds more rows: GGUF's ffn_up with gate and up */
        stored.rows = request->fused_rows, stored.first_row = request->fused_first_row;
    if (!stored.codes && request->fused != ROLE_COUNT) {
        stored.codes = bind_find_codes(binder, request->fused, request->layer, -1);
        stored.rows = request->fused_rows, stored.first_row = request->fused_first_row;
    }
    if (!stored.codes)
        return request->optional ? STATUS_OK : bind_missing(binder, request->role, request->layer, err);
    return add_stored(binder, request, &stored, out, err);
}

/* Stacked: [experts][rows][cols], or [experts][all rows][cols] when fused: one part after the other, or by turns. */
static enum status bind_stacked(struct binder *binder, const struct bind_matrix_request *request, const struct tensor_entry *tensor,
                                uint32_t experts, bool fused, uint32_t *out, struct error *err) {
    struct stored stored = {.codes = tensor, .experts = experts, .rows = request->rows, .row_step = 1};
    if (fused)
        stored.rows = request->fused_rows, stored.first_row = request->fused_first_row;
    if (fused && binder->arch->hf_gate_up_interleaved && catalogue_world(binder->catalogue) == CATALOGUE_HF) {
        stored.row_step = (uint32_t)(request->fused_rows / request->rows);
        stored.first_row = request->fused_first_row / request->rows;
    }
    return add_stored(binder, request, &stored, out, err);
}

/* Whether one record layout serves both: everything but the places and the scale of the tensor. */
static bool same_format(const struct plan_weight *a, const struct plan_weight *b) {
    bool same = a->format == b->format && a->bits == b->bits && a->group_cols == b->group_cols && a->group_rows == b->group_rows &&
                a->scale_dtype == b->scale_dtype && a->group_row_offset == b->group_row_offset;
    for (int s = 0; s < WEIGHT_SLICES; s++)
        same = same && a->slices[s].row_bytes == b->slices[s].row_bytes && a->slices[s].region_bytes == b->slices[s].region_bytes &&
               a->slices[s].first_bytes == b->slices[s].first_bytes && a->slices[s].group_rows == b->slices[s].group_rows;
    return same;
}

/* One expert's tensor into the weight of all. */
static enum status take_expert(struct binder *binder, const struct bind_matrix_request *request, bool fused, uint32_t expert,
                               struct plan_weight *weight, struct error *err) {
    struct stored stored = {.codes = bind_find_codes(binder, fused ? request->fused : request->role, request->layer, expert),
                            .rows = fused ? request->fused_rows : request->rows,
                            .first_row = fused ? request->fused_first_row : 0,
                            .row_step = 1};
    struct plan_weight one = {.rows = request->rows, .cols = request->cols};
    if (!stored.codes)
        return error_set(err, STATUS_NOT_FOUND, "%s: layer %u: expert %u of %u has no tensor for %s", catalogue_path(binder->catalogue),
                         request->layer, expert, weight->experts, role_name(request->role));
    TRY(bind_stored(binder, &stored, &one, err));
    CHECK(!one.expert_scales);
    if (expert == 0) {
        uint64_t *offsets = weight->expert_offsets;
        float *scales = weight->expert_scales;
        one.experts = weight->experts;
        *weight = one;
        weight->expert_offsets = offsets;
        weight->expert_scales = scales;
    } else if (!same_format(weight, &one)) {
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s has another number format than expert 0 of its layer",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored.codes->name));
    }
    weight->expert_scales[expert] = one.tensor_scale;
    for (uint64_t s = 0; s < WEIGHT_SLICES; s++) {
        weight->expert_offsets[2 * (expert * WEIGHT_SLICES + s)] = one.slices[s].file;
        weight->expert_offsets[2 * (expert * WEIGHT_SLICES + s) + 1] = one.slices[s].offset_bytes;
    }
    return STATUS_OK;
}

static enum status bind_single_experts(struct binder *binder, const struct bind_matrix_request *request, bool fused, uint32_t experts,
                                       uint32_t *out, struct error *err) {
    struct plan_weight weight = {.experts = experts};
    weight.expert_offsets = memory_alloc_array(experts, 2 * WEIGHT_SLICES * sizeof(uint64_t));
    weight.expert_scales = memory_alloc_array(experts, sizeof(float));
    enum status status = STATUS_OK;
    if (!weight.expert_offsets || !weight.expert_scales)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to bind %u experts", experts);
    bool alike = true;
    for (uint32_t e = 0; e < experts && status == STATUS_OK; e++) {
        status = take_expert(binder, request, fused, e, &weight, err);
        alike = alike && status == STATUS_OK && memcmp(&weight.expert_scales[e], &weight.expert_scales[0], sizeof(float)) == 0;
    }
    if (status != STATUS_OK) {
        memory_free(weight.expert_offsets);
        memory_free(weight.expert_scales);
        return status;
    }
    if (alike) {
        memory_free(weight.expert_scales);
        weight.expert_scales = NULL;
    }
    return bind_add_weight(binder, request, &weight, out, err);
}

/* A stack without .weight in a family that multiplies from the right: [experts][cols][all rows]. Nothing is turned around in the file:
 * the product walks down the columns (struct matrix, col_bytes), and gate and up share the bytes they are read with. */
static bool is_transposed(const struct binder *binder, const struct tensor_entry *tensor) {
    return binder->arch->hf_experts_transposed && catalogue_world(binder->catalogue) == CATALOGUE_HF &&
           text_equal(stored_module(tensor), tensor->name);
}

static enum status bind_transposed(struct binder *binder, const struct bind_matrix_request *request, const struct tensor_entry *tensor,
                                   uint32_t experts, bool fused, uint32_t *out, struct error *err) {
    char needed[96];
    struct plan_weight weight = {.rows = request->rows, .cols = request->cols, .experts = experts, .region_weights = fused ? 2 : 1};
    uint64_t all_rows = fused ? request->fused_rows : request->rows;
    (void)snprintf(needed, sizeof needed, "[%u][%" PRIu64 "][%" PRIu64 "]", experts, request->cols, all_rows);
    if (tensor->rank != 3 || tensor->shape[0] != experts || tensor->shape[1] != request->cols || tensor->shape[2] != all_rows)
        return bind_wrong_shape(binder, tensor, needed, err);
    weight.format = (unsigned)tensor->dtype;
    weight.tensor_scale = 1;
    weight.slices[0] = (struct weight_slice){.file = tensor->file, .offset_bytes = tensor->offset_bytes};
    if (tensor->dtype != DTYPE_F32 && tensor->dtype != DTYPE_F16 && tensor->dtype != DTYPE_BF16)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s is transposed and in number format %s; F32, F16 and BF16 can be used so",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), dtype_info(tensor->dtype)->name);
    uint32_t element_bytes = dtype_info(tensor->dtype)->block_bytes;
    bool alternate = fused && binder->arch->hf_gate_up_interleaved, second = request->fused_first_row > 0;
    uint64_t first_row = !fused ? 0 : alternate ? second : request->fused_first_row;
    weight.col_bytes = (uint32_t)(all_rows * element_bytes);
    weight.slices[0].row_bytes = element_bytes * (alternate ? 2u : 1u);
    weight.slices[0].first_bytes = first_row * element_bytes;
    weight.slices[0].region_bytes = weight.slices[0].expert_bytes = request->cols * all_rows * element_bytes;
    bind_mark_used(binder, tensor);
    return bind_add_weight(binder, request, &weight, out, err);
}

enum status bind_experts(struct binder *binder, const struct bind_matrix_request *request, uint32_t experts, uint32_t *out,
                         struct error *err) {
    *out = PLAN_NONE;
    const struct tensor_entry *tensor = bind_find_codes(binder, request->role, request->layer, -1);
    if (tensor && is_transposed(binder, tensor))
        return bind_transposed(binder, request, tensor, experts, false, out, err);
    if (tensor)
        return bind_stacked(binder, request, tensor, experts, false, out, err);
    if (bind_find_codes(binder, request->role, request->layer, 0))
        return bind_single_experts(binder, request, false, experts, out, err);
    if (request->fused != ROLE_COUNT && (tensor = bind_find_codes(binder, request->fused, request->layer, -1)))
        return is_transposed(binder, tensor) ? bind_transposed(binder, request, tensor, experts, true, out, err)
                                             : bind_stacked(binder, request, tensor, experts, true, out, err);
    if (request->fused != ROLE_COUNT && bind_find_codes(binder, request->fused, request->layer, 0))
        return bind_single_experts(binder, request, true, experts, out, err);
    return request->optional ? STATUS_OK : bind_missing(binder, request->role, request->layer, err);
}

enum status bind_read_vector(const struct binder *binder, const struct tensor_entry *tensor, uint64_t first, uint64_t size, float **out,
                             struct error *err) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    *out = NULL;
    if (!info->decode || info->block_elements != 1)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s has number format %s; a small vector is expected in F32, F16 or BF16",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), info->name);
    uint8_t *raw = memory_alloc_array(size, info->block_bytes);
    float *values = memory_alloc_array(size, sizeof(float));
    enum status status = raw && values ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for a vector of %" PRIu64, size);
    if (status == STATUS_OK)
        status = file_set_read_small(binder->files, tensor->file, tensor->offset_bytes + first * info->block_bytes, raw,
                                     size * info->block_bytes, err);
    if (status == STATUS_OK) {
        info->decode(raw, values, size);
        uint64_t good = f32_first_not_finite(values, size);
        if (good < size)
            status = error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: element %" PRIu64 " is not a finite number",
                               catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), first + good);
    }
    memory_free(raw);
    if (status == STATUS_OK)
        *out = values;
    else
        memory_free(values);
    return status;
}

static enum status add_vector(struct binder *binder, const struct tensor_entry *tensor, uint64_t first, uint64_t size, bool add_one,
                              uint32_t *out, struct error *err) {
    float *values;
    TRY(bind_read_vector(binder, tensor, first, size, &values, err));
    for (uint64_t i = 0; i < size && add_one; i++)
        values[i] += 1.0f;
    enum status status = plan_add_constant(binder->plan, values, (uint32_t)size, out, err);
    memory_free(values);
    return status;
}

uint64_t bind_element_count(const struct tensor_entry *tensor) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++)
        count *= tensor->shape[i]; /* the catalogue checked that this fits */
    return count;
}

enum status bind_bias(struct binder *binder, const struct bind_matrix_request *request, uint32_t *constant, struct error *err) {
    *constant = PLAN_NONE;
    const struct tensor_entry *tensor = role_find(&binder->names, request->role, request->layer, -1, ".bias");
    uint64_t rows = request->rows, first = 0;
    if (request->fused != ROLE_COUNT && (!tensor || request->fused == request->role)) {
        tensor = role_find(&binder->names, request->fused, request->layer, -1, ".bias");
        rows = request->fused_rows, first = request->fused_first_row;
    }
    if (!tensor)
        return STATUS_OK;
    char needed[64];
    (void)snprintf(needed, sizeof needed, "[%" PRIu64 "]", rows);
    if (bind_element_count(tensor) != rows)
        return bind_wrong_shape(binder, tensor, needed, err);
    bind_mark_used(binder, tensor);
    return add_vector(binder, tensor, first, request->rows, false, constant, err);
}

/* The stacked biases of a role's experts: "<matrix>.bias" or, beside a matrix without .weight, "<matrix>_bias". */
static const struct tensor_entry *find_expert_bias(const struct binder *binder, enum role role, uint32_t layer) {
    const struct tensor_entry *tensor = role == ROLE_COUNT ? NULL : role_find(&binder->names, role, layer, -1, ".bias");
    return tensor || role == ROLE_COUNT ? tensor : role_find(&binder->names, role, layer, -1, "_bias");
}

enum status bind_expert_bias(struct binder *binder, const struct bind_matrix_request *request, uint32_t experts, uint32_t *constant,
                             struct error *err) {
    *constant = PLAN_NONE;
    const struct tensor_entry *tensor = find_expert_bias(binder, request->role, request->layer);
    bool fused = !tensor;
    if (fused && !(tensor = find_expert_bias(binder, request->fused, request->layer)))
        return STATUS_OK;
    uint64_t all_rows = fused ? request->fused_rows : request->rows, step = 1, first = fused ? request->fused_first_row : 0;
    if (fused && binder->arch->hf_gate_up_interleaved && catalogue_world(binder->catalogue) == CATALOGUE_HF)
        step = 2, first = request->fused_first_row > 0;
    char needed[64];
    (void)snprintf(needed, sizeof needed, "[%u][%" PRIu64 "]", experts, all_rows);
    if (tensor->rank != 2 || tensor->shape[0] != experts || tensor->shape[1] != all_rows || experts * all_rows > VECTOR_MAX)
        return bind_wrong_shape(binder, tensor, needed, err);
    float *values;
    TRY(bind_read_vector(binder, tensor, 0, experts * all_rows, &values, err));
    for (uint64_t e = 0; e < experts; e++)
        for (uint64_t r = 0; r < request->rows; r++) /* forward in place: the target never lies behind the source */
            values[e * request->rows + r] = values[e * all_rows + first + r * step];
    bind_mark_used(binder, tensor);
    enum status status = plan_add_constant(binder->plan, values, (uint32_t)(experts * request->rows), constant, err);
    memory_free(values);
    return status;
}

uint64_t bind_rows(const struct binder *binder, enum role role, uint32_t layer) {
    const struct tensor_entry *tensor = bind_find_codes(binder, role, layer, -1);
    if (!tensor)
        tensor = bind_find_codes(binder, role, layer, 0);
    return tensor ? bind_stored_rows(binder, tensor) : 0;
}

/* MLX's converter adds the one itself in models with convolutions, and moves a convolution's last axis: [channels][kernel][1]. */
bool bind_norm_adds_one(const struct binder *binder) {
    if (!binder->arch->hf_norms_add_one || catalogue_world(binder->catalogue) != CATALOGUE_HF)
        return false;
    for (uint32_t layer = 0; layer < binder->params->layers; layer++) {
        const struct tensor_entry *conv = role_find(&binder->names, ROLE_RECURRENT_CONV, layer, -1, ".weight");
        if (conv)
            return conv->rank != 3 || conv->shape[1] == 1;
    }
    return true;
}

uint64_t bind_vector_size(const struct binder *binder, enum role role, uint32_t layer, const char *suffix) {
    const struct tensor_entry *tensor = role_find(&binder->names, role, layer, -1, suffix);
    return tensor ? bind_element_count(tensor) : 0;
}

enum status bind_vector(struct binder *binder, const struct bind_vector_request *request, uint32_t *constant, struct error *err) {
    *constant = PLAN_NONE;
    const struct tensor_entry *tensor = role_find(&binder->names, request->role, request->layer, -1, request->suffix);
    if (!tensor)
        return request->optional ? STATUS_OK : bind_missing(binder, request->role, request->layer, err);
    uint64_t size = bind_element_count(tensor);
    char needed[64];
    (void)snprintf(needed, sizeof needed, "[%" PRIu64 "]", request->size);
    if ((request->size && size != request->size) || size == 0 || size > VECTOR_MAX)
        return bind_wrong_shape(binder, tensor, needed, err);
    bind_mark_used(binder, tensor);
    return add_vector(binder, tensor, 0, size, request->add_one, constant, err);
}

enum status bind_read_ids(struct binder *binder, enum role role, uint32_t layer, uint64_t size, uint64_t limit, uint32_t **out,
                          struct error *err) {
    const struct tensor_entry *tensor = role_find(&binder->names, role, layer, -1, ".weight");
    char needed[64];
    *out = NULL;
    if (!tensor)
        return bind_missing(binder, role, layer, err);
    (void)snprintf(needed, sizeof needed, "[%" PRIu64 "] whole numbers", size);
    bool wide = tensor->dtype == DTYPE_I64;
    if (bind_element_count(tensor) != size || size == 0 || size > VECTOR_MAX || (!wide && tensor->dtype != DTYPE_I32))
        return bind_wrong_shape(binder, tensor, needed, err);
    int64_t *raw = memory_alloc_array(size, sizeof *raw);
    uint32_t *ids = memory_alloc_array(size, sizeof *ids);
    enum status status = raw && ids ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " token ids", size);
    if (status == STATUS_OK)
        status = file_set_read_small(binder->files, tensor->file, tensor->offset_bytes, raw, size * (wide ? 8 : 4), err);
    for (uint64_t i = 0; i < size && status == STATUS_OK; i++) {
        int32_t narrow;
        memcpy(&narrow, (const uint8_t *)raw + i * sizeof narrow, sizeof narrow);
        int64_t id = wide ? raw[i] : narrow;
        if (id < 0 || (uint64_t)id >= limit)
            status = error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: element %" PRIu64 " is %" PRId64 ", allowed is 0 to %" PRIu64,
                               catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), i, id, limit - 1);
        else
            ids[i] = (uint32_t)id;
    }
    memory_free(raw);
    if (status == STATUS_OK) {
        bind_mark_used(binder, tensor);
        *out = ids;
    } else {
        memory_free(ids);
    }
    return status;
}
