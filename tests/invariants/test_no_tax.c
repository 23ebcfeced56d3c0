/*
 * test_no_tax: a model that fits pays nothing per weight and token for being able to stream: while it decodes no lock is taken, nothing is
 * allocated (but the text of a token), and the store is not asked, but for the address of each chosen expert.
 *
 * Model   calls are counted where they happen: the allocator's and the locks' by functions of the same name in this program, which are
 * found before the system's; the store's by the linker (--wrap, see tests/meson.build). A long and a short answer to one prompt may differ
 *         by what each token costs, and by nothing else. With a sanitizer, which has an allocator of its own, only the store is counted.
 */
#include "../unit/engine_fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine_internal.h"

enum counted { ALLOCATIONS, LOCKS, REGIONS, ACQUIRED, RELEASED, WANTED, TAKEN, RANGES, COUNTED };
static const char *const names[COUNTED] = {"allocations", "locks", "regions", "acquired", "released", "wanted", "taken", "ranges"};
static _Atomic uint64_t counts[COUNTED];

static void count(enum counted what) { atomic_fetch_add_explicit(&counts[what], 1, memory_order_relaxed); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
enum { COUNTS_SYSTEM = 1 };

/* The GNU C library's own, under the names it keeps for this. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

__attribute__((visibility("default"))) void *malloc(size_t size) {
    count(ALLOCATIONS);
    return __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t elements, size_t size) {
    count(ALLOCATIONS);
    return __libc_calloc(elements, size);
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t size) {
    count(ALLOCATIONS);
    return __libc_realloc(block, size);
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*_Atomic real)(pthread_mutex_t *);
    int (*lock)(pthread_mutex_t *) = atomic_load(&real);
    if (!lock) {
        *(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
        atomic_store(&real, lock);
    }
    count(LOCKS);
    return lock(mutex);
}
#else
enum { COUNTS_SYSTEM = 0 };
#endif

#define WRAPPED(type, name, what, parameters, arguments) \
    type __real_##name parameters;                       \
    type __wrap_##name parameters;                       \
    type __wrap_##name parameters {                      \
        count(what);                                     \
        return __real_##name arguments;                  \
    }

WRAPPED(enum status, memory_region_create, REGIONS,
        (struct memory_region * region, size_t size_bytes, enum memory_owner owner, bool lock, struct error *err),
        (region, size_bytes, owner, lock, err))
WRAPPED(enum status, store_acquire, ACQUIRED, (struct weight_store * store, weight_id id, struct weight_lease *out, struct error *err),
        (store, id, out, err))
WRAPPED(void, store_release, RELEASED, (struct weight_store * store, struct weight_lease *lease), (store, lease))
WRAPPED(enum status, store_want, WANTED,
        (struct weight_store * store, const weight_id *ids, uint32_t count_, enum store_order order, struct error *err),
        (store, ids, count_, order, err))
WRAPPED(enum status, store_take, TAKEN,
        (struct weight_store * store, uint32_t pieces_needed, bool wait, uint32_t *index, struct weight_lease *out, struct error *err),
        (store, pieces_needed, wait, index, out, err))
WRAPPED(enum status, store_read_ranges, RANGES,
        (struct weight_store * store, const struct weight_piece *pieces, uint32_t count_, uint8_t *const *dst, struct error *err),
        (store, pieces, count_, dst, err))

/* ---- what a token costs ---- */

enum { PROMPT = 8, SHORT = 16, LONG = 144, TEXT_BLOCKS = 2 /* small ones, at most, for the text of a token, whatever the model's size */ };

static bool drop(void *context, const sluice_piece *piece) {
    (void)context;
    (void)piece;
    return true;
}

static void answer(sluice_model *model, uint32_t tokens, uint64_t cost[COUNTED]) {
    uint32_t prompt[PROMPT];
    sluice_error error;
    engine_prompt(prompt, PROMPT, 100, 3);
    const sluice_request request = {.prompt = prompt, .prompt_count = PROMPT, .max_tokens = tokens, .ignore_end = true, .on_piece = drop};
    uint64_t before[COUNTED];
    for (int i = 0; i < COUNTED; i++)
        before[i] = atomic_load(&counts[i]);
    ENGINE_OK(sluice_generate(model, &request, NULL, &error), error);
    for (int i = 0; i < COUNTED; i++)
        cost[i] = atomic_load(&counts[i]) - before[i];
}

static uint64_t chosen_experts(const struct sluice_model *m) {
    uint64_t chosen = 0;
    for (uint32_t s = 0; s < m->model->plan.step_count; s++)
        if (m->model->plan.steps[s].op.kind == OP_EXPERTS)
            chosen += m->model->plan.steps[s].op.experts.top_k;
    return chosen;
}

static void a_token_costs_nothing(void **state) {
    const char *name = *state;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .context = PROMPT + LONG, .threads = threads};
        struct sluice_model *m = engine_load(engine_path(name), &options);
        uint64_t first[COUNTED], few[COUNTED], many[COUNTED];
        assert_true(m->memory.plan.everything_resident);
        answer(m, LONG, first); /* what grows with the longest answer is there from now on */
        answer(m, SHORT, few);
        answer(m, LONG, many);
        for (int i = 0; i < COUNTED; i++) {
            uint64_t per_token = i == ACQUIRED || i == RELEASED ? chosen_experts(m) : 0;
            if ((i == ALLOCATIONS || i == LOCKS) && !COUNTS_SYSTEM)
                continue;
            uint64_t text = i == ALLOCATIONS && m->tokenizer ? (LONG - SHORT) * TEXT_BLOCKS : 0;
            if (many[i] < few[i] + (LONG - SHORT) * per_token || many[i] > few[i] + (LONG - SHORT) * per_token + text)
                fail_msg("%s, %u threads: %d tokens cost %llu %s, %d tokens %llu; wanted are %llu a token", name, threads, SHORT,
                         (unsigned long long)few[i], names[i], LONG, (unsigned long long)many[i], (unsigned long long)per_token);
        }
        sluice_close(m);
    }
}

