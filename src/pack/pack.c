/* pack: paths, what is checked before anything is written, and the end that makes a pack of a partial one. */
#include "pack/pack.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/file.h"
#include "base/file_writer.h"
#include "base/memory.h"
#include "pack/checksums.h"
#include "pack/pack_directory.h"
#include "pack/pack_internal.h"

#define WEIGHTS_NAME "model.safetensors"
#define ENCODED_BYTES STREAM_CHUNK_BYTES
#define ROOM_BYTES ((uint64_t)64 << 20) /* for what stands beside the weights */

struct places {
    char out[PACK_PATH_BYTES], parent[PACK_PATH_BYTES];
    char partial[PACK_PATH_BYTES]; /* OUT.partial: a file, or a folder with */
    char data[PACK_PATH_BYTES];    /* the file that grows, */
    char whole[PACK_PATH_BYTES];   /* which gets this name there */
    char state[PACK_PATH_BYTES];
    bool folder;
};

static enum status join(char out[PACK_PATH_BYTES], const char *a, const char *b, struct error *err) {
    if ((size_t)snprintf(out, PACK_PATH_BYTES, "%s%s", a, b) < PACK_PATH_BYTES)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "a path of %zu bytes is too long", strlen(a) + strlen(b));
}

static enum status find_places(const char *out, bool folder, struct places *places, struct error *err) {
    *places = (struct places){.folder = folder};
    TRY(join(places->out, out, "", err));
    for (size_t n = strlen(places->out); n > 1 && places->out[n - 1] == '/'; n--)
        places->out[n - 1] = 0;
    if (places->out[0] == 0)
        return error_set(err, STATUS_INVALID, "the path of the pack is empty");
    if (folder == text_ends_with(text_of(places->out), TEXT(".gguf")))
        return error_set(err, STATUS_INVALID, "%s: %s", places->out,
                         folder ? "the pack of a directory is a directory; give it a name without .gguf"
                                : "the pack of a GGUF model is one file; give it a name that ends in .gguf");
    const char *slash = strrchr(places->out, '/');
    TRY(join(places->parent, slash ? places->out : ".", "", err));
    if (slash)
        places->parent[slash == places->out ? 1 : slash - places->out] = 0;
    TRY(join(places->partial, places->out, ".partial", err));
    TRY(join(places->data, places->partial, folder ? "/" WEIGHTS_NAME ".partial" : "", err));
    TRY(join(places->whole, places->partial, folder ? "/" WEIGHTS_NAME : "", err));
    return join(places->state, places->partial, ".state", err);
}

/* Everything that can be known before the first byte. */
static enum status check_places(const struct packing *p, const struct places *places, struct error *err) {
    struct stat info;
    uint64_t needed = p->header.bytes.size_bytes + p->plan.data_bytes + (places->folder ? ROOM_BYTES : 0), there = 0;
    if (file_exists(places->out)) {
        if (!file_exists(places->partial))
            (void)unlink(places->state); /* of the pack that is whole */
        return error_set(err, STATUS_INVALID, "%s: is there already; remove it, or choose another name", places->out);
    }
    if (!file_is_directory(places->parent))
        return error_set(err, STATUS_NOT_FOUND, "%s: there is no such folder; make it, or choose another", places->parent);
    if (stat(places->data, &info) == 0)
        there = (uint64_t)info.st_blocks * 512;
    return pack_file_check_space(places->parent, needed > there ? needed - there : 0, err);
}

/* ---- beginning ---- */

