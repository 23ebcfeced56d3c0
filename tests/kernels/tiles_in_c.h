/*
 * tiles_in_c: kernel/amx's products with tile registers in plain C. Only on machines with AVX-512; one thread at a time.
 */
#pragma once

#include "kernel/kernel.h"

/* As amx_matmul_many. */
bool tiles_in_c_matmul_many(const struct matmul_args *args, uint8_t *scratch);
bool tiles_in_c_tiles_work(void); /* what a machine with the instructions is asked before they are used */
