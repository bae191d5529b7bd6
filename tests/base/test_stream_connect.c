/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stream opens, or does not: refusals, timeouts, full backlogs, want of memory and
 * of descriptors. The other side is a raw listening socket; time is a fake clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net_support.h"

struct fixture {
    struct net net;
    struct net_owner owner;
    struct kvf_sockaddr at; /* of the raw listener */
    int listen_fd;          /* -1: none */
};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    net_init(&f->net);
    f->owner.net = &f->net;
    f->listen_fd = -1;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    f->net.sock.ops->close(f->owner.stream);
    if (f->listen_fd >= 0) {
        net_close(f->listen_fd);
    }
    net_fini(&f->net);
    kvf_free(f);
    return 0;
}

static void connect_to(struct fixture *f, const struct kvf_sockaddr *to,
                       const struct kvf_stream_config *config)
{
    assert_int_equal(f->net.sock.ops->connect(&f->net.sock, to, config, &net_events,
                                              &f->owner, &f->owner.stream),
                     KVF_OK);
}

static enum kvf_status send_text(struct fixture *f, const char *text)
{
    return f->net.sock.ops->send(f->owner.stream, text, strlen(text), NULL, 0);
}

static void expect_lost(struct fixture *f, enum kvf_status status)
{
    net_turn_until(&f->net, &f->owner.n_lost, 1);
    assert_int_equal(f->owner.lost_status, status);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_lost, 1);
}

static void expect_opened_later(struct fixture *f)
{
    struct kvf_stream_config config = net_config();
    connect_to(f, &f->at, &config);
    assert_int_equal(f->owner.n_opened, 0); /* not inside the call */
    net_turn_until(&f->net, &f->owner.n_opened, 1);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_opened, 1);
    assert_int_equal(f->owner.n_readable + f->owner.n_drained + f->owner.n_lost, 0);
}

static void test_connect_opens_over_tcp(void **state)
{
    struct fixture *f = *state;
    f->listen_fd = net_raw_listen_tcp(&f->at);
    expect_opened_later(f);
}

static void test_connect_opens_over_unix(void **state)
{
    struct fixture *f = *state;
    f->listen_fd = net_raw_listen_unix(&f->net, &f->at);
    expect_opened_later(f);
}

static void expect_refused(struct fixture *f)
{
    struct kvf_stream_config config = net_config();
    connect_to(f, &f->at, &config);
    assert_int_equal(f->owner.n_lost, 0); /* not inside the call */
    expect_lost(f, KVF_PEER_LOST);
    assert_int_equal(f->owner.n_opened, 0);
    assert_int_equal(send_text(f, "x"), KVF_PEER_LOST);
}

static void test_connect_refused_over_tcp(void **state)
{
    struct fixture *f = *state;
    net_close(net_raw_listen_tcp(&f->at));
    expect_refused(f);
}

static void test_connect_to_a_stale_socket_file(void **state)
{
    struct fixture *f = *state;
    net_close(net_raw_listen_unix(&f->net, &f->at));
    expect_refused(f);
}

static void test_connect_to_no_socket_file(void **state)
{
    struct fixture *f = *state;
    f->at = net_sockaddr("unix:/tmp/kvf-test-no-such-directory/s", 0);
    expect_refused(f);
}

/* Connections that nobody accepts, until the kernel takes no more. */
static int fill_backlog(struct fixture *f, int *fds, int n_max)
{
    int family = f->at.storage.ss_family;
    assert_int_equal(listen(f->listen_fd, 0), 0); /* shrinks the backlog */
    for (int i = 0; i < n_max; i++) {
        fds[i] = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(fds[i] >= 0);
        int rc = connect(fds[i], (struct sockaddr *)&f->at.storage, f->at.length);
        if (rc != 0 && errno == EAGAIN) {
            return i + 1;
        }
        assert_true(rc == 0 || errno == EINPROGRESS);
    }
    return n_max;
}

static void close_fds(const int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        net_close(fds[i]);
    }
}

static void expect_expired(struct fixture *f)
{
    int fds[4];
    struct kvf_stream_config config = net_config();
    int n = fill_backlog(f, fds, 4);
    connect_to(f, &f->at, &config);
    net_turns(&f->net, 3);
    net_advance(&f->net, NET_CONNECT_MS - 1);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_lost, 0);
    net_advance(&f->net, 1);
    expect_lost(f, KVF_EXPIRED);
    assert_int_equal(f->owner.n_opened, 0);
    close_fds(fds, n);
}

