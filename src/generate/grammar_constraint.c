/*
 * grammar_constraint: masks by sweeps over the trie.
 */
#include "generate/grammar_constraint.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/matcher.h"

#define MATCHER_BYTES (8u << 20)      /* more is an error */
#define MATCHER_SOFT_BYTES (3u << 20) /* from here on states are made anew between tokens */
#define REAL_MASKS_KEPT 64
#define OPEN_MASKS_KEPT 128 /* or as much memory in lists of nodes */

struct mask { /* of one set */
    uint32_t *bits;
    uint32_t *resume; /* of an open set: nodes below which the real set must be asked, in order */
    uint32_t resume_count, resume_capacity;
};

enum mask_kind { REAL_MASKS, OPEN_MASKS, MASK_KINDS };
struct mask_list {
    struct mask *masks; /* [count], the first is none */
    uint32_t count, capacity;
    size_t bytes;
};

struct grammar_constraint {
    struct constraint base;
    struct grammar grammar;
    const struct token_trie *trie;
    const uint32_t *end_ids;
    uint32_t end_count, vocab, words;
    struct matcher *matcher;
    struct mask_list lists[MASK_KINDS];
    size_t matcher_bytes; /* of the matcher when its sets are made anew */
    uint32_t *states;     /* [count + 1] sets before and after each token; those from 1 to below kept_from are forgotten */
    uint32_t count, capacity, kept_from;
    uint32_t path[TOKEN_BYTES_MAX + 1]; /* sets along a path of the trie */
};

uint64_t grammar_constraint_bytes(uint32_t vocab) {
    return MATCHER_SOFT_BYTES + (uint64_t)(REAL_MASKS_KEPT + OPEN_MASKS_KEPT) * ((vocab + 31) / 32) * sizeof(uint32_t);
}

static struct grammar_constraint *of(struct constraint *constraint) { return (struct grammar_constraint *)constraint; }

/* ---- masks that are kept ---- */

static void drop_masks(struct grammar_constraint *c, enum mask_kind kind) {
    struct mask_list *list = &c->lists[kind];
    for (uint32_t m = 1; m < list->count; m++) {
        memory_free(list->masks[m].bits);
        memory_free(list->masks[m].resume);
    }
    for (uint32_t s = 0; s < c->matcher->set_count; s++) {
        struct matcher_set *set = &c->matcher->sets[s];
        if (kind == REAL_MASKS)
            set->mask = 0;
        else
            set->open_mask[0] = set->open_mask[1] = 0;
    }
    list->count = 1;
    list->bytes = 0;
}

static void drop_too_many(struct grammar_constraint *c) {
    size_t mask_bytes = c->words * sizeof(uint32_t);
    if (c->lists[REAL_MASKS].bytes > REAL_MASKS_KEPT * mask_bytes)
        drop_masks(c, REAL_MASKS);
    if (c->lists[OPEN_MASKS].bytes > OPEN_MASKS_KEPT * mask_bytes)
        drop_masks(c, OPEN_MASKS);
}

static enum status new_mask(struct grammar_constraint *c, enum mask_kind kind, uint32_t *number, struct error *err) {
    struct mask_list *list = &c->lists[kind];
    if (list->count >= list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 16;
        struct mask *masks = memory_resize(list->masks, capacity, sizeof *masks);
        if (!masks)
            return error_set(err, STATUS_NO_MEMORY, "no memory for masks");
        list->masks = masks;
        list->capacity = capacity;
    }
    uint32_t *bits = memory_alloc_array(c->words, sizeof *bits);
    if (!bits)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a mask of %u tokens", c->vocab);
    list->bytes += c->words * sizeof *bits;
    *number = list->count++;
    list->masks[*number] = (struct mask){.bits = bits};
    return STATUS_OK;
}

