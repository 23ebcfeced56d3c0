/*
 * chat_commands: a row per command.
 */
#include "chat_commands.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"

#define FILE_BYTES_MAX (64u << 20)

struct chat_command {
    const char *name, *argument, *help;
    enum chat_next (*run)(struct talk *talk, const char *argument, struct error *err); /* err->status tells that it failed */
};

static enum chat_next run_help(struct talk *talk, const char *argument, struct error *err);

static enum chat_next run_clear(struct talk *talk, const char *argument, struct error *err) {
    (void)argument;
    const char *first = talk_role(talk, 0);
    size_t kept = first && strcmp(first, "system") == 0;
    while (json_array_size(talk->messages) > kept)
        (void)json_array_remove(talk->messages, json_array_size(talk->messages) - 1);
    (void)err;
    log_line(LOG_NOTICE, "a new conversation%s", kept ? " with the same system message" : "");
    return CHAT_GO_ON;
}

static enum chat_next run_system(struct talk *talk, const char *argument, struct error *err) {
    if (talk_set_system(talk, argument, err) == STATUS_OK)
        log_line(LOG_NOTICE, "%s", *argument ? "the system message is set" : "there is no system message now");
    return CHAT_GO_ON;
}

static enum chat_next run_save(struct talk *talk, const char *argument, struct error *err) {
    char *text = *argument ? json_dumps(talk->messages, JSON_INDENT(2)) : NULL;
    if (!*argument)
        (void)error_set(err, STATUS_INVALID, "/save needs a FILE");
    else if (!text)
        (void)error_set(err, STATUS_NO_MEMORY, "no memory to write the conversation");
    else if (file_write(argument, text, strlen(text), err) == STATUS_OK)
        log_line(LOG_NOTICE, "%zu messages are in %s", json_array_size(talk->messages), argument);
    memory_free(text);
    return CHAT_GO_ON;
}

static enum status check_messages(const json_t *messages, const char *path, struct error *err) {
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    if (!json_is_array(messages))
        return error_set(err, STATUS_CORRUPT, "%s: is no list of messages", path);
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        bool known = false;
        for (size_t k = 0; k < sizeof roles / sizeof *roles && role; k++)
            known = known || strcmp(role, roles[k]) == 0;
        if (!known)
            return error_set(err, STATUS_CORRUPT, "%s: message %zu has no role of system, developer, user, assistant, tool", path, i);
    }
    return STATUS_OK;
}

static enum chat_next run_load(struct talk *talk, const char *argument, struct error *err) {
    json_t *messages = NULL;
    enum status status =
        *argument ? json_read_file(argument, FILE_BYTES_MAX, &messages, err) : error_set(err, STATUS_INVALID, "/load needs a FILE");
    if (status == STATUS_OK)
        status = check_messages(messages, argument, err);
    if (status != STATUS_OK) {
        json_decref(messages);
        return CHAT_GO_ON;
    }
    json_decref(talk->messages);
    talk->messages = messages;
    talk->attempt = 0;
    log_line(LOG_NOTICE, "%zu messages from %s go on", json_array_size(messages), argument);
    return CHAT_GO_ON;
}

static enum chat_next run_regen(struct talk *talk, const char *argument, struct error *err) {
    (void)argument;
    const char *role = talk_role(talk, -1);
    if (role && strcmp(role, "assistant") == 0) {
        (void)json_array_remove(talk->messages, json_array_size(talk->messages) - 1);
        talk->attempt++;
        role = talk_role(talk, -1);
    }
    if (role && strcmp(role, "system") != 0)
        return CHAT_ANSWER;
    (void)error_set(err, STATUS_INVALID, "there is nothing to answer again yet");
    return CHAT_GO_ON;
}

static enum chat_next run_exit(struct talk *talk, const char *argument, struct error *err) {
    (void)talk;
    (void)argument;
    (void)err;
    return CHAT_END;
}

static const struct chat_command commands[] = {
    {"help", "", "this list", run_help},
    {"regen", "", "another answer to the last message", run_regen},
    {"clear", "", "begin a new conversation", run_clear},
    {"system", "[TEXT]", "set the system message, or take it away", run_system},
    {"save", "FILE", "write the conversation (JSON, OpenAI's messages)", run_save},
    {"load", "FILE", "go on with a conversation that was saved", run_load},
    {"exit", "", "end; Ctrl-D too", run_exit},
};

static enum chat_next run_help(struct talk *talk, const char *argument, struct error *err) {
    (void)talk;
    (void)argument;
    (void)err;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char head[32];
        (void)snprintf(head, sizeof head, "/%s %s", commands[i].name, commands[i].argument);
        (void)fprintf(stderr, "  %-16s %s\n", head, commands[i].help);
    }
    (void)fputs("A backslash at a line's end goes on in the next line; a line of three quotes (\"\"\") begins and ends a longer text.\n"
                "Ctrl-C stops an answer.\n",
                stderr);
    return CHAT_GO_ON;
}

enum chat_next chat_command(struct talk *talk, const char *line, bool *failed) {
    size_t length = strcspn(line + 1, " \t\n");
    struct text name = {line + 1, length};
    const char *argument = line + 1 + length + strspn(line + 1 + length, " \t\n");
    struct error err = {0};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (text_is(name, commands[i].name)) {
            enum chat_next next = commands[i].run(talk, argument, &err);
            *failed = err.status != STATUS_OK;
            if (*failed)
                log_line(LOG_ERROR, "%s", err.text);
            return next;
        }
    log_line(LOG_ERROR, "there is no command '/%.*s' (/help lists them); a space before the slash makes it a message", (int)length,
             name.data);
    *failed = true;
    return CHAT_GO_ON;
}
