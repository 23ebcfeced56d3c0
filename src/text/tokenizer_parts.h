/*
 * tokenizer_parts: the inside of a tokenizer, and what its loaders (tokenizer.json, GGUF, SentencePiece) fill in.
 *
 * A loader fills the vocabulary, the model and the added tokens, hands the small rest as one JSON object to
 * tokenizer_finish, and is done.
 */
#pragma once

#include <jansson.h>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/json_scan.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/vocab.h"

enum tokenizer_model { TOKENIZER_NONE, TOKENIZER_BPE, TOKENIZER_UNIGRAM };

struct tokenizer {
    struct vocab vocab;
    enum tokenizer_model model;
    struct bpe bpe;
    struct unigram unigram;
    struct added_tokens added;
    struct normalizer *normalizer;
    struct pretokenizer *pretokenizer;
    struct decoder *decoder;
    struct post_processor post;
    uint32_t bos; /* VOCAB_NONE: none */
    struct token_list end_ids;
};

/* An empty tokenizer; it is never moved. */
MUST_CHECK enum status tokenizer_create(struct tokenizer **out, struct error *err);
/* Adds a token that is cut out of texts; its text may be that of a model's token, whose id it then has. */
MUST_CHECK enum status tokenizer_add_token(struct tokenizer *tokenizer, uint32_t id, struct text text, unsigned added_flags,
                                           struct error *err);
/*
 * The last step of a build: normalizer, pre_tokenizer, decoder and post_processor of `parts`, each missing or null allowed.
 * charsmap (may be empty) is SentencePiece's own normaliser.
 */
MUST_CHECK enum status tokenizer_finish(struct tokenizer *tokenizer, const json_t *parts, struct text charsmap, struct error *err);
/* Adds an id to the end ids, once; an id that is no token is ignored. */
MUST_CHECK enum status tokenizer_add_end(struct tokenizer *tokenizer, uint32_t id, struct error *err);

/* Loaders. `source` names the file in errors. The scan stands at the document's start. */
MUST_CHECK enum status tokenizer_load_hf(struct tokenizer *tokenizer, struct json_scan *scan, struct error *err);
/* BOS and end ids of tokenizer_config.json in the directory, when it is there. */
MUST_CHECK enum status tokenizer_load_hf_config(struct tokenizer *tokenizer, const char *directory, struct error *err);
MUST_CHECK enum status tokenizer_load_gguf(struct tokenizer *tokenizer, const struct catalogue *catalogue, struct error *err);
MUST_CHECK enum status tokenizer_load_spm(struct tokenizer *tokenizer, const char *path, struct error *err);

/* What the GGUF and SentencePiece loaders share: a vocabulary of pieces with scores and types, and the small rest that follows from it. */
enum piece_type { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_USER_DEFINED = 4, PIECE_UNUSED = 5, PIECE_BYTE = 6 };
struct pieces_options {
    bool unigram;
    bool add_space_prefix, remove_extra_spaces;
    bool add_bos, add_eos;
    uint32_t bos, eos, unknown; /* VOCAB_NONE: none */
    struct text charsmap;
};
/* types: [vocab->count] of piece_type. scores: [vocab->count], moves (also on failure). The vocabulary is filled, not yet indexed. */
MUST_CHECK enum status tokenizer_build_pieces(struct tokenizer *tokenizer, const uint8_t *types, float *scores,
                                              const struct pieces_options *options, struct error *err);
/* The JSON of a post-processor that adds BOS and EOS; VOCAB_NONE adds none. NULL when out of memory. */
json_t *tokenizer_post_json(uint32_t bos, uint32_t eos);
