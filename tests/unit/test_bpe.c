/* test_bpe: the order of merges, unknown characters, bytes, affixes, scores, and cuts that may not change the result. */
#include "test_support.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "text/bpe.h"

#define MARK "\xE2\x96\x81"

/* A vocabulary of the words of `tokens`, ids in order. */
static void make_vocab(struct vocab *vocab, const char *tokens) {
    struct error err;
    uint32_t id = 0;
    *vocab = (struct vocab){0};
    while (*tokens) {
        size_t length = strcspn(tokens, " ");
        ASSERT_OK(vocab_set(vocab, id++, (struct text){tokens, length}, VOCAB_MODEL, &err), err);
        tokens += length + (tokens[length] == ' ');
    }
    ASSERT_OK(vocab_index(vocab, &err), err);
}

/* merges: "a b,ab c". */
static void make_bpe(struct bpe *bpe, const struct vocab *vocab, struct bpe_options options, const char *merges) {
    struct error err;
    struct bpe_merges list = {0};
    ASSERT_OK(bpe_init(bpe, vocab, &options, &err), err);
    while (*merges) {
        size_t length = strcspn(merges, ",");
        ASSERT_OK(bpe_merges_add_line(&list, vocab, (struct text){merges, length}, options.subword_prefix, &err), err);
        merges += length + (merges[length] == ',');
    }
    ASSERT_OK(bpe_set_merges(bpe, &list, &err), err);
}

/* The tokens of text, joined with '|'. */
static char *encode(const struct bpe *bpe, const char *text, bool plain) {
    static char joined[4096];
    struct cancel_poll cancel = {0};
    struct bpe_work work = {.cancel = &cancel, .plain = plain};
    struct token_list ids = {0};
    struct error err;
    size_t used = 0;
    ASSERT_OK(bpe_encode(bpe, &work, text_of(text), &ids, &err), err);
    joined[0] = 0;
    for (size_t i = 0; i < ids.count; i++)
        used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%.*s", i ? "|" : "",
                                 TEXT_ARGUMENTS(vocab_text(bpe->vocab, ids.ids[i])));
    assert_true(used < sizeof(joined));
    token_list_deinit(&ids);
    bpe_work_deinit(&work);
    return joined;
}

static const struct bpe_options no_options = {.unknown = VOCAB_NONE};

static void check(const char *tokens, struct bpe_options options, const char *merges, const char *text, const char *wanted) {
    struct vocab vocab;
    struct bpe bpe;
    make_vocab(&vocab, tokens);
    make_bpe(&bpe, &vocab, options, merges);
    assert_string_equal(encode(&bpe, text, false), wanted);
    bpe_deinit(&bpe);
    vocab_deinit(&vocab);
}

static void the_lowest_rank_merges_first(void **state) {
    (void)state;
    check("a b c ab bc abc", no_options, "b c,a b", "abc", "a|bc");
    check("a b c ab bc abc", no_options, "a b,b c,ab c", "abc", "abc");
    check("a b c ab bc abc", no_options, "b c,a b,ab c", "abcab", "a|bc|ab");
    check("a aa aaa", no_options, "a a", "aaaaa", "aa|aa|a"); /* of equal ranks the leftmost */
    check("a aa aaa aaaa", no_options, "a a,aa aa,aa a", "aaaaaaa", "aaaa|aaa");
    check("a b ab ba", no_options, "a b,b a,a b", "aba", "a|ba"); /* of a merge that is listed twice the later counts */
}

static void unknown_characters(void **state) {
    (void)state;
    struct bpe_options options = {.unknown = 0};
    check("? a b", options, "", "axyb", "a|?|?|b");
    options.fuse_unknown = true;
    check("? a b", options, "", "axyb", "a|?|b");
    check("? a b", options, "", "xy", "?");
    check("a b", no_options, "", "axyb", "a|b");
}

static void bytes_of_characters_that_are_no_tokens(void **state) {
    (void)state;
    struct bpe_options options = {.unknown = 0, .byte_fallback = true, .fuse_unknown = true};
    check("? a <0xC3> <0xA9>", options, "", "a\xC3\xA9", "a|<0xC3>|<0xA9>");
    check("? a <0xC3>", options, "",
          "a\xC3\xA9"
          "a",
          "a|?|a"); /* one of its bytes is missing */
}

static void affixes(void **state) {
    (void)state;
    struct bpe_options options = {.unknown = VOCAB_NONE, .word_suffix = TEXT("</w>")};
    check("a b b</w> ab</w>", options, "a b</w>", "ab", "ab</w>");
    options = (struct bpe_options){.unknown = VOCAB_NONE, .subword_prefix = TEXT("##")};
    check("a ##b ##c ab abc ##bc", options, "a ##b,ab ##c", "abc", "abc");
}

static void whole_pieces(void **state) {
    (void)state;
    struct bpe_options options = {.unknown = VOCAB_NONE, .ignore_merges = true};
    check("a b ab", options, "", "ab", "ab");
    check("a b ab", options, "", "aba", "a|b|a");
    check("a b ab", no_options, "", "ab", "a|b");
}

