/*
 * tokenizer_hf: tokenizer.json, read in one walk. The vocabulary and the merges go from the file's bytes straight into their
 * tables; lists that stand before what they need (added_tokens come first, and need the vocabulary) are skipped and read
 * by a second look at their place. Only the small rest becomes a tree.
 */
#include <math.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "text/config.h"
#include "text/tokenizer_parts.h"

#define PART_BYTES_MAX (64u << 20) /* a normaliser with a character map has some 300 KiB */
#define NOWHERE UINT64_MAX

struct loading {
    struct tokenizer *tokenizer;
    struct json_scan *scan;
    json_t *parts;   /* normalizer, pre_tokenizer, post_processor, decoder */
    json_t *options; /* the model's small keys */
    double *scores;  /* unigram */
    uint32_t score_capacity;
    struct bpe_merges merges;
    bool has_vocab, has_list;     /* the vocabulary was read; it was a list (unigram) */
    uint32_t next_added;          /* the id of the next added token whose text is new */
    uint64_t merges_at, added_at; /* to be read later, or NOWHERE */
};

static void loading_deinit(struct loading *loading) {
    json_decref(loading->parts);
    json_decref(loading->options);
    memory_free(loading->scores);
    bpe_merges_deinit(&loading->merges);
}

/* Reads the value at the cursor as a tree into object[key]. */
static enum status read_tree(struct loading *loading, json_t *object, const char *key, struct error *err) {
    struct byte_buffer bytes;
    json_t *value = NULL;
    byte_buffer_init(&bytes, PART_BYTES_MAX);
    enum status status = byte_buffer_append(&bytes, "[", 1, err); /* jansson wants a container around a plain value */
    if (status == STATUS_OK)
        status = json_scan_raw(loading->scan, &bytes, err);
    if (status == STATUS_OK)
        status = byte_buffer_append(&bytes, "]", 1, err);
    if (status == STATUS_OK)
        status = json_parse(byte_buffer_text(&bytes), loading->scan->source, PART_BYTES_MAX, &value, err);
    byte_buffer_deinit(&bytes);
    if (status == STATUS_OK && json_object_set(object, key, json_array_get(value, 0)) != 0)
        status = error_set(err, STATUS_NO_MEMORY, "%s: no memory for \"%s\"", loading->scan->source, key);
    json_decref(value);
    return status;
}

/* ---- vocabulary ---- */

/* {"text": id, ...} */
static enum status read_vocab_object(struct loading *loading, struct error *err) {
    struct json_scan *scan = loading->scan;
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more;
        struct text text;
        uint32_t id = 0;
        TRY(json_scan_next_key(scan, &more, &text, err));
        if (!more)
            return STATUS_OK;
        TRY(json_scan_u32(scan, &id, err));
        TRY(vocab_set(&loading->tokenizer->vocab, id, text, VOCAB_MODEL, err));
    }
}

static enum status add_score(struct loading *loading, uint32_t id, double score, struct error *err) {
    if (id >= loading->score_capacity) {
        uint32_t capacity = loading->score_capacity + loading->score_capacity / 2 + 4096;
        double *scores = memory_resize(loading->scores, capacity, sizeof(*scores));
        if (!scores)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the scores of %u tokens", capacity);
        loading->scores = scores;
        loading->score_capacity = capacity;
    }
    loading->scores[id] = score;
    return STATUS_OK;
}

static double power_of_ten(int64_t exponent) {
    char text[32];
    double value = INFINITY;
    int length = snprintf(text, sizeof(text), "1e%lld", (long long)exponent);
    CHECK(length > 0 && (size_t)length < sizeof(text));
    (void)text_parse_f64((struct text){text, (size_t)length}, &value);
    return value;
}

/*
 * A score as the library's JSON reader makes it: all digits as one integer, then one multiplication or division by a power of
 * ten. The last bit may differ from the nearest double, and where two ways to cut a text are equally good it decides.
 */
