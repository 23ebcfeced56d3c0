/*
 * test_reference: tiny models with random weights give the logits and the greedy ids that another implementation computed for them.
 *
 * A model family is covered by a line in `references`. Each form of it runs four times: default and exact arithmetic, with everything
 * in memory and with the smallest budget that works, which must have read weights again from disk.
 *
 * Tolerances  exact: largest difference at most 5e-4 of the largest logit, ids equal up to the first step whose two best logits are nearer
 *             than 1e-3. Default, float weights: difference at most 5e-3 or mean KL divergence at most 1e-3, ids equal up to the first
 *             margin below 4e-3 of the largest logit. Default, quantised weights: mean KL divergence at most 5e-3.
 */
#include "../unit/engine_fixture.h"

#include <math.h>
#include <unistd.h>

#include "format/catalogue.h"

enum form {
    HF = 1,        /* tests/data/models/NAME/ */
    GGUF = 2,      /* tests/data/models/NAME.gguf */
    SPLIT = 4,     /* tests/data/gguf/split/NAME-00001-of-00005.gguf */
    QUANTISED = 8, /* weights that are products of whole numbers: compared by divergence (8-bit floats are not meant) */
};
enum { FORMS = 3, GREEDY = 16 };

static const struct reference {
    const char *name;
    unsigned forms;
} references[] = {
    /* ---- one line per model, alphabetical: this line is what a new family adds ---- */
    {"afmoe", HF | GGUF},
    {"apertus", HF | GGUF},
    {"arcee", HF | GGUF},
    {"bailing_hybrid", HF},
    {"bailing_moe", HF | GGUF},
    {"bailing_moe_linear", HF},
    {"bailing_moe_v2", HF | GGUF},
    {"cohere", HF},
    {"cohere2", HF | GGUF},
    {"deepseek", HF},
    {"deepseek_v2", HF},
    {"deepseek_v2-grouped", HF},
    {"deepseek_v2-lite27", GGUF},
    {"deepseek_v2-qlora", GGUF},
    {"deepseek_v3", HF | GGUF},
    {"deepseek_v3-legacy", GGUF},
    {"deepseek_v32", HF},
    {"deepseek_v32-fp8", HF},
    {"deepseek_v32-index64", GGUF},
    {"dots1", HF},
    {"dots1-mha", GGUF},
    {"ernie4_5", HF | GGUF},
    {"ernie4_5_moe", HF},
    {"ernie4_5_moe-shared", GGUF},
    {"exaone4", HF},
    {"exaone4-full", GGUF},
    {"exaone4-hybrid64", GGUF},
    {"exaone_moe", HF},
    {"falcon", HF | GGUF},
    {"falcon-multiquery", HF | GGUF},
    {"falcon_h1", HF | GGUF},
    {"gemma", HF},
    {"gemma2", HF},
    {"gemma2-scale", GGUF},
    {"gemma3", HF},
    {"gemma3-scale", GGUF},
    {"gemma3-wrapper", HF},
    {"gemma3-wrapper-hf", HF},
    {"gemma4", HF},
    {"gemma4-kvshare", HF},
    {"gemma4-kvshare-softcap", GGUF},
    {"gemma4-moe", HF | GGUF},
    {"gemma4-softcap", GGUF},
    {"gemma4-wrapper", HF},
    {"glm", HF},
    {"glm-square", GGUF},
    {"glm4", HF | GGUF},
    {"glm4_moe", HF | GGUF},
    {"glm_moe_dsa", HF},
    {"glm_moe_dsa-shared", HF},
    {"gpt_neox", HF | GGUF},
    {"gpt_neox-sequential", HF},
    {"gpt_oss", HF},
    {"gpt_oss-mxfp4", HF | QUANTISED},
    {"gpt_oss-mxfp4-ties", HF | QUANTISED}, /* experts so close that rounding activations once chooses others */
    {"gpt_oss-truncate", GGUF},
    {"gpt_oss-truncate-mxfp4", GGUF | QUANTISED},
    {"granite", HF | GGUF},
    {"granitemoe", HF | GGUF},
    {"granitemoehybrid", HF | GGUF},
    {"granitemoehybrid-dense", HF | GGUF},
    {"helium", HF},
    {"hunyuan_v1_dense", HF | GGUF},
    {"hunyuan_v1_moe", HF | GGUF},
    {"internlm3", HF},
    {"jamba", HF | GGUF},
    {"kimi_k25-wrapper", HF},
    {"kimi_linear", HF | GGUF},
    {"lfm2", HF | GGUF},
    {"lfm2_moe", HF | GGUF},
    {"llama", HF | GGUF},
    {"llama-awq", HF | QUANTISED},
    {"llama-ct-int4", HF | QUANTISED},
    {"llama-ct-int4-asym", HF | QUANTISED},
    {"llama-ct-int4-rows", HF | QUANTISED},
    {"llama-ct-int8", HF | QUANTISED},
    {"llama-ct-nvfp4", HF | QUANTISED},
    {"llama-ct-w8", HF | QUANTISED},
    {"llama-fp8", HF | GGUF},
    {"llama-fp8-ct-block", HF},
    {"llama-fp8-e5m2", HF},
    {"llama-fp8-e5m2-tensor", HF},
    {"llama-fp8-row", HF},
    {"llama-fp8-tensor", HF},
    {"llama-gptq", HF | QUANTISED},
    {"llama-gptq-asym8", HF | QUANTISED},
    {"llama-gptq-v2", HF | QUANTISED},
    {"llama-modelopt-nvfp4", HF | QUANTISED},
    {"llama-tied-bias", HF | GGUF},
    {"llama-tied-bias-fused", GGUF},
    {"llama4", HF},
    {"longcat_flash", HF},
    {"mellum", HF | GGUF},
    {"mimo", HF},
    {"mimo_v2_flash", HF},
    {"mimo_v2_flash-hd24", GGUF},
    {"mimo_v2_flash-published", HF},
    {"minimax", HF},
    {"minimax-even", GGUF},
    {"minimax_m2", HF | GGUF},
    {"ministral3", HF | GGUF},
    {"ministral3-scaled", HF},
    {"mistral", HF},
    {"mistral-window", HF},
    {"mistral4", HF},
    {"mixtral", HF | GGUF},
    {"mlx-gemma3_text-4bit", HF | QUANTISED},
    {"mlx-gemma4-4bit", HF | QUANTISED},
    {"mlx-gemma4_moe-4bit", HF | QUANTISED},
    {"mlx-gpt_oss-mxfp4-q8", HF | QUANTISED},
    {"mlx-llama-4bit-gs32", HF | QUANTISED},
    {"mlx-qwen2-4bit", HF | QUANTISED},
    {"mlx-qwen3-2bit-gs128", HF | QUANTISED},
    {"mlx-qwen3-3bit", HF | QUANTISED},
    {"mlx-qwen3-5bit", HF | QUANTISED},
    {"mlx-qwen3-bf16", HF},
    {"mlx-qwen3-fp16", HF},
    {"mlx-qwen3-fp32", HF},
    {"mlx-qwen3_moe-6bit", HF | QUANTISED},
    {"mlx-qwen3_moe-8bit-gs32", HF | QUANTISED},
    {"mlx-qwen3_moe-bf16", HF},
    {"mlx-qwen3_moe-mixed", HF | QUANTISED},
    {"mlx-qwen3_moe-mxfp4", HF | QUANTISED},
    {"mlx-qwen3_moe-mxfp8", HF | QUANTISED},
    {"mlx-qwen3_moe-nvfp4", HF | QUANTISED},
    {"mlx-qwen3_moe-nvfp4-global", HF | QUANTISED},
    {"nemotron", HF | GGUF},
    {"nemotron_h", HF | GGUF},
    {"nemotron_h-latent", HF | GGUF},
    {"nemotron_h-moe", HF | GGUF},
    {"olmo2", HF | GGUF},
    {"olmo3", HF | GGUF},
    {"olmo_hybrid", HF},
    {"olmo_hybrid-still", HF},
    {"olmoe", HF},
    {"olmoe-mha", GGUF},
    {"phi", HF},
    {"phi3", HF | GGUF},
    {"phi3-longrope", HF | GGUF},
    {"qwen2", HF | GGUF},
    {"qwen2_moe", HF | GGUF},
    {"qwen3", HF | GGUF},
    {"qwen3_5", HF},
    {"qwen3_5-square", GGUF},
    {"qwen3_5_moe", HF},
    {"qwen3_5_moe-fused", GGUF},
    {"qwen3_5_moe-square", GGUF},
    {"qwen3_5_moe-wrapper", HF},
    {"qwen3_moe", HF | GGUF | SPLIT},
    {"qwen3_moe-awq", HF | QUANTISED},
    {"qwen3_moe-ct-int4-asym", HF | QUANTISED},
    {"qwen3_moe-fp8", HF | GGUF},
    {"qwen3_moe-fp8-tensor", HF},
    {"qwen3_moe-gptq", HF | QUANTISED},
    {"qwen3_moe-mixed", HF},
    {"qwen3_next", HF},
    {"qwen3_next-square", GGUF},
    {"qwen3_vl", HF},
    {"qwen3_vl_moe", HF},
    {"seed_oss", HF | GGUF},
    {"smollm3", HF},
    {"smollm3-nope4", GGUF},
    {"stablelm", HF},
    {"starcoder2", HF},
    {"step3p5", HF | GGUF},
    {"telechat3", HF},
    {"youtu_llm", HF | GGUF},
    {"youtu_llm-mlx-kv_b", HF | QUANTISED},
    /* ---- end of the lines ---- */
};
enum { REFERENCES = sizeof references / sizeof *references };

