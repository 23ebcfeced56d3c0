/* read_queue: the table of kinds, windows, and the text of a failed request. See read_queue.h. */
#include "io/read_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/read_part.h"

enum { DEPTH_MAX = 1024 };

typedef enum status queue_create(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err);

static const struct {
    const char *name;
    queue_create *create;
} kinds[READ_QUEUE_KIND_COUNT] = {
    [READ_QUEUE_URING] = {"uring", read_queue_uring_create},
    [READ_QUEUE_THREADS] = {"threads", read_queue_threads_create},
    [READ_QUEUE_SYNC] = {"sync", read_queue_sync_create},
};

const char *read_queue_kind_name(enum read_queue_kind kind) {
    CHECK((unsigned)kind < READ_QUEUE_KIND_COUNT);
    return kinds[kind].name;
}

enum status read_queue_create(enum read_queue_kind kind, struct file_set *files, unsigned depth, struct read_queue **out,
                              struct error *err) {
    CHECK((unsigned)kind < READ_QUEUE_KIND_COUNT && files);
    *out = NULL;
    if (depth < 1 || depth > DEPTH_MAX)
        return error_set(err, STATUS_INVALID, "a read queue of depth %u is not possible; choose 1 to %d", depth, DEPTH_MAX);
    return kinds[kind].create(files, depth, out, err);
}

enum status read_queue_create_best(struct file_set *files, unsigned depth, struct read_queue **out, struct error *err) {
    enum status status = read_queue_create(READ_QUEUE_URING, files, depth, out, err);
    if (status != STATUS_UNSUPPORTED)
        return status;
    return read_queue_create(READ_QUEUE_THREADS, files, depth, out, err);
}

struct read_window read_queue_window(const struct file_set *files, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes) {
    uint64_t mask = file_set_alignment(files, file) - (uint64_t)1, end_bytes;
    CHECK(size_add(offset_bytes, size_bytes, &end_bytes) && end_bytes <= (uint64_t)INT64_MAX - mask);
    uint64_t begin_bytes = offset_bytes & ~mask;
    return (struct read_window){
        .begin_bytes = begin_bytes,
        .window_bytes = size_bytes == 0 ? 0 : ((end_bytes + mask) & ~mask) - begin_bytes,
        .skip_bytes = (uint32_t)(offset_bytes - begin_bytes),
    };
}

enum status read_request_error(const struct file_set *files, const struct read_request *request, struct error *err) {
    CHECK(request->status != STATUS_OK);
    const char *path = file_set_path(files, request->file);
    if (request->status == STATUS_CORRUPT) {
        struct stat info;
        uint64_t opened_bytes = file_set_size_bytes(files, request->file), now_bytes = opened_bytes;
        if (fstat(file_set_buffered_fd(files, request->file), &info) == 0)
            now_bytes = (uint64_t)info.st_size;
        return error_set(err, STATUS_CORRUPT,
                         "%s: %" PRIu64 " bytes at offset %" PRIu64 " are needed, but the file has %" PRIu64 " bytes (%" PRIu64
                         " when it was opened); it is cut off: fetch it again",
                         path, request->size_bytes, request->offset_bytes, now_bytes, opened_bytes);
    }
    if (request->status == STATUS_CANCELLED)
        return error_set(err, STATUS_CANCELLED, "%s: read of %" PRIu64 " bytes at offset %" PRIu64 " was cancelled", path,
                         request->size_bytes, request->offset_bytes);
    if (request->system_error == ETIMEDOUT && request->attempts == 0) /* else the system says so */
        return error_set(err, request->status,
                         "%s: a read of %" PRIu64 " bytes at offset %" PRIu64 " has not come back after %u s: the disk or its connection "
                         "does not answer; look what the system says (dmesg), and run again when it does",
                         path, request->size_bytes, request->offset_bytes, request->waited_s);
    return error_set(err, request->status,
                     "%s: read of %" PRIu64 " bytes at offset %" PRIu64 ": %s (tries: %u); check the disk and its "
                     "connection (dmesg), then run again",
                     path, request->size_bytes, request->offset_bytes, strerror(request->system_error), request->attempts);
}
