/*
 * index: scores of the sparse index with NEON; see kernel/wide/index_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/index_body.inc"
