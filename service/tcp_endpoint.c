/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending end of a data connection: connect, greet, then header and payload of one
 * chunk after the other straight from their spans. A chunk is done when the kernel has
 * taken its last byte: its memory is free then, nothing more is claimed. Every way the
 * connection can end is DATA_PATH; whether the peer lives is for the control channel to
 * say.
 *
 * Ops are borrowed from post until their done is posted. Loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "service/tcp.h"

/* Chunks that may wait in one endpoint; sessions hold back at 4 each long before. */
#define POSTED_MAX 1024u

struct kvf_endpoint {
    struct kvf_tcp *tcp; /* borrows; owner */
    void *owner;
    int fd; /* owns; -1 once lost */
    struct kvf_io io;
    struct kvf_timer timer; /* until connected */
    struct kvf_node node;
    struct kvf_list queue; /* struct kvf_chunk_op.node; the first is being sent */
    uint8_t greeting[KVF_TCP_GREETING_BYTES];
    size_t n_greeted;
    bool is_connected;
    struct kvf_post lost_post;
    struct kvf_zombie zombie;
    char to[KVF_ADDRESS_MAX]; /* for the log */
};

static const struct kvf_log_ctx log_ctx = {.comp = "tcp"};

static void free_endpoint(void *object)
{
    kvf_free(object);
}

