/*
 * arch_rows: what the files of this folder share: a NULL-terminated list of names, and the rows that arch_registry.c lists.
 */
#pragma once

#include <stddef.h>

#include "model/arch.h"

#define ARCH_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

extern const struct arch_spec arch_gemma2, arch_gemma3, arch_llama, arch_mistral, arch_mixtral, arch_olmoe, arch_qwen2, arch_qwen3,
    arch_qwen3_moe;
