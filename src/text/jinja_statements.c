/* jinja_statements: statements, loops and macros. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "text/jinja_eval.h"
#include "text/jinja_print.h"

static void at_line(struct jinja_run *run, const struct jinja_node *node) {
    if (run->failed)
        return;
    run->line = node->line;
    run->column = node->column;
}

struct jinja_frame *jinja_frame_new(struct jinja_run *run, struct jinja_frame *parent) {
    struct jinja_frame *frame = jinja_alloc(run, sizeof *frame);
    if (frame)
        frame->parent = parent;
    return frame;
}

/* ---- assignment ---- */

/* Fails when `target` has an attribute of something that is no namespace; jinja2 looks before it evaluates the value. */
static void check_target(struct jinja_run *run, const struct jinja_node *target, struct jinja_frame *frame) {
    for (uint32_t i = 0; target->kind == NODE_TUPLE && i < target->items.count; i++)
        if (target->items.items[i]->kind != NODE_TUPLE)
            check_target(run, target->items.items[i], frame);
    const struct jinja_value *space = target->kind == NODE_NAMESPACE_ATTRIBUTE ? jinja_frame_find(frame, target->name) : NULL;
    if (target->kind == NODE_NAMESPACE_ATTRIBUTE && (!space || space->kind != JINJA_NAMESPACE))
        jinja_fail(run, JINJA_TYPE, "cannot assign attribute on non-namespace object");
}

static void assign_attribute(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value, struct jinja_frame *frame) {
    const struct jinja_value *space = jinja_frame_find(frame, target->name);
    if (!space || space->kind != JINJA_NAMESPACE) {
        jinja_fail(run, JINJA_TYPE, "cannot assign attribute on non-namespace object");
        return;
    }
    if (text_starts_with(target->text, TEXT("_"))) {
        jinja_fail(run, JINJA_SECURITY, "attributes of a namespace cannot begin with an underscore: '%.*s'", TEXT_ARGUMENTS(target->text));
        return;
    }
    jinja_dict_set(run, space->dict, jinja_string_value(jinja_string_new(run, target->text.data, target->text.size_bytes, JINJA_TRUSTED)),
                   value);
}

static void assign(struct jinja_run *run, const struct jinja_node *target, struct jinja_value value, struct jinja_frame *frame) {
    if (run->failed)
        return;
    if (target->kind == NODE_NAME) {
        jinja_frame_set(run, frame, target->name, value);
    } else if (target->kind == NODE_NAMESPACE_ATTRIBUTE) {
        assign_attribute(run, target, value, frame);
    } else {
        CHECK(target->kind == NODE_TUPLE);
        if (!jinja_iterable(value))
            jinja_fail(run, JINJA_TYPE, "cannot unpack non-iterable %s object", jinja_type_name(value));
        const struct jinja_list *items = jinja_items(run, value);
        if (items && items->count != target->items.count)
            jinja_fail(run, JINJA_TYPE, "%s values to unpack (expected %u)", items->count < target->items.count ? "not enough" : "too many",
                       target->items.count);
        if (jinja_enter(run))
            for (uint32_t i = 0; items && i < target->items.count && !run->failed; i++)
                assign(run, target->items.items[i], items->items[i], frame);
        jinja_leave(run);
    }
}

/* ---- loops ---- */

/* Items of the loop that pass its condition; the condition has a scope of its own. */
static struct jinja_list *loop_items(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                     struct jinja_value iterable) {
    if (iterable.kind != JINJA_UNDEFINED && !jinja_iterable(iterable)) {
        jinja_fail(run, JINJA_TYPE, "'%s' object is not iterable", jinja_type_name(iterable));
        return NULL;
    }
    struct jinja_list *items = jinja_items(run, iterable);
    if (!node->c || !items)
        return items;
    struct jinja_list *kept = jinja_list_new(run, 0);
    for (size_t i = 0; i < items->count && !run->failed; i++) {
        struct jinja_frame *test = jinja_frame_new(run, frame);
        if (!test)
            return NULL;
        assign(run, node->a, items->items[i], test);
        at_line(run, node->c);
        if (jinja_truth(jinja_evaluate(run, node->c, test)))
            jinja_list_append(run, kept, items->items[i]);
    }
    return run->failed ? NULL : kept;
}

