/* token_trie: sorts tokens by their bytes and lays out the nodes. */
#include "generate/token_trie.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"

struct text token_trie_bytes(const struct token_trie *t, uint32_t id) {
    if (id >= t->vocab)
        return TEXT("");
    return (struct text){t->bytes + t->offsets[id], t->offsets[id + 1] - t->offsets[id]};
}

uint64_t token_trie_memory(const struct token_trie *t) {
    return t->offsets[t->vocab] + (uint64_t)t->vocab * 2 * sizeof *t->ids + (uint64_t)t->node_count * sizeof *t->nodes;
}

/* Merge sort from the bottom: stable, so equal bytes stay in order of ids. */
static enum status sort_ids(struct token_trie *t, uint32_t count, struct error *err) {
    uint32_t *from = t->ids, *to = memory_alloc_array((size_t)count + 1, sizeof *to), *spare = to;
    if (!to)
        return error_set(err, STATUS_NO_MEMORY, "no memory to sort %u tokens", count);
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t begin = 0; begin < count; begin += 2 * width) {
            uint32_t middle = begin + width < count ? begin + width : count, end = middle + width < count ? middle + width : count;
            uint32_t a = begin, b = middle;
            for (uint32_t i = begin; i < end; i++)
                to[i] = b == end || (a < middle && text_compare(token_trie_bytes(t, from[a]), token_trie_bytes(t, from[b])) <= 0)
                            ? from[a++]
                            : from[b++];
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
    if (from != t->ids)
        memcpy(t->ids, from, count * sizeof *from);
    memory_free(spare);
    return STATUS_OK;
}

static size_t common_prefix(struct text a, struct text b) {
    size_t i = 0;
    while (i < a.size_bytes && i < b.size_bytes && a.data[i] == b.data[i])
        i++;
    return i;
}

static enum status lay_out(struct token_trie *t, uint32_t count, struct error *err) {
    struct text last = TEXT("");
    size_t nodes = 1;
    for (uint32_t i = 0; i < count; i++) {
        struct text text = token_trie_bytes(t, t->ids[i]);
        nodes += text.size_bytes - common_prefix(text, last);
        last = text;
    }
    t->nodes = nodes < UINT32_MAX ? memory_alloc_array(nodes + 1, sizeof *t->nodes) : NULL;
    if (!t->nodes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tokens of a vocabulary of %u", t->vocab);
    uint32_t open[TOKEN_BYTES_MAX + 1] = {0}; /* node of each depth on the path */
    size_t depth = 0;
    t->node_count = 1;
    last = TEXT("");
    for (uint32_t i = 0; i < count; i++) {
        struct text text = token_trie_bytes(t, t->ids[i]);
        size_t common = common_prefix(text, last);
        for (; depth > common; depth--)
            t->nodes[open[depth]].skip = t->node_count;
        for (; depth < text.size_bytes; depth++) {
            open[depth + 1] = t->node_count;
            t->nodes[t->node_count++] = (struct token_node){.first = i, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)text.data[depth]};
        }
        last = text;
    }
    for (; depth > 0; depth--)
        t->nodes[open[depth]].skip = t->node_count;
    t->nodes[0].skip = t->node_count;
    t->nodes[t->node_count].first = count;
    CHECK(t->node_count == nodes);
    return STATUS_OK;
}

enum status token_trie_build(char *bytes, uint32_t *offsets, uint32_t vocab, bool skips_space, struct token_trie **out, struct error *err) {
    *out = NULL;
    struct token_trie *t = memory_alloc(sizeof *t);
    if (!t) {
        memory_free(bytes);
        memory_free(offsets);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tokens of a vocabulary");
    }
    *t = (struct token_trie){.vocab = vocab, .bytes = bytes, .offsets = offsets, .skips_space = skips_space};
    t->ids = memory_alloc_array((size_t)vocab + 1, sizeof *t->ids);
    uint32_t count = 0;
    for (uint32_t id = 0; t->ids && id < vocab; id++) {
        size_t size = token_trie_bytes(t, id).size_bytes;
        if (size > 0 && size <= TOKEN_BYTES_MAX)
            t->ids[count++] = id;
    }
    enum status status = t->ids ? sort_ids(t, count, err) : error_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", vocab);
    if (status == STATUS_OK)
        status = lay_out(t, count, err);
    if (status != STATUS_OK) {
        token_trie_destroy(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

void token_trie_destroy(struct token_trie *t) {
    if (!t)
        return;
    memory_free(t->bytes);
    memory_free(t->offsets);
    memory_free(t->nodes);
    memory_free(t->ids);
    memory_free(t);
}
