/*
 * kv_cache: layout and views.
 */
#include "run/kv_cache.h"

#include "base/check.h"
#include "base/memory.h"

struct layer_shape {
    uint32_t tiles;
    bool wraps;
    uint64_t k_bytes, v_bytes; /* of one tile; v_bytes 0: no values, or they are in the keys */
    bool values_in_keys;
};

struct kv_cache {
    struct memory_region region;
    struct kv_view *views; /* [states][sequences] */
    uint8_t **tiles;       /* pointers of all views */
    uint32_t states, sequences;
    uint64_t sequence_bytes;
};

static uint32_t tiles_of(uint64_t positions) { return (uint32_t)((positions + KV_TILE - 1) / KV_TILE); }

static bool is_f32(const struct plan_state *state, const struct kv_options *options) { return options->exact || state->unrounded; }

static struct layer_shape shape_of(const struct plan_state *state, const struct kv_options *options) {
    if (state->kind != STATE_KV || state->of_target)
        return (struct layer_shape){0};
    struct layer_shape shape = {.tiles = tiles_of(options->context), .values_in_keys = state->values_in_keys};
    if (state->window) {
        /* the window of the first row of a pass, the pass, what may be taken back, and both ends in the middle of a tile */
        uint32_t needed = tiles_of((uint64_t)state->window + 2ull * options->rewind_rows) + 1;
        if (needed < shape.tiles) {
            shape.tiles = needed;
            shape.wraps = true;
        }
    }
    uint64_t element = is_f32(state, options) ? 4 : 2, positions = (uint64_t)state->kv_heads * KV_TILE;
    shape.k_bytes = size_round_up(positions * state->head_dim * element, 64);
    shape.v_bytes = state->values_in_keys ? 0 : size_round_up(positions * state->v_dim * element, 64);
    return shape;
}

static uint64_t sequence_bytes(const struct plan *plan, const struct kv_options *options) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < plan->state_count; s++) {
        struct layer_shape shape = shape_of(&plan->states[s], options);
        bytes += shape.tiles * (shape.k_bytes + shape.v_bytes);
    }
    return size_round_up(bytes, 4096);
}

uint64_t kv_cache_bytes(const struct plan *plan, const struct kv_options *options) {
    return sequence_bytes(plan, options) * options->sequences;
}

uint32_t kv_cache_tiles(const struct plan *plan, const struct kv_options *options) {
    uint32_t most = 1;
    for (uint32_t s = 0; s < plan->state_count; s++) {
        uint32_t tiles = shape_of(&plan->states[s], options).tiles;
        most = tiles > most ? tiles : most;
    }
    return most;
}

/* Tile pointers of one layer of one sequence; returns what lies behind them. */
static uint8_t *lay_out(struct kv_view *view, const struct layer_shape *shape, bool f32, uint8_t **tiles, uint8_t *data) {
    for (uint32_t t = 0; t < shape->tiles; t++) {
        tiles[t] = data;
        tiles[shape->tiles + t] = data + shape->k_bytes;
        data += shape->k_bytes + shape->v_bytes;
    }
    *view = (struct kv_view){.k_tiles = tiles,
                             .v_tiles = shape->values_in_keys ? tiles : tiles + shape->tiles,
                             .kv_dtype = f32 ? DTYPE_F32 : DTYPE_F16,
                             .tile_count = shape->wraps ? shape->tiles : 0};
    return data;
}

enum status kv_cache_create(const struct plan *plan, const struct kv_options *options, struct kv_cache **out, struct error *err) {
    *out = NULL;
    CHECK(options->sequences > 0 && options->context > 0);
    uint64_t pointers = 0;
    for (uint32_t s = 0; s < plan->state_count; s++)
        pointers += 2ull * shape_of(&plan->states[s], options).tiles * options->sequences;
    struct kv_cache *cache = memory_alloc(sizeof *cache);
    if (cache) {
        cache->views = memory_alloc_array((size_t)plan->state_count * options->sequences + 1, sizeof *cache->views);
        cache->tiles = memory_alloc_array(pointers + 1, sizeof *cache->tiles);
    }
    if (!cache || !cache->views || !cache->tiles) {
        kv_cache_destroy(cache);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tables of the key/value cache");
    }
    cache->states = plan->state_count;
    cache->sequences = options->sequences;
    cache->sequence_bytes = sequence_bytes(plan, options);
    uint64_t bytes = kv_cache_bytes(plan, options);
    enum status status = bytes ? memory_region_create(&cache->region, bytes, MEMORY_KV, false, err) : STATUS_OK;
    if (status != STATUS_OK) {
        kv_cache_destroy(cache);
        return status;
    }
    uint8_t **tiles = cache->tiles;
    for (uint32_t q = 0; q < options->sequences; q++) {
        uint8_t *data = cache->region.data + q * cache->sequence_bytes;
        for (uint32_t s = 0; s < plan->state_count; s++) {
            struct layer_shape shape = shape_of(&plan->states[s], options);
            data = lay_out(&cache->views[s * options->sequences + q], &shape, is_f32(&plan->states[s], options), tiles, data);
            tiles += 2 * shape.tiles;
        }
    }
    *out = cache;
    return STATUS_OK;
}

void kv_cache_destroy(struct kv_cache *cache) {
    if (!cache)
        return;
    memory_region_destroy(&cache->region);
    memory_free(cache->views);
    memory_free(cache->tiles);
    memory_free(cache);
}

const struct kv_view *kv_cache_views(const struct kv_cache *cache, uint32_t state) {
    CHECK(state < cache->states);
    return &cache->views[state * cache->sequences];
}

bool kv_cache_wraps(const struct kv_cache *cache) {
    for (uint32_t s = 0; s < cache->states; s++)
        if (cache->views[s * cache->sequences].tile_count)
            return true;
    return false;
}

void kv_cache_clear(struct kv_cache *cache, uint32_t sequence) {
    CHECK(sequence < cache->sequences);
    memory_region_discard(&cache->region, sequence * cache->sequence_bytes, cache->sequence_bytes);
}
