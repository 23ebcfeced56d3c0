/*
 * tokenizer: text to token ids and back, with the ids of Hugging Face's tokenizers; built from tokenizer.json, GGUF metadata
 * or a SentencePiece tokenizer.model.
 *
 * Model      normalizer -> pre-tokenizer (the file's own expressions, run by PCRE2) -> model (BPE, unigram) -> post-processor;
 *            added tokens are cut out first, by their flags. Decoding is a byte machine, so that streams never show half a character.
 * Threads    immutable after open: encode and decode may run together, with an own tokenizer_stream each.
 * Limits     time O(n log n), no recursion on input length; `cancel` is polled on long inputs.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"
#include "format/catalogue.h"
#include "text/decoder.h"

struct tokenizer;

/* From a catalogue: GGUF metadata, or tokenizer.json / tokenizer.model in the model's directory. STATUS_NOT_FOUND: the model has none. */
MUST_CHECK enum status tokenizer_open(const struct catalogue *catalogue, struct tokenizer **out, struct error *err);
/* From a path: a directory, a tokenizer.json (any file name), a tokenizer.model, or a .gguf file. */
MUST_CHECK enum status tokenizer_open_path(const char *path, struct tokenizer **out, struct error *err);
void tokenizer_close(struct tokenizer *tokenizer);

enum tokenizer_flags {
    TOKENIZE_ADD_SPECIAL = 1, /* run the post-processor: BOS and so on, as the tokenizer says */
    TOKENIZE_PLAIN = 2,       /* added tokens are ordinary text: message contents, --plain. Those of white space alone stay tokens */
};

struct token_list { /* owned by the caller; token_list_deinit */
    uint32_t *ids;
    size_t count, capacity;
};
void token_list_deinit(struct token_list *list);
MUST_CHECK enum status token_list_append(struct token_list *list, uint32_t id, struct error *err);

/* Appends the ids of `text`. Invalid UTF-8 bytes become U+FFFD first (documented). cancel may be NULL. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *tokenizer, struct text text, unsigned flags, const atomic_bool *cancel,
                                        struct token_list *out, struct error *err);
struct token_span { /* bytes [begin, end) of a text */
    size_t begin, end;
};
/*
 * Appends the ids of a text in which added tokens count only where their spelling lies wholly inside one of the spans; all other text is
 * plain. The text is valid UTF-8; spans are in order and apart. Nothing is added in front or behind.
 */
MUST_CHECK enum status tokenizer_encode_spans(const struct tokenizer *tokenizer, struct text text, const struct token_span *spans,
                                              size_t span_count, const atomic_bool *cancel, struct token_list *out, struct error *err);
/* Appends the text of ids, as Hugging Face's decode(ids, skip_special_tokens) gives it. */
MUST_CHECK enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, bool skip_special,
                                        struct byte_buffer *out, struct error *err);

/*
 * Decoding id by id. push appends the text that no later id can change; finish gives the rest (an incomplete character as one
 * U+FFFD). All pushes and finish joined equal tokenizer_decode of all ids.
 */
struct tokenizer_stream {
    const struct tokenizer *tokenizer;
    bool skip_special;
    struct decoder_state state;
};
void tokenizer_stream_init(struct tokenizer_stream *stream, const struct tokenizer *tokenizer, bool skip_special);
MUST_CHECK enum status tokenizer_stream_push(struct tokenizer_stream *stream, uint32_t id, struct byte_buffer *out, struct error *err);
MUST_CHECK enum status tokenizer_stream_finish(struct tokenizer_stream *stream, struct byte_buffer *out, struct error *err);

const char *tokenizer_kind(const struct tokenizer *tokenizer);                    /* "byte-level BPE": for people, a literal */
uint32_t tokenizer_vocab_size(const struct tokenizer *tokenizer);                 /* highest id + 1 */
struct text tokenizer_token_text(const struct tokenizer *tokenizer, uint32_t id); /* as in the file; empty when there is none */
bool tokenizer_token_is_special(const struct tokenizer *tokenizer, uint32_t id);
/* The raw bytes an id stands for inside running text (" the", one byte of a character); empty for control tokens. For grammars, logprobs.
 */
MUST_CHECK enum status tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, struct byte_buffer *out, struct error *err);
bool tokenizer_find(const struct tokenizer *tokenizer, struct text token, uint32_t *id);
/* False when the files name none. */
bool tokenizer_bos(const struct tokenizer *tokenizer, uint32_t *id);
/* End-of-text and end-of-turn ids that the tokenizer's own files name. */
const uint32_t *tokenizer_end_ids(const struct tokenizer *tokenizer, size_t *count);
