/* pretokenize: building the list of stages, and running a piece through them. */
#include "text/pretokenize.h"

#include "base/check.h"
#include "base/memory.h"
#include "text/config.h"
#include "text/split.h"
#include "text/unicode.h"

#define TEXT_BYTES_MAX (SIZE_MAX / 4)

enum stage_kind {
    STAGE_SPLIT,
    STAGE_WORDS,        /* runs of word characters and runs of others; white space vanishes */
    STAGE_PREFIX_SPACE, /* a space in front, unless there is one */
    STAGE_BYTE_LEVEL,   /* bytes as characters of the byte-level alphabet */
    STAGE_METASPACE,    /* spaces as another character, perhaps one in front */
};

enum prepend_scheme { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct stage {
    enum stage_kind kind;
    struct split_rule split; /* owns its pattern */
    enum prepend_scheme prepend;
    char replacement[UTF8_BYTES_MAX];
    size_t replacement_bytes;
};

struct pretokenizer {
    struct stage stages[PRETOKENIZE_STAGES_MAX];
    unsigned count;
};

/* ---- build ---- */

void pretokenizer_destroy(struct pretokenizer *pretokenizer) {
    if (!pretokenizer)
        return;
    for (unsigned i = 0; i < pretokenizer->count; i++)
        pattern_destroy(pretokenizer->stages[i].split.pattern);
    memory_free(pretokenizer);
}

static enum status add_stage(struct pretokenizer *pretokenizer, struct stage stage, struct error *err) {
    if (pretokenizer->count == PRETOKENIZE_STAGES_MAX) {
        pattern_destroy(stage.split.pattern);
        return error_set(err, STATUS_UNSUPPORTED, "more than %u pre-tokenizer stages", PRETOKENIZE_STAGES_MAX);
    }
    pretokenizer->stages[pretokenizer->count++] = stage;
    return STATUS_OK;
}

static enum status add_class(struct pretokenizer *pretokenizer, bool (*is_match)(uint32_t), enum split_behavior behavior,
                             struct error *err) {
    return add_stage(pretokenizer, (struct stage){.kind = STAGE_SPLIT, .split = {.is_match = is_match, .behavior = behavior}}, err);
}

static enum status parse_behavior(const json_t *config, enum split_behavior fallback, enum split_behavior *out, struct error *err) {
    static const char *const names[][2] = {{"Removed", "removed"},
                                           {"Isolated", "isolated"},
                                           {"MergedWithPrevious", "merged_with_previous"},
                                           {"MergedWithNext", "merged_with_next"},
                                           {"Contiguous", "contiguous"}};
    struct text name;
    *out = fallback;
    TRY(config_text(config, "behavior", (struct text){"", 0}, &name, err));
    if (name.size_bytes == 0)
        return STATUS_OK;
    for (int i = SPLIT_REMOVED; i <= SPLIT_CONTIGUOUS; i++)
        if (text_is(name, names[i][0]) || text_is(name, names[i][1])) {
            *out = (enum split_behavior)i;
            return STATUS_OK;
        }
    return error_set(err, STATUS_UNSUPPORTED, "the split behavior \"%.*s\" is unknown", TEXT_ARGUMENTS(name));
}

static enum status add_split(struct pretokenizer *pretokenizer, const json_t *config, struct error *err) {
    struct stage stage = {.kind = STAGE_SPLIT};
    TRY(parse_behavior(config, SPLIT_ISOLATED, &stage.split.behavior, err));
    TRY(config_bool(config, "invert", false, &stage.split.invert, err));
    TRY(config_pattern(json_object_get(config, "pattern"), &stage.split.pattern, err));
    return add_stage(pretokenizer, stage, err);
}

static enum status add_byte_level(struct pretokenizer *pretokenizer, const json_t *config, struct error *err) {
    bool prefix_space, use_regex;
    TRY(config_bool(config, "add_prefix_space", true, &prefix_space, err));
    TRY(config_bool(config, "use_regex", true, &use_regex, err));
    if (prefix_space)
        TRY(add_stage(pretokenizer, (struct stage){.kind = STAGE_PREFIX_SPACE}, err));
    if (use_regex) {
        struct stage stage = {.kind = STAGE_SPLIT, .split = {.behavior = SPLIT_ISOLATED}};
        TRY(pattern_compile(TEXT(PRETOKENIZE_GPT2), &stage.split.pattern, err));
        TRY(add_stage(pretokenizer, stage, err));
    }
    return add_stage(pretokenizer, (struct stage){.kind = STAGE_BYTE_LEVEL}, err);
}

static enum status add_metaspace(struct pretokenizer *pretokenizer, const json_t *config, struct error *err) {
    struct text replacement, scheme;
    bool add_prefix_space, split;
    TRY(config_text(config, "replacement", TEXT("\xE2\x96\x81"), &replacement, err));
    TRY(config_text(config, "prepend_scheme", TEXT("always"), &scheme, err));
    TRY(config_bool(config, "add_prefix_space", true, &add_prefix_space, err)); /* the older spelling */
    TRY(config_bool(config, "split", true, &split, err));
    struct stage stage = {.kind = STAGE_METASPACE, .prepend = PREPEND_ALWAYS, .replacement_bytes = replacement.size_bytes};
    size_t length = 0;
    if (replacement.size_bytes > 0)
        (void)utf8_at(replacement, 0, &length);
    if (length == 0 || length != replacement.size_bytes)
        return error_set(err, STATUS_CORRUPT, "Metaspace: \"replacement\" must be one character");
    memcpy(stage.replacement, replacement.data, replacement.size_bytes);
    if (text_is(scheme, "never") || !add_prefix_space)
        stage.prepend = PREPEND_NEVER;
    else if (text_is(scheme, "first"))
        stage.prepend = PREPEND_FIRST;
    else if (!text_is(scheme, "always"))
        return error_set(err, STATUS_UNSUPPORTED, "Metaspace: the prepend_scheme \"%.*s\" is unknown", TEXT_ARGUMENTS(scheme));
    TRY(add_stage(pretokenizer, stage, err));
    if (!split)
        return STATUS_OK;
    struct stage cut = {.kind = STAGE_SPLIT, .split = {.behavior = SPLIT_MERGED_WITH_NEXT}};
    TRY(pattern_literal(replacement, &cut.split.pattern, err));
    return add_stage(pretokenizer, cut, err);
}

static enum status add_delimiter(struct pretokenizer *pretokenizer, const json_t *config, struct error *err) {
    struct text delimiter;
    struct stage stage = {.kind = STAGE_SPLIT, .split = {.behavior = SPLIT_REMOVED}};
    TRY(config_text(config, "delimiter", (struct text){"", 0}, &delimiter, err));
    if (delimiter.size_bytes == 0)
        return error_set(err, STATUS_CORRUPT, "CharDelimiterSplit: \"delimiter\" must be one character");
    TRY(pattern_literal(delimiter, &stage.split.pattern, err));
    return add_stage(pretokenizer, stage, err);
}

static enum status add_stages(struct pretokenizer *pretokenizer, const json_t *config, unsigned depth, struct error *err) {
    struct text type = config_type(config);
    enum split_behavior behavior;
    if (text_is(type, "Sequence")) {
        size_t index;
        json_t *part;
        if (depth == CONFIG_DEPTH_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "pre-tokenizers nested deeper than %u", CONFIG_DEPTH_MAX);
        json_array_foreach(json_object_get(config, "pretokenizers"), index, part) TRY(add_stages(pretokenizer, part, depth + 1, err));
        return STATUS_OK;
    }
    if (text_is(type, "Split"))
        return add_split(pretokenizer, config, err);
    if (text_is(type, "ByteLevel"))
        return add_byte_level(pretokenizer, config, err);
    if (text_is(type, "Metaspace"))
        return add_metaspace(pretokenizer, config, err);
    if (text_is(type, "Digits")) {
        bool individual;
        TRY(config_bool(config, "individual_digits", false, &individual, err));
        return add_class(pretokenizer, unicode_is_numeric, individual ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, err);
    }
    if (text_is(type, "Punctuation")) {
        TRY(parse_behavior(config, SPLIT_ISOLATED, &behavior, err));
        return add_class(pretokenizer, unicode_is_punctuation, behavior, err);
    }
    if (text_is(type, "Whitespace"))
        return add_stage(pretokenizer, (struct stage){.kind = STAGE_WORDS}, err);
    if (text_is(type, "WhitespaceSplit"))
        return add_class(pretokenizer, unicode_is_whitespace, SPLIT_REMOVED, err);
    if (text_is(type, "BertPreTokenizer")) {
        TRY(add_class(pretokenizer, unicode_is_whitespace, SPLIT_REMOVED, err));
        return add_class(pretokenizer, unicode_is_punctuation, SPLIT_ISOLATED, err);
    }
    if (text_is(type, "CharDelimiterSplit"))
        return add_delimiter(pretokenizer, config, err);
    return error_set(err, STATUS_UNSUPPORTED, "the pre-tokenizer \"%.*s\" is not supported", TEXT_ARGUMENTS(type));
}

enum status pretokenizer_create(const json_t *config, struct pretokenizer **out, struct error *err) {
    *out = NULL;
    struct pretokenizer *pretokenizer = memory_alloc(sizeof(*pretokenizer));
    if (!pretokenizer)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a pre-tokenizer");
    enum status status = config && !json_is_null(config) ? add_stages(pretokenizer, config, 0, err) : STATUS_OK;
    if (status != STATUS_OK) {
        pretokenizer_destroy(pretokenizer);
        return status;
    }
    *out = pretokenizer;
    return STATUS_OK;
}

/* ---- run ---- */

void pretokenize_work_init(struct pretokenize_work *work) {
    for (unsigned i = 0; i < PRETOKENIZE_STAGES_MAX; i++)
        byte_buffer_init(&work->texts[i], TEXT_BYTES_MAX);
}

void pretokenize_work_deinit(struct pretokenize_work *work) {
    for (unsigned i = 0; i < PRETOKENIZE_STAGES_MAX; i++)
        byte_buffer_deinit(&work->texts[i]);
}

/* One piece on its way into stage `index`. */
struct piece {
    const struct pretokenizer *pretokenizer;
    const struct pretokenize_run *run;
    struct text text;
    unsigned index;
    bool at_start;
};

static enum status run_piece(struct piece piece, struct error *err);

/* Part of a piece that a split made: into the next stage. */
static enum status next_piece(void *context, size_t begin, size_t end, struct error *err) {
    struct piece piece = *(const struct piece *)context;
    piece.text = (struct text){piece.text.data + begin, end - begin};
    piece.at_start = piece.at_start && begin == 0;
    piece.index++;
    return run_piece(piece, err);
}

static enum status rewritten_piece(struct piece piece, const struct byte_buffer *text, struct error *err) {
    piece.text = byte_buffer_text(text);
    piece.index++;
    return run_piece(piece, err);
}

static enum status run_words(struct piece piece, struct error *err) {
    size_t begin = 0, length;
    int previous = 0; /* 0 white space, 1 word, 2 other */
    for (size_t at = 0; at < piece.text.size_bytes; at += length) {
        uint32_t c = utf8_at(piece.text, at, &length);
        int kind = unicode_is_word(c) ? 1 : unicode_is_whitespace(c) ? 0 : 2;
        if (kind == previous)
            continue;
        if (previous != 0)
            TRY(next_piece(&piece, begin, at, err));
        begin = at;
        previous = kind;
    }
    return previous != 0 ? next_piece(&piece, begin, piece.text.size_bytes, err) : STATUS_OK;
}

static enum status run_metaspace(const struct stage *stage, struct piece piece, struct byte_buffer *out, struct error *err) {
    struct text mark = {stage->replacement, stage->replacement_bytes}, text = piece.text;
    bool begins = text_starts_with(text, mark) || text_starts_with(text, TEXT(" "));
    if (!begins && (stage->prepend == PREPEND_ALWAYS || (stage->prepend == PREPEND_FIRST && piece.at_start)))
        TRY(byte_buffer_append_text(out, mark, err));
    while (text.size_bytes > 0) {
        const char *space = memchr(text.data, ' ', text.size_bytes);
        size_t plain = space ? (size_t)(space - text.data) : text.size_bytes;
        TRY(byte_buffer_append(out, text.data, plain, err));
        if (space)
            TRY(byte_buffer_append_text(out, mark, err));
        plain += space != NULL;
        text = (struct text){text.data + plain, text.size_bytes - plain};
    }
    return rewritten_piece(piece, out, err);
}

static enum status run_piece(struct piece piece, struct error *err) {
    if (piece.index == piece.pretokenizer->count) {
        TRY(cancel_check(piece.run->cancel, err));
        return piece.run->sink(piece.run->context, piece.text, err);
    }
    ASSERT(piece.text.size_bytes > 0);
    const struct stage *stage = &piece.pretokenizer->stages[piece.index];
    struct byte_buffer *out = &piece.run->work->texts[piece.index];
    switch (stage->kind) {
    case STAGE_SPLIT:
        return split_text(&stage->split, piece.run->matcher, piece.text, next_piece, &piece, err);
    case STAGE_WORDS:
        return run_words(piece, err);
    case STAGE_PREFIX_SPACE:
        if (piece.text.data[0] == ' ')
            return next_piece(&piece, 0, piece.text.size_bytes, err);
        byte_buffer_clear(out);
        TRY(byte_buffer_append_text(out, TEXT(" "), err));
        TRY(byte_buffer_append_text(out, piece.text, err));
        return rewritten_piece(piece, out, err);
    case STAGE_BYTE_LEVEL:
        byte_buffer_clear(out);
        TRY(byte_level_append(piece.text, out, err));
        return rewritten_piece(piece, out, err);
    case STAGE_METASPACE:
        byte_buffer_clear(out);
        return run_metaspace(stage, piece, out, err);
    }
    CHECK(false);
    return STATUS_INTERNAL;
}

enum status pretokenizer_run(const struct pretokenizer *pretokenizer, const struct pretokenize_run *run, struct text text, bool at_start,
                             struct error *err) {
    CHECK(run->sink && run->matcher && run->work && run->cancel);
    if (text.size_bytes == 0)
        return STATUS_OK;
    return run_piece((struct piece){.pretokenizer = pretokenizer, .run = run, .text = text, .at_start = at_start}, err);
}
