/*
 * grammar_fixture: forms by a letter, as tests write them: G for GBNF, R a regular expression, S a JSON schema.
 */
#pragma once

#include "test_support.h"

#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "generate/gbnf.h"
#include "generate/grammar_constraint.h"
#include "generate/json_schema.h"
#include "generate/matcher.h"
#include "generate/regex.h"

/* A finished grammar; grammar_deinit in both cases. */
static inline enum status build_grammar(struct grammar *g, char kind, const char *text, struct error *err) {
    grammar_init(g);
    if (kind == 'G') {
        gbnf_read(g, text_of(text));
    } else if (kind == 'R') {
        g->root = grammar_rule_of(g, regex_read(g, text_of(text), REGEX_WHOLE, CHARS_PLAIN));
    } else {
        json_t *document;
        struct json_schema *schema;
        struct json_form form = {.grammar = g};
        TRY(json_parse(text_of(text), "schema", 1u << 20, &document, err));
        enum status status = json_schema_create(&form, document, "schema", &schema, err);
        if (status == STATUS_OK) {
            struct fragment value;
            if (kind != 'M')
                value = json_schema_value(schema, document);
            else if (!json_schema_marked_text(schema, document, &value)) {
                grammar_fail(g, STATUS_INVALID, "not of strings alone");
                value = grammar_nothing(g);
            }
            g->root = grammar_rule_of(g, value);
            json_schema_finish(schema);
            json_schema_destroy(schema);
        }
        json_decref(document);
        TRY(status);
    }
    return grammar_finish(g, err);
}

/* Whether the grammar matches the text: 0 it cannot go on like that, 1 it may, 2 the text is whole. */
static inline int run_matcher(struct matcher *m, struct text text, struct error *err) {
    uint32_t set;
    ASSERT_OK(matcher_start(m, &set, err), *err);
    for (size_t i = 0; i < text.size_bytes && set != MATCHER_DEAD; i++)
        ASSERT_OK(matcher_next(m, set, (uint8_t)text.data[i], &set, err), *err);
    return set == MATCHER_DEAD ? 0 : m->sets[set].flags & MATCHER_ACCEPTS ? 2 : 1;
}
