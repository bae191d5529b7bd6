/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs for routers: they come back as they went, need exactly the bytes they announce,
 * and no cut, flipped bit, foreign blob or blob of the other kind is taken for one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <kvferry/kvferry.h>

#include "base/crc.h"
#include "samples.h"
#include "walk.h"

#define BUDGET (1u << 20)

struct blob {
    uint8_t bytes[4096];
    size_t n;
};

static const struct kvf_context_params *params(void)
{
    return &sample_of(KVF_MSG_RECEIVE)->u.receive.params;
}

static const struct kvf_comm_state *comm(void)
{
    return &sample_of(KVF_MSG_COMM_STATE_SET)->u.comm_state_set.state;
}

static void encode(struct blob *blob)
{
    blob->n = sizeof(blob->bytes);
    assert_int_equal(kvf_context_params_encode(params(), blob->bytes, &blob->n), KVF_OK);
}

/* From a block of exactly n bytes. */
static enum kvf_status decode(const uint8_t *bytes, size_t n, struct kvf_arena *arena,
                              struct kvf_context_params *out, const char **out_detail)
{
    uint8_t *exact = malloc(n > 0 ? n : 1);
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    enum kvf_status status = kvf_context_params_decode(exact, n, arena, out, out_detail);
    free(exact);
    return status;
}

static void assert_bad(const uint8_t *bytes, size_t n, const char *word)
{
    struct kvf_arena arena;
    struct kvf_context_params out = {.request_id = 99};
    const char *detail = "";
    kvf_arena_init(&arena, BUDGET);
    assert_int_equal(decode(bytes, n, &arena, &out, &detail), KVF_BAD_PARAMS);
    assert_true(out.request_id == 99);
    assert_non_null(strstr(detail, word));
    kvf_arena_fini(&arena);
}

static void test_params_come_back_as_they_went(void **state)
{
    (void)state;
    struct blob blob;
    struct kvf_arena arena;
    struct kvf_context_params out;
    const char *detail = "";
    encode(&blob);
    kvf_arena_init(&arena, BUDGET);
    assert_int_equal(decode(blob.bytes, blob.n, &arena, &out, &detail), KVF_OK);
    assert_true(kvf_schema_equal(&kvf_schema_context_params, params(), &out));
    assert_int_equal(out.state.comm.self_rank, 3);
    kvf_arena_fini(&arena);
}

static void test_params_without_state_or_tokens(void **state)
{
    (void)state;
    struct blob blob = {.n = sizeof(blob.bytes)};
    struct kvf_arena arena;
    struct kvf_context_params out;
    const struct kvf_context_params in = {.request_id = 7, .n_tokens = 1};
    const char *detail = "";
    kvf_arena_init(&arena, BUDGET);
    assert_int_equal(kvf_context_params_encode(&in, blob.bytes, &blob.n), KVF_OK);
    assert_int_equal(decode(blob.bytes, blob.n, &arena, &out, &detail), KVF_OK);
    assert_true(out.request_id == 7);
    assert_false(out.has_state);
    assert_false(out.has_trace_id);
    assert_string_equal(out.label, "");
    kvf_arena_fini(&arena);
}

static void test_params_header_is_magic_version_length_crc(void **state)
{
    (void)state;
    struct blob blob;
    encode(&blob);
    assert_memory_equal(blob.bytes, "KVFP\1\0\0\0", 8);
    uint32_t length = (uint32_t)(blob.bytes[8] | blob.bytes[9] << 8);
    assert_int_equal(length, blob.n - 16);
    uint32_t crc = kvf_crc32c(0, blob.bytes, 12);
    crc = kvf_crc32c(crc, blob.bytes + 16, length);
    const uint8_t expected[] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
                                (uint8_t)(crc >> 24)};
    assert_memory_equal(blob.bytes + 12, expected, 4);
}

static void test_params_say_how_many_bytes_they_need(void **state)
{
    (void)state;
    struct blob whole;
    struct blob small;
    encode(&whole);
    for (size_t capacity = 0; capacity < whole.n; capacity += 13) {
        memset(small.bytes, 0xee, sizeof(small.bytes));
        small.n = capacity;
        assert_int_equal(kvf_context_params_encode(params(), small.bytes, &small.n),
                         KVF_BUFFER_TOO_SMALL);
        assert_int_equal(small.n, whole.n);
        assert_int_equal(small.bytes[0], 0xee);
    }
    assert_int_equal(kvf_context_params_encode(params(), small.bytes, &small.n), KVF_OK);
    assert_memory_equal(small.bytes, whole.bytes, whole.n);
}

