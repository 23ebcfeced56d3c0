/*
 * store_fixture: a made-up model in two temporary files, its records, and a store over them, for the tests of src/store.
 *
 * Every lease can be compared byte by byte with what was written. Records: resident and streamed ones of one to three pieces of odd sizes,
 * experts of three pieces in two size classes (even and odd layers), at offsets that are multiples of 32, with gaps; the last one ends with
 * its file.
 */
#pragma once

#include "test_support.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/read_queue_faulty.h"
#include "store/size_class.h"
#include "store/weight_store.h"

enum { FIXTURE_RECORDS_MAX = 512, FIXTURE_PIECES_MAX = 1536, FIXTURE_FILES = 2 };

struct fixture_spec {
    uint32_t resident, streamed, layers, experts; /* records of each kind; experts per layer */
    uint32_t kept;                                /* of the streamed ones, how many begin as resident ones that may go */
    uint32_t ring_quarters;                       /* of the largest streamed record: 4 holds it once */
    uint32_t slots;                               /* per size class */
    enum read_queue_kind kind;
    unsigned depth;
    const struct read_faults *faults; /* or NULL */
    bool packed;                      /* experts at the next block each */
    uint64_t seed;
};

static const struct fixture_spec fixture_usual = {.resident = 12,
                                                  .streamed = 15,
                                                  .layers = 4,
                                                  .experts = 12,
                                                  .ring_quarters = 12,
                                                  .slots = 6,
                                                  .kind = READ_QUEUE_THREADS,
                                                  .depth = 8,
                                                  .seed = 1};

struct fixture {
    char path[FIXTURE_FILES][64];
    uint8_t *bytes[FIXTURE_FILES];
    uint64_t size_bytes[FIXTURE_FILES], capacity_bytes[FIXTURE_FILES];
    struct weight_record records[FIXTURE_RECORDS_MAX];
    struct weight_piece pieces[FIXTURE_PIECES_MAX];
    uint8_t lives[FIXTURE_RECORDS_MAX];
    weight_id order[FIXTURE_RECORDS_MAX], keep[FIXTURE_RECORDS_MAX]; /* of a pass; what goes last first */
    uint32_t record_count, piece_count, stream_count, expert_first, experts, layers;
    uint64_t random, largest_streamed_bytes;
    bool packed;
    struct file_set *files;
    struct read_queue *queue;
    struct store_options options;
    struct weight_store *store;
    struct error err;
};

static inline uint64_t fixture_random(struct fixture *f) {
    f->random ^= f->random << 13;
    f->random ^= f->random >> 7;
    f->random ^= f->random << 17;
    return f->random;
}

static inline uint32_t fixture_below(struct fixture *f, uint32_t limit) { return (uint32_t)((fixture_random(f) >> 11) % limit); }

static inline void fixture_piece(struct fixture *f, uint32_t file, uint64_t size_bytes, bool expert) {
    uint64_t offset = (f->size_bytes[file] + 31) / 32 * 32 + 32 * (uint64_t)fixture_below(f, 40);
    /* Experts are small here, so a block more or less would make another size class: they start where the number of blocks is the same. */
    if (expert && f->packed)
        offset = (f->size_bytes[file] + 4095) / 4096 * 4096;
    else if (expert) /* a whole block lies between, so that no two are read as one */
        offset =
            (f->size_bytes[file] + 4095) / 4096 * 4096 + 4096 + 512 * (uint64_t)fixture_below(f, 5) + 32 * (uint64_t)fixture_below(f, 7);
    assert_true(f->piece_count < FIXTURE_PIECES_MAX);
    f->pieces[f->piece_count++] = (struct weight_piece){.file = file, .offset_bytes = offset, .size_bytes = size_bytes};
    f->size_bytes[file] = offset + size_bytes;
}

static inline weight_id fixture_record(struct fixture *f, enum weight_life life, int32_t layer, int32_t expert) {
    assert_true(f->record_count < FIXTURE_RECORDS_MAX);
    weight_id id = f->record_count++;
    uint32_t file = fixture_below(f, FIXTURE_FILES), count = life == WEIGHT_CACHED ? 3 : 1 + fixture_below(f, 3);
    f->records[id] = (struct weight_record){.piece_count = (uint16_t)count,
                                            .first_piece = f->piece_count,
                                            .layer = layer,
                                            .expert = expert,
                                            .name = life == WEIGHT_CACHED ? "ffn_exps" : "attn"};
    f->lives[id] = (uint8_t)life;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = 1 + fixture_below(f, 60000);
        if (life == WEIGHT_CACHED)
            size = layer % 2 ? 30000 : 9000;
        else if (fixture_below(f, 4) == 0)
            size = 1 + fixture_below(f, 200);
        fixture_piece(f, file, size, life == WEIGHT_CACHED);
    }
    return id;
}

