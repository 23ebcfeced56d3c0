/* chat_load: finds the templates and special tokens of a model and compiles them. */
#include "text/chat_load.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#define TEMPLATE_BYTES_MAX ((size_t)4 << 20)
#define CONFIG_BYTES_MAX ((size_t)256 << 20) /* tokenizer_config.json may list every added token */
#define PATH_BYTES 4096
#define REMEDY "give one with --chat-template FILE"

static enum status no_memory(struct error *err) { return error_set(err, STATUS_NO_MEMORY, "no memory for a chat template"); }

static enum status create(const char *origin, struct chat_template **out, struct error *err) {
    *out = memory_alloc(sizeof **out);
    if (!*out)
        return no_memory(err);
    snprintf((*out)->origin, sizeof(*out)->origin, "%s", origin);
    return STATUS_OK;
}

void chat_template_close(struct chat_template *chat) {
    if (!chat)
        return;
    for (size_t i = 0; i < chat->entry_count; i++) {
        jinja_template_destroy(chat->entries[i].compiled);
        memory_free((char *)chat->entries[i].source.data);
        memory_free(chat->entries[i].name);
    }
    for (size_t i = 0; i < chat->token_count; i++) {
        memory_free((char *)chat->tokens[i].text.data);
        memory_free(chat->tokens[i].name);
    }
    memory_free(chat);
}

/* Compiles a copy of the source under `name`. */
static enum status add_entry(struct chat_template *chat, const char *name, struct text source, struct error *err) {
    if (chat->entry_count == CHAT_TEMPLATES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: more than %d chat templates", chat->origin, CHAT_TEMPLATES_MAX);
    struct chat_template_entry *entry = &chat->entries[chat->entry_count];
    *entry = (struct chat_template_entry){.name = memory_copy_text(name, strlen(name)),
                                          .source = {memory_copy_text(source.data, source.size_bytes), source.size_bytes}};
    chat->entry_count++;
    if (!entry->name || !entry->source.data)
        return no_memory(err);
    struct jinja_error problem;
    enum status status = jinja_compile(entry->source, &entry->compiled, &problem);
    if (status == STATUS_OK)
        return STATUS_OK;
    return error_set(err, status, "chat template of %s (%s): line %u, column %u: %.600s; it is not the Jinja of chat templates: " REMEDY,
                     chat->origin, name, problem.line, problem.column, problem.message);
}

enum status chat_template_set_token(struct chat_template *chat, const char *name, struct text text, struct error *err) {
    struct chat_token *token = NULL;
    for (size_t i = 0; i < chat->token_count; i++)
        if (strcmp(chat->tokens[i].name, name) == 0)
            token = &chat->tokens[i];
    char *copy = memory_copy_text(text.data, text.size_bytes);
    if (!copy)
        return no_memory(err);
    if (!token && chat->token_count < CHAT_TOKENS_MAX) {
        token = &chat->tokens[chat->token_count];
        token->name = memory_copy_text(name, strlen(name));
        chat->token_count += token->name != NULL;
    }
    if (!token || !token->name) {
        memory_free(copy);
        return token ? no_memory(err)
                     : error_set(err, STATUS_UNSUPPORTED, "%s: more than %d special tokens", chat->origin, CHAT_TOKENS_MAX);
    }
    memory_free((char *)token->text.data);
    token->text = (struct text){copy, text.size_bytes};
    return STATUS_OK;
}

/* ---- Hugging Face files ---- */

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/* Special tokens of a tokenizer_config.json: a text, or an object with "content". */
static enum status take_config_tokens(struct chat_template *chat, const json_t *config, struct error *err) {
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; i++) {
        const json_t *value = json_object_get(config, token_names[i]);
        if (json_is_object(value))
            value = json_object_get(value, "content");
        if (json_is_string(value))
            TRY(chat_template_set_token(chat, token_names[i], (struct text){json_string_value(value), json_string_length(value)}, err));
    }
    return STATUS_OK;
}

