/* verify: finds what is known, has every file read, compares, tells. */
#include "pack/verify.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/thread_pool.h"
#include "format/directory_list.h"
#include "format/gguf_write.h"
#include "pack/checksums.h"
#include "pack/pack_directory.h"
#include "pack/verify_internal.h"

#define THREADS_MAX 8 /* files at once; each has buffers */

struct sums {            /* what the tensors are compared with */
    json_t *known;       /* NULL: nothing */
    json_t *made;        /* of this call */
    bool of_pack;        /* else of an earlier verify */
    char path[PATH_MAX]; /* where made ones are kept; empty: nowhere */
};

/* ---- preparing ---- */

static enum status prepare(struct verify *v, struct error *err) {
    uint64_t tensors = catalogue_tensor_count(v->catalogue);
    uint32_t files = file_set_count(v->files);
    v->order = memory_alloc_array((size_t)tensors + 1, sizeof *v->order);
    v->hashes = memory_alloc_array((size_t)tensors + 1, sizeof *v->hashes);
    v->bad = memory_alloc_array((size_t)tensors + 1, sizeof *v->bad);
    v->each = memory_alloc_array((size_t)files + 1, sizeof *v->each);
    if (!v->order || !v->hashes || !v->bad || !v->each)
        return error_set(err, STATUS_NO_MEMORY, "no memory to verify %" PRIu64 " tensors", tensors);
    for (uint64_t i = 0; i < tensors; i++) {
        v->bad[i] = FINITE;
        v->hashes[i] = XXH3_64bits(NULL, 0);
    }
    for (uint64_t i = catalogue_by_place(v->catalogue, v->order); i-- > 0;) {
        v->each[v->order[i]->file].first = i;
        v->each[v->order[i]->file].count++;
    }
    for (uint32_t f = 0; f < files; f++) {
        v->each[f].known = verify_known(file_set_path(v->files, f));
        v->total_bytes += file_set_size_bytes(v->files, f);
    }
    return STATUS_OK;
}

static bool is_directory_model(const struct verify *v) { return catalogue_world(v->catalogue) == CATALOGUE_HF; }

/* Where the checksums of a GGUF pack stand, so that they are left out of the hash of the rest. */
static enum status find_pack_sums(struct verify *v, uint64_t count, struct error *err) {
    struct verified_file *each = &v->each[0];
    uint64_t header_bytes = each->count ? v->order[each->first]->offset_bytes : file_set_size_bytes(v->files, 0);
    struct byte_buffer head;
    byte_buffer_init(&head, 256);
    char *header = memory_alloc((size_t)header_bytes);
    enum status status = header ? gguf_write_array_head(&head, CHECKSUMS_KEY, count, err)
                                : error_set(err, STATUS_NO_MEMORY, "no memory for a header of %" PRIu64 " bytes", header_bytes);
    if (status == STATUS_OK)
        status = file_set_read(v->files, 0, 0, header, header_bytes, err);
    const char *found = status == STATUS_OK ? memmem(header, (size_t)header_bytes, head.data, head.size_bytes) : NULL;
    if (found) {
        each->sums_at = (uint64_t)(found - header) + head.size_bytes;
        each->sums_bytes = count * sizeof(uint64_t);
    }
    if (status == STATUS_OK && (!found || each->sums_at + each->sums_bytes > header_bytes))
        status = error_set(err, STATUS_CORRUPT, "%s: its list of checksums is damaged", file_set_path(v->files, 0));
    memory_free(header);
    byte_buffer_deinit(&head);
    return status;
}

