/*
 * render_jsonl: `sluice render --jsonl`: one conversation (or one template with its variables) a line in, one prompt a line out.
 *
 * In     {messages, tools, kwargs, add_generation_prompt, continue_final_message, documents, arguments}, rendered with the given template;
 *        kwargs named ..._token are special tokens of the model. Or {source, context}: the line brings a plain Jinja template.
 * Out    {text} or {text, ids} with a tokenizer; {error}, with {line} for a template that came in the line.
 */
#pragma once

#include <stdio.h>
#include <time.h>

#include "base/status.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

struct render_jsonl_options {
    const struct chat_template *chat;  /* NULL: lines bring templates */
    const struct tokenizer *tokenizer; /* NULL: no ids */
    const struct tm *clock;            /* NULL: local time */
};

/* Runs until in ends. */
MUST_CHECK enum status render_jsonl(const struct render_jsonl_options *options, FILE *in, FILE *out, struct error *err);
