/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listeners: what can be bound and what is refused, socket files that are stale, alive or
 * no sockets at all, accepting in slices, pausing, resting without descriptors. The other
 * side is a raw socket; time is a fake clock.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net_support.h"

#define CLIENTS_MAX 40

struct fixture {
    struct net net;
    struct kvf_listener *listener;           /* owns */
    struct kvf_stream *streams[CLIENTS_MAX]; /* owns; accepted, not attached */
    char from[KVF_ADDRESS_MAX];              /* of the last one */
    int n_accepted;
    bool closes_stream, closes_listener, pauses; /* what accepted does */
    int clients[CLIENTS_MAX];                    /* raw; n_clients of them */
    int n_clients;
};

static void accepted(void *owner, struct kvf_stream *stream, const char *from)
{
    struct fixture *f = owner;
    assert_true(f->n_accepted < CLIENTS_MAX);
    (void)snprintf(f->from, sizeof(f->from), "%s", from);
    f->streams[f->n_accepted++] = stream;
    if (f->closes_stream) {
        f->net.sock.ops->close(stream);
        f->streams[f->n_accepted - 1] = NULL;
    }
    if (f->pauses) {
        f->net.sock.ops->listener_pause(f->listener, true);
    }
    if (f->closes_listener) {
        f->net.sock.ops->listener_close(f->listener);
        f->listener = NULL;
    }
}

static const struct kvf_listener_events events = {.accepted = accepted};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    net_init(&f->net);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    f->net.sock.ops->listener_close(f->listener);
    for (int i = 0; i < f->n_accepted; i++) {
        f->net.sock.ops->close(f->streams[i]);
    }
    for (int i = 0; i < f->n_clients; i++) {
        net_close(f->clients[i]);
    }
    net_fini(&f->net);
    kvf_free(f);
    return 0;
}

static struct kvf_address address_of(const char *text)
{
    struct kvf_address address;
    const char *error;
    assert_int_equal(kvf_address_parse(text, &address, &error), KVF_OK);
    return address;
}

static enum kvf_status try_listen(struct fixture *f, const struct kvf_address *address,
                                  struct kvf_listener **out)
{
    return f->net.sock.ops->listen(&f->net.sock, address, &events, f, out);
}

static void listen_on(struct fixture *f, const char *text)
{
    struct kvf_address address = address_of(text);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_OK);
}

static struct kvf_address unix_address(const struct fixture *f)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "unix:%s", f->net.path);
    return address_of(text);
}

static uint16_t port_of(const struct fixture *f, const struct kvf_listener *listener)
{
    return f->net.sock.ops->listener_port(listener);
}

static void come(struct fixture *f, const struct kvf_sockaddr *to)
{
    assert_true(f->n_clients < CLIENTS_MAX);
    f->clients[f->n_clients++] = net_raw_connect(to);
}

/* ---- TCP */

static void test_accepted_stream_works_once_attached(void **state)
{
    struct fixture *f = *state;
    struct net_owner owner = {.net = &f->net};
    struct kvf_stream_config config = net_config();
    char bytes[4];
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    come(f, &to);
    assert_int_equal(write(f->clients[0], "ping", 4), 4);
    net_turn_until(&f->net, &f->n_accepted, 1);
    assert_int_equal(strncmp(f->from, "127.0.0.1:", 10), 0);

    owner.stream = f->streams[0];
    f->net.sock.ops->attach(owner.stream, &config, &net_events, &owner);
    assert_int_equal(owner.n_readable, 0); /* not inside the call */
    net_turn_until(&f->net, &owner.n_readable, 1);
    assert_memory_equal(owner.received, "ping", 4);
    assert_int_equal(f->net.sock.ops->send(owner.stream, "pong", 4, NULL, 0), KVF_OK);
    net_turn_until(&f->net, &owner.n_drained, 1);
    assert_int_equal(recv(f->clients[0], bytes, 4, MSG_WAITALL), 4);
    assert_memory_equal(bytes, "pong", 4);
    assert_int_equal(owner.n_opened, 0);
}

static void test_listens_on_ipv6(void **state)
{
    struct fixture *f = *state;
    struct kvf_address address = address_of("[::1]:0");
    if (try_listen(f, &address, &f->listener) != KVF_OK) {
        skip(); /* a system without IPv6 */
    }
    struct kvf_sockaddr to = net_sockaddr("[::1]:0", port_of(f, f->listener));
    come(f, &to);
    net_turn_until(&f->net, &f->n_accepted, 1);
    assert_int_equal(strncmp(f->from, "[::1]:", 6), 0);
}

