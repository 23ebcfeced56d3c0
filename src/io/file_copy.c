/* file_copy: see file_copy.h. */
#include "io/file_copy.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory.h"

#define BLOCK_BYTES ((uint64_t)64 << 10)
#define BEGINNING_BYTES ((uint64_t)1 << 20)
#define SAMPLES 32 /* as many places as a disk with a moving head finds in half a second */

struct comparison {
    const struct file_set *files;
    uint32_t file, copy;
    uint8_t *one, *other; /* a block each */
};

/* Bytes [begin, end) of both. */
static enum status compare(const struct comparison *c, uint64_t begin_bytes, uint64_t end_bytes, struct error *err) {
    for (uint64_t at = begin_bytes; at < end_bytes; at += BLOCK_BYTES) {
        uint64_t size = end_bytes - at < BLOCK_BYTES ? end_bytes - at : BLOCK_BYTES, same = 0;
        TRY(file_set_read(c->files, c->file, at, c->one, size, err));
        TRY(file_set_read(c->files, c->copy, at, c->other, size, err));
        if (memcmp(c->one, c->other, size) == 0)
            continue;
        while (c->one[same] == c->other[same])
            same++;
        return error_set(err, STATUS_INVALID,
                         "%s: is no copy of %s: they differ at offset %" PRIu64
                         "; copy the file again (sluice verify tells which of the two "
                         "is damaged), or name another",
                         file_set_path(c->files, c->copy), file_set_path(c->files, c->file), at + same);
    }
    return STATUS_OK;
}

static enum status compare_places(const struct comparison *c, uint64_t header_bytes, struct error *err) {
    uint64_t size = file_set_size_bytes(c->files, c->file), beginning = header_bytes > BEGINNING_BYTES ? header_bytes : BEGINNING_BYTES;
    if (beginning >= size)
        return compare(c, 0, size, err);
    TRY(compare(c, 0, beginning, err));
    uint64_t step = (size - beginning) / SAMPLES;
    for (uint64_t i = 1; i <= SAMPLES && step >= BLOCK_BYTES; i++) {
        uint64_t end = i == SAMPLES ? size : beginning + i * step;
        TRY(compare(c, end - BLOCK_BYTES, end, err));
    }
    return step >= BLOCK_BYTES ? STATUS_OK : compare(c, beginning, size, err);
}

enum status file_copy_check(const struct file_set *files, uint32_t file, uint32_t copy, uint64_t header_bytes, struct error *err) {
    struct comparison c = {.files = files, .file = file, .copy = copy};
    c.one = memory_alloc(2 * BLOCK_BYTES);
    if (!c.one)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to compare it", file_set_path(files, copy));
    c.other = c.one + BLOCK_BYTES;
    enum status status = compare_places(&c, header_bytes, err);
    memory_free(c.one);
    return status;
}
