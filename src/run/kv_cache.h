/*
 * kv_cache: keys and values of all sequences and layers, in tiles of KV_TILE positions.
 *
 * Model       a sequence slot has, for every attention layer, an array of tiles. A layer that sees everything has a tile for each
 *             position up to the context; a windowed one has as many as window and one pass can touch, and wraps around. A tile is
 *             [kv_heads][positions][head_dim] of keys and the same of values; latent layers keep one vector, whose first elements are the
 *             value too, index layers keys alone.
 * Memory      one region, mapped at create and touched as positions are written. Nothing is allocated later.
 * Rollback    positions are overwritten when written again. A windowed layer can go back by at most `rewind_rows` positions.
 */
#pragma once

#include "model/plan.h"
#include "op/op.h"

#define KV_TILE 128

struct kv_options {
    uint32_t sequences;
    uint32_t context;     /* positions of a sequence */
    uint32_t rewind_rows; /* rows of a pass, and how far back a sequence may return */
    bool exact;           /* f32 instead of f16 */
};

struct kv_cache;

uint64_t kv_cache_bytes(const struct plan *plan, const struct kv_options *options);
/* Most tiles that one layer of one sequence has. */
uint32_t kv_cache_tiles(const struct plan *plan, const struct kv_options *options);
MUST_CHECK enum status kv_cache_create(const struct plan *plan, const struct kv_options *options, struct kv_cache **out, struct error *err);
void kv_cache_destroy(struct kv_cache *cache);
/* Views of a layer's state for all sequences: [sequences]. */
const struct kv_view *kv_cache_views(const struct kv_cache *cache, uint32_t state);
/* Whether a layer is windowed and writes over old positions: a sequence can go back by rewind_rows only. */
bool kv_cache_wraps(const struct kv_cache *cache);
/* Gives the memory of a sequence's positions back to the system (they must not be read again before they are written). */
void kv_cache_clear(struct kv_cache *cache, uint32_t sequence);
