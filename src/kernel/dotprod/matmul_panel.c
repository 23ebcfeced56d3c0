/*
 * matmul_panel: products with many rows of activations; see kernel/neon/matmul_panel_body.inc.
 */
#include "kernel/dotprod/dot.h"
#include "kernel/dotprod/dotprod.h"

#define LEVEL(name) dotprod_##name
#include "kernel/neon/matmul_panel_body.inc"
