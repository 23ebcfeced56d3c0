/*
 * trace_replay: one heap of victims per size class. A key changes only when its record is wanted, so that each policy is a formula.
 */
#include "store/trace_replay.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "store/size_class.h"

#define NOWHERE UINT32_MAX
#define PINNED (UINT32_MAX - 1)

struct rank { /* the smallest goes first */
    double key;
    uint64_t wanted_at; /* among equal ones the older */
};

struct victims { /* a heap of the records of one class that are in memory and not pinned */
    uint32_t *ids;
    uint32_t count, slots, used;
};

struct replay {
    const struct trace_wants *wants;
    enum trace_policy policy;
    struct size_classes classes;
    struct victims victims[SIZE_CLASSES_MAX];
    uint32_t *ids;      /* of all heaps, [record_count] */
    uint32_t *place;    /* per record: in its heap, NOWHERE or PINNED */
    struct rank *ranks; /* per record */
    uint8_t *class_of;
    uint32_t *pinned;   /* of the step and class at hand, first pinned first */
    uint32_t *next_use; /* Belady: per want, the step that wants the record next */
};

const char *trace_policy_name(enum trace_policy policy) {
    static const char *const names[] = {"LRU", "LFU", "decayed LFU", "Belady"};
    CHECK(policy < TRACE_POLICY_COUNT);
    return names[policy];
}

uint64_t trace_all_bytes(const struct trace_wants *wants) {
    uint64_t sum = 0;
    for (uint32_t r = 0; r < wants->record_count; r++)
        sum += wants->records[r].slot_bytes;
    return sum;
}

/* ---- the heap ---- */

static bool before(const struct replay *replay, uint32_t a, uint32_t b) {
    const struct rank *x = &replay->ranks[a], *y = &replay->ranks[b];
    return x->key != y->key ? x->key < y->key : x->wanted_at != y->wanted_at ? x->wanted_at < y->wanted_at : a < b;
}

static void put(struct replay *replay, struct victims *heap, uint32_t at, uint32_t id) {
    heap->ids[at] = id;
    replay->place[id] = at;
}