static enum status add_resume(struct grammar_constraint *c, struct mask *mask, uint32_t node, struct error *err) {
    if (mask->resume_count == mask->resume_capacity) {
        uint32_t capacity = mask->resume_capacity ? mask->resume_capacity * 2 : 64;
        uint32_t *resume = memory_resize(mask->resume, capacity, sizeof *resume);
        if (!resume)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a mask");
        c->lists[OPEN_MASKS].bytes += (capacity - mask->resume_capacity) * sizeof *resume;
        mask->resume = resume;
        mask->resume_capacity = capacity;
    }
    mask->resume[mask->resume_count++] = node;
    return STATUS_OK;
}

/* ---- sweeps ---- */

struct sweep {
    uint32_t begin, end; /* nodes */
    uint32_t *bits;
    struct mask *open; /* NULL: the set is a real one */
    uint32_t depth_max;
};

/* Sets the bits of the tokens under nodes [begin, end) that the set at path[depth of the first node - 1] allows. */
static enum status sweep(struct grammar_constraint *c, const struct sweep *s, struct error *err) {
    const struct token_trie *trie = c->trie;
    struct matcher *m = c->matcher;
    for (uint32_t n = s->begin; n < s->end;) {
        const struct token_node *node = &trie->nodes[n];
        uint32_t next;
        TRY(matcher_next(m, c->path[node->depth - 1], node->byte, &next, err));
        if (next == MATCHER_DEAD) {
            n = node->skip;
            continue;
        }
        c->path[node->depth] = next;
        for (uint32_t i = node->first; i < node[1].first; i++)
            s->bits[trie->ids[i] / 32] |= 1u << (trie->ids[i] % 32);
        bool inner = node->skip > n + 1, far = node->depth >= s->depth_max;
        if (s->open && inner && (far || (m->sets[next].flags & MATCHER_ESCAPES)))
            TRY(add_resume(c, s->open, n, err));
        n = far ? node->skip : n + 1;
    }
    return STATUS_OK;
}

/* The mask of an open set. */
static enum status open_mask(struct grammar_constraint *c, uint32_t open, bool counts_differ, uint32_t *number, struct error *err) {
    /* An open set that stands for other counts is swept less deep than one that stands for itself. */
    *number = c->matcher->sets[open].open_mask[counts_differ];
    if (*number)
        return STATUS_OK;
    TRY(new_mask(c, OPEN_MASKS, number, err));
    struct mask mask = c->lists[OPEN_MASKS].masks[*number];
    c->path[0] = open;
    const struct sweep all = {.begin = 1,
                              .end = c->trie->node_count,
                              .bits = mask.bits,
                              .open = &mask,
                              .depth_max = counts_differ ? MATCHER_NEAR : TOKEN_BYTES_MAX};
    enum status status = sweep(c, &all, err);
    c->lists[OPEN_MASKS].masks[*number] = mask;
    TRY(status);
    c->matcher->sets[open].open_mask[counts_differ] = *number;
    return STATUS_OK;
}

/* Asks the real set below the nodes where the open one does not know. */
static enum status resume(struct grammar_constraint *c, uint32_t set, const struct mask *open, uint32_t *bits, struct error *err) {
    const struct token_trie *trie = c->trie;
    struct text last = TEXT("");
    uint32_t known = 0, behind = 0; /* depth up to which path[] is that of `last`; node behind what was swept */
    c->path[0] = set;
    for (uint32_t r = 0; r < open->resume_count; r++) {
        uint32_t n = open->resume[r], depth = trie->nodes[n].depth;
        if (n < behind)
            continue;
        struct text text = token_trie_bytes(trie, trie->ids[trie->nodes[n].first]); /* a token below has the node's bytes in front */
        uint32_t same = 0;
        while (same < known && same < depth && text.data[same] == last.data[same])
            same++;
        for (; same < depth && c->path[same] != MATCHER_DEAD; same++)
            TRY(matcher_next(c->matcher, c->path[same], (uint8_t)text.data[same], &c->path[same + 1], err));
        known = same;
        last = text;
        behind = trie->nodes[n].skip;
        if (same < depth || c->path[depth] == MATCHER_DEAD)
            continue;
        const struct sweep below = {.begin = n + 1, .end = behind, .bits = bits, .depth_max = TOKEN_BYTES_MAX};
        TRY(sweep(c, &below, err));
    }
    return STATUS_OK;
}

