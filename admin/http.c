/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmicrohttpd in external epoll mode: its descriptor and its next timeout hang on the
 * loop, and every wake-up runs it once, which serves each ready connection one step. It
 * frames and limits; everything a request means is decided in serve(). An exchange lives
 * from its headers to libmicrohttpd's completion notice, which is the only place that
 * frees it; its answer's bytes are lent to libmicrohttpd meanwhile.
 *
 * Answers queued before the body was read close the connection: otherwise the unread body
 * would be taken for the next request.
 */
#include "admin/http.h"

#include <assert.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

#include "admin/http_metrics.h"
#include "admin/request.h"

#define SERVER_MAGIC     0x6b766873u
#define REQUEST_MAGIC    0x6b766872u
#define CONNECTIONS_MAX  64u
#define PER_IP_MAX       16u
#define TIMEOUT_S        15u
#define CONNECTION_BYTES ((size_t)32 * 1024) /* request line and headers, answer head */
#define STREAMS_MAX      4u
#define POLL_NS          (20 * KVF_NS_PER_MS)
#define LOG_LINE_MAX     256

static const struct kvf_log_ctx context = {.comp = "http"};

const double kvf_http_metric_buckets[KVF_HTTP_METRIC_N_BUCKETS] = {
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 1, 10};

struct kvf_http_server {
    uint32_t magic;
    struct kvf_http_config config;
    struct MHD_Daemon *daemon; /* owns, and through it the listening socket */
    struct kvf_io io;          /* on the daemon's epoll descriptor */
    struct kvf_timer timer;    /* the daemon's next timeout */
    struct kvf_list waiting;   /* suspended exchanges */
    size_t n_streams;
    uint64_t n_exchanges;
    size_t requests_family, duration_family;
    bool has_families;
};

static struct kvf_http_server *server_of(void *owner)
{
    struct kvf_http_server *server = owner;
    assert(server->magic == SERVER_MAGIC);
    return server;
}

static struct kvf_http_request *request_of(void *owner)
{
    struct kvf_http_request *request = owner;
    assert(request->magic == REQUEST_MAGIC);
    return request;
}

/* ---- running libmicrohttpd */

static void pump_timer(void *owner);

static void arm_timer(struct kvf_http_server *server)
{
    MHD_UNSIGNED_LONG_LONG timeout_ms;
    if (MHD_get_timeout(server->daemon, &timeout_ms) != MHD_YES) {
        kvf_loop_timer_stop(&server->timer);
        return;
    }
    enum kvf_status status = kvf_loop_timer_start(server->config.loop, &server->timer,
                                                  kvf_loop_clock_ns(server->config.loop) +
                                                      timeout_ms * KVF_NS_PER_MS,
                                                  pump_timer, server);
    if (status != KVF_OK) {
        kvf_log_warn(&context, "timeouts are late: %s", kvf_status_text(status));
    }
}

static void pump(struct kvf_http_server *server)
{
    if (MHD_run(server->daemon) != MHD_YES) {
        kvf_log_warn(&context, "turn failed");
    }
    arm_timer(server);
}

static void pump_timer(void *owner)
{
    pump(server_of(owner));
}

static void pump_io(void *owner, uint32_t events)
{
    (void)events; /* only ever readable */
    pump(server_of(owner));
}

