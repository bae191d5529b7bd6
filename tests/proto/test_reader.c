/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was written comes back equal and owned by the arena; what breaks a rule is refused
 * with its field named, costs no more than the budget and leaves the output alone; and no
 * bytes whatever do more than that. Inputs lie in blocks of their exact size, so that the
 * sanitizers see a read past the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "random_message.h"
#include "samples.h"
#include "walk.h"

#define N_ROUNDS    150u
#define N_MUTATIONS 20000u
#define ARENA_BYTES (8u << 20)

/* ---- hand-made protobuf */

static void put_varint(struct kvf_buf *out, uint64_t value)
{
    uint8_t byte;
    do {
        byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        assert_int_equal(kvf_buf_append(out, &byte, 1), KVF_OK);
        value >>= 7;
    } while (value > 0);
}

static void put_field(struct kvf_buf *out, uint32_t number, const void *bytes, size_t n)
{
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, n);
    assert_int_equal(kvf_buf_append(out, bytes, n), KVF_OK);
}

static void put_zeroes(struct kvf_buf *out, uint32_t number, size_t n)
{
    uint8_t *zeroes = calloc(1, n + 1);
    assert_non_null(zeroes);
    put_field(out, number, zeroes, n);
    free(zeroes);
}

/* The record of zeroes and empty texts: valid for every schema. */
static void put_empty_record(struct kvf_buf *out, const struct kvf_schema *schema)
{
    void *record = calloc(1, schema->n_bytes);
    struct kvf_writer writer = {.end = NULL};
    assert_non_null(record);
    assert_null(kvf_schema_write(schema, record, &writer));
    size_t n = writer.n;
    uint8_t *bytes = kvf_buf_reserve(out, n + 1);
    assert_non_null(bytes);
    writer = (struct kvf_writer){.end = bytes + n};
    assert_null(kvf_schema_write(schema, record, &writer));
    kvf_buf_commit(out, n);
    free(record);
}

/* Reads from a block of exactly n bytes into a record that a failure may not touch. */
static enum kvf_status read_bytes(const struct kvf_schema *schema, const uint8_t *bytes,
                                  size_t n, size_t budget, const char **out_detail)
{
    uint8_t *exact = malloc(n > 0 ? n : 1);
    uint8_t *record = malloc(schema->n_bytes);
    struct kvf_arena arena;
    kvf_arena_init(&arena, budget);
    assert_non_null(exact);
    assert_non_null(record);
    memcpy(exact, bytes, n);
    memset(record, 0xa5, schema->n_bytes);
    enum kvf_status status =
        kvf_schema_read(schema, exact, n, &arena, record, out_detail);
    for (size_t i = 0; status != KVF_OK && i < schema->n_bytes; i++) {
        assert_int_equal(record[i], 0xa5);
    }
    assert_true(arena.used_bytes <= budget);
    kvf_arena_fini(&arena);
    free(record);
    free(exact);
    return status;
}

static enum kvf_status read_buf(const struct kvf_schema *schema,
                                const struct kvf_buf *bytes, const char **out_detail)
{
    return read_bytes(schema, kvf_buf_head(bytes), kvf_buf_length(bytes), ARENA_BYTES,
                      out_detail);
}

static void assert_refused(const struct kvf_schema *schema, const struct kvf_buf *bytes,
                           const struct kvf_field *field)
{
    const char *detail = NULL;
    assert_int_equal(read_buf(schema, bytes, &detail), KVF_PROTOCOL);
    assert_string_equal(detail, field->refusal);
}

/* ---- round trips */

static void encode(const struct kvf_message *message, struct kvf_buf *out)
{
    kvf_buf_clear(out);
    assert_int_equal(kvf_message_encode(message, 1, 2, out), KVF_OK);
}