static enum status fill(struct grammar_constraint *c, uint32_t set, uint32_t *bits, struct error *err) {
    uint32_t open, number;
    bool counts_differ;
    TRY(matcher_open(c->matcher, set, &open, &counts_differ, err));
    if (open == MATCHER_UNKNOWN) {
        c->path[0] = set;
        const struct sweep all = {.begin = 1, .end = c->trie->node_count, .bits = bits, .depth_max = TOKEN_BYTES_MAX};
        return sweep(c, &all, err);
    }
    TRY(open_mask(c, open, counts_differ, &number, err));
    const struct mask *mask = &c->lists[OPEN_MASKS].masks[number];
    memcpy(bits, mask->bits, c->words * sizeof *bits);
    return resume(c, set, mask, bits, err);
}

/* ---- states ---- */

static enum status first_state(struct grammar_constraint *c, struct error *err) {
    TRY(matcher_start(c->matcher, &c->states[0], err));
    return c->trie->skips_space ? matcher_skip_space(c->matcher, c->states[0], &c->states[0], err) : STATUS_OK;
}

static enum status step_token(struct grammar_constraint *c, uint32_t from, uint32_t token, uint32_t *to, struct error *err) {
    struct text bytes = token_trie_bytes(c->trie, token);
    uint32_t set = bytes.size_bytes > 0 && bytes.size_bytes <= TOKEN_BYTES_MAX ? from : MATCHER_DEAD;
    for (size_t i = 0; i < bytes.size_bytes && set != MATCHER_DEAD; i++)
        TRY(matcher_next(c->matcher, set, (uint8_t)bytes.data[i], &set, err));
    if (set == MATCHER_DEAD)
        return error_set(err, STATUS_INVALID, "token %u cannot stand at place %u of an answer of this form", token, c->count);
    *to = set;
    return STATUS_OK;
}

/* Forgets all sets that the answer needs no more, when there are many. */
static enum status make_room(struct grammar_constraint *c, struct error *err) {
    if (matcher_used_bytes(c->matcher) < c->matcher_bytes)
        return STATUS_OK;
    uint32_t kept[CONSTRAINT_TAKE_BACK_MAX + 2], count = 0;
    uint32_t from = c->count > CONSTRAINT_TAKE_BACK_MAX ? c->count - CONSTRAINT_TAKE_BACK_MAX : 0;
    if (from < c->kept_from)
        from = c->kept_from;
    kept[count++] = c->states[0];
    for (uint32_t i = from; i <= c->count; i++)
        kept[count++] = c->states[i];
    drop_masks(c, REAL_MASKS);
    drop_masks(c, OPEN_MASKS);
    TRY(matcher_keep(c->matcher, kept, count, err));
    memcpy(c->states + from, kept + 1, (count - 1) * sizeof *kept);
    c->states[0] = kept[0];
    c->kept_from = from;
    c->matcher_bytes = MATCHER_SOFT_BYTES / 2 + matcher_used_bytes(c->matcher); /* a deep answer needs more for itself */
    return STATUS_OK;
}

/* ---- the seam ---- */

