/*
 * normalizer: the "normalizer" of a tokenizer.json: text to text, before pre-tokenizer and model.
 *
 * Model     a list of steps; a Sequence is flattened. Each step reads one text and gives another, or says that nothing changed.
 * Threads   immutable after the build; a run needs its own normalizer_work and pattern_matcher.
 * Failure   a kind that is not supported is STATUS_UNSUPPORTED with its name.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"
#include "text/pattern.h"

struct normalizer;

/* From the file's object; NULL or JSON null gives a normalizer without steps. */
MUST_CHECK enum status normalizer_create(const json_t *config, struct normalizer **out, struct error *err);
void normalizer_destroy(struct normalizer *normalizer);
/* Puts a character map (SentencePiece's own bytes) before the other steps. */
MUST_CHECK enum status normalizer_add_charsmap(struct normalizer *normalizer, struct text bytes, struct error *err);

struct normalizer_work { /* kept between runs for their memory */
    struct byte_buffer texts[2];
    bool front_removed; /* the last run took characters away at the front: its result does not begin where the text did */
};
void normalizer_work_init(struct normalizer_work *work);
void normalizer_work_deinit(struct normalizer_work *work);

/* Normalises text (valid UTF-8). *out borrows from text or work until the next run. */
MUST_CHECK enum status normalizer_run(const struct normalizer *normalizer, struct normalizer_work *work, struct pattern_matcher *matcher,
                                      struct text text, struct text *out, struct error *err);
