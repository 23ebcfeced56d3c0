/*
 * block_steady_attention: linear attention whose decays are fixed numbers (lightning attention): a series by head, as the slopes of ALiBi,
 * weaker from layer to layer.
 */
#include <math.h>

#include "base/check.h"
#include "base/math_f64.h"
#include "base/memory.h"
#include "model/block.h"

/*
 * 2 to the power of -8 (i + 1) / heads. Without `even`, heads that are no power of two have the series of the power below, and take every
 * other one of the next longer series for the rest.
 */
static double slope(uint32_t heads, uint32_t head, bool even) {
    uint32_t power = even ? heads : 1;
    while (2 * power <= heads)
        power *= 2;
    double place = head < power ? (head + 1.0) / power : (2.0 * (head - power) + 1) / (2.0 * power);
    return math_pow_f64(2, -8 * place);
}

static enum status bind_decays(const struct layer_context *c, uint32_t heads, uint32_t *constant, struct error *err) {
    struct binder *b = c->binder;
    bool even = b->arch->steady_even_slopes;
    uint32_t first = b->arch->steady_first_layer, last = b->params->layers > 1 ? b->params->layers - 1 : 1;
    double layer = c->layer > first ? c->layer - first : 0, factor = 1 - layer / (even ? last + 1e-5 : last) + 1e-5;
    float *decays = memory_alloc_array(heads, sizeof *decays);
    if (!decays)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the decays of %u heads", heads);
    for (uint32_t h = 0; h < heads; h++)
        decays[h] = (float)math_exp_f64(-slope(heads, h, even) * factor);
    enum status status = plan_add_constant(b->plan, decays, heads, constant, err);
    memory_free(decays);
    return status;
}

/* RMS norm of each group alone, then all weights at once. */
static enum status emit_group_norm(const struct layer_context *c, uint32_t buffer, uint32_t width, struct error *err) {
    struct binder *b = c->binder;
    uint32_t groups = params_u32(b->params, PARAM_NORM_GROUPS, 0);
    const struct bind_vector_request request = {.role = ROLE_STEADY_NORM, .suffix = ".weight", .layer = c->layer, .size = width};
    struct plan_step scale = plan_step_of(OP_SCALE_VECTOR, (int32_t)c->layer);
    if (groups == 0 || width % groups != 0)
        return error_set(err, STATUS_CORRUPT, "%s: %u elements do not divide into %u groups (group_norm_size)",
                         catalogue_path(b->catalogue), width, groups);
    TRY(block_norm(c, buffer, buffer, PLAN_NONE, PLAN_NONE, groups, width / groups, err));
    b->plan->steps[b->plan->step_count - 1].op.norm.epsilon = block_recurrent_epsilon(c);
    TRY(bind_vector(b, &request, &scale.constant[0], err));
    scale.out[0] = buffer;
    return plan_add_step(b->plan, &scale, err);
}

enum status block_steady_memory(const struct layer_context *c, uint32_t heads, uint32_t head_dim, const uint32_t qkv[3], uint32_t *out,
                                struct error *err) {
    struct plan *plan = c->binder->plan;
    uint32_t width = heads * head_dim;
    bool activates = c->binder->arch->steady_activates;
    struct plan_step step = plan_step_of(OP_DELTA_RULE, (int32_t)c->layer), act = plan_step_of(OP_GATE, (int32_t)c->layer);
    const struct plan_state memory = {.kind = STATE_RECURRENT, .layer = (int32_t)c->layer, .floats = (uint64_t)width * head_dim};
    TRY(plan_add_buffer(plan, "qkv", 3 * width, &step.in[0], err));
    for (uint32_t i = 0; i < 3; i++) {
        struct plan_step copy = plan_step_of(OP_COPY_HEADS, (int32_t)c->layer);
        copy.op.copy_heads.heads = 1;
        copy.op.copy_heads.size = copy.op.copy_heads.in_stride = width;
        copy.op.copy_heads.out_stride = 3 * width;
        copy.op.copy_heads.out_offset = i * width;
        copy.in[0] = qkv[i];
        copy.out[0] = step.in[0];
        TRY(plan_add_step(plan, &copy, err));
    }
    if (activates) {
        act.op.gate.gate = GATE_SILU;
        act.in[0] = act.out[0] = step.in[0];
        TRY(plan_add_step(plan, &act, err));
    }
    TRY(plan_add_state(plan, &memory, &step.op.delta_rule.state, err));
    step.op.delta_rule.heads = step.op.delta_rule.key_heads = step.op.delta_rule.gate_group = heads;
    step.op.delta_rule.key_dim = step.op.delta_rule.value_dim = head_dim;
    step.op.delta_rule.k_offset = width;
    step.op.delta_rule.v_offset = 2 * width;
    step.op.delta_rule.steady = true;
    step.op.delta_rule.scale = activates ? 1 : (float)(1 / sqrt(head_dim));
    TRY(bind_decays(c, heads, &step.constant[0], err));
    TRY(plan_add_buffer(plan, "mixed", width, out, err));
    step.out[0] = *out;
    TRY(plan_add_step(plan, &step, err));
    return emit_group_norm(c, *out, width, err);
}
