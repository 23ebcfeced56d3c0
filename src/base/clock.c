/* clock: CLOCK_MONOTONIC. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

#include "base/check.h"

#define NS_PER_S 1000000000u

uint64_t clock_now_ns(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_sleep_ns(uint64_t duration_ns) {
    struct timespec left = {.tv_sec = (time_t)(duration_ns / NS_PER_S), .tv_nsec = (long)(duration_ns % NS_PER_S)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}