static void check_round_trip(const struct kvf_message *message)
{
    struct kvf_buf first;
    struct kvf_buf second;
    struct kvf_arena arena;
    struct kvf_message decoded;
    const char *detail = "";
    kvf_buf_init(&first, 1u << 20);
    kvf_buf_init(&second, 1u << 20);
    encode(message, &first);
    size_t n = kvf_buf_length(&first) - KVF_FRAME_HEADER_BYTES;
    kvf_arena_init(&arena, kvf_message_budget(n));
    uint8_t *payload = malloc(n + 1);
    assert_non_null(payload);
    memcpy(payload, kvf_buf_head(&first) + KVF_FRAME_HEADER_BYTES, n);

    assert_int_equal(
        kvf_message_decode(message->type, payload, n, &arena, &decoded, &detail), KVF_OK);
    memset(payload, 0xff, n); /* nothing decoded may point into it */
    free(payload);
    assert_int_equal(decoded.type, message->type);
    assert_true(
        kvf_schema_equal(kvf_message_schema(message->type), &message->u, &decoded.u));
    encode(&decoded, &second);
    assert_int_equal(kvf_buf_length(&second), kvf_buf_length(&first));
    assert_memory_equal(kvf_buf_head(&second), kvf_buf_head(&first),
                        kvf_buf_length(&first));
    kvf_arena_fini(&arena);
    kvf_buf_fini(&second);
    kvf_buf_fini(&first);
}

static void test_reader_returns_what_was_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        check_round_trip(sample(i));
    }
}

static void test_reader_returns_random_messages(void **state)
{
    (void)state;
    struct kvf_rng rng;
    struct kvf_arena arena;
    kvf_rng_init_seeded(&rng, 20262);
    kvf_arena_init(&arena, 1u << 20);
    for (size_t i = 0; i < N_ROUNDS * N_SAMPLES; i++) {
        kvf_arena_reset(&arena, 1u << 20);
        struct kvf_message message =
            random_message(&rng, sample(i % N_SAMPLES)->type, &arena);
        check_round_trip(&message);
    }
    kvf_arena_fini(&arena);
}

static void test_reader_takes_absent_fields_for_zero(void **state)
{
    (void)state;
    struct kvf_arena arena;
    struct kvf_message message;
    const char *detail = "";
    kvf_arena_init(&arena, ARENA_BYTES);
    assert_int_equal(kvf_message_decode(KVF_MSG_DONE, (const uint8_t *)"", 0, &arena,
                                        &message, &detail),
                     KVF_OK);
    assert_true(message.u.done.sender_session == 0);
    assert_string_equal(message.u.done.detail, "");
    kvf_arena_fini(&arena);
}

static void test_reader_sets_the_size_of_a_layout(void **state)
{
    (void)state;
    struct kvf_buf bytes;
    struct kvf_arena arena;
    struct kvf_pool_layout pool;
    const char *detail = "";
    kvf_buf_init(&bytes, 4096);
    kvf_arena_init(&arena, ARENA_BYTES);
    put_empty_record(&bytes, &kvf_schema_pool_layout);
    assert_int_equal(kvf_schema_read(&kvf_schema_pool_layout, kvf_buf_head(&bytes),
                                     kvf_buf_length(&bytes), &arena, &pool, &detail),
                     KVF_OK);
    assert_int_equal(pool.layout.size, sizeof(struct kvf_layout));
    kvf_arena_fini(&arena);
    kvf_buf_fini(&bytes);
}

static void test_reader_allocates_nothing_in_the_steady_state(void **state)
{
    (void)state;
    struct kvf_buf bytes;
    struct kvf_arena arena;
    struct kvf_message message;
    const char *detail = "";
    kvf_buf_init(&bytes, 1u << 20);
    kvf_arena_init(&arena, 0);
    encode(sample_of(KVF_MSG_REQUEST_INFO), &bytes);
    size_t n = kvf_buf_length(&bytes) - KVF_FRAME_HEADER_BYTES;
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        before = i == 10 ? kvf_alloc_count() : before;
        kvf_arena_reset(&arena, kvf_message_budget(n));
        assert_int_equal(kvf_message_decode(KVF_MSG_REQUEST_INFO,
                                            kvf_buf_head(&bytes) + KVF_FRAME_HEADER_BYTES,
                                            n, &arena, &message, &detail),
                         KVF_OK);
    }
    assert_true(kvf_alloc_count() == before);
    kvf_arena_fini(&arena);
    kvf_buf_fini(&bytes);
}

/* ---- rules, for every row of every schema */

typedef bool (*break_fn)(const struct kvf_field *field, struct kvf_buf *bytes);

/* Appends to a valid record what breaks one row (the last value of a field counts), and
 * expects that row's refusal. Returns how many rows the breaker applied to. */
