/* test_text_map: insert, find, growth, and running out of memory while growing. */
#include "test_support.h"

#include <string.h>

#include "base/memory.h"
#include "base/text_map.h"

#define KEYS 5000
#define KEY_BYTES 16

static char key_bytes[KEYS][KEY_BYTES];

static struct text key(uint32_t index) {
    return text_of(key_bytes[index]);
}

static int make_keys(void **state) {
    (void)state;
    for (int i = 0; i < KEYS; i++)
        snprintf(key_bytes[i], KEY_BYTES, "k%d", i);
    return 0;
}

static void grows_from_nothing(void **state) {
    (void)state;
    struct error err;
    struct text_map map;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    ASSERT_OK(text_map_init(&map, 0, &err), err);
    uint32_t value = 77;
    assert_false(text_map_find(&map, TEXT("k0"), &value));
    for (uint32_t i = 0; i < KEYS; i++) {
        bool existing = true;
        ASSERT_OK(text_map_add(&map, key(i), i * 3, &existing, &err), err);
        assert_false(existing);
    }
    assert_int_equal(map.count, KEYS);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_true(text_map_find(&map, key(i), &value));
        assert_int_equal(value, i * 3);
    }
    assert_false(text_map_find(&map, TEXT("k5000"), &value));
    assert_false(text_map_find(&map, TEXT(""), &value));
    text_map_deinit(&map);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

static void first_value_stays(void **state) {
    (void)state;
    struct error err;
    struct text_map map;
    bool existing;
    uint32_t value;
    ASSERT_OK(text_map_init(&map, 2, &err), err);
    ASSERT_OK(text_map_add(&map, TEXT("a\0x"), 1, &existing, &err), err);
    ASSERT_OK(text_map_add(&map, TEXT("a\0y"), 2, NULL, &err), err);
    ASSERT_OK(text_map_add(&map, TEXT("a\0x"), 3, &existing, &err), err);
    assert_true(existing);
    assert_true(text_map_find(&map, TEXT("a\0x"), &value) && value == 1);
    assert_true(text_map_find(&map, TEXT("a\0y"), &value) && value == 2);
    ASSERT_OK(text_map_add(&map, (struct text){0}, 4, &existing, &err), err); /* the empty key is a key */
    assert_false(existing);
    assert_true(text_map_find(&map, TEXT(""), &value) && value == 4);
    text_map_deinit(&map);
}

static void expected_keys_need_no_growth(void **state) {
    (void)state;
    struct error err;
    struct text_map map;
    ASSERT_OK(text_map_init(&map, KEYS, &err), err);
    uint64_t capacity = map.capacity;
    for (uint32_t i = 0; i < KEYS; i++)
        ASSERT_OK(text_map_add(&map, key(i), i, NULL, &err), err);
    assert_int_equal(map.capacity, capacity);
    text_map_deinit(&map);
    ASSERT_FAILS(text_map_init(&map, UINT64_MAX, &err), STATUS_UNSUPPORTED, err);
    text_map_deinit(&map);
}

static void failed_growth_keeps_all(void **state) {
    (void)state;
    struct error err;
    struct text_map map;
    memory_fail_after(1);
    ASSERT_FAILS(text_map_init(&map, 4, &err), STATUS_NO_MEMORY, err);
    text_map_deinit(&map);
    ASSERT_OK(text_map_init(&map, 4, &err), err);
    uint32_t count = 0, value;
    memory_fail_after(1);
    while (text_map_add(&map, key(count), count, NULL, &err) == STATUS_OK)
        count++;
    assert_int_equal(err.status, STATUS_NO_MEMORY);
    assert_int_equal(map.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_true(text_map_find(&map, key(i), &value) && value == i);
    assert_false(text_map_find(&map, key(count), &value));
    ASSERT_OK(text_map_add(&map, key(count), count, NULL, &err), err);
    assert_true(text_map_find(&map, key(count), &value) && value == count);
    text_map_deinit(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_from_nothing),
        cmocka_unit_test(first_value_stays),
        cmocka_unit_test(expected_keys_need_no_growth),
        cmocka_unit_test(failed_growth_keeps_all),
    };
    return cmocka_run_group_tests(tests, make_keys, NULL);
}
