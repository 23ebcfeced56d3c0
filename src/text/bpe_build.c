/* bpe_build: merges and scores into the tables of a bpe. */
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/bpe.h"
#include "text/unicode.h"

#define SPACE_MARK "\xE2\x96\x81"
#define MERGES_MAX (1u << 28)

static enum status no_memory(const char *what, uint64_t count, struct error *err) {
    return error_set(err, STATUS_NO_MEMORY, "no memory for %s of the tokenizer (%llu)", what, (unsigned long long)count);
}

/* Bytes after which a token goes on with a space mark: there a cut would tear it. */
static void find_joins(struct bpe *bpe) {
    const struct vocab *vocab = bpe->vocab;
    uint32_t id;
    bool unknown_is_mark = text_starts_with(vocab_text(vocab, bpe->options.unknown), TEXT(SPACE_MARK)); /* and it may merge with one */
    if (bpe->options.ignore_merges || bpe->affixes || unknown_is_mark || !vocab_find_model(vocab, TEXT(SPACE_MARK), &id))
        return;
    bpe->mark = TEXT(SPACE_MARK);
    for (id = 0; id < vocab->count; id++) {
        struct text text = vocab_text(vocab, id);
        if (!(vocab->flags[id] & VOCAB_MODEL) || text.size_bytes < 2)
            continue;
        const char *at = text.data, *end = text.data + text.size_bytes;
        while (++at < end && (at = memmem(at, (size_t)(end - at), SPACE_MARK, 3)) != NULL)
            bpe->mark_joins[(uint8_t)at[-1]] = true;
    }
}

enum status bpe_init(struct bpe *bpe, const struct vocab *vocab, const struct bpe_options *options, struct error *err) {
    CHECK(vocab->slots != NULL);
    *bpe = (struct bpe){.vocab = vocab, .options = *options};
    size_t prefix = options->subword_prefix.size_bytes, suffix = options->word_suffix.size_bytes;
    if (prefix > BPE_AFFIX_BYTES_MAX || suffix > BPE_AFFIX_BYTES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "a subword prefix or word suffix of more than %u bytes", BPE_AFFIX_BYTES_MAX);
    if (prefix + suffix > 0) {
        bpe->affixes = memory_alloc(prefix + suffix);
        if (!bpe->affixes)
            return no_memory("the affixes", prefix + suffix, err);
        if (prefix > 0)
            memcpy(bpe->affixes, options->subword_prefix.data, prefix);
        if (suffix > 0)
            memcpy(bpe->affixes + prefix, options->word_suffix.data, suffix);
        bpe->options.subword_prefix = (struct text){bpe->affixes, prefix};
        bpe->options.word_suffix = (struct text){bpe->affixes + prefix, suffix};
    }
    vocab_find_bytes(vocab, bpe->byte_ids);
    for (uint32_t c = 0; c < sizeof(bpe->character_ids) / sizeof(bpe->character_ids[0]); c++) {
        char bytes[UTF8_BYTES_MAX];
        size_t length = utf8_write(c, bytes);
        if (!vocab_find_model(vocab, (struct text){bytes, length}, &bpe->character_ids[c]))
            bpe->character_ids[c] = VOCAB_NONE;
    }
    find_joins(bpe);
    return STATUS_OK;
}

void bpe_deinit(struct bpe *bpe) {
    memory_free(bpe->affixes);
    memory_free(bpe->starts);
    memory_free(bpe->pairs);
    memory_free(bpe->results);
    memory_free(bpe->score_ranks);
    *bpe = (struct bpe){0};
}

void bpe_merges_deinit(struct bpe_merges *merges) {
    memory_free(merges->left);
    memory_free(merges->right);
    memory_free(merges->result);
    memory_free(merges->whole);
    *merges = (struct bpe_merges){0};
}

static enum status grow(struct bpe_merges *merges, struct error *err) {
    if (merges->count < merges->capacity)
        return STATUS_OK;
    if (merges->count >= MERGES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "more than %u merges", MERGES_MAX);
    uint32_t capacity = merges->capacity + merges->capacity / 2 + 4096;
    uint32_t **lists[] = {&merges->left, &merges->right, &merges->result};
    for (size_t i = 0; i < 3; i++) {
        uint32_t *list = memory_resize(*lists[i], capacity, sizeof(**lists[i]));
        if (!list)
            return no_memory("the merges", capacity, err);
        *lists[i] = list;
    }
    merges->capacity = capacity;
    return STATUS_OK;
}

static enum status bad_merge(const struct bpe_merges *merges, const char *what, struct text text, struct error *err) {
    return error_set(err, STATUS_CORRUPT, "merge %u: %s \"%.*s\" is not in the vocabulary", merges->count, what, TEXT_ARGUMENTS(text));
}

enum status bpe_merges_add(struct bpe_merges *merges, const struct vocab *vocab, struct text left, struct text right,
                           struct text subword_prefix, struct error *err) {
    uint32_t left_id, right_id, result_id;
    if (!vocab_find_model(vocab, left, &left_id))
        return bad_merge(merges, "the left part", left, err);
    if (!vocab_find_model(vocab, right, &right_id))
        return bad_merge(merges, "the right part", right, err);
    if (!merges->whole && !(merges->whole = memory_alloc((size_t)2 * vocab->longest_bytes)))
        return no_memory("the merges", merges->count, err);
    size_t skip = right.size_bytes >= subword_prefix.size_bytes ? subword_prefix.size_bytes : 0;
    ASSERT(left.size_bytes <= vocab->longest_bytes && right.size_bytes <= vocab->longest_bytes);
    memcpy(merges->whole, left.data, left.size_bytes);
    memcpy(merges->whole + left.size_bytes, right.data + skip, right.size_bytes - skip);
    struct text result = {merges->whole, left.size_bytes + right.size_bytes - skip};
    if (!vocab_find_model(vocab, result, &result_id))
        return bad_merge(merges, "the result", result, err);
    TRY(grow(merges, err));
    merges->left[merges->count] = left_id;
    merges->right[merges->count] = right_id;
    merges->result[merges->count++] = result_id;
    return STATUS_OK;
}

