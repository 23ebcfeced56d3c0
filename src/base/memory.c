/*
 * memory: heap blocks over malloc, regions over mmap, counters by owner, and the allocation failures that tests ask for.
 *
 * Heap blocks carry no header of ours: their size is what malloc_usable_size says, the same when they come and when they go.
 */
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define PR_THP_DISABLE_EXCEPT_ADVISED_ (1UL << 1) /* Linux 6.18; older kernels refuse the call */

static struct {
    _Atomic uint64_t owner_bytes[MEMORY_OWNER_COUNT];
    _Atomic uint64_t locked_bytes;
    _Atomic uint64_t fail_countdown; /* 0: off */
    _Atomic uint64_t refusals;
} memory;

const char *memory_owner_name(enum memory_owner owner) {
    static const char *const names[MEMORY_OWNER_COUNT] = {"trunk", "cache", "staging", "kv", "activations", "other"};
    CHECK((unsigned)owner < MEMORY_OWNER_COUNT);
    return names[owner];
}

/* ---- failures on demand ---- */

void memory_fail_after(uint64_t allocations) { atomic_store(&memory.fail_countdown, allocations); }

static bool must_fail(void) {
    uint64_t left = atomic_load_explicit(&memory.fail_countdown, memory_order_relaxed);
    while (left != 0)
        if (atomic_compare_exchange_weak(&memory.fail_countdown, &left, left - 1))
            return left == 1;
    return false;
}

static void *refuse(void) {
    atomic_fetch_add(&memory.refusals, 1);
    return NULL;
}

uint64_t memory_refusals(void) { return atomic_load(&memory.refusals); }

/* ---- heap ---- */

static void count_heap(void *block) {
    atomic_fetch_add_explicit(&memory.owner_bytes[MEMORY_OTHER], malloc_usable_size(block), memory_order_relaxed);
}

static void uncount_heap(size_t size_bytes) {
    atomic_fetch_sub_explicit(&memory.owner_bytes[MEMORY_OTHER], size_bytes, memory_order_relaxed);
}

void *memory_alloc(size_t size_bytes) { return memory_alloc_array(size_bytes, 1); }

void *memory_alloc_array(size_t count, size_t element_bytes) {
    size_t size_bytes;
    if (must_fail() || __builtin_mul_overflow(count, element_bytes, &size_bytes))
        return refuse();
    void *block = calloc(size_bytes ? size_bytes : 1, 1);
    if (!block)
        return refuse();
    count_heap(block);
    return block;
}

void *memory_resize(void *block, size_t count, size_t element_bytes) {
    size_t size_bytes;
    if (must_fail() || __builtin_mul_overflow(count, element_bytes, &size_bytes))
        return refuse();
    size_t old_bytes = block ? malloc_usable_size(block) : 0;
    void *grown = realloc(block, size_bytes ? size_bytes : 1);
    if (!grown)
        return refuse();
    uncount_heap(old_bytes);
    count_heap(grown);
    return grown;
}

char *memory_copy_text(const char *data, size_t size_bytes) {
    CHECK(data != NULL || size_bytes == 0);
    if (size_bytes == SIZE_MAX)
        return NULL;
    char *copy = memory_alloc(size_bytes + 1);
    if (copy && size_bytes)
        memcpy(copy, data, size_bytes);
    return copy;
}

void memory_free(void *block) {
    if (!block)
        return;
    uncount_heap(malloc_usable_size(block));
    free(block);
}

/* ---- regions ---- */

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static size_t mapped_bytes(const struct memory_region *region) { return size_round_up(region->size_bytes, page_bytes()); }

/* Locks pages as they come, so that locking does not fill the region with zeros first. */
static bool lock_pages(uint8_t *data, size_t size_bytes) { return mlock2(data, size_bytes, MLOCK_ONFAULT) == 0; }

static void take_mapping(struct memory_region *region, void *data, size_t size_bytes, bool lock) {
    region->data = data;
    region->size_bytes = size_bytes;
    region->locked = lock && lock_pages(data, mapped_bytes(region));
    atomic_fetch_add(&memory.owner_bytes[region->owner], mapped_bytes(region));
    if (region->locked)
        atomic_fetch_add(&memory.locked_bytes, mapped_bytes(region));
}

