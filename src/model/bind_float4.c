/*
 * bind_float4: two e2m1 codes in a byte, the first in the low half, with a small-float scale per run of them: the MXFP4 of gpt-oss
 * (_blocks, _scales), and nvfp4 and mxfp4 of compressed-tensors and ModelOpt.
 *
 * The type of the scales says which it is: e4m3 per 16 is nvfp4, bytes (e8m0) per 32 is mxfp4.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "model/bind_stored.h"

/* [rows][cols / 2], or [rows][cols / 32][16] as gpt-oss has it. */
static bool codes_fit(const struct stored *stored, uint64_t cols) {
    const struct tensor_entry *codes = stored->codes;
    uint32_t at = stored->experts ? 1 : 0;
    if (stored_has_shape(stored, codes, stored->rows, cols / 2, NULL))
        return true;
    return cols % 32 == 0 && codes->rank == at + 3 && (!at || codes->shape[0] == stored->experts) && codes->shape[at] == stored->rows &&
           codes->shape[at + 1] == cols / 32 && codes->shape[at + 2] == 16;
}

enum status bind_float4(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, struct plan_weight *weight,
                        struct error *err) {
    const struct tensor_entry *codes = stored->codes;
    char needed[128];
    if (!scales)
        return error_set(err, STATUS_NOT_FOUND, "%s: tensor %.*s holds 4-bit codes, but there is no tensor with their scales",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name));
    bool nv = scales->dtype == DTYPE_F8_E4M3;
    uint64_t group = nv ? 16 : 32;
    if (codes->dtype != DTYPE_U8 || (!nv && scales->dtype != DTYPE_U8 && scales->dtype != DTYPE_F8_E8M0))
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: tensor %.*s: codes in %s with scales in %s; U8 with F8_E4M3 (nvfp4) or U8 (mxfp4) are known",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name), dtype_info(codes->dtype)->name,
                         dtype_info(scales->dtype)->name);
    if (weight->cols % group != 0 || !codes_fit(stored, weight->cols)) {
        (void)snprintf(needed, sizeof needed, "rows of %" PRIu64 " 4-bit codes, two in a byte, %" PRIu64 " such rows, in runs of %" PRIu64,
                       weight->cols, stored->rows, group);
        return bind_wrong_shape(binder, codes, needed, err);
    }
    if (!stored_has_shape(stored, scales, stored->rows, weight->cols / group, NULL)) {
        (void)snprintf(needed, sizeof needed, "[%" PRIu64 "][%" PRIu64 "] (and the experts in front of a stack)", stored->rows,
                       weight->cols / group);
        return bind_wrong_shape(binder, scales, needed, err);
    }
    weight->format = nv ? MATRIX_NVFP4_SPLIT : MATRIX_MXFP4_SPLIT;
    weight->bits = 4;
    weight->group_cols = (uint32_t)group;
    weight->group_rows = 1;
    weight->scale_dtype = nv ? DTYPE_F8_E4M3 : DTYPE_F8_E8M0;
    stored_set_slice(stored, codes, weight->cols / 2, 1, weight, 0);
    stored_set_slice(stored, scales, weight->cols / group, 1, weight, 1);
    const struct tensor_entry *divisor = stored_companion(binder, stored, ".weight_global_scale");
    const struct tensor_entry *factor = stored_companion(binder, stored, ".weight_scale_2");
    (void)stored_companion(binder, stored, ".input_global_scale"); /* of the activations */
    if (divisor || factor) {
        const struct tensor_entry *global = divisor ? divisor : factor;
        if (bind_element_count(global) != 1 && bind_element_count(global) != stored->experts)
            return bind_wrong_shape(binder, global, "one factor, or one per expert of a stack", err);
        return stored_tensor_scale(binder, stored, global, divisor != NULL, weight, err);
    }
    return STATUS_OK;
}
