/*
 * sampler: selection and draw.
 */
#include "generate/sampler.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/math_f64.h"
#include "base/memory.h"
#include "kernel/kernel.h"

struct sampler {
    uint32_t vocab;
    const struct kernel_table *kernels;
    float *weights;  /* [vocab] exp of the scaled logits */
    uint32_t *order; /* [vocab] candidate ids, the first `sorted` in order */
};

#define FIRST_SORTED 256 /* candidates sorted at first; more only when the draw or top_p reaches further */

uint64_t sampler_bytes(uint32_t vocab) { return (uint64_t)vocab * (sizeof(float) + sizeof(uint32_t)); }

enum status sampler_create(uint32_t vocab, enum cpu_isa isa, struct sampler **out, struct error *err) {
    *out = NULL;
    CHECK(vocab > 0 && kernel_table_for(isa));
    struct sampler *s = memory_alloc(sizeof *s);
    if (s) {
        *s = (struct sampler){.vocab = vocab, .kernels = kernel_table_for(isa)};
        s->weights = memory_alloc_array(vocab, sizeof *s->weights);
        s->order = memory_alloc_array(vocab, sizeof *s->order);
    }
    if (!s || !s->weights || !s->order) {
        sampler_destroy(s);
        return error_set(err, STATUS_NO_MEMORY, "no memory to sample from a vocabulary of %u", vocab);
    }
    *out = s;
    return STATUS_OK;
}

void sampler_destroy(struct sampler *sampler) {
    if (!sampler)
        return;
    memory_free(sampler->weights);
    memory_free(sampler->order);
    memory_free(sampler);
}

uint32_t sampler_vocab(const struct sampler *sampler) { return sampler->vocab; }

enum status sampler_check(const struct sampler_params *p, struct error *err) {
    if (!(p->temperature >= 0 && p->temperature <= 100))
        return error_set(err, STATUS_INVALID, "temperature is %g, allowed is 0 to 100", (double)p->temperature);
    if (!(p->top_p > 0 && p->top_p <= 1))
        return error_set(err, STATUS_INVALID, "top_p is %g, allowed is above 0 to 1", (double)p->top_p);
    if (!(p->min_p >= 0 && p->min_p <= 1))
        return error_set(err, STATUS_INVALID, "min_p is %g, allowed is 0 to 1", (double)p->min_p);
    return STATUS_OK;
}

/* Finaliser of the splitmix64 generator (Steele, Lea, Flood 2014), used as a hash of the counter. */
static uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

double sampler_uniform(uint64_t seed, uint32_t choice, uint32_t position) {
    uint64_t bits = mix(mix(mix(seed) ^ choice) ^ ((uint64_t)position << 32));
    return (double)(bits >> 11) * 0x1p-53;
}

/* Candidate order: larger logit first, then lower id. */
static bool comes_before(const float *logits, uint32_t a, uint32_t b) { return logits[a] > logits[b] || (logits[a] == logits[b] && a < b); }

static void swap(uint32_t *a, uint32_t *b) {
    uint32_t t = *a;
    *a = *b;
    *b = t;
}

/* Moves the `count` first candidates of order[begin, end) to its front, in no order (Hoare's selection). */
static void select_first(const float *logits, uint32_t *order, uint32_t begin, uint32_t end, uint32_t count) {
    uint32_t target = begin + count;
    while (end - begin > 1 && target > begin && target < end) {
        uint32_t pivot = order[begin + (end - begin) / 2], low = begin, high = end - 1;
        for (;;) {
            while (comes_before(logits, order[low], pivot))
                low++;
            while (comes_before(logits, pivot, order[high]))
                high--;
            if (low >= high)
                break;
            swap(&order[low++], &order[high--]);
        }
        uint32_t split = low > high ? low : low + 1; /* [begin, split) come before or are the pivot */
        if (split >= end)
            split = end - 1;
        if (target <= split)
            end = split;
        else
            begin = split;
    }
}

static void sift_down(const float *logits, uint32_t *order, uint32_t root, uint32_t count) {
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && comes_before(logits, order[child], order[child + 1]))
            child++;
        if (!comes_before(logits, order[root], order[child]))
            return;
        swap(&order[root], &order[child]);
    }
}

static void sort_candidates(const float *logits, uint32_t *order, uint32_t count) { /* heap sort: no recursion, no worst case */
    for (uint32_t i = count / 2; i-- > 0;)
        sift_down(logits, order, i, count);
    for (uint32_t end = count; end > 1; end--) {
        swap(&order[0], &order[end - 1]);
        sift_down(logits, order, 0, end - 1);
    }
}

/*
 * Moves candidates that lie near the best one to the front of an order that counts up; returns how many, `wanted` at least. Whatever the
 * distance, they come before all others, and looking through logits once or twice is faster than selecting from all of them.
 */
