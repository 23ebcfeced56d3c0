/*
 * dtype: one table row per number format: block shape, sizes, names in both file worlds, reference decoder.
 *
 * A row of `cols` elements is cols / block_elements blocks; cols must be a multiple. Adding a format is one enum value, one row,
 * one layout in block_layouts.h and one decoder (docs/ADD_A_FORMAT.md).
 * Formats whose scales live in other tensors (MLX affine, fp8 with block scales) are struct matrix companions, see kernel/kernel.h.
 *
 * Threads   the table is constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

enum dtype {
    /* plain numbers */
    DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_F64,
    DTYPE_I8, DTYPE_I16, DTYPE_I32, DTYPE_I64, DTYPE_U8, DTYPE_U16, DTYPE_U32, DTYPE_U64, DTYPE_BOOL,
    DTYPE_F8_E4M3, DTYPE_F8_E5M2, DTYPE_F8_E8M0,
    /* ggml blocks */
    DTYPE_Q4_0, DTYPE_Q4_1, DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_Q8_0, DTYPE_Q8_1,
    DTYPE_Q2_K, DTYPE_Q3_K, DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_Q8_K,
    DTYPE_IQ2_XXS, DTYPE_IQ2_XS, DTYPE_IQ2_S, DTYPE_IQ3_XXS, DTYPE_IQ3_S, DTYPE_IQ1_S, DTYPE_IQ1_M, DTYPE_IQ4_NL, DTYPE_IQ4_XS,
    DTYPE_TQ1_0, DTYPE_TQ2_0, DTYPE_MXFP4, DTYPE_NVFP4, DTYPE_Q1_0, DTYPE_Q2_0,
    DTYPE_COUNT,
};

enum dtype_class {
    DTYPE_CLASS_FLOAT,   /* element by element floating point: f32 f16 bf16 f64 fp8 */
    DTYPE_CLASS_INTEGER, /* element by element integers */
    DTYPE_CLASS_BLOCK,   /* quantised blocks with scales inside */
};

struct dtype_info {
    const char *name;         /* "Q4_K", "BF16": for people, --dump and inspect */
    enum dtype_class dtype_class;
    uint16_t block_elements, block_bytes;
    int32_t gguf_id;             /* ggml_type number, -1: none */
    const char *safetensors_name; /* "BF16", NULL: none */
    /* Decodes `count` elements (a multiple of block_elements) to f32. NULL: this build cannot decode the format. src needs no alignment. */
    void (*decode)(const void *src, float *dst, size_t count);
};

const struct dtype_info *dtype_info(enum dtype dtype); /* never NULL for dtype < DTYPE_COUNT */
/* False when the number or name is unknown. */
bool dtype_from_gguf(uint32_t gguf_id, enum dtype *out);
bool dtype_from_safetensors(struct text name, enum dtype *out);
/* Name of a ggml_type number that we do not read (retired or unknown), for error texts; NULL when there is none. */
const char *dtype_retired_gguf_name(uint32_t gguf_id);

/* Bytes of `count` elements; false when count is no multiple of the block or the product overflows. */
bool dtype_size(enum dtype dtype, uint64_t count, uint64_t *size_bytes);
