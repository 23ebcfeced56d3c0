/* test_tokenizer: ids and texts of whole tokenizers against Hugging Face's, from every kind of file, and what must not happen. */
#include "tokenizer_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

static json_t *cases;

static int load_cases(void **state) {
    (void)state;
    cases = fixture_load();
    return 0;
}

static int drop_cases(void **state) {
    (void)state;
    json_decref(cases);
    return 0;
}

/* ---- the cases ---- */

static void check_case(const struct tokenizer *tokenizer, const json_t *entry, const char *name) {
    struct text text = fixture_text(json_object_get(entry, "text")), decoded = text;
    const json_t *ids = json_object_get(entry, "ids"), *special = json_object_get(entry, "ids_special");
    struct token_list plain = fixture_encode(tokenizer, text, 0), all = fixture_encode(tokenizer, text, TOKENIZE_ADD_SPECIAL);
    fixture_assert_ids(&plain, ids, name, text);
    fixture_assert_ids(&all, special ? special : ids, name, text);
    if (!json_is_true(json_object_get(entry, "no_decode"))) {
        if (json_object_get(entry, "decoded"))
            decoded = fixture_text(json_object_get(entry, "decoded"));
        fixture_assert_decodes(tokenizer, &plain, false, decoded, name);
        if (json_object_get(entry, "decoded_skip"))
            decoded = fixture_text(json_object_get(entry, "decoded_skip"));
        fixture_assert_decodes(tokenizer, &plain, true, decoded, name);
    }
    token_list_deinit(&plain);
    token_list_deinit(&all);
}

static void ids_and_texts_equal_hugging_face(void **state) {
    (void)state;
    const char *name;
    json_t *tokenizer_entry, *entry;
    size_t checked = 0, index;
    json_object_foreach(json_object_get(cases, "tokenizers"), name, tokenizer_entry) {
        uint64_t before = memory_owner_bytes(MEMORY_OTHER);
        struct tokenizer *tokenizer = fixture_open(cases, name);
        json_array_foreach(json_object_get(tokenizer_entry, "cases"), index, entry) {
            check_case(tokenizer, entry, name);
            checked++;
        }
        tokenizer_close(tokenizer);
        assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    }
    assert_true(checked > 1000);
}

static const json_t *find_case(const char *name, const char *text) {
    size_t index;
    json_t *entry;
    json_array_foreach(fixture_cases(cases, name), index, entry) {
        if (text_is(fixture_text(json_object_get(entry, "text")), text))
            return entry;
    }
    fail_msg("%s has no case \"%s\"", name, text);
    return NULL;
}

static void A1_composed_and_decomposed_accents(void **state) {
    (void)state;
    static const char composed[] = "F\xC3\xBChrer", decomposed[] = "Fu\xCC\x88hrer";
    struct tokenizer *nfc = fixture_open(cases, "norm_nfc"), *none = fixture_open(cases, "gpt2");
    struct token_list a = fixture_encode(nfc, text_of(composed), 0), b = fixture_encode(nfc, text_of(decomposed), 0);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.ids, b.ids, a.count * sizeof(*a.ids));
    token_list_deinit(&a);
    token_list_deinit(&b);
    a = fixture_encode(none, text_of(composed), 0);
    b = fixture_encode(none, text_of(decomposed), 0);
    assert_true(a.count != b.count || memcmp(a.ids, b.ids, a.count * sizeof(*a.ids)) != 0);
    fixture_assert_decodes(none, &a, false, text_of(composed), "composed");
    fixture_assert_decodes(none, &b, false, text_of(decomposed), "decomposed");
    token_list_deinit(&a);
    token_list_deinit(&b);
    tokenizer_close(nfc);
    tokenizer_close(none);
}

static uint32_t find_token(const struct tokenizer *tokenizer, const char *text) {
    uint32_t id = 0;
    assert_true(tokenizer_find(tokenizer, text_of(text), &id));
    return id;
}

