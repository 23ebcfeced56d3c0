/* record_map: see record_map.h. */
#include "store/record_map.h"

#include <inttypes.h>

#include "base/check.h"

#define SPLIT_BYTES_DEFAULT ((uint64_t)4 << 20) /* a demanded read waits behind little; the queue cuts it further for the device */
#define RUN_GAP_BYTES 4096                      /* reading so much for nothing costs less than another request; sluice pack aligns to it */

/* What memory is aligned to: pages, or what the files want. */
static uint64_t largest_alignment(const struct file_set *files) {
    uint64_t largest = READ_PAGE_BYTES;
    for (uint32_t file = 0; file < file_set_count(files); file++) {
        uint64_t alignment = file_set_alignment(files, file);
        CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
        if (alignment > largest)
            largest = alignment;
    }
    return largest;
}

/* The run of the first of `count` pieces. */
static struct record_run run_of(const struct file_set *files, const struct weight_piece *pieces, uint32_t count) {
    struct record_run run = {.piece_count = 1, .range = pieces[0]};
    for (; run.piece_count < count; run.piece_count++) {
        const struct weight_piece *next = &pieces[run.piece_count];
        uint64_t end_bytes = run.range.offset_bytes + run.range.size_bytes;
        if (next->file != run.range.file || next->offset_bytes < end_bytes)
            break;
        struct read_window window = read_queue_window(files, run.range.file, run.range.offset_bytes, run.range.size_bytes);
        if (read_queue_window(files, next->file, next->offset_bytes, next->size_bytes).begin_bytes >=
            window.begin_bytes + window.window_bytes + RUN_GAP_BYTES)
            break;
        run.range.size_bytes = next->offset_bytes + next->size_bytes - run.range.offset_bytes;
    }
    return run;
}

static uint64_t window_bytes(const struct file_set *files, const struct weight_piece *range, uint64_t alignment_bytes) {
    struct read_window window = read_queue_window(files, range->file, range->offset_bytes, range->size_bytes);
    return size_round_up(window.window_bytes, alignment_bytes);
}

static uint64_t memory_bytes(const struct file_set *files, const struct weight_piece *pieces, uint32_t count, uint64_t alignment_bytes) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count;) {
        struct record_run run = run_of(files, pieces + i, count - i);
        sum += window_bytes(files, &run.range, alignment_bytes);
        i += run.piece_count;
    }
    return sum;
}

uint64_t store_record_bytes(const struct file_set *files, const struct weight_record *record, const struct weight_piece *pieces) {
    CHECK(record->piece_count <= STORE_PIECES_MAX);
    return memory_bytes(files, pieces + record->first_piece, record->piece_count, largest_alignment(files));
}

enum status record_map_init(struct record_map *map, const struct store_options *options, struct error *err) {
    *map = (struct record_map){.files = options->files,
                               .records = options->records,
                               .pieces = options->pieces,
                               .record_count = options->record_count,
                               .alignment_bytes = largest_alignment(options->files)};
    uint64_t split_bytes = options->split_bytes ? options->split_bytes : SPLIT_BYTES_DEFAULT;
    CHECK((split_bytes & (split_bytes - 1)) == 0 && map->record_count < WEIGHT_NONE);
    map->split_bytes = split_bytes > map->alignment_bytes ? split_bytes : map->alignment_bytes;
    for (weight_id id = 0; id < map->record_count; id++) {
        const struct weight_record *record = &map->records[id];
        CHECK(record->piece_count >= 1 && record->piece_count <= STORE_PIECES_MAX && record->name);
        for (uint32_t i = 0; i < record->piece_count; i++) {
            const struct weight_piece *piece = &map->pieces[record->first_piece + i];
            uint64_t end_bytes;
            CHECK(piece->file < file_set_count(map->files) && piece->size_bytes > 0);
            if (!size_add(piece->offset_bytes, piece->size_bytes, &end_bytes) || end_bytes > file_set_size_bytes(map->files, piece->file))
                return error_set(err, STATUS_CORRUPT,
                                 "%s: %s needs %" PRIu64 " bytes at offset %" PRIu64 ", the file has %" PRIu64
                                 "; it is cut off: fetch it again",
                                 file_set_path(map->files, piece->file), record->name, piece->size_bytes, piece->offset_bytes,
                                 file_set_size_bytes(map->files, piece->file));
        }
    }
    return STATUS_OK;
}

