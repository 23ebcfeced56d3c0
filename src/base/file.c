/* file: plain read and write calls; every error names the path and says what the system said. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file_writer.h"
#include "base/memory.h"

#define READ_STEP_BYTES (64u << 10) /* for pipes, whose size is not known ahead */

static enum status too_large(const char *path, size_t limit_bytes, struct error *err) {
    char limit[32];
    return error_set(err, STATUS_UNSUPPORTED, "%s: larger than the %s that are read", path,
                     text_format_size(limit_bytes, limit, sizeof(limit)));
}

/* Reads to the end into the buffer, whose limit is one byte above limit_bytes, so that a longer file is seen. */
static enum status read_all(int fd, const char *path, size_t limit_bytes, struct byte_buffer *buffer, struct error *err) {
    for (;;) {
        size_t room = buffer->capacity_bytes - buffer->size_bytes;
        if (room == 0 || !buffer->data) {
            size_t left = buffer->limit_bytes - buffer->size_bytes;
            TRY(byte_buffer_reserve(buffer, left < READ_STEP_BYTES ? left : READ_STEP_BYTES, err));
            room = buffer->capacity_bytes - buffer->size_bytes;
        }
        ssize_t got = read(fd, buffer->data + buffer->size_bytes, room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(err, STATUS_IO, "%s: read failed at byte %zu: %s", path, buffer->size_bytes, strerror(errno));
        buffer->size_bytes += (size_t)got;
        buffer->data[buffer->size_bytes] = 0;
        if (buffer->size_bytes > limit_bytes)
            return too_large(path, limit_bytes, err);
        if (got == 0)
            return STATUS_OK;
    }
}

static enum status read_open(int fd, const char *path, size_t limit_bytes, struct text *out, struct error *err) {
    struct stat info;
    if (fstat(fd, &info) != 0)
        return error_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: is a directory; name a file", path);
    if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > limit_bytes)
        return too_large(path, limit_bytes, err);
    struct byte_buffer buffer;
    byte_buffer_init(&buffer, limit_bytes + 1);
    /* One byte of room past the size lets the end be seen without growing. */
    size_t expected = S_ISREG(info.st_mode) && info.st_size > 0 ? (size_t)info.st_size + 1 : 1;
    enum status status = byte_buffer_reserve(&buffer, expected, err);
    if (status == STATUS_OK)
        status = read_all(fd, path, limit_bytes, &buffer, err);
    if (status == STATUS_OK) {
        *out = byte_buffer_text(&buffer);
        (void)byte_buffer_take(&buffer); /* now owned through out->data */
    }
    byte_buffer_deinit(&buffer);
    return status;
}

enum status file_read(const char *path, size_t limit_bytes, struct text *out, struct error *err) {
    CHECK(path != NULL && limit_bytes < SIZE_MAX / 2);
    *out = (struct text){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO, "%s: cannot open: %s", path,
                         strerror(errno));
    enum status status = read_open(fd, path, limit_bytes, out, err);
    close(fd);
    return status;
}

enum status file_write(const char *path, const void *data, size_t size_bytes, struct error *err) {
    struct file_writer *writer;
    TRY(file_writer_create(path, &writer, err));
    enum status status = file_writer_append(writer, data, size_bytes, err);
    if (status == STATUS_OK)
        return file_writer_finish(writer, err);
    file_writer_abandon(writer);
    return status;
}

bool file_exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

bool file_is_directory(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

enum status file_join(const char *directory, const char *name, char *buffer, size_t buffer_bytes, struct error *err) {
    CHECK(buffer_bytes > 0);
    size_t length = strlen(directory);
    const char *between = length > 0 && directory[length - 1] != '/' ? "/" : "";
    int written = snprintf(buffer, buffer_bytes, "%s%s%s", directory, between, name);
    if (written < 0 || (size_t)written >= buffer_bytes) {
        buffer[0] = 0;
        return error_set(err, STATUS_INVALID, "%s%s%s: the path is longer than %zu bytes", directory, between, name, buffer_bytes - 1);
    }
    return STATUS_OK;
}
