/*
 * test_trace_replay: the replay against caches written the slow and plain way, by hand and by chance.
 */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/trace_replay.h"

enum { RECORDS_MAX = 40, STEPS_MAX = 400, WANTS_MAX = 6, LAYERS = 3 };

struct scene {
    struct trace_record records[RECORDS_MAX];
    struct trace_step steps[STEPS_MAX];
    uint32_t ids[STEPS_MAX * WANTS_MAX];
    struct trace_wants wants;
};

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void add_step(struct scene *s, const uint32_t *ids, uint32_t count, bool decode) {
    s->steps[s->wants.step_count++] = (struct trace_step){s->wants.id_count, count, decode};
    memcpy(s->ids + s->wants.id_count, ids, count * sizeof *ids);
    s->wants.id_count += count;
}

static void begin(struct scene *s, uint32_t records, const uint64_t *slot_bytes, uint32_t sizes) {
    *s = (struct scene){.wants = {.record_count = records, .layer_count = LAYERS}};
    s->wants.records = s->records;
    s->wants.steps = s->steps;
    s->wants.ids = s->ids;
    for (uint32_t r = 0; r < records; r++)
        s->records[r] = (struct trace_record){slot_bytes[r % sizes], slot_bytes[r % sizes] - 1};
}

static struct trace_result run(const struct scene *s, enum trace_policy policy, uint64_t cache_bytes) {
    struct trace_result result;
    struct error err;
    ASSERT_OK(trace_replay(&s->wants, policy, cache_bytes, &result, &err), err);
    return result;
}

/* ---- by hand ---- */

static void by_hand(void **state) {
    static const uint64_t size = 1000;
    static const uint32_t wanted[] = {0, 1, 2, 0, 0, 3, 1, 2, 0};
    struct scene *s = calloc(1, sizeof *s);
    (void)state;
    begin(s, 4, &size, 1);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        add_step(s, &wanted[i], 1, i >= 3);
    /* three slots; misses are marked: LRU 0* 1* 2* 0 0 3*(out 1) 1*(out 2) 2*(out 0) 0*(out 3) */
    struct trace_result lru = run(s, TRACE_LRU, 3 * size);
    assert_int_equal(lru.slot_count, 3);
    assert_int_equal(lru.prompt.hits + lru.prompt.misses, 3);
    assert_int_equal(lru.prompt.misses, 3);
    assert_int_equal(lru.decode.hits, 2);
    assert_int_equal(lru.decode.misses, 4);
    assert_int_equal(lru.decode.miss_bytes, 4 * 999);
    /* LFU: 0 stays to the end; 3*(out 1) 1*(out 2) 2*(out 3) 0 */
    assert_int_equal(run(s, TRACE_LFU, 3 * size).decode.misses, 3);
    /* Belady: 3*(out 0, wanted last) 1 2 0* */
    assert_int_equal(run(s, TRACE_BELADY, 3 * size).decode.misses, 2);
    for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++) {
        assert_int_equal(run(s, p, 4 * size).decode.misses, 1); /* only what was never seen */
        assert_int_equal(run(s, p, size - 1).decode.hits, 0);
    }
    free(s);
}

/* ---- by chance, against a plain cache ---- */

struct plain {
    bool here[RECORDS_MAX], pinned[RECORDS_MAX];
    uint32_t order[RECORDS_MAX]; /* of pins */
    double score[RECORDS_MAX];
    uint64_t last[RECORDS_MAX];
};

static uint32_t next_use(const struct scene *s, uint32_t after, uint32_t id) {
    for (uint32_t step = after + 1; step < s->wants.step_count; step++)
        for (uint32_t i = 0; i < s->steps[step].want_count; i++)
            if (s->ids[s->steps[step].first_want + i] == id)
                return step;
    return UINT32_MAX;
}

static bool worse(const struct scene *s, const struct plain *c, enum trace_policy policy, uint32_t step, uint32_t a, uint32_t b) {
    double x = c->score[a], y = c->score[b];
    if (policy == TRACE_LRU)
        x = (double)c->last[a], y = (double)c->last[b];
    if (policy == TRACE_BELADY)
        x = -(double)next_use(s, step - 1, a), y = -(double)next_use(s, step - 1, b);
    return x != y ? x < y : c->last[a] != c->last[b] ? c->last[a] < c->last[b] : a < b;
}