static enum jinja_flow run_loop(struct jinja_run *run, struct jinja_loop *loop, struct jinja_builder *out) {
    const struct jinja_node *node = loop->node;
    struct jinja_value value = {.kind = JINJA_LOOP, .loop = loop};
    bool completed = false; /* some iteration came to the end of the body: jinja2's condition for leaving out the else part */
    struct jinja_frame *frame = NULL;
    for (loop->index0 = 0; loop->index0 < loop->count && jinja_step(run, 1); loop->index0++) {
        if (!frame || frame->captured)
            frame = jinja_frame_new(run, loop->frame);
        if (!frame)
            break;
        frame->count = 0;
        at_line(run, node);
        jinja_frame_set(run, frame, TEXT("loop"), value);
        assign(run, node->a, jinja_loop_item(loop, loop->index0), frame);
        enum jinja_flow flow = jinja_execute(run, node->body, frame, out);
        if (flow == JINJA_FLOW_BREAK)
            break;
        completed = completed || flow == JINJA_FLOW_NEXT;
    }
    if (completed || !node->other.count || run->failed)
        return JINJA_FLOW_NEXT;
    frame = jinja_frame_new(run, loop->frame);
    return frame ? jinja_execute(run, node->other, frame, out) : JINJA_FLOW_NEXT;
}

static struct jinja_loop *loop_new(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                   struct jinja_value iterable) {
    bool lazy = iterable.kind == JINJA_RANGE && !node->c;
    const struct jinja_list *items = lazy ? NULL : loop_items(run, node, frame, iterable);
    struct jinja_loop *loop = items || lazy ? jinja_alloc(run, sizeof *loop) : NULL;
    if (!loop)
        return NULL;
    *loop = (struct jinja_loop){.node = node, .frame = frame};
    if (lazy)
        loop->range = iterable.range, loop->count = (size_t)iterable.range->count;
    else
        loop->items = items->items, loop->count = items->count;
    frame->captured = frame->captured || node->flag;
    return loop;
}

static enum jinja_flow execute_for(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                   struct jinja_builder *out) {
    struct jinja_loop *loop = loop_new(run, node, frame, jinja_evaluate(run, node->b, frame));
    enum jinja_flow flow = loop ? run_loop(run, loop, out) : JINJA_FLOW_NEXT;
    return node->flag ? JINJA_FLOW_NEXT : flow; /* a break in the else part belongs to the loop around */
}

struct jinja_value jinja_call_loop(struct jinja_run *run, const struct jinja_loop *outer, struct jinja_value iterable) {
    uint32_t line = run->line, column = run->column;
    struct jinja_loop *loop = loop_new(run, outer->node, outer->frame, iterable);
    struct jinja_builder out = jinja_builder_start(run);
    if (loop) {
        loop->depth0 = outer->depth0 + 1;
        (void)run_loop(run, loop, &out);
    }
    if (!run->failed)
        run->line = line, run->column = column;
    return jinja_string_value(jinja_builder_take(&out));
}

/* ---- macros ---- */

static const struct jinja_value *keyword(const struct jinja_arguments *arguments, bool *used, struct text name) {
    for (size_t i = 0; i < arguments->named_count; i++) {
        if (text_equal(jinja_string_text(arguments->names[i]), name)) {
            used[i] = true;
            return &arguments->named[i];
        }
    }
    return NULL;
}

/* Parameters, with defaults evaluated in the macro's own scope. */
static void bind_parameters(struct jinja_run *run, const struct jinja_node *node, const struct jinja_arguments *arguments, bool *used,
                            struct jinja_frame *frame) {
    uint32_t count = node->items.count, first_default = count - node->more.count;
    for (uint32_t i = 0; i < count && !run->failed; i++) {
        struct text name = node->items.items[i]->name;
        const struct jinja_value *given = i < arguments->count ? &arguments->values[i] : keyword(arguments, used, name);
        struct jinja_value value;
        if (given)
            value = *given;
        else if (i >= first_default)
            value = jinja_evaluate(run, node->more.items[i - first_default], frame);
        else
            value = jinja_undefined(run, false, "parameter '%.*s' was not provided", TEXT_ARGUMENTS(name));
        jinja_frame_set(run, frame, name, value);
    }
}

