/* checksums: see checksums.h. */
#include "pack/checksums.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"

#define FORMAT 1

json_t *checksums_create(void) {
    return json_pack("{s:i,s:s,s:{},s:{},s:{}}", "format", FORMAT, "hash", "XXH3-64", "tensors", "rest", "files");
}

enum status checksums_add(json_t *sums, const char *group, struct text name, uint64_t hash, struct error *err) {
    char hex[17];
    json_t *table = json_object_get(sums, group);
    CHECK(json_is_object(table));
    (void)snprintf(hex, sizeof hex, "%016" PRIx64, hash);
    if (json_object_setn_new(table, name.data, name.size_bytes, json_string(hex)) != 0)
        return error_set(err, STATUS_UNSUPPORTED, "%.*s: its checksum cannot be kept: the name is no UTF-8, or memory is out",
                         TEXT_ARGUMENTS(name));
    return STATUS_OK;
}

static bool parse_hex(const char *text, uint64_t *out) {
    uint64_t value = 0;
    if (!text || strlen(text) != 16)
        return false;
    for (int i = 0; i < 16; i++) {
        const char *digit = strchr("0123456789abcdef", text[i]);
        if (!digit)
            return false;
        value = value << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    *out = value;
    return true;
}

bool checksums_find(const json_t *sums, const char *group, struct text name, uint64_t *hash) {
    return parse_hex(json_string_value(json_object_getn(json_object_get(sums, group), name.data, name.size_bytes)), hash);
}

enum status checksums_write(const json_t *sums, const char *path, struct error *err) {
    char *text = json_dumps(sums, JSON_INDENT(1) | JSON_SORT_KEYS);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    enum status status = file_write(path, text, strlen(text), err);
    memory_free(text);
    return status;
}

enum status checksums_read(const char *path, json_t **out, struct error *err) {
    TRY(json_read_file(path, CHECKSUMS_MAX_BYTES, out, err));
    if (json_integer_value(json_object_get(*out, "format")) == FORMAT && json_is_object(json_object_get(*out, "tensors")) &&
        json_is_object(json_object_get(*out, "rest")) && json_is_object(json_object_get(*out, "files")))
        return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return error_set(err, STATUS_CORRUPT, "%s: is no list of checksums of this version; remove it", path);
}

const char *checksums_file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
