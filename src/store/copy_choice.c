/* copy_choice: see copy_choice.h. */
#include "store/copy_choice.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

#define WINDOW_BYTES ((uint64_t)8 << 20)      /* a window ends when so much came, or nothing more is in flight */
#define BUSY_BYTES ((uint64_t)1 << 20)        /* and counts if so much was in flight: less would tell of the delay of single reads */
#define LATELY_BYTES ((double)(256ull << 20)) /* what came before so much more counts half */
#define ALIKE 0.67     /* of the fastest's rate: counts as much. Else the share that a device has would be its rate */
#define IGNORED_MAX 64 /* windows of others after which a device that was not read counts as twice as fast */

enum status copy_choice_init(struct copy_choice *choice, struct file_set *files, struct error *err) {
    *choice = (struct copy_choice){.files = files, .file_count = file_set_count(files)};
    choice->device_of = memory_alloc_array(choice->file_count + 1, sizeof *choice->device_of);
    choice->devices = memory_alloc_array(choice->file_count + 1, sizeof *choice->devices);
    choice->in_flight_bytes = memory_alloc_array(choice->file_count + 1, sizeof *choice->in_flight_bytes);
    choice->known_rates = memory_alloc_array(choice->file_count + 1, sizeof *choice->known_rates);
    if (!choice->device_of || !choice->devices || !choice->in_flight_bytes || !choice->known_rates)
        return error_set(err, STATUS_NO_MEMORY, "no memory to choose among %u files", choice->file_count);
    for (uint32_t file = 0; file < choice->file_count; file++) {
        choice->device_of[file] = file_set_device(files, file);
        choice->known_rates[file] = file_set_rate(files, file);
    }
    return STATUS_OK;
}

void copy_choice_deinit(struct copy_choice *choice) {
    memory_free(choice->device_of);
    memory_free(choice->devices);
    memory_free(choice->in_flight_bytes);
    memory_free(choice->known_rates);
    *choice = (struct copy_choice){0};
}

static struct copy_device *device_of(const struct copy_choice *choice, uint32_t file) {
    CHECK(file < choice->file_count);
    return &choice->devices[choice->device_of[file]];
}

/* What the devices of a file's copies do. */
struct rates {
    bool known;
    double top; /* of those that were measured; 1: none was */
};

static double measured_rate(const struct copy_device *device) { return device->ns > 0 ? device->bytes / device->ns : 0; }

static struct rates rates_of(const struct copy_choice *choice, uint32_t file) {
    struct rates rates = {.known = true};
    for (unsigned n = 0; n < file_set_copies(choice->files, file); n++) {
        uint32_t copy = file_set_copy(choice->files, file, n);
        double rate = measured_rate(device_of(choice, copy));
        rates.known = rates.known && choice->known_rates[copy] > 0;
        rates.top = rate > rates.top ? rate : rates.top;
    }
    rates.top = rates.top > 0 ? rates.top : 1;
    return rates;
}

static double rate_of(const struct copy_choice *choice, const struct rates *rates, uint32_t copy) {
    double rate = measured_rate(device_of(choice, copy));
    if (rates->known)
        return choice->known_rates[copy];
    return rate > 0 && rate < ALIKE * rates->top ? rate : rates->top;
}

struct candidate {
    uint32_t file;
    bool left_out;
    double delay; /* until it would be read, in any unit */
    uint64_t in_flight_bytes;
};

static bool is_better(const struct candidate *a, const struct candidate *b) {
    if (a->left_out != b->left_out)
        return b->left_out;
    if (a->delay < b->delay || a->delay > b->delay)
        return a->delay < b->delay;
    return a->in_flight_bytes < b->in_flight_bytes;
}

uint32_t copy_choice_pick(const struct copy_choice *choice, uint32_t file, uint64_t size_bytes, unsigned tried) {
    unsigned copies = file_set_copies(choice->files, file);
    if (copies == 1)
        return tried ? COPY_NONE : file;
    struct candidate best = {.file = COPY_NONE};
    struct rates rates = rates_of(choice, file);
    for (unsigned n = 0; n < copies; n++) {
        if (tried >> n & 1)
            continue;
        uint32_t copy = file_set_copy(choice->files, file, n);
        uint64_t before_bytes = device_of(choice, copy)->in_flight_bytes;
        const struct candidate candidate = {.file = copy,
                                            .left_out = file_set_left_out(choice->files, copy),
                                            .delay = (double)(before_bytes + size_bytes) / rate_of(choice, &rates, copy),
                                            .in_flight_bytes = choice->in_flight_bytes[copy]};
        if (best.file == COPY_NONE || is_better(&candidate, &best))
            best = candidate;
    }
    return best.file;
}

void copy_choice_sent(struct copy_choice *choice, const struct read_request *request, uint64_t now_ns) {
    struct copy_device *device = device_of(choice, request->file);
    if (device->in_flight_bytes == 0)
        device->since_ns = now_ns;
    choice->in_flight_bytes[request->file] += request->size_bytes;
    device->in_flight_bytes += request->size_bytes;
    if (device->in_flight_bytes > device->peak_bytes)
        device->peak_bytes = device->in_flight_bytes;
    device->ignored = 0;
}

static void end_window(struct copy_choice *choice, struct copy_device *device) {
    if (device->peak_bytes >= BUSY_BYTES && device->window_bytes > 0) {
        device->bytes += (double)device->window_bytes;
        device->ns += (double)(device->window_ns > 0 ? device->window_ns : 1);
        if (device->bytes > LATELY_BYTES) {
            device->bytes /= 2;
            device->ns /= 2;
        }
        for (uint32_t file = 0; file < choice->file_count; file++) {
            struct copy_device *other = &choice->devices[file];
            if (other == device || other->in_flight_bytes > 0 || ++other->ignored < IGNORED_MAX)
                continue;
            other->ns /= 2;
            other->ignored = 0;
        }
    }
    device->window_bytes = device->window_ns = 0;
    device->peak_bytes = device->in_flight_bytes;
}

static void count_failure(struct copy_choice *choice, const struct read_request *request) {
    char reason[160];
    unsigned *failures = &choice->failures[file_set_copy_number(choice->files, request->file)];
    if (file_set_copies(choice->files, request->file) == 1 || ++*failures < COPY_FAILURES_MAX)
        return;
    (void)snprintf(reason, sizeof reason, "%u reads failed, the last with: %s", *failures,
                   request->status == STATUS_CORRUPT ? "the file ends too early" : strerror(request->system_error));
    file_set_leave_out(choice->files, request->file, reason);
}

void copy_choice_done(struct copy_choice *choice, const struct read_request *request, uint64_t now_ns) {
    struct copy_device *device = device_of(choice, request->file);
    CHECK(choice->in_flight_bytes[request->file] >= request->size_bytes);
    choice->in_flight_bytes[request->file] -= request->size_bytes;
    device->in_flight_bytes -= request->size_bytes;
    device->window_ns += now_ns - device->since_ns;
    device->since_ns = now_ns;
    if (request->status == STATUS_OK)
        device->window_bytes += request->size_bytes;
    else if (request->status != STATUS_CANCELLED)
        count_failure(choice, request);
    if (device->window_bytes >= WINDOW_BYTES || device->in_flight_bytes == 0)
        end_window(choice, device);
}
