/*
 * expert_step: the experts one step wants: which are there, which load, which wait for a slot, and handing them out.
 *
 * Invariants  an item pins its slot until it is taken. Items of a class get slots in listed order. In listed order enough slots of each
 *             class stay out of the pins of later items that the earlier ones can always load: then the step ends with any number of slots.
 */
#include <inttypes.h>

#include "base/check.h"
#include "base/memory.h"
#include "store/store_internal.h"

enum status expert_step_init(struct expert_step *step, uint32_t record_count, struct error *err) {
    *step = (struct expert_step){0};
    expert_step_reset(step);
    step->items = memory_alloc_array(record_count, sizeof *step->items);
    step->links = memory_alloc_array(record_count, sizeof *step->links);
    if (!step->items || !step->links)
        return error_set(err, STATUS_NO_MEMORY, "no memory for steps of up to %u experts", record_count);
    return STATUS_OK;
}

void expert_step_deinit(struct expert_step *step) {
    memory_free(step->items);
    memory_free(step->links);
    *step = (struct expert_step){0};
}

/* ---- states of an item ---- */

static struct index_list *list_of(struct expert_step *step, const struct want_item *item) {
    switch ((enum item_state)item->state) {
    case ITEM_PENDING:
        return &step->pending[item->class_index];
    case ITEM_LOADING:
        return &step->loading;
    case ITEM_PRESENT:
        return &step->present;
    case ITEM_TAKEN:
        break;
    }
    return NULL;
}

static void leave_list(struct expert_step *step, uint32_t index) {
    struct index_list *list = list_of(step, &step->items[index]);
    CHECK(list);
    index_list_remove(list, step->links, index);
}

static void enter_list(struct expert_step *step, uint32_t index, enum item_state state) {
    step->items[index].state = (uint8_t)state;
    index_list_append(list_of(step, &step->items[index]), step->links, index);
}

static bool arrived(const struct weight_store *store, uint32_t slot) {
    const struct record_load *load = &store->cache.slots[slot].load;
    return record_load_failed(load) || record_load_whole(&store->map, load);
}

/* The slot that has or will have the record; INDEX_NONE also while one that failed or was cancelled is still being given up. */
static uint32_t find_usable(const struct weight_store *store, weight_id id) {
    uint32_t slot = expert_cache_find(&store->cache, id);
    if (slot == INDEX_NONE)
        return slot;
    const struct record_load *load = &store->cache.slots[slot].load;
    return record_load_failed(load) || load->cancelled ? INDEX_NONE : slot;
}

/* Pins a slot for an item that is in no list. */
static void hold(struct weight_store *store, uint32_t index, uint32_t slot) {
    expert_cache_pin(&store->cache, slot, index);
    store->step.items[index].slot = slot;
    enter_list(&store->step, index, arrived(store, slot) ? ITEM_PRESENT : ITEM_LOADING);
}

static void count_miss(struct weight_store *store, weight_id id) {
    counter_add(&store->counters.misses, 1);
    counter_add(&store->counters.demanded_bytes, record_map_piece_bytes(&store->map, id));
}

/* What was expected rightly had to be read all the same: a miss, whose time was saved. */
static void count_found(struct weight_store *store, uint32_t slot) {
    const struct cache_slot *s = &store->cache.slots[slot];
    uint64_t bytes = record_map_piece_bytes(&store->map, s->load.id);
    if (s->expected) {
        count_miss(store, s->load.id);
        counter_add(&store->counters.expected_used_bytes, bytes);
        return;
    }
    counter_add(&store->counters.hits, 1);
    counter_add(&store->counters.hit_bytes, bytes);
}

void expert_step_arrived(struct weight_store *store, uint32_t slot) {
    uint32_t index = store->cache.slots[slot].item;
    if (index == INDEX_NONE || store->step.items[index].state != ITEM_LOADING || !arrived(store, slot))
        return;
    leave_list(&store->step, index);
    enter_list(&store->step, index, ITEM_PRESENT);
}

