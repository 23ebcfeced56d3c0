/*
 * vector: functions of one row with AVX-512; see kernel/wide/vector_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/vector_body.inc"
