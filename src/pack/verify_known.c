/* verify_known: notes of Hub downloads, and the hashes that they name, by libcrypto. */
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "pack/checksums.h"
#include "pack/verify_internal.h"

#define NOTE_MAX_BYTES 4096
#define SMALL_MAX_BYTES ((size_t)1 << 30)

static bool is_hex(const char *text, size_t length) { return strspn(text, "0123456789abcdef") == length && strlen(text) == length; }

static struct known_file of_hex(const char *hex) {
    struct known_file known = {.kind = is_hex(hex, 64) ? KNOWN_SHA256 : is_hex(hex, 40) ? KNOWN_GIT : KNOWN_NONE};
    if (known.kind != KNOWN_NONE)
        (void)snprintf(known.hex, sizeof known.hex, "%s", hex);
    return known;
}

/* FOLDER/.cache/huggingface/download/NAME.metadata: commit, hash, time, a line each. */
static struct known_file of_note(const char *path) {
    char note_path[PATH_MAX], hex[72] = "";
    const char *name = checksums_file_name(path);
    struct text note;
    int length = snprintf(note_path, sizeof note_path, "%.*s.cache/huggingface/download/%s.metadata", (int)(name - path), path, name);
    if (length < 0 || (size_t)length >= sizeof note_path || file_read(note_path, NOTE_MAX_BYTES, &note, NULL) != STATUS_OK)
        return (struct known_file){0};
    const char *line = memchr(note.data, '\n', note.size_bytes);
    size_t at = line ? (size_t)(line + 1 - note.data) : note.size_bytes, used = 0;
    for (; at < note.size_bytes && used + 1 < sizeof hex && note.data[at] != '\n' && note.data[at] != '\r'; at++)
        if (note.data[at] != '"')
            hex[used++] = note.data[at];
    memory_free((char *)note.data);
    return of_hex(hex);
}

struct known_file verify_known(const char *path) {
    char real[PATH_MAX];
    struct known_file known = of_note(path);
    if (known.kind != KNOWN_NONE || !realpath(path, real))
        return known;
    const char *name = checksums_file_name(real); /* snapshots/COMMIT/NAME -> blobs/HASH */
    bool blob = name - real >= 7 && memcmp(name - 7, "/blobs/", 7) == 0;
    return blob ? of_hex(name) : known;
}

/* ---- digests ---- */

struct verify_digest {
    EVP_MD_CTX *context;
};

enum status verify_digest_begin(enum known_hash kind, uint64_t size_bytes, struct verify_digest **out, struct error *err) {
    char head[40]; /* git hashes a blob behind its length */
    *out = NULL;
    if (kind == KNOWN_NONE)
        return STATUS_OK;
    struct verify_digest *digest = memory_alloc(sizeof *digest);
    int head_bytes = kind == KNOWN_GIT ? snprintf(head, sizeof head, "blob %llu", (unsigned long long)size_bytes) + 1 : 0;
    if (digest)
        digest->context = EVP_MD_CTX_new();
    if (!digest || !digest->context || EVP_DigestInit_ex(digest->context, kind == KNOWN_GIT ? EVP_sha1() : EVP_sha256(), NULL) != 1 ||
        EVP_DigestUpdate(digest->context, head, (size_t)head_bytes) != 1) {
        verify_digest_end(digest, NULL);
        return error_set(err, STATUS_NO_MEMORY, "no memory to compute %s", kind == KNOWN_GIT ? "SHA-1" : "SHA-256");
    }
    *out = digest;
    return STATUS_OK;
}

void verify_digest_add(struct verify_digest *digest, const void *data, size_t size_bytes) {
    CHECK(!digest || EVP_DigestUpdate(digest->context, data, size_bytes) == 1);
}

void verify_digest_end(struct verify_digest *digest, char hex[65]) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned count = 0;
    if (hex)
        hex[0] = 0;
    if (!digest)
        return;
    if (hex && EVP_DigestFinal_ex(digest->context, bytes, &count) == 1)
        for (unsigned i = 0; i < count && i < 32; i++)
            (void)snprintf(hex + (size_t)2 * i, 3, "%02x", bytes[i]);
    EVP_MD_CTX_free(digest->context);
    memory_free(digest);
}

enum status verify_small_file(const char *path, enum known_hash kind, char hex[65], uint64_t *xxh3, struct error *err) {
    struct text text;
    struct verify_digest *digest;
    TRY(file_read(path, SMALL_MAX_BYTES, &text, err));
    *xxh3 = XXH3_64bits(text.data, text.size_bytes);
    enum status status = verify_digest_begin(kind, text.size_bytes, &digest, err);
    verify_digest_add(digest, text.data, text.size_bytes);
    verify_digest_end(digest, hex);
    memory_free((char *)text.data);
    return status;
}
