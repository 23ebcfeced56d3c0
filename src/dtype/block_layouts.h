/*
 * block_layouts: the bytes of every block format of ggml, as they lie in files and in memory.
 *
 * A block holds a fixed run of consecutive elements of one row. Scales are f16 bits unless said. Structs are packed, so that a
 * pointer to one needs no alignment. Where two 4-bit codes share a byte, the low nibble is the earlier half of the block
 * (element i and i + half), not the neighbour.
 *
 * Invariants  little-endian machine; sizes are pinned below, and equal block_bytes of the dtype table.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"

STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "block layouts are little-endian");

#define BLOCK_SUPER 256 /* elements of a super-block: all K and IQ formats but IQ4_NL, and the ternary ones */

/* ---- one scale per 32 ---- */

struct __attribute__((packed)) block_q4_0 { /* d * (q - 8) */
    uint16_t d;
    uint8_t qs[16];
};
struct __attribute__((packed)) block_q4_1 { /* d * q + m */
    uint16_t d, m;
    uint8_t qs[16];
};
struct __attribute__((packed)) block_q5_0 { /* d * (q - 16); bit i of qh is bit 4 of element i */
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};
struct __attribute__((packed)) block_q5_1 { /* d * q + m */
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
};
struct __attribute__((packed)) block_q8_0 { /* d * q */
    uint16_t d;
    int8_t qs[32];
};
struct __attribute__((packed)) block_q8_1 { /* d * q; s = d * sum of q */
    uint16_t d, s;
    int8_t qs[32];
};
STATIC_ASSERT(sizeof(struct block_q4_0) == 18, "q4_0");
STATIC_ASSERT(sizeof(struct block_q4_1) == 20, "q4_1");
STATIC_ASSERT(sizeof(struct block_q5_0) == 22, "q5_0");
STATIC_ASSERT(sizeof(struct block_q5_1) == 24, "q5_1");
STATIC_ASSERT(sizeof(struct block_q8_0) == 34, "q8_0");
STATIC_ASSERT(sizeof(struct block_q8_1) == 36, "q8_1");

/* ---- K: 256 elements, integer scales of sub-blocks ---- */

struct __attribute__((packed)) block_q2_k { /* d * sc * q - dmin * m per 16; scales[i]: sc low, m high nibble */
    uint8_t scales[16];
    uint8_t qs[64]; /* 128 elements in 32 bytes: element 32 j + i in bits 2j of byte i */
    uint16_t d, dmin;
};
struct __attribute__((packed)) block_q3_k { /* d * (sc - 32) * (q - 4) per 16 */
    uint8_t hmask[32];                      /* bit 2 of q: bit e / 32 of byte e % 32 */
    uint8_t qs[64];                         /* as q2_k */
    uint8_t scales[12];                     /* 6 bits each, see k3_scale */
    uint16_t d;
};
struct __attribute__((packed)) block_q4_k { /* d * sc * q - dmin * m per 32 */
    uint16_t d, dmin;
    uint8_t scales[12]; /* 6 bits each, see k4_scale_min */
    uint8_t qs[128];    /* 64 elements in 32 bytes: low nibbles, then high */
};
struct __attribute__((packed)) block_q5_k { /* as q4_k; bit e / 32 of qh[e % 32] is bit 4 of element e */
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};
struct __attribute__((packed)) block_q6_k { /* d * sc * (q - 32) per 16 */
    uint8_t ql[128];                        /* per 128 elements 64 bytes: low nibbles of elements 0-63, high nibbles of elements 64-127 */
    uint8_t qh[64];                         /* per 128 elements 32 bytes: bits 2j of byte i belong to element 32 j + i */
    int8_t scales[16];
    uint16_t d;
};
struct __attribute__((packed)) block_q8_k { /* d * q, d is f32; sums of 16 q */
    float d;
    int8_t qs[256];
    int16_t bsums[16];
};
STATIC_ASSERT(sizeof(struct block_q2_k) == 84, "q2_k");
STATIC_ASSERT(sizeof(struct block_q3_k) == 110, "q3_k");
STATIC_ASSERT(sizeof(struct block_q4_k) == 144, "q4_k");
STATIC_ASSERT(sizeof(struct block_q5_k) == 176, "q5_k");
STATIC_ASSERT(sizeof(struct block_q6_k) == 210, "q6_k");
STATIC_ASSERT(sizeof(struct block_q8_k) == 292, "q8_k");

/* ---- IQ: codes are indices into a fixed grid of vectors (codebooks.h) ---- */

