/*
 * rope: reading and formulas.
 */
#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/math_f64.h"

#define ROPE_HALF_MAX 512        /* pairs of a head with lists of divisors */
#define ROPE_FREQUENCY_MAX 255.0 /* of a turn per position: one or less in every model; math_sin_f64 knows angles below 2^40 */
#define ROPE_STRETCH_MAX 1e6     /* of the context */

static const double pi = 3.14159265358979323846;

/* Where the values of one layer kind are looked for: key prefixes in order, "" ends. */
struct rope_scope {
    const struct params *params;
    const struct catalogue *catalogue;
    char scaling[64]; /* "rope_scaling/", "rope_parameters/", "rope_parameters/full_attention/", "rope.scaling." */
    bool has_scaling;
};

static bool scope_f64(const struct rope_scope *scope, const char *key, double *value) {
    char full[160];
    (void)snprintf(full, sizeof full, "%s%s", scope->scaling, key);
    return scope->has_scaling && meta_f64(params_meta(scope->params, scope->catalogue, full), value);
}

static struct text scope_type(const struct rope_scope *scope) {
    static const char *const keys[] = {"rope_type", "type"};
    struct text type = TEXT("default");
    char full[160];
    for (size_t i = 0; i < 2 && scope->has_scaling; i++) {
        (void)snprintf(full, sizeof full, "%s%s", scope->scaling, keys[i]);
        if (meta_text(params_meta(scope->params, scope->catalogue, full), &type))
            break;
    }
    return type;
}

static bool key_exists(const struct rope_scope *scope, const char *prefix, const char *key) {
    char full[160];
    (void)snprintf(full, sizeof full, "%s%s", prefix, key);
    return params_meta(scope->params, scope->catalogue, full) != NULL;
}

/* config.json: rope_parameters per layer type, else flat, else rope_scaling. */
static void find_hf_scope(struct rope_scope *scope, enum rope_layer_kind kind) {
    static const char *const names[][2] = {{"rope_parameters/full_attention/", "rope_parameters/sliding_attention/"},
                                           {"rope_parameters/", "rope_parameters/"},
                                           {"rope_scaling/", "rope_scaling/"}};
    for (size_t i = 0; i < 3; i++) {
        const char *prefix = names[i][kind == ROPE_WINDOW_LAYERS];
        if (key_exists(scope, prefix, "rope_type") || key_exists(scope, prefix, "type") || key_exists(scope, prefix, "rope_theta")) {
            (void)snprintf(scope->scaling, sizeof scope->scaling, "%s", prefix);
            scope->has_scaling = true;
            return;
        }
    }
}

/* An element of a list in config.json that has one for each layer. */
static bool listed(const struct rope_scope *scope, const struct rope_request *request, const char *key, double *value) {
    const struct meta_value *list = params_meta(scope->params, scope->catalogue, key);
    return list && list->type == META_ARRAY && meta_array_f64(list, request->layer, value);
}

static double read_theta(const struct rope_scope *scope, const struct rope_request *request) {
    double theta = request->theta_initial > 0 ? request->theta_initial : 10000;
    bool window = request->kind == ROPE_WINDOW_LAYERS;
    if (catalogue_world(scope->catalogue) == CATALOGUE_GGUF) {
        (void)meta_f64(params_meta(scope->params, scope->catalogue, "rope.freq_base"), &theta);
        if (window && !meta_f64(params_meta(scope->params, scope->catalogue, "rope.freq_base_swa"), &theta) &&
            request->window_theta_initial > 0)
            theta = request->window_theta_initial;
        return theta;
    }
    (void)meta_f64(params_meta(scope->params, scope->catalogue, "rotary_emb_base"), &theta);
    if (scope_f64(scope, "rope_theta", &theta) || listed(scope, request, "rope_theta", &theta))
        return theta;
    (void)meta_f64(params_meta(scope->params, scope->catalogue, "rope_theta"), &theta);
    if (window && !meta_f64(params_meta(scope->params, scope->catalogue, "rope_local_base_freq"), &theta) &&
        !meta_f64(params_meta(scope->params, scope->catalogue, "swa_rope_theta"), &theta) && request->window_theta_initial > 0)
        theta = request->window_theta_initial;
    return theta;
}