/* The counters count: loading allocates and binds, and a model that does not fit asks the store all the time. */
static void the_counters_count(void **state) {
    (void)state;
    for (int i = 0; i < COUNTED; i++)
        atomic_store(&counts[i], 0);
    const sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = PROMPT + LONG, .threads = 1, .reader = SLUICE_READER_THREADS};
    struct sluice_model *m = engine_load(engine_path("models/qwen3_moe"), &options);
    uint64_t cost[COUNTED];
    if (COUNTS_SYSTEM)
        assert_true(counts[ALLOCATIONS] > 100);
    assert_true(counts[REGIONS] > 3);
    answer(m, SHORT, cost);
    if (COUNTS_SYSTEM)
        assert_true(cost[LOCKS] > SHORT);
    assert_true(cost[WANTED] > SHORT && cost[TAKEN] > SHORT && cost[RELEASED] > SHORT && cost[RANGES] >= SHORT);
    sluice_close(m);
}

int main(void) {
    static const char *const models[] = {"../../demo/novels-moe-Q4_K_M.gguf",
                                         "models/qwen3_moe",
                                         "models/llama.gguf",
                                         "models/gemma3",
                                         "models/deepseek_v3",
                                         "models/qwen3_next"};
    enum { MODELS = sizeof models / sizeof *models };
    static char titles[MODELS][128];
    struct CMUnitTest tests[MODELS + 1] = {cmocka_unit_test(the_counters_count)};
    for (size_t i = 0; i < MODELS; i++) {
        (void)snprintf(titles[i], sizeof titles[i], "a_token_costs_nothing: %s", models[i]);
        tests[i + 1] =
            (struct CMUnitTest){.name = titles[i], .test_func = a_token_costs_nothing, .initial_state = (void *)(uintptr_t)models[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
