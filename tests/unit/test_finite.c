/* test_finite: what is found without decoding is what decoding would find, for every format. */
#include "test_support.h"

#include <math.h>
#include <stdlib.h>

#include "pack/finite.h"

#define BLOCKS 3000

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* First element of the first block that decodes to what is no number; `count` when none does. */
static size_t decoded(const struct dtype_info *info, const uint8_t *data, size_t count) {
    float values[256];
    for (size_t i = 0; i < count; i += info->block_elements) {
        info->decode(data + i / info->block_elements * info->block_bytes, values, info->block_elements);
        for (size_t k = 0; k < info->block_elements; k++)
            if (!isfinite(values[k]))
                return i;
    }
    return count;
}

static void test_every_format(void **state) {
    (void)state;
    uint64_t random = 12345;
    for (unsigned d = 0; d < DTYPE_COUNT; d++) {
        const struct dtype_info *info = dtype_info((enum dtype)d);
        size_t count = (size_t)BLOCKS * info->block_elements, bytes = (size_t)BLOCKS * info->block_bytes, found = 0;
        uint8_t *data = malloc(bytes);
        assert_non_null(data);
        for (int round = 0; round < 200; round++) {
            for (size_t i = 0; i < bytes; i++)
                data[i] = (uint8_t)(next_random(&random) >> 30) & (round % 2 ? 0xff : 0xbb); /* odd rounds: often, at any place */
            size_t first = (size_t)(next_random(&random) % BLOCKS) * info->block_elements, got;
            got = finite_check((enum dtype)d, data + first / info->block_elements * info->block_bytes, count - first);
            if (info->dtype_class == DTYPE_CLASS_INTEGER || d == DTYPE_F8_E8M0) {
                assert_int_equal(got, count - first);
                continue;
            }
            size_t want = decoded(info, data + first / info->block_elements * info->block_bytes, count - first);
            if (got / info->block_elements != want / info->block_elements)
                fail_msg("%s: found at %zu, decoded at %zu of %zu", info->name, got, want, count - first);
            found += got < count - first;
        }
        if (d == DTYPE_F32 || d == DTYPE_BF16 || d == DTYPE_Q4_0 || d == DTYPE_Q6_K || d == DTYPE_F8_E4M3)
            assert_true(found > 20);
        free(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_format)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
