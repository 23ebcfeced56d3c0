/*
 * activation: which block of activations a matrix format is multiplied with, and how a quantised row lies in memory.
 */
#include "base/check.h"
#include "kernel/kernel.h"

static size_t round_up_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

struct activation_layout activation_layout(unsigned block, size_t cols) {
    CHECK(block == 0 || block == 32 || block == 64 || block == 128 || block == 256);
    struct activation_layout layout = {.block = block, .parts = 1, .cols = cols};
    if (block == 0) {
        layout.row_bytes = round_up_64(cols * sizeof(float));
        return layout;
    }
    layout.scales_offset_bytes = round_up_64(cols);
    layout.sums_offset_bytes = layout.scales_offset_bytes + round_up_64((cols + block - 1) / block * sizeof(float));
    layout.row_bytes = layout.sums_offset_bytes + round_up_64((cols + 15) / 16 * sizeof(int16_t));
    return layout;
}

unsigned matrix_activation_block(unsigned format, uint32_t group_cols) {
    switch (format) {
    case DTYPE_Q4_0:
    case DTYPE_Q4_1:
    case DTYPE_Q5_0:
    case DTYPE_Q5_1:
    case DTYPE_Q8_0:
    case DTYPE_IQ4_NL:
    case DTYPE_MXFP4:
    case MATRIX_MXFP4_SPLIT:
        return 32;
    case DTYPE_NVFP4:
    case MATRIX_NVFP4_SPLIT:
    case DTYPE_Q2_0:
        return 64;
    case DTYPE_Q1_0:
        return 128;
    case DTYPE_Q2_K:
    case DTYPE_Q3_K:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
    case DTYPE_Q6_K:
    case DTYPE_IQ2_XXS:
    case DTYPE_IQ2_XS:
    case DTYPE_IQ2_S:
    case DTYPE_IQ3_XXS:
    case DTYPE_IQ3_S:
    case DTYPE_IQ1_S:
    case DTYPE_IQ1_M:
    case DTYPE_IQ4_XS:
    case DTYPE_TQ1_0:
    case DTYPE_TQ2_0:
        return 256;
    case MATRIX_AFFINE: /* one per group; longer groups are cut */
        CHECK(group_cols >= 32 && (group_cols & (group_cols - 1)) == 0);
        return group_cols < 128 ? group_cols : 128;
    case MATRIX_INT_GROUPS: /* a group may also be a whole row of any length */
    case MATRIX_INT8_GROUPS:
    case MATRIX_AWQ:
    case MATRIX_GPTQ:
    case MATRIX_GPTQ_V2:
        return group_cols == 32 || group_cols == 64 ? group_cols : 128;
    default:
        return 0;
    }
}

unsigned matrix_activation_parts(unsigned format) {
    switch (format) {
    case MATRIX_AFFINE:
    case DTYPE_MXFP4:
    case MATRIX_MXFP4_SPLIT:
    case DTYPE_NVFP4:
    case MATRIX_NVFP4_SPLIT:
        return 2;
    default:
        return 1;
    }
}

void activation_remainder(const float *x, const uint8_t *row, const struct activation_layout *layout, float *left) {
    const int8_t *q = (const int8_t *)row;
    const float *scales = (const float *)(const void *)(row + layout->scales_offset_bytes);
    for (size_t begin = 0; begin < layout->cols; begin += layout->block) {
        float d = scales[begin / layout->block];
        size_t end = begin + layout->block < layout->cols ? begin + layout->block : layout->cols;
        for (size_t i = begin; i < end; i++)
            left[i] = x[i] - (float)q[i] * d;
    }
}

/*
 * Sixteen rows of floats (64 bytes a column); or two panels of 16 rows with their scales (20.5 at most; AVX-512 has no more than these) and
 * sums of some rows of activations. With tiles four panels, with a second byte of each code (16), and a list of their blocks.
 */
size_t matmul_many_bytes(enum cpu_isa isa, size_t cols) { return round_up_64((isa == CPU_ISA_AMX ? 150 : 70) * cols + 4096); }