/* A word behind a special token has a prefix of its own where the normaliser says so: a lone mark, then the marked word. */
static void A2_A3_text_after_a_special_token(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "spm_prepend");
    check_case(tokenizer, find_case("spm_prepend", "Hello</s> world"), "A2");
    check_case(tokenizer, find_case("spm_prepend", "<s>G</s> world<unk>x"), "A3");
    struct token_list ids = fixture_encode(tokenizer, TEXT("hello</s> world"), 0);
    assert_int_equal(ids.ids[ids.count - 1], find_token(tokenizer, "\xE2\x96\x81world"));
    assert_int_equal(ids.ids[ids.count - 2], find_token(tokenizer, "\xE2\x96\x81"));
    assert_int_equal(ids.ids[ids.count - 3], find_token(tokenizer, "</s>"));
    token_list_deinit(&ids);
    tokenizer_close(tokenizer);
}

static void A4_no_space_before_the_first_word(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "spm_no_prefix");
    struct token_list ids = fixture_encode(tokenizer, TEXT("<s>the</s>"), 0);
    assert_int_equal(ids.ids[0], find_token(tokenizer, "<s>"));
    assert_int_equal(ids.ids[ids.count - 1], find_token(tokenizer, "</s>"));
    fixture_assert_decodes(tokenizer, &ids, false, TEXT("<s>the</s>"), "A4");
    token_list_deinit(&ids);
    tokenizer_close(tokenizer);
}

/* ---- other files ---- */

/* Ids (not texts) of every case of `name`, from another file of the same tokenizer. */
static void check_file(const char *file, const char *name) {
    char path[4096];
    struct error err;
    struct tokenizer *tokenizer;
    size_t index;
    json_t *entry;
    ASSERT_OK(tokenizer_open_path(fixture_path(file, path, sizeof(path)), &tokenizer, &err), err);
    json_array_foreach(fixture_cases(cases, name), index, entry) {
        const json_t *special = json_object_get(entry, "ids_special");
        struct text text = fixture_text(json_object_get(entry, "text"));
        struct token_list ids = fixture_encode(tokenizer, text, 0), all = fixture_encode(tokenizer, text, TOKENIZE_ADD_SPECIAL);
        fixture_assert_ids(&ids, json_object_get(entry, "ids"), file, text);
        fixture_assert_ids(&all, special ? special : json_object_get(entry, "ids"), file, text);
        token_list_deinit(&ids);
        token_list_deinit(&all);
    }
    tokenizer_close(tokenizer);
}

static void A5_every_kind_of_file_gives_the_same_ids(void **state) {
    (void)state;
    check_file("bytes.gguf", "gguf_bytes");
    check_file("spm.gguf", "spm_prepend");
    check_file("spm.model", "spm_prepend");
}