/* The checksums inside a GGUF pack, as a set. */
static enum status read_gguf_sums(struct verify *v, const struct meta_value *value, struct sums *sums, struct error *err) {
    uint64_t tensors = catalogue_tensor_count(v->catalogue);
    const char *path = file_set_path(v->files, 0);
    if (value->type != META_ARRAY || value->array.count != tensors + 1 || file_set_count(v->files) != 1)
        return error_set(err, STATUS_CORRUPT, "%s: has no checksum for each of its %" PRIu64 " tensors: its header is damaged", path,
                         tensors);
    TRY(find_pack_sums(v, tensors + 1, err));
    sums->known = checksums_create();
    sums->of_pack = true;
    for (uint64_t i = 0; i <= tensors; i++) {
        uint64_t hash;
        TRY(file_set_read(v->files, 0, v->each[0].sums_at + i * sizeof hash, &hash, sizeof hash, err));
        TRY(checksums_add(sums->known, i < tensors ? "tensors" : "rest",
                          i < tensors ? catalogue_tensor(v->catalogue, i)->name : text_of(checksums_file_name(path)), hash, err));
    }
    return STATUS_OK;
}

/* The pack's, else those of an earlier call. */
static enum status find_sums(struct verify *v, struct sums *sums, struct error *err) {
    char path[PATH_MAX], name[64];
    const struct meta_value *packed = is_directory_model(v) ? NULL : catalogue_meta(v->catalogue, CHECKSUMS_KEY);
    if (packed)
        return read_gguf_sums(v, packed, sums, err);
    if (is_directory_model(v) && file_join(catalogue_directory(v->catalogue), CHECKSUMS_NAME, path, sizeof path, NULL) == STATUS_OK &&
        file_exists(path)) {
        sums->of_pack = true;
        return checksums_read(path, &sums->known, err);
    }
    if (!realpath(v->options->path, path))
        return STATUS_OK;
    (void)snprintf(name, sizeof name, "checksums-%016" PRIx64 ".json", (uint64_t)XXH3_64bits(path, strlen(path)));
    if (!options_cache_path(name, sums->path, sizeof sums->path)) {
        sums->path[0] = 0;
        return STATUS_OK;
    }
    enum status status = checksums_read(sums->path, &sums->known, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* ---- reading ---- */

static void read_files(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    for (size_t f = begin; f < end; f++)
        verify_read_file(context, (uint32_t)f);
}

static enum status read_everything(struct verify *v, struct error *err) {
    struct thread_pool *pool;
    unsigned threads = v->options->threads ? v->options->threads : cpu_count();
    uint32_t files = file_set_count(v->files);
    threads = threads < files ? threads : files;
    TRY(thread_pool_create(threads < THREADS_MAX ? threads : THREADS_MAX, &pool, err));
    thread_pool_run(pool, files, 1, read_files, v);
    thread_pool_destroy(pool);
    for (uint32_t f = 0; f < files; f++)
        if (v->each[f].status != STATUS_OK) {
            if (err)
                *err = v->each[f].err;
            return v->each[f].status;
        }
    return file_set_check(v->files, err);
}

/* ---- comparing ---- */

static const char *whose(const struct sums *sums) { return sums->of_pack ? "the pack's" : "that of the first check"; }

/* Whether there is a sum and it is another. The sum is kept with those of this call. */
static enum status compare(struct sums *sums, const char *group, struct text name, uint64_t hash, bool *differs, struct error *err) {
    uint64_t known;
    *differs = sums->known && checksums_find(sums->known, group, name, &known) && known != hash;
    return checksums_add(sums->made, group, name, hash, err);
}

static enum status compare_tensor(struct verify *v, uint64_t index, struct sums *sums, struct error *err) {
    const struct tensor_entry *t = catalogue_tensor(v->catalogue, index);
    const struct dtype_info *info = dtype_info(t->dtype);
    const char *path = file_set_path(v->files, t->file);
    bool differs;
    TRY(compare(sums, "tensors", t->name, v->hashes[index], &differs, err));
    if (differs) {
        (void)fprintf(v->out, "damaged: tensor %.*s, %s, bytes %" PRIu64 " to %" PRIu64 ": its checksum is not %s\n",
                      TEXT_ARGUMENTS(t->name), path, t->offset_bytes, t->offset_bytes + t->size_bytes, whose(sums));
        v->findings++;
    }
    if (v->bad[index] != FINITE) {
        (void)fprintf(v->out, "no number: tensor %.*s, %s, offset %" PRIu64 ": %s element %" PRIu64 "%s is infinite or no number\n",
                      TEXT_ARGUMENTS(t->name), path, t->offset_bytes + v->bad[index] / info->block_elements * info->block_bytes, info->name,
                      v->bad[index], info->block_elements > 1 ? " (or the scale of its block)" : "");
        v->findings++;
    }
    return STATUS_OK;
}

static enum status compare_file(struct verify *v, uint32_t file, struct sums *sums, struct error *err) {
    const struct verified_file *each = &v->each[file];
    const char *path = file_set_path(v->files, file);
    bool differs;
    TRY(compare(sums, "rest", text_of(checksums_file_name(path)), each->rest_hash, &differs, err));
    if (differs) {
        (void)fprintf(v->out, "damaged: %s: what is outside of its tensors (bytes 0 to %" PRIu64 " and gaps): its checksum is not %s\n",
                      path, each->count ? v->order[each->first]->offset_bytes : file_set_size_bytes(v->files, file), whose(sums));
        v->findings++;
    }
    if (each->known.kind != KNOWN_NONE && strcmp(each->known.hex, each->digest) != 0) {
        (void)fprintf(v->out, "damaged: %s: its %s is %s, the download's is %s: download it again\n", path,
                      each->known.kind == KNOWN_GIT ? "SHA-1" : "SHA-256", each->digest, each->known.hex);
        v->findings++;
    }
    return STATUS_OK;
}

static enum status compare_small(struct verify *v, const char *name, struct sums *sums, uint32_t *of_download, struct error *err) {
    char path[PATH_MAX], digest[65];
    uint64_t hash;
    bool differs;
    TRY(file_join(catalogue_directory(v->catalogue), name, path, sizeof path, err));
    if (file_is_directory(path))
        return STATUS_OK;
    struct known_file known = verify_known(path);
    TRY(verify_small_file(path, known.kind, digest, &hash, err));
    TRY(compare(sums, "files", text_of(name), hash, &differs, err));
    *of_download += known.kind != KNOWN_NONE;
    if (differs) {
        (void)fprintf(v->out, "damaged: %s: its checksum is not %s\n", path, whose(sums));
        v->findings++;
    }
    if (known.kind != KNOWN_NONE && strcmp(known.hex, digest) != 0) {
        (void)fprintf(v->out, "damaged: %s: its %s is %s, the download's is %s: it was changed, or download it again\n", path,
                      known.kind == KNOWN_GIT ? "git hash" : "SHA-256", digest, known.hex);
        v->findings++;
    }
    return STATUS_OK;
}

static enum status compare_folder(struct verify *v, struct sums *sums, uint32_t *of_download, struct error *err) {
    struct directory_list list;
    TRY(directory_list_init(&list, catalogue_directory(v->catalogue), err));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++)
        if (!pack_is_of_weights(list.names[i]))
            status = compare_small(v, list.names[i], sums, of_download, err);
    directory_list_deinit(&list);
    return status;
}

/* Tensors that the known sums have and the model has not. */
static void find_lost(struct verify *v, const struct sums *sums) {
    static const char *const groups[] = {"tensors", "files"};
    const char *name;
    json_t *value;
    for (size_t g = 0; sums->known && g < 2; g++)
        json_object_foreach(json_object_get(sums->known, groups[g]), name, value) {
            if (json_object_get(json_object_get(sums->made, groups[g]), name))
                continue;
            (void)fprintf(v->out, "missing: %s %s, which was there when the checksums were made\n", g ? "file" : "tensor", name);
            v->findings++;
        }
}

static enum status compare_all(struct verify *v, struct sums *sums, uint32_t *of_download, struct error *err) {
    for (uint64_t i = 0; i < catalogue_tensor_count(v->catalogue); i++)
        TRY(compare_tensor(v, i, sums, err));
    for (uint32_t f = 0; f < file_set_count(v->files); f++) {
        TRY(compare_file(v, f, sums, err));
        *of_download += v->each[f].known.kind != KNOWN_NONE;
    }
    if (is_directory_model(v) && file_is_directory(v->options->path))
        TRY(compare_folder(v, sums, of_download, err));
    find_lost(v, sums);
    return STATUS_OK;
}

/* ---- telling ---- */

/* What the index says of the size, which some publishers get wrong. */
static void note_total_size(const struct verify *v) {
    char path[PATH_MAX];
    json_t *index;
    if (!is_directory_model(v) ||
        file_join(catalogue_directory(v->catalogue), "model.safetensors.index.json", path, sizeof path, NULL) != STATUS_OK ||
        json_read_file(path, CHECKSUMS_MAX_BYTES, &index, NULL) != STATUS_OK)
        return;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < catalogue_tensor_count(v->catalogue); i++)
        sum += catalogue_tensor(v->catalogue, i)->size_bytes;
    const json_t *total = json_object_get(json_object_get(index, "metadata"), "total_size");
    if (json_is_integer(total) && (uint64_t)json_integer_value(total) != sum)
        (void)fprintf(v->out, "note: %s says %" JSON_INTEGER_FORMAT " bytes in all, the tensors have %" PRIu64 "\n", path,
                      json_integer_value(total), sum);
    json_decref(index);
}

