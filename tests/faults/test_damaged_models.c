/*
 * test_damaged_models: thousands of cut, flipped and falsified copies of small models go through the whole engine: open, plan, load and a
 * few tokens. Each ends in tokens or in an error with a text; none crashes, hangs, leaks or takes much memory.
 *
 * Model   A case is (subject, number); the damage is drawn from both alone, so that a case can be repeated: SLUICE_TEST_CASE=3:1234 runs
 *         just that one. A process that dies says which case it was. Damage falls mostly on the header, where the meaning is: bits and
 *         runs of bytes, whole numbers put where another number was, values of JSON replaced by unlikely ones, cuts.
 *
 * Time      each subject gets its share of SECONDS and at least CASES_MIN cases; the number that was run is printed.
 */
#include "../unit/engine_fixture.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/byte_buffer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "format/catalogue.h"

enum { SECONDS = 50, CASES_MIN = 300, CASE_SECONDS_MAX = 20, TOKENS = 4, CONTEXT = 16 };
#define GROWTH_BYTES ((uint64_t)256 << 20) /* of one case; the models take less than a megabyte */

/* ---- the models ---- */

struct subject {
    const char *files[8]; /* copied into the folder under their own names */
    const char *damaged;  /* one of them */
    const char *model;    /* what is opened; "" is the folder */
    bool shards;          /* model.safetensors is cut in two shards with an index first */
};

