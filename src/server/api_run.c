/*
 * api_run: runs a task.
 *
 * One *choice* after another (n > 1 repeats the prompt with another choice index). A choice gathers text, or sends it as it comes.
 */
#include "server/api_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/json.h"
#include "base/memory.h"
#include "server/api_json.h"

#define TEXT_LIMIT_BYTES (64u << 20)
#define RUNS_MAX 3

struct choice { /* one answer under way */
    struct job *job;
    sluice_model *model;
    struct api_task *task;
    uint32_t index;
    sluice_constraint *constraint;         /* of the task, or NULL */
    sluice_reply *reply;                   /* chat */
    struct byte_buffer reasoning, content; /* gathered, not streamed */
    json_t *calls;                         /* OpenAI's tool_calls */
    json_t *logprobs;                      /* entries of this answer (stream: since the last chunk) */
    bool role_sent, failed;
    sluice_error error;
};

/* Whether a call that ended like this begins again: a cancel meant for the job before hit it. runs: of the call, from 0. */
static bool begins_again(const struct job *job, sluice_status status, int *runs) {
    return status == SLUICE_CANCELLED && !job_cancelled(job) && ++*runs < RUNS_MAX;
}

static bool streams(const struct choice *c) { return c->task->request.stream; }
static bool is_chat(const struct choice *c) { return c->task->request.kind == API_CHAT; }

/* ---- sending ---- */

static void send_event(struct job *job, json_t *chunk) {
    char *text = chunk ? json_dumps(chunk, JSON_COMPACT) : NULL;
    json_decref(chunk);
    if (!text)
        return;
    struct byte_buffer event;
    byte_buffer_init(&event, TEXT_LIMIT_BYTES);
    if (byte_buffer_printf(&event, NULL, "data: %s\n\n", text) == STATUS_OK)
        job_write(job, byte_buffer_text(&event));
    byte_buffer_deinit(&event);
    memory_free(text);
}

static json_t *take_logprobs(struct choice *c) {
    json_t *list = c->logprobs;
    c->logprobs = NULL;
    return list ? api_json_logprobs(c->task->request.kind, list) : json_null();
}

static void send_delta(struct choice *c, json_t *delta, const char *finish_reason) {
    if (is_chat(c) && !c->role_sent)
        (void)json_object_set_new(delta, "role", json_string("assistant"));
    c->role_sent = true;
    send_event(c->job, api_json_chunk(c->task, c->index, delta, take_logprobs(c), finish_reason));
}

/* ---- what comes from the model ---- */

static void add_calls(struct choice *c, const char *calls_text, json_t *delta) {
    json_t *calls = json_loads(calls_text, 0, NULL), *call;
    size_t i;
    json_array_foreach(calls, i, call) {
        json_t *one = api_json_call(c->task, json_array_size(c->calls), call);
        (void)json_array_append(c->calls, one);
        if (delta) {
            json_t *list = json_object_get(delta, "tool_calls");
            if (!list) {
                list = json_array();
                (void)json_object_set_new(delta, "tool_calls", list);
            }
            json_t *indexed = json_copy(one);
            (void)json_object_set_new(indexed, "index", json_integer((json_int_t)json_array_size(c->calls) - 1));
            (void)json_array_append_new(list, indexed);
        }
        json_decref(one);
    }
    json_decref(calls);
}

