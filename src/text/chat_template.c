/* chat_template: rendering; the loading of templates is in chat_load.c. */
#include "text/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/chat_load.h"
#include "text/chat_messages.h"
#include "text/jinja_text.h"

/* Roles that templates build control tokens around: '<|' + message.role + '|>'. Any other role is data. */
static const char *const trusted_roles[] = {"system",  "developer", "user",    "assistant",   "tool",        "function",
                                            "ipython", "model",     "context", "environment", "observation", NULL};

static const struct chat_template_entry *select_entry(const struct chat_template *chat, bool with_tools) {
    const struct chat_template_entry *chosen = NULL;
    for (size_t i = 0; i < chat->entry_count; i++) {
        if (with_tools && strcmp(chat->entries[i].name, "tool_use") == 0)
            return &chat->entries[i];
        if (strcmp(chat->entries[i].name, "default") == 0 || chat->entry_count == 1)
            chosen = &chat->entries[i];
    }
    return chosen;
}

struct text chat_template_source(const struct chat_template *chat, bool with_tools) {
    const struct chat_template_entry *entry = select_entry(chat, with_tools);
    CHECK(entry != NULL);
    return entry->source;
}

void chat_prompt_deinit(struct chat_prompt *prompt) {
    memory_free(prompt->text);
    memory_free(prompt->spans);
    *prompt = (struct chat_prompt){0};
}

/* Copies the first size_bytes of the output. */
static enum status keep_output(const struct jinja_output *output, size_t size_bytes, struct chat_prompt *out, struct error *err) {
    ASSERT(size_bytes <= output->text.size_bytes);
    out->text = memory_copy_text(output->text.data, size_bytes);
    out->spans = memory_alloc_array(output->span_count, sizeof *out->spans);
    if (!out->text || !out->spans)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a prompt of %zu bytes", size_bytes);
    out->size_bytes = size_bytes;
    for (size_t i = 0; i < output->span_count && output->spans[i].begin < size_bytes; i++) {
        out->spans[i] = output->spans[i];
        if (out->spans[i].end > size_bytes)
            out->spans[i].end = size_bytes;
        out->span_count++;
    }
    return STATUS_OK;
}

static size_t trimmed_end(const char *data, size_t end) {
    while (end > 0) {
        size_t last = end - 1, at;
        while (last > 0 && ((unsigned char)data[last] & 0xC0) == 0x80)
            last--;
        at = last;
        if (!python_is_space(jinja_next_code_point(data, end, &at)))
            break;
        end = last;
    }
    return end;
}

static size_t trimmed_begin(const char *data, size_t end) {
    size_t begin = 0;
    for (size_t next = 0; begin < end; begin = next)
        if (!python_is_space(jinja_next_code_point(data, end, &next)))
            break;
    return begin;
}

/* Where the prompt ends when it goes up to the mark behind the final message; SIZE_MAX: the template changed that message. */
static size_t find_end(struct text rendered, const json_t *final_text) {
    struct text mark = TEXT(CHAT_CONTINUE_MARK), bare = {mark.data, mark.size_bytes - 1};
    const char *text = json_string_value(final_text);
    size_t end = trimmed_end(text, json_string_length(final_text)), begin = trimmed_begin(text, end);
    if (end > begin && !memmem(rendered.data, rendered.size_bytes, text + begin, end - begin))
        return SIZE_MAX;
    for (size_t at = rendered.size_bytes; at-- > 0;) {
        struct text rest = {rendered.data + at, rendered.size_bytes - at};
        if (text_starts_with(rest, bare)) /* the space behind the mark tells whether the template trims */
            return text_starts_with(rest, mark) ? at : trimmed_end(rendered.data, at);
    }
    return SIZE_MAX;
}

static void set_variables(struct jinja_run *run, const struct chat_template *chat, const struct chat_request *request,
                          const json_t *messages) {
    const char *key;
    json_t *value;
    for (size_t i = 0; i < chat->token_count; i++)
        jinja_set_text(run, chat->tokens[i].name, chat->tokens[i].text, true);
    json_object_foreach((json_t *)request->tokens, key, value) {
        if (json_is_string(value))
            jinja_set_text(run, key, (struct text){json_string_value(value), json_string_length(value)}, true);
    }
    json_object_foreach((json_t *)request->variables, key, value) jinja_set_json(run, key, value, NULL);
    jinja_set_json(run, "messages", messages, trusted_roles);
    jinja_set_json(run, "tools", request->tools, NULL);
    jinja_set_json(run, "documents", request->documents, NULL);
    jinja_set_bool(run, "add_generation_prompt", request->add_generation_prompt);
    if (request->clock)
        jinja_set_clock(run, request->clock);
}

