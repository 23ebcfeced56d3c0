/*
 * attention: attention with AVX-512; see kernel/wide/attention_body.inc and attention_block_body.inc.
 */
#include "kernel/avx512/avx512.h"
#include "kernel/avx512/wide.h"

#define LEVEL(name) avx512_##name
#include "kernel/wide/attention_body.inc"
#include "kernel/wide/attention_block_body.inc"
