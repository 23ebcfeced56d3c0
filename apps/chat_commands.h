/*
 * chat_commands: lines that begin with a slash.
 */
#pragma once

#include "chat_talk.h"

/* What the caller does next. */
enum chat_next { CHAT_GO_ON, CHAT_ANSWER, CHAT_END };

/* Carries out "/name argument" (terminated); speaks on standard error. *failed is set when it could not. */
enum chat_next chat_command(struct talk *talk, const char *line, bool *failed);
