/*
 * param: the numbers of a model, read from either file world by one table of rules (param.c) that a family's row may override.
 *
 * Model     a parameter has one value, or one per layer. Values are doubles (all integers in use are exact). A parameter is *present* when
 *           the file gives it, when a family fixes it, or when it has a documented default.
 * Errors    name file, key, value and range.
 * Threads   immutable after read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "format/catalogue.h"

enum param {
    PARAM_LAYERS,
    PARAM_LAYER_PARTS,  /* each layer of the files is so many here: parts with attention and feed-forward of their own */
    PARAM_NEXTN_LAYERS, /* multi-token-prediction layers that LAYERS counts in GGUF */
    PARAM_HIDDEN,
    PARAM_VOCAB,
    PARAM_CONTEXT,
    PARAM_NORM_EPSILON,
    PARAM_HEADS,    /* per layer */
    PARAM_KV_HEADS, /* per layer */
    PARAM_HEAD_DIM,
    PARAM_V_HEAD_DIM,
    PARAM_WINDOW,
    PARAM_WINDOW_BEFORE, /* positions before its own that a row sees (MiMo's files); becomes WINDOW where that is missing */
    PARAM_ROPE_DIM,      /* rotated elements of a head; 0: all */
    PARAM_FFN_HIDDEN,    /* per layer */
    PARAM_EXPERTS,
    PARAM_TOP_K,
    PARAM_EXPERT_HIDDEN, /* per layer */
    PARAM_ZERO_EXPERTS,  /* behind the others: their output is their input */
    PARAM_SHARED_EXPERTS,
    PARAM_SHARED_HIDDEN,
    PARAM_FIRST_DENSE, /* layers before the first with experts */
    PARAM_EXPERT_STEP, /* every n-th layer has experts */
    PARAM_EXPERT_SCALE,
    PARAM_EXPERT_RENORMALISE,
    PARAM_EXPERT_GROUPS,
    PARAM_TOP_GROUPS,
    PARAM_ATTENTION_SOFTCAP,
    PARAM_FINAL_SOFTCAP,
    PARAM_QUERY_SCALAR,    /* scores are divided by its square root */
    PARAM_ATTENTION_SCALE, /* multiplies the scores */
    PARAM_EMBEDDING_SCALE,
    PARAM_RESIDUAL_SCALE,
    PARAM_ATTENTION_KEEP, /* where norms are carried: factors a and b of x = a x + b f(x), of layers with attention, */
    PARAM_ATTENTION_ADD,
    PARAM_LINEAR_KEEP, /* of layers with linear attention, */
    PARAM_LINEAR_ADD,
    PARAM_FFN_KEEP, /* and of feed-forwards */
    PARAM_FFN_ADD,
    PARAM_LOGIT_SCALE,        /* multiplies the logits; the family says when the file means a divisor */
    PARAM_VALUE_SCALE,        /* multiplies the values */
    PARAM_KEY_SCALE,          /* multiplies the keys before they are rotated */
    PARAM_ATTENTION_IN_SCALE, /* where attention and a state space stand side by side: multiply the input and the output of each */
    PARAM_ATTENTION_OUT_SCALE,
    PARAM_SPACE_IN_SCALE,
    PARAM_SPACE_OUT_SCALE,
    PARAM_SHARED_KV_LAYERS,  /* the last n layers read the keys and values of an earlier one */
    PARAM_QUERY_TEMPERATURE, /* queries at position p are multiplied by 1 + this * ln(1 + floor(p / original context)) */
    PARAM_ORIGINAL_CONTEXT,  /* that the model was trained for before its rotation was stretched */
    PARAM_QK_NORM,           /* 0: no norm on q and k although the family has one */
    PARAM_ROUTER_SCORE,      /* GGUF's number: 1 softmax, 2 sigmoid, 3 softmax of the chosen; 0: not said */
    PARAM_GATE_ALPHA,        /* of the clamped activation */
    PARAM_GATE_LIMIT,
    PARAM_LAYER_INPUT,     /* width of the per-layer input embedding, 0: none */
    PARAM_KV_LATENT,       /* width of the vector that keys and values of all heads are made of: latent attention */
    PARAM_NOPE_DIM,        /* latent attention: elements of a head that are not rotated, */
    PARAM_LATENT_HEAD_DIM, /* with the rotated ones, */
    PARAM_LATENT_V_DIM,    /* and of a head's value */
    PARAM_YARN_FACTOR,
    PARAM_YARN_SCORE_SCALE,    /* n: scores grow with the square of 1 + 0.1 n ln(factor), config.json */
    PARAM_YARN_LOG_MULTIPLIER, /* the same as 0.1 n, GGUF */
    PARAM_INDEX_HEADS,         /* sparse index: heads, their size, how many positions are chosen, whether neighbours are rotated */
    PARAM_INDEX_DIM,
    PARAM_INDEX_TOP_K,
    PARAM_INDEX_ROPE_PAIRS,
    PARAM_RECURRENT_HEADS, /* linear attention: value heads, key heads, size of a key; state space: heads, groups, size of a state */
    PARAM_RECURRENT_KEY_HEADS,
    PARAM_RECURRENT_KEY_DIM,
    PARAM_RECURRENT_NORM_EPSILON, /* of the norm in a recurrent block, where it differs from the model's */
    PARAM_DOUBLE_STRENGTH,        /* linear attention: what is stored counts from 0 to 2, not to 1 */
    PARAM_NORM_GROUPS,            /* steady attention: pieces of a row that are normalised each alone */
    PARAM_TIED,
    PARAM_COUNT,
};

