/* pack_run: chunks of the sources in the order of the pack, each encoded or not, hashed and written. */
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "dtype/encode.h"
#include "dtype/scalar_convert.h"
#include "kernel/ref/ref.h"
#include "pack/finite.h"
#include "pack/pack_internal.h"

#define NOTE_NS 500000000u /* as often the state is written, */
#define NOTE_SHARE 20      /* and this many times less than that takes */

static uint64_t chunk_bytes(const struct pack_job *job) {
    uint64_t unit = job->method == PACK_COPY ? dtype_info(job->source->dtype)->block_bytes : job->matrix.row_bytes;
    CHECK(unit > 0 && unit <= STREAM_CHUNK_BYTES);
    return STREAM_CHUNK_BYTES / unit * unit;
}

static bool next_source(void *context, struct stream_range *range) {
    struct packing *p = context;
    for (; p->ask_job < p->plan.job_count; p->ask_job++, p->ask_done = 0) {
        const struct pack_job *job = &p->plan.jobs[p->ask_job];
        if (p->ask_done == job->size_bytes)
            continue;
        uint64_t left = job->size_bytes - p->ask_done, most = chunk_bytes(job);
        *range = (struct stream_range){.file = job->source->file,
                                       .offset_bytes = job->offset_bytes + p->ask_done,
                                       .size_bytes = left < most ? left : most,
                                       .tag = p->ask_job};
        p->ask_done += range->size_bytes;
        return true;
    }
    return false;
}

static void report(struct packing *p, const char *what) {
    if (p->options->progress)
        p->options->progress(p->options->context, what, p->done_bytes, p->plan.source_bytes);
}

/* ---- encoding ---- */

struct encode_work {
    struct packing *p;
    const struct pack_job *job;
    struct matrix matrix; /* row 0 is the matrix' first, data may be before the chunk */
    uint64_t first_row;
    uint64_t row_bytes[3];        /* of the outputs */
    atomic_uint_fast64_t bad_row; /* + 1; 0: none */
};

static void encode_rows(void *context, size_t begin, size_t end, unsigned worker) {
    struct encode_work *w = context;
    struct packing *p = w->p;
    float *row = p->rows + worker * p->widest;
    const struct pack_output *out = &p->plan.outputs[w->job->first_output];
    for (size_t r = begin; r < end; r++) {
        ref_decode_row(&w->matrix, (size_t)(w->first_row + r), row);
        if (f32_first_not_finite(row, w->matrix.cols) < w->matrix.cols) {
            atomic_store(&w->bad_row, w->first_row + r + 1);
            return;
        }
        if (w->job->method == PACK_BLOCKS) {
            dtype_encode(out->tensor.dtype, row, p->encoded[0] + r * w->row_bytes[0], w->matrix.cols);
            continue;
        }
        struct affine_row affine = {.codes = p->encoded[0] + r * w->row_bytes[0],
                                    .scales = p->encoded[1] + r * w->row_bytes[1],
                                    .biases = p->encoded[2] + r * w->row_bytes[2],
                                    .bits = p->plan.type->affine_bits,
                                    .scale_dtype = out[1].tensor.dtype,
                                    .group = w->matrix.cols / (size_t)out[1].tensor.shape[out[1].tensor.rank - 1]};
        encode_affine(row, w->matrix.cols, &affine);
    }
}

/* Fills p->encoded from a chunk; sizes[i]: bytes of each output. */
static enum status encode_chunk(struct packing *p, const struct pack_job *job, const struct stream_range *range, const uint8_t *data,
                                uint64_t sizes[3], struct error *err) {
    struct encode_work work = {.p = p, .job = job, .matrix = job->matrix};
    uint64_t rows = range->size_bytes / job->matrix.row_bytes;
    work.first_row = p->job_done / job->matrix.row_bytes;
    /* rows are counted from the matrix' first, because scales are */
    work.matrix.data = (const uint8_t *)((uintptr_t)data - work.first_row * job->matrix.row_bytes);
    work.matrix.scales = p->scales;
    for (uint32_t i = 0; i < job->output_count; i++) {
        work.row_bytes[i] = p->plan.outputs[job->first_output + i].tensor.size_bytes / job->matrix.rows;
        sizes[i] = rows * work.row_bytes[i];
        CHECK(sizes[i] <= STREAM_CHUNK_BYTES);
    }
    thread_pool_run(p->pool, (size_t)rows, 1, encode_rows, &work);
    uint64_t bad = atomic_load(&work.bad_row);
    if (bad)
        return error_set(err, STATUS_CORRUPT, "%s: tensor %.*s: row %" PRIu64 " holds what is no finite number; the model is damaged",
                         file_set_path(p->files, range->file), TEXT_ARGUMENTS(job->source->name), bad - 1);
    return STATUS_OK;
}

