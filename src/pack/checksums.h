/*
 * checksums: XXH3 (64 bits) of a model's tensors and of everything beside them, as a JSON file: beside a packed directory, or in the cache
 * of `sluice verify`.
 *
 * Model    {"format": 1, "hash": "XXH3-64", "tensors": {NAME: HEX}, "rest": {FILE: HEX}, "files": {FILE: HEX}}. *rest* is all bytes of a
 *          file of tensors that are in none of them, in their order; *files* are those without tensors. FILE is a name without its folder.
 *          In a GGUF pack the hashes are metadata instead: an array of u64 under CHECKSUMS_KEY, a number for each tensor in the order of
 *          the table and one for the rest, in which they themselves count as zeros.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

#define CHECKSUMS_KEY "sluice.checksums"
#define CHECKSUMS_NAME "sluice-checksums.json"
#define CHECKSUMS_MAX_BYTES ((size_t)512 << 20)

/* An empty set of sums, or NULL. */
json_t *checksums_create(void);
/* group: "tensors", "rest", "files". */
MUST_CHECK enum status checksums_add(json_t *sums, const char *group, struct text name, uint64_t hash, struct error *err);
/* False: the set has none for the name. */
bool checksums_find(const json_t *sums, const char *group, struct text name, uint64_t *hash);
MUST_CHECK enum status checksums_write(const json_t *sums, const char *path, struct error *err);
/* STATUS_NOT_FOUND: there is no such file. STATUS_CORRUPT: it is damaged. */
MUST_CHECK enum status checksums_read(const char *path, json_t **out, struct error *err);
/* The last part of a path. */
const char *checksums_file_name(const char *path);
