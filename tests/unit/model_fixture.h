/*
 * model_fixture: a folder for model files of a test, builders of GGUF and safetensors files, and opening them.
 *
 * Builders never check what they are told to write: most files here are wrong on purpose.
 */
#pragma once

#include "test_support.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "format/catalogue.h"

/* ---- files ---- */

struct model_folder {
    char path[64];
};

static inline void model_folder_create(struct model_folder *folder) {
    (void)snprintf(folder->path, sizeof folder->path, "/tmp/sluice-test-XXXXXX");
    CHECK(mkdtemp(folder->path));
}

static inline void model_folder_empty(const struct model_folder *folder) {
    DIR *stream = opendir(folder->path);
    CHECK(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
}

static inline void model_folder_destroy(const struct model_folder *folder) {
    model_folder_empty(folder);
    CHECK(rmdir(folder->path) == 0);
}

/* Path of a name in the folder; four can be in use. */
static inline const char *model_path(const struct model_folder *folder, const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    CHECK(snprintf(path, sizeof paths[0], "%s/%s", folder->path, name) < (int)sizeof paths[0]);
    return path;
}

/* No sync, unlike file_write: tests write thousands. */
static inline void model_write(const char *path, const void *data, size_t size_bytes) {
    FILE *file = fopen(path, "wb");
    CHECK(file && (size_bytes == 0 || fwrite(data, 1, size_bytes, file) == size_bytes));
    CHECK(fclose(file) == 0);
}

static inline void model_write_text(const char *path, const char *text) {
    model_write(path, text, strlen(text));
}

/* File of the test data, as SLUICE_TEST_DATA says. */
static inline const char *data_path(const char *name) {
    static char paths[2][4096];
    static unsigned next;
    char *path = paths[next++ % 2];
    const char *folder = getenv("SLUICE_TEST_DATA");
    CHECK(snprintf(path, sizeof paths[0], "%s/%s", folder ? folder : "tests/data", name) < (int)sizeof paths[0]);
    return path;
}

/* ---- GGUF ---- */

struct gguf_file { /* entries and tensors in the order they are put */
    uint32_t version;
    uint64_t entry_count, tensor_count;
    struct byte_buffer entries, tensors;
    uint64_t data_bytes; /* zeros behind the padding */
    uint64_t alignment;  /* of the padding */
};

static inline void gguf_init(struct gguf_file *g) {
    *g = (struct gguf_file){.version = 3, .alignment = 32};
    byte_buffer_init(&g->entries, (size_t)1 << 28);
    byte_buffer_init(&g->tensors, (size_t)1 << 28);
}

static inline void gguf_deinit(struct gguf_file *g) {
    byte_buffer_deinit(&g->entries);
    byte_buffer_deinit(&g->tensors);
}

static inline void put(struct byte_buffer *b, const void *data, size_t size_bytes) {
    CHECK(byte_buffer_append(b, data, size_bytes, NULL) == STATUS_OK);
}
static inline void put_u32(struct byte_buffer *b, uint32_t v) {
    put(b, &v, sizeof v);
}
static inline void put_u64(struct byte_buffer *b, uint64_t v) {
    put(b, &v, sizeof v);
}
static inline void put_text(struct byte_buffer *b, const char *text) {
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}

/* Key and type of an entry; the value follows with put. */
static inline void gguf_key(struct gguf_file *g, const char *key, uint32_t type) {
    g->entry_count++;
    put_text(&g->entries, key);
    put_u32(&g->entries, type);
}
static inline void gguf_u32(struct gguf_file *g, const char *key, uint32_t value) {
    gguf_key(g, key, 4);
    put_u32(&g->entries, value);
}
static inline void gguf_text(struct gguf_file *g, const char *key, const char *value) {
    gguf_key(g, key, 8);
    put_text(&g->entries, value);
}

/* Dimensions fastest first, as in the file. */
static inline void gguf_tensor(struct gguf_file *g, const char *name, uint32_t rank, const uint64_t *dimensions, uint32_t type,
                               uint64_t offset) {
    g->tensor_count++;
    put_text(&g->tensors, name);
    put_u32(&g->tensors, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(&g->tensors, dimensions[i]);
    put_u32(&g->tensors, type);
    put_u64(&g->tensors, offset);
}

/* Bytes of the whole file, in `out`. */
static inline void gguf_build(const struct gguf_file *g, struct byte_buffer *out) {
    byte_buffer_init(out, (size_t)1 << 29);
    put(out, "GGUF", 4);
    put_u32(out, g->version);
    put_u64(out, g->tensor_count);
    put_u64(out, g->entry_count);
    put(out, g->entries.data, g->entries.size_bytes);
    put(out, g->tensors.data, g->tensors.size_bytes);
    while (out->size_bytes % g->alignment)
        put(out, "", 1);
    for (uint64_t i = 0; i < g->data_bytes; i++)
        put(out, "", 1);
}

static inline void gguf_write(const struct gguf_file *g, const char *path) {
    struct byte_buffer bytes;
    gguf_build(g, &bytes);
    model_write(path, bytes.data, bytes.size_bytes);
    byte_buffer_deinit(&bytes);
}

/* A small good model: three entries, two tensors, "a" f32 [4] and "b" f16 [2][8]. */
static inline void gguf_init_small(struct gguf_file *g) {
    gguf_init(g);
    gguf_text(g, "general.architecture", "llama");
    gguf_u32(g, "llama.block_count", 2);
    gguf_key(g, "tokens", 9);
    put_u32(&g->entries, 8);
    put_u64(&g->entries, 3);
    put_text(&g->entries, "one");
    put_text(&g->entries, "");
    put_text(&g->entries, "three");
    gguf_tensor(g, "a", 1, (const uint64_t[]){4}, 0, 0);
    gguf_tensor(g, "b", 2, (const uint64_t[]){8, 2}, 1, 32);
    g->data_bytes = 64;
}

/* ---- safetensors ---- */

/* Length, header, `data_bytes` zeros. */
static inline void safetensors_build(struct byte_buffer *out, const char *header, uint64_t data_bytes) {
    byte_buffer_init(out, (size_t)1 << 29);
    put_u64(out, strlen(header));
    put(out, header, strlen(header));
    for (uint64_t i = 0; i < data_bytes; i++)
        put(out, "", 1);
}

static inline void safetensors_write(const char *path, const char *header, uint64_t data_bytes) {
    struct byte_buffer bytes;
    safetensors_build(&bytes, header, data_bytes);
    model_write(path, bytes.data, bytes.size_bytes);
    byte_buffer_deinit(&bytes);
}

/* ---- opening ---- */

struct opened {
    struct file_set *files;
    struct catalogue *catalogue;
    struct error error;
};

static inline enum status model_open(struct opened *o, const char *path) {
    *o = (struct opened){0};
    CHECK(file_set_create(&o->files, &o->error) == STATUS_OK);
    enum status status = catalogue_open(path, o->files, &o->catalogue, &o->error);
    CHECK((status == STATUS_OK) == (o->catalogue != NULL));
    return status;
}

static inline void model_close(struct opened *o) {
    catalogue_close(o->catalogue);
    file_set_destroy(o->files);
    *o = (struct opened){0};
}

/* Opening must fail with the status, and the text must hold every one of the `parts` (separated by '|'). */
static inline void assert_open_fails(const char *path, enum status wanted, const char *parts) {
    struct opened o;
    uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
    enum status status = model_open(&o, path);
    struct text rest = text_of(parts);
    if (status != wanted)
        fail_msg("%s: %s (%s), wanted %s", path, status_name(status), o.error.text, status_name(wanted));
    while (rest.size_bytes > 0) {
        const char *bar = memchr(rest.data, '|', rest.size_bytes);
        size_t part_bytes = bar ? (size_t)(bar - rest.data) : rest.size_bytes;
        if (!memmem(o.error.text, strlen(o.error.text), rest.data, part_bytes))
            fail_msg("%s: \"%.*s\" is not in: %s", path, (int)part_bytes, rest.data, o.error.text);
        size_t used = part_bytes + (bar ? 1 : 0);
        rest = (struct text){rest.data + used, rest.size_bytes - used};
    }
    model_close(&o);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
}

/* Builds, writes, opens; takes the builder. */
static inline void assert_gguf_fails(struct gguf_file *g, const char *path, enum status wanted, const char *parts) {
    gguf_write(g, path);
    gguf_deinit(g);
    assert_open_fails(path, wanted, parts);
}

static inline void assert_gguf_opens(struct gguf_file *g, const char *path, struct opened *o) {
    gguf_write(g, path);
    gguf_deinit(g);
    ASSERT_OK(model_open(o, path), o->error);
}

/*
 * Private writable memory of the process may grow by this much from now on; returns the old limit for allow_growth. Address sanitizers
 * map terabytes and keep what was freed: with them nothing is limited.
 */
static inline struct rlimit limit_growth(uint64_t bytes) {
    struct rlimit old, limit;
    char line[256];
    unsigned long long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status);
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmData:", 7) == 0)
            kib = strtoull(line + 7, NULL, 10);
    CHECK(fclose(status) == 0 && kib > 0 && getrlimit(RLIMIT_DATA, &old) == 0);
    limit = (struct rlimit){kib >> 30 ? old.rlim_cur : kib * 1024 + bytes, old.rlim_max};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
    return old;
}
static inline void allow_growth(struct rlimit old) {
    CHECK(setrlimit(RLIMIT_DATA, &old) == 0);
}
