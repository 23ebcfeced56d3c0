/*
 * matmul_packed: products of AWQ and GPTQ codes; see kernel/neon/matmul_packed_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_packed_body.inc"
