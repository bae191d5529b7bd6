/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tcp transport: our own framed stream, for networks where UCX may not listen (it
 * takes unauthenticated remote writes) and for peers whose UCX differs. This file has the
 * ops, the listener and the tokens; connections are in tcp_endpoint.c and tcp_incoming.c.
 *
 * The blob of the Hello is the bound address as text, "10.0.0.3:7480"; a wildcard host
 * means "where the control connection goes". Loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "service/tcp.h"

#define BACKLOG           128
#define ACCEPTS_PER_TURN  16
#define ACCEPT_REST_NS    (100 * KVF_NS_PER_MS)
#define GREETING_MAGIC    "KVFD"
#define GREETING_VERSION  1u
#define GREETING_AT_TOKEN (KVF_TCP_GREETING_BYTES - KVF_DATA_TOKEN_BYTES)

struct tcp_token {
    uint8_t bytes[KVF_DATA_TOKEN_BYTES];
    struct kvf_node node;
};

static const struct kvf_log_ctx log_ctx = {.comp = "tcp"};

void kvf_tcp_tune(int fd)
{
    /* Buffers are left to the kernel: it grows them to tcp_rmem and tcp_wmem, and a fixed
     * size would be cut to the much smaller core limits. */
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on,
                     sizeof(on)); /* slower, not wrong */
}

/* Magic, version (2 bytes), length (2 bytes), token; little-endian. */
void kvf_tcp_greeting_write(const uint8_t token[KVF_DATA_TOKEN_BYTES],
                            uint8_t out[KVF_TCP_GREETING_BYTES])
{
    memcpy(out, GREETING_MAGIC, 4);
    out[4] = GREETING_VERSION;
    out[5] = 0;
    out[6] = KVF_TCP_GREETING_BYTES;
    out[7] = 0;
    memcpy(out + GREETING_AT_TOKEN, token, KVF_DATA_TOKEN_BYTES);
}

enum kvf_status kvf_tcp_greeting_read(const uint8_t bytes[KVF_TCP_GREETING_BYTES],
                                      const uint8_t **out_token)
{
    if (memcmp(bytes, GREETING_MAGIC, 4) != 0 || bytes[4] != GREETING_VERSION ||
        bytes[5] != 0 || bytes[6] != KVF_TCP_GREETING_BYTES || bytes[7] != 0) {
        return KVF_PROTOCOL;
    }
    *out_token = bytes + GREETING_AT_TOKEN;
    return KVF_OK;
}

size_t kvf_tcp_spans_after(const struct kvf_chunk_op *op, uint64_t skip_bytes,
                           uint64_t max_bytes, struct iovec out[KVF_SPANS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < op->n_spans && max_bytes > 0; i++) {
        size_t length = op->spans[i].iov_len;
        if (skip_bytes >= length) {
            skip_bytes -= length;
            continue;
        }
        size_t left = length - skip_bytes;
        left = left < max_bytes ? left : (size_t)max_bytes;
        out[n++] = (struct iovec){
            .iov_base = (uint8_t *)op->spans[i].iov_base + skip_bytes,
            .iov_len = left,
        };
        skip_bytes = 0;
        max_bytes -= left;
    }
    return n;
}

void kvf_tcp_op_end(struct kvf_tcp *tcp, struct kvf_chunk_op *op, enum kvf_status status)
{
    kvf_loop_post(tcp->loop, &op->post, op->done, op->owner, status);
}

/* ---- tokens */

/* Takes as long whatever the bytes are. */
static bool is_same_token(const uint8_t *a, const uint8_t *b)
{
    unsigned different = 0;
    for (size_t i = 0; i < KVF_DATA_TOKEN_BYTES; i++) {
        different |= (unsigned)(a[i] ^ b[i]);
    }
    return different == 0;
}

static struct tcp_token *find_token(const struct kvf_tcp *tcp, const uint8_t *bytes)
{
    struct tcp_token *found = NULL;
    for (struct kvf_node *node = kvf_list_first(&tcp->tokens); node != NULL;
         node = kvf_list_next(&tcp->tokens, node)) {
        struct tcp_token *token = KVF_CONTAINER(node, struct tcp_token, node);
        if (is_same_token(token->bytes, bytes)) {
            found = token;
        }
    }
    return found;
}

bool kvf_tcp_has_token(const struct kvf_tcp *tcp,
                       const uint8_t token[KVF_DATA_TOKEN_BYTES])
{
    return find_token(tcp, token) != NULL;
}

static enum kvf_status token_add(struct kvf_transport *transport,
                                 const uint8_t bytes[KVF_DATA_TOKEN_BYTES])
{
    struct kvf_tcp *tcp = kvf_tcp_of(transport);
    if (kvf_tcp_has_token(tcp, bytes)) {
        return KVF_DUPLICATE;
    }
    struct tcp_token *token = kvf_alloc(sizeof(*token));
    if (token == NULL) {
        return KVF_NO_MEMORY;
    }
    memcpy(token->bytes, bytes, KVF_DATA_TOKEN_BYTES);
    kvf_list_add_tail(&tcp->tokens, &token->node);
    return KVF_OK;
}

