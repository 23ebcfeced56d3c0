/*
 * encode_fit: least-squares fits of one group, behind encode.h.
 *
 * Threads   pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIT_GROUP_MAX 128

/* Rounds to nearest, ties to even; |x| < 2^22. Without a call, so that loops become vector code. */
static inline float fit_round(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    return (x + magic) - magic;
}
static inline float fit_clamp(float x, float low, float high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* The scale s, of either sign, for which s * code with codes low..high comes nearest to x[count]. count: a multiple of 8. */
float fit_scale(const float *x, size_t count, float low, float high);

struct fit_line {
    float scale, offset; /* element = scale * code + offset, scale >= 0 */
};
/* The same for codes 0..high and an offset, which is not above 0 when `offset_below` is set. */
struct fit_line fit_line(const float *x, size_t count, float high, bool offset_below);

/* Sum of (x - scale * code - offset)^2 with the best codes 0..high. */
float fit_line_error(const float *x, size_t count, float high, struct fit_line line);