static void log_line(void *owner, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* What libmicrohttpd has to say is mostly about clients that went away. */
static void log_line(void *owner, const char *format, va_list arguments)
{
    char line[LOG_LINE_MAX];
    char escaped[2 * LOG_LINE_MAX];
    (void)owner;
    int n = vsnprintf(line, sizeof(line), format, arguments);
    if (n > 0) {
        kvf_log_debug(
            &context, "%s",
            kvf_log_escape(line, strcspn(line, "\r\n"), escaped, sizeof(escaped)));
    }
}

/* ---- answering */

static struct kvf_http_request *begin_exchange(struct kvf_http_server *server,
                                               struct MHD_Connection *connection,
                                               const char *path, const char *method,
                                               const char *version)
{
    struct kvf_http_request *request = kvf_alloc(sizeof(*request));
    if (request == NULL) {
        return NULL;
    }
    request->magic = REQUEST_MAGIC;
    request->server = server;
    request->connection = connection;
    request->side = server->config.side;
    request->ops = server->config.ops;
    request->ops_owner = server->config.ops_owner;
    request->guard = server->config.guard;
    request->loop = server->config.loop;
    request->number = ++server->n_exchanges;
    request->method_text = method;
    request->path = path;
    request->start_ns = kvf_loop_clock_ns(request->loop);
    kvf_buf_init(&request->reply.body, KVF_HTTP_REPLY_MAX);
    kvf_request_read_headers(connection, version, &request->headers);
    return request;
}

/* libmicrohttpd wants the next bytes of a stream. */
static ssize_t read_stream(void *owner, uint64_t position, char *out, size_t max)
{
    struct kvf_http_request *request = request_of(owner);
    struct kvf_buf *body = &request->reply.body;
    (void)position; /* it only ever goes forward */
    if (kvf_buf_length(body) == 0 &&
        (request->reply.fill(request) != KVF_OK || request->reply.has_failed)) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    size_t n = kvf_buf_length(body);
    if (n == 0) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    n = n < max ? n : max;
    memcpy(out, kvf_buf_head(body), n);
    kvf_buf_consume(body, n);
    return (ssize_t)n;
}

static struct MHD_Response *make_response(struct kvf_http_request *request)
{
    static uint8_t nothing[1];
    struct kvf_buf *body = &request->reply.body;
    if (request->reply.fill != NULL) {
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, KVF_HTTP_SLICE_BYTES,
                                                 read_stream, request, NULL);
    }
    void *bytes = kvf_buf_length(body) > 0 ? body->bytes + body->first : nothing;
    return MHD_create_response_from_buffer(kvf_buf_length(body), bytes,
                                           MHD_RESPMEM_PERSISTENT);
}

static bool add_headers(const struct kvf_http_reply *reply, struct MHD_Response *response)
{
    bool is_ok =
        MHD_add_response_header(response, "Cache-Control", "no-store") == MHD_YES &&
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff") == MHD_YES;
    if (reply->type != NULL) {
        is_ok &=
            MHD_add_response_header(response, "Content-Type", reply->type) == MHD_YES;
    }
    for (size_t i = 0; i < reply->n_headers; i++) {
        is_ok &= MHD_add_response_header(response, reply->headers[i].name,
                                         reply->headers[i].value) == MHD_YES;
    }
    return is_ok;
}

/* One line for everything that changed something or tried to. */
static void audit(const struct kvf_http_request *request)
{
    char who[KVF_HTTP_WHO_MAX];
    char path[LOG_LINE_MAX];
    if (request->route == NULL || kvf_http_method_is_safe(request->route->method)) {
        return;
    }
    kvf_log_info(&context, "change %s %s by %s answered %u", request->method_text,
                 kvf_log_escape(request->path, strlen(request->path), path, sizeof(path)),
                 kvf_http_who(request, who), request->reply.status);
}

static enum MHD_Result send_reply(struct kvf_http_request *request)
{
    struct MHD_Response *response = make_response(request);
    if (response == NULL) {
        return MHD_NO;
    }
    request->is_answered = true;
    audit(request);
    enum MHD_Result result = MHD_NO;
    if (add_headers(&request->reply, response)) {
        result = MHD_queue_response(request->connection, request->reply.status, response);
    }
    MHD_destroy_response(response); /* the connection holds its own reference */
    return result;
}

static enum MHD_Result refuse_early(struct kvf_http_request *request)
{
    kvf_reply_header(request, "Connection", "close");
    return send_reply(request);
}

static enum MHD_Result serve(struct kvf_http_request *request)
{
    request->is_served = true;
    request->server->config.serve(request);
    if (request->poll != NULL) {
        MHD_suspend_connection(request->connection);
        return MHD_YES;
    }
    return send_reply(request);
}

/* Called at the end of the headers, for each piece of the body, at the end of the body,
 * and again after a suspended exchange resumed. */
