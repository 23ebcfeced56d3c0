/*
 * session: passes of a single sequence.
 */
#include "run/session.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"

struct session {
    struct executor *executor;
    uint32_t sequence, context, max_rows, max_logit_rows;
    uint32_t length, oldest; /* oldest: length that rewind may still go back to */
    uint32_t *tokens;        /* [context] */
    struct row *rows;        /* [max_rows] */
};

enum status session_create(struct executor *executor, uint32_t sequence, uint32_t context, uint32_t max_rows, uint32_t max_logit_rows,
                           struct session **out, struct error *err) {
    *out = NULL;
    struct session *s = memory_alloc(sizeof *s);
    if (s) {
        *s = (struct session){
            .executor = executor, .sequence = sequence, .context = context, .max_rows = max_rows, .max_logit_rows = max_logit_rows};
        s->tokens = memory_alloc_array(context, sizeof *s->tokens);
        s->rows = memory_alloc_array(max_rows, sizeof *s->rows);
    }
    if (!s || !s->tokens || !s->rows) {
        session_destroy(s);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a sequence of %u tokens", context);
    }
    *out = s;
    return STATUS_OK;
}

void session_destroy(struct session *session) {
    if (!session)
        return;
    memory_free(session->tokens);
    memory_free(session->rows);
    memory_free(session);
}

uint32_t session_length(const struct session *session) { return session->length; }
uint32_t session_context(const struct session *session) { return session->context; }
const uint32_t *session_tokens(const struct session *session) { return session->tokens; }

/* Rows of the next pass: as many as fit, of which at most max_logit_rows want logits. */
static uint32_t fill_rows(struct session *s, const struct session_extend *request, uint32_t done) {
    uint32_t count = 0, wanted = 0;
    while (count < s->max_rows && done + count < request->count) {
        uint32_t index = done + count;
        bool wants = index >= request->logits_from;
        if (wants && wanted == s->max_logit_rows)
            break;
        wanted += wants;
        s->rows[count] = (struct row){.token = request->tokens[index],
                                      .sequence = s->sequence,
                                      .position = s->length + count,
                                      .parent = count ? (int32_t)count - 1 : ROW_NO_PARENT,
                                      .wants_logits = wants};
        count++;
    }
    return count;
}

static enum status hand_out_logits(struct session *s, const struct session_extend *request, uint32_t count, struct error *err) {
    uint32_t index = 0;
    for (uint32_t r = 0; r < count; r++)
        if (s->rows[r].wants_logits)
            TRY(request->logits(request->context, s->rows[r].position, executor_logits(s->executor, index++), err));
    return STATUS_OK;
}

enum status session_extend(struct session *s, const struct session_extend *request, struct error *err) {
    CHECK(request->count > 0 && (request->logits || request->logits_from >= request->count));
    if (request->count > s->context - s->length)
        return error_set(err, STATUS_OVER_BUDGET,
                         "%u tokens in the sequence and %u more do not fit a context of %u: raise --ctx or shorten the prompt", s->length,
                         request->count, s->context);
    for (uint32_t done = 0; done < request->count;) {
        uint32_t count = fill_rows(s, request, done);
        TRY(executor_run(s->executor, s->rows, count, err));
        memcpy(s->tokens + s->length, request->tokens + done, count * sizeof *s->tokens);
        s->length += count;
        if (executor_forgets(s->executor) && s->length > s->max_rows && s->length - s->max_rows > s->oldest)
            s->oldest = s->length - s->max_rows;
        done += count;
        if (request->passed)
            TRY(request->passed(request->context, s->length - count, count, err));
        TRY(hand_out_logits(s, request, count, err));
        if (request->progress)
            request->progress(request->context, done, request->count);
    }
    return STATUS_OK;
}

enum status session_rewind(struct session *s, uint32_t length, struct error *err) {
    if (length > s->length)
        return error_set(err, STATUS_INVALID, "cannot return to %u tokens: the sequence has %u", length, s->length);
    if (length < s->oldest && length > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "cannot return to %u of %u tokens: only the last %u can be taken back; start again from 0", length, s->length,
                         s->length - s->oldest);
    TRY(executor_rewind(s->executor, s->sequence, length, err));
    s->length = length;
    s->oldest = length == 0 ? 0 : s->oldest;
    return STATUS_OK;
}
