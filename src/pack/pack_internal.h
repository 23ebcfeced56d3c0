/*
 * pack_internal: one pack under way, for the files that together make it.
 *
 *   pack.c          paths, beginning and end
 *   pack_run.c      the jobs: reading, encoding, hashing, writing, going on
 */
#pragma once

#include <xxhash.h>

#include "base/json.h"
#include "base/thread_pool.h"
#include "pack/file_stream.h"
#include "pack/pack.h"
#include "pack/pack_file.h"
#include "pack/pack_header.h"

struct packing {
    const struct pack_options *options;
    struct file_set *files;
    struct model *model;
    struct pack_plan plan;
    struct pack_header header;
    struct pack_file file;
    struct pack_state state;
    struct thread_pool *pool;
    XXH3_state_t *hashes[3]; /* of the outputs of the job under way */
    /* what is asked for next */
    uint32_t ask_job;
    uint64_t ask_done;
    /* the job under way */
    uint64_t job_done;
    uint8_t *scales;     /* fp8 */
    uint8_t *encoded[3]; /* of a chunk */
    float *rows;         /* [threads][widest matrix] */
    uint64_t widest;
    uint64_t noted_ns, note_pause_ns; /* when the state was written last, how long until the next time */
    uint64_t done_bytes;              /* of the source, for progress */
    bool reads_left;                  /* that may still come: the source's files stay open */
};

/* Runs the jobs from state.jobs_done on. */
MUST_CHECK enum status pack_run(struct packing *p, struct error *err);
/* Hashes the outputs that the state says are there; takes jobs off from the first that differs. */
MUST_CHECK enum status pack_check_done(struct packing *p, struct error *err);

/* Where the output of a job begins in the file. */
static inline uint64_t pack_output_at(const struct packing *p, uint32_t output) {
    return p->header.bytes.size_bytes + p->plan.outputs[output].tensor.offset_bytes;
}