static void test_connect_expires_when_no_one_answers(void **state)
{
    struct fixture *f = *state;
    f->listen_fd = net_raw_listen_tcp(&f->at);
    expect_expired(f);
}

static void test_connect_expires_when_a_unix_backlog_stays_full(void **state)
{
    struct fixture *f = *state;
    f->listen_fd = net_raw_listen_unix(&f->net, &f->at);
    expect_expired(f);
}

static void test_connect_waits_for_room_in_a_unix_backlog(void **state)
{
    struct fixture *f = *state;
    int fds[4];
    struct kvf_stream_config config = net_config();
    config.connect_ms = 0; /* waits for ever */
    f->listen_fd = net_raw_listen_unix(&f->net, &f->at);
    int n = fill_backlog(f, fds, 4);
    connect_to(f, &f->at, &config);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_opened, 0);
    net_close(net_raw_accept(f->listen_fd));
    net_advance(&f->net, 10);
    net_turn_until(&f->net, &f->owner.n_opened, 1);
    close_fds(fds, n);
}

static void test_connect_closed_before_it_opened(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    f->listen_fd = net_raw_listen_tcp(&f->at);
    connect_to(f, &f->at, &config);
    f->net.sock.ops->close(f->owner.stream);
    f->owner.stream = NULL;
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_opened + f->owner.n_lost, 0);
}

/* A network of our own in which there is one ephemeral port. */
static bool enter_one_port_network(void)
{
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0;
    (void)close(fd);
    fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    bool is_set = fd >= 0 && write(fd, "41000 41000", 11) == 11;
    (void)close(fd);
    return is_up && is_set;
}

/* In a child of its own, since a network cannot be left; the exit status is the verdict.
 * The raw socket shows that the kernel does connect the port to itself. */
static void connect_to_own_port(struct fixture *f)
{
    struct kvf_stream_config config = net_config();
    if (!enter_one_port_network()) {
        _exit(77);
    }
    f->at = net_sockaddr("127.0.0.1:41000", 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&f->at.storage, f->at.length) != 0) {
        _exit(77);
    }
    net_reset(fd);
    if (f->net.sock.ops->connect(&f->net.sock, &f->at, &config, &net_events, &f->owner,
                                 &f->owner.stream) != KVF_OK) {
        _exit(1);
    }
    net_turns(&f->net, 5);
    _exit(f->owner.n_opened == 0 && f->owner.n_lost == 1 &&
                  f->owner.lost_status == KVF_PEER_LOST
              ? 0
              : 2);
}

static void test_connect_to_itself_counts_as_refused(void **state)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        connect_to_own_port(*state);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip(); /* no right to make a network, or a kernel that refuses by itself */
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_connect_fails_cleanly_without_memory(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    f->listen_fd = net_raw_listen_tcp(&f->at);
    kvf_alloc_fail_nth(1); /* the stream */
    assert_int_equal(f->net.sock.ops->connect(&f->net.sock, &f->at, &config, &net_events,
                                              &f->owner, &f->owner.stream),
                     KVF_NO_MEMORY);
    assert_null(f->owner.stream);
    kvf_alloc_fail_nth(2); /* the loop's first timer */
    connect_to(f, &f->at, &config);
    kvf_alloc_fail_nth(0);
    expect_lost(f, KVF_NO_MEMORY);
}

static void test_connect_reports_want_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    f->listen_fd = net_raw_listen_tcp(&f->at);
    net_deny_fds();
    enum kvf_status status = f->net.sock.ops->connect(
        &f->net.sock, &f->at, &config, &net_events, &f->owner, &f->owner.stream);
    net_allow_fds();
    assert_int_equal(status, KVF_SYSTEM);
    assert_null(f->owner.stream);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_connect_opens_over_tcp),
        T(test_connect_opens_over_unix),
        T(test_connect_refused_over_tcp),
        T(test_connect_to_a_stale_socket_file),
        T(test_connect_to_no_socket_file),
        T(test_connect_expires_when_no_one_answers),
        T(test_connect_expires_when_a_unix_backlog_stays_full),
        T(test_connect_waits_for_room_in_a_unix_backlog),
        T(test_connect_closed_before_it_opened),
        T(test_connect_to_itself_counts_as_refused),
        T(test_connect_fails_cleanly_without_memory),
        T(test_connect_reports_want_of_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