struct record_run record_map_run(const struct record_map *map, weight_id id, uint32_t piece) {
    CHECK(id < map->record_count && piece < map->records[id].piece_count);
    return run_of(map->files, record_map_pieces(map, id) + piece, map->records[id].piece_count - piece);
}

uint64_t record_map_window_bytes(const struct record_map *map, const struct record_run *run) {
    return window_bytes(map->files, &run->range, map->alignment_bytes);
}

uint64_t record_map_memory_bytes(const struct record_map *map, weight_id id) {
    CHECK(id < map->record_count);
    return memory_bytes(map->files, record_map_pieces(map, id), map->records[id].piece_count, map->alignment_bytes);
}

uint64_t record_map_piece_bytes(const struct record_map *map, weight_id id) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < map->records[id].piece_count; i++)
        sum += record_map_pieces(map, id)[i].size_bytes;
    return sum;
}

uint64_t record_map_range_bytes(const struct record_map *map, weight_id id) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < map->records[id].piece_count;) {
        struct record_run run = record_map_run(map, id, i);
        sum += run.range.size_bytes;
        i += run.piece_count;
    }
    return sum;
}

void record_map_lease(const struct record_map *map, weight_id id, const uint8_t *memory, uint32_t slot, struct weight_lease *lease) {
    ASSERT(id < map->record_count && memory);
    const struct weight_piece *pieces = record_map_pieces(map, id);
    lease->id = id;
    lease->slot = slot;
    lease->whole = true;
    lease->piece_count = map->records[id].piece_count;
    for (uint32_t i = 0; i < lease->piece_count;) {
        struct record_run run = record_map_run(map, id, i);
        struct read_window window = read_queue_window(map->files, run.range.file, run.range.offset_bytes, run.range.size_bytes);
        for (uint32_t end = i + run.piece_count; i < end; i++)
            lease->pieces[i] = memory + window.skip_bytes + (pieces[i].offset_bytes - run.range.offset_bytes);
        memory += size_round_up(window.window_bytes, map->alignment_bytes);
    }
}

struct read_failure read_failure_of(const struct read_request *request) {
    return (struct read_failure){.status = request->status,
                                 .file = request->file,
                                 .offset_bytes = request->offset_bytes,
                                 .size_bytes = request->size_bytes,
                                 .system_error = request->system_error,
                                 .attempts = request->attempts,
                                 .waited_s = request->waited_s};
}

enum status record_map_error(const struct record_map *map, weight_id id, const struct read_failure *failure, struct error *err) {
    CHECK(failure->status != STATUS_OK);
    struct read_request request = {.file = failure->file,
                                   .offset_bytes = failure->offset_bytes,
                                   .size_bytes = failure->size_bytes,
                                   .status = failure->status,
                                   .system_error = failure->system_error,
                                   .attempts = failure->attempts,
                                   .waited_s = failure->waited_s};
    enum status status = read_request_error(map->files, &request, err);
    if (id == WEIGHT_NONE || !err)
        return status;
    const struct weight_record *record = &map->records[id];
    if (record->expert >= 0)
        return error_prefix(err, "layer %d, expert %d (%s)", (int)record->layer, (int)record->expert, record->name);
    if (record->layer >= 0)
        return error_prefix(err, "layer %d (%s)", (int)record->layer, record->name);
    return error_prefix(err, "%s", record->name);
}

enum status weight_region_create(struct weight_region *region, const struct record_map *map, uint64_t size_bytes, enum memory_owner owner,
                                 bool lock, struct error *err) {
    uint64_t slack_bytes = map->alignment_bytes - READ_PAGE_BYTES /* regions begin at a page */, whole_bytes;
    *region = (struct weight_region){0};
    if (size_bytes == 0)
        return STATUS_OK;
    if (!size_add(size_bytes, slack_bytes, &whole_bytes))
        return error_set(err, STATUS_NO_MEMORY, "a region of %" PRIu64 " bytes (%s) cannot be mapped", size_bytes,
                         memory_owner_name(owner));
    TRY(memory_region_create(&region->region, whole_bytes, owner, lock, err));
    region->base = region->region.data + (-(uintptr_t)region->region.data & (map->alignment_bytes - 1));
    CHECK(region->base + size_bytes <= region->region.data + whole_bytes);
    return STATUS_OK;
}

void weight_region_destroy(struct weight_region *region) {
    memory_region_destroy(&region->region);
    region->base = NULL;
}
