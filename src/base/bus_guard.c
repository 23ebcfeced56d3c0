/* bus_guard: see bus_guard.h. Only system calls and atomics are used inside the handler. */
#include "base/bus_guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"

struct guard_range {
    _Atomic uintptr_t base, end; /* end 0: not in use */
    atomic_uint_least64_t lost;  /* offset of the first lost page plus 1; 0: none */
};

static struct {
    struct guard_range ranges[BUS_GUARD_RANGES_MAX];
    atomic_uint used; /* ranges from here on were never in use */
    uintptr_t page_bytes;
    struct sigaction before;
    pthread_mutex_t mutex; /* of adding and removing */
} guard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static struct guard_range *range_of(uintptr_t address) {
    unsigned used = atomic_load(&guard.used);
    for (unsigned i = 0; i < used; i++)
        if (address >= atomic_load(&guard.ranges[i].base) && address < atomic_load(&guard.ranges[i].end))
            return &guard.ranges[i];
    return NULL;
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    uintptr_t page = (uintptr_t)info->si_addr & ~(guard.page_bytes - 1);
    struct guard_range *range = range_of(page);
    void *at = (void *)page; /* NOLINT: the address that the system named */
    if (range && mmap(at, guard.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at) {
        uint64_t none = 0;
        (void)atomic_compare_exchange_strong(&range->lost, &none, page - atomic_load(&range->base) + 1);
    } else if (guard.before.sa_flags & SA_SIGINFO) {
        guard.before.sa_sigaction(number, info, context);
    } else if (guard.before.sa_handler != SIG_DFL && guard.before.sa_handler != SIG_IGN) {
        guard.before.sa_handler(number);
    } else {
        (void)sigaction(SIGBUS, &guard.before, NULL); /* the access is tried again, and ends the process */
    }
    errno = saved_errno;
}

/* Again for every range: the host program may have put its own handler over ours. */
static bool install(void) {
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, now;
    guard.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigemptyset(&action.sa_mask) != 0 || sigaction(SIGBUS, NULL, &now) != 0)
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)
        return true;
    guard.before = now;
    return sigaction(SIGBUS, &action, NULL) == 0;
}

static unsigned free_range(void) {
    unsigned i = 0;
    while (i < BUS_GUARD_RANGES_MAX && atomic_load(&guard.ranges[i].end) != 0)
        i++;
    return i;
}

enum status bus_guard_add(const uint8_t *base, uint64_t size_bytes, unsigned *range, struct error *err) {
    CHECK(size_bytes > 0);
    CHECK(pthread_mutex_lock(&guard.mutex) == 0);
    unsigned i = free_range();
    bool fits = i < BUS_GUARD_RANGES_MAX && install();
    if (fits) {
        atomic_store(&guard.ranges[i].lost, 0);
        atomic_store(&guard.ranges[i].base, (uintptr_t)base);
        atomic_store(&guard.ranges[i].end, (uintptr_t)base + size_bytes);
        if (i >= atomic_load(&guard.used))
            atomic_store(&guard.used, i + 1);
    }
    CHECK(pthread_mutex_unlock(&guard.mutex) == 0);
    if (!fits)
        return error_set(err, STATUS_UNSUPPORTED, "no more than %d mapped ranges can be guarded", BUS_GUARD_RANGES_MAX);
    *range = i;
    return STATUS_OK;
}

void bus_guard_remove(unsigned range) {
    CHECK(range < BUS_GUARD_RANGES_MAX && atomic_load(&guard.ranges[range].end) != 0);
    CHECK(pthread_mutex_lock(&guard.mutex) == 0);
    atomic_store(&guard.ranges[range].base, UINTPTR_MAX);
    atomic_store(&guard.ranges[range].end, 0);
    CHECK(pthread_mutex_unlock(&guard.mutex) == 0);
}

bool bus_guard_lost(unsigned range, uint64_t *offset_bytes) {
    CHECK(range < BUS_GUARD_RANGES_MAX);
    if (atomic_load_explicit(&guard.ranges[range].lost, memory_order_relaxed) == 0)
        return false;
    *offset_bytes = atomic_exchange(&guard.ranges[range].lost, 0) - 1;
    return true;
}