static double parse_score(struct text number) {
    uint64_t digits = 0;
    int64_t exponent = 0, written = 0;
    bool negative = number.data[0] == '-', fraction = false, full = false;
    size_t at = negative ? 1 : 0;
    for (; at < number.size_bytes && (number.data[at] == '.' || (number.data[at] >= '0' && number.data[at] <= '9')); at++) {
        if (number.data[at] == '.') {
            fraction = true;
            continue;
        }
        uint64_t digit = (uint64_t)(number.data[at] - '0');
        full = full || digits > (UINT64_MAX - digit) / 10;
        if (!full)
            digits = digits * 10 + digit;
        exponent += (full ? 1 : 0) - (fraction ? 1 : 0);
    }
    if (at + 1 < number.size_bytes) { /* e */
        at += number.data[at + 1] == '+' ? 2 : 1;
        (void)text_parse_i64((struct text){number.data + at, number.size_bytes - at}, &written);
    }
    exponent += written;
    double value = (double)digits;
    for (; exponent < -308 && value != 0; exponent += 308)
        value /= 1e308;
    if (value != 0)
        value = exponent >= 0 ? value * power_of_ten(exponent) : value / power_of_ten(-exponent);
    return negative ? -value : value;
}

/* [["text", score], ...] */
static enum status read_vocab_list(struct loading *loading, struct error *err) {
    struct json_scan *scan = loading->scan;
    TRY(json_scan_enter(scan, JSON_KIND_ARRAY, err));
    for (uint32_t id = 0;; id++) {
        bool more;
        struct text text;
        TRY(json_scan_next_item(scan, &more, err));
        if (!more)
            return STATUS_OK;
        TRY(json_scan_enter(scan, JSON_KIND_ARRAY, err));
        TRY(json_scan_next_item(scan, &more, err));
        TRY(json_scan_string(scan, &text, err));
        TRY(vocab_set(&loading->tokenizer->vocab, id, text, VOCAB_MODEL, err));
        TRY(json_scan_next_item(scan, &more, err));
        TRY(json_scan_number(scan, &text, err));
        TRY(add_score(loading, id, parse_score(text), err));
        TRY(json_scan_next_item(scan, &more, err));
        if (more)
            return json_scan_fail(scan, "an entry of the vocabulary has more than a text and a score", err);
    }
}

static enum status read_vocab(struct loading *loading, struct error *err) {
    enum json_kind kind = JSON_KIND_OBJECT;
    if (loading->has_vocab)
        return json_scan_fail(loading->scan, "a second vocabulary", err);
    TRY(json_scan_kind(loading->scan, &kind, err));
    loading->has_list = kind == JSON_KIND_ARRAY;
    TRY(loading->has_list ? read_vocab_list(loading, err) : read_vocab_object(loading, err));
    loading->has_vocab = true;
    TRY(vocab_index(&loading->tokenizer->vocab, err));
    loading->next_added = loading->tokenizer->vocab.used;
    return STATUS_OK;
}

/* ---- merges ---- */

/* ["left", "right"]; the parts may hold spaces. */
static enum status read_merge_pair(struct loading *loading, struct text prefix, struct byte_buffer *left, struct error *err) {
    struct json_scan *scan = loading->scan;
    bool more;
    struct text part;
    byte_buffer_clear(left);
    TRY(json_scan_enter(scan, JSON_KIND_ARRAY, err));
    TRY(json_scan_next_item(scan, &more, err));
    TRY(json_scan_string(scan, &part, err));
    TRY(byte_buffer_append_text(left, part, err));
    TRY(json_scan_next_item(scan, &more, err));
    TRY(json_scan_string(scan, &part, err));
    TRY(bpe_merges_add(&loading->merges, &loading->tokenizer->vocab, byte_buffer_text(left), part, prefix, err));
    TRY(json_scan_next_item(scan, &more, err));
    return more ? json_scan_fail(scan, "a merge of more than two parts", err) : STATUS_OK;
}

