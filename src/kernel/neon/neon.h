/*
 * neon: kernels for NEON, which every 64-bit ARM has; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/level.h"

DECLARE_LEVEL(neon)
LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, neon)
bool neon_matmul_many(const struct matmul_args *args, uint8_t *scratch);
/* Products of float weights decoded once for all tokens; false: too few tokens for that, or other weights. */
bool neon_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch);

/* Initialisers of a kernel_table: what is better here than in ref/. */
#define NEON_ENTRIES    \
    LEVEL_ENTRIES(neon) \
    LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_ENTRY, neon).matmul_many = neon_matmul_many
