/*
 * tokenizer_encode: text to ids. Added tokens cut the text into sections; each is normalised, cut again by the normalised added
 * tokens, pre-tokenised, and its pieces go to the model one by one.
 */
#include "base/check.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

struct encoding {
    const struct tokenizer *tokenizer;
    bool plain;
    const char *base;               /* start of the whole text, for spans */
    const struct token_span *spans; /* where added tokens count although all is plain; NULL: nowhere */
    size_t span_count;
    struct cancel_poll cancel;
    struct pattern_matcher *matcher;
    struct normalizer_work normalizer;
    struct pretokenize_work pretokenize;
    struct bpe_work bpe;
    struct unigram_work unigram;
    struct token_list *out;
};

static enum status encode_piece(void *context, struct text piece, struct error *err) {
    struct encoding *encoding = context;
    const struct tokenizer *tokenizer = encoding->tokenizer;
    if (tokenizer->model == TOKENIZER_UNIGRAM)
        return unigram_encode(&tokenizer->unigram, &encoding->unigram, piece, encoding->out, err);
    return bpe_encode(&tokenizer->bpe, &encoding->bpe, piece, encoding->out, err);
}

static enum status encode_plain(struct encoding *encoding, struct text text, bool at_start, struct error *err) {
    struct pretokenize_run run = {.work = &encoding->pretokenize,
                                  .matcher = encoding->matcher,
                                  .cancel = &encoding->cancel,
                                  .sink = encode_piece,
                                  .context = encoding};
    return pretokenizer_run(encoding->tokenizer->pretokenizer, &run, text, at_start, err);
}

static enum status encode_section(struct encoding *encoding, struct text text, bool at_start, struct error *err);

/* Cuts text at added tokens of one set; what lies between goes on. */
static enum status encode_with_added(struct encoding *encoding, struct text text, bool normalized, bool at_start, struct error *err) {
    struct added_cursor cursor = {0};
    struct added_match match;
    size_t done = 0;
    for (bool more = true; more;) {
        more = added_tokens_next(&encoding->tokenizer->added, normalized, encoding->plain, text, &cursor, &match);
        size_t end = more ? match.begin : text.size_bytes;
        if (end > done) {
            struct text gap = {text.data + done, end - done};
            bool first = at_start && done == 0;
            TRY(normalized ? encode_plain(encoding, gap, first, err) : encode_section(encoding, gap, first, err));
        }
        if (more) {
            TRY(cancel_check(&encoding->cancel, err));
            TRY(token_list_append(encoding->out, match.id, err));
            done = match.end;
        }
    }
    return STATUS_OK;
}

static enum status encode_section(struct encoding *encoding, struct text text, bool at_start, struct error *err) {
    TRY(normalizer_run(encoding->tokenizer->normalizer, &encoding->normalizer, encoding->matcher, text, &text, err));
    return encode_with_added(encoding, text, true, at_start && !encoding->normalizer.front_removed, err);
}

