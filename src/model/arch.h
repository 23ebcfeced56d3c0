/*
 * arch: a model family as data: which names it goes by, what differs from the usual rules, which blocks its layers are made of.
 *
 * A family made of known blocks is one file in arch/ with one row, one line in arch_list.inc and one reference model
 * (docs/ADD_A_MODEL.md). If a row would need an `if`, it is a new block. Biases are used where the tensors exist; the width of a
 * q/k norm's weight says whether it works per head or on the whole row.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "dtype/function_kind.h"
#include "model/param.h"
#include "model/role.h"
#include "op/op.h"

enum layer_pattern {
    PATTERN_ALL_FULL,  /* every layer sees everything, whatever the file says of windows */
    PATTERN_FROM_FILE, /* layer types or a pattern in the file; else by window_period; else a window, if given, in all layers */
};

enum window_flag {
    WINDOW_BY_PERIOD,       /* not asked: every layer but those of window_period */
    WINDOW_FLAG_UP,         /* with the flag, layers from max_window_layers on (qwen2) */
    WINDOW_FLAG_EVEN_BELOW, /* with the flag, every other layer below it (qwen2_moe) */
    WINDOW_FLAG_ALL,        /* with the flag (qwen3_moe) */
    WINDOW_FLAG_STILL,      /* with the flag, layers that do not rotate (smollm3) */
    WINDOW_UP,              /* layers from max_window_layers on (dots1) */
    WINDOW_LISTED,          /* only a list gives windows (mellum) */
};

enum norm_place {
    NORM_BEFORE,           /* x += f(norm(x)) */
    NORM_BEFORE_AND_AFTER, /* x += norm(f(norm(x))): gemma */
    NORM_AFTER,            /* x += norm(f(x)): olmo2 */
    NORM_BEFORE_OR_AFTER,  /* before in layers that have such a norm, else after: olmo_hybrid */
    NORM_CARRIED,          /* x = norm(x), then x = a x + b f(x): minimax */
};

struct arch_spec {
    const char *name;                    /* ours: "qwen3_moe" */
    const char *const *gguf;             /* general.architecture values, NULL-terminated, or NULL */
    const char *const *model_types;      /* config.json model_type, NULL-terminated */
    const char *const *architectures;    /* config.json architectures[0], NULL-terminated, tried after model_type */
    const struct param_override *params; /* or NULL */
    const struct role_override *roles;   /* or NULL */
    const char *const *hf_refused; /* keys of config.json that make another network unless null, false or 0; NULL-terminated, or NULL */

    enum norm_kind norm;
    enum norm_place norm_place;
    bool hf_norms_add_one; /* the files of the Hugging Face world store w - 1 (gemma); bind_norm_adds_one */
    bool one_sublayer;     /* a layer is attention, a recurrence or a feed-forward behind one norm (nemotron_h) */
    bool parallel_blocks; /* attention and feed-forward read the same x; the sum of both is added to it, unless the file says no (cohere) */