static uint32_t gather_near_best(struct sampler *s, const float *logits, uint32_t wanted) {
    float max = logits[s->kernels->argmax(logits, s->vocab)];
    for (float distance = 4; distance <= 64; distance *= 2) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < s->vocab; i++)
            count += logits[i] >= max - distance;
        if (count < wanted)
            continue;
        for (uint32_t i = 0, front = 0; i < s->vocab && front < count; i++)
            if (logits[i] >= max - distance)
                swap(&s->order[front++], &s->order[i]);
        return count;
    }
    return s->vocab;
}

/* Makes sure that the first `wanted` candidates are in order, which counts up when none are; returns how many are. */
static uint32_t sort_more(struct sampler *s, const float *logits, uint32_t sorted, uint32_t wanted) {
    wanted = wanted > s->vocab ? s->vocab : wanted;
    if (wanted <= sorted)
        return sorted;
    select_first(logits, s->order, sorted, sorted == 0 ? gather_near_best(s, logits, wanted) : s->vocab, wanted - sorted);
    sort_candidates(logits, s->order + sorted, wanted - sorted);
    return wanted;
}

/* Sum of the first candidates until `limit` of them, or their weight reaches `mass`, or weights fall below `floor`. */
struct walk {
    uint32_t sorted, kept;
    double sum;
};

static struct walk walk_candidates(struct sampler *s, const float *logits, struct walk walk, uint32_t limit, double mass, float floor) {
    walk.kept = 0;
    walk.sum = 0;
    while (walk.kept < limit && walk.sum < mass) {
        if (walk.kept == walk.sorted)
            walk.sorted = sort_more(s, logits, walk.sorted, walk.sorted ? walk.sorted * 4 : FIRST_SORTED);
        float weight = s->weights[s->order[walk.kept]];
        if (weight < floor || weight == 0)
            break;
        walk.sum += (double)weight;
        walk.kept++;
    }
    return walk;
}

static uint32_t draw(struct sampler *s, const struct sampler_params *p, const float *logits, float total, uint32_t position) {
    uint32_t limit = p->top_k && p->top_k < s->vocab ? p->top_k : s->vocab;
    struct walk walk = {0};
    double mass = (double)total;
    if (limit < s->vocab) {
        walk = walk_candidates(s, logits, walk, limit, HUGE_VAL, 0);
        mass = walk.sum;
    }
    bool cut = p->top_p < 1 || p->min_p > 0;
    if (cut) {
        walk = walk_candidates(s, logits, walk, limit, p->top_p < 1 ? mass * (double)p->top_p : HUGE_VAL, p->min_p);
        limit = walk.kept;
        mass = walk.sum;
    }
    double target = sampler_uniform(p->seed, p->choice, position) * mass;
    /* the candidate in whose share the target falls: the first whose running sum is above it */
    walk = walk_candidates(s, logits, walk, limit, nextafter(target, HUGE_VAL), 0);
    CHECK(walk.kept > 0);
    return s->order[walk.kept - 1];
}

void sampler_logprobs(struct sampler *s, const float *logits, uint32_t token, struct token_logprob *chosen, uint32_t count,
                      struct token_logprob *top) {
    CHECK(count <= SAMPLER_TOP_MAX && token < s->vocab);
    size_t best = s->kernels->argmax(logits, s->vocab);
    CHECK(best != SIZE_MAX);
    float max = logits[best];
    double log_sum = math_log_f64((double)s->kernels->exp_sum(logits, s->weights, s->vocab, max, 1));
    *chosen = (struct token_logprob){token, (float)((double)(logits[token] - max) - log_sum)};
    for (uint32_t i = 0; count > 0 && i < s->vocab; i++)
        s->order[i] = i;
    uint32_t sorted = count ? sort_more(s, logits, 0, count) : 0;
    for (uint32_t i = 0; i < count && i < sorted; i++)
        top[i] = (struct token_logprob){s->order[i], (float)((double)(logits[s->order[i]] - max) - log_sum)};
}

enum status sampler_choose(struct sampler *s, const struct sampler_params *params, const float *logits, uint32_t position, uint32_t *token,
                           struct error *err) {
    size_t best = s->kernels->argmax(logits, s->vocab);
    if (best == SIZE_MAX || !(logits[best] > -HUGE_VALF) || logits[best] == HUGE_VALF)
        return error_set(err, STATUS_CORRUPT,
                         "the logits at position %u are not numbers: weights or their scales are damaged, or values overflowed", position);
    *token = (uint32_t)best;
    float inverse = 1 / params->temperature;
    if (params->temperature == 0 || params->top_k == 1 || inverse == HUGE_VALF)
        return STATUS_OK;
    float total = s->kernels->exp_sum(logits, s->weights, s->vocab, logits[best], inverse);
    for (uint32_t i = 0; i < s->vocab; i++)
        s->order[i] = i;
    *token = draw(s, params, logits, total, position);
    return STATUS_OK;
}
