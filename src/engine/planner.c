/*
 * planner: sizes and choices.
 */
#include "engine/planner.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "engine/machine.h"
#include "generate/grammar_constraint.h"
#include "generate/sampler.h"
#include "store/weight_store.h"

#define CHUNK_DEFAULT 512
#define CHUNK_MIXTURE 2048  /* at most, where this gives an expert: */
#define EXPERT_ROWS 128     /* rows of activations, for which its weights are unpacked once */
#define CHUNK_STREAMED 4096 /* where every chunk reads weights again: */
#define CHUNK_SHARE 32      /* then activations of more than CHUNK_DEFAULT rows may take this part of memory */
#define CHUNK_SMALLEST 8    /* below this a prompt is hardly faster than decoding */
#define CONTEXT_DEFAULT 4096
#define THREADS_MAX 256
#define OVERHEAD_BYTES (1536u << 10)      /* code pages not touched yet, rings, stdio, allocator slack */
#define PROCESS_VARIES_BYTES (384u << 10) /* from run to run: which pages of libraries are mapped along (measured: 250 KiB) */
#define OVERHEAD_THREAD_BYTES (64u << 10) /* touched stack, TLS */
#define OVERHEAD_RECORD_BYTES 192         /* the store's tables per record */
#define RESERVE_BYTES (512ull << 20)      /* --ram auto leaves the machine this much or a tenth, whichever is more */

struct planner {
    const struct model *model; /* the first of these */
    const struct plan *plans[PLANS_MAX];
    uint32_t plan_count, sequences;
    const struct file_set *files;
    const sluice_load_options *options;
    struct memory_plan *out;
    uint64_t budget_bytes;
};

/* ---- options ---- */

static enum status choose_isa(const struct planner *p, enum cpu_isa *isa, struct error *err) {
    *isa = cpu_isa_best();
    while (*isa > CPU_ISA_REF && !cpu_backend_available(*isa))
        (*isa)--;
    if (!p->options->isa)
        return STATUS_OK;
    for (enum cpu_isa i = 0; i < CPU_ISA_COUNT; i++)
        if (strcmp(cpu_isa_name(i), p->options->isa) == 0) {
            *isa = i;
            return cpu_backend_available(i) ? STATUS_OK
                                            : error_set(err, STATUS_UNSUPPORTED,
                                                        "--isa %s: this processor or this version lacks it (try 'ref', "
                                                        "or leave the choice to the program)",
                                                        p->options->isa);
        }
    return error_set(err, STATUS_INVALID, "--isa %s: known are ref, avx2, avx512, amx, neon, dotprod, i8mm", p->options->isa);
}

static enum status check_formats(const struct planner *p, enum cpu_isa isa, struct error *err) {
    for (uint32_t i = 0; i < p->plan_count; i++)
        for (uint32_t w = 0; w < p->plans[i]->weight_count; w++) {
            const struct plan_weight *weight = &p->plans[i]->weights[w];
            if (!cpu_backend_supports(isa, p->options->exact, weight->format))
                return error_set(err, STATUS_UNSUPPORTED, "%s: weight %s%s has number format %s, for which there is no product yet",
                                 catalogue_path(p->model->catalogue), i > 0 ? "of the drafter: " : "", weight->name,
                                 matrix_format_name(weight->format));
        }
    return STATUS_OK;
}

static enum status read_options(struct planner *p, struct error *err) {
    const sluice_load_options *o = p->options;
    struct memory_plan *out = p->out;
    if (o->threads > THREADS_MAX)
        return error_set(err, STATUS_INVALID, "--threads %u: at most %u", o->threads, THREADS_MAX);
    out->plan.context = o->context ? o->context : p->model->context < CONTEXT_DEFAULT ? p->model->context : CONTEXT_DEFAULT;
    out->backend.threads = out->plan.threads = o->threads ? o->threads : cpu_count();
    TRY(choose_isa(p, &out->backend.isa, err));
    TRY(check_formats(p, out->backend.isa, err));
    out->plan.isa = cpu_isa_name(out->backend.isa);
    out->plan.reader = "";
    return STATUS_OK;
}

/* ---- budget ---- */

static void note(struct planner *p, const char *text, uint64_t bytes) {
    char size[32];
    (void)snprintf(p->out->plan.note, sizeof p->out->plan.note, text, text_format_size(bytes, size, sizeof size));
}

