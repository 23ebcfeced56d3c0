/*
 * block_experts: router and a mixture of gated experts, and the shared expert that every row has beside them.
 *
 * What the file says goes first: router score, groups, scale, renormalising; a bias for choosing only, a scale per expert, biases of the
 * experts and a gate of the shared expert are used where their tensors exist.
 */
#include "base/check.h"
#include "model/block.h"

/* ---- router ---- */

static enum router_score router_score(const struct binder *b) {
    struct text name;
    switch (params_u32(b->params, PARAM_ROUTER_SCORE, 0)) {
    case 1:
        return ROUTER_SOFTMAX;
    case 2:
        return ROUTER_SIGMOID;
    case 3:
        return ROUTER_SOFTMAX_CHOSEN;
    case 4:
        return ROUTER_SQRT_SOFTPLUS;
    default:
        break;
    }
    if (catalogue_world(b->catalogue) == CATALOGUE_HF && (meta_text(params_meta(b->params, b->catalogue, "scoring_func"), &name) ||
                                                          meta_text(params_meta(b->params, b->catalogue, "score_function"), &name) ||
                                                          meta_text(params_meta(b->params, b->catalogue, "score_func"), &name))) {
        if (text_is(name, "sigmoid"))
            return ROUTER_SIGMOID;
        if (text_is(name, "softmax"))
            return ROUTER_SOFTMAX;
        if (text_is(name, "sqrtsoftplus"))
            return ROUTER_SQRT_SOFTPLUS;
    }
    return b->arch->router;
}

/* A vector under "<name>.bias" or, as most of Hugging Face's, under its bare name. */
static enum status bind_router_bias(const struct layer_context *c, uint32_t experts, uint32_t *constant, struct error *err) {
    struct bind_vector_request request = {
        .role = ROLE_ROUTER_BIAS, .suffix = ".bias", .layer = c->layer, .size = experts, .optional = true};
    TRY(bind_vector(c->binder, &request, constant, err));
    if (*constant != PLAN_NONE)
        return STATUS_OK;
    request.suffix = ".weight";
    return bind_vector(c->binder, &request, constant, err);
}

static enum status read_groups(const struct layer_context *c, uint32_t experts, uint32_t top_k, struct op *op, struct error *err) {
    const struct binder *b = c->binder;
    uint32_t groups = params_u32(b->params, PARAM_EXPERT_GROUPS, 0), top = params_u32(b->params, PARAM_TOP_GROUPS, 0);
    struct text method;
    bool greedy = meta_text(params_meta(b->params, b->catalogue, "topk_method"), &method) && text_is(method, "greedy");
    if (groups <= 1 || top == 0 || top == groups || greedy)
        return STATUS_OK;
    if (experts % groups != 0 || top > groups || top_k > top * (experts / groups))
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: %u of %u experts from the best %u of %u groups cannot be",
                         catalogue_path(b->catalogue), c->layer, top_k, experts, top, groups);
    op->router.groups = groups;
    op->router.top_groups = top;
    op->router.group_score_count = op->router.score == ROUTER_SOFTMAX ? 1 : 2; /* deepseek_v2: the best member; later: the best two */
    return STATUS_OK;
}

static enum status emit_router(const struct layer_context *c, uint32_t in, uint32_t experts, uint32_t top_k, uint32_t *routing,
                               struct error *err) {
    struct binder *b = c->binder;
    uint32_t logits;
    TRY(plan_add_buffer(b->plan, "router_logits", experts, &logits, err));
    TRY(plan_add_buffer(b->plan, "routing", 2 * top_k, routing, err));
    struct plan_step product = plan_step_of(OP_MATMUL, (int32_t)c->layer), choose = plan_step_of(OP_ROUTER, (int32_t)c->layer);
    struct bind_matrix_request request = {.role = ROLE_ROUTER, .layer = c->layer, .rows = experts, .cols = c->hidden, .fused = ROLE_COUNT};
    product.op.matmul.outputs = 1;
    product.in[0] = in;
    product.out[0] = logits;
    TRY(bind_matrix(b, &request, &product.weight[0], err));
    TRY(bind_bias(b, &request, &product.constant[0], err));
    TRY(plan_add_step(b->plan, &product, err));
    choose.op.router.experts = experts;
    choose.op.router.top_k = top_k;
    choose.op.router.score = router_score(b);
    choose.op.router.renormalise = params_u32(b->params, PARAM_EXPERT_RENORMALISE, 0) != 0;
    choose.op.router.scale = (float)params_f64(b->params, PARAM_EXPERT_SCALE, 0);
    TRY(read_groups(c, experts, top_k, &choose.op, err));
    choose.in[0] = logits;
    choose.out[0] = *routing;
    TRY(bind_router_bias(c, experts, &choose.constant[0], err));
    struct bind_vector_request scale = {
        .role = ROLE_EXPERT_SCALE, .suffix = ".weight", .layer = c->layer, .size = experts, .optional = true};
    TRY(bind_vector(b, &scale, &choose.constant[1], err));
    return plan_add_step(b->plan, &choose, err);
}

