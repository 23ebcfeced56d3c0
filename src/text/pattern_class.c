/* pattern_class: parse a class into sets, combine the sets, write the result. */
#include "text/pattern_class.h"

#include "base/check.h"
#include "text/unicode.h"

#define NESTING_MAX 10u
#define CLASS_BYTES_MAX (4u << 20)

static char peek(const struct pattern_source *source, size_t ahead) { return pattern_source_peek(source, ahead); }

/* A set of characters: [body], [^body], or (group) an expression of its own that matches one character. */
struct class_set {
    struct byte_buffer body;
    bool negated, group, only_categories;
    uint32_t categories;
};

static void set_init(struct class_set *set) {
    *set = (struct class_set){.only_categories = true};
    byte_buffer_init(&set->body, CLASS_BYTES_MAX);
}

static void set_deinit(struct class_set *set) { byte_buffer_deinit(&set->body); }

static void set_move(struct class_set *to, struct class_set *from) {
    set_deinit(to);
    *to = *from;
    set_init(from);
}

static enum status set_write(const struct class_set *set, struct byte_buffer *out, struct error *err) {
    if (!set->group)
        TRY(byte_buffer_append_text(out, set->negated ? TEXT("[^") : TEXT("["), err));
    TRY(byte_buffer_append_text(out, byte_buffer_text(&set->body), err));
    return set->group ? STATUS_OK : byte_buffer_append_text(out, TEXT("]"), err);
}

/*
 * Writes the set as the complement of a body, where that needs no group; *done tells. Characters of pattern_additions count as
 * unassigned here, and fall out of the set.
 */
static enum status set_to_negated(struct class_set *set, bool *done, struct error *err) {
    *done = !set->group && (set->negated || (set->only_categories && set->categories));
    if (!*done || set->negated)
        return STATUS_OK;
    byte_buffer_clear(&set->body);
    set->negated = true;
    set->only_categories = false;
    return pattern_put_categories(PATTERN_CATEGORY_ALL & ~set->categories, &set->body, err);
}

