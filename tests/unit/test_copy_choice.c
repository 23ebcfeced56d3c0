/* test_copy_choice: which copy a read goes to, by what is in flight and how fast devices were; times are made up. */
#include "test_support.h"

#include <errno.h>

#include "base/log.h"
#include "io_fixture.h"
#include "store/copy_choice.h"

enum { COPIES = 3, MIB = 1 << 20, MS = 1000000 };

struct fixture {
    struct io_folder folder;
    char paths[COPIES][128];
    struct file_set *files;
    struct copy_choice choice;
    uint64_t now_ns;
    struct error err;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    log_set_level(LOG_ERROR);
    if (!f || !io_folder_create(&f->folder, "/var/tmp") || file_set_create(&f->files, &f->err) != STATUS_OK)
        return -1;
    for (uint32_t n = 0; n < COPIES; n++) {
        char name[8] = {(char)('a' + n)};
        uint32_t file = 0;
        if (!io_file_create(&f->folder, name, 1000, f->paths[n], sizeof f->paths[n]) ||
            (n == 0 ? file_set_add(f->files, f->paths[n], &file, &f->err) : file_set_add_copy(f->files, 0, f->paths[n], &file, &f->err)) !=
                STATUS_OK ||
            file != n)
            return -1;
    }
    if (copy_choice_init(&f->choice, f->files, &f->err) != STATUS_OK)
        return -1;
    for (uint32_t n = 0; n < COPIES; n++) /* as if each were on a device of its own */
        f->choice.device_of[n] = n;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    copy_choice_deinit(&f->choice);
    file_set_destroy(f->files);
    for (unsigned n = 0; n < COPIES; n++)
        (void)unlink(f->paths[n]);
    io_folder_destroy(&f->folder);
    free(f);
    return 0;
}

static uint32_t send(struct fixture *f, uint64_t size_bytes) {
    struct read_request request = {.file = copy_choice_pick(&f->choice, 0, size_bytes, 0), .size_bytes = size_bytes};
    copy_choice_sent(&f->choice, &request, f->now_ns);
    return request.file;
}

static void finish(struct fixture *f, uint32_t file, uint64_t size_bytes, enum status status) {
    const struct read_request request = {.file = file, .size_bytes = size_bytes, .status = status, .system_error = status ? EIO : 0};
    copy_choice_done(&f->choice, &request, f->now_ns);
}

/* `count` reads of 1 MiB at once, each device at its rate; how many went to each. */
static void burst(struct fixture *f, unsigned count, const unsigned ms_per_mib[COPIES], unsigned went[COPIES]) {
    memset(went, 0, COPIES * sizeof *went);
    for (unsigned i = 0; i < count; i++)
        went[send(f, MIB)]++;
    unsigned left[COPIES] = {went[0], went[1], went[2]};
    for (unsigned ms = 1; left[0] + left[1] + left[2] > 0; ms++) {
        f->now_ns += MS;
        for (uint32_t n = 0; n < COPIES; n++)
            if (left[n] > 0 && ms % ms_per_mib[n] == 0) {
                finish(f, n, MIB, STATUS_OK);
                left[n]--;
            }
    }
}

static void what_is_not_known_is_shared_evenly(void **state) {
    struct fixture *f = *state;
    unsigned went[COPIES];
    burst(f, 12, (const unsigned[]){1, 1, 1}, went);
    assert_true(went[0] == 4 && went[1] == 4 && went[2] == 4);
    assert_int_equal(send(f, 5), 0); /* ties go to the first */
    assert_int_equal(send(f, 5), 1);
    assert_int_equal(send(f, 1), 2);
    assert_int_equal(send(f, 1), 2); /* fewest bytes, not fewest reads */
}

static void a_slow_device_gets_less(void **state) {
    struct fixture *f = *state;
    const unsigned ms[COPIES] = {8, 1, 1};
    unsigned went[COPIES];
    for (int i = 0; i < 8; i++)
        burst(f, 34, ms, went);
    assert_in_range(went[0], 1, 4); /* 2 of 34 end with the others */
    assert_in_range(went[1], 14, 18);
    assert_in_range(went[2], 14, 18);
}