/* Tries to give a slot to a pending item. */
static bool assign(struct weight_store *store, uint32_t index) {
    struct want_item *item = &store->step.items[index];
    uint32_t slot = find_usable(store, item->id);
    if (slot != INDEX_NONE) {
        count_found(store, slot);
    } else if (expert_cache_find(&store->cache, item->id) != INDEX_NONE) {
        return false; /* its reads are being reaped */
    } else {
        slot = expert_cache_place(&store->cache, item->id);
        if (slot == INDEX_NONE)
            return false;
        count_miss(store, item->id);
    }
    leave_list(&store->step, index);
    hold(store, index, slot);
    return true;
}

void expert_step_assign(struct weight_store *store) {
    struct expert_step *step = &store->step;
    bool blocked[SIZE_CLASSES_MAX] = {false};
    while (step->active) {
        uint32_t earliest = INDEX_NONE;
        for (uint32_t c = 0; c < store->cache.classes.count; c++)
            if (!blocked[c] && step->pending[c].first < earliest) /* INDEX_NONE is the largest */
                earliest = step->pending[c].first;
        if (earliest == INDEX_NONE)
            return;
        if (!assign(store, earliest))
            blocked[step->items[earliest].class_index] = true;
    }
}

/* ---- want ---- */

/*
 * How many hits of a class may be pinned at once. In any order all: they are handed out first. In listed order a hit may stand behind a
 * miss, so up to half of the slots are left to the misses; hits that are not pinned become pending and are hits still if nobody evicts
 * them.
 */
static void allowed_hits(const struct weight_store *store, uint32_t allowed[SIZE_CLASSES_MAX]) {
    const struct expert_step *step = &store->step;
    uint32_t misses[SIZE_CLASSES_MAX] = {0};
    for (uint32_t i = 0; i < step->count; i++)
        if (find_usable(store, step->items[i].id) == INDEX_NONE)
            misses[step->items[i].class_index]++;
    for (uint32_t c = 0; c < store->cache.classes.count; c++) {
        uint32_t slots = store->cache.open[c] - store->cache.held[c], half = (slots + 1) / 2;
        allowed[c] = step->order == STORE_ANY ? slots : slots - (misses[c] < half ? misses[c] : half);
    }
}

enum status store_want(struct weight_store *store, const weight_id *ids, uint32_t count, enum store_order order, struct error *err) {
    (void)err;
    struct expert_step *step = &store->step;
    CHECK(!step->active && store->cache.leases == 0 && count <= store->cache.record_count);
    step->active = true;
    step->order = order;
    step->count = count;
    step->taken = step->next_listed = 0;
    expert_step_reset(step);
    (void)store_reap(store, false);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(ids[i] < store->map.record_count && store->lives[ids[i]] == WEIGHT_CACHED);
        step->items[i] =
            (struct want_item){.id = ids[i], .slot = INDEX_NONE, .class_index = (uint8_t)expert_cache_class_of(&store->cache, ids[i])};
    }
    if (store->usage && order == STORE_ANY)
        for (uint32_t i = 0; i < count; i++)
            store->usage[ids[i]]++;
    uint32_t allowed[SIZE_CLASSES_MAX];
    allowed_hits(store, allowed);
    for (uint32_t i = 0; i < count; i++) { /* hits are pinned before anything is evicted */
        uint32_t c = step->items[i].class_index, slot = find_usable(store, ids[i]);
        if (slot == INDEX_NONE || allowed[c] == 0) {
            if (slot != INDEX_NONE)
                expert_cache_touch(&store->cache, slot);
            enter_list(step, i, ITEM_PENDING);
            continue;
        }
        allowed[c]--;
        count_found(store, slot);
        hold(store, i, slot);
    }
    expected_end(store);
    store_pump(store);
    return STATUS_OK;
}

/* ---- take ---- */

