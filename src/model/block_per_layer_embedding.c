/*
 * block_per_layer_embedding: a second, narrow embedding of every token with a piece for each layer. Once per pass the pieces are mixed
 * with a projection of the first embedding; each layer then adds out(act(gate x) * piece) to x after its feed-forward.
 *
 * The table is as tall as the vocabulary and as wide as all layers' pieces together, larger than the rest of a small model; only the rows
 * of a pass's tokens are read, so that it may stay on disk.
 */
#include <math.h>

#include "base/check.h"
#include "model/block.h"

static enum status emit_scale(struct plan *plan, uint32_t buffer, double factor, struct error *err) {
    struct plan_step step = plan_step_of(OP_SCALE, -1);
    step.op.scale.factor = (float)factor;
    step.out[0] = buffer;
    return plan_add_step(plan, &step, err);
}

static enum status emit_table(const struct layer_context *c, uint64_t vocab, uint32_t width, uint32_t size, uint32_t *out,
                              struct error *err) {
    struct binder *b = c->binder;
    uint64_t rows = bind_rows(b, ROLE_LAYER_INPUT_EMBEDDING, 0);
    struct plan_step embed = plan_step_of(OP_EMBED, -1);
    struct bind_matrix_request request = {.role = ROLE_LAYER_INPUT_EMBEDDING, .rows = rows, .cols = width, .fused = ROLE_COUNT};
    if (rows > 0 && rows < vocab)
        return error_set(err, STATUS_UNSUPPORTED, "%s: the per-layer embedding has %llu rows for a vocabulary of %llu",
                         catalogue_path(b->catalogue), (unsigned long long)rows, (unsigned long long)vocab);
    TRY(bind_matrix(b, &request, &embed.weight[0], err));
    if (embed.weight[0] != PLAN_NONE)
        b->plan->weights[embed.weight[0]].rows_only = true;
    TRY(plan_add_buffer(b->plan, "layer_inputs", width, out, err));
    embed.op.embed.scale = (float)sqrt(size);
    embed.out[0] = *out;
    return plan_add_step(b->plan, &embed, err);
}

enum status block_layer_inputs(const struct layer_context *c, uint64_t vocab, uint32_t embedded, uint32_t *out, struct error *err) {
    struct binder *b = c->binder;
    uint32_t size = params_u32(b->params, PARAM_LAYER_INPUT, 0), layers = b->params->layers, projected, weight;
    CHECK(size > 0);
    struct plan_step project = plan_step_of(OP_MATMUL, -1), add = plan_step_of(OP_ADD, -1);
    const struct bind_matrix_request request = {
        .role = ROLE_LAYER_INPUT_PROJECTION, .rows = (uint64_t)layers * size, .cols = c->hidden, .fused = ROLE_COUNT};
    const struct bind_vector_request norm = {.role = ROLE_LAYER_INPUT_NORM, .suffix = ".weight", .size = size};
    TRY(bind_matrix(b, &request, &project.weight[0], err));
    TRY(plan_add_buffer(b->plan, "layer_inputs_projected", layers * size, &projected, err));
    project.op.matmul.outputs = 1;
    project.in[0] = embedded;
    project.out[0] = projected;
    TRY(plan_add_step(b->plan, &project, err));
    TRY(emit_scale(b->plan, projected, 1 / sqrt(c->hidden), err));
    TRY(bind_vector(b, &norm, &weight, err));
    TRY(block_norm(c, projected, projected, weight, PLAN_NONE, layers, size, err));
    TRY(emit_table(c, vocab, layers * size, size, out, err));
    add.in[0] = projected;
    add.out[0] = *out;
    TRY(plan_add_step(b->plan, &add, err));
    return emit_scale(b->plan, *out, sqrt(0.5), err);
}

enum status block_layer_input(const struct layer_context *c, uint32_t inputs, uint32_t *out, struct error *err) {
    struct binder *b = c->binder;
    uint32_t size = params_u32(b->params, PARAM_LAYER_INPUT, 0), gated;
    struct plan_step gate = plan_step_of(OP_MATMUL, (int32_t)c->layer), act = plan_step_of(OP_GATE, (int32_t)c->layer),
                     project = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    const struct bind_matrix_request gate_request = {
        .role = ROLE_LAYER_INPUT_GATE, .layer = c->layer, .rows = size, .cols = c->hidden, .fused = ROLE_COUNT};
    const struct bind_matrix_request out_request = {
        .role = ROLE_LAYER_INPUT_OUT, .layer = c->layer, .rows = c->hidden, .cols = size, .fused = ROLE_COUNT};
    TRY(bind_matrix(b, &gate_request, &gate.weight[0], err));
    TRY(bind_matrix(b, &out_request, &project.weight[0], err));
    TRY(plan_add_buffer(b->plan, "layer_input_gate", size, &gated, err));
    gate.op.matmul.outputs = project.op.matmul.outputs = 1;
    gate.in[0] = c->residual;
    gate.out[0] = gated;
    TRY(plan_add_step(b->plan, &gate, err));
    TRY(block_gate_options(c, false, &act.op, err));
    act.op.gate.u_offset = c->layer * size;
    act.in[0] = act.out[0] = gated;
    act.in[1] = inputs;
    TRY(plan_add_step(b->plan, &act, err));
    TRY(plan_add_buffer(b->plan, "layer_input_out", c->hidden, out, err));
    project.in[0] = gated;
    project.out[0] = *out;
    return plan_add_step(b->plan, &project, err);
}
