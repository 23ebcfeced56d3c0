/*
 * sluice: runs language models that are bigger than memory, from disk, and gives exactly the tokens that the fully loaded model would give.
 *
 * How to think of it
 *   A *model* is opened (headers, tokenizer, plan of a pass: milliseconds), then loaded under a memory budget, then asked. Ids and bytes
 *   go in and come out; no tensor is ever seen. The answer to a request depends on the model, the request and its seed, and on nothing
 *   else: not on budget, threads, instruction set, chunk or reader.
 *
 *     sluice_open -> sluice_tokenize -> sluice_load (prints nothing, tells its plan) -> sluice_generate ... -> sluice_close
 *
 * Conventions
 *   Functions that can fail return a status and fill *error (which may be NULL) with one line that says what, where, why and what to do.
 *   Every struct that a caller fills starts with all zeros (SLUICE_INIT): zero means the default everywhere.
 *   One thread uses a model at a time; sluice_cancel and sluice_metrics may be called from any thread.
 *   Memory that the library hands out is freed with sluice_free.
 *   Not stable before 1.0.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_API __attribute__((visibility("default")))
#define SLUICE_CHECKED __attribute__((warn_unused_result))
#define SLUICE_INIT \
    { 0 }

SLUICE_API const char *sluice_version(void);

/* ---- errors ---- */

typedef enum {
    SLUICE_OK = 0,
    SLUICE_INVALID,     /* an argument that cannot be */
    SLUICE_NOT_FOUND,   /* a file, tensor, key or model that is not there */
    SLUICE_IO,          /* the system refused or broke a read, write or open */
    SLUICE_CORRUPT,     /* a file contradicts itself or its format */
    SLUICE_UNSUPPORTED, /* valid, but not for this version */
    SLUICE_NO_MEMORY,   /* the system gave no memory */
    SLUICE_OVER_BUDGET, /* does not fit the budget or the context */
    SLUICE_CANCELLED,   /* sluice_cancel, or a callback said stop */
    SLUICE_INTERNAL,    /* a promise of our own did not hold */
} sluice_status;

typedef struct {
    sluice_status status;
    char text[1000];
} sluice_error;

SLUICE_API const char *sluice_status_name(sluice_status status); /* "not_found" */
SLUICE_API void sluice_free(void *memory);

/* ---- opening ---- */

typedef struct sluice_model sluice_model;

/*
 * Opens a GGUF file (any shard of a set) or a Hugging Face / MLX directory as it was published. Reads headers and tokenizer only.
 * *model is NULL on failure.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_open(const char *path, sluice_model **model, sluice_error *error);
SLUICE_API void sluice_close(sluice_model *model); /* NULL is allowed */
/*
 * Names another copy of the model, best on another disk, right after the model was opened; 7 at most. Weights that are read while it
 * computes are then read from all copies at the same time, and from the others when one fails. It has the same files under the same names:
 * path is the folder that they lie in, or any of them; the copy of a single file may have any name. Headers and samples of the bytes are
 * compared. After a failure the model can only be closed.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_add_copy(sluice_model *model, const char *path, sluice_error *error);

typedef struct {
    const char *family; /* "qwen3_moe"; valid as long as the model */
    uint32_t vocab;     /* ids are below */
    uint32_t context;   /* longest sequence the model was made for */
    uint32_t layers, hidden, experts, experts_per_token;
    uint64_t parameters, active_parameters;
    uint64_t file_bytes; /* of the weights that are used */
    bool has_tokenizer;
    const uint32_t *end_ids; /* generation ends at any of these */
    uint32_t end_id_count;
} sluice_info;
SLUICE_API void sluice_get_info(const sluice_model *model, sluice_info *info);

/* ---- text ---- */

