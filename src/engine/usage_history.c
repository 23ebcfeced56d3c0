/*
 * usage_history: see usage_history.h.
 *
 * The file: magic, version, identity, count, the counts, and a SHA-256 of all that; numbers are little-endian.
 */
#include "engine/usage_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_reader.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/sha256.h"

#define MAGIC "SLUICEUH"
#define VERSION 1
#define IDENTITY_BYTES 32
#define HEAD_BYTES (8 + 4 + IDENTITY_BYTES + 4)
#define EXPERTS_MAX (1u << 20) /* far above any model */

static uint64_t file_bytes(uint32_t count) { return HEAD_BYTES + (uint64_t)count * 4 + 32; }

bool usage_history_path(const uint8_t identity[32], char *path, uint64_t path_bytes) {
    char hex[65], name[80];
    sha256_hex(identity, hex);
    (void)snprintf(name, sizeof name, "usage-%.32s", hex);
    return options_cache_path(name, path, (size_t)path_bytes);
}

static void checksum(const void *data, uint64_t size_bytes, uint8_t digest[32]) {
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, data, (size_t)size_bytes);
    sha256_finish(&hash, digest);
}

static bool take(struct text text, const uint8_t identity[32], uint32_t *counts, uint32_t count) {
    struct byte_reader reader = {.data = (const uint8_t *)text.data, .size_bytes = text.size_bytes};
    struct text magic, whose, sum;
    uint32_t version, held;
    uint8_t digest[32];
    if (text.size_bytes != file_bytes(count))
        return false;
    checksum(text.data, text.size_bytes - sizeof digest, digest);
    if (!byte_reader_bytes(&reader, 8, &magic) || memcmp(magic.data, MAGIC, 8) != 0 || !byte_reader_u32(&reader, &version) ||
        version != VERSION || !byte_reader_bytes(&reader, IDENTITY_BYTES, &whose) || memcmp(whose.data, identity, IDENTITY_BYTES) != 0 ||
        !byte_reader_u32(&reader, &held) || held != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!byte_reader_u32(&reader, &counts[i]))
            return false;
    return byte_reader_bytes(&reader, sizeof digest, &sum) && memcmp(sum.data, digest, sizeof digest) == 0;
}

bool usage_history_read(const char *path, const uint8_t identity[32], uint32_t *counts, uint32_t count) {
    struct text text;
    memset(counts, 0, count * sizeof *counts);
    if (count > EXPERTS_MAX || !file_exists(path))
        return false;
    bool good = file_read(path, (size_t)file_bytes(count), &text, NULL) == STATUS_OK;
    if (good) {
        good = take(text, identity, counts, count);
        memory_free((char *)(uintptr_t)text.data);
    }
    if (good)
        return true;
    log_line(LOG_DEBUG, "%s: no whole history of this model; it is ignored", path);
    memset(counts, 0, count * sizeof *counts);
    return false;
}

static void put_u32(uint8_t *to, uint32_t number) {
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (8 * i));
}

static uint32_t added(uint32_t kept, uint32_t run) { return run > UINT32_MAX - kept / 2 ? UINT32_MAX : kept / 2 + run; }

/* The name of a process of its own, so that two that end together do not write into one file. */
static void write_file(const char *path, const uint8_t *bytes, uint64_t size_bytes) {
    char own[4200];
    struct error err;
    if (snprintf(own, sizeof own, "%s.%ld", path, (long)getpid()) >= (int)sizeof own)
        return;
    enum status status = file_write(own, bytes, (size_t)size_bytes, &err);
    if (status == STATUS_OK && rename(own, path) == 0)
        return;
    (void)remove(own);
    log_line(LOG_DEBUG, "no history is kept: %s", status == STATUS_OK ? path : err.text);
}

void usage_history_add(const char *path, const uint8_t identity[32], const uint32_t *counts, uint32_t count) {
    uint64_t sum = 0, size_bytes = file_bytes(count);
    for (uint32_t i = 0; i < count; i++)
        sum += counts[i];
    if (sum == 0 || count > EXPERTS_MAX)
        return;
    uint32_t *kept = memory_alloc_array(count, sizeof *kept);
    uint8_t *bytes = memory_alloc((size_t)size_bytes);
    if (kept && bytes) {
        (void)usage_history_read(path, identity, kept, count);
        memcpy(bytes, MAGIC, 8);
        put_u32(bytes + 8, VERSION);
        memcpy(bytes + 12, identity, IDENTITY_BYTES);
        put_u32(bytes + 12 + IDENTITY_BYTES, count);
        for (uint32_t i = 0; i < count; i++)
            put_u32(bytes + HEAD_BYTES + (size_t)i * 4, added(kept[i], counts[i]));
        checksum(bytes, size_bytes - 32, bytes + size_bytes - 32);
        write_file(path, bytes, size_bytes);
    }
    memory_free(kept);
    memory_free(bytes);
}