struct __attribute__((packed)) block_iq2_xxs { /* per 32: 4 grid bytes, then u32: 4 sign indices of 7 bits, scale in the top 4 bits */
    uint16_t d;
    uint8_t qs[64];
};
struct __attribute__((packed)) block_iq2_xs { /* code: 9 bits grid, 7 bits sign index; scales: nibble per 16 */
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
};
struct __attribute__((packed)) block_iq2_s { /* grid index: 8 bits qs, 2 bits qh; one sign byte per 8; scales: nibble per 16 */
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
};
struct __attribute__((packed)) block_iq3_xxs { /* grid byte per 4; per 32 a u32 as in iq2_xxs */
    uint16_t d;
    uint8_t qs[64];
    uint8_t signs_scales[32];
};
struct __attribute__((packed)) block_iq3_s { /* grid index: 8 bits qs, 1 bit qh; one sign byte per 8; scales: nibble per 32 */
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
};
struct __attribute__((packed)) block_iq1_s { /* per 32 a u16 qh: 4 times 3 grid bits, 3 bits scale, sign of the shift */
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
};
struct __attribute__((packed))
block_iq1_m { /* qh nibble per 8: 3 grid bits, sign of the shift; scales: 4 times 3 bits, top nibbles make d */
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4];
};
struct __attribute__((packed)) block_iq4_nl { /* d * table[q], 32 elements */
    uint16_t d;
    uint8_t qs[16];
};
struct __attribute__((packed)) block_iq4_xs { /* d * (sc - 32) * table[q] per 32; sc: 4 bits scales_l, 2 bits scales_h */
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128]; /* per 32 elements 16 bytes: low nibbles, then high */
};
STATIC_ASSERT(sizeof(struct block_iq2_xxs) == 66, "iq2_xxs");
STATIC_ASSERT(sizeof(struct block_iq2_xs) == 74, "iq2_xs");
STATIC_ASSERT(sizeof(struct block_iq2_s) == 82, "iq2_s");
STATIC_ASSERT(sizeof(struct block_iq3_xxs) == 98, "iq3_xxs");
STATIC_ASSERT(sizeof(struct block_iq3_s) == 110, "iq3_s");
STATIC_ASSERT(sizeof(struct block_iq1_s) == 50, "iq1_s");
STATIC_ASSERT(sizeof(struct block_iq1_m) == 56, "iq1_m");
STATIC_ASSERT(sizeof(struct block_iq4_nl) == 18, "iq4_nl");
STATIC_ASSERT(sizeof(struct block_iq4_xs) == 136, "iq4_xs");

/* ---- ternary and few-bit ---- */

struct __attribute__((packed))
block_tq1_0 { /* d * (t - 1); 5 (qs) or 4 (qh) base-3 digits per byte as a fraction of 256, see decode_ternary.c */
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
};
struct __attribute__((packed)) block_tq2_0 { /* d * (q - 1); 128 elements in 32 bytes as q2_k */
    uint8_t qs[64];
    uint16_t d;
};
struct __attribute__((packed)) block_q1_0 { /* +d or -d, 128 elements, bit i of the little-endian stream */
    uint16_t d;
    uint8_t qs[16];
};
struct __attribute__((packed)) block_q2_0 { /* d * (q - 1), 64 elements, bits 2i of the little-endian stream */
    uint16_t d;
    uint8_t qs[16];
};
STATIC_ASSERT(sizeof(struct block_tq1_0) == 54, "tq1_0");
STATIC_ASSERT(sizeof(struct block_tq2_0) == 66, "tq2_0");
STATIC_ASSERT(sizeof(struct block_q1_0) == 18, "q1_0");
STATIC_ASSERT(sizeof(struct block_q2_0) == 18, "q2_0");

/* ---- 4-bit floats ---- */

struct __attribute__((packed)) block_mxfp4 { /* e8m0 scale, 32 e2m1 codes: low nibbles, then high */
    uint8_t e;
    uint8_t qs[16];
};
struct __attribute__((packed)) block_nvfp4 { /* 4 runs of 16 elements: unsigned e4m3 scale, 8 bytes: low nibbles, then high */
    uint8_t d[4];
    uint8_t qs[32];
};
STATIC_ASSERT(sizeof(struct block_mxfp4) == 17, "mxfp4");
STATIC_ASSERT(sizeof(struct block_nvfp4) == 36, "nvfp4");

/* ---- fields inside bytes ---- */

/* Bits of `value` from `shift` on, under the mask. */
static inline unsigned bit_field(unsigned value, unsigned shift, unsigned mask) {
    return value >> shift & mask;
}

/* Scale and min of the 32 elements number j (0-7) of a q4_k or q5_k block. */
static inline void k4_scale_min(const uint8_t scales[12], unsigned j, uint8_t *scale, uint8_t *min) {
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else {
        *scale = (uint8_t)((scales[j + 4] & 15) | (scales[j - 4] >> 6 << 4));
        *min = (uint8_t)((scales[j + 4] >> 4) | (scales[j] >> 6 << 4));
    }
}

/* Scale of the 16 elements number j (0-15) of a q3_k block, -32 .. 31. */
static inline int k3_scale(const uint8_t scales[12], unsigned j) {
    unsigned low = bit_field(scales[j % 8], j / 8 * 4, 15);
    unsigned high = bit_field(scales[8 + j % 4], j / 4 * 2, 3);
    return (int)(low | high << 4) - 32;
}
