/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nobody well-behaved sends: garbage, oversized and unknown frames on every port,
 * and engines that register or ask for what does not exist. Each is refused with its own
 * status, and after each the daemons are alive and move a request between the engines
 * that were connected all along. The argument names the transport.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/frame.h"
#include "tests/integration/fixture.h"

#define N_BLOCKS      16u
#define GARBAGE_BYTES 65536u
#define UNKNOWN_TYPE  0x7777u

static const char *transport = "tcp";
static struct fixture fixture;
static struct fixture_engine sender, receiver;
static uint64_t next_id = 1;
static uint8_t garbage[GARBAGE_BYTES];

static int group_setup(void **state)
{
    (void)state;
    fixture_init(&fixture, &(struct fixture_options){.transport = transport});
    fixture_engine_open(&sender, &fixture.a, "ctx", N_BLOCKS);
    fixture_engine_open(&receiver, &fixture.b, "gen", N_BLOCKS);
    for (uint32_t i = 0; i < GARBAGE_BYTES; i++) {
        garbage[i] = (uint8_t)((i * 2654435761u) >> 23);
    }
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    fixture_engine_close(&sender);
    fixture_engine_close(&receiver);
    fixture_fini(&fixture);
    return 0;
}

/* After every test: nothing that was sent hurt anybody else. */
static int others_go_on(void **state)
{
    (void)state;
    assert_true(fixture_node_is_alive(&fixture.a));
    assert_true(fixture_node_is_alive(&fixture.b));
    fixture_transfer(&sender, &receiver, next_id++);
    return 0;
}

/* ---- bytes on ports */

/* Sends, and waits until the daemon closes the connection. */
static void expect_closed(int fd, const void *bytes, size_t n)
{
    uint8_t answer[256];
    ssize_t got;
    assert_true(fd >= 0);
    (void)send(fd, bytes, n, MSG_NOSIGNAL); /* it may close before it has read all */
    while ((got = recv(fd, answer, sizeof(answer), 0)) > 0) {
    }
    bool is_closed = got == 0 || errno == ECONNRESET;
    (void)close(fd);
    assert_true(is_closed);
}

static int engine_socket(void)
{
    char path[FIXTURE_PATH_BYTES];
    fixture_node_path(&fixture.a, "engine.sock", path);
    return fixture_connect_unix(path);
}

static void test_control_port_closes_on_garbage(void **state)
{
    (void)state;
    expect_closed(fixture_connect_tcp(fixture.a.control_port), garbage, GARBAGE_BYTES);
}

static void test_engine_socket_closes_on_garbage(void **state)
{
    (void)state;
    expect_closed(engine_socket(), garbage, GARBAGE_BYTES);
}

static void test_data_port_closes_on_garbage(void **state)
{
    (void)state;
    if (strcmp(transport, "tcp") != 0) {
        skip(); /* UCX's own listener is not ours to test */
    }
    uint16_t port = fixture.a.data_port;
    int fd = fixture_connect_tcp(port);
    while (fd < 0 && port < fixture.a.data_port_last) {
        fd = fixture_connect_tcp(++port);
    }
    expect_closed(fd, garbage, GARBAGE_BYTES);
}

static void test_http_ports_close_on_garbage(void **state)
{
    (void)state;
    char path[FIXTURE_PATH_BYTES];
    fixture_node_path(&fixture.a, "admin.sock", path);
    expect_closed(fixture_connect_tcp(fixture.a.observe_port), garbage, GARBAGE_BYTES);
    expect_closed(fixture_connect_unix(path), garbage, GARBAGE_BYTES);
}

/* A sealed frame with a payload of zeros. */
static size_t make_frame(uint8_t *out, uint16_t type, uint32_t length)
{
    memset(out + KVF_FRAME_HEADER_BYTES, 0, length);
    kvf_frame_seal(out, type, length, 0, 1);
    return KVF_FRAME_HEADER_BYTES + length;
}

static void test_frame_over_the_limit_is_refused_before_its_payload(void **state)
{
    (void)state;
    static uint8_t frame[KVF_FRAME_HEADER_BYTES + KVF_FRAME_MAX_UNPROVEN + 1];
    (void)make_frame(frame, 1, KVF_FRAME_MAX_UNPROVEN + 1);
    expect_closed(fixture_connect_tcp(fixture.a.control_port), frame,
                  KVF_FRAME_HEADER_BYTES);
    expect_closed(engine_socket(), frame, KVF_FRAME_HEADER_BYTES);
}

