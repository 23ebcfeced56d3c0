/*
 * jinja_parse: statements, and the helpers that expressions share.
 *
 * Names of tags, fields of nodes and the words of errors follow jinja2. Nesting of tags is limited, so recursion is bounded.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/jinja_ast.h"
#include "text/unicode.h"

#define TEMPLATE_BYTES_MAX ((size_t)4 << 20)
#define TEMPLATE_MEMORY_MAX ((size_t)512 << 20)

bool jinja_parse_fail(struct jinja_parser *p, const struct jinja_token *at, const char *format, ...) {
    if (p->failed)
        return false;
    p->failed = true;
    if (p->token->kind == TOKEN_ERROR)
        at = p->token;
    *p->problem = (struct jinja_error){.failure = JINJA_SYNTAX, .line = at->line, .column = at->column};
    if (at->kind == TOKEN_ERROR) {
        snprintf(p->problem->message, sizeof p->problem->message, "%.*s", TEXT_ARGUMENTS(at->text));
        return false;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->problem->message, sizeof p->problem->message, format, arguments);
    va_end(arguments);
    return false;
}

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, const struct jinja_token *at) {
    struct jinja_node *node = arena_alloc(p->arena, sizeof *node);
    if (!node) {
        jinja_parse_fail(p, at, "the template needs too much memory");
        node = &p->spare;
    }
    *node = (struct jinja_node){.kind = (uint8_t)kind, .line = at->line, .column = at->column, .constant = JINJA_NOTHING};
    return node;
}

void jinja_nodes_add(struct jinja_parser *p, struct jinja_nodes *nodes, struct jinja_node *node) {
    size_t size = sizeof *nodes->items;
    uint32_t count = nodes->count;
    if ((count & (count - 1)) == 0) { /* full at powers of two */
        void *items = arena_grow(p->arena, nodes->items, count * size, (count ? count * 2 : 1) * size);
        if (!items) {
            jinja_parse_fail(p, p->token, "the template needs too much memory");
            return;
        }
        nodes->items = items;
    }
    nodes->items[nodes->count++] = node;
}

bool jinja_at_name(const struct jinja_parser *p, const char *name) { return p->token->kind == TOKEN_NAME && text_is(p->token->text, name); }

bool jinja_at_operator(const struct jinja_parser *p, const char *op) {
    return p->token->kind == TOKEN_OPERATOR && text_is(p->token->text, op);
}

bool jinja_skip_name(struct jinja_parser *p, const char *name) {
    bool at = jinja_at_name(p, name);
    p->token += at;
    return at;
}

bool jinja_skip_operator(struct jinja_parser *p, const char *op) {
    bool at = jinja_at_operator(p, op);
    p->token += at;
    return at;
}

const char *jinja_describe_token(const struct jinja_token *token, char *buffer, size_t size_bytes) {
    switch (token->kind) {
    case TOKEN_END:
        return "end of template";
    case TOKEN_DATA:
        return "template data / text";
    case TOKEN_VARIABLE_BEGIN:
        return "begin of print statement";
    case TOKEN_VARIABLE_END:
        return "end of print statement";
    case TOKEN_BLOCK_BEGIN:
        return "begin of statement block";
    case TOKEN_BLOCK_END:
        return "end of statement block";
    default:
        break;
    }
    snprintf(buffer, size_bytes, "%.*s", TEXT_ARGUMENTS(token->text));
    return buffer;
}

static void expect(struct jinja_parser *p, bool found, const char *what) {
    char buffer[64];
    if (found)
        p->token++;
    else
        jinja_parse_fail(p, p->token, "expected token '%s', got '%s'", what, jinja_describe_token(p->token, buffer, sizeof buffer));
}

void jinja_expect_operator(struct jinja_parser *p, const char *op) { expect(p, jinja_at_operator(p, op), op); }

struct text jinja_expect_name(struct jinja_parser *p) {
    struct text name = p->token->text;
    expect(p, p->token->kind == TOKEN_NAME, "name");
    return p->failed ? (struct text){"", 0} : name;
}

