/*
 * fuzz_grammar: any bytes as a GBNF grammar, regular expression or JSON schema (first byte). What is taken must have a mask at every place
 * of an answer, a token that the mask allows must be accepted, and taking it back must lead to the same mask.
 */
#include "fuzz.h"

#include <string.h>

#include "base/byte_buffer.h"
#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "generate/gbnf.h"
#include "generate/grammar_constraint.h"
#include "generate/json_schema.h"
#include "generate/regex.h"

#define VOCAB 300
#define END_ID (VOCAB - 1)
#define WORDS ((VOCAB + 31) / 32)
#define TOKENS 12

static enum status read_form(struct grammar *g, char kind, struct text text, struct error *err) {
    if (kind == 'G') {
        gbnf_read(g, text);
    } else if (kind == 'R') {
        g->root = grammar_rule_of(g, regex_read(g, text, REGEX_WHOLE, CHARS_PLAIN));
    } else {
        json_t *document;
        struct json_schema *schema;
        struct json_form form = {.grammar = g};
        TRY(json_parse(text, "schema", 1u << 20, &document, err));
        CHECK(json_schema_create(&form, document, "schema", &schema, err) == STATUS_OK);
        g->root = grammar_rule_of(g, json_schema_value(schema, document));
        json_schema_finish(schema);
        json_schema_destroy(schema);
        json_decref(document);
    }
    return STATUS_OK;
}

/* All bytes, and some tokens of several. */
static struct token_trie *make_trie(void) {
    static const char *const more[] = {"ab", "true", "\": ", "{\"", "\"a", "\xc3\xa4", "12", "\\u00", "  ", "\"}"};
    uint32_t *offsets = memory_alloc_array(VOCAB + 1, sizeof *offsets);
    struct byte_buffer bytes;
    struct token_trie *trie;
    byte_buffer_init(&bytes, 1u << 16);
    CHECK(offsets);
    for (uint32_t id = 0; id < VOCAB; id++) {
        char byte = (char)id;
        if (id < 256)
            CHECK(byte_buffer_append(&bytes, &byte, 1, NULL) == STATUS_OK);
        else if (id - 256 < sizeof more / sizeof *more)
            CHECK(byte_buffer_append_text(&bytes, text_of(more[id - 256]), NULL) == STATUS_OK);
        offsets[id + 1] = (uint32_t)bytes.size_bytes;
    }
    CHECK(token_trie_build(byte_buffer_take(&bytes), offsets, VOCAB, false, &trie, NULL) == STATUS_OK);
    return trie;
}

/* The n-th allowed token; END_ID when only the end is allowed. */
static uint32_t pick(const uint32_t *bits, uint64_t n) {
    uint32_t count = 0, ids[VOCAB];
    for (uint32_t id = 0; id < END_ID; id++)
        if (bits[id / 32] >> (id % 32) & 1)
            ids[count++] = id;
    return count ? ids[n % count] : END_ID;
}

static void walk(struct constraint *c, uint64_t random) {
    uint32_t bits[WORDS], again[WORDS];
    struct error err;
    for (int n = 0; n < TOKENS; n++) {
        enum status status = c->operations->mask(c, bits, &err);
        if (status == STATUS_OVER_BUDGET)
            return;
        CHECK(status == STATUS_OK); /* all bytes are tokens: something can follow */
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t id = pick(bits, random >> 33);
        if (id == END_ID)
            return;
        status = c->operations->accept(c, id, &err);
        if (status == STATUS_OVER_BUDGET)
            return;
        CHECK(status == STATUS_OK);
        c->operations->take_back(c, 1);
        CHECK(c->operations->mask(c, again, &err) == STATUS_OK && memcmp(bits, again, sizeof bits) == 0);
        CHECK(c->operations->accept(c, id, &err) == STATUS_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    static const uint32_t end_ids[] = {END_ID};
    if (size_bytes < 1 || size_bytes > 4096)
        return 0;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    struct grammar g;
    struct constraint *c = NULL;
    struct error err;
    struct token_trie *trie = make_trie();
    const struct grammar_constraint_options options = {.trie = trie, .end_ids = end_ids, .end_count = 1, .vocab = VOCAB};
    const char kinds[] = {'G', 'R', 'S'};
    grammar_init(&g);
    enum status status =
        read_form(&g, data[0] < 3 ? kinds[data[0]] : (char)data[0], (struct text){(const char *)data + 1, size_bytes - 1}, &err);
    if (status == STATUS_OK)
        status = grammar_constraint_create(&g, &options, &c, &err);
    CHECK(status != STATUS_INTERNAL && status != STATUS_NO_MEMORY);
    if (status == STATUS_OK)
        for (uint64_t seed = 0; seed < 2; seed++) {
            c->operations->reset(c);
            walk(c, seed * 77 + size_bytes);
        }
    constraint_destroy(c);
    grammar_deinit(&g);
    token_trie_destroy(trie);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
