/*
 * chat_input: messages as a user types them: with line editing and history on a terminal, plain lines elsewhere.
 *
 * Model     a message is a line; a backslash at its end joins the next line, and a line of three quotes begins and ends a text of many
 * lines. History   kept over runs in $XDG_STATE_HOME/sluice/chat_history (~/.local/state without that), readable by the user alone. Threads
 * one.
 */
#pragma once

#include <stdbool.h>

#include "base/byte_buffer.h"

struct chat_input;

/*
 * tend(context) is called again and again, about once a second or, when it returns true, at once, while nothing is typed: for what is to be
 * done meanwhile. *out is NULL on failure.
 */
MUST_CHECK enum status chat_input_open(bool (*tend)(void *context), void *context, struct chat_input **out, struct error *err);
void chat_input_close(struct chat_input *input); /* NULL is allowed */
bool chat_input_on_terminal(const struct chat_input *input);
/*
 * The next message into an empty buffer, without the line's end; may be empty (an empty line, or Ctrl-C gave up what was typed). False at
 * the end of the input (Ctrl-D). *status tells a message beyond the buffer's limit, or memory that ran out.
 */
bool chat_input_read(struct chat_input *input, struct byte_buffer *message, enum status *status, struct error *err);
