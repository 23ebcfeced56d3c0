/*
 * chat_input: libedit on a terminal, plain reads elsewhere; both wait in wait_for_input, where the caller's work is done meanwhile.
 */
#include "chat_input.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/options.h"

#define HISTORY_LINES 1000
#define PATH_BYTES 4096
#define TEND_MS 1000

struct chat_input {
    EditLine *edit; /* NULL: no terminal */
    History *history;
    char history_path[PATH_BYTES]; /* empty: nowhere to keep it */
    const char *prompt;
    bool given_up; /* Ctrl-C while editing */
    bool (*tend)(void *context);
    void *context;
    char bytes[4096]; /* read ahead, without a terminal */
    size_t count, used;
};

/* ---- waiting ---- */

/*
 * Until there is something to read, or the end. libedit knows of signals while it reads alone: of a changed window it is told here, and
 * after a signal that did not end the program the terminal is its own again.
 */
static void wait_for_input(struct chat_input *input) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int wait_ms = 0;
    for (;;) {
        int ready = poll(&in, 1, wait_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return;
        if (input->edit) {
            el_resize(input->edit);
            if (ready < 0) {
                (void)el_set(input->edit, EL_PREP_TERM, 1);
                (void)el_set(input->edit, EL_REFRESH);
            }
        }
        wait_ms = input->tend(input->context) ? 0 : TEND_MS;
    }
}

/* As read(2) of standard input. */
static ssize_t read_some(struct chat_input *input, char *bytes, size_t most) {
    for (;;) {
        wait_for_input(input);
        ssize_t got = read(STDIN_FILENO, bytes, most);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
    }
}

/* ---- libedit's calls ---- */

static char *prompt_of(EditLine *edit) {
    struct chat_input *input = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &input);
    return (char *)(uintptr_t)input->prompt;
}

/* A character as libedit wants it: 1, or 0 at the end, or -1. Bytes that are none in the locale's encoding are dropped. */
static int read_character(EditLine *edit, wchar_t *out) {
    struct chat_input *input = NULL;
    mbstate_t state = {0};
    char byte;
    ssize_t got;
    (void)el_get(edit, EL_CLIENTDATA, &input);
    while ((got = read_some(input, &byte, 1)) > 0) {
        bool inside = !mbsinit(&state);
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) { /* what was begun is dropped; this byte may begin another one */
            state = (mbstate_t){0};
            used = inside ? mbrtowc(out, &byte, 1, &state) : used;
        }
        if (used == (size_t)-1)
            state = (mbstate_t){0};
        else if (used != (size_t)-2)
            return 1;
    }
    *out = 0;
    return (int)got;
}

static unsigned char give_up(EditLine *edit, int character) {
    struct chat_input *input = NULL;
    (void)character;
    (void)el_get(edit, EL_CLIENTDATA, &input);
    input->given_up = true;
    return CC_EOF;
}

static unsigned char suspend(EditLine *edit, int character) {
    (void)character;
    (void)el_set(edit, EL_PREP_TERM, 0); /* libedit does so by itself for the first signal of a line alone */
    (void)raise(SIGTSTP);
    (void)el_set(edit, EL_PREP_TERM, 1);
    return CC_REFRESH;
}

/* ---- history ---- */

static void open_history(struct chat_input *input) {
    HistEvent event;
    (void)history(input->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)history(input->history, &event, H_SETUNIQUE, 1);
    if (!options_state_path("chat_history", input->history_path, sizeof input->history_path))
        return;
    int fd = open(input->history_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        log_line(LOG_WARNING, "%s: %s; what you type is not kept for the next time", input->history_path, strerror(errno));
        input->history_path[0] = 0;
        return;
    }
    (void)close(fd);
    (void)history(input->history, &event, H_LOAD, input->history_path); /* an empty or foreign file gives no lines */
}

static void remember(struct chat_input *input, const char *line) {
    HistEvent event;
    if (line[strspn(line, " \t\r\n")] == 0)
        return;
    (void)history(input->history, &event, H_ENTER, line);
    if (input->history_path[0])
        (void)history(input->history, &event, H_SAVE, input->history_path);
}

/* ---- lines ---- */

