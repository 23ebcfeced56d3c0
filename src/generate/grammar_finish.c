/*
 * grammar_finish: what can be empty, what can end, and in which order rules begin with each other.
 *
 * Both properties are least fixpoints over the nodes: a node that gains it is put on a list, and those that depend on it are looked at
 * again. Each edge is looked at once.
 */
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "generate/grammar.h"

enum property { NULLABLE, PRODUCTIVE };

struct dependents { /* node -> nodes whose property depends on it */
    uint32_t *first, *items;
    uint32_t *todo;
    bool *holds;
};

static void dependents_deinit(struct dependents *d) {
    memory_free(d->first);
    memory_free(d->items);
    memory_free(d->todo);
    memory_free(d->holds);
}

static uint32_t rule_of(const struct grammar *g, const struct grammar_node *node) {
    return node->kind == GRAMMAR_LOOP ? g->loops[node->other].rule : node->other;
}

/* Nodes that `node` looks at: up to two. */
static unsigned looks_at(const struct grammar *g, const struct grammar_node *node, uint32_t targets[2]) {
    if (node->kind == GRAMMAR_END)
        return 0;
    targets[0] = node->next;
    if (node->kind == GRAMMAR_SPLIT)
        targets[1] = node->other;
    else if (node->kind == GRAMMAR_CALL || node->kind == GRAMMAR_LOOP)
        targets[1] = g->rules[rule_of(g, node)].start;
    else
        return 1;
    return 2;
}

static enum status dependents_init(struct dependents *d, const struct grammar *g, struct error *err) {
    uint32_t targets[2];
    d->first = memory_alloc_array((size_t)g->node_count + 2, sizeof *d->first);
    d->items = memory_alloc_array((size_t)g->node_count * 2 + 1, sizeof *d->items);
    d->todo = memory_alloc_array((size_t)g->node_count + 1, sizeof *d->todo);
    d->holds = memory_alloc_array((size_t)g->node_count + 1, sizeof *d->holds);
    if (!d->first || !d->items || !d->todo || !d->holds)
        return error_set(err, STATUS_NO_MEMORY, "no memory to check a grammar");
    for (uint32_t n = 0; n < g->node_count; n++)
        for (unsigned t = looks_at(g, &g->nodes[n], targets); t-- > 0;)
            d->first[targets[t] + 2]++;
    for (uint32_t n = 2; n <= g->node_count + 1; n++)
        d->first[n] += d->first[n - 1];
    for (uint32_t n = 0; n < g->node_count; n++)
        for (unsigned t = looks_at(g, &g->nodes[n], targets); t-- > 0;)
            d->items[d->first[targets[t] + 1]++] = n;
    return STATUS_OK;
}

static bool now_holds(const struct grammar *g, const struct dependents *d, uint32_t n, enum property property) {
    const struct grammar_node *node = &g->nodes[n];
    switch ((enum grammar_kind)node->kind) {
    case GRAMMAR_END:
        return true;
    case GRAMMAR_BYTES:
        return property == PRODUCTIVE && node->low <= node->high && d->holds[node->next];
    case GRAMMAR_JUMP:
        return d->holds[node->next];
    case GRAMMAR_SPLIT:
        return d->holds[node->next] || d->holds[node->other];
    case GRAMMAR_CALL:
        return d->holds[node->next] && d->holds[g->rules[node->other].start];
    case GRAMMAR_LOOP:
        break;
    }
    const struct grammar_loop *loop = &g->loops[node->other];
    return d->holds[node->next] && (loop->minimum == 0 || d->holds[g->rules[loop->rule].start]);
}

static void find(struct grammar *g, struct dependents *d, enum property property) {
    uint32_t todo = 0;
    memset(d->holds, 0, g->node_count * sizeof *d->holds);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (g->nodes[n].kind == GRAMMAR_END) {
            d->holds[n] = true;
            d->todo[todo++] = n;
        }
    while (todo > 0) {
        uint32_t n = d->todo[--todo];
        for (uint32_t i = d->first[n]; i < d->first[n + 1]; i++) {
            uint32_t user = d->items[i];
            if (!d->holds[user] && now_holds(g, d, user, property)) {
                d->holds[user] = true;
                d->todo[todo++] = user;
            }
        }
    }
    for (uint32_t r = 0; r < g->rule_count; r++)
        *(property == NULLABLE ? &g->rules[r].nullable : &g->rules[r].productive) = d->holds[g->rules[r].start];
    for (uint32_t n = 0; property == PRODUCTIVE && n < g->node_count; n++)
        g->nodes[n].productive = d->holds[n];
}

/* ---- which rule begins with which ---- */

/*
 * Depth-first walk over the nodes that can be reached without a byte, over rules: a node is "open" while it is on the path. Meeting an open
 * node is left recursion. Rules get their ranks backwards, as the walk leaves them.
 */
enum mark { UNSEEN, OPEN, CLOSED };
struct step {
    uint32_t node;
    uint8_t edge;
};

