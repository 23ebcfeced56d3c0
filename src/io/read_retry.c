/* read_retry: see read_retry.h. */
#include "io/read_retry.h"

#include <errno.h>

#include "base/check.h"

enum {
    INTERRUPTIONS_MAX = 1000,
    FAILURES_MAX = 2,
};
static const uint64_t busy_pause_ns = 1000 * 1000;
static const uint64_t failure_pause_ns = 20 * 1000 * 1000; /* long enough for a bus reset of a flash disk, short for a person */

/* What the block layer says for a medium, transport or time-out error; file systems hand it on or make it EIO. */
static bool is_device_error(int system_error) {
    switch (system_error) {
    case EIO:
    case ENODATA:
    case ENOLINK:
    case EREMOTEIO:
    case EILSEQ:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

bool read_retry_again(struct read_retry *retry, int system_error, uint64_t *pause_ns) {
    CHECK(system_error > 0);
    *pause_ns = 0;
    if (system_error == EINTR || system_error == EAGAIN) {
        if (retry->interruptions == INTERRUPTIONS_MAX)
            return false;
        retry->interruptions++;
        if (system_error == EAGAIN)
            *pause_ns = busy_pause_ns;
        return true;
    }
    if (!is_device_error(system_error) || retry->failures == FAILURES_MAX)
        return false;
    retry->failures++;
    *pause_ns = failure_pause_ns;
    return true;
}