/* caller, kwargs and varargs, for bodies that use them; fails for arguments that nothing takes. */
static void bind_special(struct jinja_run *run, const struct jinja_node *node, const struct jinja_arguments *arguments, bool *used,
                         struct jinja_frame *frame) {
    if ((node->flag & JINJA_USES_CALLER) &&
        !jinja_frame_find(&(struct jinja_frame){.variables = frame->variables, .count = frame->count}, TEXT("caller"))) {
        const struct jinja_value *caller = keyword(arguments, used, TEXT("caller"));
        jinja_frame_set(run, frame, TEXT("caller"), caller ? *caller : jinja_undefined(run, false, "No caller defined"));
    }
    struct jinja_dict *rest = jinja_dict_new(run);
    for (size_t i = 0; i < arguments->named_count && !run->failed; i++) {
        if (used[i])
            continue;
        if (!(node->flag & JINJA_USES_KWARGS))
            jinja_fail(run, JINJA_TYPE, "macro '%.*s' takes no keyword argument '%.*s'", TEXT_ARGUMENTS(node->name),
                       TEXT_ARGUMENTS(jinja_string_text(arguments->names[i])));
        jinja_dict_set(run, rest, jinja_string_value(arguments->names[i]), arguments->named[i]);
    }
    if (node->flag & JINJA_USES_KWARGS)
        jinja_frame_set(run, frame, TEXT("kwargs"), jinja_dict_value(rest));
    if (node->flag & JINJA_USES_VARARGS) {
        struct jinja_list *more = jinja_list_new(run, 0);
        for (size_t i = node->items.count; i < arguments->count; i++)
            jinja_list_append(run, more, arguments->values[i]);
        jinja_frame_set(run, frame, TEXT("varargs"), jinja_list_value(JINJA_TUPLE, more));
    } else if (arguments->count > node->items.count) {
        jinja_fail(run, JINJA_TYPE, "macro '%.*s' takes not more than %u argument(s)", TEXT_ARGUMENTS(node->name), node->items.count);
    }
}

struct jinja_value jinja_call_macro(struct jinja_run *run, const struct jinja_macro *macro, const struct jinja_arguments *arguments) {
    const struct jinja_node *node = macro->node;
    struct jinja_frame *frame = jinja_frame_new(run, macro->frame);
    bool *used = jinja_alloc(run, arguments->named_count + 1);
    struct jinja_builder out = jinja_builder_start(run);
    if (!frame || !used)
        return JINJA_NOTHING;
    struct jinja_arguments positional = *arguments;
    uint32_t line = run->line, column = run->column;
    if (positional.count > node->items.count && !(node->flag & JINJA_USES_VARARGS)) { /* before any default runs, as the caller's fault */
        bind_special(run, node, &positional, used, frame);
        return JINJA_NOTHING;
    }
    for (uint32_t i = 0; i < node->items.count && i < positional.count; i++) {
        struct text name = node->items.items[i]->name;
        bool twice = false;
        for (size_t k = 0; k < positional.named_count; k++)
            twice = twice || text_equal(jinja_string_text(positional.names[k]), name);
        if (twice && !(node->flag & JINJA_USES_KWARGS))
            return jinja_fail(run, JINJA_TYPE, "macro '%.*s' takes no keyword argument '%.*s'", TEXT_ARGUMENTS(node->name),
                              TEXT_ARGUMENTS(name));
    }
    at_line(run, node);
    bind_parameters(run, node, &positional, used, frame);
    if (!run->failed)
        run->line = line, run->column = column;
    bind_special(run, node, &positional, used, frame);
    at_line(run, node);
    (void)jinja_execute(run, node->body, frame, &out);
    if (!run->failed)
        run->line = line, run->column = column;
    return jinja_string_value(jinja_builder_take(&out));
}

static struct jinja_value macro_value(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame) {
    struct jinja_macro *macro = jinja_alloc(run, sizeof *macro);
    if (!macro)
        return JINJA_NOTHING;
    *macro = (struct jinja_macro){.node = node, .frame = frame};
    frame->captured = true;
    return (struct jinja_value){.kind = JINJA_MACRO, .macro = macro};
}

/* {% call f(x) %}body{% endcall %}: f gets the body as the keyword argument "caller". */
static void execute_call_block(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame, struct jinja_builder *out) {
    struct jinja_frame *inner = jinja_frame_new(run, frame);
    if (!inner)
        return;
    struct jinja_frame *caller_frame = frame;
    jinja_frame_set(run, inner, TEXT(" caller"), macro_value(run, node, caller_frame));
    struct jinja_node caller_name = {.kind = NODE_NAME, .line = node->line, .column = node->column, .name = TEXT(" caller")};
    struct jinja_call call = node->a->call ? *node->a->call : (struct jinja_call){0};
    uint32_t count = call.named.count;
    struct text *names = jinja_alloc(run, (count + 1) * sizeof *names);
    struct jinja_node **named = jinja_alloc(run, (count + 1) * sizeof *named);
    if (!names || !named)
        return;
    for (uint32_t i = 0; i < count; i++)
        names[i] = call.names[i], named[i] = call.named.items[i];
    names[count] = TEXT("caller");
    named[count] = &caller_name;
    call.names = names;
    call.named = (struct jinja_nodes){named, count + 1};
    struct jinja_node call_node = *node->a;
    call_node.call = &call;
    at_line(run, node);
    jinja_put_str(out, jinja_evaluate(run, &call_node, inner));
}

