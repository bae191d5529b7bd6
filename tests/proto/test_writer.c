/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writer puts on the wire is byte for byte what protobuf-c packs, its count is
 * exact, nothing over a limit is written, and sending allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvferry.pb-c.h"
#include "proto/frame.h"
#include "random_message.h"
#include "samples.h"
#include "walk.h"

#define N_ROUNDS 150u

static void assert_protobuf_c_packs(const struct kvf_schema *schema, const uint8_t *bytes,
                                    size_t n)
{
    ProtobufCMessage *parsed = protobuf_c_message_unpack(schema->wire, NULL, n, bytes);
    assert_non_null(parsed);
    assert_int_equal(protobuf_c_message_get_packed_size(parsed), n);
    uint8_t *packed = malloc(n + 1);
    assert_non_null(packed);
    assert_int_equal(protobuf_c_message_pack(parsed, packed), n);
    assert_memory_equal(packed, bytes, n);
    free(packed);
    protobuf_c_message_free_unpacked(parsed, NULL);
}

static void check_message(const struct kvf_message *message)
{
    struct kvf_buf out;
    kvf_buf_init(&out, 1u << 20);
    assert_int_equal(kvf_message_encode(message, 1, 2, &out), KVF_OK);
    size_t n = kvf_buf_length(&out) - KVF_FRAME_HEADER_BYTES;
    assert_int_equal(kvf_message_size(message), n);
    assert_protobuf_c_packs(kvf_message_schema(message->type),
                            kvf_buf_head(&out) + KVF_FRAME_HEADER_BYTES, n);
    kvf_buf_fini(&out);
}

static void test_writer_agrees_with_protobuf_c_on_samples(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        check_message(sample(i));
    }
}

static void test_writer_agrees_with_protobuf_c_on_random_messages(void **state)
{
    (void)state;
    struct kvf_rng rng;
    struct kvf_arena arena;
    kvf_rng_init_seeded(&rng, 20261);
    kvf_arena_init(&arena, 1u << 20);
    for (size_t i = 0; i < N_ROUNDS * N_SAMPLES; i++) {
        kvf_arena_reset(&arena, 1u << 20);
        struct kvf_message message =
            random_message(&rng, sample(i % N_SAMPLES)->type, &arena);
        check_message(&message);
    }
    kvf_arena_fini(&arena);
}

static void test_writer_leaves_out_what_is_zero(void **state)
{
    (void)state;
    struct kvf_message message = {.type = KVF_MSG_PING};
    assert_int_equal(kvf_message_size(&message), 0);
    message.u.ping.sequence = 1;
    assert_int_equal(kvf_message_size(&message), 2);
    message.u.ping.sequence = UINT64_MAX;
    assert_int_equal(kvf_message_size(&message), 11);
}

static void test_writer_takes_null_for_empty_text(void **state)
{
    (void)state;
    struct kvf_message message = {.type = KVF_MSG_DONE};
    assert_int_equal(kvf_message_size(&message), 0);
    message.u.done.detail = "";
    assert_int_equal(kvf_message_size(&message), 0);
}

static void test_writer_allocates_nothing_in_the_steady_state(void **state)
{
    (void)state;
    struct kvf_buf out;
    kvf_buf_init(&out, 1u << 20);
    assert_non_null(kvf_buf_reserve(&out, 1u << 16));
    uint64_t before = kvf_alloc_count();
    for (size_t i = 0; i < N_SAMPLES; i++) {
        assert_int_equal(kvf_message_encode(sample(i), 1, i, &out), KVF_OK);
        kvf_buf_consume(&out, kvf_buf_length(&out));
    }
    assert_true(kvf_alloc_count() == before);
    kvf_buf_fini(&out);
}

/* ---- limits, for every row of every schema */

static const char *refusal_of(const struct kvf_schema *schema, const void *record)
{
    struct kvf_writer counter = {.end = NULL};
    return kvf_schema_write(schema, record, &counter);
}

static void set_pointer(uint8_t *member, const void *pointer)
{
    memcpy(member, &pointer, sizeof(pointer));
}

static void set_count(uint8_t *record, const struct kvf_field *field, size_t n)
{
    uint32_t n_short = (uint32_t)n;
    if (field->kind == KVF_FIELD_COUNTED_SCALARS) {
        memcpy(record + field->side_offset, &n_short, sizeof(n_short));
    } else {
        memcpy(record + field->side_offset, &n, sizeof(n));
    }
}

/* Breaks the row's limit by one; false when the row has none. No array is behind the
 * pointers: the count must be refused before anything is followed. */
