/*
 * check_vector: functions of one row (norms, rope, gates, sums, conversions, sampling): each level against ref/ bit for bit, and ref/
 * against double precision.
 */
#include <math.h>

#include "check.h"

static const size_t counts[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, 257, 1000};
#define COUNT_MAX 1000
#define COUNTS (sizeof counts / sizeof counts[0])

/* A function of one output row, reached through one signature. */
struct row_call {
    const struct kernel_table *table;
    const float *a, *b, *c;
    float *y; /* starts as a copy of a */
    size_t count;
    unsigned variant;
};

static void call_rms_norm(const struct row_call *k) { k->table->rms_norm(k->a, k->variant ? k->b : NULL, k->y, k->count, 1e-6f); }
static void call_layer_norm(const struct row_call *k) {
    k->table->layer_norm(k->a, k->variant & 1 ? k->b : NULL, k->variant & 2 ? k->c : NULL, k->y, k->count, 1e-5f);
}
static void call_add(const struct row_call *k) { k->table->add(k->y, k->b, k->count); }
static void call_multiply(const struct row_call *k) { k->table->multiply(k->y, k->b, k->count); }
static void call_scale(const struct row_call *k) { k->table->scale(k->y, 0.7f, k->count); }
static void call_add_scaled(const struct row_call *k) { k->table->add_scaled(k->y, k->b, -0.3f, k->count); }
static void call_softcap(const struct row_call *k) { k->table->softcap(k->y, k->count, 30.0f); }
static void call_softmax(const struct row_call *k) { k->table->softmax(k->y, k->count); }
static void call_exp_sum(const struct row_call *k) {
    float sum = k->table->exp_sum(k->a, k->y, k->count, 4.0f, k->variant ? 1.0f : 0.6f);
    k->y[k->count - 1] = sum;
}
static void call_gate(const struct row_call *k) {
    struct gate_args args = {.kind = (enum gate_kind)(k->variant / 2),
                             .gate = k->a,
                             .up = k->variant & 1 ? k->b : NULL,
                             .y = k->y,
                             .count = k->count,
                             .a = 1.7f,
                             .b = 0.9f,
                             .c = 0.5f,
                             .d = -1e-6f};
    k->table->gate(&args);
}
static void call_f16(const struct row_call *k) {
    uint16_t half[COUNT_MAX];
    k->table->f16_from_f32(k->a, half, k->count);
    k->table->f32_from_f16(half, k->y, k->count);
}
static void call_quantize(const struct row_call *k) {
    if (k->count == COUNT_MAX)
        return;
    static const unsigned blocks[] = {32, 64, 128, 256};
    unsigned block = blocks[k->variant];
    size_t cols = (k->count % 5 + 1) * block;
    uint8_t row[8192];
    struct activation_layout layout = activation_layout(block, cols);
    assert_true(layout.row_bytes <= sizeof row && cols <= 1280);
    float x[1280];
    for (size_t i = 0; i < cols; i++)
        x[i] = k->a[i % k->count] + (i % 3 ? k->b[i % k->count] : 0.0f);
    memset(row, CHECK_SENTINEL, sizeof row);
    k->table->quantize(x, cols, block, row);
    for (size_t i = 0; i < k->count; i++)
        k->y[i] = (float)row[i];
    float sum = 0;
    for (size_t i = 0; i < layout.row_bytes; i++)
        sum += (float)row[i] * (float)(i % 97);
    k->y[0] = sum;
    memcpy(k->y + (k->count > 1), row + layout.scales_offset_bytes, 4);
    assert_int_equal(row[layout.row_bytes], CHECK_SENTINEL);
}
static void call_rope(const struct row_call *k) {
    bool pairs = k->variant & 1;
    size_t heads = 1 + k->count % 3, stride = k->count / heads, half = k->variant & 2 ? stride / 2 : stride / 4;
    k->table->rope(k->y, heads, stride, half, k->b, k->c, pairs);
}

static const struct {
    const char *name;
    void (*call)(const struct row_call *k);
    unsigned variants;
} functions[] = {
    {"rms_norm", call_rms_norm, 2}, {"layer_norm", call_layer_norm, 4},       {"add", call_add, 1},         {"multiply", call_multiply, 1},
    {"scale", call_scale, 1},       {"add_scaled", call_add_scaled, 1},       {"softcap", call_softcap, 1}, {"softmax", call_softmax, 1},
    {"exp_sum", call_exp_sum, 2},   {"gate", call_gate, 2 * GATE_KIND_COUNT}, {"f16", call_f16, 1},         {"quantize", call_quantize, 4},
    {"rope", call_rope, 4},
};
#define FUNCTIONS (sizeof functions / sizeof functions[0])

