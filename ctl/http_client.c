/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client of http_client.h. The head is read whole into a bounded buffer; the body is
 * decoded from there as it is pulled. A body ends by its length, by the last chunk or by
 * the connection; an end that comes too early is PEER_LOST, never a short answer.
 */
#include "ctl/http_client.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"

#define HEAD_MAX     ((size_t)16 * 1024)
#define BUFFER_MAX   ((size_t)64 * 1024)
#define LINE_MAX_LEN 256 /* of a chunk's size line */
#define REQUEST_MAX  2048
#define HTTP_SCHEME  "http://"

enum framing { UNTIL_END, BY_LENGTH, BY_CHUNKS };

struct kvf_call {
    int fd; /* owns; -1: none */
    uint32_t timeout_ms;
    struct kvf_buf in;
    unsigned int status;
    enum framing framing;
    uint64_t n_left; /* of the body, or of the running chunk */
    bool has_chunk;  /* one has begun, so a line end stands before the next */
    bool is_ended;
    bool is_closed; /* by the server */
};

enum kvf_status kvf_call_parse_address(const char *text, struct kvf_address *out,
                                       const char **out_error)
{
    char host[KVF_ADDRESS_MAX];
    size_t n_scheme = strlen(HTTP_SCHEME);
    if (strncmp(text, "unix:", 5) == 0) {
        return kvf_address_parse(text, out, out_error);
    }
    if (strncmp(text, HTTP_SCHEME, n_scheme) != 0) {
        *out_error = "an address is unix:PATH or http://HOST:PORT";
        return KVF_INVALID_ARGUMENT;
    }
    size_t n = strcspn(text + n_scheme, "/");
    if (n >= sizeof(host) ||
        (text[n_scheme + n] == '/' && text[n_scheme + n + 1] != '\0')) {
        *out_error = "an address has no path: http://HOST:PORT";
        return KVF_INVALID_ARGUMENT;
    }
    memcpy(host, text + n_scheme, n);
    host[n] = '\0';
    return kvf_address_parse(host, out, out_error);
}

/* ---- connection */

static enum kvf_status wait_for(int fd, short events, uint32_t timeout_ms)
{
    struct pollfd polled = {.fd = fd, .events = events};
    uint64_t deadline_ns =
        kvf_clock_now_ns(&kvf_clock_system) + timeout_ms * KVF_NS_PER_MS;
    int rc;
    do {
        uint64_t now_ns = kvf_clock_now_ns(&kvf_clock_system);
        uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        rc = poll(&polled, 1, (int)(left_ns / KVF_NS_PER_MS));
    } while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        return KVF_SYSTEM;
    }
    return rc == 0 ? KVF_EXPIRED : KVF_OK;
}

/* Connects fd; errno tells why not. */
static enum kvf_status connect_fd(int fd, const struct sockaddr *to, socklen_t length,
                                  uint32_t timeout_ms)
{
    int error = 0;
    socklen_t n = sizeof(error);
    if (connect(fd, to, length) == 0) {
        return KVF_OK;
    }
    if (errno != EINPROGRESS) {
        return KVF_PEER_UNREACHABLE;
    }
    enum kvf_status status = wait_for(fd, POLLOUT, timeout_ms);
    if (status != KVF_OK) {
        return status;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0 || error != 0) {
        errno = error;
        return KVF_PEER_UNREACHABLE;
    }
    return KVF_OK;
}

static enum kvf_status try_address(struct kvf_call *call, const struct sockaddr *to,
                                   socklen_t length)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return KVF_SYSTEM;
    }
    enum kvf_status status = connect_fd(fd, to, length, call->timeout_ms);
    if (status != KVF_OK) {
        int error = errno;
        (void)close(fd); /* nothing was sent through it */
        errno = error;
        return status;
    }
    call->fd = fd;
    return KVF_OK;
}

static enum kvf_status connect_name(struct kvf_call *call,
                                    const struct kvf_address *address,
                                    char error[KVF_CALL_ERROR_MAX])
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", address->port);
    int rc = getaddrinfo(address->host, port, &hints, &found);
    if (rc != 0) {
        (void)snprintf(error, KVF_CALL_ERROR_MAX, "%s", gai_strerror(rc));
        return KVF_PEER_UNREACHABLE;
    }
    enum kvf_status status = KVF_PEER_UNREACHABLE;
    for (const struct addrinfo *at = found; at != NULL && status != KVF_OK;
         at = at->ai_next) {
        status = try_address(call, at->ai_addr, at->ai_addrlen);
    }
    if (status != KVF_OK && status != KVF_EXPIRED) {
        (void)snprintf(error, KVF_CALL_ERROR_MAX, "%s", strerrordesc_np(errno));
    }
    freeaddrinfo(found);
    return status;
}

