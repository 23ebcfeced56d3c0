/*
 * api_request: fields one by one.
 */
#include "server/api_request.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"

#define CHOICES_MAX 16

static enum status refuse(struct api_problem *problem, const char *parameter, const char *format, ...) PRINTF_LIKE(3, 4);
static enum status refuse(struct api_problem *problem, const char *parameter, const char *format, ...) {
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *problem = (struct api_problem){.http_status = 400, .type = "invalid_request_error"};
    (void)snprintf(problem->parameter, sizeof problem->parameter, "%s", parameter ? parameter : "");
    return error_set(&problem->error, STATUS_INVALID, "%s", text);
}

/* ---- values ---- */

static const json_t *field(const struct api_request *r, const char *name) {
    const json_t *value = json_object_get(r->root, name);
    return value && !json_is_null(value) ? value : NULL;
}

static enum status read_number(const struct api_request *r, const char *name, double minimum, double maximum, double *out,
                               struct api_problem *p) {
    const json_t *value = field(r, name);
    if (!value)
        return STATUS_OK;
    double number = json_number_value(value);
    if (!json_is_number(value))
        return refuse(p, name, "%s must be a number", name);
    if (!(number >= minimum && number <= maximum))
        return refuse(p, name, "%s is %g, allowed is %g to %g", name, number, minimum, maximum);
    *out = number;
    return STATUS_OK;
}

static enum status read_integer(const struct api_request *r, const char *name, int64_t minimum, int64_t maximum, int64_t *out,
                                struct api_problem *p) {
    const json_t *value = field(r, name);
    if (!value)
        return STATUS_OK;
    if (!json_is_integer(value))
        return refuse(p, name, "%s must be a whole number", name);
    if (json_integer_value(value) < minimum || json_integer_value(value) > maximum)
        return refuse(p, name, "%s is %lld, allowed is %lld to %lld", name, (long long)json_integer_value(value), (long long)minimum,
                      (long long)maximum);
    *out = json_integer_value(value);
    return STATUS_OK;
}

static enum status read_bool(const struct api_request *r, const char *name, bool *out, struct api_problem *p) {
    const json_t *value = field(r, name);
    if (!value)
        return STATUS_OK;
    if (!json_is_boolean(value))
        return refuse(p, name, "%s must be true or false", name);
    *out = json_is_true(value);
    return STATUS_OK;
}

/* ---- fields that both endpoints have ---- */

static enum status read_stop(struct api_request *r, struct api_problem *p) {
    const json_t *value = field(r, "stop");
    if (!value)
        return STATUS_OK;
    size_t count = json_is_string(value) ? 1 : json_array_size(value);
    if ((!json_is_string(value) && !json_is_array(value)) || count > sizeof r->stop / sizeof *r->stop)
        return refuse(p, "stop", "stop must be a string or a list of at most %zu strings", sizeof r->stop / sizeof *r->stop);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_is_string(value) ? value : json_array_get(value, i);
        if (!json_is_string(item) || json_string_length(item) == 0 || json_string_length(item) > 256)
            return refuse(p, "stop", "stop[%zu] must be a string of 1 to 256 bytes", i);
        r->stop[i] = json_string_value(item);
    }
    r->sampling.stop = r->stop;
    r->sampling.stop_count = (uint32_t)count;
    return STATUS_OK;
}

