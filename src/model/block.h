/*
 * block: the kinds of parts that layers are made of. Each emits steps into the plan; none knows a family.
 *
 * Every block reads a buffer of width hidden and gives a new one of width hidden; norms and residual sums belong to the layer
 * (plan_build.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/bind.h"

struct layer_context {
    struct binder *binder;
    uint32_t layer;
    bool window; /* this layer sees only the last `window` positions */
    uint32_t hidden;
    uint32_t rope_table; /* buffer with this layer's table, PLAN_NONE: no rotation */
    uint32_t rope_half;
    uint32_t residual;   /* buffer with x as it is before the block's norm */
    uint32_t kv_state;   /* an earlier layer's keys and values that this one reads; PLAN_NONE: it has its own */
    uint32_t *selection; /* sparse index: buffer with the last choice of positions, PLAN_NONE before the first */
};

/* Grouped-query attention with its norms, rotation and cache. */
MUST_CHECK enum status block_attention(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/*
 * What is in the place of scores and cache where decays are steady (lightning attention): each head's state fades by a factor of its own,
 * and k v is added to it. From q, k, v of all heads, each [heads * head_dim], to their normalised mix.
 */
MUST_CHECK enum status block_steady_memory(const struct layer_context *context, uint32_t heads, uint32_t head_dim, const uint32_t qkv[3],
                                           uint32_t *out, struct error *err);
/* Latent attention, with a sparse index if the model has one. */
MUST_CHECK enum status block_latent_attention(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/*
 * The positions that the layer's rows attend to: *selection, PLAN_NONE in models without an index. narrow_q: the latent that queries come
 * from.
 */
MUST_CHECK enum status block_sparse_index(const struct layer_context *context, uint32_t in, uint32_t narrow_q, uint32_t *selection,
                                          struct error *err);
/* Linear attention: gated delta net, with its convolution, norm and output gate. */
MUST_CHECK enum status block_linear_attention(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* Delta attention: the decay is one for each element of a key. */
MUST_CHECK enum status block_delta_attention(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* State space (Mamba 2), with its convolution, gate and norm; */
MUST_CHECK enum status block_state_space(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* State space whose rates differ from element to element (Mamba 1). */
MUST_CHECK enum status block_selective_space(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* side by side with attention: the sum of both. */
MUST_CHECK enum status block_attention_and_state_space(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* A gated short convolution in the place of attention. */
MUST_CHECK enum status block_short_conv(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* Feed-forward under the usual names, */
MUST_CHECK enum status block_ffn(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* and under others (shared experts). */
struct ffn_roles {
    enum role gate, up, gate_up, down;
    enum param width; /* where the tensors do not tell */
};
MUST_CHECK enum status block_ffn_named(const struct layer_context *context, const struct ffn_roles *roles, uint32_t in, uint32_t *out,
                                       struct error *err);
/* Router, mixture of experts, and the shared expert if there is one. */
MUST_CHECK enum status block_experts(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* The same where the router reads another buffer than the experts. */
MUST_CHECK enum status block_experts_routed(const struct layer_context *context, uint32_t router_in, uint32_t in, uint32_t *out,
                                            struct error *err);
/* A dense feed-forward and experts side by side. */
MUST_CHECK enum status block_ffn_and_experts(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);

/* Per-layer embeddings: the pieces of all layers, [layers * size], from the tokens and the first embedding; once per pass. */
MUST_CHECK enum status block_layer_inputs(const struct layer_context *context, uint64_t vocab, uint32_t embedded, uint32_t *out,
                                          struct error *err);
/* What a layer makes of x and its piece; reads context->residual. */
MUST_CHECK enum status block_layer_input(const struct layer_context *context, uint32_t inputs, uint32_t *out, struct error *err);

/* Shared by blocks: a step with one input, one output. */
MUST_CHECK enum status block_norm(const struct layer_context *context, uint32_t in, uint32_t out, uint32_t weight, uint32_t bias,
                                  uint32_t vectors, uint32_t size, struct error *err);
/* Adds an output to a product of step->in[0]: weight, bias if there is one, and a new buffer named after the role. */
MUST_CHECK enum status block_add_output(const struct layer_context *context, struct plan_step *step, enum role role, uint32_t rows,
                                        uint32_t *buffer, struct error *err);
/* Rotates a buffer in place by the layer's table; heads, head_dim, offset and pairs from options. Nothing in layers that do not rotate. */
MUST_CHECK enum status block_rope(const struct layer_context *context, const struct op *options, uint32_t buffer, struct error *err);
/* Completes a convolution and adds it: weights, bias and state of a role. Buffers, groups, parts and silu of *step are set. */
MUST_CHECK enum status block_convolve(const struct layer_context *context, enum role role, struct plan_step *step, struct error *err);
/* Constants 0 and 1 of a decay: rates of the heads, negative, as they are in GGUF and -exp of what config.json's world holds; biases. */
MUST_CHECK enum status block_bind_rates(const struct layer_context *context, uint32_t heads, uint32_t biases, struct plan_step *step,
                                        struct error *err);
/* The rates alone, so many. */
MUST_CHECK enum status block_bind_rate(const struct layer_context *context, uint64_t count, uint32_t *constant, struct error *err);
/* The first `vectors` vectors of a buffer are divided by their lengths, in place. */
MUST_CHECK enum status block_unit_lengths(const struct layer_context *context, uint32_t buffer, uint32_t vectors, uint32_t size,
                                          struct error *err);
/* Epsilon of the norm in a recurrent block. */
float block_recurrent_epsilon(const struct layer_context *context);
/* buffer = gate(gate_buffer) * norm(buffer), head by head, in place; the norm is a recurrent block's. */
struct head_gate {
    uint32_t heads, size;
    enum gate_kind gate;
    uint32_t gate_buffer;
};
MUST_CHECK enum status block_gated_norm(const struct layer_context *context, const struct head_gate *options, uint32_t buffer,
                                        struct error *err);
/* Scales queries by position where the model does. */
MUST_CHECK enum status block_query_temperature(const struct layer_context *context, uint32_t q, struct error *err);
/* The output product of attention: `in` -> a new buffer of width hidden. */
MUST_CHECK enum status block_attention_out(const struct layer_context *context, uint32_t in, uint32_t *out, struct error *err);
/* buffer *= factor; nothing for 1. */
MUST_CHECK enum status block_scale(const struct layer_context *context, uint32_t buffer, double factor, struct error *err);
/* Fills kind and numbers of an OP_GATE. */
MUST_CHECK enum status block_gate_options(const struct layer_context *context, bool of_experts, struct op *op, struct error *err);
/* Head dimension of a layer, by the file, by the rows of q, or hidden / heads. */
MUST_CHECK enum status block_head_dim(const struct binder *binder, uint32_t layer, uint32_t *head_dim, struct error *err);