#define PART(n) "gguf/split/qwen3_moe-0000" #n "-of-00005.gguf"
static const struct subject subjects[] = {
    {.files = {"models/llama-tied-bias.gguf"}, .damaged = "llama-tied-bias.gguf", .model = "llama-tied-bias.gguf"},
    {.files = {"models/qwen3_moe.gguf"}, .damaged = "qwen3_moe.gguf", .model = "qwen3_moe.gguf"},
    {.files = {"models/gemma3-scale.gguf"}, .damaged = "gemma3-scale.gguf", .model = "gemma3-scale.gguf"},
    {.files = {PART(1), PART(2), PART(3), PART(4), PART(5)}, .damaged = "qwen3_moe-00001-of-00005.gguf", .model = ""},
    {.files = {PART(1), PART(2), PART(3), PART(4), PART(5)}, .damaged = "qwen3_moe-00003-of-00005.gguf", .model = ""},
    {.files = {"models/qwen3_moe/config.json", "models/qwen3_moe/model.safetensors"}, .damaged = "config.json", .model = ""},
    {.files = {"models/qwen3_moe/config.json", "models/qwen3_moe/model.safetensors"}, .damaged = "model.safetensors", .model = ""},
    {.files = {"models/gemma3/config.json", "models/gemma3/model.safetensors"}, .damaged = "config.json", .model = ""},
    {.files = {"models/mixtral/config.json", "models/mixtral/model.safetensors"}, .damaged = "config.json", .model = ""},
    {.files = {"models/llama/config.json", "models/llama/model.safetensors"}, .damaged = "config.json", .model = ""},
    {.files = {"models/llama/config.json", "models/llama/model.safetensors"},
     .damaged = "model.safetensors.index.json",
     .model = "",
     .shards = true},
    {.files = {"models/llama/config.json", "models/llama/model.safetensors"},
     .damaged = "model-00002-of-00002.safetensors",
     .model = "",
     .shards = true},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

struct scene {
    char folder[64], damaged[512], model[512];
    const char *damaged_name;
    struct text whole;
    size_t header_bytes;
    uint8_t *bytes; /* of the damaged file: whole.size_bytes + EXTRA */
    size_t size_bytes;
};
enum { EXTRA = 64 };

static void write_whole(const char *path, const void *data, size_t size_bytes) {
    FILE *file = fopen(path, "wb"); /* no sync, unlike file_write: there are thousands */
    assert_true(file && (size_bytes == 0 || fwrite(data, 1, size_bytes, file) == size_bytes));
    assert_int_equal(fclose(file), 0);
}

static void in_folder(const struct scene *scene, const char *name, char *path, size_t path_bytes) {
    struct error err;
    ASSERT_OK(file_join(scene->folder, name, path, path_bytes, &err), err);
}

/* Memory where there is: direct reads of files just written would wait for a disk. */
static void create_folder(struct scene *scene) {
    (void)snprintf(scene->folder, sizeof scene->folder, "/dev/shm/sluice-test-XXXXXX");
    if (mkdtemp(scene->folder))
        return;
    (void)snprintf(scene->folder, sizeof scene->folder, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
}

static void remove_folder(const struct scene *scene) {
    DIR *stream = opendir(scene->folder);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(dirfd(stream), entry->d_name, 0);
    (void)closedir(stream);
    assert_int_equal(rmdir(scene->folder), 0);
}

static void open_catalogue(const char *path, struct file_set **files, struct catalogue **catalogue) {
    struct error err;
    ASSERT_OK(file_set_create(files, &err), err);
    ASSERT_OK(catalogue_open(path, *files, catalogue, &err), err);
}

/* Every second tensor of the catalogue, from `first` on, becomes a safetensors file. */
static void write_shard(const struct scene *scene, const struct file_set *files, const struct catalogue *catalogue, unsigned first,
                        struct byte_buffer *index) {
    struct byte_buffer header, data;
    struct error err = {0};
    char name[64], path[512];
    (void)snprintf(name, sizeof name, "model-0000%u-of-00002.safetensors", first + 1);
    in_folder(scene, name, path, sizeof path);
    byte_buffer_init(&header, 1u << 24);
    byte_buffer_init(&data, 1u << 28);
    for (uint64_t i = first; i < catalogue_tensor_count(catalogue); i += 2) {
        const struct tensor_entry *t = catalogue_tensor(catalogue, i);
        size_t begin = data.size_bytes;
        ASSERT_OK(byte_buffer_reserve(&data, (size_t)t->size_bytes, &err), err);
        ASSERT_OK(file_set_read(files, t->file, t->offset_bytes, data.data + begin, t->size_bytes, &err), err);
        data.size_bytes += (size_t)t->size_bytes;
        ASSERT_OK(byte_buffer_printf(&header, &err, "%s\"%.*s\":{\"dtype\":\"%s\",\"shape\":[", i == first ? "{" : ",",
                                     TEXT_ARGUMENTS(t->name), dtype_info(t->dtype)->safetensors_name),
                  err);
        for (uint32_t d = 0; d < t->rank; d++)
            ASSERT_OK(byte_buffer_printf(&header, &err, "%s%u", d ? "," : "", (unsigned)t->shape[d]), err);
        ASSERT_OK(byte_buffer_printf(&header, &err, "],\"data_offsets\":[%zu,%zu]}", begin, data.size_bytes), err);
        ASSERT_OK(byte_buffer_printf(index, &err, "%s\"%.*s\":\"%s\"", i == 0 ? "" : ",", TEXT_ARGUMENTS(t->name), name), err);
    }
    ASSERT_OK(byte_buffer_append_text(&header, TEXT("}"), &err), err);
    FILE *file = fopen(path, "wb");
    uint64_t length = header.size_bytes;
    assert_true(file && fwrite(&length, sizeof length, 1, file) == 1 && fwrite(header.data, 1, header.size_bytes, file) == length &&
                fwrite(data.data, 1, data.size_bytes, file) == data.size_bytes);
    assert_int_equal(fclose(file), 0);
    byte_buffer_deinit(&header);
    byte_buffer_deinit(&data);
}

static void cut_in_shards(const struct scene *scene) {
    struct file_set *files;
    struct catalogue *catalogue;
    struct byte_buffer index;
    struct error err = {0};
    char path[512];
    byte_buffer_init(&index, 1u << 24);
    ASSERT_OK(byte_buffer_append_text(&index, TEXT("{\"metadata\":{\"total_size\":1},\"weight_map\":{"), &err), err);
    open_catalogue(scene->folder, &files, &catalogue);
    for (unsigned first = 0; first < 2; first++)
        write_shard(scene, files, catalogue, first, &index);
    ASSERT_OK(byte_buffer_append_text(&index, TEXT("}}"), &err), err);
    catalogue_close(catalogue);
    file_set_destroy(files);
    in_folder(scene, "model.safetensors.index.json", path, sizeof path);
    write_whole(path, index.data, index.size_bytes);
    byte_buffer_deinit(&index);
    in_folder(scene, "model.safetensors", path, sizeof path);
    assert_int_equal(unlink(path), 0);
}

/* Bytes of the damaged file before its first tensor; all of a file without tensors. */
static size_t find_header(const struct scene *scene) {
    struct file_set *files;
    struct catalogue *catalogue;
    size_t header_bytes = scene->whole.size_bytes;
    open_catalogue(scene->model, &files, &catalogue);
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *t = catalogue_tensor(catalogue, i);
        if (strstr(file_set_path(files, t->file), scene->damaged_name) && t->offset_bytes < header_bytes)
            header_bytes = (size_t)t->offset_bytes;
    }
    catalogue_close(catalogue);
    file_set_destroy(files);
    return header_bytes;
}

static void set_up(struct scene *scene, const struct subject *subject) {
    struct error err;
    *scene = (struct scene){.damaged_name = subject->damaged};
    create_folder(scene);
    for (size_t i = 0; i < sizeof subject->files / sizeof *subject->files && subject->files[i]; i++) {
        struct text bytes;
        char path[512];
        ASSERT_OK(file_read(engine_path(subject->files[i]), 1u << 24, &bytes, &err), err);
        in_folder(scene, strrchr(subject->files[i], '/') + 1, path, sizeof path);
        write_whole(path, bytes.data, bytes.size_bytes);
        memory_free((char *)bytes.data);
    }
    if (subject->shards)
        cut_in_shards(scene);
    in_folder(scene, subject->damaged, scene->damaged, sizeof scene->damaged);
    if (subject->model[0])
        in_folder(scene, subject->model, scene->model, sizeof scene->model);
    else
        (void)snprintf(scene->model, sizeof scene->model, "%s", scene->folder);
    ASSERT_OK(file_read(scene->damaged, 1u << 24, &scene->whole, &err), err);
    scene->header_bytes = find_header(scene);
    scene->bytes = memory_alloc(scene->whole.size_bytes + EXTRA);
    assert_non_null(scene->bytes);
}

static void tear_down(struct scene *scene) {
    memory_free((char *)scene->whole.data);
    memory_free(scene->bytes);
    remove_folder(scene);
}

/* ---- damage ---- */

static uint64_t next_random(uint64_t *state) {
    uint64_t x = (*state += 0x9E3779B97F4A7C15u);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static size_t below(uint64_t *state, size_t limit) { return (size_t)(next_random(state) % limit); }

/* An earlier change may have made the file shorter. */
static size_t header_bytes(const struct scene *scene) {
    return scene->header_bytes < scene->size_bytes ? scene->header_bytes : scene->size_bytes;
}

static size_t somewhere(const struct scene *scene, uint64_t *state) {
    return below(state, below(state, 8) == 0 ? scene->size_bytes : header_bytes(scene));
}

static void flip_bit(struct scene *scene, uint64_t *state) {
    size_t at = somewhere(scene, state);
    scene->bytes[at] = (uint8_t)(scene->bytes[at] ^ 1u << below(state, 8));
}

static void change_run(struct scene *scene, uint64_t *state) {
    size_t at = somewhere(scene, state), length = 1 + below(state, 16), kind = below(state, 4);
    for (size_t i = 0; i < length && at + i < scene->size_bytes; i++)
        scene->bytes[at + i] = kind == 0   ? (uint8_t)next_random(state)
                               : kind == 1 ? 0
                               : kind == 2 ? 0xFF
                                           : scene->bytes[below(state, header_bytes(scene))];
}

/* Binary numbers that sizes and counts do not expect. */
static void put_number(struct scene *scene, uint64_t *state) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       5,
                                       7,
                                       31,
                                       127,
                                       255,
                                       256,
                                       4096,
                                       65535,
                                       1u << 20,
                                       0x7FFFFFFF,
                                       0x80000000,
                                       0xFFFFFFFF,
                                       0x100000000,
                                       0x10000000000,
                                       0x7FFFFFFFFFFFFFFF,
                                       0x8000000000000000,
                                       0xFFFFFFFFFFFFFFFF};
    uint64_t number = numbers[below(state, sizeof numbers / sizeof *numbers)];
    size_t length = (size_t)1 << below(state, 4), at = somewhere(scene, state);
    if (at + length <= scene->size_bytes)
        memcpy(scene->bytes + at, &number, length);
}

