/*
 * chat_template: a model's chat templates, and the prompt they make of a conversation.
 *
 * Sources    chat_template.jinja (and additional_chat_templates/tool_use.jinja), chat_template.json, tokenizer_config.json, the GGUF key
 *            tokenizer.chat_template (and tokenizer.chat_template.NAME), or a file. The first that is there counts; there is no built-in
 *            template and no fallback to another one: what cannot be rendered is refused.
 * Messages   are prepared as transformers does: null keys are dropped, the reasoning goes by reasoning_content and by thinking, tool-call
 *            arguments given as JSON text become objects (an error names the message and call). Content made of text parts alone is joined
 *            to one string without a separator, since many templates know only strings.
 * Adaptation a template that fails is tried again with what it may have missed, each only if it applies: role developer as system; an
 *            empty content where there is none; tool-call arguments as JSON text. If it fails still, the first error stands.
 * Left out   some templates pass over a message without a word, and transformers lets them. With drop_nothing a developer message then
 *            becomes a system message, and if a developer or tool message, or a system message behind the first, is left out still,
 *            the request is refused. (Mistral's templates leave out the first system message after a tool's answer; that passes.)
 * Trust      only template text and the special tokens of the model may become control tokens; see jinja.h and chat_encode.h.
 * Threads    immutable after open; many may render at once (1 MiB of stack each).
 */
#pragma once

#include <jansson.h>

#include "format/catalogue.h"
#include "text/jinja.h"

struct chat_template;

/* The templates of a model. STATUS_NOT_FOUND: it has none; the error says where they were looked for and what to do. */
MUST_CHECK enum status chat_template_open(const struct catalogue *catalogue, struct chat_template **out, struct error *err);
/* A Jinja file, or a .json file with "chat_template". Special tokens come from tokenizer_config.json beside it, if there is one. */
MUST_CHECK enum status chat_template_open_file(const char *path, struct chat_template **out, struct error *err);
/* One template; `name` is used in errors. */
MUST_CHECK enum status chat_template_open_text(struct text source, const char *name, struct chat_template **out, struct error *err);
void chat_template_close(struct chat_template *chat);
/* Sets a special token ("bos_token", ...), which templates find as a variable of that name. */
MUST_CHECK enum status chat_template_set_token(struct chat_template *chat, const char *name, struct text text, struct error *err);
/* Takes the special tokens of a model that templates have not brought along (--chat-template FILE with a model). */
MUST_CHECK enum status chat_template_take_tokens(struct chat_template *chat, const struct catalogue *catalogue, struct error *err);
/* Source of the template that is used with or without tools; for reply_family_detect. */
struct text chat_template_source(const struct chat_template *chat, bool with_tools);

struct chat_request {
    const json_t *messages;  /* array of objects with a role; not empty */
    const json_t *tools;     /* array, or NULL */
    const json_t *documents; /* array, or NULL */
    const json_t *variables; /* object: further variables for the template, as data; or NULL */
    const json_t *tokens;    /* object of texts: special tokens that override the model's, trusted; or NULL */
    bool add_generation_prompt;
    bool continue_final_message;       /* the prompt ends with the last message's text; not together with the above */
    bool drop_nothing;                 /* refuse what the template would leave out; see Left out */
    const struct tm *clock;            /* NULL: local time */
    const struct jinja_limits *limits; /* NULL: the default */
};

struct chat_prompt { /* chat_prompt_deinit; zeroed is empty */
    char *text;      /* terminated */
    size_t size_bytes;
    struct jinja_span *spans; /* which bytes are the template's */
    size_t span_count;
};
void chat_prompt_deinit(struct chat_prompt *prompt);

/* STATUS_INVALID: the request or the template refuses; the message of raise_exception is in the error. *out is empty on failure. */
MUST_CHECK enum status chat_template_render(const struct chat_template *chat, const struct chat_request *request, struct chat_prompt *out,
                                            struct error *err);

/* "2025-03-09T14:05:07" as a broken-down time. */
MUST_CHECK enum status chat_clock_parse(const char *text, struct tm *out, struct error *err);
