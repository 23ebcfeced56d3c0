/*
 * app_options: option rows that several commands share.
 */
#include "app.h"

const struct option_spec option_ram = {.name = "ram",
                                       .kind = OPTION_SIZE,
                                       .value = "SIZE",
                                       .initial = "auto",
                                       .choices = "auto|all|min",
                                       .help = "memory of the whole process: a size (1536M, 8G), auto (what is free, less a reserve), all "
                                               "(everything in memory) or min (the smallest "
                                               "that works)"};
const struct option_spec option_copy = {.name = "copy",
                                        .kind = OPTION_TEXT,
                                        .repeats = true,
                                        .value = "PATH",
                                        .help = "another copy of MODEL on another disk: its folder, or any of its files; may be given 7 "
                                                "times. Weights that do not fit are read from all copies at once"};
const struct option_spec option_threads = {.name = "threads",
                                           .kind = OPTION_U64,
                                           .short_name = 't',
                                           .value = "N",
                                           .initial = "0",
                                           .maximum = 256,
                                           .help = "threads that compute; 0: one per processor"};
const struct option_spec option_ctx = {.name = "ctx",
                                       .kind = OPTION_U64,
                                       .short_name = 'c',
                                       .value = "N",
                                       .initial = "0",
                                       .maximum = 16777216,
                                       .help =
                                           "longest sequence in tokens; 0: what the request needs, and 4096 at most for chat and serve"};
const struct option_spec option_chunk = {
    .name = "chunk",
    .kind = OPTION_U64,
    .value = "N",
    .initial = "0",
    .maximum = 65536,
    .help =
        "prompt tokens per pass over the weights; 0: as memory allows, 512 at most, 2048 for mixtures, or 4096 when weights are read for "
        "each pass"};
const struct option_spec option_reader = {.name = "reader",
                                          .kind = OPTION_CHOICE,
                                          .choices = "best|uring|threads|sync",
                                          .initial = "best",
                                          .value = "KIND",
                                          .help = "how files are read; best: io_uring where the system allows it, else threads"};
const struct option_spec option_isa = {.name = "isa",
                                       .kind = OPTION_CHOICE,
                                       .choices = "best|ref|avx2|avx512|amx|neon|dotprod|i8mm",
                                       .initial = "best",
                                       .value = "LEVEL",
                                       .help = "instruction set of the kernels; changes speed, never a bit"};
const struct option_spec option_activations = {.name = "activations",
                                               .kind = OPTION_CHOICE,
                                               .choices = "int8|f32",
                                               .initial = "int8",
                                               .value = "TYPE",
                                               .help = "f32 computes without rounding activations or keys and values: the oracle, slow"};
const struct option_spec option_ids = {
    .name = "ids", .kind = OPTION_TEXT, .value = "FILE", .help = "prompt as the int32 tensor input_ids of a safetensors file"};
const struct option_spec option_temp = {
    .name = "temp", .kind = OPTION_F64, .value = "X", .initial = "0.8", .maximum = 100, .help = "temperature; 0 takes the likeliest token"};
const struct option_spec option_top_k = {
    .name = "top-k", .kind = OPTION_U64, .value = "N", .initial = "0", .maximum = 16777216, .help = "choose among the N likeliest; 0: off"};
const struct option_spec option_top_p = {.name = "top-p",
                                         .kind = OPTION_F64,
                                         .value = "X",
                                         .initial = "1",
                                         .maximum = 1,
                                         .help = "choose among the likeliest that reach this probability together; 1: off"};
const struct option_spec option_min_p = {.name = "min-p",
                                         .kind = OPTION_F64,
                                         .value = "X",
                                         .initial = "0",
                                         .maximum = 1,
                                         .help = "drop what is less likely than this share of the likeliest; 0: off"};
const struct option_spec option_frequency_penalty = {.name = "frequency-penalty",
                                                     .kind = OPTION_F64,
                                                     .value = "X",
                                                     .initial = "0",
                                                     .minimum = -2,
                                                     .maximum = 2,
                                                     .help = "off the logit of a token, for each time that it is in the answer; 0: off"};
const struct option_spec option_presence_penalty = {.name = "presence-penalty",
                                                    .kind = OPTION_F64,
                                                    .value = "X",
                                                    .initial = "0",
                                                    .minimum = -2,
                                                    .maximum = 2,
                                                    .help = "off the logit of a token that is in the answer; 0: off"};
const struct option_spec option_repetition_penalty = {.name = "repetition-penalty",
                                                      .kind = OPTION_F64,
                                                      .value = "X",
                                                      .initial = "1",
                                                      .minimum = 0.1,
                                                      .maximum = 10,
                                                      .help = "divides the logit of a token that is in the prompt or the answer; 1: off"};
const struct option_spec option_seed = {.name = "seed",
                                        .kind = OPTION_U64,
                                        .value = "N",
                                        .initial = "0",
                                        .help = "the same seed gives the same text, whatever the memory, threads or machine"};
const struct option_spec option_chat_template = {
    .name = "chat-template", .kind = OPTION_TEXT, .value = "FILE", .help = "Jinja template to use instead of the model's"};
const struct option_spec option_reply_format = {.name = "reply-format",
                                                .kind = OPTION_TEXT,
                                                .value = "NAME",
                                                .help = "how replies mark reasoning and calls; else told by the template"};
const struct option_spec option_history = {.name = "history",
                                           .kind = OPTION_FLAG,
                                           .initial = "true",
                                           .help = "count which experts are used, over runs, and read those used most while the disk is "
                                                   "idle; --no-history neither keeps nor uses counts; no text is affected"};
const struct option_spec option_lookahead = {.name = "lookahead",
                                             .kind = OPTION_FLAG,
                                             .initial = "true",
                                             .help = "ask the next layer's router early and read what it will probably choose; no text is "
                                                     "affected"};
const struct option_spec option_metrics = {
    .name = "metrics", .kind = OPTION_TEXT, .value = "FILE", .help = "write times, reads, hits, memory and the machine's bounds as JSON"};
const struct option_spec option_quiet = {
    .name = "quiet", .kind = OPTION_FLAG, .short_name = 'q', .help = "nothing on standard error unless it fails"};
const struct option_spec option_verbose = {.name = "verbose", .kind = OPTION_FLAG, .short_name = 'v', .help = "say more on standard error"};
const struct option_spec option_print_config = {
    .name = "print-config", .kind = OPTION_FLAG, .help = "print every option with its value and where it comes from, and end"};
