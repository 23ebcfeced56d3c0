/* soak_numbers: see soak_numbers.h. */
#include "soak_numbers.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "store/store_internal.h"

#define TEXT_BYTES 512

/* Resident bytes of the mappings of a region. */
static uint64_t resident_of(const struct memory_region *region) {
    uint64_t begin = (uintptr_t)region->data, end = begin + region->size_bytes + 4095;
    char line[TEXT_BYTES];
    uint64_t from = 0, to = 0, kib, sum = 0;
    FILE *file = region->data ? fopen("/proc/self/smaps", "re") : NULL;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) != 2 && sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1 && from >= begin &&
            to <= end)
            sum += kib << 10;
    }
    if (file)
        (void)fclose(file);
    return sum;
}

/* Entries of a folder of /proc/self/task that are threads of this program, or all entries of another folder. */
static uint64_t count_entries(const char *path, bool threads) {
    uint64_t count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        char name[TEXT_BYTES], text[64] = "";
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%.64s/comm", path, entry->d_name);
        FILE *file = threads ? fopen(name, "re") : NULL;
        if (file) {
            (void)!fgets(text, sizeof text, file);
            (void)fclose(file);
        }
        count += strncmp(text, "iou-", 4) != 0;
    }
    if (folder)
        (void)closedir(folder);
    return count;
}

struct soak_numbers soak_numbers_read(const struct sluice_model *model) {
    struct memory_process process = memory_process_read();
    uint64_t weights = resident_of(&model->store->cache.memory.region) + resident_of(&model->store->trunk.region);
    struct soak_numbers numbers = {.rss_bytes = process.rss_bytes,
                                   .peak_bytes = process.peak_rss_bytes,
                                   .rest_bytes = process.rss_bytes > weights ? process.rss_bytes - weights : 0,
                                   .heap_bytes = memory_owner_bytes(MEMORY_OTHER),
                                   .files = count_entries("/proc/self/fd", false),
                                   .threads = count_entries("/proc/self/task", true)};
    for (enum memory_owner owner = 0; owner < MEMORY_OWNER_COUNT; owner++)
        numbers.accounted_bytes += memory_owner_bytes(owner);
    return numbers;
}

static void raise_to(uint64_t *most, uint64_t now) { *most = now > *most ? now : *most; }

void soak_numbers_raise(struct soak_numbers *most, const struct soak_numbers *now) {
    raise_to(&most->rss_bytes, now->rss_bytes);
    raise_to(&most->peak_bytes, now->peak_bytes);
    raise_to(&most->rest_bytes, now->rest_bytes);
    raise_to(&most->accounted_bytes, now->accounted_bytes);
    raise_to(&most->heap_bytes, now->heap_bytes);
    raise_to(&most->files, now->files);
    raise_to(&most->threads, now->threads);
}
