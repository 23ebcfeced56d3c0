/*
 * chat_encode: ids of a rendered prompt, with control tokens only where the template wrote them.
 *
 * Model   added tokens are looked for in the whole text; one that lies wholly inside the template's own spans is a control token, any
 *         other spelling is ordinary text. The text is cut at the control tokens and nowhere else, so that ids of ordinary text do not
 *         depend on where data begins.
 */
#pragma once

#include "text/chat_template.h"
#include "text/tokenizer.h"

/* Appends the ids. cancel may be NULL. */
MUST_CHECK enum status chat_encode(const struct tokenizer *tokenizer, const struct chat_prompt *prompt, const atomic_bool *cancel,
                                   struct token_list *out, struct error *err);
