/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queues of a stream over socket pairs: bytes and descriptors through sockets that
 * take little at a time, ceilings, and descriptors that must never leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/stream_io.h"
#include "net_support.h"

#define OUT_MAX 262144u
#define IN_MAX  65536u

struct fixture {
    int ends[2]; /* the queues' socket, the test's */
    int n_fds_before;
    struct kvf_out_queue out;
    struct kvf_in_queue in;
    struct kvf_rng rng;
};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    f->n_fds_before = net_count_fds();
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, f->ends), 0);
    kvf_buf_init(&f->out.bytes, OUT_MAX);
    kvf_buf_init(&f->in.bytes, IN_MAX);
    kvf_rng_init_seeded(&f->rng, 7471);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    kvf_out_queue_fini(&f->out);
    kvf_in_queue_fini(&f->in);
    for (int i = 0; i < 2; i++) {
        if (f->ends[i] >= 0) {
            assert_int_equal(close(f->ends[i]), 0);
        }
    }
    assert_int_equal(net_count_fds(), f->n_fds_before);
    kvf_free(f);
    return 0;
}

/* A file that can be told from others by its size. */
static int numbered_file(off_t number)
{
    int fd = memfd_create("kvf-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, number), 0);
    return fd;
}

static off_t number_of(int fd)
{
    struct stat file;
    assert_int_equal(fstat(fd, &file), 0);
    return file.st_size;
}

static enum kvf_status append_numbered(struct fixture *f, const void *bytes, size_t n,
                                       off_t first, size_t n_files)
{
    int fds[KVF_STREAM_FDS_MAX + 1] = {-1};
    for (size_t i = 0; i < n_files; i++) {
        fds[i] = numbered_file(first + (off_t)i);
    }
    enum kvf_status status = kvf_out_queue_append(&f->out, bytes, n, fds, n_files);
    for (size_t i = 0; i < n_files; i++) {
        assert_int_equal(close(fds[i]), 0); /* the queue has its own */
    }
    return status;
}

/* Reads at most n bytes with the test's own recvmsg; the numbers of the files that came
 * go to numbers. Returns the bytes read, 0 when there are none. */
static size_t raw_read(struct fixture *f, void *bytes, size_t n, off_t *numbers,
                       size_t *n_numbers)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * KVF_STREAM_FDS_MAX)];
    struct iovec iov = {.iov_base = bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(f->ends[1], &message, MSG_CMSG_CLOEXEC);
    assert_true(got > 0 || errno == EAGAIN);
    *n_numbers = 0;
    struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL) {
        *n_numbers = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    }
    for (size_t i = 0; i < *n_numbers; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        numbers[i] = number_of(fd);
        assert_int_equal(close(fd), 0);
    }
    return got > 0 ? (size_t)got : 0;
}

