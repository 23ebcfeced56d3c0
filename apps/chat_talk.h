/*
 * chat_talk: a conversation with a loaded model: what was said, and the next answer, printed as it comes.
 *
 * Model     messages are JSON in OpenAI's form; a system message, if any, is the first. The prompt is rendered anew for every answer; the
 *           library computes only what is new in it.
 * Output    the answer goes to standard output: on a terminal with its reasoning, dimmed, and without control characters; elsewhere the
 * answer alone, as it is. What it cost goes to standard error. Threads   one; Ctrl-C stops an answer through app_watch.
 */
#pragma once

#include <jansson.h>

#include "app.h"
#include "base/status.h"

struct talk {
    const struct options *options; /* of app_chat_spec */
    sluice_model *model;           /* borrowed */
    json_t *messages;              /* owned: talk_init, talk_deinit */
    uint32_t attempt;              /* answers to the last question that were thrown away */
    bool on_terminal;              /* standard output */
};

MUST_CHECK enum status talk_init(struct talk *talk, const struct options *options, sluice_model *model, struct error *err);
void talk_deinit(struct talk *talk);
/* Adds a message of the user; any bytes. */
MUST_CHECK enum status talk_ask(struct talk *talk, struct text message, struct error *err);
/*
 * Answers the last message, prints and keeps the answer, also one that Ctrl-C cut. When nothing can be answered the last message is taken
 * back. Returns an exit code; what went wrong was printed. EXIT_STOPPED: Ctrl-C.
 */
int talk_answer(struct talk *talk);
/* Whether a prompt can be made at all: what is wrong with template or tokenizer shows before the model is loaded. */
sluice_status talk_check(const struct talk *talk, sluice_error *error);

/* "user", "assistant", "system"; NULL when there is no such message. index counts from the end when negative. */
const char *talk_role(const struct talk *talk, long index);
/* Sets the system message, NULL or empty: takes it away. */
MUST_CHECK enum status talk_set_system(struct talk *talk, const char *text, struct error *err);
