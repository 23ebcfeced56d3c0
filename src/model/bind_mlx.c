/*
 * bind_mlx: MLX's quantised modules: `weight` as packed 32-bit words, `scales`, and for mode affine `biases`.
 *
 * Presence of `scales` makes a module quantised, and the shapes say how: bits = words * 32 / inputs, group = inputs / scales. The
 * top-level values of config.json are only what most modules have; an entry for this very module must agree with the shapes. An entry is
 * found under any of the prefixes that wrappers put before the text model, since tools rename tensors and leave the map as it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/bind_stored.h"

struct layout { /* what the shapes say, or config.json */
    uint64_t bits, group;
    const char *mode;
};

static const struct {
    const char *mode;
    uint64_t bits, group;
    unsigned format;
} float_modes[] = {{"nvfp4", 4, 16, MATRIX_NVFP4_SPLIT}, {"mxfp4", 4, 32, MATRIX_MXFP4_SPLIT}, {"mxfp8", 8, 32, MATRIX_MXFP8_SPLIT}};
#define FLOAT_MODES (sizeof float_modes / sizeof *float_modes)

/* ---- config.json ---- */

static const char *const wrappers[] = {"language_model.model.", "model.language_model.", "language_model.", "model.", ""};
#define WRAPPERS (sizeof wrappers / sizeof *wrappers)

static const struct meta_value *entry_value(const struct binder *binder, const char *prefix, struct text local, const char *key) {
    static const char *const maps[] = {"quantization", "quantization_config"};
    const struct meta_value *value = NULL;
    char name[400];
    for (size_t m = 0; m < 2 && !value; m++)
        if (snprintf(name, sizeof name, "%s/%s%.*s%s%s", maps[m], prefix, (int)local.size_bytes, local.data, key ? "/" : "",
                     key ? key : "") < (int)sizeof name)
            value = catalogue_meta(binder->catalogue, name);
    return value;
}

/* The entry for a module, if config.json has one that says how it is quantised. */
static bool read_entry(const struct binder *binder, struct text module, struct layout *out) {
    struct text local = module, mode;
    for (size_t i = 0; i < WRAPPERS; i++)
        if (text_starts_with(local, text_of(wrappers[i]))) {
            local.data += strlen(wrappers[i]);
            local.size_bytes -= strlen(wrappers[i]);
            break;
        }
    for (size_t i = 0; i < WRAPPERS; i++) {
        const struct meta_value *bits = entry_value(binder, wrappers[i], local, "bits");
        if (!meta_u64(bits, &out->bits))
            continue;
        if (!meta_u64(entry_value(binder, wrappers[i], local, "group_size"), &out->group))
            out->group = 0;
        out->mode = "affine";
        for (size_t m = 0; m < FLOAT_MODES && meta_text(entry_value(binder, wrappers[i], local, "mode"), &mode); m++)
            if (text_is(mode, float_modes[m].mode))
                out->mode = float_modes[m].mode;
        return true;
    }
    return false;
}

/* ---- shapes ---- */

static bool affine_exists(const struct layout *layout) {
    bool bits = (layout->bits >= 2 && layout->bits <= 6) || layout->bits == 8;
    return bits && (layout->group == 32 || layout->group == 64 || layout->group == 128);
}

/* Bits and group by the shapes; no check of whether there is such a format. */
static enum status read_layout(const struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, uint64_t cols,
                               struct layout *out, struct error *err) {
    uint64_t words, groups;
    char needed[96], stack[32] = "";
    if (stored->experts)
        (void)snprintf(stack, sizeof stack, "[%u]", stored->experts);
    if (stored->codes->dtype != DTYPE_U32)
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s has scales beside it and number format %s; MLX packs codes in U32",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored->codes->name), dtype_info(stored->codes->dtype)->name);
    if (!stored_has_shape(stored, stored->codes, stored->rows, 0, &words) || words > UINT64_MAX / 32 || words * 32 % cols != 0) {
        (void)snprintf(needed, sizeof needed, "%s[%" PRIu64 "][%" PRIu64 " * bits / 32]", stack, stored->rows, cols);
        return bind_wrong_shape(binder, stored->codes, needed, err);
    }
    out->bits = words * 32 / cols;
    if (!stored_has_shape(stored, scales, stored->rows, 0, &groups) || cols % groups != 0) {
        (void)snprintf(needed, sizeof needed, "%s[%" PRIu64 "][%" PRIu64 " / group size]", stack, stored->rows, cols);
        return bind_wrong_shape(binder, scales, needed, err);
    }
    out->group = cols / groups;
    return STATUS_OK;
}

static enum status no_such_format(const struct binder *binder, const struct stored *stored, const struct layout *found, const char *kind,
                                  struct error *err) {
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: module %.*s: its shapes say %s codes of %" PRIu64 " bits in groups of %" PRIu64
                     "; known are affine 2, 3, 4, 5, 6, 8 bits in groups of 32, 64, 128, and nvfp4 4/16, mxfp4 4/32, mxfp8 8/32",
                     catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored_module(stored->codes)), kind, found->bits, found->group);
}