static void choose_budget(struct planner *p) {
    struct machine_memory machine = machine_memory_read();
    struct memory_process self = memory_process_read();
    uint64_t reserve = machine.total_bytes / 10 > RESERVE_BYTES ? machine.total_bytes / 10 : RESERVE_BYTES;
    if (reserve > machine.available_bytes / 2)
        reserve = machine.available_bytes / 2; /* a small machine: half of what is free */
    switch (p->options->ram) {
    case SLUICE_RAM_BYTES:
        p->budget_bytes = p->options->ram_bytes;
        if (p->budget_bytes > machine.total_bytes) {
            p->budget_bytes = machine.total_bytes;
            note(p, "the budget was lowered to the %s that this machine or its control group has", machine.total_bytes);
        }
        break;
    case SLUICE_RAM_AUTO:
        p->budget_bytes = machine.available_bytes - reserve + self.rss_bytes;
        p->out->reserve_bytes = machine.known ? reserve : 0;
        if (!machine.known)
            note(p, "the system does not tell how much memory is free: a budget of %s is assumed", p->budget_bytes);
        break;
    case SLUICE_RAM_ALL:
        p->budget_bytes = UINT64_MAX;
        break;
    case SLUICE_RAM_MIN:
    default:
        p->budget_bytes = 0; /* becomes the minimum */
    }
}

/* ---- sizes ---- */

static void set_rows(struct planner *p, uint32_t rows) {
    struct memory_plan *out = p->out;
    out->max_rows = rows;
    out->logit_rows = p->options->logit_rows ? p->options->logit_rows : 1;
    out->logit_rows = out->logit_rows > rows ? rows : out->logit_rows;
    out->kv = (struct kv_options){.sequences = p->sequences, .context = out->plan.context, .rewind_rows = rows, .exact = p->options->exact};
    out->backend.limits = executor_limits(p->plans, p->plan_count, &out->kv, rows, p->options->exact);
    out->plan.chunk = rows;
    out->plan.kv_bytes = 0;
    out->plan.activation_bytes = cpu_backend_scratch_bytes(&out->backend) + sampler_bytes(p->plans[0]->vocab);
    for (uint32_t i = 0; i < p->plan_count; i++) {
        out->plan.kv_bytes += kv_cache_bytes(p->plans[i], &out->kv) + recurrent_state_bytes(p->plans[i], out->kv.sequences);
        out->plan.activation_bytes += executor_arena_bytes(p->plans[i], rows, out->logit_rows);
    }
}

static uint64_t fixed_bytes(const struct memory_plan *out) {
    return out->plan.process_bytes + out->plan.kv_bytes + out->plan.activation_bytes + STORE_STAGING_BYTES;
}

static uint64_t total_weight_bytes(const struct memory_plan *out) {
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < out->records.record_count; r++)
        bytes += out->records.placements[r].memory_bytes;
    return bytes;
}

static uint32_t largest_chunk(const struct planner *p, uint32_t unasked) {
    uint32_t rows = p->options->chunk ? p->options->chunk : unasked;
    return rows > p->out->plan.context ? p->out->plan.context : rows;
}

/* With all weights in memory: larger ones find outputs less in caches, smaller ones unpack each expert's weights for few rows. */
static uint32_t chunk_in_memory(const struct planner *p) {
    uint32_t rows = CHUNK_DEFAULT;
    for (uint32_t i = 0; i < p->plan_count; i++)
        while (rows < CHUNK_MIXTURE && (uint64_t)rows * p->plans[i]->top_k < (uint64_t)EXPERT_ROWS * p->plans[i]->experts)
            rows *= 2;
    return rows;
}

static bool may_shrink(const struct planner *p, uint32_t rows) { return p->options->chunk == 0 && rows > CHUNK_SMALLEST; }

static enum status build_records(struct planner *p, bool with_row_tables, struct error *err) {
    record_table_deinit(&p->out->records);
    return record_table_build(p->plans, p->plan_count, p->files, with_row_tables, &p->out->records, err);
}

