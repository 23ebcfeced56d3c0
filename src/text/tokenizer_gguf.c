/*
 * tokenizer_gguf: a tokenizer from GGUF metadata ("tokenizer.ggml.*").
 *
 * Three kinds: "gpt2" (byte-level BPE with merges; what the file calls `pre` names a published pre-tokenizer, gguf_pretokenizers.c),
 * "llama" and "t5" (SentencePiece pieces with scores), "gemma4" (SentencePiece text with merges). A whole tokenizer.json in
 * "tokenizer.huggingface.json" is preferred to all of them.
 */
#include <math.h>

#include "base/check.h"
#include "base/log.h"
#include "base/memory.h"
#include "text/gguf_pretokenizers.h"
#include "text/tokenizer_parts.h"

#define SPACE_MARK "\xE2\x96\x81"
#define TOKEN_BYTES_MAX 65535u
#define CHARSMAP_BYTES_MAX (64u << 20)

struct source {
    struct tokenizer *tokenizer;
    const struct catalogue *catalogue;
    struct text model;
    uint8_t *types; /* [count] of piece_type */
};

static const struct meta_value *find(const struct source *source, const char *name) {
    char key[128];
    int length = snprintf(key, sizeof(key), "tokenizer.ggml.%s", name);
    CHECK(length > 0 && (size_t)length < sizeof(key));
    return catalogue_meta(source->catalogue, key);
}

static bool read_bool(const struct source *source, const char *name, bool fallback) {
    bool value;
    return meta_bool(find(source, name), &value) ? value : fallback;
}

/* A token id; VOCAB_NONE when the key is missing or the id is no token. */
static uint32_t read_id(const struct source *source, const char *name) {
    uint64_t id;
    if (!meta_u64(find(source, name), &id) || id >= source->tokenizer->vocab.count)
        return VOCAB_NONE;
    return (uint32_t)id;
}

static enum status read_list(const struct source *source, const char *name, enum meta_type element, const struct meta_value **list,
                             struct error *err) {
    *list = find(source, name);
    bool good = *list && (*list)->type == META_ARRAY && ((*list)->element == element || (*list)->array.count == 0);
    return good ? STATUS_OK : error_set(err, STATUS_CORRUPT, "the key tokenizer.ggml.%s is missing or is no list of the right type", name);
}

/* ---- vocabulary ---- */

static enum status read_types(struct source *source, uint64_t count, struct error *err) {
    const struct meta_value *types = find(source, "token_type");
    source->types = memory_alloc_array((size_t)count, 1);
    if (!source->types)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %llu token types", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++) {
        int64_t type = PIECE_NORMAL;
        if (types && (!meta_array_i64(types, i, &type) || type < 0 || type > UINT8_MAX))
            return error_set(err, STATUS_CORRUPT, "tokenizer.ggml.token_type: item %llu is missing or no type", (unsigned long long)i);
        source->types[i] = (uint8_t)(type == 0 ? PIECE_NORMAL : type);
    }
    return STATUS_OK;
}

/* Converters write the spaces of a user's SentencePiece token as they are; in the vocabulary they are marks. */
static enum status mark_spaces(struct text text, struct byte_buffer *out, struct error *err) {
    byte_buffer_clear(out);
    for (size_t i = 0; i < text.size_bytes; i++)
        TRY(text.data[i] == ' ' ? byte_buffer_append(out, SPACE_MARK, 3, err) : byte_buffer_append(out, &text.data[i], 1, err));
    return STATUS_OK;
}

static unsigned flags_of(uint8_t type) {
    switch (type) {
    case PIECE_UNUSED:
        return VOCAB_UNUSED;
    case PIECE_BYTE:
        return VOCAB_MODEL | VOCAB_BYTE;
    default:
        return VOCAB_MODEL;
    }
}

static enum status read_vocab(struct source *source, bool sentencepiece, struct error *err) {
    const struct meta_value *tokens;
    struct byte_buffer marked;
    TRY(read_list(source, "tokens", META_TEXT, &tokens, err));
    if (tokens->array.count == 0 || tokens->array.count >= VOCAB_IDS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "tokenizer.ggml.tokens has %llu tokens", (unsigned long long)tokens->array.count);
    TRY(read_types(source, tokens->array.count, err));
    byte_buffer_init(&marked, 4 * TOKEN_BYTES_MAX);
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < tokens->array.count && status == STATUS_OK; i++) {
        struct text text;
        if (!meta_array_text(tokens, i, &text))
            status = error_set(err, STATUS_CORRUPT, "tokenizer.ggml.tokens: item %llu is no text", (unsigned long long)i);
        if (status == STATUS_OK && sentencepiece && source->types[i] == PIECE_USER_DEFINED) {
            status = mark_spaces(text, &marked, err);
            text = byte_buffer_text(&marked);
        }
        if (status == STATUS_OK)
            status = vocab_set(&source->tokenizer->vocab, (uint32_t)i, text, flags_of(source->types[i]), err);
    }
    byte_buffer_deinit(&marked);
    return status;
}