static void compare_function(unsigned f, unsigned variant, size_t count, enum check_values values, struct check_random *r) {
    struct check_memory memory = {0};
    const struct kernel_table *level;
    struct row_call k = {.table = kernel_table_for(CPU_ISA_REF),
                         .count = count,
                         .variant = variant,
                         .a = check_floats(&memory, count, r, values),
                         .b = check_floats(&memory, count, r, values),
                         .c = check_floats(&memory, count, r, values)};
    float *want = check_guarded(&memory, count * sizeof(float));
    memcpy(want, k.a, count * sizeof(float));
    k.y = want;
    functions[f].call(&k);
    check_untouched_before(want);
    for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
        k.table = level;
        k.y = check_guarded(&memory, count * sizeof(float));
        memcpy(k.y, k.a, count * sizeof(float));
        functions[f].call(&k);
        check_same(want, k.y, count, functions[f].name, level);
        check_untouched_before(k.y);
    }
    check_release(&memory);
}

static void levels_equal_ref(void **state) {
    (void)state;
    struct check_random r = {11};
    for (unsigned f = 0; f < FUNCTIONS; f++)
        for (unsigned variant = 0; variant < functions[f].variants; variant++)
            for (size_t i = 0; i < COUNTS; i++)
                for (unsigned v = 0; v < CHECK_VALUES_COUNT; v++)
                    compare_function(f, variant, counts[i], (enum check_values)v, &r);
}

/* Elements of gates and softcap over the whole range of floats, so that every branch of the functions inside is taken. */
static void levels_equal_ref_over_all_floats(void **state) {
    (void)state;
    struct check_memory memory = {0};
    enum { BATCH = 4096 };
    float *x = check_guarded(&memory, BATCH * 4), *want = check_guarded(&memory, BATCH * 4), *got = check_guarded(&memory, BATCH * 4);
    for (uint64_t bits = 0; bits < 0x100000000u; bits += (uint64_t)BATCH * 4001)
        for (unsigned kind = 0; kind <= GATE_KIND_COUNT; kind++) {
            for (unsigned i = 0; i < BATCH; i++)
                x[i] = f32_from_bits((uint32_t)(bits + (uint64_t)i * 4001));
            const struct kernel_table *level = kernel_table_for(CPU_ISA_REF);
            for (unsigned l = 0; level; level = check_level(l++)) {
                float *y = level->isa == CPU_ISA_REF ? want : got;
                struct gate_args args = {
                    .kind = (enum gate_kind)kind, .gate = x, .y = y, .count = BATCH, .a = 1.702f, .b = 7.0f, .c = 0.5f, .d = -1e-6f};
                memcpy(y, x, BATCH * 4);
                if (kind < GATE_KIND_COUNT)
                    level->gate(&args);
                else
                    level->softcap(y, BATCH, 30.0f);
                check_same(want, y, BATCH, "gate over all floats", level);
            }
        }
    check_release(&memory);
}

/* All 65536 halves, and floats that round to every one of them or lie half-way between two. */
static void f16_conversions_equal_ref(void **state) {
    (void)state;
    const struct kernel_table *ref = kernel_table_for(CPU_ISA_REF), *level;
    for (unsigned base = 0; base < 65536; base += 256) {
        uint16_t half[256], back[3 * 256], back_ref[3 * 256];
        float want[256], got[256], x[3 * 256];
        for (unsigned i = 0; i < 256; i++)
            half[i] = (uint16_t)(base + i);
        ref->f32_from_f16(half, want, 256);
        for (unsigned i = 0; i < 256; i++) {
            x[3 * i] = want[i];
            x[3 * i + 1] = f32_from_bits(bits_from_f32(want[i]) ^ 0x1000u); /* half-way */
            x[3 * i + 2] = f32_from_bits(bits_from_f32(want[i]) ^ 0x1001u);
        }
        ref->f16_from_f32(x, back_ref, 3 * 256);
        for (unsigned l = 0; (level = check_level(l)) != NULL; l++) {
            level->f32_from_f16(half, got, 256);
            check_same(want, got, 256, "f32_from_f16", level);
            level->f16_from_f32(x, back, 3 * 256);
            for (unsigned i = 0; i < 3 * 256; i++)
                assert_true(x[i] != x[i] ? f32_from_f16(back[i]) != f32_from_f16(back[i]) : back[i] == back_ref[i]);
        }
    }
}

