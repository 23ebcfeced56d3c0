/*
 * test_constraint: masks against another engine. PCRE2 tells for a text whether it is matched, or could be with more behind it (partial
 * matching): each token of a made-up vocabulary is tried that way at every place of random answers.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "grammar_fixture.h"

#include <pcre2.h>

#include "base/byte_buffer.h"

#define VOCAB 900
#define END_ID (VOCAB - 1)
#define CONTROL_ID (VOCAB - 2)
#define ANSWER_BYTES_MAX 400

static uint64_t next_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* All single bytes, then random pieces of what answers are made of: short ones and a few long ones. */
static struct token_trie *make_vocabulary(bool skips_space) {
    static const char *const pieces[] = {"a",    "b",  "c",   "ab",    "true", "false", "null", "\"",       "\":",          ": ",
                                         ", ",   "{",  "}",   "[",     "]",    "\"a\"", "0",    "1",        "12",           "-",
                                         ".",    "\\", "\\n", "\\u00", "\n",   "  ",    " ",    "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98",
                                         "\x8a", "(",  ")",   "+",     "x"};
    struct byte_buffer bytes;
    uint32_t *offsets = memory_alloc_array(VOCAB + 1, sizeof *offsets);
    uint64_t random = 1;
    struct error err;
    struct token_trie *trie;
    byte_buffer_init(&bytes, 1u << 20);
    assert_non_null(offsets);
    for (uint32_t id = 0; id < VOCAB; id++) {
        char byte = (char)id;
        uint64_t count = id < 256 ? 0 : 1 + next_random(&random) % (id % 50 == 0 ? 30 : 4);
        if (id < 256)
            ASSERT_OK(byte_buffer_append(&bytes, &byte, 1, &err), err);
        if (id == CONTROL_ID)
            ASSERT_OK(byte_buffer_append(&bytes, "\xff<|x|>\xfe", 7, &err), err);
        for (uint64_t i = 0; i < count && id != END_ID && id != CONTROL_ID; i++)
            ASSERT_OK(byte_buffer_append_text(&bytes, text_of(pieces[next_random(&random) % (sizeof pieces / sizeof *pieces)]), &err), err);
        offsets[id + 1] = (uint32_t)bytes.size_bytes;
    }
    ASSERT_OK(token_trie_build(byte_buffer_take(&bytes), offsets, VOCAB, skips_space, &trie, &err), err);
    return trie;
}

static const uint32_t end_ids[] = {END_ID};

static struct constraint *make_constraint(char kind, const char *form, const struct token_trie *trie) {
    struct grammar g;
    struct error err;
    struct constraint *c;
    const struct grammar_constraint_options options = {.trie = trie, .end_ids = end_ids, .end_count = 1, .vocab = VOCAB};
    ASSERT_OK(build_grammar(&g, kind, form, &err), err);
    ASSERT_OK(grammar_constraint_create(&g, &options, &c, &err), err);
    return c;
}

static bool allowed(const uint32_t *bits, uint32_t id) { return bits[id / 32] >> (id % 32) & 1; }

/* Bytes (not characters), so that tokens may cut a character. */
#define SP "(?: |\\n[ \\t]{0,40})?"
#define CONT "[\\x80-\\xbf]"
#define TEXT2                                                                                                        \
    "(?:[\\xc2-\\xdf]" CONT "|\\xe0[\\xa0-\\xbf]" CONT "|[\\xe1-\\xec\\xee\\xef]" CONT "{2}|\\xed[\\x80-\\x9f]" CONT \
    "|\\xf0[\\x90-\\xbf]" CONT "{2}|[\\xf1-\\xf3]" CONT "{3}|\\xf4[\\x80-\\x8f]" CONT "{2})"
#define HEX "[0-9a-fA-F]"
#define CHAR                                                                                                                   \
    "(?:[ !#-\\[\\]-\\x7f]|" TEXT2 "|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9a-cA-CefEF]" HEX "{3}|[dD][0-7]" HEX "{2}|[dD][89abAB]" HEX \
    "{2}\\\\u[dD][c-fC-F]" HEX "{2})))"
