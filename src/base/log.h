/*
 * log: lines for people on standard error. Standard output belongs to the model's text.
 *
 * Threads   any; a line is written whole.
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_NOTICE, LOG_DEBUG };

/* Lines above this level are dropped. Default LOG_NOTICE; --quiet sets LOG_ERROR, --verbose LOG_DEBUG. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
/* A progress line that replaces itself on a terminal (at most 10 a second) and is one line per 10 s in a pipe. done tells to end it. */
void log_progress(const char *what, uint64_t done, uint64_t total, const char *unit, uint64_t started_ns);
void log_progress_end(void);
