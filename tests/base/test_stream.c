/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open streams from the owner's side: when which callback comes, ceilings and pauses,
 * loss after the last bytes, closing from inside callbacks. The other side is a raw
 * socket; time is a fake clock. How a stream opens: test_stream_connect.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h> /* its tcp_info is longer than the C library's */
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net_support.h"

struct fixture {
    struct net net;
    struct net_owner owner;
    struct kvf_sockaddr at; /* of the raw listener */
    int listen_fd;          /* -1: none */
    int fd;                 /* the raw end of the connection; -1: none */
};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    net_init(&f->net);
    f->owner.net = &f->net;
    f->listen_fd = f->fd = -1;
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
    if (f->fd >= 0) {
        net_close(f->fd);
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

/* A connected stream with its raw end. */
static void open_pair(struct fixture *f, bool is_unix,
                      const struct kvf_stream_config *config)
{
    f->listen_fd =
        is_unix ? net_raw_listen_unix(&f->net, &f->at) : net_raw_listen_tcp(&f->at);
    connect_to(f, &f->at, config);
    f->fd = net_raw_accept(f->listen_fd);
    net_turn_until(&f->net, &f->owner.n_opened, 1);
}

static void open_unix(struct fixture *f)
{
    struct kvf_stream_config config = net_config();
    open_pair(f, true, &config);
}

static void open_tcp(struct fixture *f)
{
    struct kvf_stream_config config = net_config();
    open_pair(f, false, &config);
}

static enum kvf_status send_text(struct fixture *f, const char *text)
{
    return f->net.sock.ops->send(f->owner.stream, text, strlen(text), NULL, 0);
}

static void raw_write(struct fixture *f, const void *bytes, size_t n)
{
    assert_int_equal(write(f->fd, bytes, n), n);
}

static void expect_raw(struct fixture *f, const char *text)
{
    char bytes[256];
    size_t n = strlen(text);
    assert_true(n <= sizeof(bytes));
    assert_int_equal(recv(f->fd, bytes, n, MSG_WAITALL), n);
    assert_memory_equal(bytes, text, n);
}

static void expect_received(const struct fixture *f, const char *text)
{
    assert_int_equal(f->owner.n_received, strlen(text));
    assert_memory_equal(f->owner.received, text, strlen(text));
}

static void expect_lost(struct fixture *f, enum kvf_status status)
{
    net_turn_until(&f->net, &f->owner.n_lost, 1);
    assert_int_equal(f->owner.lost_status, status);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_lost, 1);
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

/* The stream's own descriptor: the only socket that is connected to the raw end. */
static int find_stream_fd(const struct fixture *f)
{
    struct kvf_sockaddr raw = {.length = sizeof(raw.storage)};
    assert_int_equal(getsockname(f->fd, (struct sockaddr *)&raw.storage, &raw.length), 0);
    for (int fd = 0; fd < 256; fd++) {
        struct kvf_sockaddr peer = {.length = sizeof(peer.storage)};
        if (fd != f->fd &&
            getpeername(fd, (struct sockaddr *)&peer.storage, &peer.length) == 0 &&
            peer.length == raw.length &&
            memcmp(&peer.storage, &raw.storage, raw.length) == 0) {
            return fd;
        }
    }
    fail();
    return -1;
}

static void test_tcp_streams_are_tuned(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    int fd = find_stream_fd(f);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 3000);
    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
}

/* ---- sending */

static void test_sends_leave_together_after_the_calls(void **state)
{
    struct fixture *f = *state;
    char byte;
    open_tcp(f);
    assert_int_equal(send_text(f, "one "), KVF_OK);
    assert_int_equal(send_text(f, "two "), KVF_OK);
    assert_int_equal(send_text(f, "three"), KVF_OK);
    assert_int_equal(recv(f->fd, &byte, 1, MSG_DONTWAIT), -1); /* nothing yet */
    assert_int_equal(f->net.sock.ops->out_length(f->owner.stream), 13);
    net_turns(&f->net, 1);
    assert_int_equal(f->owner.n_drained, 1);
    expect_raw(f, "one two three");
    struct tcp_info info;
    socklen_t length = sizeof(info);
    assert_int_equal(getsockopt(find_stream_fd(f), IPPROTO_TCP, TCP_INFO, &info, &length),
                     0);
    assert_int_equal(info.tcpi_data_segs_out, 1);
}

