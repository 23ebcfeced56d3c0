/*
 * test_clock: time that a test moves. Who sleeps by base/clock.h returns at once, and the clock is later by so much, so hours of waiting
 * cost nothing, and a time-out can be far longer than any delay of a busy machine.
 *
 * Model    the clock is the sum of all sleeps and of real time, or of sleeps alone when it `stands`: then what happens depends on what was
 *          waited for and on nothing else. It may not stand where threads wait for each other with a limit.
 * Use      include it in one file of a test program that is linked with test_clock_arguments (tests/meson.build).
 * Threads  any.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static struct {
    _Atomic uint64_t slept_ns;
    atomic_bool stands;
} test_clock;

uint64_t __real_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void) {
    return atomic_load(&test_clock.slept_ns) + (atomic_load(&test_clock.stands) ? 0 : __real_clock_now_ns());
}

void __wrap_clock_sleep_ns(uint64_t duration_ns);
void __wrap_clock_sleep_ns(uint64_t duration_ns) { (void)atomic_fetch_add(&test_clock.slept_ns, duration_ns); }
