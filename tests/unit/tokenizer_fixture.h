/*
 * tokenizer_fixture: the tokenizers and cases of tests/data/tokenizers (tools/make_tokenizer_cases.py), opened as files in memory.
 */
#pragma once

#include "test_support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/tokenizer.h"

static inline const char *fixture_path(const char *name, char *buffer, size_t buffer_bytes) {
    const char *data = getenv("SLUICE_TEST_DATA");
    assert_non_null(data);
    assert_true((size_t)snprintf(buffer, buffer_bytes, "%s/tokenizers/%s", data, name) < buffer_bytes);
    return buffer;
}

/* The whole of cases.json; json_decref. */
static inline json_t *fixture_load(void) {
    char path[4096];
    struct error err;
    json_t *cases;
    ASSERT_OK(json_read_file(fixture_path("cases.json", path, sizeof(path)), 16u << 20, &cases, &err), err);
    return cases;
}

/* Opens bytes as a file of their own; *fd is closed by the caller after use. */
static inline enum status fixture_open_bytes(struct text bytes, struct tokenizer **out, struct error *err) {
    char path[64];
    int fd = memfd_create("tokenizer", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size_bytes), (ssize_t)bytes.size_bytes);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum status status = tokenizer_open_path(path, out, err);
    (void)close(fd);
    return status;
}

/* The tokenizer.json of an entry as text (memory_free), with parts and options put into the model's file. */
static inline char *fixture_document(const json_t *cases, const char *name) {
    const json_t *entry = json_object_get(json_object_get(cases, "tokenizers"), name);
    assert_non_null(entry);
    json_t *model = json_deep_copy(json_object_get(json_object_get(cases, "models"), json_string_value(json_object_get(entry, "model"))));
    json_t *document = json_deep_copy(json_object_get(entry, "parts"));
    assert_non_null(model);
    assert_non_null(document);
    assert_int_equal(json_object_update(model, json_object_get(entry, "options")), 0);
    assert_int_equal(json_object_set_new(document, "model", model), 0);
    char *text = json_dumps(document, JSON_COMPACT);
    json_decref(document);
    assert_non_null(text);
    return text;
}

static inline struct tokenizer *fixture_open(const json_t *cases, const char *name) {
    struct error err;
    struct tokenizer *tokenizer;
    char *text = fixture_document(cases, name);
    ASSERT_OK(fixture_open_bytes(text_of(text), &tokenizer, &err), err);
    memory_free(text);
    return tokenizer;
}

static inline const json_t *fixture_cases(const json_t *cases, const char *name) {
    const json_t *list = json_object_get(json_object_get(json_object_get(cases, "tokenizers"), name), "cases");
    assert_true(json_array_size(list) > 0);
    return list;
}

static inline struct text fixture_text(const json_t *value) {
    assert_true(json_is_string(value));
    return (struct text){json_string_value(value), json_string_length(value)};
}

/* The ids of text; token_list_deinit. */
static inline struct token_list fixture_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags) {
    struct token_list ids = {0};
    struct error err;
    ASSERT_OK(tokenizer_encode(tokenizer, text, flags, NULL, &ids, &err), err);
    return ids;
}

static inline void fixture_assert_ids(const struct token_list *got, const json_t *wanted, const char *name, struct text text) {
    bool same = got->count == json_array_size(wanted);
    for (size_t i = 0; i < got->count && same; i++)
        same = got->ids[i] == (uint32_t)json_integer_value(json_array_get(wanted, i));
    if (!same)
        fail_msg("%s: other ids for \"%.*s\": %zu, wanted %zu", name, TEXT_ARGUMENTS(text), got->count, json_array_size(wanted));
}

static inline void fixture_assert_decodes(const struct tokenizer *tokenizer, const struct token_list *ids, bool skip_special,
                                          struct text wanted, const char *name) {
    struct byte_buffer out;
    struct error err;
    byte_buffer_init(&out, 16u << 20);
    ASSERT_OK(tokenizer_decode(tokenizer, ids->ids, ids->count, skip_special, &out, &err), err);
    if (!text_equal(byte_buffer_text(&out), wanted))
        fail_msg("%s: decodes to \"%.*s\", wanted \"%.*s\"", name, TEXT_ARGUMENTS(byte_buffer_text(&out)), TEXT_ARGUMENTS(wanted));
    byte_buffer_deinit(&out);
}
