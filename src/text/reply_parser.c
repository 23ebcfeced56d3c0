/* reply_parser: life cycle, and the engine for text with reasoning at the start and calls in it. */
#include "text/reply_parser.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/reply_engine.h"

#define ATTEMPT_BYTES 4096 /* from this size on a call is tried again only when it grew by a sixteenth */

/* ---- life cycle ---- */

void reply_output_init(struct reply_output *output) {
    *output = (struct reply_output){0};
    byte_buffer_init(&output->reasoning, SIZE_MAX / 2);
    byte_buffer_init(&output->content, SIZE_MAX / 2);
}

void reply_output_deinit(struct reply_output *output) {
    byte_buffer_deinit(&output->reasoning);
    byte_buffer_deinit(&output->content);
    reply_calls_deinit(&output->calls);
}

void reply_output_clear(struct reply_output *output) {
    byte_buffer_clear(&output->reasoning);
    byte_buffer_clear(&output->content);
    reply_calls_truncate(&output->calls, 0);
}

static enum reply_state first_state(const struct reply_parser_options *options) {
    if (options->family->engine == REPLY_HARMONY || options->family->engine == REPLY_RECIPIENTS)
        return STATE_HEADER;
    if (options->family->reasoning_close && options->reasoning_opened)
        return STATE_REASONING;
    return STATE_START;
}

enum status reply_parser_create(const struct reply_parser_options *options, struct reply_parser **out, struct error *err) {
    CHECK(options->family != NULL);
    struct reply_parser *p = *out = memory_alloc(sizeof *p);
    if (!p)
        return error_set(err, STATUS_NO_MEMORY, "no memory to parse a reply");
    p->options = *options;
    p->state = first_state(options);
    byte_buffer_init(&p->held, SIZE_MAX / 2);
    byte_buffer_init(&p->header, SIZE_MAX / 2);
    byte_buffer_init(&p->recipient, SIZE_MAX / 2);
    return STATUS_OK;
}

void reply_parser_destroy(struct reply_parser *p) {
    if (!p)
        return;
    byte_buffer_deinit(&p->held);
    byte_buffer_deinit(&p->header);
    byte_buffer_deinit(&p->recipient);
    memory_free(p);
}

bool reply_parser_in_call(const struct reply_parser *p) {
    return p->state == STATE_CALL || p->state == STATE_TAIL || p->state == STATE_WHOLE || (p->state == STATE_BODY && p->body == BODY_CALL);
}

/* Runs the engine over what is held. Calls that were not read for want of memory must not become text: the count of refusals tells. */
static enum status run(struct reply_parser *p, bool last, struct reply_output *output, struct error *err) {
    enum reply_engine engine = p->options.family->engine;
    uint64_t refusals = memory_refusals();
    for (bool again = true; again;) {
        again = false;
        enum status status = engine == REPLY_HARMONY      ? reply_step_harmony(p, last, &again, output, err)
                             : engine == REPLY_RECIPIENTS ? reply_step_recipients(p, last, &again, output, err)
                                                          : reply_step_sections(p, last, &again, output, err);
        TRY(status);
        if (memory_refusals() != refusals)
            return error_set(err, STATUS_NO_MEMORY, "no memory to parse a reply");
    }
    return STATUS_OK;
}

enum status reply_parser_push(struct reply_parser *p, struct text text, struct reply_output *output, struct error *err) {
    if (text.size_bytes == 0)
        return STATUS_OK;
    TRY(byte_buffer_append_text(&p->held, text, err));
    return run(p, false, output, err);
}

enum status reply_parser_finish(struct reply_parser *p, struct reply_output *output, struct error *err) {
    TRY(run(p, true, output, err));
    ASSERT(p->held.size_bytes == 0);
    return STATUS_OK;
}

/* ---- shared helpers ---- */

void reply_drop(struct reply_parser *p, size_t size_bytes) {
    ASSERT(size_bytes <= p->held.size_bytes);
    if (size_bytes == 0)
        return;
    memmove(p->held.data, p->held.data + size_bytes, p->held.size_bytes - size_bytes);
    p->held.size_bytes -= size_bytes;
    p->held.data[p->held.size_bytes] = 0;
}

enum status reply_move(struct reply_parser *p, size_t size_bytes, struct byte_buffer *out, struct error *err) {
    ASSERT(size_bytes <= p->held.size_bytes);
    TRY(byte_buffer_append(out, p->held.data ? p->held.data : "", size_bytes, err));
    reply_drop(p, size_bytes);
    return STATUS_OK;
}

size_t reply_find(struct text text, const char *mark) {
    const char *found = mark ? memmem(text.data, text.size_bytes, mark, strlen(mark)) : NULL;
    return found ? (size_t)(found - text.data) : SIZE_MAX;
}

