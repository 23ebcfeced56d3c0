/*
 * codebooks: the fixed tables that IQ and 4-bit formats index.
 *
 * Grids hold magnitudes (iq2, iq3) or values -1, 0, 1 (iq1) of 8 or 4 neighbouring elements; signs come from the block. The tables
 * lie in generated/iq_grids.c, made by tools/generate_iq_grids.py.
 */
#pragma once

#include <stdint.h>

extern const uint8_t iq2_xxs_grid[256][8];
extern const uint8_t iq2_xs_grid[512][8];
extern const uint8_t iq2_s_grid[1024][8];
extern const uint8_t iq3_xxs_grid[256][4];
extern const uint8_t iq3_s_grid[512][4];
extern const int8_t iq1_grid[2048][8];

/* Signs of 8 elements (bit i set: element i is negative) from a 7-bit index: the eighth makes the number of minus signs even. */
extern const uint8_t iq_signs[128];

/* Values of iq4_nl and iq4_xs. */
extern const int8_t iq4_values[16];

/* e2m1 codes as integers: twice the value, so that blocks of mxfp4 and nvfp4 multiply them by half the scale. Code 8 is +0. */
extern const int8_t fp4_doubled_values[16];