static inline void fixture_write_files(struct fixture *f) {
    ASSERT_OK(file_set_create(&f->files, &f->err), f->err);
    for (uint32_t file = 0; file < FIXTURE_FILES; file++) {
        uint64_t size = f->size_bytes[file];
        f->bytes[file] = malloc(size + 1);
        assert_non_null(f->bytes[file]);
        for (uint64_t i = 0; i < size; i++)
            f->bytes[file][i] = (uint8_t)(fixture_random(f) >> 20);
        snprintf(f->path[file], sizeof f->path[file], "/tmp/sluice-store-XXXXXX");
        int fd = mkstemp(f->path[file]);
        assert_true(fd >= 0);
        for (uint64_t done = 0; done < size;) {
            ssize_t n = write(fd, f->bytes[file] + done, size - done);
            assert_true(n > 0);
            done += (uint64_t)n;
        }
        close(fd);
        uint32_t number;
        ASSERT_OK(file_set_add(f->files, f->path[file], &number, &f->err), f->err);
        assert_int_equal(number, file);
    }
}

/* Everything but the queue and the store. */
static inline void fixture_model(struct fixture *f, const struct fixture_spec *spec) {
    memset(f, 0, sizeof *f);
    f->random = spec->seed * 0x9E3779B97F4A7C15u + 1;
    f->packed = spec->packed;
    for (uint32_t file = 0; file < FIXTURE_FILES; file++)
        f->size_bytes[file] = 1; /* so that a file is never empty */
    uint32_t resident = spec->resident, streamed = spec->streamed;
    while (resident + streamed > 0) /* mixed, as they are in a file */
        if (fixture_below(f, resident + streamed) < resident) {
            (void)fixture_record(f, WEIGHT_RESIDENT, -1, -1);
            resident--;
        } else {
            weight_id id = fixture_record(f, WEIGHT_STREAMED, (int32_t)streamed--, -1);
            f->order[f->stream_count++] = id;
        }
    for (uint32_t i = 0; i < f->stream_count; i++)
        f->keep[i] = f->order[i];
    for (uint32_t i = 0; i < spec->kept; i++) {
        uint32_t other = i + fixture_below(f, f->stream_count - i);
        weight_id id = f->keep[other];
        f->keep[other] = f->keep[i];
        f->keep[i] = id;
        f->lives[id] = WEIGHT_RESIDENT;
    }
    f->expert_first = f->record_count;
    f->layers = spec->layers;
    f->experts = spec->experts;
    for (uint32_t layer = 0; layer < spec->layers; layer++)
        for (uint32_t expert = 0; expert < spec->experts; expert++)
            (void)fixture_record(f, WEIGHT_CACHED, (int32_t)layer, (int32_t)expert);
    fixture_write_files(f);
}

static inline void fixture_options(struct fixture *f, const struct fixture_spec *spec) {
    uint64_t sizes[FIXTURE_RECORDS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->record_count; i++) {
        uint64_t bytes = store_record_bytes(f->files, &f->records[i], f->pieces);
        if (f->lives[i] == WEIGHT_CACHED)
            sizes[count++] = bytes;
    }
    for (uint32_t i = 0; i < f->stream_count; i++) {
        uint64_t bytes = store_record_bytes(f->files, &f->records[f->order[i]], f->pieces);
        f->largest_streamed_bytes = bytes > f->largest_streamed_bytes ? bytes : f->largest_streamed_bytes;
    }
    struct size_classes classes;
    size_classes_build(sizes, count, &classes);
    f->options = (struct store_options){
        .files = f->files,
        .queue = f->queue,
        .records = f->records,
        .pieces = f->pieces,
        .record_count = f->record_count,
        .lives = f->lives,
        .stream_order = f->order,
        .stream_count = f->stream_count,
        .keep_order = f->keep,
        .keep_count = spec->kept,
        .ring_bytes = f->largest_streamed_bytes * spec->ring_quarters / 4,
        .cache_bytes = size_classes_bytes(&classes, spec->slots),
        .split_bytes = 16384,
    };
}

static inline void fixture_open_queue(struct fixture *f, const struct fixture_spec *spec) {
    ASSERT_OK(read_queue_create(spec->kind, f->files, spec->depth, &f->queue, &f->err), f->err);
    if (spec->faults) {
        struct read_queue *inner = f->queue;
        ASSERT_OK(read_queue_faulty_create(inner, spec->faults, &f->queue, &f->err), f->err);
    }
}

static inline void fixture_open_store(struct fixture *f, const struct fixture_spec *spec) {
    fixture_open_queue(f, spec);
    fixture_options(f, spec);
    ASSERT_OK(store_create(&f->options, &f->store, &f->err), f->err);
    store_check(f->store);
}

static inline void fixture_close_store(struct fixture *f) {
    if (f->store)
        store_check(f->store);
    store_destroy(f->store);
    read_queue_destroy(f->queue);
    f->store = NULL;
    f->queue = NULL;
}

