/* pack_plan: jobs from tensors and their uses, then order, then places. */
#include "pack/pack_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "dtype/encode.h"
#include "model/bind_stored.h"
#include "pack/pack_uses.h"

#define AFFINE_GROUP 64
#define TEXTS_LIMIT ((size_t)1 << 30)
#define SMALL_BYTES ((uint64_t)1 << 20) /* unused tensors below it stand among what is read at load */

static const struct pack_type types[] = {
    {"q4_0", DTYPE_Q4_0, 0, 2},  {"q8_0", DTYPE_Q8_0, 0, 7},  {"q4_k", DTYPE_Q4_K, 0, 14},
    {"q5_k", DTYPE_Q5_K, 0, 16}, {"q6_k", DTYPE_Q6_K, 0, 18}, {"f16", DTYPE_F16, 0, 1},
    {"bf16", DTYPE_BF16, 0, 32}, {"mlx4", DTYPE_COUNT, 4, 0}, {"mlx8", DTYPE_COUNT, 8, 0},
};

const struct pack_type *pack_type_find(const char *name) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

struct build {
    struct pack_plan *plan;
    const struct catalogue *catalogue;
    const struct tensor_use *uses;
    bool hf;
    bool *dropped; /* tensors whose meaning went into another: scales of fp8 */
    uint32_t jobs_max, outputs_max;
};

static enum status grow(void **table, uint32_t count, uint32_t *capacity, size_t element_bytes, struct error *err) {
    if (count < *capacity)
        return STATUS_OK;
    uint32_t larger = *capacity ? *capacity * 2 : 256;
    void *grown = larger > *capacity ? memory_resize(*table, larger, element_bytes) : NULL;
    if (!grown)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a table of %u tensors", larger);
    *table = grown;
    *capacity = larger;
    return STATUS_OK;
}

/* ---- types ---- */

