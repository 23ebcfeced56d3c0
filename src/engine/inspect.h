/*
 * inspect: what a model is made of, as JSON: for the commands inspect and doctor.
 */
#pragma once

#include <jansson.h>

#include "engine/engine_internal.h"

/*
 * Everything that the files of a path say. What keeps the model from running is under "problem" (and "missing_tensors"), what may make its
 * output wrong under "warnings"; a catalogue that does not open is a failure. Keys are in the order of printing. The caller owns *out.
 */
MUST_CHECK enum status inspect_path(const char *path, bool tensors, json_t **out, struct error *err);
/* The same of a model that is open. */
MUST_CHECK enum status inspect_model(const char *path, sluice_model *model, json_t **out, struct error *err);
/* Lines "key   value" of it. */
void inspect_print(const json_t *root, FILE *out);