static void argmax_takes_the_lowest_index_and_sees_nan(void **state) {
    (void)state;
    struct check_random r = {12};
    const struct kernel_table *level = kernel_table_for(CPU_ISA_REF);
    for (unsigned l = 0; level; level = check_level(l++))
        for (size_t i = 0; i < COUNTS; i++)
            for (unsigned n = 0; n < 20; n++) {
                struct check_memory memory = {0};
                size_t count = counts[i], want = 0;
                float *x = check_floats(&memory, count, &r, CHECK_PLAIN);
                for (size_t j = 0; j < count; j++)
                    x[j] = n == 0 ? -INFINITY : n == 1 ? (j & 1 ? 0.0f : -0.0f) : floorf(x[j] * (float)n);
                for (size_t j = 0; j < count; j++)
                    want = x[j] > x[want] ? j : want;
                assert_int_equal(level->argmax(x, count), want);
                x[check_below(&r, count)] = NAN;
                assert_true(level->argmax(x, count) == SIZE_MAX);
                check_release(&memory);
            }
}

static void assert_close(double want, float got, double tolerance, const char *what) {
    if (!(fabs(want - (double)got) <= tolerance))
        fail_msg("%s: %.9g, in double %.9g", what, (double)got, want);
}

static void ref_norms_equal_double(void **state) {
    (void)state;
    struct check_random r = {13};
    const struct kernel_table *ref = kernel_table_for(CPU_ISA_REF);
    float x[300], w[300], b[300], y[300];
    double mean = 0, square = 0, variance = 0;
    for (unsigned i = 0; i < 300; i++) {
        x[i] = check_float(&r, CHECK_PLAIN) + 0.5f;
        w[i] = check_float(&r, CHECK_PLAIN);
        b[i] = check_float(&r, CHECK_PLAIN);
        mean += (double)x[i] / 300;
        square += (double)x[i] * (double)x[i] / 300;
    }
    for (unsigned i = 0; i < 300; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / 300;
    ref->rms_norm(x, w, y, 300, 0.25f);
    for (unsigned i = 0; i < 300; i++)
        assert_close((double)x[i] / sqrt(square + 0.25) * (double)w[i], y[i], 1e-5, "rms_norm");
    ref->layer_norm(x, w, b, y, 300, 0.25f);
    for (unsigned i = 0; i < 300; i++)
        assert_close(((double)x[i] - mean) / sqrt(variance + 0.25) * (double)w[i] + (double)b[i], y[i], 1e-5, "layer_norm");
}

static double gate_in_double(enum gate_kind kind, double g, double u) {
    switch (kind) {
    case GATE_SILU:
        return g / (1 + exp(-g)) * u;
    case GATE_GELU_TANH:
        return 0.5 * g * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g))) * u;
    case GATE_GELU_ERF:
        return 0.5 * g * erfc(-g / sqrt(2)) * u;
    case GATE_RELU2:
        return g > 0 ? g * g * u : 0;
    case GATE_SWIGLU_CLAMPED: /* alpha 1.702, limit 1.5 */
        g = fmin(g, 1.5);
        return g / (1 + exp(-1.702 * g)) * (fmax(fmin(u, 1.5), -1.5) + 1);
    case GATE_SILU_CLAMPED: /* limit 1.5 */
        return fmin(g / (1 + exp(-g)), 1.5) * fmax(fmin(u, 1.5), -1.5);
    case GATE_SIGMOID:
        return u / (1 + exp(-g));
    case GATE_XIELU: /* 0.8, 0.7, 0.5, -1e-6 */
        return (g > 0 ? 0.8 * g * g + 0.5 * g : (expm1(fmin(g, -1e-6)) - g) * 0.7 + 0.5 * g) * u;
    default:
        return NAN;
    }
}