enum {
    SLUICE_PLAIN = 1,      /* added tokens (control words) in the text are ordinary text */
    SLUICE_NO_SPECIAL = 2, /* do not add what the tokenizer adds by itself (BOS and so on) */
};
/* *ids is freed with sluice_free. Bytes that are no UTF-8 count as U+FFFD. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_tokenize(sluice_model *model, const char *text, size_t size_bytes, unsigned flags,
                                                        uint32_t **ids, size_t *count, sluice_error *error);
/* *text is terminated, and freed with sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_detokenize(const sluice_model *model, const uint32_t *ids, size_t count, bool skip_special,
                                                          char **text, size_t *size_bytes, sluice_error *error);

/* The raw bytes of a token inside running text (" the", one byte of a character); none for a control word. *bytes: sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_token_bytes(const sluice_model *model, uint32_t id, char **bytes, size_t *size_bytes,
                                                           sluice_error *error);

/* ---- loading under a budget ---- */

typedef enum {
    SLUICE_RAM_AUTO,  /* what is free now, less a reserve */
    SLUICE_RAM_BYTES, /* ram_bytes for the whole process */
    SLUICE_RAM_ALL,   /* everything in memory */
    SLUICE_RAM_MIN,   /* the smallest budget that works */
} sluice_ram;

typedef enum { SLUICE_READER_BEST, SLUICE_READER_URING, SLUICE_READER_THREADS, SLUICE_READER_SYNC } sluice_reader;

typedef struct {
    sluice_ram ram;
    uint64_t ram_bytes;
    uint32_t threads;    /* 0: one per processor */
    uint32_t context;    /* tokens of a sequence; 0: what the model was made for, 4096 at most */
    uint32_t chunk;      /* prompt tokens per pass; 0: as memory allows; 512 at most, or 4096 when weights are read for each */
    uint32_t logit_rows; /* positions per pass that may give logits; 0: 1 */
    sluice_reader reader;
    const char *isa;   /* "ref", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"; NULL: the best of this machine */
    bool forms;        /* answers may get a form: plans the memory for that */
    bool history;      /* counts which experts are used, over runs, and fills idle time with those used most (README) */
    bool no_lookahead; /* experts are read only when their layer asks for them; no text depends on it */
    bool exact;        /* the oracle: weights decoded to f32, activations and cache not rounded */
    /* Bytes loaded of all; false cancels. May be NULL. */
    bool (*progress)(void *context_pointer, uint64_t done_bytes, uint64_t total_bytes);
    void *context_pointer;
} sluice_load_options;

/* What lives where. All in bytes. */
typedef struct {
    uint64_t budget_bytes;  /* UINT64_MAX: none */
    uint64_t minimum_bytes; /* the smallest that works for this request */
    uint64_t process_bytes; /* program, libraries, tokenizer, tables */
    uint64_t trunk_bytes;   /* weights that stay */
    uint64_t cache_bytes;   /* experts in slots */
    uint64_t staging_bytes; /* ring of streamed weights, read buffers */
    uint64_t kv_bytes, activation_bytes;
    uint64_t planned_bytes;                    /* sum of all */
    uint64_t streamed_bytes;                   /* read again for every pass */
    uint64_t expert_bytes, token_expert_bytes; /* of memory, for all experts; of files, for one token's choice */
    uint32_t context, chunk, threads;
    const char *isa, *reader; /* literals; reader is "" in a plan that was not loaded */
    bool everything_resident, cache_useless;
    char note[200]; /* what the user should know ("--ram lowered to ..."), or empty */
} sluice_plan;

/* The plan without loading. SLUICE_OVER_BUDGET names the smallest budget that works and sets plan->minimum_bytes. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_make_plan(sluice_model *model, const sluice_load_options *options, sluice_plan *plan,
                                                         sluice_error *error);
/* Plans and loads. Once per model. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_load(sluice_model *model, const sluice_load_options *options, sluice_error *error);
/* The plan that was loaded. */
SLUICE_API void sluice_get_plan(const sluice_model *model, sluice_plan *plan);
/* One line per step of a pass; freed with sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_print_steps(const sluice_model *model, char **text, sluice_error *error);

/* ---- chat ---- */