/* The value of "chat_template": a text, a list of {name, template}, or an object of texts by name. */
static enum status take_templates(struct chat_template *chat, const json_t *value, struct error *err) {
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_string(value))
        return add_entry(chat, "default", (struct text){json_string_value(value), json_string_length(value)}, err);
    json_array_foreach(value, i, item) {
        const json_t *name = json_object_get(item, "name"), *source = json_object_get(item, "template");
        if (!json_is_string(name) || !json_is_string(source))
            return error_set(err, STATUS_CORRUPT, "%s: chat_template[%zu] must have a name and a template; " REMEDY, chat->origin, i);
        TRY(add_entry(chat, json_string_value(name), (struct text){json_string_value(source), json_string_length(source)}, err));
    }
    json_object_foreach((json_t *)value, key, item) {
        if (!json_is_string(item))
            return error_set(err, STATUS_CORRUPT, "%s: chat_template '%.100s' is not a text; " REMEDY, chat->origin, key);
        TRY(add_entry(chat, key, (struct text){json_string_value(item), json_string_length(item)}, err));
    }
    if (chat->entry_count == 0)
        return error_set(err, STATUS_NOT_FOUND, "%s: no chat template; " REMEDY, chat->origin);
    return STATUS_OK;
}

static enum status take_file(struct chat_template *chat, const char *name, const char *path, struct error *err) {
    struct text source;
    TRY(file_read(path, TEMPLATE_BYTES_MAX, &source, err));
    enum status status = add_entry(chat, name, source, err);
    memory_free((char *)source.data);
    return status;
}

/* "chat_template" of a JSON file, if both are there. */
static enum status take_json(struct chat_template *chat, const char *path, struct error *err) {
    json_t *config = NULL;
    TRY(json_read_file(path, CONFIG_BYTES_MAX, &config, err));
    const json_t *value = json_object_get(config, "chat_template");
    enum status status = value && !json_is_null(value) ? take_templates(chat, value, err) : STATUS_OK;
    json_decref(config);
    return status;
}

/* Special tokens of directory/tokenizer_config.json, if it is there. */
static enum status take_directory_tokens(struct chat_template *chat, const char *directory, struct error *err) {
    char path[PATH_BYTES];
    json_t *config = NULL;
    TRY(file_join(directory, "tokenizer_config.json", path, sizeof path, err));
    if (!file_exists(path))
        return STATUS_OK;
    TRY(json_read_file(path, CONFIG_BYTES_MAX, &config, err));
    enum status status = take_config_tokens(chat, config, err);
    json_decref(config);
    return status;
}

static enum status take_directory(struct chat_template *chat, const char *directory, struct error *err) {
    static const char *const json_names[] = {"chat_template.json", "tokenizer_config.json"};
    char path[PATH_BYTES];
    TRY(file_join(directory, "chat_template.jinja", path, sizeof path, err));
    if (file_exists(path)) {
        TRY(take_file(chat, "default", path, err));
        TRY(file_join(directory, "additional_chat_templates/tool_use.jinja", path, sizeof path, err));
        if (file_exists(path))
            TRY(take_file(chat, "tool_use", path, err));
    }
    for (size_t i = 0; i < 2 && chat->entry_count == 0; i++) {
        TRY(file_join(directory, json_names[i], path, sizeof path, err));
        if (file_exists(path))
            TRY(take_json(chat, path, err));
    }
    if (chat->entry_count == 0)
        return error_set(err, STATUS_NOT_FOUND,
                         "%s: no chat template (looked for chat_template.jinja, chat_template.json and tokenizer_config.json): " REMEDY,
                         directory);
    return take_directory_tokens(chat, directory, err);
}

/* ---- GGUF ---- */

static enum status take_gguf_token(struct chat_template *chat, const struct catalogue *catalogue, const char *key, const char *name,
                                   struct error *err) {
    uint64_t id;
    struct text text;
    if (!meta_u64(catalogue_meta(catalogue, key), &id) || !meta_array_text(catalogue_meta(catalogue, "tokenizer.ggml.tokens"), id, &text))
        return STATUS_OK;
    return chat_template_set_token(chat, name, text, err);
}

