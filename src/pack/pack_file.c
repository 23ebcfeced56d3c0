/* pack_file: see pack_file.h. */
#include "pack/pack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#define STATE_MAGIC 0x314b4341504c5321u   /* "!SLPACK1" */
#define TELL_BYTES ((uint64_t)8 << 20)    /* written before the system is told to begin with it */
#define BEHIND_BYTES ((uint64_t)96 << 20) /* written and still in the page cache, */
#define DROP_BYTES ((uint64_t)32 << 20)   /* and so much at once is waited for and dropped */
#define STATE_HEAD 4                      /* words: magic, fingerprint, jobs, outputs */

/* ---- the file ---- */

enum status pack_file_open(struct pack_file *file, const char *path, const char *state_path, uint64_t total_bytes, struct error *err) {
    *file = (struct pack_file){.fd = -1, .total_bytes = total_bytes};
    if ((size_t)snprintf(file->path, sizeof file->path, "%s", path) >= sizeof file->path ||
        (size_t)snprintf(file->state_path, sizeof file->state_path, "%s", state_path) >= sizeof file->state_path)
        return error_set(err, STATUS_INVALID, "a path of %zu bytes cannot be written to", strlen(path));
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return error_set(err, STATUS_IO, "%s: cannot write: %s; check the folder and its permissions", path, strerror(errno));
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return error_set(err, STATUS_INVALID, "%s: is being written by another sluice pack; wait for it, or end it", path);
    return STATUS_OK;
}

void pack_file_close(struct pack_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Starts the write-out of what came, waits for what came long ago, and gives its pages back. Hints: refusals do not matter. */
static void write_behind(struct pack_file *file, uint64_t offset_bytes, uint64_t size_bytes) {
    uint64_t end = offset_bytes + size_bytes;
    if (end < file->told_bytes + TELL_BYTES) /* not for every expert */
        return;
    (void)sync_file_range(file->fd, (off_t)file->told_bytes, (off_t)(end - file->told_bytes), SYNC_FILE_RANGE_WRITE);
    file->told_bytes = end;
    if (end < file->dropped_bytes + BEHIND_BYTES + DROP_BYTES)
        return;
    uint64_t from = file->dropped_bytes, length = end - BEHIND_BYTES - from;
    (void)sync_file_range(file->fd, (off_t)from, (off_t)length,
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    (void)posix_fadvise(file->fd, (off_t)from, (off_t)length, POSIX_FADV_DONTNEED);
    file->dropped_bytes = end - BEHIND_BYTES;
}

static enum status write_error(const struct pack_file *file, uint64_t offset_bytes, int code, struct error *err) {
    char missing[32];
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        return error_set(err, STATUS_IO,
                         "%s: write at offset %" PRIu64
                         ": %s; about %s more are needed. Free some space and give the same command again: it goes on from there",
                         file->path, offset_bytes, strerror(code),
                         text_format_size(file->total_bytes - (offset_bytes < file->total_bytes ? offset_bytes : file->total_bytes),
                                          missing, sizeof missing));
    return error_set(err, STATUS_IO, "%s: write at offset %" PRIu64 ": %s; check the disk, then give the same command again: it goes on",
                     file->path, offset_bytes, strerror(code));
}

enum status pack_file_write(struct pack_file *file, uint64_t offset_bytes, const void *data, uint64_t size_bytes, struct error *err) {
    CHECK(file->fd >= 0 && offset_bytes <= INT64_MAX - size_bytes);
    for (uint64_t done = 0; done < size_bytes;) {
        ssize_t count = pwrite(file->fd, (const uint8_t *)data + done, (size_t)(size_bytes - done), (off_t)(offset_bytes + done));
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return write_error(file, offset_bytes + done, count < 0 ? errno : ENOSPC, err);
        done += (uint64_t)count;
    }
    write_behind(file, offset_bytes, size_bytes);
    return STATUS_OK;
}

enum status pack_file_sync(struct pack_file *file, struct error *err) {
    if (fdatasync(file->fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return write_error(file, file->told_bytes, errno, err);
    return STATUS_OK;
}

enum status pack_file_check_space(const char *directory, uint64_t needed_bytes, struct error *err) {
    struct statvfs info;
    char needed[32], there[32], missing[32];
    if (statvfs(directory, &info) != 0)
        return error_set(err, errno == ENOENT || errno == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO,
                         "%s: %s; make the folder, or name another", directory, strerror(errno));
    uint64_t block = info.f_frsize ? info.f_frsize : info.f_bsize, free_bytes;
    if (info.f_blocks == 0 || !size_multiply(info.f_bavail, block, &free_bytes) || needed_bytes <= free_bytes)
        return STATUS_OK;
    return error_set(err, STATUS_IO, "%s: the pack needs %s and there are %s free: %s are missing; nothing was written", directory,
                     text_format_size(needed_bytes, needed, sizeof needed), text_format_size(free_bytes, there, sizeof there),
                     text_format_size(needed_bytes - free_bytes, missing, sizeof missing));
}

/* ---- the note ---- */

enum status pack_state_write(struct pack_file *file, const struct pack_state *state, struct error *err) {
    size_t words = STATE_HEAD + (size_t)state->output_count + 1;
    uint64_t *text = memory_alloc_array(words, sizeof *text);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "no memory to note what was packed");
    text[0] = STATE_MAGIC;
    text[1] = state->fingerprint;
    text[2] = state->jobs_done;
    text[3] = state->output_count;
    memcpy(text + STATE_HEAD, state->hashes, (size_t)state->output_count * sizeof *text);
    text[words - 1] = XXH3_64bits(text, (words - 1) * sizeof *text);
    enum status status = pack_file_sync(file, err);
    if (status == STATUS_OK)
        status = file_write(file->state_path, text, words * sizeof *text, err);
    memory_free(text);
    return status;
}

bool pack_state_read(const struct pack_file *file, struct pack_state *state) {
    struct text text;
    size_t words = STATE_HEAD + (size_t)state->output_count + 1;
    if (file_read(file->state_path, words * sizeof(uint64_t), &text, NULL) != STATUS_OK)
        return false;
    uint64_t head[STATE_HEAD], sum;
    bool good = text.size_bytes == words * sizeof(uint64_t);
    if (good) {
        memcpy(head, text.data, sizeof head);
        memcpy(&sum, text.data + (words - 1) * sizeof sum, sizeof sum);
        good = head[0] == STATE_MAGIC && head[1] == state->fingerprint && head[3] == state->output_count &&
               sum == XXH3_64bits(text.data, (words - 1) * sizeof sum);
    }
    if (good) {
        state->jobs_done = head[2];
        memcpy(state->hashes, text.data + sizeof head, (size_t)state->output_count * sizeof *state->hashes);
    }
    memory_free((char *)text.data);
    return good;
}
