/* pattern_escape: the tables of properties, and escapes as items of a PCRE2 class. */
#include "text/pattern_escape.h"

#include <ctype.h>

#include "base/check.h"
#include "text/unicode.h"

/* General categories: a partition of all characters, so that the complement of some is the union of the others. */
static const char categories[][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
                                     "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
#define CATEGORY_COUNT (sizeof(categories) / sizeof(categories[0]))
STATIC_ASSERT(CATEGORY_COUNT == PATTERN_CATEGORY_COUNT, "one bit per general category");

#define PROPERTIES_WORD "alphabetic,M,Nd,Pc"

struct property_name {
    const char *name; /* lower case, without ' ', '_' and '-' */
    const char *items;
};
static const struct property_name long_categories[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
};
/* '^' in front: everything but those. Then properties ("L", "Nd", "alphabetic") with commas between, or '=' and plain class items. */
static const struct property_name posix_classes[] = {
    {"alnum", "alphabetic,Nd"},
    {"alpha", "alphabetic"},
    {"ascii", "=\\x{0}-\\x{7f}"},
    {"any", "^="},
    {"blank", "=\\p{Zs}\\t"},
    {"cntrl", "Cc"},
    {"digit", "Nd"},
    {"graph", "L,M,N,P,S,Cf,Co"},
    {"lower", "lowercase"},
    {"print", "L,M,N,P,S,Cf,Co,Zs"},
    {"punct", "P,S"},
    {"space", "whitespace"},
    {"upper", "uppercase"},
    {"word", PROPERTIES_WORD},
    {"xdigit", "=0-9a-fA-F"},
};
static const char *const binary_properties[] = {
    "alphabetic",
    "uppercase",
    "lowercase",
    "whitespace",
    "math",
    "hexdigit",
    "asciihexdigit",
    "idstart",
    "idcontinue",
    "xidstart",
    "xidcontinue",
    "dash",
    "diacritic",
    "emoji",
    "emojipresentation",
    "emojimodifier",
    "emojimodifierbase",
    "emojicomponent",
    "extendedpictographic",
    "extender",
    "ideographic",
    "joincontrol",
    "quotationmark",
    "radical",
    "softdotted",
    "terminalpunctuation",
    "unifiedideograph",
    "variationselector",
    "defaultignorablecodepoint",
    "graphemebase",
    "graphemeextend",
    "cased",
    "caseignorable",
};

enum status pattern_source_fail(const struct pattern_source *source, const char *what, struct error *err) {
    return error_set(err, STATUS_UNSUPPORTED, "the expression %.400s, byte %zu: %s", source->text.data, source->at, what);
}

char pattern_source_peek(const struct pattern_source *source, size_t ahead) {
    size_t at = source->at + ahead;
    return at < source->text.size_bytes ? source->text.data[at] : 0;
}

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

static enum status put_posix(const char *items, struct byte_buffer *out, struct pattern_meaning *meaning, struct error *err) {
    if (items[0] == '^') {
        meaning->negated = !meaning->negated;
        items++;
    }
    return items[0] == '=' ? byte_buffer_append_text(out, text_of(items + 1), err) : put_properties(items, out, err);
}

/* "Lu", "Han", "White_Space", "^L" of \p{...}. */
static enum status put_property(const struct pattern_source *source, struct text name, struct byte_buffer *out,
                                struct pattern_meaning *meaning, struct error *err) {
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

enum status pattern_put_character(uint32_t c, struct byte_buffer *out, struct error *err) {
    if (c < 0x80 && isalnum((int)c))
        return byte_buffer_printf(out, err, "%c", (int)c);
    return byte_buffer_printf(out, err, "\\x{%x}", c);
}

/* Digits of \x, \u and \0; at most `digits` of them. */
static uint32_t read_number(struct pattern_source *source, unsigned base, unsigned digits) {
    uint32_t value = 0;
    for (; digits > 0; digits--, source->at++) {
        char c = pattern_source_peek(source, 0);
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
    } else if (letter == 'x' && pattern_source_peek(source, 0) == '{') {
        source->at++;
        *character = read_number(source, 16, 8);
        if (pattern_source_peek(source, 0) != '}')
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

enum status pattern_read_escape(struct pattern_source *source, struct byte_buffer *out, struct pattern_meaning *meaning,
                                struct error *err) {
    ASSERT(pattern_source_peek(source, 0) == '\\');
    *meaning = (struct pattern_meaning){.character = PATTERN_NO_CHARACTER};
    char letter = pattern_source_peek(source, 1);
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
        const char *close =
            pattern_source_peek(source, 0) == '{' ? memchr(source->text.data + begin, '}', source->text.size_bytes - begin) : NULL;
        if (!close)
            return pattern_source_fail(source, "\\p needs a name in braces", err);
        struct text name = {source->text.data + begin, (size_t)(close - source->text.data) - begin};
        source->at = begin + name.size_bytes + 1;
        return put_property(source, name, out, meaning, err);
    }
    default:
        TRY(escaped_character(source, letter, &meaning->character, err));
        return pattern_put_character(meaning->character, out, err);
    }
}

enum status pattern_put_categories(uint32_t mask, struct byte_buffer *items, struct error *err) {
    for (size_t i = 0; i < CATEGORY_COUNT; i++)
        if (mask >> i & 1)
            TRY(put_category(categories[i], 1u << i, items, err));
    return STATUS_OK;
}

enum status pattern_put_posix(const struct pattern_source *source, struct text name, struct byte_buffer *items, bool *negated,
                              struct error *err) {
    char plain[16];
    struct pattern_meaning meaning = {.negated = *negated};
    const char *properties = NULL;
    if (name.size_bytes < sizeof(plain)) {
        memcpy(plain, name.data, name.size_bytes);
        plain[name.size_bytes] = 0;
        properties = find_property(posix_classes, sizeof(posix_classes) / sizeof(posix_classes[0]), plain);
    }
    if (!properties)
        return pattern_source_fail(source, "an unknown character class", err);
    TRY(put_posix(properties, items, &meaning, err));
    *negated = meaning.negated;
    return STATUS_OK;
}