static void a_device_that_recovers_is_noticed(void **state) {
    struct fixture *f = *state;
    unsigned went[COPIES];
    for (int i = 0; i < 8; i++)
        burst(f, 34, (const unsigned[]){100, 1, 1}, went);
    assert_in_range(went[0], 0, 1);
    for (int i = 0; i < 300; i++)
        burst(f, 34, (const unsigned[]){1, 1, 1}, went);
    assert_in_range(went[0], 9, 14);
}

/* With little in flight a device shows its delay, not its rate: all count as equal. */
static void single_reads_measure_nothing(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(send(f, 4096), 0);
        f->now_ns += MS;
        finish(f, 0, 4096, STATUS_OK);
    }
    for (unsigned n = 0; n < COPIES; n++)
        assert_true(f->choice.devices[n].ns <= 0);
}

/* Rates that were measured before stay: what a busy program sees of its reads is not asked. */
static void known_rates_decide(void **state) {
    struct fixture *f = *state;
    unsigned went[COPIES];
    const double rates[COPIES] = {1e9, 4e9, 4e9};
    for (unsigned n = 0; n < COPIES; n++)
        f->choice.known_rates[n] = rates[n];
    for (int i = 0; i < 20; i++) {
        burst(f, 36, (const unsigned[]){1, 5, 1}, went);
        assert_true(went[0] == 4 && went[1] == 16 && went[2] == 16);
    }
    f->choice.known_rates[2] = 0; /* not of all: none is believed */
    burst(f, 36, (const unsigned[]){1, 5, 1}, went);
    assert_true(went[1] < 16);
}

static void rates_are_of_devices(void **state) {
    struct fixture *f = *state;
    assert_true(file_set_rate(f->files, 2) <= 0);
    file_set_note_rate(f->files, 1, 5e8); /* all three lie on one */
    assert_true(file_set_rate(f->files, 0) > 4e8 && file_set_rate(f->files, 2) > 4e8);
}

static void copies_on_one_device_take_turns(void **state) {
    struct fixture *f = *state;
    f->choice.device_of[0] = f->choice.device_of[1] = 0; /* the third is elsewhere */
    unsigned went[COPIES] = {0};
    for (int i = 0; i < 8; i++)
        went[send(f, MIB)]++;
    assert_true(went[0] == 2 && went[1] == 2 && went[2] == 4);
}

static void what_was_tried_is_not_picked(void **state) {
    struct fixture *f = *state;
    assert_int_equal(copy_choice_pick(&f->choice, 0, 9, 1), 1);
    assert_int_equal(copy_choice_pick(&f->choice, 2, 9, 3), 2); /* asked for by any of the copies */
    assert_int_equal(copy_choice_pick(&f->choice, 0, 9, 7), COPY_NONE);
}

static void copies_that_fail_are_left_out_but_the_last(void **state) {
    struct fixture *f = *state;
    for (unsigned n = 0; n < COPIES; n++)
        for (int i = 0; i < COPY_FAILURES_MAX; i++) {
            assert_true(!file_set_left_out(f->files, n));
            copy_choice_sent(&f->choice, &(struct read_request){.file = n, .size_bytes = 9}, f->now_ns);
            finish(f, n, 9, STATUS_IO);
        }
    assert_true(file_set_left_out(f->files, 0) && file_set_left_out(f->files, 1) && !file_set_left_out(f->files, 2));
    assert_int_equal(send(f, 9), 2);
    assert_int_equal(send(f, 9), 2);
    assert_int_equal(copy_choice_pick(&f->choice, 0, 9, 4), 0); /* still better than none */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_not_known_is_shared_evenly, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_device_gets_less, setup, teardown),
        cmocka_unit_test_setup_teardown(a_device_that_recovers_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(single_reads_measure_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(known_rates_decide, setup, teardown),
        cmocka_unit_test_setup_teardown(rates_are_of_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_on_one_device_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_tried_is_not_picked, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_that_fail_are_left_out_but_the_last, setup, teardown),
    };
    return cmocka_run_group_tests_name("copy_choice", tests, NULL, NULL);
}
