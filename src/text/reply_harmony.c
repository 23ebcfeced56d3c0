/*
 * reply_harmony: engines for replies made of parts with a header: gpt-oss ("<|channel|>final<|message|>text<|end|>", "to=functions.name")
 * and functionary v3.2 (">>>name\n").
 */
#include <string.h>

#include "base/check.h"
#include "text/reply_engine.h"

#define HEADER_BYTES_MAX 1024
#define MARK_BYTES_MAX 16

static struct text from(struct text text, size_t at) { return (struct text){text.data + at, text.size_bytes - at}; }

/* Keeps the first bytes as the part's header, in case its call turns out to be none. */
static enum status keep_header(struct reply_parser *p, size_t size_bytes, struct error *err) {
    byte_buffer_clear(&p->header);
    return reply_move(p, size_bytes, &p->header, err);
}

static enum status as_text(struct reply_parser *p, bool *again, struct reply_output *out, struct error *err) {
    TRY(byte_buffer_append_text(&out->content, byte_buffer_text(&p->header), err));
    byte_buffer_clear(&p->header);
    p->state = STATE_TEXT;
    *again = true;
    return reply_move(p, p->held.size_bytes, &out->content, err);
}

/* The body [0, size) is a call if it is one JSON object. */
static bool read_body(struct text body, struct text recipient, struct reply_calls *calls) {
    size_t begin = reply_skip_space(body, 0), at = begin;
    if (begin == body.size_bytes || body.data[begin] != '{' || reply_read_value(body, &at, DIALECT_JSON, true, NULL) != READ_OK ||
        reply_skip_space(body, at) != body.size_bytes)
        return false;
    struct text arguments = {body.data + begin, at - begin};
    return reply_is_name(recipient) && reply_calls_add(calls, (struct text){NULL, 0}, recipient, arguments, NULL) == STATUS_OK;
}

/* ---- harmony ---- */

/* Whether text may be the start of a header. */
static bool may_be_header(struct text text) {
    static const char *const starts[] = {"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "to="};
    text = from(text, reply_skip_space(text, 0));
    if (text.size_bytes == 0)
        return true;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t size = strlen(starts[i]), common = text.size_bytes < size ? text.size_bytes : size;
        if (memcmp(text.data, starts[i], common) == 0)
            return true;
    }
    return false;
}

/* The word behind `mark` in a header: up to white space or a mark. */
static struct text word_behind(struct text header, const char *mark) {
    size_t at = reply_find(header, mark), end;
    if (at == SIZE_MAX)
        return (struct text){"", 0};
    for (end = at += strlen(mark); end < header.size_bytes && (unsigned char)header.data[end] > ' ' && header.data[end] != '<';)
        end++;
    return (struct text){header.data + at, end - at};
}

static enum status begin_part(struct reply_parser *p, size_t message, bool *again, struct reply_output *out, struct error *err) {
    struct text header = {reply_held(p).data, message};
    struct text recipient = word_behind(header, "to="), channel = word_behind(header, "<|channel|>"), functions = TEXT("functions.");
    if (text_starts_with(recipient, functions))
        recipient = from(recipient, functions.size_bytes);
    p->body = recipient.size_bytes > 0 ? BODY_CALL : text_is(channel, "analysis") ? BODY_REASONING : BODY_CONTENT;
    byte_buffer_clear(&p->recipient);
    TRY(byte_buffer_append_text(&p->recipient, recipient, err));
    if (text_starts_with(header, TEXT("<|start|>assistant"))) /* the frame of a message is not part of its call */
        reply_drop(p, strlen("<|start|>assistant"));
    TRY(keep_header(p, reply_find(reply_held(p), "<|message|>") + strlen("<|message|>"), err));
    p->state = STATE_BODY;
    p->tried_bytes = 0;
    p->begun = false;
    *again = true;
    return p->body == BODY_CALL && !reply_has_tools(p) ? as_text(p, again, out, err) : STATUS_OK;
}