static void token_remove(struct kvf_transport *transport,
                         const uint8_t bytes[KVF_DATA_TOKEN_BYTES])
{
    struct kvf_tcp *tcp = kvf_tcp_of(transport);
    struct tcp_token *token = find_token(tcp, bytes);
    if (token == NULL) {
        return;
    }
    kvf_tcp_incoming_close(tcp, bytes, false);
    kvf_list_remove(&tcp->tokens, &token->node);
    kvf_free(token);
}

/* ---- listener */

void kvf_tcp_listener_update(struct kvf_tcp *tcp)
{
    bool is_resting =
        tcp->n_greeting >= KVF_TCP_GREETING_MAX || kvf_timer_is_running(&tcp->rest_timer);
    if (tcp->listen_io.loop != NULL) {
        kvf_loop_io_set(&tcp->listen_io, is_resting ? 0 : (uint32_t)KVF_IO_READ);
    }
}

static void on_rested(void *owner)
{
    kvf_tcp_listener_update(owner);
}

static void rest_listener(struct kvf_tcp *tcp)
{
    kvf_log_warn(&log_ctx, "data connection not accepted: %s", strerrordesc_np(errno));
    enum kvf_status status =
        kvf_loop_timer_start(tcp->loop, &tcp->rest_timer,
                             kvf_loop_now_ns(tcp->loop) + ACCEPT_REST_NS, on_rested, tcp);
    (void)status; /* without a timer the next turn tries again */
    kvf_tcp_listener_update(tcp);
}

static void on_connection(void *owner, uint32_t events)
{
    struct kvf_tcp *tcp = owner;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN && tcp->n_greeting < KVF_TCP_GREETING_MAX; i++) {
        /* cppcheck-suppress nullPointer ; nobody asks for the address */
        int fd = accept4(tcp->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            kvf_tcp_incoming_open(tcp, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM) {
            rest_listener(tcp);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            break;
        }
    }
    kvf_tcp_listener_update(tcp);
}

/* Binds one port; false: try the next. */
static bool bind_port(struct kvf_tcp *tcp, const struct kvf_sockaddr *address)
{
    int fd =
        socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* bind tells */
    if (bind(fd, (const struct sockaddr *)&address->storage, address->length) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return false;
    }
    tcp->listen_fd = fd;
    return true;
}

static uint16_t bound_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t length = sizeof(name);
    if (getsockname(fd, &name.any, &length) != 0) {
        return 0;
    }
    return ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
}

/* The first free port of the range. */
static enum kvf_status bind_range(struct kvf_tcp *tcp, const struct kvf_address *range)
{
    struct kvf_address address = *range;
    for (uint32_t port = range->port; port <= range->port_last; port++) {
        struct kvf_sockaddr numeric = {0};
        address.port = address.port_last = (uint16_t)port;
        enum kvf_status status = kvf_sockaddr_from_numeric(&address, &numeric);
        if (status != KVF_OK) {
            kvf_log_error(&log_ctx, "data.listen: %s is not a numeric address",
                          range->host);
            return KVF_CONFIG;
        }
        if (bind_port(tcp, &numeric)) {
            address.port = address.port_last = bound_port(tcp->listen_fd);
            tcp->address = address;
            return KVF_OK;
        }
    }
    kvf_log_error(&log_ctx, "data.listen: no port of %s:%u-%u can be bound: %s",
                  range->host, (unsigned)range->port, (unsigned)range->port_last,
                  strerrordesc_np(errno));
    return KVF_SYSTEM;
}

/* ---- ops */

static void close_tcp(struct kvf_transport *transport)
{
    if (transport == NULL) {
        return;
    }
    struct kvf_tcp *tcp = kvf_tcp_of(transport);
    assert(tcp->endpoints.n == 0);
    kvf_loop_timer_stop(&tcp->rest_timer);
    kvf_loop_io_remove(&tcp->listen_io);
    if (tcp->listen_fd >= 0) {
        (void)close(tcp->listen_fd);
    }
    kvf_tcp_incoming_close(tcp, NULL, true);
    for (struct kvf_node *node; (node = kvf_list_pop(&tcp->tokens)) != NULL;) {
        kvf_free(KVF_CONTAINER(node, struct tcp_token, node));
    }
    kvf_free(tcp->scratch);
    kvf_free(tcp);
}

static enum kvf_status blob(struct kvf_transport *transport, uint8_t *out, size_t *n)
{
    char text[KVF_ADDRESS_MAX + 16];
    kvf_address_format(&kvf_tcp_of(transport)->address, text, sizeof(text));
    *n = strlen(text);
    memcpy(out, text, *n);
    return KVF_OK;
}

