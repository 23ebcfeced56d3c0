/*
 * tiles_in_c: the products with tiles of bytes (kernel/amx) over tile registers in plain C, so that they are checked on every machine with
 * AVX-512. What is left for a machine with the instructions is that they do what is written here.
 */
#include <string.h>

#include "base/check.h"
#include "tiles_in_c.h"

struct tile_config { /* as the processor reads it */
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
static struct tile_config shape;
static uint8_t tile[8][16][64];

static void tile_begin(const struct tile_config *config) {
    shape = *config;
    CHECK(sizeof shape == 64 && shape.palette == 1);
    memset(tile, 0x5a, sizeof tile); /* nothing may be used before it was loaded */
}

static void tile_zero(unsigned n) { memset(tile[n], 0, sizeof tile[n]); }

static void tile_load(unsigned n, const void *from, size_t stride) {
    memset(tile[n], 0, sizeof tile[n]);
    for (size_t r = 0; r < shape.rows[n]; r++)
        memcpy(tile[n][r], (const uint8_t *)from + r * stride, shape.row_bytes[n]);
}

static void tile_store(unsigned n, void *to, size_t stride) {
    for (size_t r = 0; r < shape.rows[n]; r++)
        memcpy((uint8_t *)to + r * stride, tile[n][r], shape.row_bytes[n]);
}

static void tile_dot(unsigned c, unsigned a, unsigned b, int b_is_signed) {
    CHECK(shape.rows[c] == shape.rows[a] && shape.row_bytes[c] == shape.row_bytes[b] && shape.row_bytes[a] == 4 * shape.rows[b]);
    for (size_t m = 0; m < shape.rows[c]; m++)
        for (size_t n = 0; n < shape.row_bytes[c] / 4u; n++) {
            int32_t sum;
            memcpy(&sum, tile[c][m] + 4 * n, 4);
            for (size_t k = 0; k < shape.row_bytes[a]; k++) {
                uint8_t code = tile[b][k / 4][4 * n + k % 4];
                sum += (int8_t)tile[a][m][k] * (b_is_signed ? (int8_t)code : code);
            }
            memcpy(tile[c][m] + 4 * n, &sum, 4);
        }
}

#define TILES_BEGIN(config) tile_begin(config)
#define TILES_END() tile_zero(0)
#define TILE_ZERO(n) tile_zero(n)
#define TILE_LOAD(n, from, stride) tile_load(n, from, stride)
#define TILE_STORE(n, to, stride) tile_store(n, to, stride)
#define TILE_DOT_SIGNED(c, a, b) tile_dot(c, a, b, 1)
#define TILE_DOT_UNSIGNED(c, a, b) tile_dot(c, a, b, 0)

#define LEVEL(name) tiles_in_c_##name
#include "kernel/amx/matmul_many_body.inc"