/* All JSON in OpenAI's form. */
typedef struct {
    const char *messages;  /* array of messages */
    const char *tools;     /* array, or NULL */
    const char *variables; /* object: further variables for the template, or NULL */
    bool add_generation_prompt;
    bool continue_final_message;
} sluice_chat;

/* Uses the Jinja template in a file instead of the model's own. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_set_chat_template(sluice_model *model, const char *path, sluice_error *error);
/*
 * The prompt that the model's template makes of a conversation. Control words are recognised only where the template wrote them.
 * SLUICE_NOT_FOUND: the model has no template. SLUICE_INVALID: the template refuses; its message is in the error. text may be NULL.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_render_chat(sluice_model *model, const sluice_chat *chat, char **text, uint32_t **ids,
                                                           size_t *count, sluice_error *error);

/* ---- the form of an answer ---- */

typedef enum {
    SLUICE_FORM_JSON,    /* a JSON object; needs no text */
    SLUICE_FORM_SCHEMA,  /* a JSON value that is valid under the JSON schema `text` */
    SLUICE_FORM_REGEX,   /* what a regular expression matches as a whole */
    SLUICE_FORM_GRAMMAR, /* what rule "root" of a grammar in GBNF matches */
    SLUICE_FORM_CHOICES, /* one of the strings of a JSON array */
    SLUICE_FORM_CALLS,   /* one or more calls of the tools in OpenAI's JSON array; a chat reply */
} sluice_form_kind;

typedef struct {
    sluice_form_kind kind;
    const char *text;
    bool reply;               /* of a chat: reasoning may come first, with the marks of the format */
    const char *reply_format; /* NULL: by the chat template */
    const char *prompt;       /* rendered; it may have opened reasoning. NULL: it has not */
    const char *tools;        /* with reply: calls of these (JSON array) may come instead of the content; NULL: none */
    const char *tool;         /* CALLS: this one alone; NULL: any */
    bool one_call;            /* not more than one call */
} sluice_form;

typedef struct sluice_constraint sluice_constraint; /* belongs to a model and must be closed before it */

/* SLUICE_INVALID and SLUICE_UNSUPPORTED say what is wrong with the text, and where. Serves one request at a time, any number in turn. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_constraint_open(sluice_model *model, const sluice_form *form, sluice_constraint **out,
                                                               sluice_error *error);
/* The same errors without a model, but for what a reply format cannot do. From any thread. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_check_form(const sluice_form *form, sluice_error *error);
SLUICE_API void sluice_constraint_close(sluice_constraint *constraint); /* NULL is allowed */

/* ---- generating ---- */

typedef struct {
    uint32_t token;
    float logprob;
} sluice_logprob;

#define SLUICE_NO_TOKEN UINT32_MAX /* a piece that only ends the text: the rest of a character that never became whole */

typedef struct {
    uint32_t token;
    const char *text; /* UTF-8 that is final with this token, maybe empty; NULL without a tokenizer */
    size_t text_bytes;
    float logprob;             /* with request.logprobs */
    const sluice_logprob *top; /* [request.top_logprobs] likeliest first */
} sluice_piece;

typedef struct {
    const uint32_t *prompt;
    size_t prompt_count;
    uint32_t max_tokens; /* 0: as many as the context holds */
    float temperature;   /* 0: greedy */
    uint32_t top_k;      /* 0: off */
    float top_p;         /* 0 or 1: off */
    float min_p;         /* 0: off */
    /* These change logits before all that; a constraint forbids after them. docs/ARITHMETIC.md, section 13, has the formula. */
    float frequency_penalty, presence_penalty; /* -2 to 2: off the logit of a token of the answer, each time and once; 0: off */
    float repetition_penalty;                  /* 0.1 to 10: divides the logits of tokens of prompt and answer; 0 or 1: off */
    const uint32_t *bias_ids;                  /* [bias_count] */
    const float *biases;                       /* [bias_count] added to the logits of those ids: -100 (in effect never) to 100 (always) */
    size_t bias_count;

    uint64_t seed;
    uint32_t choice; /* number of the answer when several are wanted for one seed */
    bool ignore_end; /* go on after end ids */
    bool chat;       /* the prompt is one of sluice_render_chat: what ends a turn in the template's family of replies ends the answer too */
    bool show_special;       /* control words in the text too */
    const char *const *stop; /* texts that end the answer, and are not part of it; 16 at most */
    uint32_t stop_count;
    sluice_constraint *constraint; /* or NULL. Then end ids always end; an answer cut by max_tokens is not whole (SLUICE_STOP_LENGTH) */
    bool logprobs;                 /* the model's own, before anything here changes them */
    uint32_t top_logprobs;         /* 0 to 20 */
    bool (*on_piece)(void *context_pointer, const sluice_piece *piece);      /* false stops */
    void (*on_prompt)(void *context_pointer, uint32_t done, uint32_t total); /* or NULL */
    void *context_pointer;
} sluice_request;

