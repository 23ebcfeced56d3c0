/*
 * vector: functions of one row with NEON; see kernel/wide/vector_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/vector_body.inc"
