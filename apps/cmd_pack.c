/*
 * cmd_pack: a model written anew in the order in which it is read, and quantised if wanted.
 */
#include <signal.h>

#include "app.h"
#include "base/clock.h"
#include "base/log.h"

static const struct option_spec type = {.name = "type",
                                        .kind = OPTION_CHOICE,
                                        .value = "TYPE",
                                        .choices = "q4_0|q8_0|q4_k|q5_k|q6_k|f16|bf16|mlx4|mlx8",
                                        .help = "quantise matrices that are floats: mlx4 and mlx8 in directories, the others in GGUF"};
static const struct option_spec *const table[] = {&type, &option_threads, &option_quiet, &option_verbose, &option_print_config, NULL};
static const struct command_spec spec = {
    .name = "pack",
    .arguments = "MODEL OUT",
    .summary = "Writes a model anew in the order in which it is read.",
    .details =
        "Never needed: every model runs as it was published, and the answers are the same. A pack has its experts one after the "
        "other, each with all its parts, at whole blocks of the disk, so that a missing expert is one read, and checksums for "
        "sluice verify. On one machine, with less than half of the weights in memory, tokens came 8 to 35 % sooner and prompts 0 to 19 %; "
        "with all "
        "in memory nothing changes (docs/EXPERIMENTS.md).\n\n"
        "From GGUF, OUT is a GGUF file, with experts as tensors of their own (blk.N.ffn_up.E.weight); from a directory it is a "
        "directory with one file of tensors. Programs that only know experts in stacks do not open packs of such models.\n\n"
        "A call that was stopped goes on when it is given again; until the end there is only OUT.partial, which is no model. About 45 "
        "MiB of memory are used, whatever the model's size.",
    .options = table,
    .arguments_min = 2,
    .arguments_max = 2};

struct shown {
    const char *what;
    uint64_t started_ns;
};

static void show(void *context, const char *what, uint64_t done, uint64_t total) {
    struct shown *shown = context;
    if (shown->what != what) {
        log_progress_end();
        *shown = (struct shown){what, clock_now_ns()};
    }
    log_progress(what, done, total, "B", shown->started_ns);
}

static int run(const struct options *options) {
    sluice_error error;
    struct shown shown = {0};
    const sluice_pack_options pack = {.path = options_argument(options, 0),
                                      .out = options_argument(options, 1),
                                      .type = options_text(options, "type"),
                                      .threads = (uint32_t)options_u64(options, "threads"),
                                      .progress = show,
                                      .context_pointer = &shown};
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit of file sizes is an error like a full disk */
    app_watch(NULL);                /* Ctrl-C ends at once: what is written stays for the next call */
    sluice_status status = sluice_tool_pack(&pack, stdout, &error);
    log_progress_end();
    return status == SLUICE_OK ? EXIT_DONE : app_fail(&error);
}

const struct command app_pack = {&spec, run};