static enum status mask(struct constraint *constraint, uint32_t *bits, struct error *err) {
    struct grammar_constraint *c = of(constraint);
    drop_too_many(c);
    TRY(make_room(c, err));
    uint32_t set = c->states[c->count], number = c->matcher->sets[set].mask;
    if (!number) {
        TRY(new_mask(c, REAL_MASKS, &number, err));
        TRY(fill(c, set, c->lists[REAL_MASKS].masks[number].bits, err));
        c->matcher->sets[set].mask = number;
    }
    memcpy(bits, c->lists[REAL_MASKS].masks[number].bits, c->words * sizeof *bits);
    bool complete = c->matcher->sets[set].flags & MATCHER_ACCEPTS;
    for (uint32_t i = 0; i < c->end_count; i++) {
        uint32_t id = c->end_ids[i];
        bits[id / 32] = complete ? bits[id / 32] | 1u << (id % 32) : bits[id / 32] & ~(1u << (id % 32));
    }
    for (uint32_t i = 0; i < c->words; i++)
        if (bits[i])
            return STATUS_OK;
    return error_set(err, STATUS_INTERNAL, "no token of this vocabulary can go on with an answer of this form (after %u tokens)", c->count);
}

static enum status accept(struct constraint *constraint, uint32_t token, struct error *err) {
    struct grammar_constraint *c = of(constraint);
    TRY(make_room(c, err));
    if (c->count == c->capacity) {
        uint32_t *states = memory_resize(c->states, (size_t)c->capacity * 2 + 1, sizeof *states);
        if (!states)
            return error_set(err, STATUS_NO_MEMORY, "no memory to follow the form of an answer of %u tokens", c->count);
        c->states = states;
        c->capacity *= 2;
    }
    TRY(step_token(c, c->states[c->count], token, &c->states[c->count + 1], err));
    c->count++;
    return STATUS_OK;
}

static bool is_finished(const struct constraint *constraint) {
    const struct grammar_constraint *c = (const struct grammar_constraint *)constraint;
    return c->states[c->count] == MATCHER_COMPLETE;
}

static void take_back(struct constraint *constraint, uint32_t tokens) {
    struct grammar_constraint *c = of(constraint);
    CHECK(tokens <= c->count && (c->count - tokens >= c->kept_from || tokens == c->count));
    c->count -= tokens;
    if (c->count == 0)
        c->kept_from = 0;
}

static void reset(struct constraint *constraint) { take_back(constraint, of(constraint)->count); }

static void destroy(struct constraint *constraint) {
    struct grammar_constraint *c = of(constraint);
    for (int kind = 0; kind < MASK_KINDS; kind++) {
        if (c->matcher)
            drop_masks(c, (enum mask_kind)kind);
        memory_free(c->lists[kind].masks);
    }
    memory_free(c->states);
    matcher_destroy(c->matcher);
    grammar_deinit(&c->grammar);
    memory_free(c);
}

static const struct constraint_operations operations = {mask, accept, is_finished, take_back, reset, destroy};

#define FIRST_CAPACITY 256

static enum status start(struct grammar_constraint *c, struct error *err) {
    TRY(grammar_finish(&c->grammar, err));
    TRY(matcher_create(&c->grammar, MATCHER_BYTES, c->trie->skips_space, &c->matcher, err));
    c->capacity = FIRST_CAPACITY;
    c->matcher_bytes = MATCHER_SOFT_BYTES;
    c->states = memory_alloc_array(FIRST_CAPACITY + 1, sizeof *c->states);
    if (!c->states)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the form of an answer");
    c->lists[REAL_MASKS].count = c->lists[OPEN_MASKS].count = 1;
    return first_state(c, err);
}

enum status grammar_constraint_create(struct grammar *grammar, const struct grammar_constraint_options *options, struct constraint **out,
                                      struct error *err) {
    *out = NULL;
    struct grammar_constraint *c = memory_alloc(sizeof *c);
    if (!c) {
        grammar_deinit(grammar);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the form of an answer");
    }
    c->base.operations = &operations;
    c->grammar = *grammar;
    grammar_init(grammar);
    c->trie = options->trie;
    c->end_ids = options->end_ids;
    c->end_count = options->end_count;
    c->vocab = options->vocab;
    c->words = (options->vocab + 31) / 32;
    CHECK(options->trie->vocab <= options->vocab);
    enum status status = start(c, err);
    if (status != STATUS_OK) {
        constraint_destroy(&c->base);
        return status;
    }
    *out = &c->base;
    return STATUS_OK;
}
