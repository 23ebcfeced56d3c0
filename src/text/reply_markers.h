/*
 * reply_markers: how each family of models writes reasoning, tool calls and ends of turns; one row a family.
 *
 * Patterns   of calls are text with these marks:
 *            ~   white space or nothing
 *            %n  name of the tool     %i  id of the call (Kimi's "functions.name:3" gives the name too)     %x  text that is ignored
 *            %j  JSON object of the arguments     %c  JSON call or list of calls     %a  JSON list of {"name": {arguments}}
 *            %g  Gemma's object of the arguments  %p  list of Python calls           %q  (key=value, ...) of one Python call
 *            %k  name of a parameter  %v  its value as text     %s  "true" when the value is a string, else "false"
 *            %n, %i, %x, %k, %v and %s end at the text that follows in the pattern.
 * A family that is made of these is a row here and nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

enum reply_engine {
    REPLY_SECTIONS,   /* text with reasoning at the start and call sections in it */
    REPLY_WHOLE_JSON, /* Llama 3: the whole reply is a JSON call */
    REPLY_HARMONY,    /* gpt-oss: channels and recipients */
    REPLY_RECIPIENTS, /* functionary v3.2: ">>>name\n" before each part */
};

enum reply_tail { REPLY_TAIL_NONE, REPLY_TAIL_CALLS, REPLY_TAIL_CODE }; /* what follows <|python_tag|>: calls, or code for "python" */

struct reply_family {
    const char *name;
    const char *reasoning_open, *reasoning_close; /* NULL: none */
    enum reply_engine engine;
    const char *section_open;  /* begins calls; NULL: the family has none */
    unsigned section_overlap;  /* last bytes of section_open that belong to the item */
    const char *section_close; /* NULL: the item ends the section */
    const char *items[3];      /* alternatives; one or more in a section */
    const char *parameter;     /* parameters that follow the item, any number */
    const char *item_end;      /* behind the parameters */
    bool trim_newline;         /* a value loses one newline at each end */
    const char *no_call;       /* a tool name that means that nothing is called */
    enum reply_tail tail;
    const char *wrapper_open[2];  /* around plain text: dropped at its start */
    const char *wrapper_close[2]; /* and at its end */
    const char *end_of_turn[4];   /* texts of tokens that end the reply */
    const char *signs[3];         /* a template that holds all of them is of this family */
    const char *absent;           /* and not this one; NULL: nothing */
};

extern const struct reply_family reply_families[];
extern const size_t reply_family_count;

/* By name ("hermes", --reply-format); NULL: unknown. */
const struct reply_family *reply_family_find(struct text name);
/* The family of a chat template; "plain" when no row fits. Never NULL. */
const struct reply_family *reply_family_detect(struct text template_source);
/* Whether a prompt ends inside reasoning that its template opened. */
bool reply_reasoning_opened(const struct reply_family *family, struct text prompt);
