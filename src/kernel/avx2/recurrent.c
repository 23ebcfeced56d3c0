/*
 * recurrent: short convolution, delta rule and length norm with AVX2; see kernel/wide/recurrent_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/recurrent_body.inc"
