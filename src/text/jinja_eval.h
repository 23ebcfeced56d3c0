/*
 * jinja_eval: walks the syntax tree.
 *
 * Scopes     a frame per for iteration, macro call, with, block set, filter block and call block; `if` has none. A macro sees the frame
 *            in which it was defined (by reference), not its caller's.
 * Lines      run->line follows jinja2: the line of the statement, or of the printed expression, that runs.
 */
#pragma once

#include "text/jinja_ast.h"

/* Head of a native function: see jinja_function for its arguments, of which it may leave some unused. */
#define JINJA_FUNCTION(name)                                                                                                           \
    static struct jinja_value name(struct jinja_run *run __attribute__((unused)), const struct jinja_value *a __attribute__((unused)), \
                                   const struct jinja_arguments *raw __attribute__((unused)))

struct jinja_macro {
    const struct jinja_node *node; /* NODE_MACRO or NODE_CALL_BLOCK */
    struct jinja_frame *frame;     /* where it was defined */
};

struct jinja_loop {
    const struct jinja_node *node;   /* NODE_FOR */
    struct jinja_frame *frame;       /* around the loop */
    const struct jinja_value *items; /* NULL: those of `range` */
    const struct jinja_range *range;
    size_t count, index0, depth0;
    struct jinja_list *changed; /* arguments of the last loop.changed, or NULL */
};

static inline struct jinja_value jinja_loop_item(const struct jinja_loop *loop, size_t index) {
    return loop->items ? loop->items[index] : jinja_int(loop->range->start + (int64_t)index * loop->range->step);
}

struct jinja_value jinja_evaluate(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame);
/* Calls a native function, macro, loop, ...; fails for what cannot be called. */
struct jinja_value jinja_invoke(struct jinja_run *run, struct jinja_value callee, const struct jinja_arguments *arguments);
/* Binds arguments to the row's parameters behind `self` and calls it. */
struct jinja_value jinja_call_native(struct jinja_run *run, const struct jinja_native_row *row, struct jinja_value self,
                                     const struct jinja_arguments *arguments);
/* Runs statements, appending to `out`. */
enum jinja_flow { JINJA_FLOW_NEXT, JINJA_FLOW_BREAK, JINJA_FLOW_CONTINUE };
enum jinja_flow jinja_execute(struct jinja_run *run, struct jinja_nodes body, struct jinja_frame *frame, struct jinja_builder *out);
struct jinja_value jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_arguments *arguments);
struct jinja_value jinja_call_loop(struct jinja_run *run, const struct jinja_loop *loop, struct jinja_value iterable);
struct jinja_value jinja_call_block(struct jinja_run *run, const struct jinja_node *block);
struct jinja_frame *jinja_frame_new(struct jinja_run *run, struct jinja_frame *parent);

/* a.name and a[key] with jinja2's order of attributes and items. */
struct jinja_value jinja_attribute(struct jinja_run *run, struct jinja_value object, const struct jinja_string *name);
struct jinja_value jinja_item(struct jinja_run *run, struct jinja_value object, struct jinja_value key);
/* begin, end, step: NONE when left out. */
struct jinja_value jinja_slice(struct jinja_run *run, struct jinja_value object, const struct jinja_value parts[3]);
struct jinja_value jinja_binary(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b);
struct jinja_value jinja_sign(struct jinja_run *run, bool negate, struct jinja_value a);
bool jinja_compare(struct jinja_run *run, char op, struct jinja_value a, struct jinja_value b);
bool jinja_contains(struct jinja_run *run, struct jinja_value item, struct jinja_value container);
/* Fails with the words of an undefined value. */
struct jinja_value jinja_fail_undefined(struct jinja_run *run, struct jinja_value undefined);

/* Bound method or computed attribute of a built-in type; ABSENT: the type has none of that name. */
struct jinja_value jinja_builtin_attribute(struct jinja_run *run, struct jinja_value object, struct text name);
/* Global function of that name; ABSENT: none. */
struct jinja_value jinja_global(struct jinja_run *run, struct text name);
/* Sorts items by their keys, stable; fails for keys without order. Reorders both arrays. */
void jinja_sort(struct jinja_run *run, struct jinja_value *items, struct jinja_value *keys, size_t count, bool reverse);
/* json.dumps(v); from_json. */
extern const struct jinja_native_row jinja_tojson_row, jinja_from_json_row;
const struct jinja_native_row *jinja_string_method(struct text name); /* NULL: str has none of that name */
bool jinja_is_filter_name(struct text name);
bool jinja_is_test_name(struct text name);
