/* test_thread_pool: every item exactly once, whatever the sizes; reuse, sleep between loops, failing creation. */
#include "test_support.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/memory.h"
#include "base/thread_pool.h"

#define ITEMS_MAX 3000

struct visit {
    _Atomic unsigned times[ITEMS_MAX];
    _Atomic unsigned workers_seen, smallest, out_of_range;
    unsigned thread_count;
    size_t item_count;
};

static void visit_items(void *context, size_t begin, size_t end, unsigned worker) {
    struct visit *visit = context;
    if (worker >= visit->thread_count || begin >= end || end > visit->item_count) {
        atomic_fetch_add(&visit->out_of_range, 1);
        return;
    }
    atomic_fetch_or(&visit->workers_seen, 1u << worker);
    if (end < visit->item_count && end - begin < atomic_load(&visit->smallest))
        atomic_store(&visit->smallest, (unsigned)(end - begin));
    for (size_t i = begin; i < end; i++)
        atomic_fetch_add(&visit->times[i], 1);
}

static void check_loop(struct thread_pool *pool, size_t item_count, size_t min_chunk) {
    static struct visit visit;
    memset(&visit, 0, sizeof(visit));
    visit.thread_count = thread_pool_size(pool);
    visit.item_count = item_count;
    visit.smallest = UINT_MAX;
    thread_pool_run(pool, item_count, min_chunk, visit_items, &visit);
    assert_int_equal(visit.out_of_range, 0);
    assert_true(visit.smallest >= min_chunk);
    for (size_t i = 0; i < ITEMS_MAX; i++)
        assert_int_equal(visit.times[i], i < item_count);
}

static void every_item_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 63, 64, 65, 1000, ITEMS_MAX};
    static const size_t chunks[] = {1, 2, 5, 64, 5000};
    struct error err;
    for (unsigned threads = 1; threads <= 9; threads += 2) {
        struct thread_pool *pool;
        ASSERT_OK(thread_pool_create(threads, &pool, &err), err);
        assert_int_equal(thread_pool_size(pool), threads);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            for (size_t j = 0; j < sizeof(chunks) / sizeof(chunks[0]); j++)
                check_loop(pool, counts[i], chunks[j]);
        thread_pool_destroy(pool);
    }
}

/* Short loops one after the other are where a lost wake or a stale chunk would show: this hangs or miscounts then. */
static void many_short_loops(void **state) {
    (void)state;
    struct error err;
    struct thread_pool *pool;
    ASSERT_OK(thread_pool_create(4, &pool, &err), err);
    for (int i = 0; i < 3000; i++) {
        check_loop(pool, (size_t)(i % 17), 1);
        if (i % 500 == 0)
            clock_sleep_ns(2000000); /* the workers fall asleep */
    }
    thread_pool_destroy(pool);
}

static void wait_for_both(void *context, size_t begin, size_t end, unsigned worker) {
    (void)end;
    (void)worker;
    _Atomic unsigned *arrived = context;
    if (begin != 0 && begin != 1)
        return;
    atomic_fetch_add(arrived, 1);
    for (uint64_t limit = clock_now_ns() + 5000000000ull; atomic_load(arrived) < 2 && clock_now_ns() < limit;)
        clock_sleep_ns(10000);
}

/* Two items that wait for each other finish only when two threads run at once. */
static void threads_run_together(void **state) {
    (void)state;
    struct error err;
    struct thread_pool *pool;
    _Atomic unsigned arrived = 0;
    ASSERT_OK(thread_pool_create(2, &pool, &err), err);
    clock_sleep_ns(5000000);
    thread_pool_run(pool, 2, 1, wait_for_both, &arrived);
    assert_int_equal(arrived, 2);
    thread_pool_destroy(pool);
}

static void creation_can_fail(void **state) {
    (void)state;
    struct error err;
    struct thread_pool *pool;
    memory_fail_after(1);
    ASSERT_FAILS(thread_pool_create(2, &pool, &err), STATUS_NO_MEMORY, err);
    assert_null(pool);
    thread_pool_destroy(NULL);
}

static void processor_is_described(void **state) {
    (void)state;
    assert_true(cpu_count() >= 1);
    assert_true(cpu_model_name()[0] != 0);
    assert_true(cpu_isa_available(CPU_ISA_REF));
    assert_true(cpu_isa_available(cpu_isa_best()));
    assert_string_equal(cpu_isa_name(CPU_ISA_AVX512), "avx512");
    if (cpu_isa_available(CPU_ISA_AMX))
        assert_true(cpu_isa_available(CPU_ISA_AVX512));
    if (cpu_isa_available(CPU_ISA_AVX512))
        assert_true(cpu_isa_available(CPU_ISA_AVX2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),   cmocka_unit_test(many_short_loops),       cmocka_unit_test(threads_run_together),
        cmocka_unit_test(creation_can_fail), cmocka_unit_test(processor_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