/* Unused addresses for map_bytes, of which those that are phase_bytes behind a multiple of a huge page begin one; or MAP_FAILED. */
static uint8_t *find_addresses(size_t map_bytes, uint64_t phase_bytes, int protection) {
    size_t spare_bytes = HUGE_PAGE_BYTES - page_bytes();
    uint8_t *data = mmap(NULL, map_bytes + spare_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return data;
    size_t before_bytes = (phase_bytes - (uintptr_t)data) & (HUGE_PAGE_BYTES - 1);
    if (before_bytes > 0)
        CHECK(munmap(data, before_bytes) == 0);
    data += before_bytes;
    if (before_bytes < spare_bytes)
        CHECK(munmap(data + map_bytes, spare_bytes - before_bytes) == 0);
    return data;
}

/*
 * From the size of a huge page on in huge pages, as far as they fit inside. A direct read into small pages is one segment of the disk's
 * command for each: less than half as fast (bench/results/io.md).
 */
static void *map_anonymous(size_t map_bytes) {
    bool huge = map_bytes >= HUGE_PAGE_BYTES;
    void *data = huge ? find_addresses(map_bytes, 0, PROT_READ | PROT_WRITE)
                      : mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Advice may be refused (kernels without huge pages); nothing depends on it but speed and rounding. */
    if (data != MAP_FAILED)
        (void)madvise(data, map_bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return data;
}

enum status memory_region_create(struct memory_region *region, size_t size_bytes, enum memory_owner owner, bool lock, struct error *err) {
    CHECK((unsigned)owner < MEMORY_OWNER_COUNT);
    *region = (struct memory_region){.owner = owner};
    if (must_fail()) {
        (void)refuse();
        return error_set(err, STATUS_NO_MEMORY, "no memory for a region of %zu bytes (%s)", size_bytes, memory_owner_name(owner));
    }
    if (size_bytes == 0)
        return STATUS_OK;
    if (size_bytes > SIZE_MAX / 2)
        return error_set(err, STATUS_NO_MEMORY, "a region of %zu bytes (%s) cannot be mapped", size_bytes, memory_owner_name(owner));
    size_t map_bytes = size_round_up(size_bytes, page_bytes());
    void *data = map_anonymous(map_bytes);
    if (data == MAP_FAILED) {
        (void)refuse();
        return error_set(err, STATUS_NO_MEMORY,
                         "the system gave no memory for %zu bytes (%s): %s; lower --ram or raise the limit (ulimit -v)", size_bytes,
                         memory_owner_name(owner), strerror(errno));
    }
    take_mapping(region, data, size_bytes, lock);
    return STATUS_OK;
}

enum status memory_region_map(struct memory_region *region, int fd, uint64_t offset_bytes, size_t size_bytes, enum memory_owner owner,
                              bool lock, struct error *err) {
    CHECK((unsigned)owner < MEMORY_OWNER_COUNT && size_bytes > 0 && size_bytes <= SIZE_MAX / 2);
    CHECK(offset_bytes % page_bytes() == 0 && offset_bytes <= INT64_MAX);
    *region = (struct memory_region){.owner = owner};
    if (must_fail()) {
        (void)refuse();
        return error_set(err, STATUS_NO_MEMORY, "no memory to map %zu bytes of a file", size_bytes);
    }
    size_t map_bytes = size_round_up(size_bytes, page_bytes());
    uint8_t *data = find_addresses(map_bytes, offset_bytes, PROT_NONE);
    if (data != MAP_FAILED && mmap(data, map_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)offset_bytes) == MAP_FAILED) {
        int reason = errno;
        CHECK(munmap(data, map_bytes) == 0);
        errno = reason;
        data = MAP_FAILED;
    }
    if (data == MAP_FAILED)
        return error_set(err, errno == ENOMEM ? STATUS_NO_MEMORY : STATUS_UNSUPPORTED, "%zu bytes of a file cannot be mapped: %s",
                         size_bytes, strerror(errno));
    take_mapping(region, data, size_bytes, lock);
    return STATUS_OK;
}

void memory_region_destroy(struct memory_region *region) {
    if (region->data) {
        size_t map_bytes = mapped_bytes(region);
        CHECK(munmap(region->data, map_bytes) == 0);
        atomic_fetch_sub(&memory.owner_bytes[region->owner], map_bytes - region->absent_bytes);
        if (region->locked)
            atomic_fetch_sub(&memory.locked_bytes, map_bytes);
    }
    *region = (struct memory_region){0};
}

void memory_region_unlock(struct memory_region *region) {
    if (!region->locked)
        return;
    CHECK(syscall(SYS_munlock, region->data, mapped_bytes(region)) == 0); /* the system's own: sanitizers make munlock do nothing */
    region->locked = false;
    atomic_fetch_sub(&memory.locked_bytes, mapped_bytes(region));
}

void memory_region_discard(struct memory_region *region, size_t offset_bytes, size_t size_bytes) {
    CHECK(offset_bytes <= region->size_bytes && size_bytes <= region->size_bytes - offset_bytes);
    size_t page = page_bytes(), end = offset_bytes + size_bytes;
    size_t first = size_round_up(offset_bytes, page);
    size_t last = end == region->size_bytes ? mapped_bytes(region) : end / page * page;
    if (first >= last)
        return;
    uint8_t *data = region->data + first;
    /* Locked pages cannot be given back: unlock, give back, lock those that come again. */
    if (region->locked)
        CHECK(syscall(SYS_munlock, data, last - first) == 0); /* the system's own: sanitizers make munlock do nothing */
    CHECK(madvise(data, last - first, MADV_DONTNEED) == 0);
    if (region->locked && !lock_pages(data, last - first))
        memory_region_unlock(region); /* all of it: the next discard meets no page that is locked */
}

void memory_region_set_absent(struct memory_region *region, size_t absent_bytes) {
    absent_bytes = absent_bytes / page_bytes() * page_bytes();
    CHECK(absent_bytes <= mapped_bytes(region));
    atomic_fetch_add(&memory.owner_bytes[region->owner], region->absent_bytes - absent_bytes); /* wraps around when it shrinks */
    region->absent_bytes = absent_bytes;
}

/* ---- what is in use ---- */

uint64_t memory_owner_bytes(enum memory_owner owner) {
    CHECK((unsigned)owner < MEMORY_OWNER_COUNT);
    return atomic_load(&memory.owner_bytes[owner]);
}

uint64_t memory_locked_bytes(void) { return atomic_load(&memory.locked_bytes); }

/* "VmRSS:\t  1234 kB" -> bytes; 0 when the line is missing. */
static uint64_t status_field(const char *status, const char *name) {
    const char *line = strstr(status, name);
    if (!line)
        return 0;
    line += strlen(name);
    line += strspn(line, " \t");
    uint64_t kib;
    if (!text_parse_u64((struct text){line, strspn(line, "0123456789")}, &kib) || kib > UINT64_MAX / 1024)
        return 0;
    return kib * 1024;
}

struct memory_process memory_process_read(void) {
    struct memory_process process = {0};
    char status[8192];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return process;
    size_t used = 0;
    for (ssize_t got; used < sizeof(status) - 1 && (got = read(fd, status + used, sizeof(status) - 1 - used)) > 0;)
        used += (size_t)got;
    close(fd);
    status[used] = 0;
    process.rss_bytes = status_field(status, "\nVmRSS:");
    process.peak_rss_bytes = status_field(status, "\nVmHWM:");
    process.locked_bytes = status_field(status, "\nVmLck:");
    process.page_table_bytes = status_field(status, "\nVmPTE:");
    process.swap_bytes = status_field(status, "\nVmSwap:");
    return process;
}

void memory_setup(void) {
    /* One arena, and thresholds that stay: freed blocks of 128 KiB or more go back to the system at once. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 256 << 10);
    mallopt(M_TOP_PAD, 64 << 10);
    (void)prctl(PR_SET_THP_DISABLE, 1UL, PR_THP_DISABLE_EXCEPT_ADVISED_, 0UL, 0UL);
}

void memory_trim(void) { (void)malloc_trim(0); }

/* ---- checked sizes ---- */

bool size_add(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }

bool size_multiply(uint64_t a, uint64_t b, uint64_t *product) { return !__builtin_mul_overflow(a, b, product); }

uint64_t size_round_up(uint64_t value, uint64_t multiple) {
    ASSERT(multiple != 0 && (multiple & (multiple - 1)) == 0);
    ASSERT(value <= UINT64_MAX - (multiple - 1));
    return (value + (multiple - 1)) & ~(multiple - 1);
}
