/*
 * constraint: the seam for output that must have a form (schema, grammar, choice): which tokens may come next.
 *
 * Model     a constraint follows the tokens of one answer. mask() says what may come after those accepted so far; end tokens are allowed
 *           exactly when the text so far is complete. take_back() undoes accepted tokens, so that drafts can be verified.
 * Threads   one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#define CONSTRAINT_TAKE_BACK_MAX 256

struct constraint;
struct constraint_operations {
    /* Sets bit id of bits [ceil(vocab / 32)] for every token that may come next, clears the others. STATUS_INTERNAL: none may. */
    MUST_CHECK enum status (*mask)(struct constraint *constraint, uint32_t *bits, struct error *err);
    /* The next token of the answer; it was allowed. */
    MUST_CHECK enum status (*accept)(struct constraint *constraint, uint32_t token, struct error *err);
    bool (*is_finished)(const struct constraint *constraint);          /* the text is complete and nothing can follow */
    void (*take_back)(struct constraint *constraint, uint32_t tokens); /* up to CONSTRAINT_TAKE_BACK_MAX, or all */
    void (*reset)(struct constraint *constraint);                      /* to the beginning of an answer */
    void (*destroy)(struct constraint *constraint);
};
struct constraint {
    const struct constraint_operations *operations;
};

static inline void constraint_destroy(struct constraint *constraint) {
    if (constraint)
        constraint->operations->destroy(constraint);
}
