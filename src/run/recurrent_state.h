/*
 * recurrent_state: what recurrent layers (short convolutions, delta rules) keep of each sequence, twice.
 *
 * Model       a sequence has a *committed* copy of all its states, which belongs to a number of tokens (its length), and a second one. A
 *             pass reads the committed copy and writes the second; commit exchanges the two. A pass that fails or is cancelled has
 *             changed nothing that counts. After a commit the second copy is the state before that pass, until the next pass begins.
 *             At length 0 no copy is read: a state begins with zeros.
 * Rollback    to the present length, to where the last pass began, and to 0.
 * Memory      one region, mapped at create, touched when a pass writes. Nothing is allocated later.
 * Threads     one owner.
 */
#pragma once

#include "model/plan.h"
#include "op/op.h"

struct recurrent_state;

/* 0: the plan has no such state. */
uint64_t recurrent_state_bytes(const struct plan *plan, uint32_t sequences);
/* *out is NULL on failure, and when the plan has no such state; then all functions below do nothing and succeed. */
MUST_CHECK enum status recurrent_state_create(const struct plan *plan, uint32_t sequences, struct recurrent_state **out, struct error *err);
void recurrent_state_destroy(struct recurrent_state *state);

/* Views of one state of the plan, for all sequences: [sequences]. */
const struct recurrent_view *recurrent_state_views(const struct recurrent_state *state, uint32_t index);

/* A pass over these rows begins: a sequence's rows stand side by side, in increasing position from its length on, or from 0. */
void recurrent_state_begin(struct recurrent_state *state, const struct op_row *rows, uint32_t count);
/* The pass that began with these rows is done. */
void recurrent_state_commit(struct recurrent_state *state, const struct op_row *rows, uint32_t count);
/* STATUS_UNSUPPORTED, and nothing is changed: the state at `length` is gone. */
MUST_CHECK enum status recurrent_state_rewind(struct recurrent_state *state, uint32_t sequence, uint32_t length, struct error *err);