/* ---- experts ---- */

static enum status read_expert_width(const struct layer_context *c, uint32_t *width, struct error *err) {
    const struct binder *b = c->binder;
    bool transposed = b->arch->hf_experts_transposed && catalogue_world(b->catalogue) == CATALOGUE_HF;
    uint64_t rows = transposed ? 0 : bind_rows(b, ROLE_EXPERT_UP, c->layer);
    if (rows == 0 && !transposed)
        rows = bind_rows(b, ROLE_EXPERT_GATE_UP, c->layer) / 2;
    if (rows == 0) {
        enum param param = params_has(b->params, PARAM_EXPERT_HIDDEN) ? PARAM_EXPERT_HIDDEN : PARAM_FFN_HIDDEN;
        TRY(params_need(b->params, b->catalogue, param, err));
        rows = params_u32(b->params, param, c->layer);
    }
    if (rows == 0 || rows > 1u << 20)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u has experts of width %llu", catalogue_path(b->catalogue), c->layer,
                         (unsigned long long)rows);
    *width = (uint32_t)rows;
    return STATUS_OK;
}

static enum status emit_experts(const struct layer_context *c, uint32_t in, uint32_t routing, uint32_t experts, uint32_t top_k,
                                uint32_t *out, struct error *err) {
    struct binder *b = c->binder;
    struct plan_step step = plan_step_of(OP_EXPERTS, (int32_t)c->layer), gate = plan_step_of(OP_GATE, (int32_t)c->layer);
    uint32_t width = 0;
    TRY(read_expert_width(c, &width, err));
    TRY(block_gate_options(c, true, &gate.op, err));
    TRY(plan_add_buffer(b->plan, "experts_out", c->hidden, out, err));
    step.op.experts.experts = experts;
    step.op.experts.zero_experts = params_u32(b->params, PARAM_ZERO_EXPERTS, 0);
    step.op.experts.top_k = top_k;
    step.op.experts.hidden = c->hidden;
    step.op.experts.expert_hidden = width;
    step.op.experts.gate = gate.op.gate.gate;
    step.op.experts.a = gate.op.gate.a;
    step.op.experts.b = gate.op.gate.b;
    step.op.experts.c = gate.op.gate.c;
    step.op.experts.d = gate.op.gate.d;
    step.in[0] = in;
    step.in[1] = routing;
    step.out[0] = *out;
    const struct bind_matrix_request up = {.role = ROLE_EXPERT_UP,
                                           .layer = c->layer,
                                           .rows = width,
                                           .cols = c->hidden,
                                           .fused = b->arch->gateless ? ROLE_COUNT : ROLE_EXPERT_GATE_UP,
                                           .fused_first_row = width,
                                           .fused_rows = 2ull * width};
    struct bind_matrix_request requests[3] = {
        up, up, {.role = ROLE_EXPERT_DOWN, .layer = c->layer, .rows = c->hidden, .cols = width, .fused = ROLE_COUNT}};
    requests[0].role = ROLE_EXPERT_GATE;
    requests[0].fused_first_row = 0;
    for (int i = b->arch->gateless ? 1 : 0; i < 3; i++) {
        TRY(bind_experts(b, &requests[i], experts, &step.weight[i], err));
        TRY(bind_expert_bias(b, &requests[i], experts, &step.constant[i], err));
    }
    b->plan->experts = experts > b->plan->experts ? experts : b->plan->experts;
    b->plan->top_k = top_k > b->plan->top_k ? top_k : b->plan->top_k;
    b->plan->expert_layers++;
    return plan_add_step(b->plan, &step, err);
}

/* Experts between two products of their own, on a vector that is narrower than the model's. */
static enum status emit_latent_experts(const struct layer_context *c, uint32_t in, uint32_t routing, uint32_t experts, uint32_t top_k,
                                       uint32_t *out, struct error *err) {
    struct layer_context narrow = *c;
    struct plan_step down = plan_step_of(OP_MATMUL, (int32_t)c->layer), up = plan_step_of(OP_MATMUL, (int32_t)c->layer);
    uint64_t width = bind_rows(c->binder, ROLE_EXPERT_LATENT_IN, c->layer);
    uint32_t latent;
    if (width > 1u << 20)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u has experts on a vector of %llu elements", catalogue_path(c->binder->catalogue),
                         c->layer, (unsigned long long)width);
    narrow.hidden = (uint32_t)width;
    down.in[0] = in;
    TRY(block_add_output(c, &down, ROLE_EXPERT_LATENT_IN, narrow.hidden, &latent, err));
    TRY(plan_add_step(c->binder->plan, &down, err));
    TRY(emit_experts(&narrow, latent, routing, experts, top_k, &up.in[0], err));
    TRY(block_add_output(c, &up, ROLE_EXPERT_LATENT_OUT, c->hidden, out, err));
    return plan_add_step(c->binder->plan, &up, err);
}

/* ---- shared expert ---- */

