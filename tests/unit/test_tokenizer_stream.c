/* test_tokenizer_stream: text comes as soon as no later byte can change it, never torn, and joins to the whole decode. */
#include "tokenizer_fixture.h"

#include "text/unicode.h"

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

/* Pushes ids one by one; steps are joined with '|', the rest at the end follows '$'. */
static char *stream(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, bool skip_special) {
    struct tokenizer_stream stream;
    struct byte_buffer out, step;
    struct error err;
    byte_buffer_init(&out, 1u << 20);
    byte_buffer_init(&step, 1u << 20);
    tokenizer_stream_init(&stream, tokenizer, skip_special);
    for (size_t i = 0; i <= count; i++) {
        byte_buffer_clear(&step);
        ASSERT_OK(i < count ? tokenizer_stream_push(&stream, ids[i], &step, &err) : tokenizer_stream_finish(&stream, &step, &err), err);
        assert_int_equal(utf8_valid_bytes(byte_buffer_text(&step)), step.size_bytes);
        ASSERT_OK(byte_buffer_append_text(&out, i == count ? TEXT("$") : i > 0 ? TEXT("|") : (struct text){"", 0}, &err), err);
        ASSERT_OK(byte_buffer_append_text(&out, byte_buffer_text(&step), &err), err);
    }
    byte_buffer_deinit(&step);
    return byte_buffer_take(&out);
}

static void assert_stream(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count, const char *wanted) {
    char *got = stream(tokenizer, ids, count, false);
    assert_string_equal(got, wanted);
    memory_free(got);
}

static uint32_t find_token(const struct tokenizer *tokenizer, const char *text) {
    uint32_t id = 0;
    if (!tokenizer_find(tokenizer, text_of(text), &id))
        fail_msg("no token %s", text);
    return id;
}

static uint32_t fallback_byte(const struct tokenizer *tokenizer, unsigned byte) {
    char name[8];
    (void)snprintf(name, sizeof(name), "<0x%02X>", byte);
    return find_token(tokenizer, name);
}

static uint32_t level_byte(const struct tokenizer *tokenizer, unsigned byte) {
    char name[UTF8_BYTES_MAX + 1] = {0};
    (void)utf8_write(byte_level_character((uint8_t)byte), name);
    return find_token(tokenizer, name);
}

/* Both kinds of byte tokens. */
static void for_bytes(const uint8_t *bytes, size_t count, const char *wanted) {
    struct tokenizer *fallback = fixture_open(cases, "spm_no_prefix"), *level = fixture_open(cases, "gpt2");
    uint32_t ids[32];
    assert_true(count <= 32);
    for (size_t i = 0; i < count; i++)
        ids[i] = fallback_byte(fallback, bytes[i]);
    assert_stream(fallback, ids, count, wanted);
    for (size_t i = 0; i < count; i++)
        ids[i] = level_byte(level, bytes[i]);
    assert_stream(level, ids, count, wanted);
    tokenizer_close(fallback);
    tokenizer_close(level);
}

#define FOR_BYTES(wanted, ...) for_bytes((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), wanted)

static void A9_a_character_over_several_tokens(void **state) {
    (void)state;
    FOR_BYTES("|||\xF0\x9F\x98\x8A$", 0xF0, 0x9F, 0x98, 0x8A);
    FOR_BYTES("|\xC3\xA9|a|||\xE4\xB8\xAD$", 0xC3, 0xA9, 'a', 0xE4, 0xB8, 0xAD);
}

/* One replacement for each maximal broken part, as soon as it is known to be broken. */
static void A11_bytes_that_never_become_a_character(void **state) {
    (void)state;
    FOR_BYTES("$" UTF8_REPLACEMENT, 0xE5);
    FOR_BYTES("|$" UTF8_REPLACEMENT, 0xF0, 0x9F);
    FOR_BYTES("|" UTF8_REPLACEMENT "A$", 0xE5, 'A');
    FOR_BYTES("|" UTF8_REPLACEMENT UTF8_REPLACEMENT "$", 0xED, 0xA0);
    FOR_BYTES(UTF8_REPLACEMENT "|" UTF8_REPLACEMENT "|a$", 0xFF, 0x80, 'a');
    FOR_BYTES("||" UTF8_REPLACEMENT "|\xC3\xA9$", 0xF0, 0x9F, 0xC3, 0xA9);
}

static void A15_no_space_after_a_special_token(void **state) {
    (void)state;
    char path[4096];
    struct error err;
    struct tokenizer *tokenizer;
    ASSERT_OK(tokenizer_open_path(fixture_path("spm.gguf", path, sizeof(path)), &tokenizer, &err), err);
    uint32_t special = find_token(tokenizer, "</s>"), word = find_token(tokenizer, "\xE2\x96\x81world");
    assert_stream(tokenizer, (const uint32_t[]){special, word, word, special, word}, 5, "</s>|world| world|</s>|world$");
    struct text text = TEXT("hello</s> world</s>the");
    struct token_list ids = fixture_encode(tokenizer, text, 0);
    fixture_assert_decodes(tokenizer, &ids, false, text, "A15"); /* there and back */
    token_list_deinit(&ids);
    tokenizer_close(tokenizer);
}