static enum status read_max_tokens(struct api_request *r, struct api_problem *p) {
    int64_t limit = -1;
    TRY(read_integer(r, "max_tokens", 0, INT32_MAX, &limit, p));
    TRY(read_integer(r, "max_completion_tokens", 0, INT32_MAX, &limit, p));
    const char *name = field(r, "max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
    if (limit == 0)
        return refuse(p, name, "%s is 0: at least one token is generated", name);
    r->sampling.max_tokens = limit < 0 ? r->kind == API_CHAT ? 0 : 16 : (uint32_t)limit;
    return STATUS_OK;
}

static enum status read_sampling(struct api_request *r, struct api_problem *p) {
    double temperature = 1, top_p = 1, min_p = 0;
    int64_t top_k = 0, seed = -1, choices = 1;
    TRY(read_number(r, "temperature", 0, 2, &temperature, p));
    TRY(read_number(r, "top_p", 0, 1, &top_p, p));
    TRY(read_number(r, "min_p", 0, 1, &min_p, p));
    TRY(read_integer(r, "top_k", 0, INT32_MAX, &top_k, p));
    TRY(read_integer(r, "seed", INT64_MIN, INT64_MAX, &seed, p));
    TRY(read_integer(r, "n", 1, CHOICES_MAX, &choices, p));
    if (field(r, "best_of") && json_integer_value(field(r, "best_of")) != choices)
        return refuse(p, "best_of", "best_of must be n: no answers are computed to be thrown away");
    r->sampling.temperature = (float)temperature;
    r->sampling.top_p = top_p == 0 ? 1e-9f : (float)top_p;
    r->sampling.min_p = (float)min_p;
    r->sampling.top_k = (uint32_t)top_k;
    r->sampling.seed = field(r, "seed") ? (uint64_t)seed : clock_now_ns(); /* without a seed every answer is another one */
    r->choices = (uint32_t)choices;
    return STATUS_OK;
}

static enum status read_penalties(struct api_request *r, struct api_problem *p) {
    double frequency = 0, presence = 0, repetition = 1;
    TRY(read_number(r, "frequency_penalty", -2, 2, &frequency, p));
    TRY(read_number(r, "presence_penalty", -2, 2, &presence, p));
    TRY(read_number(r, "repetition_penalty", 0.1, 10, &repetition, p));
    r->sampling.frequency_penalty = (float)frequency;
    r->sampling.presence_penalty = (float)presence;
    r->sampling.repetition_penalty = (float)repetition;
    return STATUS_OK;
}

/* logit_bias: {"id": -100 to 100, ...}. */
static enum status read_logit_bias(struct api_request *r, uint32_t vocab, struct api_problem *p) {
    static const char name[] = "logit_bias";
    const json_t *map = field(r, name);
    if (map && !json_is_object(map))
        return refuse(p, name, "logit_bias must be an object whose keys are token ids");
    size_t count = json_object_size(map);
    if (count == 0)
        return STATUS_OK;
    r->bias_ids = memory_alloc_array(count, sizeof *r->bias_ids);
    r->biases = memory_alloc_array(count, sizeof *r->biases);
    if (!r->bias_ids || !r->biases)
        return refuse(p, name, "no memory for logit_bias of %zu tokens", count);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, key, value) {
        uint64_t id;
        double bias = json_number_value(value);
        if (!text_parse_u64(text_of(key), &id) || id >= vocab)
            return refuse(p, name, "logit_bias: '%.40s' is no token id; the model's are 0 to %u", key, vocab - 1);
        if (!json_is_number(value) || !(bias >= -100 && bias <= 100))
            return refuse(p, name, "logit_bias of token %.40s must be a number from -100 to 100", key);
        r->bias_ids[r->sampling.bias_count] = (uint32_t)id;
        r->biases[r->sampling.bias_count++] = (float)bias;
    }
    r->sampling.bias_ids = r->bias_ids;
    r->sampling.biases = r->biases;
    return STATUS_OK;
}

static enum status read_stream(struct api_request *r, struct api_problem *p) {
    TRY(read_bool(r, "stream", &r->stream, p));
    const json_t *options = field(r, "stream_options");
    if (!options)
        return STATUS_OK;
    if (!json_is_object(options) || !r->stream)
        return refuse(p, "stream_options", "stream_options must be an object, and goes with stream: true");
    r->include_usage = json_is_true(json_object_get(options, "include_usage"));
    return STATUS_OK;
}

/* ---- chat ---- */

