/*
 * role: what a tensor is for, and its names in both file worlds.
 *
 * One table (role.c) holds the usual names; a family's row overrides single roles. GGUF names are "blk.<layer>.<name>.weight",
 * Hugging Face names "<prefix>layers.<layer>.<name>.weight", where the prefix (model., language_model.model., ...) is found by looking for
 * the embedding; some say "h." or "blocks." for layers. A '*' in a name stands for the
 * expert's index (GGUF: "_exps" at its end becomes ".<expert>" where experts are tensors of their own), '%' for the layer's part; a '/' in
 * front for the top of the files: no prefix, no layer. Names without ".weight" are tried too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/catalogue.h"

enum role {
    /* once */
    ROLE_EMBEDDING,
    ROLE_HEAD,
    ROLE_FINAL_NORM,
    ROLE_ROPE_FREQUENCIES,
    ROLE_ROPE_FACTORS_SHORT,
    ROLE_ROPE_FACTORS_LONG,
    ROLE_LAYER_INPUT_EMBEDDING,  /* [vocab][layers * size]: a second embedding, a piece of it for each layer (gemma4) */
    ROLE_LAYER_INPUT_PROJECTION, /* [layers * size][hidden] */
    ROLE_LAYER_INPUT_NORM,
    /* per layer */
    ROLE_ATTENTION_NORM,
    ROLE_ATTENTION_POST_NORM,
    ROLE_Q,
    ROLE_K,
    ROLE_V,
    ROLE_QKV,
    ROLE_ATTENTION_OUT,
    ROLE_ATTENTION_GATE, /* its sigmoid multiplies what attention gives, element by element or head by head */
    ROLE_Q_NORM,
    ROLE_K_NORM,
    ROLE_SINKS,
    ROLE_Q_A, /* latent attention: q through a narrow vector, */
    ROLE_Q_A_NORM,
    ROLE_Q_B,
    ROLE_KV_A, /* the latent that keys and values are made of, and the rotated part of the key, */
    ROLE_KV_A_NORM,
    ROLE_KV_B,    /* keys and values of all heads from the latent, or its two halves: */
    ROLE_K_B,     /* [heads][latent][key], transposed */
    ROLE_V_B,     /* [heads][value][latent] */
    ROLE_INDEX_Q, /* sparse index */
    ROLE_INDEX_K,
    ROLE_INDEX_K_NORM,
    ROLE_INDEX_WEIGHTS,
    ROLE_RECURRENT_IN, /* linear attention, state space: all inputs in one, in an order of the block's own; */
    ROLE_RECURRENT_CONV,
    ROLE_RECURRENT_RATE, /* [heads]: GGUF: -exp(what config.json's world holds) */
    ROLE_RECURRENT_RATE_BIAS,
    ROLE_RECURRENT_SKIP, /* [heads]: how much of its input is added to a head's output */
    ROLE_SPACE_INPUTS, /* state space with a rate for each element: the narrow step, B and C from x; norms of the three; the step widened */
    ROLE_SPACE_STEP_NORM,
    ROLE_SPACE_B_NORM,
    ROLE_SPACE_C_NORM,
    ROLE_SPACE_STEP,
    ROLE_RECURRENT_NORM,
    ROLE_RECURRENT_OUT,
    ROLE_DELTA_QKV, /* gated delta net: inputs of the convolution, */
    ROLE_DELTA_Z,   /* output gate, */
    ROLE_DELTA_B,   /* how much is stored, how fast it fades, */
    ROLE_DELTA_A,
    ROLE_DELTA_BA,     /* both, key head by key head */
    ROLE_DELTA_CONV_Q, /* delta attention: a convolution for each of q, k and v, */
    ROLE_DELTA_CONV_K,
    ROLE_DELTA_CONV_V,
    ROLE_DELTA_DECAY_IN, /* decay, */
    ROLE_DELTA_DECAY_OUT,
    ROLE_DELTA_GATE_IN, /* output gate */
    ROLE_DELTA_GATE_OUT,
    ROLE_STEADY_NORM, /* steady attention: before its output gate; it has q, k, v and a gate as attention has */
    ROLE_CONV_IN,     /* short convolution in the place of attention: two gates and x, */
    ROLE_CONV,
    ROLE_CONV_OUT,
    ROLE_FFN_NORM,
    ROLE_FFN_POST_NORM,
    ROLE_FFN_GATE,
    ROLE_FFN_UP,
    ROLE_FFN_GATE_UP,
    ROLE_FFN_DOWN,
    ROLE_ROUTER,
    ROLE_ROUTER_BIAS,
    ROLE_EXPERT_GATE,
    ROLE_EXPERT_UP,
    ROLE_EXPERT_GATE_UP,
    ROLE_EXPERT_DOWN,
    ROLE_SHARED_GATE,
    ROLE_SHARED_UP,
    ROLE_SHARED_GATE_UP,
    ROLE_SHARED_DOWN,
    ROLE_SHARED_SCALE,       /* [1][hidden]: sigmoid of its product scales the shared expert */
    ROLE_ROUTER_INPUT_SCALE, /* weight of a norm for the router's input */
    ROLE_EXPERT_SCALE,       /* [experts]: multiplies the router's weights */
    ROLE_EXPERT_LATENT_IN,   /* experts that work on a narrower vector: to it and back */
    ROLE_EXPERT_LATENT_OUT,
    ROLE_EXPERT_NORM,        /* norm before the experts that run beside a dense feed-forward, */
    ROLE_FFN_BRANCH_NORM,    /* after that feed-forward, */
    ROLE_EXPERT_BRANCH_NORM, /* and after the experts */
    ROLE_LAYER_INPUT_GATE,
    ROLE_LAYER_INPUT_OUT,
    ROLE_LAYER_INPUT_POST_NORM,
    ROLE_LAYER_SCALE,  /* [1]: multiplies x at the end of the layer */
    ROLE_GATE_ALPHA_P, /* parameters of the activation (xielu) */
    ROLE_GATE_ALPHA_N,
    ROLE_GATE_BETA,
    ROLE_GATE_EPSILON,
    /* drafters (plan_draft.h) */
    ROLE_DRAFT_TOKEN_NORM, /* what the projection reads: the token's embedding and the target's features, each normalised or not, */
    ROLE_DRAFT_HIDDEN_NORM,
    ROLE_DRAFT_PROJECTION,
    ROLE_DRAFT_EMBEDDING, /* tables of its own, where it does not use the target's, */
    ROLE_DRAFT_HEAD,
    ROLE_DRAFT_NORM,
    ROLE_DRAFT_OUT,            /* what makes features for its own next row, */
    ROLE_DRAFT_TOKENS,         /* [vocab]: id of the target less the own one, */
    ROLE_DRAFT_CLUSTERS,       /* and a head that looks at the likeliest clusters of tokens only: [clusters][hidden], */
    ROLE_DRAFT_CLUSTER_TOKENS, /* [vocab] ids, cluster by cluster */
    ROLE_COUNT,
};

