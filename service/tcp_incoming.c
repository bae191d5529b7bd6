/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving end of a data connection. It shows a token first, within a time limit,
 * and then announces one chunk at a time: while its arrival is unanswered nothing more is
 * read from it, so the sender's own socket is the back-pressure. The payload goes
 * straight into the spans of the answer, or into a scratch buffer when it was dropped.
 *
 * A new connection under a token replaces the one before: a sender that comes again has
 * given the old one up, and so there are never more connections than tokens. Every read
 * is made here and now, so nothing is written into a chunk's memory after the connection
 * was closed. Loop thread.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "service/tcp.h"

enum incoming_state {
    INCOMING_GREETING = 0,
    INCOMING_HEADER = 1,
    INCOMING_ANNOUNCED = 2, /* the owner holds the arrival */
    INCOMING_PAYLOAD = 3,   /* into op */
    INCOMING_SKIPPING = 4,  /* dropped */
    INCOMING_LOST = 5,      /* closed; the owner does not know about its arrival yet */
    INCOMING_CLOSED = 6     /* freed at the end of the turn */
};

struct kvf_arrival {
    struct kvf_chunk_header header;
};

struct kvf_tcp_incoming {
    struct kvf_tcp *tcp; /* borrows; owner */
    enum incoming_state state;
    int fd; /* owns */
    struct kvf_io io;
    struct kvf_timer timer; /* while greeting */
    struct kvf_node node;
    uint8_t token[KVF_DATA_TOKEN_BYTES];
    uint8_t head[KVF_CHUNK_HEADER_BYTES]; /* greeting or header under way */
    size_t n_head;
    struct kvf_arrival arrival; /* the current chunk */
    struct kvf_chunk_op *op;    /* borrows until ended; PAYLOAD only */
    uint64_t n_payload;         /* bytes received or skipped of it */
    struct kvf_post lost_post;
    struct kvf_zombie zombie;
};
_Static_assert(KVF_TCP_GREETING_BYTES <= KVF_CHUNK_HEADER_BYTES, "head holds either");

static const struct kvf_log_ctx log_ctx = {.comp = "tcp"};

static struct kvf_tcp_incoming *incoming_of(struct kvf_arrival *arrival)
{
    return KVF_CONTAINER(arrival, struct kvf_tcp_incoming, arrival);
}

static void free_incoming(void *object)
{
    kvf_free(object);
}

static void end_incoming(struct kvf_tcp_incoming *incoming)
{
    incoming->state = INCOMING_CLOSED;
    kvf_list_remove(&incoming->tcp->incoming, &incoming->node);
    kvf_loop_destroy_later(incoming->tcp->loop, &incoming->zombie, free_incoming,
                           incoming);
}

static void tell_lost(void *owner, enum kvf_status status)
{
    struct kvf_tcp_incoming *incoming = owner;
    struct kvf_tcp *tcp = incoming->tcp;
    (void)status; /* the event has no cause: the control channel tells it */
    end_incoming(incoming);
    tcp->events->arrival_lost(tcp->owner, &incoming->arrival);
}

static void close_incoming(struct kvf_tcp_incoming *incoming, enum kvf_status status)
{
    struct kvf_tcp *tcp = incoming->tcp;
    enum incoming_state state = incoming->state;
    kvf_loop_timer_stop(&incoming->timer);
    kvf_loop_io_remove(&incoming->io);
    (void)close(incoming->fd);
    incoming->fd = -1;
    if (state == INCOMING_GREETING) {
        tcp->n_greeting--;
        kvf_tcp_listener_update(tcp);
    }
    if (state == INCOMING_PAYLOAD) {
        kvf_tcp_op_end(tcp, incoming->op, status);
    }
    if (state == INCOMING_ANNOUNCED) {
        tcp->n_kept--;
        incoming->state = INCOMING_LOST;
        kvf_loop_post(tcp->loop, &incoming->lost_post, tell_lost, incoming, status);
        return;
    }
    end_incoming(incoming);
}

void kvf_tcp_incoming_close(struct kvf_tcp *tcp, const uint8_t *token, bool is_silent)
{
    struct kvf_node *next = NULL;
    for (struct kvf_node *node = kvf_list_first(&tcp->incoming); node != NULL;
         node = next) {
        struct kvf_tcp_incoming *incoming =
            KVF_CONTAINER(node, struct kvf_tcp_incoming, node);
        next = kvf_list_next(&tcp->incoming, node);
        bool is_meant =
            token == NULL || (incoming->state != INCOMING_GREETING &&
                              memcmp(incoming->token, token, KVF_DATA_TOKEN_BYTES) == 0);
        if (is_meant && incoming->state != INCOMING_LOST) {
            close_incoming(incoming, KVF_CANCELLED);
        }
        if (is_meant && is_silent && incoming->state == INCOMING_LOST) {
            kvf_loop_post_remove(&incoming->lost_post);
            end_incoming(incoming);
        }
    }
}

