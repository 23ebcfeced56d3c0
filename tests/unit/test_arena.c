/* test_arena: blocks with one lifetime: alignment, zeros, growth, the limit, and memory that runs out. */
#include "test_support.h"

#include <string.h>

#include "base/arena.h"
#include "base/memory.h"

static bool is_zero(const char *block, size_t size_bytes) {
    for (size_t i = 0; i < size_bytes; i++)
        if (block[i])
            return false;
    return true;
}

static void blocks_are_zero_and_apart(void **state) {
    (void)state;
    struct arena *arena;
    struct error err;
    char *blocks[200];
    ASSERT_OK(arena_create(100 << 20, &arena, &err), err);
    for (unsigned round = 0; round < 3; round++) {
        size_t sum = 0;
        for (size_t i = 0; i < 200; i++) {
            size_t size = i * i * 5; /* up to 198 KB: beyond a chunk */
            blocks[i] = arena_alloc(arena, size);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            assert_true(is_zero(blocks[i], size));
            memset(blocks[i], (int)(i + 1), size);
            sum += size;
        }
        for (size_t i = 0; i < 200; i++)
            for (size_t k = 0; k < i * i * 5; k++)
                assert_int_equal((unsigned char)blocks[i][k], i + 1);
        assert_true(arena_used_bytes(arena) >= sum && arena_used_bytes(arena) < sum + 200 * 16 + 1);
        arena_reset(arena);
        assert_int_equal(arena_used_bytes(arena), 0);
    }
    arena_destroy(arena);
    arena_destroy(NULL);
}

static void blocks_grow(void **state) {
    (void)state;
    struct arena *arena;
    struct error err;
    ASSERT_OK(arena_create(1 << 20, &arena, &err), err);
    char *text = arena_grow(arena, NULL, 0, 1);
    text[0] = 'a';
    assert_ptr_equal(arena_grow(arena, text, 1, 100), text); /* the newest, in place */
    assert_true(text[0] == 'a' && is_zero(text + 1, 99));
    char *other = arena_alloc(arena, 1);
    char *moved = arena_grow(arena, text, 100, 200);
    assert_ptr_not_equal(moved, text);
    assert_true(moved[0] == 'a' && is_zero(moved + 1, 199) && other[0] == 0);
    char *large = arena_grow(arena, moved, 200, 500000); /* a chunk of its own */
    assert_true(large[0] == 'a' && is_zero(large + 1, 499999));
    assert_null(arena_grow(arena, large, 500000, 2 << 20));
    assert_int_equal(large[0], 'a');
    arena_destroy(arena);
}

static void limit_is_hard(void **state) {
    (void)state;
    struct arena *arena;
    struct error err;
    ASSERT_OK(arena_create(1024, &arena, &err), err);
    assert_null(arena_alloc(arena, 1025));
    assert_null(arena_alloc(arena, SIZE_MAX));
    assert_null(arena_alloc(arena, SIZE_MAX - 8));
    assert_non_null(arena_alloc(arena, 1008));
    assert_non_null(arena_alloc(arena, 0));
    assert_null(arena_alloc(arena, 1));
    assert_false(arena_was_refused(arena));
    arena_reset(arena);
    assert_non_null(arena_alloc(arena, 1024));
    arena_destroy(arena);
}

static void memory_runs_out(void **state) {
    (void)state;
    struct arena *arena;
    struct error err;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    memory_fail_after(1);
    ASSERT_FAILS(arena_create(1024, &arena, &err), STATUS_NO_MEMORY, err);
    assert_null(arena);
    ASSERT_OK(arena_create(1 << 20, &arena, &err), err);
    memory_fail_after(1);
    assert_null(arena_alloc(arena, 1));
    assert_true(arena_was_refused(arena));
    assert_non_null(arena_alloc(arena, 1));
    arena_destroy(arena);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zero_and_apart),
        cmocka_unit_test(blocks_grow),
        cmocka_unit_test(limit_is_hard),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
