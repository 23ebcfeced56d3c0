/*
 * engine_form: include/sluice.h, the form of an answer: texts -> grammar -> constraint.
 */
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "generate/gbnf.h"
#include "generate/grammar_constraint.h"
#include "generate/json_schema.h"
#include "generate/regex.h"
#include "generate/reply_grammar.h"
#include "sluice_tools.h"

#define FORM_BYTES_MAX (8u << 20)
#define VOCABULARY_BYTES_MAX (256u << 20)

/* ---- the vocabulary ---- */

/* Whether the first space of an answer is not shown: told by a token that begins with one. */
static enum status skips_first_space(const struct tokenizer *tokenizer, uint32_t token, bool *skips, struct error *err) {
    struct tokenizer_stream stream;
    struct byte_buffer shown;
    byte_buffer_init(&shown, 1u << 16);
    tokenizer_stream_init(&stream, tokenizer, false);
    enum status status = tokenizer_stream_push(&stream, token, &shown, err);
    *skips = status == STATUS_OK && shown.size_bytes > 0 && shown.data[0] != ' ';
    byte_buffer_deinit(&shown);
    return status;
}

static enum status append_token(const struct tokenizer *tokenizer, uint32_t id, struct byte_buffer *bytes, struct error *err) {
    if (tokenizer_token_is_special(tokenizer, id))
        return reply_control_spelling(tokenizer_token_text(tokenizer, id), bytes, err);
    return tokenizer_token_bytes(tokenizer, id, bytes, err);
}

static bool is_end(const uint32_t *end_ids, uint32_t count, uint32_t id) {
    for (uint32_t i = 0; i < count; i++)
        if (end_ids[i] == id)
            return true;
    return false;
}

enum status engine_need_trie(const struct tokenizer *tokenizer, uint32_t vocab, const uint32_t *end_ids, uint32_t end_count,
                             struct token_trie **trie, struct error *err) {
    if (*trie)
        return STATUS_OK;
    uint32_t count = tokenizer_vocab_size(tokenizer) < vocab ? tokenizer_vocab_size(tokenizer) : vocab, spaced = UINT32_MAX;
    uint32_t *offsets = memory_alloc_array((size_t)count + 1, sizeof *offsets);
    struct byte_buffer bytes;
    byte_buffer_init(&bytes, VOCABULARY_BYTES_MAX);
    enum status status = offsets ? byte_buffer_reserve(&bytes, 1, err) : error_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", count);
    for (uint32_t id = 0; status == STATUS_OK && id < count; id++) {
        if (!is_end(end_ids, end_count, id))
            status = append_token(tokenizer, id, &bytes, err);
        offsets[id + 1] = (uint32_t)bytes.size_bytes;
        if (spaced == UINT32_MAX && offsets[id + 1] - offsets[id] > 1 && bytes.data[offsets[id]] == ' ' &&
            bytes.data[offsets[id] + 1] != ' ')
            spaced = id;
    }
    bool skips = false;
    if (status == STATUS_OK && spaced != UINT32_MAX)
        status = skips_first_space(tokenizer, spaced, &skips, err);
    char *data = status == STATUS_OK ? byte_buffer_take(&bytes) : NULL;
    byte_buffer_deinit(&bytes);
    if (!data) {
        memory_free(offsets);
        return status == STATUS_OK ? error_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", count) : status;
    }
    return token_trie_build(data, offsets, count, skips, trie, err);
}

/* ---- grammars ---- */

struct form_run {               /* what one compilation reads; texts live as long */
    struct sluice_model *model; /* NULL: a tokenizer alone */
    const struct tokenizer *tokenizer;
    const sluice_form *form;
    struct grammar grammar;
    struct json_form json;
    json_t *document, *tools; /* owned */
    bool check;               /* the grammar alone, for any reply format */
};