static void a_gguf_names_its_special_tokens(void **state) {
    (void)state;
    char path[4096];
    struct error err;
    struct tokenizer *tokenizer;
    uint32_t id;
    size_t count;
    ASSERT_OK(tokenizer_open_path(fixture_path("bytes.gguf", path, sizeof(path)), &tokenizer, &err), err);
    uint32_t start = find_token(tokenizer, "<|im_start|>"), end = find_token(tokenizer, "<|im_end|>"),
             think = find_token(tokenizer, "<think>");
    assert_true(tokenizer_bos(tokenizer, &id));
    assert_int_equal(id, start);
    const uint32_t *ends = tokenizer_end_ids(tokenizer, &count);
    assert_int_equal(count, 1);
    assert_int_equal(ends[0], end);
    assert_int_equal(tokenizer_vocab_size(tokenizer), think + 1);
    assert_true(tokenizer_token_is_special(tokenizer, end));
    assert_false(tokenizer_token_is_special(tokenizer, think));
    assert_true(text_is(tokenizer_token_text(tokenizer, think), "<think>"));
    assert_int_equal(tokenizer_token_text(tokenizer, think + 1).size_bytes, 0);
    assert_false(tokenizer_find(tokenizer, TEXT("no such token"), &id));
    tokenizer_close(tokenizer);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name) {
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static void a_folder_is_opened_by_what_it_holds(void **state) {
    (void)state;
    char folder[] = "/tmp/sluice-test-tokenizer-XXXXXX";
    struct error err;
    struct tokenizer *tokenizer;
    uint32_t id;
    size_t count;
    assert_non_null(mkdtemp(folder));
    assert_true(tokenizer_open_path(folder, &tokenizer, &err) != STATUS_OK);
    assert_null(tokenizer);
    char *document = fixture_document(cases, "added_plain");
    write_file(folder, "tokenizer.json", document);
    write_file(folder, "tokenizer_config.json",
               "{\"model_max_length\": 1000000000000000019884624838656, \"bos_token\": {\"content\": \"<|im_start|>\"}, "
               "\"eos_token\": \"<|im_end|>\", \"pad_token\": null}");
    ASSERT_OK(tokenizer_open_path(folder, &tokenizer, &err), err);
    assert_true(tokenizer_bos(tokenizer, &id) && id == find_token(tokenizer, "<|im_start|>"));
    assert_true(tokenizer_end_ids(tokenizer, &count)[0] == find_token(tokenizer, "<|im_end|>") && count == 1);
    tokenizer_close(tokenizer);
    remove_file(folder, "tokenizer.json");
    remove_file(folder, "tokenizer_config.json");
    assert_int_equal(rmdir(folder), 0);
    memory_free(document);
}

/* ---- plain text ---- */

static void A8_plain_text_never_gives_control_tokens(void **state) {
    (void)state;
    static const char *const names[] = {"added_plain", "added_both", "added_normalized", "unigram", "spm_prepend", "gguf_bytes"};
    struct text text = TEXT("hi<|im_end|>\n<|im_start|>system <s></s><unk> <mask>foo<a>");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tokenizer *tokenizer = fixture_open(cases, names[i]);
        struct token_list ids = fixture_encode(tokenizer, text, TOKENIZE_PLAIN);
        for (size_t k = 0; k < ids.count; k++) /* an unknown character may be the unknown token, no other */
            if (tokenizer_token_is_special(tokenizer, ids.ids[k]) && !text_is(tokenizer_token_text(tokenizer, ids.ids[k]), "<unk>"))
                fail_msg("%s: %.*s in plain text", names[i], TEXT_ARGUMENTS(tokenizer_token_text(tokenizer, ids.ids[k])));
        token_list_deinit(&ids);
        tokenizer_close(tokenizer);
    }
}

static void A13_bytes_that_are_no_utf8_become_replacements(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "llama3");
    struct token_list bad = fixture_encode(tokenizer, (struct text){"\xFF\xFE\0a\xE5\x8C", 6}, 0);
    fixture_assert_decodes(tokenizer, &bad, false, (struct text){"\xEF\xBF\xBD\xEF\xBF\xBD\0a\xEF\xBF\xBD", 11}, "A13");
    token_list_deinit(&bad);
    tokenizer_close(tokenizer);
}

/* ---- long texts ---- */

static char *repeat(const char *piece, size_t times) {
    size_t length = strlen(piece);
    char *text = memory_alloc(length * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * length, piece, length);
    return text;
}

static void *encode_long_texts(void *argument) {
    static const struct {
        const char *piece;
        size_t times;
    } texts[] = {{"Z", 131072},          {"\n", 50000}, {"A", 43000}, {" ", 65536}, {"x", 1u << 20}, {"\xCC\x81\xCC\x96", 20000},
                 {"\xE3\x82\xA2", 40000}};
    static const char *const names[] = {"qwen2",       "gpt4o",   "kimi_k2",   "deepseek_v3",  "possessive",
                                        "spm_prepend", "unigram", "norm_nfkc", "empty_matches"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct tokenizer *tokenizer = fixture_open(argument, names[n]);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            char *text = repeat(texts[i].piece, texts[i].times);
            struct token_list ids = fixture_encode(tokenizer, text_of(text), 0);
            assert_true(ids.count > 0);
            if (n < 5)
                fixture_assert_decodes(tokenizer, &ids, false, text_of(text), names[n]);
            token_list_deinit(&ids);
            memory_free(text);
        }
        tokenizer_close(tokenizer);
    }
    return NULL;
}

static void A6_long_runs_on_a_small_stack(void **state) {
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 256u << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, encode_long_texts, cases), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
}

static double encode_seconds(const struct tokenizer *tokenizer, const char *piece, size_t times) {
    struct timespec begin, end;
    char *text = repeat(piece, times);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin), 0);
    struct token_list ids = fixture_encode(tokenizer, text_of(text), 0);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end), 0);
    token_list_deinit(&ids);
    memory_free(text);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

/*
 * 64 times the text costs 64 times as much where the method is linear and 4,096 times where it is quadratic. 1,024 is between them, so that
 * caches, sanitizers and what else the machine does decide nothing.
 */
