/*
 * arena: a list of chunks, the newest first; blocks are cut from the front chunk.
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define ARENA_ALIGN 16
#define ARENA_CHUNK_FIRST ((size_t)16 << 10)
#define ARENA_CHUNK_MAX ((size_t)1 << 20)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size_bytes, used_bytes; /* of data */
    _Alignas(ARENA_ALIGN) char data[];
};

struct arena {
    struct arena_chunk *chunks;
    size_t limit_bytes, used_bytes, next_chunk_bytes;
    bool refused;
};

static size_t round_to_align(size_t size_bytes) { return (size_bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1); }

enum status arena_create(size_t limit_bytes, struct arena **out, struct error *err) {
    *out = memory_alloc(sizeof **out);
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "no memory for an arena");
    (*out)->limit_bytes = limit_bytes;
    (*out)->next_chunk_bytes = ARENA_CHUNK_FIRST;
    return STATUS_OK;
}

static void free_chunks(struct arena_chunk *chunk) {
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        memory_free(chunk);
        chunk = next;
    }
}

void arena_destroy(struct arena *arena) {
    if (!arena)
        return;
    free_chunks(arena->chunks);
    memory_free(arena);
}

void *arena_alloc(struct arena *arena, size_t size_bytes) {
    if (size_bytes > arena->limit_bytes || size_bytes > SIZE_MAX / 2)
        return NULL;
    size_t need = round_to_align(size_bytes ? size_bytes : 1);
    if (need > arena->limit_bytes - arena->used_bytes)
        return NULL;
    struct arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size_bytes - chunk->used_bytes < need) {
        size_t size = need > arena->next_chunk_bytes ? need : arena->next_chunk_bytes;
        chunk = memory_alloc(sizeof *chunk + size);
        if (!chunk) {
            arena->refused = true;
            return NULL;
        }
        chunk->size_bytes = size;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        if (arena->next_chunk_bytes < ARENA_CHUNK_MAX)
            arena->next_chunk_bytes *= 2;
    }
    void *block = chunk->data + chunk->used_bytes;
    chunk->used_bytes += need;
    arena->used_bytes += need;
    ASSERT(chunk->used_bytes <= chunk->size_bytes && arena->used_bytes <= arena->limit_bytes);
    return block;
}

void *arena_grow(struct arena *arena, void *block, size_t old_bytes, size_t new_bytes) {
    CHECK(new_bytes >= old_bytes && (block || old_bytes == 0));
    struct arena_chunk *chunk = arena->chunks;
    if (block && chunk && new_bytes <= SIZE_MAX / 2) {
        size_t old_need = round_to_align(old_bytes ? old_bytes : 1), extra = round_to_align(new_bytes ? new_bytes : 1) - old_need;
        bool newest = (char *)block + old_need == chunk->data + chunk->used_bytes;
        if (newest && extra <= chunk->size_bytes - chunk->used_bytes && extra <= arena->limit_bytes - arena->used_bytes) {
            chunk->used_bytes += extra;
            arena->used_bytes += extra;
            return block;
        }
    }
    void *bigger = arena_alloc(arena, new_bytes);
    if (bigger && old_bytes)
        memcpy(bigger, block, old_bytes);
    return bigger;
}

void arena_reset(struct arena *arena) {
    struct arena_chunk *keep = arena->chunks;
    if (keep) {
        free_chunks(keep->next);
        keep->next = NULL;
        memset(keep->data, 0, keep->used_bytes);
        keep->used_bytes = 0;
    }
    arena->used_bytes = 0;
}

size_t arena_used_bytes(const struct arena *arena) { return arena->used_bytes; }

bool arena_was_refused(const struct arena *arena) { return arena->refused; }