static bool is_number_start(const uint8_t *bytes, size_t at) {
    char c = (char)bytes[at], before = (char)bytes[at - 1];
    return (c == '-' || (c >= '0' && c <= '9')) && (before == ':' || before == '[' || before == ',' || before == ' ');
}

/* A number (or true, false, null) of a JSON text becomes something else, of any length. */
static void put_value(struct scene *scene, uint64_t *state) {
    static const char *const values[] = {"0",
                                         "-1",
                                         "1",
                                         "2",
                                         "3",
                                         "5",
                                         "17",
                                         "0.5",
                                         "1e308",
                                         "-1e308",
                                         "1e-320",
                                         "2147483648",
                                         "4294967295",
                                         "4294967296",
                                         "9223372036854775807",
                                         "18446744073709551615",
                                         "null",
                                         "true",
                                         "false",
                                         "[]",
                                         "{}",
                                         "[1,2]",
                                         "\"x\"",
                                         "\"\"",
                                         "NaN",
                                         "Infinity",
                                         "1000000",
                                         "65536"};
    const char *value = values[below(state, sizeof values / sizeof *values)];
    size_t tries = 200, at, end, length = strlen(value);
    do
        at = 1 + below(state, header_bytes(scene) - 1);
    while (!is_number_start(scene->bytes, at) && --tries > 0);
    if (tries == 0)
        return;
    for (end = at; end < header_bytes(scene) && strchr("+-.0123456789eE", scene->bytes[end]) && scene->bytes[end]; end++) {}
    memmove(scene->bytes + at + length, scene->bytes + end, scene->size_bytes - end);
    memcpy(scene->bytes + at, value, length);
    scene->size_bytes += length - (end - at);
    uint64_t header; /* a safetensors file tells its header's length, mostly right */
    if (text_ends_with(text_of(scene->damaged_name), TEXT(".safetensors")) && below(state, 8) > 0) {
        memcpy(&header, scene->bytes, sizeof header);
        header += length - (end - at);
        memcpy(scene->bytes, &header, sizeof header);
    }
}