size_t reply_partial(struct text text, const char *mark) {
    if (!mark)
        return 0;
    size_t size = strlen(mark), most = size - 1 < text.size_bytes ? size - 1 : text.size_bytes;
    for (size_t count = most; count > 0; count--)
        if (memcmp(text.data + text.size_bytes - count, mark, count) == 0)
            return count;
    return 0;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

size_t reply_trimmed(struct text text, bool newlines_only) {
    size_t end = text.size_bytes;
    while (end > 0 && (newlines_only ? text.data[end - 1] == '\n' || text.data[end - 1] == '\r' : is_space(text.data[end - 1])))
        end--;
    return end;
}

bool reply_has_tools(const struct reply_parser *p) { return p->options.tools != NULL; }

/* ---- start and reasoning ---- */

static size_t leading_space(struct text text) {
    size_t at = 0;
    while (at < text.size_bytes && is_space(text.data[at]))
        at++;
    return at;
}

static size_t leading_newlines(struct text text) {
    size_t at = 0;
    while (at < text.size_bytes && (text.data[at] == '\n' || text.data[at] == '\r'))
        at++;
    return at;
}

/* Whether `rest` begins with mark, or (READ_MORE) may when more comes. */
static enum reply_read begins_with(struct text rest, const char *mark, bool last) {
    size_t size = mark ? strlen(mark) : 0;
    if (!mark || memcmp(rest.data, mark, rest.size_bytes < size ? rest.size_bytes : size) != 0)
        return READ_BAD;
    return rest.size_bytes >= size ? READ_OK : last ? READ_BAD : READ_MORE;
}

static struct text from(struct text text, size_t at) { return (struct text){text.data + at, text.size_bytes - at}; }

static void go(struct reply_parser *p, enum reply_state state, bool *again) {
    p->state = state;
    *again = true;
}

static void step_start(struct reply_parser *p, bool last, bool *again) {
    struct text held = reply_held(p);
    size_t space = leading_space(held);
    if (space == held.size_bytes && !last)
        return;
    struct text rest = from(held, space);
    enum reply_read read = begins_with(rest, p->options.family->reasoning_open, last);
    if (read == READ_MORE)
        return;
    if (read == READ_OK) {
        reply_drop(p, space + strlen(p->options.family->reasoning_open));
        go(p, STATE_REASONING, again);
    } else if (p->options.family->engine == REPLY_WHOLE_JSON && reply_has_tools(p) && rest.size_bytes > 0 && rest.data[0] == '{') {
        go(p, STATE_WHOLE, again);
    } else {
        go(p, STATE_OPENING, again);
    }
}

static enum status step_reasoning(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    if (!p->begun) /* newlines behind the opening mark */
        reply_drop(p, leading_newlines(reply_held(p)));
    struct text held = reply_held(p);
    enum reply_read repeated = READ_BAD; /* a model may write the mark that the prompt has */
    if (!p->begun && p->options.reasoning_opened && held.size_bytes > 0)
        repeated = begins_with(held, p->options.family->reasoning_open, last);
    if (repeated == READ_OK) {
        reply_drop(p, strlen(p->options.family->reasoning_open));
        *again = true;
    }
    if (repeated != READ_BAD)
        return STATUS_OK;
    const char *close = p->options.family->reasoning_close;
    size_t found = reply_find(held, close);
    size_t end = found != SIZE_MAX ? found : held.size_bytes - (last ? 0 : reply_partial(held, close));
    size_t kept = last && found == SIZE_MAX ? end : reply_trimmed((struct text){held.data, end}, true);
    p->begun = p->begun || kept > 0;
    TRY(reply_move(p, kept, &out->reasoning, err));
    if (found != SIZE_MAX) {
        reply_drop(p, found - kept + strlen(close));
        go(p, STATE_BEHIND, again);
    }
    return STATUS_OK;
}

static void step_behind(struct reply_parser *p, bool last, bool *again) {
    reply_drop(p, leading_newlines(reply_held(p)));
    if (p->held.size_bytes > 0 || last)
        go(p, STATE_OPENING, again);
}

/* ---- content ---- */

/* A mark around plain text at the start of the content is dropped, with the white space before it. */
static void step_opening(struct reply_parser *p, bool last, bool *again) {
    const struct reply_family *family = p->options.family;
    struct text held = reply_held(p);
    size_t space = leading_space(held);
    if (!family->wrapper_open[0]) {
        go(p, STATE_CONTENT, again);
        return;
    }
    if (space == held.size_bytes && !last)
        return;
    bool more = false;
    for (size_t i = 0; i < 2; i++) {
        enum reply_read read = begins_with(from(held, space), family->wrapper_open[i], last);
        more = more || read == READ_MORE;
        if (read != READ_OK)
            continue;
        reply_drop(p, space + strlen(family->wrapper_open[i]));
        p->wrapped = true;
        go(p, STATE_CONTENT, again);
        return;
    }
    if (!more)
        go(p, STATE_CONTENT, again);
}

/* Moves content, leaving out white space that follows a call. */
static enum status move_content(struct reply_parser *p, size_t size_bytes, struct reply_output *out, struct error *err) {
    struct text moved = {reply_held(p).data, size_bytes};
    if (p->behind_call && size_bytes > 0) {
        size_t space = leading_space(moved);
        reply_drop(p, space);
        size_bytes -= space;
        p->behind_call = size_bytes == 0;
    }
    return reply_move(p, size_bytes, &out->content, err);
}

struct mark_search {
    size_t at;        /* of the earliest mark, or where text ends that cannot belong to one */
    const char *mark; /* NULL: none is complete */
};

static void consider(struct mark_search *search, struct text held, const char *mark, bool last) {
    size_t found = reply_find(held, mark), at = found != SIZE_MAX ? found : held.size_bytes - (last ? 0 : reply_partial(held, mark));
    if (!mark || at > search->at || (at == search->at && found == SIZE_MAX))
        return;
    *search = (struct mark_search){at, found != SIZE_MAX ? mark : NULL};
}

static const char *tail_mark(const struct reply_parser *p) {
    return p->options.family->tail != REPLY_TAIL_NONE && reply_has_tools(p) ? "<|python_tag|>" : NULL;
}

/* A closing mark around plain text: dropped when nothing but a call or the end follows. *decided: false when that is not known yet. */
static enum status step_wrapper_close(struct reply_parser *p, struct mark_search search, bool last, bool *again, struct reply_output *out,
                                      struct error *err) {
    struct text held = reply_held(p);
    size_t size = strlen(search.mark), behind = search.at + size, next = behind + leading_space(from(held, behind));
    const char *section = reply_has_tools(p) ? p->options.family->section_open : NULL;
    enum reply_read call = next < held.size_bytes ? begins_with(from(held, next), section, last) : READ_MORE;
    if (next == held.size_bytes && last)
        call = READ_OK;
    size_t kept = reply_trimmed((struct text){held.data, search.at}, false);
    if (call == READ_BAD) { /* text follows: the mark is text too */
        *again = true;
        return move_content(p, behind, out, err);
    }
    TRY(move_content(p, kept, out, err));
    if (call == READ_OK) {
        reply_drop(p, next - kept);
        *again = true;
    }
    return STATUS_OK;
}

static enum status step_content(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    const struct reply_family *family = p->options.family;
    struct text held = reply_held(p);
    struct mark_search search = {.at = held.size_bytes};
    const char *section = reply_has_tools(p) ? family->section_open : NULL;
    consider(&search, held, section, last);
    consider(&search, held, tail_mark(p), last);
    for (size_t i = 0; i < 2; i++)
        if (p->wrapped || !family->wrapper_open[0])
            consider(&search, held, family->wrapper_close[i], last);
    bool starts_call = search.mark && (search.mark == section || search.mark == tail_mark(p));
    if (search.mark && !starts_call)
        return step_wrapper_close(p, search, last, again, out, err);
    size_t kept = last && !search.mark ? search.at : reply_trimmed((struct text){held.data, search.at}, false);
    if (last && !search.mark && p->behind_call && reply_trimmed(held, false) == 0)
        reply_drop(p, held.size_bytes);
    else
        TRY(move_content(p, kept, out, err));
    if (starts_call) {
        p->mark = search.at - kept; /* white space stands before it */
        p->tried_bytes = 0;
        go(p, search.mark == section ? STATE_CALL : STATE_TAIL, again);
    }
    return STATUS_OK;
}

/* ---- calls ---- */

/* All that is held becomes content, and so does what comes. */
static enum status give_up(struct reply_parser *p, bool *again, struct reply_output *out, struct error *err) {
    go(p, STATE_TEXT, again);
    return move_content(p, p->held.size_bytes, out, err);
}

bool reply_is_worth_trying(struct reply_parser *p, const char *ends, bool last) {
    struct text held = reply_held(p);
    if (!last && held.size_bytes > ATTEMPT_BYTES && held.size_bytes - p->tried_bytes < p->tried_bytes / 16)
        return false;
    struct text fresh = from(held, p->tried_bytes);
    bool found = last;
    for (; *ends && !found; ends++)
        found = memchr(fresh.data, *ends, fresh.size_bytes) != NULL;
    if (found)
        p->tried_bytes = held.size_bytes;
    return found;
}

static enum status step_call(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    const struct reply_family *family = p->options.family;
    const char *close = family->section_close;
    if (!reply_is_worth_trying(p, close ? close + strlen(close) - 1 : "}]>", last))
        return STATUS_OK;
    size_t inside = p->mark + strlen(family->section_open) - family->section_overlap, used, before = out->calls.count;
    enum reply_read read = reply_read_section(family, p->options.tools, from(reply_held(p), inside), last, &out->calls, &used);
    if (read == READ_OK) {
        reply_drop(p, inside + used);
        p->behind_call = true;
        go(p, STATE_CONTENT, again);
        return STATUS_OK;
    }
    reply_calls_truncate(&out->calls, before);
    return read == READ_BAD || last ? give_up(p, again, out, err) : STATUS_OK;
}

/* JSON calls with ';' between them that fill the whole text. */
static bool read_whole(struct text text, struct reply_calls *calls) {
    size_t at = reply_skip_space(text, 0), before = calls->count;
    while (at < text.size_bytes) {
        if (reply_read_json_calls(text, &at, true, true, calls) != READ_OK)
            break;
        at = reply_skip_space(text, at);
        if (at == text.size_bytes)
            return true;
        if (text.data[at] == ';')
            at = reply_skip_space(text, at + 1);
    }
    reply_calls_truncate(calls, before);
    return false;
}

/* name.call(key=value, ...) */
static bool read_builtin(struct text text, struct reply_calls *calls) {
    size_t dot = reply_find(text, ".call("), begin = reply_skip_space(text, 0);
    if (dot == SIZE_MAX || dot < begin)
        return false;
    struct text name = {text.data + begin, dot - begin};
    struct byte_buffer arguments;
    byte_buffer_init(&arguments, SIZE_MAX / 2);
    size_t at = dot + strlen(".call");
    bool read = reply_is_name(name) && reply_read_python_arguments(text, &at, &arguments) == READ_OK &&
                reply_skip_space(text, at) == text.size_bytes &&
                reply_calls_add(calls, (struct text){NULL, 0}, name, byte_buffer_text(&arguments), NULL) == STATUS_OK;
    byte_buffer_deinit(&arguments);
    return read;
}

static bool read_code(struct text text, struct reply_calls *calls) {
    struct byte_buffer code;
    byte_buffer_init(&code, SIZE_MAX / 2);
    bool read = reply_trimmed(text, false) > 0 && reply_put_json_string(&code, text, NULL) == STATUS_OK &&
                reply_calls_add(calls, (struct text){NULL, 0}, TEXT("python"), byte_buffer_text(&code), NULL) == STATUS_OK;
    byte_buffer_deinit(&code);
    return read;
}

/* Behind <|python_tag|>, and replies that may be one JSON call: known when they are over. */
static enum status step_tail(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    bool whole = p->state == STATE_WHOLE;
    struct text held = reply_held(p), text = whole ? held : from(held, p->mark + strlen("<|python_tag|>"));
    if (!last) {
        size_t at = reply_skip_space(text, 0);
        bool hopeless = whole && at < text.size_bytes && reply_is_worth_trying(p, "}\n", false) &&
                        reply_read_value(text, &at, DIALECT_JSON, false, NULL) == READ_BAD;
        return hopeless ? give_up(p, again, out, err) : STATUS_OK;
    }
    bool read = p->options.family->tail == REPLY_TAIL_CODE ? read_code(text, &out->calls)
                                                           : read_whole(text, &out->calls) || (!whole && read_builtin(text, &out->calls));
    if (!read)
        return give_up(p, again, out, err);
    reply_drop(p, held.size_bytes);
    return STATUS_OK;
}

enum status reply_step_sections(struct reply_parser *p, bool last, bool *again, struct reply_output *out, struct error *err) {
    switch (p->state) {
    case STATE_START:
        step_start(p, last, again);
        return STATUS_OK;
    case STATE_REASONING:
        return step_reasoning(p, last, again, out, err);
    case STATE_BEHIND:
        step_behind(p, last, again);
        return STATUS_OK;
    case STATE_OPENING:
        step_opening(p, last, again);
        return STATUS_OK;
    case STATE_CONTENT:
        return step_content(p, last, again, out, err);
    case STATE_CALL:
        return step_call(p, last, again, out, err);
    case STATE_TAIL:
    case STATE_WHOLE:
        return step_tail(p, last, again, out, err);
    default:
        CHECK(p->state == STATE_TEXT);
        return move_content(p, p->held.size_bytes, out, err);
    }
}
