/*
 * tokenizer_spm: SentencePiece's tokenizer.model, a protocol buffer of pieces, training and normaliser settings.
 *
 * The reader knows the wire format's four kinds of fields and the few field numbers that matter; every length is checked
 * against what is left. What the file does not say (whether BOS is added) comes from the tokenizer_config.json beside it.
 */
#include <math.h>

#include "base/byte_reader.h"
#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_parts.h"

#define FILE_BYTES_MAX (256u << 20)

enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

struct field {
    uint32_t number;
    unsigned kind;     /* 0 number, 1 eight bytes, 2 bytes, 5 four bytes */
    uint64_t value;    /* of kinds 0, 1, 5 */
    struct text bytes; /* of kind 2 */
};

static bool read_varint(struct byte_reader *reader, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (!byte_reader_u8(reader, &byte))
            return false;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* The next field; false at the end or when the bytes are no field (then *good is false). */
static bool next_field(struct byte_reader *reader, struct field *field, bool *good) {
    uint64_t head, size_bytes;
    uint32_t four;
    if (byte_reader_left(reader) == 0)
        return false;
    *field = (struct field){0};
    *good = read_varint(reader, &head) && head >> 3 > 0 && head >> 3 <= UINT32_MAX;
    field->number = (uint32_t)(head >> 3);
    field->kind = head & 7;
    if (!*good)
        return false;
    switch (field->kind) {
    case 0:
        *good = read_varint(reader, &field->value);
        break;
    case 1:
        *good = byte_reader_u64(reader, &field->value);
        break;
    case 2:
        *good = read_varint(reader, &size_bytes) && byte_reader_bytes(reader, size_bytes, &field->bytes);
        break;
    case 5:
        *good = byte_reader_u32(reader, &four);
        field->value = *good ? four : 0;
        break;
    default:
        *good = false;
    }
    return *good;
}

static struct byte_reader reader_of(struct text bytes) {
    return (struct byte_reader){.data = (const uint8_t *)bytes.data, .size_bytes = bytes.size_bytes};
}

struct spm {
    struct tokenizer *tokenizer;
    uint8_t *types;
    float *scores;
    uint32_t count, capacity;
    uint64_t model_type;
    uint64_t unknown, bos, eos; /* ids; those that do not fit 32 bits are none */
    struct pieces_options options;
};

static enum status reserve(struct spm *spm, struct error *err) {
    if (spm->count < spm->capacity)
        return STATUS_OK;
    uint32_t capacity = spm->capacity + spm->capacity / 2 + 1024;
    uint8_t *types = memory_resize(spm->types, capacity, sizeof(*types));
    if (types)
        spm->types = types;
    float *scores = memory_resize(spm->scores, capacity, sizeof(*scores));
    if (scores)
        spm->scores = scores;
    if (!types || !scores)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u pieces", capacity);
    spm->capacity = capacity;
    return STATUS_OK;
}

static enum status corrupt(const char *what, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "not a SentencePiece model: %s", what);
}

static enum status read_piece(struct spm *spm, struct text bytes, struct error *err) {
    struct byte_reader reader = reader_of(bytes);
    struct field field;
    struct text text = {"", 0};
    bool good = true;
    uint64_t type = PIECE_NORMAL;
    float score = 0;
    while (next_field(&reader, &field, &good)) {
        if (field.number == 1 && field.kind == 2) {
            text = field.bytes;
        } else if (field.number == 2 && field.kind == 5) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&score, &bits, sizeof(score));
        } else if (field.number == 3 && field.kind == 0) {
            type = field.value;
        }
    }
    if (!good || type < PIECE_NORMAL || type > PIECE_BYTE || isnan(score))
        return corrupt("a piece is damaged", err);
    TRY(reserve(spm, err));
    unsigned flags = type == PIECE_UNUSED ? VOCAB_UNUSED : type == PIECE_BYTE ? VOCAB_MODEL | VOCAB_BYTE : VOCAB_MODEL;
    TRY(vocab_set(&spm->tokenizer->vocab, spm->count, text, flags, err));
    spm->types[spm->count] = (uint8_t)type;
    spm->scores[spm->count++] = score;
    return STATUS_OK;
}

static enum status read_trainer(struct spm *spm, struct text bytes, struct error *err) {
    struct byte_reader reader = reader_of(bytes);
    struct field field;
    bool good = true;
    while (next_field(&reader, &field, &good)) {
        if (field.kind != 0)
            continue;
        if (field.number == 3)
            spm->model_type = field.value;
        else if (field.number == 40)
            spm->unknown = field.value;
        else if (field.number == 41)
            spm->bos = field.value;
        else if (field.number == 42)
            spm->eos = field.value;
    }
    return good ? STATUS_OK : corrupt("the trainer settings are damaged", err);
}

