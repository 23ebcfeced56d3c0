/*
 * block_ffn: feed-forward: down(act(gate x) * up x), or down(act(up x)) in families without a gate. Gate and up lie apart, fused in one
 * tensor, or both in the tensor called up (GGUF of phi3 and glm). The width is the one of the tensors; metadata counts only where rows
 * cannot be seen. Shared experts are the same network under other names.
 */
#include "base/check.h"
#include "model/block.h"

static enum status read_width(const struct layer_context *c, const struct ffn_roles *roles, bool *up_holds_both, uint32_t *width,
                              struct error *err) {
    const struct binder *b = c->binder;
    uint64_t up = bind_rows(b, roles->up, c->layer), fused = bind_rows(b, roles->gate_up, c->layer);
    *up_holds_both = !b->arch->gateless && up > 0 && fused == 0 && bind_rows(b, roles->gate, c->layer) == 0;
    uint64_t rows = fused ? fused / 2 : *up_holds_both ? up / 2 : up;
    if (rows == 0 && params_has(b->params, roles->width))
        rows = params_u32(b->params, roles->width, c->layer);
    if (rows == 0)
        TRY(params_need(b->params, b->catalogue, roles->width, err));
    if (rows == 0 || rows > 1u << 24)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u has a feed-forward width of %llu", catalogue_path(b->catalogue), c->layer,
                         (unsigned long long)rows);
    *width = (uint32_t)rows;
    return STATUS_OK;
}

static enum status bind_outputs(const struct layer_context *c, const struct bind_matrix_request *requests, uint32_t count,
                                struct plan_step *step, struct error *err) {
    for (uint32_t i = 0; i < count; i++) {
        TRY(bind_matrix(c->binder, &requests[i], &step->weight[i], err));
        TRY(bind_bias(c->binder, &requests[i], &step->constant[i], err));
    }
    step->op.matmul.outputs = count;
    return STATUS_OK;
}

enum status block_ffn_named(const struct layer_context *c, const struct ffn_roles *roles, uint32_t in, uint32_t *out, struct error *err) {
    struct plan *plan = c->binder->plan;
    uint32_t width = 0, gate, up;
    bool both, gateless = c->binder->arch->gateless;
    TRY(read_width(c, roles, &both, &width, err));
    enum role fused = both ? roles->up : roles->gate_up;
    const struct bind_matrix_request up_request = {.role = roles->up,
                                                   .layer = c->layer,
                                                   .rows = width,
                                                   .cols = c->hidden,
                                                   .fused = gateless ? ROLE_COUNT : fused,
                                                   .fused_first_row = width,
                                                   .fused_rows = 2ull * width};
    struct bind_matrix_request inputs[2] = {up_request, up_request};
    inputs[0].role = gateless ? roles->up : roles->gate;
    inputs[0].fused_first_row = 0;
    const struct bind_matrix_request down_request = {
        .role = roles->down, .layer = c->layer, .rows = c->hidden, .cols = width, .fused = ROLE_COUNT};
    struct plan_step first = plan_step_of(OP_MATMUL, (int32_t)c->layer), act = plan_step_of(OP_GATE, (int32_t)c->layer),
                     down = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    TRY(plan_add_buffer(plan, gateless ? "ffn_up" : "ffn_gate", width, &gate, err));
    TRY(bind_outputs(c, inputs, gateless ? 1 : 2, &first, err));
    first.in[0] = in;
    first.out[0] = gate;
    if (!gateless) {
        TRY(plan_add_buffer(plan, "ffn_up", width, &up, err));
        first.out[1] = act.in[1] = up;
    }
    TRY(plan_add_step(plan, &first, err));
    TRY(block_scale(c, gate, params_factor(c->binder->params, c->binder->catalogue, "mlp_multipliers", 0), err));
    TRY(block_gate_options(c, false, &act.op, err));
    act.in[0] = act.out[0] = gate;
    TRY(plan_add_step(plan, &act, err));
    TRY(bind_outputs(c, &down_request, 1, &down, err));
    TRY(plan_add_buffer(plan, "ffn_out", c->hidden, out, err));
    down.in[0] = gate;
    down.out[0] = *out;
    TRY(plan_add_step(plan, &down, err));
    return block_scale(c, *out, params_factor(c->binder->params, c->binder->catalogue, "mlp_multipliers", 1), err);
}

enum status block_ffn(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    static const struct ffn_roles roles = {ROLE_FFN_GATE, ROLE_FFN_UP, ROLE_FFN_GATE_UP, ROLE_FFN_DOWN, PARAM_FFN_HIDDEN};
    return block_ffn_named(c, &roles, in, out, err);
}
