/*
 * test_pressure: when weights give memory back and take it again; what is read of a machine that is a folder; and a model that
 * answers the same, byte for byte, while its machine runs short of memory.
 */
#include "engine_fixture.h"
#include "machine_fixture.h"
#include "share_fixture.h"

#include "engine/engine_internal.h"
#include "store/store_internal.h"

#define MI ((uint64_t)1 << 20)
#define SECOND 1000000000ull

static void put_available(uint64_t bytes) {
    char text[128];
    (void)snprintf(text, sizeof text, "MemTotal: 16777216 kB\nMemAvailable: %llu kB\n", (unsigned long long)bytes >> 10);
    put("proc/meminfo", text);
}

/* ---- the decision ---- */

static struct pressure_state state_now;
static struct pressure_weights weights;
static struct pressure_sample sample;

static void fresh(void) {
    state_now = (struct pressure_state){.reserve_bytes = 1000 * MI, .calm_ns = PRESSURE_CALM_NS};
    weights = (struct pressure_weights){.most = 8000 * MI, .limit = 8000 * MI, .used = 8000 * MI};
    sample = (struct pressure_sample){.now_ns = 5 * SECOND, .available_bytes = 1000 * MI, .swap_free_bytes = 500 * MI};
}

/* One second later. */
static uint64_t decide(uint64_t available_mi, uint64_t waited_us) {
    sample.now_ns += SECOND;
    sample.available_bytes = available_mi * MI;
    sample.waited_us += waited_us;
    weights.limit = pressure_limit(&state_now, &sample, &weights);
    weights.used = weights.limit < weights.used ? weights.limit : weights.used;
    return weights.limit / MI;
}

static void gives_what_the_reserve_lacks(void **state) {
    (void)state;
    fresh();
    assert_int_equal(decide(1000, 0), 8000);
    assert_int_equal(decide(501, 0), 8000); /* less than the reserve, and nobody waits */
    assert_int_equal(decide(499, 0), 7499);
    assert_int_equal(decide(1000, 0), 7499);
    assert_int_equal(decide(990, 9000), 7499); /* 0.9 % of the time is no waiting */
    assert_int_equal(decide(990, 11000), 7489);
    assert_int_equal(decide(1001, 500000), 7489); /* who waits with the reserve free waits for another limit than ours */
    sample.swap_free_bytes -= 2 * MI;
    assert_int_equal(decide(900, 0), 7389);
    assert_int_equal(decide(0, 0), 6389);
    for (int i = 0; i < 6; i++)
        (void)decide(0, 0);
    assert_int_equal(decide(0, 0), 0);
}

static void gives_of_what_is_used(void **state) {
    (void)state;
    fresh();
    weights.used = 300 * MI;
    assert_int_equal(decide(400, 0), 0);
    fresh();
    weights.used = 3000 * MI;
    assert_int_equal(decide(400, 0), 2400);
}

static void takes_again_after_calm(void **state) {
    (void)state;
    fresh();
    assert_int_equal(decide(0, 0), 7000);
    for (int i = 0; i < 60; i++)
        assert_int_equal(decide(1500, 0), 7000); /* the reserve and a half is not enough */
    for (int i = 0; i < 9; i++)
        assert_int_equal(decide(2000, 0), 7000);
    assert_int_equal(decide(2000, 0), 7500);
    for (int i = 0; i < 30; i++)
        assert_int_equal(decide(2000, 0), 7500); /* 500 of it are still to be filled */
    weights.used = 7500 * MI;
    for (int i = 0; i < 9; i++)
        assert_int_equal(decide(3000, i == 4 ? 20000 : 0), 7500); /* somebody waited: ten seconds anew */
    for (int i = 0; i < 4; i++)
        assert_int_equal(decide(3000, 0), 7500);
    assert_int_equal(decide(3000, 0), 7500);
    assert_int_equal(decide(3000, 0), 8000); /* never more than planned */
    for (int i = 0; i < 30; i++)
        assert_int_equal(decide(9000, 0), 8000);
}

/* ---- looking ---- */