static size_t break_every_row(break_fn breaker)
{
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n_schemas = all_schemas(schemas);
    size_t n_broken = 0;
    for (size_t i = 0; i < n_schemas; i++) {
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            struct kvf_buf bytes;
            kvf_buf_init(&bytes, 16u << 20);
            put_empty_record(&bytes, schemas[i]);
            if (breaker(&schemas[i]->fields[j], &bytes)) {
                assert_refused(schemas[i], &bytes, &schemas[i]->fields[j]);
                n_broken++;
            }
            kvf_buf_fini(&bytes);
        }
    }
    return n_broken;
}

static bool is_text(const struct kvf_field *field)
{
    return field->kind == KVF_FIELD_TEXT || field->kind == KVF_FIELD_TEXTS;
}

static bool put_nul(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_field(bytes, field->number, "a\0b", 3);
    return is_text(field);
}

static bool put_final_nul(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_field(bytes, field->number, "a", 2);
    return is_text(field);
}

static bool put_latin1(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_field(bytes, field->number, "caf\xe9", 4);
    return is_text(field);
}

static bool put_long_text(const struct kvf_field *field, struct kvf_buf *bytes)
{
    char text[256];
    size_t limit = field->kind == KVF_FIELD_TEXTS ? KVF_NAME_MAX : field->limit;
    if (!is_text(field)) {
        return false;
    }
    memset(text, 'x', sizeof(text));
    put_field(bytes, field->number, text, limit + 1);
    return true;
}

static bool put_short_digest(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_field(bytes, field->number, "0123456789abcdef0123456789abcdef",
              field->limit % 33);
    put_field(bytes, field->number, "0123456789abcdef0123456789abcdef",
              (field->limit % 33 + 31) % 32);
    return field->kind == KVF_FIELD_DIGEST || field->kind == KVF_FIELD_OPTIONAL_DIGEST;
}

static bool put_long_digest(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_zeroes(bytes, field->number, 33);
    return field->kind == KVF_FIELD_DIGEST || field->kind == KVF_FIELD_OPTIONAL_DIGEST;
}

static bool put_no_digest(const struct kvf_field *field, struct kvf_buf *bytes)
{
    put_field(bytes, field->number, "", 0);
    return field->kind == KVF_FIELD_DIGEST;
}

static bool put_long_bytes(const struct kvf_field *field, struct kvf_buf *bytes)
{
    if (field->kind != KVF_FIELD_BLOB && field->kind != KVF_FIELD_RESERVED) {
        return false;
    }
    put_zeroes(bytes, field->number, (size_t)field->limit + 1);
    return true;
}

static bool put_many_scalars(const struct kvf_field *field, struct kvf_buf *bytes)
{
    bool is_fixed = field->encoding == KVF_ENCODING_FIXED32 ||
                    field->encoding == KVF_ENCODING_FIXED64;
    if (field->kind != KVF_FIELD_SCALARS && field->kind != KVF_FIELD_COUNTED_SCALARS) {
        return false;
    }
    /* The largest array would need more than the budget before it could be refused. */
    size_t n = (size_t)field->limit + 1;
    if (n > 4097) {
        return false;
    }
    put_zeroes(bytes, field->number, n * (is_fixed ? field->width_bytes : 1));
    return true;
}

static bool put_many_records(const struct kvf_field *field, struct kvf_buf *bytes)
{
    if (field->kind != KVF_FIELD_RECORDS || field->limit > 4096) {
        return false;
    }
    for (size_t i = 0; i <= field->limit; i++) {
        put_field(bytes, field->number, "", 0);
    }
    return true;
}

static void test_reader_refuses_nul_in_text(void **state)
{
    (void)state;
    assert_int_equal(break_every_row(put_nul), break_every_row(put_latin1));
    assert_true(break_every_row(put_final_nul) > 30);
}

static void test_reader_refuses_text_over_its_limit(void **state)
{
    (void)state;
    assert_true(break_every_row(put_long_text) > 30);
}

static void test_reader_refuses_digests_of_other_lengths(void **state)
{
    (void)state;
    assert_true(break_every_row(put_short_digest) > 10);
    assert_true(break_every_row(put_long_digest) > 10);
    assert_true(break_every_row(put_no_digest) > 7);
}

static void test_reader_refuses_bytes_over_their_limit(void **state)
{
    (void)state;
    assert_int_equal(break_every_row(put_long_bytes), 8);
}