static bool exceed(const struct kvf_field *field, uint8_t *record, char *text)
{
    static const char *const bad_text = "\xff";
    struct kvf_bytes blob = {.n = (size_t)field->limit + 1};

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_TEXT:
        memset(text, 'x', (size_t)field->limit + 1);
        text[field->limit + 1] = '\0';
        set_pointer(record + field->offset, text);
        return true;
    case KVF_FIELD_TEXTS:
        set_pointer(record + field->offset, &bad_text);
        set_count(record, field, 1);
        return true;
    case KVF_FIELD_BLOB:
        memcpy(record + field->offset, &blob, sizeof(blob));
        return true;
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
    case KVF_FIELD_RECORDS:
        set_count(record, field, (size_t)field->limit + 1);
        return true;
    case KVF_FIELD_SCALAR:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RESERVED:
        break;
    }
    return false;
}

static void test_writer_refuses_every_field_over_its_limit(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n = all_schemas(schemas);
    size_t n_checked = 0;
    char text[1024];
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            const struct kvf_field *field = &schemas[i]->fields[j];
            uint8_t *record = calloc(1, schemas[i]->n_bytes);
            assert_non_null(record);
            assert_null(refusal_of(schemas[i], record));
            if (exceed(field, record, text)) {
                assert_ptr_equal(refusal_of(schemas[i], record), field->refusal);
                n_checked++;
            }
            free(record);
        }
    }
    assert_true(n_checked > 50);
}

static void test_writer_refuses_text_that_is_not_utf8(void **state)
{
    (void)state;
    struct kvf_done done = {.detail = "caf\xe9"};
    assert_non_null(strstr(refusal_of(&kvf_schema_done, &done), "detail"));
}

static void test_writer_refuses_too_many_or_long_node_names(void **state)
{
    (void)state;
    const char *names[KVF_RANKS_MAX + 1] = {NULL};
    char name[KVF_NAME_MAX + 2];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct kvf_comm_state comm = {.node_names = names, .n_nodes = KVF_RANKS_MAX};
    assert_null(refusal_of(&kvf_schema_comm_state, &comm));
    comm.n_nodes++;
    assert_non_null(refusal_of(&kvf_schema_comm_state, &comm));
    comm.n_nodes = 1;
    names[0] = name + 1; /* 63 bytes */
    assert_null(refusal_of(&kvf_schema_comm_state, &comm));
    names[0] = name;
    assert_non_null(refusal_of(&kvf_schema_comm_state, &comm));
}

/* Each table alone is within the limit. */
static void test_writer_refuses_too_many_blocks_over_all_tables(void **state)
{
    (void)state;
    uint32_t *blocks = calloc(KVF_BLOCKS_MAX, sizeof(*blocks));
    assert_non_null(blocks);
    struct kvf_table tables[] = {
        {.group = 0, .blocks = blocks, .n_blocks = KVF_BLOCKS_MAX},
        {.group = 1, .blocks = blocks, .n_blocks = 0},
    };
    struct kvf_offer offer = {.tables = tables, .n_tables = 2};
    struct kvf_receive_message receive = {.tables = tables, .n_tables = 2};
    assert_null(refusal_of(&kvf_schema_offer, &offer));
    assert_null(refusal_of(&kvf_schema_receive, &receive));
    tables[1].n_blocks = 1;
    assert_non_null(strstr(refusal_of(&kvf_schema_offer, &offer), "together"));
    assert_non_null(strstr(refusal_of(&kvf_schema_receive, &receive), "together"));
    free(blocks);
}

/* 1024 names of 63 bytes fit into a state of their own, but not into context params. */
static void test_writer_refuses_a_packed_state_over_its_limit(void **state)
{
    (void)state;
    const char *names[KVF_RANKS_MAX];
    char name[KVF_NAME_MAX + 1];
    memset(name, 'n', KVF_NAME_MAX);
    name[KVF_NAME_MAX] = '\0';
    for (size_t i = 0; i < KVF_RANKS_MAX; i++) {
        names[i] = name;
    }
    struct kvf_context_params params = {
        .has_state = true,
        .state = {.has_comm = true,
                  .comm = {.node_names = names, .n_nodes = KVF_RANKS_MAX}}};
    assert_non_null(strstr(refusal_of(&kvf_schema_context_params, &params), "state"));
    params.state.comm.n_nodes = 1000;
    assert_null(refusal_of(&kvf_schema_context_params, &params));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_agrees_with_protobuf_c_on_samples),
        cmocka_unit_test(test_writer_agrees_with_protobuf_c_on_random_messages),
        cmocka_unit_test(test_writer_leaves_out_what_is_zero),
        cmocka_unit_test(test_writer_takes_null_for_empty_text),
        cmocka_unit_test(test_writer_allocates_nothing_in_the_steady_state),
        cmocka_unit_test(test_writer_refuses_every_field_over_its_limit),
        cmocka_unit_test(test_writer_refuses_text_that_is_not_utf8),
        cmocka_unit_test(test_writer_refuses_too_many_or_long_node_names),
        cmocka_unit_test(test_writer_refuses_too_many_blocks_over_all_tables),
        cmocka_unit_test(test_writer_refuses_a_packed_state_over_its_limit),
    };
    return cmocka_run_group_tests_name("writer", tests, NULL, NULL);
}
