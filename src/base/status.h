/*
 * status: error codes and texts for everything that can go wrong in the world (files, memory, network, requests).
 *
 * An error is written once, where its cause is known, and says what, where, why and what to do next. On the way up it may get
 * a prefix ("layer 12, expert 7: ..."). No function both logs and returns an error.
 *
 * Threads   an error belongs to the caller; nothing here is shared.
 */
#pragma once

#include <stdarg.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

enum status {
    STATUS_OK = 0,
    STATUS_INVALID,     /* an argument, flag, request or environment value that cannot be */
    STATUS_NOT_FOUND,   /* a file, tensor, key or model that is not there */
    STATUS_IO,          /* the system refused or broke a read, write or open */
    STATUS_CORRUPT,     /* a file contradicts itself or its format */
    STATUS_UNSUPPORTED, /* valid, but not for this program: family, number format, option pair */
    STATUS_NO_MEMORY,   /* the system gave no memory */
    STATUS_OVER_BUDGET, /* does not fit the budget that the user gave */
    STATUS_CANCELLED,   /* the user or client stopped it */
    STATUS_INTERNAL,    /* a promise of our own did not hold */
};

struct error {
    enum status status;
    char text[1000]; /* one line, no newline at the end, always terminated */
};

/* Name of a status for messages and JSON ("not_found"). Never NULL. */
const char *status_name(enum status status);

/* Fills *err (NULL is allowed: then only the status is returned) and returns `status`. */
enum status error_set(struct error *err, enum status status, const char *format, ...) PRINTF_LIKE(3, 4);

/* Puts "prefix: " before the text of *err (not NULL, holds an error) and returns its status. The prefix is cut when both do not fit. */
enum status error_prefix(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "; advice" behind the text of *err (NULL is allowed, else it holds an error) unless there is no room; returns `status`. */
enum status error_advise(struct error *err, enum status status, const char *advice);

/* Returns from the calling function when `expression` is not STATUS_OK. */
#define TRY(expression)                         \
    do {                                        \
        enum status try_status_ = (expression); \
        if (try_status_ != STATUS_OK)           \
            return try_status_;                 \
    } while (0)
