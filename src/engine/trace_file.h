/*
 * trace_file: the experts that a run wanted, pass by pass, in a file that names the model and the sizes of its experts.
 *
 * Format   little-endian. Head: "SLUICETR", u32 version, u32 layers, u32 records, u32 experts per token, u64 cache bytes of the run (0: all
 *          was in memory), 32 bytes of model identity, 32 of family name; for each layer {u32 layer, u32 first record, u32 experts}; for
 *          each record {u64 slot bytes, u64 piece bytes}. Steps: {u8 1 (prompt) or 2 (decode), u8 0, u16 layer, u32 position of the first
 *          row, u16 rows (65535 stands for more), u16 count, u16 expert [count]}, experts increasing. End: {u8 0, u64 steps, u64 hits,
 *          misses of the prompt, hits, misses of decode, SHA-256 of all bytes before it}. The end makes it whole: a file without it, or
 *          with another hash, is refused.
 */
#pragma once

#include "base/sha256.h"
#include "store/trace_replay.h"

#define TRACE_FAMILY_BYTES 32

struct trace_layer {
    uint32_t layer, first_record, experts;
};

struct trace_head {
    uint8_t identity[32];
    char family[TRACE_FAMILY_BYTES];
    uint32_t experts_per_token;
    uint64_t cache_bytes;
    uint32_t layer_count, record_count;
    struct trace_layer *layers;
    struct trace_record *records;
};

struct trace_totals {                   /* what the run itself counted */
    struct trace_counts prompt, decode; /* without bytes */
};

/* Frees layers and records. */
void trace_head_deinit(struct trace_head *head);

struct trace_writer;
struct trace_wanted {
    uint32_t layer, position, rows;
    const uint32_t *experts; /* increasing */
    uint32_t count;
    bool decode;
};
/* *out is NULL on failure. Errors are those of base/file_writer.h. */
MUST_CHECK enum status trace_writer_create(const char *path, const struct trace_head *head, struct trace_writer **out, struct error *err);
MUST_CHECK enum status trace_writer_add(struct trace_writer *writer, const struct trace_wanted *wanted, struct error *err);
MUST_CHECK enum status trace_writer_finish(struct trace_writer *writer, const struct trace_totals *totals, struct error *err);
void trace_writer_abandon(struct trace_writer *writer); /* NULL is allowed */

struct trace_file {
    struct trace_head head;
    struct trace_totals totals;
    struct trace_step *steps;
    uint32_t step_count, prompt_passes, decode_passes;
    uint32_t *ids;
    uint64_t id_count;
};
/* STATUS_CORRUPT: no trace, an unfinished or a damaged one, with the place. *out needs trace_file_deinit also after a failure. */
MUST_CHECK enum status trace_file_read(const char *path, struct trace_file *out, struct error *err);
void trace_file_deinit(struct trace_file *trace);
