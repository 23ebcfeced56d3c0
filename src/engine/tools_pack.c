/*
 * tools_pack: include/sluice_tools.h: a model written anew, and what that made of it.
 */
#include "base/check.h"
#include "base/text.h"
#include "engine/inspect.h"
#include "pack/pack.h"
#include "sluice_tools.h"

static void print_result(const sluice_pack_options *options, const struct pack_result *r, FILE *out) {
    char size[32], kept[32];
    (void)fprintf(out, "%s: %s, %u tensors", options->out, text_format_size(r->bytes, size, sizeof size), r->tensors);
    if (r->kept_bytes)
        (void)fprintf(out, ", %s of it from an earlier call", text_format_size(r->kept_bytes, kept, sizeof kept));
    if (r->expert_layers)
        (void)fprintf(out, "; experts one by one in %u of %u layers that have any", r->split_layers, r->expert_layers);
    if (options->type)
        (void)fprintf(out, "; %u matrices made %s", r->encoded, options->type);
    if (r->kept_float)
        (void)fprintf(out, ", %u stay floats (transposed, or no whole groups)", r->kept_float);
    (void)fputc('\n', out);
}

sluice_status sluice_tool_pack(const sluice_pack_options *options, FILE *out, sluice_error *error) {
    struct error err = {0};
    struct pack_result result;
    CHECK(options && out);
    const struct pack_options pack = {.path = options->path,
                                      .out = options->out,
                                      .type = options->type,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .context = options->context_pointer};
    enum status status = pack_model(&pack, &result, &err);
    if (status == STATUS_OK)
        print_result(options, &result, out);
    return engine_report(status, &err, error);
}