/* After this nothing of ours reads the memory of a queued chunk. */
static void close_socket(struct kvf_endpoint *endpoint, enum kvf_status status)
{
    kvf_loop_timer_stop(&endpoint->timer);
    kvf_loop_io_remove(&endpoint->io);
    if (endpoint->fd >= 0) {
        /* Reset, so that what the kernel still holds does not arrive later. */
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(endpoint->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        (void)close(endpoint->fd);
        endpoint->fd = -1;
    }
    for (struct kvf_node *node; (node = kvf_list_pop(&endpoint->queue)) != NULL;) {
        struct kvf_chunk_op *op = KVF_CONTAINER(node, struct kvf_chunk_op, node);
        kvf_tcp_op_end(endpoint->tcp, op, status);
    }
}

static void tell_lost(void *owner, enum kvf_status status)
{
    struct kvf_endpoint *endpoint = owner;
    struct kvf_tcp *tcp = endpoint->tcp;
    tcp->events->endpoint_lost(tcp->owner, endpoint->owner, status);
}

static void fail(struct kvf_endpoint *endpoint, const char *why)
{
    kvf_log_info(&log_ctx, "data connection to %s lost: %s", endpoint->to, why);
    close_socket(endpoint, KVF_DATA_PATH);
    kvf_loop_post(endpoint->tcp->loop, &endpoint->lost_post, tell_lost, endpoint,
                  KVF_DATA_PATH);
}

static bool is_would_block(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void want_io(struct kvf_endpoint *endpoint)
{
    bool has_work = endpoint->queue.n > 0 || endpoint->n_greeted < KVF_TCP_GREETING_BYTES;
    kvf_loop_io_set(&endpoint->io,
                    has_work ? KVF_IO_READ | KVF_IO_WRITE : (uint32_t)KVF_IO_READ);
}

/* false: wait for the next event, or lost. */
static bool send_greeting(struct kvf_endpoint *endpoint)
{
    size_t left = KVF_TCP_GREETING_BYTES - endpoint->n_greeted;
    if (left == 0) {
        return true;
    }
    ssize_t n =
        send(endpoint->fd, endpoint->greeting + endpoint->n_greeted, left, MSG_NOSIGNAL);
    if (n < 0) {
        if (!is_would_block(errno)) {
            fail(endpoint, strerrordesc_np(errno));
        }
        return false;
    }
    endpoint->n_greeted += (size_t)n;
    return endpoint->n_greeted == KVF_TCP_GREETING_BYTES;
}

/* One sendmsg of at most budget payload bytes. Returns bytes taken, 0: stop. */
static uint64_t send_some(struct kvf_endpoint *endpoint, struct kvf_chunk_op *op,
                          uint64_t budget)
{
    struct iovec iov[KVF_SPANS_MAX + 1];
    size_t n_iov = 0;
    uint64_t n_payload = 0;
    if (op->progress_bytes < KVF_CHUNK_HEADER_BYTES) {
        iov[n_iov++] = (struct iovec){
            .iov_base = op->wire + op->progress_bytes,
            .iov_len = KVF_CHUNK_HEADER_BYTES - op->progress_bytes,
        };
    } else {
        n_payload = op->progress_bytes - KVF_CHUNK_HEADER_BYTES;
    }
    n_iov += kvf_tcp_spans_after(op, n_payload, budget, iov + n_iov);
    const struct msghdr message = {.msg_iov = iov, .msg_iovlen = n_iov};
    ssize_t n = sendmsg(endpoint->fd, &message, MSG_NOSIGNAL);
    if (n < 0) {
        if (!is_would_block(errno)) {
            fail(endpoint, strerrordesc_np(errno));
        }
        return 0;
    }
    op->progress_bytes += (uint64_t)n;
    return (uint64_t)n;
}

static void send_queue(struct kvf_endpoint *endpoint)
{
    uint64_t budget = KVF_TCP_TURN_BYTES;
    if (!send_greeting(endpoint)) {
        return;
    }
    while (budget > 0 && endpoint->queue.n > 0) {
        struct kvf_chunk_op *op =
            KVF_CONTAINER(kvf_list_first(&endpoint->queue), struct kvf_chunk_op, node);
        uint64_t n = send_some(endpoint, op, budget);
        if (n == 0) {
            return;
        }
        budget -= n < budget ? n : budget;
        if (op->progress_bytes == KVF_CHUNK_HEADER_BYTES + (uint64_t)op->header.length) {
            kvf_list_remove(&endpoint->queue, &op->node);
            kvf_tcp_op_end(endpoint->tcp, op, KVF_OK);
        }
    }
    want_io(endpoint);
}

static bool finish_connect(struct kvf_endpoint *endpoint)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(endpoint->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error != 0) {
        fail(endpoint, strerrordesc_np(error));
        return false;
    }
    endpoint->is_connected = true;
    kvf_loop_timer_stop(&endpoint->timer);
    return true;
}

/* The receiver never sends anything: readable means that it closed, or is no kvferry. */
static bool is_still_open(struct kvf_endpoint *endpoint)
{
    uint8_t byte;
    ssize_t n = recv(endpoint->fd, &byte, sizeof(byte), 0);
    if (n < 0 && is_would_block(errno)) {
        return true;
    }
    fail(endpoint, n < 0    ? strerrordesc_np(errno)
                   : n == 0 ? "closed by the peer"
                            : "the peer sent bytes");
    return false;
}

static void on_io(void *owner, uint32_t events)
{
    struct kvf_endpoint *endpoint = owner;
    if (!endpoint->is_connected && !finish_connect(endpoint)) {
        return;
    }
    if ((events & (KVF_IO_READ | KVF_IO_HANGUP)) != 0 && !is_still_open(endpoint)) {
        return;
    }
    if ((events & KVF_IO_WRITE) != 0) {
        send_queue(endpoint);
    }
}

static void on_connect_timeout(void *owner)
{
    fail(owner, "no connection in time");
}

static enum kvf_status start_connect(struct kvf_endpoint *endpoint,
                                     const struct kvf_sockaddr *to)
{
    struct kvf_tcp *tcp = endpoint->tcp;
    endpoint->fd =
        socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (endpoint->fd < 0) {
        kvf_log_error(&log_ctx, "data socket failed: %s", strerrordesc_np(errno));
        return KVF_SYSTEM;
    }
    kvf_tcp_tune(endpoint->fd);
    const struct sockaddr *address = (const struct sockaddr *)&to->storage;
    if (connect(endpoint->fd, address, to->length) != 0 && errno != EINPROGRESS) {
        kvf_log_info(&log_ctx, "data connection to %s failed: %s", endpoint->to,
                     strerrordesc_np(errno));
        return KVF_DATA_PATH;
    }
    enum kvf_status status = kvf_loop_io_add(tcp->loop, &endpoint->io, endpoint->fd,
                                             KVF_IO_READ | KVF_IO_WRITE, on_io, endpoint);
    if (status != KVF_OK) {
        return status;
    }
    uint64_t deadline_ns =
        kvf_loop_now_ns(tcp->loop) +
        tcp->config->control.connect_timeout_ms * (uint64_t)KVF_NS_PER_MS;
    return kvf_loop_timer_start(tcp->loop, &endpoint->timer, deadline_ns,
                                on_connect_timeout, endpoint);
}

enum kvf_status kvf_tcp_endpoint_open(struct kvf_tcp *tcp, const struct kvf_sockaddr *to,
                                      const uint8_t token[KVF_DATA_TOKEN_BYTES],
                                      void *owner, struct kvf_endpoint **out)
{
    struct kvf_endpoint *endpoint = kvf_alloc(sizeof(*endpoint));
    if (endpoint == NULL) {
        return KVF_NO_MEMORY;
    }
    endpoint->tcp = tcp;
    endpoint->owner = owner;
    endpoint->fd = -1;
    kvf_list_init(&endpoint->queue);
    kvf_tcp_greeting_write(token, endpoint->greeting);
    kvf_sockaddr_format(to, endpoint->to, sizeof(endpoint->to));
    kvf_list_add_tail(&tcp->endpoints, &endpoint->node);
    enum kvf_status status = start_connect(endpoint, to);
    if (status != KVF_OK) {
        kvf_tcp_disconnect(endpoint);
        return status;
    }
    *out = endpoint;
    return KVF_OK;
}

enum kvf_status kvf_tcp_post(struct kvf_endpoint *endpoint, struct kvf_chunk_op *op)
{
    if (endpoint->fd < 0) {
        return KVF_DATA_PATH;
    }
    if (endpoint->queue.n >= POSTED_MAX) {
        return KVF_BUSY;
    }
    assert(kvf_chunk_op_is_sound(op, op->memory->base, op->memory->length,
                                 endpoint->tcp->is_contiguous, op->header.length));
    kvf_chunk_header_write(&op->header, op->wire);
    op->progress_bytes = 0;
    kvf_list_add_tail(&endpoint->queue, &op->node);
    if (endpoint->queue.n == 1) {
        want_io(endpoint);
    }
    return KVF_OK;
}

void kvf_tcp_disconnect(struct kvf_endpoint *endpoint)
{
    close_socket(endpoint, KVF_CANCELLED);
    kvf_loop_post_remove(&endpoint->lost_post);
    kvf_list_remove(&endpoint->tcp->endpoints, &endpoint->node);
    kvf_loop_destroy_later(endpoint->tcp->loop, &endpoint->zombie, free_endpoint,
                           endpoint);
}
