/*
 * machine_speed: the cache of measurements.
 */
#include "engine/machine_speed.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>

#include "base/cpu_info.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "engine/machine.h"

#define KEPT_SECONDS ((json_int_t)30 * 24 * 3600)
#define FILE_BYTES_MAX (64u << 10)
#define MEMORY_BYTES_MAX (256ull << 20)
#define IDENTITY_BYTES 512

/* The first line of a file of the block device in /sys, or nothing. */
static void append_sys(char *identity, unsigned major_number, unsigned minor_number, const char *name) {
    char path[128];
    struct text text;
    (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s", major_number, minor_number, name);
    if (file_read(path, 256, &text, NULL) != STATUS_OK)
        return;
    size_t used = strlen(identity), length = 0;
    while (length < text.size_bytes && text.data[length] >= ' ' && text.data[length] < 127)
        length++;
    (void)snprintf(identity + used, IDENTITY_BYTES - used, " %.*s", (int)length, text.data);
    memory_free((char *)(uintptr_t)text.data);
}

static bool identify(const struct file_set *files, uint32_t file, unsigned threads, char *identity, char *path, size_t path_bytes) {
    static const char *const names[] = {"size", "device/model", "device/serial", "../device/model", "../device/serial"};
    struct stat info;
    struct statfs system;
    char name[64];
    int fd = file_set_buffered_fd(files, file);
    if (fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0)
        return false;
    unsigned major_number = major(info.st_dev), minor_number = minor(info.st_dev);
    uint64_t id = 0;
    memcpy(&id, &system.f_fsid, sizeof system.f_fsid < sizeof id ? sizeof system.f_fsid : sizeof id);
    (void)snprintf(identity, IDENTITY_BYTES, "%s, %u threads, file system %lx %llx", cpu_model_name(), threads,
                   (unsigned long)system.f_type, (unsigned long long)id);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        append_sys(identity, major_number, minor_number, names[i]);
    (void)snprintf(name, sizeof name, "probe-%u-%u.json", major_number, minor_number);
    return options_cache_path(name, path, path_bytes);
}

static bool take_real(const json_t *root, const char *key, double *out) {
    const json_t *value = json_object_get(root, key);
    *out = json_number_value(value);
    return json_is_number(value) && *out > 0 && *out < 1e15;
}

static bool take_integer(const json_t *root, const char *key, unsigned *out) {
    const json_t *value = json_object_get(root, key);
    json_int_t number = json_integer_value(value);
    *out = (unsigned)number;
    return json_is_integer(value) && number > 0 && number <= 1 << 30;
}

static bool take_point(const json_t *item, struct io_probe_point *point) {
    return take_integer(item, "size_bytes", &point->size_bytes) && take_integer(item, "depth", &point->depth) &&
           take_real(item, "bytes_per_s", &point->bytes_per_s);
}

static bool take(const json_t *root, const char *identity, struct io_probe_result *probe) {
    const char *is = json_string_value(json_object_get(root, "identity"));
    json_int_t age = (json_int_t)time(NULL) - json_integer_value(json_object_get(root, "measured"));
    const json_t *points = json_object_get(root, "points");
    if (!is || strcmp(is, identity) != 0 || age < 0 || age > KEPT_SECONDS || json_array_size(points) > IO_PROBE_POINTS ||
        !take_real(root, "disk_bytes_per_s", &probe->disk_bytes_per_s) ||
        !take_real(root, "memory_bytes_per_s", &probe->memory_bytes_per_s) || !take_integer(root, "best_depth", &probe->best_depth) ||
        !take_integer(root, "best_size", &probe->best_size))
        return false;
    for (probe->point_count = 0; probe->point_count < json_array_size(points); probe->point_count++)
        if (!take_point(json_array_get(points, probe->point_count), &probe->points[probe->point_count]))
            return false;
    return true;
}

static bool read_kept(const char *path, const char *identity, struct io_probe_result *probe) {
    json_t *root;
    if (json_read_file(path, FILE_BYTES_MAX, &root, NULL) != STATUS_OK)
        return false;
    bool good = take(root, identity, probe);
    json_decref(root);
    if (!good)
        *probe = (struct io_probe_result){0};
    return good;
}

static void keep(const char *path, const char *identity, const struct io_probe_result *probe) {
    struct error err;
    json_t *points = json_array();
    for (unsigned i = 0; i < probe->point_count; i++)
        (void)json_array_append_new(points, json_pack("{s:i,s:i,s:f}", "size_bytes", (int)probe->points[i].size_bytes, "depth",
                                                      (int)probe->points[i].depth, "bytes_per_s", probe->points[i].bytes_per_s));
    json_t *root = json_pack("{s:s,s:I,s:f,s:f,s:i,s:i,s:o}", "identity", identity, "measured", (json_int_t)time(NULL), "disk_bytes_per_s",
                             probe->disk_bytes_per_s, "memory_bytes_per_s", probe->memory_bytes_per_s, "best_depth", (int)probe->best_depth,
                             "best_size", (int)probe->best_size, "points", points);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    if (text && file_write(path, text, strlen(text), &err) != STATUS_OK)
        (void)remove(path); /* a full disk or a folder that is not ours: it is measured again next time */
    memory_free(text);
    json_decref(root);
}

static enum status measure(struct file_set *files, uint32_t file, unsigned threads, struct io_probe_result *probe, struct error *err) {
    struct thread_pool *pool;
    uint64_t limit = machine_memory_read().available_bytes / 4;
    limit = limit < MEMORY_BYTES_MAX ? limit : MEMORY_BYTES_MAX;
    TRY(thread_pool_create(threads, &pool, err));
    enum status status = io_probe_memory(pool, limit, probe, err);
    thread_pool_destroy(pool);
    TRY(status);
    return io_probe_disk(files, file, limit, probe, err);
}

bool machine_speed_kept(const struct file_set *files, uint32_t file, unsigned threads, struct machine_speed *out) {
    char identity[IDENTITY_BYTES], path[4096];
    *out = (struct machine_speed){0};
    out->kept = identify(files, file, threads, identity, path, sizeof path) && read_kept(path, identity, &out->probe);
    return out->kept;
}

uint32_t machine_speed_file(const struct file_set *files) {
    uint32_t file = 0;
    for (uint32_t f = 1; f < file_set_count(files); f++)
        file = file_set_size_bytes(files, f) > file_set_size_bytes(files, file) ? f : file;
    return file;
}

enum status machine_speed_read(struct file_set *files, uint32_t file, unsigned threads, struct machine_speed *out, struct error *err) {
    char identity[IDENTITY_BYTES], path[4096];
    if (machine_speed_kept(files, file, threads, out))
        return STATUS_OK;
    TRY(measure(files, file, threads, &out->probe, err));
    if (identify(files, file, threads, identity, path, sizeof path))
        keep(path, identity, &out->probe);
    return STATUS_OK;
}
