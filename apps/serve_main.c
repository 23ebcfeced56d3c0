/*
 * serve_main: `sluice serve`, an executable of its own so that the other commands do not carry an HTTP library.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "app.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/server.h"

/* The last part of a path, without ".gguf". */
static void name_of_path(const char *path, char *name, size_t name_bytes) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (length - begin > 5 && strncmp(path + length - 5, ".gguf", 5) == 0)
        length -= 5;
    (void)snprintf(name, name_bytes, "%.*s", (int)(length - begin), path + begin);
}

static void wait_for_signal(void) {
    sigset_t set;
    int number;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigwait(&set, &number);
}

static void block_signals(void) { /* in every thread that is started from now on; wait_for_signal takes them */
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int serve(const struct options *options, sluice_model *model) {
    char name[256];
    struct error err;
    struct server *server;
    const char *const *hosts;
    uint64_t limit;
    (void)options_size(options, "body-limit", &limit);
    name_of_path(options_argument(options, 0), name, sizeof name);
    uint32_t host_count = options_texts(options, "allow-host", &hosts);
    const struct server_options server_options = {.host = options_text(options, "host"),
                                                  .port = (uint16_t)options_u64(options, "port"),
                                                  .api_key = options_text(options, "api-key"),
                                                  .model_name =
                                                      options_text(options, "model-name") ? options_text(options, "model-name") : name,
                                                  .reply_format = options_text(options, "reply-format"),
                                                  .hosts = hosts,
                                                  .host_count = host_count,
                                                  .queue_limit = (uint32_t)options_u64(options, "queue"),
                                                  .body_limit_bytes = limit};
    block_signals();
    if (server_start(model, &server_options, &server, &err) != STATUS_OK) {
        log_line(LOG_ERROR, "%s", err.text);
        return EXIT_FAILED;
    }
    log_line(LOG_NOTICE, "serving '%s' at http://%s:%u/v1 (Ctrl-C ends)", server_options.model_name, server_options.host,
             server_port(server));
    wait_for_signal();
    server_stop(server);
    return EXIT_DONE;
}

static int run(const struct options *options) {
    sluice_model *model;
    sluice_error error;
    sluice_load_options load;
    sluice_plan plan;
    uint64_t started_ns = 0;
    if (app_open(options, &model, &error) != SLUICE_OK)
        return app_fail(&error);
    app_load_options(options, &load, &started_ns);
    load.history = options_flag(options, "history");
    load.no_lookahead = !options_flag(options, "lookahead");
    load.forms = true;
    sluice_status status = SLUICE_OK;
    if (options_text(options, "chat-template"))
        status = sluice_set_chat_template(model, options_text(options, "chat-template"), &error);
    if (status == SLUICE_OK)
        status = sluice_load(model, &load, &error);
    log_progress_end();
    int code = EXIT_DONE;
    if (status == SLUICE_OK) {
        sluice_get_plan(model, &plan);
        if (log_get_level() >= LOG_NOTICE)
            app_print_plan(&plan, stderr);
        code = serve(options, model);
    } else {
        code = app_fail(&error);
    }
    sluice_close(model);
    return code;
}

int main(int argc, char **argv) {
    const struct command command = {&app_serve_spec, run};
    memory_setup();
    return app_run(&command, argc - 1, argv + 1);
}
