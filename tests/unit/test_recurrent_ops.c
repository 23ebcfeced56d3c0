/*
 * test_recurrent_ops: short convolution and delta rule on the CPU: how a prompt is cut into passes, which other sequences share them,
 * threads and instruction set change no bit; orders of channels and heads against a plain computation in double precision.
 */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/check.h"

enum { SEQUENCES = 2, LENGTH = 11, ROWS = SEQUENCES * LENGTH };

static float random_float(void) {
    static uint64_t state = 7;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)((state >> 33) << 1) * 0x1p-31f;
}

static void fill(float *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = random_float();
}

/* ---- running ---- */

struct subject {
    const struct op *op;
    size_t in_width[3], out_width, state_floats;
    float *in[3]; /* [SEQUENCES][LENGTH][width] */
    const float *constant[OP_WEIGHTS_MAX];
};

struct passes { /* rows of each sequence in a pass */
    uint32_t rows[SEQUENCES];
};

/* Runs the passes; out: [SEQUENCES][LENGTH][out_width]. */
static void run(const struct subject *s, const struct passes *passes, size_t pass_count, unsigned threads, enum cpu_isa isa, float *out) {
    struct cpu_backend_options options = {.threads = threads, .isa = isa, .limits = {.rows = ROWS, .recurrent = true}};
    struct backend *backend;
    struct error err;
    struct recurrent_view views[SEQUENCES];
    uint32_t length[SEQUENCES] = {0};
    ASSERT_OK(cpu_backend_create(&options, &backend, &err), err);
    for (size_t q = 0; q < SEQUENCES; q++) {
        views[q] = (struct recurrent_view){calloc(s->state_floats, sizeof(float)), calloc(s->state_floats, sizeof(float))};
        assert_true(views[q].before && views[q].after);
        for (size_t i = 0; i < s->state_floats; i++) /* what is in memory before a sequence begins does not matter */
            views[q].before[i] = views[q].after[i] = NAN;
    }
    for (size_t p = 0; p < pass_count; p++) {
        struct op_row rows[ROWS];
        struct op_call call = {.row = rows, .recurrent = views, .out_width = {s->out_width}};
        for (int i = 0; i < OP_WEIGHTS_MAX; i++)
            call.constant[i] = s->constant[i];
        for (uint32_t q = 0; q < SEQUENCES; q++)
            for (uint32_t r = 0; r < passes[p].rows[q]; r++)
                rows[call.rows++] = (struct op_row){.sequence = q, .position = length[q] + r};
        for (int i = 0; i < 3; i++) {
            if (!s->in[i])
                continue;
            call.in_width[i] = s->in_width[i];
            call.in[i] = calloc(call.rows, s->in_width[i] * sizeof(float));
            for (size_t r = 0; r < call.rows; r++)
                memcpy(call.in[i] + r * s->in_width[i], s->in[i] + (rows[r].sequence * LENGTH + rows[r].position) * s->in_width[i],
                       s->in_width[i] * sizeof(float));
        }
        call.out[0] = calloc(call.rows, s->out_width * sizeof(float));
        ASSERT_OK(backend_run(backend, s->op, &call, &err), err);
        for (size_t r = 0; r < call.rows; r++)
            memcpy(out + (rows[r].sequence * LENGTH + rows[r].position) * s->out_width, call.out[0] + r * s->out_width,
                   s->out_width * sizeof(float));
        for (int i = 0; i < 3; i++)
            free(call.in[i]);
        free(call.out[0]);
        for (uint32_t q = 0; q < SEQUENCES; q++)
            if (passes[p].rows[q] > 0) {
                views[q] = (struct recurrent_view){views[q].after, views[q].before};
                length[q] += passes[p].rows[q];
            }
    }
    for (uint32_t q = 0; q < SEQUENCES; q++) {
        assert_int_equal(length[q], LENGTH);
        free(views[q].before);
        free(views[q].after);
    }
    backend_destroy(backend);
}

