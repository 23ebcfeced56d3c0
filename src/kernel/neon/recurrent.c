/*
 * recurrent: short convolution, delta rule and length norm with NEON; see kernel/wide/recurrent_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/recurrent_body.inc"
