/*
 * block_ffn_and_experts: a dense feed-forward and a mixture side by side, each with norms of its own:
 * norm1(ffn(in)) + norm2(experts(norm(x))), where the experts and their router read x itself, not the normed input.
 */
#include <math.h>

#include "base/check.h"
#include "model/block.h"

static enum status emit_norm(const struct layer_context *c, enum role role, uint32_t in, uint32_t *out, struct error *err) {
    uint32_t weight;
    const struct bind_vector_request request = {.role = role, .suffix = ".weight", .layer = c->layer, .size = c->hidden};
    TRY(bind_vector(c->binder, &request, &weight, err));
    if (*out == PLAN_NONE)
        TRY(plan_add_buffer(c->binder->plan, "normed", c->hidden, out, err));
    return block_norm(c, in, *out, weight, PLAN_NONE, 1, c->hidden, err);
}

/* The router reads norm(x) * scale / sqrt(hidden). */
static enum status emit_router_input(const struct layer_context *c, uint32_t *out, struct error *err) {
    struct plan_step scale = plan_step_of(OP_SCALE, (int32_t)c->layer);
    TRY(emit_norm(c, ROLE_ROUTER_INPUT_SCALE, c->residual, out, err));
    scale.op.scale.factor = (float)(1 / sqrt(c->hidden));
    scale.out[0] = *out;
    return plan_add_step(c->binder->plan, &scale, err);
}

enum status block_ffn_and_experts(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    uint32_t router_in = PLAN_NONE, expert_in = PLAN_NONE, experts;
    CHECK(c->residual != PLAN_NONE);
    TRY(block_ffn(c, in, out, err));
    TRY(emit_norm(c, ROLE_FFN_BRANCH_NORM, *out, out, err));
    TRY(emit_router_input(c, &router_in, err));
    TRY(emit_norm(c, ROLE_EXPERT_NORM, c->residual, &expert_in, err));
    TRY(block_experts_routed(c, router_in, expert_in, &experts, err));
    TRY(emit_norm(c, ROLE_EXPERT_BRANCH_NORM, experts, &experts, err));
    struct plan_step add = plan_step_of(OP_ADD, (int32_t)c->layer);
    add.in[0] = experts;
    add.out[0] = *out;
    return plan_add_step(c->binder->plan, &add, err);
}
