/*
 * io_fixture: a folder for files of a test, and files whose every byte is known from its place.
 *
 * Files lie in /var/tmp, which is a disk where /tmp is memory, so that direct reads are really made; or in /dev/shm when a test asks.
 */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "io/read_queue.h"

struct io_folder {
    char path[64];
};

static inline bool io_folder_create(struct io_folder *folder, const char *parent) {
    (void)snprintf(folder->path, sizeof folder->path, "%s/sluice-test-XXXXXX", parent);
    return mkdtemp(folder->path) != NULL;
}

static inline void io_folder_destroy(struct io_folder *folder) { (void)rmdir(folder->path); }

static inline uint64_t io_random(uint64_t *state) {
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* The eight bytes at places 8 * index to 8 * index + 7 of every generated file. */
static inline uint64_t io_word(uint64_t index) { return io_random(&index); }

/* Whether `data` is what generated files hold at offset. */
static inline bool io_bytes_match(const uint8_t *data, uint64_t offset_bytes, uint64_t size_bytes) {
    uint64_t word = io_word(offset_bytes / 8);
    for (uint64_t i = 0; i < size_bytes; i++) {
        uint64_t place = offset_bytes + i;
        if (place % 8 == 0)
            word = io_word(place / 8);
        if (data[i] != (uint8_t)(word >> (place % 8 * 8)))
            return false;
    }
    return true;
}

/* Writes a generated file and its path. */
static inline bool io_file_create(const struct io_folder *folder, const char *name, uint64_t size_bytes, char *path, size_t path_bytes) {
    (void)snprintf(path, path_bytes, "%s/%s", folder->path, name);
    uint8_t *data = memory_alloc((size_t)size_bytes);
    FILE *file = fopen(path, "wb");
    bool ok = data && file;
    for (uint64_t i = 0; ok && i < size_bytes; i++)
        data[i] = (uint8_t)(io_word(i / 8) >> (i % 8 * 8));
    ok = ok && fwrite(data, 1, (size_t)size_bytes, file) == size_bytes;
    if (file)
        ok = fclose(file) == 0 && ok;
    memory_free(data);
    return ok;
}

/* A folder with one generated file in it, opened in a set of its own. False: nothing can be tested here. */
static inline bool io_files_open(struct io_folder *folder, uint64_t size_bytes, char *path, size_t path_bytes, struct file_set **files,
                                 uint32_t *file) {
    struct error err;
    return io_folder_create(folder, "/var/tmp") && io_file_create(folder, "model.bin", size_bytes, path, path_bytes) &&
           file_set_create(files, &err) == STATUS_OK && file_set_add(*files, path, file, &err) == STATUS_OK;
}

static inline void io_files_close(struct io_folder *folder, const char *path, struct file_set *files) {
    file_set_destroy(files);
    (void)unlink(path);
    io_folder_destroy(folder);
}

/* A request with memory of its own for its window, aligned to a page and no more. */
static inline struct read_request *io_request_create(const struct file_set *files, uint32_t file, uint64_t offset_bytes,
                                                     uint64_t size_bytes) {
    struct read_window window = read_queue_window(files, file, offset_bytes, size_bytes);
    struct read_request *request = memory_alloc(sizeof *request);
    void *dst = NULL;
    if (!request || posix_memalign(&dst, 4096, (size_t)window.window_bytes + 1) != 0) {
        memory_free(request);
        return NULL;
    }
    *request = (struct read_request){
        .file = file, .offset_bytes = offset_bytes, .size_bytes = size_bytes, .dst = dst, .dst_size_bytes = (size_t)window.window_bytes};
    return request;
}

static inline void io_request_destroy(struct read_request *request) {
    if (request)
        free(request->dst);
    memory_free(request);
}
