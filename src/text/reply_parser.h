/*
 * reply_parser: a model's reply as OpenAI's message: reasoning, content and tool calls, from a stream of text.
 *
 * Rules      reasoning counts only at the start of the reply, or when the prompt opened it (then the reply may repeat the mark); later
 *            marks are text. Newlines next to its marks are dropped, spaces are not. A call inside reasoning is not run: it stays in the
 *            reasoning. A call that is cut or malformed stays in the content from its opening mark on, and so does what follows it; whole
 *            calls before it stand. White space between content and a call is dropped. Without tools in the request nothing is parsed as
 *            a call.
 * Streams    any split of the text gives the same message. Text is held back only while it may become a mark, a call, or white space in
 *            front of one; a call is given whole.
 * Threads    one owner at a time.
 * Memory     what is held back, and nothing else.
 */
#pragma once

#include <jansson.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "text/reply_call.h"
#include "text/reply_markers.h"

struct reply_parser;

struct reply_parser_options {
    const struct reply_family *family;
    const json_t *tools;   /* list of the request, borrowed until destroy; NULL: none */
    bool reasoning_opened; /* the prompt ended inside reasoning */
};

struct reply_output { /* grows; the owner may clear it between pushes (reply_output_clear) */
    struct byte_buffer reasoning, content;
    struct reply_calls calls;
};
void reply_output_init(struct reply_output *output);
void reply_output_deinit(struct reply_output *output);
void reply_output_clear(struct reply_output *output);

MUST_CHECK enum status reply_parser_create(const struct reply_parser_options *options, struct reply_parser **out, struct error *err);
void reply_parser_destroy(struct reply_parser *parser);
/* Takes text (any bytes) and appends what is decided by it. */
MUST_CHECK enum status reply_parser_push(struct reply_parser *parser, struct text text, struct reply_output *output, struct error *err);
/* The reply is over: appends the rest. Call once. */
MUST_CHECK enum status reply_parser_finish(struct reply_parser *parser, struct reply_output *output, struct error *err);
/* Whether text pushed now would be inside a call: a stop rule must not cut there. */
bool reply_parser_in_call(const struct reply_parser *parser);