/* Rotated elements of a head. Odd numbers occur in config.json (0.334 of 16): the last pair then has only a frequency more. */
static uint32_t read_dim(const struct rope_scope *scope, const struct rope_request *request) {
    uint32_t dim = params_u32(scope->params, PARAM_ROPE_DIM, 0);
    double partial = request->partial_initial, window_dim;
    if (catalogue_world(scope->catalogue) == CATALOGUE_GGUF) {
        if (request->kind == ROPE_WINDOW_LAYERS &&
            meta_f64(params_meta(scope->params, scope->catalogue, "rope.dimension_count_swa"), &window_dim) && window_dim > 0)
            dim = window_dim < request->head_dim ? (uint32_t)window_dim : request->head_dim;
        if (request->kind == ROPE_FULL_LAYERS && request->gguf_full_partial > 0)
            dim = (uint32_t)(request->head_dim * request->gguf_full_partial);
    } else if (!request->whole &&
               (listed(scope, request, "partial_rotary_factors", &partial) || scope_f64(scope, "partial_rotary_factor", &partial) ||
                meta_f64(params_meta(scope->params, scope->catalogue, "partial_rotary_factor"), &partial) ||
                meta_f64(params_meta(scope->params, scope->catalogue, "rotary_pct"), &partial) || (dim == 0 && partial > 0))) {
        dim = partial > 0 && partial <= 1 ? (uint32_t)(request->head_dim * partial) : 0;
    }
    return dim == 0 || dim > request->head_dim ? request->head_dim : dim;
}

static void scale_llama3(const struct rope_scope *scope, double *inverse, uint32_t half) {
    double factor = 1, low = 1, high = 4, original = params_f64(scope->params, PARAM_CONTEXT, 0);
    (void)scope_f64(scope, "factor", &factor);
    (void)scope_f64(scope, "low_freq_factor", &low);
    (void)scope_f64(scope, "high_freq_factor", &high);
    (void)scope_f64(scope, "original_max_position_embeddings", &original);
    for (uint32_t i = 0; i < half; i++) {
        double wavelength = 2 * pi / inverse[i];
        if (wavelength > original / low)
            inverse[i] /= factor;
        else if (wavelength >= original / high) {
            double smooth = (original / wavelength - low) / (high - low);
            inverse[i] = (1 - smooth) * inverse[i] / factor + smooth * inverse[i];
        }
    }
}

static double yarn_magnitude(double factor, double multiplier) { return factor <= 1 ? 1 : 0.1 * multiplier * math_log_f64(factor) + 1; }

static double yarn_correction(double rotations, double dim, double theta, double original) {
    return dim * math_log_f64(original / (rotations * 2 * pi)) / (2 * math_log_f64(theta));
}