static enum status step_header(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    struct text held = reply_held(p);
    size_t message = reply_find(held, "<|message|>");
    bool too_long = message == SIZE_MAX ? held.size_bytes > HEADER_BYTES_MAX + strlen("<|message|>") : message > HEADER_BYTES_MAX;
    if (!may_be_header(held) || too_long)
        return as_text(p, again, out, err);
    if (message != SIZE_MAX)
        return begin_part(p, message, again, out, err);
    if (last && reply_trimmed(held, false) == 0)
        reply_drop(p, held.size_bytes);
    return last && p->held.size_bytes > 0 ? as_text(p, again, out, err) : STATUS_OK;
}

/* Where the body ends, and the size of the mark there (0: none yet, `end` is what cannot belong to one). Searches from `begin` on. */
static size_t body_end(struct text all, size_t begin, bool last, size_t *mark_bytes) {
    static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
    struct text held = from(all, begin);
    size_t end = held.size_bytes;
    *mark_bytes = 0;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t found = reply_find(held, marks[i]);
        size_t at = found != SIZE_MAX ? found : held.size_bytes - (last ? 0 : reply_partial(held, marks[i]));
        if (at > end || (at == end && found == SIZE_MAX))
            continue;
        end = at;
        *mark_bytes = found != SIZE_MAX ? strlen(marks[i]) : 0;
    }
    return begin + end;
}

/* Text of a part goes to content or reasoning; parts of one kind are set off by a newline. */
static enum status move_body(struct reply_parser *p, size_t size_bytes, struct reply_output *out, struct error *err) {
    bool reasoning = p->body == BODY_REASONING, *had = reasoning ? &p->had_reasoning : &p->had_content;
    struct byte_buffer *to = reasoning ? &out->reasoning : &out->content;
    if (size_bytes > 0 && !p->begun && *had)
        TRY(byte_buffer_append(to, "\n", 1, err));
    p->begun = p->begun || size_bytes > 0;
    *had = *had || size_bytes > 0;
    return reply_move(p, size_bytes, to, err);
}

static enum status step_body(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    size_t seen = p->tried_bytes > MARK_BYTES_MAX ? p->tried_bytes - MARK_BYTES_MAX : 0; /* of a call that is held back */
    size_t mark_bytes, end = body_end(reply_held(p), seen, last, &mark_bytes);
    bool over = mark_bytes > 0 || last;
    if (p->body == BODY_CALL) {
        p->tried_bytes = p->held.size_bytes;
        if (!over)
            return STATUS_OK;
        if (!read_body((struct text){reply_held(p).data, end}, byte_buffer_text(&p->recipient), &out->calls))
            return as_text(p, again, out, err);
        reply_drop(p, end);
    } else {
        TRY(move_body(p, end, out, err));
    }
    if (!over)
        return STATUS_OK;
    bool starts_next = text_starts_with(reply_held(p), TEXT("<|start|>"));
    reply_drop(p, starts_next ? 0 : mark_bytes);
    p->state = STATE_HEADER;
    *again = mark_bytes > 0;
    return STATUS_OK;
}

enum status reply_step_harmony(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    if (p->state == STATE_HEADER)
        return step_header(p, last, again, out, err);
    if (p->state == STATE_BODY)
        return step_body(p, last, again, out, err);
    CHECK(p->state == STATE_TEXT);
    return reply_move(p, p->held.size_bytes, &out->content, err);
}

/* ---- recipients ---- */

#define SEPARATOR ">>>"

/* A name and a newline at the start of text: its bytes, 0 when it is none, SIZE_MAX when it may become one. */
static size_t recipient_line(struct text text, bool last) {
    size_t size = text.size_bytes < HEADER_BYTES_MAX ? text.size_bytes : HEADER_BYTES_MAX; /* longer than any name */
    const char *newline = memchr(text.data, '\n', size);
    struct text name = {text.data, newline ? (size_t)(newline - text.data) : size};
    if (!newline && !last && (name.size_bytes == 0 || reply_is_name(name)))
        return SIZE_MAX;
    return newline && reply_is_name(name) ? name.size_bytes + 1 : 0;
}

