/*
 * bind_packed: integer codes packed in 32-bit words: compressed-tensors (row-major), AWQ and GPTQ (stored [in][out]).
 *
 * Nothing is unpacked or turned around: the products read the words as they are. What is stored [in][out] cannot be cut by output rows, so
 * the whole matrix is one region and one record. Bits and groups come from the shapes. The order of inputs in groups (act-order, g_idx) is
 * only known as it comes without reordering.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/bind_stored.h"

static bool is_word(enum dtype dtype) { return dtype == DTYPE_I32 || dtype == DTYPE_U32; }

enum status stored_check_group(const struct binder *binder, const struct stored *stored, const struct plan_weight *weight,
                               struct error *err) {
    uint32_t group = weight->group_cols;
    if (group == weight->cols || (group >= 32 && (group & (group - 1)) == 0))
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: groups of %u inputs; known are powers of two from 32 on, and whole rows",
                     catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored->codes->name), group);
}

/* Every input must belong to the group where it stands. */
static enum status check_order(struct binder *binder, const struct stored *stored, const char *ending, const struct plan_weight *weight,
                               struct error *err) {
    const struct tensor_entry *order = stored_companion(binder, stored, ending);
    if (!order)
        return STATUS_OK;
    if (order->dtype != DTYPE_I32 || bind_element_count(order) != weight->cols)
        return bind_wrong_shape(binder, order, "one I32 group number per input", err);
    int32_t *groups = memory_alloc_array(weight->cols, sizeof *groups);
    if (!groups)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " group numbers", weight->cols);
    enum status status = file_set_read_small(binder->files, order->file, order->offset_bytes, groups, weight->cols * sizeof *groups, err);
    for (uint64_t i = 0; i < weight->cols && status == STATUS_OK; i++)
        if (groups[i] >= 0 && (uint64_t)groups[i] != i / weight->group_cols) /* -1: not set */
            status = error_set(err, STATUS_UNSUPPORTED,
                               "%s: tensor %.*s: input %" PRIu64 " belongs to group %d, not %" PRIu64
                               ": the checkpoint was made with act-order (desc_act), which this version cannot run; take one made "
                               "without it",
                               catalogue_path(binder->catalogue), TEXT_ARGUMENTS(order->name), i, (int)groups[i], i / weight->group_cols);
    memory_free(groups);
    return status;
}

/* ---- compressed-tensors ---- */

static enum status set_zero_points(struct binder *binder, const struct stored *stored, const struct tensor_entry *zeros,
                                   struct plan_weight *weight, struct error *err) {
    uint32_t per_word = 32 / weight->bits;
    uint64_t groups = weight->cols / weight->group_cols;
    char needed[96];
    if (!is_word(zeros->dtype) || !stored_has_shape(stored, zeros, (stored->rows + per_word - 1) / per_word, groups, NULL)) {
        (void)snprintf(needed, sizeof needed, "I32 [%" PRIu64 "][%" PRIu64 "]: zero points of %u rows in a word",
                       (stored->rows + per_word - 1) / per_word, groups, per_word);
        return bind_wrong_shape(binder, zeros, needed, err);
    }
    if (stored->row_step > 1)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: rows of several matrices alternate under common words of zero points",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(zeros->name));
    weight->group_rows = per_word;
    stored_set_slice(stored, zeros, groups * 4, per_word, weight, 2);
    return STATUS_OK;
}

enum status bind_compressed_int(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *codes = stored->codes, *scales = stored_companion(binder, stored, ".weight_scale");
    const struct tensor_entry *zeros = stored_companion(binder, stored, ".weight_zero_point");
    uint64_t words = 0, groups = 0;
    (void)stored_companion(binder, stored, ".weight_shape"); /* the model's metadata has it too */
    if (!scales)
        return error_set(err, STATUS_NOT_FOUND, "%s: tensor %.*s has no weight_scale beside it", catalogue_path(binder->catalogue),
                         TEXT_ARGUMENTS(codes->name));
    if (!is_word(codes->dtype) || !stored_has_shape(stored, codes, stored->rows, 0, &words))
        return bind_wrong_shape(binder, codes, "I32, a row of words per output", err);
    weight->bits = words == (weight->cols + 7) / 8 ? 4 : words == (weight->cols + 3) / 4 ? 8 : 0;
    if (weight->bits == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tensor %.*s: %" PRIu64 " words for %" PRIu64 " inputs; codes of 4 bits (%" PRIu64 ") and 8 bits (%" PRIu64
                         ") are known",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name), words, weight->cols, (weight->cols + 7) / 8,
                         (weight->cols + 3) / 4);
    if (!stored_is_scale_dtype(scales->dtype) || !stored_has_shape(stored, scales, stored->rows, 0, &groups) || weight->cols % groups != 0)
        return bind_wrong_shape(binder, scales, "F32, F16 or BF16, one scale per row, or one per row and group", err);
    weight->format = MATRIX_INT_GROUPS;
    weight->scale_dtype = scales->dtype;
    weight->group_cols = (uint32_t)(weight->cols / groups);
    weight->group_rows = 1;
    TRY(stored_check_group(binder, stored, weight, err));
    TRY(check_order(binder, stored, ".weight_g_idx", weight, err));
    stored_set_slice(stored, codes, words * 4, 1, weight, 0);
    stored_set_slice(stored, scales, groups * dtype_info(scales->dtype)->block_bytes, 1, weight, 1);
    return zeros ? set_zero_points(binder, stored, zeros, weight, err) : STATUS_OK;
}

