/* record_load: see record_load.h. */
#include "store/record_load.h"

#include "base/check.h"

void record_load_begin(struct record_load *load, weight_id id, uint8_t *memory) {
    CHECK(id != WEIGHT_NONE && memory);
    *load = (struct record_load){.id = id, .memory = memory};
}

static uint32_t piece_count(const struct record_map *map, const struct record_load *load) { return map->records[load->id].piece_count; }

bool record_load_has_part(const struct record_map *map, const struct record_load *load) {
    return !load->cancelled && !record_load_failed(load) && load->piece < piece_count(map, load);
}

void record_load_part(const struct record_map *map, const struct record_load *load, struct read_request *request) {
    ASSERT(record_load_has_part(map, load));
    struct weight_piece range = record_map_run(map, load->id, load->piece).range;
    struct read_window window = read_queue_window(map->files, range.file, range.offset_bytes, range.size_bytes);
    uint64_t begin = load->asked_bytes, end = begin + map->split_bytes;
    if (end >= window.window_bytes || window.window_bytes - end < map->split_bytes / 2) /* no small rest */
        end = window.window_bytes;
    uint64_t first = begin == 0 ? range.offset_bytes : window.begin_bytes + begin;
    uint64_t last = end == window.window_bytes ? range.offset_bytes + range.size_bytes : window.begin_bytes + end;
    ASSERT(first < last);
    request->file = range.file;
    request->offset_bytes = first;
    request->size_bytes = last - first;
    request->dst = load->memory + load->run_base_bytes + begin;
    request->dst_size_bytes = end - begin;
}

void record_load_advance(const struct record_map *map, struct record_load *load, const struct read_request *request) {
    struct record_run run = record_map_run(map, load->id, load->piece);
    ASSERT(request->dst == load->memory + load->run_base_bytes + load->asked_bytes);
    load->asked_bytes += request->dst_size_bytes;
    if (request->offset_bytes + request->size_bytes == run.range.offset_bytes + run.range.size_bytes) {
        load->run_base_bytes += record_map_window_bytes(map, &run);
        load->asked_bytes = 0;
        load->piece += run.piece_count;
    }
}

void record_load_sent(struct record_load *load, uint32_t piece) {
    CHECK(piece < STORE_PIECES_MAX && load->piece_in_flight[piece] < UINT16_MAX); /* the queue is not that deep */
    load->in_flight++;
    load->piece_in_flight[piece]++;
}

void record_load_done(struct record_load *load, uint32_t piece, const struct read_request *request) {
    CHECK(piece < STORE_PIECES_MAX && load->in_flight > 0 && load->piece_in_flight[piece] > 0);
    load->in_flight--;
    load->piece_in_flight[piece]--;
    if (request->status != STATUS_OK && !record_load_failed(load))
        load->failure = read_failure_of(request);
}

void record_load_lost(struct record_load *load, const struct read_failure *failure) {
    CHECK(load->in_flight > 0);
    if (!record_load_failed(load))
        load->failure = *failure;
}

void record_load_cancel(const struct record_map *map, struct record_load *load) {
    if (load->piece < piece_count(map, load))
        load->cancelled = true;
}

uint32_t record_load_ready_pieces(const struct record_map *map, const struct record_load *load) {
    ASSERT(load->id < map->record_count);
    if (record_load_failed(load))
        return 0;
    uint32_t ready = 0;
    while (ready < load->piece && load->piece_in_flight[ready] == 0)
        ready += record_map_run(map, load->id, ready).piece_count;
    return ready;
}

bool record_load_whole(const struct record_map *map, const struct record_load *load) {
    return load->in_flight == 0 && load->piece == piece_count(map, load) && !record_load_failed(load);
}

bool record_load_settled(const struct record_map *map, const struct record_load *load) {
    return load->in_flight == 0 && !record_load_has_part(map, load);
}
