/*
 * matmul_legacy: products of the formats of 32-element blocks with one scale each; see kernel/neon/matmul_legacy_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_legacy_body.inc"
