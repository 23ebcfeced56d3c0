/*
 * post_processor: the special tokens that a tokenizer puts around a text (BOS and so on), for single texts.
 *
 * Model     ids before and ids behind; of a Sequence at most one member may add tokens. Offsets and pairs of texts play no part here.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"
#include "text/tokenizer.h"

struct post_processor {
    struct token_list before, behind; /* both in the order of the text */
};

/* From the file's object; NULL or JSON null adds nothing. On failure *post is still to be deinitialised. */
MUST_CHECK enum status post_processor_init(struct post_processor *post, const json_t *config, struct error *err);
void post_processor_deinit(struct post_processor *post);