static enum status load_scales(struct packing *p, const struct pack_job *job, struct error *err) {
    memory_free(p->scales);
    p->scales = NULL;
    if (job->scales_bytes == 0)
        return STATUS_OK;
    p->scales = memory_alloc((size_t)job->scales_bytes);
    if (!p->scales)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " bytes of scales", job->scales_bytes);
    return file_set_read(p->files, job->scales_file, job->scales_offset_bytes, p->scales, job->scales_bytes, err);
}

/* ---- jobs ---- */

static enum status check_copied(const struct packing *p, const struct pack_job *job, const struct stream_range *range, const uint8_t *data,
                                struct error *err) {
    const struct dtype_info *info = dtype_info(job->source->dtype);
    size_t count = (size_t)(range->size_bytes / info->block_bytes * info->block_elements);
    size_t bad = finite_check(job->source->dtype, data, count);
    if (bad == count)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "%s: tensor %.*s: what is at offset %" PRIu64 " is no finite number; the model is damaged (sluice verify tells more)",
                     file_set_path(p->files, range->file), TEXT_ARGUMENTS(job->source->name),
                     range->offset_bytes + bad / info->block_elements * info->block_bytes);
}

static enum status write_chunk(struct packing *p, const struct pack_job *job, const struct stream_range *range, const uint8_t *data,
                               struct error *err) {
    uint64_t sizes[3] = {range->size_bytes};
    const uint8_t *bytes[3] = {data, p->encoded[1], p->encoded[2]};
    if (job->method == PACK_COPY) {
        TRY(check_copied(p, job, range, data, err));
    } else {
        TRY(encode_chunk(p, job, range, data, sizes, err));
        bytes[0] = p->encoded[0];
    }
    for (uint32_t i = 0; i < job->output_count; i++) {
        const struct pack_output *out = &p->plan.outputs[job->first_output + i];
        uint64_t at =
            job->method == PACK_COPY ? p->job_done : p->job_done / job->matrix.row_bytes * (out->tensor.size_bytes / job->matrix.rows);
        CHECK(at + sizes[i] <= out->tensor.size_bytes);
        if (XXH3_64bits_update(p->hashes[i], bytes[i], (size_t)sizes[i]) != XXH_OK)
            return error_set(err, STATUS_INTERNAL, "a checksum could not be computed");
        TRY(pack_file_write(&p->file, pack_output_at(p, job->first_output + i) + at, bytes[i], sizes[i], err));
    }
    return STATUS_OK;
}

static enum status note(struct packing *p, struct error *err) {
    uint64_t begin_ns = clock_now_ns();
    TRY(pack_state_write(&p->file, &p->state, err));
    p->noted_ns = clock_now_ns();
    p->note_pause_ns = (p->noted_ns - begin_ns) * NOTE_SHARE > NOTE_NS ? (p->noted_ns - begin_ns) * NOTE_SHARE : NOTE_NS;
    return STATUS_OK;
}

static enum status begin_job(struct packing *p, struct error *err) {
    const struct pack_job *job = &p->plan.jobs[p->state.jobs_done];
    p->job_done = 0;
    for (uint32_t i = 0; i < job->output_count; i++)
        (void)XXH3_64bits_reset(p->hashes[i]);
    return load_scales(p, job, err);
}

/* The jobs that end with what was written so far: the one under way, and empty ones behind it. */
static enum status end_jobs(struct packing *p, struct error *err) {
    while (p->state.jobs_done < p->plan.job_count) {
        const struct pack_job *job = &p->plan.jobs[p->state.jobs_done];
        if (p->job_done < job->size_bytes)
            return STATUS_OK;
        for (uint32_t i = 0; i < job->output_count; i++)
            p->state.hashes[job->first_output + i] = XXH3_64bits_digest(p->hashes[i]);
        p->state.jobs_done++;
        if (p->state.jobs_done < p->plan.job_count)
            TRY(begin_job(p, err));
    }
    return STATUS_OK;
}

static enum status run_jobs(struct packing *p, struct file_stream *stream, struct error *err) {
    struct stream_range range;
    const uint8_t *data;
    TRY(begin_job(p, err));
    TRY(end_jobs(p, err));
    for (;;) {
        enum status status = file_stream_take(stream, &range, &data, err);
        if (status == STATUS_IO)
            return error_advise(err, status, "what was packed stays, and the same command goes on from there");
        TRY(status);
        if (!data)
            break;
        CHECK(range.tag == p->state.jobs_done);
        TRY(write_chunk(p, &p->plan.jobs[range.tag], &range, data, err));
        p->job_done += range.size_bytes;
        p->done_bytes += range.size_bytes;
        TRY(end_jobs(p, err));
        report(p, "packing");
        if (clock_now_ns() - p->noted_ns >= p->note_pause_ns)
            TRY(note(p, err));
    }
    CHECK(p->state.jobs_done == p->plan.job_count);
    return note(p, err);
}

