/*
 * arch_rows: what the files of this folder share: a NULL-terminated list of names, and the rows that arch_registry.c lists.
 */
#pragma once

#include <stddef.h>

#include "model/arch.h"

#define ARCH_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define ARCH_ROW(name) extern const struct arch_spec arch_##name;
#include "model/arch/arch_list.inc"
#undef ARCH_ROW

extern const struct arch_spec arch_eagle; /* drafters: not in the registry, they are no models of their own */
extern const struct arch_spec arch_eagle_alone;
