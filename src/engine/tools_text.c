/*
 * tools_text: include/sluice_tools.h: tokenizers without a model.
 */
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "sluice_tools.h"
#include "text/parse_reply_jsonl.h"
#include "text/render_jsonl.h"
#include "text/tokenize_jsonl.h"

sluice_status sluice_tool_tokenize_jsonl(const char *path, FILE *in, FILE *out, sluice_error *error) {
    struct error err = {0};
    struct tokenizer *tokenizer;
    enum status status = tokenizer_open_path(path, &tokenizer, &err);
    if (status == STATUS_OK)
        status = tokenize_jsonl(tokenizer, in, out, &err);
    tokenizer_close(tokenizer);
    return engine_report(status, &err, error);
}

sluice_status sluice_tool_render_jsonl(const char *template_path, const char *tokenizer_path, const char *clock, FILE *in, FILE *out,
                                       sluice_error *error) {
    struct error err = {0};
    struct chat_template *chat = NULL;
    struct tokenizer *tokenizer = NULL;
    struct tm time;
    enum status status = STATUS_OK;
    if (template_path)
        status = chat_template_open_file(template_path, &chat, &err);
    if (status == STATUS_OK && tokenizer_path)
        status = tokenizer_open_path(tokenizer_path, &tokenizer, &err);
    if (status == STATUS_OK && clock)
        status = chat_clock_parse(clock, &time, &err);
    if (status == STATUS_OK) {
        const struct render_jsonl_options options = {.chat = chat, .tokenizer = tokenizer, .clock = clock ? &time : NULL};
        status = render_jsonl(&options, in, out, &err);
    }
    chat_template_close(chat);
    tokenizer_close(tokenizer);
    return engine_report(status, &err, error);
}

sluice_status sluice_tool_parse_reply_jsonl(FILE *in, FILE *out, sluice_error *error) {
    struct error err = {0};
    return engine_report(parse_reply_jsonl(in, out, &err), &err, error);
}

sluice_status sluice_tool_tokenize(const char *path, const char *text, size_t size_bytes, unsigned flags, uint32_t **ids, size_t *count,
                                   sluice_error *error) {
    struct error err = {0};
    struct token_list list = {0};
    struct tokenizer *tokenizer;
    unsigned how = (flags & SLUICE_PLAIN ? TOKENIZE_PLAIN : 0u) | (flags & SLUICE_NO_SPECIAL ? 0u : TOKENIZE_ADD_SPECIAL);
    enum status status = tokenizer_open_path(path, &tokenizer, &err);
    if (status == STATUS_OK)
        status = tokenizer_encode(tokenizer, (struct text){text, size_bytes}, how, NULL, &list, &err);
    tokenizer_close(tokenizer);
    *ids = status == STATUS_OK ? list.ids : NULL;
    *count = status == STATUS_OK ? list.count : 0;
    if (status != STATUS_OK)
        token_list_deinit(&list);
    return engine_report(status, &err, error);
}

sluice_status sluice_tool_detokenize(const char *path, const uint32_t *ids, size_t count, bool skip_special, char **text,
                                     size_t *size_bytes, sluice_error *error) {
    struct error err = {0};
    struct byte_buffer out;
    struct tokenizer *tokenizer;
    byte_buffer_init(&out, 1u << 30);
    enum status status = tokenizer_open_path(path, &tokenizer, &err);
    if (status == STATUS_OK)
        status = tokenizer_decode(tokenizer, ids, count, skip_special, &out, &err);
    if (status == STATUS_OK)
        status = byte_buffer_append(&out, "", 0, &err);
    tokenizer_close(tokenizer);
    *size_bytes = status == STATUS_OK ? out.size_bytes : 0;
    *text = status == STATUS_OK ? byte_buffer_take(&out) : NULL;
    byte_buffer_deinit(&out);
    return engine_report(status, &err, error);
}
