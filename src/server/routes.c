/*
 * routes: one row per endpoint.
 */
#include <string.h>

#include "server/api_json.h"
#include "server/server_internal.h"

/* Answers at once, also while the model works. */
static json_t *get_health(struct server *server) {
    return json_pack("{s:s,s:i}", "status", "ok", "requests", (int)job_queue_length(server->queue));
}

static json_t *get_models(struct server *server) { return api_json_models(server->options.model_name, server->started); }

static const struct route routes[] = {
    {"/health", "GET", false, get_health, API_CHAT},
    {"/v1/models", "GET", true, get_models, API_CHAT},
    {"/v1/chat/completions", "POST", true, NULL, API_CHAT},
    {"/v1/completions", "POST", true, NULL, API_COMPLETION},
};

const struct route *route_find(const char *url) {
    static const struct route none = {.needs_key = false};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(url, routes[i].path) == 0)
            return &routes[i];
    return &none;
}