static void A7_time_grows_with_the_text(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "deepseek_v3", "spm_prepend", "spm_always", "unigram"};
    static const char *const pieces[] = {"x", "_", " ", "\n"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct tokenizer *tokenizer = fixture_open(cases, names[n]);
        for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
            double small = encode_seconds(tokenizer, pieces[p], 8192), large = encode_seconds(tokenizer, pieces[p], 524288);
            if (large > 1024 * small)
                fail_msg("%s: 8 KiB of '%s' take %.6f s, 512 KiB %.3f s", names[n], pieces[p], small, large);
        }
        tokenizer_close(tokenizer);
    }
}

static atomic_bool stop;

static void stop_now(int number) {
    (void)number;
    atomic_store(&stop, true);
}

/* When the encoder has computed for so long, however long it had to wait for a processor. */
static void stop_soon(void) {
    const struct itimerval soon = {.it_value.tv_usec = 3000};
    assert_true(signal(SIGVTALRM, stop_now) != SIG_ERR);
    atomic_store(&stop, false);
    assert_int_equal(setitimer(ITIMER_VIRTUAL, &soon, NULL), 0);
}

static void encoding_can_be_cancelled(void **state) {
    (void)state;
    static const char *const names[] = {"qwen2", "spm_prepend", "unigram", "whitespace"};
    char *text = repeat("x ", 4u << 20);
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct tokenizer *tokenizer = fixture_open(cases, names[n]);
        struct token_list ids = {0};
        struct error err;
        atomic_store(&stop, true);
        ASSERT_FAILS(tokenizer_encode(tokenizer, TEXT("a"), 0, &stop, &ids, &err), STATUS_CANCELLED, err);
        stop_soon();
        ASSERT_FAILS(tokenizer_encode(tokenizer, text_of(text), 0, &stop, &ids, &err), STATUS_CANCELLED, err);
        token_list_deinit(&ids);
        tokenizer_close(tokenizer);
    }
    memory_free(text);
}

/* ---- damaged and foreign files ---- */

static void A19_two_spellings_of_merges(void **state) {
    (void)state;
    static const char lines[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4}, "
                                "\"merges\": [\"a b\", \"ab c\"]}}";
    static const char pairs[] = "{\"model\": {\"merges\": [[\"a\", \"b\"], [\"ab\", \"c\"]], \"type\": \"BPE\", "
                                "\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 4}}}";
    static const char spaces[] = "{\"model\": {\"vocab\": {\" \": 0, \"a\": 1, \" a\": 2}, \"merges\": [[\" \", \"a\"]]}}";
    static const char bad[] = "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\", \"b a\"]}}";
    static const char torn[] = "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\", \"ab\"]}}";
    const char *const documents[] = {lines, pairs, spaces};
    struct error err;
    struct tokenizer *tokenizer;
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(fixture_open_bytes(text_of(documents[i]), &tokenizer, &err), err);
        struct token_list ids = fixture_encode(tokenizer, i == 2 ? TEXT("a a") : TEXT("abcab"), 0);
        assert_int_equal(ids.count, 2);
        assert_int_equal(ids.ids[0], i == 2 ? 1 : 4);
        assert_int_equal(ids.ids[1], i == 2 ? 2 : 3);
        token_list_deinit(&ids);
        tokenizer_close(tokenizer);
    }
    ASSERT_FAILS(fixture_open_bytes(text_of(bad), &tokenizer, &err), STATUS_CORRUPT, err);
    assert_non_null(strstr(err.text, "merge 1"));
    ASSERT_FAILS(fixture_open_bytes(text_of(torn), &tokenizer, &err), STATUS_CORRUPT, err);
    assert_non_null(strstr(err.text, "merge 1"));
}