static void special_tokens_stay_out_of_plain_text(void **state) {
    (void)state;
    struct vocab vocab;
    struct bpe bpe;
    struct error err;
    make_vocab(&vocab, "a b ab");
    make_bpe(&bpe, &vocab, no_options, "a b");
    ASSERT_OK(vocab_set(&vocab, 2, TEXT("ab"), VOCAB_ADDED | VOCAB_SPECIAL, &err), err);
    assert_string_equal(encode(&bpe, "ab", false), "ab");
    assert_string_equal(encode(&bpe, "ab", true), "a|b");
    bpe_deinit(&bpe);
    vocab_deinit(&vocab);
}

static void scores_instead_of_merges(void **state) {
    (void)state;
    struct vocab vocab;
    struct bpe bpe;
    struct error err;
    make_vocab(&vocab, "a b c ab bc abc x xy aa aaa aaaa");
    /* "xy" has a score but its part y is no token; bc is better than ab; runs of a are equal. */
    const float scores[] = {-9, -9, -9, -2, -1, -3, -9, 0, 1, 1, 1};
    struct bpe_options options = {.unknown = VOCAB_NONE};
    ASSERT_OK(bpe_init(&bpe, &vocab, &options, &err), err);
    ASSERT_OK(bpe_set_scores(&bpe, scores, &err), err);
    assert_string_equal(encode(&bpe, "abc", false), "abc");
    assert_string_equal(encode(&bpe, "abb", false), "ab|b");
    assert_string_equal(encode(&bpe, "bbcc", false), "b|bc|c");
    assert_string_equal(encode(&bpe, "xy", false), "x");
    assert_string_equal(encode(&bpe, "aaaaaaa", false), "aaaa|aaa");
    bpe_deinit(&bpe);
    const float never[] = {-9, -9, -9, -INFINITY, -1, -3, -9, 0, NAN, 1, 1};
    ASSERT_OK(bpe_init(&bpe, &vocab, &options, &err), err);
    ASSERT_OK(bpe_set_scores(&bpe, never, &err), err);
    assert_string_equal(encode(&bpe, "abaa", false), "a|b|a|a");
    bpe_deinit(&bpe);
    vocab_deinit(&vocab);
}

/* Random texts, with and without the cuts before marks. */
static void cuts_change_nothing(void **state) {
    (void)state;
    struct vocab vocab;
    struct bpe bpe;
    struct bpe_options options = {.unknown = 0, .fuse_unknown = true};
    char text[256], cut[4096];
    make_vocab(&vocab, "? a b " MARK " ab " MARK "a " MARK "ab " MARK MARK " b" MARK " b" MARK "a " MARK MARK MARK);
    make_bpe(&bpe, &vocab, options, "a b," MARK " a," MARK "a b," MARK " " MARK ",b " MARK ",b" MARK " a," MARK MARK " " MARK);
    assert_true(bpe.mark.size_bytes == 3 && bpe.mark_joins['b'] && !bpe.mark_joins['a']);
    uint32_t random = 1;
    for (int round = 0; round < 2000; round++) {
        static const char *const letters[] = {"a", "b", MARK, "x", MARK "a"};
        size_t used = 0;
        for (int i = 0; i < 1 + round % 30; i++) {
            random = random * 1664525u + 1013904223u;
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", letters[(random >> 16) % 5]);
        }
        (void)snprintf(cut, sizeof(cut), "%s", encode(&bpe, text, false));
        struct bpe whole = bpe;
        whole.mark.size_bytes = 0;
        assert_string_equal(cut, encode(&whole, text, false));
    }
    bpe_deinit(&bpe);
    vocab_deinit(&vocab);
}

static void bad_merges_are_named(void **state) {
    (void)state;
    struct vocab vocab;
    struct bpe_merges list = {0};
    struct error err;
    struct text none = {"", 0};
    make_vocab(&vocab, "a b ab");
    ASSERT_OK(bpe_merges_add_line(&list, &vocab, TEXT("a b"), none, &err), err);
    static const char *const bad[] = {"b a", "a x", "x a", "a", "a b c", "a ", "", " "};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ASSERT_FAILS(bpe_merges_add_line(&list, &vocab, text_of(bad[i]), none, &err), STATUS_CORRUPT, err);
        assert_non_null(strstr(err.text, "merge 1"));
    }
    bpe_merges_deinit(&list);
    vocab_deinit(&vocab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_rank_merges_first),
        cmocka_unit_test(unknown_characters),
        cmocka_unit_test(bytes_of_characters_that_are_no_tokens),
        cmocka_unit_test(affixes),
        cmocka_unit_test(whole_pieces),
        cmocka_unit_test(special_tokens_stay_out_of_plain_text),
        cmocka_unit_test(scores_instead_of_merges),
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(bad_merges_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