/* Makes the set an expression of its own: prefix, set, suffix. */
static enum status set_to_group(struct class_set *set, struct text prefix, struct text suffix, struct error *err) {
    struct class_set group;
    set_init(&group);
    group.group = true;
    group.only_categories = false;
    enum status status = byte_buffer_append_text(&group.body, prefix, err);
    if (status == STATUS_OK)
        status = set_write(set, &group.body, err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(&group.body, suffix, err);
    set_move(set, &group);
    set_deinit(&group);
    return status;
}

static enum status set_complement(struct class_set *set, struct error *err) {
    if (set->group)
        return set_to_group(set, TEXT("(?:(?!"), TEXT(")(?s:.))"), err);
    set->negated = !set->negated;
    set->only_categories = false;
    return STATUS_OK;
}

/* left becomes left united with right. */
static enum status set_unite(struct class_set *left, struct class_set *right, struct error *err) {
    bool left_empty = !left->group && !left->negated && left->body.size_bytes == 0;
    if (left_empty) {
        set_move(left, right);
        return STATUS_OK;
    }
    if (!left->group && !right->group && !left->negated && !right->negated) {
        left->only_categories = left->only_categories && right->only_categories;
        left->categories |= right->categories;
        return byte_buffer_append_text(&left->body, byte_buffer_text(&right->body), err);
    }
    struct byte_buffer suffix;
    byte_buffer_init(&suffix, CLASS_BYTES_MAX);
    enum status status = byte_buffer_append_text(&suffix, TEXT("|"), err);
    if (status == STATUS_OK)
        status = set_write(right, &suffix, err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(&suffix, TEXT(")"), err);
    if (status == STATUS_OK)
        status = set_to_group(left, TEXT("(?:"), byte_buffer_text(&suffix), err);
    byte_buffer_deinit(&suffix);
    return status;
}

/* left becomes left intersected with right. */
static enum status set_intersect(struct class_set *left, struct class_set *right, struct error *err) {
    bool left_negated, right_negated = false;
    TRY(set_to_negated(left, &left_negated, err));
    if (left_negated)
        TRY(set_to_negated(right, &right_negated, err));
    if (left_negated && right_negated)
        return byte_buffer_append_text(&left->body, byte_buffer_text(&right->body), err);
    struct byte_buffer suffix;
    byte_buffer_init(&suffix, CLASS_BYTES_MAX);
    enum status status = byte_buffer_append_text(&suffix, TEXT(")"), err);
    if (status == STATUS_OK)
        status = set_write(right, &suffix, err);
    if (status == STATUS_OK)
        status = byte_buffer_append_text(&suffix, TEXT(")"), err);
    if (status == STATUS_OK)
        status = set_to_group(left, TEXT("(?:(?="), byte_buffer_text(&suffix), err);
    byte_buffer_deinit(&suffix);
    return status;
}

static enum status parse_class(struct pattern_source *source, struct class_set *set, unsigned depth, struct error *err);

/* "[:name:]" or "[:^name:]" at the cursor; *is_posix false: an ordinary nested class. */
static enum status parse_posix(struct pattern_source *source, struct class_set *item, bool *is_posix, struct error *err) {
    size_t begin = source->at + 2;
    const char *close = peek(source, 1) == ':' ? memmem(source->text.data + begin, source->text.size_bytes - begin, ":]", 2) : NULL;
    *is_posix = close != NULL;
    if (!close)
        return STATUS_OK;
    item->negated = peek(source, 2) == '^';
    item->only_categories = false;
    begin += item->negated;
    struct text name = {source->text.data + begin, (size_t)(close - source->text.data) - begin};
    TRY(pattern_put_posix(source, name, &item->body, &item->negated, err));
    source->at = begin + name.size_bytes + 2;
    return STATUS_OK;
}

/* One character of a class at the cursor, escaped or not. *is_character false: it was an escape for many, now in item. */
static enum status parse_character(struct pattern_source *source, struct class_set *item, uint32_t *character, bool *is_character,
                                   struct error *err) {
    struct pattern_meaning meaning;
    if (peek(source, 0) == '\\') {
        TRY(pattern_read_escape(source, &item->body, &meaning, err));
        *character = meaning.character;
        *is_character = meaning.character != PATTERN_NO_CHARACTER;
        item->negated = meaning.negated;
        item->categories = meaning.categories;
        item->only_categories = meaning.categories != 0 && !meaning.negated;
        return STATUS_OK;
    }
    size_t length;
    *character = utf8_at(source->text, source->at, &length);
    *is_character = true;
    source->at += length;
    item->only_categories = false;
    return pattern_put_character(*character, &item->body, err);
}

/* A member of a class: a nested class, a POSIX class, an escape, a character or a range. */
static enum status parse_member(struct pattern_source *source, struct class_set *item, unsigned depth, struct error *err) {
    if (peek(source, 0) == '[') {
        bool is_posix;
        TRY(parse_posix(source, item, &is_posix, err));
        return is_posix ? STATUS_OK : parse_class(source, item, depth + 1, err);
    }
    uint32_t first, last;
    bool is_character;
    TRY(parse_character(source, item, &first, &is_character, err));
    char next = peek(source, 1);
    bool range =
        is_character && peek(source, 0) == '-' && next != ']' && next != '[' && next != 0 && !(next == '&' && peek(source, 2) == '&');
    if (!range)
        return STATUS_OK;
    source->at++;
    byte_buffer_clear(&item->body);
    TRY(parse_character(source, item, &last, &is_character, err));
    if (!is_character || last < first)
        return pattern_source_fail(source, "a range that ends before it begins", err);
    byte_buffer_clear(&item->body);
    TRY(pattern_put_character(first, &item->body, err));
    TRY(byte_buffer_append_text(&item->body, TEXT("-"), err));
    return pattern_put_character(last, &item->body, err);
}

/* Members up to "&&" or the closing bracket, united. */
static enum status parse_union(struct pattern_source *source, struct class_set *set, unsigned depth, struct error *err) {
    for (bool first = true; first || peek(source, 0) != ']'; first = false) {
        if (source->at >= source->text.size_bytes)
            return pattern_source_fail(source, "[ without ]", err);
        if (peek(source, 0) == '&' && peek(source, 1) == '&')
            break;
        struct class_set item;
        set_init(&item);
        enum status status = parse_member(source, &item, depth, err);
        if (status == STATUS_OK)
            status = set_unite(set, &item, err);
        set_deinit(&item);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status parse_class(struct pattern_source *source, struct class_set *set, unsigned depth, struct error *err) {
    if (depth == NESTING_MAX)
        return pattern_source_fail(source, "classes nested deeper than 10", err);
    source->at++;
    bool negated = peek(source, 0) == '^';
    source->at += negated;
    TRY(parse_union(source, set, depth, err));
    while (peek(source, 0) == '&') {
        source->at += 2;
        struct class_set other;
        set_init(&other);
        enum status status = parse_union(source, &other, depth, err);
        if (status == STATUS_OK)
            status = set_intersect(set, &other, err);
        set_deinit(&other);
        TRY(status);
    }
    source->at++; /* ] */
    return negated ? set_complement(set, err) : STATUS_OK;
}

enum status pattern_class(struct pattern_source *source, struct byte_buffer *out, struct error *err) {
    struct class_set set;
    set_init(&set);
    enum status status = parse_class(source, &set, 0, err);
    if (status == STATUS_OK)
        status = set_write(&set, out, err);
    set_deinit(&set);
    return status;
}