    bool q_norm, k_norm;                 /* required, before rope */
    bool qk_norm_after_rope;             /* both, when they are there */
    bool qk_norm_unweighted;             /* after rope, without a weight, in layers that rotate, unless use_qk_norm is false (llama 4) */
    bool latents_scaled;                 /* latent attention: q and latents of width n are multiplied by sqrt(hidden / n) (longcat) */
    bool v_norm;                         /* values are normalised per head, without a weight; k also serves as v where there is no v */
    bool head_sizes_from_rows;           /* head sizes and numbers of key heads differ between layers: rows of q, k and v say them */
    bool heads_from_rows;                /* numbers of heads differ between layers: rows of q and k say them, by the one head size */
    bool hf_qkv_by_group;                /* q, k, v in one tensor: each key head's queries, its key, its value, then the next key head's;
                                            config.json's world, layers with steady attention in both */
    bool gguf_interleaved_qk;            /* GGUF stores q and k rows as neighbouring pairs (converter of llama): undone after the product */
    bool rope_pairs_gguf, rope_pairs_hf; /* rotates neighbours, else halves */
    bool gguf_value_heads_tiled;         /* linear attention: GGUF's converter moved value heads: head h reads key head h % key heads */
    enum layer_pattern pattern;
    bool windows_are_chunks;      /* a window layer sees the positions of its own chunk of that length, not the last ones (llama 4) */
    uint32_t window_period;       /* with PATTERN_FROM_FILE and no list in the file: every n-th layer is full, the others have the window */
    bool first_layer_full;        /* the first layer is full whatever the period (mimo_v2_flash) */
    enum window_flag window_flag; /* config.json without a list: how use_sliding_window and max_window_layers say which layers have it */
    bool gguf_ignores_window;     /* GGUF of this family has no window even if the checkpoint has one */
    double rope_theta, rope_window_theta; /* 0: usual */
    double rope_partial;                  /* rotated part of a head when config.json does not say; 0: all */
    double rope_proportional; /* config.json that says nothing of it: this part of the pairs turns in full layers (gemma4); 0: all */
    double gguf_full_rope;    /* GGUF: rotated part of a head in full layers, which its files do not say; 0: as they say */
    uint32_t gguf_yarn_unrounded_context; /* struct rope_request, unrounded_context */
    bool window_rope_unscaled;            /* a rope scaling that is given once holds in full layers only (gemma3) */
    bool rope_in_window_layers_only;      /* as soon as there are window layers, the full ones do not rotate (cohere2) */
    bool temperature_in_still_layers;     /* queries grow with the position only in layers that do not rotate, counted from 1 (llama 4) */
    bool hf_rope_must_be_named;           /* config.json: rotates only with position_embedding_type "rope" (granite hybrid) */
    bool gguf_finetuned_is_rope;          /* GGUF: rope.scaling.finetuned false means that nothing rotates (granite) */
    uint32_t rope_free_period;            /* every n-th layer does not rotate unless the file lists which; 0: all rotate */

    uint32_t steady_first_layer;    /* steady attention: decays become weaker from this layer on */
    bool steady_activates;          /* steady attention: q, k and v go through silu, and nothing is rotated or scaled (minimax) */
    bool steady_even_slopes;        /* steady attention: the decays of any number of heads are one series (minimax) */
    bool state_space_norm_optional; /* the norm after a state space's gate is there or not, as the files have it (falcon_h1) */
    enum gate_kind gate;            /* feed-forward and experts */
    bool gateless;                  /* down(act(up x)) */
    enum router_score router;       /* unless the file says */
    bool router_scales_input;       /* an expert reads x times its weight instead of being added with it; one a token (llama 4) */
    bool hf_experts_transposed;     /* config.json world, stacked without .weight: [experts][in][out] */
    bool hf_gate_up_interleaved;    /* config.json world: rows of gate and up alternate in the fused tensor */
    bool shortcut_experts;          /* layers in two parts: experts read what the first part's feed-forward reads, and are added after the
                                       second (longcat) */
    bool experts_beside_ffn;        /* a layer with experts has a dense feed-forward too, both read x (gemma4) */
    bool logit_scale_divides;       /* granite */

    bool scale_embedding_by_sqrt_hidden; /* gemma */
    const char *hf_embedding_scale_flag; /* config.json: only when this key is true (afmoe), or NULL */
    bool query_scale_by_hidden_gguf_27b; /* gemma2, gemma3 27B in GGUF: 1 / sqrt(hidden / heads) */
};

/* All rows; *count tells how many. */
const struct arch_spec *const *arch_list(uint32_t *count);

/*
 * The row for a catalogue: by model_type first, then architectures; GGUF: general.architecture. *prefix gets what stands before its
 * metadata keys
 * ("text_config/", "qwen3."). STATUS_UNSUPPORTED names the architecture and the nearest supported ones.
 */
MUST_CHECK enum status arch_find(const struct catalogue *catalogue, const struct arch_spec **out, char *prefix, size_t prefix_bytes,
                                 struct error *err);