static void raw_send(struct fixture *f, const void *bytes, size_t n, off_t first,
                     size_t n_files)
{
    _Alignas(
        struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2 * KVF_STREAM_FDS_MAX)] = {
        0};
    int fds[2 * KVF_STREAM_FDS_MAX] = {-1};
    char copy[64];
    assert_true(n <= sizeof(copy));
    memcpy(copy, bytes, n);
    struct iovec iov = {.iov_base = copy, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    for (size_t i = 0; i < n_files; i++) {
        fds[i] = numbered_file(first + (off_t)i);
    }
    if (n_files > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(n_files * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(n_files * sizeof(int));
        memcpy(CMSG_DATA(header), fds, n_files * sizeof(int));
    }
    assert_int_equal(sendmsg(f->ends[1], &message, 0), n);
    for (size_t i = 0; i < n_files; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
}

static enum kvf_status read_all(struct fixture *f, bool *out_has_input)
{
    return kvf_in_queue_read(&f->in, f->ends[0], true, SIZE_MAX, out_has_input);
}

static void expect_fd(struct fixture *f, off_t number)
{
    int fd = kvf_in_queue_take_fd(&f->in);
    assert_true(fd >= 0);
    assert_int_equal(number_of(fd), number);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_int_equal(close(fd), 0);
}

/* ---- out */

static void test_out_refuses_what_no_stream_can_carry(void **state)
{
    struct fixture *f = *state;
    const int no_fd[] = {1000};
    assert_int_equal(append_numbered(f, "", 0, 1, 1), KVF_INVALID_ARGUMENT);
    assert_int_equal(append_numbered(f, "x", 1, 1, KVF_STREAM_FDS_MAX + 1),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_out_queue_append(&f->out, "x", 1, no_fd, 1),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_buf_length(&f->out.bytes), 0);
    assert_int_equal(f->out.n_fds, 0);
}

static void test_out_takes_all_or_nothing_at_its_ceilings(void **state)
{
    struct fixture *f = *state;
    static const uint8_t zeros[OUT_MAX];
    assert_int_equal(append_numbered(f, "x", 1, 1, KVF_STREAM_FDS_MAX), KVF_OK);
    assert_int_equal(append_numbered(f, "y", 1, 1, 1), KVF_BUSY);
    assert_int_equal(append_numbered(f, zeros, OUT_MAX, 0, 0), KVF_BUSY);
    assert_int_equal(kvf_buf_length(&f->out.bytes), 1);
    assert_int_equal(append_numbered(f, zeros, OUT_MAX - 1, 0, 0), KVF_OK);
    assert_int_equal(append_numbered(f, "z", 1, 0, 0), KVF_BUSY);
}

static void test_out_keeps_no_descriptor_when_bytes_do_not_fit(void **state)
{
    struct fixture *f = *state;
    static const uint8_t zeros[OUT_MAX];
    assert_int_equal(append_numbered(f, zeros, OUT_MAX, 0, 0), KVF_OK);
    int n_before = net_count_fds();
    assert_int_equal(append_numbered(f, "x", 1, 1, 3), KVF_BUSY);
    assert_int_equal(net_count_fds(), n_before);
    assert_int_equal(f->out.n_fds, 0);
}

static void test_out_write_stops_at_its_budget(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(append_numbered(f, "abcdef", 6, 0, 0), KVF_OK);
    assert_int_equal(kvf_out_queue_write(&f->out, f->ends[0], 4), KVF_IN_PROGRESS);
    assert_int_equal(kvf_buf_length(&f->out.bytes), 2);
    assert_int_equal(kvf_out_queue_write(&f->out, f->ends[0], 4), KVF_OK);
}

static void test_out_write_reports_a_closed_peer(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(append_numbered(f, "abcdef", 6, 1, 2), KVF_OK);
    assert_int_equal(close(f->ends[1]), 0);
    f->ends[1] = -1;
    assert_int_equal(kvf_out_queue_write(&f->out, f->ends[0], SIZE_MAX), KVF_PEER_LOST);
}

static void test_out_descriptors_ride_on_their_first_byte(void **state)
{
    struct fixture *f = *state;
    off_t numbers[KVF_STREAM_FDS_MAX];
    const char *expected = "aabbbcd";
    const size_t n_expected[] = {0, 0, 2, 0, 0, 1, 0};
    assert_int_equal(append_numbered(f, "aa", 2, 0, 0), KVF_OK);
    assert_int_equal(append_numbered(f, "bbb", 3, 10, 2), KVF_OK);
    assert_int_equal(append_numbered(f, "c", 1, 20, 1), KVF_OK);
    assert_int_equal(append_numbered(f, "d", 1, 0, 0), KVF_OK);
    assert_int_equal(kvf_out_queue_write(&f->out, f->ends[0], SIZE_MAX), KVF_OK);
    for (size_t i = 0; i < strlen(expected); i++) {
        char byte;
        size_t n;
        assert_int_equal(raw_read(f, &byte, 1, numbers, &n), 1);
        assert_int_equal(byte, expected[i]);
        assert_int_equal(n, n_expected[i]);
        for (size_t j = 0; j < n; j++) {
            assert_int_equal(numbers[j], (i == 2 ? 10 : 20) + j);
        }
    }
}

/* The stream that the next test sends: byte i is i * 7, and some bytes carry files, whose
 * numbers count up. */
struct script {
    size_t n_appended, n_read; /* bytes */
    off_t n_files_sent, n_files_read;
    size_t carriers[4096]; /* offset of the byte that carries file i */
};

static void append_random(struct fixture *f, struct script *script)
{
    uint8_t bytes[5000];
    size_t n = 1 + (size_t)kvf_rng_below(&f->rng, sizeof(bytes));
    size_t n_files =
        kvf_rng_below(&f->rng, 3) == 0 ? (size_t)kvf_rng_below(&f->rng, 4) : 0;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)((script->n_appended + i) * 7);
    }
    enum kvf_status status = append_numbered(f, bytes, n, script->n_files_sent, n_files);
    if (status == KVF_BUSY) {
        return;
    }
    assert_int_equal(status, KVF_OK);
    for (size_t i = 0; i < n_files; i++) {
        script->carriers[script->n_files_sent++] = script->n_appended;
    }
    script->n_appended += n;
}