static char *dump(const json_t *value) { return value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL; }

static enum status read_messages(struct api_request *r, struct api_problem *p) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
    const json_t *messages = field(r, "messages");
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return refuse(p, "messages", "messages must be a list of at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i), *role = json_object_get(message, "role");
        bool known = false;
        for (size_t k = 0; k < sizeof roles / sizeof *roles && json_is_string(role); k++)
            known = known || strcmp(json_string_value(role), roles[k]) == 0;
        if (!known)
            return refuse(p, "messages", "messages[%zu].role must be one of system, developer, user, assistant, tool", i);
        const json_t *content = json_object_get(message, "content");
        for (size_t k = 0; json_is_array(content) && k < json_array_size(content); k++) {
            const char *type = json_string_value(json_object_get(json_array_get(content, k), "type"));
            if (!type || strcmp(type, "text") != 0)
                return refuse(p, "messages", "messages[%zu].content[%zu]: only parts of type text are supported", i, k);
        }
    }
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1), *text = json_object_get(last, "content");
    r->continues = strcmp(json_string_value(json_object_get(last, "role")), "assistant") == 0 && !json_object_get(last, "tool_calls") &&
                   (json_array_size(text) > 0 || json_string_length(text) > 0);
    r->messages = dump(messages);
    return r->messages ? STATUS_OK : refuse(p, "messages", "no memory for the messages");
}

/* tool_choice: "none", "auto", "required", or {"type": "function", "function": {"name": ...}}. */
static enum status read_tool_choice(struct api_request *r, bool has_tools, struct api_problem *p) {
    const json_t *choice = field(r, "tool_choice");
    const char *word = json_string_value(choice), *type = json_string_value(json_object_get(choice, "type"));
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    if (!choice)
        return STATUS_OK;
    if (!has_tools)
        return refuse(p, "tool_choice", "tool_choice goes with tools");
    r->tools_forbidden = word && strcmp(word, "none") == 0;
    bool named = type && strcmp(type, "function") == 0 && name, required = word && strcmp(word, "required") == 0;
    if (!r->tools_forbidden && !named && !required && !(word && strcmp(word, "auto") == 0))
        return refuse(p, "tool_choice",
                      "tool_choice must be \"auto\", \"none\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}");
    if (named || required) {
        r->has_form = true;
        r->form = (sluice_form){.kind = SLUICE_FORM_CALLS, .tool = named ? name : NULL, .one_call = named};
    }
    return STATUS_OK;
}

static enum status read_tools(struct api_request *r, struct api_problem *p) {
    const json_t *tools = field(r, "tools");
    bool parallel = true;
    if (tools && !json_is_array(tools))
        return refuse(p, "tools", "tools must be a list");
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!json_is_string(json_object_get(json_object_get(json_array_get(tools, i), "function"), "name")))
            return refuse(p, "tools", "tools[%zu].function.name is missing", i);
    TRY(read_tool_choice(r, json_array_size(tools) > 0, p));
    TRY(read_bool(r, "parallel_tool_calls", &parallel, p));
    if (json_array_size(tools) > 0 && !r->tools_forbidden && !(r->tools = dump(tools)))
        return refuse(p, "tools", "no memory for the tools");
    r->form.one_call = r->form.one_call || !parallel;
    r->form.text = r->has_form ? r->tools : NULL;
    return STATUS_OK;
}

/* ---- the form of the answer ---- */

