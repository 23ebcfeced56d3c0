/*
 * verify_main: `sluice verify`, an executable of its own: it needs libcrypto.
 */
#include "app.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"

static void show(void *context, const char *what, uint64_t done, uint64_t total) {
    log_progress(what, done, total, "B", *(const uint64_t *)context);
}

static int run(const struct options *options) {
    sluice_error error;
    uint64_t started_ns = clock_now_ns();
    const sluice_verify_options verify = {.path = options_argument(options, 0),
                                          .threads = (uint32_t)options_u64(options, "threads"),
                                          .progress = show,
                                          .context_pointer = &started_ns};
    app_watch(NULL); /* Ctrl-C ends at once */
    sluice_status status = sluice_tool_verify(&verify, stdout, &error);
    log_progress_end();
    return status == SLUICE_OK ? EXIT_DONE : app_fail(&error);
}

int main(int argc, char **argv) {
    static const struct command verify = {&app_verify_spec, run};
    memory_setup();
    return app_run(&verify, argc > 0 ? argc - 1 : 0, argv + 1);
}
