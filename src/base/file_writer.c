/* file_writer: see file_writer.h. */
#include "base/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"

#define PATH_BYTES_MAX 4096
#define BUFFER_BYTES (64u << 10)

struct file_writer {
    char path[PATH_BYTES_MAX], partial[PATH_BYTES_MAX];
    int fd;
    uint64_t written_bytes;
    size_t held_bytes;
    char held[BUFFER_BYTES];
};

enum status file_writer_create(const char *path, struct file_writer **out, struct error *err) {
    CHECK(path);
    *out = NULL;
    struct file_writer *w = memory_alloc(sizeof *w);
    if (!w)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    int path_bytes = snprintf(w->path, sizeof w->path, "%s", path),
        partial_bytes = snprintf(w->partial, sizeof w->partial, "%s.partial", path);
    enum status status = STATUS_OK;
    if (path_bytes < 1 || partial_bytes >= PATH_BYTES_MAX)
        status = error_set(err, STATUS_INVALID, "a path of %zu bytes cannot be written to", strlen(path));
    else if ((w->fd = open(w->partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        status = error_set(err, STATUS_IO, "%s: cannot write: %s", w->partial, strerror(errno));
    if (status != STATUS_OK) {
        memory_free(w);
        return status;
    }
    *out = w;
    return STATUS_OK;
}

static enum status write_out(struct file_writer *w, const char *data, size_t size_bytes, struct error *err) {
    size_t done = 0;
    while (done < size_bytes) {
        ssize_t wrote = write(w->fd, data + done, size_bytes - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return error_set(err, STATUS_IO, "%s: write failed at byte %" PRIu64 ": %s", w->path, w->written_bytes + done,
                             wrote < 0 ? strerror(errno) : "the system took no bytes");
        done += (size_t)wrote;
    }
    w->written_bytes += size_bytes;
    return STATUS_OK;
}

static enum status flush(struct file_writer *w, struct error *err) {
    TRY(write_out(w, w->held, w->held_bytes, err));
    w->held_bytes = 0;
    return STATUS_OK;
}

enum status file_writer_append(struct file_writer *w, const void *data, size_t size_bytes, struct error *err) {
    CHECK(data || size_bytes == 0);
    if (size_bytes > BUFFER_BYTES - w->held_bytes)
        TRY(flush(w, err));
    if (size_bytes > BUFFER_BYTES)
        return write_out(w, data, size_bytes, err);
    if (size_bytes > 0)
        memcpy(w->held + w->held_bytes, data, size_bytes);
    w->held_bytes += size_bytes;
    return STATUS_OK;
}

void file_sync_directory_of(const char *path) {
    char directory[PATH_BYTES_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= sizeof directory)
        return;
    memcpy(directory, path, length);
    directory[length] = 0;
    int fd = open(slash ? (length ? directory : "/") : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

static enum status finish(struct file_writer *w, struct error *err) {
    TRY(flush(w, err));
    if (fsync(w->fd) != 0 && errno != EINVAL && errno != ENOTSUP) /* some file systems cannot */
        return error_set(err, STATUS_IO, "%s: sync failed: %s", w->path, strerror(errno));
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0)
        return error_set(err, STATUS_IO, "%s: close failed: %s", w->path, strerror(errno));
    if (rename(w->partial, w->path) != 0)
        return error_set(err, STATUS_IO, "%s: cannot rename to %s: %s", w->partial, w->path, strerror(errno));
    file_sync_directory_of(w->path);
    return STATUS_OK;
}

enum status file_writer_finish(struct file_writer *w, struct error *err) {
    enum status status = finish(w, err);
    if (status == STATUS_OK)
        memory_free(w);
    else
        file_writer_abandon(w);
    return status;
}

void file_writer_abandon(struct file_writer *w) {
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    (void)unlink(w->partial);
    memory_free(w);
}
