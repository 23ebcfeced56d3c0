/*
 * cancel: asking now and then whether the user still wants the answer.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/status.h"

struct cancel_poll {
    const atomic_bool *flag; /* NULL: never cancelled; written by another thread */
    uint32_t calls;
};

/* Looks at the flag at every 256th call. */
MUST_CHECK static inline enum status cancel_check(struct cancel_poll *poll, struct error *err) {
    if ((++poll->calls & 255) != 0 || !poll->flag || !atomic_load_explicit(poll->flag, memory_order_relaxed))
        return STATUS_OK;
    return error_set(err, STATUS_CANCELLED, "cancelled while tokenizing");
}
