/*
 * bind_float8: fp8 and int8 codes with scales by block, by row or one for all: DeepSeek, Qwen, MiniMax, fbgemm and compressed-tensors.
 *
 * The scale multiplies, whatever it is called (weight_scale_inv too). Its shape decides how it is laid over the matrix; the size of blocks
 * comes from config.json (weight_block_size, or block_structure of compressed-tensors), 128 x 128 where it says nothing.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "model/bind_stored.h"

#define BLOCK_USUAL 128
#define BLOCK_MAX (1 << 20)

static enum status read_block(const struct binder *binder, uint64_t block[2], struct error *err) {
    static const char *const keys[] = {"weight_block_size", "config_groups/group_0/weights/block_structure"};
    block[0] = block[1] = BLOCK_USUAL;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const struct meta_value *value = stored_config(binder, keys[k]);
        int64_t size[2];
        if (!value || value->type != META_ARRAY)
            continue;
        if (value->array.count != 2 || !meta_array_i64(value, 0, &size[0]) || !meta_array_i64(value, 1, &size[1]) || size[0] < 1 ||
            size[1] < 1 || size[0] > BLOCK_MAX || size[1] > BLOCK_MAX)
            return error_set(err, STATUS_CORRUPT, "%s: config.json: quantization_config/%s must be two numbers from 1 to %d",
                             catalogue_path(binder->catalogue), keys[k], BLOCK_MAX);
        block[0] = (uint64_t)size[0], block[1] = (uint64_t)size[1];
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* One scale per row: [rows], [rows][1], for a stack with [experts] in front. */
static bool is_per_row(const struct stored *stored, const struct tensor_entry *scales) {
    uint32_t at = stored->experts ? 1 : 0;
    return (scales->rank == at + 1 && (!at || scales->shape[0] == stored->experts) && scales->shape[at] == stored->rows) ||
           stored_has_shape(stored, scales, stored->rows, 1, NULL);
}

static bool is_per_tensor(const struct stored *stored, const struct tensor_entry *scales) {
    uint64_t count = bind_element_count(scales);
    return count == 1 || (stored->experts && count == stored->experts && scales->rank >= 1 && scales->shape[0] == stored->experts);
}

static enum status check_codes(const struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                               const struct plan_weight *weight, struct error *err) {
    char needed[96], stack[32] = "";
    if (!stored_is_scale_dtype(scales->dtype))
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: scales in %s; F32, F16, BF16 and F8_E8M0 are known",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(scales->name), dtype_info(scales->dtype)->name);
    if (stored_has_shape(stored, stored->codes, stored->rows, weight->cols, NULL))
        return STATUS_OK;
    if (stored->experts)
        (void)snprintf(stack, sizeof stack, "[%u]", stored->experts);
    (void)snprintf(needed, sizeof needed, "%s[%" PRIu64 "][%" PRIu64 "]", stack, stored->rows, weight->cols);
    return bind_wrong_shape(binder, stored->codes, needed, err);
}

static void set_scales(const struct stored *stored, const struct tensor_entry *scales, uint64_t group_rows, uint64_t group_cols,
                       struct plan_weight *weight) {
    weight->scale_dtype = scales->dtype;
    weight->group_cols = (uint32_t)group_cols;
    weight->group_rows = (uint32_t)group_rows;
    uint64_t groups = (weight->cols + group_cols - 1) / group_cols;
    stored_set_slice(stored, scales, groups * dtype_info(scales->dtype)->block_bytes, (uint32_t)group_rows, weight, 1);
}

enum status bind_float8(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, struct plan_weight *weight,
                        struct error *err) {
    uint64_t block[2];
    bool e5m2 = stored->codes->dtype == DTYPE_F8_E5M2;
    TRY(check_codes(binder, stored, scales, weight, err));
    TRY(read_block(binder, block, err));
    weight->format = e5m2 ? MATRIX_F8_E5M2_BLOCK : MATRIX_F8_BLOCK;
    stored_set_slice(stored, stored->codes, weight->cols, 1, weight, 0);
    if (is_per_tensor(stored, scales)) {
        weight->format = (unsigned)stored->codes->dtype;
        return stored_tensor_scale(binder, stored, scales, false, weight, err);
    }
    uint64_t block_rows = (stored->rows + block[0] - 1) / block[0], block_cols = (weight->cols + block[1] - 1) / block[1];
    if (stored_has_shape(stored, scales, block_rows, block_cols, NULL)) {
        if (stored->row_step > 1 && block[0] > 1)
            return error_set(
                err, STATUS_UNSUPPORTED,
                "%s: tensor %.*s: rows of several matrices alternate under common blocks of scales; there is no product for that",
                catalogue_path(binder->catalogue), TEXT_ARGUMENTS(scales->name));
        set_scales(stored, scales, block[0], block[1], weight);
        return STATUS_OK;
    }
    if (is_per_row(stored, scales)) {
        set_scales(stored, scales, 1, weight->cols, weight);
        return STATUS_OK;
    }
    char needed[160];
    (void)snprintf(needed, sizeof needed,
                   "one scale, one per row (%" PRIu64 "), or [%" PRIu64 "][%" PRIu64 "] for blocks of %" PRIu64 " x %" PRIu64, stored->rows,
                   block_rows, block_cols, block[0], block[1]);
    return bind_wrong_shape(binder, scales, needed, err);
}

enum status bind_int8(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, struct plan_weight *weight,
                      struct error *err) {
    uint64_t groups = 0;
    TRY(check_codes(binder, stored, scales, weight, err));
    if (stored_companion(binder, stored, ".weight_zero_point"))
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: int8 codes with zero points; only symmetric ones are known",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored->codes->name));
    weight->format = MATRIX_INT8_GROUPS;
    weight->bits = 8;
    weight->group_rows = 1;
    weight->group_cols = (uint32_t)weight->cols;
    stored_set_slice(stored, stored->codes, weight->cols, 1, weight, 0);
    if (is_per_tensor(stored, scales))
        return stored_tensor_scale(binder, stored, scales, false, weight, err);
    if (is_per_row(stored, scales)) {
        set_scales(stored, scales, 1, weight->cols, weight);
        return STATUS_OK;
    }
    if (!stored_has_shape(stored, scales, stored->rows, 0, &groups) || weight->cols % groups != 0)
        return bind_wrong_shape(binder, scales, "one scale, one per row, or one per row and group", err);
    set_scales(stored, scales, 1, weight->cols / groups, weight);
    return stored_check_group(binder, stored, weight, err);
}
