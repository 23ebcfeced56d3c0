/*
 * matmul_many: products with many rows of activations with tiles of bytes; see matmul_many_body.inc.
 */
#include "kernel/amx/amx.h"
#include "kernel/amx/tiles.h"

#define LEVEL(name) amx_##name
#include "kernel/amx/matmul_many_body.inc"
