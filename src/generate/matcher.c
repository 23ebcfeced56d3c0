/*
 * matcher: sets, and the closure that makes them.
 *
 * A closure follows everything that takes no byte. Rules that are called on the way get a *pending* frame each, which gathers its callers;
 * when the closure is complete the frames are interned in the order of the rules' ranks, callers first.
 */
#include "generate/matcher.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/memory.h"

/* Items that are no place in a rule. */
#define NODE_ACCEPT UINT32_MAX
#define NODE_OPEN (UINT32_MAX - 1)
#define NODE_SKIP_SPACE (UINT32_MAX - 2)
#define NODE_TAIL (UINT32_MAX - 3) /* of a pending frame: all items of another frame */
#define NODE_FIRST_SPECIAL NODE_TAIL

#define SET_OPEN 2u
#define PENDING 0x80000000u /* in a frame number */

struct pending {
    uint32_t rule, callers, set; /* first caller, UINT32_MAX: none */
};
struct caller {
    struct matcher_item item;
    uint32_t next;
};
struct seen_slot {
    struct matcher_item item;
    uint32_t stamp;
};
struct item_list {
    struct matcher_item *items;
    uint32_t count, capacity;
};
struct matcher_work {
    struct item_list todo, out;
    struct seen_slot *seen;
    uint32_t seen_count, seen_capacity, stamp;
    uint32_t *pending_of, *pending_stamp; /* [rules] */
    struct pending *pendings;
    uint32_t pending_count, pending_capacity, *order, order_capacity;
    struct caller *callers;
    uint32_t caller_count, caller_capacity;
};

static enum status no_memory(struct error *err) { return error_set(err, STATUS_NO_MEMORY, "no memory to follow the form of an answer"); }

static enum status grow(void *list_pointer, size_t item_bytes, uint32_t wanted, uint32_t *capacity, struct error *err) {
    void **list = list_pointer;
    if (wanted <= *capacity)
        return STATUS_OK;
    uint32_t next = *capacity ? *capacity : 32;
    while (next < wanted)
        next *= 2;
    void *grown = memory_resize(*list, next, item_bytes);
    if (!grown)
        return no_memory(err);
    *list = grown;
    *capacity = next;
    return STATUS_OK;
}

static enum status push(struct item_list *list, struct matcher_item item, struct error *err) {
    TRY(grow(&list->items, sizeof *list->items, list->count + 1, &list->capacity, err));
    list->items[list->count++] = item;
    return STATUS_OK;
}

static bool same(struct matcher_item a, struct matcher_item b) { return a.node == b.node && a.count == b.count && a.frame == b.frame; }

static uint32_t hash_items(const struct matcher_item *items, uint32_t count) { return (uint32_t)XXH3_64bits(items, count * sizeof *items); }

/* ---- sets ---- */

size_t matcher_used_bytes(const struct matcher *m) {
    return arena_used_bytes(m->arena) + m->set_count * sizeof *m->sets + m->table_capacity * sizeof *m->table;
}

static enum status grow_table(struct matcher *m, struct error *err) {
    uint32_t capacity = m->table_capacity ? m->table_capacity * 2 : 256;
    uint32_t *table = memory_alloc_array(capacity, sizeof *table);
    if (!table)
        return no_memory(err);
    memset(table, 0xff, capacity * sizeof *table);
    for (uint32_t s = 0; s < m->set_count; s++) {
        uint32_t slot = hash_items(m->sets[s].items, m->sets[s].count) & (capacity - 1);
        while (table[slot] != UINT32_MAX)
            slot = (slot + 1) & (capacity - 1);
        table[slot] = s;
    }
    memory_free(m->table);
    m->table = table;
    m->table_capacity = capacity;
    return STATUS_OK;
}

