/* normalizer: steps that read one of two buffers and write the other. */
#include "text/normalizer.h"

#include "base/check.h"
#include "base/memory.h"
#include "text/charsmap.h"
#include "text/config.h"
#include "text/unicode.h"
#include "text/unicode_forms.h"

#define STEPS_MAX 32u
#define TEXT_BYTES_MAX (SIZE_MAX / 4)
#define CHARSMAP_BYTES_MAX (64u << 20)

enum step_kind {
    STEP_FORM,
    STEP_LOWERCASE,
    STEP_STRIP,
    STEP_STRIP_ACCENTS,
    STEP_REPLACE,
    STEP_PREPEND,
    STEP_CHARSMAP,
    STEP_NMT,
    STEP_BYTE_LEVEL,
};

struct step {
    enum step_kind kind;
    enum unicode_form form;
    bool left, right; /* strip */
    struct pattern *pattern;
    char *content; /* replace, prepend */
    size_t content_bytes;
    struct charsmap *charsmap;
};

struct normalizer {
    struct step steps[STEPS_MAX];
    unsigned count;
};

/* ---- build ---- */

static void step_deinit(struct step *step) {
    pattern_destroy(step->pattern);
    memory_free(step->content);
    charsmap_destroy(step->charsmap);
}

void normalizer_destroy(struct normalizer *normalizer) {
    if (!normalizer)
        return;
    for (unsigned i = 0; i < normalizer->count; i++)
        step_deinit(&normalizer->steps[i]);
    memory_free(normalizer);
}

static enum status copy_content(const json_t *config, const char *key, struct step *step, struct error *err) {
    struct text content;
    TRY(config_text(config, key, (struct text){"", 0}, &content, err));
    step->content = memory_copy_text(content.data, content.size_bytes);
    step->content_bytes = content.size_bytes;
    return step->content ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for a normalizer");
}

static unsigned base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (unsigned)(at - digits) : 64;
}

static enum status create_charsmap(const json_t *config, struct charsmap **out, struct error *err) {
    struct text code;
    TRY(config_text(config, "precompiled_charsmap", (struct text){"", 0}, &code, err));
    struct byte_buffer bytes;
    byte_buffer_init(&bytes, CHARSMAP_BYTES_MAX);
    enum status status = byte_buffer_reserve(&bytes, code.size_bytes / 4 * 3 + 3, err);
    uint32_t bits = 0;
    unsigned bit_count = 0;
    for (size_t i = 0; i < code.size_bytes && code.data[i] != '=' && status == STATUS_OK; i++) {
        unsigned digit = base64_digit(code.data[i]);
        if (digit == 64) {
            status = error_set(err, STATUS_CORRUPT, "Precompiled: the map is not base64 at character %zu", i);
            break;
        }
        bits = (bits << 6 | digit) & 0xFFFFFF;
        bit_count += 6;
        if (bit_count < 8)
            continue;
        bit_count -= 8;
        char byte = (char)(bits >> bit_count & 0xFF);
        status = byte_buffer_append(&bytes, &byte, 1, err);
    }
    if (status == STATUS_OK)
        status = charsmap_create(byte_buffer_text(&bytes), out, err);
    byte_buffer_deinit(&bytes);
    return status;
}