static void test_reader_refuses_arrays_over_their_limit(void **state)
{
    (void)state;
    assert_int_equal(break_every_row(put_many_scalars), 5);
    assert_true(break_every_row(put_many_records) >= 8);
}

/* One entry more than the limit, for the arrays that are too large for the others. */
static void check_count(const struct kvf_schema *schema, uint32_t number, size_t entry,
                        size_t max)
{
    for (size_t n = max; n <= max + 1; n++) {
        const char *detail = NULL;
        struct kvf_buf bytes;
        kvf_buf_init(&bytes, 16u << 20);
        put_empty_record(&bytes, schema);
        if (entry > 0) {
            put_zeroes(&bytes, number, n * entry);
        }
        for (size_t i = 0; entry == 0 && i < n; i++) {
            put_field(&bytes, number, "", 0);
        }
        enum kvf_status expected = n <= max ? KVF_OK : KVF_PROTOCOL;
        assert_int_equal(read_bytes(schema, kvf_buf_head(&bytes), kvf_buf_length(&bytes),
                                    KVF_MESSAGE_BUDGET_MAX, &detail),
                         expected);
        kvf_buf_fini(&bytes);
    }
}

static void test_reader_holds_the_largest_limits(void **state)
{
    (void)state;
    check_count(&kvf_schema_block_key, 4, 0, KVF_TOKENS_MAX);
    check_count(&kvf_schema_comm_state, 1, 0, KVF_RANKS_MAX);
    check_count(&kvf_schema_request_info, 24, 8, KVF_BLOCKS_MAX);
    check_count(&kvf_schema_offer, 9, 8, KVF_BLOCKS_MAX);
    check_count(&kvf_schema_receive, 7, 8, KVF_BLOCKS_MAX);
}

static void put_table(struct kvf_buf *out, uint32_t number, size_t n_blocks)
{
    struct kvf_buf table;
    kvf_buf_init(&table, 8u << 20);
    put_zeroes(&table, 2, n_blocks * 4);
    put_field(out, number, kvf_buf_head(&table), kvf_buf_length(&table));
    kvf_buf_fini(&table);
}

static void test_reader_counts_blocks_over_all_tables(void **state)
{
    (void)state;
    const char *detail = NULL;
    for (size_t n = 0; n < 2; n++) {
        struct kvf_buf bytes;
        kvf_buf_init(&bytes, 16u << 20);
        put_table(&bytes, 6, KVF_BLOCKS_MAX - 100);
        put_table(&bytes, 6, 100 + n);
        assert_int_equal(read_bytes(&kvf_schema_offer, kvf_buf_head(&bytes),
                                    kvf_buf_length(&bytes), KVF_MESSAGE_BUDGET_MAX,
                                    &detail),
                         n == 0 ? KVF_OK : KVF_PROTOCOL);
        kvf_buf_fini(&bytes);
    }
    assert_non_null(strstr(detail, "together"));
}

static void test_reader_compares_layer_offsets_with_their_count(void **state)
{
    (void)state;
    static const uint8_t too_few[] = {2 << 3, 2, 13 << 3 | 2, 1, 0};
    static const uint8_t too_many[] = {2 << 3, 1, 13 << 3 | 2, 2, 0, 0};
    static const uint8_t right[] = {2 << 3, 2, 13 << 3 | 2, 2, 0, 0};
    const struct kvf_schema *schema = &kvf_schema_pool_layout;
    const char *detail = "";
    assert_int_equal(read_bytes(schema, too_few, sizeof(too_few), ARENA_BYTES, &detail),
                     KVF_PROTOCOL);
    assert_non_null(strstr(detail, "layer_offsets"));
    assert_int_equal(read_bytes(schema, too_many, sizeof(too_many), ARENA_BYTES, &detail),
                     KVF_PROTOCOL);
    assert_int_equal(read_bytes(schema, right, sizeof(right), ARENA_BYTES, &detail),
                     KVF_OK);
}