static enum kvf_status connect_call(struct kvf_call *call,
                                    const struct kvf_address *address,
                                    char error[KVF_CALL_ERROR_MAX])
{
    struct kvf_sockaddr to;
    if (kvf_sockaddr_from_numeric(address, &to) != KVF_OK) {
        return connect_name(call, address, error);
    }
    enum kvf_status status =
        try_address(call, (const struct sockaddr *)&to.storage, to.length);
    if (status != KVF_OK && status != KVF_EXPIRED) {
        (void)snprintf(error, KVF_CALL_ERROR_MAX, "%s", strerrordesc_np(errno));
    }
    return status;
}

static enum kvf_status send_all(struct kvf_call *call, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(call->fd, bytes, n, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes += sent;
            n -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return KVF_PEER_LOST;
        }
        enum kvf_status status = wait_for(call->fd, POLLOUT, call->timeout_ms);
        if (status != KVF_OK) {
            return status;
        }
    }
    return KVF_OK;
}

/* More bytes into the buffer; at the server's end it sets is_closed instead. */
static enum kvf_status receive(struct kvf_call *call)
{
    uint8_t *room = kvf_buf_reserve(&call->in, HEAD_MAX);
    if (room == NULL) {
        return KVF_NO_MEMORY;
    }
    for (;;) {
        ssize_t n = recv(call->fd, room, HEAD_MAX, 0);
        if (n >= 0) {
            call->is_closed = n == 0;
            kvf_buf_commit(&call->in, (size_t)n);
            return KVF_OK;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return KVF_PEER_LOST;
        }
        enum kvf_status status = wait_for(call->fd, POLLIN, call->timeout_ms);
        if (status != KVF_OK) {
            return status;
        }
    }
}

/* ---- head */

static enum kvf_status send_request(struct kvf_call *call,
                                    const struct kvf_call_config *config)
{
    char host[KVF_ADDRESS_MAX + 8];
    char request[REQUEST_MAX];
    if (config->address->kind == KVF_ADDRESS_UNIX) {
        (void)snprintf(host, sizeof(host), "localhost");
    } else {
        kvf_address_format(config->address, host, sizeof(host));
    }
    bool has_token = config->token[0] != '\0';
    int n = snprintf(request, sizeof(request),
                     "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nX-Kvferry: 1\r\n"
                     "Connection: close\r\n%s%s%s\r\n",
                     config->method, config->target, host, config->accept,
                     has_token ? "Authorization: Bearer " : "", config->token,
                     has_token ? "\r\n" : "");
    if (n < 0 || (size_t)n >= sizeof(request)) {
        return KVF_INVALID_ARGUMENT;
    }
    return send_all(call, request, (size_t)n);
}

/* Reads until `mark` is in the buffer; *out_n: bytes before it. */
static enum kvf_status receive_until(struct kvf_call *call, const char *mark, size_t max,
                                     size_t *out_n)
{
    for (;;) {
        size_t n = kvf_buf_length(&call->in);
        const uint8_t *found =
            n > 0 ? memmem(kvf_buf_head(&call->in), n, mark, strlen(mark)) : NULL;
        if (found != NULL) {
            *out_n = (size_t)(found - kvf_buf_head(&call->in));
            return *out_n <= max ? KVF_OK : KVF_PROTOCOL;
        }
        if (n > max) {
            return KVF_PROTOCOL;
        }
        enum kvf_status status = call->is_closed ? KVF_PEER_LOST : receive(call);
        if (status != KVF_OK) {
            return status;
        }
    }
}

static bool starts_with(const char *line, size_t n, const char *name)
{
    size_t n_name = strlen(name);
    return n >= n_name && strncasecmp(line, name, n_name) == 0;
}

static enum kvf_status read_header(struct kvf_call *call, const char *line, size_t n)
{
    static const char length_name[] = "Content-Length:";
    static const char coding_name[] = "Transfer-Encoding:";
    const char *value = memchr(line, ':', n);
    if (value == NULL) {
        return KVF_PROTOCOL;
    }
    value++;
    value += strspn(value, " \t");
    if (starts_with(line, n, length_name) && call->framing == UNTIL_END) {
        if (!isdigit((unsigned char)*value)) {
            return KVF_PROTOCOL;
        }
        call->framing = BY_LENGTH;
        call->n_left = strtoull(value, NULL, 10);
    } else if (starts_with(line, n, coding_name)) {
        if (strncasecmp(value, "chunked", 7) != 0) {
            return KVF_PROTOCOL;
        }
        call->framing = BY_CHUNKS;
        call->n_left = 0;
    }
    return KVF_OK;
}

/* head: lines with CRLF between them, NUL-terminated. */
static enum kvf_status parse_head(struct kvf_call *call, const char *head)
{
    if (strncmp(head, "HTTP/1.", 7) != 0 || strlen(head) < 12 || head[8] != ' ') {
        return KVF_PROTOCOL;
    }
    call->status = (unsigned int)strtoul(head + 9, NULL, 10);
    if (call->status < 100 || call->status > 599) {
        return KVF_PROTOCOL;
    }
    for (const char *line = strstr(head, "\r\n"); line != NULL;
         line = strstr(line, "\r\n")) {
        line += 2;
        enum kvf_status status = read_header(call, line, strcspn(line, "\r"));
        if (status != KVF_OK) {
            return status;
        }
    }
    return KVF_OK;
}

