/*
 * matmul_float_many: products of float weights with many rows of activations with AVX2; see kernel/wide/matmul_float_many_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/matmul_float_many_body.inc"
