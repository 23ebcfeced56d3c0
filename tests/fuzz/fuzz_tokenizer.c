/*
 * fuzz_tokenizer: input that begins with '{' or is no text is a tokenizer file; what opens encodes a text and decodes ids. Any other input
 * is a text for fixed tokenizers: what comes back must be UTF-8, and the ids' steps must join to the decoded text.
 */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static const char *const fixed[] = {
    "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3, \"\xC4\xA0"
    "a\": 4, \"<x>\": 5}, \"merges\": [\"a b\", \"\xC4\xA0 a\"]}, \"normalizer\": {\"type\": \"NFKC\"}, \"added_tokens\": [{\"id\": 5, "
    "\"content\": \"<x>\", "
    "\"special\": true, \"lstrip\": true, \"rstrip\": true}, {\"id\": 6, \"content\": \"a b\", \"normalized\": true, \"single_word\": "
    "true}], "
    "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
    "\"[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lo}\\\\p{M}&&[^\\\\p{Han}]]*[\\\\p{Ll}\\\\p{M}]+|\\\\p{N}{1,3}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r"
    "\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, \"behavior\": \"MergedWithNext\"}, {\"type\": \"ByteLevel\", \"use_regex\": false}]}, \"decoder\": "
    "{\"type\": \"ByteLevel\"}}",
    "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"\xE2\x96\x81\", -1], [\"a\", -2.5], [\"aa\", -3], "
    "[\"\xE2\x96\x81"
    "a\", -2], [\"<0x0A>\", 0]]}, \"pre_tokenizer\": {\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}, \"normalizer\": {\"type\": "
    "\"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": \"StripAccents\"}, {\"type\": \"Strip\"}]}, \"decoder\": {\"type\": "
    "\"Metaspace\"}}",
};

static enum status open_bytes(const void *data, size_t size_bytes, struct tokenizer **out, struct error *err) {
    char path[64];
    int fd = memfd_create("fuzz_tokenizer", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size_bytes) == (ssize_t)size_bytes);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    enum status status = tokenizer_open_path(path, out, err);
    (void)close(fd);
    return status;
}

static void check_decoding(const struct tokenizer *tokenizer, const struct token_list *ids) {
    struct byte_buffer whole, steps;
    struct tokenizer_stream stream;
    struct error err = {0};
    byte_buffer_init(&whole, 64u << 20);
    byte_buffer_init(&steps, 64u << 20);
    CHECK(tokenizer_decode(tokenizer, ids->ids, ids->count, true, &whole, &err) == STATUS_OK);
    CHECK(utf8_valid_bytes(byte_buffer_text(&whole)) == whole.size_bytes);
    tokenizer_stream_init(&stream, tokenizer, true);
    for (size_t i = 0; i < ids->count; i++)
        CHECK(tokenizer_stream_push(&stream, ids->ids[i], &steps, &err) == STATUS_OK);
    CHECK(tokenizer_stream_finish(&stream, &steps, &err) == STATUS_OK);
    CHECK(text_equal(byte_buffer_text(&whole), byte_buffer_text(&steps)));
    byte_buffer_deinit(&whole);
    byte_buffer_deinit(&steps);
}

static void use(const struct tokenizer *tokenizer, struct text text) {
    for (unsigned flags = 0; flags <= (TOKENIZE_ADD_SPECIAL | TOKENIZE_PLAIN); flags++) {
        struct token_list ids = {0};
        struct error err = {0};
        if (tokenizer_encode(tokenizer, text, flags, NULL, &ids, &err) == STATUS_OK)
            check_decoding(tokenizer, &ids);
        else
            CHECK(err.text[0] != 0);
        token_list_deinit(&ids);
    }
}

/* All ids of a small vocabulary, one behind the other. */
static void decode_vocabulary(const struct tokenizer *tokenizer) {
    struct token_list ids = {0};
    struct error err;
    for (uint32_t id = 0; id < 300; id++)
        CHECK(token_list_append(&ids, id, &err) == STATUS_OK);
    check_decoding(tokenizer, &ids);
    token_list_deinit(&ids);
}

/* The fixed tokenizers, opened by the first call and kept. */
static const struct tokenizer *fixed_tokenizer(size_t index) {
    static struct tokenizer *opened[sizeof(fixed) / sizeof(fixed[0])];
    struct error err;
    if (!opened[index])
        CHECK(open_bytes(fixed[index], strlen(fixed[index]), &opened[index], &err) == STATUS_OK);
    return opened[index];
}

static void use_file(const uint8_t *data, size_t size_bytes) {
    struct error err = {0};
    struct tokenizer *tokenizer;
    if (open_bytes(data, size_bytes, &tokenizer, &err) != STATUS_OK) {
        CHECK(tokenizer == NULL && err.text[0] != 0);
        return;
    }
    use(tokenizer, TEXT("  Hello w\xC3\xB6rld </s>12 \xE4\xB8\xAD\n\xF0\x9F\x98\x8A"
                        "a\xCC\x81 <x>'s"));
    decode_vocabulary(tokenizer);
    tokenizer_close(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    struct text text = {(const char *)data, size_bytes};
    bool is_object = size_bytes > 0 && data[0] == '{';
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        (void)fixed_tokenizer(i);
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    if (is_object || utf8_valid_bytes(text) < size_bytes)
        use_file(data, size_bytes);
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && !is_object; i++)
        use(fixed_tokenizer(i), text);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
