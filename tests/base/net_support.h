/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of streams and listeners share: a fake clock, a loop on it, a directory
 * for socket files, raw sockets that play the other side, and an owner that records what
 * its stream told it. Every teardown checks that no descriptor leaked.
 */
#ifndef KVF_TESTS_BASE_NET_SUPPORT_H
#define KVF_TESTS_BASE_NET_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/sock.h"

#define NET_IN_MAX     65536
#define NET_OUT_MAX    262144
#define NET_CONNECT_MS 2000

struct net_clock {
    struct kvf_clock clock; /* first: the clock's functions cast */
    uint64_t now_ns;
};

struct net {
    struct net_clock clock;
    struct kvf_loop *loop;
    struct kvf_sock sock;
    int n_fds_before;
    char directory[32];
    char path[48]; /* a socket file in it */
};
void net_init(struct net *net);
void net_fini(struct net *net);
void net_advance(struct net *net, uint64_t ms);
int net_count_fds(void);
/* From here on no descriptor can be opened, until the limit is given back. */
void net_deny_fds(void);
void net_allow_fds(void);

/* Turns, each sleeping at most 10 ms of real time, until *counter reaches value; fails
 * the test after some seconds. */
void net_turn_until(struct net *net, const int *counter, int value);
void net_turns(struct net *net, int n);

/* What a stream's owner saw. It reads everything unless told otherwise. */
struct net_owner {
    struct net *net;
    struct kvf_stream *stream; /* owns; NULL once closed */
    int n_opened, n_readable, n_drained, n_lost;
    enum kvf_status lost_status;
    char received[4096];
    size_t n_received;
    bool leaves_input;     /* does not consume in readable */
    const char *closes_in; /* name of the callback that closes the stream */
    size_t n_received_before_loss;
};
extern const struct kvf_stream_events net_events;
struct kvf_stream_config net_config(void);
void net_take_input(struct net_owner *owner);

/* The other side, by system calls: listening sockets and connections; blocking ones. */
int net_raw_listen_tcp(struct kvf_sockaddr *out);
int net_raw_listen_unix(struct net *net, struct kvf_sockaddr *out);
int net_raw_accept(int listen_fd);
int net_raw_connect(const struct kvf_sockaddr *to);
void net_close(int fd);
/* A close that the other side sees as a reset. */
void net_reset(int fd);
struct kvf_sockaddr net_sockaddr(const char *text, uint16_t port);

#endif