static void expect_block_end(struct jinja_parser *p) { expect(p, p->token->kind == TOKEN_BLOCK_END, "end of statement block"); }

/* "'elif' or 'else' or 'endif'" from "elif else endif". */
static void quote_names(const char *names, char *out, size_t size_bytes) {
    size_t at = 0;
    out[0] = 0;
    for (const char *name = names; *name;) {
        int size = (int)strcspn(name, " ");
        at += (size_t)snprintf(out + at, size_bytes - at, "%s'%.*s'", at ? " or " : "", size, name);
        name += size + (name[size] == ' ');
    }
    ASSERT(at < size_bytes);
}

/* `tag`: the unknown tag at the current token, or empty for the end of the template. */
static void fail_tag(struct jinja_parser *p, struct text tag) {
    char looking[200], open[300] = "";
    if (p->open > 0) {
        quote_names(p->ends[p->open - 1], looking, sizeof looking);
        snprintf(open, sizeof open, " Jinja was looking for the following tags: %s. The innermost block that needs to be closed is '%.*s'.",
                 looking, TEXT_ARGUMENTS(p->tags[p->open - 1]));
    }
    if (tag.size_bytes)
        jinja_parse_fail(p, p->token, "Encountered unknown tag '%.*s'.%s", TEXT_ARGUMENTS(tag), open);
    else
        jinja_parse_fail(p, p->token, "Unexpected end of template.%s", open);
}

static bool in_names(const char *names, struct text name) {
    for (const char *at = names; *at;) {
        size_t size = strcspn(at, " ");
        if (text_equal((struct text){at, size}, name))
            return true;
        at += size + (at[size] == ' ');
    }
    return false;
}

static struct jinja_node *parse_statement(struct jinja_parser *p);

/* Template text, prints and statements until a tag named in the innermost `ends`, which stays the current token, or the end. */
static struct jinja_nodes parse_body(struct jinja_parser *p) {
    struct jinja_nodes body = {0};
    struct jinja_node *output = NULL;
    while (!p->failed && p->token->kind != TOKEN_END) {
        if (p->token->kind == TOKEN_BLOCK_BEGIN) {
            output = NULL;
            p->token++;
            if (p->open > 0 && p->token->kind == TOKEN_NAME && in_names(p->ends[p->open - 1], p->token->text))
                return body;
            jinja_nodes_add(p, &body, parse_statement(p));
            expect_block_end(p);
            continue;
        }
        if (!output) {
            output = jinja_node_new(p, NODE_OUTPUT, p->token);
            jinja_nodes_add(p, &body, output);
        }
        if (p->token->kind == TOKEN_DATA) {
            struct jinja_node *data = jinja_node_new(p, NODE_DATA, p->token);
            data->text = p->token->text;
            jinja_nodes_add(p, &output->items, data);
            p->token++;
        } else if (p->token->kind == TOKEN_VARIABLE_BEGIN) {
            p->token++;
            struct jinja_node *printed = jinja_parse_tuple(p, true, NULL, false);
            jinja_nodes_add(p, &output->items, printed);
            p->code_line = printed->line;
            expect(p, p->token->kind == TOKEN_VARIABLE_END, "end of print statement");
        } else {
            jinja_parse_fail(p, p->token, "unexpected end of template");
        }
    }
    if (!p->failed && p->open > 0)
        fail_tag(p, (struct text){"", 0});
    return body;
}

/* The rest of an opening tag, and its body up to one of `ends`, which stays the current token. */
static struct jinja_nodes parse_tag_body(struct jinja_parser *p, struct text tag, const char *ends) {
    jinja_skip_operator(p, ":");
    expect_block_end(p);
    if (p->open == JINJA_STATEMENT_DEPTH_MAX)
        jinja_parse_fail(p, p->token, "tags nested deeper than %d levels", JINJA_STATEMENT_DEPTH_MAX);
    if (p->failed)
        return (struct jinja_nodes){0};
    p->ends[p->open] = ends;
    p->tags[p->open++] = tag;
    struct jinja_nodes body = parse_body(p);
    p->open--;
    return body;
}