static void damage(struct scene *scene, uint64_t number) {
    uint64_t state = number * 0x2545F4914F6CDD1Du + scene->whole.size_bytes;
    bool binary = text_ends_with(text_of(scene->damaged_name), TEXT(".gguf"));
    memcpy(scene->bytes, scene->whole.data, scene->whole.size_bytes);
    scene->size_bytes = scene->whole.size_bytes;
    for (size_t changes = below(&state, 4) ? 1 : 3; changes > 0 && scene->size_bytes <= scene->whole.size_bytes + EXTRA / 2; changes--)
        switch (below(&state, 8)) {
        case 0:
            flip_bit(scene, &state);
            break;
        case 1:
            change_run(scene, &state);
            break;
        default:
            if (binary)
                put_number(scene, &state);
            else
                put_value(scene, &state);
        }
    if (below(&state, 10) == 0)
        scene->size_bytes = somewhere(scene, &state);
}

/* ---- one case ---- */

static volatile sig_atomic_t case_subject, case_number;

/* Only what a signal handler may do. */
static void name_case(int signal_number) {
    char text[64] = "died in SLUICE_TEST_CASE=";
    size_t used = strlen(text);
    for (int part = 0; part < 2; part++) {
        unsigned value = (unsigned)(part ? case_number : case_subject), divisor = 1000000000;
        while (divisor > 1 && value / divisor == 0)
            divisor /= 10;
        for (; divisor > 0; divisor /= 10)
            text[used++] = (char)('0' + value / divisor % 10);
        text[used++] = part ? '\n' : ':';
    }
    (void)!write(STDERR_FILENO, text, used);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

/* So that a wrong size ends in an error instead of a machine without memory. Sanitizers count terabytes of their own as data. */
static struct rlimit limit_growth(void) {
    struct rlimit old, limit;
    struct text status;
    struct error err;
    unsigned long long kib = 0;
    ASSERT_OK(file_read("/proc/self/status", 1u << 16, &status, &err), err);
    const char *line = strstr(status.data, "VmData:");
    if (line)
        kib = strtoull(line + 7, NULL, 10);
    memory_free((char *)status.data);
    assert_int_equal(getrlimit(RLIMIT_DATA, &old), 0);
    limit = (struct rlimit){kib == 0 || kib >> 30 ? old.rlim_cur : kib * 1024 + GROWTH_BYTES, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_DATA, &limit), 0);
    return old;
}

struct outcome {
    unsigned cases, opened, loaded, answered;
};

static sluice_status use(const char *path, uint64_t number, struct outcome *outcome, sluice_error *error) {
    const sluice_load_options options = {
        .ram = number % 3 ? SLUICE_RAM_MIN : SLUICE_RAM_ALL, .context = CONTEXT, .threads = 1 + number % 2, .exact = number % 16 == 0};
    sluice_model *model;
    sluice_status status = sluice_open(path, &model, error);
    if (status != SLUICE_OK)
        return status;
    outcome->opened++;
    sluice_info info;
    struct engine_ids ids;
    uint32_t prompt[3];
    sluice_get_info(model, &info);
    for (uint32_t i = 0; i < 3; i++)
        prompt[i] = (i * 37 + 3) % info.vocab;
    engine_forget_peak();
    status = sluice_load(model, &options, error);
    if (status == SLUICE_OK) {
        outcome->loaded++;
        status = engine_generate(model, prompt, 3, TOKENS, number % 2 ? 0 : 0.8f, &ids, error);
    }
    outcome->answered += status == SLUICE_OK;
    sluice_close(model);
    return status;
}