enum param_world { PARAM_NO_INITIAL, PARAM_IN_GGUF, PARAM_IN_HF, PARAM_IN_BOTH };

/* What a family's row changes of the table's rule; ends with {.param = PARAM_COUNT}. */
struct param_override {
    enum param param;
    const char *hf_key;     /* other key in config.json, or NULL: as in the table */
    const char *gguf_key;   /* after the architecture's prefix, or NULL */
    enum param_world world; /* which file world the initial value is for */
    double initial;         /* when the file says nothing (an explicit null keeps the table's) */
};
#define PARAM_END \
    { PARAM_COUNT, NULL, NULL, PARAM_NO_INITIAL, 0 }

struct params {
    uint32_t layers; /* real ones: without multi-token prediction, with all parts */
    bool present[PARAM_COUNT];
    uint32_t count[PARAM_COUNT]; /* 1, or the file's layer count */
    double *values[PARAM_COUNT]; /* owned */
    char prefix[64];             /* "qwen3." in GGUF; "" or "text_config/" in config.json */
};

/* Reads everything. `prefix` as in struct params. params_deinit also after a failure. */
MUST_CHECK enum status params_read(struct params *params, const struct catalogue *catalogue, const char *prefix,
                                   const struct param_override *overrides, struct error *err);
void params_deinit(struct params *params);

bool params_has(const struct params *params, enum param param);
/* Value for a layer (any layer when the parameter has one value); 0 when not present. */
double params_f64(const struct params *params, enum param param, uint32_t layer);
uint32_t params_u32(const struct params *params, enum param param, uint32_t layer);
/* STATUS_INVALID that names the keys when a needed parameter is missing. */
/* Element of a list of numbers in config.json, by its key; 1 when there is none, and in GGUF, whose weights have such factors in them. */
double params_factor(const struct params *params, const struct catalogue *catalogue, const char *key, uint64_t index);
MUST_CHECK enum status params_need(const struct params *params, const struct catalogue *catalogue, enum param param, struct error *err);
const char *param_name(enum param param); /* neutral name, "head_dim" */

/* Metadata by prefix + key: GGUF "qwen3." + "rope.freq_base", config.json "text_config/" + "rope_theta". NULL: missing. */
const struct meta_value *params_meta(const struct params *params, const struct catalogue *catalogue, const char *key);
