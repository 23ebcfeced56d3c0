/*
 * matmul_panel: products with many rows of activations; see kernel/neon/matmul_panel_body.inc.
 */
#include "kernel/neon/dot.h"
#include "kernel/neon/neon.h"

#define LEVEL(name) neon_##name
#include "kernel/neon/matmul_panel_body.inc"
