/*
 * matmul_iq: products of the IQ formats with grids, and of those with few bits and no sub-blocks; see strips.h.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/strips.h"

#define LEVEL(name) neon_##name

#define PRODUCT(name, elements, d_offset, factor, dot, ...)                                                                   \
    ALWAYS_INLINE void name##_block(const uint8_t *block, const struct activation *x, unsigned tokens, int32x4_t sum[TOKENS], \
                                    int32x4_t bias[TOKENS]) {                                                                 \
        (void)bias;                                                                                                           \
        dot(block, name##_codes, __VA_ARGS__, x, tokens, sum);                                                                \
    }                                                                                                                         \
    STRIP_PRODUCT(name, elements, d_offset, NO_MIN, factor)
#define OF_32(name, factor) PRODUCT(name, 256, offsetof(struct block_##name, d), factor, scaled_dot_32, name##_scales(block))
#define OF_16(name, d_offset, factor) PRODUCT(name, 256, d_offset, factor, scaled_dot_16, name##_scales(block))
#define PLAIN(name, elements) PRODUCT(name, elements, offsetof(struct block_##name, d), 1, plain_dot, elements)

OF_32(iq2_xxs, 0.125f)
OF_16(iq2_xs, offsetof(struct block_iq2_xs, d), 0.125f)
OF_16(iq2_s, offsetof(struct block_iq2_s, d), 0.125f)
OF_32(iq3_xxs, 0.25f)
OF_32(iq3_s, 1)
OF_32(iq1_s, 0.125f)
OF_16(iq1_m, IQ1_M_D, 0.125f)
PLAIN(tq1_0, 256)
PLAIN(tq2_0, 256)
PLAIN(q1_0, 128)
PLAIN(q2_0, 64)
