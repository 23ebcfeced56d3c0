/*
 * api_json: the objects that the API answers with, in OpenAI's shapes. All return new values; NULL when out of memory.
 */
#pragma once

#include "server/api_run.h"

struct api_usage {
    size_t prompt, reused, generated; /* tokens; reused: of the prompt of the first choice, from an earlier request */
};

/* {"error": {...}} */
json_t *api_json_error(unsigned http_status, const char *message, const char *parameter, const char *code);
/* One tool call from {"id"?, "name", "arguments"}; number: its place in the answer. */
json_t *api_json_call(const struct api_task *task, size_t number, const json_t *call);
/* One token's entry, and the object around a list of them (takes the list). */
json_t *api_json_logprob(sluice_model *model, const sluice_piece *piece, uint32_t top);
json_t *api_json_logprobs(enum api_kind kind, json_t *entries);
/* A stream's chunk (takes delta and logprobs; a completion's delta has "text"), its last one with the usage, and the choice of a whole
 * answer (takes logprobs). */
json_t *api_json_chunk(const struct api_task *task, uint32_t index, json_t *delta, json_t *logprobs, const char *finish_reason);
json_t *api_json_usage_chunk(const struct api_task *task, struct api_usage used);
json_t *api_json_choice(const struct api_task *task, uint32_t index, struct text content, struct text reasoning, json_t *calls,
                        json_t *logprobs, const char *finish_reason);
/* The whole answer as text (memory_free); takes choices. */
char *api_json_answer(const struct api_task *task, json_t *choices, struct api_usage used);
/* What is known of the model. */
json_t *api_json_model(const char *model_name, int64_t created);
