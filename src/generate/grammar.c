/*
 * grammar: building.
 */
#include "generate/grammar.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"

void grammar_init(struct grammar *g) { *g = (struct grammar){0}; }

void grammar_deinit(struct grammar *g) {
    for (uint32_t i = 0; i < g->rule_count; i++)
        memory_free(g->rules[i].name);
    memory_free(g->nodes);
    memory_free(g->rules);
    memory_free(g->loops);
    *g = (struct grammar){0};
}

bool grammar_failed(const struct grammar *g) { return g->status != STATUS_OK; }

void grammar_fail(struct grammar *g, enum status status, const char *format, ...) {
    char text[sizeof g->err.text];
    va_list arguments;
    if (grammar_failed(g))
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    g->status = error_set(&g->err, status, "%s", text);
}

/* Room for one more item; false after a failure. */
static bool make_room(struct grammar *g, void *list_pointer, size_t item_bytes, uint32_t count, uint32_t *capacity) {
    void **list = list_pointer;
    if (grammar_failed(g))
        return false;
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = memory_resize(*list, wanted, item_bytes);
    if (!grown) {
        grammar_fail(g, STATUS_NO_MEMORY, "no memory for a grammar");
        return false;
    }
    *list = grown;
    *capacity = wanted;
    return true;
}

static uint32_t new_node(struct grammar *g, struct grammar_node node) {
    if (g->node_count == GRAMMAR_NODES_MAX)
        grammar_fail(g, STATUS_OVER_BUDGET, "the form is too large: it needs more than %u steps; make it smaller", GRAMMAR_NODES_MAX);
    if (!make_room(g, &g->nodes, sizeof *g->nodes, g->node_count, &g->node_capacity))
        return 0;
    g->nodes[g->node_count] = node;
    return g->node_count++;
}

static void link_to(struct grammar *g, uint32_t end, uint32_t next) {
    if (grammar_failed(g))
        return;
    CHECK(g->nodes[end].kind == GRAMMAR_JUMP);
    g->nodes[end].next = next;
}

static uint32_t new_jump(struct grammar *g) { return new_node(g, (struct grammar_node){.kind = GRAMMAR_JUMP}); }

/* ---- rules ---- */

uint32_t grammar_new_rule(struct grammar *g, struct text name) {
    if (!make_room(g, &g->rules, sizeof *g->rules, g->rule_count, &g->rule_capacity))
        return 0;
    struct grammar_rule rule = {.name = name.data ? memory_copy_text(name.data, name.size_bytes) : NULL};
    if (name.data && !rule.name)
        grammar_fail(g, STATUS_NO_MEMORY, "no memory for the name of a rule");
    g->rules[g->rule_count] = rule;
    return g->rule_count++;
}

void grammar_define(struct grammar *g, uint32_t rule, struct fragment body) {
    if (grammar_failed(g))
        return;
    CHECK(!g->rules[rule].defined && g->nodes[body.end].kind == GRAMMAR_JUMP);
    g->nodes[body.end].kind = GRAMMAR_END;
    g->rules[rule].start = body.start;
    g->rules[rule].defined = true;
}

uint32_t grammar_rule_of(struct grammar *g, struct fragment body) {
    uint32_t rule = grammar_new_rule(g, (struct text){NULL, 0});
    grammar_define(g, rule, body);
    return rule;
}

/* ---- fragments ---- */

struct fragment grammar_nothing(struct grammar *g) {
    uint32_t jump = new_jump(g);
    return (struct fragment){jump, jump};
}

struct fragment grammar_range(struct grammar *g, uint8_t low, uint8_t high) {
    uint32_t end = new_jump(g);
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_BYTES, .low = low, .high = high, .next = end}), end};
}

struct fragment grammar_literal(struct grammar *g, struct text bytes) {
    struct fragment all = {.end = new_jump(g)};
    all.start = all.end;
    for (size_t i = bytes.size_bytes; i-- > 0 && !grammar_failed(g);) {
        uint8_t byte = (uint8_t)bytes.data[i];
        all.start = new_node(g, (struct grammar_node){.kind = GRAMMAR_BYTES, .low = byte, .high = byte, .next = all.start});
    }
    return all;
}

struct fragment grammar_call(struct grammar *g, uint32_t rule) {
    uint32_t end = new_jump(g);
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_CALL, .other = rule, .next = end}), end};
}

struct fragment grammar_join(struct grammar *g, struct fragment a, struct fragment b) {
    link_to(g, a.end, b.start);
    return (struct fragment){a.start, b.end};
}

struct fragment grammar_either(struct grammar *g, struct fragment a, struct fragment b) {
    link_to(g, a.end, b.end);
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_SPLIT, .next = a.start, .other = b.start}), b.end};
}

struct fragment grammar_optional(struct grammar *g, struct fragment a) {
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_SPLIT, .next = a.start, .other = a.end}), a.end};
}

struct fragment grammar_repeat(struct grammar *g, struct fragment a, uint32_t minimum, uint32_t maximum) {
    CHECK(minimum <= maximum);
    if (minimum == 1 && maximum == 1)
        return a;
    if (minimum == 0 && maximum == 1)
        return grammar_optional(g, a);
    uint32_t rule = grammar_rule_of(g, a), end = new_jump(g);
    if (!make_room(g, &g->loops, sizeof *g->loops, g->loop_count, &g->loop_capacity))
        return (struct fragment){0, 0};
    g->loops[g->loop_count++] = (struct grammar_loop){rule, minimum, maximum};
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_LOOP, .other = g->loop_count - 1, .next = end}), end};
}

struct fragment grammar_never(struct grammar *g) {
    uint32_t end = new_jump(g); /* a range without bytes */
    return (struct fragment){new_node(g, (struct grammar_node){.kind = GRAMMAR_BYTES, .low = 1, .high = 0, .next = end}), end};
}
