/*
 * decoder: the "decoder" of a tokenizer.json, as a machine that takes one token at a time.
 *
 * Model     Hugging Face's decoders map a list of strings to one string. Here each token becomes bytes by steps of its own, and what
 *           they do to the joined text (a space taken off the front, U+FFFD for bytes that are no character) is done on the
 *           stream. The text of many tokens is then the same whether they come one by one or together.
 * Differs   a run of byte tokens that is no UTF-8 gives one U+FFFD per broken part, not one per byte: only so can text be sent
 *           before the run is over.
 * Failure   a decoder that cannot be run token by token (WordPiece, CTC) is STATUS_UNSUPPORTED with its name.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"

struct decoder;

/* From the file's object; NULL or JSON null: tokens are joined with spaces. */
MUST_CHECK enum status decoder_create(const json_t *config, struct decoder **out, struct error *err);
void decoder_destroy(struct decoder *decoder);
/* Takes one space off the text that follows an added token: the encoder put it there. */
void decoder_strip_after_added(struct decoder *decoder);

struct decoder_token {
    struct text text;
    bool added; /* one of the added tokens */
};
struct decoder_state { /* zeroed: nothing decoded yet */
    bool started;      /* a token was given */
    bool text_begun;   /* a character was given */
    bool after_added;  /* the last token was an added one */
    bool space_waits;  /* of a word suffix: given before the next token */
    uint8_t stripped;  /* characters taken off the front */
    uint8_t pending_count;
    char pending[4]; /* bytes of an incomplete character */
};

/* Appends the text of a token that no later token can change. */
MUST_CHECK enum status decoder_push(const struct decoder *decoder, struct decoder_state *state, struct decoder_token token,
                                    struct byte_buffer *out, struct error *err);
/* Appends what was held back: an incomplete character is one U+FFFD. */
MUST_CHECK enum status decoder_finish(const struct decoder *decoder, struct decoder_state *state, struct byte_buffer *out,
                                      struct error *err);
/* Appends the bytes that a token stands for inside of a text. */
MUST_CHECK enum status decoder_bytes(const struct decoder *decoder, struct decoder_token token, struct byte_buffer *out, struct error *err);