static void looks_and_samples(void **state) {
    (void)state;
    struct pressure_watch watch;
    struct pressure_sample got;
    put_available(3 * 1024 * MI);
    put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/memory.max", "4294967296\n");
    put("sys/fs/cgroup/user/job/memory.current", "2147483648\n");
    put("sys/fs/cgroup/user/job/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=500\n");
    pressure_watch_begin(&watch, root, 0);
    assert_false(pressure_watch_due(&watch, &got)); /* nothing is watched */
    pressure_watch_end(&watch);
    pressure_watch_begin(&watch, root, MI);
    assert_true(pressure_watch_due(&watch, &got));
    assert_int_equal(got.available_bytes, 2048 * MI); /* what the group leaves */
    assert_int_equal(got.waited_us, 1500);
    assert_false(pressure_watch_due(&watch, &got)); /* not so soon */
    watch.look_at_ns = 0;
    assert_false(pressure_watch_due(&watch, &got)); /* nobody waited since */
    put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1001\n");
    watch.look_at_ns = 0;
    assert_true(pressure_watch_due(&watch, &got));
    assert_int_equal(got.waited_us, 1501);
    pressure_watch_end(&watch);
    char path[512];
    (void)snprintf(path, sizeof path, "%s/proc/pressure/memory", root);
    assert_int_equal(remove(path), 0);
    pressure_watch_begin(&watch, root, MI);
    assert_true(pressure_watch_due(&watch, &got)); /* without it too */
    put_available(0);
    watch.look_at_ns = watch.sample_at_ns = 0;
    assert_true(pressure_watch_due(&watch, &got)); /* now of all times */
    assert_int_equal(got.available_bytes, 0);
    pressure_watch_end(&watch);
    put("proc/self/cgroup", "");
}

/* ---- a model on such a machine ---- */

enum { PROMPT = 24, GENERATED = 80 };

struct answer {
    struct engine_ids ids;
    struct sluice_model *model;
    uint64_t smallest_limit_bytes;
    bool changing;
};

/* The machine's memory changes with every token. */
static bool take_piece(void *context, const sluice_piece *piece) {
    struct answer *answer = context;
    struct store_stats stats;
    if (answer->changing) {
        put_available(answer->ids.count / 8 % 2 ? 3000 * MI : 4096 + (uint64_t)(answer->ids.count * 7919 % 300) * MI / 100);
        answer->model->pressure.look_at_ns = answer->model->pressure.sample_at_ns = 0;
    }
    store_stats_read(answer->model->store, &stats);
    uint64_t limit_bytes = stats.cache_limit_bytes + stats.trunk_limit_bytes;
    if (limit_bytes < answer->smallest_limit_bytes)
        answer->smallest_limit_bytes = limit_bytes;
    return engine_take_piece(&answer->ids, piece);
}

static void ask(sluice_model *model, const uint32_t *prompt, struct answer *answer) {
    sluice_error error;
    const struct sluice_model *m = model;
    answer->model = model;
    answer->ids.count = 0;
    answer->smallest_limit_bytes = m->memory.placement.cache_bytes + m->memory.placement.keep_bytes;
    const sluice_request request = {.prompt = prompt,
                                    .prompt_count = PROMPT,
                                    .max_tokens = GENERATED,
                                    .temperature = 0.8f,
                                    .seed = 3,
                                    .ignore_end = true,
                                    .on_piece = take_piece,
                                    .context_pointer = answer};
    ENGINE_OK(sluice_generate(model, &request, NULL, &error), error);
    store_check(m->store);
}