/* Whether there are bytes read ahead, after reading some more if need be. */
static bool fill(struct chat_input *input) {
    if (input->used < input->count)
        return true;
    ssize_t got = read_some(input, input->bytes, sizeof input->bytes);
    input->used = 0;
    input->count = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* One line of standard input without its end; false when there is none. The rest of one that is too long is not another message. */
static bool read_plain(struct chat_input *input, struct byte_buffer *line, enum status *status, struct error *err) {
    if (!fill(input))
        return false;
    do {
        const char *begin = input->bytes + input->used, *end = memchr(begin, '\n', input->count - input->used);
        size_t size = end ? (size_t)(end - begin) : input->count - input->used;
        if (*status == STATUS_OK)
            *status = byte_buffer_append(line, begin, size, err);
        input->used += size + (end != NULL);
        if (end)
            return true;
    } while (fill(input));
    return true;
}

static bool read_edited(struct chat_input *input, const char *prompt, struct byte_buffer *line, enum status *status, struct error *err) {
    int count = 0;
    input->prompt = prompt;
    input->given_up = false;
    const char *text = el_gets(input->edit, &count);
    if (input->given_up) {
        (void)fputs("\n", stderr);
        return true;
    }
    if (!text || count <= 0) {
        (void)fputs("\n", stderr);
        return false;
    }
    remember(input, text);
    size_t size = strlen(text);
    *status = byte_buffer_append(line, text, size > 0 && text[size - 1] == '\n' ? size - 1 : size, err);
    return true;
}

static bool read_line(struct chat_input *input, const char *prompt, struct byte_buffer *line, enum status *status, struct error *err) {
    input->given_up = false;
    if (input->edit)
        return read_edited(input, prompt, line, status, err);
    bool got = read_plain(input, line, status, err);
    if (got && line->size_bytes > 0 && line->data[line->size_bytes - 1] == '\r')
        line->data[--line->size_bytes] = 0;
    return got;
}

/* Lines up to the next one of three quotes. */
static void read_block(struct chat_input *input, struct byte_buffer *message, enum status *status, struct error *err) {
    struct byte_buffer line;
    byte_buffer_init(&line, message->limit_bytes);
    byte_buffer_clear(message);
    for (bool first = true; *status == STATUS_OK && read_line(input, "... ", &line, status, err); first = false) {
        if (input->given_up) {
            byte_buffer_clear(message);
            break;
        }
        if (text_is(byte_buffer_text(&line), "\"\"\""))
            break;
        if (*status == STATUS_OK && !first)
            *status = byte_buffer_append_text(message, TEXT("\n"), err);
        if (*status == STATUS_OK)
            *status = byte_buffer_append_text(message, byte_buffer_text(&line), err);
        byte_buffer_clear(&line);
    }
    byte_buffer_deinit(&line);
}

static bool goes_on(const struct byte_buffer *message) { return message->size_bytes > 0 && message->data[message->size_bytes - 1] == '\\'; }

bool chat_input_read(struct chat_input *input, struct byte_buffer *message, enum status *status, struct error *err) {
    *status = STATUS_OK;
    if (!read_line(input, "> ", message, status, err))
        return false;
    if (*status == STATUS_OK && text_is(byte_buffer_text(message), "\"\"\"")) {
        read_block(input, message, status, err);
        return true;
    }
    while (*status == STATUS_OK && goes_on(message)) {
        message->data[message->size_bytes - 1] = '\n';
        if (!read_line(input, "... ", message, status, err))
            break;
        if (input->given_up)
            byte_buffer_clear(message);
    }
    return true;
}

/* ---- life ---- */

static enum status open_editor(struct chat_input *input, struct error *err) {
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1)
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* a model's text is UTF-8, whatever the locale says */
    input->edit = el_init("sluice", stdin, isatty(STDOUT_FILENO) ? stdout : stderr, stderr);
    input->history = history_init();
    if (!input->edit || !input->history)
        return error_set(err, STATUS_IO, "this terminal cannot be edited on (TERM is set wrong?); give the messages by a pipe instead");
    (void)el_set(input->edit, EL_CLIENTDATA, input);
    (void)el_set(input->edit, EL_GETCFN, read_character);
    (void)el_set(input->edit, EL_PROMPT, prompt_of);
    (void)el_set(input->edit, EL_EDITOR, "emacs");
    (void)el_set(input->edit, EL_SIGNAL, 1); /* the terminal is put right before a signal ends the program */
    (void)el_set(input->edit, EL_HIST, history, input->history);
    (void)el_source(input->edit, NULL); /* the user's own keys */
    (void)el_set(input->edit, EL_ADDFN, "sluice-give-up", "Gives up the line", give_up);
    (void)el_set(input->edit, EL_ADDFN, "sluice-suspend", "Stops the program", suspend);
    (void)el_set(input->edit, EL_SETTY, "-d", "-isig", NULL); /* Ctrl-C and Ctrl-Z are keys while a line is edited */
    (void)el_set(input->edit, EL_BIND, "^C", "sluice-give-up", NULL);
    (void)el_set(input->edit, EL_BIND, "^Z", "sluice-suspend", NULL);
    open_history(input);
    return STATUS_OK;
}

enum status chat_input_open(bool (*tend)(void *context), void *context, struct chat_input **out, struct error *err) {
    *out = NULL;
    struct chat_input *input = memory_alloc(sizeof *input);
    if (!input)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read messages");
    input->tend = tend;
    input->context = context;
    enum status status = isatty(STDIN_FILENO) ? open_editor(input, err) : STATUS_OK;
    if (status == STATUS_OK)
        *out = input;
    else
        chat_input_close(input);
    return status;
}

void chat_input_close(struct chat_input *input) {
    if (!input)
        return;
    if (input->edit)
        el_end(input->edit);
    if (input->history)
        history_end(input->history);
    memory_free(input);
}

bool chat_input_on_terminal(const struct chat_input *input) { return input->edit != NULL; }