static void run_case(struct scene *scene, uint64_t number, struct outcome *outcome) {
    struct timespec begin, end;
    sluice_error error = {0};
    uint64_t live_bytes = engine_live_bytes();
    case_number = (sig_atomic_t)number;
    damage(scene, number);
    write_whole(scene->damaged, scene->bytes, scene->size_bytes);
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    sluice_status status = use(scene->model, number, outcome, &error);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    outcome->cases++;
    if (status != SLUICE_OK && (error.status != status || error.text[0] == 0))
        fail_msg("case %d:%d: an error without a text", (int)case_subject, (int)number);
    if (status == SLUICE_INTERNAL || status == SLUICE_NO_MEMORY)
        fail_msg("case %d:%d: %s: %s", (int)case_subject, (int)number, sluice_status_name(status), error.text);
    if (engine_live_bytes() != live_bytes)
        fail_msg("case %d:%d: %d bytes are lost", (int)case_subject, (int)number, (int)(engine_live_bytes() - live_bytes));
    if (end.tv_sec - begin.tv_sec > CASE_SECONDS_MAX)
        fail_msg("case %d:%d took %d s", (int)case_subject, (int)number, (int)(end.tv_sec - begin.tv_sec));
}

/* "3:1234" of SLUICE_TEST_CASE. */
static bool single_case(unsigned *subject, uint64_t *number) {
    const char *text = getenv("SLUICE_TEST_CASE"), *colon = text ? strchr(text, ':') : NULL;
    uint64_t value = 0;
    if (!colon || !text_parse_u64((struct text){text, (size_t)(colon - text)}, &value) || !text_parse_u64(text_of(colon + 1), number))
        return false;
    *subject = (unsigned)value;
    return true;
}

static void damaged(void **state) {
    const struct subject *subject = *state;
    unsigned index = (unsigned)(subject - subjects), only = 0;
    struct scene scene;
    struct outcome outcome = {0}, whole = {0};
    sluice_error error;
    struct timespec begin, now;
    uint64_t number = 1, last = UINT64_MAX;
    if (single_case(&only, &number) && only != index)
        skip();
    if (number != 1 || getenv("SLUICE_TEST_CASE"))
        last = number;
    case_subject = (sig_atomic_t)index;
    (void)signal(SIGABRT, name_case);
    (void)signal(SIGSEGV, name_case);
    (void)signal(SIGBUS, name_case);
    (void)signal(SIGFPE, name_case);
    set_up(&scene, subject);
    ENGINE_OK(use(scene.model, 1, &whole, &error), error); /* not yet damaged */
    struct rlimit old = limit_growth();
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        run_case(&scene, number, &outcome);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while (number++ < last && (number <= CASES_MIN || now.tv_sec - begin.tv_sec < SECONDS / SUBJECTS));
    assert_int_equal(setrlimit(RLIMIT_DATA, &old), 0);
    write_whole(scene.damaged, scene.whole.data, scene.whole.size_bytes);
    ENGINE_OK(use(scene.model, 1, &whole, &error), error); /* whole again */
    tear_down(&scene);
    print_message("%u cases: %u opened, %u loaded, %u answered\n", outcome.cases, outcome.opened, outcome.loaded, outcome.answered);
    assert_true(last == number - 1 || (outcome.opened > 0 && outcome.opened < outcome.cases));
}

int main(void) {
    static char names[SUBJECTS][96];
    struct CMUnitTest tests[SUBJECTS];
    log_set_level(LOG_ERROR);
    for (size_t i = 0; i < SUBJECTS; i++) {
        const char *folder = subjects[i].files[0], *slash = strrchr(folder, '/');
        (void)snprintf(names[i], sizeof names[i], "damaged %s of %.*s", subjects[i].damaged, (int)(slash - folder), folder);
        tests[i] = (struct CMUnitTest)cmocka_unit_test_prestate(damaged, (void *)(uintptr_t)&subjects[i]);
        tests[i].name = names[i];
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