/* ---- AWQ and GPTQ ---- */

/* [in / per_word][out] words of GPTQ, or [in][out / 8] of AWQ. */
static bool read_packing(const struct stored *stored, uint64_t cols, struct plan_weight *weight) {
    const uint64_t *shape = stored->codes->shape;
    if (stored->codes->rank != 2 || !is_word(stored->codes->dtype))
        return false;
    if (shape[0] == cols && shape[1] * 8 == stored->rows) {
        weight->format = MATRIX_AWQ;
        weight->bits = 4;
        return true;
    }
    weight->format = MATRIX_GPTQ;
    weight->bits = shape[0] * 8 == cols ? 4 : 8;
    return shape[1] == stored->rows && shape[0] * (32 / weight->bits) == cols && stored->rows % (32 / weight->bits) == 0;
}

/* The whole tensor belongs to the weight, which is the outputs from first_row on. */
static void set_region(const struct tensor_entry *tensor, struct plan_weight *weight, uint64_t row_bytes, int slice) {
    CHECK(row_bytes > 0 && tensor->size_bytes > 0);
    weight->slices[slice] = (struct weight_slice){
        .file = tensor->file, .offset_bytes = tensor->offset_bytes, .row_bytes = row_bytes, .region_bytes = tensor->size_bytes};
}

static bool zeros_are_exact(const struct binder *binder) {
    struct text format;
    return meta_text(stored_config(binder, "checkpoint_format"), &format) && text_is(format, "gptq_v2");
}

enum status bind_packed(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *codes = stored->codes, *scales = stored_companion(binder, stored, ".scales");
    const struct tensor_entry *zeros = stored_companion(binder, stored, ".qzeros");
    char needed[160];
    if (!scales || !zeros)
        return error_set(err, STATUS_NOT_FOUND, "%s: tensor %.*s needs %.*s.%s beside it", catalogue_path(binder->catalogue),
                         TEXT_ARGUMENTS(codes->name), TEXT_ARGUMENTS(stored_module(codes)), scales ? "qzeros" : "scales");
    if (stored->experts || stored->row_step > 1)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s: stacked experts are not known in this packing",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name));
    if (!read_packing(stored, weight->cols, weight)) {
        (void)snprintf(needed, sizeof needed,
                       "I32 [%" PRIu64 "][%" PRIu64 "] (AWQ), [%" PRIu64 "][%" PRIu64 "] or [%" PRIu64 "][%" PRIu64 "] (GPTQ)",
                       weight->cols, stored->rows / 8, weight->cols / 8, stored->rows, weight->cols / 4, stored->rows);
        return bind_wrong_shape(binder, codes, needed, err);
    }
    uint64_t per_word = 32 / weight->bits, groups = scales->shape[0];
    bool fits = scales->rank == 2 && groups > 0 && scales->shape[1] == stored->rows && weight->cols % groups == 0 &&
                stored_is_scale_dtype(scales->dtype) && scales->dtype != DTYPE_F8_E8M0;
    if (!fits)
        return bind_wrong_shape(binder, scales, "F32, F16 or BF16 [groups of inputs][outputs]", err);
    if (zeros->rank != 2 || !is_word(zeros->dtype) || zeros->shape[0] != groups || zeros->shape[1] * per_word != stored->rows) {
        (void)snprintf(needed, sizeof needed, "I32 [%" PRIu64 "][%" PRIu64 "]", groups, stored->rows / per_word);
        return bind_wrong_shape(binder, zeros, needed, err);
    }
    if (weight->format == MATRIX_GPTQ && zeros_are_exact(binder))
        weight->format = MATRIX_GPTQ_V2;
    weight->scale_dtype = scales->dtype;
    weight->group_cols = (uint32_t)(weight->cols / groups);
    weight->group_row_offset = (uint32_t)stored->first_row;
    weight->region_weights = stored->rows > weight->rows ? (uint32_t)(stored->rows / weight->rows) : 1;
    TRY(stored_check_group(binder, stored, weight, err));
    TRY(check_order(binder, stored, ".g_idx", weight, err));
    set_region(codes, weight, (weight->cols * weight->bits + 7) / 8, 0);
    set_region(scales, weight, stored->rows * dtype_info(scales->dtype)->block_bytes, 1);
    set_region(zeros, weight, 4, 2);
    return STATUS_OK;
}
