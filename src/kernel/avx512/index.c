/*
 * index: scores of the sparse index with AVX-512; see kernel/wide/index_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/index_body.inc"
