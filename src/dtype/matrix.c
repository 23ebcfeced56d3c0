/*
 * matrix: names of the formats that products are written for.
 */
#include "dtype/matrix.h"

#include "base/check.h"

const char *matrix_format_name(unsigned format) {
    static const char *const names[MATRIX_FORMAT_COUNT - DTYPE_COUNT] = {
        [MATRIX_AFFINE - DTYPE_COUNT] = "affine",
        [MATRIX_F8_BLOCK - DTYPE_COUNT] = "F8_E4M3 scaled",
        [MATRIX_MXFP4_SPLIT - DTYPE_COUNT] = "MXFP4 split",
        [MATRIX_NVFP4_SPLIT - DTYPE_COUNT] = "NVFP4 split",
        [MATRIX_MXFP8_SPLIT - DTYPE_COUNT] = "MXFP8 split",
        [MATRIX_F8_E5M2_BLOCK - DTYPE_COUNT] = "F8_E5M2 scaled",
        [MATRIX_INT_GROUPS - DTYPE_COUNT] = "INT packed",
        [MATRIX_INT8_GROUPS - DTYPE_COUNT] = "INT8 scaled",
        [MATRIX_AWQ - DTYPE_COUNT] = "AWQ",
        [MATRIX_GPTQ - DTYPE_COUNT] = "GPTQ",
        [MATRIX_GPTQ_V2 - DTYPE_COUNT] = "GPTQ v2",
    };
    CHECK(format < MATRIX_FORMAT_COUNT);
    return format < DTYPE_COUNT ? dtype_info((enum dtype)format)->name : names[format - DTYPE_COUNT];
}

const char *matrix_format_origin(unsigned format) {
    static const char *const origins[MATRIX_FORMAT_COUNT - DTYPE_COUNT] = {
        [MATRIX_AFFINE - DTYPE_COUNT] = "MLX `affine`: 2, 3, 4, 5, 6 or 8 bits, a scale and a bias per group of any size",
        [MATRIX_F8_BLOCK - DTYPE_COUNT] = "`fp8` (DeepSeek, Qwen, MiniMax), compressed-tensors: a scale per block, row or tensor",
        [MATRIX_MXFP4_SPLIT - DTYPE_COUNT] = "MLX `mxfp4`, gpt-oss: e2m1, an e8m0 scale per 32",
        [MATRIX_NVFP4_SPLIT - DTYPE_COUNT] = "MLX `nvfp4`, compressed-tensors, ModelOpt: e2m1, an e4m3 scale per 16, a scale per tensor",
        [MATRIX_MXFP8_SPLIT - DTYPE_COUNT] = "MLX `mxfp8`: e4m3, an e8m0 scale per 32",
        [MATRIX_F8_E5M2_BLOCK - DTYPE_COUNT] = "`fp8` with e5m2: a scale per block or tensor",
        [MATRIX_INT_GROUPS - DTYPE_COUNT] = "compressed-tensors `pack-quantized`: 4 or 8 bits, a scale per group or row, zeros or none",
        [MATRIX_INT8_GROUPS - DTYPE_COUNT] = "compressed-tensors `int-quantized`: 8 bits, a scale per row or tensor",
        [MATRIX_AWQ - DTYPE_COUNT] = "AWQ: 4 bits, a scale and a zero per group",
        [MATRIX_GPTQ - DTYPE_COUNT] = "GPTQ: 4 or 8 bits, a scale and a zero per group; no activation order",
        [MATRIX_GPTQ_V2 - DTYPE_COUNT] = "GPTQ v2: the same with zeros as they are",
    };
    CHECK(format >= DTYPE_COUNT && format < MATRIX_FORMAT_COUNT);
    return origins[format - DTYPE_COUNT];
}

struct matrix matrix_rows(const struct matrix *w, size_t first, size_t count) {
    CHECK(first <= w->rows && count <= w->rows - first);
    struct matrix part = *w;
    part.rows = count;
    if (matrix_is_packed_by_columns(w->format)) {
        part.group_row_offset += (uint32_t)first;
        return part;
    }
    size_t group = w->group_rows > 1 ? w->group_rows : 1, group_row = (w->group_row_offset + first) / group;
    part.data += first * w->row_bytes;
    part.group_row_offset = (uint32_t)((w->group_row_offset + first) % group);
    if (part.scales)
        part.scales += (w->format == MATRIX_INT_GROUPS ? first : group_row) * w->scales_row_bytes;
    if (part.biases) /* zero points of INT_GROUPS: a word of 4 bytes per group */
        part.biases += group_row * (w->format == MATRIX_INT_GROUPS ? w->cols / w->group_cols * 4 : w->scales_row_bytes);
    return part;
}
