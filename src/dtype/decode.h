/*
 * decode: the reference decoders behind the dtype table, one per format, grouped by file.
 *
 * Each decodes `count` elements, a multiple of the format's block, from src (any alignment) to dst, with f32 operations in the order
 * that the format's definition in ggml has, so that results are bit-equal to it. Call them through dtype_info().
 *
 * Threads   pure.
 */
#pragma once

#include <stddef.h>

/* decode_plain.c */
void decode_f32(const void *src, float *dst, size_t count);
void decode_f16(const void *src, float *dst, size_t count);
void decode_bf16(const void *src, float *dst, size_t count);
void decode_f64(const void *src, float *dst, size_t count); /* rounded to nearest even, as are wide integers */
void decode_i8(const void *src, float *dst, size_t count);
void decode_i16(const void *src, float *dst, size_t count);
void decode_i32(const void *src, float *dst, size_t count);
void decode_i64(const void *src, float *dst, size_t count);
void decode_u8(const void *src, float *dst, size_t count);
void decode_u16(const void *src, float *dst, size_t count);
void decode_u32(const void *src, float *dst, size_t count);
void decode_u64(const void *src, float *dst, size_t count);
void decode_bool(const void *src, float *dst, size_t count); /* 0 or 1 */
void decode_f8_e4m3(const void *src, float *dst, size_t count);
void decode_f8_e5m2(const void *src, float *dst, size_t count);
void decode_f8_e8m0(const void *src, float *dst, size_t count);

/* decode_legacy.c */
void decode_q4_0(const void *src, float *dst, size_t count);
void decode_q4_1(const void *src, float *dst, size_t count);
void decode_q5_0(const void *src, float *dst, size_t count);
void decode_q5_1(const void *src, float *dst, size_t count);
void decode_q8_0(const void *src, float *dst, size_t count);
void decode_q8_1(const void *src, float *dst, size_t count);

/* decode_k.c */
void decode_q2_k(const void *src, float *dst, size_t count);
void decode_q3_k(const void *src, float *dst, size_t count);
void decode_q4_k(const void *src, float *dst, size_t count);
void decode_q5_k(const void *src, float *dst, size_t count);
void decode_q6_k(const void *src, float *dst, size_t count);
void decode_q8_k(const void *src, float *dst, size_t count);

/* decode_iq.c */
void decode_iq2_xxs(const void *src, float *dst, size_t count);
void decode_iq2_xs(const void *src, float *dst, size_t count);
void decode_iq2_s(const void *src, float *dst, size_t count);
void decode_iq3_xxs(const void *src, float *dst, size_t count);
void decode_iq3_s(const void *src, float *dst, size_t count);
void decode_iq1_s(const void *src, float *dst, size_t count);
void decode_iq1_m(const void *src, float *dst, size_t count);
void decode_iq4_nl(const void *src, float *dst, size_t count);
void decode_iq4_xs(const void *src, float *dst, size_t count);

/* decode_ternary.c */
void decode_tq1_0(const void *src, float *dst, size_t count);
void decode_tq2_0(const void *src, float *dst, size_t count);
void decode_q1_0(const void *src, float *dst, size_t count);
void decode_q2_0(const void *src, float *dst, size_t count);

/* decode_float_block.c */
void decode_mxfp4(const void *src, float *dst, size_t count);
void decode_nvfp4(const void *src, float *dst, size_t count);
