/*
 * routes: one row per endpoint.
 */
#include <string.h>

#include "server/api_json.h"
#include "server/server_internal.h"

/* Answers at once, also while the model works. */
static json_t *get_health(struct server *server, const char *rest) {
    (void)rest;
    return json_pack("{s:s,s:i}", "status", "ok", "requests", (int)job_queue_length(server->queue));
}

static json_t *get_models(struct server *server, const char *rest) {
    (void)rest;
    return json_pack("{s:s,s:[o]}", "object", "list", "data", api_json_model(server->options.model_name, server->started));
}

static json_t *get_model(struct server *server, const char *rest) {
    return strcmp(rest, server->options.model_name) == 0 ? api_json_model(server->options.model_name, server->started) : NULL;
}

static const struct route routes[] = {
    {"/health", "GET", false, get_health, API_CHAT},         {"/v1/models", "GET", true, get_models, API_CHAT},
    {"/v1/models/", "GET", true, get_model, API_CHAT},       {"/v1/chat/completions", "POST", true, NULL, API_CHAT},
    {"/v1/completions", "POST", true, NULL, API_COMPLETION},
};

const struct route *route_find(const char *url) {
    static const struct route none = {.needs_key = false};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        size_t length = strlen(routes[i].path);
        bool more = routes[i].path[length - 1] == '/';
        if (strncmp(url, routes[i].path, length) == 0 && (more || url[length] == 0))
            return &routes[i];
    }
    return &none;
}
