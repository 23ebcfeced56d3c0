/*
 * avx512: kernels for AVX-512 F, BW, DQ, VL and VNNI; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/level.h"

DECLARE_LEVEL(avx512)
bool avx512_matmul_many(const struct matmul_args *args, uint8_t *scratch);
/* Products of float weights decoded once for all tokens; false: too few tokens for that, or other weights. */
bool avx512_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch);

/* Initialisers of a kernel_table: what is better here than in avx2/. */
#define AVX512_ENTRIES LEVEL_ENTRIES(avx512).matmul_many = avx512_matmul_many