struct jinja_value jinja_call_block(struct jinja_run *run, const struct jinja_node *block) {
    uint32_t line = run->line, column = run->column;
    struct jinja_builder out = jinja_builder_start(run);
    struct jinja_frame *frame = jinja_frame_new(run, &run->top); /* a block sees the template's variables, not those around it */
    if (frame)
        (void)jinja_execute(run, block->body, frame, &out);
    if (!run->failed)
        run->line = line, run->column = column;
    return jinja_string_value(jinja_builder_take(&out));
}

/* ---- other statements ---- */

static void execute_output(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame, struct jinja_builder *out) {
    for (uint32_t i = 0; i < node->items.count && !run->failed; i++) {
        const struct jinja_node *item = node->items.items[i];
        if (item->kind == NODE_DATA) {
            jinja_put(out, item->text.data, item->text.size_bytes, JINJA_TRUSTED);
            continue;
        }
        at_line(run, item);
        struct jinja_value value = jinja_evaluate(run, item, frame);
        if (!run->failed)
            jinja_put_str(out, value);
    }
}

/* Body rendered into a string that filter chains find under a name no template can write. */
static enum jinja_flow capture(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame, struct jinja_value *text) {
    struct jinja_builder body = jinja_builder_start(run);
    struct jinja_frame *inner = jinja_frame_new(run, frame);
    enum jinja_flow flow = inner ? jinja_execute(run, node->body, inner, &body) : JINJA_FLOW_NEXT;
    *text = jinja_string_value(jinja_builder_take(&body));
    if (node->b && inner && !run->failed && flow == JINJA_FLOW_NEXT) {
        at_line(run, node);
        jinja_frame_set(run, inner, TEXT(" body"), *text);
        *text = jinja_evaluate(run, node->b, inner);
    }
    return flow;
}

static enum jinja_flow execute_with(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                    struct jinja_builder *out) {
    struct jinja_frame *inner = jinja_frame_new(run, frame);
    for (uint32_t i = 0; inner && i < node->items.count && !run->failed; i++)
        jinja_frame_set(run, inner, node->items.items[i]->name, jinja_evaluate(run, node->more.items[i], frame));
    return inner ? jinja_execute(run, node->body, inner, out) : JINJA_FLOW_NEXT;
}

static enum jinja_flow execute_if(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                  struct jinja_builder *out) {
    for (;;) {
        at_line(run, node);
        bool holds = jinja_truth(jinja_evaluate(run, node->a, frame));
        if (run->failed)
            return JINJA_FLOW_NEXT;
        if (holds)
            return jinja_execute(run, node->body, frame, out);
        if (node->other.count != 1 || node->other.items[0]->kind != NODE_IF)
            return jinja_execute(run, node->other, frame, out);
        node = node->other.items[0]; /* elif, or an if alone in an else, which is the same */
    }
}

static enum jinja_flow execute_one(struct jinja_run *run, const struct jinja_node *node, struct jinja_frame *frame,
                                   struct jinja_builder *out) {
    struct jinja_value value = JINJA_NOTHING;
    enum jinja_flow flow = JINJA_FLOW_NEXT;
    if (node->kind == NODE_SET) {
        run->line = run->failed ? run->line : node->before_line;
        check_target(run, node->a, frame);
    }
    if (node->kind != NODE_OUTPUT && node->kind != NODE_WITH)
        at_line(run, node);
    switch ((enum jinja_node_kind)node->kind) {
    case NODE_OUTPUT:
        execute_output(run, node, frame, out);
        break;
    case NODE_IF:
        return execute_if(run, node, frame, out);
    case NODE_FOR:
        return execute_for(run, node, frame, out);
    case NODE_SET:
        assign(run, node->a, jinja_evaluate(run, node->b, frame), frame);
        break;
    case NODE_SET_BLOCK:
        flow = capture(run, node, frame, &value);
        if (flow == JINJA_FLOW_NEXT)
            assign(run, node->a, value, frame);
        return flow;
    case NODE_FILTER_BLOCK:
        flow = capture(run, node, frame, &value);
        if (flow == JINJA_FLOW_NEXT && !run->failed)
            jinja_put_str(out, value);
        return flow;
    case NODE_MACRO:
        jinja_frame_set(run, frame, node->name, macro_value(run, node, frame));
        break;
    case NODE_CALL_BLOCK:
        execute_call_block(run, node, frame, out);
        break;
    case NODE_WITH:
        return execute_with(run, node, frame, out);
    case NODE_BLOCK:
        if (!node->flag) {
            jinja_put_str(out, jinja_call_block(run, node));
            break;
        } /* fall through */
    case NODE_SCOPE: {
        struct jinja_frame *inner = jinja_frame_new(run, frame);
        return inner ? jinja_execute(run, node->body, inner, out) : JINJA_FLOW_NEXT;
    }
    case NODE_BREAK:
        return JINJA_FLOW_BREAK;
    case NODE_CONTINUE:
        return JINJA_FLOW_CONTINUE;
    case NODE_LOADER:
        jinja_fail(run, JINJA_TYPE, "no loader for this environment specified");
        break;
    default:
        CHECK(node->kind >= NODE_OUTPUT); /* expressions are evaluated, not executed */
    }
    return JINJA_FLOW_NEXT;
}

