/*
 * bpe: the merge loop.
 *
 * Symbols are a linked list in an array; a merge puts the pair into the left one and unlinks the right one. The heap keeps
 * candidates that may be out of date; one is taken only when its two symbols still are the pair that it was made from.
 */
#include "text/bpe.h"

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define NO_SYMBOL UINT32_MAX
#define HEAP_ARITY 4 /* children of one node share a cache line; long pieces have heaps of megabytes */

struct bpe_symbol {
    uint32_t previous, next, id; /* id VOCAB_NONE: unlinked, or the place of the end */
    uint32_t begin;              /* byte in the piece; the next symbol's begin is the end */
};

struct bpe_candidate {
    uint64_t key; /* lowest first */
    uint32_t symbol, result;
};

void bpe_work_deinit(struct bpe_work *work) {
    memory_free(work->symbols);
    memory_free(work->heap);
    *work = (struct bpe_work){0};
}

static enum status no_memory(struct text piece, struct error *err) {
    return error_set(err, STATUS_NO_MEMORY, "no memory to tokenize a piece of %zu bytes", piece.size_bytes);
}

/* ---- symbols ---- */

/* State while a piece becomes symbols. */
struct starter {
    const struct bpe *bpe;
    struct bpe_work *work;
    uint32_t count;
    uint32_t unknown_begin; /* NO_SYMBOL: no unknown character waits */
};

static void add_symbol(struct starter *s, uint32_t id, size_t begin) {
    ASSERT(s->count < s->work->symbol_capacity);
    s->work->symbols[s->count++] = (struct bpe_symbol){.id = id, .begin = (uint32_t)begin};
}

/* A character of the piece with the affixes that its place asks for. */
struct affixed {
    char bytes[UTF8_BYTES_MAX + 2 * BPE_AFFIX_BYTES_MAX];
    struct text text; /* points into the piece when there is no affix */
};

static void affix(const struct bpe_options *options, struct text piece, size_t begin, size_t length, struct affixed *out) {
    size_t prefix = begin > 0 ? options->subword_prefix.size_bytes : 0;
    size_t suffix = begin + length == piece.size_bytes ? options->word_suffix.size_bytes : 0;
    out->text = (struct text){piece.data + begin, length};
    if (prefix + suffix == 0)
        return;
    ASSERT(length <= UTF8_BYTES_MAX && prefix <= BPE_AFFIX_BYTES_MAX && suffix <= BPE_AFFIX_BYTES_MAX);
    if (prefix > 0)
        memcpy(out->bytes, options->subword_prefix.data, prefix);
    memcpy(out->bytes + prefix, piece.data + begin, length);
    if (suffix > 0)
        memcpy(out->bytes + prefix + length, options->word_suffix.data, suffix);
    out->text = (struct text){out->bytes, prefix + length + suffix};
}

static uint32_t find_character(const struct bpe *bpe, struct text text, uint32_t code_point) {
    uint32_t id;
    if (!bpe->affixes && code_point < sizeof(bpe->character_ids) / sizeof(bpe->character_ids[0]))
        return bpe->character_ids[code_point];
    return vocab_find_model(bpe->vocab, text, &id) ? id : VOCAB_NONE;
}

static bool add_bytes(struct starter *s, struct text text, size_t begin) {
    for (size_t i = 0; i < text.size_bytes; i++)
        if (s->bpe->byte_ids[(uint8_t)text.data[i]] == VOCAB_NONE)
            return false;
    for (size_t i = 0; i < text.size_bytes; i++)
        add_symbol(s, s->bpe->byte_ids[(uint8_t)text.data[i]], begin + i);
    return true;
}

static void add_character(struct starter *s, struct text piece, size_t begin, size_t length, uint32_t code_point) {
    const struct bpe_options *options = &s->bpe->options;
    struct affixed affixed;
    affix(options, piece, begin, length, &affixed);
    uint32_t id = find_character(s->bpe, affixed.text, code_point);
    if (id != VOCAB_NONE) {
        if (s->unknown_begin != NO_SYMBOL)
            add_symbol(s, options->unknown, s->unknown_begin);
        s->unknown_begin = NO_SYMBOL;
        add_symbol(s, id, begin);
        return;
    }
    /* Bytes do not end a run of unknown characters: so does the library that we follow. */
    if (options->byte_fallback && add_bytes(s, affixed.text, begin))
        return;
    if (options->unknown == VOCAB_NONE || (s->unknown_begin != NO_SYMBOL && options->fuse_unknown))
        return;
    if (s->unknown_begin != NO_SYMBOL)
        add_symbol(s, options->unknown, s->unknown_begin);
    s->unknown_begin = (uint32_t)begin;
}

