/*
 * matmul_columns: products with transposed float weights with AVX-512; see kernel/wide/matmul_columns_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"
#include "kernel/ref/ref.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_columns_body.inc"
