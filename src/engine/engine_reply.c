/*
 * engine_reply: include/sluice.h, replies: text as it comes -> reasoning, content, calls.
 */
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "text/reply_parser.h"

#define TOOLS_BYTES_MAX (16u << 20)

struct sluice_reply {
    struct reply_parser *parser;
    struct reply_output output;
    json_t *tools;
    char *calls; /* JSON of the last push; owned */
};

enum status engine_find_family(struct sluice_model *m, const char *format, bool tools, const struct reply_family **family,
                               struct error *err) {
    if (format) {
        *family = reply_family_find(text_of(format));
        return *family ? STATUS_OK : error_set(err, STATUS_INVALID, "there is no reply format '%s'", format);
    }
    *family = reply_family_detect(m->chat ? chat_template_source(m->chat, tools) : TEXT(""));
    return STATUS_OK;
}

sluice_status sluice_reply_open(sluice_model *m, const char *format, const char *tools, const char *prompt, sluice_reply **out,
                                sluice_error *error) {
    struct error err = {0};
    *out = NULL;
    struct reply_parser_options options = {0};
    struct sluice_reply *reply = memory_alloc(sizeof *reply);
    enum status status = reply ? engine_find_family(m, format, tools != NULL, &options.family, &err)
                               : error_set(&err, STATUS_NO_MEMORY, "no memory to read a reply");
    if (status == STATUS_OK) {
        reply_output_init(&reply->output);
        if (tools)
            status = json_parse(text_of(tools), "tools", TOOLS_BYTES_MAX, &reply->tools, &err);
    }
    if (status == STATUS_OK) {
        options.tools = reply->tools;
        options.reasoning_opened = prompt && reply_reasoning_opened(options.family, text_of(prompt));
        status = reply_parser_create(&options, &reply->parser, &err);
    }
    if (status == STATUS_OK)
        *out = reply;
    else
        sluice_reply_close(reply);
    return engine_report(status, &err, error);
}

static enum status calls_json(struct sluice_reply *reply, struct error *err) {
    const struct reply_calls *calls = &reply->output.calls;
    memory_free(reply->calls);
    reply->calls = NULL;
    if (calls->count == 0)
        return STATUS_OK;
    json_t *list = json_array();
    for (size_t i = 0; list && i < calls->count; i++) {
        json_t *call = json_pack("{s:s,s:s}", "name", calls->items[i].name, "arguments", calls->items[i].arguments);
        if (calls->items[i].id)
            (void)json_object_set_new(call, "id", json_string(calls->items[i].id));
        (void)json_array_append_new(list, call);
    }
    reply->calls = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    return reply->calls ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for tool calls");
}

sluice_status sluice_reply_push(sluice_reply *reply, const char *text, size_t size_bytes, bool final, sluice_reply_part *part,
                                sluice_error *error) {
    struct error err = {0};
    reply_output_clear(&reply->output);
    enum status status = reply_parser_push(reply->parser, (struct text){text, size_bytes}, &reply->output, &err);
    if (status == STATUS_OK && final)
        status = reply_parser_finish(reply->parser, &reply->output, &err);
    if (status == STATUS_OK)
        status = calls_json(reply, &err);
    struct text reasoning = byte_buffer_text(&reply->output.reasoning), content = byte_buffer_text(&reply->output.content);
    *part = (sluice_reply_part){.reasoning = reasoning.data,
                                .reasoning_bytes = reasoning.size_bytes,
                                .content = content.data,
                                .content_bytes = content.size_bytes,
                                .calls = reply->calls};
    return engine_report(status, &err, error);
}

void sluice_reply_close(sluice_reply *reply) {
    if (!reply)
        return;
    reply_parser_destroy(reply->parser);
    reply_output_deinit(&reply->output);
    json_decref(reply->tools);
    memory_free(reply->calls);
    memory_free(reply);
}
