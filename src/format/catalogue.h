/*
 * catalogue: what a model's files hold, in one neutral form: tensors (name, dtype, outermost-first shape, file, offset) and metadata.
 *
 * Two worlds fill it: GGUF (one file or shards) and Hugging Face / MLX directories (safetensors + config.json and companions).
 * Everything is checked here: after a successful open every tensor lies inside its file and its size fits its shape and dtype.
 *
 * Metadata    GGUF keys as they are ("qwen3.block_count"). config.json is flattened with '/' between levels and list
 *             indices as levels ("rope_parameters/rope_theta", "layer_types" stays an array of texts, "experts/0/size" for objects in
 *             lists); generation_config.json under "generation_config/", tokenizer_config.json is left to the tokenizer.
 *             Lists of plain values of one kind are arrays; any other list is a META_ARRAY of META_ARRAY that tells only its count, and
 *             its items lie under KEY/0, KEY/1 ... JSON null is META_NULL (so "missing" and "null" can be told apart).
 * Threads     immutable after open, except catalogue_drop_arrays and the marks of catalogue_meta_was_asked.
 * Memory      names and metadata live in the catalogue; catalogue_drop_arrays frees the large tokenizer arrays after use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/text.h"
#include "dtype/dtype.h"
#include "io/file_set.h"

#define TENSOR_RANK_MAX 6

struct tensor_entry {
    struct text name;
    enum dtype dtype;
    uint32_t rank;                  /* 0: a scalar of one element */
    uint64_t shape[TENSOR_RANK_MAX]; /* outermost first: a matrix [out][in] is {out, in} in both worlds */
    uint32_t file;                  /* number in the file set */
    uint64_t offset_bytes, size_bytes;
};

enum meta_type { META_NULL, META_BOOL, META_I64, META_U64, META_F64, META_TEXT, META_ARRAY };

struct meta_value {
    enum meta_type type;
    enum meta_type element; /* of META_ARRAY; arrays are of one type, mixed numbers become F64. Nested arrays: META_ARRAY, items hidden */
    union {
        bool boolean;
        int64_t i64;
        uint64_t u64; /* integers that are not negative are META_U64 */
        double f64;
        struct text text;
        struct {
            uint64_t count;
            const void *items; /* see meta_array_*; NULL when hidden or empty */
        } array;
    };
};

enum catalogue_world { CATALOGUE_GGUF, CATALOGUE_HF };

struct catalogue;

/*
 * Opens a model: a .gguf file (any shard of a set opens the whole set), a directory with config.json and safetensors (single or with
 * index), a directory that holds exactly one GGUF model, or one .safetensors file (tensors only). Adds the files to `files`.
 * Errors say what the path looks like when it is no model (HTML page, git-lfs pointer, .part1of2, big-endian GGUF, pickle).
 */
MUST_CHECK enum status catalogue_open(const char *path, struct file_set *files, struct catalogue **out, struct error *err);
void catalogue_close(struct catalogue *catalogue);

enum catalogue_world catalogue_world(const struct catalogue *catalogue);
const char *catalogue_path(const struct catalogue *catalogue); /* as given */
/* Directory with tokenizer.json and so on: the model directory, or the GGUF's folder. */
const char *catalogue_directory(const struct catalogue *catalogue);

uint64_t catalogue_tensor_count(const struct catalogue *catalogue);
const struct tensor_entry *catalogue_tensor(const struct catalogue *catalogue, uint64_t index); /* in file order */
/* Fills order, which has room for all, with the tensors that have bytes, by file and offset; returns how many. */
uint64_t catalogue_by_place(const struct catalogue *catalogue, const struct tensor_entry **order);
const struct tensor_entry *catalogue_find(const struct catalogue *catalogue, struct text name); /* NULL: none */

uint64_t catalogue_meta_count(const struct catalogue *catalogue);
struct text catalogue_meta_key(const struct catalogue *catalogue, uint64_t index);
const struct meta_value *catalogue_meta_at(const struct catalogue *catalogue, uint64_t index);
const struct meta_value *catalogue_meta(const struct catalogue *catalogue, const char *key); /* NULL: missing */
/* Whether catalogue_meta was called for this entry since the open: what nobody asks for, nobody knows. Any thread. */
bool catalogue_meta_was_asked(const struct catalogue *catalogue, uint64_t index);

/* Elements of an array value; numbers convert where exact. False: wrong type or index. */
bool meta_array_text(const struct meta_value *value, uint64_t index, struct text *out);
bool meta_array_f64(const struct meta_value *value, uint64_t index, double *out);
bool meta_array_i64(const struct meta_value *value, uint64_t index, int64_t *out);
bool meta_array_bool(const struct meta_value *value, uint64_t index, bool *out); /* integers 0 and 1 count */
/* Scalars with conversion where exact (1.0 is an integer). False: missing (NULL value), null or another type. */
bool meta_u64(const struct meta_value *value, uint64_t *out);
bool meta_i64(const struct meta_value *value, int64_t *out);
bool meta_f64(const struct meta_value *value, double *out);
bool meta_bool(const struct meta_value *value, bool *out);
bool meta_text(const struct meta_value *value, struct text *out);

/* Frees arrays with more than `limit` items (the tokenizer's lists); those values become META_NULL. */
void catalogue_drop_arrays(struct catalogue *catalogue, uint64_t limit);
/* Bytes that the catalogue itself holds on the heap. */
uint64_t catalogue_size_bytes(const struct catalogue *catalogue);