static void rise(struct replay *replay, struct victims *heap, uint32_t at) {
    uint32_t id = heap->ids[at];
    while (at > 0 && before(replay, id, heap->ids[(at - 1) / 2])) {
        put(replay, heap, at, heap->ids[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(replay, heap, at, id);
}

static void sink(struct replay *replay, struct victims *heap, uint32_t at) {
    uint32_t id = heap->ids[at];
    for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && before(replay, heap->ids[child + 1], heap->ids[child]))
            child++;
        if (!before(replay, heap->ids[child], id))
            break;
        put(replay, heap, at, heap->ids[child]);
    }
    put(replay, heap, at, id);
}

static void insert(struct replay *replay, struct victims *heap, uint32_t id) {
    CHECK(heap->count < heap->slots);
    heap->ids[heap->count] = id;
    rise(replay, heap, heap->count++);
}

static void take_out(struct replay *replay, struct victims *heap, uint32_t id) {
    uint32_t at = replay->place[id], last = heap->ids[--heap->count];
    CHECK(at <= heap->count);
    replay->place[id] = NOWHERE;
    if (last == id)
        return;
    put(replay, heap, at, last);
    rise(replay, heap, at);
    sink(replay, heap, replay->place[last]);
}

/* ---- a step ---- */

/* The decay is told apart by keys alone: all old scores shrink alike, so a new want weighs more instead. */
static double decayed_key(const struct replay *replay, uint32_t id, double pass) {
    double age = pass / TRACE_HALF_LIFE_PASSES, key = replay->ranks[id].key;
    return replay->ranks[id].wanted_at == 0 ? age : (key > age ? key : age) + log2(1 + exp2(-fabs(key - age)));
}

static void rank(struct replay *replay, uint32_t step, uint64_t want) {
    uint32_t id = replay->wants->ids[want];
    struct rank *r = &replay->ranks[id];
    if (replay->policy == TRACE_LRU)
        r->key = step;
    else if (replay->policy == TRACE_LFU)
        r->key += 1;
    else if (replay->policy == TRACE_DECAYED_LFU)
        r->key = decayed_key(replay, id, (double)step / replay->wants->layer_count);
    else
        r->key = -(double)replay->next_use[want];
    r->wanted_at = step + 1;
}

/* A slot for a record that is not there: a free one, a victim's, or the first of this step's. False: the class has none. */
static bool make_room(struct replay *replay, struct victims *heap, uint32_t *first_pinned) {
    if (heap->slots == 0)
        return false;
    if (heap->used < heap->slots)
        heap->used++;
    else if (heap->count > 0)
        take_out(replay, heap, heap->ids[0]);
    else
        replay->place[replay->pinned[(*first_pinned)++]] = NOWHERE;
    return true;
}

static void count_want(struct replay *replay, struct trace_counts *counts, uint32_t id, bool hit) {
    counts->hits += hit;
    counts->misses += !hit;
    counts->miss_bytes += hit ? 0 : replay->wants->records[id].piece_bytes;
}

static void replay_class(struct replay *replay, uint32_t step_index, uint32_t class_index, struct trace_counts *counts) {
    const struct trace_step *step = &replay->wants->steps[step_index];
    struct victims *heap = &replay->victims[class_index];
    uint32_t first = 0, pinned = 0;
    for (int hits = 1; hits >= 0; hits--)
        for (uint64_t want = step->first_want; want < step->first_want + step->want_count; want++) {
            uint32_t id = replay->wants->ids[want];
            if (replay->class_of[id] != class_index)
                continue;
            bool here = hits ? replay->place[id] != NOWHERE : replay->ranks[id].wanted_at == step_index + 1;
            if (hits ? !here : here)
                continue;
            if (hits)
                take_out(replay, heap, id);
            rank(replay, step_index, want);
            count_want(replay, counts, id, hits);
            if (hits || make_room(replay, heap, &first)) {
                replay->place[id] = PINNED;
                replay->pinned[pinned++] = id;
            }
        }
    for (uint32_t i = first; i < pinned; i++)
        insert(replay, heap, replay->pinned[i]);
}

static void replay_step(struct replay *replay, uint32_t step_index, struct trace_result *out) {
    const struct trace_step *step = &replay->wants->steps[step_index];
    bool present[SIZE_CLASSES_MAX] = {false};
    for (uint64_t want = step->first_want; want < step->first_want + step->want_count; want++)
        present[replay->class_of[replay->wants->ids[want]]] = true;
    for (uint32_t c = 0; c < replay->classes.count; c++)
        if (present[c])
            replay_class(replay, step_index, c, step->decode ? &out->decode : &out->prompt);
}

/* ---- all ---- */

static void look_ahead(struct replay *replay) {
    const struct trace_wants *w = replay->wants;
    uint32_t *last = replay->place; /* not in use yet */
    for (uint32_t r = 0; r < w->record_count; r++)
        last[r] = UINT32_MAX;
    for (uint32_t s = w->step_count; s-- > 0;)
        for (uint64_t want = w->steps[s].first_want; want < w->steps[s].first_want + w->steps[s].want_count; want++) {
            replay->next_use[want] = last[w->ids[want]];
            last[w->ids[want]] = s;
        }
}

static enum status prepare(struct replay *replay, uint64_t cache_bytes, struct error *err) {
    const struct trace_wants *w = replay->wants;
    uint64_t *sizes = memory_alloc_array(w->record_count, sizeof *sizes);
    replay->ids = memory_alloc_array(w->record_count, sizeof *replay->ids);
    replay->place = memory_alloc_array(w->record_count, sizeof *replay->place);
    replay->ranks = memory_alloc_array(w->record_count, sizeof *replay->ranks);
    replay->class_of = memory_alloc_array(w->record_count, sizeof *replay->class_of);
    replay->pinned = memory_alloc_array(w->record_count, sizeof *replay->pinned);
    if (replay->policy == TRACE_BELADY)
        replay->next_use = memory_alloc_array(w->id_count, sizeof *replay->next_use);
    bool enough = sizes && replay->ids && replay->place && replay->ranks && replay->class_of && replay->pinned &&
                  (replay->next_use || replay->policy != TRACE_BELADY);
    for (uint32_t r = 0; enough && r < w->record_count; r++)
        sizes[r] = w->records[r].slot_bytes;
    if (enough)
        size_classes_build(sizes, w->record_count, &replay->classes);
    memory_free(sizes);
    if (!enough)
        return error_set(err, STATUS_NO_MEMORY, "no memory to replay a trace of %u experts", w->record_count);
    (void)size_classes_cut(&replay->classes, cache_bytes);
    if (replay->next_use)
        look_ahead(replay);
    uint32_t used = 0;
    for (uint32_t c = 0; c < replay->classes.count; c++) {
        replay->victims[c] = (struct victims){.ids = replay->ids + used, .slots = replay->classes.classes[c].slot_count};
        used += replay->victims[c].slots;
    }
    CHECK(used <= w->record_count);
    for (uint32_t r = 0; r < w->record_count; r++) {
        replay->place[r] = NOWHERE;
        replay->class_of[r] = (uint8_t)size_classes_find(&replay->classes, w->records[r].slot_bytes);
    }
    return STATUS_OK;
}

enum status trace_replay(const struct trace_wants *wants, enum trace_policy policy, uint64_t cache_bytes, struct trace_result *out,
                         struct error *err) {
    *out = (struct trace_result){0};
    CHECK(policy < TRACE_POLICY_COUNT && wants->layer_count > 0 && wants->record_count > 0 && wants->id_count > 0);
    for (uint64_t i = 0; i < wants->id_count; i++)
        CHECK(wants->ids[i] < wants->record_count);
    struct replay replay = {.wants = wants, .policy = policy};
    enum status status = prepare(&replay, cache_bytes, err);
    for (uint32_t s = 0; status == STATUS_OK && s < wants->step_count; s++)
        replay_step(&replay, s, out);
    for (uint32_t c = 0; c < replay.classes.count; c++)
        out->slot_count += replay.victims[c].slots;
    memory_free(replay.ids);
    memory_free(replay.place);
    memory_free(replay.ranks);
    memory_free(replay.class_of);
    memory_free(replay.pinned);
    memory_free(replay.next_use);
    return status;
}