/* Schemas whose empty form has a record by value: without it they are refused. */
static void test_reader_refuses_a_missing_record(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n_schemas = all_schemas(schemas);
    size_t n_refused = 0;
    for (size_t i = 0; i < n_schemas; i++) {
        const struct kvf_field *field = NULL;
        for (size_t j = 0; j < schemas[i]->n_fields && field == NULL; j++) {
            const struct kvf_field *row = &schemas[i]->fields[j];
            bool has_rule =
                row->kind == KVF_FIELD_RECORD || row->kind == KVF_FIELD_DIGEST;
            field = has_rule ? row : NULL;
        }
        if (field != NULL && field->kind == KVF_FIELD_RECORD) {
            struct kvf_buf nothing = {.bytes = (uint8_t[1]){0}};
            assert_refused(schemas[i], &nothing, field);
            n_refused++;
        }
    }
    assert_int_equal(n_refused, 7);
}

static void test_reader_refuses_an_announced_record_that_is_missing(void **state)
{
    (void)state;
    static const uint8_t has_cache[] = {1 << 3, 1};
    static const uint8_t has_comm[] = {3 << 3, 1};
    const char *detail = "";
    const struct kvf_schema *schema = &kvf_schema_transceiver_state;
    assert_int_equal(read_bytes(schema, has_cache, 2, ARENA_BYTES, &detail),
                     KVF_PROTOCOL);
    assert_string_equal(detail, "cache is missing");
    assert_int_equal(read_bytes(schema, has_comm, 2, ARENA_BYTES, &detail), KVF_PROTOCOL);
    assert_string_equal(detail, "comm is missing");
}

static void test_reader_passes_over_a_record_that_is_not_announced(void **state)
{
    (void)state;
    static const uint8_t only_cache[] = {2 << 3 | 2, 0};
    const char *detail = "";
    assert_int_equal(
        read_bytes(&kvf_schema_transceiver_state, only_cache, 2, ARENA_BYTES, &detail),
        KVF_OK);
}

static void test_reader_refuses_a_packed_state_that_is_damaged(void **state)
{
    (void)state;
    struct kvf_buf bytes;
    const char *detail = "";
    kvf_buf_init(&bytes, 4096);
    put_varint(&bytes, 5 << 3); /* has_state */
    put_varint(&bytes, 1);
    put_field(&bytes, 6, "\x0a\xff", 2);
    assert_int_equal(read_buf(&kvf_schema_context_params, &bytes, &detail), KVF_PROTOCOL);
    assert_non_null(strstr(detail, "state"));
    kvf_buf_fini(&bytes);
}

/* ---- other releases */

static void put_unknown(struct kvf_buf *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put_varint(bytes, 1050 << 3);
        put_varint(bytes, 7);
        put_field(bytes, 1051, "from a newer release", 20);
    }
}

static void test_reader_tolerates_unknown_fields_and_values(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n_schemas = all_schemas(schemas);
    for (size_t i = 0; i < n_schemas; i++) {
        struct kvf_buf bytes;
        const char *detail = "";
        kvf_buf_init(&bytes, 65536);
        put_empty_record(&bytes, schemas[i]);
        put_unknown(&bytes, 3);
        assert_int_equal(read_buf(schemas[i], &bytes, &detail), KVF_OK);
        kvf_buf_fini(&bytes);
    }
}

/* ---- memory */

static void test_reader_charges_unknown_fields_to_the_budget(void **state)
{
    (void)state;
    struct kvf_buf bytes;
    const char *detail = "";
    kvf_buf_init(&bytes, 1u << 20);
    put_unknown(&bytes, 1000);
    assert_int_equal(read_bytes(&kvf_schema_ping, kvf_buf_head(&bytes),
                                kvf_buf_length(&bytes), 8192, &detail),
                     KVF_NO_MEMORY);
    assert_non_null(strstr(detail, "memory"));
    kvf_buf_fini(&bytes);
}

/* Two bytes on the wire become a struct, a pointer and a parser's note each. */
static void check_bomb(const struct kvf_schema *schema, uint32_t number)
{
    struct kvf_buf bytes;
    const char *detail = "";
    kvf_buf_init(&bytes, 2u << 20);
    for (size_t i = 0; i < KVF_FRAME_MAX_PEER / 3; i++) {
        put_field(&bytes, number, "", 0);
    }
    size_t n = kvf_buf_length(&bytes);
    assert_int_equal(read_bytes(schema, kvf_buf_head(&bytes), n, 16 * n, &detail),
                     KVF_NO_MEMORY);
    enum kvf_status status =
        read_bytes(schema, kvf_buf_head(&bytes), n, kvf_message_budget(n), &detail);
    assert_true(status == KVF_NO_MEMORY || status == KVF_PROTOCOL);
    kvf_buf_fini(&bytes);
}

