/* decoder: steps per token, then the stream of characters. */
#include "text/decoder.h"

#include "base/check.h"
#include "base/memory.h"
#include "text/config.h"
#include "text/pattern.h"
#include "text/unicode.h"

#define STEPS_MAX 16u
#define TOKEN_BYTES_MAX (1u << 20)
#define STRIP_MAX 200u

enum step_kind {
    STEP_REPLACE,
    STEP_METASPACE,
    STEP_BYTE_FALLBACK,
    STEP_BYTE_LEVEL,
    STEP_STRIP, /* per token */
    STEP_WORD_SUFFIX,
};

struct step {
    enum step_kind kind;
    struct pattern *pattern; /* replace */
    char *content;           /* replace: the new text; word suffix: the suffix */
    size_t content_bytes;
    uint32_t character; /* metaspace, strip */
    uint32_t start, stop;
    bool keeps_first; /* metaspace: the first token's spaces stay */
};

struct decoder {
    struct step steps[STEPS_MAX];
    unsigned count;
    bool fused;       /* while building: what follows works on the joined text */
    bool joins_words; /* no decoder: a space between tokens */
    bool strip_after_added;
    uint32_t front_count, front_character; /* taken off the front of the text */
};

/* ---- build ---- */

void decoder_destroy(struct decoder *decoder) {
    if (!decoder)
        return;
    for (unsigned i = 0; i < decoder->count; i++) {
        pattern_destroy(decoder->steps[i].pattern);
        memory_free(decoder->steps[i].content);
    }
    memory_free(decoder);
}

static enum status copy_content(const json_t *config, const char *key, struct text fallback, struct step *step, struct error *err) {
    struct text content;
    TRY(config_text(config, key, fallback, &content, err));
    if (content.size_bytes > UINT16_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "decoder: \"%s\" is longer than 65535 bytes", key);
    step->content = memory_copy_text(content.data, content.size_bytes);
    step->content_bytes = content.size_bytes;
    return step->content ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for a decoder");
}

static enum status read_character(const json_t *config, const char *key, struct text fallback, uint32_t *character, struct error *err) {
    struct text text;
    size_t length = 0;
    TRY(config_text(config, key, fallback, &text, err));
    if (text.size_bytes > 0)
        *character = utf8_at(text, 0, &length);
    return length > 0 && length == text.size_bytes ? STATUS_OK
                                                   : error_set(err, STATUS_CORRUPT, "decoder: \"%s\" must be one character", key);
}

static enum status fill_replace(const struct decoder *decoder, const json_t *config, struct step *step, struct error *err) {
    step->kind = STEP_REPLACE;
    TRY(config_pattern(json_object_get(config, "pattern"), &step->pattern, err));
    TRY(copy_content(config, "content", (struct text){"", 0}, step, err));
    struct text literal = pattern_literal_text(step->pattern);
    size_t length = 0;
    if (literal.size_bytes > 0)
        (void)utf8_at(literal, 0, &length);
    if (decoder->fused && length != literal.size_bytes)
        return error_set(err, STATUS_UNSUPPORTED, "decoder: a Replace of more than one character after Fuse is not supported");
    return STATUS_OK;
}

static enum status fill_metaspace(const json_t *config, struct step *step, struct error *err) {
    struct text scheme;
    bool prefix_space;
    step->kind = STEP_METASPACE;
    TRY(read_character(config, "replacement", TEXT("\xE2\x96\x81"), &step->character, err));
    TRY(config_text(config, "prepend_scheme", TEXT("always"), &scheme, err));
    TRY(config_bool(config, "add_prefix_space", true, &prefix_space, err));
    step->keeps_first = text_is(scheme, "never") || !prefix_space;
    return STATUS_OK;
}

/* Before Fuse a Strip works on each token, behind it on the text. */
static enum status add_strip(struct decoder *decoder, const json_t *config, struct step *step, bool *is_step, struct error *err) {
    step->kind = STEP_STRIP;
    TRY(read_character(config, "content", TEXT(" "), &step->character, err));
    TRY(config_u32(config, "start", 0, &step->start, err));
    TRY(config_u32(config, "stop", 0, &step->stop, err));
    *is_step = !decoder->fused;
    if (*is_step)
        return STATUS_OK;
    if (step->stop > 0 || step->start > STRIP_MAX || decoder->front_count > 0)
        return error_set(err, STATUS_UNSUPPORTED, "decoder: this Strip after Fuse is not supported");
    decoder->front_count = step->start;
    decoder->front_character = step->character;
    return STATUS_OK;
}

