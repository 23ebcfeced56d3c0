/*
 * server_internal: what http.c and routes.c share.
 */
#pragma once

#include <jansson.h>

#include "server/api_request.h"
#include "server/job.h"
#include "server/server.h"

struct MHD_Daemon;

struct server {
    struct server_options options;
    sluice_model *model;
    uint32_t vocab; /* of the model */
    struct job_queue *queue;
    struct MHD_Daemon *daemon;
    int64_t started; /* seconds since 1970 */
};

struct route {
    const char *path, *method; /* a path that ends with '/' has something behind it */
    bool needs_key;
    /* Answers at once; NULL: a job of `kind`. rest: what is behind the path. Returns NULL when there is no such thing. */
    json_t *(*get)(struct server *server, const char *rest);
    enum api_kind kind;
};

/* Never NULL: an unknown path gives a route without one. */
const struct route *route_find(const char *url);
