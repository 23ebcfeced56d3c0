/*
 * ref: the reference kernels, the definition of every result. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/level.h"

DECLARE_LEVEL(ref)
LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, ref)
void ref_matmul_decoded(const struct matmul_args *args, float *scratch);
void ref_decode_row(const struct matrix *w, size_t row, float *dst);
void ref_router(const struct router_args *args);
void ref_select_top(const float *scores, size_t count, size_t k, uint32_t *positions);

/* Initialisers of a kernel_table: everything. */
/* clang-format off */
#define REF_ENTRIES \
    LEVEL_ENTRIES(ref) \
    LEVEL_SMALL_PRODUCTS(LEVEL_PRODUCT_ENTRY, ref) \
    .matmul_f32 = ref_matmul_decoded, .decode_row = ref_decode_row, .router = ref_router, .select_top = ref_select_top
/* clang-format on */
