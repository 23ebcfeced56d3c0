/*
 * read_retry: which failed read calls are worth repeating, how often, and after what pause. One policy for all readers.
 *
 * Model   EINTR and EAGAIN say nothing about the data and are repeated up to a generous limit (a system that answers nothing else for
 *         a second is reported). Errors of the device or the way to it (EIO and its kin) are repeated twice after a pause. All others
 *         are final. The counts start anew whenever bytes arrive.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct read_retry {
    uint32_t interruptions, failures; /* since bytes last arrived */
};

/* True: repeat the call after *pause_ns (0: at once). False: report system_error. */
bool read_retry_again(struct read_retry *retry, int system_error, uint64_t *pause_ns);