/* All at once, one by one, uneven and alternating; threads, instruction sets. want: filled with the first. */
static void assert_bits_stay(const struct subject *s, float *want) {
    static const struct passes at_once[] = {{{LENGTH, LENGTH}}}, uneven[] = {{{1, 3}}, {{2, 0}}, {{5, 7}}, {{0, 1}}, {{3, 0}}};
    struct passes single[2 * LENGTH];
    float *got = calloc((size_t)ROWS * s->out_width, sizeof *got);
    assert_non_null(got);
    for (uint32_t i = 0; i < 2 * LENGTH; i++)
        single[i] = (struct passes){{i % 2 == 0, i % 2 == 1}};
    run(s, at_once, 1, 1, CPU_ISA_REF, want);
    for (unsigned isa = CPU_ISA_REF; isa < CPU_ISA_COUNT; isa++)
        for (unsigned threads = 1; threads <= 3; threads++) {
            if (!cpu_backend_available((enum cpu_isa)isa))
                continue;
            run(s, at_once, 1, threads, (enum cpu_isa)isa, got);
            assert_memory_equal(want, got, ROWS * s->out_width * sizeof *got);
            run(s, single, 2 * LENGTH, threads, (enum cpu_isa)isa, got);
            assert_memory_equal(want, got, ROWS * s->out_width * sizeof *got);
            run(s, uneven, sizeof uneven / sizeof *uneven, threads, (enum cpu_isa)isa, got);
            assert_memory_equal(want, got, ROWS * s->out_width * sizeof *got);
        }
    free(got);
}

/* ---- short convolution ---- */

/* Element of x that channel c comes from. */
static size_t source_of(const struct op *op, size_t c) {
    size_t part = 0, before = 0;
    while (c >= (size_t)op->short_conv.groups * op->short_conv.parts[part]) {
        c -= (size_t)op->short_conv.groups * op->short_conv.parts[part];
        before += op->short_conv.parts[part++];
    }
    return c / op->short_conv.parts[part] * op->short_conv.group_stride + before + c % op->short_conv.parts[part];
}

static void check_convolution(const struct op *op, bool bias) {
    size_t channels = op->short_conv.channels, kernel = op->short_conv.kernel,
           width = (size_t)op->short_conv.groups * op->short_conv.group_stride;
    float *x = calloc(ROWS * width, sizeof *x), *w = calloc(kernel * channels, sizeof *w), *b = calloc(channels, sizeof *b),
          *want = calloc(ROWS * channels, sizeof *want);
    assert_true(x && w && b && want);
    fill(x, ROWS * width), fill(w, kernel * channels), fill(b, channels);
    const struct subject s = {.op = op,
                              .in_width = {width},
                              .out_width = channels,
                              .state_floats = (kernel - 1) * channels,
                              .in = {x},
                              .constant = {w, bias ? b : NULL}};
    assert_bits_stay(&s, want);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t c = 0; c < channels; c++) {
            double sum = bias ? (double)b[c] : 0;
            for (size_t t = 0; t < kernel; t++)
                if (row % LENGTH + t + 1 >= kernel)
                    sum += (double)w[t * channels + c] * (double)x[(row + t + 1 - kernel) * width + source_of(op, c)];
            sum = op->short_conv.silu ? sum / (1 + exp(-sum)) : sum;
            assert_true(fabs(sum - (double)want[row * channels + c]) < 1e-5);
        }
    free(x), free(w), free(b), free(want);
}

static void convolution(void **state) {
    (void)state;
    const struct op plain = {.kind = OP_SHORT_CONV,
                             .short_conv = {.kernel = 3, .channels = 1100, .groups = 1, .group_stride = 1100, .parts = {1100}}};
    const struct op mixed = {
        .kind = OP_SHORT_CONV,
        .short_conv = {.kernel = 4, .channels = 3 * 45, .groups = 3, .group_stride = 70, .parts = {8, 8, 29}, .silu = true}};
    const struct op longest = {.kind = OP_SHORT_CONV,
                               .short_conv = {.kernel = OP_KERNEL_MAX, .channels = 5, .groups = 1, .group_stride = 5, .parts = {5}}};
    check_convolution(&plain, false);
    check_convolution(&mixed, true);
    check_convolution(&longest, false);
}

/* ---- delta rule ---- */

struct numbers { /* of a call, heads outermost */
    float *x, *gates, *decays, *rate, *bias, *skip, *want;
    double *held; /* [heads][value_dim][key_dim] */
};

