/*
 * doctor: would `generate` and `serve` work here with this model, and how fast at most; as JSON.
 *
 * Model    {"machine", "reading" (with a model), "model" (inspect.h), "plan", "bounds", "generate", "serve", "advice"}. generate and serve
 *          have "works" and "why"; they are asked of the code that they would run: open, plan, reader.
 */
#pragma once

#include <jansson.h>

#include "engine/engine_internal.h"

struct doctor_paths {
    const char *model; /* NULL: the machine alone */
    const char *const *copies;
    size_t copy_count;
};

/*
 * options: as `generate` would load; context 0 asks for that of a short request. The caller owns *out, which
 * is made in any case but a lack of memory. Returns what generate would fail with: STATUS_OVER_BUDGET when the model does not fit.
 */
MUST_CHECK enum status doctor_examine(const struct doctor_paths *paths, const sluice_load_options *options, json_t **out,
                                      struct error *err);
