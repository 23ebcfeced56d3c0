/*
 * engine_chat: include/sluice.h, conversations: JSON -> prompt text and ids.
 */
#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "text/chat_encode.h"

#define JSON_BYTES_MAX (64u << 20)

static enum status need_template(struct sluice_model *m, struct error *err) {
    return m->chat ? STATUS_OK : chat_template_open(m->model->catalogue, &m->chat, err);
}

sluice_status sluice_set_chat_template(sluice_model *m, const char *path, sluice_error *error) {
    struct error err = {0};
    struct chat_template *chat;
    enum status status = chat_template_open_file(path, &chat, &err);
    if (status == STATUS_OK)
        status = chat_template_take_tokens(chat, m->model->catalogue, &err);
    if (status == STATUS_OK) {
        chat_template_close(m->chat);
        m->chat = chat;
    } else {
        chat_template_close(chat);
    }
    return engine_report(status, &err, error);
}

struct chat_json { /* parsed parts of a sluice_chat; NULL where not given */
    json_t *messages, *tools, *variables;
};

static enum status parse_part(const char *text, const char *what, json_t **out, struct error *err) {
    return text ? json_parse(text_of(text), what, JSON_BYTES_MAX, out, err) : STATUS_OK;
}

static enum status render(struct sluice_model *m, const sluice_chat *chat, struct chat_json *json, struct chat_prompt *prompt,
                          struct error *err) {
    TRY(need_template(m, err));
    TRY(parse_part(chat->messages, "messages", &json->messages, err));
    TRY(parse_part(chat->tools, "tools", &json->tools, err));
    TRY(parse_part(chat->variables, "template variables", &json->variables, err));
    const struct chat_request request = {.messages = json->messages,
                                         .tools = json->tools,
                                         .variables = json->variables,
                                         .add_generation_prompt = chat->add_generation_prompt,
                                         .continue_final_message = chat->continue_final_message,
                                         .drop_nothing = true};
    return chat_template_render(m->chat, &request, prompt, err);
}

sluice_status sluice_render_chat(sluice_model *m, const sluice_chat *chat, char **text, uint32_t **ids, size_t *count,
                                 sluice_error *error) {
    struct error err = {0};
    struct chat_prompt prompt = {0};
    struct chat_json json = {0};
    struct token_list list = {0};
    *ids = NULL;
    *count = 0;
    enum status status = engine_need_tokenizer(m, &err);
    if (status == STATUS_OK)
        status = render(m, chat, &json, &prompt, &err);
    if (status == STATUS_OK)
        status = chat_encode(m->tokenizer, &prompt, NULL, &list, &err);
    if (status == STATUS_OK && text && !(*text = memory_copy_text(prompt.text, prompt.size_bytes)))
        status = error_set(&err, STATUS_NO_MEMORY, "no memory for the prompt's text");
    json_decref(json.messages);
    json_decref(json.tools);
    json_decref(json.variables);
    chat_prompt_deinit(&prompt);
    if (status == STATUS_OK) {
        *ids = list.ids;
        *count = list.count;
    } else {
        token_list_deinit(&list);
    }
    return engine_report(status, &err, error);
}
