/* split: a source gives segments that cover the text in order, match or gap; a merger joins them as the behaviour says. */
#include "text/split.h"

#include "base/check.h"
#include "text/unicode.h"

struct segment {
    size_t begin, end;
    bool match;
};

struct merger {
    enum split_behavior behavior;
    bool has_held, previous_match;
    struct segment held; /* not yet handed out: it may grow */
    split_piece *piece;
    void *context;
};

static enum status hand_out(struct merger *merger, struct segment segment, struct error *err) {
    return segment.begin < segment.end ? merger->piece(merger->context, segment.begin, segment.end, err) : STATUS_OK;
}

static enum status flush(struct merger *merger, struct error *err) {
    bool has_held = merger->has_held;
    merger->has_held = false;
    return has_held ? hand_out(merger, merger->held, err) : STATUS_OK;
}

/* A match waits for the gap that follows it. */
static enum status merge_with_next(struct merger *merger, struct segment segment, struct error *err) {
    if (merger->has_held && !segment.match) {
        merger->held.end = segment.end;
        return flush(merger, err);
    }
    TRY(flush(merger, err));
    if (!segment.match)
        return hand_out(merger, segment, err);
    merger->held = segment;
    merger->has_held = true;
    return STATUS_OK;
}

static enum status merge(struct merger *merger, struct segment segment, struct error *err) {
    bool grows = false;
    switch (merger->behavior) {
    case SPLIT_REMOVED:
        return segment.match ? STATUS_OK : hand_out(merger, segment, err);
    case SPLIT_ISOLATED:
        return hand_out(merger, segment, err);
    case SPLIT_MERGED_WITH_NEXT:
        return merge_with_next(merger, segment, err);
    case SPLIT_MERGED_WITH_PREVIOUS:
        grows = segment.match && !merger->previous_match;
        break;
    case SPLIT_CONTIGUOUS:
        grows = segment.match == merger->previous_match;
        break;
    }
    merger->previous_match = segment.match;
    if (grows && merger->has_held) {
        merger->held.end = segment.end;
        return STATUS_OK;
    }
    TRY(flush(merger, err));
    merger->held = segment;
    merger->has_held = true;
    return STATUS_OK;
}

struct matches { /* the source */
    const struct split_rule *rule;
    struct pattern_matcher *matcher;
    struct text text;
    struct pattern_cursor cursor;
};

static enum status next_match(struct matches *matches, struct pattern_match *match, struct error *err) {
    struct pattern_cursor *cursor = &matches->cursor;
    if (matches->rule->pattern)
        return pattern_next(matches->rule->pattern, matches->matcher, matches->text, cursor, match, err);
    match->found = false;
    for (size_t length; cursor->at < matches->text.size_bytes && !match->found;) {
        uint32_t c = utf8_at(matches->text, cursor->at, &length);
        *match = (struct pattern_match){cursor->at, cursor->at + length, matches->rule->is_match(c)};
        cursor->at += length;
    }
    return STATUS_OK;
}

enum status split_text(const struct split_rule *rule, struct pattern_matcher *matcher, struct text text, split_piece *piece, void *context,
                       struct error *err) {
    CHECK(rule->pattern || rule->is_match);
    struct merger merger = {.behavior = rule->behavior, .piece = piece, .context = context};
    struct matches matches = {.rule = rule, .matcher = matcher, .text = text};
    size_t done = 0;
    for (bool more = true; more;) {
        struct pattern_match match;
        TRY(next_match(&matches, &match, err));
        more = match.found;
        size_t gap_end = more ? match.begin : text.size_bytes;
        ASSERT(gap_end >= done);
        if (gap_end > done)
            TRY(merge(&merger, (struct segment){done, gap_end, rule->invert}, err));
        if (more) {
            TRY(merge(&merger, (struct segment){match.begin, match.end, !rule->invert}, err));
            done = match.end;
        }
    }
    return flush(&merger, err);
}
