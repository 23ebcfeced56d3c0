/* pattern: compile, JIT where the system allows it, and search within limits. */
#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define EXPRESSION_BYTES_MAX (1u << 18)
#define PARENTHESES_MAX 100u /* the compiler recurses on them */
#define JIT_STACK_FIRST_BYTES (32u << 10)
#define JIT_STACK_MAX_BYTES (64u << 20) /* mapped, and touched only by groups that repeat over megabytes */
#define HEAP_LIMIT_KIB (64u << 10)      /* of the interpreter, which runs when there is no JIT or its stack is too small */
#define MATCH_LIMIT_FIRST 1000000u
#define MATCH_LIMIT_PER_BYTE 64u

struct pattern {
    pcre2_code *code; /* NULL: literal */
    char *literal;
    size_t literal_bytes;
};

struct pattern_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    size_t limit_bytes; /* subject length that the match limit was set for */
};

static void *allocate(PCRE2_SIZE size_bytes, void *unused) {
    (void)unused;
    return memory_alloc(size_bytes);
}

static void release(void *block, void *unused) {
    (void)unused;
    memory_free(block);
}

/* Compiles the translated expression. */
static enum status compile(struct text expression, struct text translated, pcre2_code **code, struct error *err) {
    int problem = 0;
    PCRE2_SIZE at = 0;
    pcre2_general_context *general = pcre2_general_context_create(allocate, release, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    *code = NULL;
    if (context) {
        (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        (void)pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
        (void)pcre2_set_parens_nest_limit(context, PARENTHESES_MAX);
        *code = pcre2_compile((PCRE2_SPTR)translated.data, translated.size_bytes,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_ALLOW_EMPTY_CLASS, &problem, &at,
                              context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (*code) {
        (void)pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE); /* refused where memory may not be executable: then it is interpreted */
        return STATUS_OK;
    }
    if (!context || problem == PCRE2_ERROR_HEAP_FAILED)
        return error_set(err, STATUS_NO_MEMORY, "no memory to compile the expression %.*s", TEXT_ARGUMENTS(expression));
    char reason[120] = "";
    (void)pcre2_get_error_message(problem, (PCRE2_UCHAR *)reason, sizeof(reason));
    return error_set(err, STATUS_UNSUPPORTED, "the expression %.400s (for PCRE2 %.300s, at byte %zu): %s", expression.data, translated.data,
                     (size_t)at, reason);
}

enum status pattern_compile(struct text expression, struct pattern **out, struct error *err) {
    *out = NULL;
    if (expression.size_bytes > EXPRESSION_BYTES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "an expression of %zu bytes; at most %u are supported", expression.size_bytes,
                         EXPRESSION_BYTES_MAX);
    struct byte_buffer translated;
    byte_buffer_init(&translated, 16 * (size_t)EXPRESSION_BYTES_MAX);
    struct pattern *pattern = memory_alloc(sizeof(*pattern));
    char *source = memory_copy_text(expression.data, expression.size_bytes);
    enum status status = STATUS_OK;
    if (!pattern || !source)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for an expression");
    if (status == STATUS_OK)
        status = pattern_translate((struct text){source, expression.size_bytes}, &translated, err);
    if (status == STATUS_OK)
        status = compile((struct text){source, expression.size_bytes}, byte_buffer_text(&translated), &pattern->code, err);
    byte_buffer_deinit(&translated);
    memory_free(source);
    if (status != STATUS_OK) {
        memory_free(pattern);
        return status;
    }
    *out = pattern;
    return STATUS_OK;
}

enum status pattern_literal(struct text literal, struct pattern **out, struct error *err) {
    *out = NULL;
    if (literal.size_bytes == 0) /* matches everywhere: leave the rules to the expression engine */
        return pattern_compile(literal, out, err);
    struct pattern *pattern = memory_alloc(sizeof(*pattern));
    char *copy = memory_copy_text(literal.data, literal.size_bytes);
    if (!pattern || !copy) {
        memory_free(pattern);
        memory_free(copy);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a pattern");
    }
    *pattern = (struct pattern){.literal = copy, .literal_bytes = literal.size_bytes};
    *out = pattern;
    return STATUS_OK;
}

void pattern_destroy(struct pattern *pattern) {
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    memory_free(pattern->literal);
    memory_free(pattern);
}

struct text pattern_literal_text(const struct pattern *pattern) {
    return pattern->code ? (struct text){"", 0} : (struct text){pattern->literal, pattern->literal_bytes};
}

enum status pattern_matcher_create(struct pattern_matcher **out, struct error *err) {
    *out = NULL;
    struct pattern_matcher *matcher = memory_alloc(sizeof(*matcher));
    pcre2_general_context *general = pcre2_general_context_create(allocate, release, NULL);
    if (matcher && general) {
        matcher->data = pcre2_match_data_create(1, general);
        matcher->context = pcre2_match_context_create(general);
        matcher->stack = pcre2_jit_stack_create(JIT_STACK_FIRST_BYTES, JIT_STACK_MAX_BYTES, general); /* NULL: the small default */
    }
    pcre2_general_context_free(general);
    if (!matcher || !matcher->data || !matcher->context) {
        pattern_matcher_destroy(matcher);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a pattern matcher");
    }
    (void)pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    *out = matcher;
    return STATUS_OK;
}

void pattern_matcher_destroy(struct pattern_matcher *matcher) {
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    memory_free(matcher);
}

static void set_match_limit(struct pattern_matcher *matcher, size_t subject_bytes) {
    if (matcher->limit_bytes >= subject_bytes && matcher->limit_bytes != 0)
        return;
    uint64_t limit = MATCH_LIMIT_FIRST + (uint64_t)subject_bytes * MATCH_LIMIT_PER_BYTE;
    (void)pcre2_set_match_limit(matcher->context, limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit);
    matcher->limit_bytes = subject_bytes;
}

static enum status give_up(int rc, size_t from, struct text subject, struct error *err) {
    if (rc == PCRE2_ERROR_NOMEMORY)
        return error_set(err, STATUS_NO_MEMORY, "no memory to split a text of %zu bytes", subject.size_bytes);
    char reason[120] = "";
    (void)pcre2_get_error_message(rc, (PCRE2_UCHAR *)reason, sizeof(reason));
    return error_set(err, STATUS_UNSUPPORTED, "the tokenizer's expression gives up at byte %zu of a text of %zu bytes: %s", from,
                     subject.size_bytes, reason);
}

static void find_literal(const struct pattern *pattern, struct text subject, size_t from, struct pattern_match *match) {
    const char *at = memmem(subject.data + from, subject.size_bytes - from, pattern->literal, pattern->literal_bytes);
    match->found = at != NULL;
    match->begin = at ? (size_t)(at - subject.data) : 0;
    match->end = match->begin + pattern->literal_bytes;
}

/* First match at or after `from`. */
static enum status find(const struct pattern *pattern, struct pattern_matcher *matcher, struct text subject, size_t from,
                        struct pattern_match *match, struct error *err) {
    if (!pattern->code) {
        find_literal(pattern, subject, from, match);
        return STATUS_OK;
    }
    set_match_limit(matcher, subject.size_bytes);
    PCRE2_SPTR bytes = (PCRE2_SPTR)(subject.data ? subject.data : "");
    int rc = pcre2_match(pattern->code, bytes, subject.size_bytes, from, PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc =
            pcre2_match(pattern->code, bytes, subject.size_bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data, matcher->context);
    match->found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return STATUS_OK;
    if (rc < 0)
        return give_up(rc, from, subject, err);
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(matcher->data);
    match->begin = offsets[0];
    match->end = offsets[1];
    if (match->begin > match->end || match->end > subject.size_bytes) /* \K in a lookahead */
        return error_set(err, STATUS_UNSUPPORTED, "the tokenizer's expression gives a match that ends before it begins");
    return STATUS_OK;
}

enum status pattern_next(const struct pattern *pattern, struct pattern_matcher *matcher, struct text subject, struct pattern_cursor *cursor,
                         struct pattern_match *match, struct error *err) {
    CHECK(pattern && (matcher || !pattern->code));
    match->found = false;
    while (cursor->at <= subject.size_bytes) {
        TRY(find(pattern, matcher, subject, cursor->at, match, err));
        if (!match->found)
            break;
        bool empty_again = match->begin == match->end && cursor->matched && cursor->last_end == match->end;
        if (!empty_again) {
            cursor->at = cursor->last_end = match->end;
            cursor->matched = true;
            return STATUS_OK;
        }
        match->found = false;
        size_t length = 1;
        if (match->end < subject.size_bytes)
            (void)utf8_at(subject, match->end, &length);
        cursor->at = match->end + length;
    }
    return STATUS_OK;
}
