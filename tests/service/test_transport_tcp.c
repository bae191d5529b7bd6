/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the tcp transport promises: who is heard, what foreign bytes do, ports and
 * blobs. Foreigners are plain blocking sockets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport_rig.h"

#define GREETING_BYTES 24u

static void blob_text(struct rig_side *side, char *out, size_t out_bytes)
{
    uint8_t blob[KVF_DATA_BLOB_MAX];
    size_t n = sizeof(blob);
    assert_int_equal(side->transport->ops->blob(side->transport, blob, &n), KVF_OK);
    assert_true(n < out_bytes);
    memcpy(out, blob, n);
    out[n] = '\0';
}

static uint16_t port_of(struct rig_side *side)
{
    char text[300];
    unsigned port = 0;
    blob_text(side, text, sizeof(text));
    assert_int_equal(sscanf(strrchr(text, ':'), ":%u", &port), 1);
    return (uint16_t)port;
}

/* After the rig's own connection, which a greeting on this one replaces. */
static int dial(struct rig_side *side)
{
    rig_run_for_ms(side->rig, 5);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port_of(side)),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void put(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

static void put_greeting(int fd, const uint8_t *token)
{
    uint8_t greeting[GREETING_BYTES] = {'K', 'V', 'F', 'D', 1, 0, GREETING_BYTES, 0};
    memcpy(greeting + 8, token, KVF_DATA_TOKEN_BYTES);
    put(fd, greeting, sizeof(greeting));
}

/* Whether the other end closes fd within a second, without sending anything. */
static bool is_closed_by_peer(struct rig *rig, int fd)
{
    uint64_t end_ns = kvf_loop_clock_ns(rig->loop) + KVF_NS_PER_S;
    while (kvf_loop_clock_ns(rig->loop) < end_ns) {
        char byte;
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK)) {
            return true;
        }
        assert_true(n < 0);
    }
    return false;
}

static bool has_landed(struct rig *rig)
{
    return rig->b.receives[0].n_done == 1 && rig_is_idle(rig);
}

/* The legitimate pair still works. */
static void check_service(struct rig *rig)
{
    rig->b.receives[0].n_done = 0;
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, 100000, 8, 1), KVF_OK);
    assert_true(rig_run_until(rig, has_landed));
    assert_true(rig_holds(&rig->b, 0, 100000, 1));
}

static void test_tcp_closes_on_garbage(void **state)
{
    struct rig *rig = *state;
    uint8_t noise[4096];
    kvf_rng_fill(&rig->rng, noise, sizeof(noise));
    int fd = dial(&rig->b);
    put(fd, noise, sizeof(noise));
    assert_true(is_closed_by_peer(rig, fd));
    (void)close(fd);
    check_service(rig);
    assert_int_equal(rig->b.n_arrived, 1);
}

static void test_tcp_closes_on_a_wrong_token(void **state)
{
    struct rig *rig = *state;
    uint8_t token[KVF_DATA_TOKEN_BYTES];
    memcpy(token, rig->b.token, sizeof(token));
    token[15] ^= 1;
    int fd = dial(&rig->b);
    put_greeting(fd, token);
    assert_true(is_closed_by_peer(rig, fd));
    (void)close(fd);
    check_service(rig);
}

static void test_tcp_closes_on_a_removed_token(void **state)
{
    struct rig *rig = *state;
    rig->b.transport->ops->token_remove(rig->b.transport, rig->b.token);
    int fd = dial(&rig->b);
    put_greeting(fd, rig->b.token);
    assert_true(is_closed_by_peer(rig, fd));
    (void)close(fd);
}

static void test_tcp_closes_on_a_bad_chunk_header(void **state)
{
    struct rig *rig = *state;
    uint8_t header[KVF_CHUNK_HEADER_BYTES] = {0};
    int fd = dial(&rig->b);
    put_greeting(fd, rig->b.token);
    put(fd, header, sizeof(header));
    assert_true(is_closed_by_peer(rig, fd));
    (void)close(fd);
    assert_int_equal(rig->b.n_arrived, 0);
}