static int compare_items(const void *a_pointer, const void *b_pointer) {
    const struct matcher_item *a = a_pointer, *b = b_pointer;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

/* The set of those items, which are put in order. */
static enum status intern(struct matcher *m, struct matcher_item *items, uint32_t count, uint32_t *out, struct error *err) {
    uint32_t kept = 0;
    if (count > 1)
        qsort(items, count, sizeof *items, compare_items);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || !same(items[i], items[kept - 1]))
            items[kept++] = items[i];
    if (m->set_count * 2 >= m->table_capacity)
        TRY(grow_table(m, err));
    uint32_t slot = hash_items(items, kept) & (m->table_capacity - 1);
    for (; m->table[slot] != UINT32_MAX; slot = (slot + 1) & (m->table_capacity - 1)) {
        const struct matcher_set *set = &m->sets[m->table[slot]];
        if (set->count == kept && memcmp(set->items, items, kept * sizeof *items) == 0) {
            *out = m->table[slot];
            return STATUS_OK;
        }
    }
    struct matcher_item *copy = arena_alloc(m->arena, kept * sizeof *items + 1);
    if (!copy || m->set_count >= PENDING / 2)
        return copy || !arena_was_refused(m->arena)
                   ? error_set(err, STATUS_OVER_BUDGET, "the form needs more than %zu bytes to be followed: make it simpler",
                               m->limit_bytes)
                   : no_memory(err);
    memcpy(copy, items, kept * sizeof *items);
    TRY(grow(&m->sets, sizeof *m->sets, m->set_count + 1, &m->set_capacity, err));
    struct matcher_set set = {.items = copy, .count = kept};
    memset(set.open, 0xff, sizeof set.open);
    for (uint32_t i = 0; i < kept; i++)
        set.flags |= (uint8_t)((copy[i].node == NODE_ACCEPT ? MATCHER_ACCEPTS : 0) | (copy[i].node == NODE_OPEN ? MATCHER_ESCAPES : 0));
    m->sets[m->set_count] = set;
    m->table[slot] = m->set_count;
    *out = m->set_count++;
    return STATUS_OK;
}

static enum status intern_fixed(struct matcher *m, struct error *err) {
    struct matcher_item accept = {NODE_ACCEPT, 0, 0}, open = {NODE_OPEN, 0, 0};
    uint32_t dead, complete, open_set;
    TRY(intern(m, &accept, 0, &dead, err));
    TRY(intern(m, &accept, 1, &complete, err));
    TRY(intern(m, &open, 1, &open_set, err));
    CHECK(dead == MATCHER_DEAD && complete == MATCHER_COMPLETE && open_set == SET_OPEN);
    return STATUS_OK;
}

/* ---- closure ---- */

static enum status see(struct matcher_work *w, struct matcher_item item, bool *was_new, struct error *err) {
    if (w->seen_count * 2 >= w->seen_capacity) {
        uint32_t old_capacity = w->seen_capacity, capacity = old_capacity ? old_capacity * 2 : 256;
        struct seen_slot *old = w->seen, *slots = memory_alloc_array(capacity, sizeof *slots);
        if (!slots)
            return no_memory(err);
        for (uint32_t i = 0; i < old_capacity; i++) {
            uint32_t slot = hash_items(&old[i].item, 1) & (capacity - 1);
            if (old[i].stamp != w->stamp)
                continue;
            while (slots[slot].stamp == w->stamp)
                slot = (slot + 1) & (capacity - 1);
            slots[slot] = old[i];
        }
        memory_free(old);
        w->seen = slots;
        w->seen_capacity = capacity;
    }
    uint32_t slot = hash_items(&item, 1) & (w->seen_capacity - 1);
    for (; w->seen[slot].stamp == w->stamp; slot = (slot + 1) & (w->seen_capacity - 1))
        if (same(w->seen[slot].item, item)) {
            *was_new = false;
            return STATUS_OK;
        }
    w->seen[slot] = (struct seen_slot){item, w->stamp};
    w->seen_count++;
    *was_new = true;
    return STATUS_OK;
}

static void begin_closure(struct matcher_work *w, uint32_t rules) {
    if (++w->stamp == 0) { /* after four billion: forget the old stamps */
        memset(w->seen, 0, w->seen_capacity * sizeof *w->seen);
        memset(w->pending_stamp, 0, rules * sizeof *w->pending_stamp);
        w->stamp = 1;
    }
    w->todo.count = w->out.count = w->seen_count = w->pending_count = w->caller_count = 0;
}