static void test_unknown_type_before_hello_is_refused(void **state)
{
    (void)state;
    uint8_t frame[KVF_FRAME_HEADER_BYTES + 16];
    size_t n = make_frame(frame, UNKNOWN_TYPE, 16);
    expect_closed(fixture_connect_tcp(fixture.a.control_port), frame, n);
    expect_closed(engine_socket(), frame, n);
}

static void test_frame_with_wrong_checksum_is_refused(void **state)
{
    (void)state;
    uint8_t frame[KVF_FRAME_HEADER_BYTES + 16];
    size_t n = make_frame(frame, 1, 16);
    frame[n - 1] ^= 1;
    expect_closed(fixture_connect_tcp(fixture.a.control_port), frame, n);
    expect_closed(engine_socket(), frame, n);
}

/* Half a header, and nothing more: the frame timeout ends it. */
static void test_connection_that_says_nothing_is_closed(void **state)
{
    (void)state;
    expect_closed(fixture_connect_tcp(fixture.a.control_port), "KVF1", 4);
}

/* ---- engines */

static enum kvf_status open_status(const char *instance, uint32_t rank)
{
    char path[FIXTURE_PATH_BYTES];
    struct kvf_engine *engine = NULL;
    struct kvf_engine_config config = fixture_engine_config(&fixture.a, instance, path);
    config.rank = rank;
    enum kvf_status status = kvf_engine_open(&config, &engine);
    if (status != KVF_OK) {
        assert_true(strlen(kvf_engine_detail(NULL)) > 0);
    }
    kvf_engine_close(engine);
    return status;
}

static void test_engine_outside_the_topology_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_status("no-such-instance", 0), KVF_UNKNOWN_INSTANCE);
    assert_int_equal(open_status("ctx", 1), KVF_UNKNOWN_INSTANCE);
    assert_int_equal(open_status("gen", 0), KVF_UNKNOWN_INSTANCE); /* of node b */
}

static void test_second_engine_of_a_rank_is_refused(void **state)
{
    (void)state;
    assert_int_equal(open_status("ctx", 0), KVF_NAME_TAKEN);
}