static const char *version(struct kvf_transport *transport)
{
    (void)transport;
    return "1"; /* of greeting and chunk framing */
}

static enum kvf_status memory_add(struct kvf_transport *transport, void *base,
                                  size_t length, struct kvf_transport_memory **out)
{
    (void)transport;
    struct kvf_transport_memory *memory = kvf_alloc(sizeof(*memory));
    if (memory == NULL) {
        return KVF_NO_MEMORY;
    }
    *memory = (struct kvf_transport_memory){.base = base, .length = length};
    *out = memory;
    return KVF_OK;
}

static void memory_remove(struct kvf_transport *transport,
                          struct kvf_transport_memory *memory)
{
    (void)transport;
    kvf_free(memory);
}

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static enum kvf_status resolve_blob(const uint8_t *bytes, size_t n, const char *peer_host,
                                    struct kvf_sockaddr *out)
{
    char text[KVF_ADDRESS_MAX + 16];
    struct kvf_address address;
    const char *error = NULL;
    if (n >= sizeof(text) || memchr(bytes, '\0', n) != NULL) {
        return KVF_PROTOCOL;
    }
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (kvf_address_parse(text, &address, &error) != KVF_OK ||
        address.kind != KVF_ADDRESS_TCP || address.port == 0) {
        return KVF_PROTOCOL;
    }
    if (is_wildcard(address.host)) {
        size_t length = peer_host != NULL ? strlen(peer_host) : 0;
        if (length == 0 || length >= sizeof(address.host)) {
            return KVF_INVALID_ARGUMENT;
        }
        memcpy(address.host, peer_host, length + 1);
    }
    return kvf_sockaddr_from_numeric(&address, out) == KVF_OK ? KVF_OK : KVF_PROTOCOL;
}

/* NOLINTNEXTLINE(readability-function-size): the port's signature */
static enum kvf_status connect_tcp(struct kvf_transport *transport,
                                   const uint8_t *blob_in, size_t n,
                                   const char *peer_host,
                                   const uint8_t token[KVF_DATA_TOKEN_BYTES], void *owner,
                                   struct kvf_endpoint **out)
{
    struct kvf_sockaddr to;
    enum kvf_status status = resolve_blob(blob_in, n, peer_host, &to);
    if (status != KVF_OK) {
        kvf_log_warn(&log_ctx, "the peer's data address cannot be used");
        return status;
    }
    return kvf_tcp_endpoint_open(kvf_tcp_of(transport), &to, token, owner, out);
}

static const char *lane(struct kvf_endpoint *endpoint)
{
    (void)endpoint;
    return "tcp";
}

static enum kvf_status open_tcp(const struct kvf_transport_config *config,
                                struct kvf_transport **out)
{
    struct kvf_tcp *tcp = kvf_alloc(sizeof(*tcp));
    if (tcp == NULL) {
        return KVF_NO_MEMORY;
    }
    tcp->ops = kvf_transport_tcp;
    tcp->base.ops = &tcp->ops;
    tcp->loop = config->loop;
    tcp->config = config->config;
    tcp->events = config->events;
    tcp->owner = config->owner;
    tcp->max_kept = config->max_kept;
    tcp->listen_fd = -1;
    tcp->is_contiguous = config->config->data.force_contiguous;
    if (tcp->is_contiguous) {
        tcp->ops.is_direct_send = tcp->ops.is_direct_receive = false;
    }
    kvf_list_init(&tcp->tokens);
    kvf_list_init(&tcp->incoming);
    kvf_list_init(&tcp->endpoints);
    enum kvf_status status = KVF_NO_MEMORY;
    tcp->scratch = kvf_alloc(KVF_TCP_SCRATCH_BYTES);
    if (tcp->scratch == NULL) {
        goto fail;
    }
    status = bind_range(tcp, &config->config->data.listen);
    if (status != KVF_OK) {
        goto fail;
    }
    status = kvf_loop_io_add(tcp->loop, &tcp->listen_io, tcp->listen_fd, KVF_IO_READ,
                             on_connection, tcp);
    if (status != KVF_OK) {
        goto fail;
    }
    *out = &tcp->base;
    return KVF_OK;
fail:
    close_tcp(&tcp->base);
    return status;
}

const struct kvf_transport_ops kvf_transport_tcp = {
    .name = "tcp",
    .open = open_tcp,
    .close = close_tcp,
    .blob = blob,
    .version = version,
    .memory_add = memory_add,
    .memory_remove = memory_remove,
    .connect = connect_tcp,
    .disconnect = kvf_tcp_disconnect,
    .lane = lane,
    .post = kvf_tcp_post,
    .receive = kvf_tcp_receive,
    .drop = kvf_tcp_drop,
    .token_add = token_add,
    .token_remove = token_remove,
    .is_direct_send = true,
    .is_direct_receive = true,
};
