/* trace_file: writing and reading; see trace_file.h. */
#include "engine/trace_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_reader.h"
#include "base/check.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"

#define MAGIC "SLUICETR"
#define VERSION 1
#define FILE_BYTES_MAX ((size_t)1 << 31)
#define LAYERS_MAX 65536u
#define RECORDS_MAX (1u << 24)
#define RECORD_BYTES_MAX ((uint64_t)1 << 36) /* so that all together fit 64 bits */
#define EXPERTS_MAX 65535u
#define ROWS_MAX 65535u /* that the format has room for */
#define STEP_BYTES 12
#define END_BYTES (1 + 5 * 8 + 32)

enum { KIND_END, KIND_PROMPT, KIND_DECODE };

void trace_head_deinit(struct trace_head *head) {
    memory_free(head->layers);
    memory_free(head->records);
    head->layers = NULL;
    head->records = NULL;
}

/* ---- writing ---- */

struct trace_writer {
    struct file_writer *file;
    struct sha256 hash;
    uint64_t steps;
    uint8_t bytes[STEP_BYTES + 2 * EXPERTS_MAX];
};

static uint8_t *store_u(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static enum status append(struct trace_writer *w, const void *data, size_t size_bytes, struct error *err) {
    sha256_update(&w->hash, data, size_bytes);
    return file_writer_append(w->file, data, size_bytes, err);
}

static enum status write_head(struct trace_writer *w, const struct trace_head *head, struct error *err) {
    uint8_t *at = w->bytes;
    memcpy(at, MAGIC, 8);
    at = store_u(at + 8, VERSION, 4);
    at = store_u(at, head->layer_count, 4);
    at = store_u(at, head->record_count, 4);
    at = store_u(at, head->experts_per_token, 4);
    at = store_u(at, head->cache_bytes, 8);
    memcpy(at, head->identity, sizeof head->identity);
    memcpy(at + sizeof head->identity, head->family, sizeof head->family);
    at += sizeof head->identity + sizeof head->family;
    TRY(append(w, w->bytes, (size_t)(at - w->bytes), err));
    for (uint32_t i = 0; i < head->layer_count; i++) {
        at = store_u(w->bytes, head->layers[i].layer, 4);
        at = store_u(at, head->layers[i].first_record, 4);
        at = store_u(at, head->layers[i].experts, 4);
        TRY(append(w, w->bytes, (size_t)(at - w->bytes), err));
    }
    for (uint32_t i = 0; i < head->record_count; i++) {
        at = store_u(w->bytes, head->records[i].slot_bytes, 8);
        at = store_u(at, head->records[i].piece_bytes, 8);
        TRY(append(w, w->bytes, (size_t)(at - w->bytes), err));
    }
    return STATUS_OK;
}

enum status trace_writer_create(const char *path, const struct trace_head *head, struct trace_writer **out, struct error *err) {
    *out = NULL;
    CHECK(head->layer_count > 0 && head->layer_count <= LAYERS_MAX && head->record_count > 0 && head->record_count <= RECORDS_MAX);
    struct trace_writer *w = memory_alloc(sizeof *w);
    if (!w)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write a trace", path);
    sha256_init(&w->hash);
    enum status status = file_writer_create(path, &w->file, err);
    if (status == STATUS_OK)
        status = write_head(w, head, err);
    if (status != STATUS_OK) {
        trace_writer_abandon(w);
        return status;
    }
    *out = w;
    return STATUS_OK;
}

enum status trace_writer_add(struct trace_writer *w, const struct trace_wanted *wanted, struct error *err) {
    CHECK(wanted->count > 0 && wanted->count <= EXPERTS_MAX && wanted->layer < LAYERS_MAX);
    uint8_t *at = store_u(w->bytes, wanted->decode ? KIND_DECODE : KIND_PROMPT, 2);
    at = store_u(at, wanted->layer, 2);
    at = store_u(at, wanted->position, 4);
    at = store_u(at, wanted->rows < ROWS_MAX ? wanted->rows : ROWS_MAX, 2);
    at = store_u(at, wanted->count, 2);
    for (uint32_t i = 0; i < wanted->count; i++)
        at = store_u(at, wanted->experts[i], 2);
    w->steps++;
    return append(w, w->bytes, (size_t)(at - w->bytes), err);
}

static enum status write_end(struct trace_writer *w, const struct trace_totals *totals, struct error *err) {
    uint8_t *at = store_u(w->bytes, KIND_END, 1);
    at = store_u(at, w->steps, 8);
    at = store_u(at, totals->prompt.hits, 8);
    at = store_u(at, totals->prompt.misses, 8);
    at = store_u(at, totals->decode.hits, 8);
    at = store_u(at, totals->decode.misses, 8);
    sha256_update(&w->hash, w->bytes, (size_t)(at - w->bytes));
    sha256_finish(&w->hash, at);
    CHECK(at + 32 == w->bytes + END_BYTES);
    return file_writer_append(w->file, w->bytes, END_BYTES, err);
}

enum status trace_writer_finish(struct trace_writer *w, const struct trace_totals *totals, struct error *err) {
    enum status status = write_end(w, totals, err);
    if (status == STATUS_OK) {
        status = file_writer_finish(w->file, err);
        w->file = NULL;
    }
    trace_writer_abandon(w);
    return status;
}

void trace_writer_abandon(struct trace_writer *w) {
    if (!w)
        return;
    file_writer_abandon(w->file);
    memory_free(w);
}

/* ---- reading ---- */

static enum status damaged(const char *path, const struct byte_reader *r, const char *what, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "%s: at byte %" PRIu64 ": %s; record the trace again", path, r->position, what);
}

