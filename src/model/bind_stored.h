/*
 * bind_stored: how a matrix lies in its files: which tensors beside the codes belong to it, which format they are together, which bytes are
 * its rows.
 *
 * Why separate   bind.c finds a role's tensor and knows what shape the model needs; here the formats are told apart. The tensors themselves
 *                decide (names and shapes); config.json is compared with them where it speaks of a tensor, and a contradiction is an error.
 * Model          *codes* is the tensor that role_find gives for one of the suffixes in bind_find_codes; *companions* have the same name
 *                with another ending. All are marked as used.
 * Errors         STATUS_CORRUPT for shapes that do not fit together, STATUS_UNSUPPORTED for what no product exists for; both name the
 *                tensor and what was found and needed.
 */
#pragma once

#include "model/bind.h"

struct stored {
    const struct tensor_entry *codes;
    uint32_t experts;   /* of a stack; 0: the tensor is one matrix */
    uint64_t rows;      /* of the tensor, of one expert of a stack */
    uint64_t first_row; /* where the weight's rows begin in it */
    uint32_t row_step;  /* 1; n: rows of n matrices alternate and first_row < n */
};

/* The tensor with a role's codes: "<name>.weight", "<name>", "<name>_blocks", "<name>.weight_packed", "<name>.qweight". NULL: none. */
const struct tensor_entry *bind_find_codes(const struct binder *binder, enum role role, uint32_t layer, int64_t expert);
/* Rows of the matrix that codes are of. 0: cannot be told. */
uint64_t bind_stored_rows(const struct binder *binder, const struct tensor_entry *codes);
/* STATUS_UNSUPPORTED: config.json says that the files are quantised in a way that this program does not know. */
MUST_CHECK enum status bind_check_method(const struct binder *binder, struct error *err);

/*
 * Fills format, slices, groups and scales of *weight, whose rows, cols and experts are set. A stack whose experts have tensor scales of
 * their own gets weight->expert_scales, which is the caller's to free after an error too.
 */
MUST_CHECK enum status bind_stored(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err);

/* ---- shared by bind*.c ---- */

void bind_mark_used(struct binder *binder, const struct tensor_entry *tensor);
/* Names the weight after the request's role and adds it to the plan; takes what it owns, also after an error. */
MUST_CHECK enum status bind_add_weight(struct binder *binder, const struct bind_matrix_request *request, struct plan_weight *weight,
                                       uint32_t *out, struct error *err);
/* "tensor N has shape [..], but [..] is needed". */
enum status bind_wrong_shape(const struct binder *binder, const struct tensor_entry *tensor, const char *needed, struct error *err);
uint64_t bind_element_count(const struct tensor_entry *tensor);
/* Elements [first, first + size) of a small tensor as f32; *out is the caller's, NULL after an error. */
MUST_CHECK enum status bind_read_vector(const struct binder *binder, const struct tensor_entry *tensor, uint64_t first, uint64_t size,
                                        float **out, struct error *err);

/* The tensor whose name is the codes' with `ending` in place of the suffix that was found. Marks it as used. NULL: none. */
const struct tensor_entry *stored_companion(struct binder *binder, const struct stored *stored, const char *ending);
/* The name without that suffix: the module. */
struct text stored_module(const struct tensor_entry *codes);
/* Whether the tensor is [rows][cols], with [experts] in front for a stack. cols 0: any, *found_cols gets it. */
bool stored_has_shape(const struct stored *stored, const struct tensor_entry *tensor, uint64_t rows, uint64_t cols, uint64_t *found_cols);
/*
 * A slice over all rows of a tensor, row_bytes each, of which each serves group_rows rows of the matrix; places the weight's rows in it.
 * The shape was checked.
 */
void stored_set_slice(const struct stored *stored, const struct tensor_entry *tensor, uint64_t row_bytes, uint32_t group_rows,
                      struct plan_weight *weight, int slice);
/* One factor for the matrix, or one per expert of a stack; inverse: the file holds its reciprocal. */
MUST_CHECK enum status stored_tensor_scale(struct binder *binder, const struct stored *stored, const struct tensor_entry *scale,
                                           bool inverse, struct plan_weight *weight, struct error *err);
/* STATUS_UNSUPPORTED when no product of integer codes has groups of weight->group_cols. */
MUST_CHECK enum status stored_check_group(const struct binder *binder, const struct stored *stored, const struct plan_weight *weight,
                                          struct error *err);
/* Scale types that products read. */
bool stored_is_scale_dtype(enum dtype dtype);
/* A value of config.json's quantization_config, wherever the wrapper puts it. NULL: none. */
const struct meta_value *stored_config(const struct binder *binder, const char *key);

/* The formats by who publishes them. */
MUST_CHECK enum status bind_mlx(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                                struct plan_weight *weight, struct error *err);
MUST_CHECK enum status bind_float8(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                                   struct plan_weight *weight, struct error *err);
MUST_CHECK enum status bind_int8(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                                 struct plan_weight *weight, struct error *err);
/* Two e2m1 codes in a byte: gpt-oss's _blocks, compressed-tensors' and ModelOpt's nvfp4 and mxfp4. */
MUST_CHECK enum status bind_float4(struct binder *binder, const struct stored *stored, const struct tensor_entry *scales,
                                   struct plan_weight *weight, struct error *err);
MUST_CHECK enum status bind_compressed_int(struct binder *binder, const struct stored *stored, struct plan_weight *weight,
                                           struct error *err);
/* AWQ and GPTQ. */
MUST_CHECK enum status bind_packed(struct binder *binder, const struct stored *stored, struct plan_weight *weight, struct error *err);