/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd's prototype */
static enum MHD_Result answer(void *owner, struct MHD_Connection *connection,
                              const char *path, const char *method, const char *version,
                              const char *body, size_t *n_body, void **exchange)
{
    struct kvf_http_server *server = server_of(owner);
    const char *detail = "";
    (void)body; /* no page takes one; it is counted and dropped */
    if (*exchange == NULL) {
        struct kvf_http_request *begun =
            begin_exchange(server, connection, path, method, version);
        if (begun == NULL) {
            return MHD_NO;
        }
        *exchange = begun;
        enum kvf_problem problem = kvf_guard_framing(&begun->headers, &detail);
        if (problem == KVF_PROBLEM_NONE) {
            return MHD_YES;
        }
        kvf_problem_reply(begun, problem, "%s", detail);
        return refuse_early(begun);
    }
    struct kvf_http_request *request = request_of(*exchange);
    if (*n_body > 0) {
        request->n_body_bytes += *n_body;
        *n_body = 0;
        return request->n_body_bytes <= KVF_HTTP_BODY_MAX ? MHD_YES : MHD_NO;
    }
    return request->is_served ? send_reply(request) : serve(request);
}

/* ---- the end of an exchange */

static void count(const struct kvf_http_request *request, double seconds)
{
    const struct kvf_http_server *server = request->server;
    const char *route = request->template != NULL ? request->template : "none";
    char code[8];
    if (!server->has_families) {
        return;
    }
    struct kvf_metrics *metrics = request->ops->metrics(request->ops_owner);
    (void)snprintf(code, sizeof(code), "%u", request->reply.status);
    const char *values[] = {route, kvf_http_method_name(request->method_text), code};
    kvf_series_add(kvf_metrics_series(metrics, server->requests_family, values), 1);
    kvf_series_observe(kvf_metrics_series(metrics, server->duration_family, &route),
                       seconds);
}

static void end_exchange(void *owner, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode why)
{
    struct kvf_http_server *server = server_of(owner);
    (void)connection;
    (void)why; /* a cut answer counts like a whole one */
    if (*exchange == NULL) {
        return;
    }
    struct kvf_http_request *request = request_of(*exchange);
    *exchange = NULL;
    if (request->is_answered) {
        char path[LOG_LINE_MAX];
        uint64_t spent_ns = kvf_loop_clock_ns(request->loop) - request->start_ns;
        count(request, (double)spent_ns / (double)KVF_NS_PER_S);
        kvf_log_debug(
            &context, "%s %llu %s answered %u in %llu us",
            kvf_http_side_name(request->side), (unsigned long long)request->number,
            kvf_log_escape(request->path, strlen(request->path), path, sizeof(path)),
            request->reply.status, (unsigned long long)(spent_ns / KVF_NS_PER_US));
    }
    if (request->is_stream) {
        server->n_streams--;
    }
    kvf_loop_timer_stop(&request->poll_timer);
    if (kvf_node_is_linked(&request->waiting)) {
        kvf_list_remove(&server->waiting, &request->waiting);
    }
    kvf_buf_fini(&request->reply.body);
    request->magic = 0;
    kvf_free(request);
}

/* ---- waiting */

static void resume(struct kvf_http_request *request)
{
    kvf_loop_timer_stop(&request->poll_timer);
    kvf_list_remove(&request->server->waiting, &request->waiting);
    request->poll = NULL;
    MHD_resume_connection(request->connection);
}

static void look_again(void *owner)
{
    struct kvf_http_request *request = request_of(owner);
    struct kvf_http_server *server = request->server;
    bool is_ready = request->poll(request);
    if (!is_ready) {
        enum kvf_status status = kvf_loop_timer_start(
            request->loop, &request->poll_timer, kvf_loop_now_ns(request->loop) + POLL_NS,
            look_again, request);
        if (status == KVF_OK) {
            return;
        }
        kvf_problem_reply(request, KVF_PROBLEM_UNAVAILABLE, "%s",
                          kvf_status_text(status));
    }
    resume(request);
    pump(server);
}

