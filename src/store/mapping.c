/* mapping: see mapping.h. */
#include "store/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bus_guard.h"
#include "base/check.h"
#include "base/cpu_info.h"
#include "base/text.h"
#include "base/thread_pool.h"

#define GAP_BYTES_MAX (64u << 10) /* stretches that are closer than this are one: pages between cost less than a mapping */
#define CHUNK_BYTES (4u << 20)    /* that a thread fills at a time */
#define CHUNKS_AHEAD 8u           /* asked of the disk before they are waited for, where faults read little by themselves */
#define CHUNKS_PER_ROUND 64u      /* between two reports of progress */
#define FILL_THREADS_MAX 16u

#define POPULATE_READ 22 /* MADV_POPULATE_READ, Linux 5.14; headers may be older */

/* ---- stretches ---- */

struct span { /* pages of one piece */
    uint32_t file;
    uint64_t begin_bytes, end_bytes;
};

static uint64_t page_bytes(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

static int compare_spans(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->begin_bytes < y->begin_bytes ? -1 : x->begin_bytes > y->begin_bytes;
}

static uint32_t collect_spans(const struct record_map *map, struct span *spans) {
    uint32_t count = 0;
    uint64_t page = page_bytes();
    for (weight_id id = 0; id < map->record_count; id++)
        for (uint32_t i = 0; i < map->records[id].piece_count; i++) {
            const struct weight_piece *piece = &record_map_pieces(map, id)[i];
            uint64_t end = piece->offset_bytes + piece->size_bytes; /* record_map_init checked it */
            spans[count++] = (struct span){piece->file, piece->offset_bytes / page * page, end};
        }
    return count;
}

/* Sorts, and joins what touches or nearly does. Returns how many are left. */
static uint32_t join_spans(struct span *spans, uint32_t count) {
    qsort(spans, count, sizeof *spans, compare_spans);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct span *last = kept > 0 ? &spans[kept - 1] : NULL;
        if (last && last->file == spans[i].file && spans[i].begin_bytes <= last->end_bytes + GAP_BYTES_MAX)
            last->end_bytes = spans[i].end_bytes > last->end_bytes ? spans[i].end_bytes : last->end_bytes;
        else
            spans[kept++] = spans[i];
    }
    return kept;
}

/*
 * Whether a fault in a mapping that was advised so reads huge pages: Linux 5.18 (do_sync_mmap_readahead). Then nothing may be asked of the
 * disk beforehand: what comes that way are small pages. File systems without huge pages read as much at once.
 */
static bool faults_read_huge_pages(void) {
    struct utsname system;
    uint64_t major, minor;
    const char *dot = uname(&system) == 0 ? strchr(system.release, '.') : NULL;
    return dot && text_parse_u64((struct text){system.release, (size_t)(dot - system.release)}, &major) &&
           text_parse_u64((struct text){dot + 1, strspn(dot + 1, "0123456789")}, &minor) && (major > 5 || (major == 5 && minor >= 18));
}

static enum status map_stretch(struct mapping *mapping, const struct span *span, bool lock, struct error *err) {
    struct mapped_stretch *stretch = &mapping->stretches[mapping->count];
    *stretch = (struct mapped_stretch){.file = span->file, .offset_bytes = span->begin_bytes};
    TRY(memory_region_map(&stretch->region, file_set_buffered_fd(mapping->map->files, span->file), span->begin_bytes,
                          span->end_bytes - span->begin_bytes, MEMORY_TRUNK, lock, err));
    if (madvise(stretch->region.data, stretch->region.size_bytes, MADV_HUGEPAGE) != 0)
        mapping->huge = false;
    enum status status = bus_guard_add(stretch->region.data, stretch->region.size_bytes, &stretch->guard, err);
    if (status != STATUS_OK)
        memory_region_destroy(&stretch->region);
    else
        mapping->count++;
    return status;
}

static const uint8_t *address_of(const struct mapping *mapping, const struct weight_piece *piece) {
    uint32_t low = 0, high = mapping->count; /* the last stretch that does not begin behind the piece */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        const struct mapped_stretch *s = &mapping->stretches[middle];
        if (s->file < piece->file || (s->file == piece->file && s->offset_bytes <= piece->offset_bytes))
            low = middle;
        else
            high = middle;
    }
    const struct mapped_stretch *s = &mapping->stretches[low];
    CHECK(s->file == piece->file && s->offset_bytes <= piece->offset_bytes);
    CHECK(piece->offset_bytes - s->offset_bytes + piece->size_bytes <= s->region.size_bytes);
    return s->region.data + (piece->offset_bytes - s->offset_bytes);
}

