/* status: names of the codes and the writing of error texts. Control characters from file names and headers never reach a terminal. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

const char *status_name(enum status status) {
    switch (status) {
    case STATUS_OK:
        return "ok";
    case STATUS_INVALID:
        return "invalid";
    case STATUS_NOT_FOUND:
        return "not_found";
    case STATUS_IO:
        return "io";
    case STATUS_CORRUPT:
        return "corrupt";
    case STATUS_UNSUPPORTED:
        return "unsupported";
    case STATUS_NO_MEMORY:
        return "no_memory";
    case STATUS_OVER_BUDGET:
        return "over_budget";
    case STATUS_CANCELLED:
        return "cancelled";
    case STATUS_INTERNAL:
        return "internal";
    }
    return "unknown";
}

/* One line, printable: every control character becomes '?'. Bytes of UTF-8 sequences stay. */
static void clean_line(char *text) {
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

enum status error_set(struct error *err, enum status status, const char *format, ...) {
    CHECK(status != STATUS_OK && format != NULL);
    if (!err)
        return status;
    char text[sizeof(err->text)]; /* the arguments may lie in err->text */
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (length < 0)
        text[0] = 0;
    clean_line(text);
    err->status = status;
    memcpy(err->text, text, sizeof(text));
    return status;
}

enum status error_prefix(struct error *err, const char *format, ...) {
    CHECK(err != NULL && err->status != STATUS_OK);
    char text[sizeof(err->text)];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    text[used] = 0;
    clean_line(text);
    /* The cause matters more than the place: the old text keeps its room, the prefix is cut when both do not fit. */
    size_t old = strlen(err->text), room = sizeof(err->text) - 1 - old;
    if (room < 3)
        return err->status;
    if (used > room - 2)
        used = room - 2;
    memmove(err->text + used + 2, err->text, old + 1);
    memcpy(err->text, text, used);
    memcpy(err->text + used, ": ", 2);
    return err->status;
}

enum status error_advise(struct error *err, enum status status, const char *advice) {
    CHECK(status != STATUS_OK);
    size_t used = err ? strlen(err->text) : 0, more = strlen(advice) + 2;
    if (err && more < sizeof err->text - used)
        (void)snprintf(err->text + used, sizeof err->text - used, "; %s", advice);
    return status;
}
