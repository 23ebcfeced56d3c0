/*
 * tiles: the instructions on tile registers 0 .. 7, as macros since a register's number is part of the instruction. The kernel check has
 * the same names in plain C, so that the products can be checked on machines without.
 *
 * Written as assembly: compilers lose the stores of a configuration, and of memory that a tile is loaded from, behind their own intrinsics.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define TILES_BEGIN(config) __asm__ volatile("ldtilecfg %0" ::"m"(*(config)) : "memory")
#define TILES_END() __asm__ volatile("tilerelease" ::: "memory")
#define TILE_ZERO(n) __asm__ volatile("tilezero %%tmm" #n ::)
#define TILE_LOAD(n, from, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #n ::"r"((const void *)(from)), "r"((size_t)(stride)) : "memory")
#define TILE_STORE(n, to, stride) \
    __asm__ volatile("tilestored %%tmm" #n ", (%0,%1,1)" ::"r"((void *)(to)), "r"((size_t)(stride)) : "memory")
/* c[m][n] += sum over k and i of a[m][4 k + i] * b[k][4 n + i]: both signed; b unsigned. */
#define TILE_DOT_SIGNED(c, a, b) __asm__ volatile("tdpbssd %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
#define TILE_DOT_UNSIGNED(c, a, b) __asm__ volatile("tdpbsud %%tmm" #b ", %%tmm" #a ", %%tmm" #c ::)