static void read_random(struct fixture *f, struct script *script)
{
    uint8_t bytes[9000];
    off_t numbers[KVF_STREAM_FDS_MAX];
    size_t n_files;
    size_t ask = 1 + (size_t)kvf_rng_below(&f->rng, sizeof(bytes));
    bool is_carrier = false;
    if (script->n_files_read < script->n_files_sent) {
        size_t carrier = script->carriers[script->n_files_read];
        is_carrier = carrier == script->n_read;
        ask = is_carrier
                  ? 1
                  : (carrier - script->n_read < ask ? carrier - script->n_read : ask);
    }
    size_t n = raw_read(f, bytes, ask, numbers, &n_files);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(bytes[i], (uint8_t)((script->n_read + i) * 7));
    }
    assert_true(n == 0 || is_carrier == (n_files > 0));
    for (size_t i = 0; i < n_files; i++) {
        assert_int_equal(script->carriers[script->n_files_read], script->n_read);
        assert_int_equal(numbers[i], script->n_files_read++);
    }
    script->n_read += n;
}

static void test_out_keeps_order_through_a_socket_that_takes_little(void **state)
{
    struct fixture *f = *state;
    struct script *script = kvf_alloc(sizeof(*script));
    int tiny = 2048;
    assert_non_null(script);
    assert_int_equal(setsockopt(f->ends[0], SOL_SOCKET, SO_SNDBUF, &tiny, sizeof(tiny)),
                     0);
    bool was_full = false;
    for (int step = 0; step < 3000; step++) {
        append_random(f, script);
        size_t budget = 1 + (size_t)kvf_rng_below(&f->rng, 8000);
        enum kvf_status status = kvf_out_queue_write(&f->out, f->ends[0], budget);
        assert_true(status == KVF_OK || status == KVF_IN_PROGRESS);
        was_full |= status == KVF_IN_PROGRESS;
        read_random(f, script);
    }
    while (script->n_read < script->n_appended) {
        (void)!kvf_out_queue_write(&f->out, f->ends[0], SIZE_MAX); /* the reads check */
        read_random(f, script);
    }
    assert_true(was_full);
    assert_true(script->n_files_sent > 100);
    assert_int_equal(script->n_files_read, script->n_files_sent);
    kvf_free(script);
}

/* ---- in */

static void test_in_reads_until_the_socket_is_empty(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    assert_int_equal(read_all(f, &has_input), KVF_OK);
    assert_false(has_input);
    raw_send(f, "abc", 3, 0, 0);
    raw_send(f, "de", 2, 0, 0);
    assert_int_equal(read_all(f, &has_input), KVF_OK);
    assert_true(has_input);
    assert_int_equal(kvf_buf_length(&f->in.bytes), 5);
    assert_memory_equal(kvf_buf_head(&f->in.bytes), "abcde", 5);
}

static void test_in_stops_at_budget_and_ceiling(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    f->in.bytes.max_bytes = 4;
    raw_send(f, "abcdef", 6, 0, 0);
    assert_int_equal(kvf_in_queue_read(&f->in, f->ends[0], true, 3, &has_input),
                     KVF_IN_PROGRESS);
    assert_int_equal(kvf_buf_length(&f->in.bytes), 3);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_true(has_input);
    assert_int_equal(kvf_buf_length(&f->in.bytes), 4);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_false(has_input);
}

