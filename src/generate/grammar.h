/*
 * grammar: the one form that schemas, regular expressions, GBNF and choices are compiled to: rules over bytes, run by matcher.h.
 *
 * Model       nodes are a graph of steps; a rule is a node to start at, and ends at GRAMMAR_END. A *fragment* is a piece under
 * construction: it begins at `start` and leaves through the jump `end`; it is used once. Repeats are loops with counts, so that {0,10000}
 *             costs no more than {0,1}.
 * Text        bytes are UTF-8, so 0xf5 to 0xff never occur in text: 0xff opens a control token (its spelling, closed by 0xfe), which only
 *             the reply forms of this program write.
 * Failure     sticky: the first failure is kept, later calls do nothing, grammar_finish returns it.
 * Limits      GRAMMAR_NODES_MAX nodes, repeats up to GRAMMAR_REPEAT_MAX.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"

#define GRAMMAR_NODES_MAX (1u << 18)
#define GRAMMAR_REPEAT_MAX 1000000u
#define GRAMMAR_UNBOUNDED UINT32_MAX
#define GRAMMAR_CONTROL_OPEN 0xff
#define GRAMMAR_CONTROL_CLOSE 0xfe

enum grammar_kind {
    GRAMMAR_END,   /* of the rule */
    GRAMMAR_BYTES, /* one byte of [low, high] */
    GRAMMAR_JUMP,
    GRAMMAR_SPLIT, /* next or other */
    GRAMMAR_CALL,  /* rule `other`, then next */
    GRAMMAR_LOOP,  /* loop `other`, then next */
};

struct grammar_node {
    uint8_t kind, low, high;
    bool productive; /* something can follow to the end of the rule */
    uint32_t next, other;
};
struct grammar_loop {
    uint32_t rule, minimum, maximum; /* of the body; GRAMMAR_UNBOUNDED */
};
struct grammar_rule {
    char *name; /* NULL: made by the program */
    uint32_t start;
    uint32_t rank; /* of finish: a rule that begins with another stands before it */
    bool defined, nullable, productive;
};

struct grammar {
    struct grammar_node *nodes;
    struct grammar_rule *rules;
    struct grammar_loop *loops;
    uint32_t node_count, node_capacity, rule_count, rule_capacity, loop_count, loop_capacity;
    uint32_t root; /* set before finish */
    enum status status;
    struct error err;
};

struct fragment {
    uint32_t start, end;
};

void grammar_init(struct grammar *grammar);
void grammar_deinit(struct grammar *grammar);
/* Keeps the first failure. */
void grammar_fail(struct grammar *grammar, enum status status, const char *format, ...) PRINTF_LIKE(3, 4);
bool grammar_failed(const struct grammar *grammar);

/* name may be NULL. A rule is called before or after it is defined. */
uint32_t grammar_new_rule(struct grammar *grammar, struct text name);
void grammar_define(struct grammar *grammar, uint32_t rule, struct fragment body);
/* A new rule of that body. */
uint32_t grammar_rule_of(struct grammar *grammar, struct fragment body);

struct fragment grammar_nothing(struct grammar *grammar);
struct fragment grammar_literal(struct grammar *grammar, struct text bytes);
struct fragment grammar_range(struct grammar *grammar, uint8_t low, uint8_t high);
struct fragment grammar_call(struct grammar *grammar, uint32_t rule);
struct fragment grammar_join(struct grammar *grammar, struct fragment a, struct fragment b);
struct fragment grammar_either(struct grammar *grammar, struct fragment a, struct fragment b);
struct fragment grammar_optional(struct grammar *grammar, struct fragment a);
/* minimum <= maximum, both up to GRAMMAR_REPEAT_MAX, or maximum GRAMMAR_UNBOUNDED. */
struct fragment grammar_repeat(struct grammar *grammar, struct fragment a, uint32_t minimum, uint32_t maximum);
/* Something that never matches, to begin a list of alternatives with. */
struct fragment grammar_never(struct grammar *grammar);

/*
 * Checks the whole and computes what the matcher needs. STATUS_INVALID: a rule is not defined, begins with itself (left recursion), or
 * nothing matches the root.
 */
MUST_CHECK enum status grammar_finish(struct grammar *grammar, struct error *err);
