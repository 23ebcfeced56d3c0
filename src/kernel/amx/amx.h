/*
 * amx: products with tiles of bytes. Everything else is as with AVX-512.
 */
#pragma once

#include "kernel/kernel.h"

/* As kernel_table's: tiles for block-quantised weights and 24 rows of activations or more, else what AVX-512 does. */
bool amx_matmul_many(const struct matmul_args *args, uint8_t *scratch);
/* Whether tile products come out right on this machine, which also means that the system keeps tile registers. Permission has been asked
 * for. */
bool amx_tiles_work(void);

#define AMX_ENTRIES .matmul_many = amx_matmul_many
