/*
 * hf_model: which safetensors files of a folder make the model, and loading them with the configuration.
 */
#pragma once

#include "format/catalogue_internal.h"
#include "format/directory_list.h"

/* Whether the folder holds safetensors files, or an index of them. */
bool hf_model_present(const struct directory_list *list);
/*
 * Adds metadata and all tensors. With model.safetensors.index.json, exactly the files that it names count, and every tensor that it
 * names must be there; without, model.safetensors, a complete set model-1-of-n, or the only safetensors file there is.
 */
MUST_CHECK enum status hf_model_open(struct catalogue *catalogue, struct file_set *files, const char *directory,
                                     const struct directory_list *list, struct error *err);