static float scale_yarn(const struct rope_scope *scope, double *inverse, uint32_t half, double theta, uint32_t unrounded_context) {
    bool gguf = catalogue_world(scope->catalogue) == CATALOGUE_GGUF;
    double original = params_f64(scope->params, PARAM_CONTEXT, 0), fast = 32, slow = 1, factor = 1, mscale = 0, mscale_all = 0,
           magnitude = 0;
    bool truncate = true;
    (void)scope_f64(scope, gguf ? "original_context_length" : "original_max_position_embeddings", &original);
    if (!scope_f64(scope, "factor", &factor))
        factor = params_f64(scope->params, PARAM_CONTEXT, 0) / original;
    (void)scope_f64(scope, gguf ? "yarn_beta_fast" : "beta_fast", &fast);
    (void)scope_f64(scope, gguf ? "yarn_beta_slow" : "beta_slow", &slow);
    (void)scope_f64(scope, "mscale", &mscale);
    (void)scope_f64(scope, "mscale_all_dim", &mscale_all);
    char key[160];
    (void)snprintf(key, sizeof key, "%struncate", scope->scaling);
    (void)meta_bool(params_meta(scope->params, scope->catalogue, key), &truncate);
    if (gguf && unrounded_context > 0 && original == unrounded_context)
        truncate = false;
    double low = yarn_correction(fast, 2.0 * half, theta, original), high = yarn_correction(slow, 2.0 * half, theta, original);
    if (truncate)
        low = floor(low), high = ceil(high);
    low = fmax(low, 0), high = fmin(high, 2.0 * half - 1);
    if (low == high)
        high += 0.001;
    for (uint32_t i = 0; i < half; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        inverse[i] = inverse[i] / factor * ramp + inverse[i] * (1 - ramp);
    }
    if (gguf) {
        double attention = 1, multiplier = 0;
        (void)scope_f64(scope, "attn_factor", &attention);
        (void)scope_f64(scope, "yarn_log_multiplier", &multiplier); /* mscale and mscale_all_dim are given and alike: they cancel out */
        return (float)(multiplier != 0 ? attention : attention * yarn_magnitude(factor, 1));
    }
    if (scope_f64(scope, "attention_factor", &magnitude))
        return (float)magnitude;
    if (mscale != 0 && mscale_all != 0)
        return (float)(yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all));
    return (float)yarn_magnitude(factor, 1);
}

/* One list of divisors out of config.json; false: missing, or shorter than needed. */
static bool scope_list(const struct rope_scope *scope, const char *key, double *out, uint32_t count) {
    char full[160];
    (void)snprintf(full, sizeof full, "%s%s", scope->scaling, key);
    const struct meta_value *list = params_meta(scope->params, scope->catalogue, full);
    bool good = list && list->type == META_ARRAY && list->array.count >= count;
    for (uint32_t i = 0; good && i < count; i++)
        good = meta_array_f64(list, i, &out[i]) && out[i] > 0;
    return good;
}

/* Two sets of divisors, one for contexts as the model was first trained for, one for longer ones. */
static enum status scale_long(const struct rope_scope *scope, struct rope_spec *out, struct error *err) {
    uint32_t half = out->half;
    double divisors[2][ROPE_HALF_MAX], magnitude = 0;
    TRY(params_need(scope->params, scope->catalogue, PARAM_ORIGINAL_CONTEXT, err));
    double original = params_f64(scope->params, PARAM_ORIGINAL_CONTEXT, 0);
    double factor = params_f64(scope->params, PARAM_CONTEXT, 0) / original;
    if (half > ROPE_HALF_MAX || !scope_list(scope, "short_factor", divisors[0], half) ||
        !scope_list(scope, "long_factor", divisors[1], half))
        return error_set(err, STATUS_CORRUPT, "%s: %sshort_factor and long_factor must each have %u positive numbers",
                         catalogue_path(scope->catalogue), scope->scaling, half);
    for (uint32_t i = 0; i < half; i++) {
        out->inverse_frequencies[half + i] = out->inverse_frequencies[i] / divisors[1][i];
        out->inverse_frequencies[i] /= divisors[0][i];
    }
    out->long_context = (uint32_t)original;
    if (!scope_f64(scope, "attention_factor", &magnitude)) {
        (void)scope_f64(scope, "factor", &factor);
        magnitude = factor > 1 && original > 1 ? sqrt(1 + math_log_f64(factor) / math_log_f64(original)) : 1;
    }
    out->magnitude = (float)magnitude;
    return STATUS_OK;
}

/* alpha (hunyuan) stretches the base for good; else the base grows with the context beyond what the model was trained for. */
static void scale_dynamic(const struct rope_scope *scope, uint32_t dim, struct rope_spec *out) {
    double alpha = 0, factor = 1, original = params_f64(scope->params, PARAM_CONTEXT, 0); /* not the scaling's own, if it has one */
    (void)scope_f64(scope, "factor", &factor);
    if (scope_f64(scope, "alpha", &alpha) && alpha > 0 && dim > 2) {
        for (uint32_t i = 0; i < out->half; i++)
            out->inverse_frequencies[i] *= math_pow_f64(alpha, -2.0 * i / (dim - 2));
        return;
    }
    if (factor > 1 && original >= 1) {
        out->ntk_context = (uint32_t)original;
        out->ntk_factor = factor;
    }
}