static enum status map_all(struct mapping *mapping, struct span *spans, uint32_t count, bool lock, struct error *err) {
    uint32_t stretches = join_spans(spans, count);
    mapping->stretches = memory_alloc_array(stretches, sizeof *mapping->stretches);
    if (!mapping->stretches)
        return error_set(err, STATUS_NO_MEMORY, "no memory to map %" PRIu32 " stretches of the model", stretches);
    for (uint32_t i = 0; i < stretches; i++)
        TRY(map_stretch(mapping, &spans[i], lock, err));
    for (weight_id id = 0; id < mapping->map->record_count; id++)
        for (uint32_t i = 0; i < mapping->map->records[id].piece_count; i++) {
            uint32_t piece = mapping->map->records[id].first_piece + i;
            mapping->pieces[piece] = address_of(mapping, &mapping->map->pieces[piece]);
        }
    return STATUS_OK;
}

enum status mapping_init(struct mapping *mapping, const struct record_map *map, bool lock, struct error *err) {
    *mapping = (struct mapping){.map = map, .huge = faults_read_huge_pages()};
    uint32_t spans_needed = 0, pieces = 0;
    for (weight_id id = 0; id < map->record_count; id++) {
        const struct weight_record *record = &map->records[id];
        uint32_t end = record->first_piece + record->piece_count;
        spans_needed += record->piece_count;
        pieces = end > pieces ? end : pieces;
    }
    struct span *spans = memory_alloc_array(spans_needed + 1, sizeof *spans);
    mapping->pieces = memory_alloc_array(pieces + 1, sizeof *mapping->pieces);
    enum status status = spans && mapping->pieces ? map_all(mapping, spans, collect_spans(map, spans), lock, err)
                                                  : error_set(err, STATUS_NO_MEMORY, "no memory to map %" PRIu32 " pieces", pieces);
    memory_free(spans);
    if (status != STATUS_OK)
        mapping_deinit(mapping);
    return status;
}

void mapping_deinit(struct mapping *mapping) {
    for (uint32_t i = 0; i < mapping->count; i++) {
        bus_guard_remove(mapping->stretches[i].guard);
        memory_region_destroy(&mapping->stretches[i].region);
    }
    memory_free(mapping->stretches);
    memory_free(mapping->pieces);
    *mapping = (struct mapping){0};
}

uint64_t mapping_bytes(const struct mapping *mapping) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < mapping->count; i++)
        sum += mapping->stretches[i].region.size_bytes;
    return sum;
}

/* ---- filling ---- */

struct fill_job {
    const struct mapping *mapping;
    uint64_t first_chunk, chunks; /* this round; of all stretches, each cut into chunks of its own */
    _Atomic int error;            /* errno of the first chunk that failed */
    atomic_uint failed_stretch;
    atomic_uint_least64_t failed_offset_bytes;
};

struct chunk {
    const struct mapped_stretch *stretch;
    uint64_t begin_bytes, size_bytes; /* in the stretch */
};