/* Fills work->symbols[0..*count), and a last one at the end of the piece. */
static enum status start_symbols(const struct bpe *bpe, struct bpe_work *work, struct text piece, uint32_t *count, struct error *err) {
    if (piece.size_bytes >= NO_SYMBOL / 2)
        return error_set(err, STATUS_INVALID, "a piece of %zu bytes is too long to tokenize", piece.size_bytes);
    /* Bytes, with all affixes, are at least as many as symbols. */
    uint64_t need = (uint64_t)piece.size_bytes * (1 + bpe->options.subword_prefix.size_bytes) + bpe->options.word_suffix.size_bytes + 1;
    if (need > work->symbol_capacity) {
        struct bpe_symbol *symbols = memory_resize(work->symbols, (size_t)(need + need / 4 + 64), sizeof(*symbols));
        if (!symbols)
            return no_memory(piece, err);
        work->symbols = symbols;
        work->symbol_capacity = (size_t)(need + need / 4 + 64);
    }
    struct starter s = {.bpe = bpe, .work = work, .unknown_begin = NO_SYMBOL};
    for (size_t at = 0, length; at < piece.size_bytes; at += length) {
        uint32_t code_point = utf8_at(piece, at, &length);
        add_character(&s, piece, at, length, code_point);
    }
    if (s.unknown_begin != NO_SYMBOL)
        add_symbol(&s, bpe->options.unknown, s.unknown_begin);
    for (uint32_t i = 0; i < s.count; i++) {
        work->symbols[i].previous = i > 0 ? i - 1 : NO_SYMBOL;
        work->symbols[i].next = i + 1 < s.count ? i + 1 : NO_SYMBOL;
    }
    *count = s.count;
    return STATUS_OK;
}

/* ---- the heap of candidates ---- */

static bool before(const struct bpe_candidate *a, const struct bpe_candidate *b) {
    if (a->key != b->key)
        return a->key < b->key;
    return a->result != b->result ? a->result < b->result : a->symbol < b->symbol;
}

static enum status heap_add(struct bpe_work *work, struct bpe_candidate candidate, struct error *err) {
    if (work->heap_count == work->heap_capacity) {
        size_t capacity = work->heap_capacity + work->heap_capacity / 2 + 64;
        struct bpe_candidate *heap = memory_resize(work->heap, capacity, sizeof(*heap));
        if (!heap)
            return error_set(err, STATUS_NO_MEMORY, "no memory to tokenize (%zu candidates)", capacity);
        work->heap = heap;
        work->heap_capacity = capacity;
    }
    size_t at = work->heap_count++;
    for (; at > 0 && before(&candidate, &work->heap[(at - 1) / HEAP_ARITY]); at = (at - 1) / HEAP_ARITY)
        work->heap[at] = work->heap[(at - 1) / HEAP_ARITY];
    work->heap[at] = candidate;
    return STATUS_OK;
}

static struct bpe_candidate heap_take(struct bpe_work *work) {
    ASSERT(work->heap_count > 0);
    struct bpe_candidate top = work->heap[0], last = work->heap[--work->heap_count];
    size_t at = 0, count = work->heap_count;
    for (size_t child = 1; child < count; at = child, child = HEAP_ARITY * at + 1) {
        size_t end = child + HEAP_ARITY < count ? child + HEAP_ARITY : count;
        for (size_t other = child + 1; other < end; other++)
            if (before(&work->heap[other], &work->heap[child]))
                child = other;
        if (!before(&work->heap[child], &last))
            break;
        work->heap[at] = work->heap[child];
    }
    if (count > 0)
        work->heap[at] = last;
    return top;
}

/* ---- which pairs merge ---- */

static bool find_merge(const struct bpe *bpe, uint32_t left, uint32_t right, uint64_t *key, uint32_t *result) {
    uint32_t low = bpe->starts[left], high = bpe->starts[left + 1];
    if (low == high)
        return false;
    while (high - low > 1) { /* the last entry that is not greater: of doubled merges the later */
        uint32_t middle = low + (high - low) / 2;
        if (bpe->pairs[middle].right <= right)
            low = middle;
        else
            high = middle;
    }
    if (bpe->pairs[low].right != right)
        return false;
    *key = bpe->pairs[low].rank;
    *result = bpe->results[bpe->pairs[low].rank];
    return true;
}

static uint64_t character_count(const char *text, size_t size_bytes) {
    uint64_t count = 0;
    for (size_t i = 0; i < size_bytes; i++)
        count += ((uint8_t)text[i] & 0xC0) != 0x80;
    return count;
}

/* By score: the whole must be a token. Key: rank of its score, then the longer left part. */
static bool find_scored(const struct bpe *bpe, struct text whole, size_t left_bytes, uint64_t *key, uint32_t *result) {
    if (!vocab_find_model(bpe->vocab, whole, result) || bpe->score_ranks[*result] == VOCAB_NONE)
        return false;
    uint64_t left = character_count(whole.data, left_bytes),
             right = character_count(whole.data + left_bytes, whole.size_bytes - left_bytes);
    ASSERT(left <= UINT16_MAX && right <= UINT16_MAX);
    *key = (uint64_t)bpe->score_ranks[*result] << 32 | (UINT16_MAX - left) << 16 | (UINT16_MAX - right);
    return true;
}