static void test_tcp_closes_on_a_chunk_with_another_token(void **state)
{
    struct rig *rig = *state;
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    const struct kvf_chunk_header header = {.token = {1, 2, 3}, .length = 10};
    kvf_chunk_header_write(&header, wire);
    int fd = dial(&rig->b);
    put_greeting(fd, rig->b.token);
    put(fd, wire, sizeof(wire));
    assert_true(is_closed_by_peer(rig, fd));
    (void)close(fd);
    assert_int_equal(rig->b.n_arrived, 0);
}

static void test_tcp_takes_a_greeting_byte_by_byte(void **state)
{
    struct rig *rig = *state;
    uint8_t greeting[GREETING_BYTES] = {'K', 'V', 'F', 'D', 1, 0, GREETING_BYTES, 0};
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    struct kvf_chunk_header header = {.receiver_session = 3, .length = 1};
    memcpy(greeting + 8, rig->b.token, KVF_DATA_TOKEN_BYTES);
    memcpy(header.token, rig->b.token, KVF_DATA_TOKEN_BYTES);
    kvf_chunk_header_write(&header, wire);
    int fd = dial(&rig->b);
    for (size_t i = 0; i < sizeof(greeting); i++) {
        put(fd, greeting + i, 1);
        kvf_loop_turn(rig->loop, 0);
    }
    for (size_t i = 0; i < sizeof(wire); i++) {
        put(fd, wire + i, 1);
        kvf_loop_turn(rig->loop, 0);
    }
    put(fd, "x", 1);
    rig_run_for_ms(rig, 20);
    assert_int_equal(rig->b.n_arrived, 1);
    assert_int_equal(rig->b.receives[3].n_done, 1);
    assert_int_equal(*(uint8_t *)rig->b.receives[3].op.spans[0].iov_base, 'x');
    (void)close(fd);
}

static void test_tcp_sender_that_dies_inside_a_chunk_fails_it(void **state)
{
    struct rig *rig = *state;
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    struct kvf_chunk_header header = {.receiver_session = 3, .length = 1000};
    memcpy(header.token, rig->b.token, KVF_DATA_TOKEN_BYTES);
    kvf_chunk_header_write(&header, wire);
    int fd = dial(&rig->b);
    put_greeting(fd, rig->b.token);
    put(fd, wire, sizeof(wire));
    put(fd, wire, 20);
    rig_run_for_ms(rig, 20);
    assert_true(rig->b.receives[3].is_under_way);
    (void)close(fd);
    rig_run_for_ms(rig, 20);
    assert_int_equal(rig->b.receives[3].n_done, 1);
    assert_int_equal(rig->b.receives[3].status, KVF_DATA_PATH);
}

static void test_tcp_silent_connections_expire_and_do_not_block(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    rig->config.control.hello_timeout_ms = 100;
    rig_open_side(rig, &rig->b);
    int fds[80]; /* more than may wait for their greeting */
    for (size_t i = 0; i < 80; i++) {
        fds[i] = dial(&rig->b);
    }
    rig_open_side(rig, &rig->a);
    rig_connect(&rig->a, &rig->b);
    check_service(rig);
    for (size_t i = 0; i < 80; i++) {
        assert_true(is_closed_by_peer(rig, fds[i]));
        (void)close(fds[i]);
    }
    void *owned = rig;
    (void)rig_teardown(&owned);
}

static bool is_a_lost(struct rig *rig)
{
    return rig->a.n_endpoints_lost == 1;
}

static void test_tcp_connection_refused_loses_the_endpoint(void **state)
{
    struct rig *rig = *state;
    struct rig_side *a = &rig->a;
    a->transport->ops->disconnect(a->endpoint);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, not listening */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    char text[64];
    int n = snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.sin_port));
    assert_int_equal(a->transport->ops->connect(a->transport, (const uint8_t *)text,
                                                (size_t)n, NULL, rig->b.token, a,
                                                &a->endpoint),
                     KVF_OK);
    assert_int_equal(rig_post(a, &rig->b, 0, 1000, 1, 1), KVF_OK);
    assert_true(rig_run_until(rig, is_a_lost));
    assert_int_equal(a->lost_status, KVF_DATA_PATH);
    assert_int_equal(a->sends[0].n_done, 1);
    assert_int_equal(a->sends[0].status, KVF_DATA_PATH);
    (void)close(fd);
}

