/* test_sha256: the examples of FIPS 180-4, whole and in parts. */
#include "test_support.h"

#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"

static void check(const char *data, size_t size_bytes, size_t part_bytes, const char *wanted) {
    struct sha256 hash;
    uint8_t digest[32];
    char text[65];
    sha256_init(&hash);
    for (size_t at = 0; at < size_bytes; at += part_bytes)
        sha256_update(&hash, data + at, size_bytes - at < part_bytes ? size_bytes - at : part_bytes);
    sha256_finish(&hash, digest);
    sha256_hex(digest, text);
    assert_string_equal(text, wanted);
}

static void examples_of_the_standard(void **state) {
    (void)state;
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, 64, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(two_blocks, 56, 64, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check(two_blocks, 56, 7, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_letters(void **state) {
    (void)state;
    char *text = memory_alloc(1000000);
    assert_non_null(text);
    memset(text, 'a', 1000000);
    check(text, 1000000, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    check(text, 1000000, 63, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    memory_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_of_the_standard),
        cmocka_unit_test(a_million_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
