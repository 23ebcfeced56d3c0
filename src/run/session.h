/*
 * session: one timeline of tokens on an executor: extend it, return to an earlier position, read logits.
 *
 * Model       tokens [0, length) are in the states. extend() adds tokens in passes of at most the executor's rows. A pass that fails or is
 *             cancelled changes nothing: length stays. rewind() makes the timeline shorter; what was behind is written again when the
 *             sequence goes on (checkpoint and commit of a KV state are its length; recurrent states: run/recurrent_state.h).
 * Threads     as the executor: one owner.
 * Memory      the token list for the whole context, at create.
 */
#pragma once

#include "run/executor.h"

struct session;

/* sequence: slot in the KV cache, not used by another session. */
MUST_CHECK enum status session_create(struct executor *executor, uint32_t sequence, uint32_t context, uint32_t max_rows,
                                      uint32_t max_logit_rows, struct session **out, struct error *err);
void session_destroy(struct session *session);

/* Tokens in the timeline, how many fit, and which they are (borrowed, valid until the next change). */
uint32_t session_length(const struct session *session);
uint32_t session_context(const struct session *session);
const uint32_t *session_tokens(const struct session *session);

/*
 * Called with the logits [vocab] of a position while extend runs; they may be changed, and are gone after the call. An error ends extend.
 */
typedef enum status session_logits(void *context, uint32_t position, float *logits, struct error *err);
/* Called after each pass, before logits are handed out: tokens [position, position + count) are in the states. An error ends extend. */
typedef enum status session_pass(void *context, uint32_t position, uint32_t count, struct error *err);
/* Progress after each pass: tokens done of all. May be NULL. */
typedef void session_progress(void *context, uint32_t done, uint32_t total);

struct session_extend {
    const uint32_t *tokens;
    uint32_t count;         /* >= 1 */
    uint32_t logits_from;   /* first of the tokens whose logits are wanted; count: none */
    session_pass *passed;   /* or NULL */
    session_logits *logits; /* NULL allowed when none are wanted */
    session_progress *progress;
    void *context;
};
/* STATUS_OVER_BUDGET when the context is too short. */
MUST_CHECK enum status session_extend(struct session *session, const struct session_extend *request, struct error *err);
/* Back to `length` tokens; length <= session_length, and within what windowed and recurrent layers still hold: else
 * STATUS_UNSUPPORTED, and nothing is changed. 0 always works. */
MUST_CHECK enum status session_rewind(struct session *session, uint32_t length, struct error *err);
