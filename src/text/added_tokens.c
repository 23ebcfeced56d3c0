/* added_tokens: the longest entry at each position, by walking the sorted texts. */
#include "text/added_tokens.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

void added_tokens_deinit(struct added_tokens *added) {
    memory_free(added->tokens);
    memory_free(added->respelled);
    struct added_set *sets[] = {&added->raw, &added->normalized};
    for (size_t i = 0; i < 2; i++) {
        prefix_index_deinit(&sets[i]->index);
        vocab_deinit(&sets[i]->texts);
    }
    *added = (struct added_tokens){0};
}

static bool is_blank(struct text text) {
    for (size_t at = 0, length; at < text.size_bytes; at += length) {
        uint32_t c = utf8_at(text, at, &length);
        if (!unicode_is_whitespace(c) && c != 0x2581) /* the mark that stands for a space */
            return false;
    }
    return true;
}

enum status added_tokens_add(struct added_tokens *added, const struct vocab *vocab, uint32_t id, unsigned flags, struct error *err) {
    struct text text = vocab_text(vocab, id);
    if (text.size_bytes == 0)
        return STATUS_OK;
    if (added->count == added->capacity) {
        uint32_t capacity = added->capacity * 2 + 64;
        struct added_token *tokens = memory_resize(added->tokens, capacity, sizeof(*tokens));
        if (!tokens)
            return error_set(err, STATUS_NO_MEMORY, "no memory for %u added tokens", capacity);
        added->tokens = tokens;
        added->capacity = capacity;
    }
    if (!(flags & ADDED_SPECIAL) && is_blank(text))
        flags |= ADDED_BLANK;
    added->tokens[added->count++] = (struct added_token){.id = id, .flags = flags};
    return STATUS_OK;
}

struct build {
    struct added_tokens *added;
    const struct normalizer *normalizer;
    struct normalizer_work work;
    struct pattern_matcher *matcher;
};

/* Puts the text of entry `number` into its set. */
static enum status add_text(struct build *build, uint32_t number, struct text text, struct error *err) {
    bool normalized = build->added->tokens[number].flags & ADDED_NORMALIZED;
    struct added_set *set = normalized ? &build->added->normalized : &build->added->raw;
    struct text original = text;
    if (normalized)
        TRY(normalizer_run(build->normalizer, &build->work, build->matcher, text, &text, err));
    if (!text_equal(text, original))
        build->added->respelled[build->added->respelled_count++] = number;
    return text.size_bytes > 0 ? vocab_set(&set->texts, number, text, VOCAB_ADDED, err) : STATUS_OK;
}

static int compare_ids(const void *a, const void *b, void *context) {
    const struct added_token *tokens = context;
    uint32_t left = tokens[*(const uint32_t *)a].id, right = tokens[*(const uint32_t *)b].id;
    return (left > right) - (left < right);
}

enum status added_tokens_build(struct added_tokens *added, const struct vocab *vocab, const struct normalizer *normalizer,
                               struct error *err) {
    struct build build = {.added = added, .normalizer = normalizer};
    CHECK(added->raw.index.vocab == NULL);
    added->respelled = memory_alloc_array(added->count, sizeof(*added->respelled));
    if (!added->respelled)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %u added tokens", added->count);
    TRY(pattern_matcher_create(&build.matcher, err));
    normalizer_work_init(&build.work);
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < added->count && status == STATUS_OK; i++)
        status = add_text(&build, i, vocab_text(vocab, added->tokens[i].id), err);
    normalizer_work_deinit(&build.work);
    pattern_matcher_destroy(build.matcher);
    TRY(status);
    qsort_r(added->respelled, added->respelled_count, sizeof(*added->respelled), compare_ids, added->tokens);
    TRY(prefix_index_init(&added->raw.index, &added->raw.texts, VOCAB_ADDED, err));
    return prefix_index_init(&added->normalized.index, &added->normalized.texts, VOCAB_ADDED, err);
}

struct text added_tokens_spelling(const struct added_tokens *added, uint32_t id, struct text text) {
    uint32_t low = 0, high = added->respelled_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (added->tokens[added->respelled[middle]].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < added->respelled_count && added->tokens[added->respelled[low]].id == id;
    return found ? vocab_text(&added->normalized.texts, added->respelled[low]) : text;
}

/* The longest entry that text begins with, among those that count. */
static bool longest_entry(const struct added_tokens *added, const struct added_set *set, bool plain, struct text text, uint32_t *entry,
                          size_t *length) {
    struct prefix_walk walk = prefix_walk_start();
    bool found = false;
    for (uint32_t number; prefix_walk_next(&set->index, text, &walk, &number);) {
        if (plain && !(added->tokens[number].flags & ADDED_BLANK))
            continue;
        *entry = number;
        *length = walk.depth;
        found = true;
    }
    return found;
}

static bool is_single_word(struct text text, size_t begin, size_t end) {
    size_t length;
    if (begin > 0 && unicode_is_word(utf8_at(text, utf8_before(text, begin), &length)))
        return false;
    return end == text.size_bytes || !unicode_is_word(utf8_at(text, end, &length));
}

/* Where the white space that ends at `end` begins, but not before `limit`. */
static size_t space_before(struct text text, size_t end, size_t limit) {
    while (end > limit) {
        size_t length, last = utf8_before(text, end);
        if (!unicode_is_whitespace(utf8_at(text, last, &length)))
            break;
        end = last;
    }
    return end;
}

static size_t space_behind(struct text text, size_t begin) {
    for (size_t length; begin < text.size_bytes; begin += length)
        if (!unicode_is_whitespace(utf8_at(text, begin, &length)))
            break;
    return begin;
}

bool added_tokens_next(const struct added_tokens *added, bool normalized, bool plain, struct text text, struct added_cursor *cursor,
                       struct added_match *match) {
    const struct added_set *set = normalized ? &added->normalized : &added->raw;
    if (set->index.count == 0)
        return false;
    while (cursor->at < text.size_bytes) {
        uint8_t byte = (uint8_t)text.data[cursor->at];
        uint32_t entry;
        size_t begin = cursor->at, text_begin = begin, length;
        if (set->index.starts[byte] == set->index.starts[byte + 1] ||
            !longest_entry(added, set, plain, (struct text){text.data + begin, text.size_bytes - begin}, &entry, &length)) {
            cursor->at++;
            continue;
        }
        size_t end = cursor->at = begin + length;
        unsigned flags = added->tokens[entry].flags;
        if ((flags & ADDED_SINGLE_WORD) && !is_single_word(text, begin, end))
            continue;
        if (flags & ADDED_LSTRIP)
            begin = begin > cursor->done ? space_before(text, begin, cursor->done) : cursor->done;
        if (flags & ADDED_RSTRIP) /* up to done all is white space already */
            end = space_behind(text, end > cursor->done ? end : cursor->done);
        if (begin >= end) /* it lies in white space that the token before it took */
            continue;
        cursor->done = end;
        *match = (struct added_match){.begin = begin, .end = end, .text_begin = text_begin, .id = added->tokens[entry].id};
        return true;
    }
    return false;
}
