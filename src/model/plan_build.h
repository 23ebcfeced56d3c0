/*
 * plan_build: a family's row + parameters + tensors -> plan.
 */
#pragma once

#include "model/bind.h"

/* Fills binder->plan with all steps of one pass and finishes it. */
MUST_CHECK enum status plan_build(struct binder *binder, struct error *err);
