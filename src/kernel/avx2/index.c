/*
 * index: scores of the sparse index with AVX2; see kernel/wide/index_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/index_body.inc"
