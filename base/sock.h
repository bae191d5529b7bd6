/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control I/O as a port: listeners and byte streams with bounded buffers, over TCP and
 * Unix sockets (kvf_sock_system) or a simulator's network. A stream says what it wants
 * (read, write); it never blocks and never calls its owner from inside a call.
 * Descriptors ride on Unix streams. Loop thread.
 */
#ifndef KVF_BASE_SOCK_H
#define KVF_BASE_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <kvferry/status.h>

#include "base/buf.h"
#include "base/loop.h"

#define KVF_ADDRESS_MAX    256
#define KVF_STREAM_FDS_MAX 8 /* descriptors per send and waiting per stream */

/* Where to listen or connect: "host:port", "[v6]:port", "host:first-last" or
 * "unix:/path". */
enum kvf_address_kind { KVF_ADDRESS_TCP = 0, KVF_ADDRESS_UNIX = 1 };
struct kvf_address {
    enum kvf_address_kind kind;
    char host[KVF_ADDRESS_MAX]; /* name or literal; the path for unix */
    uint16_t port, port_last;   /* equal unless a range was written */
};
/* Parses text; on failure *out_error is a static sentence. */
enum kvf_status KVF_MUST_CHECK kvf_address_parse(const char *text,
                                                 struct kvf_address *out,
                                                 const char **out_error);
void kvf_address_format(const struct kvf_address *address, char *out, size_t out_bytes);
/* 127.0.0.0/8, ::1, "localhost" and unix paths. */
bool kvf_address_is_loopback(const struct kvf_address *address);

/* A resolved socket address; numeric hosts and unix paths resolve without the resolver.
 */
struct kvf_sockaddr {
    struct sockaddr_storage storage;
    socklen_t length;
};
/* "localhost" counts as numeric: 127.0.0.1. INVALID_ARGUMENT for any other name. */
enum kvf_status KVF_MUST_CHECK
kvf_sockaddr_from_numeric(const struct kvf_address *address, struct kvf_sockaddr *out);
void kvf_sockaddr_format(const struct kvf_sockaddr *address, char *out, size_t out_bytes);

struct kvf_stream;
struct kvf_stream_events {
    void (*opened)(void *owner); /* connect finished; not called for accepted streams */
    /* Bytes or descriptors arrived: take them with ops->in and ops->take_fd. */
    void (*readable)(void *owner);
    void (*drained)(void *owner); /* the out buffer became empty; may be NULL */
    /* The stream is unusable: PEER_LOST (closed, reset, refused, unreachable), EXPIRED
     * (connect or user timeout), PROTOCOL (more descriptors than may wait), PERMISSION (a
     * unix path), NO_MEMORY, SYSTEM. Called once, after `readable` has offered what came
     * before; the owner still closes it. */
    void (*lost)(void *owner, enum kvf_status status);
};
struct kvf_stream_config {
    size_t in_max_bytes;      /* reading pauses at this many unread bytes */
    size_t out_max_bytes;     /* sending beyond it returns BUSY */
    uint32_t connect_ms;      /* connect timeout; 0: the kernel's */
    uint32_t user_timeout_ms; /* TCP_USER_TIMEOUT and keepalive; 0: none */
};
struct kvf_credentials {
    pid_t pid; /* 0 across PID namespaces */
    uid_t uid;
    gid_t gid;
};

struct kvf_listener;
struct kvf_listener_events {
    /* Takes ownership of stream; attach it with kvf_stream_attach or close it. `from` is
     * the peer address as text. */
    void (*accepted)(void *owner, struct kvf_stream *stream, const char *from);
};

struct kvf_sock; /* a network: the system's or a simulated one */
struct kvf_sock_ops {
    /* The host is numeric. BUSY: taken; INVALID_ARGUMENT: no such address here. */
    enum kvf_status (*listen)(struct kvf_sock *sock, const struct kvf_address *address,
                              const struct kvf_listener_events *events, void *owner,
                              struct kvf_listener **out);
    void (*listener_close)(
        struct kvf_listener *listener); /* accepts NULL; unlinks unix paths */
    uint16_t (*listener_port)(
        const struct kvf_listener *listener); /* bound port, 0 for unix */
    void (*listener_pause)(struct kvf_listener *listener, bool is_paused);
    /* Fails only for want of memory or descriptors; how connecting went, also when that
     * is known at once, comes as `opened` or `lost`. Sends may be queued before that. */
    enum kvf_status (*connect)(struct kvf_sock *sock, const struct kvf_sockaddr *to,
                               const struct kvf_stream_config *config,
                               const struct kvf_stream_events *events, void *owner,
                               struct kvf_stream **out);
    /* Gives a stream its owner, or another one: unread bytes and queued ones stay. */
    void (*attach)(struct kvf_stream *stream, const struct kvf_stream_config *config,
                   const struct kvf_stream_events *events, void *owner);
    /* Accepts NULL; freed at end of turn. Of what is still queued the socket gets as much
     * as it takes without waiting. */
    void (*close)(struct kvf_stream *stream);
    /* Unread bytes, consume from it. Call it anew each time: that is also how a paused
     * stream learns that there may be room again. */
    struct kvf_buf *(*in)(struct kvf_stream *stream);
    int (*take_fd)(struct kvf_stream *stream); /* -1: none; the caller owns it */
    /* Queues all or nothing; fds are duplicated at once and ride on the first byte. BUSY:
     * over out_max_bytes or KVF_STREAM_FDS_MAX; PEER_LOST: after `lost`; UNSUPPORTED:
     * fds on TCP; INVALID_ARGUMENT: fds without a byte. */
    enum kvf_status (*send)(struct kvf_stream *stream, const void *bytes, size_t n_bytes,
                            const int *fds, size_t n_fds);
    size_t (*out_length)(const struct kvf_stream *stream);
    /* UNSUPPORTED on TCP. */
    enum kvf_status (*credentials)(const struct kvf_stream *stream,
                                   struct kvf_credentials *out);
};
struct kvf_sock {
    const struct kvf_sock_ops *ops;
    struct kvf_loop *loop; /* borrowed */
};

/* The system's network. Listening on a unix path replaces a stale socket file (one that
 * nobody answers on) and refuses a live one with BUSY; mode 0660. For a TCP port range
 * the first free port is bound. Backlog 512; accept takes at most 16 per turn; out of
 * descriptors the listener rests for 100 ms. */
void kvf_sock_init_system(struct kvf_sock *sock, struct kvf_loop *loop);

#endif