static enum status read_merges(struct loading *loading, struct error *err) {
    struct json_scan *scan = loading->scan;
    struct text prefix;
    TRY(config_text(loading->options, "continuing_subword_prefix", (struct text){"", 0}, &prefix, err));
    struct byte_buffer left;
    byte_buffer_init(&left, 1u << 20);
    enum status status = json_scan_enter(scan, JSON_KIND_ARRAY, err);
    while (status == STATUS_OK) {
        bool more = false;
        struct text line;
        enum json_kind kind = JSON_KIND_STRING;
        status = json_scan_next_item(scan, &more, err);
        if (status != STATUS_OK || !more)
            break;
        status = json_scan_kind(scan, &kind, err);
        if (status == STATUS_OK && kind == JSON_KIND_ARRAY)
            status = read_merge_pair(loading, prefix, &left, err);
        else if (status == STATUS_OK && (status = json_scan_string(scan, &line, err)) == STATUS_OK)
            status = bpe_merges_add_line(&loading->merges, &loading->tokenizer->vocab, line, prefix, err);
    }
    byte_buffer_deinit(&left);
    return status;
}

/* ---- added tokens ---- */

/*
 * The id of an added token: the one that its text has already, else the next after the vocabulary and the added tokens so far.
 * The id that the file gives plays no part: so does the library that we follow, and files with gaps exist.
 */
static enum status add_token(struct loading *loading, struct text text, unsigned flags, struct error *err) {
    uint32_t id = loading->next_added;
    if (text.size_bytes == 0)
        return STATUS_OK;
    (void)vocab_find(&loading->tokenizer->vocab, text, &id);
    if (id >= loading->next_added)
        loading->next_added = id + 1;
    return tokenizer_add_token(loading->tokenizer, id, text, flags, err);
}

static enum status read_added_token(struct loading *loading, struct byte_buffer *content, struct error *err) {
    static const struct {
        const char *key;
        unsigned flag;
    } keys[] = {{"special", ADDED_SPECIAL},
                {"normalized", ADDED_NORMALIZED},
                {"single_word", ADDED_SINGLE_WORD},
                {"lstrip", ADDED_LSTRIP},
                {"rstrip", ADDED_RSTRIP}};
    struct json_scan *scan = loading->scan;
    unsigned flags = 0;
    byte_buffer_clear(content);
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more, value = false;
        struct text key, text;
        unsigned flag = 0;
        TRY(json_scan_next_key(scan, &more, &key, err));
        if (!more)
            break;
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            if (text_is(key, keys[i].key))
                flag = keys[i].flag;
        if (flag) {
            TRY(json_scan_bool(scan, &value, err));
            flags |= value ? flag : 0;
        } else if (text_is(key, "content")) {
            TRY(json_scan_string(scan, &text, err));
            TRY(byte_buffer_append_text(content, text, err));
        } else {
            TRY(json_scan_skip(scan, err));
        }
    }
    return add_token(loading, byte_buffer_text(content), flags, err);
}

static enum status read_added_tokens(struct loading *loading, struct error *err) {
    struct byte_buffer content;
    byte_buffer_init(&content, 1u << 20);
    enum status status = json_scan_enter(loading->scan, JSON_KIND_ARRAY, err);
    while (status == STATUS_OK) {
        bool more = false;
        status = json_scan_next_item(loading->scan, &more, err);
        if (status != STATUS_OK || !more)
            break;
        status = read_added_token(loading, &content, err);
    }
    byte_buffer_deinit(&content);
    return status;
}

/* ---- the model ---- */

static enum status read_model(struct loading *loading, struct error *err) {
    struct json_scan *scan = loading->scan;
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more;
        struct text key;
        char name[64];
        TRY(json_scan_next_key(scan, &more, &key, err));
        if (!more)
            return STATUS_OK;
        if (text_is(key, "vocab")) {
            if (text_is(config_type(loading->options), "WordPiece") || text_is(config_type(loading->options), "WordLevel"))
                return error_set(err, STATUS_UNSUPPORTED, "%s: %s tokenizers are not supported: they belong to encoders such as BERT",
                                 scan->source, config_type(loading->options).data);
            TRY(read_vocab(loading, err));
        } else if (text_is(key, "merges")) {
            if (loading->has_vocab && json_object_get(loading->options, "continuing_subword_prefix")) {
                TRY(read_merges(loading, err));
            } else {
                loading->merges_at = json_scan_offset(scan);
                TRY(json_scan_skip(scan, err));
            }
        } else if (key.size_bytes < sizeof(name) && !memchr(key.data, 0, key.size_bytes)) {
            memcpy(name, key.data, key.size_bytes);
            name[key.size_bytes] = 0;
            TRY(read_tree(loading, loading->options, name, err));
        } else {
            TRY(json_scan_skip(scan, err));
        }
    }
}

