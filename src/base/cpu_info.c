/*
 * cpu_info: CPUID with XGETBV (x86-64) or the auxiliary vector (arm64); /proc and the cgroup files for the rest.
 *
 * A feature counts only when the operating system saves its registers. AMX tiles also need a permission that grows the
 * signal frame of the process, so it is asked for only when somebody asks about CPU_ISA_AMX.
 */
#include "base/cpu_info.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define PROC_BYTES_MAX 4096

const char *cpu_isa_name(enum cpu_isa isa) {
    static const char *const names[CPU_ISA_COUNT] = {"ref", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"};
    CHECK((unsigned)isa < CPU_ISA_COUNT);
    return names[isa];
}

#if defined(__x86_64__)

#include <cpuid.h>

#define BIT(n) (1u << (n))
#define XCR0_AVX (BIT(1) | BIT(2))
#define XCR0_AVX512 (XCR0_AVX | BIT(5) | BIT(6) | BIT(7))
#define XCR0_AMX (BIT(17) | BIT(18))
#define REQUEST_XCOMP_PERMISSION 0x1023
#define XFEATURE_TILE_DATA 18

struct cpuid_leaf {
    unsigned a, b, c, d;
};

static struct cpuid_leaf cpuid(unsigned leaf, unsigned subleaf) {
    struct cpuid_leaf r = {0};
    (void)__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d); /* stays 0 when the leaf is not there */
    return r;
}

/* Register sets that the operating system saves, as bits of XCR0. */
static unsigned os_saved_registers(void) {
    unsigned low, high;
    if (!(cpuid(1, 0).c & BIT(27))) /* OSXSAVE */
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool has_all(unsigned value, unsigned bits) { return (value & bits) == bits; }

static bool probe_isa(enum cpu_isa isa) {
    struct cpuid_leaf base = cpuid(1, 0), extended = cpuid(7, 0);
    unsigned saved = os_saved_registers();
    bool avx2 =
        has_all(saved, XCR0_AVX) && has_all(base.c, BIT(12) | BIT(28) | BIT(29)) && has_all(extended.b, BIT(5)); /* FMA AVX F16C; AVX2 */
    bool avx512 = avx2 && has_all(saved, XCR0_AVX512) && has_all(extended.b, BIT(16) | BIT(17) | BIT(30) | BIT(31)) && /* F DQ BW VL */
                  has_all(extended.c, BIT(11));                                                                        /* VNNI */
    bool amx = avx512 && has_all(saved, XCR0_AMX) && has_all(extended.d, BIT(24) | BIT(25));                           /* TILE INT8 */
    switch (isa) {
    case CPU_ISA_REF:
        return true;
    case CPU_ISA_AVX2:
        return avx2;
    case CPU_ISA_AVX512:
        return avx512;
    case CPU_ISA_AMX:
        return amx && syscall(SYS_arch_prctl, REQUEST_XCOMP_PERMISSION, XFEATURE_TILE_DATA) == 0;
    case CPU_ISA_NEON:
    case CPU_ISA_DOTPROD:
    case CPU_ISA_I8MM:
    case CPU_ISA_COUNT:
        break;
    }
    return false;
}

void cpu_pause(void) { __builtin_ia32_pause(); }

#elif defined(__aarch64__)

#include <asm/hwcap.h>

static bool probe_isa(enum cpu_isa isa) {
    bool dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
    if (isa == CPU_ISA_DOTPROD)
        return dotprod;
    if (isa == CPU_ISA_I8MM)
        return dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM);
    return isa == CPU_ISA_REF || isa == CPU_ISA_NEON;
}

void cpu_pause(void) { __asm__ volatile("yield"); }

#else

static bool probe_isa(enum cpu_isa isa) { return isa == CPU_ISA_REF; }

void cpu_pause(void) {}

#endif

bool cpu_isa_available(enum cpu_isa isa) {
    enum { UNKNOWN, ABSENT, PRESENT };
    static _Atomic unsigned char known[CPU_ISA_COUNT]; /* a virtual machine takes microseconds for each CPUID */
    CHECK((unsigned)isa < CPU_ISA_COUNT);
    if (known[isa] == UNKNOWN)
        known[isa] = probe_isa(isa) ? PRESENT : ABSENT;
    return known[isa] == PRESENT;
}

enum cpu_isa cpu_isa_best(void) {
    static const enum cpu_isa order[] = {CPU_ISA_AMX, CPU_ISA_AVX512, CPU_ISA_AVX2, CPU_ISA_I8MM, CPU_ISA_DOTPROD, CPU_ISA_NEON};
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        if (cpu_isa_available(order[i]))
            return order[i];
    return CPU_ISA_REF;
}