static void test_sends_before_opening_are_delivered(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    f->listen_fd = net_raw_listen_tcp(&f->at);
    connect_to(f, &f->at, &config);
    assert_int_equal(send_text(f, "early"), KVF_OK);
    f->fd = net_raw_accept(f->listen_fd);
    net_turn_until(&f->net, &f->owner.n_drained, 1);
    assert_int_equal(f->owner.n_opened, 1);
    expect_raw(f, "early");
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8));
}

static void test_send_survives_a_reader_that_takes_little(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    uint8_t bytes[1000];
    static uint8_t big[4 << 20];
    int tiny = 4096;
    config.out_max_bytes = sizeof(big);
    f->listen_fd = net_raw_listen_tcp(&f->at);
    assert_int_equal(setsockopt(f->listen_fd, SOL_SOCKET, SO_RCVBUF, &tiny, sizeof(tiny)),
                     0);
    connect_to(f, &f->at, &config);
    f->fd = net_raw_accept(f->listen_fd);
    for (size_t i = 0; i < sizeof(big); i++) {
        big[i] = pattern(i);
    }
    assert_int_equal(f->net.sock.ops->send(f->owner.stream, big, sizeof(big), NULL, 0),
                     KVF_OK);
    bool was_partial = false;
    for (size_t n = 0; n < sizeof(big);) {
        net_turns(&f->net, 1);
        size_t left = f->net.sock.ops->out_length(f->owner.stream);
        was_partial |= left > 0 && left < sizeof(big);
        ssize_t got = recv(f->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        assert_true(got > 0 || errno == EAGAIN);
        for (ssize_t i = 0; i < got; i++, n++) {
            assert_int_equal(bytes[i], pattern(n));
        }
    }
    assert_true(was_partial);
    net_turns(&f->net, 1);
    assert_int_equal(f->owner.n_drained, 1);
}

static void test_send_is_refused_whole_at_the_ceiling(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    config.out_max_bytes = 8;
    open_pair(f, true, &config);
    assert_int_equal(send_text(f, "12345"), KVF_OK);
    assert_int_equal(send_text(f, "6789"), KVF_BUSY);
    assert_int_equal(f->net.sock.ops->out_length(f->owner.stream), 5);
    assert_int_equal(send_text(f, "678"), KVF_OK);
    net_turn_until(&f->net, &f->owner.n_drained, 1);
    assert_int_equal(send_text(f, "abcdefgh"), KVF_OK);
    net_turn_until(&f->net, &f->owner.n_drained, 2);
    expect_raw(f, "12345678abcdefgh");
}

static void test_close_still_sends_the_last_word(void **state)
{
    struct fixture *f = *state;
    char byte;
    open_tcp(f);
    assert_int_equal(send_text(f, "goodbye"), KVF_OK);
    f->net.sock.ops->close(f->owner.stream);
    f->owner.stream = NULL;
    expect_raw(f, "goodbye");
    assert_int_equal(recv(f->fd, &byte, 1, 0), 0);
}

/* ---- receiving */

static void test_bytes_are_offered_as_they_come(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    raw_write(f, "ab", 2);
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    raw_write(f, "cd", 2);
    net_turn_until(&f->net, &f->owner.n_readable, 2);
    expect_received(f, "abcd");
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_readable, 2);
}

static void test_reading_pauses_at_the_ceiling_and_resumes(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    uint8_t bytes[1000];
    config.in_max_bytes = 64;
    open_pair(f, true, &config);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = pattern(i);
    }
    raw_write(f, bytes, sizeof(bytes));
    f->owner.leaves_input = true;
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    net_turns(&f->net, 5);
    assert_int_equal(f->owner.n_readable, 1);
    assert_int_equal(kvf_buf_length(f->net.sock.ops->in(f->owner.stream)), 64);
    net_turns(&f->net, 5); /* it was looked at, but nothing was consumed */
    assert_int_equal(f->owner.n_readable, 1);
    for (int i = 0; i < 100 && f->owner.n_received < sizeof(bytes); i++) {
        net_take_input(&f->owner);
        net_turns(&f->net, 3);
        assert_true(kvf_buf_length(f->net.sock.ops->in(f->owner.stream)) <= 64);
    }
    assert_int_equal(f->owner.n_received, sizeof(bytes));
    assert_memory_equal(f->owner.received, bytes, sizeof(bytes));
}

