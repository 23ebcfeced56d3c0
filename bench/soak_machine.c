/* soak_machine: see soak_machine.h. */
#include "soak_machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define SECOND_NS 1000000000u
#define TELL_NS 20000000u
#define CALM_NS (2ull * SECOND_NS) /* not ten: more changes in an hour */
#define RESERVE_SHARE 16           /* of what may be given back */

static uint64_t draw(struct soak_machine *m, uint64_t below) {
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (m->random >> 33) % below;
}

static uint64_t available(const struct soak_machine *m) {
    const struct weight_store *store = m->model->store;
    uint64_t all = m->most_bytes + 3 * m->reserve_bytes, weights = store_cache_used_bytes(store) + store_trunk_used_bytes(store);
    uint64_t taken = m->other_bytes + weights;
    return all > taken ? all - taken : 0;
}

/* Lines of the same length each time, so that no reader finds half of one. */
static bool tell(const struct soak_machine *m) {
    char text[128];
    int size = snprintf(text, sizeof text, "MemTotal: 999999999 kB\nMemAvailable: %12llu kB\n", (unsigned long long)available(m) >> 10);
    bool told = pwrite(m->meminfo, text, (size_t)size, 0) == size;
    size = snprintf(text, sizeof text, "some avg10=0.00 avg60=0.00 avg300=0.00 total=%012llu\n", (unsigned long long)m->waited_us);
    return told && pwrite(m->pressure, text, (size_t)size, 0) == size;
}

static int make_file(const struct soak_machine *m, const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", m->root, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static bool make_folder(const struct soak_machine *m, const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", m->root, name);
    return mkdir(path, 0700) == 0;
}

bool soak_machine_begin(struct soak_machine *m, const char *root, struct sluice_model *model, uint64_t seed) {
    const struct placement *placement = &model->memory.placement;
    uint64_t most_bytes = placement->cache_bytes + placement->keep_bytes;
    *m = (struct soak_machine){.root = root,
                               .meminfo = -1,
                               .pressure = -1,
                               .model = model,
                               .most_bytes = most_bytes,
                               .reserve_bytes = most_bytes / RESERVE_SHARE + 1,
                               .random = seed};
    if (!make_folder(m, "proc") || !make_folder(m, "proc/pressure"))
        return false;
    m->meminfo = make_file(m, "proc/meminfo");
    m->pressure = make_file(m, "proc/pressure/memory");
    if (m->meminfo < 0 || m->pressure < 0 || !tell(m))
        return false;
    pressure_watch_end(&model->pressure);
    pressure_watch_begin(&model->pressure, m->root, m->reserve_bytes);
    model->pressure.state.calm_ns = CALM_NS;
    return true;
}

void soak_machine_live(struct soak_machine *m) {
    uint64_t now_ns = clock_now_ns();
    if (now_ns < m->told_at_ns + TELL_NS)
        return;
    if (now_ns >= m->change_at_ns) {
        m->other_bytes = draw(m, 3) == 0 ? 0 : m->most_bytes / 100 * draw(m, 101);
        m->changes++;
        m->change_at_ns = now_ns + (3 + draw(m, 23)) * SECOND_NS;
    }
    if (available(m) < m->reserve_bytes)
        m->waited_us += TELL_NS / 1000;
    m->told_at_ns = now_ns;
    (void)tell(m);
}

void soak_machine_end(struct soak_machine *m) {
    if (m->root && m->meminfo >= 0)
        (void)close(m->meminfo);
    if (m->root && m->pressure >= 0)
        (void)close(m->pressure);
}
