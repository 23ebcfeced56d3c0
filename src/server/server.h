/*
 * server: OpenAI's HTTP interface over one loaded model.
 *
 * Model    HTTP threads (libmicrohttpd, one per connection) read, check and answer; one worker thread owns the model and runs jobs in the
 *          order of their arrival. An HTTP thread waits for its job's output and looks after its socket: when the client is gone the job is
 *          cancelled within a second; while nothing comes a comment keeps a stream alive.
 * Knows    include/sluice.h and base only.
 * Limits   body, JSON depth, queue, connections: server_options and the constants beside their checks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "sluice.h"

struct server_options {
    const char *host;         /* address to listen on; "127.0.0.1" */
    uint16_t port;            /* 0: any free one */
    const char *api_key;      /* NULL: none is asked for */
    const char *model_name;   /* as clients see it */
    const char *reply_format; /* NULL: by the chat template */
    const char *const *hosts; /* further names that the Host header may have; the address and localhost always may */
    uint32_t host_count;
    uint32_t queue_limit; /* requests that may wait; more get 429 */
    uint64_t body_limit_bytes;
    uint32_t max_tokens_limit; /* 0: the context */
};

struct server;

/* Starts listening. The model must be loaded and belongs to the server until server_stop. *out is NULL on failure. */
MUST_CHECK enum status server_start(sluice_model *model, const struct server_options *options, struct server **out, struct error *err);
uint16_t server_port(const struct server *server);
/* Cancels what runs, answers what waits with an error, closes. */
void server_stop(struct server *server);