struct test_case {
    char name[64], path[512], expected[512];
    bool quantised;
};

/* ---- what is expected ---- */

struct expected {
    uint32_t count, vocab, greedy_count;
    uint32_t *ids;
    float *logits;
    uint32_t greedy[GREEDY];
    float margins[GREEDY]; /* best less second-best logit; infinite when the file does not say */
    double largest;
};

static const struct tensor_entry *need(const struct catalogue *catalogue, const char *name, enum dtype dtype) {
    const struct tensor_entry *tensor = catalogue_find(catalogue, text_of(name));
    if (!tensor || tensor->dtype != dtype)
        fail_msg("%s: tensor %s is missing or has another type", catalogue_path(catalogue), name);
    return tensor;
}

static void read_tensor(const struct file_set *files, const struct tensor_entry *tensor, void *to, size_t capacity_bytes) {
    struct error err;
    assert_true(tensor->size_bytes <= capacity_bytes);
    ASSERT_OK(file_set_read(files, tensor->file, tensor->offset_bytes, to, tensor->size_bytes, &err), err);
}

static void read_expected(const char *path, struct expected *e) {
    struct file_set *files;
    struct catalogue *catalogue;
    struct error err;
    ASSERT_OK(file_set_create(&files, &err), err);
    ASSERT_OK(catalogue_open(path, files, &catalogue, &err), err);
    const struct tensor_entry *ids = need(catalogue, "input_ids", DTYPE_I32), *logits = need(catalogue, "logits", DTYPE_F32),
                              *greedy = need(catalogue, "greedy_ids", DTYPE_I32),
                              *margins = catalogue_find(catalogue, text_of("greedy_margins"));
    assert_true(ids->rank == 1 && logits->rank == 2 && logits->shape[0] == ids->shape[0] && greedy->shape[0] <= GREEDY);
    *e = (struct expected){
        .count = (uint32_t)ids->shape[0], .vocab = (uint32_t)logits->shape[1], .greedy_count = (uint32_t)greedy->shape[0]};
    e->ids = calloc(e->count, sizeof *e->ids);
    e->logits = calloc((size_t)e->count * e->vocab, sizeof *e->logits);
    assert_true(e->ids && e->logits);
    read_tensor(files, ids, e->ids, ids->size_bytes);
    read_tensor(files, logits, e->logits, logits->size_bytes);
    read_tensor(files, greedy, e->greedy, sizeof e->greedy);
    for (uint32_t i = 0; i < GREEDY; i++)
        e->margins[i] = INFINITY;
    if (margins)
        read_tensor(files, margins, e->margins, sizeof e->margins);
    for (size_t i = 0; i < (size_t)e->count * e->vocab; i++)
        e->largest = fmax(e->largest, fabs((double)e->logits[i]));
    catalogue_close(catalogue);
    file_set_destroy(files);
}