static struct jinja_nodes parse_last_body(struct jinja_parser *p, struct text tag, const char *end) {
    struct jinja_nodes body = parse_tag_body(p, tag, end);
    p->token += !p->failed;
    return body;
}

/* A body with a scope of its own: conditions around it do not soften what is in it. */
static struct jinja_nodes parse_scope(struct jinja_parser *p, struct text tag, const char *end, bool is_function) {
    bool soft = p->soft;
    unsigned loops = p->loops;
    p->soft = false;
    if (is_function)
        p->loops = 0;
    struct jinja_nodes body = parse_last_body(p, tag, end);
    p->soft = soft;
    p->loops = loops;
    return body;
}

static void parse_if(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    bool soft = p->soft;
    p->soft = true;
    for (struct jinja_node *branch = node; !p->failed;) {
        branch->a = jinja_parse_tuple(p, false, NULL, false);
        branch->body = parse_tag_body(p, tag, "elif else endif");
        if (jinja_skip_name(p, "elif")) {
            struct jinja_node *next = jinja_node_new(p, NODE_IF, p->token);
            jinja_nodes_add(p, &branch->other, next);
            branch = next;
            continue;
        }
        if (jinja_skip_name(p, "else"))
            branch->other = parse_last_body(p, tag, "endif");
        else
            p->token += !p->failed;
        break;
    }
    p->soft = soft;
}

static void parse_for(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    p->loops++;
    node->a = jinja_parse_target(p, "in", false);
    p->loops--;
    if (!p->failed && !jinja_skip_name(p, "in"))
        jinja_parse_fail(p, p->token, "expected token 'in'");
    node->b = jinja_parse_tuple(p, false, "recursive", false);
    if (jinja_skip_name(p, "if"))
        node->c = jinja_parse_expression(p, true);
    node->flag = jinja_skip_name(p, "recursive");
    bool soft = p->soft;
    unsigned loops = p->loops;
    p->soft = false;
    p->loops = node->flag ? 1 : p->loops + 1;
    node->body = parse_tag_body(p, tag, "endfor else");
    p->loops = loops;
    if (jinja_skip_name(p, "else"))
        node->other = parse_last_body(p, tag, "endfor");
    else
        p->token += !p->failed;
    p->soft = soft;
}

static void parse_set(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    node->a = jinja_parse_target(p, NULL, true);
    if (jinja_skip_operator(p, "=")) {
        node->b = jinja_parse_tuple(p, true, NULL, false);
        return;
    }
    node->kind = NODE_SET_BLOCK;
    node->b = jinja_parse_filters(p, NULL, false);
    node->body = parse_scope(p, tag, "endset", false);
}

/* (a, b=default, ...) of a macro or call block. */
static void parse_signature(struct jinja_parser *p, struct jinja_node *node) {
    jinja_expect_operator(p, "(");
    while (!p->failed && !jinja_at_operator(p, ")")) {
        if (node->items.count)
            jinja_expect_operator(p, ",");
        struct jinja_node *parameter = jinja_node_new(p, NODE_NAME, p->token);
        parameter->name = jinja_expect_name(p);
        jinja_nodes_add(p, &node->items, parameter);
        if (jinja_skip_operator(p, "="))
            jinja_nodes_add(p, &node->more, jinja_parse_expression(p, true));
        else if (node->more.count)
            jinja_parse_fail(p, p->token, "non-default argument follows default argument");
    }
    jinja_expect_operator(p, ")");
}

/* Body of a macro or call block, with what it uses of caller, kwargs and varargs. */
static void parse_function_body(struct jinja_parser *p, struct jinja_node *node, struct text tag, const char *end) {
    unsigned uses = p->uses;
    p->uses = 0;
    node->body = parse_scope(p, tag, end, true);
    node->flag = (uint8_t)p->uses;
    p->uses |= uses;
}

