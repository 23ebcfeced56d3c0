/*
 * trace_curve: hit rates over cache sizes as an SVG picture that explains itself.
 */
#pragma once

#include "store/trace_replay.h"

#define TRACE_POINTS_MAX 16

struct trace_point { /* one cache size */
    uint64_t cache_bytes;
    struct trace_counts counts[TRACE_POLICY_COUNT];
    bool of_the_run;
};

struct trace_curve {
    const char *title;
    uint64_t all_bytes;
    struct trace_point points[TRACE_POINTS_MAX]; /* in ascending size */
    uint32_t count;
};

double trace_hit_rate(const struct trace_counts *counts); /* 1 when nothing was wanted */
/* Writes a new file. */
MUST_CHECK enum status trace_curve_write(const struct trace_curve *curve, const char *path, struct error *err);
