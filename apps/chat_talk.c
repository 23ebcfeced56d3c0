/*
 * chat_talk: messages, prompt, answer.
 */
#include "chat_talk.h"

#include <stdio.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"

#define ANSWER_BYTES_MAX (64u << 20)
#define DIM "\033[2m"
#define PLAIN "\033[0m"

/* ---- messages ---- */

static enum status no_memory(struct error *err) { return error_set(err, STATUS_NO_MEMORY, "no memory for the conversation"); }

static enum status add_message(json_t *messages, const char *role, struct text content, struct error *err) {
    json_t *message = json_pack("{s:s,s:o}", "role", role, "content", json_lenient_string(content.data, content.size_bytes));
    return json_array_append_new(messages, message) == 0 ? STATUS_OK : no_memory(err);
}

const char *talk_role(const struct talk *talk, long index) {
    size_t count = json_array_size(talk->messages), at = index < 0 ? count - (size_t)-index : (size_t)index;
    return json_string_value(json_object_get(json_array_get(talk->messages, at), "role")); /* too low wraps around to too high */
}

enum status talk_set_system(struct talk *talk, const char *text, struct error *err) {
    const char *first = talk_role(talk, 0);
    if (first && strcmp(first, "system") == 0)
        (void)json_array_remove(talk->messages, 0);
    if (!text || !*text)
        return STATUS_OK;
    json_t *message = json_pack("{s:s,s:o}", "role", "system", "content", json_lenient_string(text, strlen(text)));
    return json_array_insert_new(talk->messages, 0, message) == 0 ? STATUS_OK : no_memory(err);
}

enum status talk_init(struct talk *talk, const struct options *options, sluice_model *model, struct error *err) {
    *talk = (struct talk){.options = options, .model = model, .messages = json_array()};
    return talk->messages ? talk_set_system(talk, options_text(options, "system"), err) : no_memory(err);
}

void talk_deinit(struct talk *talk) {
    json_decref(talk->messages);
    talk->messages = NULL;
}

enum status talk_ask(struct talk *talk, struct text message, struct error *err) {
    talk->attempt = 0;
    return add_message(talk->messages, "user", message, err);
}

/* ---- the prompt ---- */

struct prompt {
    char *text;
    uint32_t *ids;
    size_t count;
};

static sluice_status make_prompt(const struct talk *talk, json_t *messages, struct prompt *prompt, sluice_error *error) {
    char *json = json_dumps(messages, JSON_COMPACT);
    if (!json) {
        *error = (sluice_error){SLUICE_NO_MEMORY, "no memory for the conversation"};
        return SLUICE_NO_MEMORY;
    }
    const sluice_chat chat = {.messages = json, .add_generation_prompt = true};
    sluice_status status = sluice_render_chat(talk->model, &chat, &prompt->text, &prompt->ids, &prompt->count, error);
    memory_free(json);
    return status;
}

static void free_prompt(struct prompt *prompt) {
    sluice_free(prompt->text);
    sluice_free(prompt->ids);
}

sluice_status talk_check(const struct talk *talk, sluice_error *error) {
    struct prompt prompt = {0};
    struct error err;
    json_t *messages = json_copy(talk->messages);
    sluice_status status = SLUICE_NO_MEMORY;
    *error = (sluice_error){SLUICE_NO_MEMORY, "no memory for the conversation"};
    if (messages && add_message(messages, "user", TEXT("Hello"), &err) == STATUS_OK)
        status = make_prompt(talk, messages, &prompt, error);
    json_decref(messages);
    free_prompt(&prompt);
    return status;
}

/* ---- the answer ---- */

struct answer { /* under way */
    const struct talk *talk;
    sluice_reply *reply;
    struct byte_buffer reasoning, content;
    sluice_error error;
    bool failed, dimmed;
    char last; /* character that was shown last, 0: none */
    uint64_t prompt_started_ns;
    bool prompt_shown;
};

/* A terminal obeys control characters, so a model must not reach it with any but tab and line end. U+0080 to U+009F count as such too. */
static void show(struct answer *a, const char *text, size_t size_bytes) {
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < size_bytes && a->talk->on_terminal; i++) {
        bool low = (bytes[i] < 0x20 && bytes[i] != '\n' && bytes[i] != '\t') || bytes[i] == 0x7f;
        bool high = bytes[i] == 0xc2 && i + 1 < size_bytes && bytes[i + 1] < 0xa0;
        (void)fputs(low || high ? "\xef\xbf\xbd" : (const char[]){text[i], 0}, stdout);
        i += high;
    }
    if (!a->talk->on_terminal)
        (void)fwrite(text, 1, size_bytes, stdout);
    if (size_bytes > 0)
        a->last = text[size_bytes - 1];
}

static void end_line(struct answer *a) {
    if (a->last && a->last != '\n')
        (void)fputs("\n", stdout);
    a->last = 0;
}

static void show_part(struct answer *a, const sluice_reply_part *part) {
    if (part->reasoning_bytes > 0 && a->talk->on_terminal) {
        if (!a->dimmed)
            (void)fputs(DIM, stdout);
        a->dimmed = true;
        show(a, part->reasoning, part->reasoning_bytes);
    }
    if (part->content_bytes > 0) {
        if (a->dimmed) {
            (void)fputs(PLAIN, stdout);
            end_line(a);
        }
        a->dimmed = false;
        show(a, part->content, part->content_bytes);
    }
    (void)fflush(stdout);
}