/* Whether the bytes [begin, end) of the whole text lie in one span. */
static bool in_spans(const struct encoding *encoding, size_t begin, size_t end) {
    size_t low = 0, high = encoding->span_count;
    while (low < high) { /* the last span that begins at or before `begin` */
        size_t middle = (low + high) / 2;
        if (encoding->spans[middle].begin <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && end <= encoding->spans[low - 1].end;
}

/* The next added token of one set whose spelling lies in a span. */
static bool next_in_spans(const struct encoding *encoding, struct text text, bool normalized, struct added_cursor *cursor,
                          struct added_match *match) {
    size_t offset = (size_t)(text.data - encoding->base);
    for (struct added_cursor before = *cursor; added_tokens_next(&encoding->tokenizer->added, normalized, false, text, cursor, match);
         before = *cursor) {
        if (in_spans(encoding, offset + match->text_begin, offset + cursor->at))
            return true;
        *cursor = (struct added_cursor){.at = match->text_begin + 1, .done = before.done}; /* another may begin inside it */
    }
    return false;
}

/* Cuts text, before any normaliser, at the added tokens in spans: of the raw set, then of the normalised one. */
static enum status encode_in_spans(struct encoding *encoding, struct text text, bool normalized, bool at_start, struct error *err) {
    struct added_cursor cursor = {0};
    struct added_match match;
    size_t done = 0;
    for (bool more = true; more;) {
        more = next_in_spans(encoding, text, normalized, &cursor, &match);
        size_t end = more ? match.begin : text.size_bytes;
        if (end > done) {
            struct text gap = {text.data + done, end - done};
            bool first = at_start && done == 0;
            TRY(normalized ? encode_with_added(encoding, gap, false, first, err) : encode_in_spans(encoding, gap, true, first, err));
        }
        if (more) {
            TRY(cancel_check(&encoding->cancel, err));
            TRY(token_list_append(encoding->out, match.id, err));
            done = match.end;
        }
    }
    return STATUS_OK;
}

static enum status append_all(struct token_list *out, const struct token_list *ids, struct error *err) {
    for (size_t i = 0; i < ids->count; i++)
        TRY(token_list_append(out, ids->ids[i], err));
    return STATUS_OK;
}

/* Runs a prepared encoding (tokenizer, plain, spans, cancel, out) over valid text. */
static enum status run_encoding(struct encoding *encoding, struct text text, unsigned flags, struct error *err) {
    const struct post_processor *post = &encoding->tokenizer->post;
    encoding->bpe = (struct bpe_work){.cancel = &encoding->cancel, .plain = encoding->plain};
    encoding->unigram = (struct unigram_work){.cancel = &encoding->cancel, .plain = encoding->plain};
    TRY(cancel_check(&encoding->cancel, err));
    TRY(pattern_matcher_create(&encoding->matcher, err));
    normalizer_work_init(&encoding->normalizer);
    pretokenize_work_init(&encoding->pretokenize);
    enum status status = flags & TOKENIZE_ADD_SPECIAL ? append_all(encoding->out, &post->before, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = encoding->spans ? encode_in_spans(encoding, text, false, true, err) : encode_with_added(encoding, text, false, true, err);
    if (status == STATUS_OK && (flags & TOKENIZE_ADD_SPECIAL))
        status = append_all(encoding->out, &post->behind, err);
    bpe_work_deinit(&encoding->bpe);
    unigram_work_deinit(&encoding->unigram);
    pretokenize_work_deinit(&encoding->pretokenize);
    normalizer_work_deinit(&encoding->normalizer);
    pattern_matcher_destroy(encoding->matcher);
    return status;
}

static enum status encode_valid(const struct tokenizer *tokenizer, struct text text, unsigned flags, const atomic_bool *cancel,
                                struct token_list *out, struct error *err) {
    struct encoding encoding = {
        .tokenizer = tokenizer, .plain = (flags & TOKENIZE_PLAIN) != 0, .cancel = {.flag = cancel, .calls = 255}, .out = out};
    return run_encoding(&encoding, text, flags, err);
}

enum status tokenizer_encode_spans(const struct tokenizer *tokenizer, struct text text, const struct token_span *spans, size_t span_count,
                                   const atomic_bool *cancel, struct token_list *out, struct error *err) {
    CHECK(utf8_valid_bytes(text) == text.size_bytes);
    if (span_count == 0)
        return encode_valid(tokenizer, text, TOKENIZE_PLAIN, cancel, out, err);
    struct encoding encoding = {.tokenizer = tokenizer,
                                .plain = true,
                                .base = text.data,
                                .spans = spans,
                                .span_count = span_count,
                                .cancel = {.flag = cancel, .calls = 255},
                                .out = out};
    return run_encoding(&encoding, text, 0, err);
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags, const atomic_bool *cancel,
                             struct token_list *out, struct error *err) {
    CHECK((flags & ~(unsigned)(TOKENIZE_ADD_SPECIAL | TOKENIZE_PLAIN)) == 0);
    if (utf8_valid_bytes(text) == text.size_bytes)
        return encode_valid(tokenizer, text, flags, cancel, out, err);
    struct byte_buffer repaired;
    byte_buffer_init(&repaired, SIZE_MAX / 4);
    enum status status = utf8_repair(text, &repaired, err);
    if (status == STATUS_OK)
        status = encode_valid(tokenizer, byte_buffer_text(&repaired), flags, cancel, out, err);
    byte_buffer_deinit(&repaired);
    return status;
}