static enum status read_normalizer(struct spm *spm, struct text bytes, struct error *err) {
    struct byte_reader reader = reader_of(bytes);
    struct field field;
    bool good = true;
    while (next_field(&reader, &field, &good)) {
        if (field.number == 2 && field.kind == 2)
            spm->options.charsmap = field.bytes;
        else if (field.number == 3 && field.kind == 0)
            spm->options.add_space_prefix = field.value != 0;
        else if (field.number == 4 && field.kind == 0)
            spm->options.remove_extra_spaces = field.value != 0;
    }
    return good ? STATUS_OK : corrupt("the normaliser settings are damaged", err);
}

static enum status read_model(struct spm *spm, struct text bytes, struct error *err) {
    struct byte_reader reader = reader_of(bytes);
    struct field field;
    bool good = true;
    while (next_field(&reader, &field, &good)) {
        if (field.kind != 2)
            continue;
        if (field.number == 1)
            TRY(read_piece(spm, field.bytes, err));
        else if (field.number == 2)
            TRY(read_trainer(spm, field.bytes, err));
        else if (field.number == 3)
            TRY(read_normalizer(spm, field.bytes, err));
    }
    if (!good)
        return corrupt("the file is cut short or is something else", err);
    return spm->count > 0 ? STATUS_OK : corrupt("it has no pieces", err);
}

/* add_bos_token and add_eos_token of the tokenizer_config.json in the same folder. */
static enum status read_config(const char *path, struct pieces_options *options, struct error *err) {
    char config[4096];
    const char *slash = strrchr(path, '/');
    int length = snprintf(config, sizeof(config), "%.*stokenizer_config.json", slash ? (int)(slash - path) + 1 : 0, path);
    struct json_scan scan;
    if (length < 0 || (size_t)length >= sizeof(config) || !file_exists(config))
        return STATUS_OK;
    TRY(json_scan_open(&scan, config, err));
    enum status status = json_scan_enter(&scan, JSON_KIND_OBJECT, err);
    while (status == STATUS_OK) {
        bool more = false, value = false;
        struct text key;
        status = json_scan_next_key(&scan, &more, &key, err);
        if (status != STATUS_OK || !more)
            break;
        bool bos = text_is(key, "add_bos_token"), eos = text_is(key, "add_eos_token");
        status = bos || eos ? json_scan_bool(&scan, &value, err) : json_scan_skip(&scan, err);
        if (bos)
            options->add_bos = value;
        if (eos)
            options->add_eos = value;
    }
    json_scan_close(&scan);
    return status;
}

static uint32_t id_of(const struct spm *spm, uint64_t id) { return id < spm->count ? (uint32_t)id : VOCAB_NONE; }

static enum status build(struct spm *spm, const char *path, struct text bytes, struct error *err) {
    TRY(read_model(spm, bytes, err));
    if (spm->model_type != MODEL_UNIGRAM && spm->model_type != MODEL_BPE)
        return error_set(err, STATUS_UNSUPPORTED, "SentencePiece model type %llu is not supported (unigram and BPE are)",
                         (unsigned long long)spm->model_type);
    spm->options.unigram = spm->model_type == MODEL_UNIGRAM;
    spm->options.add_bos = !spm->options.unigram;
    spm->options.add_eos = spm->options.unigram;
    spm->options.unknown = id_of(spm, spm->unknown);
    spm->options.bos = id_of(spm, spm->bos);
    spm->options.eos = id_of(spm, spm->eos);
    TRY(read_config(path, &spm->options, err));
    float *scores = spm->scores;
    spm->scores = NULL;
    return tokenizer_build_pieces(spm->tokenizer, spm->types, scores, &spm->options, err);
}

enum status tokenizer_load_spm(struct tokenizer *tokenizer, const char *path, struct error *err) {
    CHECK(tokenizer->model == TOKENIZER_NONE);
    struct text bytes;
    TRY(file_read(path, FILE_BYTES_MAX, &bytes, err));
    struct spm spm = {.tokenizer = tokenizer,
                      .model_type = MODEL_UNIGRAM,
                      .unknown = 0,
                      .bos = 1,
                      .eos = 2,
                      .options = {.add_space_prefix = true, .remove_extra_spaces = true}};
    enum status status = build(&spm, path, bytes, err);
    memory_free(spm.types);
    memory_free(spm.scores);
    memory_free((char *)(uintptr_t)bytes.data);
    return status;
}
