/*
 * bind_stored: telling the formats apart, and what their binders share.
 */
#include "model/bind_stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define NAME_BYTES 320

/* What a role's codes may be called, most usual first. */
static const char *const code_suffixes[] = {".weight", "_blocks", ".weight_packed", ".qweight"};
#define CODE_SUFFIXES (sizeof code_suffixes / sizeof *code_suffixes)

const struct tensor_entry *bind_find_codes(const struct binder *binder, enum role role, uint32_t layer, int64_t expert) {
    const struct tensor_entry *tensor = NULL;
    for (size_t i = 0; i < CODE_SUFFIXES && !tensor; i++)
        tensor = role_find(&binder->names, role, layer, expert, code_suffixes[i]);
    return tensor;
}

struct text stored_module(const struct tensor_entry *codes) {
    struct text name = codes->name;
    for (size_t i = 0; i < CODE_SUFFIXES; i++)
        if (text_ends_with(name, text_of(code_suffixes[i]))) {
            name.size_bytes -= strlen(code_suffixes[i]);
            break;
        }
    return name;
}

static const struct tensor_entry *find_beside(const struct binder *binder, const struct tensor_entry *codes, const char *ending) {
    char name[NAME_BYTES];
    struct text module = stored_module(codes);
    int length = snprintf(name, sizeof name, "%.*s%s", (int)module.size_bytes, module.data, ending);
    return length > 0 && (size_t)length < sizeof name ? catalogue_find(binder->catalogue, text_of(name)) : NULL;
}

const struct tensor_entry *stored_companion(struct binder *binder, const struct stored *stored, const char *ending) {
    const struct tensor_entry *tensor = find_beside(binder, stored->codes, ending);
    if (tensor)
        bind_mark_used(binder, tensor);
    return tensor;
}

uint64_t bind_stored_rows(const struct binder *binder, const struct tensor_entry *codes) {
    if (text_ends_with(codes->name, TEXT(".qweight"))) { /* stored [in][out] */
        const struct tensor_entry *scales = find_beside(binder, codes, ".scales");
        return scales && scales->rank == 2 ? scales->shape[1] : 0;
    }
    uint32_t trailing = text_ends_with(codes->name, TEXT("_blocks")) ? 3 : 2; /* [experts][rows][blocks][16] */
    return codes->rank >= trailing ? codes->shape[codes->rank - trailing] : 0;
}

const struct meta_value *stored_config(const struct binder *binder, const char *key) {
    char full[NAME_BYTES];
    const struct meta_value *value = NULL;
    const char *const places[] = {"", binder->params->prefix, "text_config/"};
    for (size_t i = 0; i < sizeof places / sizeof *places && !value; i++)
        if (snprintf(full, sizeof full, "%squantization_config/%s", places[i], key) < (int)sizeof full)
            value = catalogue_meta(binder->catalogue, full);
    return value;
}

enum status bind_check_method(const struct binder *binder, struct error *err) {
    static const char *const known[] = {"fp8", "fbgemm_fp8", "mxfp4", "compressed-tensors", "awq", "gptq", "modelopt", "auto-round"};
    struct text method, layout;
    if (catalogue_world(binder->catalogue) != CATALOGUE_HF || !meta_text(stored_config(binder, "quant_method"), &method))
        return STATUS_OK;
    /* GEMV and Marlin forms have the names of the usual one and other bytes; the shapes of square matrices would not tell */
    bool other = text_is(method, "awq") && meta_text(stored_config(binder, "version"), &layout) && !text_is(layout, "gemm") &&
                 !text_is(layout, "GEMM");
    other = other || (meta_text(stored_config(binder, "checkpoint_format"), &layout) && !text_starts_with(layout, TEXT("gptq")));
    if (other)
        return error_set(err, STATUS_UNSUPPORTED, "%s: config.json says %.*s in the layout '%.*s'; known are AWQ's gemm and gptq, gptq_v2",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(method), TEXT_ARGUMENTS(layout));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (text_is(method, known[i]))
            return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: config.json says that the weights are quantised by '%.*s'; known are fp8, mxfp4, compressed-tensors, awq, gptq, "
                     "modelopt and MLX. Take the original checkpoint, or one in GGUF or MLX form",
                     catalogue_path(binder->catalogue), TEXT_ARGUMENTS(method));
}

