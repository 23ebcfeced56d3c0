/*
 * pressure: with --ram auto, when the machine runs short of memory: how much of the weights goes back, and when they may grow again.
 *
 * Model    The plan left a reserve free. Memory is short when less than half of it is left, or less than all of it while tasks wait for
 *          memory (the kernel's pressure stall information, of the machine and of our control groups) or swap fills: then weights give
 *          what the reserve lacks. When one and a half times the reserve was free for ten seconds, and nothing waited, they take half
 *          of what is free above the reserve. In between nothing happens.
 * Cost     a look every 50 ms is one small read, 2 to 14 us; a whole sample, 0.2 ms, is taken when tasks waited since the last look, and
 *          once a second (every 250 ms where the kernel does not tell who waits).
 * Threads  the engine's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/machine.h"

#define PRESSURE_CALM_NS 10000000000u

struct pressure_sample {
    uint64_t now_ns, available_bytes;
    uint64_t waited_us;       /* total, of all tasks, since the machine started */
    uint64_t swap_free_bytes; /* 0: no swap, or full */
};

struct pressure_weights { /* that may be given back, in bytes */
    uint64_t most, limit; /* planned; allowed now */
    uint64_t used;        /* of the limit, by records */
};

/* A zeroed one with reserve_bytes and calm_ns set has seen nothing yet. */
struct pressure_state {
    uint64_t reserve_bytes, calm_ns;
    bool is_short;               /* as of the last decision */
    uint64_t calm_since_ns;      /* memory was never short or scarce since */
    struct pressure_sample last; /* now_ns 0: none */
};

/* The limit that they should have now. Pure but for the state. */
uint64_t pressure_limit(struct pressure_state *state, const struct pressure_sample *sample, const struct pressure_weights *weights);

struct pressure_watch {
    struct pressure_state state;
    const char *root;    /* as machine_memory_read_below; borrowed */
    int waits_fd;        /* the kernel's account of who waits, or -1 */
    uint64_t waits_us;   /* as last read from there */
    uint64_t look_at_ns; /* next look; next whole sample */
    uint64_t sample_at_ns;
    bool told;
};

/* reserve_bytes 0: watches nothing. */
void pressure_watch_begin(struct pressure_watch *watch, const char *root, uint64_t reserve_bytes);
void pressure_watch_end(struct pressure_watch *watch); /* a zeroed one is allowed */
/* Whether it is time for another decision, and the sample for it. Costs a look at the clock mostly: up to 0.1 us. */
bool pressure_watch_due(struct pressure_watch *watch, struct pressure_sample *sample);