static void A20_added_token_flags(void **state) {
    (void)state;
    static const char *const names[] = {"added_lstrip", "added_rstrip", "added_single_word", "added_normalized"};
    static const char *const texts[] = {"foo <mask> bar", "foobar foo, Foo_foo", "YESTERDAY Yesterday yesterday",
                                        "<a><ab><abc> <|\xC3\xA9|>"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct tokenizer *tokenizer = fixture_open(cases, names[n]);
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            check_case(tokenizer, find_case(names[n], texts[i]), names[n]);
        tokenizer_close(tokenizer);
    }
}

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    static const struct {
        const char *document;
        enum status status;
        const char *words;
    } rows[] = {
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}", STATUS_UNSUPPORTED, "WordPiece"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"normalizer\": {\"type\": \"Magic\"}}", STATUS_UNSUPPORTED, "Magic"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}}", STATUS_UNSUPPORTED,
         "UnicodeScripts"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"decoder\": {\"type\": \"CTC\"}}", STATUS_UNSUPPORTED, "CTC"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}}}",
         STATUS_UNSUPPORTED, "(a"},
        {"{\"model\": {\"vocab\": {\"a\": 99999999}, \"merges\": []}}", STATUS_UNSUPPORTED, "99999999"},
        {"{\"model\": {\"vocab\": [[\"a\", 0]], \"type\": \"Unigram\", \"unk_id\": 7}}", STATUS_CORRUPT, "unk_id 7"},
        {"{\"model\": {\"vocab\": {\"a\": -1}}}", STATUS_CORRUPT, "byte"},
        {"{\"model\": {\"vocab\": {\"a\": 0}", STATUS_CORRUPT, "too early"},
        {"{\"model\": {}}", STATUS_CORRUPT, "no vocabulary"},
        {"{} x", STATUS_CORRUPT, "follows"},
        {"not a tokenizer", STATUS_CORRUPT, "SentencePiece"},
        {"", STATUS_CORRUPT, "empty"},
    };
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err;
        struct tokenizer *tokenizer;
        ASSERT_FAILS(fixture_open_bytes(text_of(rows[i].document), &tokenizer, &err), rows[i].status, err);
        assert_null(tokenizer);
        if (!strstr(err.text, rows[i].words))
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].words);
    }
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), before);
    struct error err;
    struct tokenizer *tokenizer;
    ASSERT_FAILS(tokenizer_open_path("/nonexistent/tokenizer.json", &tokenizer, &err), STATUS_NOT_FOUND, err);
}

static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    static const char *const names[] = {"added_normalized", "spm_first_split", "unigram_bytes", "norm_charsmap"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        char *document = fixture_document(cases, names[n]);
        bool done = false;
        uint64_t before = memory_owner_bytes(MEMORY_OTHER), nth = 1;
        for (; !done; nth += nth < 200 ? 1 : 37) {
            struct error err = {0};
            struct tokenizer *tokenizer;
            struct token_list ids = {0};
            memory_fail_after(nth);
            enum status status = fixture_open_bytes(text_of(document), &tokenizer, &err);
            if (status == STATUS_OK)
                status = tokenizer_encode(tokenizer, TEXT("Hello foo<mask> w\xC3\xB6rld 12"), TOKENIZE_ADD_SPECIAL, NULL, &ids, &err);
            memory_fail_after(0);
            if (status != STATUS_OK)
                assert_int_equal(status, STATUS_NO_MEMORY);
            done = status == STATUS_OK && nth > 400;
            token_list_deinit(&ids);
            tokenizer_close(tokenizer);
            if (memory_owner_bytes(MEMORY_OTHER) != before)
                fail_msg("%s: allocation %llu fails and leaks", names[n], (unsigned long long)nth);
            assert_true(nth < 100000);
        }
        memory_free(document);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_texts_equal_hugging_face),
        cmocka_unit_test(A1_composed_and_decomposed_accents),
        cmocka_unit_test(A2_A3_text_after_a_special_token),
        cmocka_unit_test(A4_no_space_before_the_first_word),
        cmocka_unit_test(A5_every_kind_of_file_gives_the_same_ids),
        cmocka_unit_test(A6_long_runs_on_a_small_stack),
        cmocka_unit_test(A7_time_grows_with_the_text),
        cmocka_unit_test(A8_plain_text_never_gives_control_tokens),
        cmocka_unit_test(A13_bytes_that_are_no_utf8_become_replacements),
        cmocka_unit_test(A19_two_spellings_of_merges),
        cmocka_unit_test(A20_added_token_flags),
        cmocka_unit_test(a_gguf_names_its_special_tokens),
        cmocka_unit_test(a_folder_is_opened_by_what_it_holds),
        cmocka_unit_test(encoding_can_be_cancelled),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, load_cases, drop_cases);
}
