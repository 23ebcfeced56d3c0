/* check: the end of the process at a broken promise of our own. Writes without the heap and without locks. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void check_failed(const char *condition, const char *file, int line) {
    char text[512];
    int length = snprintf(text, sizeof(text), "sluice: internal error: %s:%d: check failed: %s\n", file, line, condition);
    size_t size_bytes = length < 0 ? 0 : (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    if (write(STDERR_FILENO, text, size_bytes) < 0) {
        /* nobody left to tell */
    }
    abort();
}