/* The end first: what has none was never finished. */
static enum status check_end(const char *path, struct byte_reader *r, struct trace_totals *totals, uint64_t *steps, struct error *err) {
    struct text magic;
    uint32_t version;
    if (!byte_reader_bytes(r, 8, &magic) || memcmp(magic.data, MAGIC, 8) != 0 || !byte_reader_u32(r, &version))
        return error_set(err, STATUS_CORRUPT, "%s: is no trace (generate --trace FILE writes one)", path);
    if (version != VERSION)
        return error_set(err, STATUS_UNSUPPORTED, "%s: is a trace of version %u, this program reads version %d", path, version, VERSION);
    if (r->size_bytes < r->position + END_BYTES)
        return damaged(path, r, "it ends here", err);
    struct byte_reader end = {r->data, r->size_bytes, r->size_bytes - END_BYTES};
    struct sha256 hash;
    uint8_t kind, digest[32];
    bool read = byte_reader_u8(&end, &kind) && byte_reader_u64(&end, steps) && byte_reader_u64(&end, &totals->prompt.hits) &&
                byte_reader_u64(&end, &totals->prompt.misses) && byte_reader_u64(&end, &totals->decode.hits) &&
                byte_reader_u64(&end, &totals->decode.misses);
    CHECK(read && byte_reader_left(&end) == 32);
    sha256_init(&hash);
    sha256_update(&hash, r->data, r->size_bytes - 32);
    sha256_finish(&hash, digest);
    if (kind != KIND_END || memcmp(digest, r->data + r->size_bytes - 32, 32) != 0)
        return damaged(path, &end, "the trace is damaged or was cut short: its checksum is another", err);
    r->size_bytes -= END_BYTES;
    return STATUS_OK;
}

static bool read_layer(struct byte_reader *r, const struct trace_head *head, struct trace_layer *layer) {
    return byte_reader_u32(r, &layer->layer) && byte_reader_u32(r, &layer->first_record) && byte_reader_u32(r, &layer->experts) &&
           layer->layer < LAYERS_MAX && layer->experts > 0 && layer->experts <= EXPERTS_MAX && layer->experts <= head->record_count &&
           layer->first_record <= head->record_count - layer->experts;
}

static enum status read_head(const char *path, struct byte_reader *r, struct trace_head *head, struct error *err) {
    struct text identity, family;
    if (!byte_reader_u32(r, &head->layer_count) || !byte_reader_u32(r, &head->record_count) ||
        !byte_reader_u32(r, &head->experts_per_token) || !byte_reader_u64(r, &head->cache_bytes) ||
        !byte_reader_bytes(r, sizeof head->identity, &identity) || !byte_reader_bytes(r, sizeof head->family, &family) ||
        head->layer_count == 0 || head->layer_count > byte_reader_left(r) / 12 || head->record_count == 0 ||
        head->record_count > RECORDS_MAX || head->record_count > byte_reader_left(r) / 16)
        return damaged(path, r, "the head counts what cannot be", err);
    memcpy(head->identity, identity.data, sizeof head->identity);
    memcpy(head->family, family.data, sizeof head->family - 1);
    for (const char *c = head->family; *c; c++)
        if (*c <= ' ' || *c > '~') /* it is printed */
            return damaged(path, r, "the name of the family is none", err);
    head->layers = memory_alloc_array(head->layer_count, sizeof *head->layers);
    head->records = memory_alloc_array(head->record_count, sizeof *head->records);
    if (!head->layers || !head->records)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for a trace of %u experts", path, head->record_count);
    for (uint32_t i = 0; i < head->layer_count; i++)
        if (!read_layer(r, head, &head->layers[i]))
            return damaged(path, r, "a layer that cannot be", err);
    for (uint32_t i = 0; i < head->record_count; i++)
        if (!byte_reader_u64(r, &head->records[i].slot_bytes) || !byte_reader_u64(r, &head->records[i].piece_bytes) ||
            head->records[i].slot_bytes == 0 || head->records[i].slot_bytes > RECORD_BYTES_MAX ||
            head->records[i].piece_bytes > RECORD_BYTES_MAX)
            return damaged(path, r, "an expert of a size that cannot be", err);
    return STATUS_OK;
}

