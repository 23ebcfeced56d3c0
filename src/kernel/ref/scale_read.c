/*
 * scale_read: scales and biases of formats that keep them in tensors of their own.
 */
#include "kernel/ref/scale_read.h"

#include <string.h>

#include "base/check.h"
#include "dtype/scalar_convert.h"

float scale_read(enum dtype dtype, const uint8_t *row, size_t index) {
    float value;
    uint16_t half;
    switch (dtype) {
    case DTYPE_F32:
        memcpy(&value, row + 4 * index, sizeof value);
        return value;
    case DTYPE_F16:
        memcpy(&half, row + 2 * index, sizeof half);
        return f32_from_f16(half);
    case DTYPE_BF16:
        memcpy(&half, row + 2 * index, sizeof half);
        return f32_from_bf16(half);
    case DTYPE_F8_E8M0:
        return f32_from_f8_e8m0(row[index]);
    case DTYPE_F8_E4M3:
        return f32_from_f8_e4m3(row[index]);
    default:
        check_failed("scale type", __FILE__, __LINE__);
    }
}
