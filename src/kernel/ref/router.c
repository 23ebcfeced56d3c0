/*
 * router: scores, choice and weights of the experts of one row (docs/ARITHMETIC.md, section 10).
 */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "kernel/math.h"
#include "kernel/ref/lanes.h"
#include "kernel/ref/ref.h"

static void scores_of_logits(const struct router_args *args, float *score) {
    memcpy(score, args->logits, args->experts * sizeof *score);
    if (args->score == ROUTER_SOFTMAX)
        ref_softmax(score, args->experts);
    for (size_t e = 0; e < args->experts; e++) {
        if (args->score == ROUTER_SIGMOID)
            score[e] = math_sigmoid(score[e]);
        if (args->score == ROUTER_SQRT_SOFTPLUS)
            score[e] = sqrtf(math_softplus(score[e]));
    }
}

/* Index of the largest value that is not `taken`; ties go to the lower index, NaN and -infinity come last. `count` when all are taken. */
static size_t best_free(const float *value, const bool *taken, size_t count) {
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (!taken[i] && (best == count || value[i] > value[best] || (value[best] != value[best] && value[i] == value[i])))
            best = i;
    return best;
}

/* Sum of the `top` largest values, largest first. */
static float sum_of_best(const float *value, size_t count, size_t top) {
    bool taken[ROUTER_EXPERTS_MAX] = {false};
    float sum = 0;
    for (size_t k = 0; k < top && k < count; k++) {
        size_t best = best_free(value, taken, count);
        taken[best] = true;
        sum += value[best];
    }
    return sum;
}

/* Marks the members of all but the best groups as taken. */
static void take_out_groups(const struct router_args *args, const float *choice, float *group_score, bool *taken) {
    size_t members = args->experts / args->groups;
    bool chosen[ROUTER_EXPERTS_MAX] = {false};
    CHECK(args->experts % args->groups == 0 && args->top_groups <= args->groups && args->top_k <= args->top_groups * members);
    for (size_t g = 0; g < args->groups; g++)
        group_score[g] = sum_of_best(choice + g * members, members, args->group_score_count);
    for (size_t k = 0; k < args->top_groups; k++)
        chosen[best_free(group_score, chosen, args->groups)] = true;
    for (size_t e = 0; e < args->experts; e++)
        taken[e] = !chosen[e / members];
}

static void weigh(const struct router_args *args, const float *score) {
    float *weight = args->weights;
    for (size_t k = 0; k < args->top_k; k++)
        weight[k] = score[args->ids[k]];
    if (args->score == ROUTER_SOFTMAX_CHOSEN)
        ref_softmax(weight, args->top_k);
    if (args->renormalise) {
        float sum = lanes_sum(weight, args->top_k) + 1e-20f;
        for (size_t k = 0; k < args->top_k; k++)
            weight[k] = weight[k] / sum;
    }
    ref_scale(weight, args->scale, args->top_k);
    for (size_t k = 0; k < args->top_k && args->expert_scale; k++)
        weight[k] *= args->expert_scale[args->ids[k]];
}

void ref_router(const struct router_args *args) {
    CHECK(args->experts <= ROUTER_EXPERTS_MAX && args->top_k > 0 && args->top_k <= args->experts);
    float *score = args->scratch, *choice = args->scratch + args->experts;
    bool taken[ROUTER_EXPERTS_MAX] = {false};
    scores_of_logits(args, score);
    for (size_t e = 0; e < args->experts; e++)
        choice[e] = args->bias ? score[e] + args->bias[e] : score[e];
    if (args->groups > 1)
        take_out_groups(args, choice, args->scratch + 2 * args->experts, taken);
    bool chosen[ROUTER_EXPERTS_MAX] = {false};
    for (size_t k = 0; k < args->top_k; k++) {
        size_t best = best_free(choice, taken, args->experts);
        taken[best] = chosen[best] = true;
    }
    for (size_t e = 0, k = 0; e < args->experts; e++)
        if (chosen[e])
            args->ids[k++] = (uint32_t)e;
    weigh(args, score);
}
