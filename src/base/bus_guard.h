/*
 * bus_guard: what happens when a page of a mapped file cannot be read: the file was cut short, or its device failed (SIGBUS).
 *
 * Model       the page is replaced by zeros, so that the thread goes on to the end of its work, and the range remembers the first such
 *             page. Whoever uses the range asks before it uses a result.
 * Threads     all functions may be called from any thread; a range is added and removed by its owner.
 * Failure     a SIGBUS outside all ranges does what it did before the first range was added.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define BUS_GUARD_RANGES_MAX 1024

/* base: page-aligned; the mapping lives until bus_guard_remove. STATUS_UNSUPPORTED when there are too many ranges. */
MUST_CHECK enum status bus_guard_add(const uint8_t *base, uint64_t size_bytes, unsigned *range, struct error *err);
void bus_guard_remove(unsigned range);
/* True when a page of the range was lost since bus_guard_add or the last call that said so; *offset_bytes: where the first one begins. */
bool bus_guard_lost(unsigned range, uint64_t *offset_bytes);