typedef enum { SLUICE_STOP_END, SLUICE_STOP_LENGTH, SLUICE_STOP_CONTEXT, SLUICE_STOP_CALLER, SLUICE_STOP_STRING } sluice_stop;

typedef struct {
    sluice_stop stop;
    uint32_t reused; /* tokens of the prompt that an earlier call had computed */
    uint32_t generated;
    double prompt_seconds, decode_seconds;
} sluice_result;

/*
 * Answers one prompt. What it has in common with the beginning of the call before is not computed again, which changes time, never a bit:
 * a conversation costs its new part alone. result may be NULL.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_generate(sluice_model *model, const sluice_request *request, sluice_result *result,
                                                        sluice_error *error);
/* Logits [vocab] of each position of `ids`, in order. load_options.logit_rows says how many are computed in one pass. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_logits(sluice_model *model, const uint32_t *ids, size_t count,
                                                      bool (*on_logits)(void *context_pointer, uint32_t position, const float *logits),
                                                      void *context_pointer, sluice_error *error);
/* Ends the running call of this model within a step, or the next one if none runs; from any thread, also from a signal handler. */
SLUICE_API void sluice_cancel(sluice_model *model);

/*
 * For programs that wait for requests: what a loaded model does beside them. With SLUICE_RAM_AUTO it gives memory back when the machine
 * runs short, which calls that compute do by themselves. Call it about once a second while no other call of this model runs. True: there
 * is more to do now.
 */
SLUICE_API bool sluice_tend(sluice_model *model);

/* ---- replies ---- */

typedef struct sluice_reply sluice_reply; /* parses one answer while it comes */

typedef struct {                     /* what became certain; borrowed until the next call */
    const char *reasoning, *content; /* terminated, maybe empty */
    size_t reasoning_bytes, content_bytes;
    const char *calls; /* JSON array of {"id"?, "name", "arguments" (JSON text)}, or NULL: no new call */
} sluice_reply_part;

/*
 * format: name of a reply family ("hermes", "harmony"), NULL: by the chat template. tools: the request's JSON array, NULL: nothing is
 * parsed as a call. prompt: the rendered prompt, which may have opened reasoning; NULL: it has not. Feed text with show_special set.
 */
SLUICE_API SLUICE_CHECKED sluice_status sluice_reply_open(sluice_model *model, const char *format, const char *tools, const char *prompt,
                                                          sluice_reply **reply, sluice_error *error);
SLUICE_API SLUICE_CHECKED sluice_status sluice_reply_push(sluice_reply *reply, const char *text, size_t size_bytes, bool final,
                                                          sluice_reply_part *part, sluice_error *error);
SLUICE_API void sluice_reply_close(sluice_reply *reply); /* NULL is allowed */

/* ---- numbers ---- */

/* JSON of plan, memory by owner, times, reads, hits, bounds of this machine (measured once, half a second); freed with sluice_free. */
SLUICE_API SLUICE_CHECKED sluice_status sluice_metrics(sluice_model *model, bool measure_bounds, char **json, sluice_error *error);

#ifdef __cplusplus
}
#endif
#endif