static enum status take_gguf_tokens(struct chat_template *chat, const struct catalogue *catalogue, struct error *err) {
    static const char *const keys[][2] = {{"tokenizer.ggml.bos_token_id", "bos_token"},
                                          {"tokenizer.ggml.eos_token_id", "eos_token"},
                                          {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                          {"tokenizer.ggml.padding_token_id", "pad_token"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        TRY(take_gguf_token(chat, catalogue, keys[i][0], keys[i][1], err));
    return STATUS_OK;
}

static enum status take_gguf(struct chat_template *chat, const struct catalogue *catalogue, struct error *err) {
    static const char prefix[] = "tokenizer.chat_template";
    struct text source;
    if (meta_text(catalogue_meta(catalogue, prefix), &source))
        TRY(add_entry(chat, "default", source, err));
    for (uint64_t i = 0; i < catalogue_meta_count(catalogue); i++) {
        struct text key = catalogue_meta_key(catalogue, i);
        char name[64];
        if (!text_starts_with(key, TEXT("tokenizer.chat_template.")) || !meta_text(catalogue_meta_at(catalogue, i), &source))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(key.size_bytes - sizeof prefix), key.data + sizeof prefix);
        TRY(add_entry(chat, name, source, err));
    }
    if (chat->entry_count == 0)
        return error_set(err, STATUS_NOT_FOUND, "%s: no chat template (the key tokenizer.chat_template is missing): " REMEDY, chat->origin);
    return take_gguf_tokens(chat, catalogue, err);
}

enum status chat_template_take_tokens(struct chat_template *chat, const struct catalogue *catalogue, struct error *err) {
    if (catalogue_world(catalogue) == CATALOGUE_GGUF)
        return take_gguf_tokens(chat, catalogue, err);
    return take_directory_tokens(chat, catalogue_directory(catalogue), err);
}

/* ---- opening ---- */

/* Without a default and a choice, the names are in the error. */
static enum status check_names(const struct chat_template *chat, struct error *err) {
    char names[300] = "";
    if (chat->entry_count == 1)
        return STATUS_OK;
    for (size_t i = 0, at = 0; i < chat->entry_count && at < sizeof names; i++) {
        if (strcmp(chat->entries[i].name, "default") == 0)
            return STATUS_OK;
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", chat->entries[i].name);
    }
    return error_set(err, STATUS_UNSUPPORTED, "%s: several chat templates (%s) and none is the default: " REMEDY, chat->origin, names);
}

/* Ends an open: gives the templates, or frees them. */
static enum status finish(struct chat_template *chat, enum status status, struct chat_template **out, struct error *err) {
    if (status == STATUS_OK)
        status = check_names(chat, err);
    if (status != STATUS_OK) {
        chat_template_close(chat);
        return status;
    }
    *out = chat;
    return STATUS_OK;
}

enum status chat_template_open(const struct catalogue *catalogue, struct chat_template **out, struct error *err) {
    struct chat_template *chat;
    *out = NULL;
    TRY(create(catalogue_path(catalogue), &chat, err));
    bool gguf = catalogue_world(catalogue) == CATALOGUE_GGUF;
    return finish(chat, gguf ? take_gguf(chat, catalogue, err) : take_directory(chat, catalogue_directory(catalogue), err), out, err);
}

enum status chat_template_open_file(const char *path, struct chat_template **out, struct error *err) {
    struct chat_template *chat;
    *out = NULL;
    TRY(create(path, &chat, err));
    if (file_is_directory(path))
        return finish(chat, take_directory(chat, path, err), out, err);
    bool json = text_ends_with(text_of(path), TEXT(".json"));
    enum status status = json ? take_json(chat, path, err) : take_file(chat, "default", path, err);
    if (status == STATUS_OK && chat->entry_count == 0)
        status = error_set(err, STATUS_NOT_FOUND, "%s: has no \"chat_template\"; " REMEDY, path);
    char directory[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1, slash ? path : ".");
    if (status == STATUS_OK)
        status = take_directory_tokens(chat, directory, err);
    return finish(chat, status, out, err);
}

enum status chat_template_open_text(struct text source, const char *name, struct chat_template **out, struct error *err) {
    struct chat_template *chat;
    *out = NULL;
    TRY(create(name, &chat, err));
    return finish(chat, add_entry(chat, "default", source, err), out, err);
}
