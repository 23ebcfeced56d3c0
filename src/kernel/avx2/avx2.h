/*
 * avx2: kernels for AVX2, FMA and F16C; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/level.h"

DECLARE_LEVEL(avx2)
bool avx2_matmul_many(const struct matmul_args *args, uint8_t *scratch);
/* Products of float weights decoded once for all tokens; false: too few tokens for that, or other weights. */
bool avx2_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch);

/* Initialisers of a kernel_table: what is better here than in ref/. */
#define AVX2_ENTRIES LEVEL_ENTRIES(avx2).matmul_many = avx2_matmul_many
