/*
 * matmul_float_many: products of float weights with many rows of activations with AVX-512; see kernel/wide/matmul_float_many_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/matmul_float_many_body.inc"