static void test_params_over_a_limit_are_not_written(void **state)
{
    (void)state;
    struct blob blob = {.n = sizeof(blob.bytes)};
    char label[KVF_LABEL_MAX + 2];
    memset(label, 'x', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    struct kvf_context_params in = {.label = label};
    assert_int_equal(kvf_context_params_encode(&in, blob.bytes, &blob.n),
                     KVF_INVALID_ARGUMENT);
    assert_int_equal(blob.n, sizeof(blob.bytes));
    in.label = label + 1;
    assert_int_equal(kvf_context_params_encode(&in, blob.bytes, &blob.n), KVF_OK);
}

static void test_params_refuse_every_cut(void **state)
{
    (void)state;
    struct blob blob;
    encode(&blob);
    for (size_t n = 0; n < blob.n; n++) {
        assert_bad(blob.bytes, n, "blob is");
    }
    blob.bytes[blob.n] = 0;
    assert_bad(blob.bytes, blob.n + 1, "as long as it says");
}

static void test_params_refuse_every_flipped_bit(void **state)
{
    (void)state;
    struct blob blob;
    encode(&blob);
    for (size_t bit = 0; bit < blob.n * 8; bit++) {
        blob.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_bad(blob.bytes, blob.n, "blob");
        blob.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_params_refuse_the_other_kind(void **state)
{
    (void)state;
    struct blob blob = {.n = sizeof(blob.bytes)};
    assert_int_equal(kvf_comm_state_encode(comm(), blob.bytes, &blob.n), KVF_OK);
    assert_bad(blob.bytes, blob.n, "magic");

    struct kvf_arena arena;
    struct kvf_comm_state out;
    const char *detail = "";
    encode(&blob);
    kvf_arena_init(&arena, BUDGET);
    assert_int_equal(kvf_comm_state_decode(blob.bytes, blob.n, &arena, &out, &detail),
                     KVF_BAD_PARAMS);
    kvf_arena_fini(&arena);
}

/* A blob whose checksum is right and whose content is not. */
static void test_params_refuse_sealed_nonsense(void **state)
{
    (void)state;
    uint8_t bytes[] = {'K', 'V', 'F', 'P', 1, 0, 0, 0,    2,
                       0,   0,   0,   0,   0, 0, 0, 0x4a, 5 /* label cut off */};
    uint32_t crc = kvf_crc32c(0, bytes, 12);
    crc = kvf_crc32c(crc, bytes + 16, 2);
    for (size_t i = 0; i < 4; i++) {
        bytes[12 + i] = (uint8_t)(crc >> (8 * i));
    }
    assert_bad(bytes, sizeof(bytes), "well-formed");
}

static void test_params_report_a_spent_budget(void **state)
{
    (void)state;
    struct blob blob;
    struct kvf_arena arena;
    struct kvf_context_params out;
    const char *detail = "";
    encode(&blob);
    kvf_arena_init(&arena, 256);
    assert_int_equal(decode(blob.bytes, blob.n, &arena, &out, &detail), KVF_NO_MEMORY);
    kvf_arena_fini(&arena);
}

static void test_comm_state_comes_back_as_it_went(void **state)
{
    (void)state;
    struct blob blob = {.n = sizeof(blob.bytes)};
    struct kvf_arena arena;
    struct kvf_comm_state out;
    const char *detail = "";
    kvf_arena_init(&arena, BUDGET);
    assert_int_equal(kvf_comm_state_encode(comm(), blob.bytes, &blob.n), KVF_OK);
    assert_memory_equal(blob.bytes, "KVFC\1\0\0\0", 8);
    assert_int_equal(kvf_comm_state_decode(blob.bytes, blob.n, &arena, &out, &detail),
                     KVF_OK);
    assert_true(kvf_comm_state_equal(comm(), &out));
    assert_int_equal(out.self_rank, comm()->self_rank);
    kvf_arena_fini(&arena);
}

static void test_comm_state_reads_as_text_and_is_cut_to_fit(void **state)
{
    (void)state;
    static const char *const nodes[] = {"node-a", "node-b"};
    static const struct kvf_comm_state two = {
        .node_names = nodes, .n_nodes = 2, .instance = "prefill"};
    static const char whole[] = "kvferry:prefill[node-a,node-b]";
    char text[sizeof(whole) + 8];
    for (size_t n = 1; n <= sizeof(text); n++) {
        memset(text, 'x', sizeof(text));
        kvf_comm_state_format(&two, text, n);
        size_t length = n - 1 < strlen(whole) ? n - 1 : strlen(whole);
        assert_int_equal(strlen(text), length);
        assert_memory_equal(text, whole, length);
    }
    const struct kvf_comm_state none = {0};
    kvf_comm_state_format(&none, text, sizeof(text));
    assert_string_equal(text, "kvferry:[]");
    kvf_comm_state_format(&none, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_come_back_as_they_went),
        cmocka_unit_test(test_params_without_state_or_tokens),
        cmocka_unit_test(test_params_header_is_magic_version_length_crc),
        cmocka_unit_test(test_params_say_how_many_bytes_they_need),
        cmocka_unit_test(test_params_over_a_limit_are_not_written),
        cmocka_unit_test(test_params_refuse_every_cut),
        cmocka_unit_test(test_params_refuse_every_flipped_bit),
        cmocka_unit_test(test_params_refuse_the_other_kind),
        cmocka_unit_test(test_params_refuse_sealed_nonsense),
        cmocka_unit_test(test_params_report_a_spent_budget),
        cmocka_unit_test(test_comm_state_comes_back_as_it_went),
        cmocka_unit_test(test_comm_state_reads_as_text_and_is_cut_to_fit),
    };
    return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