/* The item that can be handed out now, or INDEX_NONE. */
static uint32_t pick(const struct weight_store *store, uint32_t pieces_needed) {
    const struct expert_step *step = &store->step;
    const struct cache_slot *slots = store->cache.slots;
    if (step->order == STORE_LISTED) {
        uint32_t index = step->next_listed;
        const struct want_item *item = &step->items[index];
        bool ready = item->state == ITEM_PRESENT ||
                     (item->state == ITEM_LOADING && record_load_ready_pieces(&store->map, &slots[item->slot].load) >= pieces_needed);
        return ready ? index : INDEX_NONE;
    }
    if (step->present.first != INDEX_NONE)
        return step->present.first;
    uint32_t index = step->loading.first;
    while (index != INDEX_NONE && record_load_ready_pieces(&store->map, &slots[step->items[index].slot].load) < pieces_needed)
        index = step->links[index].next;
    return index;
}

static enum status hand_out(struct weight_store *store, uint32_t index, struct weight_lease *out, struct error *err) {
    struct expert_step *step = &store->step;
    struct want_item *item = &step->items[index];
    uint32_t slot = item->slot;
    struct cache_slot *s = &store->cache.slots[slot];
    CHECK(s->item == index && s->load.id == item->id);
    leave_list(step, index);
    item->state = ITEM_TAKEN;
    step->taken++;
    step->next_listed++;
    if (record_load_failed(&s->load)) {
        enum status status = record_map_error(&store->map, item->id, &s->load.failure, err);
        expert_cache_unpin(&store->cache, slot);
        store_pump(store);
        return status;
    }
    expert_cache_lease(&store->cache, slot);
    record_map_lease(&store->map, item->id, s->load.memory, slot, out);
    out->whole = record_load_whole(&store->map, &s->load);
    return STATUS_OK;
}

enum status store_take(struct weight_store *store, uint32_t pieces_needed, bool wait, uint32_t *index, struct weight_lease *out,
                       struct error *err) {
    struct expert_step *step = &store->step;
    CHECK(step->active && pieces_needed >= 1);
    *index = UINT32_MAX;
    out->id = WEIGHT_NONE;
    if (step->taken == step->count)
        return STATUS_OK;
    (void)store_progress(store, false);
    uint32_t found;
    while ((found = pick(store, pieces_needed)) == INDEX_NONE) {
        if (!wait)
            return STATUS_OK;
        if (!store_progress(store, true))
            return store->reader.lost > 0
                       ? store_lost_error(store, err)
                       : error_set(err, STATUS_INTERNAL,
                                   "an expert step waits for a slot while all of its size are leased (%u leases of %u slots)",
                                   store->cache.leases, store->cache.slot_count);
    }
    *index = found;
    return hand_out(store, found, out, err);
}

enum status store_wait_pieces(struct weight_store *store, struct weight_lease *lease, struct error *err) {
    CHECK(lease->id < store->map.record_count);
    if (store->lives[lease->id] != WEIGHT_CACHED)
        return STATUS_OK;
    CHECK(lease->slot < store->cache.slot_count && store->cache.slots[lease->slot].leases > 0);
    const struct record_load *load = &store->cache.slots[lease->slot].load;
    CHECK(load->id == lease->id);
    while (!record_load_whole(&store->map, load)) {
        if (record_load_failed(load))
            return record_map_error(&store->map, lease->id, &load->failure, err);
        CHECK(store_progress(store, true)); /* a leased slot that is neither whole nor failed has reads */
    }
    return STATUS_OK;
}

/* ---- end ---- */

void store_want_end(struct weight_store *store) {
    struct expert_step *step = &store->step;
    CHECK(step->active && store->cache.leases == 0);
    step->active = false;
    for (uint32_t i = 0; i < step->count; i++) {
        struct want_item *item = &step->items[i];
        if (item->state != ITEM_LOADING && item->state != ITEM_PRESENT)
            continue;
        struct record_load *load = &store->cache.slots[item->slot].load;
        if (load->piece == 0 && load->asked_bytes == 0) /* nothing of it was asked for: no reason to begin */
            record_load_cancel(&store->map, load);
        expert_cache_unpin(&store->cache, item->slot);
    }
    step->count = 0;
    expert_step_reset(step);
    store_pump(store);
}

void expert_step_reset(struct expert_step *step) {
    index_list_init(&step->loading);
    index_list_init(&step->present);
    for (uint32_t c = 0; c < SIZE_CLASSES_MAX; c++)
        index_list_init(&step->pending[c]);
}
