/*
 * matmul_k: products of Q2_K .. Q6_K and IQ4_XS; see kernel/neon/matmul_k_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_k_body.inc"