/* What the rule is, for one row and head. */
static void expect_head(const struct op *op, const struct numbers *n, bool plain, size_t row, size_t h, size_t width, size_t gates) {
    size_t heads = op->delta_rule.heads, keys = op->delta_rule.key_heads, dk = op->delta_rule.key_dim, dv = op->delta_rule.value_dim;
    size_t key = op->delta_rule.tiled ? h % keys : h / (heads / keys);
    size_t at = row * gates + h / op->delta_rule.gate_group * op->delta_rule.gate_stride + h % op->delta_rule.gate_group;
    double step = log1p(exp((double)n->gates[at + op->delta_rule.a_offset] + (double)n->bias[h]));
    step = fmin(fmax(step, (double)op->delta_rule.least), (double)op->delta_rule.most);
    double beta = plain ? step : (op->delta_rule.doubles ? 2 : 1) / (1 + exp(-(double)n->gates[at + op->delta_rule.b_offset]));
    const float *rate = n->rate + h * (op->delta_rule.key_rates ? dk : 1);
    const float *x = n->x + row * width, *q = x + op->delta_rule.q_offset + key * dk, *k = x + op->delta_rule.k_offset + key * dk;
    for (size_t j = 0; j < dv; j++) {
        double *held = n->held + (h * dv + j) * dk, sum = 0, out = 0, v = (double)x[op->delta_rule.v_offset + h * dv + j];
        for (size_t i = 0; i < dk; i++)
            sum += (held[i] *= op->delta_rule.channel_decay ? (double)n->decays[(row * heads + h) * dk + i]
                                                            : exp((double)rate[op->delta_rule.key_rates ? i : 0] * step)) *
                   (double)k[i];
        for (size_t i = 0; i < dk; i++)
            out += (held[i] += beta * (plain ? v : v - sum) * (double)k[i]) * (double)q[i];
        out = out * (double)op->delta_rule.scale + (n->skip ? (double)n->skip[h] * v : 0);
        assert_true(fabs(out - (double)n->want[(row * heads + h) * dv + j]) < 1e-3);
    }
}

static float *numbers(size_t count) {
    float *x = calloc(count, sizeof *x);
    assert_non_null(x);
    fill(x, count);
    return x;
}

static void check_delta(const struct op *op, bool plain, bool skip) {
    size_t heads = op->delta_rule.heads, dk = op->delta_rule.key_dim, dv = op->delta_rule.value_dim;
    size_t width = 2 * op->delta_rule.key_heads * dk + heads * dv,
           gates = heads / op->delta_rule.gate_group * op->delta_rule.gate_stride + 3;
    struct numbers n = {.x = numbers(ROWS * width),
                        .gates = numbers(ROWS * gates),
                        .decays = numbers(ROWS * heads * dk),
                        .rate = numbers(heads * dk),
                        .bias = numbers(heads),
                        .skip = skip ? numbers(heads) : NULL,
                        .want = numbers(ROWS * heads * dv),
                        .held = calloc(heads * dv * dk, sizeof(double))};
    assert_non_null(n.held);
    for (size_t i = 0; i < heads * dk; i++)
        n.rate[i] = -fabsf(n.rate[i]);
    for (size_t i = 0; i < ROWS * heads * dk; i++)
        n.decays[i] = fabsf(n.decays[i]);
    bool channel = op->delta_rule.channel_decay;
    const struct subject s = {.op = op,
                              .in_width = {width, gates, channel ? heads * dk : gates},
                              .out_width = heads * dv,
                              .state_floats = heads * dv * dk,
                              .in = {n.x, plain ? NULL : n.gates, channel ? n.decays : n.gates},
                              .constant = {channel ? NULL : n.rate, channel ? NULL : n.bias, n.skip}};
    assert_bits_stay(&s, n.want);
    for (size_t row = 0; row < ROWS; row++) {
        if (row % LENGTH == 0)
            memset(n.held, 0, heads * dv * dk * sizeof *n.held);
        for (size_t h = 0; h < heads; h++)
            expect_head(op, &n, plain, row, h, width, gates);
    }
    free(n.x), free(n.gates), free(n.decays), free(n.rate), free(n.bias), free(n.skip), free(n.want), free(n.held);
}

