/*
 * gate_options: the activation of a layer and its numbers: a family's constants, keys of the file, or small tensors of the layer (xielu).
 */
#include "base/check.h"
#include "base/math_f64.h"
#include "model/block.h"

/* ln(1 + e^x), as the checkpoint's own code has it for its two slopes. */
static double softplus(double x) { return x > 20 ? x : math_log_f64(1 + math_exp_f64(x)); }

/* One number of the layer: a tensor of one element, or an entry of a list in the metadata. */
static enum status layer_number(const struct layer_context *c, enum role role, const char *key, double *value, struct error *err) {
    struct binder *b = c->binder;
    if (catalogue_world(b->catalogue) == CATALOGUE_GGUF) {
        const struct meta_value *list = catalogue_meta(b->catalogue, key);
        if (list && (list->type == META_ARRAY ? meta_array_f64(list, c->layer, value) : meta_f64(list, value)))
            return STATUS_OK;
        return error_set(err, STATUS_CORRUPT, "%s: %s has no value for layer %u", catalogue_path(b->catalogue), key, c->layer);
    }
    uint32_t constant;
    const struct bind_vector_request request = {.role = role, .suffix = ".weight", .layer = c->layer, .size = 1};
    TRY(bind_vector(b, &request, &constant, err));
    *value = constant == PLAN_NONE ? 0 : (double)plan_constant_data(b->plan, constant)[0];
    return STATUS_OK;
}

static enum status read_xielu(const struct layer_context *c, struct op *op, struct error *err) {
    double alpha_p, alpha_n, beta, epsilon;
    TRY(layer_number(c, ROLE_GATE_ALPHA_P, "xielu.alpha_p", &alpha_p, err));
    TRY(layer_number(c, ROLE_GATE_ALPHA_N, "xielu.alpha_n", &alpha_n, err));
    TRY(layer_number(c, ROLE_GATE_BETA, "xielu.beta", &beta, err));
    TRY(layer_number(c, ROLE_GATE_EPSILON, "xielu.eps", &epsilon, err));
    op->gate.a = (float)softplus(alpha_p);
    op->gate.b = (float)(beta + softplus(alpha_n));
    op->gate.c = (float)beta;
    op->gate.d = (float)epsilon;
    return STATUS_OK;
}

/* Limits by layer, of experts and of other feed-forwards; without one, or 0, nothing is clamped. */
static void read_limit(const struct layer_context *c, bool of_experts, struct op *op) {
    double limit = 0;
    bool gguf = catalogue_world(c->binder->catalogue) == CATALOGUE_GGUF;
    const char *key = of_experts ? (gguf ? "swiglu_clamp_exp" : "swiglu_limits") : (gguf ? "swiglu_clamp_shexp" : "swiglu_limits_shared");
    const struct meta_value *list = params_meta(c->binder->params, c->binder->catalogue, key);
    if (!list || !(list->type == META_ARRAY ? meta_array_f64(list, c->layer, &limit) : meta_f64(list, &limit)))
        limit = 0;
    op->gate.gate = limit > 0 ? GATE_SILU_CLAMPED : GATE_SILU;
    op->gate.b = (float)limit;
}

/* Families whose gelu is exact have members whose config.json asks for the other form. */
static bool says_tanh(const struct binder *b) {
    static const char *const keys[] = {"hidden_act", "activation"};
    struct text name;
    for (size_t i = 0; catalogue_world(b->catalogue) == CATALOGUE_HF && i < sizeof keys / sizeof *keys; i++)
        if (meta_text(params_meta(b->params, b->catalogue, keys[i]), &name) && !text_is(name, "gelu"))
            return true;
    return false;
}

enum status block_gate_options(const struct layer_context *c, bool of_experts, struct op *op, struct error *err) {
    const struct binder *b = c->binder;
    CHECK(op->kind == OP_GATE);
    op->gate.gate = b->arch->gate;
    if (b->arch->gate == GATE_GELU_ERF && says_tanh(b))
        op->gate.gate = GATE_GELU_TANH;
    if (b->arch->gate == GATE_XIELU)
        return read_xielu(c, op, err);
    if (b->arch->gate == GATE_SILU_CLAMPED)
        read_limit(c, of_experts, op);
    if (b->arch->gate == GATE_SWIGLU_CLAMPED) {
        op->gate.a = (float)params_f64(b->params, PARAM_GATE_ALPHA, c->layer);
        op->gate.b = (float)params_f64(b->params, PARAM_GATE_LIMIT, c->layer);
    }
    return STATUS_OK;
}
