/*
 * recurrent: short convolution, delta rule and length norm with AVX-512; see kernel/wide/recurrent_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/recurrent_body.inc"