enum status bpe_merges_add_line(struct bpe_merges *merges, const struct vocab *vocab, struct text line, struct text subword_prefix,
                                struct error *err) {
    const char *space = line.size_bytes > 1 ? memchr(line.data + 1, ' ', line.size_bytes - 1) : NULL;
    size_t left = space ? (size_t)(space - line.data) : 0;
    if (!space || left + 1 == line.size_bytes || memchr(space + 1, ' ', line.size_bytes - left - 1))
        return error_set(err, STATUS_CORRUPT, "merge %u: \"%.*s\" is not two parts with a space between them", merges->count,
                         TEXT_ARGUMENTS(line));
    struct text parts[2] = {{line.data, left}, {space + 1, line.size_bytes - left - 1}};
    return bpe_merges_add(merges, vocab, parts[0], parts[1], subword_prefix, err);
}

/* order[i] = the i-th merge of `from` (NULL: of 0, 1, 2, ...) sorted by key, stable; counts has room for keys + 1. */
static void counting_sort(const uint32_t *key, const uint32_t *from, uint32_t count, uint32_t *counts, uint32_t keys, uint32_t *order) {
    memset(counts, 0, ((size_t)keys + 1) * sizeof(*counts));
    for (uint32_t i = 0; i < count; i++)
        counts[key[i] + 1]++;
    for (uint32_t i = 0; i < keys; i++)
        counts[i + 1] += counts[i];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t merge = from ? from[i] : i;
        order[counts[key[merge]]++] = merge;
    }
    memmove(counts + 1, counts, (size_t)keys * sizeof(*counts)); /* ends become starts again */
    counts[0] = 0;
}

/* Fills bpe->starts and bpe->pairs; `right` is free for use once it is sorted by. */
static enum status sort_merges(struct bpe *bpe, struct bpe_merges *merges, struct error *err) {
    uint32_t tokens = bpe->vocab->count, count = merges->count;
    uint32_t *by_right = memory_alloc_array(count, sizeof(*by_right)), *order = memory_alloc_array(count, sizeof(*order));
    bpe->starts = memory_alloc_array((size_t)tokens + 1, sizeof(*bpe->starts));
    if (by_right && order && bpe->starts) {
        counting_sort(merges->right, NULL, count, bpe->starts, tokens, by_right);
        counting_sort(merges->left, by_right, count, bpe->starts, tokens, order);
    }
    memory_free(by_right);
    memory_free(merges->left);
    merges->left = NULL;
    bpe->pairs = bpe->starts && order ? memory_alloc_array(count, sizeof(*bpe->pairs)) : NULL;
    if (bpe->pairs)
        for (uint32_t i = 0; i < count; i++)
            bpe->pairs[i] = (struct bpe_pair){merges->right[order[i]], order[i]};
    memory_free(order);
    return bpe->pairs ? STATUS_OK : no_memory("the merges", count, err);
}

enum status bpe_set_merges(struct bpe *bpe, struct bpe_merges *merges, struct error *err) {
    CHECK(!bpe->score_ranks && !bpe->pairs);
    enum status status = sort_merges(bpe, merges, err);
    if (status == STATUS_OK) {
        bpe->merge_count = merges->count;
        bpe->results = merges->result;
        merges->result = NULL;
        uint32_t *trimmed = memory_resize(bpe->results, bpe->merge_count, sizeof(*trimmed));
        if (trimmed)
            bpe->results = trimmed;
    }
    bpe_merges_deinit(merges);
    return status;
}

static int compare_scores(const void *a, const void *b, void *context) {
    const float *scores = context;
    float left = scores[*(const uint32_t *)a], right = scores[*(const uint32_t *)b];
    return (left < right) - (left > right);
}

enum status bpe_set_scores(struct bpe *bpe, const float *scores, struct error *err) {
    CHECK(!bpe->score_ranks && !bpe->pairs);
    uint32_t tokens = bpe->vocab->count, count = 0, rank = 0;
    bpe->score_ranks = memory_alloc_array(tokens, sizeof(*bpe->score_ranks));
    uint32_t *order = memory_alloc_array(tokens, sizeof(*order));
    if (!bpe->score_ranks || !order) {
        memory_free(order);
        return no_memory("the scores", tokens, err);
    }
    for (uint32_t id = 0; id < tokens; id++) {
        bpe->score_ranks[id] = VOCAB_NONE;
        if (scores[id] > -INFINITY) /* false for NaN */
            order[count++] = id;
    }
    qsort_r(order, count, sizeof(*order), compare_scores, (void *)(uintptr_t)scores);
    for (uint32_t i = 0; i < count; i++) {
        rank += i > 0 && scores[order[i]] < scores[order[i - 1]];
        bpe->score_ranks[order[i]] = rank;
    }
    memory_free(order);
    return STATUS_OK;
}
