/* pass_costs: see pass_costs.h. */
#include "run/pass_costs.h"

#include "base/check.h"
#include "base/memory.h"

struct cost { /* of a mixture, or of the end of a pass */
    float before_s, experts_s, bytes;
};

struct pass_costs {
    uint64_t count;        /* of passes; pass p is at place p % PASS_COSTS_KEPT */
    uint32_t mixtures, at; /* of a pass; the next one of the pass at hand */
    struct cost costs[];   /* [PASS_COSTS_KEPT][mixtures + 1] */
};

enum status pass_costs_create(uint32_t mixtures, struct pass_costs **out, struct error *err) {
    *out = NULL;
    CHECK(mixtures < UINT32_MAX / PASS_COSTS_KEPT);
    struct pass_costs *costs = memory_alloc(sizeof *costs + (size_t)PASS_COSTS_KEPT * (mixtures + 1) * sizeof(struct cost));
    if (!costs)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the costs of passes with %u mixtures", mixtures);
    costs->mixtures = mixtures;
    *out = costs;
    return STATUS_OK;
}

void pass_costs_destroy(struct pass_costs *costs) { memory_free(costs); }

void pass_costs_clear(struct pass_costs *costs) { costs->count = costs->at = 0; }

static size_t place_of(const struct pass_costs *costs, uint64_t pass) { return (size_t)(pass % PASS_COSTS_KEPT) * (costs->mixtures + 1); }

void pass_costs_begin(struct pass_costs *costs) { costs->at = 0; }

void pass_costs_mixture(struct pass_costs *costs, uint64_t before_ns, uint64_t experts_ns, uint64_t missed_bytes) {
    CHECK(costs->at < costs->mixtures);
    costs->costs[place_of(costs, costs->count) + costs->at++] =
        (struct cost){(float)before_ns * 1e-9f, (float)experts_ns * 1e-9f, (float)missed_bytes};
}

void pass_costs_end(struct pass_costs *costs, uint64_t after_ns, uint64_t other_bytes) {
    CHECK(costs->at == costs->mixtures);
    costs->costs[place_of(costs, costs->count) + costs->at] =
        (struct cost){.before_s = (float)after_ns * 1e-9f, .bytes = (float)other_bytes};
    costs->count++;
    costs->at = 0;
}

uint64_t pass_costs_count(const struct pass_costs *costs) { return costs->count; }

double pass_costs_least_seconds(const struct pass_costs *costs, uint64_t first, uint64_t end, double disk_bytes_per_s) {
    double sum = 0;
    CHECK(disk_bytes_per_s > 0 && first <= end && end <= costs->count && costs->count - first <= PASS_COSTS_KEPT);
    for (uint64_t p = first; p < end; p++) {
        const struct cost *cost = costs->costs + place_of(costs, p);
        double chain = cost[costs->mixtures].before_s, bytes = cost[costs->mixtures].bytes;
        for (uint32_t i = 0; i < costs->mixtures; i++) {
            double read = cost[i].bytes / disk_bytes_per_s;
            chain += cost[i].before_s + (cost[i].experts_s > read ? cost[i].experts_s : read);
            bytes += cost[i].bytes;
        }
        sum += chain > bytes / disk_bytes_per_s ? chain : bytes / disk_bytes_per_s;
    }
    return sum;
}
