/*
 * matmul_columns: products with transposed float weights with AVX2; see kernel/wide/matmul_columns_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"
#include "kernel/ref/ref.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_columns_body.inc"
