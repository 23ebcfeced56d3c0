/*
 * layer_pattern: the rules.
 */
#include "model/layer_pattern.h"

static bool hf(const struct binder *b) { return catalogue_world(b->catalogue) == CATALOGUE_HF; }

static const struct meta_value *meta_of(const struct binder *b, const char *key) { return params_meta(b->params, b->catalogue, key); }

/* A list of the file says it: layer_types of config.json, or a list of flags, 1 for a window. */
static bool listed_window(const struct binder *b, uint32_t layer, bool *window) {
    static const char *const hf_flags[] = {"hybrid_layer_pattern"};
    const struct meta_value *types = hf(b) ? meta_of(b, "layer_types") : NULL;
    struct text type;
    if (types && types->type == META_ARRAY && meta_array_text(types, layer, &type)) {
        *window = text_is(type, "sliding_attention") || text_is(type, "chunked_attention");
        return true;
    }
    const struct meta_value *flags = meta_of(b, hf(b) ? hf_flags[0] : "attention.sliding_window_pattern");
    return flags && flags->type == META_ARRAY && meta_array_bool(flags, layer, window);
}

/* The classes of these families have 28 where a file says nothing, or more than their models have layers. */
#define WINDOW_FIRST_LAYER 28

static bool window_by_flag(const struct binder *b, uint32_t layer) {
    uint64_t first = WINDOW_FIRST_LAYER;
    bool flag = false;
    (void)meta_bool(meta_of(b, "use_sliding_window"), &flag);
    (void)meta_u64(meta_of(b, "max_window_layers"), &first);
    switch (b->arch->window_flag) {
    case WINDOW_FLAG_UP:
        return flag && layer >= first;
    case WINDOW_FLAG_EVEN_BELOW:
        return flag && layer < first && layer % 2 == 0;
    case WINDOW_FLAG_ALL:
        return flag;
    case WINDOW_FLAG_STILL:
        return flag && !layer_rotates(b, layer);
    case WINDOW_UP:
        return layer >= first;
    case WINDOW_LISTED:
        return false;
    case WINDOW_BY_PERIOD:
        break;
    }
    return true;
}

static bool window_by_rule(const struct binder *b, uint32_t layer) {
    uint64_t period = b->arch->window_period;
    if (hf(b) && b->arch->window_flag != WINDOW_BY_PERIOD)
        return window_by_flag(b, layer);
    if (!hf(b))
        (void)meta_u64(meta_of(b, "attention.sliding_window_pattern"), &period);
    else if (!meta_u64(meta_of(b, "sliding_window_pattern"), &period) && !meta_u64(meta_of(b, "_sliding_window_pattern"), &period))
        (void)meta_u64(meta_of(b, "global_attn_every_n_layers"), &period);
    return !(b->arch->first_layer_full && layer == 0) && (period == 0 || (layer + 1) % period != 0);
}

bool layer_has_window(const struct binder *b, uint32_t layer) {
    bool window;
    if (b->arch->pattern == PATTERN_ALL_FULL || params_u32(b->params, PARAM_WINDOW, 0) == 0 || (!hf(b) && b->arch->gguf_ignores_window))
        return false;
    return listed_window(b, layer, &window) ? window : window_by_rule(b, layer);
}

static bool experts_by_rule(const struct binder *b, uint32_t layer) {
    if (params_u32(b->params, PARAM_EXPERTS, 0) == 0 || layer < params_u32(b->params, PARAM_FIRST_DENSE, 0))
        return false;
    int64_t dense;
    const struct meta_value *only = hf(b) ? meta_of(b, "mlp_only_layers") : NULL;
    for (uint64_t i = 0; only && only->type == META_ARRAY && i < only->array.count; i++)
        if (meta_array_i64(only, i, &dense) && dense == (int64_t)layer)
            return false;
    return (layer + 1) % params_u32(b->params, PARAM_EXPERT_STEP, 0) == 0;
}

bool layer_has_experts(const struct binder *b, uint32_t layer) {
    if (bind_rows(b, ROLE_ROUTER, layer) > 0)
        return params_u32(b->params, PARAM_EXPERTS, 0) > 0;
    bool dense = bind_rows(b, ROLE_FFN_UP, layer) > 0 || bind_rows(b, ROLE_FFN_GATE_UP, layer) > 0;
    return !dense && experts_by_rule(b, layer);
}

enum layer_mixer layer_mixer(const struct binder *b, uint32_t layer) {
    bool attention = bind_rows(b, ROLE_Q, layer) > 0;
    if (bind_vector_size(b, ROLE_RECURRENT_SKIP, layer, ".weight") > 0)
        return attention ? MIXER_ATTENTION_AND_STATE_SPACE : MIXER_STATE_SPACE;
    if (bind_rows(b, ROLE_DELTA_DECAY_IN, layer) > 0)
        return MIXER_DELTA_ATTENTION;
    if (bind_rows(b, ROLE_RECURRENT_OUT, layer) > 0 || bind_vector_size(b, ROLE_RECURRENT_RATE, layer, ".weight") > 0)
        return MIXER_LINEAR_ATTENTION;
    if (bind_vector_size(b, ROLE_STEADY_NORM, layer, ".weight") > 0)
        return MIXER_STEADY_ATTENTION;
    if (bind_rows(b, ROLE_CONV_IN, layer) > 0 || bind_rows(b, ROLE_CONV_OUT, layer) > 0)
        return MIXER_SHORT_CONV;
    return b->arch->one_sublayer && !attention && bind_rows(b, ROLE_QKV, layer) == 0 ? MIXER_NONE : MIXER_ATTENTION;
}

bool layer_rotates(const struct binder *b, uint32_t layer) {
    bool flag;
    struct text positions;
    enum layer_mixer mixer = layer_mixer(b, layer);
    if (mixer != MIXER_ATTENTION && mixer != MIXER_STEADY_ATTENTION && mixer != MIXER_ATTENTION_AND_STATE_SPACE)
        return false;
    if (mixer == MIXER_STEADY_ATTENTION && b->arch->steady_activates)
        return false;
    const struct meta_value *theta = hf(b) ? meta_of(b, "rope_parameters/rope_theta") : NULL;
    if (theta && theta->type == META_NULL) /* olmo_hybrid */
        return false;
    if (hf(b) && b->arch->hf_rope_must_be_named &&
        !(meta_text(meta_of(b, "position_embedding_type"), &positions) && text_is(positions, "rope")))
        return false;
    if (!hf(b) && b->arch->gguf_finetuned_is_rope && meta_bool(meta_of(b, "rope.scaling.finetuned"), &flag) && !flag)
        return false;
    const struct meta_value *list = hf(b) ? meta_of(b, "no_rope_layers") : NULL; /* 1: rotates, in spite of the name */
    if (b->arch->rope_free_period > 0 && list && list->type == META_ARRAY && meta_array_bool(list, layer, &flag))
        return flag;
    uint64_t period = b->arch->rope_free_period;
    if (hf(b) && period > 0)
        (void)meta_u64(meta_of(b, "no_rope_layer_interval"), &period);
    if (period > 0 && (layer + 1) % period == 0)
        return false;
    if (!b->arch->rope_in_window_layers_only || layer_has_window(b, layer))
        return true;
    if (hf(b))
        return params_u32(b->params, PARAM_WINDOW, 0) == 0;
    for (uint32_t other = 0; other < b->params->layers; other++)
        if (layer_has_window(b, other))
            return false;
    return true;
}