/* Only the first part of the pairs turns, with the frequencies of the whole head. */
static void scale_proportional(const struct rope_scope *scope, uint32_t head_dim, double theta, double partial, struct rope_spec *out) {
    double factor = 1;
    (void)scope_f64(scope, "partial_rotary_factor", &partial);
    (void)scope_f64(scope, "factor", &factor);
    double turning = floor(partial * head_dim / 2);
    for (uint32_t i = 0; i < out->half; i++)
        out->inverse_frequencies[i] = i < turning && factor > 0 ? 1 / (math_pow_f64(theta, 2.0 * i / head_dim) * factor) : 0;
}

void rope_frequencies(const struct rope_spec *rope, uint32_t context, double *out) {
    uint32_t set = rope->long_context > 0 && context > rope->long_context ? rope->half : 0, dim = 2 * rope->half;
    memcpy(out, rope->inverse_frequencies + set, rope->half * sizeof *out);
    if (rope->ntk_context == 0 || context <= rope->ntk_context || dim <= 2)
        return;
    double stretch = rope->ntk_factor * context / rope->ntk_context - (rope->ntk_factor - 1);
    for (uint32_t i = 0; i < rope->half; i++)
        out[i] *= math_pow_f64(stretch, -2.0 * i / (dim - 2));
}

static enum status apply_scaling(const struct rope_scope *scope, const struct rope_request *request, double theta, struct rope_spec *out,
                                 struct error *err) {
    struct text type = scope_type(scope);
    bool gguf = catalogue_world(scope->catalogue) == CATALOGUE_GGUF;
    bool per_kind = strstr(scope->scaling, "_attention/") != NULL;
    if (request->kind == ROPE_WINDOW_LAYERS && !per_kind && request->window_unscaled)
        return STATUS_OK;
    double factor = 1;
    if (text_is(type, "default") || text_is(type, "none") || text_is(type, "mrope"))
        return STATUS_OK;
    if (text_is(type, "linear")) {
        (void)scope_f64(scope, "factor", &factor);
        if (!(factor > 0))
            return error_set(err, STATUS_CORRUPT, "%s: rope scaling factor %g must be positive", catalogue_path(scope->catalogue), factor);
        for (uint32_t i = 0; i < out->half; i++)
            out->inverse_frequencies[i] /= factor;
        return STATUS_OK;
    }
    if (text_is(type, "llama3") && !gguf) {
        scale_llama3(scope, out->inverse_frequencies, out->half);
        return STATUS_OK;
    }
    if (text_is(type, "yarn") || text_is(type, "deepseek_yarn") || text_is(type, "telechat3-yarn")) {
        out->magnitude = scale_yarn(scope, out->inverse_frequencies, out->half, theta, request->unrounded_context);
        return STATUS_OK;
    }
    if ((text_is(type, "longrope") || text_is(type, "su")) && !gguf)
        return scale_long(scope, out, err);
    if (text_is(type, "dynamic")) {
        scale_dynamic(scope, 2 * out->half, out);
        return STATUS_OK;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "%s: rope scaling of type '%.*s' is not supported (known: default, linear, llama3, yarn, longrope, dynamic, "
                     "proportional)",
                     catalogue_path(scope->catalogue), TEXT_ARGUMENTS(type));
}

