/*
 * jinja_ast: tokens and syntax tree of a template, in the template's own arena.
 *
 * One node shape serves all kinds; which fields a kind uses stands beside it. `line` is the line jinja2 would report.
 */
#pragma once

#include "text/jinja_value.h"

enum jinja_token_kind {
    TOKEN_END,   /* of the template */
    TOKEN_ERROR, /* text: what is wrong here */
    TOKEN_DATA,
    TOKEN_VARIABLE_BEGIN,
    TOKEN_VARIABLE_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_STRING,  /* text: unescaped */
    TOKEN_INTEGER, /* text: as written */
    TOKEN_FLOAT,
    TOKEN_OPERATOR, /* text: one of + - / // * % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ; */
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line, column;
    struct text text;
};

enum jinja_node_kind {
    /* expressions */
    NODE_CONSTANT,  /* constant */
    NODE_NAME,      /* name */
    NODE_LIST,      /* items */
    NODE_TUPLE,     /* items */
    NODE_DICT,      /* items: key, value, key, value, ... */
    NODE_ATTRIBUTE, /* a, name */
    NODE_ITEM,      /* a, b */
    NODE_SLICE,     /* a, items: begin, end, step (each may be NULL) */
    NODE_CALL,      /* a, call */
    NODE_FILTER,    /* a (NULL: the body's text), name, call, row (NULL: unknown) */
    NODE_TEST,      /* a, name, call, row (NULL: unknown) */
    NODE_NOT,       /* a */
    NODE_NEGATE,    /* a */
    NODE_PLUS,      /* a */
    NODE_AND,       /* a, b */
    NODE_OR,        /* a, b */
    NODE_BINARY,    /* a, op, b; op: + - * / % and 'f' for //, 'p' for ** */
    NODE_CONCAT,    /* items */
    NODE_COMPARE,   /* a, items, ops (one letter each: = ! < > l g i n) */
    NODE_CONDITION, /* a if b else c (c may be NULL) */
    /* statements */
    NODE_OUTPUT,              /* items: NODE_DATA and expressions */
    NODE_DATA,                /* text */
    NODE_IF,                  /* a: test, body, other: else or elif chain */
    NODE_FOR,                 /* a: target, b: iterable, c: condition or NULL, body, other: else, flag: recursive */
    NODE_SET,                 /* a: target, b: value */
    NODE_SET_BLOCK,           /* a: target, b: filter chain or NULL, body */
    NODE_NAMESPACE_ATTRIBUTE, /* target only: name, text: attribute */
    NODE_MACRO,               /* name, items: parameters (NODE_NAME), more: defaults of the last ones, body, flag: JINJA_USES_* */
    NODE_CALL_BLOCK,          /* a: call, else as NODE_MACRO */
    NODE_FILTER_BLOCK,        /* b: filter chain, body */
    NODE_WITH,                /* items: targets, more: values, body */
    NODE_BLOCK,               /* name, body, flag: scoped */
    NODE_SCOPE,               /* body */
    NODE_BREAK,
    NODE_CONTINUE,
    NODE_LOADER, /* include, import, from, extends: fails when reached */
};

enum { JINJA_USES_CALLER = 1, JINJA_USES_KWARGS = 2, JINJA_USES_VARARGS = 4 };

struct jinja_nodes {
    struct jinja_node **items;
    uint32_t count;
};

struct jinja_call { /* arguments as written */
    struct jinja_nodes positional, named;
    struct text *names;
    struct jinja_node *list, *dict; /* *args, **kwargs */
};

struct jinja_node {
    uint8_t kind; /* enum jinja_node_kind */
    char op;
    uint8_t flag;
    uint32_t line, column;
    uint32_t before_line; /* of a NODE_SET: that of the code before it, which jinja2 reports for a bad target */
    struct text name, text;
    const char *ops;
    struct jinja_value constant;
    const struct jinja_native_row *row;
    struct jinja_node *a, *b, *c;
    struct jinja_nodes items, more, body, other;
    struct jinja_call *call;
};

struct jinja_template {
    struct arena *arena;
    struct jinja_nodes body, blocks; /* blocks: NODE_BLOCK by name */
};

/* Cuts `source` into tokens, ended by TOKEN_END or TOKEN_ERROR. NULL: out of memory. */
const struct jinja_token *jinja_lex(struct arena *arena, struct text source);
/* Parses tokens into template->body; false and *problem when they are not a template. */
bool jinja_parse(struct jinja_template *template, const struct jinja_token *tokens, struct jinja_error *problem);

#define JINJA_STATEMENT_DEPTH_MAX 64

/* What parsing shares between expressions and statements. */
struct jinja_parser {
    struct arena *arena;
    struct jinja_template *template;
    const struct jinja_token *token; /* current */
    struct jinja_error *problem;
    bool failed, soft;                           /* soft: inside a condition, where unknown filters may never be reached */
    const struct jinja_token *unknown, *refused; /* unknown filter or test: in this expression; the first that must not stand */
    const char *unknown_kind, *refused_kind;
    unsigned depth, loops, uses;
    uint32_t code_line;                          /* of the last statement or printed expression */
    const char *ends[JINJA_STATEMENT_DEPTH_MAX]; /* what closes the open tags, innermost last: "elif else endif" */
    struct text tags[JINJA_STATEMENT_DEPTH_MAX];
    unsigned open;
    struct jinja_node spare; /* what jinja_node_new gives when memory is spent */
};

bool jinja_parse_fail(struct jinja_parser *p, const struct jinja_token *at, const char *format, ...) PRINTF_LIKE(3, 4); /* false */
struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, const struct jinja_token *at);
void jinja_nodes_add(struct jinja_parser *p, struct jinja_nodes *nodes, struct jinja_node *node);
bool jinja_at_name(const struct jinja_parser *p, const char *name);
bool jinja_at_operator(const struct jinja_parser *p, const char *op);
bool jinja_skip_name(struct jinja_parser *p, const char *name);
bool jinja_skip_operator(struct jinja_parser *p, const char *op);
void jinja_expect_operator(struct jinja_parser *p, const char *op);
struct text jinja_expect_name(struct jinja_parser *p);
const char *jinja_describe_token(const struct jinja_token *token, char *buffer, size_t size_bytes);

/* Expressions. All return a node, also after a failure (then p->failed). */
struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool with_condition);
/* One expression, or a tuple when there are commas; `end_name` (may be NULL) also ends it. */
struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool with_condition, const char *end_name, bool in_parentheses);
struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input, bool start_inline);
/* Name, tuple of names, or (with_namespace) ns.attribute. */
struct jinja_node *jinja_parse_target(struct jinja_parser *p, const char *end_name, bool with_namespace);

/* Tables (jinja_filters.c, jinja_tests.c); NULL: unknown. */
const struct jinja_native_row *jinja_find_filter(struct text name);
const struct jinja_native_row *jinja_find_test(struct text name);