static void test_input_of_a_turn_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    static uint8_t zeros[600 * 1024];
    int large = sizeof(zeros);
    config.in_max_bytes = 4 << 20;
    open_pair(f, true, &config);
    if (setsockopt(f->fd, SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof(large)) != 0) {
        skip(); /* needs the right to exceed the system's limit */
    }
    raw_write(f, zeros, sizeof(zeros));
    f->owner.leaves_input = true;
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    assert_int_equal(kvf_buf_length(f->net.sock.ops->in(f->owner.stream)), 256 * 1024);
    net_turn_until(&f->net, &f->owner.n_readable, 3);
    assert_int_equal(kvf_buf_length(f->net.sock.ops->in(f->owner.stream)), sizeof(zeros));
}

/* ---- loss */

static void test_last_bytes_come_before_the_loss(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    raw_write(f, "last words", 10);
    net_close(f->fd);
    f->fd = -1;
    expect_lost(f, KVF_PEER_LOST);
    assert_int_equal(f->owner.n_received_before_loss, 10);
    expect_received(f, "last words");
}

/* Runs in the completion phase, before the stream writes: what comes here was not there
 * when the turn looked for input. */
static void say_tail_and_stop_reading(void *owner, enum kvf_status status)
{
    struct fixture *f = owner;
    assert_int_equal(status, KVF_OK);
    raw_write(f, "tail", 4);
    assert_int_equal(shutdown(f->fd, SHUT_RD), 0); /* no event, but EPIPE for us */
}

static void test_last_bytes_come_before_the_loss_that_sending_finds(void **state)
{
    struct fixture *f = *state;
    struct kvf_post post = {0};
    open_unix(f);
    kvf_loop_post(f->net.loop, &post, say_tail_and_stop_reading, f, KVF_OK);
    assert_int_equal(send_text(f, "x"), KVF_OK);
    net_turns(&f->net, 1);
    assert_int_equal(f->owner.n_lost, 1);
    assert_int_equal(f->owner.lost_status, KVF_PEER_LOST);
    assert_int_equal(f->owner.n_received_before_loss, 4);
}

static void test_close_in_readable_that_sending_caused(void **state)
{
    struct fixture *f = *state;
    struct kvf_post post = {0};
    open_unix(f);
    f->owner.closes_in = "readable";
    kvf_loop_post(f->net.loop, &post, say_tail_and_stop_reading, f, KVF_OK);
    assert_int_equal(send_text(f, "x"), KVF_OK);
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_readable, 1);
    assert_int_equal(f->owner.n_lost, 0);
}

static void test_reset_is_a_loss(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    net_reset(f->fd);
    f->fd = -1;
    expect_lost(f, KVF_PEER_LOST);
    assert_int_equal(send_text(f, "x"), KVF_PEER_LOST);
}

static uint64_t n_turns(const struct fixture *f)
{
    struct kvf_loop_stats stats;
    kvf_loop_stats_get(f->net.loop, &stats);
    return stats.n_turns;
}

static void test_orderly_end_while_paused_loses_no_bytes(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    char bytes[100];
    memset(bytes, 'x', sizeof(bytes));
    config.in_max_bytes = 64;
    open_pair(f, true, &config);
    f->owner.leaves_input = true;
    raw_write(f, bytes, sizeof(bytes));
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    net_close(f->fd);
    f->fd = -1;
    net_turns(&f->net, 3);
    assert_int_equal(f->owner.n_lost, 0);
    f->owner.leaves_input = false;
    net_take_input(&f->owner);
    expect_lost(f, KVF_PEER_LOST);
    assert_int_equal(f->owner.n_received_before_loss, 100);
    assert_true(n_turns(f) < 100);
}

