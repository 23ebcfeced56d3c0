/*
 * engine_tend: what a loaded model does beside its requests: gives memory back when the machine runs short of it.
 */
#include "base/log.h"
#include "base/text.h"
#include "engine/engine_internal.h"

#define STEPS_PER_LOOK 16

static void told_once(struct pressure_watch *watch, const struct store_stats *before, const struct store_stats *now) {
    char gone[32], left[32];
    log_line(watch->told ? LOG_DEBUG : LOG_NOTICE, "the machine runs short of memory: %s of the expert cache were given back, %s stay",
             text_format_size(before->cache_limit_bytes - now->cache_limit_bytes, gone, sizeof gone),
             text_format_size(now->cache_limit_bytes, left, sizeof left));
    watch->told = true;
}

/* Which weights stay is fixed at load (placement.h). A mapped model's pages go by themselves. */
static void tell_what_stays(struct sluice_model *m) {
    const struct placement *placement = &m->memory.placement;
    char size[32];
    if (placement->everything_resident || m->pressure.told)
        return;
    log_line(LOG_NOTICE,
             "the machine runs short of memory, and the %s of weights that stay between passes are kept while the model is loaded: start "
             "again with a smaller --ram to leave more to others",
             text_format_size(placement->resident_bytes, size, sizeof size));
    m->pressure.told = true;
}

static void watch_memory(struct sluice_model *m) {
    struct pressure_watch *watch = &m->pressure;
    struct pressure_sample sample;
    struct store_stats before, now;
    if (!pressure_watch_due(watch, &sample))
        return;
    store_stats_read(m->store, &before);
    const struct pressure_cache cache = {
        .most = m->memory.placement.cache_bytes, .limit = before.cache_limit_bytes, .used = store_cache_used_bytes(m->store)};
    uint64_t limit = pressure_limit(&watch->state, &sample, &cache);
    if (watch->state.is_short)
        store_unlock_mapped(m->store);
    if (watch->state.is_short && cache.most == 0)
        tell_what_stays(m);
    if (limit == cache.limit)
        return;
    store_cache_limit(m->store, limit);
    store_stats_read(m->store, &now);
    if (now.cache_limit_bytes < before.cache_limit_bytes)
        told_once(watch, &before, &now);
    else if (now.cache_limit_bytes > before.cache_limit_bytes)
        log_line(LOG_DEBUG, "memory is free again: the expert cache may have %.1f MiB", (double)now.cache_limit_bytes / 0x1p20);
}

/* Hundreds of times a token: the clock is looked at every so often. */
void engine_watch_memory(void *model) {
    struct sluice_model *m = model;
    if (m->steps_watched++ % STEPS_PER_LOOK == 0)
        watch_memory(m);
}

bool sluice_tend(sluice_model *m) {
    if (!m->loaded)
        return false;
    watch_memory(m);
    return store_tend(m->store);
}