/* Registers a pool of gen-near at node a in a file of the test. */
static enum kvf_status register_status(int seals, const struct kvf_layout *layout,
                                       uint64_t length)
{
    char path[FIXTURE_PATH_BYTES];
    struct kvf_engine *engine = NULL;
    struct kvf_pool *pool = NULL;
    struct kvf_engine_config config = fixture_engine_config(&fixture.a, "gen-near", path);
    int fd = memfd_create("pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    assert_int_equal(kvf_engine_open(&config, &engine), KVF_OK);
    struct kvf_pool_config pool_config = {
        .size = sizeof(pool_config), .fd = fd, .length = length, .layout = layout};
    enum kvf_status status = kvf_pool_register(engine, &pool_config, 0, &pool);
    if (status != KVF_OK) {
        assert_null(pool);
        assert_true(strlen(kvf_engine_detail(engine)) > 0);
    }
    kvf_engine_close(engine);
    (void)close(fd);
    return status;
}

static void test_pool_is_judged(void **state)
{
    (void)state;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    struct kvf_layout layout;
    uint64_t layer_offsets[2];
    fixture_layout("gen-near", N_BLOCKS, &layout, layer_offsets);
    const uint64_t length = layout.block_stride * N_BLOCKS;
    assert_int_equal(register_status(seals, &layout, length), KVF_OK);
    assert_int_equal(register_status(0, &layout, length), KVF_POOL_UNSEALED);
    assert_int_equal(register_status(F_SEAL_GROW, &layout, length), KVF_POOL_UNSEALED);
    layout.n_blocks = N_BLOCKS + 1;
    assert_int_equal(register_status(seals, &layout, length), KVF_BAD_REF);
    layout.n_blocks = N_BLOCKS;
    layer_offsets[1] = UINT64_MAX - 8;
    assert_int_equal(register_status(seals, &layout, length), KVF_BAD_REF);
    fixture_layout("gen-near", N_BLOCKS, &layout, layer_offsets);
    layout.n_layers = 1;
    assert_int_equal(register_status(seals, &layout, length), KVF_LAYOUT_MISMATCH);
}

/* ---- requests */

/* A refusal comes from the call or as the event, wherever it is noticed. */
static void expect_refused(struct fixture_engine *engine, enum kvf_status called,
                           uint64_t handle, enum kvf_status expected)
{
    if (called == KVF_OK) {
        (void)fixture_expect(engine, handle, expected);
    } else {
        assert_int_equal(called, expected);
    }
}

static void test_block_ids_outside_the_pool_are_refused(void **state)
{
    (void)state;
    const int32_t bad[] = {N_BLOCKS, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fixture_request request;
        fixture_request_init(&request, next_id++, 4, 0);
        request.send_blocks[2] = bad[i];
        enum kvf_status status = fixture_send(&sender, &request);
        expect_refused(&sender, status, request.send_handle, KVF_BAD_REF);

        fixture_request_init(&request, next_id++, 4, 0);
        request.receive_blocks[2] = bad[i];
        assert_int_equal(fixture_send(&sender, &request), KVF_OK);
        status = fixture_receive(&receiver, &request);
        expect_refused(&receiver, status, request.receive_handle, KVF_BAD_REF);
        assert_int_equal(kvf_cancel(sender.engine, request.send_handle), KVF_OK);
        (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
    }
}

static void test_block_received_twice_is_refused(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, next_id++, 4, 0);
    request.receive_blocks[3] = request.receive_blocks[0];
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    enum kvf_status status = fixture_receive(&receiver, &request);
    expect_refused(&receiver, status, request.receive_handle, KVF_BAD_REF);
    assert_int_equal(kvf_cancel(sender.engine, request.send_handle), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
}

static void test_request_id_in_use_is_refused(void **state)
{
    (void)state;
    struct fixture_request first, second;
    fixture_request_init(&first, next_id++, 4, 0);
    second = first;
    assert_int_equal(fixture_send(&sender, &first), KVF_OK);
    enum kvf_status status = fixture_send(&sender, &second);
    expect_refused(&sender, status, second.send_handle, KVF_DUPLICATE);
    /* The first one is not disturbed. */
    fixture_poison(&receiver);
    fixture_fill(&sender, first.id, first.send_blocks, 4);
    assert_int_equal(fixture_receive(&receiver, &first), KVF_OK);
    (void)fixture_expect(&receiver, first.receive_handle, KVF_OK);
    (void)fixture_expect(&sender, first.send_handle, KVF_OK);
    fixture_verify(&receiver, first.id, first.receive_blocks, 4, 0);
}

static void test_every_damaged_byte_of_params_is_noticed(void **state)
{
    (void)state;
    struct fixture_request request;
    fixture_request_init(&request, next_id++, 4, 0);
    assert_int_equal(fixture_send(&sender, &request), KVF_OK);
    for (size_t i = 0; i < request.params_len; i++) {
        request.params[i] ^= 0x10;
        assert_int_equal(fixture_receive(&receiver, &request), KVF_BAD_PARAMS);
        request.params[i] ^= 0x10;
    }
    size_t whole = request.params_len;
    for (request.params_len = 0; request.params_len < whole; request.params_len++) {
        assert_int_not_equal(fixture_receive(&receiver, &request), KVF_OK);
    }
    assert_int_equal(kvf_cancel(sender.engine, request.send_handle), KVF_OK);
    (void)fixture_expect(&sender, request.send_handle, KVF_CANCELLED);
}

#define THEN_OTHERS_GO_ON(test) cmocka_unit_test_teardown(test, others_go_on)

int main(int argc, char **argv)
{
    if (argc > 1) {
        transport = argv[1];
    }
    const struct CMUnitTest tests[] = {
        THEN_OTHERS_GO_ON(test_control_port_closes_on_garbage),
        THEN_OTHERS_GO_ON(test_engine_socket_closes_on_garbage),
        THEN_OTHERS_GO_ON(test_data_port_closes_on_garbage),
        THEN_OTHERS_GO_ON(test_http_ports_close_on_garbage),
        THEN_OTHERS_GO_ON(test_frame_over_the_limit_is_refused_before_its_payload),
        THEN_OTHERS_GO_ON(test_unknown_type_before_hello_is_refused),
        THEN_OTHERS_GO_ON(test_frame_with_wrong_checksum_is_refused),
        THEN_OTHERS_GO_ON(test_connection_that_says_nothing_is_closed),
        THEN_OTHERS_GO_ON(test_engine_outside_the_topology_is_refused),
        THEN_OTHERS_GO_ON(test_second_engine_of_a_rank_is_refused),
        THEN_OTHERS_GO_ON(test_pool_is_judged),
        THEN_OTHERS_GO_ON(test_block_ids_outside_the_pool_are_refused),
        THEN_OTHERS_GO_ON(test_block_received_twice_is_refused),
        THEN_OTHERS_GO_ON(test_request_id_in_use_is_refused),
        THEN_OTHERS_GO_ON(test_every_damaged_byte_of_params_is_noticed),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