static void test_ipv6_wildcard_leaves_ipv4_free(void **state)
{
    struct fixture *f = *state;
    struct kvf_listener *other = NULL;
    struct kvf_address any = address_of("[::]:0");
    if (try_listen(f, &any, &f->listener) != KVF_OK) {
        skip(); /* a system without IPv6 */
    }
    any = address_of("0.0.0.0:0");
    any.port = any.port_last = port_of(f, f->listener);
    assert_int_equal(try_listen(f, &any, &other), KVF_OK);
    f->net.sock.ops->listener_close(other);
}

static void test_range_gives_the_first_free_port(void **state)
{
    struct fixture *f = *state;
    struct kvf_listener *second = NULL;
    struct kvf_listener *third = NULL;
    struct kvf_address range = address_of("127.0.0.1:0");
    assert_int_equal(try_listen(f, &range, &f->listener), KVF_OK);
    range.port = port_of(f, f->listener);
    range.port_last = (uint16_t)(range.port + 20);
    assert_int_equal(try_listen(f, &range, &second), KVF_OK);
    assert_in_range(port_of(f, second), range.port + 1, range.port_last);
    range.port_last = range.port;
    assert_int_equal(try_listen(f, &range, &third), KVF_BUSY);
    assert_null(third);
    f->net.sock.ops->listener_close(second);
}

static void test_listen_refuses_hosts_that_are_not_here(void **state)
{
    struct fixture *f = *state;
    struct kvf_address name = address_of("some-node:0");
    struct kvf_address elsewhere = address_of("192.0.2.1:0"); /* RFC 5737 */
    assert_int_equal(try_listen(f, &name, &f->listener), KVF_INVALID_ARGUMENT);
    assert_int_equal(try_listen(f, &elsewhere, &f->listener), KVF_INVALID_ARGUMENT);
    assert_null(f->listener);
}

static void test_listen_fails_cleanly_without_memory(void **state)
{
    struct fixture *f = *state;
    struct kvf_address address = address_of("127.0.0.1:0");
    kvf_alloc_fail_nth(1);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_null(f->listener);
}

static void test_listen_reports_want_of_descriptors(void **state)
{
    struct fixture *f = *state;
    struct kvf_address address = address_of("127.0.0.1:0");
    net_deny_fds();
    enum kvf_status status = try_listen(f, &address, &f->listener);
    net_allow_fds();
    assert_int_equal(status, KVF_SYSTEM);
    assert_null(f->listener);
}

/* ---- accepting */

static void test_accepts_sixteen_a_turn(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    for (int i = 0; i < 20; i++) {
        come(f, &to);
    }
    net_turns(&f->net, 1);
    assert_int_equal(f->n_accepted, 16);
    net_turns(&f->net, 1);
    assert_int_equal(f->n_accepted, 20);
}

static void test_paused_listener_keeps_connections_waiting(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    f->pauses = true;
    come(f, &to);
    come(f, &to);
    net_turns(&f->net, 3);
    assert_int_equal(f->n_accepted, 1); /* the callback paused it */
    f->pauses = false;
    f->net.sock.ops->listener_pause(f->listener, false);
    net_turn_until(&f->net, &f->n_accepted, 2);
}

static void test_callback_may_close_stream_and_listener(void **state)
{
    struct fixture *f = *state;
    char byte;
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    f->closes_stream = f->closes_listener = true;
    come(f, &to);
    come(f, &to);
    net_turns(&f->net, 3);
    assert_int_equal(f->n_accepted, 1);
    assert_null(f->listener);
    assert_int_equal(recv(f->clients[0], &byte, 1, 0), 0);
}

static void test_accept_without_memory_drops_one_and_rests(void **state)
{
    struct fixture *f = *state;
    struct kvf_timer warm = {0};
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    /* The heap of timers exists, so that the stream is the next allocation. */
    assert_int_equal(kvf_loop_timer_start(f->net.loop, &warm, UINT64_MAX, NULL, NULL),
                     KVF_OK);
    kvf_loop_timer_stop(&warm);
    come(f, &to);
    come(f, &to);
    kvf_alloc_fail_nth(1);
    net_turns(&f->net, 3);
    kvf_alloc_fail_nth(0);
    assert_int_equal(f->n_accepted, 0);
    net_advance(&f->net, 100);
    net_turn_until(&f->net, &f->n_accepted, 1);
}