static bool take_text(struct choice *c, const char *text, size_t size_bytes, bool final) {
    sluice_reply_part part = {.content = text, .content_bytes = size_bytes};
    if (is_chat(c) && sluice_reply_push(c->reply, text, size_bytes, final, &part, &c->error) != SLUICE_OK) {
        c->failed = true;
        return false;
    }
    if (streams(c)) {
        if (part.content_bytes + part.reasoning_bytes == 0 && !part.calls)
            return true;
        json_t *delta = json_object();
        if (!is_chat(c) || part.content_bytes)
            (void)json_object_set_new(delta, is_chat(c) ? "content" : "text", json_lenient_string(part.content, part.content_bytes));
        if (part.reasoning_bytes)
            (void)json_object_set_new(delta, "reasoning_content", json_lenient_string(part.reasoning, part.reasoning_bytes));
        if (part.calls)
            add_calls(c, part.calls, delta);
        send_delta(c, delta, NULL);
        return true;
    }
    if (part.calls)
        add_calls(c, part.calls, NULL);
    return byte_buffer_append(&c->content, part.content, part.content_bytes, NULL) == STATUS_OK &&
           byte_buffer_append(&c->reasoning, part.reasoning ? part.reasoning : "", part.reasoning_bytes, NULL) == STATUS_OK;
}

static bool on_piece(void *context, const sluice_piece *piece) {
    struct choice *c = context;
    if (c->task->request.sampling.logprobs && piece->token != SLUICE_NO_TOKEN) {
        if (!c->logprobs)
            c->logprobs = json_array();
        (void)json_array_append_new(c->logprobs, api_json_logprob(c->model, piece, c->task->request.sampling.top_logprobs));
    }
    return take_text(c, piece->text ? piece->text : "", piece->text_bytes, false) && !job_cancelled(c->job);
}

/* ---- a choice ---- */

static const char *finish_reason(const struct choice *c, const sluice_result *result) {
    if (result->stop == SLUICE_STOP_LENGTH || result->stop == SLUICE_STOP_CONTEXT)
        return "length";
    return json_array_size(c->calls) > 0 ? "tool_calls" : "stop";
}

static json_t *end_choice(struct choice *c, const sluice_result *result) {
    const char *reason = finish_reason(c, result);
    if (streams(c)) {
        send_delta(c, json_object(), reason);
        return NULL;
    }
    struct text content = byte_buffer_text(&c->content), reasoning = byte_buffer_text(&c->reasoning);
    return api_json_choice(c->task, c->index, content, reasoning, c->calls, take_logprobs(c), reason);
}

/* A completion that begins with its prompt. */
static sluice_status echo_prompt(struct choice *c, const uint32_t *ids, size_t count) {
    const struct api_request *r = &c->task->request;
    char *text = NULL;
    size_t size = 0;
    sluice_status status = SLUICE_OK;
    if (!r->prompt)
        status = sluice_detokenize(c->model, ids, count, false, &text, &size, &c->error);
    if (status == SLUICE_OK)
        (void)take_text(c, r->prompt ? r->prompt : text, r->prompt ? r->prompt_bytes : size, false);
    sluice_free(text);
    return status;
}

static sluice_status run_choice(struct choice *c, const uint32_t *ids, size_t count, const char *prompt, sluice_result *result) {
    struct api_request *r = &c->task->request;
    sluice_request request = r->sampling;
    request.prompt = ids;
    request.prompt_count = count;
    request.choice = c->index;
    request.chat = is_chat(c);
    request.constraint = c->constraint;
    request.on_piece = on_piece;
    request.context_pointer = c;
    sluice_status status = SLUICE_OK;
    if (is_chat(c))
        status = sluice_reply_open(c->model, c->task->reply_format, r->tools, prompt, &c->reply, &c->error);
    else if (r->echo)
        status = echo_prompt(c, ids, count);
    int runs = 0;
    if (status == SLUICE_OK)
        do
            status = sluice_generate(c->model, &request, result, &c->error);
        while (result->generated == 0 && begins_again(c->job, status, &runs));
    if (status == SLUICE_OK && !c->failed && !job_cancelled(c->job))
        (void)take_text(c, "", 0, true);
    return c->failed ? c->error.status : status;
}

static void close_choice(struct choice *c) {
    sluice_reply_close(c->reply);
    byte_buffer_deinit(&c->reasoning);
    byte_buffer_deinit(&c->content);
    json_decref(c->calls);
    json_decref(c->logprobs);
}

/* ---- the whole answer ---- */