/* Start of a small system file, terminated; empty when it cannot be read. */
static void read_start(const char *path, char *buffer, size_t buffer_bytes) {
    size_t used = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        for (ssize_t got; used < buffer_bytes - 1 && (got = read(fd, buffer + used, buffer_bytes - 1 - used)) > 0;)
            used += (size_t)got;
        close(fd);
    }
    buffer[used] = 0;
}

static unsigned affinity_count(void) {
    cpu_set_t sets[8]; /* 8192 processors */
    if (sched_getaffinity(0, sizeof(sets), sets) != 0)
        return 1;
    int count = CPU_COUNT_S(sizeof(sets), sets);
    return count > 0 ? (unsigned)count : 1;
}

static bool first_number(const char *start, uint64_t *value) {
    return text_parse_u64((struct text){start, strspn(start, "0123456789")}, value);
}

/* Processors of one cgroup's quota, rounded up; 0 when it has none. `max` is v2's "quota period" or v1's quota alone. */
static unsigned quota_count(const char *max, const char *v1_period) {
    uint64_t quota, period;
    if (!first_number(max, &quota))
        return 0; /* "max", "-1" or no file */
    const char *period_text = v1_period ? v1_period : strchr(max, ' ') ? strchr(max, ' ') + 1 : "";
    if (!first_number(period_text, &period) || period == 0 || quota == 0)
        return 0;
    uint64_t count = quota / period + (quota % period != 0);
    return count > UINT32_MAX ? 0 : (unsigned)count;
}

/* Smallest quota of the cgroup `path` (below `mount`) and those above it. In a container the path may not be there; its root is. */
static unsigned quota_upwards(const char *mount, const char *path, bool v2) {
    char directory[PROC_BYTES_MAX], file[PROC_BYTES_MAX + 32], max[128], period[128];
    unsigned least = 0;
    int length = snprintf(directory, sizeof(directory), "%s%s", mount, path);
    if (length < 0 || (size_t)length >= sizeof(directory))
        return 0;
    while (strlen(directory) >= strlen(mount)) {
        snprintf(file, sizeof(file), "%s/%s", directory, v2 ? "cpu.max" : "cpu.cfs_quota_us");
        read_start(file, max, sizeof(max));
        snprintf(file, sizeof(file), "%s/cpu.cfs_period_us", directory);
        if (!v2)
            read_start(file, period, sizeof(period));
        unsigned count = quota_count(max, v2 ? NULL : period);
        if (count && (least == 0 || count < least))
            least = count;
        char *slash = strrchr(directory, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    return least;
}

/* True when the comma-separated list of v1 controllers names "cpu". */
static bool names_cpu(const char *controllers, size_t length) {
    struct text list = {controllers, length};
    return text_is(list, "cpu") || text_starts_with(list, TEXT("cpu,")) || text_ends_with(list, TEXT(",cpu")) ||
           memmem(controllers, length, ",cpu,", 5) != NULL;
}

/* Lines of /proc/self/cgroup: "0::/path" (v2), "4:cpu,cpuacct:/path" (v1). */
static unsigned cgroup_count(void) {
    char cgroups[PROC_BYTES_MAX];
    unsigned least = 0;
    read_start("/proc/self/cgroup", cgroups, sizeof(cgroups));
    char *rest = cgroups;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        controllers++;
        bool v2 = path == controllers;
        if (!v2 && !names_cpu(controllers, (size_t)(path - controllers)))
            continue;
        path += strcmp(path, ":/") == 0 ? 2 : 1;
        unsigned count = quota_upwards(v2 ? CGROUP_ROOT : CGROUP_ROOT "/cpu", path, v2);
        if (count && (least == 0 || count < least))
            least = count;
    }
    return least;
}

unsigned cpu_count(void) {
    unsigned allowed = affinity_count(), quota = cgroup_count();
    return quota && quota < allowed ? quota : allowed;
}

static char model_name[128] = "unknown"; /* written once */

static void read_model_name(void) {
    static const char *const keys[] = {"\nmodel name", "\nModel", "\nHardware"}; /* x86; some arm64 kernels */
    char text[PROC_BYTES_MAX];
    text[0] = '\n';
    read_start("/proc/cpuinfo", text + 1, sizeof(text) - 1);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *line = strstr(text, keys[i]);
        const char *colon = line ? strchr(line, ':') : NULL;
        if (!colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        size_t length = strcspn(colon, "\n");
        if (length == 0 || length >= sizeof(model_name))
            continue;
        memcpy(model_name, colon, length);
        model_name[length] = 0;
        return;
    }
}

const char *cpu_model_name(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    CHECK(pthread_once(&once, read_model_name) == 0);
    return model_name;
}