#define STRING "\"" CHAR "*\""
#define INTEGER "-?(?:0|[1-9][0-9]{0,14})"
#define NUMBER INTEGER "(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?"
#define JSON                                                                                                                         \
    "(?<v>" STRING "|" NUMBER "|true|false|null|\\{" SP "(?:" STRING ":" SP "(?&v)(?:," SP STRING ":" SP "(?&v))*)?" SP "\\}|\\[" SP \
    "(?:(?&v)(?:," SP "(?&v))*)?" SP "\\])"

static const struct {
    char kind;
    const char *form, *pattern;
    int steps;
} cases[] = {
    {'R', "(yes|no|maybe a{1,3})[abc]*", "(?:yes|no|maybe a{1,3})[abc]*", 20},
    {'R', "[^x]{0,40}x", "(?:[\\x00-wy-\\x7f]|" TEXT2 "){0,40}x", 30},
    {'R', "[a-c\\u00e4]{30,60}\\n", "(?:[a-c]|\\xc3\\xa4){30,60}\\n", 60},
    {'R', "(a{2,20}b){2,30}", "(?:a{2,20}b){2,30}", 40},
    {'G', "root ::= \"(\" root \")\" root | \"x\" | \"\"", "(?<r>\\((?&r)\\)(?&r)|x|)", 30},
    {'G', "root ::= t (\"+\" t)*\nt ::= \"a\" | \"(\" root \")\" | [0-9]+ | \"ab\" | \"-\" t",
     "(?<e>(?<t>a|\\((?&e)\\)|[0-9]+|ab|-(?&t))(?:\\+(?&t))*)", 30},
    {'S', "{}", JSON, 25},
    {'S', "{\"type\":\"string\"}", STRING, 25},
    {'S', "{\"type\":\"string\",\"maxLength\":25}", "\"" CHAR "{0,25}\"", 30},
    {'S', "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":3,\"maxLength\":50},\"maxItems\":3}",
     "\\[" SP "(?:\"(?<c>" CHAR "){3,50}\"(?:," SP "\"(?&c){3,50}\"){0,2})?" SP "\\]", 40},
    {'S', "{\"properties\":{\"a\":{\"type\":\"string\"},\"b\":{\"type\":\"boolean\"},\"c\":{\"type\":\"null\"}},\"required\":[\"a\"]}",
     "\\{" SP "\"a\":" SP STRING "(?:," SP "\"b\":" SP "(?:true|false))?(?:," SP "\"c\":" SP "null)?" SP "\\}", 40},
    {'S', "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"}}",
     "\\{" SP "(?:" STRING ":" SP INTEGER "(?:," SP STRING ":" SP INTEGER ")*)?" SP "\\}", 30},
    {'S', "{\"type\":\"object\",\"properties\":{\"ab\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"null\"}}",
     "\\{" SP "(?:(?:\"ab\":" SP INTEGER "|(?<p>(?!\"ab\")\"(?:[ !#-\\[\\]-\\x7f]|" TEXT2 ")*\":" SP "null))(?:," SP "(?&p))*)?" SP "\\}",
     30},
    {'S', "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":210}", "-(?:[0-9]|1[0-2])|0|[1-9][0-9]?|1[0-9][0-9]|20[0-9]|210", 6},
    {'S', "{\"enum\":[\"a\",\"ab\",{\"a\":[1,true]},12]}", "\"a\"|\"ab\"|\\{" SP "\"a\":" SP "\\[" SP "1," SP "true" SP "\\]" SP "\\}|12",
     20},
};

/* 0: no, 1: as the start of a match, 2: whole, and maybe more. */
static int ask_pcre(pcre2_code *code, pcre2_match_data *data, const char *text, size_t size) {
    int whole = pcre2_match(code, (PCRE2_SPTR)text, size, 0, 0, data, NULL);
    if (whole >= 0)
        return 2;
    int part = pcre2_match(code, (PCRE2_SPTR)text, size, 0, PCRE2_PARTIAL_HARD, data, NULL);
    assert_true(part >= 0 || part == PCRE2_ERROR_NOMATCH || part == PCRE2_ERROR_PARTIAL);
    return part == PCRE2_ERROR_PARTIAL;
}

