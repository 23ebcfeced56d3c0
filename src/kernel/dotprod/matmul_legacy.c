/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each; see kernel/neon/matmul_legacy_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_legacy_body.inc"