static void answers_do_not_change(void **state) {
    (void)state;
    uint32_t prompt[PROMPT];
    struct answer *plain = calloc(2, sizeof *plain), *pressed = plain + 1;
    const char *path = engine_path("../../demo/novels-moe-Q4_K_M.gguf");
    sluice_load_options options = {.ram = SLUICE_RAM_BYTES, .context = PROMPT + GENERATED, .threads = 2};
    options.ram_bytes = engine_budget(path, options, 0.7);
    engine_prompt(prompt, PROMPT, 2000, 9);
    struct sluice_model *m = engine_load(path, &options);
    assert_true(m->memory.placement.cache_bytes > 4 * MI);
    assert_int_equal(m->pressure.state.reserve_bytes, 0); /* an explicit budget is the user's */
    ask(m, prompt, plain);
    assert_int_equal(engine_number(m, "memory", "given_back_times"), 0);
    pressure_watch_begin(&m->pressure, root, 8 * MI);
    m->pressure.state.calm_ns = 0;
    pressed->changing = true;
    ask(m, prompt, pressed);
    assert_true(engine_same_ids(&plain->ids, &pressed->ids));
    assert_true(pressed->smallest_limit_bytes < m->memory.placement.cache_bytes / 2);
    assert_true(engine_number(m, "memory", "given_back_times") >= 3); /* and had been taken again in between */
    put_available(3000 * MI);
    m->pressure.look_at_ns = m->pressure.sample_at_ns = 0;
    assert_false(sluice_tend(m));
    assert_true(engine_number(m, "memory", "cache_limit_bytes") >= (double)m->memory.placement.cache_bytes * 0.98);
    sluice_close(m);
    free(plain);
}

static void auto_watches(void **state) {
    (void)state;
    const sluice_load_options options = {.context = 64, .threads = 1};
    struct sluice_model *m = engine_load(engine_path("models/qwen3_moe"), &options);
    assert_int_equal(m->pressure.state.reserve_bytes, m->memory.reserve_bytes);
    assert_true(!machine_memory_read().known || m->memory.reserve_bytes > 0);
    m->pressure.root = root; /* everything is mapped here: it may be unlocked, and answers all the same */
    put_available(MI);
    m->pressure.look_at_ns = m->pressure.sample_at_ns = 0;
    assert_false(sluice_tend(m));
    for (uint32_t i = 0; i < m->store->mapping.count; i++)
        assert_false(m->store->mapping.stretches[i].region.locked);
    uint32_t prompt[PROMPT];
    struct engine_ids ids;
    sluice_error error;
    engine_prompt(prompt, PROMPT, 100, 9);
    ENGINE_OK(engine_generate(m, prompt, PROMPT, 4, 0, &ids, &error), error);
    sluice_close(m);
}

/* One whose layers are read again for every token gives weights back too, in the middle of passes, and has them again later. */
static void a_streamed_model_gives_way(void **state) {
    (void)state;
    uint32_t prompt[PROMPT];
    struct answer *plain = calloc(2, sizeof *plain), *pressed = plain + 1;
    const sluice_load_options options = {.ram = SLUICE_RAM_MIN, .context = PROMPT + GENERATED, .threads = 1};
    engine_prompt(prompt, PROMPT, 100, 9);
    weights_share = 0.7;
    struct sluice_model *m = engine_load(engine_path("models/llama.gguf"), &options);
    weights_share = -1;
    uint64_t keep_bytes = m->memory.placement.keep_bytes;
    assert_true(m->memory.placement.ring_bytes > 0 && m->memory.placement.cache_bytes == 0 && keep_bytes >= 16 << 10);
    ask(m, prompt, plain);
    assert_int_equal(engine_number(m, "memory", "given_back_times"), 0);
    assert_int_equal(engine_number(m, "memory", "trunk_limit_bytes"), keep_bytes);
    pressure_watch_begin(&m->pressure, root, 8 * MI);
    m->pressure.state.calm_ns = 0;
    pressed->changing = true;
    ask(m, prompt, pressed);
    assert_true(engine_same_ids(&plain->ids, &pressed->ids));
    assert_true(pressed->smallest_limit_bytes < keep_bytes / 2);
    assert_true(engine_number(m, "memory", "given_back_times") >= 3); /* and had been taken again in between */
    assert_true(m->pressure.told);
    put_available(3000 * MI);
    m->pressure.look_at_ns = m->pressure.sample_at_ns = 0;
    assert_false(sluice_tend(m));
    pressed->changing = false;
    ask(m, prompt, pressed);
    assert_int_equal(store_trunk_used_bytes(m->store), keep_bytes);
    sluice_close(m);
    free(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_the_reserve_lacks), cmocka_unit_test(gives_of_what_is_used),
        cmocka_unit_test(takes_again_after_calm),       cmocka_unit_test(looks_and_samples),
        cmocka_unit_test(answers_do_not_change),        cmocka_unit_test(auto_watches),
        cmocka_unit_test(a_streamed_model_gives_way),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
