/*
 * jinja_parse_expression: expressions by precedence, loosest first: conditional, or, and, not, comparison, + -, ~, * / // %, **, sign,
 * primary with postfixes, filters and tests. '-2 ** 2' is 4 and '2 ** 3 ** 2' is 64, as in jinja2.
 *
 * Depth   nesting is counted in jinja_parse_expression and in signs and 'not'.
 */
#include <string.h>

#include "base/check.h"
#include "text/jinja_ast.h"
#include "text/jinja_integer.h"

#define EXPRESSION_DEPTH_MAX 100

static struct jinja_node *parse_unary(struct jinja_parser *p, bool with_filter);

/* Binary operators by level; the loosest level is 0. */
#define LEVEL_COUNT 3
static char operator_at(const struct jinja_parser *p, unsigned level) {
    static const struct {
        const char *text;
        char op;
        unsigned level;
    } rows[] = {{"+", '+', 0}, {"-", '-', 0}, {"*", '*', 1}, {"/", '/', 1}, {"//", 'f', 1}, {"%", '%', 1}, {"**", 'p', 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].level == level && jinja_at_operator(p, rows[i].text))
            return rows[i].op;
    return 0;
}

static void next(struct jinja_parser *p) {
    if (p->token->kind != TOKEN_END && p->token->kind != TOKEN_ERROR)
        p->token++;
}

static struct jinja_node *parse_binary(struct jinja_parser *p, unsigned level);

static struct jinja_node *parse_operand(struct jinja_parser *p, unsigned level) {
    if (level == LEVEL_COUNT)
        return parse_unary(p, true);
    if (level != 1)
        return parse_binary(p, level);
    const struct jinja_token *start = p->token; /* '~' lies between + and * */
    struct jinja_node *first = parse_binary(p, 1);
    if (!jinja_at_operator(p, "~"))
        return first;
    struct jinja_node *concat = jinja_node_new(p, NODE_CONCAT, start);
    jinja_nodes_add(p, &concat->items, first);
    while (!p->failed && jinja_skip_operator(p, "~"))
        jinja_nodes_add(p, &concat->items, parse_binary(p, 1));
    return concat;
}

static struct jinja_node *parse_binary(struct jinja_parser *p, unsigned level) {
    const struct jinja_token *start = p->token;
    struct jinja_node *left = parse_operand(p, level + 1);
    for (char op; !p->failed && (op = operator_at(p, level)) != 0;) {
        next(p);
        struct jinja_node *node = jinja_node_new(p, NODE_BINARY, start);
        node->op = op;
        node->a = left;
        node->b = parse_operand(p, level + 1);
        left = node;
        start = p->token;
    }
    return left;
}

