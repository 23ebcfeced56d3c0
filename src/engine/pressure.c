/*
 * pressure: see pressure.h.
 */
#include "engine/pressure.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define LOOK_NS 50000000u
#define SAMPLE_NS 1000000000u
#define SAMPLE_BLIND_NS 250000000u /* where nothing tells who waits */
#define WAIT_SHARE 100             /* a hundredth of the time is waiting that is felt */
#define SWAP_NOISE_BYTES (1ull << 20)

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* ---- the decision ---- */

static bool waits(const struct pressure_state *state, const struct pressure_sample *now) {
    const struct pressure_sample *last = &state->last;
    if (last->now_ns == 0)
        return false;
    uint64_t passed_us = less(now->now_ns, last->now_ns) / 1000;
    return less(now->waited_us, last->waited_us) > passed_us / WAIT_SHARE ||
           less(last->swap_free_bytes, now->swap_free_bytes) > SWAP_NOISE_BYTES;
}

uint64_t pressure_limit(struct pressure_state *state, const struct pressure_sample *sample, const struct pressure_weights *weights) {
    uint64_t reserve = state->reserve_bytes, free_bytes = sample->available_bytes, limit = weights->limit;
    uint64_t to_come = less(weights->limit, weights->used); /* what they may still fill is as good as taken */
    bool waiting = waits(state, sample), calm = !waiting && less(free_bytes, to_come) > reserve + reserve / 2;
    if (state->last.now_ns == 0 || !calm)
        state->calm_since_ns = sample->now_ns;
    state->last = *sample;
    state->is_short = free_bytes < reserve / 2 || (free_bytes < reserve && waiting);
    if (state->is_short) {
        limit = less(smaller(weights->used, limit), reserve - free_bytes);
    } else if (calm && sample->now_ns - state->calm_since_ns >= state->calm_ns) {
        limit = smaller(weights->most, limit + (less(free_bytes, to_come) - reserve) / 2);
        state->calm_since_ns = sample->now_ns;
    }
    return limit;
}

/* ---- looking ---- */

/* "some avg10=0.00 ... total=123" -> 123. */
static bool read_waits(int fd, uint64_t *waited_us) {
    char text[256];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    if (size <= 0)
        return false;
    text[size] = 0;
    const char *total = strstr(text, "total=");
    return total && text_parse_u64((struct text){total + 6, strspn(total + 6, "0123456789")}, waited_us);
}

void pressure_watch_begin(struct pressure_watch *watch, const char *root, uint64_t reserve_bytes) {
    char path[512];
    *watch = (struct pressure_watch){.state = {.reserve_bytes = reserve_bytes, .calm_ns = PRESSURE_CALM_NS}, .root = root, .waits_fd = -1};
    if (reserve_bytes > 0 && snprintf(path, sizeof path, "%s/proc/pressure/memory", root) < (int)sizeof path)
        watch->waits_fd = open(path, O_RDONLY | O_CLOEXEC);
}

void pressure_watch_end(struct pressure_watch *watch) {
    if (watch->state.reserve_bytes > 0 && watch->waits_fd >= 0)
        (void)close(watch->waits_fd);
    *watch = (struct pressure_watch){0};
}

bool pressure_watch_due(struct pressure_watch *watch, struct pressure_sample *sample) {
    uint64_t now_ns, waits_us = 0;
    if (watch->state.reserve_bytes == 0 || (now_ns = clock_now_ns()) < watch->look_at_ns)
        return false;
    watch->look_at_ns = now_ns + LOOK_NS;
    bool seeing = watch->waits_fd >= 0 && read_waits(watch->waits_fd, &waits_us);
    if (now_ns < watch->sample_at_ns && waits_us == watch->waits_us)
        return false;
    watch->waits_us = waits_us;
    watch->sample_at_ns = now_ns + (seeing ? SAMPLE_NS : SAMPLE_BLIND_NS);
    struct machine_memory memory = machine_memory_read_below(watch->root);
    *sample = (struct pressure_sample){.now_ns = now_ns,
                                       .available_bytes = memory.available_bytes,
                                       .waited_us = memory.waited_us,
                                       .swap_free_bytes = memory.swap_free_bytes};
    return memory.known;
}