/* One attempt. `messages` are prepared, and are changed when the last is to be continued. */
static enum status render_once(const struct chat_template *chat, const struct chat_request *request, json_t *messages,
                               struct chat_prompt *out, struct jinja_error *problem, struct error *err) {
    const struct chat_template_entry *entry = select_entry(chat, request->tools != NULL);
    struct jinja_limits limits = request->limits ? *request->limits : jinja_limits_default();
    limits.allow_mutation = true;
    json_t *final_text = NULL;
    struct jinja_run *run = NULL;
    struct jinja_output output;
    enum status status = request->continue_final_message ? chat_messages_mark_final(messages, &final_text, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = jinja_run_create(&limits, &run, err);
    if (status == STATUS_OK) {
        set_variables(run, chat, request, messages);
        status = jinja_render(run, entry->compiled, &output, problem);
        if (status != STATUS_OK)
            error_set(err, status, "chat template %s, line %u, column %u: %.900s", chat->origin, problem->line, problem->column,
                      problem->message);
    }
    if (status == STATUS_OK) {
        size_t size = output.text.size_bytes;
        if (final_text)
            size = find_end(output.text, final_text);
        status = size != SIZE_MAX ? keep_output(&output, size, out, err)
                                  : error_set(err, STATUS_INVALID,
                                              "continue_final_message: the chat template %s changes the last message, "
                                              "so it cannot be continued",
                                              chat->origin);
    }
    json_decref(final_text);
    jinja_run_destroy(run);
    return status;
}

/* What to try after `problem`, of the adaptations that apply and were not tried: one bit, or 0. */
static unsigned next_adaptation(unsigned open, const struct jinja_error *problem) {
    if (open & CHAT_DEVELOPER_AS_SYSTEM)
        return CHAT_DEVELOPER_AS_SYSTEM;
    if ((open & CHAT_EMPTY_CONTENT) && problem->failure == JINJA_UNDEFINED_USE)
        return CHAT_EMPTY_CONTENT;
    return (open & CHAT_TEXT_ARGUMENTS) && problem->failure == JINJA_TYPE ? CHAT_TEXT_ARGUMENTS : 0;
}

static enum status check_request(const struct chat_request *request, struct error *err) {
    if (request->add_generation_prompt && request->continue_final_message)
        return error_set(err, STATUS_INVALID, "add_generation_prompt and continue_final_message exclude each other");
    if ((request->tools && !json_is_array(request->tools)) || (request->documents && !json_is_array(request->documents)))
        return error_set(err, STATUS_INVALID, "%s: must be a list",
                         request->tools && !json_is_array(request->tools) ? "tools" : "documents");
    if ((request->variables && !json_is_object(request->variables)) || (request->tokens && !json_is_object(request->tokens)))
        return error_set(err, STATUS_INVALID, "the variables of a chat template must be an object");
    return STATUS_OK;
}

/* Renders, with the adaptations that it takes; *adaptations are those to begin with, then those of the result. */
static enum status render_adapted(const struct chat_template *chat, const struct chat_request *request, unsigned *adaptations,
                                  struct chat_prompt *out, struct error *err) {
    unsigned adaptable = chat_messages_adaptable(request->messages);
    struct error first = {.status = STATUS_OK}, *problem_text = &first, later;
    for (;;) {
        json_t *messages = NULL;
        struct jinja_error problem = {.failure = JINJA_OK};
        enum status status = chat_messages_prepare(request->messages, *adaptations, &messages, problem_text);
        if (status == STATUS_OK)
            status = render_once(chat, request, messages, out, &problem, problem_text);
        json_decref(messages);
        if (status == STATUS_OK)
            return STATUS_OK;
        chat_prompt_deinit(out);
        unsigned next = status == STATUS_INVALID && problem.failure != JINJA_OK ? next_adaptation(adaptable & ~*adaptations, &problem) : 0;
        if (!next)
            return error_set(err, first.status, "%s", first.text);
        *adaptations |= next;
        problem_text = &later;
    }
}

/* ---- messages that a template drops ---- */

/*
 * The first message that is left out, or SIZE_MAX. A second rendering, with a word in place of each text, tells: a text that is only
 * changed (quoted, cut at a mark) has its place. If that fails, all is well.
 */
static enum status find_dropped(const struct chat_template *chat, const struct chat_request *request, unsigned adaptations, size_t *dropped,
                                struct error *err) {
    struct chat_prompt words = {0};
    struct jinja_error problem;
    json_t *messages = NULL;
    size_t count = 0;
    *dropped = SIZE_MAX;
    TRY(chat_messages_prepare(request->messages, adaptations, &messages, err));
    enum status status = chat_messages_replace_contents(messages, &count, err);
    if (status == STATUS_OK && count > 0) {
        status = render_once(chat, request, messages, &words, &problem, err);
        if (status == STATUS_OK)
            status = chat_messages_find_dropped(messages, (struct text){words.text, words.size_bytes}, dropped, err);
        else if (status == STATUS_INVALID)
            status = STATUS_OK;
    }
    chat_prompt_deinit(&words);
    json_decref(messages);
    return status;
}

enum status chat_template_render(const struct chat_template *chat, const struct chat_request *request, struct chat_prompt *out,
                                 struct error *err) {
    *out = (struct chat_prompt){0};
    TRY(check_request(request, err));
    unsigned adaptations = 0;
    size_t dropped = SIZE_MAX;
    TRY(render_adapted(chat, request, &adaptations, out, err));
    enum status status = request->drop_nothing ? find_dropped(chat, request, adaptations, &dropped, err) : STATUS_OK;
    const char *role = json_string_value(json_object_get(json_array_get(request->messages, dropped), "role"));
    if (status == STATUS_OK && role && strcmp(role, "developer") == 0 && !(adaptations & CHAT_DEVELOPER_AS_SYSTEM)) {
        adaptations |= CHAT_DEVELOPER_AS_SYSTEM;
        chat_prompt_deinit(out);
        TRY(render_adapted(chat, request, &adaptations, out, err));
        status = find_dropped(chat, request, adaptations, &dropped, err);
    }
    if (status == STATUS_OK && dropped != SIZE_MAX)
        status = error_set(err, STATUS_INVALID, "messages[%zu]: the chat template %s drops a message of the role %s at this place", dropped,
                           chat->origin, json_string_value(json_object_get(json_array_get(request->messages, dropped), "role")));
    if (status != STATUS_OK)
        chat_prompt_deinit(out);
    return status;
}

/* The number of `count` digits at text + at, which `separator` (0: none) follows. */
static bool clock_field(struct text text, size_t at, size_t count, char separator, int *out) {
    uint64_t value;
    if (at + count > text.size_bytes || !text_parse_u64((struct text){text.data + at, count}, &value) || value > 9999)
        return false;
    *out = (int)value;
    return separator ? at + count < text.size_bytes && text.data[at + count] == separator : at + count == text.size_bytes;
}

enum status chat_clock_parse(const char *text, struct tm *out, struct error *err) {
    struct text t = text_of(text);
    struct tm time = {0};
    bool read = clock_field(t, 0, 4, '-', &time.tm_year) && clock_field(t, 5, 2, '-', &time.tm_mon) &&
                clock_field(t, 8, 2, 'T', &time.tm_mday) && clock_field(t, 11, 2, ':', &time.tm_hour) &&
                clock_field(t, 14, 2, ':', &time.tm_min) && clock_field(t, 17, 2, 0, &time.tm_sec);
    time.tm_year -= 1900;
    time.tm_mon -= 1;
    struct tm normal = time;
    time_t seconds = read ? timegm(&normal) : (time_t)-1; /* fills in the day of the week and of the year */
    if (seconds == (time_t)-1 || normal.tm_mon != time.tm_mon || normal.tm_mday != time.tm_mday || normal.tm_hour != time.tm_hour ||
        normal.tm_min != time.tm_min || normal.tm_sec != time.tm_sec)
        return error_set(err, STATUS_INVALID, "clock '%.40s': must be a time like 2025-03-09T14:05:07", text);
    *out = normal;
    return STATUS_OK;
}