static inline void fixture_open(struct fixture *f, const struct fixture_spec *spec) {
    fixture_model(f, spec);
    fixture_open_store(f, spec);
}

static inline void fixture_close(struct fixture *f) {
    fixture_close_store(f);
    file_set_destroy(f->files);
    for (uint32_t file = 0; file < FIXTURE_FILES; file++) {
        unlink(f->path[file]);
        free(f->bytes[file]);
    }
}

static inline weight_id fixture_expert(const struct fixture *f, uint32_t layer, uint32_t expert) {
    return f->expert_first + layer * f->experts + expert;
}

/* The first `pieces` pieces of a lease are what was written. */
static inline bool fixture_right(const struct fixture *f, const struct weight_lease *lease, uint32_t pieces) {
    const struct weight_record *record = &f->records[lease->id];
    if (lease->piece_count != record->piece_count)
        return false;
    for (uint32_t i = 0; i < pieces && i < lease->piece_count; i++) {
        const struct weight_piece *piece = &f->pieces[record->first_piece + i];
        if (memcmp(lease->pieces[i], f->bytes[piece->file] + piece->offset_bytes, piece->size_bytes) != 0)
            return false;
    }
    return true;
}

/* `count` different experts of a layer, shuffled. */
static inline void fixture_choose(struct fixture *f, uint32_t layer, uint32_t count, weight_id *ids) {
    weight_id all[FIXTURE_RECORDS_MAX];
    for (uint32_t i = 0; i < f->experts; i++)
        all[i] = fixture_expert(f, layer, i);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = i + fixture_below(f, f->experts - i);
        weight_id id = all[other];
        all[other] = all[i];
        all[i] = id;
        ids[i] = id;
    }
}

/* ---- use ---- */

static inline void fixture_take(struct fixture *f, uint32_t pieces, uint32_t *index, struct weight_lease *lease) {
    ASSERT_OK(store_take(f->store, pieces, true, index, lease, &f->err), f->err);
}

/* One step in any order: all of ids, each whole and right. */
static inline void fixture_step(struct fixture *f, const weight_id *ids, uint32_t count) {
    ASSERT_OK(store_want(f->store, ids, count, STORE_ANY, &f->err), f->err);
    store_check(f->store);
    for (uint32_t taken = 0; taken < count; taken++) {
        uint32_t index;
        struct weight_lease lease;
        fixture_take(f, 3, &index, &lease);
        assert_true(fixture_right(f, &lease, 3));
        store_release(f->store, &lease);
        store_check(f->store);
    }
    store_want_end(f->store);
    store_check(f->store);
}

static inline struct store_stats fixture_stats(const struct fixture *f) {
    struct store_stats now;
    store_stats_read(f->store, &now);
    return now;
}

static inline void fixture_check_resident(struct fixture *f) {
    for (weight_id id = 0; id < f->record_count; id++) {
        if (f->lives[id] != WEIGHT_RESIDENT)
            continue;
        struct weight_lease lease;
        ASSERT_OK(store_acquire(f->store, id, &lease, &f->err), f->err);
        assert_true(fixture_right(f, &lease, lease.piece_count));
        ASSERT_OK(store_wait_pieces(f->store, &lease, &f->err), f->err);
        store_release(f->store, &lease);
        assert_int_equal(lease.id, UINT32_MAX);
    }
}

/* Streams the first records of a pass. */
static inline void fixture_pass(struct fixture *f, uint32_t records) {
    for (uint32_t i = 0; i < records; i++) {
        struct weight_lease lease;
        ASSERT_OK(store_acquire(f->store, f->order[i], &lease, &f->err), f->err);
        assert_true(fixture_right(f, &lease, lease.piece_count));
        if (fixture_below(f, 3) == 0)
            store_poll(f->store);
        store_check(f->store);
        assert_true(fixture_right(f, &lease, lease.piece_count)); /* nothing was read over it */
        store_release(f->store, &lease);
        store_check(f->store);
    }
}

static inline void fixture_step_listed(struct fixture *f, const weight_id *ids, uint32_t count) {
    ASSERT_OK(store_want(f->store, ids, count, STORE_LISTED, &f->err), f->err);
    store_check(f->store);
    for (uint32_t wanted = 0; wanted < count;) {
        uint32_t index;
        struct weight_lease lease;
        bool wait = fixture_below(f, 2) != 0;
        ASSERT_OK(store_take(f->store, 1, wait, &index, &lease, &f->err), f->err);
        assert_true(index == wanted || (!wait && index == UINT32_MAX));
        if (index == UINT32_MAX)
            continue;
        assert_true(fixture_right(f, &lease, 1)); /* the first piece alone was asked for */
        ASSERT_OK(store_wait_pieces(f->store, &lease, &f->err), f->err);
        assert_true(fixture_right(f, &lease, 3));
        store_release(f->store, &lease);
        store_check(f->store);
        wanted++;
    }
    store_want_end(f->store);
    store_check(f->store);
}
