/* pattern_class: parse a class into sets, combine the sets, write the result. */
#include "text/pattern_class.h"

#include <ctype.h>

#include "base/check.h"
#include "text/unicode.h"

#define NESTING_MAX 10u
#define PLAIN_CHARACTER UINT32_MAX
#define CLASS_BYTES_MAX (4u << 20)

/* General categories: a partition of all characters, so that the complement of some is the union of the others. */
static const char categories[][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                                     "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
#define CATEGORY_COUNT (sizeof(categories) / sizeof(categories[0]))
#define CATEGORY_ALL ((1u << CATEGORY_COUNT) - 1)

#define PROPERTIES_WORD "alphabetic,M,Nd,Pc"

struct property_name {
    const char *name; /* lower case, without ' ', '_' and '-' */
    const char *items;
};
static const struct property_name long_categories[] = {
    {"letter", "L"}, {"uppercaseletter", "Lu"}, {"lowercaseletter", "Ll"}, {"titlecaseletter", "Lt"}, {"modifierletter", "Lm"},
    {"otherletter", "Lo"}, {"mark", "M"}, {"nonspacingmark", "Mn"}, {"spacingmark", "Mc"}, {"enclosingmark", "Me"}, {"number", "N"},
    {"decimalnumber", "Nd"}, {"letternumber", "Nl"}, {"othernumber", "No"}, {"punctuation", "P"}, {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"}, {"openpunctuation", "Ps"}, {"closepunctuation", "Pe"}, {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"}, {"otherpunctuation", "Po"}, {"symbol", "S"}, {"mathsymbol", "Sm"}, {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"}, {"othersymbol", "So"}, {"separator", "Z"}, {"spaceseparator", "Zs"}, {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"}, {"other", "C"}, {"control", "Cc"}, {"format", "Cf"}, {"surrogate", "Cs"}, {"privateuse", "Co"},
    {"unassigned", "Cn"},
};
/* '^' in front: everything but those. Then properties ("L", "Nd", "alphabetic") with commas between, or '=' and plain class items. */
static const struct property_name posix_classes[] = {
    {"alnum", "alphabetic,Nd"}, {"alpha", "alphabetic"}, {"ascii", "=\\x{0}-\\x{7f}"}, {"any", "^="}, {"blank", "=\\p{Zs}\\t"},
    {"cntrl", "Cc"}, {"digit", "Nd"}, {"graph", "L,M,N,P,S,Cf,Co"}, {"lower", "lowercase"}, {"print", "L,M,N,P,S,Cf,Co,Zs"},
    {"punct", "P,S"}, {"space", "whitespace"}, {"upper", "uppercase"}, {"word", PROPERTIES_WORD}, {"xdigit", "=0-9a-fA-F"},
};
static const char *const binary_properties[] = {
    "alphabetic", "uppercase", "lowercase", "whitespace", "math", "hexdigit", "asciihexdigit", "idstart", "idcontinue", "xidstart",
    "xidcontinue", "dash", "diacritic", "emoji", "emojipresentation", "emojimodifier", "emojimodifierbase", "emojicomponent",
    "extendedpictographic", "extender", "ideographic", "joincontrol", "quotationmark", "radical", "softdotted", "terminalpunctuation",
    "unifiedideograph", "variationselector", "defaultignorablecodepoint", "graphemebase", "graphemeextend", "cased", "caseignorable",
};

enum status pattern_source_fail(const struct pattern_source *source, const char *what, struct error *err) {
    return error_set(err, STATUS_UNSUPPORTED, "the expression %.400s, byte %zu: %s", source->text.data, source->at, what);
}

static char peek(const struct pattern_source *source, size_t ahead) {
    size_t at = source->at + ahead;
    return at < source->text.size_bytes ? source->text.data[at] : 0;
}

/* What an escape or POSIX bracket stands for. */
struct meaning {
    bool negated;
    uint32_t character;  /* or PLAIN_CHARACTER: a class */
    uint32_t categories; /* all members, when general categories say it; else 0 */
};

static uint32_t category_mask(const char *name, size_t name_bytes) {
    uint32_t mask = 0;
    if (name_bytes == 1 || name_bytes == 2)
        for (size_t i = 0; i < CATEGORY_COUNT; i++)
            if (name[0] == categories[i][0] && (name_bytes == 1 || name[1] == categories[i][1]))
                mask |= 1u << i;
    return mask;
}

static const char *find_property(const struct property_name *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].items;
    return NULL;
}

static enum status put_additions(const char *name, struct byte_buffer *out, struct error *err) {
    for (size_t i = 0; i < pattern_additions_count; i++)
        if (strcmp(pattern_additions[i].name, name) == 0)
            return byte_buffer_append_text(out, text_of(pattern_additions[i].items), err);
    return STATUS_OK;
}