static void test_orderly_end_while_paused_lets_the_loop_sleep(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    config.in_max_bytes = 4;
    open_pair(f, true, &config);
    f->owner.leaves_input = true;
    raw_write(f, "abcdef", 6);
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    net_close(f->fd);
    f->fd = -1;
    net_turns(&f->net, 3);
    uint64_t start_ns = kvf_clock_now_ns(&kvf_clock_system);
    kvf_loop_turn(f->net.loop, 5 * KVF_NS_PER_MS);
    assert_true(kvf_clock_now_ns(&kvf_clock_system) - start_ns >= 5 * KVF_NS_PER_MS);
}

static void test_reset_while_paused_is_told_at_once(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    config.in_max_bytes = 4;
    open_pair(f, false, &config);
    f->owner.leaves_input = true;
    raw_write(f, "abcdef", 6);
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    net_reset(f->fd);
    f->fd = -1;
    expect_lost(f, KVF_PEER_LOST);
}

/* ---- closing from inside */

static void expect_silence_after_close(struct fixture *f)
{
    assert_null(f->owner.stream);
    int n =
        f->owner.n_opened + f->owner.n_readable + f->owner.n_drained + f->owner.n_lost;
    net_turns(&f->net, 5);
    assert_int_equal(f->owner.n_opened + f->owner.n_readable + f->owner.n_drained +
                         f->owner.n_lost,
                     n);
}

static void test_close_in_opened(void **state)
{
    struct fixture *f = *state;
    struct kvf_stream_config config = net_config();
    f->owner.closes_in = "opened";
    f->listen_fd = net_raw_listen_unix(&f->net, &f->at);
    connect_to(f, &f->at, &config);
    assert_int_equal(send_text(f, "queued"), KVF_OK);
    net_turn_until(&f->net, &f->owner.n_opened, 1);
    expect_silence_after_close(f);
}

static void test_close_in_readable(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    f->owner.closes_in = "readable";
    raw_write(f, "x", 1);
    net_close(f->fd);
    f->fd = -1;
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    expect_silence_after_close(f);
    assert_int_equal(f->owner.n_lost, 0);
}

static void test_close_in_drained(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    f->owner.closes_in = "drained";
    assert_int_equal(send_text(f, "x"), KVF_OK);
    net_turn_until(&f->net, &f->owner.n_drained, 1);
    expect_silence_after_close(f);
}

static void test_close_in_lost(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    f->owner.closes_in = "lost";
    net_close(f->fd);
    f->fd = -1;
    net_turn_until(&f->net, &f->owner.n_lost, 1);
    expect_silence_after_close(f);
}

/* ---- descriptors and credentials */

static void test_descriptors_travel_with_their_bytes(void **state)
{
    struct fixture *f = *state;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct stat sent;
    struct stat got;
    open_unix(f);
    int file = memfd_create("kvf-test", MFD_CLOEXEC);
    assert_int_equal(fstat(file, &sent), 0);
    assert_int_equal(send_text(f, "a"), KVF_OK);
    assert_int_equal(f->net.sock.ops->send(f->owner.stream, "b", 1, &file, 1), KVF_OK);
    net_close(file);
    net_turn_until(&f->net, &f->owner.n_drained, 1);
    expect_raw(f, "a");
    assert_int_equal(recvmsg(f->fd, &message, MSG_CMSG_CLOEXEC), 1);
    assert_int_equal(byte, 'b');
    assert_true(message.msg_controllen >= sizeof(control) - sizeof(int));
    memcpy(&file, CMSG_DATA((struct cmsghdr *)(void *)control), sizeof(int));
    assert_int_equal(fstat(file, &got), 0);
    assert_int_equal(got.st_ino, sent.st_ino);
    net_close(file);
}

static void raw_write_with_fds(struct fixture *f, size_t n)
{
    _Alignas(
        struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * KVF_STREAM_FDS_MAX)] = {0};
    int fds[KVF_STREAM_FDS_MAX] = {-1};
    char byte = 'x';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    for (size_t i = 0; i < n; i++) {
        fds[i] = f->fd;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(header), fds, n * sizeof(int));
    assert_int_equal(sendmsg(f->fd, &message, 0), 1);
}

static void test_descriptors_wait_until_they_are_taken(void **state)
{
    struct fixture *f = *state;
    open_unix(f);
    raw_write_with_fds(f, 2);
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    for (int i = 0; i < 2; i++) {
        int fd = f->net.sock.ops->take_fd(f->owner.stream);
        assert_true(fd >= 0);
        net_close(fd);
    }
    assert_int_equal(f->net.sock.ops->take_fd(f->owner.stream), -1);
}

