/*
 * api_request: the body of a request, checked, with OpenAI's names.
 *
 * Policy    unknown fields are refused by name, so that a misspelt one is not silently without effect; fields of the API that change
 * nothing here (user, metadata, store, service_tier, parallel_tool_calls) are accepted. Numbers out of range are refused with field, value
 * and range. Memory    the parsed JSON stays as long as the request; texts borrow from it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/status.h"
#include "base/text.h"
#include "sluice.h"

enum api_kind { API_CHAT, API_COMPLETION };

struct api_request {
    enum api_kind kind;
    json_t *root; /* owned */
    bool stream, include_usage;
    uint32_t choices;        /* n */
    sluice_request sampling; /* everything but the prompt and the functions */
    const char *stop[16];
    uint32_t *bias_ids; /* logit_bias, owned */
    float *biases;
    /* chat */
    char *messages, *tools, *variables; /* JSON texts, owned; tools, variables may be NULL */
    bool tools_forbidden;               /* tool_choice "none" */
    bool continues;                     /* the last message is the beginning of the answer */
    bool has_form;
    sluice_form form; /* of the answer; reply format and prompt are filled in later */
    char *form_text;  /* JSON text, owned; or NULL */
    /* completion */
    const char *prompt; /* or NULL: ids */
    size_t prompt_bytes;
    uint32_t *ids; /* owned */
    size_t id_count;
    bool echo;
};

struct api_problem { /* OpenAI's error object */
    unsigned http_status;
    char parameter[64];      /* or empty */
    const char *type, *code; /* literals; code may be NULL */
    struct error error;
};

/* vocab: token ids are below. STATUS_INVALID fills *problem. Nesting is bounded by the JSON parser. Free with api_request_deinit in both
 * cases. */
MUST_CHECK enum status api_request_parse(enum api_kind kind, struct text body, uint32_t vocab, struct api_request *out,
                                         struct api_problem *problem);
void api_request_deinit(struct api_request *request);