static bool next_without_byte(const struct grammar *g, const struct grammar_node *node, uint8_t edge, uint32_t *target) {
    if (node->kind == GRAMMAR_END || node->kind == GRAMMAR_BYTES || edge > 1)
        return false;
    *target = node->next;
    if (edge == 0)
        return true;
    if (node->kind == GRAMMAR_SPLIT)
        *target = node->other;
    else if (node->kind == GRAMMAR_JUMP)
        return false;
    else
        *target = g->rules[rule_of(g, node)].start;
    return true;
}

/* Whether the walk may take that edge: behind a call only when it can be empty. */
static bool edge_is_open(const struct grammar *g, const struct grammar_node *node, uint8_t edge) {
    if (edge == 0 && node->kind == GRAMMAR_CALL)
        return g->rules[node->other].nullable;
    if (edge == 0 && node->kind == GRAMMAR_LOOP)
        return g->loops[node->other].minimum == 0 || g->rules[g->loops[node->other].rule].nullable;
    return true;
}

static enum status left_recursion(const struct grammar *g, const struct step *path, uint32_t depth, struct error *err) {
    for (uint32_t i = depth; i-- > 0;) /* the innermost rule with a name */
        for (uint32_t r = 0; r < g->rule_count; r++)
            if (g->rules[r].start == path[i].node && g->rules[r].name)
                return error_set(
                    err, STATUS_INVALID,
                    "'%.100s' begins with itself (left recursion), which has no end: put something in front, or write a repeat",
                    g->rules[r].name);
    return error_set(err, STATUS_INVALID, "a rule begins with itself (left recursion), which has no end");
}

static enum status rank_rules(struct grammar *g, struct step *path, uint8_t *marks, uint32_t *of_start, struct error *err) {
    uint32_t rank = g->rule_count;
    for (uint32_t n = 0; n < g->node_count; n++)
        of_start[n] = UINT32_MAX;
    for (uint32_t r = 0; r < g->rule_count; r++) {
        g->rules[r].rank = 0;
        if (of_start[g->rules[r].start] == UINT32_MAX)
            of_start[g->rules[r].start] = r;
    }
    for (uint32_t r = 0; r < g->rule_count; r++) {
        uint32_t depth = 0;
        if (marks[g->rules[r].start] == UNSEEN) {
            path[depth++] = (struct step){g->rules[r].start, 0};
            marks[g->rules[r].start] = OPEN;
        }
        while (depth > 0) {
            struct step *top = &path[depth - 1];
            const struct grammar_node *node = &g->nodes[top->node];
            uint32_t target;
            uint8_t edge = top->edge++;
            if (next_without_byte(g, node, edge, &target)) {
                if (!edge_is_open(g, node, edge))
                    continue;
                if (marks[target] == OPEN)
                    return left_recursion(g, path, depth, err);
                if (marks[target] == UNSEEN) {
                    marks[target] = OPEN;
                    path[depth++] = (struct step){target, 0};
                }
            } else if (edge > 1 || node->kind == GRAMMAR_END || node->kind == GRAMMAR_BYTES || node->kind == GRAMMAR_JUMP) {
                marks[top->node] = CLOSED;
                if (of_start[top->node] != UINT32_MAX)
                    g->rules[of_start[top->node]].rank = --rank;
                depth--;
            }
        }
    }
    return STATUS_OK;
}

static enum status order_rules(struct grammar *g, struct error *err) {
    struct step *path = memory_alloc_array((size_t)g->node_count + 1, sizeof *path);
    uint8_t *marks = memory_alloc_array((size_t)g->node_count + 1, sizeof *marks);
    uint32_t *of_start = memory_alloc_array((size_t)g->node_count + 1, sizeof *of_start);
    enum status status = path && marks && of_start ? rank_rules(g, path, marks, of_start, err)
                                                   : error_set(err, STATUS_NO_MEMORY, "no memory to check a grammar");
    memory_free(path);
    memory_free(marks);
    memory_free(of_start);
    return status;
}

enum status grammar_finish(struct grammar *g, struct error *err) {
    for (uint32_t r = 0; r < g->rule_count; r++)
        if (!g->rules[r].defined)
            grammar_fail(g, STATUS_INVALID, "rule '%.100s' is used and not defined", g->rules[r].name ? g->rules[r].name : "?");
    if (grammar_failed(g)) {
        if (err)
            *err = g->err;
        return g->status;
    }
    CHECK(g->root < g->rule_count);
    struct dependents d = {0};
    enum status status = dependents_init(&d, g, err);
    if (status == STATUS_OK) {
        find(g, &d, NULLABLE);
        find(g, &d, PRODUCTIVE);
        status = order_rules(g, err);
    }
    dependents_deinit(&d);
    TRY(status);
    if (!g->rules[g->root].productive)
        return error_set(err, STATUS_INVALID, "no text has this form: its parts contradict each other or never end");
    return STATUS_OK;
}
