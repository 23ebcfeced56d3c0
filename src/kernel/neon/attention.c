/*
 * attention: attention with NEON; see kernel/wide/attention_body.inc and attention_block_body.inc.
 */
#include "kernel/neon/neon.h"
#include "kernel/neon/wide.h"

#define LEVEL(name) neon_##name
#include "kernel/wide/attention_body.inc"
#include "kernel/wide/attention_block_body.inc"