/* Takes what recv or readv returned. false: stop for now (nothing there, or closed). */
static bool check_read(struct kvf_tcp_incoming *incoming, ssize_t n)
{
    if (n > 0) {
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return false;
    }
    kvf_log_debug(&log_ctx, "incoming data connection closed: %s",
                  n == 0 ? "end of stream" : strerrordesc_np(errno));
    close_incoming(incoming, KVF_DATA_PATH);
    return false;
}

/* true: head holds n_bytes. */
static bool read_head(struct kvf_tcp_incoming *incoming, size_t n_bytes)
{
    ssize_t n = recv(incoming->fd, incoming->head + incoming->n_head,
                     n_bytes - incoming->n_head, 0);
    if (!check_read(incoming, n)) {
        return false;
    }
    incoming->n_head += (size_t)n;
    return incoming->n_head == n_bytes;
}

static void accept_greeting(struct kvf_tcp_incoming *incoming)
{
    struct kvf_tcp *tcp = incoming->tcp;
    const uint8_t *token = NULL;
    if (kvf_tcp_greeting_read(incoming->head, &token) != KVF_OK ||
        !kvf_tcp_has_token(tcp, token)) {
        kvf_log_warn(&log_ctx, "data connection refused: no valid greeting");
        close_incoming(incoming, KVF_PROTOCOL);
        return;
    }
    kvf_tcp_incoming_close(tcp, token, false);
    memcpy(incoming->token, token, KVF_DATA_TOKEN_BYTES);
    kvf_loop_timer_stop(&incoming->timer);
    incoming->state = INCOMING_HEADER;
    incoming->n_head = 0;
    tcp->n_greeting--;
    kvf_tcp_listener_update(tcp);
}

static void announce(struct kvf_tcp_incoming *incoming)
{
    struct kvf_tcp *tcp = incoming->tcp;
    struct kvf_chunk_header *header = &incoming->arrival.header;
    if (kvf_chunk_header_read(incoming->head, incoming->n_head, header) != KVF_OK ||
        memcmp(header->token, incoming->token, KVF_DATA_TOKEN_BYTES) != 0) {
        kvf_log_warn(&log_ctx, "data connection closed: malformed chunk header");
        close_incoming(incoming, KVF_PROTOCOL);
        return;
    }
    incoming->n_head = 0;
    incoming->n_payload = 0;
    if (tcp->n_kept >= tcp->max_kept) {
        kvf_log_warn(&log_ctx, "chunk dropped: %zu arrivals are unanswered", tcp->n_kept);
        incoming->state = INCOMING_SKIPPING;
        return;
    }
    incoming->state = INCOMING_ANNOUNCED;
    tcp->n_kept++;
    tcp->events->arrived(tcp->owner, &tcp->base, &incoming->arrival, header);
    if (incoming->state == INCOMING_ANNOUNCED) {
        kvf_loop_io_set(&incoming->io, 0); /* until it is answered */
    }
}

static void add_payload(struct kvf_tcp_incoming *incoming, uint64_t n_bytes)
{
    incoming->n_payload += n_bytes;
    if (incoming->n_payload < incoming->arrival.header.length) {
        return;
    }
    if (incoming->state == INCOMING_PAYLOAD) {
        kvf_tcp_op_end(incoming->tcp, incoming->op, KVF_OK);
        incoming->op = NULL;
    }
    incoming->state = INCOMING_HEADER;
}

static bool read_payload(struct kvf_tcp_incoming *incoming, uint64_t *budget)
{
    struct iovec iov[KVF_SPANS_MAX];
    size_t n_iov = kvf_tcp_spans_after(incoming->op, incoming->n_payload, *budget, iov);
    ssize_t n = readv(incoming->fd, iov, (int)n_iov);
    if (!check_read(incoming, n)) {
        return false;
    }
    *budget -= (uint64_t)n;
    add_payload(incoming, (uint64_t)n);
    return true;
}

