/*
 * pack_uses: for each tensor of a model's files, where the plan uses it first.
 */
#pragma once

#include "model/model.h"
#include "model/role.h"

struct tensor_use {
    const struct plan_weight *weight; /* NULL: no weight of the plan */
    uint32_t step, place;             /* place: matrix of the step and slice, in the order of a record */
    int32_t layer;
    int32_t expert; /* a tensor of one expert; -1: not so */
    uint32_t slice;
    enum role role;         /* of stacked experts */
    bool stacked;           /* experts of a mixture, all in one */
    bool splits;            /* and every stack of the layer can be taken apart */
    bool head, router, odd; /* odd: somebody reads it transposed, by turns or in part */
};

/* [tensor count], in the order of the catalogue; freed with memory_free. */
MUST_CHECK enum status pack_uses_find(const struct model *model, struct tensor_use **out, struct error *err);
