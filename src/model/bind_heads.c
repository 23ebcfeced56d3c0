/*
 * bind_heads: a matrix for each head: a stack of them, or rows of a larger matrix that holds several for each head.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/check.h"
#include "base/memory.h"
#include "model/bind_stored.h"

static enum status unsupported(const struct binder *binder, const struct stored *stored, struct error *err) {
    return error_set(
        err, STATUS_UNSUPPORTED,
        "%s: tensor %.*s: in its number format the matrices of single heads cannot be told apart. Take a checkpoint in another "
        "format",
        catalogue_path(binder->catalogue), TEXT_ARGUMENTS(stored->codes->name));
}

/* The heads of a stack lie behind each other in every slice, so that they are one matrix. */
static enum status flatten(const struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err) {
    for (int s = 0; s < WEIGHT_SLICES; s++)
        if (weight->slices[s].region_bytes || (weight->slices[s].group_rows > 1 && weight->rows % weight->slices[s].group_rows != 0))
            return unsupported(binder, stored, err);
    if (weight->expert_scales || weight->group_row_offset)
        return unsupported(binder, stored, err);
    weight->rows *= weight->experts;
    weight->experts = 0;
    for (int s = 0; s < WEIGHT_SLICES; s++)
        weight->slices[s].expert_bytes = 0;
    return STATUS_OK;
}

static enum status take_runs(const struct binder *binder, const struct stored *stored, const struct bind_heads_request *request,
                             struct plan_weight *weight, struct error *err) {
    if (matrix_is_packed_by_columns(weight->format))
        return unsupported(binder, stored, err);
    CHECK(request->first + request->rows <= request->step && weight->group_row_offset == 0);
    weight->rows = request->heads * request->rows;
    weight->run_rows = (uint32_t)request->rows;
    weight->run_step = request->step;
    weight->run_first = request->first;
    return STATUS_OK;
}

enum status bind_heads(struct binder *binder, const struct bind_heads_request *request, uint32_t *out, struct error *err) {
    *out = PLAN_NONE;
    struct stored stored = {.codes = bind_find_codes(binder, request->role, request->layer, -1), .row_step = 1};
    if (!stored.codes)
        return STATUS_OK;
    bool stack = request->step == 0 && stored.codes->rank > 2;
    stored.experts = stack ? request->heads : 0;
    stored.rows = stack ? request->rows : request->heads * (request->step ? request->step : request->rows);
    struct plan_weight weight = {.rows = stored.rows, .cols = request->cols, .experts = stored.experts};
    enum status status = bind_stored(binder, &stored, &weight, err);
    if (status == STATUS_OK && stack)
        status = flatten(binder, &stored, &weight, err);
    else if (status == STATUS_OK && request->step)
        status = take_runs(binder, &stored, request, &weight, err);
    if (status != STATUS_OK) {
        memory_free(weight.expert_scales);
        return status;
    }
    const struct bind_matrix_request name = {.role = request->role, .layer = request->layer};
    return bind_add_weight(binder, &name, &weight, out, err);
}
