/*
 * model: an opened model: catalogue, family, parameters and plan. Immutable once open, but for a drafter that is opened for it.
 */
#pragma once

#include "model/arch.h"
#include "model/plan.h"

struct model {
    struct catalogue *catalogue; /* NULL: a prediction layer, which is in the target's */
    const struct arch_spec *arch;
    struct params params;
    struct plan plan;
    uint32_t context;      /* longest sequence the model was made for */
    uint64_t unused_count; /* tensors in the files that nobody uses */
    char *unused_names;    /* the first 50 of them, one a line; owned */
};

/* Opens, resolves the family, binds all tensors and builds the plan. *out is NULL on failure. Adds files to `files`, which must outlive it.
 */
MUST_CHECK enum status model_open(const char *path, struct file_set *files, struct model **out, struct error *err);
/*
 * Opens a drafter for a model that is not loaded yet: from its own files, or with path NULL the prediction layer in the target's. The
 * target's plan is built anew: it keeps what the drafter reads of it. After a failure the target must be closed. The target must outlive
 * it.
 */
MUST_CHECK enum status model_open_draft(struct model *target, const char *path, struct file_set *files, struct model **out,
                                        struct error *err);
void model_close(struct model *model);

/* Names of required tensors that are not in the files of a model that does not open, one a line (200 at most); nothing where another
 * reason keeps it from opening. */
MUST_CHECK enum status model_list_missing(const char *path, struct byte_buffer *out, struct error *err);