static enum status build_bpe(struct loading *loading, struct error *err) {
    struct tokenizer *tokenizer = loading->tokenizer;
    struct bpe_options options = {.unknown = VOCAB_NONE};
    struct text unknown, empty = {"", 0};
    TRY(config_bool(loading->options, "byte_fallback", false, &options.byte_fallback, err));
    TRY(config_bool(loading->options, "fuse_unk", false, &options.fuse_unknown, err));
    TRY(config_bool(loading->options, "ignore_merges", false, &options.ignore_merges, err));
    TRY(config_text(loading->options, "continuing_subword_prefix", empty, &options.subword_prefix, err));
    TRY(config_text(loading->options, "end_of_word_suffix", empty, &options.word_suffix, err));
    TRY(config_text(loading->options, "unk_token", empty, &unknown, err));
    if (unknown.size_bytes > 0 && !vocab_find_model(&tokenizer->vocab, unknown, &options.unknown))
        options.unknown = VOCAB_NONE;
    tokenizer->model = TOKENIZER_BPE;
    TRY(bpe_init(&tokenizer->bpe, &tokenizer->vocab, &options, err));
    return bpe_set_merges(&tokenizer->bpe, &loading->merges, err);
}

static enum status build_unigram(struct loading *loading, struct error *err) {
    struct tokenizer *tokenizer = loading->tokenizer;
    uint32_t unknown;
    bool byte_fallback;
    TRY(config_u32(loading->options, "unk_id", VOCAB_NONE, &unknown, err));
    TRY(config_bool(loading->options, "byte_fallback", false, &byte_fallback, err));
    if (unknown != VOCAB_NONE && unknown >= tokenizer->vocab.count)
        return error_set(err, STATUS_CORRUPT, "%s: unk_id %u is not in the vocabulary", loading->scan->source, unknown);
    tokenizer->model = TOKENIZER_UNIGRAM;
    double *scores = loading->scores;
    loading->scores = NULL;
    return unigram_init(&tokenizer->unigram, &tokenizer->vocab, scores, unknown, byte_fallback, err);
}

static enum status build_model(struct loading *loading, struct error *err) {
    struct text type = config_type(loading->options);
    const char *source = loading->scan->source;
    if (loading->merges_at != NOWHERE) {
        TRY(json_scan_seek(loading->scan, loading->merges_at, err));
        TRY(read_merges(loading, err));
    }
    if (text_is(type, "Unigram") || (type.size_bytes == 0 && loading->has_list))
        return loading->has_list ? build_unigram(loading, err)
                                 : error_set(err, STATUS_CORRUPT, "%s: the vocabulary of a Unigram model must be a list", source);
    if (text_is(type, "BPE") || type.size_bytes == 0)
        return loading->has_list ? error_set(err, STATUS_CORRUPT, "%s: the vocabulary of a BPE model must be an object", source)
                                 : build_bpe(loading, err);
    return error_set(err, STATUS_UNSUPPORTED, "%s: the tokenizer model \"%.*s\" is not supported", source, TEXT_ARGUMENTS(type));
}

/* ---- the document ---- */

static enum status read_document(struct loading *loading, struct error *err) {
    static const char *const parts[] = {"normalizer", "pre_tokenizer", "post_processor", "decoder"};
    struct json_scan *scan = loading->scan;
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more;
        struct text key;
        const char *part = NULL;
        TRY(json_scan_next_key(scan, &more, &key, err));
        if (!more)
            return json_scan_end(scan, err);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
            if (text_is(key, parts[i]))
                part = parts[i];
        if (part) {
            TRY(read_tree(loading, loading->parts, part, err));
        } else if (text_is(key, "model")) {
            TRY(read_model(loading, err));
        } else if (text_is(key, "added_tokens")) {
            loading->added_at = json_scan_offset(scan);
            TRY(json_scan_skip(scan, err));
        } else {
            TRY(json_scan_skip(scan, err)); /* version; truncation and padding are the caller's business */
        }
    }
}

