/*
 * layer_pattern: which layers have attention, a window, experts, a rotation: tensors, lists and periods of the file
 * first, then the family's rule.
 */
#pragma once

#include "model/bind.h"

/* The layer sees only the last PARAM_WINDOW positions. */
bool layer_has_window(const struct binder *binder, uint32_t layer);
/* The layer's feed-forward is a mixture: it has a router, or the parameters say so and there is no dense tensor either. */
bool layer_has_experts(const struct binder *binder, uint32_t layer);
/* What mixes positions in a layer: the tensors that it has say it. */
enum layer_mixer {
    MIXER_ATTENTION,
    MIXER_LINEAR_ATTENTION,
    MIXER_DELTA_ATTENTION,
    MIXER_STEADY_ATTENTION,
    MIXER_STATE_SPACE,
    MIXER_ATTENTION_AND_STATE_SPACE,
    MIXER_SHORT_CONV,
    MIXER_NONE, /* in families whose layers are one sublayer: a feed-forward */
};
enum layer_mixer layer_mixer(const struct binder *binder, uint32_t layer);
/* Queries and keys of the layer are rotated by position. */
bool layer_rotates(const struct binder *binder, uint32_t layer);
