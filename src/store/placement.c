/* placement: see placement.h. */
#include "store/placement.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "store/size_class.h"
#include "store/weight_store.h"

/* A request of this size takes a disk about as long as one block: keeping such records costs little memory and saves whole requests. */
#define SMALL_RECORD_BYTES ((uint64_t)64 << 10)
/* Read-ahead, as six records of 8 MiB: one is computed, the others keep the disk busy (docs/EXPERIMENTS.md). */
#define RING_WANTED_BYTES ((uint64_t)48 << 20)
/* What only serves overlap takes at most this share of the budget: the rest keeps weights, and a kept byte is never read. */
#define OVERLAP_SHARE 8

struct trunk { /* records outside the experts */
    const struct placement_record *records;
    uint32_t *keep;  /* those that may stream, in the order in which they are kept; each once */
    uint64_t *sizes; /* theirs, descending */
    uint32_t count;
    uint64_t fixed_bytes;   /* those that may not */
    uint64_t total_bytes;   /* all */
    uint64_t minimum_bytes; /* smallest memory that works */
    uint32_t leases;
};

struct choice {           /* a way to split the trunk's memory */
    uint64_t limit_bytes; /* records above it are kept before all others, so that the ring can be smaller */
    uint64_t ring_bytes, resident_bytes;
};

