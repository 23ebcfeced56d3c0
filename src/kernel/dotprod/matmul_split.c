/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4; see kernel/neon/matmul_split_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_split_body.inc"