/* response_format: {"type": "text"}, "json_object", or "json_schema" with its schema in one of the places where clients put it. */
static enum status read_response_format(struct api_request *r, struct api_problem *p) {
    const json_t *format = field(r, "response_format"), *inner = json_object_get(format, "json_schema");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!format || (type && strcmp(type, "text") == 0))
        return STATUS_OK;
    bool object = type && strcmp(type, "json_object") == 0, by_schema = type && strcmp(type, "json_schema") == 0;
    const json_t *schema = inner && json_object_get(inner, "schema") ? json_object_get(inner, "schema") : json_object_get(format, "schema");
    if (!object && !by_schema)
        return refuse(p, "response_format", "response_format.type must be \"text\", \"json_object\" or \"json_schema\"");
    if (by_schema && !json_is_object(schema))
        return refuse(p, "response_format", "response_format.json_schema.schema is missing, or no object");
    if (r->has_form)
        return refuse(p, "response_format", "response_format does not go with a tool_choice that forces a call");
    r->has_form = true;
    r->form.kind = schema ? SLUICE_FORM_SCHEMA : SLUICE_FORM_JSON;
    if (schema && !(r->form_text = dump(schema)))
        return refuse(p, "response_format", "no memory for the schema");
    r->form.text = r->form_text;
    r->form.tools = r->tools;
    return STATUS_OK;
}

static enum status read_form(struct api_request *r, struct api_problem *p) {
    sluice_error error;
    TRY(read_response_format(r, p));
    r->form.reply = r->kind == API_CHAT;
    if (!r->has_form || sluice_check_form(&r->form, &error) == SLUICE_OK)
        return STATUS_OK;
    bool of_tools = r->form.kind == SLUICE_FORM_CALLS || strncmp(error.text, "tools", 5) == 0;
    bool of_choice = of_tools && strncmp(error.text, "tool_choice", 11) == 0;
    return refuse(p, of_choice ? "tool_choice" : of_tools ? "tools" : "response_format", "%s", error.text);
}

/* chat_template_kwargs, and the API's field that templates know by the same name. */
static enum status read_variables(struct api_request *r, struct api_problem *p) {
    const json_t *given = field(r, "chat_template_kwargs"), *effort = field(r, "reasoning_effort"), *kinds = field(r, "modalities");
    if (given && !json_is_object(given))
        return refuse(p, "chat_template_kwargs", "chat_template_kwargs must be an object");
    if (effort && !json_is_string(effort))
        return refuse(p, "reasoning_effort", "reasoning_effort must be a string");
    const char *kind = json_string_value(json_array_get(kinds, 0));
    if (kinds && (json_array_size(kinds) != 1 || !kind || strcmp(kind, "text") != 0))
        return refuse(p, "modalities", "modalities: only [\"text\"] is supported");
    json_t *variables = given ? json_copy((json_t *)(uintptr_t)given) : effort ? json_object() : NULL;
    if (effort && !json_object_get(variables, "reasoning_effort"))
        (void)json_object_set(variables, "reasoning_effort", (json_t *)(uintptr_t)effort);
    r->variables = dump(variables);
    json_decref(variables);
    return STATUS_OK;
}

static enum status read_chat(struct api_request *r, struct api_problem *p) {
    TRY(read_messages(r, p));
    TRY(read_tools(r, p));
    TRY(read_form(r, p));
    TRY(read_variables(r, p));
    int64_t top = 0;
    TRY(read_bool(r, "logprobs", &r->sampling.logprobs, p));
    TRY(read_integer(r, "top_logprobs", 0, 20, &top, p));
    if (top > 0 && !r->sampling.logprobs)
        return refuse(p, "top_logprobs", "top_logprobs goes with logprobs: true");
    r->sampling.top_logprobs = (uint32_t)top;
    r->sampling.show_special = true; /* the reply parser needs the marks */
    return STATUS_OK;
}

/* ---- completions ---- */

