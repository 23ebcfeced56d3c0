/*
 * pack_directory: the files beside the tensors of a packed directory.
 */
#pragma once

#include "pack/checksums.h"
#include "pack/pack_plan.h"

/* Whether a file in a model's folder holds weights, or is hidden or about them alone. */
bool pack_is_of_weights(const char *name);

/*
 * Copies configuration, tokenizer and the like into a folder that is there, and adds their hashes to sums. config.json tells what --type
 * made. Files of weights, links to folders and hidden files stay behind.
 */
MUST_CHECK enum status pack_directory_copy(const struct pack_plan *plan, const char *folder, json_t *sums, struct error *err);