static uint64_t add(uint64_t a, uint64_t b) {
    uint64_t sum;
    CHECK(size_add(a, b, &sum)); /* sizes of records that lie in files: far from 64 bits */
    return sum;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* ---- the trunk ---- */

static int descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

/* Appends those of unique[begin, end) that are small, or those that are not. */
static void append_kept(struct trunk *trunk, const uint32_t *unique, uint32_t begin, uint32_t end, bool small, uint32_t *kept) {
    for (uint32_t i = begin; i < end; i++)
        if ((trunk->records[unique[i]].memory_bytes <= SMALL_RECORD_BYTES) == small)
            trunk->keep[(*kept)++] = unique[i];
}

/*
 * Small ones first. Then the pass in stretches of about a ring, whose numbers are taken in bit-reversed order (0, 1/2, 1/4, 3/4, ...): the
 * first n of it lie evenly, for every n. starts: room for one number per record and one more.
 */
static void order_kept(struct trunk *trunk, const uint32_t *unique, uint32_t *starts) {
    uint32_t kept = 0, stretches = 0;
    uint64_t bytes = RING_WANTED_BYTES;
    append_kept(trunk, unique, 0, trunk->count, true, &kept);
    for (uint32_t i = 0; i < trunk->count; i++) {
        if (bytes >= RING_WANTED_BYTES) {
            starts[stretches++] = i;
            bytes = 0;
        }
        bytes += trunk->records[unique[i]].memory_bytes;
    }
    starts[stretches] = trunk->count;
    unsigned bits = 0;
    while (((uint64_t)1 << bits) < stretches)
        bits++;
    for (uint64_t rank = 0; rank < (uint64_t)1 << bits; rank++) {
        uint64_t index = 0;
        for (unsigned bit = 0; bit < bits; bit++)
            index |= (rank >> bit & 1) << (bits - 1 - bit);
        if (index < stretches)
            append_kept(trunk, unique, starts[index], starts[index + 1], false, &kept);
    }
    CHECK(kept == trunk->count);
}

/* Two records: one is read while the other is computed. With several leases at once, enough to place one more wherever they lie. */
static uint64_t ring_minimum(const struct trunk *trunk, uint64_t largest_bytes) {
    return largest_bytes * (trunk->leases <= 1 ? 2 : trunk->leases + 1);
}

/* Where sizes drop to half or less there is a choice: keep all that are larger, and the ring need only hold the rest. */
static bool limit_at(const struct trunk *trunk, uint32_t index) { return index == 0 || trunk->sizes[index] <= trunk->sizes[index - 1] / 2; }

static enum status trunk_init(struct trunk *trunk, const struct placement_input *input, uint8_t *seen, struct error *err) {
    *trunk = (struct trunk){.records = input->records, .leases = input->stream_leases};
    uint32_t *unique = memory_alloc_array(2 * (size_t)input->stream_count + 1, sizeof *unique);
    trunk->keep = memory_alloc_array(input->stream_count, sizeof *trunk->keep);
    trunk->sizes = memory_alloc_array(input->stream_count, sizeof *trunk->sizes);
    if (!unique || !trunk->keep || !trunk->sizes) {
        memory_free(unique);
        return error_set(err, STATUS_NO_MEMORY, "no memory to plan the placement of %u records", input->record_count);
    }
    for (uint32_t i = 0; i < input->stream_count; i++) {
        uint32_t id = input->stream_order[i];
        CHECK(id < input->record_count && !input->records[id].expert);
        if (seen[id])
            continue; /* a layer that is used twice in a pass */
        seen[id] = 1;
        trunk->sizes[trunk->count] = input->records[id].memory_bytes;
        unique[trunk->count++] = id;
    }
    for (uint32_t id = 0; id < input->record_count; id++) {
        CHECK(input->records[id].memory_bytes > 0);
        if (input->records[id].expert)
            continue;
        trunk->total_bytes = add(trunk->total_bytes, input->records[id].memory_bytes);
        if (!seen[id])
            trunk->fixed_bytes = add(trunk->fixed_bytes, input->records[id].memory_bytes);
    }
    qsort(trunk->sizes, trunk->count, sizeof *trunk->sizes, descending);
    order_kept(trunk, unique, unique + input->stream_count);
    memory_free(unique);
    trunk->minimum_bytes = trunk->total_bytes;
    uint64_t above = trunk->fixed_bytes;
    for (uint32_t i = 0; i < trunk->count; i++) {
        if (limit_at(trunk, i))
            trunk->minimum_bytes = smaller(trunk->minimum_bytes, add(above, ring_minimum(trunk, trunk->sizes[i])));
        above += trunk->sizes[i];
    }
    return STATUS_OK;
}

static void trunk_deinit(struct trunk *trunk) {
    memory_free(trunk->keep);
    memory_free(trunk->sizes);
}

/* Keeps what fits into memory_bytes under a choice and returns its bytes. Notes what is kept in `out` unless it is NULL. */
static uint64_t keep(const struct trunk *trunk, const struct choice *choice, uint64_t memory_bytes, struct placement *out) {
    uint64_t kept = trunk->fixed_bytes;
    for (int pass = 0; pass < 2; pass++) /* those above the limit, then the others */
        for (uint32_t i = 0; i < trunk->count; i++) {
            uint64_t bytes = trunk->records[trunk->keep[i]].memory_bytes;
            if ((bytes > choice->limit_bytes) != (pass == 0) || bytes > memory_bytes - kept)
                continue;
            kept += bytes;
            if (!out)
                continue;
            out->lives[trunk->keep[i]] = WEIGHT_RESIDENT;
            if (pass == 0)
                continue;
            out->keep_order[out->keep_count++] = trunk->keep[i];
            out->keep_bytes += bytes;
        }
    return kept;
}

/* The choice that keeps most. memory_bytes is at least the trunk's minimum and below its total. */
static struct choice choose(const struct trunk *trunk, uint64_t memory_bytes) {
    struct choice best = {0};
    uint64_t above = trunk->fixed_bytes;
    for (uint32_t i = 0; i < trunk->count; above += trunk->sizes[i++]) {
        uint64_t least = ring_minimum(trunk, trunk->sizes[i]);
        if (!limit_at(trunk, i) || add(above, least) > memory_bytes)
            continue;
        uint64_t wanted = larger(least + trunk->sizes[i], RING_WANTED_BYTES); /* one more record, so that odd sizes leave no gap */
        uint64_t allowed = smaller(memory_bytes / OVERLAP_SHARE, memory_bytes - above);
        allowed = smaller(allowed, trunk->total_bytes - memory_bytes); /* at most half of what is read */
        struct choice choice = {.limit_bytes = trunk->sizes[i], .ring_bytes = larger(least, smaller(wanted, allowed))};
        choice.resident_bytes = keep(trunk, &choice, memory_bytes - choice.ring_bytes, NULL);
        if (best.ring_bytes == 0 || choice.resident_bytes > best.resident_bytes)
            best = choice;
    }
    CHECK(best.ring_bytes > 0);
    return best;
}

/* ---- experts ---- */

static enum status group_experts(const struct placement_input *input, struct placement *out, struct size_classes *classes,
                                 struct error *err) {
    uint64_t *sizes = memory_alloc_array(input->record_count, sizeof *sizes);
    if (!sizes)
        return error_set(err, STATUS_NO_MEMORY, "no memory to plan the placement of %u records", input->record_count);
    uint32_t count = 0;
    for (uint32_t id = 0; id < input->record_count; id++)
        if (input->records[id].expert) {
            sizes[count++] = input->records[id].memory_bytes;
            out->expert_total_bytes = add(out->expert_total_bytes, input->records[id].memory_bytes);
        }
    size_classes_build(sizes, count, classes);
    memory_free(sizes);
    uint64_t wanted; /* records of one token */
    if (count > 0 && size_multiply((uint64_t)input->top_k * input->expert_layers, out->expert_total_bytes, &wanted))
        out->token_demand_bytes = smaller(wanted / count, out->expert_total_bytes);
    else
        out->token_demand_bytes = out->expert_total_bytes;
    return STATUS_OK;
}

/* ---- all ---- */

static enum status refuse(const struct placement *out, const struct trunk *trunk, uint64_t budget_bytes, struct error *err) {
    char need[32], trunk_text[32], slots[32], have[32];
    return error_set(err, STATUS_OVER_BUDGET,
                     "the weights need at least %s of memory (%" PRIu64
                     " bytes: %s for what is read again in every pass, %s for one expert "
                     "of each size), the budget leaves %s; raise it by %" PRIu64 " bytes",
                     text_format_size(out->minimum_bytes, need, sizeof need), out->minimum_bytes,
                     text_format_size(trunk->minimum_bytes, trunk_text, sizeof trunk_text),
                     text_format_size(out->minimum_bytes - trunk->minimum_bytes, slots, sizeof slots),
                     text_format_size(budget_bytes, have, sizeof have), out->minimum_bytes - budget_bytes);
}

/* What streams, and what may. */
static void order_stream(const struct placement_input *input, const struct choice *choice, struct placement *out) {
    for (uint32_t i = 0; i < input->stream_count; i++) {
        uint32_t id = input->stream_order[i];
        uint64_t bytes = input->records[id].memory_bytes;
        if (bytes <= choice->limit_bytes)
            out->stream_order[out->stream_count++] = id;
        if (out->lives[id] == WEIGHT_STREAMED)
            out->streamed_bytes = add(out->streamed_bytes, bytes);
    }
}

static void place_within(const struct placement_input *input, const struct trunk *trunk, struct size_classes *classes,
                         struct placement *out) {
    uint64_t least = size_classes_bytes(classes, 1);
    uint64_t allowed = smaller(input->budget_bytes / OVERLAP_SHARE, input->budget_bytes - trunk->minimum_bytes);
    uint64_t slots_bytes = larger(least, smaller(size_classes_bytes(classes, input->top_k), allowed));
    uint64_t trunk_bytes = input->budget_bytes - slots_bytes;
    struct choice choice = {.resident_bytes = trunk->total_bytes}; /* all are above the limit */
    if (trunk_bytes < trunk->total_bytes)
        choice = choose(trunk, trunk_bytes);
    for (uint32_t id = 0; id < input->record_count; id++)
        out->lives[id] = input->records[id].expert ? WEIGHT_CACHED : WEIGHT_RESIDENT;
    for (uint32_t i = 0; i < trunk->count; i++)
        out->lives[trunk->keep[i]] = WEIGHT_STREAMED;
    out->resident_bytes = keep(trunk, &choice, trunk_bytes - choice.ring_bytes, out);
    CHECK(out->resident_bytes == choice.resident_bytes);
    order_stream(input, &choice, out);
    out->ring_bytes = choice.ring_bytes;
    uint64_t left = input->budget_bytes - out->resident_bytes - out->ring_bytes;
    out->cache_bytes = size_classes_cut(classes, left);
    if (out->ring_bytes > 0 && classes->count == 0)
        out->ring_bytes += left; /* less than any streamed record, so it cannot keep one */
}

enum status placement_plan(const struct placement_input *input, struct placement *out, struct error *err) {
    *out = (struct placement){0};
    struct trunk trunk = {0};
    struct size_classes classes;
    out->lives = memory_alloc_array(input->record_count, sizeof *out->lives);
    out->stream_order = memory_alloc_array(input->stream_count, sizeof *out->stream_order);
    out->keep_order = memory_alloc_array(input->stream_count, sizeof *out->keep_order);
    enum status status = STATUS_OK;
    if (!out->lives || !out->stream_order || !out->keep_order)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to plan the placement of %u records", input->record_count);
    if (status == STATUS_OK)
        status = trunk_init(&trunk, input, out->lives, err);
    if (status == STATUS_OK)
        status = group_experts(input, out, &classes, err);
    if (status == STATUS_OK) {
        uint64_t total_bytes = add(trunk.total_bytes, out->expert_total_bytes);
        out->minimum_bytes = add(trunk.minimum_bytes, size_classes_bytes(&classes, 1));
        out->everything_resident = input->budget_bytes >= total_bytes;
        if (out->everything_resident) {
            for (uint32_t id = 0; id < input->record_count; id++)
                out->lives[id] = WEIGHT_RESIDENT;
            out->resident_bytes = total_bytes;
        } else if (input->budget_bytes < out->minimum_bytes) {
            status = refuse(out, &trunk, input->budget_bytes, err);
        } else {
            place_within(input, &trunk, &classes, out);
            out->cache_useless = classes.count > 0 && out->cache_bytes < out->token_demand_bytes;
        }
    }
    trunk_deinit(&trunk);
    if (status != STATUS_OK) {
        uint64_t minimum_bytes = out->minimum_bytes;
        placement_deinit(out);
        out->minimum_bytes = minimum_bytes;
        return status;
    }
    return STATUS_OK;
}

void placement_deinit(struct placement *placement) {
    memory_free(placement->lives);
    memory_free(placement->stream_order);
    memory_free(placement->keep_order);
    *placement = (struct placement){0};
}