static const char *kind_name(sluice_form_kind kind) {
    static const char *const names[] = {"JSON", "the schema", "the pattern", "the grammar", "the choices", "the tools"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static enum status read_schema(struct form_run *run, struct fragment *out, struct error *err) {
    struct json_schema *schema;
    TRY(json_schema_create(&run->json, run->document, "schema", &schema, err));
    *out = json_schema_value(schema, run->document);
    json_schema_finish(schema);
    json_schema_destroy(schema);
    return STATUS_OK;
}

static struct fragment read_choices(struct form_run *run) {
    struct grammar *g = &run->grammar;
    struct fragment all = grammar_never(g);
    size_t i;
    json_t *choice;
    json_array_foreach(run->document, i, choice) {
        struct text text = {json_string_value(choice), json_string_length(choice)};
        if (!json_is_string(choice) || text.size_bytes == 0)
            grammar_fail(g, STATUS_INVALID, "choice %zu must be a text that is not empty", i);
        else
            all = grammar_either(g, all, grammar_text(g, text, CHARS_PLAIN));
    }
    if (json_array_size(run->document) == 0)
        grammar_fail(g, STATUS_INVALID, "the choices must be a list of at least one text");
    return all;
}

static struct fragment read_grammar(struct form_run *run) {
    struct grammar *g = &run->grammar;
    gbnf_read(g, text_of(run->form->text));
    return grammar_failed(g) ? grammar_nothing(g) : grammar_call(g, g->root);
}

/* JSON may have white space in front; other forms begin at once. */
static enum status read_content(struct form_run *run, struct fragment *out, struct error *err) {
    struct grammar *g = &run->grammar;
    switch (run->form->kind) {
    case SLUICE_FORM_JSON:
        *out = grammar_join(g, json_form_rule(&run->json, FORM_SPACE), json_form_rule(&run->json, FORM_OBJECT));
        return STATUS_OK;
    case SLUICE_FORM_SCHEMA: {
        struct fragment space = json_form_rule(&run->json, FORM_SPACE), value;
        TRY(read_schema(run, &value, err));
        *out = grammar_join(g, space, value);
        return STATUS_OK;
    }
    case SLUICE_FORM_REGEX:
        *out = regex_read(g, text_of(run->form->text), REGEX_WHOLE, CHARS_PLAIN);
        return STATUS_OK;
    case SLUICE_FORM_GRAMMAR:
        *out = read_grammar(run);
        return STATUS_OK;
    case SLUICE_FORM_CHOICES:
        *out = read_choices(run);
        return STATUS_OK;
    case SLUICE_FORM_CALLS:
    default:
        return error_set(err, STATUS_INVALID, "a form of kind %d in a text that is no chat reply", (int)run->form->kind);
    }
}

/* Whether the model reasons by itself: its template knows the marks. A model that never saw them would not find the end. */
static bool template_reasons(const struct sluice_model *m, const struct reply_family *family, bool tools) {
    const char *sign = family->engine == REPLY_HARMONY ? "<|channel|>" : family->reasoning_close;
    struct text source = m && m->chat ? chat_template_source(m->chat, tools) : TEXT("");
    return sign && memmem(source.data, source.size_bytes, sign, strlen(sign)) != NULL;
}

static enum status read_reply(struct form_run *run, struct fragment *out, struct error *err) {
    const sluice_form *form = run->form;
    struct reply_grammar reply = {.form = &run->json, .family = reply_family_find(TEXT("hermes")), .tokenizer = run->tokenizer};
    bool calls = form->kind == SLUICE_FORM_CALLS;
    if (!run->check)
        TRY(engine_find_family(run->model, form->reply_format, calls || form->tools, &reply.family, err));
    reply.may_reason = template_reasons(run->model, reply.family, calls || form->tools);
    reply.reasoning_opened = form->prompt && reply_reasoning_opened(reply.family, text_of(form->prompt));
    if (calls) {
        *out = reply_grammar_calls(&reply, run->document, form->tool, form->one_call);
        return STATUS_OK;
    }
    TRY(read_content(run, out, err));
    *out = reply_grammar_content(&reply, *out);
    if (form->tools) {
        TRY(json_parse(text_of(form->tools), "the tools", FORM_BYTES_MAX, &run->tools, err));
        struct fragment instead = reply_grammar_calls(&reply, run->tools, NULL, form->one_call);
        *out = grammar_either(&run->grammar, *out, instead);
    }
    return STATUS_OK;
}

static enum status read_form(struct form_run *run, struct error *err) {
    const sluice_form *form = run->form;
    bool json = form->kind == SLUICE_FORM_SCHEMA || form->kind == SLUICE_FORM_CHOICES || form->kind == SLUICE_FORM_CALLS;
    if (form->kind != SLUICE_FORM_JSON && !form->text)
        return error_set(err, STATUS_INVALID, "the form has no text");
    if (form->text && strlen(form->text) > FORM_BYTES_MAX)
        return error_set(err, STATUS_INVALID, "%s: more than %u bytes", kind_name(form->kind), FORM_BYTES_MAX);
    if (json)
        TRY(json_parse(text_of(form->text), kind_name(form->kind), FORM_BYTES_MAX, &run->document, err));
    bool reply = (run->model || run->check) && (form->reply || form->kind == SLUICE_FORM_CALLS);
    struct fragment all;
    TRY(reply ? read_reply(run, &all, err) : read_content(run, &all, err));
    run->grammar.root = grammar_rule_of(&run->grammar, all);
    return STATUS_OK;
}

/* form -> grammar; grammar_deinit, also after a failure. */
static enum status compile(struct form_run *run, struct error *err) {
    grammar_init(&run->grammar);
    run->json.grammar = &run->grammar;
    enum status status = read_form(run, err);
    json_decref(run->document);
    json_decref(run->tools);
    return status;
}

/* form -> constraint over the trie. */
static enum status make_constraint(struct form_run *run, const struct grammar_constraint_options *options, struct constraint **out,
                                   struct error *err) {
    enum status status = compile(run, err);
    if (status == STATUS_OK)
        return grammar_constraint_create(&run->grammar, options, out, err);
    grammar_deinit(&run->grammar);
    return status;
}

sluice_status sluice_check_form(const sluice_form *form, sluice_error *error) {
    struct form_run run = {.form = form, .check = true};
    struct error err = {0};
    enum status status = compile(&run, &err);
    if (status == STATUS_OK)
        status = grammar_finish(&run.grammar, &err);
    grammar_deinit(&run.grammar);
    return engine_report(status, &err, error);
}

static enum status open_constraint(struct sluice_model *m, const sluice_form *form, struct sluice_constraint *c, struct error *err) {
    struct form_run run = {.model = m, .tokenizer = m->tokenizer, .form = form};
    uint32_t vocab = m->model->plan.vocab;
    TRY(engine_need_tokenizer(m, err));
    TRY(engine_need_trie(m->tokenizer, vocab, m->end_ids, m->end_id_count, &m->trie, err));
    c->model = m;
    c->mask = memory_alloc_array((vocab + 31) / 32, sizeof *c->mask);
    if (!c->mask)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a mask of %u tokens", vocab);
    const struct grammar_constraint_options options = {
        .trie = m->trie, .end_ids = m->end_ids, .end_count = m->end_id_count, .vocab = vocab};
    return make_constraint(&run, &options, &c->constraint, err);
}

sluice_status sluice_constraint_open(sluice_model *m, const sluice_form *form, sluice_constraint **out, sluice_error *error) {
    struct error err = {0};
    *out = NULL;
    struct sluice_constraint *c = memory_alloc(sizeof *c);
    enum status status = c ? open_constraint(m, form, c, &err) : error_set(&err, STATUS_NO_MEMORY, "no memory for the form of an answer");
    if (status == STATUS_OK)
        *out = c;
    else
        sluice_constraint_close(c);
    return engine_report(status, &err, error);
}

void sluice_constraint_close(sluice_constraint *c) {
    if (!c)
        return;
    constraint_destroy(c->constraint);
    memory_free(c->mask);
    memory_free(c);
}

/* ---- sluice_tools.h ---- */

struct mask_run {               /* a tokenizer with what belongs to it */
    struct sluice_model *model; /* or NULL: the tokenizer is open by itself */
    struct tokenizer *tokenizer;
    struct token_trie *trie;
    const uint32_t *end_ids;
    uint32_t end_count, vocab;
};

static enum status open_vocabulary(struct mask_run *run, const char *path, struct error *err) {
    size_t end_count;
    if (sluice_open(path, &run->model, NULL) == SLUICE_OK) { /* a model knows more end ids */
        run->tokenizer = run->model->tokenizer;
        run->end_ids = run->model->end_ids;
        run->end_count = run->model->end_id_count;
        run->vocab = run->model->model->plan.vocab;
        TRY(engine_need_tokenizer(run->model, err));
    } else {
        TRY(tokenizer_open_path(path, &run->tokenizer, err));
        run->end_ids = tokenizer_end_ids(run->tokenizer, &end_count);
        run->end_count = (uint32_t)end_count;
        run->vocab = tokenizer_vocab_size(run->tokenizer);
    }
    return engine_need_trie(run->tokenizer, run->vocab, run->end_ids, run->end_count, &run->trie, err);
}

static enum status print_mask(struct mask_run *run, const sluice_form *form, const struct token_list *prefix, FILE *out,
                              struct error *err) {
    struct form_run compile = {.tokenizer = run->tokenizer, .form = form};
    const struct grammar_constraint_options options = {
        .trie = run->trie, .end_ids = run->end_ids, .end_count = run->end_count, .vocab = run->vocab};
    struct constraint *constraint = NULL;
    uint32_t *bits = memory_alloc_array(run->vocab / 32 + 1, sizeof *bits);
    enum status status = bits ? make_constraint(&compile, &options, &constraint, err)
                              : error_set(err, STATUS_NO_MEMORY, "no memory for a mask of %u tokens", run->vocab);
    for (size_t i = 0; status == STATUS_OK && i < prefix->count; i++)
        status = constraint->operations->accept(constraint, prefix->ids[i], err);
    if (status == STATUS_OK)
        status = constraint->operations->mask(constraint, bits, err);
    bool first = true;
    for (uint32_t id = 0; status == STATUS_OK && id < run->vocab; id++)
        if (bits[id / 32] >> (id % 32) & 1) {
            (void)fprintf(out, first ? "%u" : " %u", id);
            first = false;
        }
    if (status == STATUS_OK)
        (void)fputc('\n', out);
    constraint_destroy(constraint);
    memory_free(bits);
    return status;
}

sluice_status sluice_tool_mask(const char *path, const sluice_form *form, const uint32_t *prefix, size_t count, FILE *out,
                               sluice_error *error) {
    struct error err = {0};
    struct mask_run run = {.model = NULL};
    const struct token_list list = {.ids = (uint32_t *)(uintptr_t)prefix, .count = count};
    enum status status = open_vocabulary(&run, path, &err);
    if (status == STATUS_OK)
        status = print_mask(&run, form, &list, out, &err);
    token_trie_destroy(run.trie);
    if (!run.model)
        tokenizer_close(run.tokenizer);
    sluice_close(run.model);
    return engine_report(status, &err, error);
}