/* One or two letters of a general category. */
static enum status put_category(const char *name, uint32_t mask, struct byte_buffer *out, struct error *err) {
    TRY(byte_buffer_printf(out, err, "\\p{%s}", name));
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        if (mask >> i & 1)
            TRY(put_additions(categories[i], out, err));
    return STATUS_OK;
}

/* Properties with commas between them. */
static enum status put_properties(const char *names, struct byte_buffer *out, struct error *err) {
    while (*names) {
        char name[32];
        size_t length = strcspn(names, ",");
        ASSERT(length > 0 && length < sizeof(name));
        memcpy(name, names, length);
        name[length] = 0;
        uint32_t mask = category_mask(name, length);
        if (mask) {
            TRY(put_category(name, mask, out, err));
        } else {
            TRY(byte_buffer_printf(out, err, "\\p{%s}", name));
            TRY(put_additions(name, out, err));
        }
        names += length + (names[length] == ',');
    }
    return STATUS_OK;
}

enum status pattern_put_word(struct byte_buffer *items, struct error *err) { return put_properties(PROPERTIES_WORD, items, err); }

static enum status put_posix(const char *items, struct byte_buffer *out, struct meaning *meaning, struct error *err) {
    if (items[0] == '^') {
        meaning->negated = !meaning->negated;
        items++;
    }
    return items[0] == '=' ? byte_buffer_append_text(out, text_of(items + 1), err) : put_properties(items, out, err);
}

