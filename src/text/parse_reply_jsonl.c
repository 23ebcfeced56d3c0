/* parse_reply_jsonl: runs the reply parser over lines. */
#include "text/parse_reply_jsonl.h"

#include <string.h>

#include "base/check.h"
#include "text/json_lines.h"
#include "text/reply_parser.h"

/* The whole reply, in pieces of `piece_bytes`. */
static enum status parse(const struct reply_parser_options *options, struct text raw, size_t piece_bytes, struct reply_output *out,
                         struct error *err) {
    struct reply_parser *parser;
    TRY(reply_parser_create(options, &parser, err));
    enum status status = STATUS_OK;
    for (size_t at = 0; at < raw.size_bytes && status == STATUS_OK; at += piece_bytes) {
        size_t left = raw.size_bytes - at;
        status = reply_parser_push(parser, (struct text){raw.data + at, left < piece_bytes ? left : piece_bytes}, out, err);
    }
    if (status == STATUS_OK)
        status = reply_parser_finish(parser, out, err);
    reply_parser_destroy(parser);
    return status;
}

static bool same(const struct reply_output *a, const struct reply_output *b) {
    bool equal = text_equal(byte_buffer_text(&a->content), byte_buffer_text(&b->content)) &&
                 text_equal(byte_buffer_text(&a->reasoning), byte_buffer_text(&b->reasoning)) && a->calls.count == b->calls.count;
    for (size_t i = 0; equal && i < a->calls.count; i++)
        equal = strcmp(a->calls.items[i].name, b->calls.items[i].name) == 0 &&
                strcmp(a->calls.items[i].arguments, b->calls.items[i].arguments) == 0;
    return equal;
}

static json_t *message_json(const struct reply_output *out) {
    json_t *calls = json_array();
    for (size_t i = 0; i < out->calls.count; i++) {
        const struct reply_call *call = &out->calls.items[i];
        json_array_append_new(calls, json_pack("{s:s*, s:s, s:{s:s, s:s}}", "id", call->id, "type", "function", "function", "name",
                                               call->name, "arguments", call->arguments));
    }
    if (json_array_size(calls) != out->calls.count) {
        json_decref(calls);
        return NULL;
    }
    struct text content = byte_buffer_text(&out->content), reasoning = byte_buffer_text(&out->reasoning);
    return json_pack("{s:s%, s:s%, s:o}", "content", content.data, content.size_bytes, "reasoning_content", reasoning.data,
                     reasoning.size_bytes, "tool_calls", calls);
}

static json_t *answer_line(void *context, const json_t *line, struct error *err) {
    (void)context;
    const json_t *raw = json_object_get(line, "raw"), *tools = json_object_get(line, "tools"), *split = json_object_get(line, "split");
    const char *name = json_string_value(json_object_get(line, "family"));
    struct reply_parser_options options = {
        .family = name ? reply_family_find(text_of(name)) : NULL,
        .tools = json_is_array(tools) ? tools : NULL,
        .reasoning_opened = json_is_true(json_object_get(line, "reasoning_opened")),
    };
    if (!options.family || !json_is_string(raw)) {
        error_set(err, STATUS_INVALID, options.family ? "the line has no \"raw\" text" : "unknown family '%.100s'", name ? name : "");
        return NULL;
    }
    struct text text = {json_string_value(raw), json_string_length(raw)};
    struct reply_output whole, pieces;
    reply_output_init(&whole);
    reply_output_init(&pieces);
    bool by_byte = json_is_string(split) && strcmp(json_string_value(split), "all") == 0;
    enum status status = parse(&options, text, text.size_bytes + 1, &whole, err);
    if (status == STATUS_OK && by_byte)
        status = parse(&options, text, 1, &pieces, err);
    if (status == STATUS_OK && by_byte && !same(&whole, &pieces))
        status = error_set(err, STATUS_INTERNAL, "byte by byte the reply gives another message");
    json_t *answer = status == STATUS_OK ? message_json(&whole) : NULL;
    if (status == STATUS_OK && !answer)
        error_set(err, STATUS_NO_MEMORY, "no memory for the message");
    reply_output_deinit(&whole);
    reply_output_deinit(&pieces);
    return answer;
}

enum status parse_reply_jsonl(FILE *in, FILE *out, struct error *err) { return json_lines_run(in, out, answer_line, NULL, err); }