static void parse_macro(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    node->name = jinja_expect_name(p);
    parse_signature(p, node);
    parse_function_body(p, node, tag, "endmacro");
    for (uint32_t i = 0; i < node->items.count; i++) /* a parameter of that name is no special one */
        node->flag &= (uint8_t) ~(text_is(node->items.items[i]->name, "kwargs")    ? JINJA_USES_KWARGS
                                  : text_is(node->items.items[i]->name, "varargs") ? JINJA_USES_VARARGS
                                                                                   : 0);
}

static void parse_call_block(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    const struct jinja_token *start = p->token;
    if (jinja_at_operator(p, "("))
        parse_signature(p, node);
    node->a = jinja_parse_expression(p, true);
    if (node->a->kind != NODE_CALL)
        jinja_parse_fail(p, start, "expected call");
    parse_function_body(p, node, tag, "endcall");
}

static void parse_with(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    while (!p->failed && p->token->kind != TOKEN_BLOCK_END) {
        if (node->items.count)
            jinja_expect_operator(p, ",");
        struct jinja_node *target = jinja_node_new(p, NODE_NAME, p->token);
        target->name = jinja_expect_name(p);
        jinja_nodes_add(p, &node->items, target);
        jinja_expect_operator(p, "=");
        jinja_nodes_add(p, &node->more, jinja_parse_expression(p, true));
    }
    node->body = parse_scope(p, tag, "endwith", false);
}

static void parse_block(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    node->name = jinja_expect_name(p);
    node->flag = jinja_skip_name(p, "scoped");
    jinja_skip_name(p, "required");
    for (uint32_t i = 0; i < p->template->blocks.count; i++)
        if (text_equal(p->template->blocks.items[i]->name, node->name))
            jinja_parse_fail(p, p->token, "block '%.*s' defined twice", TEXT_ARGUMENTS(node->name));
    jinja_nodes_add(p, &p->template->blocks, node);
    node->body = parse_scope(p, tag, "endblock", true);
    if (p->token->kind == TOKEN_NAME && text_equal(p->token->text, node->name))
        p->token++;
}

static void parse_print(struct jinja_parser *p, struct jinja_node *node) {
    while (!p->failed && p->token->kind != TOKEN_BLOCK_END) {
        if (node->items.count)
            jinja_expect_operator(p, ",");
        jinja_nodes_add(p, &node->items, jinja_parse_expression(p, true));
    }
}

static void skip_to_block_end(struct jinja_parser *p) {
    while (p->token->kind >= TOKEN_NAME)
        p->token++;
}

static const struct {
    const char *tag;
    enum jinja_node_kind kind;
} statement_tags[] = {{"if", NODE_IF},
                      {"for", NODE_FOR},
                      {"set", NODE_SET},
                      {"macro", NODE_MACRO},
                      {"call", NODE_CALL_BLOCK},
                      {"with", NODE_WITH},
                      {"filter", NODE_FILTER_BLOCK},
                      {"block", NODE_BLOCK},
                      {"print", NODE_OUTPUT},
                      {"break", NODE_BREAK},
                      {"continue", NODE_CONTINUE},
                      {"generation", NODE_SCOPE},
                      {"autoescape", NODE_SCOPE},
                      {"include", NODE_LOADER},
                      {"import", NODE_LOADER},
                      {"from", NODE_LOADER},
                      {"extends", NODE_LOADER}};