/* y += shared(x), or y += sigmoid(g x) shared(x) when there is such a gate. */
static enum status emit_shared(const struct layer_context *c, uint32_t in, uint32_t out, struct error *err) {
    static const struct ffn_roles roles = {ROLE_SHARED_GATE, ROLE_SHARED_UP, ROLE_SHARED_GATE_UP, ROLE_SHARED_DOWN, PARAM_SHARED_HIDDEN};
    struct binder *b = c->binder;
    uint32_t shared, scale;
    if (bind_rows(b, ROLE_SHARED_UP, c->layer) == 0 && bind_rows(b, ROLE_SHARED_GATE_UP, c->layer) == 0)
        return STATUS_OK;
    TRY(block_ffn_named(c, &roles, in, &shared, err));
    const struct bind_matrix_request request = {
        .role = ROLE_SHARED_SCALE, .layer = c->layer, .rows = 1, .cols = c->hidden, .fused = ROLE_COUNT, .optional = true};
    struct plan_step product = plan_step_of(OP_MATMUL, (int32_t)c->layer), add = plan_step_of(OP_ADD, (int32_t)c->layer);
    TRY(bind_matrix(b, &request, &product.weight[0], err));
    if (product.weight[0] != PLAN_NONE) {
        TRY(plan_add_buffer(b->plan, "shared_scale", 1, &scale, err));
        product.op.matmul.outputs = 1;
        product.in[0] = in;
        product.out[0] = scale;
        TRY(plan_add_step(b->plan, &product, err));
        add.op.kind = OP_ADD_GATED;
        add.in[1] = scale;
    }
    add.in[0] = shared;
    add.out[0] = out;
    return plan_add_step(b->plan, &add, err);
}

/* y += x times the weights of those experts whose output is their input. */
static enum status emit_zero_experts(const struct layer_context *c, uint32_t in, uint32_t routing, uint32_t experts, uint32_t top_k,
                                     uint32_t out, struct error *err) {
    struct plan_step step = plan_step_of(OP_ZERO_EXPERTS, (int32_t)c->layer);
    struct text type;
    const struct binder *b = c->binder;
    if (meta_text(params_meta(b->params, b->catalogue, "zero_expert_type"), &type) && !text_is(type, "identity"))
        return error_set(err, STATUS_UNSUPPORTED, "%s: zero_expert_type is '%.*s'; only 'identity' is supported",
                         catalogue_path(b->catalogue), (int)(type.size_bytes < 60 ? type.size_bytes : 60), type.data);
    step.op.zero_experts.experts = experts;
    step.op.zero_experts.top_k = top_k;
    step.in[0] = in;
    step.in[1] = routing;
    step.out[0] = out;
    return plan_add_step(c->binder->plan, &step, err);
}

/* The weight goes into the experts' input; they are then added with weight 1. */
static enum status emit_take_weight(const struct layer_context *c, uint32_t in, uint32_t *routing, uint32_t *scaled, struct error *err) {
    struct plan_step step = plan_step_of(OP_TAKE_WEIGHT, (int32_t)c->layer);
    step.in[0] = in;
    step.in[1] = *routing;
    TRY(plan_add_buffer(c->binder->plan, "expert_in", c->hidden, scaled, err));
    TRY(plan_add_buffer(c->binder->plan, "routing_one", 2, routing, err));
    step.out[0] = *scaled;
    step.out[1] = *routing;
    return plan_add_step(c->binder->plan, &step, err);
}

enum status block_experts_routed(const struct layer_context *c, uint32_t router_in, uint32_t in, uint32_t *out, struct error *err) {
    struct binder *b = c->binder;
    uint32_t zero = params_u32(b->params, PARAM_ZERO_EXPERTS, 0);
    uint32_t experts = params_u32(b->params, PARAM_EXPERTS, 0), top_k = params_u32(b->params, PARAM_TOP_K, c->layer), routing;
    if (top_k == 0 || top_k > experts)
        return error_set(err, STATUS_CORRUPT, "%s: layer %u: %u of %u experts for each token", catalogue_path(b->catalogue), c->layer,
                         top_k, experts);
    TRY(emit_router(c, router_in, experts + zero, top_k, &routing, err));
    if (b->arch->router_scales_input && top_k != 1)
        return error_set(err, STATUS_UNSUPPORTED, "%s: layer %u: experts that read scaled inputs are supported one a token, not %u",
                         catalogue_path(b->catalogue), c->layer, top_k);
    uint32_t expert_in = in;
    if (b->arch->router_scales_input)
        TRY(emit_take_weight(c, in, &routing, &expert_in, err));
    if (bind_rows(b, ROLE_EXPERT_LATENT_IN, c->layer) > 0)
        TRY(emit_latent_experts(c, expert_in, routing, experts, top_k, out, err));
    else
        TRY(emit_experts(c, expert_in, routing, experts, top_k, out, err));
    if (zero > 0)
        TRY(emit_zero_experts(c, in, routing, experts, top_k, *out, err));
    return emit_shared(c, in, *out, err);
}

enum status block_experts(const struct layer_context *c, uint32_t in, uint32_t *out, struct error *err) {
    return block_experts_routed(c, in, in, out, err);
}
