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

/* "Key:   123 kB" of /proc/meminfo. */
static bool meminfo_bytes(const char *meminfo, const char *key, uint64_t *bytes) {
    const char *line = strstr(meminfo, key);
    if (!line)
        return false;
    const char *digits = line + strlen(key) + strspn(line + strlen(key), ": \t");
    uint64_t kib;
    if (!text_parse_u64((struct text){digits, strspn(digits, "0123456789")}, &kib) || kib > UINT64_MAX >> 10)
        return false;
    *bytes = kib << 10;
    return true;
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
    char path[1024], file[1200], used_file[1200];
    if (snprintf(path, sizeof path, "%s%s", root, group) >= (int)sizeof path)
        return;
    for (;;) {
        uint64_t limit, used = 0;
        (void)snprintf(file, sizeof file, "%s/%s", path, limit_name);
        if (read_u64_file(file, &limit)) {
            (void)snprintf(used_file, sizeof used_file, "%s/%s", path, used_name);
            (void)read_u64_file(used_file, &used);
            tighten(memory, file, limit, used);
        }
        char *slash = strrchr(path, '/');
        if (!slash || strlen(path) <= strlen(root))
            return;
        *slash = 0;
    }
}

static void read_groups(struct machine_memory *memory) {
    struct text text;
    if (file_read("/proc/self/cgroup", TEXT_LIMIT, &text, NULL) != STATUS_OK)
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
                walk_group(memory, "/sys/fs/cgroup", group, "memory.max", "memory.current");
            else if (second - first - 1 == 6 && memcmp(first + 1, "memory", 6) == 0)
                walk_group(memory, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", "memory.usage_in_bytes");
        }
        line = end ? end + 1 : NULL;
    }
    memory_free((void *)text.data);
}

struct machine_memory machine_memory_read(void) {
    struct machine_memory memory = {.total_bytes = ASSUMED_BYTES,
                                    .available_bytes = ASSUMED_BYTES / 2,
                                    .lock_limit_bytes = UINT64_MAX,
                                    .group_limit_bytes = UINT64_MAX};
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        memory.lock_limit_bytes = limit.rlim_cur;
    struct text text;
    if (file_read("/proc/meminfo", TEXT_LIMIT, &text, NULL) != STATUS_OK)
        return memory;
    if (meminfo_bytes(text.data, "MemTotal", &memory.total_bytes)) {
        memory.known = 1;
        if (!meminfo_bytes(text.data, "MemAvailable", &memory.available_bytes))
            memory.available_bytes = memory.total_bytes / 2;
        (void)meminfo_bytes(text.data, "SwapTotal", &memory.swap_total_bytes);
        (void)meminfo_bytes(text.data, "SwapFree", &memory.swap_free_bytes);
        read_groups(&memory);
    }
    memory_free((void *)text.data);
    return memory;
}