static enum status place(struct planner *p, uint64_t budget_bytes, struct error *err) {
    const struct record_table *records = &p->out->records;
    struct placement_input input = {.records = records->placements,
                                    .record_count = records->record_count,
                                    .stream_order = records->stream_order,
                                    .stream_count = records->stream_count,
                                    .stream_leases = 1,
                                    .budget_bytes = budget_bytes};
    for (uint32_t i = 0; i < p->plan_count; i++) {
        input.top_k = p->plans[i]->top_k > input.top_k ? p->plans[i]->top_k : input.top_k;
        input.expert_layers += p->plans[i]->expert_layers;
    }
    placement_deinit(&p->out->placement);
    return placement_plan(&input, &p->out->placement, err);
}

/* The largest chunk whose activations take at most their share of what the process leaves, and leave the weights what they need. */
static enum status place_part(struct planner *p, struct error *err) {
    uint32_t rows = largest_chunk(p, CHUNK_STREAMED);
    uint64_t left = p->budget_bytes - p->out->plan.process_bytes;
    for (;;) {
        set_rows(p, rows);
        bool last = !may_shrink(p, rows);
        if (last || p->out->plan.activation_bytes <= left / (rows > CHUNK_DEFAULT ? CHUNK_SHARE : 8)) {
            uint64_t fixed = fixed_bytes(p->out);
            enum status status = place(p, p->budget_bytes > fixed ? p->budget_bytes - fixed : 0, err);
            if (status != STATUS_OVER_BUDGET || last)
                return status;
        }
        uint32_t least = rows > CHUNK_DEFAULT ? CHUNK_DEFAULT : CHUNK_SMALLEST;
        rows = rows / 2 > least ? rows / 2 : least;
    }
}

/* Everything in memory, if the budget allows it with a useful chunk. */
static enum status try_everything(struct planner *p, bool *done, struct error *err) {
    *done = false;
    TRY(build_records(p, true, err));
    uint64_t weights = total_weight_bytes(p->out);
    uint32_t rows = largest_chunk(p, chunk_in_memory(p));
    for (;;) {
        set_rows(p, rows);
        if (p->budget_bytes >= fixed_bytes(p->out) + weights || p->budget_bytes == UINT64_MAX)
            break;
        if (!may_shrink(p, rows) || rows <= 64)
            return STATUS_OK;
        rows /= 2;
    }
    *done = true;
    return place(p, UINT64_MAX, err);
}

static enum status smallest_budget(struct planner *p, uint64_t *minimum_bytes, struct error *err) {
    uint32_t rows = largest_chunk(p, CHUNK_DEFAULT);
    set_rows(p, may_shrink(p, rows) ? CHUNK_SMALLEST : rows);
    enum status status = place(p, 0, err); /* says how much the weights need at least */
    if (status != STATUS_OK && status != STATUS_OVER_BUDGET)
        return status;
    uint64_t minimum = fixed_bytes(p->out) + p->out->placement.minimum_bytes, peak = memory_process_read().peak_rss_bytes;
    *minimum_bytes = minimum > peak ? minimum : peak;
    return STATUS_OK;
}

/* What text_format_size shows of it is enough, also for a process that is some pages larger next time. */
static uint64_t round_up_to_shown(uint64_t bytes) {
    uint64_t unit_bytes = 1;
    bytes += PROCESS_VARIES_BYTES;
    while (bytes / unit_bytes >= 1024)
        unit_bytes *= 1024;
    uint64_t rest = bytes % unit_bytes, tenths = rest * 10 / unit_bytes + 1;
    return bytes - rest + tenths * unit_bytes / 10;
}

static enum status refuse(struct planner *p, struct error *err) {
    const sluice_plan *plan = &p->out->plan;
    char budget[32], minimum[32], process[32], kv[32], activations[32];
    return error_set(
        err, STATUS_OVER_BUDGET,
        "a budget of %s is too small for %s: the process takes %s, keys and values for %u tokens %s, activations %s, and some weights "
        "must be in memory at a time. The smallest that works is %s (--ram min)%s",
        text_format_size(p->budget_bytes, budget, sizeof budget), catalogue_path(p->model->catalogue),
        text_format_size(plan->process_bytes, process, sizeof process), plan->context, text_format_size(plan->kv_bytes, kv, sizeof kv),
        text_format_size(plan->activation_bytes, activations, sizeof activations),
        text_format_size(round_up_to_shown(plan->minimum_bytes), minimum, sizeof minimum),
        plan->kv_bytes > plan->process_bytes ? "; a smaller --ctx needs less" : "");
}

