/*
 * machine: /proc/meminfo, control groups, resource limits.
 */
#include "engine/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#define ASSUMED_BYTES (2ull << 30) /* where nothing can be read: small enough for every machine that would run this */
#define TEXT_LIMIT (1u << 16)

static bool read_u64_file(const char *path, uint64_t *value) {
    struct text text;
    if (file_read(path, 64, &text, NULL) != STATUS_OK)
        return false;
    struct text number = text;
    while (number.size_bytes && (number.data[number.size_bytes - 1] == '\n' || number.data[number.size_bytes - 1] == ' '))
        number.size_bytes--;
    bool ok = text_parse_u64(number, value); /* "max" is no number: no limit */
    memory_free((void *)text.data);
    return ok;
}

/* The number after a word that begins a line: "MemFree:   123 kB", "inactive_file 123". */
static bool number_of(const char *text, const char *key, uint64_t *value) {
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) != 0 || !line[length] || !strchr(": \t", line[length]))
            continue;
        const char *digits = line + length + strspn(line + length, ": \t");
        return text_parse_u64((struct text){digits, strspn(digits, "0123456789")}, value);
    }
    return false;
}

static bool meminfo_bytes(const char *meminfo, const char *key, uint64_t *bytes) {
    uint64_t kib;
    if (!number_of(meminfo, key, &kib) || kib > UINT64_MAX >> 10)
        return false;
    *bytes = kib << 10;
    return true;
}

/* Pages of files that a group holds: the kernel takes them back before anything else, so they are not in use. */
static uint64_t reclaimable_bytes(const char *stat_path) {
    static const char *const keys[2][2] = {{"inactive_file", "active_file"}, {"total_inactive_file", "total_active_file"}}; /* v2, v1 */
    struct text text;
    uint64_t sum = 0;
    if (file_read(stat_path, TEXT_LIMIT, &text, NULL) != STATUS_OK)
        return 0;
    uint64_t ignored;
    int version_1 = number_of(text.data, keys[1][0], &ignored);
    for (int i = 0; i < 2; i++) {
        uint64_t bytes;
        if (number_of(text.data, keys[version_1][i], &bytes) && bytes <= UINT64_MAX - sum)
            sum += bytes;
    }
    memory_free((void *)(uintptr_t)text.data);
    return sum;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds. */
static uint64_t waited_us(const char *pressure_path) {
    struct text text;
    uint64_t total = 0;
    if (file_read(pressure_path, TEXT_LIMIT, &text, NULL) != STATUS_OK)
        return 0;
    const char *at = strstr(text.data, "total=");
    if (at && !text_parse_u64((struct text){at + 6, strspn(at + 6, "0123456789")}, &total))
        total = 0;
    memory_free((void *)(uintptr_t)text.data);
    return total;
}

static void tighten(struct machine_memory *memory, const char *file, uint64_t limit, uint64_t used) {
    if (limit < memory->group_limit_bytes && limit < memory->total_bytes) { /* v1 writes a huge number for "none" */
        memory->group_limit_bytes = limit;
        (void)snprintf(memory->group_file, sizeof memory->group_file, "%.*s", (int)sizeof memory->group_file - 1, file);
    }
    if (limit < memory->total_bytes)
        memory->total_bytes = limit;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < memory->available_bytes)
        memory->available_bytes = left;
}

/* Limits of a group and of all groups above it. */
static void walk_group(struct machine_memory *memory, const char *root, const char *group, const char *limit_name, const char *used_name) {
    char path[1024], file[1200], other[1200];
    if (snprintf(path, sizeof path, "%s%s", root, group) >= (int)sizeof path)
        return;
    for (;;) {
        uint64_t limit, used = 0;
        (void)snprintf(file, sizeof file, "%s/%s", path, limit_name);
        if (read_u64_file(file, &limit)) {
            (void)snprintf(other, sizeof other, "%s/%s", path, used_name);
            (void)read_u64_file(other, &used);
            (void)snprintf(other, sizeof other, "%s/memory.stat", path);
            uint64_t cached = reclaimable_bytes(other);
            (void)snprintf(other, sizeof other, "%s/memory.pressure", path); /* v1 has none, or one of another kind */
            memory->waited_us += waited_us(other);
            tighten(memory, file, limit, used > cached ? used - cached : 0);
        }
        char *slash = strrchr(path, '/');
        if (!slash || strlen(path) <= strlen(root))
            return;
        *slash = 0;
    }
}

static void read_groups(struct machine_memory *memory, const char *root) {
    struct text text;
    char path[512], v2[512], v1[512];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return;
    (void)snprintf(v2, sizeof v2, "%s/sys/fs/cgroup", root);
    (void)snprintf(v1, sizeof v1, "%s/sys/fs/cgroup/memory", root);
    if (file_read(path, TEXT_LIMIT, &text, NULL) != STATUS_OK)
        return;
    for (const char *line = text.data; line && *line;) { /* "0::/path" (v2) or "5:memory:/path" (v1) */
        const char *end = strchr(line, '\n'), *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        size_t length = end ? (size_t)(end - line) : strlen(line);
        char group[512];
        if (second && second < line + length && (size_t)(line + length - second - 1) < sizeof group) {
            (void)snprintf(group, sizeof group, "%.*s", (int)(line + length - second - 1), second + 1);
            if (strcmp(group, "/") == 0)
                group[0] = 0;
            if (first + 1 == second)
                walk_group(memory, v2, group, "memory.max", "memory.current");
            else if (second - first - 1 == 6 && memcmp(first + 1, "memory", 6) == 0)
                walk_group(memory, v1, group, "memory.limit_in_bytes", "memory.usage_in_bytes");
        }
        line = end ? end + 1 : NULL;
    }
    memory_free((void *)text.data);
}

struct machine_memory machine_memory_read(void) {
    return machine_memory_read_below("");
}

struct machine_memory machine_memory_read_below(const char *root) {
    struct machine_memory memory = {.total_bytes = ASSUMED_BYTES,
                                    .available_bytes = ASSUMED_BYTES / 2,
                                    .lock_limit_bytes = UINT64_MAX,
                                    .group_limit_bytes = UINT64_MAX};
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        memory.lock_limit_bytes = limit.rlim_cur;
    struct text text;
    char path[512];
    if (snprintf(path, sizeof path, "%s/proc/meminfo", root) < (int)sizeof path && file_read(path, TEXT_LIMIT, &text, NULL) == STATUS_OK) {
        uint64_t total, available;
        if (meminfo_bytes(text.data, "MemTotal", &total) && total > 0) {
            memory.total_bytes = total;
            memory.known = meminfo_bytes(text.data, "MemAvailable", &available) && available <= total;
            if (memory.known)
                memory.available_bytes = available;
            else if (memory.available_bytes > total / 2)
                memory.available_bytes = total / 2;
        }
        (void)meminfo_bytes(text.data, "SwapTotal", &memory.swap_total_bytes);
        (void)meminfo_bytes(text.data, "SwapFree", &memory.swap_free_bytes);
        memory_free((void *)(uintptr_t)text.data);
    }
    if (snprintf(path, sizeof path, "%s/proc/pressure/memory", root) < (int)sizeof path)
        memory.waited_us = waited_us(path);
    read_groups(&memory, root);
    return memory;
}
