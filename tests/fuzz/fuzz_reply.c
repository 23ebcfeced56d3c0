/*
 * fuzz_reply: any bytes as a reply of any family (first byte), with or without tools and opened reasoning (second byte). Any split of the
 * text must give the same message, arguments must be JSON, and without tools there are no calls.
 */
#include "fuzz.h"

#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/reply_parser.h"

static const char tools_json[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": "
    "{\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"o\": {\"type\": [\"object\", \"null\"]}}}}}]";

static void parse(const struct reply_parser_options *options, struct text raw, size_t piece, struct reply_output *out) {
    struct reply_parser *parser;
    reply_output_init(out);
    CHECK(reply_parser_create(options, &parser, NULL) == STATUS_OK);
    for (size_t at = 0; at < raw.size_bytes; at += piece) {
        size_t left = raw.size_bytes - at;
        CHECK(reply_parser_push(parser, (struct text){raw.data + at, left < piece ? left : piece}, out, NULL) == STATUS_OK);
    }
    CHECK(reply_parser_finish(parser, out, NULL) == STATUS_OK);
    reply_parser_destroy(parser);
}

static void check_same(const struct reply_output *a, const struct reply_output *b) {
    CHECK(text_equal(byte_buffer_text(&a->content), byte_buffer_text(&b->content)));
    CHECK(text_equal(byte_buffer_text(&a->reasoning), byte_buffer_text(&b->reasoning)));
    CHECK(a->calls.count == b->calls.count);
    for (size_t i = 0; i < a->calls.count; i++) {
        CHECK(strcmp(a->calls.items[i].name, b->calls.items[i].name) == 0);
        CHECK(strcmp(a->calls.items[i].arguments, b->calls.items[i].arguments) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    if (size_bytes < 2 || size_bytes > 8192)
        return 0;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    json_t *tools;
    CHECK(json_parse(TEXT(tools_json), "tools", sizeof tools_json, &tools, NULL) == STATUS_OK);
    struct reply_parser_options options = {.family = &reply_families[data[0] % reply_family_count],
                                           .tools = data[1] & 1 ? tools : NULL,
                                           .reasoning_opened = (data[1] & 2) != 0};
    struct text raw = {(const char *)data + 2, size_bytes - 2};
    struct reply_output whole, pieces;
    parse(&options, raw, raw.size_bytes + 1, &whole);
    CHECK(options.tools || whole.calls.count == 0);
    for (size_t i = 0; i < whole.calls.count; i++) {
        struct text arguments = text_of(whole.calls.items[i].arguments);
        size_t at = reply_skip_space(arguments, 0);
        CHECK(reply_read_value(arguments, &at, DIALECT_JSON, true, NULL) == READ_OK);
    }
    const size_t sizes[] = {1, 7, (size_t)(data[1] >> 2) + 2};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        parse(&options, raw, sizes[i], &pieces);
        check_same(&whole, &pieces);
        reply_output_deinit(&pieces);
    }
    reply_output_deinit(&whole);
    json_decref(tools);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