static enum status add_end_ids(struct source *source, struct error *err) {
    static const char *const names[] = {"eos_token_id", "eot_token_id", "eom_token_id"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        TRY(tokenizer_add_end(source->tokenizer, read_id(source, names[i]), err));
    return STATUS_OK;
}

/* ---- byte pair models with merges ---- */

static enum status add_tokens(struct source *source, struct error *err) {
    struct tokenizer *tokenizer = source->tokenizer;
    for (uint32_t id = 0; id < tokenizer->vocab.count; id++) {
        uint8_t type = source->types[id];
        bool special = type == PIECE_CONTROL || type == PIECE_UNKNOWN;
        if (!special && type != PIECE_USER_DEFINED)
            continue;
        struct text text = vocab_text(&tokenizer->vocab, id);
        TRY(vocab_set(&tokenizer->vocab, id, text, VOCAB_ADDED | (special ? VOCAB_SPECIAL : 0u), err));
        TRY(added_tokens_add(&tokenizer->added, &tokenizer->vocab, id, special ? ADDED_SPECIAL : 0, err));
    }
    return STATUS_OK;
}

static enum status read_merges(struct source *source, struct error *err) {
    const struct meta_value *list;
    struct bpe_merges merges = {0};
    TRY(read_list(source, "merges", META_TEXT, &list, err));
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < list->array.count && status == STATUS_OK; i++) {
        struct text line;
        status = meta_array_text(list, i, &line)
                     ? bpe_merges_add_line(&merges, &source->tokenizer->vocab, line, (struct text){"", 0}, err)
                     : error_set(err, STATUS_CORRUPT, "tokenizer.ggml.merges: item %llu is no text", (unsigned long long)i);
    }
    if (status == STATUS_OK)
        status = bpe_set_merges(&source->tokenizer->bpe, &merges, err);
    bpe_merges_deinit(&merges);
    return status;
}

static enum status build_bpe(struct source *source, const struct bpe_options *options, json_t *parts, bool add_bos, struct error *err) {
    struct tokenizer *tokenizer = source->tokenizer;
    tokenizer->model = TOKENIZER_BPE;
    TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocab, options, err));
    TRY(read_merges(source, err));
    TRY(add_tokens(source, err));
    tokenizer->bos = read_id(source, "bos_token_id");
    TRY(add_end_ids(source, err));
    uint32_t bos = read_bool(source, "add_bos_token", add_bos) ? tokenizer->bos : VOCAB_NONE;
    uint32_t eos = read_bool(source, "add_eos_token", false) ? read_id(source, "eos_token_id") : VOCAB_NONE;
    if (!parts || json_object_set_new(parts, "post_processor", tokenizer_post_json(bos, eos)) != 0)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
    return tokenizer_finish(tokenizer, parts, (struct text){"", 0}, err);
}

static enum status load_gpt2(struct source *source, struct error *err) {
    struct text pre = {"", 0};
    if (text_is(source->model, "gemma4"))
        pre = source->model;
    else
        (void)meta_text(find(source, "pre"), &pre);
    const struct gguf_pretokenizer *row = gguf_pretokenizer_find(pre);
    if (!row)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the pre-tokenizer \"%.*s\" of this GGUF is not known; put the model's tokenizer.json beside the file",
                         TEXT_ARGUMENTS(pre));
    if (pre.size_bytes == 0 || text_is(pre, "default"))
        log_line(LOG_WARNING,
                 "this GGUF does not say how its tokenizer splits text (tokenizer.ggml.pre); ids may differ from the model's own");
    TRY(read_vocab(source, row->sentencepiece, err));
    TRY(vocab_index(&source->tokenizer->vocab, err));
    struct bpe_options options = {.ignore_merges = row->ignore_merges,
                                  .byte_fallback = row->sentencepiece,
                                  .fuse_unknown = row->sentencepiece,
                                  .unknown = row->sentencepiece ? read_id(source, "unknown_token_id") : VOCAB_NONE};
    json_t *parts = gguf_pretokenizer_json(row);
    enum status status = build_bpe(source, &options, parts, row->add_bos, err);
    json_decref(parts);
    return status;
}

/* ---- SentencePiece models with scores ---- */

