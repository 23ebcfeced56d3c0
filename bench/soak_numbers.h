/*
 * soak_numbers: what a process has and must not have more of as time goes by: memory, open files, threads.
 *
 * Model    Taken between two requests. `rest` is the resident memory outside the expert cache and the trunk: they change their size on
 *          purpose and fill their last pages late, so that a leak of a kilobyte a request would not show in the whole. Workers of the
 * kernel's io_uring come and go as the kernel likes and are no threads of ours.
 */
#pragma once

#include "engine/engine_internal.h"

struct soak_numbers {
    uint64_t rss_bytes, peak_bytes; /* VmRSS, VmHWM */
    uint64_t rest_bytes;
    uint64_t accounted_bytes, heap_bytes; /* of all owners; of MEMORY_OTHER */
    uint64_t files, threads;
};

/* model: loaded. Numbers that cannot be read are 0. */
struct soak_numbers soak_numbers_read(const struct sluice_model *model);
/* Each the larger one. */
void soak_numbers_raise(struct soak_numbers *most, const struct soak_numbers *now);