#define ROLE_HF_NAMES 6

struct role_override {
    enum role role;
    const char *gguf;              /* NULL: as in the table */
    const char *hf[ROLE_HF_NAMES]; /* hf[0] NULL: as in the table */
};
#define ROLE_END                   \
    {                              \
        ROLE_COUNT, NULL, { NULL } \
    }

const char *role_name(enum role role); /* neutral, for plans and messages: GGUF's word */
bool role_is_per_layer(enum role role);

struct role_names {
    const struct catalogue *catalogue;
    const struct role_override *overrides; /* or NULL */
    char prefix[64];                       /* Hugging Face: "model." */
    char layers[80]; /* what stands before a layer's number: "model.layers."; with one_layer in its place: "midlayer." */
    bool one_layer;
    uint32_t parts; /* PARAM_LAYER_PARTS: layer l is part l % parts of the files' layer l / parts; 0: as 1 */
};

/* Finds the prefix. STATUS_NOT_FOUND: no embedding table, with the names that were tried. */
MUST_CHECK enum status role_names_init(struct role_names *names, const struct catalogue *catalogue, const struct role_override *overrides,
                                       uint32_t parts, struct error *err);

/*
 * Finds a role's tensor: layer is ignored for roles that are there once, expert < 0 means no expert index. suffix ".weight" also matches
 * names without suffix; ".bias", ".scales" and so on must match. NULL: none.
 */
const struct tensor_entry *role_find(const struct role_names *names, enum role role, uint32_t layer, int64_t expert, const char *suffix);
/* The first name that one expert's matrix may have, without suffix. False: experts of this role are only known stacked. */
bool role_single_name(const struct role_names *names, enum role role, uint32_t layer, uint32_t expert, char *buffer, size_t buffer_bytes);
/* The first name that would be looked for, for messages. */
const char *role_wanted_name(const struct role_names *names, enum role role, uint32_t layer, char *buffer, size_t buffer_bytes);
