/*
 * matmul_iq: products of the IQ formats with grids, and of those with few bits and no sub-blocks; see kernel/neon/matmul_iq_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_iq_body.inc"
