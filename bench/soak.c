/*
 * soak: a model under a budget, asked without an end, while reads fail and come again, memory grows scarce and is free again, and people
 * pause, cancel and go on. Nothing may fail, no answer may change, and nothing may grow.
 *
 *     soak MODEL [SECONDS [SEED]] [--ram SIZE] [--reader uring|threads|sync]        600 seconds, seed 1, the smallest budget
 *
 * Model    A process of its own answers a dozen requests undisturbed. Then the same model, loaded anew with reads that misbehave
 *          (soak_faults.h), answers them from the last to the first, so that the longest are computed anew, and from then on, for
 *          SECONDS, in random order on a machine whose memory comes and goes (soak_machine.h): one of four is stopped in one of four ways;
 * half of them are followed by a pause, some with sluice_tend. Each id is compared, and the bits of its probability and of the second
 * choice's. Output   a line a minute, each failure when it is seen, and at the end a line for each thing that was to hold. Exit status 0
 * when all did, 1 when one did not, 2 for a run that could not be begun. Growth   is what comes after the warm-up (each request once, and a
 * sixth of the time) above the most until then (soak_numbers.h).
 */
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "soak_faults.h"
#include "soak_machine.h"
#include "soak_numbers.h"
#include "soak_requests.h"
#include "store/store_internal.h"

#define SECOND_NS 1000000000ull
#define MI 0x1p20
#define GROWTH_BYTES (1u << 20) /* of resident memory: pages of the program that are used for the first time */
#define LINE_S 60
#define FAILURES_SHOWN 20

enum stop { STOP_NONE, STOP_BY_ANSWER, STOP_AT_TOKEN, STOP_IN_PROMPT, STOP_BY_ALARM, STOP_COUNT };

struct soak {
    const char *path;
    uint64_t seconds, seed, ram_bytes;
    sluice_reader reader;
    char folder[64]; /* of this run: the machine, and what the program keeps */
    struct soak_table *table;
    sluice_model *model;
    struct soak_machine machine;
    bool machine_lives;
    uint64_t random, begin_ns, free_ns, line_ns; /* free_ns: when each request had its turn */
    uint64_t requests, stopped, tokens, line_tokens, failures;
    struct soak_numbers warm, late; /* the most, until the warm-up's end and after it */
    bool is_warm;
};

static uint64_t draw(struct soak *s, uint64_t below) {
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % below;
}

static void failed(struct soak *s, const char *what, uint32_t k, const char *text) {
    if (s->failures++ < FAILURES_SHOWN)
        (void)printf("FAILED: request %u (number %" PRIu64 "): %s: %s\n", k, s->requests, what, text);
}

/* ---- what goes on beside the requests ---- */

static void print_line(struct soak *s, uint64_t now_ns) {
    struct store_stats stats;
    struct soak_numbers now = soak_numbers_read(s->model);
    const struct expert_cache *cache = &s->model->store->cache;
    uint32_t open = 0;
    for (uint32_t c = 0; c < cache->classes.count; c++)
        open += cache->open[c];
    store_stats_read(s->model->store, &stats);
    (void)printf("%6.0f s: %" PRIu64 " requests (%" PRIu64 " stopped), %" PRIu64 " tokens, %.2f tokens/s; %" PRIu64 " errors and %" PRIu64
                 " short reads injected, %" PRIu64
                 " retries; RSS %.1f, HWM %.1f, RSS beside cache and trunk %.2f, accounted %.2f, heap %.3f MiB; "
                 "another program has %.0f MiB, cache limit %.0f MiB in %u of %u slots, trunk limit %.0f of %.0f MiB, given back %" PRIu64
                 " times; %" PRIu64 " files, %" PRIu64 " threads\n",
                 (double)(now_ns - s->begin_ns) / 1e9, s->requests, s->stopped, s->tokens,
                 (double)(s->tokens - s->line_tokens) * 1e9 / (double)(now_ns - s->line_ns), soak_faults_errors(), soak_faults_shorts(),
                 stats.read_retries, (double)now.rss_bytes / MI, (double)now.peak_bytes / MI, (double)now.rest_bytes / MI,
                 (double)now.accounted_bytes / MI, (double)now.heap_bytes / MI, (double)s->machine.other_bytes / MI,
                 (double)stats.cache_limit_bytes / MI, open, cache->slot_count, (double)stats.trunk_limit_bytes / MI,
                 (double)s->model->memory.placement.keep_bytes / MI, stats.given_back_times, now.files, now.threads);
    s->line_ns = now_ns;
    s->line_tokens = s->tokens;
}

