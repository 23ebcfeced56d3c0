/*
 * test_program: how the program behaves towards a shell: standard output holds the text and nothing else, exit codes mean what they say,
 * errors tell what to do, Ctrl-C and a reader that goes away end it. Cases H1, H3, H5, H8.
 */
#include "../unit/program_fixture.h"

#include <ctype.h>

static struct program_folder folder;
static char demo[4096], ids[4096];

static int begin(void **state) {
    (void)state;
    program_begin(&folder);
    (void)snprintf(demo, sizeof demo, "%s", program_data("../../demo/novels-moe-Q4_K_M.gguf"));
    (void)snprintf(ids, sizeof ids, "%s", program_data("models/qwen3_moe/expected.safetensors"));
    return 0;
}

static int end(void **state) {
    static const char *const names[] = {"cut.gguf", "page.gguf", "logits.safetensors"};
    (void)state;
    program_end(&folder, names, sizeof names / sizeof *names);
    return 0;
}

#define RUN(run, ...) program_run(&folder, (const char *const[]){__VA_ARGS__, NULL}, (run))

/* ---- H1 ---- */

static void h1_output_is_the_text_alone(void **state) {
    struct program_run loud, quiet, tight, counted;
    (void)state;
    RUN(&loud, "generate", demo, "--prompt", "It was a dark", "--max-tokens", "30", "--temp", "0", "--ram", "all");
    program_expect(&loud, 0);
    assert_true(loud.out_bytes > 20 && loud.err[0] != 0); /* the plan and the rate are told, but not there */
    RUN(&quiet, "generate", demo, "--prompt", "It was a dark", "--max-tokens", "30", "--temp", "0", "--ram", "all", "--quiet");
    program_expect(&quiet, 0);
    assert_string_equal(quiet.out, loud.out);
    assert_string_equal(quiet.err, "");
    RUN(&tight, "generate", demo, "--prompt", "It was a dark", "--max-tokens", "30", "--temp", "0", "--ram", "min", "--verbose");
    program_expect(&tight, 0);
    assert_string_equal(tight.out, loud.out);
    RUN(&counted, "generate", demo, "--ids", ids, "--max-tokens", "9", "--temp", "0", "--ignore-eos", "--print-ids", "--print-plan");
    program_expect(&counted, 0);
    unsigned numbers = 0;
    for (size_t i = 0; i + 1 < counted.out_bytes; i++) {
        assert_true(isdigit((unsigned char)counted.out[i]) || counted.out[i] == ' ');
        numbers += counted.out[i] == ' ';
    }
    assert_int_equal(numbers + 1, 9);
    assert_int_equal(counted.out[counted.out_bytes - 1], '\n');
    program_free(&loud);
    program_free(&quiet);
    program_free(&tight);
    program_free(&counted);
}

/* ---- H3, H8 ---- */

static void write_file(const char *name, const void *data, size_t size_bytes) {
    char path[PROGRAM_PATH_BYTES];
    FILE *file = fopen(program_path(&folder, name, path), "wb");
    assert_true(file && fwrite(data, 1, size_bytes, file) == size_bytes);
    assert_int_equal(fclose(file), 0);
}

/* Ends with `code`, writes nothing to standard output, and standard error has both texts. */
static void expect_failure(struct program_run *run, int code, const char *text, const char *other) {
    program_expect(run, code);
    assert_int_equal(run->out_bytes, 0);
    if (!strstr(run->err, text) || !strstr(run->err, other))
        fail_msg("wanted '%s' and '%s' in: %s", text, other, run->err);
    program_free(run);
}

