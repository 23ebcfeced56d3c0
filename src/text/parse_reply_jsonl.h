/*
 * parse_reply_jsonl: `sluice parse-reply --jsonl`: one raw reply a line in, one message a line out.
 *
 * In     {family, raw, reasoning_opened, tools: [...] or null, split: "all"}. split "all": the reply is also fed one byte at a time, and
 *        the two results must be equal.
 * Out    {content, reasoning_content, tool_calls: [{id, type, function: {name, arguments}}]}, or {error}.
 */
#pragma once

#include <stdio.h>

#include "base/status.h"

/* Runs until in ends. */
MUST_CHECK enum status parse_reply_jsonl(FILE *in, FILE *out, struct error *err);
