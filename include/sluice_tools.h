/*
 * sluice_tools: whole operations on paths, for the command-line program and for tests. Not a stable interface.
 *
 * Same conventions as sluice.h.
 */
#ifndef SLUICE_TOOLS_H
#define SLUICE_TOOLS_H

#include <stdio.h>

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The int32 tensor `input_ids` of a safetensors file; freed with sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_read_ids(const char *path, uint32_t **ids, size_t *count, sluice_error *error);
/* Writes the float32 tensor `logits` [count][vocab] of a loaded model to a new safetensors file. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_write_logits(sluice_model *model, const uint32_t *ids, size_t count,
                                                                 const char *out_path, sluice_error *error);
/*
 * A drafter beside a model that is not loaded yet: its files, or with path NULL the prediction layer (MTP) in the model's own. After a
 * failure the model can only be closed.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_open_draft(sluice_model *model, const char *path, sluice_error *error);
/* Tokens that the drafter knows; 0: there is none. */
SLUICE_API uint32_t sluice_tool_draft_vocab(const sluice_model *model);
/*
 * The drafter's logits, row after row: rows 0 to count - 2 guess the token after the next while the given ids are read; `steps` rows more
 * go on from the model's best next token and then from the drafter's own best. on_row may return false to stop.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_draft(sluice_model *model, const uint32_t *ids, size_t count, uint32_t steps,
                                                          bool (*on_row)(void *context, uint32_t row, const float *logits),
                                                          void *context_pointer, sluice_error *error);
/* The same as the tensor `logits` [count - 1 + steps][vocab]; with `target_ids` [vocab] where the drafter numbers tokens in its own way. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_write_draft(sluice_model *model, const uint32_t *ids, size_t count, uint32_t steps,
                                                                const char *out_path, sluice_error *error);
/* What the files hold and what the family makes of them, and what keeps the model from running; tensors: a line for each too. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_inspect(const char *path, bool json, bool tensors, FILE *out, sluice_error *error);
/*
 * Prints whether `generate` (with these options) and `serve` would work here, and how fast at most. path NULL: the machine alone; copies:
 * as for sluice_add_copy, each disk is measured, and all at once. Returns what generate would fail with, SLUICE_OVER_BUDGET when the model
 * does not fit; the report is printed in any case. Measures each disk and the memory for a second, and keeps that in the user's cache
 * folder.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_doctor(const char *path, const char *const *copies, size_t copy_count,
                                                           const sluice_load_options *options, bool json, FILE *out, sluice_error *error);
/*
 * Records which experts a loaded model wants from now on, in a new file, and ends that. Only the end makes the file; closing the model
 * gives it up. A disk that fills up does not stop the model: the end says it. SLUICE_INVALID: the model has no experts.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_trace_begin(sluice_model *model, const char *path, sluice_error *error);
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_trace_end(sluice_model *model, sluice_error *error);
/*
 * Replays such a file through caches of a row of sizes under LRU, LFU, decayed LFU and Belady's rule, and prints hit rates and bytes read
 * per token; svg_path: draws the hit rates too, or NULL. SLUICE_CORRUPT: it is no whole trace.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_trace(const char *path, const char *svg_path, FILE *out, sluice_error *error);
/*
 * How fast the last tokens of a streaming model's answer came, and how fast they could have come: each mixture's missing experts are known
 * when its router has run, and are hidden behind its own compute at best. False: nothing streams, nothing was decoded, or the disk was
 * never measured (sluice_tool_doctor and sluice_metrics do that).
 */
typedef struct {
    uint32_t tokens;
    double tokens_per_s, bound_tokens_per_s, disk_bytes_per_s;
} sluice_bound;
SLUICE_API bool sluice_tool_bound(const sluice_model *model, sluice_bound *bound);
/*
 * Writes a model anew in the order in which it is read: GGUF to one GGUF file, a directory to a directory; type: also quantises its floats
 * ("q4_k", "mlx4", ...), or NULL. Prints what was done. After a stop of any kind the same call goes on; OUT.partial is no model.
 */
typedef struct {
    const char *path, *out, *type;
    uint32_t threads;                                                                             /* 0: all */
    void (*progress)(void *context, const char *what, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *context_pointer;
} sluice_pack_options;
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_pack(const sluice_pack_options *options, FILE *out, sluice_error *error);
/*
 * Reads all of a model and compares it with the checksums of a pack, of its download, or of the first call; a line for each finding.
 * SLUICE_CORRUPT: there are findings. Only sluice-verify links it, with libcrypto.
 */
typedef struct {
    const char *path;
    uint32_t threads;                                                                             /* 0: all */
    void (*progress)(void *context, const char *what, uint64_t done_bytes, uint64_t total_bytes); /* or NULL */
    void *context_pointer;
} sluice_verify_options;
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_verify(const sluice_verify_options *options, FILE *out, sluice_error *error);
/* docs/FAMILIES.md and docs/FORMATS.md, as the program's own tables say it. */
SLUICE_API void sluice_tool_family_table(FILE *out);
SLUICE_API void sluice_tool_format_table(FILE *out);
/* Decodes tensors (all when name_count is 0) to f32 under their own names. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_dump(const char *path, const char *const *names, size_t name_count,
                                                         const char *out_path, sluice_error *error);
/* One JSON object a line in and out, on a tokenizer (directory, tokenizer.json, .gguf). */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_tokenize_jsonl(const char *path, FILE *in, FILE *out, sluice_error *error);
/*
 * One conversation, or one template with its variables, a line in; one prompt a line out. template_path: a Jinja file, or NULL: lines bring
 * templates. tokenizer_path: NULL: no ids. clock: "2025-03-09T14:05:07", or NULL: local time.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_render_jsonl(const char *template_path, const char *tokenizer_path, const char *clock,
                                                                 FILE *in, FILE *out, sluice_error *error);
/* One raw reply a line in, one message a line out. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_parse_reply_jsonl(FILE *in, FILE *out, sluice_error *error);
/* Ids of a text, or text of ids, with a tokenizer alone. Freed with sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_tokenize(const char *path, const char *text, size_t size_bytes, unsigned flags,
                                                             uint32_t **ids, size_t *count, sluice_error *error);
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_detokenize(const char *path, const uint32_t *ids, size_t count, bool skip_special,
                                                               char **text, size_t *size_bytes, sluice_error *error);

/* Prints the ids that may follow the ids of `prefix` in an answer of that form, on one line; path as for sluice_tool_tokenize. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tool_mask(const char *path, const sluice_form *form, const uint32_t *prefix, size_t count,
                                                         FILE *out, sluice_error *error);

#ifdef __cplusplus
}
#endif
#endif