static bool take_text(struct answer *a, const char *text, size_t size_bytes, bool final) {
    sluice_reply_part part;
    struct error err;
    if (sluice_reply_push(a->reply, text, size_bytes, final, &part, &a->error) != SLUICE_OK) {
        a->failed = true;
        return false;
    }
    show_part(a, &part);
    if (byte_buffer_append(&a->reasoning, part.reasoning, part.reasoning_bytes, &err) == STATUS_OK &&
        byte_buffer_append(&a->content, part.content, part.content_bytes, &err) == STATUS_OK)
        return !ferror(stdout);
    a->failed = true;
    a->error.status = (sluice_status)err.status;
    (void)snprintf(a->error.text, sizeof a->error.text, "%s", err.text);
    return false;
}

static bool on_piece(void *context, const sluice_piece *piece) {
    struct answer *a = context;
    if (a->prompt_shown)
        log_progress_end();
    a->prompt_shown = false;
    return take_text(a, piece->text, piece->text_bytes, false);
}

static void on_prompt(void *context, uint32_t done, uint32_t total) {
    struct answer *a = context;
    a->prompt_shown = true;
    log_progress("reading the prompt", done, total, "tokens", a->prompt_started_ns);
}

static sluice_status generate(struct answer *a, const struct prompt *prompt, sluice_result *result) {
    const struct options *o = a->talk->options;
    const sluice_request request = {.prompt = prompt->ids,
                                    .prompt_count = prompt->count,
                                    .max_tokens = (uint32_t)options_u64(o, "max-tokens"),
                                    .temperature = (float)options_f64(o, "temp"),
                                    .top_k = (uint32_t)options_u64(o, "top-k"),
                                    .top_p = (float)options_f64(o, "top-p"),
                                    .min_p = (float)options_f64(o, "min-p"),
                                    .frequency_penalty = (float)options_f64(o, "frequency-penalty"),
                                    .presence_penalty = (float)options_f64(o, "presence-penalty"),
                                    .repetition_penalty = (float)options_f64(o, "repetition-penalty"),
                                    .seed = options_u64(o, "seed"),
                                    .choice = a->talk->attempt,
                                    .chat = true,
                                    .show_special = true, /* the reply parser needs the marks */
                                    .on_piece = on_piece,
                                    .on_prompt = on_prompt,
                                    .context_pointer = a};
    a->prompt_started_ns = clock_now_ns();
    app_forget_stop();
    app_watch(a->talk->model);
    sluice_status status = sluice_generate(a->talk->model, &request, result, &a->error);
    if (status == SLUICE_CANCELLED && !app_stopped()) /* a Ctrl-C that came too late for the answer before */
        status = sluice_generate(a->talk->model, &request, result, &a->error);
    app_watch(NULL);
    log_progress_end();
    return status;
}

static enum status keep(struct talk *talk, const struct answer *a, struct error *err) {
    TRY(add_message(talk->messages, "assistant", byte_buffer_text(&a->content), err));
    if (a->reasoning.size_bytes == 0)
        return STATUS_OK;
    json_t *message = json_array_get(talk->messages, json_array_size(talk->messages) - 1);
    json_t *reasoning = json_lenient_string(a->reasoning.data, a->reasoning.size_bytes);
    return json_object_set_new(message, "reasoning_content", reasoning) == 0 ? STATUS_OK : no_memory(err);
}

static void take_back(struct talk *talk) {
    const char *role = talk_role(talk, -1);
    if (role && strcmp(role, "user") == 0)
        (void)json_array_remove(talk->messages, json_array_size(talk->messages) - 1);
}

static int finish(struct talk *talk, struct answer *a, sluice_status status, const sluice_result *result, size_t prompt_count) {
    struct error err;
    bool stopped = status == SLUICE_CANCELLED;
    if (!a->failed && a->reply && (status == SLUICE_OK || stopped))
        (void)take_text(a, "", 0, true);
    if (a->dimmed)
        (void)fputs(PLAIN, stdout);
    end_line(a);
    (void)fflush(stdout);
    if (a->failed || (status != SLUICE_OK && !stopped)) {
        take_back(talk);
        if (a->error.status == SLUICE_OVER_BUDGET)
            log_line(LOG_NOTICE, "/clear begins a new conversation");
        return app_fail(&a->error);
    }
    if (stopped && a->content.size_bytes + a->reasoning.size_bytes == 0) {
        take_back(talk);
        return EXIT_STOPPED;
    }
    if (keep(talk, a, &err) != STATUS_OK) {
        log_line(LOG_ERROR, "%s", err.text);
        return EXIT_FAILED;
    }
    sluice_result shown = *result;
    if (stopped)
        shown.stop = SLUICE_STOP_CALLER;
    app_print_result(&shown, prompt_count);
    return stopped ? EXIT_STOPPED : EXIT_DONE;
}

int talk_answer(struct talk *talk) {
    struct answer a = {.talk = talk};
    struct prompt prompt = {0};
    sluice_result result = {0};
    byte_buffer_init(&a.content, ANSWER_BYTES_MAX);
    byte_buffer_init(&a.reasoning, ANSWER_BYTES_MAX);
    sluice_status status = make_prompt(talk, talk->messages, &prompt, &a.error);
    if (status == SLUICE_OK)
        status = sluice_reply_open(talk->model, options_text(talk->options, "reply-format"), NULL, prompt.text, &a.reply, &a.error);
    if (status == SLUICE_OK)
        status = generate(&a, &prompt, &result);
    int code = finish(talk, &a, status, &result, prompt.count);
    sluice_reply_close(a.reply);
    byte_buffer_deinit(&a.content);
    byte_buffer_deinit(&a.reasoning);
    free_prompt(&prompt);
    return code;
}