void kvf_reply_wait(struct kvf_http_request *request, kvf_http_poll_fn poll)
{
    enum kvf_status status = kvf_loop_timer_start(
        request->loop, &request->poll_timer, kvf_loop_now_ns(request->loop) + POLL_NS,
        look_again, request);
    if (status != KVF_OK) {
        kvf_problem_reply(request, KVF_PROBLEM_UNAVAILABLE, "%s",
                          kvf_status_text(status));
        return;
    }
    request->poll = poll;
    kvf_list_add_tail(&request->server->waiting, &request->waiting);
}

bool kvf_reply_stream(struct kvf_http_request *request, const char *type,
                      kvf_http_fill_fn fill)
{
    if (request->server->n_streams == STREAMS_MAX) {
        kvf_problem_reply(request, KVF_PROBLEM_UNAVAILABLE,
                          "%u streams run already, which is the limit", STREAMS_MAX);
        kvf_reply_header(request, "Retry-After", "1");
        return false;
    }
    request->server->n_streams++;
    request->is_stream = true;
    kvf_reply_begin(request, MHD_HTTP_OK, type);
    request->reply.fill = fill;
    return true;
}

/* ---- life */

static enum kvf_status start_daemon(struct kvf_http_server *server)
{
    struct kvf_http_config *config = &server->config;
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        answer, server, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL,
        MHD_OPTION_LISTEN_SOCKET, config->fd, MHD_OPTION_CONNECTION_LIMIT,
        CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT, PER_IP_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        CONNECTION_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        kvf_request_unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, end_exchange, server,
        MHD_OPTION_END);
    /* Started or not, libmicrohttpd may have closed the socket: it is not ours any more.
     */
    config->fd = -1;
    if (server->daemon == NULL) {
        kvf_log_error(&context, "%s listener does not start: %s",
                      kvf_http_side_name(config->side), strerrordesc_np(errno));
        return KVF_SYSTEM;
    }
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return kvf_loop_io_add(config->loop, &server->io, info->epoll_fd, KVF_IO_READ,
                           pump_io, server);
}

enum kvf_status kvf_http_server_open(const struct kvf_http_config *config,
                                     struct kvf_http_server **out)
{
    struct kvf_http_server *server = kvf_alloc(sizeof(*server));
    if (server == NULL) {
        (void)close(config->fd); /* nobody was accepted from it */
        return KVF_NO_MEMORY;
    }
    server->magic = SERVER_MAGIC;
    server->config = *config;
    kvf_list_init(&server->waiting);
    const struct kvf_metrics *metrics = config->ops->metrics(config->ops_owner);
    server->has_families =
        kvf_metrics_find(metrics, KVF_HTTP_METRIC_REQUESTS, &server->requests_family) &&
        kvf_metrics_find(metrics, KVF_HTTP_METRIC_DURATION, &server->duration_family);
    enum kvf_status status = start_daemon(server);
    if (status != KVF_OK) {
        kvf_http_server_close(server);
        return status;
    }
    *out = server;
    return KVF_OK;
}

/* libmicrohttpd must not be stopped while exchanges are suspended. */
static void release_waiting(struct kvf_http_server *server)
{
    struct kvf_node *node;
    while ((node = kvf_list_first(&server->waiting)) != NULL) {
        struct kvf_http_request *request =
            KVF_CONTAINER(node, struct kvf_http_request, waiting);
        kvf_problem_reply(request, KVF_PROBLEM_UNAVAILABLE,
                          "the daemon is shutting down");
        resume(request);
    }
    (void)MHD_run(server->daemon); /* sends what it can; the rest is cut */
}

void kvf_http_server_close(struct kvf_http_server *server)
{
    if (server == NULL) {
        return;
    }
    kvf_loop_io_remove(&server->io);
    if (server->daemon != NULL) {
        release_waiting(server);
        MHD_stop_daemon(server->daemon); /* ends every exchange through end_exchange */
    }
    kvf_loop_timer_stop(&server->timer);
    server->magic = 0;
    kvf_free(server);
}