static void delta_rule(void **state) {
    (void)state;
    struct op op = {.kind = OP_DELTA_RULE,
                    .delta_rule = {.heads = 6,
                                   .key_heads = 3,
                                   .key_dim = 8,
                                   .value_dim = 12,
                                   .k_offset = 24,
                                   .v_offset = 48,
                                   .gate_group = 6,
                                   .gate_stride = 6,
                                   .a_offset = 1,
                                   .b_offset = 2,
                                   .most = 1e30f,
                                   .scale = 0.35f}};
    check_delta(&op, false, false);
    op.delta_rule.doubles = true;
    op.delta_rule.scale = 0.1f;
    check_delta(&op, false, false);
    op.delta_rule.doubles = false;
    op.delta_rule.scale = 0.35f;
    op.delta_rule.tiled = true;
    check_delta(&op, false, false);
    op.delta_rule.tiled = false;
    op.delta_rule.gate_group = 2, op.delta_rule.gate_stride = 4, op.delta_rule.a_offset = 2, op.delta_rule.b_offset = 0;
    check_delta(&op, false, true);
    op = (struct op){.kind = OP_DELTA_RULE,
                     .delta_rule = {.heads = 1,
                                    .key_heads = 1,
                                    .key_dim = 40,
                                    .value_dim = 70,
                                    .k_offset = 40,
                                    .v_offset = 80,
                                    .gate_group = 1,
                                    .gate_stride = 1,
                                    .most = 1e30f,
                                    .scale = 1}};
    check_delta(&op, false, false);
}

static void decay_of_each_channel(void **state) {
    (void)state;
    const struct op op = {.kind = OP_DELTA_RULE,
                          .delta_rule = {.heads = 3,
                                         .key_heads = 3,
                                         .key_dim = 20,
                                         .value_dim = 9,
                                         .k_offset = 60,
                                         .v_offset = 120,
                                         .gate_group = 3,
                                         .gate_stride = 3,
                                         .channel_decay = true,
                                         .scale = 0.5f}};
    check_delta(&op, false, false);
}

/* v, k, q in the order of state space models; steps within bounds. */
static void state_space(void **state) {
    (void)state;
    struct op op = {.kind = OP_DELTA_RULE,
                    .delta_rule = {.heads = 4,
                                   .key_heads = 2,
                                   .key_dim = 16,
                                   .value_dim = 12,
                                   .k_offset = 48,
                                   .q_offset = 80,
                                   .gate_group = 4,
                                   .gate_stride = 4,
                                   .most = 1e30f,
                                   .scale = 1}};
    check_delta(&op, true, true);
    op.delta_rule.least = 0.6f, op.delta_rule.most = 0.9f;
    check_delta(&op, true, false);
    op = (struct op){.kind = OP_DELTA_RULE, /* channels with a rate for each element of their states */
                     .delta_rule = {.heads = 11,
                                    .key_heads = 1,
                                    .key_dim = 18,
                                    .value_dim = 1,
                                    .k_offset = 11,
                                    .q_offset = 29,
                                    .gate_group = 11,
                                    .gate_stride = 11,
                                    .key_rates = true,
                                    .most = 1e30f,
                                    .scale = 1}};
    check_delta(&op, true, true);
}

static void decay(void **state) {
    (void)state;
    enum { HEADS = 3, SIZE = 7, DECAY_ROWS = 5 };
    const struct op op = {.kind = OP_DECAY, .decay = {.heads = HEADS, .size = SIZE}};
    float *a = numbers(DECAY_ROWS * HEADS * SIZE), *y = numbers(DECAY_ROWS * HEADS * SIZE), *bias = numbers(HEADS * SIZE);
    const float rate[HEADS] = {-0.1f, -1, -8};
    struct cpu_backend_options options = {.threads = 2, .isa = CPU_ISA_REF, .limits = {.rows = DECAY_ROWS}};
    struct backend *backend;
    struct error err;
    struct op_call call = {
        .rows = DECAY_ROWS, .in = {a}, .out = {y}, .in_width = {HEADS * SIZE}, .out_width = {HEADS * SIZE}, .constant = {rate, bias}};
    ASSERT_OK(cpu_backend_create(&options, &backend, &err), err);
    ASSERT_OK(backend_run(backend, &op, &call, &err), err);
    for (size_t i = 0; i < DECAY_ROWS * HEADS * SIZE; i++) {
        double x = (double)a[i] + (double)bias[i % (HEADS * SIZE)];
        assert_true(fabs(exp((double)rate[i / SIZE % HEADS] * log1p(exp(x))) - (double)y[i]) < 1e-6);
    }
    backend_destroy(backend);
    free(a), free(y), free(bias);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(convolution), cmocka_unit_test(delta_rule), cmocka_unit_test(decay_of_each_channel),
                                       cmocka_unit_test(state_space), cmocka_unit_test(decay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