static void test_reader_survives_repeated_field_bombs(void **state)
{
    (void)state;
    check_bomb(&kvf_schema_request_info, 22);
    check_bomb(&kvf_schema_request_info, 23);
    check_bomb(&kvf_schema_block_key, 4);
    check_bomb(&kvf_schema_receipt, 2);
    check_bomb(&kvf_schema_offer, 6);
}

static void check_honest(const struct kvf_message *message)
{
    struct kvf_buf bytes;
    struct kvf_arena arena;
    struct kvf_message decoded;
    const char *detail = "";
    kvf_buf_init(&bytes, 17u << 20);
    encode(message, &bytes);
    size_t n = kvf_buf_length(&bytes) - KVF_FRAME_HEADER_BYTES;
    kvf_arena_init(&arena, kvf_message_budget(n));
    assert_int_equal(kvf_message_decode(message->type,
                                        kvf_buf_head(&bytes) + KVF_FRAME_HEADER_BYTES, n,
                                        &arena, &decoded, &detail),
                     KVF_OK);
    kvf_arena_fini(&arena);
    kvf_buf_fini(&bytes);
}

static void test_reader_budget_is_enough_for_the_largest_messages(void **state)
{
    (void)state;
    struct kvf_unique_token *tokens = calloc(KVF_TOKENS_MAX, sizeof(*tokens));
    uint64_t *hashes = calloc(KVF_BLOCKS_MAX, sizeof(*hashes));
    uint32_t *blocks = calloc(KVF_BLOCKS_MAX, sizeof(*blocks));
    struct kvf_segment segments[KVF_SEGMENTS_MAX] = {{.n_tokens = 1}};
    assert_true(tokens != NULL && hashes != NULL && blocks != NULL);
    for (size_t i = 0; i < KVF_TOKENS_MAX; i++) {
        tokens[i].token_id = 1; /* four bytes a token, the worst that is honest */
    }
    for (uint32_t i = 0; i < KVF_SEGMENTS_MAX; i++) {
        segments[i] =
            (struct kvf_segment){.n_tokens = 1, .layer_first = i, .n_layers = 1};
    }
    for (size_t n = 1; n <= KVF_TOKENS_MAX; n = n * 2 + 1) {
        struct kvf_message request = *sample_of(KVF_MSG_REQUEST_INFO);
        request.u.request_info.last_block_key.tokens = tokens;
        request.u.request_info.last_block_key.n_tokens = n;
        request.u.request_info.segments = segments;
        request.u.request_info.n_segments = KVF_SEGMENTS_MAX;
        check_honest(&request);
    }
    struct kvf_table table = {.blocks = blocks, .n_blocks = KVF_BLOCKS_MAX};
    struct kvf_message offer = {.type = KVF_MSG_OFFER,
                                .u.offer = {.tables = &table,
                                            .n_tables = 1,
                                            .block_hashes = hashes,
                                            .n_block_hashes = KVF_BLOCKS_MAX}};
    check_honest(&offer);
    free(blocks);
    free(hashes);
    free(tokens);
}

static void test_reader_reports_every_failed_allocation(void **state)
{
    (void)state;
    struct kvf_buf bytes;
    const char *detail = "";
    kvf_buf_init(&bytes, 1u << 20);
    encode(sample_of(KVF_MSG_REQUEST_INFO), &bytes);
    size_t n = kvf_buf_length(&bytes) - KVF_FRAME_HEADER_BYTES;
    const uint8_t *payload = kvf_buf_head(&bytes) + KVF_FRAME_HEADER_BYTES;
    uint64_t nth = 1;
    enum kvf_status status = KVF_NO_MEMORY;
    while (status == KVF_NO_MEMORY && nth < 100) {
        kvf_alloc_fail_nth(nth++);
        status = read_bytes(&kvf_schema_request_info, payload, n, ARENA_BYTES, &detail);
    }
    kvf_alloc_fail_nth(0);
    assert_int_equal(status, KVF_OK);
    assert_true(nth > 2);
    kvf_buf_fini(&bytes);
}

/* ---- arbitrary bytes */

