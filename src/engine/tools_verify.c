/*
 * tools_verify: include/sluice_tools.h: a model compared with what is known of it. Needs libcrypto.
 */
#include "base/check.h"
#include "engine/inspect.h"
#include "pack/verify.h"
#include "sluice_tools.h"

sluice_status sluice_tool_verify(const sluice_verify_options *options, FILE *out, sluice_error *error) {
    struct error err = {0};
    CHECK(options && out);
    const struct verify_options verify = {
        .path = options->path, .threads = options->threads, .progress = options->progress, .context = options->context_pointer};
    return engine_report(verify_model(&verify, out, &err), &err, error);
}
