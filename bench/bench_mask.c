/*
 * bench_mask: how long the mask of an answer with a form takes, over a real vocabulary: cold (each constraint is new) and warm (the same
 * answers once more).
 *
 *     bench_mask TOKENIZER
 *
 * TOKENIZER is a directory, tokenizer.json or .gguf. Prints one line per form: masks, and times in microseconds. Answers are drawn at
 * random from the allowed tokens, which visits more states than a model does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"
#include "generate/gbnf.h"
#include "generate/grammar_constraint.h"
#include "generate/json_schema.h"
#include "generate/regex.h"
#include "text/tokenizer.h"

#define ANSWERS 30
#define TOKENS_MAX 120
#define CALC \
    "root ::= e\ne ::= t ([-+*/] t)*\nt ::= [0-9]+ | \"(\" e \")\" | name \"(\" (e (\", \" e)*)? \")\"\nname ::= [a-z] [a-z0-9_]*\n"

static const struct {
    const char *name;
    char kind;
    const char *text;
} forms[] = {
    {"any JSON object", 'S', "{\"type\":\"object\"}"},
    {"person", 'S',
     "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":130},"
     "\"email\":{"
     "\"type\":\"string\",\"format\":\"email\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":8},\"kind\":{"
     "\"enum\":[\"a\","
     "\"b\",\"other\"]}},\"required\":[\"name\",\"age\"],\"additionalProperties\":false}"},
    {"strings of bounded length", 'S',
     "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\",\"maxLength\":60},\"text\":{"
     "\"type\":\"string\","
     "\"minLength\":20,\"maxLength\":2000}},\"required\":[\"title\",\"text\"]}}"},
    {"tree (recursive)", 'S',
     "{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}},"
     "\"required\":["
     "\"label\",\"children\"]}"},
    {"dates and numbers", 'S',
     "{\"type\":\"object\",\"properties\":{\"at\":{\"type\":\"string\",\"format\":\"date-time\"},\"x\":{\"type\":\"number\",\"minimum\":-1."
     "5,\"maximum\":"
     "99.25},\"id\":{\"type\":\"string\",\"format\":\"uuid\"}},\"required\":[\"at\",\"x\",\"id\"]}"},
    {"regex: lines of words", 'R', "([A-Z][a-z]{1,12}( [a-z]{1,12}){2,9}\\.\\n){1,20}"},
    {"GBNF: calculator", 'G', CALC},
};

static struct token_trie *read_vocabulary(const char *path) {
    struct tokenizer *tokenizer;
    struct token_trie *trie;
    struct error err;
    struct byte_buffer bytes;
    if (tokenizer_open_path(path, &tokenizer, &err) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return NULL;
    }
    uint32_t vocab = tokenizer_vocab_size(tokenizer), *offsets = memory_alloc_array((size_t)vocab + 1, sizeof *offsets);
    byte_buffer_init(&bytes, 256u << 20);
    CHECK(offsets);
    for (uint32_t id = 0; id < vocab; id++) {
        CHECK(tokenizer_token_bytes(tokenizer, id, &bytes, &err) == STATUS_OK);
        offsets[id + 1] = (uint32_t)bytes.size_bytes;
    }
    tokenizer_close(tokenizer);
    uint64_t start = clock_now_ns();
    CHECK(token_trie_build(byte_buffer_take(&bytes), offsets, vocab, false, &trie, &err) == STATUS_OK);
    (void)printf("%" PRIu32 " tokens, %" PRIu32 " nodes, %.1f MiB, built in %.0f ms\n\n", vocab, trie->node_count,
                 (double)token_trie_memory(trie) / 1048576, (double)(clock_now_ns() - start) / 1e6);
    return trie;
}

static struct constraint *open_form(size_t f, const struct token_trie *trie, const uint32_t *end) {
    struct grammar g;
    struct error err;
    struct constraint *c;
    const struct grammar_constraint_options options = {.trie = trie, .end_ids = end, .end_count = 1, .vocab = trie->vocab + 1};
    struct text text = text_of(forms[f].text);
    grammar_init(&g);
    if (forms[f].kind == 'G') {
        gbnf_read(&g, text);
    } else if (forms[f].kind == 'R') {
        g.root = grammar_rule_of(&g, regex_read(&g, text, REGEX_WHOLE, CHARS_PLAIN));
    } else {
        json_t *document;
        struct json_form form = {.grammar = &g};
        struct json_schema *schema;
        CHECK(json_parse(text, "schema", 1u << 20, &document, &err) == STATUS_OK);
        CHECK(json_schema_create(&form, document, "schema", &schema, &err) == STATUS_OK);
        g.root = grammar_rule_of(&g, json_schema_value(schema, document));
        json_schema_finish(schema);
        json_schema_destroy(schema);
        json_decref(document);
    }
    CHECK(grammar_constraint_create(&g, &options, &c, &err) == STATUS_OK);
    return c;
}

struct times {
    double *us;
    size_t count;
};

/* Time of this thread alone: other work of the machine is not counted. */
static double now_us(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *name, const char *state, struct times *t) {
    qsort(t->us, t->count, sizeof *t->us, compare_times);
    (void)printf("| %s | %s | %zu | %.1f | %.1f | %.1f |\n", name, state, t->count, t->us[t->count / 2], t->us[t->count * 99 / 100],
                 t->us[t->count - 1]);
}

/* One answer of random allowed tokens. */
static void run_answer(struct constraint *c, uint32_t vocab, uint32_t *bits, uint64_t random, struct times *t) {
    struct error err;
    c->operations->reset(c);
    for (int n = 0; n < TOKENS_MAX && !c->operations->is_finished(c); n++) {
        double start = now_us();
        CHECK(c->operations->mask(c, bits, &err) == STATUS_OK);
        t->us[t->count++] = now_us() - start;
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t id = (uint32_t)((random >> 33) % vocab);
        for (uint32_t tried = 0; tried < vocab && !(bits[id / 32] >> (id % 32) & 1); tried++)
            id = (id + 1) % vocab;
        if (!(bits[id / 32] >> (id % 32) & 1))
            return; /* only the end is left */
        CHECK(c->operations->accept(c, id, &err) == STATUS_OK);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fprintf(stderr, "usage: bench_mask TOKENIZER\n");
        return 2;
    }
    memory_setup();
    struct token_trie *trie = read_vocabulary(argv[1]);
    if (!trie)
        return 1;
    const uint32_t end = trie->vocab;
    uint32_t *bits = memory_alloc_array(trie->vocab / 32 + 2, sizeof *bits);
    struct times cold = {memory_alloc_array(ANSWERS * TOKENS_MAX, sizeof(double)), 0},
                 warm = {memory_alloc_array(ANSWERS * TOKENS_MAX, sizeof(double)), 0};
    CHECK(bits && cold.us && warm.us);
    (void)printf("| form | state | masks | p50 us | p99 us | max us |\n|---|---|---|---|---|---|\n");
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        cold.count = warm.count = 0;
        for (uint64_t a = 0; a < ANSWERS; a++) {
            struct constraint *c = open_form(f, trie, &end);
            run_answer(c, trie->vocab, bits, a, &cold);
            run_answer(c, trie->vocab, bits, a, &warm);
            constraint_destroy(c);
        }
        print_times(forms[f].name, "cold", &cold);
        print_times("", "warm", &warm);
    }
    memory_free(bits);
    memory_free(cold.us);
    memory_free(warm.us);
    token_trie_destroy(trie);
    return 0;
}
