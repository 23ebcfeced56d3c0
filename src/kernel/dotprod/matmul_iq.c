/*
 * matmul_iq: products of the IQ formats with grids, and of those with few bits and no sub-blocks; see kernel/neon/matmul_iq_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_iq_body.inc"
