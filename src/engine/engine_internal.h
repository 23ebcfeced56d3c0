/*
 * engine_internal: the opened model behind include/sluice.h, shared by the engine's files.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "engine/planner.h"
#include "engine/pressure.h"
#include "generate/generate.h"
#include "generate/token_trie.h"
#include "model/model.h"
#include "sluice.h"
#include "text/chat_template.h"
#include "text/reply_markers.h"
#include "text/tokenizer.h"

struct request_numbers {                       /* of the last request, for metrics */
    uint32_t prompt_tokens, reused, generated; /* reused: of the prompt, from an earlier request */
    uint64_t prompt_ns, decode_ns;
    uint64_t *token_ns;      /* [token_capacity] time from the token before, decode only */
    uint64_t *hits, *misses; /* [token_capacity] store totals after each token */
    uint32_t token_count, token_capacity;
    struct store_stats before, after_prompt, after;
};

/* Puts something around the read queue of a load: how tests reach read_queue_faulty.h. Owns `inner` when it succeeds. */
struct queue_wrapper {
    enum status (*wrap)(void *context, struct read_queue *inner, struct read_queue **out, struct error *err); /* NULL: nothing */
    void *context;
    uint64_t read_timeout_ns; /* 0: as always */
};

struct sluice_model {
    struct file_set *files;
    uint32_t file_count; /* of the model: the first ones of the set */
    struct model *model;
    struct model *draft_model;   /* NULL: none */
    struct tokenizer *tokenizer; /* NULL: the model has none */
    struct chat_template *chat;  /* NULL until it is wanted */
    struct token_trie *trie;     /* NULL until an answer has a form */
    uint32_t *end_ids;
    uint32_t end_id_count;
    uint32_t *turn_end_ids; /* with a chat template: also what ends a turn in its family of replies; NULL: as end_ids */
    uint32_t turn_end_id_count;
    uint64_t parameters, active_parameters, weight_bytes;

    struct queue_wrapper queue_wrapper;
    uint32_t sequences; /* of the next load */

    bool loaded, reads_left; /* reads_left: the disk did not answer when weights were unloaded; reads may still use the files */
    struct memory_plan memory;
    struct read_queue *queue;
    struct weight_store *store;
    struct backend *backend;
    struct kv_cache *kv;
    struct recurrent_state *recurrent; /* NULL: the model keeps none */
    struct executor *executor;
    struct session *session;
    struct kv_cache *draft_kv; /* and the drafter's, NULL without one */
    struct recurrent_state *draft_recurrent;
    struct executor *draft_executor;
    struct sampler *sampler;
    uint64_t load_ns;
    struct request_numbers numbers;
    struct pressure_watch pressure;
    uint32_t steps_watched;
    bool look_ahead;
    struct engine_history *history; /* NULL: none is kept */
    struct engine_trace *trace;     /* NULL: nobody wants one */
    atomic_bool cancel;
};

/* A drafter for this model, before sluice_load: its directory, or NULL: the prediction layer in the model's own files. */
MUST_CHECK enum status engine_open_draft(struct sluice_model *model, const char *path, struct error *err);
struct sluice_constraint {
    struct sluice_model *model;
    struct constraint *constraint;
    uint32_t *mask; /* [ceil(vocab / 32)] */
};

/* Makes the trie of the vocabulary, once; ids at or above vocab are left out. */
MUST_CHECK enum status engine_need_trie(const struct tokenizer *tokenizer, uint32_t vocab, const uint32_t *end_ids, uint32_t end_count,
                                        struct token_trie **trie, struct error *err);
/* The reply family by name (NULL: of the chat template). */
MUST_CHECK enum status engine_find_family(struct sluice_model *m, const char *format, bool tools, const struct reply_family **family,
                                          struct error *err);
/* For all loads of this model from now on; before sluice_load. */
void engine_set_queue_wrapper(struct sluice_model *model, struct queue_wrapper wrapper);
/* STATUS_NOT_FOUND with what to do when the model has no tokenizer. */
MUST_CHECK enum status engine_need_tokenizer(const struct sluice_model *m, struct error *err);
/* A call that can be cancelled and ends before a request runs: a cancel that it obeyed is over. */
void engine_consume_cancel(struct sluice_model *m, enum status status);
/* The status and text in the public form. to: or NULL. */
sluice_status engine_report(enum status status, const struct error *from, sluice_error *to);
/* Says in *err, when a request failed because a result was no number, which layer and tensor made it. Returns status. */
enum status engine_explain(struct sluice_model *m, enum status status, struct error *err);
/*
 * Room for so many sequences (1 without this call) in all loads of this model from now on; before sluice_load. The session has the first;
 * rows and sessions of the others go to the executor beside it.
 */
void engine_set_sequences(struct sluice_model *model, uint32_t sequences);
/* Takes a struct sluice_model that is loaded, between two steps: gives memory back, or takes it again (pressure.h). */
void engine_watch_memory(void *model);
/* The history of a model's experts: begins to prefill by it; adds what this load used, and frees. Without one nothing happens. */
void engine_history_begin(struct sluice_model *m);
void engine_history_end(struct sluice_model *m);
/* A plan as metrics and doctor give it; the caller owns it. NULL: no memory. */
json_t *engine_plan_json(const sluice_plan *plan);
/* What the last tokens took, and the least that their compute and misses could take on a disk of this rate. tokens 0: not known. */
struct engine_bound {
    uint32_t tokens;
    double took_s, least_s;
};
void engine_bound_read(const struct sluice_model *m, double disk_bytes_per_s, struct engine_bound *out);
/* Gives a trace up that was begun (sluice_tool_trace_begin) and not ended; its file does not come to be. */
void engine_trace_abandon(struct sluice_model *m);
