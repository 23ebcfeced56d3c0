/* jinja_eval: expressions, and calls with their arguments. */
#include "text/jinja_eval.h"

#include <string.h>

#include "base/check.h"
#include "text/jinja_print.h"

static struct jinja_value evaluate_deep(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame);

struct jinja_value jinja_evaluate(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value value = JINJA_NOTHING;
    if (!node || !jinja_step(run, 1))
        return value;
    if (node->kind == NODE_CONSTANT)
        return node->constant;
    if (jinja_enter(run))
        value = evaluate_deep(run, node, frame);
    jinja_leave(run);
    return run->failed ? JINJA_NOTHING : value;
}

static struct jinja_value evaluate_name(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    const struct jinja_value *found = jinja_frame_find(frame, node->name);
    if (found)
        return *found;
    struct jinja_value global = jinja_global(run, node->name);
    if (global.kind != JINJA_ABSENT)
        return global;
    return jinja_undefined(run, false, "'%.*s' is undefined", TEXT_ARGUMENTS(node->name));
}

static struct jinja_value evaluate_list(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_list *list = jinja_list_new(run, node->items.count);
    for (uint32_t i = 0; i < node->items.count && !run->failed; i++)
        jinja_list_append(run, list, jinja_evaluate(run, node->items.items[i], frame));
    return jinja_list_value(node->kind == NODE_TUPLE ? JINJA_TUPLE : JINJA_LIST, list);
}

static struct jinja_value evaluate_dict(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_dict *dict = jinja_dict_new(run);
    for (uint32_t i = 0; i + 1 < node->items.count && !run->failed; i += 2) {
        struct jinja_value key = jinja_evaluate(run, node->items.items[i], frame);
        jinja_dict_set(run, dict, key, jinja_evaluate(run, node->items.items[i + 1], frame));
    }
    return jinja_dict_value(dict);
}

static struct jinja_value evaluate_slice(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value object = jinja_evaluate(run, node->a, frame), parts[3];
    for (unsigned i = 0; i < 3; i++)
        parts[i] = jinja_evaluate(run, node->items.items[i], frame); /* NULL gives none */
    return jinja_slice(run, object, parts);
}

static struct jinja_value evaluate_concat(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_builder b = jinja_builder_start(run);
    for (uint32_t i = 0; i < node->items.count && !run->failed; i++)
        jinja_put_str(&b, jinja_evaluate(run, node->items.items[i], frame));
    return jinja_string_value(jinja_builder_take(&b));
}

static struct jinja_value evaluate_compare(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value left = jinja_evaluate(run, node->a, frame);
    bool holds = true;
    for (uint32_t i = 0; i < node->items.count && holds && !run->failed; i++) {
        struct jinja_value right = jinja_evaluate(run, node->items.items[i], frame);
        holds = jinja_compare(run, node->ops[i], left, right);
        left = right;
    }
    return jinja_bool(holds);
}

static void add_dynamic(struct jinja_run *run, struct jinja_value v, struct jinja_list *values) {
    const struct jinja_list *items = jinja_items(run, v);
    for (size_t i = 0; items && i < items->count && !run->failed; i++)
        jinja_list_append(run, values, items->items[i]);
}

/* Arguments of a call, evaluated; `call` may be NULL. */
static struct jinja_arguments evaluate_arguments(struct jinja_run *run, const struct jinja_call *call, struct jinja_frame *frame) {
    struct jinja_arguments arguments = {0};
    if (!call)
        return arguments;
    struct jinja_list *values = jinja_list_new(run, call->positional.count);
    for (uint32_t i = 0; i < call->positional.count && !run->failed; i++)
        jinja_list_append(run, values, jinja_evaluate(run, call->positional.items[i], frame));
    if (call->list)
        add_dynamic(run, jinja_evaluate(run, call->list, frame), values);
    struct jinja_dict *named = jinja_dict_new(run);
    for (uint32_t i = 0; i < call->named.count && !run->failed; i++)
        jinja_dict_set(run, named, jinja_string_value(jinja_string_new(run, call->names[i].data, call->names[i].size_bytes, JINJA_TRUSTED)),
                       jinja_evaluate(run, call->named.items[i], frame));
    if (call->dict) {
        struct jinja_value more = jinja_evaluate(run, call->dict, frame);
        if (!run->failed && more.kind != JINJA_DICT)
            jinja_fail(run, JINJA_TYPE, "argument after ** must be a mapping, not %s", jinja_type_name(more));
        for (size_t i = 0; !run->failed && i < more.dict->used; i++)
            if (!more.dict->entries[i].removed)
                jinja_dict_set(run, named, more.dict->entries[i].key, more.dict->entries[i].value);
    }
    const struct jinja_string **names = jinja_alloc(run, ((named ? named->used : 0) + 1) * sizeof *names);
    struct jinja_value *named_values = jinja_alloc(run, ((named ? named->used : 0) + 1) * sizeof *named_values);
    if (run->failed || !values || !names || !named_values)
        return arguments;
    for (size_t i = 0; i < named->used && !run->failed; i++) {
        if (named->entries[i].key.kind != JINJA_STRING)
            jinja_fail(run, JINJA_TYPE, "keywords must be strings");
        names[i] = named->entries[i].key.string;
        named_values[i] = named->entries[i].value;
    }
    return (struct jinja_arguments){values->items, values->count, names, named_values, named->used};
}

