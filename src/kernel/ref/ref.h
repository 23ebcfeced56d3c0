/*
 * ref: the reference kernels, the definition of every result. Contracts are those of struct kernel_table.
 */
#pragma once

#include "kernel/level.h"

/* clang-format off: one per line */
#define REF_PRODUCTS(X, level) /* of formats without a faster one */ \
    X(level, DTYPE_Q1_0, q1_0)                                       \
    X(level, DTYPE_Q2_0, q2_0)                                       \
    X(level, DTYPE_TQ1_0, tq1_0)                                     \
    X(level, DTYPE_TQ2_0, tq2_0)                                     \
    X(level, DTYPE_IQ2_XXS, iq2_xxs)                                 \
    X(level, DTYPE_IQ2_XS, iq2_xs)                                   \
    X(level, DTYPE_IQ2_S, iq2_s)                                     \
    X(level, DTYPE_IQ3_XXS, iq3_xxs)                                 \
    X(level, DTYPE_IQ3_S, iq3_s)                                     \
    X(level, DTYPE_IQ1_S, iq1_s)                                     \
    X(level, DTYPE_IQ1_M, iq1_m)
/* clang-format on */

DECLARE_LEVEL(ref)
REF_PRODUCTS(LEVEL_PRODUCT_PROTOTYPE, ref)
void ref_matmul_int_groups(const struct matmul_args *args); /* INT_GROUPS, INT8_GROUPS */
void ref_matmul_packed(const struct matmul_args *args);     /* AWQ, GPTQ, GPTQ_V2 */
void ref_matmul_decoded(const struct matmul_args *args, float *scratch);
void ref_decode_row(const struct matrix *w, size_t row, float *dst);
void ref_router(const struct router_args *args);
void ref_select_top(const float *scores, size_t count, size_t k, uint32_t *positions);

/* Initialisers of a kernel_table: everything. */
/* clang-format off */
#define REF_ENTRIES \
    LEVEL_ENTRIES(ref) \
    LEVEL_INT_ENTRIES(ref) \
    REF_PRODUCTS(LEVEL_PRODUCT_ENTRY, ref) \
    .matmul_f32 = ref_matmul_decoded, .decode_row = ref_decode_row, .router = ref_router, .select_top = ref_select_top
/* clang-format on */
