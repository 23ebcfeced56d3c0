/* verify_read: the tensors of a file and what lies between them, in the order of the file. */
#include <string.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/memory.h"
#include "pack/file_stream.h"
#include "pack/finite.h"
#include "pack/verify_internal.h"

#define REST UINT64_MAX /* a range's tag: in no tensor */

struct walk {
    const struct verify *v;
    uint32_t file;
    uint64_t tensor;   /* next one in order */
    uint64_t position; /* in the file */
};

static bool next_part(void *context, struct stream_range *range) {
    struct walk *w = context;
    const struct verified_file *each = &w->v->each[w->file];
    uint64_t end = file_set_size_bytes(w->v->files, w->file), most = STREAM_CHUNK_BYTES;
    if (w->position == end)
        return false;
    *range = (struct stream_range){.file = w->file, .offset_bytes = w->position, .tag = REST};
    const struct tensor_entry *t = w->tensor < each->count ? w->v->order[each->first + w->tensor] : NULL;
    if (t && t->offset_bytes <= w->position) {
        uint64_t block = dtype_info(t->dtype)->block_bytes;
        range->tag = verify_index(w->v, t);
        end = t->offset_bytes + t->size_bytes;
        most = most / block * block;
    } else if (t) {
        end = t->offset_bytes;
    }
    CHECK(w->position < end);
    range->size_bytes = end - w->position < most ? end - w->position : most;
    w->position += range->size_bytes;
    if (range->tag != REST && w->position == end)
        w->tensor++;
    return true;
}

struct reading {
    struct verify *v;
    struct verified_file *each;
    XXH3_state_t *rest, *tensor;
    struct verify_digest *digest;
    uint64_t index; /* tensor under way, or REST */
};

/* The checksums that stand in a header count as zeros. */
static void add_rest(struct reading *r, const struct stream_range *range, const uint8_t *data) {
    static const uint8_t zeros[4096];
    uint64_t from = range->offset_bytes, end = from + range->size_bytes, low = r->each->sums_at, high = low + r->each->sums_bytes;
    uint64_t first = low < from ? from : low > end ? end : low, last = high < first ? first : high > end ? end : high;
    (void)XXH3_64bits_update(r->rest, data, (size_t)(first - from));
    for (uint64_t at = first; at < last;) {
        size_t step = last - at < sizeof zeros ? (size_t)(last - at) : sizeof zeros;
        (void)XXH3_64bits_update(r->rest, zeros, step);
        at += step;
    }
    (void)XXH3_64bits_update(r->rest, data + (last - from), (size_t)(end - last));
}

static void end_tensor(struct reading *r) {
    if (r->index != REST)
        r->v->hashes[r->index] = XXH3_64bits_digest(r->tensor);
    r->index = REST;
}

static void add_tensor(struct reading *r, const struct stream_range *range, const uint8_t *data) {
    struct verify *v = r->v;
    const struct tensor_entry *t = catalogue_tensor(v->catalogue, range->tag);
    const struct dtype_info *info = dtype_info(t->dtype);
    if (r->index != range->tag) {
        end_tensor(r);
        r->index = range->tag;
        (void)XXH3_64bits_reset(r->tensor);
    }
    (void)XXH3_64bits_update(r->tensor, data, (size_t)range->size_bytes);
    uint64_t before = (range->offset_bytes - t->offset_bytes) / info->block_bytes * info->block_elements;
    size_t count = (size_t)(range->size_bytes / info->block_bytes * info->block_elements), bad = finite_check(t->dtype, data, count);
    if (bad < count && v->bad[range->tag] == FINITE)
        v->bad[range->tag] = before + bad;
}

static enum status read_all(struct reading *r, struct file_stream *stream, struct error *err) {
    struct verify *v = r->v;
    for (;;) {
        struct stream_range range;
        const uint8_t *data;
        TRY(file_stream_take(stream, &range, &data, err));
        if (!data)
            break;
        verify_digest_add(r->digest, data, (size_t)range.size_bytes);
        if (range.tag == REST)
            add_rest(r, &range, data);
        else
            add_tensor(r, &range, data);
        uint64_t done = atomic_fetch_add(&v->done_bytes, range.size_bytes) + range.size_bytes;
        if (v->options->progress)
            v->options->progress(v->options->context, "verifying", done, v->total_bytes);
    }
    end_tensor(r);
    return STATUS_OK;
}

void verify_read_file(struct verify *v, uint32_t file) {
    struct verified_file *each = &v->each[file];
    struct walk walk = {.v = v, .file = file};
    struct reading r = {.v = v, .each = each, .rest = XXH3_createState(), .tensor = XXH3_createState(), .index = REST};
    struct file_stream *stream = NULL;
    each->status = r.rest && r.tensor ? file_stream_create(v->files, v->options->read_timeout_ns, next_part, &walk, &stream, &each->err)
                                      : error_set(&each->err, STATUS_NO_MEMORY, "no memory to verify a file");
    if (each->status == STATUS_OK)
        each->status = verify_digest_begin(each->known.kind, file_set_size_bytes(v->files, file), &r.digest, &each->err);
    if (each->status == STATUS_OK) {
        (void)XXH3_64bits_reset(r.rest);
        each->status = read_all(&r, stream, &each->err);
        each->rest_hash = XXH3_64bits_digest(r.rest);
    }
    verify_digest_end(r.digest, each->digest);
    if (!file_stream_destroy(stream))
        atomic_store(&v->reads_left, true);
    XXH3_freeState(r.rest);
    XXH3_freeState(r.tensor);
}