static void ref_gates_equal_double(void **state) {
    (void)state;
    static const float a[GATE_KIND_COUNT] = {[GATE_SWIGLU_CLAMPED] = 1.702f, [GATE_XIELU] = 0.8f};
    static const float b[GATE_KIND_COUNT] = {[GATE_SWIGLU_CLAMPED] = 1.5f, [GATE_SILU_CLAMPED] = 1.5f, [GATE_XIELU] = 0.7f};
    for (unsigned kind = 0; kind < GATE_KIND_COUNT; kind++)
        for (int i = -300; i <= 300; i++) {
            float g = (float)i * 0.03125f, u = (float)(i % 7) * 0.5f, y;
            struct gate_args args = {.kind = (enum gate_kind)kind,
                                     .gate = &g,
                                     .up = &u,
                                     .y = &y,
                                     .count = 1,
                                     .a = a[kind],
                                     .b = b[kind],
                                     .c = 0.5f,
                                     .d = -1e-6f};
            kernel_table_for(CPU_ISA_REF)->gate(&args);
            double want = gate_in_double((enum gate_kind)kind, (double)g, (double)u);
            assert_close(want, y, 1e-6 + 1e-6 * fabs(want), "gate");
        }
}

static void ref_rope_rotates(void **state) {
    (void)state;
    const float c[2] = {0.8f, 0.0f}, s[2] = {0.6f, 1.0f};
    float halves[2][5] = {{1, 2, 3, 4, 9}, {5, 6, 7, 8, 9}}, pairs[5] = {1, 2, 3, 4, 9};
    kernel_table_for(CPU_ISA_REF)->rope(&halves[0][0], 2, 5, 2, c, s, false);
    const float want[2][5] = {{-1.0f, -4.0f, 3.0f, 2.0f, 9}, {-0.2f, -8.0f, 8.6f, 6.0f, 9}};
    for (unsigned i = 0; i < 10; i++)
        assert_close((double)want[i / 5][i % 5], halves[i / 5][i % 5], 1e-6, "rope halves");
    kernel_table_for(CPU_ISA_REF)->rope(pairs, 1, 5, 2, c, s, true);
    const float want_pairs[5] = {-0.4f, 2.2f, -4.0f, 3.0f, 9};
    for (unsigned i = 0; i < 5; i++)
        assert_close((double)want_pairs[i], pairs[i], 1e-6, "rope pairs");
}

static void ref_softmax_equals_double(void **state) {
    (void)state;
    struct check_random r = {14};
    float x[257], y[257];
    double sum = 0, tempered = 0;
    for (unsigned i = 0; i < 257; i++) {
        x[i] = y[i] = 20.0f * check_uniform(&r);
        sum += exp((double)x[i]);
        tempered += exp(((double)x[i] - 20) * 0.5);
    }
    kernel_table_for(CPU_ISA_REF)->softmax(y, 257);
    for (unsigned i = 0; i < 257; i++)
        assert_close(exp((double)x[i]) / sum, y[i], 1e-6, "softmax");
    assert_close(tempered, kernel_table_for(CPU_ISA_REF)->exp_sum(x, y, 257, 20.0f, 0.5f), 1e-5 * tempered, "exp_sum");
    assert_close(exp(((double)x[7] - 20) * 0.5), y[7], 1e-6, "exp_sum element");
}

/* A block with an infinity or NaN must not turn into numbers; a tiny one becomes zero. */
static void quantize_keeps_damage_visible(void **state) {
    (void)state;
    const struct kernel_table *level = kernel_table_for(CPU_ISA_REF);
    for (unsigned l = 0; level; level = check_level(l++)) {
        float x[96] = {0};
        x[3] = INFINITY;
        x[40] = NAN;
        x[70] = 1e-38f;
        uint8_t row[512];
        struct activation_layout layout = activation_layout(32, 96);
        level->quantize(x, 96, 32, row);
        float d[3];
        memcpy(d, row + layout.scales_offset_bytes, sizeof d);
        assert_true(d[0] != d[0] && d[1] != d[1] && bits_from_f32(d[2]) == 0);
        for (unsigned i = 0; i < 96; i++)
            assert_int_equal(row[i], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_equal_ref),
        cmocka_unit_test(levels_equal_ref_over_all_floats),
        cmocka_unit_test(f16_conversions_equal_ref),
        cmocka_unit_test(argmax_takes_the_lowest_index_and_sees_nan),
        cmocka_unit_test(ref_norms_equal_double),
        cmocka_unit_test(ref_gates_equal_double),
        cmocka_unit_test(ref_rope_rotates),
        cmocka_unit_test(ref_softmax_equals_double),
        cmocka_unit_test(quantize_keeps_damage_visible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
