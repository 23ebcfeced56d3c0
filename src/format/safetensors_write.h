/*
 * safetensors_write: writes float32 and int32 tensors into a new safetensors file (atomic: .partial, then rename).
 */
#pragma once

#include <stdint.h>

#include "base/status.h"

struct safetensors_writer;

MUST_CHECK enum status safetensors_writer_create(const char *path, struct safetensors_writer **out, struct error *err);
/* Declares a tensor ("F32" or "I32"); all are declared before the first data. Shapes outermost first. */
MUST_CHECK enum status safetensors_writer_declare(struct safetensors_writer *w, const char *name, const char *type, const uint64_t *shape,
                                                  uint32_t rank, struct error *err);
/* Appends bytes of the declared tensors in their order. */
MUST_CHECK enum status safetensors_writer_append(struct safetensors_writer *w, const void *data, uint64_t size_bytes, struct error *err);
/* Checks that all bytes came, syncs and renames; frees the writer in every case. */
MUST_CHECK enum status safetensors_writer_finish(struct safetensors_writer *w, struct error *err);
/* Removes the partial file and frees the writer. NULL is allowed. */
void safetensors_writer_abandon(struct safetensors_writer *w);