/* Kinds without options. */
static bool simple_step(struct text type, struct step *step) {
    static const struct {
        const char *type;
        struct step step;
    } steps[] = {
        {"NFC", {.kind = STEP_FORM, .form = UNICODE_NFC}},
        {"NFD", {.kind = STEP_FORM, .form = UNICODE_NFD}},
        {"NFKC", {.kind = STEP_FORM, .form = UNICODE_NFKC}},
        {"NFKD", {.kind = STEP_FORM, .form = UNICODE_NFKD}},
        {"Lowercase", {.kind = STEP_LOWERCASE}},
        {"StripAccents", {.kind = STEP_STRIP_ACCENTS}},
        {"Nmt", {.kind = STEP_NMT}},
        {"ByteLevel", {.kind = STEP_BYTE_LEVEL}},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (text_is(type, steps[i].type)) {
            *step = steps[i].step;
            return true;
        }
    return false;
}

static enum status fill_step(const json_t *config, struct step *step, struct error *err) {
    struct text type = config_type(config);
    if (simple_step(type, step))
        return STATUS_OK;
    if (text_is(type, "Strip")) {
        step->kind = STEP_STRIP;
        TRY(config_bool(config, "strip_left", true, &step->left, err));
        return config_bool(config, "strip_right", true, &step->right, err);
    }
    if (text_is(type, "Replace")) {
        step->kind = STEP_REPLACE;
        TRY(config_pattern(json_object_get(config, "pattern"), &step->pattern, err));
        return copy_content(config, "content", step, err);
    }
    if (text_is(type, "Prepend")) {
        step->kind = STEP_PREPEND;
        return copy_content(config, "prepend", step, err);
    }
    if (text_is(type, "Precompiled")) {
        step->kind = STEP_CHARSMAP;
        return create_charsmap(config, &step->charsmap, err);
    }
    return error_set(err, STATUS_UNSUPPORTED, "the normalizer \"%.*s\" is not supported", TEXT_ARGUMENTS(type));
}

static enum status add_steps(struct normalizer *normalizer, const json_t *config, unsigned depth, struct error *err) {
    if (text_is(config_type(config), "Sequence")) {
        size_t index;
        json_t *part;
        if (depth == CONFIG_DEPTH_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "normalizers nested deeper than %u", CONFIG_DEPTH_MAX);
        json_array_foreach(json_object_get(config, "normalizers"), index, part) TRY(add_steps(normalizer, part, depth + 1, err));
        return STATUS_OK;
    }
    if (normalizer->count == STEPS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "more than %u normalizers", STEPS_MAX);
    return fill_step(config, &normalizer->steps[normalizer->count++], err);
}

enum status normalizer_create(const json_t *config, struct normalizer **out, struct error *err) {
    *out = NULL;
    struct normalizer *normalizer = memory_alloc(sizeof(*normalizer));
    if (!normalizer)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a normalizer");
    enum status status = config && !json_is_null(config) ? add_steps(normalizer, config, 0, err) : STATUS_OK;
    if (status != STATUS_OK) {
        normalizer_destroy(normalizer);
        return status;
    }
    *out = normalizer;
    return STATUS_OK;
}

enum status normalizer_add_charsmap(struct normalizer *normalizer, struct text bytes, struct error *err) {
    struct charsmap *map;
    if (normalizer->count == STEPS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "more than %u normalizers", STEPS_MAX);
    TRY(charsmap_create(bytes, &map, err));
    memmove(&normalizer->steps[1], &normalizer->steps[0], normalizer->count * sizeof(normalizer->steps[0]));
    normalizer->steps[0] = (struct step){.kind = STEP_CHARSMAP, .charsmap = map};
    normalizer->count++;
    return STATUS_OK;
}

/* ---- run ---- */

void normalizer_work_init(struct normalizer_work *work) {
    byte_buffer_init(&work->texts[0], TEXT_BYTES_MAX);
    byte_buffer_init(&work->texts[1], TEXT_BYTES_MAX);
}

void normalizer_work_deinit(struct normalizer_work *work) {
    byte_buffer_deinit(&work->texts[0]);
    byte_buffer_deinit(&work->texts[1]);
}

/* What one step gives: `text` when `out` was not written. */
struct step_result {
    struct text text;
    struct byte_buffer *out;
    bool written, front_removed;
};

static struct text strip(const struct step *step, struct text text) {
    size_t length;
    while (step->left && text.size_bytes > 0 && unicode_is_whitespace(utf8_at(text, 0, &length)))
        text = (struct text){text.data + length, text.size_bytes - length};
    while (step->right && text.size_bytes > 0) {
        size_t last = utf8_before(text, text.size_bytes);
        if (!unicode_is_whitespace(utf8_at(text, last, &length)))
            break;
        text.size_bytes = last;
    }
    return text;
}

/* Whether a replacement of text[0, end) begins where text does: it counts to the last character that it replaces. */
static bool moves_front(const struct step *step, struct text text, size_t end) {
    size_t length;
    if (end == 0)
        return false;
    (void)utf8_at(text, 0, &length);
    return step->content_bytes == 0 || length < end;
}

static enum status replace(const struct step *step, struct pattern_matcher *matcher, struct step_result *result, struct error *err) {
    struct pattern_cursor cursor = {0};
    struct pattern_match match = {0};
    size_t done = 0;
    for (;;) {
        TRY(pattern_next(step->pattern, matcher, result->text, &cursor, &match, err));
        if (!match.found)
            break;
        result->written = true;
        TRY(byte_buffer_append(result->out, result->text.data + done, match.begin - done, err));
        TRY(byte_buffer_append(result->out, step->content, step->content_bytes, err));
        result->front_removed = result->front_removed || (match.begin == 0 && moves_front(step, result->text, match.end));
        done = match.end;
    }
    return result->written ? byte_buffer_append(result->out, result->text.data + done, result->text.size_bytes - done, err) : STATUS_OK;
}

/* Characters that the Nmt step drops (0), makes a space (' ') or leaves. */
static uint32_t nmt_character(uint32_t c) {
    if ((c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
        return 0;
    if (c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
        c == 0x2581 || c == 0xFEFF || c == 0xFFFD)
        return ' ';
    return c;
}

/* Steps that look at one character at a time. */
static enum status map_characters(enum step_kind kind, struct step_result *result, struct error *err) {
    struct text text = result->text;
    result->written = true;
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        uint32_t c = utf8_at(text, at, &length), mapped[2] = {c, 0};
        unsigned count = 1;
        if (kind == STEP_LOWERCASE)
            count = unicode_lower(c, mapped);
        else if (kind == STEP_STRIP_ACCENTS)
            count = unicode_is_mark(c) ? 0 : 1;
        else if (kind == STEP_NMT && c != 0)
            count = (mapped[0] = nmt_character(c)) != 0;
        for (unsigned i = 0; i < count; i++)
            TRY(utf8_append(result->out, mapped[i], err));
        result->front_removed = result->front_removed || (at == 0 && count == 0);
    }
    return STATUS_OK;
}

static enum status run_step(const struct step *step, struct pattern_matcher *matcher, struct step_result *result, struct error *err) {
    struct text text = result->text;
    switch (step->kind) {
    case STEP_FORM:
        result->written = unicode_form_may_change(step->form, text);
        return result->written ? unicode_form_append(step->form, text, result->out, err) : STATUS_OK;
    case STEP_STRIP:
        result->text = strip(step, text);
        result->front_removed = result->text.data != text.data;
        return STATUS_OK;
    case STEP_REPLACE:
        return replace(step, matcher, result, err);
    case STEP_PREPEND:
        if (text.size_bytes == 0)
            return STATUS_OK;
        result->written = true;
        TRY(byte_buffer_append(result->out, step->content, step->content_bytes, err));
        return byte_buffer_append_text(result->out, text, err);
    case STEP_CHARSMAP:
        result->written = true;
        return charsmap_append(step->charsmap, text, result->out, &result->front_removed, err);
    case STEP_BYTE_LEVEL:
        result->written = true;
        return byte_level_append(text, result->out, err);
    case STEP_LOWERCASE:
    case STEP_STRIP_ACCENTS:
    case STEP_NMT:
        return map_characters(step->kind, result, err);
    }
    CHECK(false);
    return STATUS_INTERNAL;
}

enum status normalizer_run(const struct normalizer *normalizer, struct normalizer_work *work, struct pattern_matcher *matcher,
                           struct text text, struct text *out, struct error *err) {
    unsigned next = 0;
    work->front_removed = false;
    for (unsigned i = 0; i < normalizer->count; i++) {
        struct step_result result = {.text = text, .out = &work->texts[next]};
        byte_buffer_clear(result.out);
        TRY(run_step(&normalizer->steps[i], matcher, &result, err));
        text = result.text;
        if (result.written) {
            text = byte_buffer_text(result.out);
            next ^= 1;
        }
        work->front_removed = work->front_removed || result.front_removed;
    }
    *out = text;
    return STATUS_OK;
}