static enum status step_recipient(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    struct text held = reply_held(p);
    size_t prefix = text_starts_with(held, TEXT(SEPARATOR)) ? strlen(SEPARATOR) : 0, line = recipient_line(from(held, prefix), last);
    bool cut = !last && prefix == 0 && reply_partial(held, SEPARATOR) == held.size_bytes; /* the separator itself is not all there */
    if (line == SIZE_MAX || cut)
        return STATUS_OK;
    struct text name = {held.data + prefix, line ? line - 1 : 0};
    bool all = text_is(name, "all");
    if (line == 0 || (!all && !reply_has_tools(p)))
        return as_text(p, again, out, err);
    p->body = all ? BODY_CONTENT : BODY_CALL;
    byte_buffer_clear(&p->recipient);
    TRY(byte_buffer_append_text(&p->recipient, name, err));
    TRY(keep_header(p, prefix + line, err));
    p->state = STATE_BODY;
    p->tried_bytes = 0;
    p->begun = false;
    *again = true;
    return STATUS_OK;
}

/* Content up to the next separator that begins a part. */
static enum status step_all(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    struct text held = reply_held(p);
    size_t at = 0, line = 0;
    for (; line == 0; at += line == 0) { /* from the next byte on when this one begins no part */
        size_t found = reply_find(from(held, at), SEPARATOR);
        if (found == SIZE_MAX)
            break;
        at += found;
        line = recipient_line(from(held, at + strlen(SEPARATOR)), last);
    }
    size_t end = line > 0 ? at : held.size_bytes - (last ? 0 : reply_partial(from(held, at), SEPARATOR));
    TRY(move_body(p, end, out, err));
    if (line > 0 && line != SIZE_MAX) {
        p->state = STATE_HEADER;
        *again = true;
    }
    return STATUS_OK;
}

static enum status step_arguments(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    struct text held = reply_held(p);
    size_t begin = reply_skip_space(held, 0), at = begin;
    if (begin < held.size_bytes && held.data[begin] != '{')
        return as_text(p, again, out, err);
    if (!reply_is_worth_trying(p, "}>", last))
        return STATUS_OK;
    enum reply_read read = begin < held.size_bytes ? reply_read_value(held, &at, DIALECT_JSON, true, NULL) : READ_MORE;
    size_t behind = read == READ_OK ? reply_skip_space(held, at) : 0;
    struct text rest = from(held, behind);
    if (read == READ_BAD || (read == READ_MORE && last))
        return as_text(p, again, out, err);
    if (read == READ_MORE)
        return STATUS_OK;
    bool next = text_starts_with(rest, TEXT(SEPARATOR)), over = rest.size_bytes == 0 && last;
    if (!next && !over)
        return rest.size_bytes > 0 && (last || reply_partial(rest, SEPARATOR) != rest.size_bytes) ? as_text(p, again, out, err) : STATUS_OK;
    if (!read_body((struct text){held.data, at}, byte_buffer_text(&p->recipient), &out->calls))
        return as_text(p, again, out, err);
    reply_drop(p, behind);
    p->state = STATE_HEADER;
    *again = next;
    return STATUS_OK;
}

enum status reply_step_recipients(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    if (p->state == STATE_HEADER)
        return p->held.size_bytes > 0 || !last ? step_recipient(p, last, again, out, err) : STATUS_OK;
    if (p->state == STATE_BODY)
        return p->body == BODY_CALL ? step_arguments(p, last, again, out, err) : step_all(p, last, again, out, err);
    CHECK(p->state == STATE_TEXT);
    return reply_move(p, p->held.size_bytes, &out->content, err);
}
