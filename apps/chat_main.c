/*
 * chat_main: `sluice chat`, an executable of its own so that the other commands do not carry an editing library.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "chat_commands.h"
#include "chat_input.h"

#define MESSAGE_BYTES_MAX (16u << 20)

/* One message or command. The exit code of what failed last stays, for those who give messages by a pipe. */
static enum chat_next take(struct talk *talk, const char *line, size_t size_bytes, int *code) {
    struct error err;
    bool failed = false;
    enum chat_next next = CHAT_ANSWER;
    if (size_bytes == 0)
        return CHAT_GO_ON;
    if (line[0] == '/') {
        next = chat_command(talk, line, &failed);
        *code = failed ? EXIT_FAILED : *code;
    } else if (talk_ask(talk, (struct text){line, size_bytes}, &err) != STATUS_OK) {
        log_line(LOG_ERROR, "%s", err.text);
        *code = EXIT_FAILED;
        next = CHAT_GO_ON;
    }
    if (next == CHAT_ANSWER) {
        int answered = talk_answer(talk);
        *code = answered == EXIT_DONE || answered == EXIT_STOPPED ? *code : answered;
        next = ferror(stdout) ? CHAT_END : CHAT_GO_ON;
    }
    return next;
}

static int converse(struct talk *talk, struct chat_input *input) {
    struct byte_buffer message;
    struct error err;
    enum status status;
    int code = EXIT_DONE;
    byte_buffer_init(&message, MESSAGE_BYTES_MAX);
    for (enum chat_next next = CHAT_GO_ON; next != CHAT_END && chat_input_read(input, &message, &status, &err);) {
        if (status == STATUS_OK) {
            next = take(talk, message.data ? message.data : "", message.size_bytes, &code);
        } else {
            log_line(LOG_ERROR, "the message was not taken: %s", err.text);
            code = EXIT_FAILED;
        }
        byte_buffer_clear(&message);
    }
    byte_buffer_deinit(&message);
    return chat_input_on_terminal(input) ? EXIT_DONE : code;
}

static int load(const struct options *options, sluice_model *model) {
    sluice_load_options load;
    sluice_plan plan;
    sluice_error error;
    uint64_t started_ns = 0;
    app_load_options(options, &load, &started_ns);
    load.history = options_flag(options, "history");
    load.no_lookahead = !options_flag(options, "lookahead");
    app_watch(model);
    sluice_status status = sluice_load(model, &load, &error);
    app_watch(NULL);
    log_progress_end();
    if (status != SLUICE_OK)
        return app_fail(&error);
    sluice_get_plan(model, &plan);
    if (log_get_level() >= LOG_NOTICE)
        app_print_plan(&plan, stderr);
    return EXIT_DONE;
}

static int talk_with(const struct options *options, sluice_model *model, struct chat_input *input) {
    struct talk talk;
    struct error err;
    sluice_error error;
    int code;
    if (talk_init(&talk, options, model, &err) != STATUS_OK) {
        log_line(LOG_ERROR, "%s", err.text);
        code = EXIT_FAILED;
    } else if (talk_check(&talk, &error) != SLUICE_OK) {
        code = app_fail(&error);
    } else if ((code = load(options, model)) == EXIT_DONE) {
        talk.on_terminal = isatty(STDOUT_FILENO);
        if (chat_input_on_terminal(input))
            log_line(LOG_NOTICE, "/help lists commands, Ctrl-C stops an answer, Ctrl-D ends");
        code = converse(&talk, input);
    }
    talk_deinit(&talk);
    return code;
}

static bool tend(void *model) { return sluice_tend(model); }

static int run(const struct options *options) {
    sluice_model *model;
    sluice_error error;
    struct chat_input *input;
    struct error err;
    const char *template = options_text(options, "chat-template");
    if (app_open(options, &model, &error) != SLUICE_OK)
        return app_fail(&error);
    int code;
    if (template && sluice_set_chat_template(model, template, &error) != SLUICE_OK) {
        code = app_fail(&error);
    } else if (chat_input_open(tend, model, &input, &err) != STATUS_OK) {
        log_line(LOG_ERROR, "%s", err.text);
        code = EXIT_FAILED;
    } else {
        code = talk_with(options, model, input);
        chat_input_close(input);
    }
    sluice_close(model);
    return code;
}

int main(int argc, char **argv) {
    const struct command command = {&app_chat_spec, run};
    memory_setup();
    (void)signal(SIGPIPE, SIG_DFL); /* a reader that has seen enough ends us quietly */
    return app_run(&command, argc - 1, argv + 1);
}