/* ---- shapes and places ---- */

bool stored_has_shape(const struct stored *stored, const struct tensor_entry *tensor, uint64_t rows, uint64_t cols, uint64_t *found_cols) {
    uint32_t at = stored->experts ? 1 : 0;
    if (tensor->rank != at + 2 || (at && tensor->shape[0] != stored->experts) || tensor->shape[at] != rows)
        return false;
    if (found_cols)
        *found_cols = tensor->shape[at + 1];
    return cols == 0 ? tensor->shape[at + 1] > 0 : tensor->shape[at + 1] == cols;
}

void stored_set_slice(const struct stored *stored, const struct tensor_entry *tensor, uint64_t row_bytes, uint32_t group_rows,
                      struct plan_weight *weight, int slice) {
    uint64_t group = group_rows > 1 ? group_rows : 1, slice_rows = (stored->rows + group - 1) / group;
    CHECK(row_bytes > 0 && stored->row_step >= 1 && slice >= 0 && slice < WEIGHT_SLICES);
    CHECK(tensor->size_bytes == slice_rows * row_bytes * (stored->experts ? stored->experts : 1));
    struct weight_slice *out = &weight->slices[slice];
    *out =
        (struct weight_slice){.file = tensor->file, .offset_bytes = tensor->offset_bytes, .row_bytes = row_bytes, .group_rows = group_rows};
    out->expert_bytes = stored->experts ? slice_rows * row_bytes : 0;
    if (stored->row_step > 1) {
        CHECK(group == 1);
        out->row_bytes = row_bytes * stored->row_step;
        out->first_bytes = stored->first_row * row_bytes;
        out->region_bytes = slice_rows * row_bytes;
        weight->region_weights = stored->row_step;
        return;
    }
    out->offset_bytes += stored->first_row / group * row_bytes;
    if (group > 1)
        weight->group_row_offset = (uint32_t)(stored->first_row % group);
}

/* ---- scales ---- */

bool stored_is_scale_dtype(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16 || dtype == DTYPE_F8_E8M0;
}

enum status stored_tensor_scale(struct binder *binder, const struct stored *stored, const struct tensor_entry *scale, bool inverse,
                                struct plan_weight *weight, struct error *err) {
    uint64_t count = bind_element_count(scale);
    CHECK(count == 1 || (stored->experts && count == stored->experts));
    float *values;
    TRY(bind_read_vector(binder, scale, 0, count, &values, err));
    for (uint64_t i = 0; i < count; i++) {
        if (inverse && values[i] == 0) {
            memory_free(values);
            return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: element %" PRIu64 " is 0 and stands below a fraction line",
                             catalogue_path(binder->catalogue), TEXT_ARGUMENTS(scale->name), i);
        }
        values[i] = (inverse ? 1.0f / values[i] : values[i]) * weight->tensor_scale;
    }
    if (count == 1) {
        weight->tensor_scale = values[0];
        memory_free(values);
    } else {
        CHECK(!weight->expert_scales);
        weight->expert_scales = values;
    }
    return STATUS_OK;
}

/* ---- telling formats apart ---- */

/* Numbers that stand for themselves. */
static enum status bind_plain(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *tensor = stored->codes;
    const struct dtype_info *info = dtype_info(tensor->dtype);
    char needed[96], stack[32] = "";
    if (info->dtype_class == DTYPE_CLASS_INTEGER || !info->decode)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s has number format %s, which this version cannot multiply%s",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), info->name,
                         info->dtype_class == DTYPE_CLASS_INTEGER ? ": there are no scales beside it" : "");
    if (!stored_has_shape(stored, tensor, stored->rows, weight->cols, NULL)) {
        if (stored->experts)
            (void)snprintf(stack, sizeof stack, "[%u]", stored->experts);
        (void)snprintf(needed, sizeof needed, "%s[%" PRIu64 "][%" PRIu64 "]", stack, stored->rows, weight->cols);
        return bind_wrong_shape(binder, tensor, needed, err);
    }
    uint64_t row_bytes;
    if (!dtype_size(tensor->dtype, weight->cols, &row_bytes))
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: rows of %" PRIu64 " elements are no whole blocks of %s (%u)",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(tensor->name), weight->cols, info->name, info->block_elements);
    weight->format = (unsigned)tensor->dtype;
    stored_set_slice(stored, tensor, row_bytes, 1, weight, 0);
    return STATUS_OK;
}

