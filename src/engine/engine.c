/*
 * engine: include/sluice.h, part one: opening, text, loading, closing.
 */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "engine/engine_internal.h"
#include "engine/machine.h"
#include "engine/machine_speed.h"

#define QUEUE_DEPTH 128 /* requests in flight; the store splits and orders them */
#define LARGE_ARRAY 256 /* metadata lists longer than this are the tokenizer's */
#define END_IDS_MAX 64

_Static_assert((int)SLUICE_INTERNAL == (int)STATUS_INTERNAL && (int)SLUICE_IO == (int)STATUS_IO,
               "public and inner status are the same numbers");
_Static_assert(sizeof(((sluice_error *)0)->text) == sizeof(((struct error *)0)->text), "public and inner error texts are alike");

const char *sluice_version(void) { return "0.1.0"; }
const char *sluice_status_name(sluice_status status) { return status_name((enum status)status); }
void sluice_free(void *memory) { memory_free(memory); }

sluice_status engine_report(enum status status, const struct error *from, sluice_error *to) {
    if (to) {
        to->status = (sluice_status)status;
        (void)snprintf(to->text, sizeof to->text, "%s", status == STATUS_OK ? "" : from->text);
    }
    return (sluice_status)status;
}

/* ---- opening ---- */

static enum status add_end_id(struct sluice_model *m, uint64_t id, struct error *err) {
    for (uint32_t i = 0; i < m->end_id_count; i++)
        if (m->end_ids[i] == id)
            return STATUS_OK;
    if (id >= m->model->plan.vocab || m->end_id_count == END_IDS_MAX)
        return STATUS_OK; /* an id that cannot be chosen ends nothing */
    if (!m->end_ids && !(m->end_ids = memory_alloc_array(END_IDS_MAX, sizeof *m->end_ids)))
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of end tokens");
    m->end_ids[m->end_id_count++] = (uint32_t)id;
    return STATUS_OK;
}

static enum status add_end_ids_of(struct sluice_model *m, const char *key, struct error *err) {
    const struct meta_value *value = catalogue_meta(m->model->catalogue, key);
    uint64_t id;
    int64_t item;
    if (meta_u64(value, &id))
        return add_end_id(m, id, err);
    for (uint64_t i = 0; value && value->type == META_ARRAY && i < value->array.count; i++)
        if (meta_array_i64(value, i, &item) && item >= 0)
            TRY(add_end_id(m, (uint64_t)item, err));
    return STATUS_OK;
}