static enum status fill_step(struct decoder *decoder, const json_t *config, struct step *step, bool *is_step, struct error *err) {
    struct text type = config_type(config);
    *is_step = true;
    if (text_is(type, "Fuse")) {
        decoder->fused = true;
        *is_step = false;
        return STATUS_OK;
    }
    if (text_is(type, "Strip"))
        return add_strip(decoder, config, step, is_step, err);
    if (text_is(type, "Replace"))
        return fill_replace(decoder, config, step, err);
    if (text_is(type, "Metaspace") && !decoder->fused)
        return fill_metaspace(config, step, err);
    if (text_is(type, "ByteFallback") && !decoder->fused) {
        step->kind = STEP_BYTE_FALLBACK;
        return STATUS_OK;
    }
    if (text_is(type, "ByteLevel") && !decoder->fused) {
        step->kind = STEP_BYTE_LEVEL;
        decoder->fused = true;
        return STATUS_OK;
    }
    if (text_is(type, "BPEDecoder") && !decoder->fused) {
        step->kind = STEP_WORD_SUFFIX;
        return copy_content(config, "suffix", TEXT("</w>"), step, err);
    }
    return error_set(err, STATUS_UNSUPPORTED, "the decoder \"%.*s\" is not supported%s", TEXT_ARGUMENTS(type),
                     decoder->fused ? " after Fuse or ByteLevel" : "");
}

static enum status add_steps(struct decoder *decoder, const json_t *config, unsigned depth, struct error *err) {
    if (text_is(config_type(config), "Sequence")) {
        size_t index;
        json_t *part;
        if (depth == CONFIG_DEPTH_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "decoders nested deeper than %u", CONFIG_DEPTH_MAX);
        json_array_foreach(json_object_get(config, "decoders"), index, part) TRY(add_steps(decoder, part, depth + 1, err));
        return STATUS_OK;
    }
    if (decoder->count == STEPS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "more than %u decoders", STEPS_MAX);
    bool is_step = true;
    decoder->count++;
    TRY(fill_step(decoder, config, &decoder->steps[decoder->count - 1], &is_step, err));
    if (!is_step)
        decoder->steps[--decoder->count] = (struct step){0};
    return STATUS_OK;
}

enum status decoder_create(const json_t *config, struct decoder **out, struct error *err) {
    *out = NULL;
    struct decoder *decoder = memory_alloc(sizeof(*decoder));
    if (!decoder)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a decoder");
    decoder->joins_words = !config || json_is_null(config);
    enum status status = decoder->joins_words ? STATUS_OK : add_steps(decoder, config, 0, err);
    if (status != STATUS_OK) {
        decoder_destroy(decoder);
        return status;
    }
    *out = decoder;
    return STATUS_OK;
}

void decoder_strip_after_added(struct decoder *decoder) { decoder->strip_after_added = true; }

/* ---- steps of one token ---- */

static enum status replace(const struct step *step, struct text text, struct byte_buffer *out, struct error *err) {
    struct pattern_matcher *matcher = NULL;
    struct pattern_cursor cursor = {0};
    struct pattern_match match = {.found = true};
    size_t done = 0;
    if (pattern_literal_text(step->pattern).size_bytes == 0)
        TRY(pattern_matcher_create(&matcher, err));
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = pattern_next(step->pattern, matcher, text, &cursor, &match, err);
        if (status != STATUS_OK || !match.found)
            break;
        status = byte_buffer_append(out, text.data + done, match.begin - done, err);
        if (status == STATUS_OK)
            status = byte_buffer_append(out, step->content, step->content_bytes, err);
        done = match.end;
    }
    if (status == STATUS_OK)
        status = byte_buffer_append(out, text.data + done, text.size_bytes - done, err);
    pattern_matcher_destroy(matcher);
    return status;
}

