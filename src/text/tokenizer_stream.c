/* tokenizer_stream: ids to text, one by one or all at once; both run the decoder's one machine. */
#include "base/check.h"
#include "text/tokenizer_parts.h"

void tokenizer_stream_init(struct tokenizer_stream *stream, const struct tokenizer *tokenizer, bool skip_special) {
    CHECK(tokenizer && tokenizer->decoder);
    *stream = (struct tokenizer_stream){.tokenizer = tokenizer, .skip_special = skip_special};
}

enum status tokenizer_stream_push(struct tokenizer_stream *stream, uint32_t id, struct byte_buffer *out, struct error *err) {
    const struct tokenizer *tokenizer = stream->tokenizer;
    unsigned flags = vocab_flags_of(&tokenizer->vocab, id);
    if (flags == 0)
        return STATUS_OK;
    struct text original = vocab_text(&tokenizer->vocab, id), text = added_tokens_spelling(&tokenizer->added, id, original);
    /* One that the normaliser respells is not skipped: so does the library that we follow. */
    if (stream->skip_special && (flags & VOCAB_SPECIAL) && text_equal(text, original)) {
        stream->state.after_added = true;
        return STATUS_OK;
    }
    struct decoder_token token = {.text = text, .added = (flags & VOCAB_ADDED) != 0};
    return decoder_push(tokenizer->decoder, &stream->state, token, out, err);
}

enum status tokenizer_stream_finish(struct tokenizer_stream *stream, struct byte_buffer *out, struct error *err) {
    return decoder_finish(stream->tokenizer->decoder, &stream->state, out, err);
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, bool skip_special,
                             struct byte_buffer *out, struct error *err) {
    struct tokenizer_stream stream;
    CHECK(ids || count == 0);
    tokenizer_stream_init(&stream, tokenizer, skip_special);
    for (size_t i = 0; i < count; i++)
        TRY(tokenizer_stream_push(&stream, ids[i], out, err));
    return tokenizer_stream_finish(&stream, out, err);
}