static enum status load(struct loading *loading, struct error *err) {
    enum json_kind kind = JSON_KIND_WORD;
    TRY(read_document(loading, err));
    if (!loading->has_vocab)
        return error_set(err, STATUS_CORRUPT, "%s: the tokenizer has no vocabulary", loading->scan->source);
    if (loading->added_at != NOWHERE) {
        TRY(json_scan_seek(loading->scan, loading->added_at, err));
        TRY(json_scan_kind(loading->scan, &kind, err));
    }
    if (kind == JSON_KIND_ARRAY)
        TRY(read_added_tokens(loading, err));
    TRY(build_model(loading, err));
    return tokenizer_finish(loading->tokenizer, loading->parts, (struct text){"", 0}, err);
}

enum status tokenizer_load_hf(struct tokenizer *tokenizer, struct json_scan *scan, struct error *err) {
    CHECK(tokenizer->model == TOKENIZER_NONE);
    struct loading loading = {
        .tokenizer = tokenizer, .scan = scan, .parts = json_object(), .options = json_object(), .merges_at = NOWHERE, .added_at = NOWHERE};
    enum status status = STATUS_OK;
    if (!loading.parts || !loading.options)
        status = error_set(err, STATUS_NO_MEMORY, "%s: no memory to read it", scan->source);
    if (status == STATUS_OK)
        status = load(&loading, err);
    loading_deinit(&loading);
    return status;
}

/* ---- tokenizer_config.json ---- */

/* The text at the cursor, or the "content" of the object there; empty for null. */
static enum status read_token_name(struct json_scan *scan, struct byte_buffer *name, struct error *err) {
    enum json_kind kind = JSON_KIND_WORD;
    struct text text;
    byte_buffer_clear(name);
    TRY(json_scan_kind(scan, &kind, err));
    if (kind == JSON_KIND_STRING) {
        TRY(json_scan_string(scan, &text, err));
        return byte_buffer_append_text(name, text, err);
    }
    if (kind != JSON_KIND_OBJECT)
        return json_scan_skip(scan, err);
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more;
        TRY(json_scan_next_key(scan, &more, &text, err));
        if (!more)
            return STATUS_OK;
        if (!text_is(text, "content")) {
            TRY(json_scan_skip(scan, err));
            continue;
        }
        TRY(json_scan_string(scan, &text, err));
        TRY(byte_buffer_append_text(name, text, err));
    }
}

static enum status read_config(struct tokenizer *tokenizer, struct json_scan *scan, struct byte_buffer *name, struct error *err) {
    TRY(json_scan_enter(scan, JSON_KIND_OBJECT, err));
    for (;;) {
        bool more;
        struct text key;
        TRY(json_scan_next_key(scan, &more, &key, err));
        if (!more)
            return STATUS_OK;
        bool bos = text_is(key, "bos_token"), end = text_is(key, "eos_token") || text_is(key, "eot_token");
        if (!bos && !end) {
            TRY(json_scan_skip(scan, err));
            continue;
        }
        uint32_t id;
        TRY(read_token_name(scan, name, err));
        if (name->size_bytes == 0 || !vocab_find(&tokenizer->vocab, byte_buffer_text(name), &id))
            continue;
        if (bos)
            tokenizer->bos = id;
        else
            TRY(tokenizer_add_end(tokenizer, id, err));
    }
}

enum status tokenizer_load_hf_config(struct tokenizer *tokenizer, const char *directory, struct error *err) {
    char path[4096];
    struct json_scan scan;
    struct byte_buffer name;
    TRY(file_join(directory, "tokenizer_config.json", path, sizeof(path), err));
    if (!file_exists(path))
        return STATUS_OK;
    TRY(json_scan_open(&scan, path, err));
    byte_buffer_init(&name, 1u << 20);
    enum status status = read_config(tokenizer, &scan, &name, err);
    byte_buffer_deinit(&name);
    json_scan_close(&scan);
    return status;
}
