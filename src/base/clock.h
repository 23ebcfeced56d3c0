/*
 * clock: monotonic nanoseconds for durations. Never used for dates.
 */
#pragma once

#include <stdint.h>

uint64_t clock_now_ns(void);
/* Sleeps at least so long, also through signals. */
void clock_sleep_ns(uint64_t duration_ns);