/* Letter of the comparison that begins here, or 0; moves past it. */
static char skip_comparison(struct jinja_parser *p) {
    static const struct {
        const char *text;
        char op;
    } rows[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {"<=", 'l'}, {">", '>'}, {">=", 'g'}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (jinja_skip_operator(p, rows[i].text))
            return rows[i].op;
    if (jinja_skip_name(p, "in"))
        return 'i';
    if (jinja_at_name(p, "not") && p->token[1].kind == TOKEN_NAME && text_is(p->token[1].text, "in")) {
        p->token += 2;
        return 'n';
    }
    return 0;
}

static struct jinja_node *parse_compare(struct jinja_parser *p) {
    const struct jinja_token *start = p->token;
    struct jinja_node *first = parse_binary(p, 0), *compare = NULL;
    char ops[64];
    for (char op; !p->failed && (op = skip_comparison(p)) != 0;) {
        if (!compare)
            compare = jinja_node_new(p, NODE_COMPARE, start);
        if (compare->items.count == sizeof ops - 1)
            jinja_parse_fail(p, p->token, "more than 63 comparisons in a row");
        else
            ops[compare->items.count] = op;
        jinja_nodes_add(p, &compare->items, parse_binary(p, 0));
    }
    if (!compare || p->failed)
        return first;
    char *copy = arena_alloc(p->arena, compare->items.count + 1);
    if (!copy)
        return jinja_parse_fail(p, p->token, "out of memory"), first;
    memcpy(copy, ops, compare->items.count);
    compare->a = first;
    compare->ops = copy;
    compare->line = p->token->line; /* of the token behind, as jinja2 counts */
    return compare;
}

static bool deeper(struct jinja_parser *p) {
    if (++p->depth > EXPRESSION_DEPTH_MAX)
        jinja_parse_fail(p, p->token, "expression nested deeper than %d levels", EXPRESSION_DEPTH_MAX);
    return !p->failed;
}

static struct jinja_node *parse_not(struct jinja_parser *p) {
    const struct jinja_token *start = p->token;
    unsigned count = 0;
    while (jinja_skip_name(p, "not"))
        count++;
    struct jinja_node *node = parse_compare(p);
    for (; count > 0 && !p->failed; count--) {
        struct jinja_node *not = jinja_node_new(p, NODE_NOT, start);
        if (count > EXPRESSION_DEPTH_MAX)
            jinja_parse_fail(p, start, "expression nested deeper than %d levels", EXPRESSION_DEPTH_MAX);
        not ->a = node;
        node = not ;
    }
    return node;
}

static struct jinja_node *parse_and_or(struct jinja_parser *p, bool is_or) {
    const struct jinja_token *start = p->token;
    struct jinja_node *left = is_or ? parse_and_or(p, false) : parse_not(p);
    while (!p->failed && jinja_skip_name(p, is_or ? "or" : "and")) {
        struct jinja_node *node = jinja_node_new(p, is_or ? NODE_OR : NODE_AND, start);
        node->a = left;
        node->b = is_or ? parse_and_or(p, false) : parse_not(p);
        left = node;
        start = p->token;
    }
    return left;
}

/* A filter or test that nobody knows is an error at load, unless a condition may keep it from being reached; errors of syntax go first. */
static void refuse_unknown(struct jinja_parser *p) {
    if (p->depth > 0 || !p->unknown)
        return;
    if (!p->refused) {
        p->refused = p->unknown;
        p->refused_kind = p->unknown_kind;
    }
    p->unknown = NULL;
}

static void note_unknown(struct jinja_parser *p, const struct jinja_token *at, const char *kind) {
    if (p->soft || p->failed || p->unknown)
        return;
    p->unknown = at;
    p->unknown_kind = kind;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool with_condition) {
    const struct jinja_token *start = p->token, *unknown = p->unknown;
    struct jinja_node *node = NULL;
    if (deeper(p)) {
        node = parse_and_or(p, true);
        while (with_condition && !p->failed && jinja_skip_name(p, "if")) {
            struct jinja_node *condition = jinja_node_new(p, NODE_CONDITION, start);
            condition->a = node;
            condition->b = parse_and_or(p, true);
            if (jinja_skip_name(p, "else"))
                condition->c = jinja_parse_expression(p, true);
            node = condition;
            start = p->token;
            p->unknown = unknown; /* what stands in its branches may never run */
        }
    }
    p->depth--;
    refuse_unknown(p);
    return node ? node : jinja_node_new(p, NODE_CONSTANT, start);
}

static bool at_tuple_end(const struct jinja_parser *p, const char *end_name) {
    return p->token->kind == TOKEN_VARIABLE_END || p->token->kind == TOKEN_BLOCK_END || jinja_at_operator(p, ")") ||
           (end_name && jinja_at_name(p, end_name));
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool with_condition, const char *end_name, bool in_parentheses) {
    const struct jinja_token *start = p->token;
    struct jinja_nodes items = {0};
    bool is_tuple = false;
    while (!p->failed) {
        if (items.count)
            jinja_expect_operator(p, ",");
        if (p->failed || at_tuple_end(p, end_name))
            break;
        jinja_nodes_add(p, &items, jinja_parse_expression(p, with_condition));
        if (!jinja_at_operator(p, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.count)
        return items.items[0];
    char buffer[64];
    if (!is_tuple && !in_parentheses)
        jinja_parse_fail(p, p->token, "Expected an expression, got '%s'", jinja_describe_token(p->token, buffer, sizeof buffer));
    struct jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, start);
    tuple->items = items;
    return tuple;
}

static struct jinja_node *parse_list_or_dict(struct jinja_parser *p, bool is_dict) {
    struct jinja_node *node = jinja_node_new(p, is_dict ? NODE_DICT : NODE_LIST, p->token);
    const char *close = is_dict ? "}" : "]";
    next(p);
    while (!p->failed && !jinja_at_operator(p, close)) {
        if (node->items.count)
            jinja_expect_operator(p, ",");
        if (jinja_at_operator(p, close))
            break;
        jinja_nodes_add(p, &node->items, jinja_parse_expression(p, true));
        if (is_dict) {
            jinja_expect_operator(p, ":");
            jinja_nodes_add(p, &node->items, jinja_parse_expression(p, true));
        }
    }
    jinja_expect_operator(p, close);
    return node;
}

/* Decimal text without underscores. */
static struct text plain_digits(struct jinja_parser *p, struct text text) {
    char *copy = arena_alloc(p->arena, text.size_bytes + 1);
    size_t size = 0;
    for (size_t i = 0; copy && i < text.size_bytes; i++)
        if (text.data[i] != '_')
            copy[size++] = text.data[i];
    if (!copy)
        jinja_parse_fail(p, p->token, "out of memory");
    return (struct text){copy ? copy : "0", copy ? size : 1};
}

static struct jinja_value parse_number(struct jinja_parser *p, const struct jinja_token *token) {
    struct text digits = plain_digits(p, token->text);
    double number;
    if (token->kind == TOKEN_FLOAT)
        return jinja_float(jinja_parse_float(digits, &number) ? number : 0);
    unsigned base = 10;
    if (digits.size_bytes > 2 && digits.data[0] == '0' && strchr("bBoOxX", digits.data[1])) {
        char mark = (char)(digits.data[1] | 32);
        base = mark == 'b' ? 2 : mark == 'o' ? 8 : 16;
        digits = (struct text){digits.data + 2, digits.size_bytes - 2};
    }
    struct jinja_run run = {.arena = p->arena, .limits = jinja_limits_default()}; /* big integers live with the template */
    struct jinja_value value = jinja_int(0);
    if (!jinja_integer_parse(&run, digits, base, &value))
        jinja_parse_fail(p, token, "%s", run.failed ? run.error.message : "not a number");
    return value;
}

static struct jinja_node *parse_string(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node_new(p, NODE_CONSTANT, p->token);
    struct jinja_run run = {.arena = p->arena, .limits = jinja_limits_default()}; /* literals live with the template */
    struct jinja_builder text = jinja_builder_start(&run);
    for (; p->token->kind == TOKEN_STRING; next(p)) /* neighbours join */
        jinja_put(&text, p->token->text.data, p->token->text.size_bytes, JINJA_TRUSTED);
    node->constant = jinja_string_value(jinja_builder_take(&text));
    if (run.failed)
        jinja_parse_fail(p, p->token, "%s", run.error.message);
    return node;
}

static struct jinja_node *parse_name(struct jinja_parser *p) {
    struct jinja_node *node = jinja_node_new(p, NODE_CONSTANT, p->token);
    struct text name = p->token->text;
    next(p);
    if (text_is(name, "true") || text_is(name, "True")) {
        node->constant = jinja_bool(true);
    } else if (text_is(name, "false") || text_is(name, "False")) {
        node->constant = jinja_bool(false);
    } else if (text_is(name, "none") || text_is(name, "None")) {
        node->constant = JINJA_NOTHING;
    } else {
        node->kind = NODE_NAME;
        node->name = name;
        p->uses |= text_is(name, "caller") ? JINJA_USES_CALLER : text_is(name, "kwargs") ? JINJA_USES_KWARGS : 0u;
        p->uses |= text_is(name, "varargs") ? JINJA_USES_VARARGS : 0u;
    }
    return node;
}

static struct jinja_node *parse_primary(struct jinja_parser *p) {
    const struct jinja_token *token = p->token;
    switch (token->kind) {
    case TOKEN_NAME:
        return parse_name(p);
    case TOKEN_STRING:
        return parse_string(p);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT: {
        struct jinja_node *node = jinja_node_new(p, NODE_CONSTANT, token);
        node->constant = parse_number(p, token);
        next(p);
        return node;
    }
    default:
        break;
    }
    if (jinja_skip_operator(p, "(")) {
        struct jinja_node *node = jinja_parse_tuple(p, true, NULL, true);
        jinja_expect_operator(p, ")");
        return node;
    }
    if (jinja_at_operator(p, "[") || jinja_at_operator(p, "{"))
        return parse_list_or_dict(p, jinja_at_operator(p, "{"));
    char buffer[64];
    jinja_parse_fail(p, token, "unexpected '%s'", jinja_describe_token(token, buffer, sizeof buffer));
    return jinja_node_new(p, NODE_CONSTANT, token);
}

static struct jinja_call *parse_call_arguments(struct jinja_parser *p) {
    const struct jinja_token *start = p->token;
    struct jinja_call *call = arena_alloc(p->arena, sizeof *call);
    if (!call) {
        jinja_parse_fail(p, start, "out of memory");
        return NULL;
    }
    jinja_expect_operator(p, "(");
    for (bool first = true; !p->failed && !jinja_at_operator(p, ")"); first = false) {
        if (!first)
            jinja_expect_operator(p, ",");
        if (jinja_at_operator(p, ")"))
            break;
        bool valid = true;
        if (jinja_skip_operator(p, "*")) {
            valid = !call->list && !call->dict;
            call->list = jinja_parse_expression(p, true);
        } else if (jinja_skip_operator(p, "**")) {
            valid = !call->dict;
            call->dict = jinja_parse_expression(p, true);
        } else if (p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR && text_is(p->token[1].text, "=")) {
            valid = !call->dict;
            size_t size = sizeof *call->names;
            struct text *names = arena_grow(p->arena, call->names, call->named.count * size, (call->named.count + 1) * size);
            if (!names) {
                jinja_parse_fail(p, p->token, "out of memory");
                break;
            }
            call->names = names;
            names[call->named.count] = p->token->text;
            p->token += 2;
            jinja_nodes_add(p, &call->named, jinja_parse_expression(p, true));
        } else {
            valid = !call->list && !call->dict && call->named.count == 0;
            jinja_nodes_add(p, &call->positional, jinja_parse_expression(p, true));
        }
        if (!valid)
            jinja_parse_fail(p, start, "invalid syntax for function call expression");
    }
    jinja_expect_operator(p, ")");
    return call;
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *callee) {
    struct jinja_node *node = jinja_node_new(p, NODE_CALL, p->token);
    node->a = callee;
    node->call = parse_call_arguments(p);
    return node;
}

/* One subscript: an expression or a slice. */
static struct jinja_node *parse_subscribed(struct jinja_parser *p) {
    const struct jinja_token *start = p->token;
    struct jinja_node *parts[3] = {NULL, NULL, NULL};
    if (!jinja_at_operator(p, ":")) {
        parts[0] = jinja_parse_expression(p, true);
        if (!jinja_at_operator(p, ":"))
            return parts[0];
    }
    for (unsigned i = 1; i < 3 && jinja_skip_operator(p, ":"); i++)
        if (!jinja_at_operator(p, ":") && !jinja_at_operator(p, "]") && !jinja_at_operator(p, ","))
            parts[i] = jinja_parse_expression(p, true);
    struct jinja_node *slice = jinja_node_new(p, NODE_SLICE, start);
    for (unsigned i = 0; i < 3; i++)
        jinja_nodes_add(p, &slice->items, parts[i]);
    return slice;
}

static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *object) {
    const struct jinja_token *start = p->token;
    struct jinja_node *node = jinja_node_new(p, NODE_ITEM, start);
    node->a = object;
    if (jinja_skip_operator(p, ".")) {
        if (p->token->kind == TOKEN_NAME) {
            node->kind = NODE_ATTRIBUTE;
            node->name = p->token->text;
        } else if (p->token->kind == TOKEN_INTEGER) {
            node->b = jinja_node_new(p, NODE_CONSTANT, p->token);
            node->b->constant = parse_number(p, p->token);
        } else {
            jinja_parse_fail(p, p->token, "expected name or number");
        }
        next(p);
        return node;
    }
    struct jinja_nodes items = {0};
    next(p);
    while (!p->failed && !jinja_at_operator(p, "]")) {
        if (items.count)
            jinja_expect_operator(p, ",");
        jinja_nodes_add(p, &items, parse_subscribed(p));
    }
    jinja_expect_operator(p, "]");
    node->b = jinja_node_new(p, NODE_TUPLE, start);
    node->b->items = items;
    for (uint32_t i = 0; items.count > 1 && i < items.count; i++)
        if (items.items[i] && items.items[i]->kind == NODE_SLICE)
            jinja_parse_fail(p, start, "a slice inside a tuple of subscripts");
    if (items.count != 1 || p->failed)
        return node;
    node->b = items.items[0];
    if (node->b->kind != NODE_SLICE)
        return node;
    node->b->a = object;
    node->b->line = start->line, node->b->column = start->column;
    return node->b;
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *node) {
    while (!p->failed) {
        if (jinja_at_operator(p, ".") || jinja_at_operator(p, "["))
            node = parse_subscript(p, node);
        else if (jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static struct text parse_dotted_name(struct jinja_parser *p) {
    struct text name = jinja_expect_name(p);
    while (!p->failed && jinja_skip_operator(p, ".")) {
        struct text more = jinja_expect_name(p);
        name.size_bytes = p->failed ? name.size_bytes : (size_t)(more.data + more.size_bytes - name.data);
    }
    return name;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input, bool start_inline) {
    while (!p->failed && (start_inline || jinja_skip_operator(p, "|"))) {
        start_inline = false;
        struct jinja_node *node = jinja_node_new(p, NODE_FILTER, p->token);
        node->a = input;
        const struct jinja_token *at = p->token;
        node->name = parse_dotted_name(p);
        node->row = jinja_find_filter(node->name);
        if (!node->row)
            note_unknown(p, at, "filter");
        if (jinja_at_operator(p, "("))
            node->call = parse_call_arguments(p);
        input = node;
    }
    refuse_unknown(p);
    return input;
}

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *input) {
    const struct jinja_token *start = p->token;
    next(p);
    bool negated = jinja_skip_name(p, "not");
    struct jinja_node *node = jinja_node_new(p, NODE_TEST, start);
    node->a = input;
    const struct jinja_token *at = p->token;
    node->name = parse_dotted_name(p);
    node->row = jinja_find_test(node->name);
    if (!node->row)
        note_unknown(p, at, "test");
    bool literal = p->token->kind >= TOKEN_NAME && p->token->kind <= TOKEN_FLOAT;
    if (jinja_at_operator(p, "(")) {
        node->call = parse_call_arguments(p);
    } else if ((literal || jinja_at_operator(p, "[") || jinja_at_operator(p, "{")) && !jinja_at_name(p, "else") &&
               !jinja_at_name(p, "or") && !jinja_at_name(p, "and")) {
        if (jinja_at_name(p, "is"))
            jinja_parse_fail(p, p->token, "You cannot chain multiple tests with is");
        node->call = arena_alloc(p->arena, sizeof *node->call);
        if (node->call)
            jinja_nodes_add(p, &node->call->positional, parse_postfix(p, parse_primary(p)));
        else
            jinja_parse_fail(p, p->token, "out of memory");
    }
    if (!negated)
        return node;
    struct jinja_node *not = jinja_node_new(p, NODE_NOT, start);
    not ->a = node;
    return not ;
}

static struct jinja_node *parse_unary(struct jinja_parser *p, bool with_filter) {
    const struct jinja_token *start = p->token;
    struct jinja_node *node;
    if (jinja_at_operator(p, "-") || jinja_at_operator(p, "+")) {
        node = jinja_node_new(p, jinja_at_operator(p, "-") ? NODE_NEGATE : NODE_PLUS, start);
        next(p);
        if (deeper(p))
            node->a = parse_unary(p, false);
        p->depth--;
    } else {
        node = parse_primary(p);
    }
    node = parse_postfix(p, node);
    while (with_filter && !p->failed) {
        if (jinja_at_operator(p, "|"))
            node = jinja_parse_filters(p, node, false);
        else if (jinja_at_name(p, "is"))
            node = parse_test(p, node);
        else if (jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* Name or ns.attribute; anything else cannot be assigned to. */
static struct jinja_node *parse_one_target(struct jinja_parser *p, const char *end_name, bool with_namespace) {
    const struct jinja_token *start = p->token;
    if (jinja_skip_operator(p, "(")) {
        struct jinja_node *inner = deeper(p) ? jinja_parse_target(p, end_name, with_namespace) : jinja_node_new(p, NODE_TUPLE, start);
        p->depth--;
        jinja_expect_operator(p, ")");
        return inner;
    }
    struct jinja_node *node = parse_primary(p);
    if (node->kind != NODE_NAME && !p->failed)
        jinja_parse_fail(p, start, "can't assign to '%s'", node->kind == NODE_CONSTANT ? "const" : "this expression");
    if (with_namespace && !p->failed && jinja_skip_operator(p, ".")) {
        node->kind = NODE_NAMESPACE_ATTRIBUTE;
        node->text = jinja_expect_name(p);
    } else if (p->loops > 0 && text_is(node->name, "loop")) {
        jinja_parse_fail(p, start, "Can't assign to special loop variable in for-loop target");
    }
    return node;
}

struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *end_name, bool with_namespace) {
    const struct jinja_token *start = p->token;
    struct jinja_nodes items = {0};
    bool is_tuple = false;
    while (!p->failed) {
        if (items.count)
            jinja_expect_operator(p, ",");
        if (p->failed || at_tuple_end(p, end_name) || (items.count && jinja_at_operator(p, "=")))
            break;
        jinja_nodes_add(p, &items, parse_one_target(p, end_name, with_namespace));
        if (!jinja_at_operator(p, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.count)
        return items.items[0];
    char buffer[64];
    if (!items.count && !p->failed)
        jinja_parse_fail(p, p->token, "Expected an expression, got '%s'", jinja_describe_token(p->token, buffer, sizeof buffer));
    struct jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, start);
    tuple->items = items;
    return tuple;
}