static unsigned http_status_of(sluice_status status) {
    return status == SLUICE_INVALID || status == SLUICE_OVER_BUDGET || status == SLUICE_NOT_FOUND || status == SLUICE_UNSUPPORTED ? 400
                                                                                                                                  : 500;
}

static void fail(struct job *job, const struct api_task *task, bool begun, const sluice_error *error) {
    if (task->request.stream && begun)
        send_event(job, api_json_error(http_status_of(error->status), error->text, NULL,
                                       error->status == SLUICE_OVER_BUDGET ? "context_length_exceeded" : NULL));
    job_fail(job, http_status_of(error->status), error);
}

static sluice_status make_prompt(struct api_task *task, sluice_model *model, uint32_t **ids, size_t *count, char **text,
                                 sluice_error *error) {
    struct api_request *r = &task->request;
    if (r->kind == API_CHAT) {
        const sluice_chat chat = {.messages = r->messages,
                                  .tools = r->tools,
                                  .variables = r->variables,
                                  .add_generation_prompt = !r->continues,
                                  .continue_final_message = r->continues};
        return sluice_render_chat(model, &chat, text, ids, count, error);
    }
    if (r->prompt)
        return sluice_tokenize(model, r->prompt, r->prompt_bytes, 0, ids, count, error);
    *ids = r->ids;
    *count = r->id_count;
    r->ids = NULL;
    return SLUICE_OK;
}

/* The form that the request wants; *out stays NULL without one. */
static sluice_status open_form(const struct api_task *task, sluice_model *model, const char *prompt, sluice_constraint **out,
                               sluice_error *error) {
    sluice_form form = task->request.form;
    form.reply_format = task->reply_format;
    form.prompt = prompt;
    return task->request.has_form ? sluice_constraint_open(model, &form, out, error) : SLUICE_OK;
}

void api_run(struct job *job, sluice_model *model, void *context) {
    struct api_task *task = context;
    uint32_t *ids = NULL;
    size_t count = 0;
    struct api_usage used = {0};
    char *prompt = NULL;
    sluice_error error = {0};
    sluice_constraint *constraint = NULL;
    sluice_status status;
    int runs = 0;
    do
        status = make_prompt(task, model, &ids, &count, &prompt, &error);
    while (begins_again(job, status, &runs));
    if (status == SLUICE_OK)
        status = open_form(task, model, prompt, &constraint, &error);
    json_t *choices = json_array();
    used.prompt = count;
    bool begun = false;
    for (uint32_t i = 0; i < task->request.choices && status == SLUICE_OK && !job_cancelled(job); i++) {
        struct choice c = {.job = job, .model = model, .task = task, .index = i, .constraint = constraint, .calls = json_array()};
        byte_buffer_init(&c.content, TEXT_LIMIT_BYTES);
        byte_buffer_init(&c.reasoning, TEXT_LIMIT_BYTES);
        sluice_result result = {0};
        status = run_choice(&c, ids, count, prompt, &result);
        used.generated += result.generated;
        used.reused = i == 0 ? result.reused : used.reused;
        begun = begun || c.role_sent;
        error = c.error;
        if (status == SLUICE_OK && !job_cancelled(job)) {
            json_t *choice = end_choice(&c, &result);
            if (choice)
                (void)json_array_append_new(choices, choice);
        }
        close_choice(&c);
    }
    if (status != SLUICE_OK) {
        fail(job, task, begun, &error);
        json_decref(choices);
    } else if (task->request.stream) {
        if (task->request.include_usage)
            send_event(job, api_json_usage_chunk(task, used));
        job_write(job, TEXT("data: [DONE]\n\n"));
        json_decref(choices);
    } else {
        char *text = api_json_answer(task, choices, used);
        job_write(job, text_of(text ? text : "{}"));
        memory_free(text);
    }
    sluice_constraint_close(constraint);
    sluice_free(ids);
    sluice_free(prompt);
}

void api_task_free(void *context) {
    struct api_task *task = context;
    api_request_deinit(&task->request);
    memory_free(task);
}
