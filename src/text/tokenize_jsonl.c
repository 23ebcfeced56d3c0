/* tokenize_jsonl: the answers; json_lines has the loop. */
#include "text/tokenize_jsonl.h"

#include <jansson.h>

#include "base/check.h"
#include "base/sha256.h"
#include "text/json_lines.h"

#define TEXT_BYTES_MAX ((size_t)1 << 30)

static json_t *json_of_bytes(const struct byte_buffer *bytes) { return json_stringn(bytes->data ? bytes->data : "", bytes->size_bytes); }

static enum status set(json_t *object, const char *key, json_t *value, struct error *err) {
    return value && json_object_set_new(object, key, value) == 0 ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for an answer");
}

static enum status set_ids(json_t *object, const char *key, const struct token_list *ids, struct error *err) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < ids->count; i++)
        if (json_array_append_new(list, json_integer(ids->ids[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return set(object, key, list, err);
}

static enum status set_decoded(const struct tokenizer *tokenizer, json_t *object, const char *key, const struct token_list *ids,
                               bool skip_special, struct error *err) {
    struct byte_buffer text;
    byte_buffer_init(&text, TEXT_BYTES_MAX);
    enum status status = tokenizer_decode(tokenizer, ids->ids, ids->count, skip_special, &text, err);
    if (status == STATUS_OK)
        status = set(object, key, json_of_bytes(&text), err);
    byte_buffer_deinit(&text);
    return status;
}

static enum status answer_text(const struct tokenizer *tokenizer, struct text text, json_t *answer, struct error *err) {
    struct token_list plain = {0}, special = {0};
    enum status status = tokenizer_encode(tokenizer, text, 0, NULL, &plain, err);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, text, TOKENIZE_ADD_SPECIAL, NULL, &special, err);
    if (status == STATUS_OK)
        status = set_ids(answer, "ids", &plain, err);
    if (status == STATUS_OK)
        status = set_ids(answer, "ids_special", &special, err);
    if (status == STATUS_OK)
        status = set_decoded(tokenizer, answer, "decoded", &plain, false, err);
    if (status == STATUS_OK)
        status = set_decoded(tokenizer, answer, "decoded_skip", &plain, true, err);
    if (status == STATUS_OK)
        status = set_decoded(tokenizer, answer, "decoded_special", &special, false, err);
    token_list_deinit(&plain);
    token_list_deinit(&special);
    return status;
}

static void hash_ids(const struct token_list *ids, char text[65]) {
    struct sha256 hash;
    uint8_t digest[32];
    sha256_init(&hash);
    for (size_t i = 0; i < ids->count; i++) {
        uint32_t id = ids->ids[i];
        uint8_t bytes[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)};
        sha256_update(&hash, bytes, sizeof(bytes));
    }
    sha256_finish(&hash, digest);
    sha256_hex(digest, text);
}

static enum status answer_repeat(const struct tokenizer *tokenizer, const json_t *repeat, json_t *answer, struct error *err) {
    const json_t *piece = json_array_get(repeat, 0), *times = json_array_get(repeat, 1);
    if (!json_is_string(piece) || !json_is_integer(times) || json_integer_value(times) < 0)
        return error_set(err, STATUS_INVALID, "\"repeat\" must be [text, count]");
    struct byte_buffer text;
    struct token_list ids = {0};
    byte_buffer_init(&text, TEXT_BYTES_MAX);
    enum status status = STATUS_OK;
    for (json_int_t i = 0; i < json_integer_value(times) && json_string_length(piece) > 0 && status == STATUS_OK; i++)
        status = byte_buffer_append(&text, json_string_value(piece), json_string_length(piece), err);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, byte_buffer_text(&text), 0, NULL, &ids, err);
    char hash[65];
    hash_ids(&ids, hash);
    if (status == STATUS_OK)
        status = set(answer, "n_ids", json_integer((json_int_t)ids.count), err);
    if (status == STATUS_OK)
        status = set(answer, "ids_sha256", json_string(hash), err);
    token_list_deinit(&ids);
    byte_buffer_deinit(&text);
    return status;
}

static enum status read_ids(const json_t *list, struct token_list *ids, struct error *err) {
    size_t index;
    json_t *id;
    json_array_foreach(list, index, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX)
            return error_set(err, STATUS_INVALID, "\"ids\": item %zu is no token id", index);
        TRY(token_list_append(ids, (uint32_t)json_integer_value(id), err));
    }
    return STATUS_OK;
}

static enum status stream_ids(const struct tokenizer *tokenizer, const struct token_list *ids, json_t *steps, struct byte_buffer *text,
                              struct error *err) {
    struct tokenizer_stream stream;
    tokenizer_stream_init(&stream, tokenizer, false);
    for (size_t i = 0; i < ids->count; i++) {
        size_t before = text->size_bytes;
        TRY(tokenizer_stream_push(&stream, ids->ids[i], text, err));
        if (i + 1 == ids->count)
            TRY(tokenizer_stream_finish(&stream, text, err));
        struct text step = byte_buffer_text(text);
        if (json_array_append_new(steps, json_stringn(step.data + before, step.size_bytes - before)) != 0)
            return error_set(err, STATUS_NO_MEMORY, "no memory for an answer");
    }
    return STATUS_OK;
}

static enum status answer_ids(const struct tokenizer *tokenizer, const json_t *list, bool as_stream, json_t *answer, struct error *err) {
    struct token_list ids = {0};
    struct byte_buffer text;
    json_t *steps = as_stream ? json_array() : NULL;
    byte_buffer_init(&text, TEXT_BYTES_MAX);
    enum status status = read_ids(list, &ids, err);
    if (status == STATUS_OK && as_stream) {
        status = stream_ids(tokenizer, &ids, steps, &text, err);
        if (status == STATUS_OK)
            status = set(answer, "steps", json_incref(steps), err);
        if (status == STATUS_OK)
            status = set(answer, "text", json_of_bytes(&text), err);
    } else if (status == STATUS_OK) {
        status = set_decoded(tokenizer, answer, "decoded", &ids, false, err);
        if (status == STATUS_OK)
            status = set_decoded(tokenizer, answer, "decoded_skip", &ids, true, err);
    }
    json_decref(steps);
    byte_buffer_deinit(&text);
    token_list_deinit(&ids);
    return status;
}

static enum status fill_answer(const struct tokenizer *tokenizer, const json_t *line, json_t *answer, struct error *err) {
    const json_t *text = json_object_get(line, "text"), *repeat = json_object_get(line, "repeat"), *ids = json_object_get(line, "ids");
    if (json_is_string(text))
        return answer_text(tokenizer, (struct text){json_string_value(text), json_string_length(text)}, answer, err);
    if (repeat)
        return answer_repeat(tokenizer, repeat, answer, err);
    if (json_is_array(ids))
        return answer_ids(tokenizer, ids, json_is_true(json_object_get(line, "stream")), answer, err);
    return error_set(err, STATUS_INVALID, "a line needs \"text\", \"repeat\" or \"ids\"");
}

static json_t *answer_line(void *context, const json_t *line, struct error *err) {
    json_t *answer = json_object();
    enum status status = answer ? fill_answer(context, line, answer, err) : error_set(err, STATUS_NO_MEMORY, "no memory for an answer");
    if (status == STATUS_OK)
        return answer;
    json_decref(answer);
    return NULL;
}

enum status tokenize_jsonl(const struct tokenizer *tokenizer, FILE *in, FILE *out, struct error *err) {
    CHECK(tokenizer != NULL);
    return json_lines_run(in, out, answer_line, (void *)(uintptr_t)tokenizer, err);
}
