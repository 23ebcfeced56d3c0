/* test_memory: counters by owner, failing allocations, regions with locking and discarding, checked sizes. */
#include "test_support.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/memory.h"

static void heap_is_zeroed_and_counted(void **state) {
    (void)state;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    unsigned char *block = memory_alloc(1000);
    assert_non_null(block);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(block[i], 0);
    assert_in_range(memory_owner_bytes(MEMORY_OTHER) - before, 1000, 1100);
    memset(block, 7, 1000);
    block = memory_resize(block, 500, 8);
    assert_non_null(block);
    assert_int_equal(block[999], 7);
    assert_in_range(memory_owner_bytes(MEMORY_OTHER) - before, 4000, 4200);
    memory_free(block);
    memory_free(NULL);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

static void heap_edges(void **state) {
    (void)state;
    void *a = memory_alloc(0), *b = memory_alloc(0);
    assert_non_null(a);
    assert_true(a != b);
    memory_free(a);
    memory_free(b);
    assert_null(memory_alloc_array(SIZE_MAX / 2, 3));
    void *block = memory_alloc(16);
    assert_null(memory_resize(block, SIZE_MAX / 2, 3));
    memory_free(block);
    char *copy = memory_copy_text("a\0b", 3);
    assert_memory_equal(copy, "a\0b\0", 4);
    memory_free(copy);
}

static void nth_allocation_fails_once(void **state) {
    (void)state;
    struct error err = {0};
    struct memory_region region;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER), refusals = memory_refusals();
    memory_fail_after(2);
    void *first = memory_alloc(8);
    assert_non_null(first);
    assert_null(memory_alloc(8));
    void *third = memory_alloc(8);
    assert_non_null(third);
    memory_fail_after(1);
    assert_null(memory_resize(first, 100, 1));
    memory_fail_after(1);
    ASSERT_FAILS(memory_region_create(&region, 4096, MEMORY_KV, false, &err), STATUS_NO_MEMORY, err);
    assert_null(region.data);
    memory_region_destroy(&region);
    assert_int_equal(memory_refusals(), refusals + 3);
    memory_fail_after(1);
    memory_fail_after(0);
    void *fourth = memory_alloc(8);
    assert_non_null(fourth);
    memory_free(first);
    memory_free(third);
    memory_free(fourth);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

static void region_is_counted_by_owner(void **state) {
    (void)state;
    struct error err;
    struct memory_region region;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ASSERT_OK(memory_region_create(&region, 3 * page + 5, MEMORY_CACHE, false, &err), err);
    assert_int_equal(region.size_bytes, 3 * page + 5);
    assert_int_equal((uintptr_t)region.data % page, 0);
    assert_false(region.locked);
    assert_int_equal(memory_owner_bytes(MEMORY_CACHE), 4 * page);
    assert_int_equal(memory_owner_bytes(MEMORY_TRUNK), 0);
    region.data[3 * page + 4] = 1;
    memory_region_destroy(&region);
    memory_region_destroy(&region);
    assert_int_equal(memory_owner_bytes(MEMORY_CACHE), 0);

    ASSERT_OK(memory_region_create(&region, 0, MEMORY_KV, true, &err), err);
    assert_null(region.data);
    memory_region_destroy(&region);
    ASSERT_FAILS(memory_region_create(&region, SIZE_MAX - 10, MEMORY_KV, false, &err), STATUS_NO_MEMORY, err);
    ASSERT_FAILS(memory_region_create(&region, (size_t)1 << 60, MEMORY_KV, false, &err), STATUS_NO_MEMORY, err);
    assert_int_equal(memory_owner_bytes(MEMORY_KV), 0);
}

static bool is_present(const uint8_t *page_start, size_t page) {
    unsigned char present = 0;
    assert_int_equal(mincore((void *)page_start, page, &present), 0);
    return present & 1;
}

static void check_discard(bool lock) {
    struct error err;
    struct memory_region region;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    ASSERT_OK(memory_region_create(&region, 8 * page, MEMORY_STAGING, lock, &err), err);
    bool locked = region.locked;
    assert_int_equal(memory_locked_bytes(), locked ? 8 * page : 0);
    memset(region.data, 9, 8 * page);
    memory_region_discard(&region, page + 1, 3 * page - 2); /* pages 2 and 3 lie wholly inside: [1+, 4-) */
    assert_int_equal(region.locked, locked);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(is_present(region.data + i * page, page), i != 2);
    assert_int_equal(region.data[2 * page], 0);
    assert_int_equal(region.data[2 * page - 1], 9);
    assert_int_equal(region.data[3 * page], 9);
    memory_region_discard(&region, 10, 20); /* less than a page: nothing */
    assert_int_equal(region.data[15], 9);
    memory_region_discard(&region, 0, 8 * page);
    assert_int_equal(region.data[15], 0);
    memory_region_destroy(&region);
    assert_int_equal(memory_locked_bytes(), 0);
}

static void discard_gives_back_whole_pages(void **state) {
    (void)state;
    check_discard(false);
}

/* Where the system refuses to lock, this is the test above again. */
static void discard_of_a_locked_region(void **state) {
    (void)state;
    check_discard(true);
}

/* The limit was lowered meanwhile (prlimit): what was locked is not locked again, and pages can still be given back. */
static void discard_when_locking_is_refused_meanwhile(void **state) {
    (void)state;
    struct error err;
    struct memory_region region;
    struct rlimit limit, none;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool root = geteuid() == 0; /* whom no limit binds */
    ASSERT_OK(memory_region_create(&region, 8 * page, MEMORY_STAGING, true, &err), err);
    memset(region.data, 9, 8 * page);
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &none), 0);
    assert_int_equal(root ? seteuid(65534) : 0, 0);
    memory_region_discard(&region, 0, 2 * page);
    assert_false(region.locked);
    assert_int_equal(memory_locked_bytes(), 0);
    memory_region_discard(&region, 4 * page, 2 * page);
    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(region.data[i * page], i < 2 || i == 4 || i == 5 ? 0 : 9);
    memory_region_destroy(&region);
    assert_int_equal(memory_locked_bytes(), 0);
}

static void process_is_read(void **state) {
    (void)state;
    struct memory_process process = memory_process_read();
    assert_true(process.rss_bytes > 100000);
    assert_true(process.peak_rss_bytes >= process.rss_bytes);
    assert_true(process.page_table_bytes > 0);
    memory_setup();
    memory_trim();
}

static void sizes_do_not_wrap(void **state) {
    (void)state;
    uint64_t value = 1;
    assert_true(size_add(UINT64_MAX - 1, 1, &value));
    assert_true(value == UINT64_MAX);
    assert_false(size_add(UINT64_MAX, 1, &value));
    assert_true(size_multiply(1ull << 32, (1ull << 32) - 1, &value));
    assert_false(size_multiply(1ull << 32, 1ull << 32, &value));
    assert_int_equal(size_round_up(0, 4096), 0);
    assert_int_equal(size_round_up(1, 4096), 4096);
    assert_int_equal(size_round_up(4096, 4096), 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_is_zeroed_and_counted),
        cmocka_unit_test(heap_edges),
        cmocka_unit_test(nth_allocation_fails_once),
        cmocka_unit_test(region_is_counted_by_owner),
        cmocka_unit_test(discard_gives_back_whole_pages),
        cmocka_unit_test(discard_of_a_locked_region),
        cmocka_unit_test(discard_when_locking_is_refused_meanwhile),
        cmocka_unit_test(process_is_read),
        cmocka_unit_test(sizes_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