static uint64_t element_count(const struct tensor_entry *t, uint32_t from) {
    uint64_t count = 1;
    for (uint32_t i = from; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

static bool is_plain_float(enum dtype dtype) { return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16; }
static bool is_fp8(enum dtype dtype) { return dtype == DTYPE_F8_E4M3 || dtype == DTYPE_F8_E5M2; }

/* What a matrix of so many columns becomes in GGUF: the type, or one that fits where it does not; DTYPE_COUNT: stays as it is. */
static enum dtype blocks_for(const struct pack_type *type, const struct tensor_use *use, uint64_t cols) {
    bool k = dtype_info(type->blocks)->block_elements == 256;
    enum dtype wanted = use->head && (type->blocks == DTYPE_Q4_K || type->blocks == DTYPE_Q5_K) ? DTYPE_Q6_K : type->blocks;
    if (cols % dtype_info(wanted)->block_elements == 0)
        return wanted;
    return k && cols % 32 == 0 ? DTYPE_Q8_0 : DTYPE_COUNT;
}

/* Whether --type changes the tensor; *to for GGUF. */
static bool changes(const struct build *b, const struct tensor_entry *t, const struct tensor_use *use, enum dtype *to) {
    const struct pack_type *type = b->plan->type;
    *to = DTYPE_COUNT;
    if (!type || !use->weight || use->slice != 0 || use->router || t->rank < 2)
        return false;
    uint64_t cols = t->shape[t->rank - 1];
    bool whole = use->weight->run_rows == 0 &&
                 element_count(t, 0) == use->weight->rows * use->weight->cols * (use->stacked ? use->weight->experts : 1);
    if (use->odd || !(is_plain_float(t->dtype) || (is_fp8(t->dtype) && whole && b->hf)) || cols != use->weight->cols)
        return false;
    if (is_fp8(t->dtype) && (!use->weight->slices[1].row_bytes || use->stacked))
        return false;
    if (b->hf)
        return cols % AFFINE_GROUP == 0;
    *to = blocks_for(type, use, cols);
    return *to != DTYPE_COUNT && *to != t->dtype;
}

static bool is_float_matrix(const struct tensor_entry *t, const struct tensor_use *use) {
    return use->weight && use->slice == 0 && !use->router && t->rank >= 2 && (is_plain_float(t->dtype) || is_fp8(t->dtype));
}

/* ---- outputs ---- */

static enum status add_output(struct build *b, const struct tensor_entry *tensor, struct text name, struct error *err) {
    struct pack_plan *plan = b->plan;
    TRY(grow((void **)&plan->outputs, plan->output_count, &b->outputs_max, sizeof *plan->outputs, err));
    char *copy = arena_alloc(plan->texts, name.size_bytes + 1);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the names of a pack's tensors");
    memcpy(copy, name.data, name.size_bytes);
    struct pack_output *out = &plan->outputs[plan->output_count++];
    out->tensor = *tensor;
    out->tensor.name = (struct text){copy, name.size_bytes};
    if (!dtype_size(tensor->dtype, element_count(tensor, 0), &out->tensor.size_bytes))
        return error_set(err, STATUS_INTERNAL, "tensor %.*s is no whole number of blocks of %s", TEXT_ARGUMENTS(name),
                         dtype_info(tensor->dtype)->name);
    return STATUS_OK;
}

/* MLX: codes, scales, biases under the module's name. */
static enum status add_affine_outputs(struct build *b, const struct tensor_entry *tensor, struct text name, struct error *err) {
    static const char *const endings[] = {".weight", ".scales", ".biases"};
    const struct tensor_entry named = {.name = name};
    struct text module = stored_module(&named);
    enum dtype scale = tensor->dtype == DTYPE_F32 || tensor->dtype == DTYPE_F16 ? tensor->dtype : DTYPE_BF16;
    uint64_t cols = tensor->shape[tensor->rank - 1];
    for (int i = 0; i < 3; i++) {
        char full[400];
        struct tensor_entry out = *tensor;
        int length = snprintf(full, sizeof full, "%.*s%s", (int)module.size_bytes, module.data, endings[i]);
        if (length < 0 || (size_t)length >= sizeof full)
            return error_set(err, STATUS_UNSUPPORTED, "a tensor's name of %zu bytes is too long", name.size_bytes);
        out.dtype = i == 0 ? DTYPE_U32 : scale;
        out.shape[out.rank - 1] = i == 0 ? cols * b->plan->type->affine_bits / 32 : cols / AFFINE_GROUP;
        TRY(add_output(b, &out, (struct text){full, (size_t)length}, err));
    }
    return STATUS_OK;
}

/* ---- jobs ---- */

/* fp8 has its scales beside it; they go into what is made, and nobody asks for them under the new name. */
static void take_scales(struct build *b, struct pack_job *job, const struct tensor_use *use) {
    static const char *const endings[] = {".weight_scale_inv", "_scale_inv", ".weight_scale", "_scale", ".input_scale"};
    const struct plan_weight *weight = use->weight;
    const struct weight_slice *slice = &weight->slices[1];
    struct text module = stored_module(job->source);
    uint64_t group = slice->group_rows > 1 ? slice->group_rows : 1;
    job->scales_file = slice->file;
    job->scales_offset_bytes = slice->offset_bytes;
    job->scales_bytes = (weight->rows + group - 1) / group * slice->row_bytes;
    if (weight->expert_offsets) {
        const uint64_t *place = weight->expert_offsets + 2 * ((uint64_t)use->expert * WEIGHT_SLICES + 1);
        job->scales_file = (uint32_t)place[0];
        job->scales_offset_bytes = place[1];
    }
    job->matrix.format = weight->format;
    job->matrix.scales_row_bytes = (size_t)slice->row_bytes;
    job->matrix.scale_dtype = weight->scale_dtype;
    job->matrix.group_cols = weight->group_cols;
    job->matrix.group_rows = weight->group_rows;
    job->matrix.tensor_scale = weight->expert_scales && use->expert >= 0 ? weight->expert_scales[use->expert] : weight->tensor_scale;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char name[400];
        int length = snprintf(name, sizeof name, "%.*s%s", (int)module.size_bytes, module.data, endings[i]);
        const struct tensor_entry *beside = length > 0 && (size_t)length < sizeof name ? catalogue_find(b->catalogue, text_of(name)) : NULL;
        if (beside)
            b->dropped[beside - catalogue_tensor(b->catalogue, 0)] = true;
    }
}

/* A job over `part` (the tensor, or one expert of it) that makes tensors of that name. */
static enum status add_job(struct build *b, const struct tensor_entry *source, const struct tensor_entry *part, struct text name,
                           int64_t expert, struct error *err) {
    struct pack_plan *plan = b->plan;
    uint64_t index = (uint64_t)(source - catalogue_tensor(b->catalogue, 0));
    const struct tensor_use *use = &b->uses[index];
    enum dtype to;
    TRY(grow((void **)&plan->jobs, plan->job_count, &b->jobs_max, sizeof *plan->jobs, err));
    struct pack_job *job = &plan->jobs[plan->job_count++];
    *job = (struct pack_job){
        .source = source, .offset_bytes = part->offset_bytes, .size_bytes = part->size_bytes, .first_output = plan->output_count};
    bool encodes = changes(b, source, use, &to);
    struct tensor_entry out = *part;
    if (encodes) {
        uint64_t cols = part->shape[part->rank - 1];
        job->method = b->hf ? PACK_AFFINE : PACK_BLOCKS;
        job->matrix = (struct matrix){.format = (unsigned)source->dtype,
                                      .rows = (size_t)(element_count(part, 0) / cols),
                                      .cols = (size_t)cols,
                                      .row_bytes = (size_t)(cols * dtype_info(source->dtype)->block_bytes),
                                      .tensor_scale = 1};
        if (is_fp8(source->dtype))
            take_scales(b, job, use);
        out.dtype = b->hf ? source->dtype : to;
        plan->encoded++;
    }
    TRY(encodes && b->hf ? add_affine_outputs(b, &out, name, err) : add_output(b, &out, name, err));
    job = &plan->jobs[plan->job_count - 1];
    job->output_count = plan->output_count - job->first_output;
    bool aligned = true;
    for (uint32_t i = 0; i < job->output_count; i++)
        aligned = aligned && plan->outputs[job->first_output + i].tensor.size_bytes % PACK_ALIGNMENT == 0;
    bool of_expert = expert >= 0 || use->expert >= 0;
    uint64_t unused_class = part->size_bytes < SMALL_BYTES ? 0 : 9;
    if (b->hf) /* no holes: whole blocks first, and what is small behind the experts */
        job->order[0] = !use->weight ? (unused_class ? 9 : 4) : of_expert ? 2 : aligned ? 1 : 3;
    else
        job->order[0] = !use->weight ? unused_class : of_expert ? 2 : 1;
    job->order[1] = use->weight ? use->step : 0;
    job->order[2] = of_expert ? (uint64_t)(expert >= 0 ? expert : use->expert) : 0;
    job->order[3] = use->place;
    job->order[4] = index;
    return STATUS_OK;
}

/* One expert of a stack after the other. */
static enum status add_split(struct build *b, const struct tensor_entry *t, const struct tensor_use *use, const struct role_names *names,
                             struct error *err) {
    uint32_t experts = use->weight->experts;
    char module[320], name[400];
    struct tensor_entry part = *t;
    part.rank--;
    memmove(part.shape, part.shape + 1, part.rank * sizeof *part.shape);
    part.size_bytes = t->size_bytes / experts;
    /* what follows the role's name: ".weight", ".scales", ... */
    size_t stem = 0;
    for (size_t i = 0; i < t->name.size_bytes; i++)
        if (t->name.data[i] == '.')
            stem = i;
    for (uint32_t e = 0; e < experts; e++) {
        if (!role_single_name(names, use->role, (uint32_t)use->layer, e, module, sizeof module))
            return error_set(err, STATUS_INTERNAL, "no name for expert %u of tensor %.*s", e, TEXT_ARGUMENTS(t->name));
        int length = snprintf(name, sizeof name, "%s%.*s", module, (int)(t->name.size_bytes - stem), t->name.data + stem);
        if (length < 0 || (size_t)length >= sizeof name)
            return error_set(err, STATUS_UNSUPPORTED, "a tensor's name of %zu bytes is too long", t->name.size_bytes);
        part.offset_bytes = t->offset_bytes + e * part.size_bytes;
        TRY(add_job(b, t, &part, (struct text){name, (size_t)length}, (int64_t)e, err));
    }
    return STATUS_OK;
}

static enum status add_jobs(struct build *b, struct error *err) {
    const struct model *model = b->plan->model;
    struct role_names names;
    uint64_t count = catalogue_tensor_count(b->catalogue);
    TRY(role_names_init(&names, b->catalogue, model->arch->roles, params_u32(&model->params, PARAM_LAYER_PARTS, 0), err));
    for (int pass = 0; pass < 2; pass++) /* scales last: by then it is known which are dropped */
        for (uint64_t i = 0; i < count; i++) {
            const struct tensor_entry *t = catalogue_tensor(b->catalogue, i);
            const struct tensor_use *use = &b->uses[i];
            bool late = !(use->weight && use->slice == 0);
            if (late != (pass == 1) || b->dropped[i])
                continue;
            uint32_t before = b->plan->encoded;
            TRY(use->splits ? add_split(b, t, use, &names, err) : add_job(b, t, t, t->name, -1, err));
            if (b->plan->type && before == b->plan->encoded && is_float_matrix(t, use)) {
                b->plan->kept_float++;
                b->plan->kept_fp8 = b->plan->kept_fp8 || is_fp8(t->dtype);
            }
        }
    return STATUS_OK;
}

/* ---- order and places ---- */

static int compare_jobs(const void *a, const void *b) {
    const struct pack_job *x = a, *y = b;
    for (size_t i = 0; i < sizeof x->order / sizeof *x->order; i++)
        if (x->order[i] != y->order[i])
            return x->order[i] < y->order[i] ? -1 : 1;
    return 0;
}

static enum status place(struct build *b, struct error *err) {
    struct pack_plan *plan = b->plan;
    struct pack_output *sorted = memory_alloc_array(plan->output_count + 1, sizeof *sorted);
    if (!sorted)
        return error_set(err, STATUS_NO_MEMORY, "no memory to order %u tensors", plan->output_count);
    qsort(plan->jobs, plan->job_count, sizeof *plan->jobs, compare_jobs);
    uint32_t count = 0;
    for (uint32_t j = 0; j < plan->job_count; j++) {
        struct pack_job *job = &plan->jobs[j];
        plan->source_bytes += job->size_bytes;
        for (uint32_t i = 0; i < job->output_count; i++) {
            struct tensor_entry *out = &sorted[count + i].tensor;
            *out = plan->outputs[job->first_output + i].tensor;
            out->offset_bytes = b->hf ? plan->data_bytes : size_round_up(plan->data_bytes, PACK_ALIGNMENT);
            plan->data_bytes = out->offset_bytes + out->size_bytes;
        }
        job->first_output = count;
        count += job->output_count;
    }
    memory_free(plan->outputs);
    plan->outputs = sorted;
    return STATUS_OK;
}

static void count_layers(struct build *b) {
    const struct plan *plan = &b->plan->model->plan;
    for (uint32_t s = 0; s < plan->step_count; s++)
        b->plan->expert_layers += plan->steps[s].op.kind == OP_EXPERTS;
    uint32_t last = UINT32_MAX;
    for (uint32_t j = 0; j < b->plan->job_count; j++)
        if (b->plan->jobs[j].order[0] == 2 && b->plan->jobs[j].order[1] != last) {
            last = (uint32_t)b->plan->jobs[j].order[1];
            b->plan->split_layers++;
        }
}

static enum status check_type(const struct build *b, struct error *err) {
    const struct pack_type *type = b->plan->type;
    const char *path = catalogue_path(b->catalogue);
    if (type && b->hf != (type->affine_bits > 0))
        return error_set(err, STATUS_INVALID, "%s: is %s, where matrices can be made %s; %s is a type of %s", path,
                         b->hf ? "a directory of safetensors" : "GGUF",
                         b->hf ? "mlx4 or mlx8" : "q4_0, q8_0, q4_k, q5_k, q6_k, f16 or bf16", type->name, b->hf ? "GGUF" : "directories");
    for (uint64_t i = 0; type && b->hf && i < catalogue_tensor_count(b->catalogue); i++) {
        const struct tensor_use *use = &b->uses[i];
        const struct tensor_entry *t = catalogue_tensor(b->catalogue, i);
        if (use->weight && use->slice == 0 && !is_plain_float(t->dtype) && !is_fp8(t->dtype))
            return error_set(
                err, STATUS_UNSUPPORTED,
                "%s: is quantised already (tensor %.*s is %s); --type works on floats: take the original checkpoint, or pack it "
                "without --type",
                path, TEXT_ARGUMENTS(t->name), matrix_format_name(use->weight->format));
    }
    return STATUS_OK;
}

static enum status build(struct build *b, struct error *err) {
    TRY(check_type(b, err));
    TRY(add_jobs(b, err));
    if (b->plan->type && b->plan->encoded == 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: has no matrix that could be made %s: it is quantised already, or its rows are no whole blocks; pack it "
                         "without --type",
                         catalogue_path(b->catalogue), b->plan->type->name);
    TRY(place(b, err));
    count_layers(b);
    return STATUS_OK;
}

enum status pack_plan_build(const struct model *model, const struct pack_type *type, struct pack_plan *out, struct error *err) {
    *out = (struct pack_plan){.model = model, .type = type};
    struct tensor_use *uses = NULL;
    struct build b = {.plan = out, .catalogue = model->catalogue, .hf = catalogue_world(model->catalogue) == CATALOGUE_HF};
    b.dropped = memory_alloc_array((size_t)catalogue_tensor_count(model->catalogue) + 1, sizeof *b.dropped);
    enum status status = b.dropped ? arena_create(TEXTS_LIMIT, &out->texts, err) : error_set(err, STATUS_NO_MEMORY, "no memory for a pack");
    if (status == STATUS_OK)
        status = pack_uses_find(model, &uses, err);
    b.uses = uses;
    if (status == STATUS_OK)
        status = build(&b, err);
    memory_free(uses);
    memory_free(b.dropped);
    if (status != STATUS_OK)
        pack_plan_deinit(out);
    return status;
}

void pack_plan_deinit(struct pack_plan *plan) {
    memory_free(plan->jobs);
    memory_free(plan->outputs);
    arena_destroy(plan->texts);
    *plan = (struct pack_plan){0};
}
