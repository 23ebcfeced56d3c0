/*
 * pack_plan: what a pack holds, in which order, and what each tensor of it is made from. Built before anything is written.
 *
 * Model    a *job* reads one range of a source file and makes one *output* (a tensor of the pack) of it, or three (MLX: codes, scales,
 *          biases). Stacked experts become a job for each expert, where the family's names know experts as tensors of their own and every
 *          matrix of the layer can be taken apart; the rest is copied as it is.
 * Order    what is read once at load, weights in the order of a pass, experts by layer, expert and matrix, and what nobody reads. In
 *          safetensors, which have no holes, tensors of whole 4 KiB go first.
 * Memory   borrows the model; texts and arrays are its own.
 */
#pragma once

#include "base/arena.h"
#include "model/model.h"

#define PACK_ALIGNMENT 4096

struct pack_type {
    const char *name;
    enum dtype blocks;    /* of GGUF; DTYPE_COUNT: none */
    unsigned affine_bits; /* of MLX; 0: none */
    uint32_t file_type;   /* general.file_type of GGUF */
};
/* By the name that --type takes; NULL: unknown. */
const struct pack_type *pack_type_find(const char *name);

struct pack_output {
    struct tensor_entry tensor; /* name, dtype, shape, size; offset_bytes counts from the start of the data */
};

enum pack_method { PACK_COPY, PACK_BLOCKS, PACK_AFFINE };

struct pack_job {
    const struct tensor_entry *source;
    uint64_t offset_bytes, size_bytes; /* of its file */
    enum pack_method method;
    uint32_t first_output, output_count;
    /* PACK_BLOCKS, PACK_AFFINE */
    struct matrix matrix; /* without data and scales */
    uint32_t scales_file;
    uint64_t scales_offset_bytes, scales_bytes; /* 0: none */
    uint64_t order[5];
};

struct pack_plan {
    const struct model *model;
    const struct pack_type *type; /* NULL: as it is */
    struct arena *texts;
    struct pack_job *jobs;
    struct pack_output *outputs;
    uint32_t job_count, output_count;
    uint64_t data_bytes;   /* with holes */
    uint64_t source_bytes; /* of all jobs */
    uint32_t encoded;      /* jobs that change the type */
    uint32_t kept_float;   /* matrices that --type leaves as they are, though they are floats: transposed, or of odd widths */
    bool kept_fp8;         /* one of them with scales, which config.json has to explain */
    uint32_t split_layers, expert_layers;
};

/* STATUS_UNSUPPORTED: the type is of another kind of file, or there is nothing to quantise. */
MUST_CHECK enum status pack_plan_build(const struct model *model, const struct pack_type *type, struct pack_plan *out, struct error *err);
void pack_plan_deinit(struct pack_plan *plan);