static bool is_kept_out(const struct bpe *bpe, const struct bpe_work *work, uint32_t id) {
    return work->plain && (vocab_flags_of(bpe->vocab, id) & VOCAB_SPECIAL);
}

/* False for the unknown token and for bytes, whose texts are not what they stand for. */
static bool has_own_text(const struct bpe *bpe, uint32_t id) {
    return id != bpe->options.unknown && !(vocab_flags_of(bpe->vocab, id) & VOCAB_BYTE);
}

static bool find_pair(const struct bpe *bpe, const struct bpe_work *work, struct text piece, uint32_t symbol, uint64_t *key,
                      uint32_t *result) {
    const struct bpe_symbol *left = &work->symbols[symbol], *right = &work->symbols[left->next];
    if (bpe->pairs)
        return find_merge(bpe, left->id, right->id, key, result) && !is_kept_out(bpe, work, *result);
    if (!bpe->score_ranks || !has_own_text(bpe, left->id) || !has_own_text(bpe, right->id))
        return false;
    size_t end = right->next == NO_SYMBOL ? piece.size_bytes : work->symbols[right->next].begin;
    ASSERT(left->begin < right->begin && right->begin < end);
    return find_scored(bpe, (struct text){piece.data + left->begin, end - left->begin}, right->begin - left->begin, key, result);
}

/* Makes a candidate of a symbol and its next one, when they merge. */
static enum status offer(const struct bpe *bpe, struct bpe_work *work, struct text piece, uint32_t symbol, struct error *err) {
    struct bpe_candidate candidate = {.symbol = symbol};
    if (symbol == NO_SYMBOL || work->symbols[symbol].next == NO_SYMBOL)
        return STATUS_OK;
    return find_pair(bpe, work, piece, symbol, &candidate.key, &candidate.result) ? heap_add(work, candidate, err) : STATUS_OK;
}

static enum status merge_all(const struct bpe *bpe, struct bpe_work *work, struct text piece, uint32_t count, struct error *err) {
    struct bpe_symbol *symbols = work->symbols;
    work->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        TRY(cancel_check(work->cancel, err));
        TRY(offer(bpe, work, piece, i, err));
    }
    while (work->heap_count > 0) {
        struct bpe_candidate top = heap_take(work);
        struct bpe_symbol *left = &symbols[top.symbol];
        uint64_t key;
        uint32_t result;
        TRY(cancel_check(work->cancel, err));
        if (left->id == VOCAB_NONE || left->next == NO_SYMBOL || !find_pair(bpe, work, piece, top.symbol, &key, &result) ||
            result != top.result)
            continue; /* out of date */
        struct bpe_symbol *right = &symbols[left->next];
        left->id = result;
        left->next = right->next;
        right->id = VOCAB_NONE;
        if (right->next != NO_SYMBOL)
            symbols[right->next].previous = top.symbol;
        TRY(offer(bpe, work, piece, left->previous, err));
        TRY(offer(bpe, work, piece, top.symbol, err));
    }
    return STATUS_OK;
}

/* Encodes a piece that no cut makes smaller. */
static enum status encode_whole(const struct bpe *bpe, struct bpe_work *work, struct text piece, struct token_list *out,
                                struct error *err) {
    uint32_t count = 0;
    TRY(start_symbols(bpe, work, piece, &count, err));
    TRY(merge_all(bpe, work, piece, count, err));
    for (uint32_t i = count > 0 ? 0 : NO_SYMBOL; i != NO_SYMBOL; i = work->symbols[i].next)
        TRY(token_list_append(out, work->symbols[i].id, err));
    return STATUS_OK;
}

/* End of the part of text that may be encoded by itself: before the next mark that no token contains after what precedes it. */
static size_t part_end(const struct bpe *bpe, struct text text) {
    size_t mark = bpe->mark.size_bytes;
    if (mark == 0)
        return text.size_bytes;
    for (size_t at = 1; at < text.size_bytes; at++) {
        const char *found = memmem(text.data + at, text.size_bytes - at, bpe->mark.data, mark);
        if (!found)
            break;
        at = (size_t)(found - text.data);
        if (!bpe->mark_joins[(uint8_t)text.data[at - 1]])
            return at;
    }
    return text.size_bytes;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_work *work, struct text piece, struct token_list *out, struct error *err) {
    uint32_t id;
    CHECK(work->cancel != NULL);
    if (bpe->options.ignore_merges && vocab_find_model(bpe->vocab, piece, &id) && !is_kept_out(bpe, work, id))
        return token_list_append(out, id, err);
    while (piece.size_bytes > 0) {
        TRY(cancel_check(work->cancel, err));
        size_t end = part_end(bpe, piece);
        TRY(encode_whole(bpe, work, (struct text){piece.data, end}, out, err));
        piece = (struct text){piece.data + end, piece.size_bytes - end};
    }
    return STATUS_OK;
}