static enum status fingerprint(struct packing *p, struct error *err) {
    XXH3_state_t *hash = p->hashes[0];
    (void)XXH3_64bits_reset(hash);
    (void)XXH3_64bits_update(hash, p->header.bytes.data, p->header.bytes.size_bytes);
    for (uint32_t f = 0; f < file_set_count(p->files); f++) {
        struct stat info;
        if (fstat(file_set_buffered_fd(p->files, f), &info) != 0)
            return error_set(err, STATUS_IO, "%s: %s", file_set_path(p->files, f), strerror(errno));
        int64_t identity[3] = {(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec};
        (void)XXH3_64bits_update(hash, identity, sizeof identity);
    }
    for (uint32_t j = 0; j < p->plan.job_count; j++) {
        const struct pack_job *job = &p->plan.jobs[j];
        uint64_t source[4] = {job->source->file, job->offset_bytes, job->size_bytes, (uint64_t)job->method};
        (void)XXH3_64bits_update(hash, source, sizeof source);
    }
    p->state.fingerprint = XXH3_64bits_digest(hash);
    return STATUS_OK;
}

static enum status make_buffers(struct packing *p, struct error *err) {
    unsigned threads = p->options->threads ? p->options->threads : cpu_count();
    bool encodes = p->plan.encoded > 0;
    for (uint32_t j = 0; j < p->plan.job_count; j++) {
        const struct pack_job *job = &p->plan.jobs[j];
        if (job->method == PACK_COPY)
            continue;
        if (job->matrix.row_bytes > STREAM_CHUNK_BYTES)
            return error_set(err, STATUS_UNSUPPORTED, "tensor %.*s: rows of %zu bytes are too long to be quantised",
                             TEXT_ARGUMENTS(job->source->name), job->matrix.row_bytes);
        p->widest = job->matrix.cols > p->widest ? job->matrix.cols : p->widest;
    }
    TRY(thread_pool_create(encodes ? threads : 1, &p->pool, err));
    p->state.output_count = p->plan.output_count;
    p->state.hashes = memory_alloc_array(p->plan.output_count + 1, sizeof *p->state.hashes);
    bool made = p->state.hashes != NULL;
    for (int i = 0; i < 3; i++) {
        p->hashes[i] = XXH3_createState();
        p->encoded[i] = encodes ? memory_alloc(ENCODED_BYTES) : NULL;
        made = made && p->hashes[i] && (p->encoded[i] || !encodes);
    }
    p->rows = memory_alloc_array((size_t)p->widest * thread_pool_size(p->pool) + 1, sizeof *p->rows);
    return made && p->rows ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for the buffers of a pack");
}

static enum status open_partial(struct packing *p, const struct places *places, struct error *err) {
    if (places->folder && mkdir(places->partial, 0777) != 0 && errno != EEXIST)
        return error_set(err, STATUS_IO, "%s: cannot make the folder: %s", places->partial, strerror(errno));
    if (places->folder && file_exists(places->whole) && !file_exists(places->data) && rename(places->whole, places->data) != 0)
        return error_set(err, STATUS_IO, "%s: %s", places->whole, strerror(errno)); /* stopped between the last two steps */
    TRY(pack_file_open(&p->file, places->data, places->state, p->header.bytes.size_bytes + p->plan.data_bytes, err));
    if (!pack_state_read(&p->file, &p->state))
        p->state.jobs_done = 0;
    return pack_check_done(p, err);
}

/* ---- the end ---- */

/* Hash of all bytes outside of tensors, the header's checksums as zeros; holes between tensors are zeros. */
static uint64_t hash_rest(struct packing *p) {
    static const uint8_t zeros[PACK_ALIGNMENT];
    uint64_t end = 0;
    (void)XXH3_64bits_reset(p->hashes[0]);
    (void)XXH3_64bits_update(p->hashes[0], p->header.bytes.data, p->header.bytes.size_bytes);
    for (uint32_t i = 0; i < p->plan.output_count; i++) {
        const struct tensor_entry *t = &p->plan.outputs[i].tensor;
        CHECK(t->offset_bytes >= end && t->offset_bytes - end < PACK_ALIGNMENT);
        (void)XXH3_64bits_update(p->hashes[0], zeros, (size_t)(t->offset_bytes - end));
        end = t->offset_bytes + t->size_bytes;
    }
    return XXH3_64bits_digest(p->hashes[0]);
}

static enum status add_sums(const struct packing *p, json_t *sums, uint64_t rest, struct error *err) {
    for (uint32_t i = 0; i < p->plan.output_count; i++)
        TRY(checksums_add(sums, "tensors", p->plan.outputs[i].tensor.name, p->state.hashes[i], err));
    return checksums_add(sums, "rest", TEXT(WEIGHTS_NAME), rest, err);
}

static enum status finish_folder(struct packing *p, const struct places *places, uint64_t rest, struct error *err) {
    char path[PACK_PATH_BYTES];
    json_t *sums = checksums_create();
    if (!sums)
        return error_set(err, STATUS_NO_MEMORY, "no memory for checksums");
    enum status status = pack_directory_copy(&p->plan, places->partial, sums, err);
    if (status == STATUS_OK)
        status = add_sums(p, sums, rest, err);
    if (status == STATUS_OK)
        status = join(path, places->partial, "/" CHECKSUMS_NAME, err);
    if (status == STATUS_OK)
        status = checksums_write(sums, path, err);
    json_decref(sums);
    TRY(status);
    if (rename(places->data, places->whole) != 0)
        return error_set(err, STATUS_IO, "%s: cannot rename: %s", places->data, strerror(errno));
    file_sync_directory_of(places->whole);
    return STATUS_OK;
}

/* Opens the pack as any model: what cannot run must not be called done. Reads headers alone. */
static enum status check_opens(const struct places *places, struct error *err) {
    struct file_set *files;
    struct model *model = NULL;
    TRY(file_set_create(&files, err));
    enum status status = model_open(places->out, files, &model, err);
    model_close(model);
    file_set_destroy(files);
    if (status == STATUS_OK)
        return STATUS_OK;
    (void)rename(places->out, places->partial);
    return err ? error_prefix(err, "%s: the pack does not open", places->partial) : status;
}

static enum status finish(struct packing *p, const struct places *places, struct error *err) {
    struct byte_buffer *header = &p->header.bytes;
    uint64_t total = header->size_bytes + p->plan.data_bytes, rest = hash_rest(p);
    TRY(file_set_check(p->files, err));
    if (p->header.sums_at) {
        memcpy(header->data + p->header.sums_at, p->state.hashes, p->plan.output_count * sizeof rest);
        memcpy(header->data + p->header.sums_at + p->plan.output_count * sizeof rest, &rest, sizeof rest);
    }
    if (ftruncate(p->file.fd, (off_t)total) != 0)
        return error_set(err, STATUS_IO, "%s: cannot set its size: %s", p->file.path, strerror(errno));
    TRY(pack_file_write(&p->file, 0, header->data, header->size_bytes, err));
    TRY(pack_file_sync(&p->file, err));
    if (places->folder)
        TRY(finish_folder(p, places, rest, err));
    if (rename(places->partial, places->out) != 0)
        return error_set(err, STATUS_IO, "%s: cannot rename to %s: %s", places->partial, places->out, strerror(errno));
    file_sync_directory_of(places->out);
    TRY(check_opens(places, err));
    (void)unlink(places->state);
    return STATUS_OK;
}

/* ---- all of it ---- */

static void fill_result(const struct packing *p, uint64_t jobs_kept, struct pack_result *result) {
    *result = (struct pack_result){.bytes = p->header.bytes.size_bytes + p->plan.data_bytes,
                                   .tensors = p->plan.output_count,
                                   .encoded = p->plan.encoded,
                                   .kept_float = p->plan.kept_float,
                                   .expert_layers = p->plan.expert_layers,
                                   .split_layers = p->plan.split_layers};
    for (uint32_t j = 0; j < jobs_kept; j++)
        for (uint32_t i = 0; i < p->plan.jobs[j].output_count; i++)
            result->kept_bytes += p->plan.outputs[p->plan.jobs[j].first_output + i].tensor.size_bytes;
}

static enum status pack_into(struct packing *p, struct pack_result *result, struct error *err) {
    const struct pack_type *type = NULL;
    struct places places;
    if (p->options->type && !(type = pack_type_find(p->options->type)))
        return error_set(err, STATUS_INVALID, "there is no type %s", p->options->type);
    TRY(file_set_create(&p->files, err));
    TRY(model_open(p->options->path, p->files, &p->model, err));
    TRY(find_places(p->options->out, catalogue_world(p->model->catalogue) == CATALOGUE_HF, &places, err));
    TRY(pack_plan_build(p->model, type, &p->plan, err));
    TRY(pack_header_build(&p->plan, p->files, &p->header, err));
    TRY(make_buffers(p, err));
    TRY(fingerprint(p, err));
    TRY(check_places(p, &places, err));
    TRY(open_partial(p, &places, err));
    fill_result(p, p->state.jobs_done, result);
    TRY(pack_run(p, err));
    return finish(p, &places, err);
}

enum status pack_model(const struct pack_options *options, struct pack_result *result, struct error *err) {
    CHECK(options->path && options->out);
    struct packing p = {.options = options, .file = {.fd = -1}};
    enum status status = pack_into(&p, result, err);
    pack_file_close(&p.file);
    thread_pool_destroy(p.pool);
    for (int i = 0; i < 3; i++) {
        XXH3_freeState(p.hashes[i]);
        memory_free(p.encoded[i]);
    }
    memory_free(p.rows);
    memory_free(p.scales);
    memory_free(p.state.hashes);
    byte_buffer_deinit(&p.header.bytes);
    pack_plan_deinit(&p.plan);
    model_close(p.model);
    if (!p.reads_left)
        file_set_destroy(p.files);
    return status;
}
