/* size_class: see size_class.h. */
#include "store/size_class.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/memory.h"

#define TOLERANCE_SHIFT 5 /* 1/32: three percent of a slot lost at most, more than the two or three blocks that alignment takes */

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Cuts sorted sizes from the top: a class ends where a size is more than 1/2^shift below its largest. False: more than the maximum. */
static bool group(const uint64_t *sizes, uint32_t count, unsigned shift, struct size_classes *out) {
    struct size_class found[SIZE_CLASSES_MAX];
    uint32_t classes = 0;
    for (uint32_t i = count; i-- > 0;) {
        if (classes > 0 && (shift == 0 || found[classes - 1].slot_bytes - sizes[i] <= found[classes - 1].slot_bytes >> shift)) {
            found[classes - 1].record_count++;
            continue;
        }
        if (classes == SIZE_CLASSES_MAX)
            return false;
        found[classes++] = (struct size_class){.slot_bytes = sizes[i], .record_count = 1};
    }
    out->count = classes;
    for (uint32_t i = 0; i < classes; i++)
        out->classes[i] = found[classes - 1 - i];
    return true;
}

void size_classes_build(uint64_t *sizes, uint32_t count, struct size_classes *out) {
    *out = (struct size_classes){0};
    if (count == 0)
        return;
    qsort(sizes, count, sizeof *sizes, ascending);
    CHECK(sizes[0] > 0);
    unsigned shift = TOLERANCE_SHIFT;
    while (!group(sizes, count, shift, out)) {
        CHECK(shift > 0); /* with shift 0 one class holds all */
        shift--;
    }
}

uint32_t size_classes_find(const struct size_classes *classes, uint64_t size_bytes) {
    uint32_t i = 0;
    while (i < classes->count && classes->classes[i].slot_bytes < size_bytes)
        i++;
    CHECK(i < classes->count);
    return i;
}

uint64_t size_classes_bytes(const struct size_classes *classes, uint32_t slots) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < classes->count; i++) {
        const struct size_class *c = &classes->classes[i];
        uint64_t bytes;
        CHECK(size_multiply(c->slot_bytes, slots < c->record_count ? slots : c->record_count, &bytes) && size_add(sum, bytes, &sum));
    }
    return sum;
}

/* Whether class a has a smaller share of its records in slots than b. */
static bool poorer(const struct size_class *a, const struct size_class *b) {
    return (uint64_t)a->slot_count * b->record_count < (uint64_t)b->slot_count * a->record_count;
}

uint64_t size_classes_cut(struct size_classes *classes, uint64_t budget_bytes) {
    uint64_t left = budget_bytes;
    for (uint32_t i = 0; i < classes->count; i++) /* one each first: a class without a slot cannot work */
        classes->classes[i].slot_count = 0;
    for (uint32_t i = 0; i < classes->count && classes->classes[i].slot_bytes <= left; i++) {
        classes->classes[i].slot_count = 1;
        left -= classes->classes[i].slot_bytes;
    }
    for (;;) {
        struct size_class *next = NULL;
        for (uint32_t i = 0; i < classes->count; i++) {
            struct size_class *c = &classes->classes[i];
            if (c->slot_count < c->record_count && c->slot_bytes <= left && (!next || poorer(c, next)))
                next = c;
        }
        if (!next)
            break;
        next->slot_count++;
        left -= next->slot_bytes;
    }
    return budget_bytes - left;
}