/* Index of the parameter named `name` in "a,b,c", or -1. */
static int parameter_index(const char *parameters, struct text name) {
    int index = 0;
    for (const char *at = parameters; *at; index++) {
        size_t size = strcspn(at, ",");
        if (text_equal((struct text){at, size}, name))
            return index;
        at += size + (at[size] == ',');
    }
    return -1;
}

static size_t parameter_count(const char *parameters) {
    size_t count = *parameters != 0;
    for (; *parameters; parameters++)
        count += *parameters == ',';
    return count;
}

struct jinja_value jinja_call_native(struct jinja_run *run, const struct jinja_native_row *row, struct jinja_value self,
                                     const struct jinja_arguments *arguments) {
    struct jinja_value bound[1 + JINJA_PARAMETERS_MAX] = {[0] = self}; /* the rest is ABSENT, which is 0 */
    struct jinja_value result = JINJA_NOTHING;
    if (run->failed)
        return result;
    if (row->parameters) {
        size_t count = parameter_count(row->parameters);
        CHECK(count <= JINJA_PARAMETERS_MAX);
        if (arguments->count > count)
            return jinja_fail(run, JINJA_TYPE, "%s() takes at most %zu arguments (%zu given)", row->name, count, arguments->count);
        for (size_t i = 0; i < arguments->count; i++)
            bound[1 + i] = arguments->values[i];
        for (size_t i = 0; i < arguments->named_count; i++) {
            struct text name = jinja_string_text(arguments->names[i]);
            int index = parameter_index(row->parameters, name);
            if (index < 0)
                return jinja_fail(run, JINJA_TYPE, "%s() got an unexpected keyword argument '%.*s'", row->name, TEXT_ARGUMENTS(name));
            if (bound[1 + index].kind != JINJA_ABSENT)
                return jinja_fail(run, JINJA_TYPE, "%s() got multiple values for argument '%.*s'", row->name, TEXT_ARGUMENTS(name));
            bound[1 + index] = arguments->named[i];
        }
        for (unsigned i = 0; i < row->required; i++)
            if (bound[1 + i].kind == JINJA_ABSENT)
                return jinja_fail(run, JINJA_TYPE, "%s() is missing a required argument", row->name);
    }
    if (jinja_enter(run))
        result = row->call(run, bound, arguments);
    jinja_leave(run);
    return run->failed ? JINJA_NOTHING : result;
}

struct jinja_value jinja_invoke(struct jinja_run *run, struct jinja_value callee, const struct jinja_arguments *arguments) {
    if (run->failed)
        return JINJA_NOTHING;
    switch (callee.kind) {
    case JINJA_UNDEFINED:
        return jinja_fail_undefined(run, callee);
    case JINJA_NATIVE:
        return jinja_call_native(run, callee.native->row, callee.native->self, arguments);
    case JINJA_MACRO:
        return jinja_call_macro(run, callee.macro, arguments);
    case JINJA_BLOCK:
        return jinja_call_block(run, callee.block);
    case JINJA_LOOP:
        if (!callee.loop->node->flag)
            return jinja_fail(run, JINJA_TYPE, "The loop must have the 'recursive' marker to be called recursively.");
        if (arguments->count != 1 || arguments->named_count)
            return jinja_fail(run, JINJA_TYPE, "loop() takes one argument");
        return jinja_call_loop(run, callee.loop, arguments->values[0]);
    case JINJA_JOINER:
        if (callee.cycler->used)
            return callee.cycler->separator;
        callee.cycler->used = true;
        return jinja_text(run, "", JINJA_TRUSTED);
    default:
        return jinja_fail(run, JINJA_TYPE, "'%s' object is not callable", jinja_type_name(callee));
    }
}

static struct jinja_value evaluate_call(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value callee = jinja_evaluate(run, node->a, frame);
    struct jinja_arguments arguments = evaluate_arguments(run, node->call, frame);
    return jinja_invoke(run, callee, &arguments);
}