/* The union of what config.json, generation_config.json and the tokenizer's files name. */
static enum status collect_end_ids(struct sluice_model *m, struct error *err) {
    if (catalogue_world(m->model->catalogue) == CATALOGUE_HF) {
        TRY(add_end_ids_of(m, "eos_token_id", err));
        TRY(add_end_ids_of(m, "text_config/eos_token_id", err));
        TRY(add_end_ids_of(m, "generation_config/eos_token_id", err));
    } else {
        static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            TRY(add_end_ids_of(m, keys[i], err));
    }
    size_t count = 0;
    const uint32_t *ids = m->tokenizer ? tokenizer_end_ids(m->tokenizer, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        TRY(add_end_id(m, ids[i], err));
    return STATUS_OK;
}

static void count_parameters(struct sluice_model *m) {
    const struct plan *plan = &m->model->plan;
    for (uint32_t w = 0; w < plan->weight_count; w++) {
        const struct plan_weight *weight = &plan->weights[w];
        uint64_t one = weight->rows * weight->cols;
        m->parameters += one * (weight->experts ? weight->experts : 1);
        m->active_parameters += weight->rows_only ? 0 : one * (weight->experts ? plan->top_k : 1);
        m->weight_bytes += plan_weight_total_bytes(weight);
    }
    for (uint32_t c = 0; c < plan->constant_count; c++) {
        m->parameters += plan->constants[c].size;
        m->active_parameters += plan->constants[c].size;
    }
}

static enum status open_model(struct sluice_model *m, const char *path, struct error *err) {
    TRY(file_set_create(&m->files, err));
    TRY(model_open(path, m->files, &m->model, err));
    m->file_count = file_set_count(m->files);
    enum status status = tokenizer_open(m->model->catalogue, &m->tokenizer, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    TRY(collect_end_ids(m, err));
    catalogue_drop_arrays(m->model->catalogue, LARGE_ARRAY);
    count_parameters(m);
    return STATUS_OK;
}

sluice_status sluice_open(const char *path, sluice_model **out, sluice_error *error) {
    struct error err = {0};
    *out = NULL;
    if (!path || !*path)
        return engine_report(error_set(&err, STATUS_INVALID, "no model was named: give the path of a GGUF file or a model directory"), &err,
                             error);
    memory_setup();
    struct sluice_model *m = memory_alloc(sizeof *m);
    enum status status = m ? open_model(m, path, &err) : error_set(&err, STATUS_NO_MEMORY, "no memory to open %s", path);
    if (status != STATUS_OK) {
        sluice_close(m);
        return engine_report(status, &err, error);
    }
    m->sequences = 1;
    *out = m;
    return SLUICE_OK;
}

static void unload(struct sluice_model *m) {
    engine_trace_abandon(m);
    pressure_watch_end(&m->pressure);
    engine_history_end(m);
    session_destroy(m->session);
    executor_destroy(m->draft_executor);
    kv_cache_destroy(m->draft_kv);
    recurrent_state_destroy(m->draft_recurrent);
    sampler_destroy(m->sampler);
    executor_destroy(m->executor);
    kv_cache_destroy(m->kv);
    recurrent_state_destroy(m->recurrent);
    backend_destroy(m->backend);
    if (store_destroy(m->store))
        read_queue_destroy(m->queue);
    else
        m->reads_left = true;
    memory_plan_deinit(&m->memory);
    memory_free(m->numbers.token_ns);
    memory_free(m->numbers.hits);
    memory_free(m->numbers.misses);
    m->session = NULL;
    m->draft_executor = NULL;
    m->draft_kv = NULL;
    m->draft_recurrent = NULL;
    m->sampler = NULL;
    m->executor = NULL;
    m->kv = NULL;
    m->recurrent = NULL;
    m->backend = NULL;
    m->store = NULL;
    m->queue = NULL;
    m->numbers = (struct request_numbers){0};
    m->loaded = false;
}

void sluice_close(sluice_model *m) {
    if (!m)
        return;
    unload(m);
    chat_template_close(m->chat);
    token_trie_destroy(m->trie);
    tokenizer_close(m->tokenizer);
    model_close(m->draft_model);
    model_close(m->model);
    if (!m->reads_left)
        file_set_destroy(m->files);
    memory_free(m->end_ids);
    memory_free(m->turn_end_ids);
    memory_free(m);
}

void sluice_get_info(const sluice_model *m, sluice_info *info) {
    const struct plan *plan = &m->model->plan;
    *info = (sluice_info){.family = m->model->arch->name,
                          .vocab = plan->vocab,
                          .context = m->model->context,
                          .layers = plan->layers,
                          .hidden = plan->hidden,
                          .experts = plan->experts,
                          .experts_per_token = plan->top_k,
                          .parameters = m->parameters,
                          .active_parameters = m->active_parameters,
                          .file_bytes = m->weight_bytes,
                          .has_tokenizer = m->tokenizer != NULL,
                          .end_ids = m->end_ids,
                          .end_id_count = m->end_id_count};
}

/* ---- text ---- */

enum status engine_need_tokenizer(const struct sluice_model *m, struct error *err) {
    if (m->tokenizer)
        return STATUS_OK;
    return error_set(err, STATUS_NOT_FOUND,
                     "%s has no tokenizer (no tokenizer.json, tokenizer.model or GGUF vocabulary): work with ids (--ids), or "
                     "put the model's tokenizer.json beside it",
                     catalogue_path(m->model->catalogue));
}

sluice_status sluice_tokenize(sluice_model *m, const char *text, size_t size_bytes, unsigned flags, uint32_t **ids, size_t *count,
                              sluice_error *error) {
    struct error err = {0};
    struct token_list list = {0};
    *ids = NULL;
    *count = 0;
    enum status status = engine_need_tokenizer(m, &err);
    unsigned how = (flags & SLUICE_PLAIN ? TOKENIZE_PLAIN : 0u) | (flags & SLUICE_NO_SPECIAL ? 0u : TOKENIZE_ADD_SPECIAL);
    if (status == STATUS_OK)
        status = tokenizer_encode(m->tokenizer, (struct text){text, size_bytes}, how, &m->cancel, &list, &err);
    engine_consume_cancel(m, status);
    if (status != STATUS_OK) {
        token_list_deinit(&list);
        return engine_report(status, &err, error);
    }
    *ids = list.ids;
    *count = list.count;
    return SLUICE_OK;
}

/* What the buffer holds becomes the caller's, unless `status` is a failure. */
static sluice_status hand_over(enum status status, struct byte_buffer *out, char **text, size_t *size_bytes, struct error *err,
                               sluice_error *error) {
    *text = NULL;
    *size_bytes = 0;
    if (status == STATUS_OK)
        status = byte_buffer_append(out, "", 0, err);
    if (status == STATUS_OK) {
        *size_bytes = out->size_bytes;
        *text = byte_buffer_take(out);
        if (!*text)
            status = error_set(err, STATUS_NO_MEMORY, "no memory for the text");
    }
    byte_buffer_deinit(out);
    return engine_report(status, err, error);
}

sluice_status sluice_detokenize(const sluice_model *m, const uint32_t *ids, size_t count, bool skip_special, char **text,
                                size_t *size_bytes, sluice_error *error) {
    struct error err = {0};
    struct byte_buffer out;
    byte_buffer_init(&out, 1u << 30);
    enum status status = engine_need_tokenizer(m, &err);
    if (status == STATUS_OK)
        status = tokenizer_decode(m->tokenizer, ids, count, skip_special, &out, &err);
    return hand_over(status, &out, text, size_bytes, &err, error);
}

sluice_status sluice_token_bytes(const sluice_model *m, uint32_t id, char **bytes, size_t *size_bytes, sluice_error *error) {
    struct error err = {0};
    struct byte_buffer out;
    byte_buffer_init(&out, 1u << 30);
    enum status status = engine_need_tokenizer(m, &err);
    if (status == STATUS_OK)
        status = tokenizer_token_bytes(m->tokenizer, id, &out, &err);
    return hand_over(status, &out, bytes, size_bytes, &err, error);
}

/* ---- loading ---- */

static enum status plan_memory(const struct sluice_model *m, const sluice_load_options *options, struct memory_plan *plan,
                               struct error *err) {
    const struct model *const models[] = {m->model, m->draft_model};
    TRY(memory_plan_make(
        &(struct memory_request){
            .models = models, .model_count = m->draft_model ? 2 : 1, .sequences = m->sequences, .files = m->files, .options = options},
        plan, err));
    sluice_plan *p = &plan->plan;
    if (p->everything_resident && p->note[0] == 0 && file_set_copies(m->files, 0) > 1)
        (void)snprintf(p->note, sizeof p->note, "all weights fit and are read once, as pages of the first copy: the others are not used");
    return STATUS_OK;
}

sluice_status sluice_make_plan(sluice_model *m, const sluice_load_options *options, sluice_plan *plan, sluice_error *error) {
    struct error err = {0};
    struct memory_plan memory;
    enum status status = plan_memory(m, options, &memory, &err);
    *plan = memory.plan;
    memory_plan_deinit(&memory);
    return engine_report(status, &err, error);
}

static enum status open_queue(struct sluice_model *m, sluice_reader reader, struct error *err) {
    switch (reader) {
    case SLUICE_READER_URING:
        return read_queue_create(READ_QUEUE_URING, m->files, QUEUE_DEPTH, &m->queue, err);
    case SLUICE_READER_THREADS:
        return read_queue_create(READ_QUEUE_THREADS, m->files, QUEUE_DEPTH, &m->queue, err);
    case SLUICE_READER_SYNC:
        return read_queue_create(READ_QUEUE_SYNC, m->files, QUEUE_DEPTH, &m->queue, err);
    case SLUICE_READER_BEST:
        return read_queue_create_best(m->files, QUEUE_DEPTH, &m->queue, err);
    default:
        return error_set(err, STATUS_INVALID, "reader %d: known are 0 to 3", (int)reader);
    }
}

static enum status wrap_queue(struct sluice_model *m, struct error *err) {
    struct read_queue *wrapped;
    if (!m->queue_wrapper.wrap)
        return STATUS_OK;
    TRY(m->queue_wrapper.wrap(m->queue_wrapper.context, m->queue, &wrapped, err));
    m->queue = wrapped;
    return STATUS_OK;
}

/* What doctor measured of the devices of copies, when it did; measuring now would take memory. */
static void note_rates(struct sluice_model *m) {
    struct io_sources devices = machine_speed_devices(m->files);
    for (unsigned i = 0; i < devices.count && file_set_copies(m->files, 0) > 1; i++) {
        const struct io_sources one = {1, {devices.files[i]}};
        struct machine_speed speed;
        if (machine_speed_kept(m->files, &one, m->memory.plan.threads, &speed))
            file_set_note_rate(m->files, one.files[0], speed.probe.disk_bytes_per_s);
    }
}

static enum status load_weights(struct sluice_model *m, const sluice_load_options *options, struct error *err) {
    const struct memory_plan *p = &m->memory;
    note_rates(m);
    TRY(open_queue(m, options->reader, err));
    m->look_ahead = !options->no_lookahead;
    m->memory.plan.reader = m->queue->operations->name;
    TRY(wrap_queue(m, err));
    const struct store_options store = {.files = m->files,
                                        .queue = m->queue,
                                        .records = p->records.records,
                                        .pieces = p->records.pieces,
                                        .record_count = p->records.record_count,
                                        .lives = p->placement.lives,
                                        .stream_order = p->placement.stream_order,
                                        .stream_count = p->placement.stream_count,
                                        .keep_order = p->placement.keep_order,
                                        .keep_count = p->placement.keep_count,
                                        .ring_bytes = p->placement.ring_bytes,
                                        .cache_bytes = p->placement.cache_bytes,
                                        .mapped = p->placement.everything_resident && !m->queue_wrapper.wrap,
                                        .count_usage = options->history,
                                        .read_timeout_ns = m->queue_wrapper.read_timeout_ns,
                                        .lock = true};
    TRY(store_create(&store, &m->store, err));
    return store_load_resident(m->store, options->progress, options->context_pointer, err);
}

/* Caches and an executor for the model-th plan of the process. */
static enum status load_executor(struct sluice_model *m, uint32_t model, struct kv_cache **kv, struct recurrent_state **recurrent,
                                 struct executor **out, struct error *err) {
    const struct memory_plan *p = &m->memory;
    const struct plan *plan = model > 0 ? &m->draft_model->plan : &m->model->plan;
    TRY(kv_cache_create(plan, &p->kv, kv, err));
    TRY(recurrent_state_create(plan, p->kv.sequences, recurrent, err));
    const struct executor_options executor = {.plan = plan,
                                              .model = model,
                                              .records = &p->records,
                                              .store = m->store,
                                              .backend = m->backend,
                                              .kv = *kv,
                                              .target_kv = model > 0 ? m->kv : NULL,
                                              .recurrent = *recurrent,
                                              .max_rows = p->max_rows,
                                              .max_logit_rows = p->logit_rows,
                                              .look_ahead = m->look_ahead,
                                              .context = p->plan.context,
                                              .cancel = &m->cancel,
                                              .between_steps = engine_watch_memory,
                                              .context_pointer = m};
    return executor_create(&executor, out, err);
}

static enum status load_rest(struct sluice_model *m, struct error *err) {
    const struct memory_plan *p = &m->memory;
    TRY(cpu_backend_create(&p->backend, &m->backend, err));
    TRY(load_executor(m, 0, &m->kv, &m->recurrent, &m->executor, err));
    if (m->draft_model)
        TRY(load_executor(m, 1, &m->draft_kv, &m->draft_recurrent, &m->draft_executor, err));
    TRY(session_create(m->executor, 0, p->plan.context, p->max_rows, p->logit_rows, &m->session, err));
    return sampler_create(m->model->plan.vocab, p->backend.isa, &m->sampler, err);
}

enum status engine_open_draft(struct sluice_model *m, const char *path, struct error *err) {
    if (m->loaded || m->draft_model)
        return error_set(err, STATUS_INVALID, "a drafter is opened once, before the model is loaded");
    return model_open_draft(m->model, path, m->files, &m->draft_model, err);
}

void engine_set_sequences(struct sluice_model *m, uint32_t sequences) {
    CHECK(!m->loaded && sequences > 0);
    m->sequences = sequences;
}

void engine_set_queue_wrapper(struct sluice_model *m, struct queue_wrapper wrapper) {
    CHECK(!m->loaded);
    m->queue_wrapper = wrapper;
}

/* Says in the plan that a limit left weights unlocked; another cause of that is not the user's to change. */
static void note_unlocked(struct sluice_model *m) {
    sluice_plan *p = &m->memory.plan;
    uint64_t wanted = p->trunk_bytes + p->cache_bytes + p->staging_bytes, locked = memory_process_read().locked_bytes;
    char some[32], all[32];
    if (p->note[0] == 0 && locked < wanted && machine_memory_read().lock_limit_bytes < wanted)
        (void)snprintf(p->note, sizeof p->note, "%s of %s of weights are locked in memory, `ulimit -l unlimited` before it allows all",
                       text_format_size(locked, some, sizeof some), text_format_size(wanted, all, sizeof all));
}

sluice_status sluice_load(sluice_model *m, const sluice_load_options *options, sluice_error *error) {
    struct error err = {0};
    if (m->loaded)
        return engine_report(error_set(&err, STATUS_INVALID, "this model is loaded already"), &err, error);
    uint64_t start = clock_now_ns();
    enum status status = STATUS_OK;
    if (options->forms && m->tokenizer) /* before the plan, which counts what is there */
        status = engine_need_trie(m->tokenizer, m->model->plan.vocab, m->end_ids, m->end_id_count, &m->trie, &err);
    if (status == STATUS_OK)
        status = plan_memory(m, options, &m->memory, &err);
    if (status == STATUS_OK)
        status = load_weights(m, options, &err);
    if (status == STATUS_OK)
        status = load_rest(m, &err);
    m->load_ns = clock_now_ns() - start;
    m->loaded = status == STATUS_OK;
    if (m->loaded) {
        note_unlocked(m);
        pressure_watch_begin(&m->pressure, "", m->memory.reserve_bytes);
        if (options->history)
            engine_history_begin(m);
    }
    if (status != STATUS_OK)
        unload(m);
    return engine_report(status, &err, error);
}

void sluice_get_plan(const sluice_model *m, sluice_plan *plan) {
    CHECK(m->loaded);
    *plan = m->memory.plan;
}

sluice_status sluice_print_steps(const sluice_model *m, char **text, sluice_error *error) {
    struct error err = {0};
    struct byte_buffer out;
    byte_buffer_init(&out, 64u << 20);
    enum status status = plan_print(&m->model->plan, &out, &err);
    *text = status == STATUS_OK ? byte_buffer_take(&out) : NULL;
    byte_buffer_deinit(&out);
    return engine_report(status, &err, error);
}

void engine_consume_cancel(struct sluice_model *m, enum status status) {
    if (status == STATUS_CANCELLED)
        atomic_store(&m->cancel, false);
}

void sluice_cancel(sluice_model *m) { atomic_store(&m->cancel, true); }