static enum status metaspace(const struct step *step, struct text text, bool first, struct byte_buffer *out, struct error *err) {
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        if (utf8_at(text, at, &length) != step->character)
            TRY(byte_buffer_append(out, text.data + at, length, err));
        else if (!first || step->keeps_first)
            TRY(byte_buffer_append(out, " ", 1, err));
    }
    return STATUS_OK;
}

/* A token with a character that is not in the alphabet stands for its own bytes. */
static enum status byte_level(struct text text, struct byte_buffer *out, struct error *err) {
    size_t before = out->size_bytes;
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        uint8_t byte;
        if (!byte_level_byte(utf8_at(text, at, &length), &byte)) {
            out->size_bytes = before;
            return byte_buffer_append_text(out, text, err);
        }
        TRY(byte_buffer_append(out, &byte, 1, err));
    }
    return STATUS_OK;
}

static struct text strip(const struct step *step, struct text text) {
    size_t length;
    for (uint32_t i = 0; i < step->start && text.size_bytes > 0 && utf8_at(text, 0, &length) == step->character; i++)
        text = (struct text){text.data + length, text.size_bytes - length};
    for (uint32_t i = 0; i < step->stop && text.size_bytes > 0; i++) {
        size_t last = utf8_before(text, text.size_bytes);
        if (utf8_at(text, last, &length) != step->character)
            break;
        text.size_bytes = last;
    }
    return text;
}