static enum status read_prompt(struct api_request *r, struct api_problem *p) {
    const json_t *prompt = field(r, "prompt");
    if (json_is_array(prompt) && json_array_size(prompt) == 1 && json_is_string(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0);
    if (json_is_string(prompt)) {
        r->prompt = json_string_value(prompt);
        r->prompt_bytes = json_string_length(prompt);
        return STATUS_OK;
    }
    size_t count = json_array_size(prompt);
    if (!json_is_array(prompt) || count == 0)
        return refuse(p, "prompt", "prompt must be a string or a list of token ids");
    r->ids = memory_alloc_array(count, sizeof *r->ids);
    if (!r->ids)
        return refuse(p, "prompt", "no memory for %zu ids", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(prompt, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > UINT32_MAX)
            return refuse(p, "prompt", "prompt[%zu] is no token id (several prompts in one request are not supported)", i);
        r->ids[i] = (uint32_t)json_integer_value(id);
    }
    r->id_count = count;
    return STATUS_OK;
}

static enum status read_completion(struct api_request *r, struct api_problem *p) {
    TRY(read_prompt(r, p));
    TRY(read_form(r, p));
    TRY(read_bool(r, "echo", &r->echo, p));
    int64_t top = -1;
    TRY(read_integer(r, "logprobs", 0, 20, &top, p));
    if (r->echo && top >= 0)
        return refuse(p, "echo", "echo goes without logprobs: those of a prompt are not computed");
    r->sampling.logprobs = top >= 0;
    r->sampling.top_logprobs = top > 0 ? (uint32_t)top : 0;
    if (field(r, "suffix"))
        return refuse(p, "suffix", "suffix is not supported by this server");
    return STATUS_OK;
}

/* ---- whole ---- */

static enum status check_fields(const struct api_request *r, struct api_problem *p) {
    static const char *const both[] = {"model",
                                       "max_tokens",
                                       "max_completion_tokens",
                                       "temperature",
                                       "top_p",
                                       "top_k",
                                       "min_p",
                                       "seed",
                                       "n",
                                       "stop",
                                       "stream",
                                       "stream_options",
                                       "frequency_penalty",
                                       "presence_penalty",
                                       "repetition_penalty",
                                       "logit_bias",
                                       "logprobs",
                                       "user",
                                       "metadata",
                                       "store",
                                       "service_tier",
                                       "best_of",
                                       "safety_identifier",
                                       "prompt_cache_key",
                                       "response_format",
                                       NULL};
    static const char *const chat[] = {
        "messages",         "tools",      "tool_choice", "top_logprobs", "chat_template_kwargs", "parallel_tool_calls",
        "reasoning_effort", "modalities", NULL};
    static const char *const completion[] = {"prompt", "echo", "suffix", NULL};
    const char *const *const lists[] = {both, r->kind == API_CHAT ? chat : completion};
    const char *name;
    json_t *value;
    json_object_foreach(r->root, name, value) {
        bool known = false;
        for (size_t l = 0; l < 2; l++)
            for (const char *const *n = lists[l]; *n; n++)
                known = known || strcmp(*n, name) == 0;
        if (!known)
            return refuse(p, name, "unknown field '%.40s'", name);
    }
    return STATUS_OK;
}

enum status api_request_parse(enum api_kind kind, struct text body, uint32_t vocab, struct api_request *r, struct api_problem *p) {
    struct error err = {0};
    *r = (struct api_request){.kind = kind, .choices = 1};
    if (json_parse(body, "request body", SIZE_MAX / 2, &r->root, &err) != STATUS_OK)
        return refuse(p, NULL, "%s", err.text);
    if (!json_is_object(r->root))
        return refuse(p, NULL, "the request body must be a JSON object");
    TRY(check_fields(r, p));
    TRY(read_stream(r, p));
    TRY(read_sampling(r, p));
    TRY(read_penalties(r, p));
    TRY(read_logit_bias(r, vocab, p));
    TRY(read_max_tokens(r, p));
    TRY(read_stop(r, p));
    return kind == API_CHAT ? read_chat(r, p) : read_completion(r, p);
}

void api_request_deinit(struct api_request *r) {
    json_decref(r->root);
    memory_free(r->messages);
    memory_free(r->tools);
    memory_free(r->variables);
    memory_free(r->form_text);
    memory_free(r->ids);
    memory_free(r->bias_ids);
    memory_free(r->biases);
    *r = (struct api_request){0};
}
