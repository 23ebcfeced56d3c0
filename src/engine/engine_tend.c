/*
 * engine_tend: what a loaded model does beside its requests: gives memory back when the machine runs short of it.
 */
#include "base/log.h"
#include "base/text.h"
#include "engine/engine_internal.h"

#define STEPS_PER_LOOK 16 /* where all weights fit, a step may take microseconds */

static void told_once(struct pressure_watch *watch, uint64_t gone_bytes, uint64_t left_bytes) {
    char gone[32], left[32];
    log_line(watch->told ? LOG_DEBUG : LOG_NOTICE, "the machine runs short of memory: %s of weights were given back, %s may stay",
             text_format_size(gone_bytes, gone, sizeof gone), text_format_size(left_bytes, left, sizeof left));
    watch->told = true;
}

/* What may be given back: the expert cache, and weights that can be streamed. */
static struct pressure_weights weights_now(const struct sluice_model *m) {
    const struct placement *placement = &m->memory.placement;
    struct store_stats stats;
    store_stats_read(m->store, &stats);
    return (struct pressure_weights){.most = placement->cache_bytes + placement->keep_bytes,
                                     .limit = stats.cache_limit_bytes + stats.trunk_limit_bytes,
                                     .used = store_cache_used_bytes(m->store) + store_trunk_used_bytes(m->store)};
}

/* Of what is left the trunk has its part first, as in the plan: every token needs it. */
static void limit_weights(struct sluice_model *m, uint64_t limit_bytes) {
    uint64_t trunk_bytes = m->memory.placement.keep_bytes;
    trunk_bytes = limit_bytes < trunk_bytes ? limit_bytes : trunk_bytes;
    store_trunk_limit(m->store, trunk_bytes);
    store_cache_limit(m->store, limit_bytes - trunk_bytes);
}

static void watch_memory(struct sluice_model *m) {
    struct pressure_watch *watch = &m->pressure;
    struct pressure_sample sample;
    if (!pressure_watch_due(watch, &sample))
        return;
    struct pressure_weights before = weights_now(m);
    uint64_t limit = pressure_limit(&watch->state, &sample, &before);
    if (watch->state.is_short)
        store_unlock_mapped(m->store);
    if (limit == before.limit)
        return;
    limit_weights(m, limit);
    struct pressure_weights now = weights_now(m);
    if (now.limit < before.limit)
        told_once(watch, before.limit - now.limit, now.limit);
    else if (now.limit > before.limit)
        log_line(LOG_DEBUG, "memory is free again: weights may have %.1f MiB", (double)now.limit / 0x1p20);
}

void engine_watch_memory(void *model) {
    struct sluice_model *m = model;
    if (!m->memory.placement.everything_resident || m->steps_watched++ % STEPS_PER_LOOK == 0)
        watch_memory(m);
}

bool sluice_tend(sluice_model *m) {
    if (!m->loaded)
        return false;
    watch_memory(m);
    return store_tend(m->store);
}