static enum kvf_status read_head(struct kvf_call *call)
{
    static const char end_mark[] = "\r\n\r\n";
    char head[HEAD_MAX + 1];
    size_t n = 0;
    enum kvf_status status = receive_until(call, end_mark, HEAD_MAX, &n);
    if (status != KVF_OK) {
        return status;
    }
    memcpy(head, kvf_buf_head(&call->in), n);
    head[n] = '\0';
    kvf_buf_consume(&call->in, n + strlen(end_mark));
    return parse_head(call, head);
}

enum kvf_status kvf_call_open(const struct kvf_call_config *config, struct kvf_call **out,
                              char error[KVF_CALL_ERROR_MAX])
{
    error[0] = '\0';
    struct kvf_call *call = kvf_alloc(sizeof(*call));
    if (call == NULL) {
        return KVF_NO_MEMORY;
    }
    call->fd = -1;
    call->timeout_ms = config->timeout_ms;
    kvf_buf_init(&call->in, BUFFER_MAX);
    enum kvf_status status = connect_call(call, config->address, error);
    if (status == KVF_OK) {
        status = send_request(call, config);
    }
    if (status == KVF_OK) {
        status = read_head(call);
    }
    if (status != KVF_OK) {
        kvf_call_close(call);
        return status;
    }
    call->is_ended = call->status == 204 || strcmp(config->method, "HEAD") == 0;
    *out = call;
    return KVF_OK;
}

void kvf_call_close(struct kvf_call *call)
{
    if (call == NULL) {
        return;
    }
    if (call->fd >= 0) {
        (void)close(call->fd); /* everything was sent or is given up */
    }
    kvf_buf_fini(&call->in);
    kvf_free(call);
}

unsigned int kvf_call_status(const struct kvf_call *call)
{
    return call->status;
}

/* ---- body */

static enum kvf_status skip_line_end(struct kvf_call *call)
{
    size_t n = 0;
    enum kvf_status status = receive_until(call, "\r\n", 0, &n);
    if (status == KVF_OK) {
        kvf_buf_consume(&call->in, 2);
    }
    return status;
}

static enum kvf_status begin_chunk(struct kvf_call *call)
{
    char line[LINE_MAX_LEN + 1];
    size_t n = 0;
    enum kvf_status status = call->has_chunk ? skip_line_end(call) : KVF_OK;
    if (status == KVF_OK) {
        status = receive_until(call, "\r\n", LINE_MAX_LEN, &n);
    }
    if (status != KVF_OK) {
        return status;
    }
    memcpy(line, kvf_buf_head(&call->in), n);
    line[n] = '\0';
    if (!isxdigit((unsigned char)line[0])) {
        return KVF_PROTOCOL;
    }
    kvf_buf_consume(&call->in, n + 2);
    call->has_chunk = true;
    call->n_left = strtoull(line, NULL, 16);
    call->is_ended = call->n_left == 0; /* trailers may follow; nobody reads them */
    return KVF_OK;
}

/* Bytes into the empty buffer, unless the body has ended. */
static enum kvf_status refill(struct kvf_call *call)
{
    while (!call->is_ended && kvf_buf_length(&call->in) == 0) {
        if (call->is_closed && call->framing != UNTIL_END) {
            return KVF_PEER_LOST;
        }
        if (call->is_closed) {
            call->is_ended = true;
            break;
        }
        enum kvf_status status = receive(call);
        if (status != KVF_OK) {
            return status;
        }
    }
    return KVF_OK;
}

static void take(struct kvf_call *call, char *out, size_t max, size_t *out_n)
{
    size_t n = kvf_buf_length(&call->in);
    n = n < max ? n : max;
    if (call->framing != UNTIL_END && call->n_left < n) {
        n = (size_t)call->n_left;
    }
    memcpy(out, kvf_buf_head(&call->in), n);
    kvf_buf_consume(&call->in, n);
    call->n_left -= call->framing != UNTIL_END ? n : 0;
    *out_n = n;
}

enum kvf_status kvf_call_read(struct kvf_call *call, char *out, size_t max, size_t *out_n)
{
    enum kvf_status status = KVF_OK;
    if (call->framing == BY_CHUNKS && call->n_left == 0 && !call->is_ended) {
        status = begin_chunk(call);
    } else if (call->framing == BY_LENGTH && call->n_left == 0) {
        call->is_ended = true;
    }
    if (status == KVF_OK) {
        status = refill(call);
    }
    if (status != KVF_OK) {
        return status;
    }
    if (call->is_ended) {
        *out_n = 0;
    } else {
        take(call, out, max, out_n);
    }
    return KVF_OK;
}
