/*
 * reply_grammar: the form of a chat reply: reasoning that may come first, marks around calls, arguments by the tools' schemas.
 *
 * Model     made from the row of the family in text/reply_markers.h: what the reply parser reads back is what may be written. Marks that
 *           are control tokens of the vocabulary are matched as such, others as text.
 * Refused   forced calls of families that write arguments in other notations than JSON or text between marks (Python calls, Gemma's
 *           objects), and of those without calls: STATUS_UNSUPPORTED names the family.
 */
#pragma once

#include <jansson.h>

#include "generate/json_form.h"
#include "text/reply_markers.h"
#include "text/tokenizer.h"

struct reply_grammar {
    struct json_form *form;
    const struct reply_family *family;
    const struct tokenizer *tokenizer; /* tells which marks are control tokens; NULL: none are */
    bool reasoning_opened;             /* by the prompt */
    bool may_reason;                   /* by itself */
};

/* The content of a reply. */
struct fragment reply_grammar_content(const struct reply_grammar *reply, struct fragment content);
/* One call or more. tools: the request's list, borrowed until grammar_finish; only: NULL: any of them; one: not more than one call. */
struct fragment reply_grammar_calls(const struct reply_grammar *reply, const json_t *tools, const char *only, bool one);

/* The spelling of a control token in a grammar and in a token_trie. */
MUST_CHECK enum status reply_control_spelling(struct text token, struct byte_buffer *out, struct error *err);