static bool read_skipping(struct kvf_tcp_incoming *incoming, uint64_t *budget)
{
    uint64_t left = incoming->arrival.header.length - incoming->n_payload;
    left = left < *budget ? left : *budget;
    size_t want = left < KVF_TCP_SCRATCH_BYTES ? left : KVF_TCP_SCRATCH_BYTES;
    ssize_t n = recv(incoming->fd, incoming->tcp->scratch, want, 0);
    if (!check_read(incoming, n)) {
        return false;
    }
    *budget -= (uint64_t)n;
    add_payload(incoming, (uint64_t)n);
    return true;
}

/* One read and what follows from it. false: nothing more to do in this turn. */
static bool step(struct kvf_tcp_incoming *incoming, uint64_t *budget)
{
    switch (incoming->state) {
    case INCOMING_GREETING:
        if (!read_head(incoming, KVF_TCP_GREETING_BYTES)) {
            return false;
        }
        accept_greeting(incoming);
        return true;
    case INCOMING_HEADER:
        if (!read_head(incoming, KVF_CHUNK_HEADER_BYTES)) {
            return false;
        }
        announce(incoming);
        return true;
    case INCOMING_PAYLOAD:
        return read_payload(incoming, budget);
    case INCOMING_SKIPPING:
        return read_skipping(incoming, budget);
    case INCOMING_ANNOUNCED:
    case INCOMING_LOST:
    case INCOMING_CLOSED:
        break;
    }
    return false;
}

static void on_io(void *owner, uint32_t events)
{
    struct kvf_tcp_incoming *incoming = owner;
    uint64_t budget = KVF_TCP_TURN_BYTES;
    if (incoming->state == INCOMING_ANNOUNCED) {
        if ((events & KVF_IO_HANGUP) != 0) {
            close_incoming(incoming, KVF_DATA_PATH);
        }
        return;
    }
    while (budget > 0 && step(incoming, &budget)) {
    }
}

static void on_greeting_timeout(void *owner)
{
    kvf_log_warn(&log_ctx, "data connection refused: no greeting in time");
    close_incoming(owner, KVF_EXPIRED);
}

void kvf_tcp_incoming_open(struct kvf_tcp *tcp, int fd)
{
    struct kvf_tcp_incoming *incoming = kvf_alloc(sizeof(*incoming));
    if (incoming == NULL) {
        (void)close(fd);
        return;
    }
    incoming->tcp = tcp;
    incoming->fd = fd;
    incoming->state = INCOMING_GREETING;
    kvf_list_add_tail(&tcp->incoming, &incoming->node);
    tcp->n_greeting++;
    kvf_tcp_tune(fd);
    uint64_t deadline_ns =
        kvf_loop_now_ns(tcp->loop) +
        tcp->config->control.hello_timeout_ms * (uint64_t)KVF_NS_PER_MS;
    enum kvf_status status =
        kvf_loop_io_add(tcp->loop, &incoming->io, fd, KVF_IO_READ, on_io, incoming);
    if (status == KVF_OK) {
        status = kvf_loop_timer_start(tcp->loop, &incoming->timer, deadline_ns,
                                      on_greeting_timeout, incoming);
    }
    if (status != KVF_OK) {
        close_incoming(incoming, status);
    }
}

enum kvf_status kvf_tcp_receive(struct kvf_arrival *arrival, struct kvf_chunk_op *op)
{
    struct kvf_tcp_incoming *incoming = incoming_of(arrival);
    if (incoming->state == INCOMING_LOST) {
        kvf_tcp_drop(arrival);
        return KVF_DATA_PATH;
    }
    assert(incoming->state == INCOMING_ANNOUNCED);
    assert(kvf_chunk_op_is_sound(op, op->memory->base, op->memory->length,
                                 incoming->tcp->is_contiguous, arrival->header.length));
    incoming->tcp->n_kept--;
    incoming->op = op;
    incoming->state = INCOMING_PAYLOAD;
    kvf_loop_io_set(&incoming->io, KVF_IO_READ);
    return KVF_OK;
}

void kvf_tcp_drop(struct kvf_arrival *arrival)
{
    struct kvf_tcp_incoming *incoming = incoming_of(arrival);
    if (incoming->state == INCOMING_LOST) {
        kvf_loop_post_remove(&incoming->lost_post);
        end_incoming(incoming);
        return;
    }
    assert(incoming->state == INCOMING_ANNOUNCED);
    incoming->tcp->n_kept--;
    incoming->state = INCOMING_SKIPPING;
    kvf_loop_io_set(&incoming->io, KVF_IO_READ);
}
