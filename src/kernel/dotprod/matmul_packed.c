/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/neon/matmul_packed_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_packed_body.inc"