static bool ends_rule(const struct grammar *g, uint32_t node) {
    while (g->nodes[node].kind == GRAMMAR_JUMP)
        node = g->nodes[node].next;
    return g->nodes[node].kind == GRAMMAR_END;
}

/* The rule is called, and `back` is where it goes on afterwards. */
static enum status call_rule(struct matcher *m, uint32_t rule, struct matcher_item back, struct error *err) {
    struct matcher_work *w = m->work;
    if (w->pending_stamp[rule] != w->stamp) {
        TRY(grow(&w->pendings, sizeof *w->pendings, w->pending_count + 1, &w->pending_capacity, err));
        w->pending_stamp[rule] = w->stamp;
        w->pending_of[rule] = w->pending_count;
        w->pendings[w->pending_count++] = (struct pending){rule, UINT32_MAX, MATCHER_UNKNOWN};
        TRY(push(&w->todo, (struct matcher_item){m->grammar->rules[rule].start, 0, PENDING | w->pending_of[rule]}, err));
    }
    if (back.node != NODE_TAIL && ends_rule(m->grammar, back.node))
        back = (struct matcher_item){NODE_TAIL, 0, back.frame};
    struct pending *pending = &w->pendings[w->pending_of[rule]];
    TRY(grow(&w->callers, sizeof *w->callers, w->caller_count + 1, &w->caller_capacity, err));
    w->callers[w->caller_count] = (struct caller){back, pending->callers};
    pending->callers = w->caller_count++;
    return STATUS_OK;
}

static enum status leave_rule(struct matcher *m, uint32_t frame, struct error *err) {
    struct matcher_work *w = m->work;
    if (frame & PENDING)
        return STATUS_OK; /* an empty match: the call went on by itself */
    for (uint32_t i = 0; i < m->sets[frame].count; i++) {
        struct matcher_item item = m->sets[frame].items[i];
        TRY(push(item.node >= NODE_FIRST_SPECIAL ? &w->out : &w->todo, item, err));
    }
    return STATUS_OK;
}

static enum status enter_loop(struct matcher *m, struct matcher_item item, bool *goes_on, struct error *err) {
    const struct grammar *g = m->grammar;
    const struct grammar_loop *loop = &g->loops[g->nodes[item.node].other];
    const struct grammar_rule *body = &g->rules[loop->rule];
    if (body->productive && (loop->maximum == GRAMMAR_UNBOUNDED || item.count < loop->maximum)) {
        uint32_t count = item.count + 1;
        if (loop->maximum == GRAMMAR_UNBOUNDED && count > loop->minimum)
            count = loop->minimum;
        TRY(call_rule(m, loop->rule, (struct matcher_item){item.node, count, item.frame}, err));
    }
    *goes_on = item.count >= loop->minimum || body->nullable;
    return STATUS_OK;
}

/* Follows one item until it needs a byte or ends. */
static enum status follow(struct matcher *m, struct matcher_item item, struct error *err) {
    const struct grammar *g = m->grammar;
    struct matcher_work *w = m->work;
    for (;;) {
        const struct grammar_node *node = &g->nodes[item.node];
        bool go_on = true;
        if (!node->productive)
            return STATUS_OK;
        if (node->kind != GRAMMAR_JUMP) {
            TRY(see(w, item, &go_on, err));
            if (!go_on)
                return STATUS_OK;
        }
        switch ((enum grammar_kind)node->kind) {
        case GRAMMAR_END:
            return leave_rule(m, item.frame, err);
        case GRAMMAR_BYTES:
            return push(&w->out, item, err);
        case GRAMMAR_JUMP:
            break;
        case GRAMMAR_SPLIT:
            TRY(push(&w->todo, (struct matcher_item){node->other, 0, item.frame}, err));
            break;
        case GRAMMAR_CALL:
            TRY(call_rule(m, node->other, (struct matcher_item){node->next, 0, item.frame}, err));
            go_on = g->rules[node->other].nullable;
            break;
        case GRAMMAR_LOOP:
            TRY(enter_loop(m, item, &go_on, err));
            break;
        }
        if (!go_on)
            return STATUS_OK;
        item = (struct matcher_item){node->next, 0, item.frame};
    }
}

