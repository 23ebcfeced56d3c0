/*
 * engine_chat: include/sluice.h, conversations: JSON -> prompt text and ids.
 */
#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "text/chat_encode.h"
#include "text/reply_markers.h"

#define JSON_BYTES_MAX (64u << 20)

/* Some models name the token that ends a turn in no file but the template (GLM's next role, ChatML under a base model's settings). */
static enum status collect_turn_ends(struct sluice_model *m, struct error *err) {
    const struct reply_family *family = reply_family_detect(chat_template_source(m->chat, false));
    const size_t marks = sizeof family->end_of_turn / sizeof *family->end_of_turn;
    memory_free(m->turn_end_ids);
    m->turn_end_id_count = 0;
    m->turn_end_ids = memory_alloc_array(m->end_id_count + marks, sizeof *m->turn_end_ids);
    if (!m->turn_end_ids)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the ends of a turn");
    for (uint32_t i = 0; i < m->end_id_count; i++)
        m->turn_end_ids[m->turn_end_id_count++] = m->end_ids[i];
    for (size_t i = 0; m->tokenizer && i < marks && family->end_of_turn[i]; i++) {
        uint32_t id;
        if (tokenizer_find(m->tokenizer, text_of(family->end_of_turn[i]), &id) && tokenizer_token_is_special(m->tokenizer, id))
            m->turn_end_ids[m->turn_end_id_count++] = id;
    }
    return STATUS_OK;
}

static enum status need_template(struct sluice_model *m, struct error *err) {
    if (m->chat)
        return STATUS_OK;
    TRY(chat_template_open(m->model->catalogue, &m->chat, err));
    return collect_turn_ends(m, err);
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
        status = collect_turn_ends(m, &err);
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
        status = chat_encode(m->tokenizer, &prompt, &m->cancel, &list, &err);
    engine_consume_cancel(m, status);
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
