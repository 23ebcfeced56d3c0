/*
 * tokenize_jsonl: the loop of `sluice tokenize MODEL --jsonl`: one JSON object a line in, one a line out, in order.
 *
 *   {"text": T}                      -> {"ids", "ids_special", "decoded", "decoded_skip", "decoded_special"}
 *   {"repeat": [P, N]}               -> {"n_ids", "ids_sha256"}: P written N times; the hash is of the ids as little-endian 32-bit words
 *   {"ids": [...], "stream": true}   -> {"steps", "text"}: what each id allows to send; the rest at the end belongs to the last step
 *   {"ids": [...]}                   -> {"decoded", "decoded_skip"}
 *
 * Failure  a line that cannot be answered gives {"error": ...} and the loop goes on; STATUS_IO when `out` cannot be written.
 */
#pragma once

#include <stdio.h>

#include "base/status.h"
#include "text/tokenizer.h"

/* Answers lines until the end of `in`. */
MUST_CHECK enum status tokenize_jsonl(const struct tokenizer *tokenizer, FILE *in, FILE *out, struct error *err);
