/*
 * chat_messages: messages as templates want them. See chat_template.h for what is done to them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"

enum chat_adaptation {
    CHAT_DEVELOPER_AS_SYSTEM = 1,
    CHAT_EMPTY_CONTENT = 2,  /* "" where content is missing or null */
    CHAT_TEXT_ARGUMENTS = 4, /* tool-call arguments stay, or become, JSON text */
};

/* Checks and prepares; *out is a new array. */
MUST_CHECK enum status chat_messages_prepare(const json_t *messages, unsigned adaptations, json_t **out, struct error *err);
/* Which adaptations would change something. */
unsigned chat_messages_adaptable(const json_t *messages);

/* The mark that stands at the end of the message to continue, while rendering. */
#define CHAT_CONTINUE_MARK "CONTINUE_FINAL_MESSAGE_TAG "
/* Puts the mark behind the last message's text; *text is a new copy of that text without it. Changes `messages`. */
MUST_CHECK enum status chat_messages_mark_final(json_t *messages, json_t **text, struct error *err);

/* Puts a word of its own for the text of each message of which a template may not approve; *count of them. Changes `messages`. */
MUST_CHECK enum status chat_messages_replace_contents(json_t *messages, size_t *count, struct error *err);
/* The first of those messages whose word is not in the prompt; SIZE_MAX: none. */
MUST_CHECK enum status chat_messages_find_dropped(const json_t *messages, struct text prompt, size_t *dropped, struct error *err);