static void test_tcp_blob_names_where_it_listens(void **state)
{
    struct rig *rig = *state;
    char text[300], expected[64];
    blob_text(&rig->a, text, sizeof(text));
    (void)snprintf(expected, sizeof(expected), "127.0.0.1:%u", port_of(&rig->a));
    assert_string_equal(text, expected);
}

static void test_tcp_wildcard_blob_means_the_control_host(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    rig_open_side(rig, &rig->a);
    strcpy(rig->config.data.listen.host, "0.0.0.0");
    rig_open_side(rig, &rig->b);
    uint8_t blob[KVF_DATA_BLOB_MAX];
    size_t n = sizeof(blob);
    assert_int_equal(rig->b.transport->ops->blob(rig->b.transport, blob, &n), KVF_OK);
    assert_memory_equal(blob, "0.0.0.0:", 8);
    assert_int_equal(rig->a.transport->ops->connect(rig->a.transport, blob, n, NULL,
                                                    rig->b.token, &rig->a,
                                                    &rig->a.endpoint),
                     KVF_INVALID_ARGUMENT);
    rig_connect(&rig->a, &rig->b); /* says 127.0.0.1 */
    check_service(rig);
    void *owned = rig;
    (void)rig_teardown(&owned);
}

static void test_tcp_refuses_blobs_that_are_no_address(void **state)
{
    struct rig *rig = *state;
    static const char *const blobs[] = {
        "", "x", "127.0.0.1", "127.0.0.1:0", "unix:/tmp/x", "example.org:7480"};
    for (size_t i = 0; i < sizeof(blobs) / sizeof(blobs[0]); i++) {
        struct kvf_endpoint *endpoint = NULL;
        assert_int_equal(rig->a.transport->ops->connect(rig->a.transport,
                                                        (const uint8_t *)blobs[i],
                                                        strlen(blobs[i]), "127.0.0.1",
                                                        rig->b.token, &rig->a, &endpoint),
                         KVF_PROTOCOL);
        assert_null(endpoint);
    }
    uint8_t large[KVF_DATA_BLOB_MAX];
    struct kvf_endpoint *endpoint = NULL;
    memset(large, '1', sizeof(large));
    assert_int_equal(rig->a.transport->ops->connect(rig->a.transport, large,
                                                    sizeof(large), "127.0.0.1",
                                                    rig->b.token, &rig->a, &endpoint),
                     KVF_PROTOCOL);
}

static void test_tcp_takes_the_next_free_port_of_its_range(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    rig_open_side(rig, &rig->a); /* any port; then a range that starts there */
    uint16_t first = port_of(&rig->a);
    rig->config.data.listen.port = first;
    rig->config.data.listen.port_last =
        (uint16_t)(first + 20 > first ? first + 20 : first);
    rig_open_side(rig, &rig->b);
    assert_in_range(port_of(&rig->b), first + 1, first + 20);
    rig->config.data.listen.port_last = first;
    const struct kvf_transport_config config = {
        .loop = rig->loop, .config = &rig->config, .max_kept = 4};
    struct kvf_transport *third = NULL;
    assert_int_equal(kvf_transport_tcp.open(&config, &third), KVF_SYSTEM);
    assert_null(third);
    void *owned = rig;
    (void)rig_teardown(&owned);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_tcp_closes_on_garbage),
        RIG_TEST(test_tcp_closes_on_a_wrong_token),
        RIG_TEST(test_tcp_closes_on_a_removed_token),
        RIG_TEST(test_tcp_closes_on_a_bad_chunk_header),
        RIG_TEST(test_tcp_closes_on_a_chunk_with_another_token),
        RIG_TEST(test_tcp_takes_a_greeting_byte_by_byte),
        RIG_TEST(test_tcp_sender_that_dies_inside_a_chunk_fails_it),
        cmocka_unit_test(test_tcp_silent_connections_expire_and_do_not_block),
        RIG_TEST(test_tcp_connection_refused_loses_the_endpoint),
        RIG_TEST(test_tcp_blob_names_where_it_listens),
        cmocka_unit_test(test_tcp_wildcard_blob_means_the_control_host),
        RIG_TEST(test_tcp_refuses_blobs_that_are_no_address),
        cmocka_unit_test(test_tcp_takes_the_next_free_port_of_its_range),
    };
    return rig_select("tcp") ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
