/*
 * verify_internal: one check under way, for the files that together make it.
 *
 *   verify.c         what is compared with what, and told
 *   verify_read.c    one pass over a file of tensors: hashes and numbers
 *   verify_known.c   what is known of a file from its download; hashes of small files
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/json.h"
#include "format/catalogue.h"
#include "pack/verify.h"

#define FINITE UINT64_MAX

/* What a download says of a file. */
enum known_hash { KNOWN_NONE, KNOWN_SHA256, KNOWN_GIT };
struct known_file {
    enum known_hash kind;
    char hex[65];
};

struct verified_file {
    uint64_t first, count;        /* tensors in `order` */
    uint64_t rest_hash;           /* of all bytes outside of tensors */
    uint64_t sums_at, sums_bytes; /* in them: count as zeros. GGUF packs */
    struct known_file known;
    char digest[65]; /* of the kind that is known */
    enum status status;
    struct error err; /* of reading it */
};

struct verify {
    const struct verify_options *options;
    FILE *out;
    struct file_set *files;
    struct catalogue *catalogue;
    const struct tensor_entry **order; /* all tensors by file and offset */
    uint64_t *hashes, *bad;            /* [tensor of the catalogue]: XXH3; element that is no number, or FINITE */
    struct verified_file *each;        /* [file] */
    atomic_uint_fast64_t done_bytes;
    uint64_t total_bytes, findings;
    atomic_bool reads_left; /* that may still come: the files stay open */
};

static inline uint64_t verify_index(const struct verify *v, const struct tensor_entry *tensor) {
    return (uint64_t)(tensor - catalogue_tensor(v->catalogue, 0));
}
/* Reads a file of tensors once and fills its entry, hashes and bad. Any thread, for a file each. */
void verify_read_file(struct verify *v, uint32_t file);
/* Looks for the download's note about a file; `path` may be a link into the Hub's cache. */
struct known_file verify_known(const char *path);
/* Digest of a small file as `kind` counts it; *xxh3 is its plain hash. */
MUST_CHECK enum status verify_small_file(const char *path, enum known_hash kind, char digest[65], uint64_t *xxh3, struct error *err);

struct verify_digest; /* of libcrypto; NULL for KNOWN_NONE */
MUST_CHECK enum status verify_digest_begin(enum known_hash kind, uint64_t size_bytes, struct verify_digest **out, struct error *err);
void verify_digest_add(struct verify_digest *digest, const void *data, size_t size_bytes);
/* Frees it; digest may be NULL: then hex is empty. */
void verify_digest_end(struct verify_digest *digest, char hex[65]);