static void A18_a_replacement_character_in_the_vocabulary(void **state) {
    (void)state;
    static const char document[] = "{\"model\": {\"vocab\": {\"\xC4\xA0\xC3\xAF\xC2\xBF\xC2\xBD\": 0, \"a\": 1}, \"merges\": []}, "
                                   "\"decoder\": {\"type\": \"ByteLevel\"}}";
    struct error err;
    struct tokenizer *tokenizer;
    struct byte_buffer bytes;
    ASSERT_OK(fixture_open_bytes(text_of(document), &tokenizer, &err), err);
    assert_stream(tokenizer, (const uint32_t[]){0, 1}, 2, " " UTF8_REPLACEMENT "|a$");
    byte_buffer_init(&bytes, 100);
    ASSERT_OK(tokenizer_token_bytes(tokenizer, 0, &bytes, &err), err);
    assert_true(text_is(byte_buffer_text(&bytes), " " UTF8_REPLACEMENT));
    byte_buffer_deinit(&bytes);
    tokenizer_close(tokenizer);
}

static void a_leading_space_is_stripped_once(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "spm_prepend");
    uint32_t mark = find_token(tokenizer, "\xE2\x96\x81"), word = find_token(tokenizer, "\xE2\x96\x81world"),
             special = find_token(tokenizer, "<s>");
    assert_stream(tokenizer, (const uint32_t[]){word, word}, 2, "world| world$");
    assert_stream(tokenizer, (const uint32_t[]){mark, word}, 2, "| world$");
    assert_stream(tokenizer, (const uint32_t[]){special, word}, 2, "<s>| world$");
    char *skipped = stream(tokenizer, (const uint32_t[]){special, word}, 2, true);
    assert_string_equal(skipped, "|world$");
    memory_free(skipped);
    tokenizer_close(tokenizer);
}

static void ids_that_are_no_tokens_give_nothing(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "gpt2");
    assert_stream(tokenizer, (const uint32_t[]){UINT32_MAX, tokenizer_vocab_size(tokenizer), level_byte(tokenizer, 'a')}, 3, "||a$");
    tokenizer_close(tokenizer);
}

static void token_bytes_are_those_inside_a_text(void **state) {
    (void)state;
    struct tokenizer *tokenizer = fixture_open(cases, "spm_prepend");
    struct byte_buffer bytes;
    struct error err;
    byte_buffer_init(&bytes, 100);
    ASSERT_OK(tokenizer_token_bytes(tokenizer, find_token(tokenizer, "\xE2\x96\x81world"), &bytes, &err), err);
    ASSERT_OK(tokenizer_token_bytes(tokenizer, fallback_byte(tokenizer, 0xE5), &bytes, &err), err);
    ASSERT_OK(tokenizer_token_bytes(tokenizer, find_token(tokenizer, "</s>"), &bytes, &err), err);
    assert_true(text_is(byte_buffer_text(&bytes), " world\xE5"));
    byte_buffer_deinit(&bytes);
    tokenizer_close(tokenizer);
}

/* Every case of every tokenizer: the steps without their marks are the decoded text. */
static void steps_join_to_the_whole(void **state) {
    (void)state;
    const char *name;
    json_t *entry, *one;
    size_t index;
    json_object_foreach(json_object_get(cases, "tokenizers"), name, entry) {
        struct tokenizer *tokenizer = fixture_open(cases, name);
        json_array_foreach(json_object_get(entry, "cases"), index, one) {
            struct token_list ids = fixture_encode(tokenizer, fixture_text(json_object_get(one, "text")), TOKENIZE_ADD_SPECIAL);
            for (int skip = 0; skip < 2; skip++) {
                struct tokenizer_stream steps;
                struct byte_buffer joined;
                struct error err;
                byte_buffer_init(&joined, 1u << 20);
                tokenizer_stream_init(&steps, tokenizer, skip);
                for (size_t i = 0; i < ids.count; i++)
                    ASSERT_OK(tokenizer_stream_push(&steps, ids.ids[i], &joined, &err), err);
                ASSERT_OK(tokenizer_stream_finish(&steps, &joined, &err), err);
                fixture_assert_decodes(tokenizer, &ids, skip, byte_buffer_text(&joined), name);
                byte_buffer_deinit(&joined);
            }
            token_list_deinit(&ids);
        }
        tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(A9_a_character_over_several_tokens),  cmocka_unit_test(A11_bytes_that_never_become_a_character),
        cmocka_unit_test(A15_no_space_after_a_special_token),  cmocka_unit_test(A18_a_replacement_character_in_the_vocabulary),
        cmocka_unit_test(a_leading_space_is_stripped_once),    cmocka_unit_test(ids_that_are_no_tokens_give_nothing),
        cmocka_unit_test(token_bytes_are_those_inside_a_text), cmocka_unit_test(steps_join_to_the_whole),
    };
    return cmocka_run_group_tests(tests, load_cases, drop_cases);
}
