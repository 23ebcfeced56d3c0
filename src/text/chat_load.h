/*
 * chat_load: the inside of a chat_template, which chat_load.c fills and chat_template.c reads.
 */
#pragma once

#include "text/chat_template.h"

#define CHAT_TEMPLATES_MAX 16
#define CHAT_TOKENS_MAX 16

struct chat_template_entry {
    char *name;         /* "default", "tool_use", ... */
    struct text source; /* owned */
    struct jinja_template *compiled;
};

struct chat_template {
    char origin[200]; /* where it comes from, for errors */
    struct chat_template_entry entries[CHAT_TEMPLATES_MAX];
    size_t entry_count;
    struct chat_token {
        char *name;
        struct text text; /* owned */
    } tokens[CHAT_TOKENS_MAX];
    size_t token_count;
};