enum status pack_run(struct packing *p, struct error *err) {
    struct file_stream *stream;
    p->ask_job = (uint32_t)p->state.jobs_done;
    p->ask_done = 0;
    p->done_bytes = 0;
    for (uint32_t j = 0; j < p->ask_job; j++)
        p->done_bytes += p->plan.jobs[j].size_bytes;
    p->note_pause_ns = NOTE_NS;
    p->noted_ns = clock_now_ns();
    if (p->ask_job == p->plan.job_count)
        return STATUS_OK;
    TRY(file_stream_create(p->files, p->options->read_timeout_ns, next_source, p, &stream, err));
    enum status status = run_jobs(p, stream, err);
    p->reads_left = !file_stream_destroy(stream);
    if (status != STATUS_OK && status != STATUS_NO_MEMORY)
        (void)note(p, NULL); /* what was done is not lost; the first error is told */
    return status;
}

/* ---- going on ---- */

struct check_walk {
    const struct packing *p;
    uint32_t output, end;
    uint64_t done;
};

static bool next_written(void *context, struct stream_range *range) {
    struct check_walk *w = context;
    for (; w->output < w->end; w->output++, w->done = 0) {
        uint64_t left = w->p->plan.outputs[w->output].tensor.size_bytes - w->done;
        if (left == 0)
            continue;
        *range = (struct stream_range){.offset_bytes = pack_output_at(w->p, w->output) + w->done,
                                       .size_bytes = left < STREAM_CHUNK_BYTES ? left : STREAM_CHUNK_BYTES,
                                       .tag = w->output};
        w->done += range->size_bytes;
        return true;
    }
    return false;
}

/* *good: outputs from the first on that are what the state says. */
static enum status hash_written(struct packing *p, struct file_stream *stream, uint32_t count, uint32_t *good, struct error *err) {
    uint64_t left = 0;
    *good = 0;
    p->done_bytes = 0;
    for (; *good < count; (*good)++) {
        left = p->plan.outputs[*good].tensor.size_bytes;
        (void)XXH3_64bits_reset(p->hashes[0]);
        while (left > 0) {
            struct stream_range range;
            const uint8_t *data;
            TRY(file_stream_take(stream, &range, &data, err));
            CHECK(data && range.tag == *good);
            (void)XXH3_64bits_update(p->hashes[0], data, (size_t)range.size_bytes);
            left -= range.size_bytes;
            p->done_bytes += range.size_bytes;
            if (p->options->progress)
                p->options->progress(p->options->context, "checking what is there", p->done_bytes, p->plan.data_bytes);
        }
        if (XXH3_64bits_digest(p->hashes[0]) != p->state.hashes[*good])
            return STATUS_OK;
    }
    return STATUS_OK;
}

enum status pack_check_done(struct packing *p, struct error *err) {
    struct file_set *files;
    struct file_stream *stream = NULL;
    uint32_t file, good = 0, jobs = (uint32_t)p->state.jobs_done;
    if (jobs == 0 || jobs > p->plan.job_count)
        return STATUS_OK;
    struct check_walk walk = {.p = p};
    TRY(file_set_create(&files, err));
    enum status status = file_set_add(files, p->file.path, &file, err);
    /* what the file has not is not done */
    while (status == STATUS_OK && jobs > 0) {
        const struct pack_job *last = &p->plan.jobs[jobs - 1];
        const struct pack_output *out = &p->plan.outputs[last->first_output + last->output_count - 1];
        walk.end = last->first_output + last->output_count;
        if (pack_output_at(p, walk.end - 1) + out->tensor.size_bytes <= file_set_size_bytes(files, file))
            break;
        jobs--;
    }
    if (status == STATUS_OK && jobs > 0)
        status = file_stream_create(files, p->options->read_timeout_ns, next_written, &walk, &stream, err);
    if (stream)
        status = hash_written(p, stream, walk.end, &good, err);
    if (file_stream_destroy(stream))
        file_set_destroy(files);
    TRY(status);
    p->state.jobs_done = 0;
    while (p->state.jobs_done < jobs &&
           p->plan.jobs[p->state.jobs_done].first_output + p->plan.jobs[p->state.jobs_done].output_count <= good)
        p->state.jobs_done++;
    return STATUS_OK;
}
