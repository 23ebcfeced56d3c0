/* chat_encode: hands the template's own spans to the tokenizer. */
#include "text/chat_encode.h"

#include "base/check.h"
#include "base/memory.h"

enum status chat_encode(const struct tokenizer *tokenizer, const struct chat_prompt *prompt, const atomic_bool *cancel,
                        struct token_list *out, struct error *err) {
    struct token_span *spans = memory_alloc_array(prompt->span_count, sizeof *spans);
    size_t count = 0;
    if (!spans)
        return error_set(err, STATUS_NO_MEMORY, "no memory to encode a prompt of %zu bytes", prompt->size_bytes);
    for (size_t i = 0; i < prompt->span_count; i++) {
        ASSERT(prompt->spans[i].end <= prompt->size_bytes);
        if (prompt->spans[i].trusted)
            spans[count++] = (struct token_span){prompt->spans[i].begin, prompt->spans[i].end};
    }
    enum status status = tokenizer_encode_spans(tokenizer, (struct text){prompt->text, prompt->size_bytes}, spans, count, cancel, out, err);
    memory_free(spans);
    return status;
}
