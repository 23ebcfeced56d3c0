/*
 * jinja: renders chat templates: the Jinja language as transformers sets it up (trim_blocks, lstrip_blocks, loop controls, no autoescape,
 * immutable sandbox), with Python's values and printing.
 *
 * Model      a template is compiled once and is immutable. A run holds the variables, all values and the output of one rendering.
 * Trust      every byte of a string knows whether it comes from the template's own text (trusted) or from data. Literals are trusted,
 *            variables are what jinja_set_* says, and every operation carries the marks along. The output is cut into spans by them, so
 *            that a control token written by a user is never taken for one of the template.
 * Sandbox    no attribute of Python's internals, no files, no imports; steps, output, memory and depth are bounded (jinja_limits).
 *            Lists and dicts cannot be changed, unless jinja_limits.allow_mutation is set.
 * Threads    a template may render in many threads, each with a run of its own. A rendering needs up to 1 MiB of stack.
 * Locale     LC_NUMERIC must be "C".
 * Failure    a jinja_error says kind, line (as jinja2 counts), column and words; raise_exception's message is passed on unchanged.
 *
 * Not supported (a load error with its place): urlize, random, wordwrap and xmlattr; template inheritance is a run-time error, as it is in
 * transformers, which gives no loader.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

enum jinja_failure {
    JINJA_OK = 0,
    JINJA_SYNTAX,        /* TemplateSyntaxError: the template is not Jinja */
    JINJA_UNDEFINED_USE, /* UndefinedError: something was done with a value that is not there */
    JINJA_TYPE,          /* TypeError, ValueError, ZeroDivisionError, ...: Python would not do it */
    JINJA_SECURITY,      /* SecurityError: the sandbox forbids it */
    JINJA_RAISED,        /* raise_exception(message) */
    JINJA_LIMIT,         /* steps, output, memory or depth */
};

struct jinja_error {
    enum jinja_failure failure;
    uint32_t line, column; /* from 1; 0: unknown */
    char message[1500];    /* UTF-8, terminated, cut when longer */
};

struct jinja_limits {
    uint64_t steps;      /* evaluated nodes, and one per 64 bytes of string work */
    size_t output_bytes; /* of the rendered text */
    size_t memory_bytes; /* of all values of the run */
    unsigned depth;      /* nested evaluations, and nesting of printed values */
    bool allow_mutation; /* list.append and so on work, generators and from_json can be used as JSON: a superset that some models' templates
                            need */
};
/* 100 million steps, 64 MiB of output, 512 MiB of memory, depth 600, no mutation. */
struct jinja_limits jinja_limits_default(void);

struct jinja_template;

/* Compiles `source` (UTF-8). *out is NULL on failure, and *problem (may not be NULL) says where and why. */
MUST_CHECK enum status jinja_compile(struct text source, struct jinja_template **out, struct jinja_error *problem);
void jinja_template_destroy(struct jinja_template *template);

struct jinja_run;

MUST_CHECK enum status jinja_run_create(const struct jinja_limits *limits, struct jinja_run **out, struct error *err);
void jinja_run_destroy(struct jinja_run *run);
/* strftime_now's time; without it the local time of the call. */
void jinja_set_clock(struct jinja_run *run, const struct tm *now);
/*
 * Sets a variable. Trouble (memory) shows at jinja_render. `trusted_words` (NULL-terminated, may be NULL): a string value under the key
 * "role" that is one of them is trusted, since templates write control tokens around it ('<|' + role + '|>').
 */
void jinja_set_json(struct jinja_run *run, const char *name, const json_t *value, const char *const *trusted_words);
void jinja_set_text(struct jinja_run *run, const char *name, struct text value, bool trusted);
void jinja_set_bool(struct jinja_run *run, const char *name, bool value);
void jinja_set_none(struct jinja_run *run, const char *name);

struct jinja_span { /* bytes [begin, end) of the output */
    size_t begin, end;
    bool trusted;
};

struct jinja_output { /* borrowed from the run */
    struct text text;
    const struct jinja_span *spans; /* in order, without gaps; empty for an empty text */
    size_t span_count;
};

/* Renders once; a run is not used again. */
MUST_CHECK enum status jinja_render(struct jinja_run *run, const struct jinja_template *template, struct jinja_output *out,
                                    struct jinja_error *problem);

/* Appends JSON as Python's json.dumps(value, ensure_ascii=False) writes it. */
MUST_CHECK enum status jinja_dump_json(const json_t *value, struct byte_buffer *out, struct error *err);
