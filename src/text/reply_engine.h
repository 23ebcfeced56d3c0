/*
 * reply_engine: what the engines of the reply parser share: its state, and moving text from the held-back buffer to the output.
 */
#pragma once

#include "text/reply_parser.h"

enum reply_state {
    STATE_START,     /* white space, or the mark that opens reasoning */
    STATE_REASONING, /* up to its closing mark */
    STATE_BEHIND,    /* newlines behind reasoning */
    STATE_OPENING,   /* start of the content: white space, or a mark around plain text */
    STATE_CONTENT,
    STATE_CALL,   /* a section of calls, from its opening mark on */
    STATE_TAIL,   /* behind <|python_tag|>, up to the end */
    STATE_WHOLE,  /* the whole reply may be a JSON call */
    STATE_TEXT,   /* the rest is content as it comes */
    STATE_HEADER, /* harmony, recipients: up to the body */
    STATE_BODY,
};

enum reply_body { BODY_CONTENT, BODY_REASONING, BODY_CALL };

struct reply_parser {
    struct reply_parser_options options;
    enum reply_state state;
    struct byte_buffer held;         /* input that is not decided */
    size_t mark;                     /* STATE_CALL, STATE_TAIL: offset of the opening mark in held; before it is white space */
    size_t tried_bytes;              /* size of held at the last attempt to read a call */
    bool behind_call;                /* white space is dropped until text comes */
    bool wrapped;                    /* an opening mark around plain text was dropped */
    bool begun;                      /* reasoning has text */
    bool had_content, had_reasoning; /* harmony: of parts before this one */
    enum reply_body body;            /* of the part of STATE_BODY */
    struct byte_buffer header;       /* harmony, recipients: of this part, as it came */
    struct byte_buffer recipient;    /* name of the tool that a part calls */
};

static inline struct text reply_held(const struct reply_parser *p) { return byte_buffer_text(&p->held); }
/* Drops the first bytes of what is held. */
void reply_drop(struct reply_parser *p, size_t size_bytes);
/* Moves the first bytes to the output. */
MUST_CHECK enum status reply_move(struct reply_parser *p, size_t size_bytes, struct byte_buffer *out, struct error *err);
/* Offset of the first `mark` in text; SIZE_MAX: none. */
size_t reply_find(struct text text, const char *mark);
/* Bytes at the end of text that may be the start of `mark` (never all of it). */
size_t reply_partial(struct text text, const char *mark);
/* Offset behind the last byte of text that is no white space (newlines_only: no newline). */
size_t reply_trimmed(struct text text, bool newlines_only);
bool reply_has_tools(const struct reply_parser *p);
/*
 * Whether it pays to read what is held once more: a byte of `ends` came since the last attempt, and a long text has grown by a
 * sixteenth, which keeps the sum of all attempts linear.
 */
bool reply_is_worth_trying(struct reply_parser *p, const char *ends, bool last);

/*
 * One step of an engine: decides something about what is held. *again: there may be more to decide. `last`: the reply is over, and the
 * step must leave nothing held.
 */
enum status reply_step_sections(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err);
enum status reply_step_harmony(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err);
enum status reply_step_recipients(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err);