static uint32_t final_frame(const struct matcher_work *w, uint32_t frame) {
    return frame & PENDING ? w->pendings[frame & ~PENDING].set : frame;
}

static enum status intern_pending(struct matcher *m, struct pending *pending, struct error *err) {
    struct matcher_work *w = m->work;
    w->todo.count = 0; /* free by now */
    for (uint32_t c = pending->callers; c != UINT32_MAX; c = w->callers[c].next) {
        struct matcher_item item = w->callers[c].item;
        uint32_t frame = final_frame(w, item.frame);
        CHECK(frame != MATCHER_UNKNOWN);
        if (item.node != NODE_TAIL)
            TRY(push(&w->todo, (struct matcher_item){item.node, item.count, frame}, err));
        else
            for (uint32_t i = 0; i < m->sets[frame].count; i++)
                TRY(push(&w->todo, m->sets[frame].items[i], err));
    }
    return intern(m, w->todo.items, w->todo.count, &pending->set, err);
}

/* Numbers of the pending frames, callers first. */
static enum status order_pendings(struct matcher *m, struct error *err) {
    struct matcher_work *w = m->work;
    TRY(grow(&w->order, sizeof *w->order, w->pending_count, &w->order_capacity, err));
    for (uint32_t p = 0; p < w->pending_count; p++) { /* by insertion: there are few, and they come nearly in order */
        uint32_t rank = m->grammar->rules[w->pendings[p].rule].rank, at = p;
        for (; at > 0 && m->grammar->rules[w->pendings[w->order[at - 1]].rule].rank > rank; at--)
            w->order[at] = w->order[at - 1];
        w->order[at] = p;
    }
    return STATUS_OK;
}

/* The set of what is to do and all that follows from it. */
static enum status close_items(struct matcher *m, uint32_t *out, struct error *err) {
    struct matcher_work *w = m->work;
    while (w->todo.count > 0)
        TRY(follow(m, w->todo.items[--w->todo.count], err));
    TRY(order_pendings(m, err));
    for (uint32_t p = 0; p < w->pending_count; p++)
        TRY(intern_pending(m, &w->pendings[w->order[p]], err));
    for (uint32_t i = 0; i < w->out.count; i++)
        w->out.items[i].frame = final_frame(w, w->out.items[i].frame);
    return intern(m, w->out.items, w->out.count, out, err);
}

enum status matcher_start(struct matcher *m, uint32_t *set, struct error *err) {
    begin_closure(m->work, m->grammar->rule_count);
    TRY(call_rule(m, m->grammar->root, (struct matcher_item){NODE_TAIL, 0, MATCHER_COMPLETE}, err));
    if (m->grammar->rules[m->grammar->root].nullable)
        TRY(push(&m->work->out, m->sets[MATCHER_COMPLETE].items[0], err));
    return close_items(m, set, err);
}

enum status matcher_skip_space(struct matcher *m, uint32_t set, uint32_t *out, struct error *err) {
    begin_closure(m->work, m->grammar->rule_count);
    TRY(push(&m->work->out, (struct matcher_item){NODE_SKIP_SPACE, 0, set}, err));
    for (uint32_t i = 0; i < m->sets[set].count; i++)
        TRY(push(&m->work->out, m->sets[set].items[i], err));
    return intern(m, m->work->out.items, m->work->out.count, out, err);
}

static enum status remember(struct matcher *m, uint32_t set, uint8_t byte, uint32_t next, struct error *err) {
    if (!m->sets[set].next) {
        uint32_t *steps = arena_alloc(m->arena, m->class_count * sizeof *steps);
        if (!steps)
            return arena_was_refused(m->arena)
                       ? no_memory(err)
                       : error_set(err, STATUS_OVER_BUDGET, "the form needs more than %zu bytes to be followed: make it simpler",
                                   m->limit_bytes);
        memset(steps, 0xff, m->class_count * sizeof *steps);
        m->sets[set].next = steps;
    }
    m->sets[set].next[m->class_of[byte]] = next;
    return STATUS_OK;
}

