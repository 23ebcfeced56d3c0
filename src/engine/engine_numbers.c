/*
 * engine_numbers: which weight made a result that is no number: what an error says after the fact.
 *
 * Model   the last pass runs again, step by step (run/executor.h); of the first step that makes a number that is not finite, the tensors of
 *         its weights are read and searched. That takes as long as it takes: the request has failed already.
 */
#include <inttypes.h>

#include "base/memory.h"
#include "dtype/scalar_convert.h"
#include "engine/engine_internal.h"

#define DECODE_ELEMENTS (1u << 14) /* a multiple of every block */

struct search {
    const struct sluice_model *model;
    uint8_t *raw;
    float *values;
};

/* The first element that is no number; UINT64_MAX: none, or it cannot be told. */
static uint64_t search_tensor(const struct search *s, const struct tensor_entry *tensor) {
    const struct dtype_info *info = dtype_info(tensor->dtype);
    uint64_t total = tensor->size_bytes / info->block_bytes * info->block_elements;
    struct error ignored;
    if (!info->decode || info->dtype_class == DTYPE_CLASS_INTEGER)
        return UINT64_MAX;
    for (uint64_t done = 0; done < total;) {
        uint64_t count = total - done < DECODE_ELEMENTS ? total - done : DECODE_ELEMENTS,
                 bytes = count / info->block_elements * info->block_bytes;
        if (file_set_read(s->model->files, tensor->file, tensor->offset_bytes + done / info->block_elements * info->block_bytes, s->raw,
                          bytes, &ignored) != STATUS_OK)
            return UINT64_MAX;
        info->decode(s->raw, s->values, count);
        uint64_t good = f32_first_not_finite(s->values, count);
        if (good < count)
            return done + good;
        done += count;
    }
    return UINT64_MAX;
}

static bool holds(const struct tensor_entry *tensor, uint32_t file, uint64_t offset) {
    return tensor->file == file && offset >= tensor->offset_bytes && offset < tensor->offset_bytes + tensor->size_bytes;
}

/* Whether the tensor is one of the weight's: its codes, scales or biases, or those of an expert. */
static bool belongs(const struct plan_weight *weight, const struct tensor_entry *tensor) {
    for (int s = 0; s < WEIGHT_SLICES; s++) {
        const struct weight_slice *slice = &weight->slices[s];
        for (uint32_t e = 0; weight->expert_offsets && e < weight->experts; e++) {
            const uint64_t *place = &weight->expert_offsets[((size_t)e * WEIGHT_SLICES + (size_t)s) * 2];
            if (slice->row_bytes && holds(tensor, (uint32_t)place[0], place[1]))
                return true;
        }
        if (!weight->expert_offsets && slice->row_bytes && holds(tensor, slice->file, slice->offset_bytes + slice->first_bytes))
            return true;
    }
    return false;
}

static enum status name_tensor(const struct tensor_entry *tensor, uint64_t element, struct error *err) {
    uint64_t cols = tensor->rank > 0 ? tensor->shape[tensor->rank - 1] : 1;
    return error_set(err, STATUS_CORRUPT,
                     "tensor %.*s, row %" PRIu64 ", element %" PRIu64
                     " is not a finite number: the weights are damaged; download the file again",
                     TEXT_ARGUMENTS(tensor->name), element / cols, element % cols);
}

static enum status search_step(const struct search *s, const struct plan_step *step, struct error *err) {
    const struct plan *plan = &s->model->model->plan;
    const struct catalogue *catalogue = s->model->model->catalogue;
    for (int w = 0; w < OP_WEIGHTS_MAX; w++)
        for (uint64_t t = 0; step->weight[w] != PLAN_NONE && t < catalogue_tensor_count(catalogue); t++) {
            const struct tensor_entry *tensor = catalogue_tensor(catalogue, t);
            uint64_t element = belongs(&plan->weights[step->weight[w]], tensor) ? search_tensor(s, tensor) : UINT64_MAX;
            if (element != UINT64_MAX)
                return name_tensor(tensor, element, err);
        }
    if (step->op.kind == OP_ATTENTION)
        return error_set(
            err, STATUS_CORRUPT,
            "keys or values passed 65504, the largest number of the cache's f16: --activations f32 keeps them as f32 (slower)");
    return error_set(err, STATUS_CORRUPT,
                     "values grew beyond what a float holds: the weights are damaged, or the model does not work in f32");
}

enum status engine_explain(struct sluice_model *m, enum status status, struct error *err) {
    struct error found;
    uint32_t step;
    if (status != STATUS_CORRUPT)
        return status;
    enum status again = executor_find_not_finite(m->executor, &step, &found);
    again = session_rewind(m->session, 0, NULL) == STATUS_OK ? again : STATUS_INTERNAL; /* the next request shall not go on from this one */
    if (again != STATUS_OK || step == PLAN_NONE)
        return status;
    struct search s = {
        .model = m, .raw = memory_alloc_array(DECODE_ELEMENTS, 8), .values = memory_alloc_array(DECODE_ELEMENTS, sizeof *s.values)};
    if (s.raw && s.values) {
        const struct plan_step *suspect = &m->model->plan.steps[step];
        (void)search_step(&s, suspect, &found);
        if (suspect->layer >= 0)
            (void)error_prefix(&found, "%s: layer %d, %s", catalogue_path(m->model->catalogue), suspect->layer,
                               op_kind_name(suspect->op.kind));
        else
            (void)error_prefix(&found, "%s: %s", catalogue_path(m->model->catalogue), op_kind_name(suspect->op.kind));
        *err = found;
    }
    memory_free(s.raw);
    memory_free(s.values);
    return status;
}