/* GGUF: "x.scale" multiplies the product with "x.weight", one number or one per expert. Two of gemma4's have such names and are no scales.
 */
static enum status bind_gguf(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *scale = find_beside(binder, stored->codes, ".scale");
    TRY(bind_plain(binder, stored, weight, err));
    if (binder->arch->experts_beside_ffn && (text_ends_with(stored->codes->name, TEXT(".ffn_down_exps.weight")) ||
                                             text_ends_with(stored->codes->name, TEXT(".ffn_gate_inp.weight"))))
        return STATUS_OK;
    (void)stored_companion(binder, stored, ".input_scale"); /* of the activations: ours keep their own */
    if (!scale)
        return STATUS_OK;
    bind_mark_used(binder, scale);
    if (bind_element_count(scale) != 1 && (stored->experts == 0 || bind_element_count(scale) != stored->experts))
        return bind_wrong_shape(binder, scale, "one factor, or one per expert of a stack", err);
    return stored_tensor_scale(binder, stored, scale, false, weight, err);
}

enum status bind_stored(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *codes = stored->codes, *scales;
    bool hf = catalogue_world(binder->catalogue) == CATALOGUE_HF;
    CHECK(weight->experts == stored->experts);
    if (weight->rows == 0 || weight->cols == 0)
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: the model's metadata asks for [%" PRIu64 "][%" PRIu64 "]",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name), weight->rows, weight->cols);
    CHECK(stored->row_step > 1 ? stored->first_row < stored->row_step : stored->first_row + weight->rows <= stored->rows);
    weight->tensor_scale = 1;
    bind_mark_used(binder, codes);
    if (!hf)
        return bind_gguf(binder, stored, weight, err);
    (void)stored_companion(binder, stored, ".input_scale"); /* of the activations: ours keep their own */
    if (text_ends_with(codes->name, TEXT(".qweight")))
        return bind_packed(binder, stored, weight, err);
    if (text_ends_with(codes->name, TEXT("_blocks")))
        return bind_float4(binder, stored, stored_companion(binder, stored, "_scales"), weight, err);
    if (text_ends_with(codes->name, TEXT(".weight_packed")))
        return codes->dtype == DTYPE_U8 ? bind_float4(binder, stored, stored_companion(binder, stored, ".weight_scale"), weight, err)
                                        : bind_compressed_int(binder, stored, weight, err);
    if ((scales = stored_companion(binder, stored, ".scales")))
        return bind_mlx(binder, stored, scales, weight, err);
    bool suffixed = text_ends_with(codes->name, TEXT(".weight"));
    scales = stored_companion(binder, stored, suffixed ? ".weight_scale_inv" : "_scale_inv");
    if (!scales)
        scales = stored_companion(binder, stored, suffixed ? ".weight_scale" : "_scale");
    if (scales && (codes->dtype == DTYPE_F8_E4M3 || codes->dtype == DTYPE_F8_E5M2))
        return bind_float8(binder, stored, scales, weight, err);
    if (scales && codes->dtype == DTYPE_I8)
        return bind_int8(binder, stored, scales, weight, err);
    if (scales && codes->dtype == DTYPE_U8)
        return bind_float4(binder, stored, scales, weight, err);
    if (scales)
        return error_set(err, STATUS_UNSUPPORTED, "%s: tensor %.*s has scales beside it, but its number format is %s",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(codes->name), dtype_info(codes->dtype)->name);
    return bind_plain(binder, stored, weight, err);
}