/* Of one token's choice, without what memory takes beside the bytes. */
static uint64_t token_expert_bytes(const struct memory_plan *out) {
    const struct placement *placement = &out->placement;
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < out->records.record_count; r++)
        for (uint32_t p = 0; out->records.placements[r].expert && p < out->records.records[r].piece_count; p++)
            bytes += out->records.pieces[out->records.records[r].first_piece + p].size_bytes;
    if (placement->expert_total_bytes == 0)
        return 0;
    return (uint64_t)((double)bytes * (double)placement->token_demand_bytes / (double)placement->expert_total_bytes);
}

static void summarise(struct planner *p) {
    sluice_plan *plan = &p->out->plan;
    const struct placement *placement = &p->out->placement;
    plan->trunk_bytes = placement->resident_bytes;
    plan->cache_bytes = placement->cache_bytes;
    plan->staging_bytes = placement->ring_bytes + STORE_STAGING_BYTES;
    plan->streamed_bytes = placement->streamed_bytes;
    plan->expert_bytes = placement->expert_total_bytes;
    plan->token_expert_bytes = token_expert_bytes(p->out);
    plan->everything_resident = placement->everything_resident;
    plan->cache_useless = placement->cache_useless;
    plan->planned_bytes =
        plan->process_bytes + plan->kv_bytes + plan->activation_bytes + plan->trunk_bytes + plan->cache_bytes + plan->staging_bytes;
    plan->budget_bytes = p->budget_bytes;
}

/* --ram all on a machine that has not got it would end in the out-of-memory killer. */
static enum status check_machine(const struct planner *p, struct error *err) {
    struct machine_memory machine = machine_memory_read();
    const sluice_plan *plan = &p->out->plan;
    char needed[32], total[32];
    if (p->options->ram != SLUICE_RAM_ALL || plan->planned_bytes <= machine.total_bytes)
        return STATUS_OK;
    return error_set(err, STATUS_OVER_BUDGET, "--ram all: %s needs %s, this machine or its control group has %s: use --ram auto or a size",
                     catalogue_path(p->model->catalogue), text_format_size(plan->planned_bytes, needed, sizeof needed),
                     text_format_size(machine.total_bytes, total, sizeof total));
}

enum status memory_plan_make(const struct memory_request *request, struct memory_plan *out, struct error *err) {
    const sluice_load_options *options = request->options;
    *out = (struct memory_plan){0};
    struct planner p = {.model = request->models[0],
                        .plan_count = request->model_count,
                        .sequences = request->sequences,
                        .files = request->files,
                        .options = options,
                        .out = out};
    CHECK(p.plan_count > 0 && p.plan_count <= PLANS_MAX && p.sequences > 0);
    for (uint32_t i = 0; i < p.plan_count; i++)
        p.plans[i] = &request->models[i]->plan;
    TRY(read_options(&p, err));
    TRY(build_records(&p, false, err));
    out->plan.process_bytes = memory_process_read().rss_bytes + OVERHEAD_BYTES + (uint64_t)out->plan.threads * OVERHEAD_THREAD_BYTES +
                              (uint64_t)out->records.record_count * OVERHEAD_RECORD_BYTES + (uint64_t)p.sequences * out->plan.context * 8 +
                              (options->forms ? grammar_constraint_bytes(p.model->plan.vocab) : 0);
    choose_budget(&p);
    TRY(smallest_budget(&p, &out->plan.minimum_bytes, err));
    if (options->ram == SLUICE_RAM_MIN)
        p.budget_bytes = out->plan.minimum_bytes;
    bool done = false;
    if (options->ram != SLUICE_RAM_MIN)
        TRY(try_everything(&p, &done, err));
    if (!done) {
        if (p.budget_bytes < out->plan.minimum_bytes)
            return refuse(&p, err);
        TRY(build_records(&p, false, err));
        TRY(place_part(&p, err));
    }
    summarise(&p);
    return check_machine(&p, err);
}

void memory_plan_deinit(struct memory_plan *plan) {
    placement_deinit(&plan->placement);
    record_table_deinit(&plan->records);
}
