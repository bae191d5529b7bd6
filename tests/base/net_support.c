/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See net_support.h. Sockets of the test's own are blocking: on loopback what was written
 * is there. Time stands still unless a test moves it, so no timeout fires by chance.
 */
#include "net_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#define TURN_SLEEP_NS (10 * KVF_NS_PER_MS)
#define TURNS_MAX     1000

static uint64_t now_ns(const struct kvf_clock *clock)
{
    return ((const struct net_clock *)(const void *)clock)->now_ns;
}

static const struct kvf_clock_ops clock_ops = {.now_ns = now_ns, .wall_ns = now_ns};

int net_count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void set_fd_limit(bool is_denied)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int lowest = is_denied ? fcntl(0, F_DUPFD_CLOEXEC, 0) : -1;
    if (is_denied) { /* every number below it is taken */
        net_close(lowest);
    }
    limit.rlim_cur = is_denied ? (rlim_t)lowest : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void net_deny_fds(void)
{
    set_fd_limit(true);
}

void net_allow_fds(void)
{
    set_fd_limit(false);
}

void net_init(struct net *net)
{
    memset(net, 0, sizeof(*net));
    net->n_fds_before = net_count_fds();
    net->clock = (struct net_clock){.clock = {.ops = &clock_ops}, .now_ns = KVF_NS_PER_S};
    struct kvf_loop_config config = {.clock = &net->clock.clock};
    assert_int_equal(kvf_loop_create(&config, &net->loop), KVF_OK);
    kvf_sock_init_system(&net->sock, net->loop);
    (void)snprintf(net->directory, sizeof(net->directory), "/tmp/kvf-test-XXXXXX");
    assert_non_null(mkdtemp(net->directory));
    (void)snprintf(net->path, sizeof(net->path), "%s/s", net->directory);
}

void net_fini(struct net *net)
{
    kvf_loop_destroy(net->loop);
    (void)unlink(net->path); /* most tests leave none */
    assert_int_equal(rmdir(net->directory), 0);
    assert_int_equal(net_count_fds(), net->n_fds_before);
}

void net_advance(struct net *net, uint64_t ms)
{
    net->clock.now_ns += ms * KVF_NS_PER_MS;
}

void net_turn_until(struct net *net, const int *counter, int value)
{
    for (int i = 0; i < TURNS_MAX && *counter < value; i++) {
        kvf_loop_turn(net->loop, TURN_SLEEP_NS);
    }
    assert_int_equal(*counter, value);
}

void net_turns(struct net *net, int n)
{
    for (int i = 0; i < n; i++) {
        kvf_loop_turn(net->loop, 0);
    }
}

/* ---- the recording owner */

static void close_if_told(struct net_owner *owner, const char *callback)
{
    if (owner->closes_in != NULL && strcmp(owner->closes_in, callback) == 0) {
        owner->net->sock.ops->close(owner->stream);
        owner->stream = NULL;
    }
}

void net_take_input(struct net_owner *owner)
{
    struct kvf_buf *in = owner->net->sock.ops->in(owner->stream);
    size_t n = kvf_buf_length(in);
    assert_true(owner->n_received + n <= sizeof(owner->received));
    if (n > 0) {
        memcpy(owner->received + owner->n_received, kvf_buf_head(in), n);
        kvf_buf_consume(in, n);
    }
    owner->n_received += n;
}

static void opened(void *object)
{
    struct net_owner *owner = object;
    owner->n_opened++;
    close_if_told(owner, "opened");
}

static void readable(void *object)
{
    struct net_owner *owner = object;
    assert_int_equal(owner->n_lost, 0);
    owner->n_readable++;
    if (!owner->leaves_input) {
        net_take_input(owner);
    }
    close_if_told(owner, "readable");
}

static void drained(void *object)
{
    struct net_owner *owner = object;
    assert_int_equal(owner->net->sock.ops->out_length(owner->stream), 0);
    owner->n_drained++;
    close_if_told(owner, "drained");
}

static void lost(void *object, enum kvf_status status)
{
    struct net_owner *owner = object;
    owner->n_lost++;
    owner->lost_status = status;
    owner->n_received_before_loss = owner->n_received;
    close_if_told(owner, "lost");
}

const struct kvf_stream_events net_events = {
    .opened = opened, .readable = readable, .drained = drained, .lost = lost};

struct kvf_stream_config net_config(void)
{
    return (struct kvf_stream_config){.in_max_bytes = NET_IN_MAX,
                                      .out_max_bytes = NET_OUT_MAX,
                                      .connect_ms = NET_CONNECT_MS,
                                      .user_timeout_ms = 3000};
}

/* ---- raw sockets */

struct kvf_sockaddr net_sockaddr(const char *text, uint16_t port)
{
    struct kvf_address address;
    struct kvf_sockaddr resolved;
    const char *error;
    assert_int_equal(kvf_address_parse(text, &address, &error), KVF_OK);
    if (port != 0) {
        address.port = address.port_last = port;
    }
    assert_int_equal(kvf_sockaddr_from_numeric(&address, &resolved), KVF_OK);
    return resolved;
}

static int raw_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static int raw_listen(struct kvf_sockaddr *at)
{
    int fd = raw_socket(at->storage.ss_family);
    assert_int_equal(bind(fd, (struct sockaddr *)&at->storage, at->length), 0);
    assert_int_equal(listen(fd, 16), 0);
    at->length = sizeof(at->storage);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at->storage, &at->length), 0);
    return fd;
}

int net_raw_listen_tcp(struct kvf_sockaddr *out)
{
    *out = net_sockaddr("127.0.0.1:0", 0);
    return raw_listen(out);
}

int net_raw_listen_unix(struct net *net, struct kvf_sockaddr *out)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "unix:%s", net->path);
    *out = net_sockaddr(text, 0);
    return raw_listen(out);
}

int net_raw_accept(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

int net_raw_connect(const struct kvf_sockaddr *to)
{
    int fd = raw_socket(to->storage.ss_family);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to->storage, to->length), 0);
    return fd;
}

void net_close(int fd)
{
    assert_int_equal(close(fd), 0);
}

void net_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
    net_close(fd);
}