/* The mask at this place, every token of it. Returns how many are allowed. */
static uint32_t check_mask(struct constraint *c, const struct token_trie *trie, pcre2_code *code, pcre2_match_data *data, char *answer,
                           size_t size, uint32_t *bits, const char *form) {
    struct error err;
    uint32_t count = 0;
    ASSERT_OK(c->operations->mask(c, bits, &err), err);
    for (uint32_t id = 0; id < VOCAB; id++) {
        struct text bytes = token_trie_bytes(trie, id);
        memcpy(answer + size, bytes.data, bytes.size_bytes);
        bool wanted = id == END_ID ? ask_pcre(code, data, answer, size) == 2
                                   : bytes.size_bytes > 0 && ask_pcre(code, data, answer, size + bytes.size_bytes) > 0;
        if (wanted != allowed(bits, id))
            fail_msg("%s: behind %.*s token %u (%.*s) is %s", form, (int)size, answer, id, (int)bytes.size_bytes, bytes.data,
                     wanted ? "forbidden" : "allowed");
        count += wanted;
    }
    return count;
}

static void answers(void **state) {
    struct token_trie *trie = *state;
    char answer[ANSWER_BYTES_MAX + 512];
    uint32_t bits[(VOCAB + 31) / 32];
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int code_error;
        size_t offset;
        char pattern[20000];
        (void)snprintf(pattern, sizeof pattern, "\\A(?:%s)\\z", cases[i].pattern);
        pcre2_code *code =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_NO_START_OPTIMIZE | PCRE2_DOTALL, &code_error, &offset, NULL);
        if (!code)
            fail_msg("%s: pattern, at %zu", cases[i].form, offset);
        pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
        struct constraint *c = make_constraint(cases[i].kind, cases[i].form, trie);
        uint64_t random = i;
        for (int answer_index = 0; answer_index < 6; answer_index++) {
            size_t size = 0;
            c->operations->reset(c);
            for (int step = 0; step < cases[i].steps && size < ANSWER_BYTES_MAX; step++) {
                uint32_t count = check_mask(c, trie, code, data, answer, size, bits, cases[i].form);
                uint32_t pick = (uint32_t)(next_random(&random) % count), id = 0;
                for (;; id++)
                    if (allowed(bits, id) && pick-- == 0)
                        break;
                if (id == END_ID)
                    break;
                struct text bytes = token_trie_bytes(trie, id);
                memcpy(answer + size, bytes.data, bytes.size_bytes);
                size += bytes.size_bytes;
                ASSERT_OK(c->operations->accept(c, id, &err), err);
            }
        }
        constraint_destroy(c);
        pcre2_match_data_free(data);
        pcre2_code_free(code);
    }
}

/* Drafts: whatever was accepted and taken back, the mask is that of a constraint that only saw what stayed. */
static void take_back(void **state) {
    struct token_trie *trie = *state;
    const char *form = "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":9}}}}";
    struct constraint *drafted = make_constraint('S', form, trie), *plain = make_constraint('S', form, trie);
    uint32_t bits[(VOCAB + 31) / 32], same[(VOCAB + 31) / 32], stayed[64];
    struct error err;
    uint64_t random = 9;
    for (uint32_t length = 0; length < 60; length++) {
        uint32_t draft = (uint32_t)(next_random(&random) % 4), accepted = 0;
        for (uint32_t d = 0; d <= draft; d++) {
            ASSERT_OK(drafted->operations->mask(drafted, bits, &err), err);
            uint32_t id = (uint32_t)(next_random(&random) % VOCAB);
            while (!allowed(bits, id) || id == END_ID) {
                if (drafted->operations->is_finished(drafted))
                    break;
                id = (id + 1) % VOCAB;
            }
            if (drafted->operations->is_finished(drafted))
                break;
            ASSERT_OK(drafted->operations->accept(drafted, id, &err), err);
            stayed[length] = accepted++ == 0 ? id : stayed[length];
        }
        if (accepted == 0)
            break;
        drafted->operations->take_back(drafted, accepted - 1);
        plain->operations->reset(plain);
        for (uint32_t i = 0; i <= length; i++)
            ASSERT_OK(plain->operations->accept(plain, stayed[i], &err), err);
        ASSERT_OK(drafted->operations->mask(drafted, bits, &err), err);
        ASSERT_OK(plain->operations->mask(plain, same, &err), err);
        assert_memory_equal(bits, same, sizeof bits);
    }
    constraint_destroy(drafted);
    constraint_destroy(plain);
}

