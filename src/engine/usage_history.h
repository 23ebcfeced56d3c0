/*
 * usage_history: how often each expert of a model was used by earlier runs, in a small file of the user's cache folder.
 *
 * Model    one file a model, "usage-IDENTITY" (model_identity.h): counts per expert, in the order of their records, and nothing else: no
 *          text, no ids, no names, no times. Each run adds its counts to half of those that are there, so old habits fade.
 *          A file that is damaged, cut short, of another version or another model is as none. A folder that cannot be written to, or
 *          a full disk: nothing is kept, and nobody is bothered (a debug line).
 * Threads  one owner; several processes may write at once: the file is one of theirs, whole.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What it is kept in; false: there is no cache folder. */
bool usage_history_path(const uint8_t identity[32], char *path, uint64_t path_bytes);
/* counts: [count]. False: there is none, and the counts are 0. */
bool usage_history_read(const char *path, const uint8_t identity[32], uint32_t *counts, uint32_t count);
/* Adds a run's counts to half of what is there. Writes nothing when all are 0. */
void usage_history_add(const char *path, const uint8_t identity[32], const uint32_t *counts, uint32_t count);