enum jinja_flow jinja_execute(struct jinja_run *run, struct jinja_nodes body, struct jinja_frame *frame, struct jinja_builder *out) {
    enum jinja_flow flow = JINJA_FLOW_NEXT;
    if (jinja_enter(run))
        for (uint32_t i = 0; i < body.count && flow == JINJA_FLOW_NEXT && jinja_step(run, 1); i++)
            flow = execute_one(run, body.items[i], frame, out);
    jinja_leave(run);
    return run->failed ? JINJA_FLOW_NEXT : flow;
}

/* ---- the whole template ---- */

static struct text own_name(struct jinja_run *run, const char *name) {
    size_t size = strlen(name);
    char *copy = jinja_alloc(run, size + 1);
    if (copy)
        memcpy(copy, name, size);
    return (struct text){copy, copy ? size : 0};
}

void jinja_set_json(struct jinja_run *run, const char *name, const json_t *value, const char *const *trusted_words) {
    jinja_frame_set(run, &run->root, own_name(run, name), jinja_from_json(run, value, JINJA_DATA, trusted_words));
}

void jinja_set_text(struct jinja_run *run, const char *name, struct text value, bool trusted) {
    jinja_frame_set(run, &run->root, own_name(run, name),
                    jinja_string_value(jinja_string_new(run, value.data, value.size_bytes, trusted ? JINJA_TRUSTED : JINJA_DATA)));
}

void jinja_set_bool(struct jinja_run *run, const char *name, bool value) {
    jinja_frame_set(run, &run->root, own_name(run, name), jinja_bool(value));
}

void jinja_set_none(struct jinja_run *run, const char *name) { jinja_frame_set(run, &run->root, own_name(run, name), JINJA_NOTHING); }

/* The marks of the text as spans. */
static const struct jinja_span *spans_of(struct jinja_run *run, const struct jinja_string *s, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < s->size_bytes; i++)
        *count += i == 0 || jinja_trust_at(s, i) != jinja_trust_at(s, i - 1);
    struct jinja_span *spans = jinja_alloc(run, (*count + 1) * sizeof *spans);
    size_t at = 0;
    for (size_t i = 0; spans && i < s->size_bytes; i++) {
        bool trusted = jinja_trust_at(s, i) == JINJA_TRUSTED;
        if (i == 0 || trusted != spans[at - 1].trusted)
            spans[at++] = (struct jinja_span){.begin = i, .trusted = trusted};
        spans[at - 1].end = i + 1;
    }
    ASSERT(!spans || at == *count);
    return spans;
}

enum status jinja_render(struct jinja_run *run, const struct jinja_template *template, struct jinja_output *out,
                         struct jinja_error *problem) {
    CHECK(!run->template && problem != NULL);
    *out = (struct jinja_output){.text = {"", 0}};
    run->template = template;
    run->top.parent = &run->root;
    run->line = run->column = 1;
    struct jinja_builder text = jinja_builder_start(run);
    text.limit_bytes = run->limits.output_bytes;
    (void)jinja_execute(run, template->body, &run->top, &text);
    const struct jinja_string *s = jinja_builder_take(&text);
    out->spans = s ? spans_of(run, s, &out->span_count) : NULL;
    *problem = run->error;
    if (run->failed) {
        *out = (struct jinja_output){.text = {"", 0}};
        if (run->error.failure == JINJA_LIMIT)
            return arena_was_refused(run->arena) ? STATUS_NO_MEMORY : STATUS_OVER_BUDGET;
        return STATUS_INVALID;
    }
    ASSERT(s != NULL && run->depth == 0);
    out->text = jinja_string_text(s);
    return STATUS_OK;
}
