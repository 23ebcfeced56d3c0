/*
 * matmul_split: products of formats with scales in tensors of their own, and of NVFP4; see kernel/wide/matmul_split_body.inc
 * and matmul_int_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/octets.h"
#include "kernel/neon/run_terms.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/matmul_split_body.inc"
#include "kernel/wide/matmul_int_body.inc"
