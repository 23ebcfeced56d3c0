/*
 * program_fixture: runs the program as a user would: arguments in, standard output, standard error, exit code and time out.
 *
 * The program's path is in SLUICE_PROGRAM. Output goes to files of a folder of the test (program_begin, program_end), so that neither pipe
 * can fill up; program_start leaves standard output in a pipe for tests that read while it runs.
 */
#pragma once

#include "test_support.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { PROGRAM_ARGUMENTS_MAX = 32, PROGRAM_SECONDS_MAX = 120, PROGRAM_PATH_BYTES = 512 };

struct program_folder {
    char path[64];
};

static inline void program_begin(struct program_folder *folder) {
    (void)snprintf(folder->path, sizeof folder->path, "/var/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

/* Path of a name in the folder, into `path`, which is returned. */
static inline const char *program_path(const struct program_folder *folder, const char *name, char path[PROGRAM_PATH_BYTES]) {
    assert_true(snprintf(path, PROGRAM_PATH_BYTES, "%s/%s", folder->path, name) < PROGRAM_PATH_BYTES);
    return path;
}

static inline void program_end(const struct program_folder *folder, const char *const *names, size_t count) {
    static const char *const own[] = {"out", "err"};
    char path[PROGRAM_PATH_BYTES];
    for (size_t i = 0; i < 2; i++)
        (void)unlink(program_path(folder, own[i], path));
    for (size_t i = 0; i < count; i++)
        (void)unlink(program_path(folder, names[i], path));
    assert_int_equal(rmdir(folder->path), 0);
}

/* A file of the repository, from tests/data. */
static inline const char *program_data(const char *name) {
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *data = getenv("SLUICE_TEST_DATA");
    assert_true(snprintf(path, sizeof paths[0], "%s/%s", data ? data : "tests/data", name) < (int)sizeof paths[0]);
    return path;
}

static inline double program_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- one run ---- */

struct program_run {
    pid_t pid;
    int out_fd;      /* read end of standard output, -1 when it goes to a file */
    int in_fd;       /* write end of standard input, -1: there is none */
    int code;        /* exit code, or 128 + signal */
    char *out, *err; /* texts, memory_free */
    size_t out_bytes;
    double seconds;
    double started;
};

struct program_options {
    bool pipe_out, pipe_in;
};

/* Arguments end with NULL. */
static inline void program_start(const struct program_folder *folder, const char *const *arguments, struct program_options options,
                                 struct program_run *run) {
    extern char **environ;
    const char *program = getenv("SLUICE_PROGRAM");
    char *argv[PROGRAM_ARGUMENTS_MAX + 2], path[PROGRAM_PATH_BYTES], err_path[PROGRAM_PATH_BYTES];
    int out_pipe[2] = {-1, -1}, in_pipe[2] = {-1, -1};
    size_t count = 0;
    if (!program)
        fail_msg("SLUICE_PROGRAM must be the path of the program");
    argv[count++] = (char *)(uintptr_t)program;
    for (; arguments[count - 1]; count++) {
        assert_true(count <= PROGRAM_ARGUMENTS_MAX);
        argv[count] = (char *)(uintptr_t)arguments[count - 1];
    }
    argv[count] = NULL;
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_true(!options.pipe_out || pipe2(out_pipe, O_CLOEXEC) == 0);
    assert_true(!options.pipe_in || pipe2(in_pipe, O_CLOEXEC) == 0);
    int good = options.pipe_in ? posix_spawn_file_actions_adddup2(&actions, in_pipe[0], 0)
                               : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    good |= options.pipe_out
                ? posix_spawn_file_actions_adddup2(&actions, out_pipe[1], 1)
                : posix_spawn_file_actions_addopen(&actions, 1, program_path(folder, "out", path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    good |= posix_spawn_file_actions_addopen(&actions, 2, program_path(folder, "err", err_path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    *run = (struct program_run){.out_fd = out_pipe[0], .in_fd = in_pipe[1], .started = program_now()};
    good |= posix_spawn(&run->pid, program, &actions, NULL, argv, environ);
    assert_int_equal(good, 0);
    assert_int_equal(posix_spawn_file_actions_destroy(&actions), 0);
    if (options.pipe_out)
        (void)close(out_pipe[1]);
    if (options.pipe_in)
        (void)close(in_pipe[0]);
}

/* Waits for its end and reads what it wrote. */
static inline void program_finish(const struct program_folder *folder, struct program_run *run) {
    struct error err;
    struct text text;
    char path[PROGRAM_PATH_BYTES], err_path[PROGRAM_PATH_BYTES];
    int status;
    for (pid_t got; (got = waitpid(run->pid, &status, WNOHANG)) != run->pid;) {
        assert_true(got == 0 || errno == EINTR);
        if (program_now() - run->started > PROGRAM_SECONDS_MAX)
            (void)kill(run->pid, SIGKILL);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    run->seconds = program_now() - run->started;
    run->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (run->out_fd >= 0)
        (void)close(run->out_fd);
    if (run->in_fd >= 0)
        (void)close(run->in_fd);
    ASSERT_OK(file_read(program_path(folder, "err", err_path), 1u << 24, &text, &err), err);
    run->err = (char *)(uintptr_t)text.data;
    if (run->out_fd < 0) {
        ASSERT_OK(file_read(program_path(folder, "out", path), 1u << 24, &text, &err), err);
        run->out = (char *)(uintptr_t)text.data;
        run->out_bytes = text.size_bytes;
    }
}

static inline void program_run(const struct program_folder *folder, const char *const *arguments, struct program_run *run) {
    program_start(folder, arguments, (struct program_options){0}, run);
    program_finish(folder, run);
}

static inline void program_free(struct program_run *run) {
    memory_free(run->out);
    memory_free(run->err);
}

/* Fails with what the program said. */
static inline void program_expect(const struct program_run *run, int code) {
    if (run->code != code)
        fail_msg("exit code %d, wanted %d; standard error: %s", run->code, code, run->err);
}

/* ---- --metrics FILE ---- */

static inline json_t *program_metrics(const char *path) {
    json_error_t problem;
    json_t *root = json_load_file(path, 0, &problem);
    if (!root)
        fail_msg("%s: %s", path, problem.text);
    return root;
}

static inline double program_number(const json_t *metrics, const char *group, const char *name) {
    const json_t *value = json_object_get(json_object_get(metrics, group), name);
    if (!json_is_number(value))
        fail_msg("metrics have no number %s/%s", group, name);
    return json_number_value(value);
}