static enum status compare_entry(const struct binder *binder, const struct stored *stored, const struct layout *found, struct error *err) {
    struct layout entry;
    struct text module = stored_module(stored->codes);
    if (!read_entry(binder, module, &entry))
        return STATUS_OK;
    if (entry.bits == found->bits && (entry.group == 0 || entry.group == found->group) && strcmp(entry.mode, found->mode) == 0)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: config.json says that module %.*s has %" PRIu64 " bits in groups of %" PRIu64
                     " (%s), but its tensors have %" PRIu64 " bits in groups of %" PRIu64 " (%s)",
                     catalogue_path(binder->catalogue), TEXT_ARGUMENTS(module), entry.bits, entry.group, entry.mode, found->bits,
                     found->group, found->mode);
}

/* ---- formats ---- */

static enum status bind_affine(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                               const struct tensor_entry *biases, const struct layout *layout, struct plan_weight *weight,
                               struct error *err) {
    uint64_t groups = weight->cols / layout->group, scale_bytes = dtype_info(scales->dtype)->block_bytes;
    char needed[96];
    if (!stored_is_scale_dtype(scales->dtype) || scales->dtype == DTYPE_F8_E8M0 || biases->dtype != scales->dtype)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: module %.*s has scales in %s and biases in %s; F32, F16 or BF16, both alike, are known",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored_module(stored->codes)), dtype_info(scales->dtype)->name,
                         dtype_info(biases->dtype)->name);
    if (!stored_has_shape(stored, biases, stored->rows, groups, NULL)) {
        (void)snprintf(needed, sizeof needed, "that of the scales, %" PRIu64 " rows of %" PRIu64, stored->rows, groups);
        return bind_wrong_shape(binder, biases, needed, err);
    }
    if (!affine_exists(layout))
        return no_such_format(binder, stored, layout, "affine", err);
    weight->format = MATRIX_AFFINE;
    weight->bits = (uint32_t)layout->bits;
    weight->group_cols = (uint32_t)layout->group;
    weight->group_rows = 1;
    weight->scale_dtype = scales->dtype;
    stored_set_slice(stored, stored->codes, weight->cols * layout->bits / 8, 1, weight, 0);
    stored_set_slice(stored, scales, groups * scale_bytes, 1, weight, 1);
    stored_set_slice(stored, biases, groups * scale_bytes, 1, weight, 2);
    return STATUS_OK;
}

static enum status bind_small_float(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, size_t mode,
                                    struct plan_weight *weight, struct error *err) {
    const struct tensor_entry *global = stored_companion(binder, stored, ".global_scale");
    weight->format = float_modes[mode].format;
    weight->bits = (uint32_t)float_modes[mode].bits;
    weight->group_cols = (uint32_t)float_modes[mode].group;
    weight->group_rows = 1;
    weight->scale_dtype = weight->format == MATRIX_NVFP4_SPLIT ? DTYPE_F8_E4M3 : DTYPE_F8_E8M0;
    stored_set_slice(stored, stored->codes, weight->cols * weight->bits / 8, 1, weight, 0);
    stored_set_slice(stored, scales, weight->cols / weight->group_cols, 1, weight, 1);
    if (!global)
        return STATUS_OK;
    uint64_t count = bind_element_count(global);
    if (weight->format != MATRIX_NVFP4_SPLIT || (count != 1 && count != stored->experts))
        return bind_wrong_shape(binder, global, "one factor for nvfp4 codes, or one per expert", err);
    weight->tensor_scale = 1.0f / (448.0f * 6.0f); /* the largest scale times the largest code */
    return stored_tensor_scale(binder, stored, global, false, weight, err);
}

enum status bind_mlx(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales, struct plan_weight *weight,
                     struct error *err) {
    const struct tensor_entry *biases = stored_companion(binder, stored, ".biases");
    struct layout layout = {.mode = "affine"};
    TRY(read_layout(binder, stored, scales, weight->cols, &layout, err));
    if (biases) {
        TRY(compare_entry(binder, stored, &layout, err));
        return bind_affine(binder, stored, scales, biases, &layout, weight, err);
    }
    if (scales->dtype != DTYPE_U8)
        return error_set(err, STATUS_CORRUPT,
                         "%s: module %.*s has scales in %s and no biases; affine modules have both, the others scales in U8",
                         catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored_module(stored->codes)), dtype_info(scales->dtype)->name);
    for (size_t m = 0; m < FLOAT_MODES; m++)
        if (layout.bits == float_modes[m].bits && layout.group == float_modes[m].group) {
            layout.mode = float_modes[m].mode;
            TRY(compare_entry(binder, stored, &layout, err));
            return bind_small_float(binder, stored, scales, m, weight, err);
        }
    return no_such_format(binder, stored, &layout, "float", err);
}
