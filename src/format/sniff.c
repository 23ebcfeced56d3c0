/*
 * sniff: a table of beginnings, and of endings of names.
 */
#include "format/sniff.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define SNIFF_BYTES 512

struct beginning {
    struct text bytes;
    enum status status;
    const char *what; /* "FILE: <what>" */
};

/* Compared after white space and a byte order mark; letters without case. */
static const struct beginning texts[] = {
    {{"<!doctype", 9}, STATUS_CORRUPT, "is a web page (HTML), not a model: the download failed; download the model file itself"},
    {{"<html", 5}, STATUS_CORRUPT, "is a web page (HTML), not a model: the download failed; download the model file itself"},
    {{"<?xml", 5}, STATUS_CORRUPT, "is an XML text, most likely the error of a download; download the model file itself"},
    {{"version https://git-lfs", 23},
     STATUS_CORRUPT,
     "is a Git LFS pointer, not the model: the download failed; run `git lfs pull`, or download the file itself"},
    {{"{\"error", 7}, STATUS_CORRUPT, "is the error message of a server, not a model: the download failed; download it again"},
};

static const struct beginning binaries[] = {
    {{"FUGG", 4}, STATUS_UNSUPPORTED, "is a big-endian GGUF file; get the little-endian one or convert the model again"},
    {{"lmgg", 4}, STATUS_UNSUPPORTED, "is a GGML file from before GGUF; get or convert the model as GGUF"},
    {{"fmgg", 4}, STATUS_UNSUPPORTED, "is a GGMF file from before GGUF; get or convert the model as GGUF"},
    {{"tjgg", 4}, STATUS_UNSUPPORTED, "is a GGJT file from before GGUF; get or convert the model as GGUF"},
    {{"algg", 4}, STATUS_UNSUPPORTED, "is a GGLA adapter from before GGUF, not a model"},
    {{"PK\3\4", 4},
     STATUS_UNSUPPORTED,
     "is a zip archive, as PyTorch checkpoints are (pickle): those can run code and are not read; get the model as safetensors or GGUF"},
    {{"\x80\2", 2}, STATUS_UNSUPPORTED, "is a Python pickle: those can run code and are not read; get the model as safetensors or GGUF"},
    {{"\x89HDF", 4}, STATUS_UNSUPPORTED, "is an HDF5 file (Keras); get the model as safetensors or GGUF"},
    {{"\x1f\x8b", 2}, STATUS_UNSUPPORTED, "is compressed with gzip; unpack it first"},
    {{"\x28\xb5\x2f\xfd", 4}, STATUS_UNSUPPORTED, "is compressed with zstd; unpack it first"},
    {{"\xfd\x37zXZ", 5}, STATUS_UNSUPPORTED, "is compressed with xz; unpack it first"},
    {{"7z\xbc\xaf", 4}, STATUS_UNSUPPORTED, "is a 7-Zip archive; unpack it first"},
};

struct head {
    char bytes[SNIFF_BYTES];
    size_t size_bytes;
};

