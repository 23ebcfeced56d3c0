/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4; see kernel/neon/matmul_split_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_split_body.inc"
