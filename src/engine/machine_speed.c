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
#define IDENTITY_BYTES 4096

struct identity {
    char text[IDENTITY_BYTES]; /* of the machine and all devices */
    char path[4096];           /* where the measurement is kept */
};

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

/* Appends the device below a file to both. */
static bool identify_device(int fd, char *identity, char *name, size_t name_bytes) {
    static const char *const names[] = {"size", "device/model", "device/serial", "../device/model", "../device/serial"};
    struct stat info;
    struct statfs system;
    if (fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0)
        return false;
    unsigned major_number = major(info.st_dev), minor_number = minor(info.st_dev);
    uint64_t id = 0;
    size_t used = strlen(identity), name_used = strlen(name);
    memcpy(&id, &system.f_fsid, sizeof system.f_fsid < sizeof id ? sizeof system.f_fsid : sizeof id);
    (void)snprintf(identity + used, IDENTITY_BYTES - used, ", file system %lx %llx", (unsigned long)system.f_type, (unsigned long long)id);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        append_sys(identity, major_number, minor_number, names[i]);
    (void)snprintf(name + name_used, name_bytes - name_used, "-%u-%u", major_number, minor_number);
    return true;
}

static bool identify(const struct file_set *files, const struct io_sources *sources, unsigned threads, struct identity *out) {
    char name[256] = "probe";
    const size_t ending_bytes = sizeof ".json";
    (void)snprintf(out->text, sizeof out->text, "%s, %u threads, into memory", cpu_model_name(), threads);
    for (unsigned i = 0; i < sources->count; i++)
        if (!identify_device(file_set_buffered_fd(files, sources->files[i]), out->text, name, sizeof name - ending_bytes))
            return false;
    memcpy(name + strlen(name), ".json", ending_bytes);
    return options_cache_path(name, out->path, sizeof out->path);
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

static enum status measure(struct file_set *files, const struct io_sources *sources, unsigned threads, struct io_probe_result *probe,
                           struct error *err) {
    struct thread_pool *pool;
    uint64_t limit = machine_memory_read().available_bytes / 4;
    limit = limit < MEMORY_BYTES_MAX ? limit : MEMORY_BYTES_MAX;
    TRY(thread_pool_create(threads, &pool, err));
    enum status status = io_probe_memory(pool, limit, probe, err);
    thread_pool_destroy(pool);
    TRY(status);
    return io_probe_disk(files, sources, limit, probe, err);
}

bool machine_speed_kept(const struct file_set *files, const struct io_sources *sources, unsigned threads, struct machine_speed *out) {
    struct identity identity;
    *out = (struct machine_speed){0};
    out->kept = identify(files, sources, threads, &identity) && read_kept(identity.path, identity.text, &out->probe);
    return out->kept;
}

enum status machine_speed_read(struct file_set *files, const struct io_sources *sources, unsigned threads, struct machine_speed *out,
                               struct error *err) {
    struct identity identity;
    if (machine_speed_kept(files, sources, threads, out))
        return STATUS_OK;
    TRY(measure(files, sources, threads, &out->probe, err));
    if (identify(files, sources, threads, &identity))
        keep(identity.path, identity.text, &out->probe);
    return STATUS_OK;
}

/* Adds the file, or puts it in the place of a smaller one on the same device. */
static void add_source(const struct file_set *files, struct io_sources *sources, uint32_t file) {
    for (unsigned i = 0; i < sources->count; i++)
        if (file_set_device(files, sources->files[i]) == file_set_device(files, file)) {
            if (file_set_size_bytes(files, file) > file_set_size_bytes(files, sources->files[i]))
                sources->files[i] = file;
            return;
        }
    if (sources->count < IO_SOURCES_MAX)
        sources->files[sources->count++] = file;
}

struct io_sources machine_speed_sources(const struct file_set *files) {
    struct io_sources sources = {0};
    uint32_t largest = 0;
    for (uint32_t f = 1; f < file_set_count(files); f++)
        largest = file_set_size_bytes(files, f) > file_set_size_bytes(files, largest) ? f : largest;
    for (unsigned n = 0; n < file_set_copies(files, largest); n++)
        add_source(files, &sources, file_set_copy(files, largest, n));
    return sources;
}

struct io_sources machine_speed_devices(const struct file_set *files) {
    struct io_sources sources = {0};
    for (uint32_t f = 0; f < file_set_count(files); f++)
        add_source(files, &sources, f);
    return sources;
}