static void test_in_tells_bytes_and_end_in_one_reading(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    raw_send(f, "abc", 3, 1, 1);
    assert_int_equal(close(f->ends[1]), 0);
    f->ends[1] = -1;
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_true(has_input);
    expect_fd(f, 1);
    assert_int_equal(read_all(f, &has_input), KVF_PEER_LOST);
    assert_false(has_input);
    assert_memory_equal(kvf_buf_head(&f->in.bytes), "abc", 3);
}

static void test_in_hands_out_descriptors_in_order(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    assert_int_equal(kvf_in_queue_take_fd(&f->in), -1);
    raw_send(f, "a", 1, 10, 2);
    raw_send(f, "b", 1, 20, 1);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_int_equal(kvf_buf_length(&f->in.bytes), 2);
    expect_fd(f, 10);
    expect_fd(f, 11);
    expect_fd(f, 20);
    assert_int_equal(kvf_in_queue_take_fd(&f->in), -1);
}

static void test_in_refuses_more_descriptors_than_may_wait(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    raw_send(f, "a", 1, 1, KVF_STREAM_FDS_MAX);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    raw_send(f, "b", 1, 100, 2);
    assert_int_equal(read_all(f, &has_input), KVF_PROTOCOL);
    assert_false(has_input);
}

static void test_in_refuses_more_descriptors_than_one_send_may_carry(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    raw_send(f, "a", 1, 1, KVF_STREAM_FDS_MAX + 1);
    assert_int_equal(read_all(f, &has_input), KVF_PROTOCOL);
}

static void test_in_closes_descriptors_nobody_took(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    raw_send(f, "a", 1, 1, 3);
    assert_int_equal(read_all(f, &has_input), KVF_IN_PROGRESS);
    assert_int_equal(f->in.n_fds, 3); /* the teardown counts what stays open */
}

static void test_in_reports_want_of_memory(void **state)
{
    struct fixture *f = *state;
    bool has_input;
    raw_send(f, "a", 1, 0, 0);
    kvf_alloc_fail_nth(1);
    assert_int_equal(read_all(f, &has_input), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_int_equal(read_all(f, &has_input), KVF_OK);
    assert_true(has_input);
}

/* ---- outcomes */

static void test_status_of_socket_errors(void **state)
{
    (void)state;
    assert_int_equal(kvf_sock_status(ECONNREFUSED), KVF_PEER_LOST);
    assert_int_equal(kvf_sock_status(ECONNRESET), KVF_PEER_LOST);
    assert_int_equal(kvf_sock_status(EHOSTUNREACH), KVF_PEER_LOST);
    assert_int_equal(kvf_sock_status(ETIMEDOUT), KVF_EXPIRED);
    assert_int_equal(kvf_sock_status(EACCES), KVF_PERMISSION);
    assert_int_equal(kvf_sock_status(ENOBUFS), KVF_NO_MEMORY);
    assert_int_equal(kvf_sock_status(EMFILE), KVF_SYSTEM);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_out_refuses_what_no_stream_can_carry),
        T(test_out_takes_all_or_nothing_at_its_ceilings),
        T(test_out_keeps_no_descriptor_when_bytes_do_not_fit),
        T(test_out_write_stops_at_its_budget),
        T(test_out_write_reports_a_closed_peer),
        T(test_out_descriptors_ride_on_their_first_byte),
        T(test_out_keeps_order_through_a_socket_that_takes_little),
        T(test_in_reads_until_the_socket_is_empty),
        T(test_in_stops_at_budget_and_ceiling),
        T(test_in_tells_bytes_and_end_in_one_reading),
        T(test_in_hands_out_descriptors_in_order),
        T(test_in_refuses_more_descriptors_than_may_wait),
        T(test_in_refuses_more_descriptors_than_one_send_may_carry),
        T(test_in_closes_descriptors_nobody_took),
        T(test_in_reports_want_of_memory),
        cmocka_unit_test(test_status_of_socket_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
