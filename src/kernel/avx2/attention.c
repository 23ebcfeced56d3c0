/*
 * attention: attention with AVX2; see kernel/wide/attention_body.inc and attention_block_body.inc.
 */
#include "kernel/avx2/avx2.h"
#include "kernel/avx2/wide.h"

#define LEVEL(name) avx2_##name
#include "kernel/wide/attention_body.inc"
#include "kernel/wide/attention_block_body.inc"
