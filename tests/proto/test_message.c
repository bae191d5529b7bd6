/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages in frames: every type has its name and number, a frame says what it carries,
 * and what cannot be sent or read changes nothing. What fields look like on the wire is
 * tested with the writer, what bytes are refused with the reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "proto/frame.h"
#include "samples.h"

static void test_message_names_are_those_of_the_schema_file(void **state)
{
    (void)state;
    assert_string_equal(kvf_message_name(5), "RequestInfo");
    assert_string_equal(kvf_message_name(46), "CommStateAck");
    for (size_t i = 0; i < N_SAMPLES; i++) {
        assert_true(kvf_message_type_is_known(sample(i)->type));
        assert_string_not_equal(kvf_message_name(sample(i)->type), "?");
    }
}

static void test_message_types_we_do_not_know(void **state)
{
    (void)state;
    static const uint32_t unknown[] = {0, 15, 31, 47, 65535, UINT32_MAX};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_false(kvf_message_type_is_known(unknown[i]));
        assert_string_equal(kvf_message_name(unknown[i]), "?");
    }
}

static void test_message_is_framed_with_type_tag_and_sequence(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        struct kvf_buf out;
        struct kvf_frame frame;
        const char *detail = "";
        kvf_buf_init(&out, 1u << 20);
        assert_int_equal(kvf_message_encode(sample(i), 77, 88, &out), KVF_OK);
        assert_int_equal(kvf_frame_parse(kvf_buf_head(&out), kvf_buf_length(&out),
                                         KVF_FRAME_MAX_PEER, &frame, &detail),
                         KVF_OK);
        assert_int_equal(frame.type, sample(i)->type);
        assert_int_equal(frame.session_tag, 77);
        assert_int_equal(frame.sequence, 88);
        assert_int_equal(frame.length, kvf_message_size(sample(i)));
        kvf_buf_fini(&out);
    }
}

/* Before a peer has proved who it is, only these are read from it. */
static void test_message_of_the_handshake_fits_into_an_unproven_frame(void **state)
{
    (void)state;
    static const char name[] =
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
    static const uint8_t blob[1024];
    const struct kvf_data_blob data[] = {
        {.transport = "ucx", .version = "1.22.0", .blob = {blob, sizeof(blob)}},
        {.transport = "tcp", .version = "1", .blob = {blob, sizeof(blob)}}};
    struct kvf_message hello = *sample_of(KVF_MSG_HELLO_ACK);
    hello.u.hello_ack.hello.node = name;
    hello.u.hello_ack.hello.expected_node = name;
    hello.u.hello_ack.hello.data = data;
    hello.u.hello_ack.hello.n_data = 2;
    size_t n = kvf_message_size(&hello);
    assert_true(n > 2048 && n <= KVF_FRAME_MAX_UNPROVEN);
}

static void test_message_is_appended_behind_others(void **state)
{
    (void)state;
    struct kvf_buf out;
    kvf_buf_init(&out, 1u << 20);
    assert_int_equal(kvf_buf_append(&out, "before", 6), KVF_OK);
    assert_int_equal(kvf_message_encode(sample(0), 1, 2, &out), KVF_OK);
    assert_memory_equal(kvf_buf_head(&out), "beforeKVF1", 10);
    assert_int_equal(kvf_buf_length(&out),
                     6 + KVF_FRAME_HEADER_BYTES + kvf_message_size(sample(0)));
    kvf_buf_fini(&out);
}

static void test_message_waits_while_the_queue_is_full(void **state)
{
    (void)state;
    struct kvf_buf out;
    size_t n = KVF_FRAME_HEADER_BYTES + kvf_message_size(sample(0));
    kvf_buf_init(&out, n + 9);
    assert_int_equal(kvf_buf_append(&out, "0123456789", 10), KVF_OK);
    assert_int_equal(kvf_message_encode(sample(0), 1, 2, &out), KVF_BUSY);
    assert_int_equal(kvf_buf_length(&out), 10);
    kvf_buf_consume(&out, 1);
    assert_int_equal(kvf_message_encode(sample(0), 1, 2, &out), KVF_OK);
    kvf_buf_fini(&out);
}

static void test_message_without_memory_is_not_sent(void **state)
{
    (void)state;
    struct kvf_buf out;
    kvf_buf_init(&out, 1u << 20);
    kvf_alloc_fail_nth(1);
    assert_int_equal(kvf_message_encode(sample(0), 1, 2, &out), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_int_equal(kvf_buf_length(&out), 0);
    kvf_buf_fini(&out);
}

static void test_message_over_a_limit_is_not_sent(void **state)
{
    (void)state;
    struct kvf_buf out;
    struct kvf_message message = {.type = KVF_MSG_DONE, .u.done.detail = "\xff"};
    kvf_buf_init(&out, 1u << 20);
    assert_int_equal(kvf_message_encode(&message, 1, 2, &out), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_message_size(&message), 0);
    message.type = (enum kvf_message_type)0;
    assert_int_equal(kvf_message_encode(&message, 1, 2, &out), KVF_INVALID_ARGUMENT);
    assert_int_equal(kvf_buf_length(&out), 0);
    kvf_buf_fini(&out);
}

static void test_message_refused_leaves_the_output_alone(void **state)
{
    (void)state;
    struct kvf_arena arena;
    struct kvf_message message;
    const char *detail = "";
    memset(&message, 0xa5, sizeof(message));
    const struct kvf_message before = message;
    kvf_arena_init(&arena, 1u << 20);
    assert_int_equal(kvf_message_decode(KVF_MSG_HELLO, (const uint8_t *)"\xff", 1, &arena,
                                        &message, &detail),
                     KVF_PROTOCOL);
    assert_int_equal(
        kvf_message_decode(31, (const uint8_t *)"", 0, &arena, &message, &detail),
        KVF_PROTOCOL);
    assert_non_null(strstr(detail, "unknown"));
    assert_memory_equal(&message, &before, sizeof(message));
    kvf_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_names_are_those_of_the_schema_file),
        cmocka_unit_test(test_message_types_we_do_not_know),
        cmocka_unit_test(test_message_is_framed_with_type_tag_and_sequence),
        cmocka_unit_test(test_message_of_the_handshake_fits_into_an_unproven_frame),
        cmocka_unit_test(test_message_is_appended_behind_others),
        cmocka_unit_test(test_message_waits_while_the_queue_is_full),
        cmocka_unit_test(test_message_without_memory_is_not_sent),
        cmocka_unit_test(test_message_over_a_limit_is_not_sent),
        cmocka_unit_test(test_message_refused_leaves_the_output_alone),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