static void test_reader_survives_truncation_at_every_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const struct kvf_schema *schema = kvf_message_schema(sample(i)->type);
        struct kvf_buf bytes;
        kvf_buf_init(&bytes, 1u << 20);
        encode(sample(i), &bytes);
        size_t n = kvf_buf_length(&bytes) - KVF_FRAME_HEADER_BYTES;
        const uint8_t *payload = kvf_buf_head(&bytes) + KVF_FRAME_HEADER_BYTES;
        for (size_t cut = 0; cut < n; cut++) {
            /* A cut between two fields leaves a message, elsewhere it does not. */
            const char *detail = NULL;
            enum kvf_status status =
                read_bytes(schema, payload, cut, ARENA_BYTES, &detail);
            assert_true(status == KVF_OK || (status == KVF_PROTOCOL && detail != NULL));
        }
        kvf_buf_fini(&bytes);
    }
}

static void mutate(struct kvf_rng *rng, uint8_t *bytes, size_t n)
{
    for (size_t left = 1 + kvf_rng_below(rng, 4); left > 0; left--) {
        size_t at = kvf_rng_below(rng, n);
        if (kvf_rng_below(rng, 2) == 0) {
            bytes[at] ^= (uint8_t)(1u << kvf_rng_below(rng, 8));
        } else {
            bytes[at] = (uint8_t)kvf_rng_u64(rng);
        }
    }
}

static void test_reader_survives_mutations(void **state)
{
    (void)state;
    struct kvf_rng rng;
    struct kvf_buf bytes;
    size_t n_refused = 0;
    kvf_rng_init_seeded(&rng, 20263);
    kvf_buf_init(&bytes, 1u << 20);
    for (size_t i = 0; i < N_MUTATIONS; i++) {
        const struct kvf_message *message = sample(i % N_SAMPLES);
        const char *detail = NULL;
        encode(message, &bytes);
        size_t n = kvf_buf_length(&bytes) - KVF_FRAME_HEADER_BYTES;
        uint8_t *payload = bytes.bytes + bytes.first + KVF_FRAME_HEADER_BYTES;
        mutate(&rng, payload, n);
        enum kvf_status status = read_bytes(kvf_message_schema(message->type), payload, n,
                                            kvf_message_budget(n), &detail);
        assert_true(status == KVF_OK || detail != NULL);
        n_refused += status != KVF_OK;
    }
    assert_true(n_refused > N_MUTATIONS / 4);
    kvf_buf_fini(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_returns_what_was_written),
        cmocka_unit_test(test_reader_returns_random_messages),
        cmocka_unit_test(test_reader_takes_absent_fields_for_zero),
        cmocka_unit_test(test_reader_sets_the_size_of_a_layout),
        cmocka_unit_test(test_reader_allocates_nothing_in_the_steady_state),
        cmocka_unit_test(test_reader_refuses_nul_in_text),
        cmocka_unit_test(test_reader_refuses_text_over_its_limit),
        cmocka_unit_test(test_reader_refuses_digests_of_other_lengths),
        cmocka_unit_test(test_reader_refuses_bytes_over_their_limit),
        cmocka_unit_test(test_reader_refuses_arrays_over_their_limit),
        cmocka_unit_test(test_reader_holds_the_largest_limits),
        cmocka_unit_test(test_reader_counts_blocks_over_all_tables),
        cmocka_unit_test(test_reader_compares_layer_offsets_with_their_count),
        cmocka_unit_test(test_reader_refuses_a_missing_record),
        cmocka_unit_test(test_reader_refuses_an_announced_record_that_is_missing),
        cmocka_unit_test(test_reader_passes_over_a_record_that_is_not_announced),
        cmocka_unit_test(test_reader_refuses_a_packed_state_that_is_damaged),
        cmocka_unit_test(test_reader_tolerates_unknown_fields_and_values),
        cmocka_unit_test(test_reader_charges_unknown_fields_to_the_budget),
        cmocka_unit_test(test_reader_survives_repeated_field_bombs),
        cmocka_unit_test(test_reader_budget_is_enough_for_the_largest_messages),
        cmocka_unit_test(test_reader_reports_every_failed_allocation),
        cmocka_unit_test(test_reader_survives_truncation_at_every_byte),
        cmocka_unit_test(test_reader_survives_mutations),
    };
    return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