enum status matcher_step(struct matcher *m, uint32_t set, uint8_t byte, uint32_t *next, struct error *err) {
    begin_closure(m->work, m->grammar->rule_count);
    for (uint32_t i = 0; i < m->sets[set].count; i++) {
        struct matcher_item item = m->sets[set].items[i];
        if (item.node == NODE_SKIP_SPACE && byte == ' ') {
            *next = item.frame;
            return remember(m, set, byte, *next, err);
        }
        if (item.node >= NODE_FIRST_SPECIAL)
            continue;
        const struct grammar_node *node = &m->grammar->nodes[item.node];
        if (byte >= node->low && byte <= node->high)
            TRY(push(&m->work->todo, (struct matcher_item){node->next, 0, item.frame}, err));
    }
    TRY(close_items(m, next, err));
    return remember(m, set, byte, *next, err);
}

/* ---- open sets ---- */

/* A count that allows the same within MATCHER_NEAR bytes. */
static uint32_t near_count(const struct grammar_loop *loop, uint32_t count) {
    uint32_t needed = count < loop->minimum ? loop->minimum - count : 0;
    if (needed > MATCHER_NEAR)
        return 0;
    if (needed == 0 && loop->maximum != GRAMMAR_UNBOUNDED && loop->maximum - count > MATCHER_NEAR)
        return loop->minimum;
    return count;
}

static enum status open_set(struct matcher *m, uint32_t set, unsigned level, uint32_t *open, bool *differ, struct error *err) {
    if (level == 0) {
        *open = SET_OPEN;
        return STATUS_OK;
    }
    if (m->sets[set].open[level - 1] == MATCHER_UNKNOWN) {
        struct item_list *list = &m->work->out;
        uint32_t begin = list->count, made;
        bool any = false;
        for (uint32_t i = 0; i < m->sets[set].count; i++) {
            struct matcher_item item = m->sets[set].items[i];
            if (item.node < NODE_FIRST_SPECIAL) {
                bool inner = false;
                const struct grammar_node *node = &m->grammar->nodes[item.node];
                TRY(open_set(m, item.frame, level - 1, &item.frame, &inner, err));
                uint32_t count = node->kind == GRAMMAR_LOOP ? near_count(&m->grammar->loops[node->other], item.count) : item.count;
                any = any || inner || count != item.count;
                item.count = count;
            }
            TRY(push(list, item, err));
        }
        TRY(intern(m, list->items + begin, list->count - begin, &made, err));
        list->count = begin;
        m->sets[set].open[level - 1] = made;
        m->sets[set].counts_differ[level - 1] = any;
    }
    *open = m->sets[set].open[level - 1];
    *differ = m->sets[set].counts_differ[level - 1];
    return STATUS_OK;
}

enum status matcher_open(struct matcher *m, uint32_t set, uint32_t *open, bool *counts_differ, struct error *err) {
    *open = MATCHER_UNKNOWN;
    *counts_differ = false;
    for (uint32_t i = 0; i < m->sets[set].count; i++)
        if (m->sets[set].items[i].node == NODE_SKIP_SPACE)
            return STATUS_OK;
    m->work->out.count = 0;
    return open_set(m, set, MATCHER_OPEN_LEVELS, open, counts_differ, err);
}

/* ---- life ---- */

/* Bytes that no node tells apart are one class. */
static void make_classes(struct matcher *m, bool space_apart) {
    bool begins[257] = {[0] = true};
    for (uint32_t n = 0; n < m->grammar->node_count; n++) {
        const struct grammar_node *node = &m->grammar->nodes[n];
        if (node->kind == GRAMMAR_BYTES && node->low <= node->high)
            begins[node->low] = begins[node->high + 1] = true;
    }
    if (space_apart)
        begins[' '] = begins[' ' + 1] = true;
    uint32_t class = 0;
    for (unsigned b = 0; b < 256; b++) {
        class += b > 0 && begins[b];
        m->class_of[b] = (uint8_t) class;
    }
    m->class_count = class + 1;
}

