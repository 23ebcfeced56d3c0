/*
 * api_run: the worker's side of a request: prompt, generation, and the answer as JSON or as server-sent events.
 */
#pragma once

#include "server/api_request.h"
#include "server/job.h"

struct api_task { /* what a job works on; owned by the job */
    struct api_request request;
    const char *model_name, *reply_format; /* of the server, borrowed */
    char id[40];                           /* "chatcmpl-..." */
    int64_t created;                       /* seconds since 1970 */
};

/* job_run and free_request of a job whose request is an api_task. */
void api_run(struct job *job, sluice_model *model, void *task);
void api_task_free(void *task);