/* What follows the tag of a statement, up to the closing mark of its last tag. */
static void parse_statement_rest(struct jinja_parser *p, struct jinja_node *node, struct text tag) {
    switch (node->kind) {
    case NODE_IF:
        parse_if(p, node, tag);
        break;
    case NODE_FOR:
        parse_for(p, node, tag);
        break;
    case NODE_SET:
        parse_set(p, node, tag);
        break;
    case NODE_MACRO:
        parse_macro(p, node, tag);
        break;
    case NODE_CALL_BLOCK:
        parse_call_block(p, node, tag);
        break;
    case NODE_WITH:
        parse_with(p, node, tag);
        break;
    case NODE_FILTER_BLOCK:
        node->b = jinja_parse_filters(p, NULL, true);
        node->body = parse_scope(p, tag, "endfilter", false);
        break;
    case NODE_BLOCK:
        parse_block(p, node, tag);
        break;
    case NODE_OUTPUT:
        parse_print(p, node);
        break;
    case NODE_SCOPE: {
        bool generation = text_is(tag, "generation");
        if (!generation)
            (void)jinja_parse_expression(p, true);
        node->body = parse_scope(p, tag, generation ? "endgeneration" : "endautoescape", generation);
        break;
    }
    case NODE_BREAK:
    case NODE_CONTINUE:
        if (p->loops == 0)
            jinja_parse_fail(p, p->token - 1, "'%.*s' outside loop", TEXT_ARGUMENTS(tag));
        break;
    default:
        skip_to_block_end(p);
        break;
    }
}

/* The statement whose tag is the current token, up to its closing mark. */
static struct jinja_node *parse_statement(struct jinja_parser *p) {
    size_t row = 0, count = sizeof statement_tags / sizeof *statement_tags;
    struct text tag = p->token->text;
    while (row < count && !(p->token->kind == TOKEN_NAME && text_is(tag, statement_tags[row].tag)))
        row++;
    struct jinja_node *node = jinja_node_new(p, row < count ? statement_tags[row].kind : NODE_OUTPUT, p->token);
    if (p->token->kind != TOKEN_NAME)
        jinja_parse_fail(p, p->token, "tag name expected");
    else if (row == count)
        fail_tag(p, tag);
    if (p->failed)
        return node;
    p->token++;
    node->before_line = p->code_line;
    p->code_line = node->line;
    parse_statement_rest(p, node, tag);
    return node;
}

bool jinja_parse(struct jinja_template *template, const struct jinja_token *tokens, struct jinja_error *problem) {
    struct jinja_parser p = {.arena = template->arena, .template = template, .token = tokens, .problem = problem, .code_line = 1};
    template->body = parse_body(&p);
    if (!p.failed && p.refused)
        jinja_parse_fail(&p, p.refused, "No %s named '%.*s'.", p.refused_kind, TEXT_ARGUMENTS(p.refused->text));
    ASSERT(p.failed || p.open == 0);
    return !p.failed;
}

enum status jinja_compile(struct text source, struct jinja_template **out, struct jinja_error *problem) {
    CHECK(problem != NULL);
    *out = NULL;
    *problem = (struct jinja_error){.failure = JINJA_SYNTAX};
    size_t valid = utf8_valid_bytes(source);
    if (valid != source.size_bytes || source.size_bytes > TEMPLATE_BYTES_MAX) {
        bool broken = valid != source.size_bytes;
        snprintf(problem->message, sizeof problem->message,
                 broken ? "byte %zu is not UTF-8" : "%zu bytes of template, at most 4 MiB are read", broken ? valid : source.size_bytes);
        return STATUS_CORRUPT;
    }
    struct arena *arena = NULL;
    struct error ignored;
    struct jinja_template *template = NULL;
    const struct jinja_token *tokens = NULL;
    if (arena_create(TEMPLATE_MEMORY_MAX, &arena, &ignored) == STATUS_OK) {
        template = arena_alloc(arena, sizeof *template);
        tokens = jinja_lex(arena, source);
    }
    bool parsed = false;
    if (template && tokens) {
        template->arena = arena;
        parsed = jinja_parse(template, tokens, problem);
    }
    if (!template || !tokens || arena_was_refused(arena)) {
        problem->failure = JINJA_LIMIT;
        snprintf(problem->message, sizeof problem->message, "no memory to compile the template");
        arena_destroy(arena);
        return STATUS_NO_MEMORY;
    }
    if (!parsed) {
        arena_destroy(arena);
        return STATUS_CORRUPT;
    }
    problem->failure = JINJA_OK;
    *out = template;
    return STATUS_OK;
}

void jinja_template_destroy(struct jinja_template *template) {
    if (template)
        arena_destroy(template->arena);
}