/* ---- how far off ---- */

static double log_sum_exp(const float *x, uint32_t n) {
    double top = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        top = fmax(top, (double)x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return top + log(sum);
}

static double mean_divergence(const float *want, const float *got, uint32_t count, uint32_t vocab) {
    double sum = 0;
    for (uint32_t r = 0; r < count; r++, want += vocab, got += vocab) {
        double p = log_sum_exp(want, vocab), q = log_sum_exp(got, vocab);
        for (uint32_t i = 0; i < vocab; i++)
            sum += exp((double)want[i] - p) * ((double)want[i] - p - ((double)got[i] - q));
    }
    return sum / count;
}

/* Relative to the largest logit; infinite when a logit is not finite. */
static double largest_difference(const struct expected *e, const float *got) {
    double difference = 0;
    for (size_t i = 0; i < (size_t)e->count * e->vocab; i++)
        difference = isfinite(got[i]) ? fmax(difference, fabs((double)got[i] - (double)e->logits[i])) : (double)INFINITY;
    return difference / e->largest;
}

/* Ids behind a step whose margin is too small to be sure may differ. */
static uint32_t sure_ids(const struct expected *e, bool exact) {
    double margin = exact ? 1e-3 : fmax(1e-3, 4e-3 * e->largest);
    uint32_t sure = 0;
    while (sure < e->greedy_count && (double)e->margins[sure] >= margin)
        sure++;
    return sure;
}

/* ---- one of the four ways ---- */

struct way {
    sluice_ram ram;
    bool exact;
};

static bool check_way(const struct test_case *c, const struct expected *e, const struct way *way) {
    sluice_error error;
    struct engine_logits logits;
    struct engine_ids ids;
    const sluice_load_options options = {
        .ram = way->ram, .exact = way->exact, .context = e->count + e->greedy_count, .logit_rows = 16, .threads = 2};
    sluice_model *model = engine_load(c->path, &options);
    engine_logits_init(&logits, model, e->count);
    assert_int_equal(logits.vocab, e->vocab);
    ENGINE_OK(engine_logits(model, e->ids, e->count, &logits, &error), error);
    bool read = engine_number(model, "reads", "read_bytes") > 0;
    ENGINE_OK(engine_generate(model, e->ids, e->count, e->greedy_count, 0, &ids, &error), error);
    sluice_close(model);

    double difference = largest_difference(e, logits.rows), divergence = mean_divergence(e->logits, logits.rows, e->count, e->vocab);
    free(logits.rows);
    bool near = way->exact ? difference <= 5e-4 : c->quantised ? divergence <= 5e-3 : difference <= 5e-3 || divergence <= 1e-3;
    uint32_t sure = way->exact || !c->quantised ? sure_ids(e, way->exact) : 0, same = 0;
    while (same < ids.count && same < e->greedy_count && ids.ids[same] == e->greedy[same])
        same++;
    bool good = near && isfinite(difference) && ids.count == e->greedy_count && same >= sure && (way->ram == SLUICE_RAM_ALL || read);
    if (!good)
        print_error("%s, %s, --ram %s: difference %.1e, divergence %.1e, %u ids of %u as expected (%u are sure)%s\n", c->name,
                    way->exact ? "exact" : "default", way->ram == SLUICE_RAM_ALL ? "all" : "min", difference, divergence, same,
                    e->greedy_count, sure, way->ram == SLUICE_RAM_MIN && !read ? ", nothing was read from disk" : "");
    return good;
}

static void check_reference(void **state) {
    static const struct way ways[] = {{SLUICE_RAM_ALL, false}, {SLUICE_RAM_ALL, true}, {SLUICE_RAM_MIN, false}, {SLUICE_RAM_MIN, true}};
    const struct test_case *c = *state;
    struct expected e;
    uint64_t live_bytes = engine_live_bytes();
    bool good = true;
    read_expected(c->expected, &e);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        good = check_way(c, &e, &ways[w]) && good;
    free(e.ids);
    free(e.logits);
    assert_int_equal(engine_live_bytes(), live_bytes);
    assert_true(good);
}

/* ---- the list of tests ---- */

static void add_case(struct CMUnitTest *test, struct test_case *c, const struct reference *r, enum form form) {
    static const char *const forms[] = {[HF] = "directory", [GGUF] = "GGUF", [SPLIT] = "GGUF in parts"};
    static const char *const paths[] = {[HF] = "models/%s", [GGUF] = "models/%s.gguf", [SPLIT] = "gguf/split/%s-00001-of-00005.gguf"};
    char name[128];
    (void)snprintf(c->name, sizeof c->name, "%s, %s", r->name, forms[form]);
    (void)snprintf(name, sizeof name, paths[form], r->name);
    (void)snprintf(c->path, sizeof c->path, "%s", engine_path(name));
    (void)snprintf(name, sizeof name, "models/%s.expected.safetensors", r->name);
    if (form != GGUF || access(engine_path(name), F_OK) != 0) /* results of the same weights are kept once */
        (void)snprintf(name, sizeof name, "models/%s/expected.safetensors", r->name);
    (void)snprintf(c->expected, sizeof c->expected, "%s", engine_path(name));
    c->quantised = r->forms & QUANTISED;
    *test = (struct CMUnitTest)cmocka_unit_test_prestate(check_reference, c);
    test->name = c->name;
}

int main(void) {
    static struct test_case cases[REFERENCES * FORMS];
    static struct CMUnitTest tests[REFERENCES * FORMS];
    size_t count = 0;
    for (size_t i = 0; i < REFERENCES; i++)
        for (unsigned form = HF; form <= SPLIT; form *= 2)
            if (references[i].forms & form) {
                add_case(&tests[count], &cases[count], &references[i], form);
                count++;
            }
    return _cmocka_run_group_tests("reference models", tests, count, NULL, NULL);
}
