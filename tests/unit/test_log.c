/* test_log: what reaches standard error, by level; progress in a pipe; the text of a failed CHECK. */
#include "test_support.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

static char caught[8192];

/* Runs `body` in a child whose standard error is a pipe; fills `caught` and returns the wait status. */
static int catch_errors(void (*body)(void)) {
    int ends[2], status;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        signal(SIGABRT, SIG_DFL);
        body();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], caught + used, sizeof(caught) - 1 - used)) > 0;)
        used += (size_t)got;
    caught[used] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void write_all_levels(void) {
    log_line(LOG_ERROR, "e %d", 1);
    log_line(LOG_WARNING, "w");
    log_line(LOG_NOTICE, "n");
    log_line(LOG_DEBUG, "d");
}

static void write_quietly(void) {
    log_set_level(LOG_ERROR);
    write_all_levels();
}

static void write_everything(void) {
    log_set_level(LOG_DEBUG);
    write_all_levels();
}

static void levels(void **state) {
    (void)state;
    assert_int_equal(log_get_level(), LOG_NOTICE);
    assert_int_equal(catch_errors(write_all_levels), 0);
    assert_string_equal(caught, "error: e 1\nwarning: w\nn\n");
    assert_int_equal(catch_errors(write_quietly), 0);
    assert_string_equal(caught, "error: e 1\n");
    assert_int_equal(catch_errors(write_everything), 0);
    assert_string_equal(caught, "error: e 1\nwarning: w\nn\ndebug: d\n");
}

static void write_a_long_line(void) {
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    log_line(LOG_NOTICE, "%s", text);
    log_line(LOG_NOTICE, "next");
}

static void long_lines_are_cut(void **state) {
    (void)state;
    assert_int_equal(catch_errors(write_a_long_line), 0);
    assert_string_equal(caught + strcspn(caught, "\n"), "\nnext\n");
    assert_in_range(strcspn(caught, "\n"), 1000, 4999);
}

static void show_progress(void) {
    uint64_t now = clock_now_ns();
    for (uint64_t i = 0; i < 1000; i++)
        log_progress("loading", i, 1000, "B", now);
    log_progress_end();
}

/* In a pipe, work that is done within 10 s says nothing. */
static void short_progress_is_silent_in_a_pipe(void **state) {
    (void)state;
    assert_int_equal(catch_errors(show_progress), 0);
    assert_string_equal(caught, "");
}

static void break_a_promise(void) {
    CHECK(1 + 1 == 3);
}

static void failed_check_says_where(void **state) {
    (void)state;
    int status = catch_errors(break_a_promise);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(caught, "test_log.c:"));
    assert_non_null(strstr(caught, "check failed: 1 + 1 == 3\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(short_progress_is_silent_in_a_pipe),
        cmocka_unit_test(failed_check_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
