/*
 * matmul_float_many: products of float weights with many rows of activations with NEON; see kernel/wide/matmul_float_many_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/matmul_float_many_body.inc"
