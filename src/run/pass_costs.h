/*
 * pass_costs: what the last passes of one row computed and missed, mixture by mixture, and how fast a disk could have made them.
 *
 * Model    A mixture's experts are known when its router has run: what is missing is asked for then, and can only be hidden behind the
 *          mixture's own hits. So a pass takes at least, over its mixtures, the compute before the router and the larger of the experts'
 *          compute and the time of the missed bytes, and the compute after the last; nor is it faster than all of its bytes together.
 *          Compute is what was measured inside the backend: waiting and bookkeeping are not in the bound.
 * Threads  one owner.
 * Memory   all of it at create: PASS_COSTS_KEPT passes; later ones take the place of the oldest.
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

#define PASS_COSTS_KEPT 128

struct pass_costs;

/* mixtures: of a pass, may be 0. *out is NULL on failure. */
MUST_CHECK enum status pass_costs_create(uint32_t mixtures, struct pass_costs **out, struct error *err);
void pass_costs_destroy(struct pass_costs *costs); /* NULL is allowed */
/* Forgets all passes. */
void pass_costs_clear(struct pass_costs *costs);

/* A pass: its mixtures in order, then its end; a pass without an end is forgotten by the next begin. */
void pass_costs_begin(struct pass_costs *costs);
void pass_costs_mixture(struct pass_costs *costs, uint64_t before_ns, uint64_t experts_ns, uint64_t missed_bytes);
void pass_costs_end(struct pass_costs *costs, uint64_t after_ns, uint64_t other_bytes); /* other_bytes: read beside the experts */

/* Passes since the last clear; the last PASS_COSTS_KEPT of them are kept. */
uint64_t pass_costs_count(const struct pass_costs *costs);
/* Least seconds of the passes [first, end) since the last clear, all of them kept, on a disk of this rate. */
double pass_costs_least_seconds(const struct pass_costs *costs, uint64_t first, uint64_t end, double disk_bytes_per_s);
