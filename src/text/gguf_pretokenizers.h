/*
 * gguf_pretokenizers: the published pre-tokenizers and normalisers behind the names in "tokenizer.ggml.pre".
 *
 * Why separate  a GGUF of a byte-level BPE model keeps only a name. This is the table of names, as data; a new name is a new row.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"

struct gguf_pretokenizer {
    const char *names;      /* separated by spaces */
    const char *normalizer; /* "NFC", or NULL */
    const char *stages[7];  /* expressions of isolated splits, or one of the words below; ByteLevel comes last by itself */
    bool ignore_merges, add_bos;
    bool sentencepiece; /* spaces are marks and bytes fall back to byte tokens; no byte level */
};

/* Stages that are no expression. */
#define GGUF_STAGE_DIGITS "@digits"                     /* every digit by itself */
#define GGUF_STAGE_DIGIT_RUNS "@digit-runs"             /* runs of digits */
#define GGUF_STAGE_PUNCTUATION "@punctuation"           /* every mark by itself */
#define GGUF_STAGE_PUNCTUATION_RUNS "@punctuation-runs" /* runs of marks */
#define GGUF_STAGE_BYTE_LEVEL "@byte-level"             /* ByteLevel here, before later stages */

/* The row of a name ("" is "default"); NULL when it is not known. */
const struct gguf_pretokenizer *gguf_pretokenizer_find(struct text name);
/* {"normalizer", "pre_tokenizer", "decoder"} as a tokenizer.json has them. NULL when out of memory. */
json_t *gguf_pretokenizer_json(const struct gguf_pretokenizer *row);
