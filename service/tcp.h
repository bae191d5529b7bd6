/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the tcp transport. One connection per endpoint, in one direction: sender to
 * receiver. It starts with a greeting (magic, version, the receiver's data token) and
 * then carries chunks, header and payload, until one side closes it; nothing flows back.
 *
 * transport_tcp.c: the ops, the listener, tokens. tcp_endpoint.c: sending.
 * tcp_incoming.c: receiving. The transport owns endpoints and incoming connections; an
 * object that ends in a callback is freed at the end of the turn. Loop thread.
 */
#ifndef KVF_SERVICE_TCP_H
#define KVF_SERVICE_TCP_H

#include "service/transport.h"

#define KVF_TCP_GREETING_BYTES 24u
/* Bytes one connection moves before others get their turn: about 1 ms of copying. */
#define KVF_TCP_TURN_BYTES     (4u << 20)
/* Connections that have not greeted yet; more wait in the listener's backlog. */
#define KVF_TCP_GREETING_MAX   64u
#define KVF_TCP_SCRATCH_BYTES  (256u << 10)

/* Nothing is registered; it only says where spans may lie. */
struct kvf_transport_memory {
    const uint8_t *base;
    size_t length;
};

struct kvf_tcp {
    struct kvf_transport base;
    struct kvf_transport_ops ops;    /* what base.ops points to: flags depend on config */
    struct kvf_loop *loop;           /* borrows */
    const struct kvf_config *config; /* borrows */
    const struct kvf_transport_events *events; /* borrows */
    void *owner;                               /* of the events */
    bool is_contiguous;                        /* one span per chunk */

    int listen_fd; /* owns */
    struct kvf_io listen_io;
    struct kvf_timer rest_timer; /* out of descriptors: accept again later */
    struct kvf_address address;  /* bound */

    struct kvf_list tokens;    /* owns struct tcp_token */
    struct kvf_list incoming;  /* owns struct kvf_tcp_incoming */
    struct kvf_list endpoints; /* owns struct kvf_endpoint until disconnect */
    size_t n_greeting;         /* incoming that have not shown a token */
    size_t n_kept, max_kept;   /* unanswered arrivals */
    uint8_t *scratch;          /* owns; where dropped payload goes */
};

static inline struct kvf_tcp *kvf_tcp_of(struct kvf_transport *transport)
{
    return KVF_CONTAINER(transport, struct kvf_tcp, base);
}

/* ---- transport_tcp.c */
bool kvf_tcp_has_token(const struct kvf_tcp *tcp,
                       const uint8_t token[KVF_DATA_TOKEN_BYTES]);
/* No Nagle, large buffers. Best effort. */
void kvf_tcp_tune(int fd);
void kvf_tcp_greeting_write(const uint8_t token[KVF_DATA_TOKEN_BYTES],
                            uint8_t out[KVF_TCP_GREETING_BYTES]);
/* PROTOCOL when it is none; *out_token points into bytes. */
enum kvf_status KVF_MUST_CHECK kvf_tcp_greeting_read(
    const uint8_t bytes[KVF_TCP_GREETING_BYTES], const uint8_t **out_token);
/* Takes or rests the listener according to n_greeting and rest_timer. */
void kvf_tcp_listener_update(struct kvf_tcp *tcp);
/* The part of spans after skip_bytes, at most max_bytes; returns entries of out. */
size_t kvf_tcp_spans_after(const struct kvf_chunk_op *op, uint64_t skip_bytes,
                           uint64_t max_bytes, struct iovec out[KVF_SPANS_MAX]);
void kvf_tcp_op_end(struct kvf_tcp *tcp, struct kvf_chunk_op *op, enum kvf_status status);

/* ---- tcp_endpoint.c */
enum kvf_status KVF_MUST_CHECK kvf_tcp_endpoint_open(
    struct kvf_tcp *tcp, const struct kvf_sockaddr *to,
    const uint8_t token[KVF_DATA_TOKEN_BYTES], void *owner, struct kvf_endpoint **out);
enum kvf_status KVF_MUST_CHECK kvf_tcp_post(struct kvf_endpoint *endpoint,
                                            struct kvf_chunk_op *op);
void kvf_tcp_disconnect(struct kvf_endpoint *endpoint);

/* ---- tcp_incoming.c */
/* Takes fd, also on failure. */
void kvf_tcp_incoming_open(struct kvf_tcp *tcp, int fd);
/* Closes those that showed token (NULL: all). Lost arrivals are told through a post, or
 * not at all when is_silent (the transport closes). */
void kvf_tcp_incoming_close(struct kvf_tcp *tcp, const uint8_t *token, bool is_silent);
enum kvf_status KVF_MUST_CHECK kvf_tcp_receive(struct kvf_arrival *arrival,
                                               struct kvf_chunk_op *op);
void kvf_tcp_drop(struct kvf_arrival *arrival);

#endif
