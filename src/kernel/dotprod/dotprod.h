/*
 * dotprod: kernels for NEON with dot products of bytes; the same bits as ref/. Contracts are those of struct kernel_table.
 *
 * The products of neon/ once more, with another dot.h.
 */
#pragma once

#include "kernel/neon/neon.h"

LEVEL_BYTE_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, dotprod)
LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, dotprod)
bool dotprod_matmul_many(const struct matmul_args *args, uint8_t *scratch);
static inline bool dotprod_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch) {
    return neon_matmul_many_floats(args, scratch);
}

/* Initialisers of a kernel_table: what is better here than in neon/. */
#define DOTPROD_ENTRIES                               \
    LEVEL_BYTE_PRODUCTS(LEVEL_PRODUCT_ENTRY, dotprod) \
    LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_ENTRY, dotprod).matmul_many = dotprod_matmul_many
