/* unigram: one node per byte offset holds the best path that ends there; paths grow by every token that begins at a character. */
#include "text/unigram.h"

#include <math.h>

#include "base/check.h"
#include "base/memory.h"
#include "text/unicode.h"

#define UNKNOWN_PENALTY 10.0
#define NO_NODE UINT32_MAX

struct unigram_node {
    double score;   /* of the best path from the start */
    uint32_t begin; /* where its last token begins; NO_NODE: no path ends here. Turned round: where the next token ends */
    uint32_t id;
};

enum status unigram_init(struct unigram *unigram, const struct vocab *vocab, double *scores, uint32_t unknown, bool byte_fallback,
                         struct error *err) {
    *unigram = (struct unigram){.vocab = vocab, .scores = scores, .unknown = unknown, .byte_fallback = byte_fallback};
    CHECK(vocab->slots != NULL);
    double lowest = INFINITY;
    for (uint32_t id = 0; id < vocab->count; id++)
        if ((vocab->flags[id] & VOCAB_MODEL) && scores[id] < lowest)
            lowest = scores[id];
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    vocab_find_bytes(vocab, unigram->byte_ids);
    TRY(prefix_index_init(&unigram->index, vocab, VOCAB_MODEL, err));
    for (uint32_t i = 0; i < unigram->index.count; i++) /* of ids with one text the last counts, here as everywhere */
        (void)vocab_find_model(vocab, vocab_text(vocab, unigram->index.ids[i]), &unigram->index.ids[i]);
    return STATUS_OK;
}

void unigram_deinit(struct unigram *unigram) {
    prefix_index_deinit(&unigram->index);
    memory_free(unigram->scores);
    *unigram = (struct unigram){0};
}

void unigram_work_deinit(struct unigram_work *work) {
    memory_free(work->nodes);
    *work = (struct unigram_work){0};
}

static void improve(struct unigram_node *node, double score, size_t begin, uint32_t id) {
    if (node->begin != NO_NODE && !(score > node->score))
        return;
    *node = (struct unigram_node){.score = score, .begin = (uint32_t)begin, .id = id};
}

/* Grows the path that ends at `begin` by every token there. */
static void grow_paths(const struct unigram *unigram, struct unigram_work *work, struct text piece, size_t begin, size_t length) {
    if (work->nodes[begin].begin == NO_NODE && begin > 0)
        return; /* no path comes here; only without an unknown token */
    double score = work->nodes[begin].score;
    struct text rest = {piece.data + begin, piece.size_bytes - begin};
    struct prefix_walk walk = prefix_walk_start();
    bool has_single = false;
    for (uint32_t id; prefix_walk_next(&unigram->index, rest, &walk, &id);) {
        if (work->plain && (vocab_flags_of(unigram->vocab, id) & VOCAB_SPECIAL))
            continue;
        improve(&work->nodes[begin + walk.depth], score + unigram->scores[id], begin, id);
        has_single = has_single || walk.depth == length;
    }
    if (!has_single && unigram->unknown != VOCAB_NONE)
        improve(&work->nodes[begin + length], score + unigram->unknown_score, begin, unigram->unknown);
}

/* Turns the best path round: node.begin becomes the end of the token that begins at the node. */
static void turn_round(struct unigram_node *nodes, size_t end) {
    uint32_t next_end = NO_NODE, next_id = VOCAB_NONE;
    while (end > 0) {
        struct unigram_node node = nodes[end];
        ASSERT(node.begin < end);
        nodes[end].begin = next_end;
        nodes[end].id = next_id;
        next_end = (uint32_t)end;
        next_id = node.id;
        end = node.begin;
    }
    nodes[0].begin = next_end;
    nodes[0].id = next_id;
}

/* A run of unknown characters: a token of that text, its bytes, or the unknown token. */
static enum status append_unknown(const struct unigram *unigram, struct text run, struct token_list *out, struct error *err) {
    uint32_t id;
    if (vocab_find_model(unigram->vocab, run, &id))
        return token_list_append(out, id, err);
    bool bytes = unigram->byte_fallback;
    for (size_t i = 0; i < run.size_bytes && bytes; i++)
        bytes = unigram->byte_ids[(uint8_t)run.data[i]] != VOCAB_NONE;
    if (!bytes)
        return token_list_append(out, unigram->unknown, err);
    for (size_t i = 0; i < run.size_bytes; i++)
        TRY(token_list_append(out, unigram->byte_ids[(uint8_t)run.data[i]], err));
    return STATUS_OK;
}

static enum status append_path(const struct unigram *unigram, const struct unigram_node *nodes, struct text piece, struct token_list *out,
                               struct error *err) {
    for (size_t begin = 0, end; begin < piece.size_bytes; begin = end) {
        end = nodes[begin].begin;
        if (nodes[begin].id != unigram->unknown) {
            TRY(token_list_append(out, nodes[begin].id, err));
            continue;
        }
        while (end < piece.size_bytes && nodes[end].id == unigram->unknown)
            end = nodes[end].begin;
        TRY(append_unknown(unigram, (struct text){piece.data + begin, end - begin}, out, err));
    }
    return STATUS_OK;
}

enum status unigram_encode(const struct unigram *unigram, struct unigram_work *work, struct text piece, struct token_list *out,
                           struct error *err) {
    if (piece.size_bytes >= NO_NODE / 2)
        return error_set(err, STATUS_INVALID, "a piece of %zu bytes is too long to tokenize", piece.size_bytes);
    size_t need = piece.size_bytes + 1;
    if (need > work->node_capacity) {
        struct unigram_node *nodes = memory_resize(work->nodes, need + need / 4 + 64, sizeof(*nodes));
        if (!nodes)
            return error_set(err, STATUS_NO_MEMORY, "no memory to tokenize a piece of %zu bytes", piece.size_bytes);
        work->nodes = nodes;
        work->node_capacity = need + need / 4 + 64;
    }
    for (size_t i = 0; i < need; i++)
        work->nodes[i].begin = NO_NODE;
    work->nodes[0].score = 0;
    for (size_t at = 0, length; at < piece.size_bytes; at += length) {
        (void)utf8_at(piece, at, &length);
        TRY(cancel_check(work->cancel, err));
        grow_paths(unigram, work, piece, at, length);
    }
    if (work->nodes[piece.size_bytes].begin == NO_NODE)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the text has characters that no token of the tokenizer has, and it has no unknown token");
    turn_round(work->nodes, piece.size_bytes);
    return append_path(unigram, work->nodes, piece, out, err);
}
