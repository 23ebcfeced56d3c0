/* test_byte_reader: the cursor over untrusted bytes, and the growing buffer beside it. */
#include "test_support.h"

#include <string.h>

#include "base/byte_buffer.h"
#include "base/byte_reader.h"
#include "base/memory.h"

static void reads_little_endian(void **state) {
    (void)state;
    static const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0xff, 'a', 'b'};
    struct byte_reader reader = {bytes, sizeof(bytes), 0};
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    struct text text;
    assert_true(byte_reader_u16(&reader, &u16) && u16 == 0x0201);
    assert_true(byte_reader_u32(&reader, &u32) && u32 == 0x06050403);
    assert_true(byte_reader_u64(&reader, &u64) && u64 == 0x0e0d0c0b0a090807ull);
    assert_true(byte_reader_u8(&reader, &u8) && u8 == 0xff);
    assert_true(byte_reader_bytes(&reader, 2, &text) && text_is(text, "ab"));
    assert_int_equal(byte_reader_left(&reader), 0);
    assert_true(byte_reader_bytes(&reader, 0, &text) && text.size_bytes == 0);
    assert_true(byte_reader_skip(&reader, 0));
}

/* Every read of every length at every position of a short input either stays inside or leaves everything as it was. */
static void never_past_the_end(void **state) {
    (void)state;
    uint8_t *bytes = memory_alloc(8); /* its own block: a sanitizer sees each byte too many */
    for (uint64_t size = 0; size <= 8; size++)
        for (uint64_t start = 0; start <= size; start++) {
            struct byte_reader reader = {bytes, size, start};
            uint64_t left = size - start, u64 = 99;
            uint32_t u32 = 99;
            uint16_t u16 = 99;
            uint8_t u8 = 99;
            struct text text = TEXT("same");
            struct byte_reader copy = reader;
            assert_int_equal(byte_reader_u64(&copy, &u64), left >= 8);
            assert_int_equal(copy.position, left >= 8 ? start + 8 : start);
            copy = reader;
            assert_int_equal(byte_reader_u32(&copy, &u32), left >= 4);
            assert_int_equal(u32, left >= 4 ? 0 : 99);
            copy = reader;
            assert_int_equal(byte_reader_u16(&copy, &u16), left >= 2);
            assert_int_equal(u16, left >= 2 ? 0 : 99);
            copy = reader;
            assert_int_equal(byte_reader_u8(&copy, &u8), left >= 1);
            copy = reader;
            assert_false(byte_reader_bytes(&copy, left + 1, &text));
            assert_true(text_is(text, "same"));
            assert_false(byte_reader_bytes(&copy, UINT64_MAX, &text));
            assert_false(byte_reader_skip(&copy, UINT64_MAX));
            assert_int_equal(copy.position, start);
        }
    memory_free(bytes);
}

static void buffer_grows_and_stays_terminated(void **state) {
    (void)state;
    struct error err;
    struct byte_buffer buffer;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    byte_buffer_init(&buffer, 1 << 20);
    assert_string_equal(byte_buffer_text(&buffer).data, "");
    for (int i = 0; i < 1000; i++)
        ASSERT_OK(byte_buffer_printf(&buffer, &err, "%03d,", i), err);
    assert_int_equal(buffer.size_bytes, 4000);
    assert_int_equal(strlen(buffer.data), 4000);
    assert_memory_equal(buffer.data + 3996, "999,", 5);
    ASSERT_OK(byte_buffer_append(&buffer, NULL, 0, &err), err);
    byte_buffer_clear(&buffer);
    assert_string_equal(buffer.data, "");
    ASSERT_OK(byte_buffer_append_text(&buffer, TEXT("a\0b"), &err), err);
    assert_memory_equal(buffer.data, "a\0b\0", 4);
    char *taken = byte_buffer_take(&buffer);
    assert_memory_equal(taken, "a\0b\0", 4);
    assert_null(buffer.data);
    memory_free(taken);
    taken = byte_buffer_take(&buffer); /* of an empty buffer */
    assert_string_equal(taken, "");
    memory_free(taken);
    byte_buffer_deinit(&buffer);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
}

static void buffer_keeps_what_it_had(void **state) {
    (void)state;
    struct error err;
    struct byte_buffer buffer;
    byte_buffer_init(&buffer, 10);
    ASSERT_OK(byte_buffer_append_text(&buffer, TEXT("12345678"), &err), err);
    ASSERT_FAILS(byte_buffer_append_text(&buffer, TEXT("abc"), &err), STATUS_OVER_BUDGET, err);
    ASSERT_FAILS(byte_buffer_printf(&buffer, &err, "%d", 12345), STATUS_OVER_BUDGET, err);
    ASSERT_FAILS(byte_buffer_reserve(&buffer, SIZE_MAX, &err), STATUS_OVER_BUDGET, err);
    ASSERT_OK(byte_buffer_append_text(&buffer, TEXT("90"), &err), err);
    assert_string_equal(buffer.data, "1234567890");
    byte_buffer_deinit(&buffer);

    byte_buffer_init(&buffer, 1000);
    ASSERT_OK(byte_buffer_append_text(&buffer, TEXT("kept"), &err), err);
    char large[500] = {0};
    memory_fail_after(1);
    ASSERT_FAILS(byte_buffer_append(&buffer, large, sizeof(large), &err), STATUS_NO_MEMORY, err);
    assert_string_equal(buffer.data, "kept");
    byte_buffer_deinit(&buffer);

    byte_buffer_init(&buffer, 0);
    ASSERT_OK(byte_buffer_append(&buffer, "", 0, &err), err);
    ASSERT_FAILS(byte_buffer_append(&buffer, "x", 1, &err), STATUS_OVER_BUDGET, err);
    byte_buffer_deinit(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_little_endian),
        cmocka_unit_test(never_past_the_end),
        cmocka_unit_test(buffer_grows_and_stays_terminated),
        cmocka_unit_test(buffer_keeps_what_it_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
