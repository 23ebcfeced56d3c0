/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS; see kernel/neon/matmul_k_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_k_body.inc"
