/*
 * index_list: doubly linked lists of the elements of an array, by index; O(1) everywhere, no memory of its own.
 *
 * Invariants  an element is in at most one of the lists that share a link array.
 */
#pragma once

#include <stdint.h>

#include "base/check.h"

#define INDEX_NONE UINT32_MAX

struct index_link {
    uint32_t previous, next;
};

struct index_list {
    uint32_t first, last;
};

static inline void index_list_init(struct index_list *list) { *list = (struct index_list){INDEX_NONE, INDEX_NONE}; }

/* Puts index behind `previous` (INDEX_NONE: at the front). */
static inline void index_list_insert(struct index_list *list, struct index_link *links, uint32_t index, uint32_t previous) {
    uint32_t next = previous == INDEX_NONE ? list->first : links[previous].next;
    links[index] = (struct index_link){previous, next};
    *(previous == INDEX_NONE ? &list->first : &links[previous].next) = index;
    *(next == INDEX_NONE ? &list->last : &links[next].previous) = index;
}

static inline void index_list_prepend(struct index_list *list, struct index_link *links, uint32_t index) {
    index_list_insert(list, links, index, INDEX_NONE);
}

static inline void index_list_append(struct index_list *list, struct index_link *links, uint32_t index) {
    index_list_insert(list, links, index, list->last);
}

static inline void index_list_remove(struct index_list *list, struct index_link *links, uint32_t index) {
    struct index_link link = links[index];
    ASSERT(link.previous == INDEX_NONE ? list->first == index : links[link.previous].next == index);
    *(link.previous == INDEX_NONE ? &list->first : &links[link.previous].next) = link.next;
    *(link.next == INDEX_NONE ? &list->last : &links[link.next].previous) = link.previous;
    links[index] = (struct index_link){INDEX_NONE, INDEX_NONE};
}
