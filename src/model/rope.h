/*
 * rope: rotary position parameters from either file world -> inverse frequencies.
 *
 * Kinds    default, linear, llama3, yarn, longrope, dynamic, proportional (and per-frequency divisors stored as a tensor). Both the old
 *          fields of config.json (rope_theta, rope_scaling with type or rope_type) and rope_parameters, flat or one per layer type, are
 *          read.
 * Result   f64 inverse frequencies; the table of a position is cos and sin of position * inverse_frequency, rounded once to f32.
 * Long     longrope and dynamic rotate otherwise once a sequence is longer than the model was first trained for. Keys that are in the
 *          cache cannot be rotated again, so the choice is made for the whole context that was asked for, and never changes within it.
 * Sources  transformers' modeling_rope_utils (formulas), the YaRN paper (arXiv 2309.00071).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "model/param.h"

struct rope_spec {
    uint32_t half;               /* rotated pairs of a head */
    double *inverse_frequencies; /* [half], with long_context [2][half]; owned by whoever filled it */
    float magnitude;             /* multiplies cos and sin: YaRN's attention factor, else 1 */
    uint32_t long_context;       /* contexts longer than this take the second set; 0: there is none */
    uint32_t ntk_context;        /* dynamic: contexts longer than this stretch the base; 0: none does */
    double ntk_factor;
};

/* The frequencies for contexts of `context` positions. out: [half]. */
void rope_frequencies(const struct rope_spec *rope, uint32_t context, double *out);

enum rope_layer_kind { ROPE_FULL_LAYERS, ROPE_WINDOW_LAYERS };

struct rope_request {
    enum rope_layer_kind kind;
    uint32_t head_dim;
    uint32_t layer;              /* lists of one value for each layer are read at this place */
    double theta_initial;        /* when the file says nothing; 0: 10000 */
    double window_theta_initial; /* for window layers; 0: as full layers */
    bool whole;                  /* head_dim is the rotated part already, whatever a partial factor says */
    double partial_initial;      /* config.json: rotated part of a head when the file does not say; 0: all */
    double proportional_initial; /* config.json that says nothing at all: the scaling is "proportional", of this part; 0: none is */
    double gguf_full_partial;    /* GGUF: the same, of full layers, whatever the file says; 0: as it says */
    bool window_unscaled;        /* a scaling in GGUF or the old fields holds for full layers only (gemma3) */
    uint32_t unrounded_context;  /* GGUF cannot say that YaRN's ramp is not rounded: it is not in models first trained for this context */
    const float *divisors;       /* from a rope_freqs tensor, or NULL */
    const float *long_divisors;  /* from rope_factors_long, or NULL; as many */
    uint32_t divisor_count;      /* at least as many as are rotated (checked) */
};

/* Fills *out (its frequencies belong to the caller) for one kind of layer. STATUS_UNSUPPORTED: a scaling type that is not known. */
MUST_CHECK enum status rope_read(const struct params *params, const struct catalogue *catalogue, const struct rope_request *request,
                                 struct rope_spec *out, struct error *err);