static void test_too_many_waiting_descriptors_lose_the_stream(void **state)
{
    struct fixture *f = *state;
    open_unix(f);
    raw_write_with_fds(f, KVF_STREAM_FDS_MAX);
    net_turn_until(&f->net, &f->owner.n_readable, 1);
    assert_int_equal(f->owner.n_lost, 0);
    raw_write_with_fds(f, 1);
    expect_lost(f, KVF_PROTOCOL);
}

/* The kernel drops what it cannot install: the byte came, its descriptor did not. */
static void test_descriptor_that_found_no_place_loses_the_stream(void **state)
{
    struct fixture *f = *state;
    open_unix(f);
    raw_write_with_fds(f, 1);
    net_deny_fds();
    net_turns(&f->net, 2);
    net_allow_fds();
    expect_lost(f, KVF_SYSTEM);
    assert_int_equal(f->owner.n_readable, 0);
}

static void test_tcp_carries_no_descriptors(void **state)
{
    struct fixture *f = *state;
    open_tcp(f);
    assert_int_equal(f->net.sock.ops->send(f->owner.stream, "x", 1, &f->fd, 1),
                     KVF_UNSUPPORTED);
    assert_int_equal(f->net.sock.ops->out_length(f->owner.stream), 0);
}

static void test_credentials_of_a_unix_peer(void **state)
{
    struct fixture *f = *state;
    struct kvf_credentials credentials;
    open_unix(f);
    assert_int_equal(f->net.sock.ops->credentials(f->owner.stream, &credentials), KVF_OK);
    assert_int_equal(credentials.pid, getpid());
    assert_int_equal(credentials.uid, geteuid());
    assert_int_equal(credentials.gid, getegid());
}

static void test_credentials_are_not_known_over_tcp(void **state)
{
    struct fixture *f = *state;
    struct kvf_credentials credentials;
    open_tcp(f);
    assert_int_equal(f->net.sock.ops->credentials(f->owner.stream, &credentials),
                     KVF_UNSUPPORTED);
}

/* ---- steady state */

static void test_exchange_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    open_unix(f);
    uint64_t n_before = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(send_text(f, "a frame of the size that is common"), KVF_OK);
        net_turn_until(&f->net, &f->owner.n_drained, i + 1);
        expect_raw(f, "a frame of the size that is common");
        raw_write(f, "and its answer", 14);
        f->owner.n_received = 0;
        net_turn_until(&f->net, &f->owner.n_readable, i + 1);
        if (i == 0) {
            n_before = kvf_alloc_count(); /* the first one made the buffers */
        }
    }
    assert_int_equal(kvf_alloc_count(), n_before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_tcp_streams_are_tuned),
        T(test_sends_leave_together_after_the_calls),
        T(test_sends_before_opening_are_delivered),
        T(test_send_survives_a_reader_that_takes_little),
        T(test_send_is_refused_whole_at_the_ceiling),
        T(test_close_still_sends_the_last_word),
        T(test_bytes_are_offered_as_they_come),
        T(test_reading_pauses_at_the_ceiling_and_resumes),
        T(test_input_of_a_turn_is_bounded),
        T(test_last_bytes_come_before_the_loss),
        T(test_last_bytes_come_before_the_loss_that_sending_finds),
        T(test_reset_is_a_loss),
        T(test_orderly_end_while_paused_loses_no_bytes),
        T(test_orderly_end_while_paused_lets_the_loop_sleep),
        T(test_reset_while_paused_is_told_at_once),
        T(test_close_in_opened),
        T(test_close_in_readable),
        T(test_close_in_readable_that_sending_caused),
        T(test_close_in_drained),
        T(test_close_in_lost),
        T(test_descriptors_travel_with_their_bytes),
        T(test_descriptors_wait_until_they_are_taken),
        T(test_too_many_waiting_descriptors_lose_the_stream),
        T(test_descriptor_that_found_no_place_loses_the_stream),
        T(test_tcp_carries_no_descriptors),
        T(test_credentials_of_a_unix_peer),
        T(test_credentials_are_not_known_over_tcp),
        T(test_exchange_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