/* "Lu", "Han", "White_Space", "^L" of \p{...}. */
static enum status put_property(const struct pattern_source *source, struct text name, struct byte_buffer *out, struct meaning *meaning,
                                struct error *err) {
    char plain[64];
    size_t length = 0;
    if (name.size_bytes > 0 && name.data[0] == '^') {
        meaning->negated = !meaning->negated;
        name = (struct text){name.data + 1, name.size_bytes - 1};
    }
    for (size_t i = 0; i < name.size_bytes; i++) {
        char c = name.data[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (!isalnum((unsigned char)c) || length + 1 == sizeof(plain))
            return pattern_source_fail(source, "an unknown property name", err);
        plain[length++] = (char)tolower((unsigned char)c);
    }
    plain[length] = 0;
    char category[3] = {(char)toupper((unsigned char)plain[0]), length > 1 ? plain[1] : 0, 0};
    const char *long_name = find_property(long_categories, sizeof(long_categories) / sizeof(long_categories[0]), plain);
    if (long_name)
        memcpy(category, long_name, strlen(long_name) + 1);
    meaning->categories = length <= 2 || long_name ? category_mask(category, strlen(category)) : 0;
    if (meaning->categories)
        return put_category(category, meaning->categories, out, err);
    const char *posix = find_property(posix_classes, sizeof(posix_classes) / sizeof(posix_classes[0]), plain);
    if (posix)
        return put_posix(posix, out, meaning, err);
    bool binary = false;
    for (size_t i = 0; i < sizeof(binary_properties) / sizeof(binary_properties[0]); i++)
        binary = binary || strcmp(binary_properties[i], plain) == 0;
    TRY(byte_buffer_printf(out, err, "\\p{%s%s}", binary ? "" : "sc:", plain));
    return put_additions(plain, out, err);
}

static enum status put_character(uint32_t c, struct byte_buffer *out, struct error *err) {
    if (c < 0x80 && isalnum((int)c))
        return byte_buffer_printf(out, err, "%c", (int)c);
    return byte_buffer_printf(out, err, "\\x{%x}", c);
}

/* Digits of \x, \u and \0; at most `digits` of them. */
static uint32_t read_number(struct pattern_source *source, unsigned base, unsigned digits) {
    uint32_t value = 0;
    for (; digits > 0; digits--, source->at++) {
        char c = peek(source, 0);
        unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0') : isxdigit((unsigned char)c) ? (unsigned)((c | 0x20) - 'a' + 10) : 99;
        if (digit >= base)
            break;
        value = value * base + digit;
    }
    return value;
}

/* The escapes that stand for one character; source->at is behind the letter. */
static enum status escaped_character(struct pattern_source *source, char letter, uint32_t *character, struct error *err) {
    static const char names[] = "tnrfvaeb", values[] = "\t\n\r\f\v\a\x1b\b";
    const char *at = strchr(names, letter);
    if (at) {
        *character = (uint8_t)values[at - names];
    } else if (letter == 'x' && peek(source, 0) == '{') {
        source->at++;
        *character = read_number(source, 16, 8);
        if (peek(source, 0) != '}')
            return pattern_source_fail(source, "\\x{ without }", err);
        source->at++;
    } else if (letter == 'x') {
        *character = read_number(source, 16, 2);
    } else if (letter == 'u') {
        *character = read_number(source, 16, 4);
    } else if (letter >= '0' && letter <= '7') {
        source->at--;
        *character = read_number(source, 8, 3);
    } else if (isalnum((unsigned char)letter)) {
        return pattern_source_fail(source, "this escape is not supported", err);
    } else { /* itself */
        size_t length;
        source->at--;
        *character = utf8_at(source->text, source->at, &length);
        source->at += length;
    }
    if (*character > 0x10FFFF || (*character >= 0xD800 && *character < 0xE000))
        return pattern_source_fail(source, "not a character", err);
    return STATUS_OK;
}

static enum status read_escape(struct pattern_source *source, struct byte_buffer *out, struct meaning *meaning, struct error *err) {
    ASSERT(peek(source, 0) == '\\');
    *meaning = (struct meaning){.character = PLAIN_CHARACTER};
    char letter = peek(source, 1);
    if (letter == 0)
        return pattern_source_fail(source, "a backslash ends the expression", err);
    source->at += 2;
    meaning->negated = letter == 'S' || letter == 'D' || letter == 'W' || letter == 'H' || letter == 'P';
    switch (letter) {
    case 's':
    case 'S':
        return byte_buffer_append_text(out, TEXT("\\p{White_Space}"), err);
    case 'd':
    case 'D':
        meaning->categories = category_mask("Nd", 2);
        return put_category("Nd", meaning->categories, out, err);
    case 'w':
    case 'W':
        return pattern_put_word(out, err);
    case 'h':
    case 'H':
        return byte_buffer_append_text(out, TEXT("0-9a-fA-F"), err);
    case 'p':
    case 'P': {
        size_t begin = source->at + 1;
        const char *close = peek(source, 0) == '{' ? memchr(source->text.data + begin, '}', source->text.size_bytes - begin) : NULL;
        if (!close)
            return pattern_source_fail(source, "\\p needs a name in braces", err);
        struct text name = {source->text.data + begin, (size_t)(close - source->text.data) - begin};
        source->at = begin + name.size_bytes + 1;
        return put_property(source, name, out, meaning, err);
    }
    default:
        TRY(escaped_character(source, letter, &meaning->character, err));
        return put_character(meaning->character, out, err);
    }
}

enum status pattern_escape(struct pattern_source *source, struct byte_buffer *items, bool *negated, uint32_t *character,
                           struct error *err) {
    struct meaning meaning;
    TRY(read_escape(source, items, &meaning, err));
    *negated = meaning.negated;
    if (character)
        *character = meaning.character;
    return STATUS_OK;
}

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

static enum status put_categories(uint32_t mask, struct byte_buffer *out, struct error *err) {
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        if (mask >> i & 1)
            TRY(put_category(categories[i], 1u << i, out, err));
    return STATUS_OK;
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
    return put_categories(CATEGORY_ALL & ~set->categories, &set->body, err);
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
    char name[16];
    struct meaning meaning = {.negated = peek(source, 2) == '^'};
    begin += meaning.negated;
    size_t length = (size_t)(close - source->text.data) - begin;
    if (length >= sizeof(name))
        return pattern_source_fail(source, "an unknown character class", err);
    memcpy(name, source->text.data + begin, length);
    name[length] = 0;
    const char *items = find_property(posix_classes, sizeof(posix_classes) / sizeof(posix_classes[0]), name);
    if (!items)
        return pattern_source_fail(source, "an unknown character class", err);
    source->at = begin + length + 2;
    item->only_categories = false;
    TRY(put_posix(items, &item->body, &meaning, err));
    item->negated = meaning.negated;
    return STATUS_OK;
}

/* One character of a class at the cursor, escaped or not. *is_character false: it was an escape for many, now in item. */
static enum status parse_character(struct pattern_source *source, struct class_set *item, uint32_t *character, bool *is_character,
                                   struct error *err) {
    struct meaning meaning;
    if (peek(source, 0) == '\\') {
        TRY(read_escape(source, &item->body, &meaning, err));
        *character = meaning.character;
        *is_character = meaning.character != PLAIN_CHARACTER;
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
    return put_character(*character, &item->body, err);
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
    bool range = is_character && peek(source, 0) == '-' && next != ']' && next != '[' && next != 0 && !(next == '&' && peek(source, 2) == '&');
    if (!range)
        return STATUS_OK;
    source->at++;
    byte_buffer_clear(&item->body);
    TRY(parse_character(source, item, &last, &is_character, err));
    if (!is_character || last < first)
        return pattern_source_fail(source, "a range that ends before it begins", err);
    byte_buffer_clear(&item->body);
    TRY(put_character(first, &item->body, err));
    TRY(byte_buffer_append_text(&item->body, TEXT("-"), err));
    return put_character(last, &item->body, err);
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