static struct jinja_value evaluate_filter(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value input = jinja_evaluate(run, node->a, frame);
    if (!node->a) { /* innermost filter of a block: its text was put into the frame */
        const struct jinja_value *body = jinja_frame_find(frame, TEXT(" body"));
        input = body ? *body : JINJA_NOTHING;
    }
    const struct jinja_native_row *row = node->row;
    if (!row && run->limits.allow_mutation && (text_is(node->name, "from_json") || text_is(node->name, "fromjson")))
        row = &jinja_from_json_row;
    if (!row)
        return jinja_fail(run, JINJA_TYPE, "No filter named '%.*s' found.", TEXT_ARGUMENTS(node->name));
    struct jinja_arguments arguments = evaluate_arguments(run, node->call, frame);
    return jinja_call_native(run, row, input, &arguments);
}

static struct jinja_value evaluate_test(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value input = jinja_evaluate(run, node->a, frame);
    if (!node->row)
        return jinja_fail(run, JINJA_TYPE, "No test named '%.*s' found.", TEXT_ARGUMENTS(node->name));
    struct jinja_arguments arguments = evaluate_arguments(run, node->call, frame);
    return jinja_call_native(run, node->row, input, &arguments);
}

static struct jinja_value evaluate_condition(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    if (jinja_truth(jinja_evaluate(run, node->b, frame)))
        return jinja_evaluate(run, node->a, frame);
    if (node->c || run->failed)
        return jinja_evaluate(run, node->c, frame);
    return jinja_undefined(run, false, "the inline if-expression on line %u evaluated to false and no else section was defined.",
                           node->line);
}

/* Left-deep chains (a + b + c ...) are walked without one level of depth for each. */
static struct jinja_value evaluate_binary(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    const struct jinja_node *spine[64];
    size_t count = 0;
    while (node->kind == NODE_BINARY && count < sizeof spine / sizeof *spine) {
        spine[count++] = node;
        node = node->a;
    }
    struct jinja_value left = jinja_evaluate(run, node, frame);
    while (count > 0 && !run->failed) {
        const struct jinja_node *binary = spine[--count];
        left = jinja_binary(run, binary->op, left, jinja_evaluate(run, binary->b, frame));
    }
    return left;
}

static struct jinja_value evaluate_attribute(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value object = jinja_evaluate(run, node->a, frame);
    struct jinja_string name = {.data = node->name.data, .size_bytes = node->name.size_bytes, .trust = JINJA_TRUSTED};
    return jinja_attribute(run, object, &name);
}

static struct jinja_value evaluate_deep(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_value left;
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_CONSTANT:
        return node->constant;
    case NODE_NAME:
        return evaluate_name(run, node, frame);
    case NODE_LIST:
    case NODE_TUPLE:
        return evaluate_list(run, node, frame);
    case NODE_DICT:
        return evaluate_dict(run, node, frame);
    case NODE_ATTRIBUTE:
        return evaluate_attribute(run, node, frame);
    case NODE_ITEM:
        left = jinja_evaluate(run, node->a, frame);
        return jinja_item(run, left, jinja_evaluate(run, node->b, frame));
    case NODE_SLICE:
        return evaluate_slice(run, node, frame);
    case NODE_CALL:
        return evaluate_call(run, node, frame);
    case NODE_FILTER:
        return evaluate_filter(run, node, frame);
    case NODE_TEST:
        return evaluate_test(run, node, frame);
    case NODE_NOT:
        return jinja_bool(!jinja_truth(jinja_evaluate(run, node->a, frame)));
    case NODE_NEGATE:
        return jinja_sign(run, true, jinja_evaluate(run, node->a, frame));
    case NODE_PLUS:
        return jinja_sign(run, false, jinja_evaluate(run, node->a, frame));
    case NODE_AND:
        left = jinja_evaluate(run, node->a, frame);
        return jinja_truth(left) ? jinja_evaluate(run, node->b, frame) : left;
    case NODE_OR:
        left = jinja_evaluate(run, node->a, frame);
        return jinja_truth(left) ? left : jinja_evaluate(run, node->b, frame);
    case NODE_BINARY:
        return evaluate_binary(run, node, frame);
    case NODE_CONCAT:
        return evaluate_concat(run, node, frame);
    case NODE_COMPARE:
        return evaluate_compare(run, node, frame);
    case NODE_CONDITION:
        return evaluate_condition(run, node, frame);
    default:
        CHECK(node->kind < NODE_OUTPUT);
        return JINJA_NOTHING; /* statements are executed, not evaluated */
    }
}
