/*
 * tokenizer_pieces: a tokenizer from SentencePiece's own data (pieces, scores, types), as GGUF and tokenizer.model hold it; built as
 * Hugging Face's converter does it, so that the ids are those of the tokenizer.json that it would write.
 */
#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

#define SPACE_MARK "\xE2\x96\x81"

json_t *tokenizer_post_json(uint32_t bos, uint32_t eos) {
    json_t *single = json_array(), *specials = json_object();
    int bad = !single || !specials;
    if (bos != VOCAB_NONE) {
        bad |= json_array_append_new(single, json_pack("{s:{s:s}}", "SpecialToken", "id", "bos"));
        bad |= json_object_set_new(specials, "bos", json_pack("{s:[I]}", "ids", (json_int_t)bos));
    }
    bad |= json_array_append_new(single, json_pack("{s:{s:s}}", "Sequence", "id", "A"));
    if (eos != VOCAB_NONE) {
        bad |= json_array_append_new(single, json_pack("{s:{s:s}}", "SpecialToken", "id", "eos"));
        bad |= json_object_set_new(specials, "eos", json_pack("{s:[I]}", "ids", (json_int_t)eos));
    }
    if (bad) {
        json_decref(single);
        json_decref(specials);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single, "special_tokens", specials);
}

/* Byte pair models: spaces are marks, and one may stand before every section of text. */
static json_t *bpe_parts(const struct pieces_options *options) {
    json_t *parts =
        json_pack("{s:{s:s, s:[{s:s, s:{s:s}, s:s}]}, s:{s:s, s:[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]}}", "normalizer", "type", "Sequence",
                  "normalizers", "type", "Replace", "pattern", "String", " ", "content", SPACE_MARK, "decoder", "type", "Sequence",
                  "decoders", "type", "Replace", "pattern", "String", SPACE_MARK, "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (!parts || !options->add_space_prefix)
        return parts;
    json_t *steps = json_object_get(json_object_get(parts, "normalizer"), "normalizers");
    json_t *decoders = json_object_get(json_object_get(parts, "decoder"), "decoders");
    int bad = json_array_insert_new(steps, 0, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE_MARK));
    bad |= json_array_append_new(decoders, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    if (bad) {
        json_decref(parts);
        return NULL;
    }
    return parts;
}

/* Unigram models: white space at the end and doubled spaces go, words begin with a mark. */
static json_t *unigram_parts(const struct pieces_options *options) {
    const char *scheme = options->add_space_prefix ? "always" : "never";
    json_t *steps = options->remove_extra_spaces
                        ? json_pack("[{s:s, s:b, s:b}, {s:s, s:{s:s}, s:s}]", "type", "Strip", "strip_left", 0, "strip_right", 1, "type",
                                    "Replace", "pattern", "Regex", " {2,}", "content", SPACE_MARK)
                        : json_array();
    if (!steps)
        return NULL;
    return json_pack("{s:{s:s, s:o}, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}}", "normalizer", "type", "Sequence", "normalizers", steps,
                     "pre_tokenizer", "type", "Metaspace", "replacement", SPACE_MARK, "prepend_scheme", scheme, "decoder", "type",
                     "Metaspace", "replacement", SPACE_MARK, "prepend_scheme", scheme);
}

/* The score that a piece merges with. Only pieces of text have one; of the user's, those of white space come first of all. */
static float merge_score(enum piece_type type, struct text text, float score) {
    if (type == PIECE_NORMAL)
        return score;
    if (type != PIECE_USER_DEFINED || text.size_bytes == 0)
        return -INFINITY;
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        uint32_t c = utf8_at(text, at, &length);
        if (c != 0x2581 && !unicode_is_whitespace(c))
            return -INFINITY;
    }
    return INFINITY;
}

static enum status build_bpe(struct tokenizer *tokenizer, const uint8_t *types, float *scores, const struct pieces_options *options,
                             struct error *err) {
    struct vocab *vocab = &tokenizer->vocab;
    struct bpe_options bpe = {.byte_fallback = true, .fuse_unknown = true, .unknown = options->unknown};
    tokenizer->model = TOKENIZER_BPE;
    for (uint32_t id = 0; id < vocab->count; id++)
        scores[id] = merge_score((enum piece_type)types[id], vocab_text(vocab, id), scores[id]);
    TRY(bpe_init(&tokenizer->bpe, vocab, &bpe, err));
    return bpe_set_scores(&tokenizer->bpe, scores, err);
}

static enum status build_unigram(struct tokenizer *tokenizer, const float *scores, const struct pieces_options *options,
                                 struct error *err) {
    const struct vocab *vocab = &tokenizer->vocab;
    tokenizer->model = TOKENIZER_UNIGRAM;
    double *wide = memory_alloc_array(vocab->count, sizeof(*wide));
    if (!wide)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the scores of %u tokens", vocab->count);
    for (uint32_t id = 0; id < vocab->count; id++)
        wide[id] = (double)scores[id];
    return unigram_init(&tokenizer->unigram, vocab, wide, options->unknown, true, err);
}

static enum status add_tokens(struct tokenizer *tokenizer, const uint8_t *types, struct error *err) {
    struct vocab *vocab = &tokenizer->vocab;
    for (uint32_t id = 0; id < vocab->count; id++) {
        bool special = types[id] == PIECE_CONTROL || types[id] == PIECE_UNKNOWN;
        if (!special && types[id] != PIECE_USER_DEFINED)
            continue;
        TRY(vocab_set(vocab, id, vocab_text(vocab, id), VOCAB_ADDED | (special ? VOCAB_SPECIAL : 0u), err));
        TRY(added_tokens_add(&tokenizer->added, vocab, id, special ? ADDED_SPECIAL : 0, err));
    }
    return STATUS_OK;
}

static enum status finish(struct tokenizer *tokenizer, const struct pieces_options *options, struct error *err) {
    uint32_t bos = options->add_bos ? options->bos : VOCAB_NONE, eos = options->add_eos ? options->eos : VOCAB_NONE;
    json_t *parts = options->unigram ? unigram_parts(options) : bpe_parts(options);
    json_t *post = tokenizer_post_json(bos, eos);
    enum status status = STATUS_OK;
    if (!parts || !post || json_object_set(parts, "post_processor", post) != 0)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
    if (status == STATUS_OK)
        status = tokenizer_finish(tokenizer, parts, options->charsmap, err);
    json_decref(parts);
    json_decref(post);
    if (status == STATUS_OK && options->add_space_prefix && !options->unigram)
        decoder_strip_after_added(tokenizer->decoder);
    return status;
}

enum status tokenizer_build_pieces(struct tokenizer *tokenizer, const uint8_t *types, float *scores, const struct pieces_options *options,
                                   struct error *err) {
    CHECK(tokenizer->model == TOKENIZER_NONE && types && scores);
    enum status status = vocab_index(&tokenizer->vocab, err);
    if (status == STATUS_OK)
        status = add_tokens(tokenizer, types, err);
    if (status == STATUS_OK)
        status = options->unigram ? build_unigram(tokenizer, scores, options, err) : build_bpe(tokenizer, types, scores, options, err);
    memory_free(scores);
    TRY(status);
    tokenizer->bos = options->bos;
    if (options->eos != VOCAB_NONE)
        TRY(tokenizer_add_end(tokenizer, options->eos, err));
    return finish(tokenizer, options, err);
}
