/* pack_uses: the slices of the plan's weights, looked up among the tensors by their places. */
#include "pack/pack_uses.h"

#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/bind_stored.h"
#include "model/param.h"

struct finder {
    const struct model *model;
    const struct tensor_entry **order; /* by file and offset */
    uint64_t count;
    struct tensor_use *uses;
    struct role_names names;
};

/* The tensor that holds the byte. */
static const struct tensor_entry *tensor_at(const struct finder *f, uint32_t file, uint64_t offset_bytes) {
    uint64_t low = 0, high = f->count;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        const struct tensor_entry *t = f->order[middle];
        if (t->file < file || (t->file == file && t->offset_bytes <= offset_bytes))
            low = middle;
        else
            high = middle;
    }
    const struct tensor_entry *t = f->order[low];
    CHECK(t->file == file && t->offset_bytes <= offset_bytes && offset_bytes - t->offset_bytes < t->size_bytes);
    return t;
}

static struct tensor_use *use_of(const struct finder *f, const struct tensor_entry *tensor) {
    return &f->uses[tensor - catalogue_tensor(f->model->catalogue, 0)];
}

static bool ends_with(const char *name, const char *ending) { return text_ends_with(text_of(name), text_of(ending)); }

/* Notes a slice of a weight; the first use gives the place. */
static void note(struct finder *f, uint32_t step, uint32_t matrix, uint32_t slice, int32_t expert, uint64_t offset_bytes, uint32_t file) {
    const struct plan_step *s = &f->model->plan.steps[step];
    const struct plan_weight *weight = &f->model->plan.weights[s->weight[matrix]];
    const struct tensor_entry *tensor = tensor_at(f, file, offset_bytes);
    struct tensor_use *use = use_of(f, tensor);
    if (!use->weight)
        *use = (struct tensor_use){.weight = weight,
                                   .step = step,
                                   .place = matrix * WEIGHT_SLICES + slice,
                                   .layer = s->layer,
                                   .expert = expert,
                                   .slice = slice,
                                   .role = ROLE_COUNT,
                                   .stacked = weight->experts > 0 && expert < 0};
    use->head = use->head || (s->op.kind == OP_MATMUL && weight->layer < 0);
    use->router = use->router || ends_with(weight->name, "ffn_gate_inp") || ends_with(weight->name, "ffn_gate_inp_shexp");
    use->odd = use->odd || weight->col_bytes || weight->slices[slice].region_bytes;
}

static void note_weight(struct finder *f, uint32_t step, uint32_t matrix) {
    const struct plan_weight *weight = &f->model->plan.weights[f->model->plan.steps[step].weight[matrix]];
    for (uint32_t s = 0; s < WEIGHT_SLICES; s++) {
        if (weight->slices[s].row_bytes == 0)
            continue;
        if (!weight->expert_offsets) {
            note(f, step, matrix, s, -1, weight->slices[s].offset_bytes, weight->slices[s].file);
            continue;
        }
        for (uint32_t e = 0; e < weight->experts; e++) {
            const uint64_t *place = weight->expert_offsets + 2 * ((uint64_t)e * WEIGHT_SLICES + s);
            note(f, step, matrix, s, (int32_t)e, place[1], (uint32_t)place[0]);
        }
    }
}

/* The names that are looked for beside an expert's own. */
static bool has_usual_ending(struct text name) {
    return text_ends_with(name, TEXT(".weight")) || text_ends_with(name, TEXT(".scales")) || text_ends_with(name, TEXT(".biases"));
}

/* Whether a stacked weight can be a tensor for each expert; notes the role under which those are found. */
static bool can_split(struct finder *f, const struct plan_step *step, uint32_t matrix, bool fused) {
    static const enum role roles[3] = {ROLE_EXPERT_GATE, ROLE_EXPERT_UP, ROLE_EXPERT_DOWN};
    const struct plan_weight *weight = &f->model->plan.weights[step->weight[matrix]];
    enum role role = fused && matrix < 2 ? ROLE_EXPERT_GATE_UP : roles[matrix];
    char name[320];
    if (weight->expert_offsets || weight->experts < 2 || weight->expert_scales || weight->col_bytes ||
        !role_single_name(&f->names, role, (uint32_t)step->layer, 0, name, sizeof name))
        return false;
    for (uint32_t s = 0; s < WEIGHT_SLICES; s++) {
        if (weight->slices[s].row_bytes == 0)
            continue;
        const struct tensor_entry *t = tensor_at(f, weight->slices[s].file, weight->slices[s].offset_bytes);
        if (weight->slices[s].region_bytes || !has_usual_ending(t->name) || t->rank < 2 || t->shape[0] != weight->experts ||
            t->size_bytes != weight->slices[s].expert_bytes * weight->experts)
            return false;
        use_of(f, t)->role = role;
    }
    return true;
}

static void mark_splits(struct finder *f, const struct plan_step *step) {
    bool splits = true, fused = false;
    const struct tensor_entry *first[3] = {NULL};
    for (uint32_t m = 0; m < 3; m++)
        if (step->weight[m] != PLAN_NONE) {
            const struct weight_slice *codes = &f->model->plan.weights[step->weight[m]].slices[0];
            first[m] = tensor_at(f, codes->file, codes->offset_bytes);
        }
    fused = first[0] && first[0] == first[1];
    for (uint32_t m = 0; m < 3; m++)
        splits = splits && (!first[m] || can_split(f, step, m, fused));
    for (uint32_t m = 0; m < 3 && splits; m++)
        for (uint32_t s = 0; first[m] && s < WEIGHT_SLICES; s++) {
            const struct weight_slice *slice = &f->model->plan.weights[step->weight[m]].slices[s];
            if (slice->row_bytes)
                use_of(f, tensor_at(f, slice->file, slice->offset_bytes))->splits = true;
        }
}

static enum status find(struct finder *f, struct error *err) {
    const struct model *model = f->model;
    f->count = catalogue_by_place(model->catalogue, f->order);
    TRY(role_names_init(&f->names, model->catalogue, model->arch->roles, params_u32(&model->params, PARAM_LAYER_PARTS, 0), err));
    for (uint32_t s = 0; s < model->plan.step_count; s++) {
        const struct plan_step *step = &model->plan.steps[s];
        for (uint32_t m = 0; m < OP_WEIGHTS_MAX; m++)
            if (step->weight[m] != PLAN_NONE)
                note_weight(f, s, m);
        if (step->op.kind == OP_EXPERTS)
            mark_splits(f, step);
    }
    return STATUS_OK;
}

enum status pack_uses_find(const struct model *model, struct tensor_use **out, struct error *err) {
    uint64_t count = catalogue_tensor_count(model->catalogue);
    struct finder f = {.model = model};
    f.order = memory_alloc_array((size_t)count + 1, sizeof *f.order);
    f.uses = memory_alloc_array((size_t)count + 1, sizeof *f.uses);
    enum status status =
        f.order && f.uses ? find(&f, err) : error_set(err, STATUS_NO_MEMORY, "no memory to order %llu tensors", (unsigned long long)count);
    memory_free(f.order);
    *out = f.uses;
    if (status != STATUS_OK) {
        memory_free(f.uses);
        *out = NULL;
    }
    return status;
}
