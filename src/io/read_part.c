/* read_part: see read_part.h. */
#include "io/read_part.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

void read_request_push(struct read_request_list *list, struct read_request *request) {
    request->next = NULL;
    if (list->last)
        list->last->next = request;
    else
        list->first = request;
    list->last = request;
}

struct read_request *read_request_pop(struct read_request_list *list) {
    struct read_request *request = list->first;
    if (request) {
        list->first = request->next;
        if (!list->first)
            list->last = NULL;
        request->next = NULL;
    }
    return request;
}

void read_request_cancel_waiting(struct read_request_list *waiting, struct read_request_list *finished) {
    struct read_request *request;
    while ((request = read_request_pop(waiting)) != NULL) {
        request->status = STATUS_CANCELLED;
        if (request->open_parts == 0)
            read_request_push(finished, request);
    }
}

bool read_request_start(const struct file_set *files, struct read_request *request) {
    request->status = STATUS_OK;
    request->system_error = 0;
    request->skip_bytes = 0;
    request->read_bytes = 0;
    request->next = NULL;
    request->progress_bytes = 0;
    request->attempts = 0;
    request->retries = 0;
    request->waited_s = 0;
    request->open_parts = 0;
    uint64_t end_bytes;
    if (!size_add(request->offset_bytes, request->size_bytes, &end_bytes) || end_bytes > file_set_size_bytes(files, request->file)) {
        request->status = STATUS_CORRUPT;
        return false;
    }
    struct read_window window = read_queue_window(files, request->file, request->offset_bytes, request->size_bytes);
    request->skip_bytes = window.skip_bytes;
    CHECK(request->dst_size_bytes >= window.window_bytes);
    CHECK(((uintptr_t)request->dst & (file_set_alignment(files, request->file) - 1)) == 0);
    return window.window_bytes > 0;
}

bool read_request_take_part(const struct file_set *files, struct read_request_list *waiting, struct read_part *part) {
    struct read_request *request = waiting->first;
    if (!request)
        return false;
    struct read_window window = read_queue_window(files, request->file, request->offset_bytes, request->size_bytes);
    CHECK(request->status == STATUS_OK && request->progress_bytes < window.window_bytes);
    uint64_t count = window.window_bytes / READ_PART_BYTES;
    if (count == 0)
        count = 1;
    uint64_t alignment = file_set_alignment(files, request->file);
    alignment = alignment > READ_PAGE_BYTES ? alignment : READ_PAGE_BYTES;
    uint64_t part_bytes = size_round_up((window.window_bytes + count - 1) / count, alignment);
    uint64_t begin = request->progress_bytes, left = window.window_bytes - begin;
    uint64_t end = begin + (left < part_bytes ? left : part_bytes);
    uint64_t needed = window.skip_bytes + request->size_bytes;
    *part = (struct read_part){
        .request = request,
        .base_bytes = window.begin_bytes,
        .position_bytes = begin,
        .end_bytes = end,
        .needed_bytes = end < needed ? end : needed,
    };
    ASSERT(part->needed_bytes > begin);
    request->progress_bytes = end;
    request->open_parts++;
    if (end == window.window_bytes)
        (void)read_request_pop(waiting);
    return true;
}

bool read_request_end_part(struct read_request_list *waiting, const struct read_part *part) {
    struct read_request *request = part->request;
    CHECK(request->open_parts > 0);
    request->open_parts--;
    request->read_bytes += part->read_bytes;
    request->retries += part->retries;
    if (part->status != STATUS_OK && request->status == STATUS_OK) {
        request->status = part->status;
        request->system_error = part->system_error;
        request->attempts = part->retry.failures + 1;
        if (waiting->first == request)
            (void)read_request_pop(waiting);
    }
    return request->open_parts == 0 && waiting->first != request;
}

struct read_call read_part_call(struct file_set *files, struct read_part *part) {
    const struct read_request *request = part->request;
    ASSERT(part->position_bytes < part->needed_bytes);
    int fd = file_set_direct_fd(files, request->file);
    if (fd < 0)
        file_set_refuse_direct(files, request->file, EOPNOTSUPP);
    uint64_t alignment = file_set_alignment(files, request->file);
    part->direct = fd >= 0 && (part->position_bytes & (alignment - 1)) == 0;
    return (struct read_call){
        .fd = part->direct ? fd : file_set_buffered_fd(files, request->file),
        .direct = part->direct,
        .dst = request->dst + part->position_bytes,
        .size_bytes = (size_t)(part->end_bytes - part->position_bytes),
        .offset_bytes = part->base_bytes + part->position_bytes,
    };
}

static enum read_step part_end(struct read_part *part, enum status status, int system_error) {
    part->status = status;
    part->system_error = system_error;
    return READ_STEP_END;
}

enum read_step read_part_result(struct file_set *files, struct read_part *part, int64_t result, uint64_t *pause_ns) {
    uint32_t file = part->request->file;
    *pause_ns = 0;
    if (result > 0) {
        uint64_t count = (uint64_t)result;
        CHECK(count <= part->end_bytes - part->position_bytes);
        if (!part->direct)
            file_set_drop_behind(files, file, part->base_bytes + part->position_bytes, count);
        part->read_bytes += count;
        part->position_bytes += count;
        part->retry = (struct read_retry){0};
        return part->position_bytes >= part->needed_bytes ? part_end(part, STATUS_OK, 0) : READ_STEP_CALL;
    }
    if (result == 0) /* the end of the file, which was past the wanted bytes when the request came */
        return part_end(part, STATUS_CORRUPT, 0);
    int system_error = (int)-result;
    if (part->direct && (system_error == EINVAL || system_error == EOPNOTSUPP)) {
        file_set_refuse_direct(files, file, system_error);
        return READ_STEP_CALL;
    }
    if (!read_retry_again(&part->retry, system_error, pause_ns))
        return part_end(part, STATUS_IO, system_error);
    part->retries++;
    return *pause_ns ? READ_STEP_PAUSE : READ_STEP_CALL;
}

void read_part_run(struct file_set *files, struct read_part *part) {
    for (;;) {
        struct read_call call = read_part_call(files, part);
        ssize_t count = pread(call.fd, call.dst, call.size_bytes, (off_t)call.offset_bytes);
        uint64_t pause_ns;
        switch (read_part_result(files, part, count < 0 ? -(int64_t)errno : count, &pause_ns)) {
        case READ_STEP_END:
            return;
        case READ_STEP_PAUSE:
            clock_sleep_ns(pause_ns);
            break;
        case READ_STEP_CALL:
            break;
        }
    }
}
