/*
 * pretokenize: the "pre_tokenizer" of a tokenizer.json: cuts a normalised text into the pieces that the model sees one by one.
 *
 * Model     a list of stages; a Sequence is flattened, ByteLevel and Metaspace become two or three. A stage takes one piece,
 *           cuts or rewrites it, and hands each result to the next stage at once (depth first), so that no list of pieces
 *           exists; the last stage hands to the caller's sink.
 * Threads   immutable after the build; a run needs its own work and matcher.
 * Limits    recursion is as deep as there are stages (at most 24), whatever the text.
 * Failure   a kind that is not supported is STATUS_UNSUPPORTED with its name.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/byte_buffer.h"
#include "base/status.h"
#include "base/text.h"
#include "text/cancel.h"
#include "text/pattern.h"

#define PRETOKENIZE_STAGES_MAX 24u
/* The expression of ByteLevel with use_regex (GPT-2's). */
#define PRETOKENIZE_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

struct pretokenizer;

/* From the file's object; NULL or JSON null gives one without stages: the whole text is one piece. */
MUST_CHECK enum status pretokenizer_create(const json_t *config, struct pretokenizer **out, struct error *err);
void pretokenizer_destroy(struct pretokenizer *pretokenizer);

struct pretokenize_work { /* kept between runs for their memory */
    struct byte_buffer texts[PRETOKENIZE_STAGES_MAX];
};
void pretokenize_work_init(struct pretokenize_work *work);
void pretokenize_work_deinit(struct pretokenize_work *work);

struct pretokenize_run {
    struct pretokenize_work *work;
    struct pattern_matcher *matcher;
    struct cancel_poll *cancel;
    enum status (*sink)(void *context, struct text piece, struct error *err); /* pieces are not empty, in order */
    void *context;
};
/* Cuts text (valid UTF-8). at_start: text begins where the user's text did (Metaspace's scheme "first" asks). */
MUST_CHECK enum status pretokenizer_run(const struct pretokenizer *pretokenizer, const struct pretokenize_run *run, struct text text,
                                        bool at_start, struct error *err);