static enum status read_scores(struct source *source, float **out, struct error *err) {
    uint32_t count = source->tokenizer->vocab.count;
    const struct meta_value *list = find(source, "scores");
    *out = NULL;
    float *scores = memory_alloc_array(count, sizeof(*scores));
    if (!scores)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the scores of %u tokens", count);
    for (uint32_t i = 0; i < count; i++) {
        double score;
        if (!meta_array_f64(list, i, &score) || isnan(score)) {
            memory_free(scores);
            return error_set(err, STATUS_CORRUPT, "tokenizer.ggml.scores: item %u is missing or no number", i);
        }
        scores[i] = (float)score;
    }
    *out = scores;
    return STATUS_OK;
}

/* tokenizer.ggml.precompiled_charsmap: a list of bytes; missing: nothing. */
static enum status read_charsmap(const struct source *source, struct byte_buffer *out, struct error *err) {
    const struct meta_value *list = find(source, "precompiled_charsmap");
    if (!list || list->type != META_ARRAY)
        return STATUS_OK;
    for (uint64_t i = 0; i < list->array.count; i++) {
        int64_t value;
        if (!meta_array_i64(list, i, &value) || value < -128 || value > 255)
            return error_set(err, STATUS_CORRUPT, "tokenizer.ggml.precompiled_charsmap: item %llu is no byte", (unsigned long long)i);
        uint8_t byte = (uint8_t)(value & 0xFF);
        TRY(byte_buffer_append(out, &byte, 1, err));
    }
    return STATUS_OK;
}

static uint32_t find_unknown(const struct source *source) {
    uint32_t id = read_id(source, "unknown_token_id");
    for (uint32_t i = 0; i < source->tokenizer->vocab.count && id == VOCAB_NONE; i++)
        if (source->types[i] == PIECE_UNKNOWN)
            id = i;
    return id;
}

static enum status load_pieces(struct source *source, bool unigram, struct error *err) {
    struct byte_buffer charsmap;
    float *scores = NULL;
    TRY(read_vocab(source, true, err));
    TRY(read_scores(source, &scores, err));
    byte_buffer_init(&charsmap, CHARSMAP_BYTES_MAX);
    enum status status = read_charsmap(source, &charsmap, err);
    if (status == STATUS_OK) {
        struct pieces_options options = {.unigram = unigram,
                                         .add_space_prefix = read_bool(source, "add_space_prefix", true),
                                         .remove_extra_spaces = read_bool(source, "remove_extra_whitespaces", false),
                                         .add_bos = read_bool(source, "add_bos_token", !unigram),
                                         .add_eos = read_bool(source, "add_eos_token", unigram),
                                         .bos = read_id(source, "bos_token_id"),
                                         .eos = read_id(source, "eos_token_id"),
                                         .unknown = find_unknown(source),
                                         .charsmap = byte_buffer_text(&charsmap)};
        status = tokenizer_build_pieces(source->tokenizer, source->types, scores, &options, err);
    } else {
        memory_free(scores);
    }
    byte_buffer_deinit(&charsmap);
    return status == STATUS_OK ? add_end_ids(source, err) : status;
}

static enum status load_embedded_json(struct source *source, struct text document, struct error *err) {
    struct json_scan scan;
    json_scan_memory(&scan, document, "tokenizer.huggingface.json");
    enum status status = tokenizer_load_hf(source->tokenizer, &scan, err);
    json_scan_close(&scan);
    TRY(status);
    source->tokenizer->bos = read_id(source, "bos_token_id");
    return add_end_ids(source, err);
}

enum status tokenizer_load_gguf(struct tokenizer *tokenizer, const struct catalogue *catalogue, struct error *err) {
    struct source source = {.tokenizer = tokenizer, .catalogue = catalogue};
    struct text document;
    enum status status;
    if (!meta_text(find(&source, "model"), &source.model))
        return error_set(err, STATUS_NOT_FOUND, "the key tokenizer.ggml.model is missing: this GGUF has no tokenizer");
    if (text_is(source.model, "none"))
        return error_set(err, STATUS_NOT_FOUND, "tokenizer.ggml.model is none: this GGUF has no tokenizer");
    if (meta_text(catalogue_meta(catalogue, "tokenizer.huggingface.json"), &document))
        status = load_embedded_json(&source, document, err);
    else if (text_is(source.model, "gpt2") || text_is(source.model, "gemma4"))
        status = load_gpt2(&source, err);
    else if (text_is(source.model, "llama") || text_is(source.model, "t5"))
        status = load_pieces(&source, text_is(source.model, "t5"), err);
    else
        status =
            error_set(err, STATUS_UNSUPPORTED, "the tokenizer kind \"%.*s\" is not supported (gpt2, llama, gemma4 and t5 are)%s",
                      TEXT_ARGUMENTS(source.model), text_is(source.model, "bert") ? ": WordPiece belongs to encoders such as BERT" : "");
    memory_free(source.types);
    return status;
}
