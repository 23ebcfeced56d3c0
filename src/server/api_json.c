/*
 * api_json: building.
 */
#include "server/api_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

json_t *api_json_error(unsigned http_status, const char *message, const char *parameter, const char *code) {
    const char *type = http_status == 401   ? "authentication_error"
                       : http_status == 429 ? "rate_limit_error"
                       : http_status >= 500 ? "server_error"
                                            : "invalid_request_error";
    return json_pack("{s:{s:o,s:s,s:s?,s:s?}}", "error", "message", json_lenient_string(message, strlen(message)), "type", type, "param",
                     parameter && *parameter ? parameter : NULL, "code", code);
}

json_t *api_json_call(const struct api_task *task, size_t number, const json_t *call) {
    char id[64];
    const char *given = json_string_value(json_object_get(call, "id"));
    (void)snprintf(id, sizeof id, "call_%.24s_%zu", task->id + 9, number);
    return json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", given ? given : id, "type", "function", "function", "name",
                     json_string_value(json_object_get(call, "name")), "arguments", json_string_value(json_object_get(call, "arguments")));
}

/* ---- logprobs ---- */

static json_t *logprob_entry(sluice_model *model, uint32_t token, float logprob) {
    char *text;
    size_t size;
    sluice_error error;
    sluice_status status = sluice_token_bytes(model, token, &text, &size, &error);
    if (status == SLUICE_OK && size == 0) { /* a control word: its name */
        sluice_free(text);
        status = sluice_detokenize(model, &token, 1, false, &text, &size, &error);
    }
    if (status != SLUICE_OK)
        return json_null();
    json_t *bytes = json_array();
    for (size_t i = 0; i < size; i++)
        (void)json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    json_t *entry = json_pack("{s:o,s:f,s:o}", "token", json_lenient_string(text, size), "logprob", (double)logprob, "bytes", bytes);
    sluice_free(text);
    return entry;
}

json_t *api_json_logprob(sluice_model *model, const sluice_piece *piece, uint32_t top) {
    json_t *entry = logprob_entry(model, piece->token, piece->logprob), *list = json_array();
    for (uint32_t i = 0; i < top; i++)
        (void)json_array_append_new(list, logprob_entry(model, piece->top[i].token, piece->top[i].logprob));
    (void)json_object_set_new(entry, "top_logprobs", list);
    return entry;
}

/* Completions have parallel lists. */
static json_t *legacy_logprobs(json_t *entries) {
    json_t *tokens = json_array(), *values = json_array(), *tops = json_array(), *offsets = json_array(), *entry, *item;
    size_t i, k, offset = 0;
    json_array_foreach(entries, i, entry) {
        json_t *top = json_object();
        (void)json_array_append(tokens, json_object_get(entry, "token"));
        (void)json_array_append(values, json_object_get(entry, "logprob"));
        (void)json_array_append_new(offsets, json_integer((json_int_t)offset));
        json_array_foreach(json_object_get(entry, "top_logprobs"), k, item)(void)
            json_object_set(top, json_string_value(json_object_get(item, "token")), json_object_get(item, "logprob"));
        (void)json_array_append_new(tops, top);
        offset += json_string_length(json_object_get(entry, "token"));
    }
    json_decref(entries);
    return json_pack("{s:o,s:o,s:o,s:o}", "tokens", tokens, "token_logprobs", values, "top_logprobs", tops, "text_offset", offsets);
}

json_t *api_json_logprobs(enum api_kind kind, json_t *entries) {
    return kind == API_CHAT ? json_pack("{s:o}", "content", entries) : legacy_logprobs(entries);
}

/* ---- chunks ---- */

static json_t *usage(struct api_usage u) {
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", (json_int_t)u.prompt, "completion_tokens", (json_int_t)u.generated,
                     "total_tokens", (json_int_t)(u.prompt + u.generated), "prompt_tokens_details", "cached_tokens", (json_int_t)u.reused);
}

static json_t *envelope(const struct api_task *task, const char *object, json_t *choices) {
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", task->id, "object", object, "created", (json_int_t)task->created, "model",
                     task->model_name, "choices", choices);
}

static const char *chunk_object(const struct api_task *task) {
    return task->request.kind == API_CHAT ? "chat.completion.chunk" : "text_completion";
}

json_t *api_json_chunk(const struct api_task *task, uint32_t index, json_t *delta, json_t *logprobs, const char *finish_reason) {
    json_t *choice;
    if (task->request.kind == API_CHAT) {
        choice = json_pack("{s:i,s:o,s:o,s:s?}", "index", (int)index, "delta", delta, "logprobs", logprobs, "finish_reason", finish_reason);
    } else {
        const char *text = json_string_value(json_object_get(delta, "text"));
        choice = json_pack("{s:i,s:s,s:o,s:s?}", "index", (int)index, "text", text ? text : "", "logprobs", logprobs, "finish_reason",
                           finish_reason);
        json_decref(delta);
    }
    json_t *chunk = envelope(task, chunk_object(task), json_pack("[o]", choice));
    if (task->request.include_usage)
        (void)json_object_set_new(chunk, "usage", json_null());
    return chunk;
}

json_t *api_json_usage_chunk(const struct api_task *task, struct api_usage used) {
    json_t *chunk = envelope(task, chunk_object(task), json_array());
    (void)json_object_set_new(chunk, "usage", usage(used));
    return chunk;
}

json_t *api_json_choice(const struct api_task *task, uint32_t index, struct text content, struct text reasoning, json_t *calls,
                        json_t *logprobs, const char *finish_reason) {
    if (task->request.kind == API_COMPLETION)
        return json_pack("{s:i,s:o,s:o,s:s}", "index", (int)index, "text", json_lenient_string(content.data, content.size_bytes),
                         "logprobs", logprobs, "finish_reason", finish_reason);
    bool has_calls = json_array_size(calls) > 0;
    json_t *message =
        json_pack("{s:s,s:o,s:n}", "role", "assistant", "content",
                  has_calls && content.size_bytes == 0 ? json_null() : json_lenient_string(content.data, content.size_bytes), "refusal");
    if (reasoning.size_bytes)
        (void)json_object_set_new(message, "reasoning_content", json_lenient_string(reasoning.data, reasoning.size_bytes));
    if (has_calls)
        (void)json_object_set(message, "tool_calls", calls);
    return json_pack("{s:i,s:o,s:o,s:s}", "index", (int)index, "message", message, "logprobs", logprobs, "finish_reason", finish_reason);
}

char *api_json_answer(const struct api_task *task, json_t *choices, struct api_usage used) {
    json_t *answer = envelope(task, task->request.kind == API_CHAT ? "chat.completion" : "text_completion", choices);
    (void)json_object_set_new(answer, "usage", usage(used));
    char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(answer);
    return text;
}

json_t *api_json_model(const char *model_name, int64_t created) {
    return json_pack("{s:s,s:s,s:I,s:s}", "id", model_name, "object", "model", "created", (json_int_t)created, "owned_by", "sluice");
}