/* Divisors of a GGUF file, one or two sets. */
static enum status divide(const struct rope_scope *scope, const struct rope_request *request, struct rope_spec *out, struct error *err) {
    double magnitude = 1;
    if (!request->divisors || (request->kind == ROPE_WINDOW_LAYERS && request->window_unscaled))
        return STATUS_OK;
    if (request->divisor_count < out->half)
        return error_set(err, STATUS_CORRUPT, "%s: rope_freqs has %u elements, %u are rotated", catalogue_path(scope->catalogue),
                         request->divisor_count, out->half);
    for (uint32_t i = 0; i < out->half; i++) {
        if (request->long_divisors)
            out->inverse_frequencies[out->half + i] = out->inverse_frequencies[i] / (double)request->long_divisors[i];
        out->inverse_frequencies[i] /= (double)request->divisors[i];
    }
    if (!request->long_divisors)
        return STATUS_OK;
    TRY(params_need(scope->params, scope->catalogue, PARAM_ORIGINAL_CONTEXT, err));
    out->long_context = params_u32(scope->params, PARAM_ORIGINAL_CONTEXT, 0);
    (void)scope_f64(scope, "attn_factor", &magnitude);
    out->magnitude = (float)magnitude;
    return STATUS_OK;
}

/* Scaling factors and divisors come from files: the angles of all 2^32 positions must stay where sine and cosine are right. */
static enum status check_frequencies(const struct rope_scope *scope, const struct rope_spec *rope, struct error *err) {
    uint32_t count = rope->long_context > 0 ? 2 * rope->half : rope->half;
    bool good = isfinite(rope->magnitude) && rope->ntk_factor <= ROPE_STRETCH_MAX;
    for (uint32_t i = 0; good && i < count; i++)
        good = fabs(rope->inverse_frequencies[i]) <= ROPE_FREQUENCY_MAX;
    return good ? STATUS_OK
                : error_set(err, STATUS_CORRUPT, "%s: rope scaling gives frequencies that cannot be: a factor or divisor is damaged",
                            catalogue_path(scope->catalogue));
}

enum status rope_read(const struct params *params, const struct catalogue *catalogue, const struct rope_request *request,
                      struct rope_spec *out, struct error *err) {
    struct rope_scope scope = {.params = params, .catalogue = catalogue};
    if (catalogue_world(catalogue) == CATALOGUE_GGUF) {
        (void)snprintf(scope.scaling, sizeof scope.scaling, "rope.scaling.");
        scope.has_scaling = true;
    } else {
        find_hf_scope(&scope, request->kind);
    }
    double theta = read_theta(&scope, request);
    if (!(theta > 1 && theta < 1e15))
        return error_set(err, STATUS_CORRUPT, "%s: rope theta is %g, allowed is 1 to 1e15", catalogue_path(catalogue), theta);
    bool initial = request->proportional_initial > 0 && catalogue_world(catalogue) == CATALOGUE_HF && !scope.has_scaling &&
                   request->kind == ROPE_FULL_LAYERS;
    bool proportional = initial || text_is(scope_type(&scope), "proportional");
    uint32_t dim = proportional ? request->head_dim : read_dim(&scope, request);
    *out = (struct rope_spec){.half = (dim + 1) / 2, .magnitude = 1};
    if (dim < 2)
        return error_set(err, STATUS_CORRUPT, "%s: heads of %u elements leave nothing to rotate", catalogue_path(catalogue),
                         request->head_dim);
    out->inverse_frequencies = memory_alloc_array(out->half, 2 * sizeof(double));
    if (!out->inverse_frequencies)
        return error_set(err, STATUS_NO_MEMORY, "no memory for rope frequencies");
    for (uint32_t i = 0; i < out->half; i++)
        out->inverse_frequencies[i] = 1 / math_pow_f64(theta, 2.0 * i / dim);
    enum status status = STATUS_OK;
    if (proportional)
        scale_proportional(&scope, request->head_dim, theta, initial ? request->proportional_initial : 1, out);
    else
        status = apply_scaling(&scope, request, theta, out, err);
    if (status == STATUS_OK)
        status = divide(&scope, request, out, err);
    if (status == STATUS_OK)
        status = check_frequencies(&scope, out, err);
    if (status != STATUS_OK) {
        memory_free(out->inverse_frequencies);
        out->inverse_frequencies = NULL;
    }
    return status;
}