static void odd_tokens(void **state) {
    struct token_trie *trie = *state;
    struct constraint *c = make_constraint('R', "a|bc", trie);
    struct error err;
    assert_false(c->operations->is_finished(c));
    ASSERT_FAILS(c->operations->accept(c, 'c', &err), STATUS_INVALID, err);
    ASSERT_FAILS(c->operations->accept(c, CONTROL_ID, &err), STATUS_INVALID, err);
    ASSERT_FAILS(c->operations->accept(c, END_ID, &err), STATUS_INVALID, err);
    ASSERT_FAILS(c->operations->accept(c, VOCAB + 5, &err), STATUS_INVALID, err);
    ASSERT_OK(c->operations->accept(c, 'b', &err), err);
    ASSERT_OK(c->operations->accept(c, 'c', &err), err);
    assert_true(c->operations->is_finished(c));
    constraint_destroy(c);
}

/* A tokenizer that does not show the first space: a form without one lets the model write it. */
static void first_space(void **state) {
    (void)state;
    struct token_trie *trie = make_vocabulary(true);
    struct constraint *c = make_constraint('R', "a b", trie);
    uint32_t bits[(VOCAB + 31) / 32];
    struct error err;
    ASSERT_OK(c->operations->mask(c, bits, &err), err);
    assert_true(allowed(bits, ' ') && allowed(bits, 'a') && !allowed(bits, 'b'));
    ASSERT_OK(c->operations->accept(c, ' ', &err), err);
    ASSERT_OK(c->operations->mask(c, bits, &err), err);
    assert_true(!allowed(bits, ' ') && allowed(bits, 'a'));
    constraint_destroy(c);
    token_trie_destroy(trie);
}

/* States are dropped and made again in a long answer, and nothing is seen of it; an answer that is too deep to follow is an error. */
static void long_answers(void **state) {
    struct token_trie *trie = *state;
    struct constraint *c = make_constraint('S', "{\"type\":\"string\",\"maxLength\":30000}", trie);
    uint32_t bits[(VOCAB + 31) / 32];
    struct error err;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    ASSERT_OK(c->operations->accept(c, '"', &err), err);
    for (uint32_t i = 0; i < 30000; i++) {
        ASSERT_OK(c->operations->accept(c, 'a', &err), err);
        if (i % 1000 == 0)
            ASSERT_OK(c->operations->mask(c, bits, &err), err);
    }
    ASSERT_OK(c->operations->mask(c, bits, &err), err);
    assert_true(allowed(bits, '"') && !allowed(bits, 'a') && !allowed(bits, END_ID));
    assert_true(memory_owner_bytes(MEMORY_OTHER) - before < (12u << 20));
    constraint_destroy(c);
    c = make_constraint('S', "{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", trie);
    uint32_t depth = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && depth++ < 1000000)
        status = c->operations->accept(c, '[', &err);
    assert_int_equal(status, STATUS_OVER_BUDGET);
    assert_true(depth > 3000);
    constraint_destroy(c);
}

static int setup(void **state) {
    *state = make_vocabulary(false);
    return 0;
}

static int teardown(void **state) {
    token_trie_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers), cmocka_unit_test(take_back), cmocka_unit_test(odd_tokens),
                                       cmocka_unit_test(first_space), cmocka_unit_test(long_answers)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
