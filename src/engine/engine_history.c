/*
 * engine_history: a loaded model's part in usage_history.h: what is worth reading ahead of any request, and what this load used.
 */
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/model_identity.h"
#include "engine/usage_history.h"

#define PATH_BYTES 4096
#define STRETCHES 16 /* within a sixteenth of what is read ahead, the order is the file's */

struct engine_history {
    char path[PATH_BYTES];
    uint8_t identity[32];
    uint32_t *experts; /* [count] records */
    uint32_t count;
};

struct ranked {
    uint32_t id, count;
};

static int most_first(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static int by_id(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Those that were used, most first, stretch by stretch in the order of their records, which is about the file's; as many as there are
 * slots. */
static void prefill(struct weight_store *store, struct ranked *ranked, uint32_t count, uint32_t *ids) {
    uint32_t used = 0, slots = store_slot_count(store);
    qsort(ranked, count, sizeof *ranked, most_first);
    while (used < count && used < slots && ranked[used].count > 0) {
        ids[used] = ranked[used].id;
        used++;
    }
    uint32_t stretch = used / STRETCHES + 1;
    for (uint32_t first = 0; first < used; first += stretch)
        qsort(ids + first, used - first < stretch ? used - first : stretch, sizeof *ids, by_id);
    log_line(LOG_DEBUG, "history: the %u experts that were used most are read when the disk has nothing else to do", used);
    store_prefill(store, ids, used);
}

static void read_history(struct sluice_model *m, struct engine_history *history) {
    uint32_t count = history->count;
    uint32_t *counts = memory_alloc_array(count, sizeof *counts), *ids = memory_alloc_array(count, sizeof *ids);
    struct ranked *ranked = memory_alloc_array(count, sizeof *ranked);
    if (counts && ids && ranked && usage_history_read(history->path, history->identity, counts, count)) {
        for (uint32_t i = 0; i < count; i++)
            ranked[i] = (struct ranked){history->experts[i], counts[i]};
        prefill(m->store, ranked, count, ids);
    }
    memory_free(counts);
    memory_free(ids);
    memory_free(ranked);
}

static bool is_expert(const struct sluice_model *m, uint32_t id) { return m->memory.records.records[id].expert >= 0; }

void engine_history_begin(struct sluice_model *m) {
    const struct record_table *table = &m->memory.records;
    if (!store_usage(m->store)) /* no experts, or all of them in memory */
        return;
    struct engine_history *history = memory_alloc(sizeof *history);
    uint32_t *experts = memory_alloc_array(table->record_count, sizeof *experts);
    if (history)
        model_identity(m->model->catalogue, history->identity);
    if (!history || !experts || !usage_history_path(history->identity, history->path, sizeof history->path)) {
        memory_free(history);
        memory_free(experts);
        return;
    }
    history->experts = experts;
    for (uint32_t id = 0; id < table->record_count; id++)
        if (is_expert(m, id))
            experts[history->count++] = id;
    m->history = history;
    read_history(m, history);
}

void engine_history_end(struct sluice_model *m) {
    struct engine_history *history = m->history;
    if (!history)
        return;
    const uint32_t *usage = store_usage(m->store);
    for (uint32_t i = 0; i < history->count; i++)
        history->experts[i] = usage[history->experts[i]];
    usage_history_add(history->path, history->identity, history->experts, history->count);
    memory_free(history->experts);
    memory_free(history);
    m->history = NULL;
}