static const struct trace_layer *find_layer(const struct trace_head *head, uint32_t layer) {
    for (uint32_t i = 0; i < head->layer_count; i++)
        if (head->layers[i].layer == layer)
            return &head->layers[i];
    return NULL;
}

static bool read_step(struct byte_reader *r, struct trace_file *trace, uint32_t *previous_layer) {
    uint8_t kind, zero;
    uint16_t number, rows, count, expert;
    uint32_t position;
    if (!byte_reader_u8(r, &kind) || !byte_reader_u8(r, &zero) || !byte_reader_u16(r, &number) || !byte_reader_u32(r, &position) ||
        !byte_reader_u16(r, &rows) || !byte_reader_u16(r, &count) || (kind != KIND_PROMPT && kind != KIND_DECODE) || count == 0 ||
        byte_reader_left(r) < 2u * count)
        return false;
    const struct trace_layer *layer = find_layer(&trace->head, number);
    if (!layer)
        return false;
    trace->steps[trace->step_count++] = (struct trace_step){trace->id_count, count, kind == KIND_DECODE};
    if (number <= *previous_layer) {
        trace->prompt_passes += kind == KIND_PROMPT;
        trace->decode_passes += kind == KIND_DECODE;
    }
    *previous_layer = number;
    for (uint32_t i = 0, least = 0; i < count; i++, least = expert + 1u) {
        (void)byte_reader_u16(r, &expert);
        if (expert < least || expert >= layer->experts)
            return false;
        trace->ids[trace->id_count++] = layer->first_record + expert;
    }
    return true;
}

static enum status read_steps(const char *path, struct byte_reader *r, uint64_t steps, struct trace_file *trace, struct error *err) {
    uint64_t left = byte_reader_left(r);
    if (steps == 0 || steps > left / (STEP_BYTES + 2) || steps > UINT32_MAX)
        return steps == 0 ? error_set(err, STATUS_INVALID, "%s: the run wanted no experts: there is nothing to replay", path)
                          : damaged(path, r, "more steps are counted than there are", err);
    trace->steps = memory_alloc_array(steps, sizeof *trace->steps);
    trace->ids = memory_alloc_array(left / 2, sizeof *trace->ids);
    if (!trace->steps || !trace->ids)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for a trace of %" PRIu64 " steps", path, steps);
    uint32_t previous_layer = UINT32_MAX;
    for (uint64_t i = 0; i < steps; i++)
        if (!read_step(r, trace, &previous_layer))
            return damaged(path, r, "a step that cannot be", err);
    return byte_reader_left(r) == 0 ? STATUS_OK : damaged(path, r, "more steps than are counted", err);
}

enum status trace_file_read(const char *path, struct trace_file *out, struct error *err) {
    struct text text;
    uint64_t steps;
    *out = (struct trace_file){0};
    TRY(file_read(path, FILE_BYTES_MAX, &text, err));
    struct byte_reader reader = {(const uint8_t *)text.data, text.size_bytes, 0};
    enum status status = check_end(path, &reader, &out->totals, &steps, err);
    if (status == STATUS_OK)
        status = read_head(path, &reader, &out->head, err);
    if (status == STATUS_OK)
        status = read_steps(path, &reader, steps, out, err);
    memory_free((char *)(uintptr_t)text.data);
    return status;
}

void trace_file_deinit(struct trace_file *trace) {
    trace_head_deinit(&trace->head);
    memory_free(trace->steps);
    memory_free(trace->ids);
    *trace = (struct trace_file){0};
}
