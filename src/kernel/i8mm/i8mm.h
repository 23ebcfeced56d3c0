/*
 * i8mm: kernels for NEON with matrix products of bytes; the same bits as ref/. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/neon/neon.h"

bool i8mm_matmul_many(const struct matmul_args *args, uint8_t *scratch);
static inline bool i8mm_matmul_many_floats(const struct matmul_args *args, uint8_t *scratch) {
    return neon_matmul_many_floats(args, scratch);
}

/* Initialisers of a kernel_table: what is better here than in dotprod/. */
#define I8MM_ENTRIES .matmul_many = i8mm_matmul_many