enum status matcher_create(const struct grammar *grammar, size_t limit_bytes, bool space_apart, struct matcher **out, struct error *err) {
    *out = NULL;
    struct matcher *m = memory_alloc(sizeof *m);
    if (!m)
        return no_memory(err);
    m->grammar = grammar;
    m->limit_bytes = limit_bytes;
    enum status status = arena_create(limit_bytes, &m->arena, err);
    m->work = memory_alloc(sizeof *m->work);
    if (status == STATUS_OK && m->work) {
        m->work->pending_of = memory_alloc_array(grammar->rule_count, sizeof *m->work->pending_of);
        m->work->pending_stamp = memory_alloc_array(grammar->rule_count, sizeof *m->work->pending_stamp);
        make_classes(m, space_apart);
        status = m->work->pending_of && m->work->pending_stamp ? intern_fixed(m, err) : no_memory(err);
    } else if (status == STATUS_OK) {
        status = no_memory(err);
    }
    if (status != STATUS_OK) {
        matcher_destroy(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void matcher_destroy(struct matcher *m) {
    if (!m)
        return;
    if (m->work) {
        struct matcher_work *w = m->work;
        memory_free(w->todo.items);
        memory_free(w->out.items);
        memory_free(w->seen);
        memory_free(w->pending_of);
        memory_free(w->pending_stamp);
        memory_free(w->pendings);
        memory_free(w->order);
        memory_free(w->callers);
        memory_free(w);
    }
    memory_free(m->sets);
    memory_free(m->table);
    arena_destroy(m->arena);
    memory_free(m);
}

/* Frames have lower numbers than the sets that hold them: marks go down, copies go up. */
static enum status copy_marked(struct matcher *m, const struct matcher_set *old, uint32_t old_count, uint32_t *numbers, struct error *err) {
    struct item_list *list = &m->work->out;
    TRY(intern_fixed(m, err));
    for (uint32_t s = 0; s <= SET_OPEN; s++)
        numbers[s] = s;
    for (uint32_t s = SET_OPEN + 1; s < old_count; s++) {
        if (numbers[s] == MATCHER_UNKNOWN)
            continue;
        list->count = 0;
        for (uint32_t i = 0; i < old[s].count; i++) {
            struct matcher_item item = old[s].items[i];
            TRY(push(list, (struct matcher_item){item.node, item.count, numbers[item.frame]}, err));
        }
        TRY(intern(m, list->items, list->count, &numbers[s], err));
    }
    return STATUS_OK;
}

enum status matcher_keep(struct matcher *m, uint32_t *sets, uint32_t count, struct error *err) {
    struct arena *old_arena = m->arena;
    struct matcher_set *old = m->sets;
    uint32_t old_count = m->set_count, *numbers = memory_alloc_array(old_count, sizeof *numbers);
    struct arena *arena = NULL;
    enum status status = numbers ? arena_create(m->limit_bytes, &arena, err) : no_memory(err);
    if (status != STATUS_OK) {
        memory_free(numbers);
        return status;
    }
    memset(numbers, 0xff, old_count * sizeof *numbers);
    for (uint32_t i = 0; i < count; i++)
        numbers[sets[i]] = 0;
    for (uint32_t s = old_count; s-- > 0;)
        for (uint32_t i = 0; numbers[s] == 0 && i < old[s].count; i++)
            numbers[old[s].items[i].frame] = 0;
    m->arena = arena;
    m->sets = NULL;
    m->set_count = m->set_capacity = m->table_capacity = 0;
    memory_free(m->table);
    m->table = NULL;
    status = copy_marked(m, old, old_count, numbers, err);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        sets[i] = numbers[sets[i]];
    memory_free(old);
    memory_free(numbers);
    arena_destroy(old_arena);
    return status;
}
