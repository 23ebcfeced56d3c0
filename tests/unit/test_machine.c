/*
 * test_machine: what memory there is, read from machines that are folders. Cases E4 and E5.
 */
#include "machine_fixture.h"

#include <stdbool.h>

#include "engine/machine.h"

static const uint64_t MI = 1 << 20, GI = 1 << 30;

static void expect(const char *meminfo, bool known, uint64_t total, uint64_t available) {
    if (meminfo)
        put("proc/meminfo", meminfo);
    struct machine_memory m = machine_memory_read_below(root);
    assert_int_equal(m.known, known);
    assert_int_equal(m.total_bytes, total);
    assert_int_equal(m.available_bytes, available);
}

static void e04_nothing_or_nonsense(void **state) {
    (void)state;
    expect(NULL, false, 2 * GI, GI); /* no /proc: a floor */
    expect("", false, 2 * GI, GI);
    expect("MemAvailable: 4096 kB\n", false, 2 * GI, GI);
    expect("MemTotal: 16777216 kB\nMemFree: 9 kB\n", false, 16 * GI, GI);
    expect("MemTotal: 1048576 kB\n", false, GI, GI / 2);
    expect("MemTotal: 16777216 kB\nMemAvailable: 0 kB\n", true, 16 * GI, 0); /* so the kernel says below its own reserves */
    expect("MemTotal: 16777216 kB\nMemAvailable: 99999999999999999999 kB\n", false, 16 * GI, GI);
    expect("MemTotal: 16777216 kB\nMemAvailable: 16777217 kB\n", false, 16 * GI, GI);
    expect("MemTotal: 0 kB\nMemAvailable: 0 kB\n", false, 2 * GI, GI);
    expect("NotMemTotal: 5 kB\nMemTotal:\t 16777216 kB\nMemAvailable: 8388608 kB", true, 16 * GI, 8 * GI);
}

/* What the kernel holds of files is not in use: whether a model was read before changes no budget. */
static void e05_page_cache_is_free(void **state) {
    static const char meminfo[] = "MemTotal: 16777216 kB\nMemFree: 100 kB\nMemAvailable: 12582912 kB\nCached: 12582000 kB\n";
    (void)state;
    expect(meminfo, true, 16 * GI, 12 * GI);
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/memory.max", "4294967296\n");
    put("sys/fs/cgroup/user/memory.current", "1073741824\n"); /* anonymous alone */
    put("sys/fs/cgroup/user/job/memory.max", "max\n");
    put("sys/fs/cgroup/user/memory.stat", "anon 1073741824\nfile 0\ninactive_file 0\nactive_file 0\n");
    expect(NULL, true, 4 * GI, 3 * GI);
    put("sys/fs/cgroup/user/memory.current", "4290772992\n"); /* and full of file pages */
    put("sys/fs/cgroup/user/memory.stat", "anon 1073741824\nfile 3217031168\ninactive_file 3000000000\nactive_file 217031168\n");
    expect(NULL, true, 4 * GI, 3 * GI);
    put("proc/self/cgroup", "5:cpu,memory:/no\n7:memory:/job\n"); /* version 1 */
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2147000320\n");
    put("sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\nactive_file 2\ntotal_inactive_file 1073741824\ntotal_active_file 536387584\n");
    expect(NULL, true, 2 * GI, 2 * GI - 512 * MI);
    assert_non_null(strstr(machine_memory_read_below(root).group_file, "memory/job/memory.limit_in_bytes"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(e04_nothing_or_nonsense), cmocka_unit_test(e05_page_cache_is_free)};
    return cmocka_run_group_tests(tests, begin, end);
}