static void live(struct soak *s) {
    uint64_t now_ns = clock_now_ns(), line_s = s->seconds < 12 * LINE_S ? s->seconds / 12 + 1 : LINE_S;
    if (s->machine_lives)
        soak_machine_live(&s->machine);
    if (now_ns >= s->line_ns + line_s * SECOND_NS)
        print_line(s, now_ns);
}

static void pause_for(struct soak *s, uint64_t duration_ns, bool tending) {
    uint64_t end_ns = clock_now_ns() + duration_ns;
    while (clock_now_ns() < end_ns) {
        live(s);
        if (!tending || !sluice_tend(s->model))
            clock_sleep_ns(SECOND_NS / 20);
    }
}

/* ---- one request ---- */

static sluice_model *alarm_model; /* for the handler */
static volatile sig_atomic_t alarmed;

static void on_alarm(int signal_number) {
    (void)signal_number;
    alarmed = 1;
    sluice_cancel(alarm_model);
}

/* 0: never. */
static void set_alarm(uint64_t after_us) {
    const struct itimerval timer = {.it_value = {.tv_sec = (time_t)(after_us / 1000000), .tv_usec = (suseconds_t)(after_us % 1000000)}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

struct asking {
    struct soak *soak;
    const struct soak_request *request;
    enum stop stop;
    uint32_t count, stop_at; /* tokens */
    bool right;
};

static bool on_piece(void *context, const sluice_piece *piece) {
    struct asking *a = context;
    live(a->soak);
    if (piece->token == SLUICE_NO_TOKEN)
        return true;
    a->right = a->right && a->count < a->request->answer_count && soak_same_token(soak_token_of(piece), a->request->answer[a->count]);
    a->count++;
    a->soak->tokens++;
    if (a->stop == STOP_AT_TOKEN && a->count == a->stop_at)
        sluice_cancel(a->soak->model);
    return a->stop != STOP_BY_ANSWER || a->count < a->stop_at;
}

static void on_prompt(void *context, uint32_t done, uint32_t total) {
    struct asking *a = context;
    (void)done;
    (void)total;
    live(a->soak);
    if (a->stop == STOP_IN_PROMPT)
        sluice_cancel(a->soak->model);
}

/* Whether a request may end like this. A cancel that comes with the last token, or behind it, stops nothing. */
static bool may_end(const struct asking *a, sluice_status status, const sluice_result *result) {
    bool whole = status == SLUICE_OK && a->count == a->request->answer_count, stopped = status == SLUICE_CANCELLED;
    switch (a->stop) {
    case STOP_NONE:
        return whole;
    case STOP_BY_ANSWER:
        return status == SLUICE_OK && a->count == a->stop_at && (result->stop == SLUICE_STOP_CALLER || whole);
    case STOP_AT_TOKEN:
        return a->count == a->stop_at && (stopped || whole);
    default:
        return stopped || whole;
    }
}

static void ask(struct soak *s, uint32_t k, enum stop stop) {
    const struct soak_request *r = &s->table->requests[k];
    struct asking asking = {.soak = s, .request = r, .stop = stop, .stop_at = 1 + (uint32_t)draw(s, r->answer_count), .right = true};
    sluice_request request = soak_request_of(s->table, k);
    sluice_result result;
    sluice_error error;
    request.on_piece = on_piece;
    request.on_prompt = on_prompt;
    request.context_pointer = &asking;
    alarmed = 0;
    if (stop == STOP_BY_ALARM)
        set_alarm(1000 + draw(s, 10000000));
    sluice_status status = sluice_generate(s->model, &request, &result, &error);
    set_alarm(0);
    if (alarmed) /* perhaps a moment too late for this request: not for the next one */
        engine_consume_cancel(s->model, STATUS_CANCELLED);
    s->requests++;
    s->stopped += status == SLUICE_CANCELLED || stop == STOP_BY_ANSWER;
    if (!asking.right)
        failed(s, "other ids or probabilities", k, "not those of the clean run");
    if (!may_end(&asking, status, &result))
        failed(s, sluice_status_name(status), k, status == SLUICE_OK ? "ended too early" : error.text);
    store_check(s->model->store);
}

static void look(struct soak *s) {
    sluice_error error;
    char *text;
    struct soak_numbers now = soak_numbers_read(s->model);
    soak_numbers_raise(s->is_warm ? &s->late : &s->warm, &now);
    if (sluice_metrics(s->model, false, &text, &error) != SLUICE_OK)
        failed(s, "metrics", 0, error.text);
    sluice_free(text);
}

/* ---- the run ---- */

static sluice_status load(struct soak *s, bool faults, sluice_error *error) {
    sluice_info info;
    sluice_load_options options = {
        .ram = s->ram_bytes ? SLUICE_RAM_BYTES : SLUICE_RAM_MIN, .ram_bytes = s->ram_bytes, .reader = s->reader, .history = true};
    sluice_status status = sluice_open(s->path, &s->model, error);
    if (status != SLUICE_OK)
        return status;
    sluice_get_info(s->model, &info);
    options.context = info.context < SOAK_CONTEXT ? info.context : SOAK_CONTEXT;
    if (faults)
        engine_set_queue_wrapper(s->model, soak_faults_wrapper(&s->seed));
    return sluice_load(s->model, &options, error);
}

static int cannot(const sluice_error *error) {
    (void)fprintf(stderr, "soak: %s\n", error->text);
    return 2;
}

static int answer_undisturbed(struct soak *s) {
    sluice_error error;
    sluice_status status = load(s, false, &error);
    if (status == SLUICE_OK)
        status = soak_requests_answer(s->table, s->model, s->seed, &error);
    sluice_close(s->model);
    return status == SLUICE_OK ? 0 : cannot(&error);
}

static bool clean_run(struct soak *s) {
    int status;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        status = answer_undisturbed(s);
        (void)fflush(stdout);
        exit(status);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && s->table->whole;
}

static bool is_over(const struct soak *s, double share) {
    return (double)(clock_now_ns() - s->free_ns) >= share * (double)s->seconds * 1e9;
}

static void disturbed_run(struct soak *s) {
    uint32_t k = SOAK_REQUESTS;
    s->begin_ns = s->line_ns = clock_now_ns();
    while (k > 0) {
        ask(s, --k, STOP_NONE);
        look(s);
    }
    s->free_ns = clock_now_ns();
    s->machine_lives = soak_machine_begin(&s->machine, s->folder, s->model, s->seed);
    if (!s->machine_lives)
        failed(s, "machine", 0, s->folder);
    while (!is_over(s, 1) && s->failures < FAILURES_SHOWN) {
        bool goes_on = k % SOAK_TURNS + 1 < SOAK_TURNS && draw(s, 2) == 0;
        k = goes_on ? k + 1 : (uint32_t)draw(s, SOAK_REQUESTS);
        ask(s, k, draw(s, 4) == 0 ? (enum stop)(1 + draw(s, STOP_COUNT - 1)) : STOP_NONE);
        look(s);
        s->is_warm = s->is_warm || is_over(s, 1.0 / 6);
        if (draw(s, 2) == 0)
            pause_for(s, draw(s, 5000) * 1000000, draw(s, 2) == 0);
    }
    pause_for(s, SECOND_NS, true); /* reads ahead come in */
    print_line(s, clock_now_ns());
}

static void hold(struct soak *s, const char *what, double is, double may_be) {
    bool good = is <= may_be;
    (void)printf("%-7s %s: %.3f, at most %.3f\n", good ? "ok" : "FAILED", what, is, may_be);
    s->failures += !good;
}

static void judge(struct soak *s) {
    const struct soak_numbers *warm = &s->warm, *late = &s->late;
    const sluice_plan *plan = &s->model->memory.plan;
    double slack = (double)plan->budget_bytes * 0.02 > 4 * MI ? (double)plan->budget_bytes * 0.02 : 4 * MI;
    const struct expert_cache *cache = &s->model->store->cache;
    uint64_t errors = soak_faults_errors();
    struct store_stats stats;
    store_stats_read(s->model->store, &stats);
    hold(s, "requests that failed or gave other ids or probabilities", (double)s->failures, 0);
    hold(s, "VmHWM, MiB", (double)soak_numbers_read(s->model).peak_bytes / MI, ((double)plan->budget_bytes + slack) / MI);
    hold(s, "VmRSS after the warm-up, MiB", (double)late->rss_bytes / MI, (double)(warm->rss_bytes + GROWTH_BYTES) / MI);
    hold(s, "of it beside cache and trunk, MiB", (double)late->rest_bytes / MI, (double)(warm->rest_bytes + GROWTH_BYTES) / MI);
    hold(s, "accounted, MiB", (double)late->accounted_bytes / MI, (double)warm->accounted_bytes / MI);
    hold(s, "open files", (double)late->files, (double)warm->files);
    hold(s, "threads", (double)late->threads, (double)warm->threads);
    hold(s, "injected errors without a retry, or retries without one",
         errors > stats.read_retries ? (double)(errors - stats.read_retries) : (double)(stats.read_retries - errors), 0);
    bool may_give = cache->slot_count > cache->classes.count || s->model->memory.placement.keep_count > 0;
    bool untouched = may_give && stats.given_back_times == 0;
    hold(s, "things that never came (errors, short reads, scarce memory, requests after the warm-up)",
         (errors == 0) + (soak_faults_shorts() == 0) + untouched + (late->files == 0), 0);
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static int run(struct soak *s) {
    sluice_error error;
    char cache[128];
    (void)snprintf(cache, sizeof cache, "%s/cache", s->folder);
    if (setenv("XDG_CACHE_HOME", cache, 1) != 0 || !clean_run(s))
        return 2;
    if (load(s, true, &error) != SLUICE_OK)
        return cannot(&error);
    const sluice_plan *plan = &s->model->memory.plan;
    (void)printf("soak: %s, %" PRIu64 " s, seed %" PRIu64 ", budget %.1f MiB (cache %.1f), context %u, reader %s, isa %s, %u threads\n",
                 s->path, s->seconds, s->seed, (double)plan->budget_bytes / MI, (double)plan->cache_bytes / MI, plan->context, plan->reader,
                 plan->isa, plan->threads);
    alarm_model = s->model;
    const struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    disturbed_run(s);
    judge(s);
    sluice_close(s->model);
    s->model = NULL;
    soak_machine_end(&s->machine);
    (void)printf("%s\n", s->failures == 0 ? "PASSED" : "FAILED");
    return s->failures == 0 ? 0 : 1;
}

static bool parse(struct soak *s, int argc, char **argv) {
    static const char *const readers[] = {"best", "uring", "threads", "sync"};
    unsigned place = 0;
    bool good = true;
    for (int i = 1; i < argc && good; i++) {
        struct text value = text_of(i + 1 < argc ? argv[i + 1] : "");
        if (strcmp(argv[i], "--ram") == 0) {
            good = text_parse_size(value, &s->ram_bytes) && ++i;
        } else if (strcmp(argv[i], "--reader") == 0) {
            good = false;
            for (unsigned r = 0; r < sizeof readers / sizeof *readers; r++)
                if (text_is(value, readers[r])) {
                    s->reader = (sluice_reader)r;
                    good = ++i;
                }
        } else if (place == 0) {
            s->path = argv[i];
            place++;
        } else {
            good = place < 3 && text_parse_u64(text_of(argv[i]), place == 1 ? &s->seconds : &s->seed);
            place++;
        }
    }
    return good && s->path && s->seconds > 0;
}

int main(int argc, char **argv) {
    struct soak s = {.seconds = 600, .seed = 1, .folder = "/tmp/sluice-soak-XXXXXX"};
    if (!parse(&s, argc, argv))
        return fprintf(stderr, "usage: soak MODEL [SECONDS [SEED]] [--ram SIZE] [--reader uring|threads|sync]\n"), 2;
    s.random = s.seed;
    s.table = mmap(NULL, sizeof *s.table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.table == MAP_FAILED || !mkdtemp(s.folder))
        return fprintf(stderr, "soak: no memory, or no folder in /tmp\n"), 2;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int status = run(&s);
    sluice_close(s.model);
    (void)nftw(s.folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return status;
}