static enum status read_head(const struct file_set *files, uint32_t file, struct head *head, struct error *err) {
    uint64_t size_bytes = file_set_size_bytes(files, file);
    head->size_bytes = size_bytes < SNIFF_BYTES ? (size_t)size_bytes : SNIFF_BYTES;
    return file_set_read(files, file, 0, head->bytes, head->size_bytes, err);
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool starts_with_any_case(struct text a, struct text prefix) {
    ASSERT(prefix.size_bytes > 0);
    if (a.size_bytes < prefix.size_bytes)
        return false;
    for (size_t i = 0; i < prefix.size_bytes; i++)
        if (lower(a.data[i]) != prefix.data[i])
            return false;
    return true;
}

/* Where text starts: behind a byte order mark and white space. */
static struct text skip_space(struct text a) {
    size_t at = text_starts_with(a, TEXT("\xef\xbb\xbf")) ? 3 : 0;
    while (at < a.size_bytes && (a.data[at] == ' ' || a.data[at] == '\t' || a.data[at] == '\r' || a.data[at] == '\n'))
        at++;
    return (struct text){a.data + at, a.size_bytes - at};
}

/* Any two bytes may begin a safetensors file (they are a length): where the rest fits, it is one. */
static bool looks_like_safetensors(struct text head, uint64_t file_bytes) {
    uint64_t header_bytes;
    if (head.size_bytes < 9 || head.data[8] != '{')
        return false;
    ASSERT(file_bytes >= head.size_bytes);
    memcpy(&header_bytes, head.data, sizeof header_bytes);
    return header_bytes <= file_bytes - 8;
}

static const struct beginning *find_beginning(struct text head, uint64_t file_bytes) {
    struct text trimmed = skip_space(head);
    if (looks_like_safetensors(head, file_bytes))
        return NULL;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (starts_with_any_case(trimmed, texts[i].bytes))
            return &texts[i];
    for (size_t i = 0; i < sizeof binaries / sizeof binaries[0]; i++)
        if (text_starts_with(head, binaries[i].bytes))
            return &binaries[i];
    return NULL;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Whether the ending of the name (from its last dot) is that of a piece of a file: .part1of2, .part3, .part-a, .gguf-split-b. */
static bool is_piece(struct text ending) {
    if (starts_with_any_case(ending, TEXT(".gguf-split-")))
        return true;
    if (!starts_with_any_case(ending, TEXT(".part")) || ending.size_bytes == 5)
        return false;
    char next = ending.data[5];
    return is_digit(next) || next == '-' || next == '_';
}

static bool is_unfinished(struct text ending) {
    return text_is(ending, ".part") || text_is(ending, ".partial") || text_is(ending, ".incomplete") || text_is(ending, ".crdownload") ||
           text_is(ending, ".aria2");
}

/* From the last dot of the last path component; empty when it has none. */
static struct text ending_of(const char *path) {
    struct text name = text_of(path);
    for (size_t at = name.size_bytes; at-- > 0 && path[at] != '/';)
        if (path[at] == '.')
            return (struct text){path + at, name.size_bytes - at};
    return (struct text){path, 0};
}

/* GGUF version of the other byte order: small when its bytes are swapped. */
static bool is_big_endian_gguf(struct text head) {
    static const char zeros[2] = {0, 0};
    return head.size_bytes >= 8 && text_starts_with(head, TEXT("GGUF")) && memcmp(head.data + 4, zeros, 2) == 0 &&
           (head.data[6] != 0 || head.data[7] != 0);
}

enum status sniff_explain(const struct file_set *files, uint32_t file, struct error *err) {
    const char *path = file_set_path(files, file);
    struct text ending = ending_of(path);
    if (is_unfinished(ending))
        return error_set(err, STATUS_INVALID, "%s: is an unfinished download or pack; let it finish, or start it again", path);
    if (is_piece(ending))
        return error_set(
            err, STATUS_INVALID,
            "%s: is one part of a file that was cut into pieces; join all parts in order (cat model.gguf.part* > model.gguf) and open "
            "the result",
            path);
    struct head head;
    TRY(read_head(files, file, &head, err));
    struct text bytes = {head.bytes, head.size_bytes};
    if (bytes.size_bytes == 0)
        return error_set(err, STATUS_CORRUPT, "%s: is empty (0 bytes); download it again", path);
    const struct beginning *known = find_beginning(bytes, file_set_size_bytes(files, file));
    if (known)
        return error_set(err, known->status, "%s: %s", path, known->what);
    if (is_big_endian_gguf(bytes))
        return error_set(err, STATUS_UNSUPPORTED, "%s: is a big-endian GGUF file; get the little-endian one or convert the model again",
                         path);
    return STATUS_OK;
}

enum status sniff_kind(const struct file_set *files, uint32_t file, enum sniff_kind *out, struct error *err) {
    struct head head;
    const char *path = file_set_path(files, file);
    STATIC_ASSERT(SNIFF_BYTES >= 64, "every beginning fits");
    *out = SNIFF_UNKNOWN;
    TRY(sniff_explain(files, file, err));
    TRY(read_head(files, file, &head, err));
    struct text bytes = {head.bytes, head.size_bytes};
    if (text_starts_with(bytes, TEXT("GGUF")) || text_ends_with(text_of(path), TEXT(".gguf")))
        *out = SNIFF_GGUF;
    else if ((head.size_bytes >= 9 && head.bytes[8] == '{') || text_ends_with(text_of(path), TEXT(".safetensors")))
        *out = SNIFF_SAFETENSORS;
    else if (text_starts_with(skip_space(bytes), TEXT("{")))
        return error_set(err, STATUS_INVALID, "%s: is a JSON text; give the folder that it lies in, or a .gguf file", path);
    return STATUS_OK;
}