static void test_listener_rests_without_descriptors_and_recovers(void **state)
{
    struct fixture *f = *state;
    listen_on(f, "127.0.0.1:0");
    struct kvf_sockaddr to = net_sockaddr("127.0.0.1:0", port_of(f, f->listener));
    come(f, &to);
    net_deny_fds();
    net_turns(&f->net, 2);
    uint64_t start_ns = kvf_clock_now_ns(&kvf_clock_system);
    kvf_loop_turn(f->net.loop, 5 * KVF_NS_PER_MS);
    uint64_t slept_ns = kvf_clock_now_ns(&kvf_clock_system) - start_ns;
    net_allow_fds();
    assert_int_equal(f->n_accepted, 0);
    assert_true(slept_ns >= 5 * KVF_NS_PER_MS); /* it did not spin */
    net_advance(&f->net, 99);
    net_turns(&f->net, 2);
    assert_int_equal(f->n_accepted, 0);
    net_advance(&f->net, 1);
    net_turn_until(&f->net, &f->n_accepted, 1);
}

/* ---- unix paths */

static void test_unix_listener_accepts_and_cleans_up(void **state)
{
    struct fixture *f = *state;
    struct stat file;
    struct kvf_address address = unix_address(f);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_OK);
    assert_int_equal(port_of(f, f->listener), 0);
    assert_int_equal(stat(f->net.path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0660);
    struct kvf_sockaddr to;
    assert_int_equal(kvf_sockaddr_from_numeric(&address, &to), KVF_OK);
    come(f, &to);
    net_turn_until(&f->net, &f->n_accepted, 1);
    assert_string_equal(f->from, "unix:");
    f->net.sock.ops->listener_close(f->listener);
    f->listener = NULL;
    assert_int_equal(stat(f->net.path, &file), -1);
}

static void test_unix_listener_replaces_a_stale_file(void **state)
{
    struct fixture *f = *state;
    struct kvf_sockaddr to;
    struct kvf_address address = unix_address(f);
    net_close(net_raw_listen_unix(&f->net, &to)); /* its file stays */
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_OK);
    come(f, &to);
    net_turn_until(&f->net, &f->n_accepted, 1);
}

static void test_unix_listener_refuses_a_live_path(void **state)
{
    struct fixture *f = *state;
    struct kvf_sockaddr to;
    struct kvf_address address = unix_address(f);
    int live = net_raw_listen_unix(&f->net, &to);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_BUSY);
    assert_null(f->listener);
    come(f, &to); /* still there */
    net_close(live);
}

static void test_unix_listener_leaves_other_files_alone(void **state)
{
    struct fixture *f = *state;
    struct stat file;
    struct kvf_address address = unix_address(f);
    int fd = open(f->net.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    net_close(fd);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_BUSY);
    assert_int_equal(stat(f->net.path, &file), 0);
    assert_true(S_ISREG(file.st_mode));
}

static void test_unix_listener_leaves_its_successor_alone(void **state)
{
    struct fixture *f = *state;
    struct kvf_sockaddr to;
    struct kvf_address address = unix_address(f);
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_OK);
    assert_int_equal(unlink(f->net.path), 0);
    int successor = net_raw_listen_unix(&f->net, &to);
    f->net.sock.ops->listener_close(f->listener);
    f->listener = NULL;
    come(f, &to); /* the successor's file is still in place */
    net_close(successor);
}

static void test_unix_listener_needs_its_directory(void **state)
{
    struct fixture *f = *state;
    struct kvf_address address = address_of("unix:/tmp/kvf-test-no-such-directory/s");
    assert_int_equal(try_listen(f, &address, &f->listener), KVF_INVALID_ARGUMENT);
    assert_null(f->listener);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_accepted_stream_works_once_attached),
        T(test_listens_on_ipv6),
        T(test_ipv6_wildcard_leaves_ipv4_free),
        T(test_range_gives_the_first_free_port),
        T(test_listen_refuses_hosts_that_are_not_here),
        T(test_listen_fails_cleanly_without_memory),
        T(test_listen_reports_want_of_descriptors),
        T(test_accepts_sixteen_a_turn),
        T(test_paused_listener_keeps_connections_waiting),
        T(test_callback_may_close_stream_and_listener),
        T(test_accept_without_memory_drops_one_and_rests),
        T(test_listener_rests_without_descriptors_and_recovers),
        T(test_unix_listener_accepts_and_cleans_up),
        T(test_unix_listener_replaces_a_stale_file),
        T(test_unix_listener_refuses_a_live_path),
        T(test_unix_listener_leaves_other_files_alone),
        T(test_unix_listener_leaves_its_successor_alone),
        T(test_unix_listener_needs_its_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
