/*
 * log: whole lines with one write each; a progress line on a terminal is wiped before a line and drawn again by its next call.
 *
 * The state is the one mutable global of the program: standard error is one per process.
 */
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

#define TERMINAL_INTERVAL_NS 100000000ull
#define PIPE_INTERVAL_NS 10000000000ull
#define WIPE "\r\033[K"

static struct {
    _Atomic int level;
    pthread_mutex_t lock;       /* guards the rest and the order of writes */
    bool progress_shown;        /* a progress line stands on the terminal */
    uint64_t progress_last_ns;  /* when one was last written; 0: none since progress_end */
    uint64_t progress_begun_ns; /* first call for this progress: a pipe hears nothing of short ones */
} logger = {.level = LOG_NOTICE, .lock = PTHREAD_MUTEX_INITIALIZER};

void log_set_level(enum log_level level) {
    atomic_store(&logger.level, (int)level);
}

enum log_level log_get_level(void) {
    return (enum log_level)atomic_load(&logger.level);
}

static void write_all(const char *data, size_t size_bytes) {
    while (size_bytes > 0) {
        ssize_t wrote = write(STDERR_FILENO, data, size_bytes);
        if (wrote <= 0)
            return; /* nowhere to say it */
        data += wrote;
        size_bytes -= (size_t)wrote;
    }
}

/* Length that snprintf left in a buffer of buffer_bytes. */
static size_t written_bytes(int length, size_t buffer_bytes) {
    return length < 0 ? 0 : (size_t)length < buffer_bytes ? (size_t)length : buffer_bytes - 1;
}

void log_line(enum log_level level, const char *format, ...) {
    static const char *const heads[] = {"error: ", "warning: ", "", "debug: "};
    CHECK((unsigned)level <= LOG_DEBUG);
    if (level > log_get_level())
        return;
    char line[2048];
    size_t used = written_bytes(snprintf(line, sizeof(line), "%s", heads[level]), sizeof(line));
    va_list arguments;
    va_start(arguments, format);
    used += written_bytes(vsnprintf(line + used, sizeof(line) - used, format, arguments), sizeof(line) - used);
    va_end(arguments);
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    line[used++] = '\n';
    pthread_mutex_lock(&logger.lock);
    if (logger.progress_shown)
        write_all(WIPE, strlen(WIPE));
    logger.progress_shown = false;
    write_all(line, used);
    pthread_mutex_unlock(&logger.lock);
}

static void format_amount(uint64_t amount, const char *unit, char *buffer, size_t buffer_bytes) {
    if (strcmp(unit, "B") == 0)
        text_format_size(amount, buffer, buffer_bytes);
    else
        snprintf(buffer, buffer_bytes, "%llu %s", (unsigned long long)amount, unit);
}

void log_progress(const char *what, uint64_t done, uint64_t total, const char *unit, uint64_t started_ns) {
    if (log_get_level() < LOG_NOTICE)
        return;
    bool terminal = isatty(STDERR_FILENO) != 0;
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&logger.lock);
    if (logger.progress_begun_ns == 0)
        logger.progress_begun_ns = now;
    uint64_t last = logger.progress_last_ns ? logger.progress_last_ns : terminal ? 0 : logger.progress_begun_ns;
    if (now - last >= (terminal ? TERMINAL_INTERVAL_NS : PIPE_INTERVAL_NS)) {
        char line[256], part[48], whole[48], speed[48];
        double seconds = now > started_ns ? (double)(now - started_ns) * 1e-9 : 0;
        double rate = seconds > 0 ? (double)done / seconds : 0;
        format_amount(done, unit, part, sizeof(part));
        format_amount(total, unit, whole, sizeof(whole));
        format_amount((uint64_t)rate, unit, speed, sizeof(speed));
        unsigned percent = total ? (unsigned)(100.0 * (double)done / (double)total) : 0;
        double left_s = rate > 0 && total > done ? (double)(total - done) / rate : 0;
        int length = snprintf(line, sizeof(line), "%s%s: %s of %s (%u %%), %s/s, %.0f s left%s", terminal ? WIPE : "", what, part, whole,
                              percent, speed, left_s, terminal ? "" : "\n");
        write_all(line, written_bytes(length, sizeof(line)));
        logger.progress_shown = terminal;
        logger.progress_last_ns = now;
    }
    pthread_mutex_unlock(&logger.lock);
}

void log_progress_end(void) {
    pthread_mutex_lock(&logger.lock);
    if (logger.progress_shown)
        write_all(WIPE, strlen(WIPE));
    logger.progress_shown = false;
    logger.progress_last_ns = logger.progress_begun_ns = 0;
    pthread_mutex_unlock(&logger.lock);
}
