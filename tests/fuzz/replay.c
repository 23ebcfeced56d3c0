/*
 * replay: runs a fuzzer's corpus without libFuzzer, so that every compiler tests it. Each file of the folder is fed as it is,
 * cut at up to 64 places, and with up to 256 single bytes changed; places and bytes come from a fixed generator.
 */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

#define FILE_BYTES_MAX (1u << 20)
#define CUTS 64
#define FLIPS 256

static uint64_t next_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* A copy of exact size, so that a sanitizer sees each byte too many. */
static void feed(const uint8_t *data, size_t size_bytes) {
    uint8_t *copy = memory_alloc(size_bytes);
    CHECK(copy != NULL);
    memcpy(copy, data, size_bytes);
    CHECK(LLVMFuzzerTestOneInput(copy, size_bytes) == 0);
    memory_free(copy);
}

static unsigned replay(const char *path) {
    struct error err;
    struct text text;
    if (file_read(path, FILE_BYTES_MAX, &text, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 0;
    }
    uint8_t *data = (uint8_t *)(uintptr_t)text.data;
    size_t size = text.size_bytes;
    uint64_t random = size;
    unsigned cuts = size < CUTS ? (unsigned)size : CUTS;
    feed(data, size);
    for (unsigned i = 0; i < cuts; i++)
        feed(data, size <= CUTS ? i : next_random(&random) % size);
    for (unsigned i = 0; i < FLIPS && size > 0; i++) {
        uint64_t at = next_random(&random) % size;
        uint8_t old = data[at];
        data[at] = (uint8_t)next_random(&random);
        feed(data, size);
        data[at] = old;
    }
    memory_free(data);
    return 1;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    DIR *folder = opendir(argv[1]);
    unsigned files = 0, wanted = 0;
    if (!folder) {
        fprintf(stderr, "%s: cannot open the corpus\n", argv[1]);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        CHECK(snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name) < (int)sizeof(path));
        wanted++;
        files += replay(path);
    }
    closedir(folder);
    printf("%u of %u corpus files replayed\n", files, wanted);
    return files == 0 || files != wanted;
}