static void h3_exit_codes(void **state) {
    struct program_run run;
    struct text whole;
    struct error err;
    char cut[PROGRAM_PATH_BYTES], page[PROGRAM_PATH_BYTES], logits[PROGRAM_PATH_BYTES];
    (void)state;
    (void)program_path(&folder, "cut.gguf", cut);
    (void)program_path(&folder, "page.gguf", page);
    (void)program_path(&folder, "logits.safetensors", logits);
    ASSERT_OK(file_read(program_data("models/llama.gguf"), 1u << 24, &whole, &err), err);
    write_file("cut.gguf", whole.data, whole.size_bytes - 1);
    memory_free((char *)(uintptr_t)whole.data);
    write_file("page.gguf", "<!DOCTYPE html><html></html>", 28);

    RUN(&run, "generate", demo, "--max-token", "3", "--prompt", "x"); /* 2: the command line */
    expect_failure(&run, 2, "--max-token", "--max-tokens");
    RUN(&run, "generate", demo, "--temp", "hot", "--prompt", "x");
    expect_failure(&run, 2, "temp", "hot");
    RUN(&run, "generate", demo, "--reader", "fast", "--prompt", "x");
    expect_failure(&run, 2, "reader", "uring");
    RUN(&run, "genrate", demo);
    expect_failure(&run, 2, "genrate", "generate");
    RUN(&run, "generate");
    expect_failure(&run, 2, "MODEL", "");
    RUN(&run, "generate", "/nonexistent/model.gguf", "--prompt", "x"); /* 1: a file */
    expect_failure(&run, 1, "/nonexistent/model.gguf", "");
    RUN(&run, "generate", cut, "--ids", ids);
    expect_failure(&run, 1, cut, "");
    RUN(&run, "generate", page, "--ids", ids);
    expect_failure(&run, 1, page, "HTML");
    RUN(&run, "logits", demo, "--ids", "/nonexistent/ids.safetensors", "--out", logits);
    expect_failure(&run, 1, "/nonexistent/ids.safetensors", "");
    RUN(&run, "generate", demo, "--ids", ids, "--ram", "2M"); /* 3: memory */
    expect_failure(&run, 3, "smallest", "--ram min");
    RUN(&run, "generate", demo, "--ids", ids, "--ctx", "8");
    expect_failure(&run, 3, "--ctx", "40");
    RUN(&run, "generate", demo, "--prompt", "");
    assert_true(run.code == 0 || run.code == 2); /* a tokenizer may add a first token of its own */
    program_free(&run);
    RUN(&run, "logits", demo, "--ids", ids, "--out", logits, "--quiet"); /* 0: done */
    program_expect(&run, 0);
    assert_string_equal(run.err, "");
    assert_int_equal(run.out_bytes, 0);
    program_free(&run);
}

/* ---- the other end of standard output goes away ---- */

static void h3_closed_pipe_ends_quietly(void **state) {
    struct program_run run;
    char byte;
    (void)state;
    const char *const arguments[] = {"generate", demo, "--prompt", "It was", "--max-tokens", "2000", "--ignore-eos", "--quiet", NULL};
    program_start(&folder, arguments, (struct program_options){.pipe_out = true}, &run);
    assert_int_equal(read(run.out_fd, &byte, 1), 1);
    (void)close(run.out_fd);
    double closed = program_now();
    run.out_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    program_finish(&folder, &run);
    assert_true(run.code == 0 || run.code == 128 + SIGPIPE);
    assert_string_equal(run.err, "");
    assert_true(run.started + run.seconds - closed < 2);
    program_free(&run);
}

/* ---- H5 ---- */

/* The signal comes at a time when the program certainly is at work. */
static void interrupt_after(struct program_run *run, double seconds) {
    while (program_now() - run->started < seconds) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        assert_int_equal(waitpid(run->pid, NULL, WNOHANG), 0);
    }
    assert_int_equal(kill(run->pid, SIGINT), 0);
}

static void expect_stopped(struct program_run *run, double sent) {
    program_finish(&folder, run);
    program_expect(run, 130);
    assert_true(run->started + run->seconds - sent < 1);
    program_free(run);
}

static void h5_interrupt_while_generating(void **state) {
    struct program_run run;
    char byte;
    (void)state;
    const char *const arguments[] = {"generate", demo,  "--prompt", "It was", "--max-tokens",  "2000", "--ignore-eos",
                                     "--ram",    "min", "--isa",    "ref",    "--activations", "f32",  NULL};
    program_start(&folder, arguments, (struct program_options){.pipe_out = true}, &run);
    assert_int_equal(read(run.out_fd, &byte, 1), 1); /* the first token is out */
    double sent = program_now();
    assert_int_equal(kill(run.pid, SIGINT), 0);
    expect_stopped(&run, sent);
}

/* Many tokens at once, slowly: one pass takes seconds, and is given up in the middle. */
static void h5_interrupt_while_reading_the_prompt(void **state) {
    struct program_run run;
    static char prompt[6000]; /* about 1750 tokens */
    (void)state;
    for (size_t i = 0; i + 1 < sizeof prompt; i++)
        prompt[i] = "it was a long way to the sea, and "[i % 34];
    const char *const arguments[] = {"generate", demo,  "--prompt",      prompt, "--ram", "min",  "--isa",        "ref", "--threads", "1",
                                     "--chunk",  "512", "--activations", "f32",  "--ctx", "2048", "--max-tokens", "1",   NULL};
    program_start(&folder, arguments, (struct program_options){0}, &run);
    interrupt_after(&run, 1);
    expect_stopped(&run, program_now());
}

static void h5_interrupt_while_waiting_for_a_prompt(void **state) {
    struct program_run run;
    (void)state;
    const char *const arguments[] = {"generate", demo, NULL};
    program_start(&folder, arguments, (struct program_options){.pipe_in = true}, &run);
    interrupt_after(&run, 1);
    expect_stopped(&run, program_now());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h1_output_is_the_text_alone),           cmocka_unit_test(h3_exit_codes),
        cmocka_unit_test(h3_closed_pipe_ends_quietly),           cmocka_unit_test(h5_interrupt_while_generating),
        cmocka_unit_test(h5_interrupt_while_reading_the_prompt), cmocka_unit_test(h5_interrupt_while_waiting_for_a_prompt),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
