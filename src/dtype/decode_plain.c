/*
 * decode_plain: numbers stored one by one: floats, integers, fp8.
 */
#include "base/check.h"
#include "dtype/decode.h"
#include "dtype/scalar_convert.h"

STATIC_ASSERT(sizeof(float) == 4 && sizeof(double) == 8, "IEEE sizes");

/* Loads element i of a packed array that needs no alignment. */
#define LOAD(type, src, i, out) \
    type out;                   \
    memcpy(&out, (const uint8_t *)(src) + (i) * sizeof(type), sizeof out)

void decode_f32(const void *src, float *dst, size_t count) {
    ASSERT(count == 0 || (src && dst));
    if (count > 0)
        memcpy(dst, src, count * sizeof(float));
}

void decode_f16(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint16_t, src, i, x);
        dst[i] = f32_from_f16(x);
    }
}

void decode_bf16(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint16_t, src, i, x);
        dst[i] = f32_from_bf16(x);
    }
}

void decode_f64(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(double, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_i8(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(int8_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_i16(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(int16_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_i32(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(int32_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_i64(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(int64_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_u8(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint8_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_u16(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint16_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_u32(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint32_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_u64(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint64_t, src, i, x);
        dst[i] = (float)x;
    }
}

void decode_bool(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint8_t, src, i, x);
        dst[i] = x ? 1.0f : 0.0f;
    }
}

void decode_f8_e4m3(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint8_t, src, i, x);
        dst[i] = f32_from_f8_e4m3(x);
    }
}

void decode_f8_e5m2(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint8_t, src, i, x);
        dst[i] = f32_from_f8_e5m2(x);
    }
}

void decode_f8_e8m0(const void *src, float *dst, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOAD(uint8_t, src, i, x);
        dst[i] = f32_from_f8_e8m0(x);
    }
}