static uint32_t plain_misses(const struct scene *s, enum trace_policy policy, uint32_t slots) {
    static struct plain c;
    uint32_t misses = 0, used = 0;
    memset(&c, 0, sizeof c);
    for (uint32_t step = 0; step < s->wants.step_count; step++) {
        const uint32_t *ids = s->ids + s->steps[step].first_want;
        uint32_t count = s->steps[step].want_count, pins = 0;
        bool hit[WANTS_MAX];
        memset(c.pinned, 0, sizeof c.pinned);
        for (uint32_t i = 0; i < count; i++) {
            hit[i] = c.here[ids[i]];
            if (hit[i]) {
                c.pinned[ids[i]] = true;
                c.order[pins++] = ids[i];
            }
        }
        for (uint32_t i = 0, oldest = 0; i < count; i++) {
            if (hit[i])
                continue;
            uint32_t victim = UINT32_MAX;
            misses++;
            for (uint32_t r = 0; r < s->wants.record_count && used == slots; r++)
                if (c.here[r] && !c.pinned[r] && (victim == UINT32_MAX || worse(s, &c, policy, step, r, victim)))
                    victim = r;
            if (used == slots && victim == UINT32_MAX)
                victim = c.order[oldest++];
            if (victim != UINT32_MAX)
                c.here[victim] = false;
            used += used < slots;
            c.here[ids[i]] = c.pinned[ids[i]] = true;
            c.order[pins++] = ids[i];
        }
        for (uint32_t i = 0; i < count; i++) {
            double ago = ((double)(step + 1 - c.last[ids[i]])) / LAYERS / TRACE_HALF_LIFE_PASSES;
            c.score[ids[i]] = 1 + c.score[ids[i]] * (policy == TRACE_DECAYED_LFU ? exp2(-ago) : 1);
            c.last[ids[i]] = step + 1;
        }
    }
    return misses;
}

static void fill_by_chance(struct scene *s, uint64_t *seed) {
    for (uint32_t step = 0; step < STEPS_MAX; step++) {
        uint32_t ids[WANTS_MAX], count = 0, wanted = 1 + (uint32_t)(next(seed) % WANTS_MAX);
        for (uint32_t r = 0; r < s->wants.record_count && count < wanted; r++) /* low numbers are wanted often */
            if (next(seed) % (2 + r / 2) == 0)
                ids[count++] = r;
        if (count == 0)
            ids[count++] = (uint32_t)(next(seed) % s->wants.record_count);
        add_step(s, ids, count, true);
    }
}

static void like_a_plain_cache(void **state) {
    static const uint64_t size = 64;
    struct scene *s = calloc(1, sizeof *s);
    uint64_t seed = 1;
    (void)state;
    for (int round = 0; round < 6; round++) {
        begin(s, RECORDS_MAX, &size, 1);
        fill_by_chance(s, &seed);
        for (uint32_t slots = 1; slots <= RECORDS_MAX; slots += 3) {
            uint64_t least = UINT64_MAX;
            for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++) {
                struct trace_result result = run(s, p, slots * size);
                assert_int_equal(result.slot_count, slots);
                assert_int_equal(result.decode.hits + result.decode.misses, s->wants.id_count);
                if (p != TRACE_DECAYED_LFU) /* there the plain sum rounds otherwise, and ties fall otherwise */
                    assert_int_equal(result.decode.misses, plain_misses(s, p, slots));
                else
                    assert_true(fabs((double)result.decode.misses - plain_misses(s, p, slots)) <= 0.02 * (double)s->wants.id_count);
                least = result.decode.misses < least ? result.decode.misses : least;
            }
            if (slots >= WANTS_MAX) /* below, what is wanted together does not fit, and the rule says which stays */
                assert_int_equal(run(s, TRACE_BELADY, slots * size).decode.misses, least);
        }
    }
    free(s);
}

/* Two sizes: each class has its own slots, and no record is lost between them. */
static void two_sizes(void **state) {
    static const uint64_t sizes[] = {1000, 3000};
    struct scene *s = calloc(1, sizeof *s);
    uint64_t seed = 2;
    (void)state;
    begin(s, RECORDS_MAX, sizes, 2);
    fill_by_chance(s, &seed);
    assert_int_equal(trace_all_bytes(&s->wants), RECORDS_MAX / 2 * 4000);
    for (enum trace_policy p = 0; p < TRACE_POLICY_COUNT; p++) {
        uint64_t before = UINT64_MAX;
        for (uint64_t bytes = 0; bytes <= trace_all_bytes(&s->wants); bytes += 8000) {
            struct trace_result result = run(s, p, bytes);
            assert_int_equal(result.decode.hits + result.decode.misses, s->wants.id_count);
            assert_true(p != TRACE_LRU || bytes < 8000 * WANTS_MAX || result.decode.misses <= before);
            before = result.decode.misses;
        }
        assert_true(before <= RECORDS_MAX); /* everything fits: a miss each */
    }
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(like_a_plain_cache), cmocka_unit_test(two_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
