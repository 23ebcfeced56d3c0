/*
 * matmul_columns: products with transposed float weights with NEON; see kernel/wide/matmul_columns_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"
#include "kernel/ref/ref.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/matmul_columns_body.inc"
