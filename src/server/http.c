/*
 * http: libmicrohttpd, one thread per connection: reading bodies, checks, answers, streams.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/api_json.h"
#include "server/server_internal.h"

#define CONNECTIONS_MAX 256
#define STACK_BYTES (256u << 10)
#define IDLE_SECONDS 120
#define LOOK_NS 250000000u        /* how often a waiting thread looks after its socket */
#define KEEP_ALIVE_NS 5000000000u /* a stream says something at least this often */

struct http_request { /* one request under way */
    const struct route *route;
    struct byte_buffer body;
    bool too_large;
    struct job *job;
    uint64_t last_sent_ns;
};

/* ---- replies ---- */

static enum MHD_Result reply_bytes(struct MHD_Connection *connection, unsigned status, struct text body, const char *type) {
    struct MHD_Response *response = MHD_create_response_from_buffer(body.size_bytes, (void *)body.data, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    if (status == 503 || status == 429)
        (void)MHD_add_response_header(response, "Retry-After", "1");
    if (status == 401)
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result reply_json(struct MHD_Connection *connection, unsigned status, json_t *value) {
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    enum MHD_Result result = reply_bytes(connection, text ? status : 500, text_of(text ? text : "{}"), "application/json");
    memory_free(text);
    return result;
}

static enum MHD_Result reply_error(struct MHD_Connection *connection, unsigned status, const char *message, const char *parameter,
                                   const char *code) {
    return reply_json(connection, status, api_json_error(status, message, parameter, code));
}

/* ---- who may ask ---- */

/* "name:port" -> name; IPv6 in brackets. */
static struct text host_name(const char *header) {
    size_t length = header[0] == '[' ? strcspn(header, "]") + 1 : strcspn(header, ":");
    return (struct text){header, length};
}

static bool host_allowed(const struct server *server, const char *header) {
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    struct text name = host_name(header);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (text_is(name, own[i]))
            return true;
    if (text_is(name, server->options.host))
        return true;
    for (uint32_t i = 0; i < server->options.host_count; i++)
        if (text_is(name, server->options.hosts[i]))
            return true;
    return false;
}

static bool origin_allowed(const struct server *server, const char *origin) {
    const char *host = strstr(origin, "://");
    return host && host_allowed(server, host + 3);
}

/* The same time for any wrong key of the same length. */
static bool key_matches(const char *key, const char *header) {
    if (!header || strncasecmp(header, "Bearer ", 7) != 0 || strlen(header + 7) != strlen(key))
        return false;
    unsigned difference = 0;
    for (size_t i = 0; key[i]; i++)
        difference |= (unsigned char)key[i] ^ (unsigned char)header[7 + i];
    return difference == 0;
}

/* True when the request was answered with a refusal. */
static bool refused(struct server *server, struct MHD_Connection *connection, const struct route *route, enum MHD_Result *result) {
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    char text[300];
    if (host && !host_allowed(server, host)) {
        (void)snprintf(text, sizeof text,
                       "the Host header names '%.100s', which this server is not known by; start it with --allow-host NAME to allow it",
                       host);
        *result = reply_error(connection, 403, text, NULL, "host_not_allowed");
        return true;
    }
    if (origin && strcmp(origin, "null") != 0 && !origin_allowed(server, origin)) {
        (void)snprintf(text, sizeof text, "pages from '%.100s' may not use this server; start it with --allow-host NAME to allow its host",
                       origin);
        *result = reply_error(connection, 403, text, NULL, "origin_not_allowed");
        return true;
    }
    const char *authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    if (server->options.api_key && route->needs_key && !key_matches(server->options.api_key, authorization)) {
        *result = reply_error(connection, 401, "the API key is missing or wrong: send it as 'Authorization: Bearer KEY'", NULL,
                              "invalid_api_key");
        return true;
    }
    return false;
}

/* ---- waiting for the model ---- */

static bool client_is_gone(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    char byte;
    ssize_t got = info ? recv(info->connect_fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : -1;
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

struct stream { /* what the content reader needs */
    struct http_request *request;
    struct MHD_Connection *connection;
};

static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t limit) {
    struct stream *stream = context;
    struct http_request *request = stream->request;
    unsigned http_status;
    sluice_error error;
    size_t taken;
    (void)position;
    for (;;) {
        enum job_state state = job_read(request->job, buffer, limit, &taken, LOOK_NS, &http_status, &error);
        if (state == JOB_MORE) {
            request->last_sent_ns = clock_now_ns();
            return (ssize_t)taken;
        }
        if (state != JOB_TIMEOUT)
            return MHD_CONTENT_READER_END_OF_STREAM; /* a failure was sent as an event by the worker, if anything was */
        if (client_is_gone(stream->connection)) {
            job_cancel(request->job);
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        static const char comment[] = ": still working\n\n";
        if (clock_now_ns() - request->last_sent_ns > KEEP_ALIVE_NS && limit >= sizeof comment - 1) {
            memcpy(buffer, comment, sizeof comment - 1);
            request->last_sent_ns = clock_now_ns();
            return (ssize_t)(sizeof comment - 1);
        }
    }
}

static enum MHD_Result reply_stream(struct MHD_Connection *connection, struct http_request *request) {
    struct stream *stream = memory_alloc(sizeof *stream);
    if (!stream)
        return MHD_NO;
    *stream = (struct stream){request, connection};
    request->last_sent_ns = clock_now_ns();
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, stream, memory_free);
    if (!response) {
        memory_free(stream);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

/*
 * Before a stream's headers go out a moment is given to the job, so that what is wrong with the request gets its own HTTP status; after
 * it the headers go, and a later failure is an event in the stream.
 */
#define STATUS_WAIT_NS 500000000u

static enum MHD_Result answer_job(struct MHD_Connection *connection, struct http_request *request, bool streamed) {
    unsigned http_status;
    sluice_error error;
    uint64_t end_ns = clock_now_ns() + STATUS_WAIT_NS;
    bool begun = false;
    while (!(begun = job_begun(request->job, LOOK_NS, &http_status, &error)) && !(streamed && clock_now_ns() > end_ns))
        if (client_is_gone(connection)) {
            job_cancel(request->job);
            return MHD_NO;
        }
    if (begun && http_status != 200)
        return reply_error(connection, http_status, error.text, NULL,
                           error.status == SLUICE_OVER_BUDGET ? "context_length_exceeded" : NULL);
    if (streamed)
        return reply_stream(connection, request);
    return reply_bytes(connection, 200, job_output(request->job), "application/json");
}

static enum MHD_Result run_api(struct server *server, struct MHD_Connection *connection, struct http_request *request) {
    struct api_task *task = memory_alloc(sizeof *task);
    struct api_problem problem;
    struct error err;
    if (!task)
        return reply_error(connection, 500, "no memory for the request", NULL, NULL);
    if (api_request_parse(request->route->kind, byte_buffer_text(&request->body), server->vocab, &task->request, &problem) != STATUS_OK) {
        enum MHD_Result result = reply_error(connection, problem.http_status, problem.error.text, problem.parameter, problem.code);
        api_task_free(task);
        return result;
    }
    const char *model = json_string_value(json_object_get(task->request.root, "model"));
    if (model && strcmp(model, server->options.model_name) != 0) {
        char text[300];
        (void)snprintf(text, sizeof text, "the model '%.100s' is not served here; this is '%.100s' (GET /v1/models)", model,
                       server->options.model_name);
        api_task_free(task);
        return reply_error(connection, 404, text, "model", "model_not_found");
    }
    task->model_name = server->options.model_name;
    task->reply_format = server->options.reply_format;
    task->created = (int64_t)time(NULL);
    (void)snprintf(task->id, sizeof task->id, "%s%016llx", request->route->kind == API_CHAT ? "chatcmpl-" : "cmpl-sl--",
                   (unsigned long long)(clock_now_ns() ^ (uint64_t)(uintptr_t)task << 20));
    bool streamed = task->request.stream;
    if (job_submit(server->queue, api_run, task, api_task_free, &request->job, &err) != STATUS_OK)
        return reply_error(connection, 429, err.text, NULL, "queue_full");
    return answer_job(connection, request, streamed);
}

/* ---- libmicrohttpd's calls ---- */

static enum MHD_Result answer_get(struct server *server, struct MHD_Connection *connection, const struct route *route, const char *url) {
    const char *rest = url + strlen(route->path);
    json_t *value = route->get(server, rest);
    char text[300];
    if (value)
        return reply_json(connection, 200, value);
    (void)snprintf(text, sizeof text, "there is no '%.100s' here; this is '%.100s' (GET /v1/models)", rest, server->options.model_name);
    return reply_error(connection, 404, text, "model", "model_not_found");
}

static enum MHD_Result answer(struct server *server, struct MHD_Connection *connection, struct http_request *request, const char *url,
                              const char *method) {
    const struct route *route = request->route;
    enum MHD_Result result;
    if (!route->path)
        return reply_error(connection, 404,
                           "there is nothing at this path (GET /v1/models, POST /v1/chat/completions, POST /v1/completions)", NULL,
                           "not_found");
    if (refused(server, connection, route, &result))
        return result;
    if (strcmp(method, route->method) != 0) {
        char text[100];
        (void)snprintf(text, sizeof text, "%s takes %s", route->path, route->method);
        return reply_error(connection, 405, text, NULL, "method_not_allowed");
    }
    if (request->too_large)
        return reply_error(connection, 413, "the request body is larger than this server takes", NULL, "body_too_large");
    if (route->get)
        return answer_get(server, connection, route, url);
    return run_api(server, connection, request);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **state) {
    struct server *server = context;
    struct http_request *request = *state;
    (void)version;
    if (!request) { /* headers are there */
        request = memory_alloc(sizeof *request);
        if (!request)
            return MHD_NO;
        request->route = route_find(url);
        byte_buffer_init(&request->body, server->options.body_limit_bytes);
        *state = request;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        if (!request->too_large && byte_buffer_append(&request->body, upload, *upload_bytes, NULL) != STATUS_OK)
            request->too_large = true;
        *upload_bytes = 0;
        return MHD_YES;
    }
    return answer(server, connection, request, url, method);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode code) {
    struct http_request *request = *state;
    (void)context;
    (void)connection;
    if (!request)
        return;
    if (request->job) {
        if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
            job_cancel(request->job);
        job_release(request->job);
    }
    byte_buffer_deinit(&request->body);
    memory_free(request);
    *state = NULL;
}

/* ---- life ---- */

static enum status listen_address(const struct server_options *options, struct sockaddr_storage *address, struct error *err) {
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, options->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(options->port);
        return STATUS_OK;
    }
    if (inet_pton(AF_INET6, options->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(options->port);
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--host %s is no IP address (127.0.0.1 for this machine alone, 0.0.0.0 for all)", options->host);
}

enum status server_start(sluice_model *model, const struct server_options *options, struct server **out, struct error *err) {
    struct sockaddr_storage address;
    *out = NULL;
    TRY(listen_address(options, &address, err));
    struct server *server = memory_alloc(sizeof *server);
    if (!server)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the server");
    server->options = *options;
    server->model = model;
    sluice_info info;
    sluice_get_info(model, &info);
    server->vocab = info.vocab;
    server->started = (int64_t)time(NULL);
    enum status status = job_queue_create(model, options->queue_limit, &server->queue, err);
    if (status == STATUS_OK) {
        unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
                         (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0);
        server->daemon =
            MHD_start_daemon(flags, options->port, NULL, NULL, on_request, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                             MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
                             IDLE_SECONDS, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
        if (!server->daemon)
            status =
                error_set(err, STATUS_IO, "cannot listen on %s port %u: %s (another server may use the port; --port 0 takes a free one)",
                          options->host, options->port, strerror(errno));
    }
    if (status != STATUS_OK) {
        server_stop(server);
        return status;
    }
    *out = server;
    return STATUS_OK;
}

uint16_t server_port(const struct server *server) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : server->options.port;
}

void server_stop(struct server *server) {
    if (!server)
        return;
    if (server->queue)
        job_queue_stop(server->queue); /* ends every wait of an HTTP thread */
    if (server->daemon)
        MHD_stop_daemon(server->daemon); /* lets go of every job */
    job_queue_destroy(server->queue);
    memory_free(server);
}
