/*
 * matmul_float: products of float weights with NEON; see kernel/wide/matmul_float_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/matmul_float_body.inc"