static uint64_t chunks_of(const struct mapped_stretch *stretch) { return (stretch->region.size_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES; }

static bool chunk_at(const struct mapping *mapping, uint64_t index, struct chunk *chunk) {
    for (uint32_t i = 0; i < mapping->count; i++) {
        const struct mapped_stretch *stretch = &mapping->stretches[i];
        uint64_t chunks = chunks_of(stretch);
        if (index < chunks) {
            uint64_t begin = index * CHUNK_BYTES, left = stretch->region.size_bytes - begin;
            *chunk = (struct chunk){stretch, begin, left < CHUNK_BYTES ? left : CHUNK_BYTES};
            return true;
        }
        index -= chunks;
    }
    return false;
}

static void ask_disk(const struct mapping *mapping, uint64_t index) {
    struct chunk chunk;
    if (!mapping->huge && chunk_at(mapping, index, &chunk)) /* a hint: what it does not bring, the next call waits for */
        (void)posix_fadvise(file_set_buffered_fd(mapping->map->files, chunk.stretch->file),
                            (off_t)(chunk.stretch->offset_bytes + chunk.begin_bytes), (off_t)chunk.size_bytes, POSIX_FADV_WILLNEED);
}

/* 0, or the reason why the pages cannot be had. */
static int touch_pages(uint8_t *data, uint64_t size_bytes) {
    int result;
    do
        result = madvise(data, size_round_up(size_bytes, page_bytes()), POPULATE_READ);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    if (errno != EINVAL)
        return errno == EFAULT ? EIO : errno;
    volatile const uint8_t *pages = data; /* an older kernel; what is lost now, mapping_check tells */
    for (uint64_t at = 0; at < size_bytes; at += page_bytes())
        (void)pages[at];
    return 0;
}

static void fill_body(void *context, size_t begin, size_t end, unsigned worker) {
    struct fill_job *job = context;
    struct chunk chunk;
    (void)worker;
    for (size_t i = begin; i < end && atomic_load(&job->error) == 0; i++) {
        uint64_t index = job->first_chunk + i;
        ask_disk(job->mapping, index + CHUNKS_AHEAD);
        CHECK(chunk_at(job->mapping, index, &chunk));
        int none = 0, reason = touch_pages(chunk.stretch->region.data + chunk.begin_bytes, chunk.size_bytes);
        if (reason != 0 && atomic_compare_exchange_strong(&job->error, &none, reason)) {
            atomic_store(&job->failed_stretch, (unsigned)(chunk.stretch - job->mapping->stretches));
            atomic_store(&job->failed_offset_bytes, chunk.stretch->offset_bytes + chunk.begin_bytes);
        }
    }
}

static enum status lost(const struct mapping *mapping, uint32_t stretch, uint64_t offset_bytes, int reason, struct error *err) {
    return error_set(err, STATUS_IO,
                     "%s: the system could not read the page at offset %" PRIu64
                     " (%s): the file was cut short or its disk failed; check it, then try again",
                     file_set_path(mapping->map->files, mapping->stretches[stretch].file), offset_bytes, strerror(reason));
}

static enum status fill_rounds(struct mapping *mapping, struct thread_pool *pool, bool (*progress)(void *, uint64_t, uint64_t),
                               void *context, struct error *err) {
    struct fill_job job = {.mapping = mapping};
    uint64_t chunks = 0, total_bytes = mapping_bytes(mapping);
    for (uint32_t i = 0; i < mapping->count; i++)
        chunks += chunks_of(&mapping->stretches[i]);
    for (uint32_t ahead = 0; ahead < CHUNKS_AHEAD; ahead++)
        ask_disk(mapping, ahead);
    for (; job.first_chunk < chunks; job.first_chunk += job.chunks) {
        uint64_t left = chunks - job.first_chunk;
        job.chunks = left < CHUNKS_PER_ROUND ? left : CHUNKS_PER_ROUND;
        thread_pool_run(pool, job.chunks, 1, fill_body, &job);
        if (atomic_load(&job.error) != 0)
            return lost(mapping, atomic_load(&job.failed_stretch), atomic_load(&job.failed_offset_bytes), atomic_load(&job.error), err);
        uint64_t done_bytes = (job.first_chunk + job.chunks) * CHUNK_BYTES;
        if (progress && !progress(context, done_bytes < total_bytes ? done_bytes : total_bytes, total_bytes))
            return error_set(err, STATUS_CANCELLED, "loading the weights was cancelled");
    }
    return mapping_check(mapping, err);
}

enum status mapping_fill(struct mapping *mapping, bool (*progress)(void *, uint64_t, uint64_t), void *context, struct error *err) {
    struct thread_pool *pool;
    unsigned threads = cpu_count();
    TRY(thread_pool_create(threads < FILL_THREADS_MAX ? threads : FILL_THREADS_MAX, &pool, err));
    enum status status = fill_rounds(mapping, pool, progress, context, err);
    thread_pool_destroy(pool);
    return status;
}

/* ---- use ---- */

void mapping_lease(const struct mapping *mapping, weight_id id, struct weight_lease *lease) {
    const struct weight_record *record = &mapping->map->records[id];
    lease->id = id;
    lease->slot = UINT32_MAX;
    lease->whole = true;
    lease->piece_count = record->piece_count;
    memcpy(lease->pieces, mapping->pieces + record->first_piece, record->piece_count * sizeof *lease->pieces);
}

enum status mapping_check(struct mapping *mapping, struct error *err) {
    for (uint32_t i = 0; i < mapping->count; i++) {
        struct mapped_stretch *stretch = &mapping->stretches[i];
        uint64_t at_bytes;
        if (!bus_guard_lost(stretch->guard, &at_bytes))
            continue;
        /* all of the stretch again: more of its pages may have been replaced */
        void *again = mmap(stretch->region.data, size_round_up(stretch->region.size_bytes, page_bytes()), PROT_READ, MAP_SHARED | MAP_FIXED,
                           file_set_buffered_fd(mapping->map->files, stretch->file), (off_t)stretch->offset_bytes);
        CHECK(again == stretch->region.data);
        return lost(mapping, i, stretch->offset_bytes + at_bytes, EIO, err);
    }
    return STATUS_OK;
}
