/*
 * verify_spec: the options of `sluice verify`, apart from its code: the program knows them for its man page.
 */
#include "app.h"

static const struct option_spec *const table[] = {&option_threads, &option_quiet, &option_verbose, &option_print_config, NULL};
const struct command_spec app_verify_spec = {
    .name = "verify",
    .arguments = "MODEL",
    .summary = "Reads all of a model and tells whether it is damaged.",
    .details =
        "Compared are the checksums of a pack, those of a download (SHA-256, from .cache/huggingface beside the files or the Hub's own "
        "cache), and those that the first call makes and keeps in $XDG_CACHE_HOME/sluice. Numbers that are not finite are "
        "found too. A line tells what is damaged: tensor, file and bytes.\n\n"
        "Exit code 0: good; 1: damaged, or it cannot be read.",
    .options = table,
    .arguments_min = 1,
    .arguments_max = 1};