/* "<0x0A>" */
static bool fallback_byte(struct text text, char *byte) {
    if (text.size_bytes != 6 || !text_starts_with(text, TEXT("<0x")) || text.data[5] != '>')
        return false;
    unsigned value = 0;
    for (size_t i = 3; i < 5; i++) {
        char c = text.data[i];
        if (c >= '0' && c <= '9')
            value = value * 16 + (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            value = value * 16 + (unsigned)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *byte = (char)value;
    return true;
}

/* Word suffixes become spaces; one at the end waits for the next token. */
static enum status word_suffix(const struct step *step, struct text text, bool *space_waits, struct byte_buffer *out, struct error *err) {
    struct text suffix = {step->content, step->content_bytes};
    *space_waits = suffix.size_bytes > 0 && text_ends_with(text, suffix);
    if (*space_waits)
        text.size_bytes -= suffix.size_bytes;
    for (;;) {
        const char *at =
            suffix.size_bytes > 0 && text.size_bytes > 0 ? memmem(text.data, text.size_bytes, suffix.data, suffix.size_bytes) : NULL;
        if (!at)
            return byte_buffer_append_text(out, text, err);
        size_t plain = (size_t)(at - text.data);
        TRY(byte_buffer_append(out, text.data, plain, err));
        TRY(byte_buffer_append(out, " ", 1, err));
        text = (struct text){at + suffix.size_bytes, text.size_bytes - plain - suffix.size_bytes};
    }
}

/* Runs the steps; the result is in *text, which may point into buffers. */
static enum status run_steps(const struct decoder *decoder, struct text *text, bool first, bool *space_waits, struct byte_buffer buffers[2],
                             struct error *err) {
    unsigned next = 0;
    for (unsigned i = 0; i < decoder->count; i++) {
        const struct step *step = &decoder->steps[i];
        struct byte_buffer *out = &buffers[next];
        char byte;
        byte_buffer_clear(out);
        if (step->kind == STEP_STRIP) {
            *text = strip(step, *text);
            continue;
        }
        if (step->kind == STEP_BYTE_FALLBACK) {
            if (!fallback_byte(*text, &byte))
                continue;
            TRY(byte_buffer_append(out, &byte, 1, err));
            *text = byte_buffer_text(out);
            return STATUS_OK;
        }
        if (step->kind == STEP_REPLACE)
            TRY(replace(step, *text, out, err));
        else if (step->kind == STEP_METASPACE)
            TRY(metaspace(step, *text, first, out, err));
        else if (step->kind == STEP_BYTE_LEVEL)
            TRY(byte_level(*text, out, err));
        else
            TRY(word_suffix(step, *text, space_waits, out, err));
        *text = byte_buffer_text(out);
        next ^= 1;
    }
    return STATUS_OK;
}

/* ---- the stream ---- */

static enum status give_character(const struct decoder *decoder, struct decoder_state *state, struct text character, uint32_t code_point,
                                  struct byte_buffer *out, struct error *err) {
    if (!state->text_begun && state->stripped < decoder->front_count && code_point == decoder->front_character) {
        state->stripped++;
        return STATUS_OK;
    }
    state->text_begun = true;
    return byte_buffer_append_text(out, character, err);
}

/* Gives the characters that pending bytes and these complete. */
static enum status give_bytes(const struct decoder *decoder, struct decoder_state *state, struct text bytes, struct byte_buffer *out,
                              struct error *err) {
    while (bytes.size_bytes > 0) {
        char *pending = state->pending;
        size_t length, held = state->pending_count, taken = 0;
        uint32_t code_point = UNICODE_REPLACEMENT;
        const char *from = bytes.data;
        size_t available = bytes.size_bytes;
        if (held > 0) { /* one byte more decides */
            ASSERT(held < sizeof(state->pending));
            pending[held] = bytes.data[0];
            from = pending;
            available = held + 1;
        }
        enum utf8_state got = utf8_read(from, available, &length, &code_point);
        if (got == UTF8_INCOMPLETE) {
            ASSERT(available < sizeof(state->pending));
            memmove(pending, from, available);
            state->pending_count = (uint8_t)available;
            taken = held > 0 ? 1 : available;
        } else {
            struct text character = got == UTF8_COMPLETE ? (struct text){from, length} : TEXT(UTF8_REPLACEMENT);
            TRY(give_character(decoder, state, character, code_point, out, err));
            state->pending_count = 0;
            taken = length - held; /* a broken part that was pending takes nothing of the new bytes */
        }
        bytes = (struct text){bytes.data + taken, bytes.size_bytes - taken};
    }
    return STATUS_OK;
}

enum status decoder_push(const struct decoder *decoder, struct decoder_state *state, struct decoder_token token, struct byte_buffer *out,
                         struct error *err) {
    struct byte_buffer buffers[2];
    struct text text = token.text;
    bool first = !state->started, space_waits = false;
    byte_buffer_init(&buffers[0], TOKEN_BYTES_MAX);
    byte_buffer_init(&buffers[1], TOKEN_BYTES_MAX);
    enum status status = run_steps(decoder, &text, first, &space_waits, buffers, err);
    if (status == STATUS_OK && (state->space_waits || (decoder->joins_words && !first)))
        status = give_bytes(decoder, state, TEXT(" "), out, err);
    if (status == STATUS_OK && decoder->strip_after_added && state->after_added && !token.added && text_starts_with(text, TEXT(" ")))
        text = (struct text){text.data + 1, text.size_bytes - 1};
    if (status == STATUS_OK)
        status = give_bytes(decoder, state, text, out, err);
    byte_buffer_deinit(&buffers[0]);
    byte_buffer_deinit(&buffers[1]);
    state->started = true;
    state->after_added = token.added;
    state->space_waits = space_waits;
    return status;
}

enum status decoder_finish(const struct decoder *decoder, struct decoder_state *state, struct byte_buffer *out, struct error *err) {
    if (state->pending_count == 0)
        return STATUS_OK;
    state->pending_count = 0;
    return give_character(decoder, state, TEXT(UTF8_REPLACEMENT), UNICODE_REPLACEMENT, out, err);
}

enum status decoder_bytes(const struct decoder *decoder, struct decoder_token token, struct byte_buffer *out, struct error *err) {
    struct byte_buffer buffers[2];
    struct text text = token.text;
    bool space_waits = false;
    byte_buffer_init(&buffers[0], TOKEN_BYTES_MAX);
    byte_buffer_init(&buffers[1], TOKEN_BYTES_MAX);
    enum status status = run_steps(decoder, &text, false, &space_waits, buffers, err);
    if (status == STATUS_OK && decoder->joins_words)
        status = byte_buffer_append(out, " ", 1, err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(out, text, err);
    if (status == STATUS_OK && space_waits)
        status = byte_buffer_append(out, " ", 1, err);
    byte_buffer_deinit(&buffers[0]);
    byte_buffer_deinit(&buffers[1]);
    return status;
}
