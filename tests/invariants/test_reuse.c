/*
 * test_reuse: what a call computed is used by the next one that begins alike, and changes no bit. A conversation of three turns, an answer
 * made again, a prompt that turns off in the middle, the same prompt twice: each against a model that was just loaded.
 */
#include "../unit/engine_fixture.h"

enum { TURN = 40, ANSWER = 12, IDS_MAX = 4 * (TURN + ANSWER), CHUNK = 16 };

static const struct subject {
    const char *path;
    bool any_length; /* every layer can return to any earlier length; recurrent ones to the end alone */
} subjects[] = {
    {"models/qwen3_moe", true},    {"models/gemma3", false /* windows: within a chunk */},
    {"models/deepseek_v32", true}, {"models/gpt_oss-mxfp4", false},
    {"models/qwen3_next", false},  {"models/lfm2_moe", false},
};

static sluice_model *load(const char *path) {
    const sluice_load_options options = {.ram = SLUICE_RAM_ALL, .context = IDS_MAX, .chunk = CHUNK, .threads = 1};
    sluice_model *model = engine_open(path);
    sluice_error error;
    ENGINE_OK(sluice_load(model, &options, &error), error);
    return model;
}

static void ask(sluice_model *model, const uint32_t *prompt, size_t count, struct engine_ids *answer, sluice_result *result) {
    sluice_error error;
    const sluice_request request = {.prompt = prompt,
                                    .prompt_count = count,
                                    .max_tokens = ANSWER,
                                    .temperature = 0.9f,
                                    .frequency_penalty = 0.7f,
                                    .presence_penalty = 0.4f,
                                    .repetition_penalty = 1.3f, /* of the whole prompt, whatever of it is computed */
                                    .seed = 42,
                                    .ignore_end = true,
                                    .on_piece = engine_take_piece,
                                    .context_pointer = answer};
    answer->count = 0;
    ENGINE_OK(sluice_generate(model, &request, result, &error), error);
    assert_int_equal(answer->count, ANSWER);
}

/* Asks the model that has a past, and one that has none; returns what was reused. */
static uint32_t check(sluice_model *model, const char *path, const uint32_t *prompt, size_t count, struct engine_ids *answer) {
    struct engine_ids cold;
    sluice_result result;
    sluice_model *fresh = load(path);
    ask(fresh, prompt, count, &cold, &result);
    assert_int_equal(result.reused, 0);
    sluice_close(fresh);
    ask(model, prompt, count, answer, &result);
    assert_true(result.reused < count);
    if (!engine_same_ids(answer, &cold))
        fail_msg("%s: %u of %zu tokens reused, and another answer", path, result.reused, count);
    return result.reused;
}

static void a_past_changes_no_bit(void **state) {
    const struct subject *subject = *state;
    uint32_t ids[IDS_MAX], other[IDS_MAX];
    struct engine_ids answer;
    sluice_info info;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s", engine_path(subject->path));
    sluice_model *model = load(path);
    sluice_get_info(model, &info);
    engine_prompt(ids, IDS_MAX, info.vocab, 3);
    size_t count = TURN;
    assert_int_equal(check(model, path, ids, count, &answer), 0);
    for (int turn = 0; turn < 2;
         turn++) { /* the prompt of the next turn begins with this one and its answer, but for the token never read */
        memcpy(ids + count, answer.ids, sizeof answer.ids[0] * ANSWER);
        assert_int_equal(check(model, path, ids, count + ANSWER + TURN, &answer), count + ANSWER - 1);
        count += ANSWER + TURN;
    }
    uint32_t again = check(model, path, ids, count, &answer); /* the last answer once more */
    assert_true(again == count - 1 || (!subject->any_length && again == 0));
    memcpy(other, ids, sizeof ids);
    other[TURN] = ids[TURN] == 5 ? 6 : 5; /* another second turn */
    uint32_t middle = check(model, path, other, count, &answer);
    assert_true(middle == TURN || (!subject->any_length && middle == 0));
    assert_int_equal(check(model, path, other + 1, 1, &answer), 0); /* one token: nothing to keep */
    other[0] = ids[0] == 5 ? 6 : 5;
    assert_int_equal(check(model, path, other, count, &answer), 0);
    sluice_close(model);
}

/* ---- the list of tests ---- */

#define COUNT(array) (sizeof(array) / sizeof *(array))

int main(void) {
    static char names[COUNT(subjects)][160];
    static struct CMUnitTest tests[COUNT(subjects)];
    for (size_t i = 0; i < COUNT(subjects); i++) {
        (void)snprintf(names[i], sizeof names[i], "a past changes no bit: %s", subjects[i].path);
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(a_past_changes_no_bit, (void *)(uintptr_t)&subjects[i]);
        tests[i].name = names[i];
    }
    return _cmocka_run_group_tests("reuse", tests, COUNT(subjects), NULL, NULL);
}