static void tell(struct verify *v, const struct sums *sums, uint32_t of_download) {
    char size[32];
    (void)fprintf(v->out, "%s: %" PRIu64 " tensors in %u files, %s", v->options->path, catalogue_tensor_count(v->catalogue),
                  file_set_count(v->files), text_format_size(v->total_bytes, size, sizeof size));
    if (of_download)
        (void)fprintf(v->out, "; %u files compared with their download", of_download);
    if (sums->known)
        (void)fprintf(v->out, "; compared with the checksums of %s", sums->of_pack ? "the pack" : "the first check");
    else if (sums->path[0] && v->findings == 0)
        (void)fprintf(v->out, "; checksums made for the next time (%s)", sums->path);
    (void)fprintf(v->out, "%s\n", v->findings ? "" : ": good");
}

static enum status verify_opened(struct verify *v, struct sums *sums, struct error *err) {
    uint32_t of_download = 0;
    TRY(prepare(v, err));
    TRY(find_sums(v, sums, err));
    if (!(sums->made = checksums_create()))
        return error_set(err, STATUS_NO_MEMORY, "no memory for checksums");
    TRY(read_everything(v, err));
    TRY(compare_all(v, sums, &of_download, err));
    note_total_size(v);
    if (!sums->known && sums->path[0] && v->findings == 0)
        TRY(checksums_write(sums->made, sums->path, err));
    tell(v, sums, of_download);
    if (v->findings == 0)
        return STATUS_OK;
    const char *advice = "";
    if (sums->known && !sums->of_pack)
        advice = "; if the files were changed on purpose, remove ";
    return error_set(err, STATUS_CORRUPT, "%s: %" PRIu64 " finding%s, see above%s%s", v->options->path, v->findings,
                     v->findings > 1 ? "s" : "", advice, advice[0] ? sums->path : "");
}

enum status verify_model(const struct verify_options *options, FILE *out, struct error *err) {
    struct verify v = {.options = options, .out = out};
    struct sums sums = {.known = NULL};
    CHECK(options->path && out);
    TRY(file_set_create(&v.files, err));
    enum status status = catalogue_open(options->path, v.files, &v.catalogue, err);
    if (status == STATUS_OK)
        status = verify_opened(&v, &sums, err);
    json_decref(sums.known);
    json_decref(sums.made);
    memory_free(v.order);
    memory_free(v.hashes);
    memory_free(v.bad);
    memory_free(v.each);
    catalogue_close(v.catalogue);
    if (!atomic_load(&v.reads_left))
        file_set_destroy(v.files);
    return status;
}
