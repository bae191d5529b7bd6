/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables against the schema file: every field of kvferry.proto has its row, under its
 * number, with its encoding and with a member of the same name; every member has a row.
 * Reader and writer share the tables, so no round trip would find a row that is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "kvferry.pb-c.h"
#include "walk.h"

static void test_schema_exists_for_every_type_and_no_other(void **state)
{
    (void)state;
    size_t n = 0;
    for (uint32_t type = 0; type < TYPE_END; type++) {
        bool is_peer = type >= KVF_MSG_HELLO && type <= KVF_MSG_NOTIFY;
        bool is_engine = type >= KVF_MSG_ENGINE_HELLO && type <= KVF_MSG_COMM_STATE_ACK;
        assert_int_equal(kvf_message_schema(type) != NULL, is_peer || is_engine);
        n += is_peer || is_engine;
    }
    assert_int_equal(n, 29);
    assert_null(kvf_message_schema(UINT32_MAX));
}

static void test_schema_of_a_type_is_that_of_its_name(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < TYPE_END; type++) {
        const struct kvf_schema *schema = kvf_message_schema(type);
        if (schema != NULL) {
            assert_string_equal(schema->wire->short_name, kvf_message_name(type));
        }
    }
}

static bool encodes(const struct kvf_field *field, ProtobufCType type)
{
    static const ProtobufCType types[] = {
        [KVF_ENCODING_BOOL] = PROTOBUF_C_TYPE_BOOL,
        [KVF_ENCODING_INT32] = PROTOBUF_C_TYPE_INT32,
        [KVF_ENCODING_SINT32] = PROTOBUF_C_TYPE_SINT32,
        [KVF_ENCODING_UINT32] = PROTOBUF_C_TYPE_UINT32,
        [KVF_ENCODING_UINT64] = PROTOBUF_C_TYPE_UINT64,
        [KVF_ENCODING_SINT64] = PROTOBUF_C_TYPE_SINT64,
        [KVF_ENCODING_FIXED32] = PROTOBUF_C_TYPE_FIXED32,
        [KVF_ENCODING_FIXED64] = PROTOBUF_C_TYPE_FIXED64,
    };
    static const uint8_t widths[] = {
        [KVF_ENCODING_BOOL] = 0,    [KVF_ENCODING_INT32] = 4,   [KVF_ENCODING_SINT32] = 4,
        [KVF_ENCODING_UINT32] = 4,  [KVF_ENCODING_UINT64] = 8,  [KVF_ENCODING_SINT64] = 8,
        [KVF_ENCODING_FIXED32] = 4, [KVF_ENCODING_FIXED64] = 8,
    };
    bool has_width = widths[field->encoding] == field->width_bytes ||
                     (field->encoding == KVF_ENCODING_BOOL &&
                      (field->width_bytes == 1 || field->width_bytes == 4));
    return types[field->encoding] == type && has_width;
}

static bool fits(const struct kvf_field *field, const ProtobufCFieldDescriptor *wire)
{
    bool is_repeated = wire->label == PROTOBUF_C_LABEL_REPEATED;
    bool is_packed = (wire->flags & PROTOBUF_C_FIELD_FLAG_PACKED) != 0;
    bool is_message = wire->type == PROTOBUF_C_TYPE_MESSAGE;

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        return !is_repeated && encodes(field, wire->type);
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
        return is_repeated && is_packed && encodes(field, wire->type);
    case KVF_FIELD_TEXT:
        return !is_repeated && wire->type == PROTOBUF_C_TYPE_STRING;
    case KVF_FIELD_TEXTS:
        return is_repeated && wire->type == PROTOBUF_C_TYPE_STRING;
    case KVF_FIELD_BLOB:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RESERVED:
        return !is_repeated && wire->type == PROTOBUF_C_TYPE_BYTES;
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
        return !is_repeated && is_message && wire->descriptor == field->nested->wire;
    case KVF_FIELD_RECORDS:
        return is_repeated && is_message && wire->descriptor == field->nested->wire;
    }
    return false;
}

static void test_schema_rows_match_the_descriptor(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n = all_schemas(schemas);
    for (size_t i = 0; i < n; i++) {
        const ProtobufCMessageDescriptor *wire = schemas[i]->wire;
        assert_int_equal(schemas[i]->n_fields, wire->n_fields);
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            const struct kvf_field *field = &schemas[i]->fields[j];
            assert_int_equal(field->number, wire->fields[j].id);
            if (!fits(field, &wire->fields[j])) {
                fail_msg("%s.%s", wire->short_name, wire->fields[j].name);
            }
        }
    }
}

/* Where the plain structs chose another word. */
static const char *const aliases[][2] = {
    {"nb_kv_heads_per_layer", "kv_heads_per_layer"},
    {"tensor_parallelism", "tp"},
    {"pipeline_parallelism", "pp"},
    {"context_parallelism", "cp"},
    {"enable_attention_dp", "has_attention_dp"},
    {"attention_layer_num_per_pp", "layers_per_stage"},
    {"attention_type", "attention"},
    {"data_type", "dtype"},
    {"enable_block_reuse", "has_block_reuse"},
    {"enable_partial_reuse", "has_partial_reuse"},
    {"has_indexer_k_cache", "has_indexer"},
    {"indexer_k_cache_quant_block_size", "indexer_quant_block_size"},
    {"indexer_k_cache_use_fp4", "indexer_is_fp4"},
    {"has_cache_state", "has_cache"},
    {"cache_state", "cache"},
    {"has_comm_state", "has_comm"},
    {"comm_state", "comm"},
    {"is_arbitrary_transfer_state", "is_arbitrary"},
    {"token_extra_id", "extra_id"},
    {"unique_tokens", "tokens"},
    {"req_id", "request_id"},
    {"first_gen_tokens", "first_tokens"},
    {"trans_state", "state"},
    {"ready", "is_ready"},
    {"from_instance", "instance"}, /* NotifyEvent shares EngineNotify's struct */
    {"from_rank", "rank"},
};

/* The member a row speaks about: its refusal starts with it. */
static void member_name(const struct kvf_field *field, char out[64])
{
    size_t n = strcspn(field->refusal, " ");
    assert_true(n < 64);
    memcpy(out, field->refusal, n);
    out[n] = '\0';
    const char *dot = strrchr(out, '.');
    if (dot != NULL) {
        memmove(out, dot + 1, strlen(dot));
    }
}

static bool is_alias(const char *wire, const char *member)
{
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
        if (strcmp(aliases[i][0], wire) == 0 && strcmp(aliases[i][1], member) == 0) {
            return true;
        }
    }
    return false;
}

static void test_schema_rows_are_named_like_their_fields(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n = all_schemas(schemas);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < schemas[i]->n_fields; j++) {
            char member[64];
            const char *wire = schemas[i]->wire->fields[j].name;
            member_name(&schemas[i]->fields[j], member);
            if (strcmp(wire, member) != 0 && !is_alias(wire, member)) {
                fail_msg("%s.%s is %s", schemas[i]->wire->short_name, wire, member);
            }
        }
    }
}

/* ---- every member has a row */

static void cover(uint8_t *map, size_t offset, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        map[offset + i]++;
    }
}

static void cover_row(uint8_t *map, const struct kvf_field *field)
{
    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        cover(map, field->offset, field->width_bytes);
        break;
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_TEXTS:
    case KVF_FIELD_RECORDS:
        cover(map, field->side_offset, sizeof(size_t));
        cover(map, field->offset, sizeof(void *));
        break;
    case KVF_FIELD_COUNTED_SCALARS: /* the count has a row of its own */
    case KVF_FIELD_TEXT:
        cover(map, field->offset, sizeof(void *));
        break;
    case KVF_FIELD_BLOB:
        cover(map, field->offset, sizeof(struct kvf_bytes));
        break;
    case KVF_FIELD_OPTIONAL_DIGEST:
        cover(map, field->side_offset, sizeof(bool));
        cover(map, field->offset, field->limit);
        break;
    case KVF_FIELD_DIGEST:
        cover(map, field->offset, field->limit);
        break;
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
        cover(map, field->offset, field->nested->n_bytes);
        break;
    case KVF_FIELD_RESERVED:
        break;
    }
}

/* Rows that lie in another schema but in the same struct (the parts of a cache state). */
static bool is_inline(const struct kvf_schema *schema, const struct kvf_field *field)
{
    return field->kind == KVF_FIELD_RECORD && field->nested->n_bytes == schema->n_bytes &&
           field->offset == 0;
}

static void cover_schema(uint8_t *map, const struct kvf_schema *schema)
{
    for (size_t i = 0; i < schema->n_fields; i++) {
        const struct kvf_field *field = &schema->fields[i];
        if (!is_inline(schema, field)) {
            cover_row(map, field);
            continue;
        }
        for (size_t j = 0; j < field->nested->n_fields; j++) {
            cover_row(map, &field->nested->fields[j]);
        }
    }
}

/* Bytes without a row must be what the compiler would put before the next member or at
 * the end: fewer than 8, and ending where an aligned member may start. */
static void check_gaps(const uint8_t *map, const struct kvf_schema *schema)
{
    size_t gap = 0;
    for (size_t i = 0; i <= schema->n_bytes; i++) {
        if (i < schema->n_bytes && map[i] == 0) {
            gap++;
            continue;
        }
        if (gap > 0 && (gap >= 8 || i % 4 != 0 || (gap >= 4 && i % 8 != 0))) {
            fail_msg("%s: %zu bytes before offset %zu have no row",
                     schema->wire->short_name, gap, i);
        }
        if (i < schema->n_bytes && map[i] > 1) {
            fail_msg("%s: offset %zu has two rows", schema->wire->short_name, i);
        }
        gap = 0;
    }
}

/* What has no row on purpose. */
static void cover_exceptions(uint8_t *map, const struct kvf_schema *schema)
{
    if (schema == &kvf_schema_pool_layout) { /* filled in by the reader */
        cover(map, offsetof(struct kvf_pool_layout, layout.size), sizeof(uint32_t));
    }
}

static void test_schema_has_a_row_for_every_member(void **state)
{
    (void)state;
    const struct kvf_schema *schemas[N_SCHEMAS_MAX];
    size_t n = all_schemas(schemas);
    for (size_t i = 0; i < n; i++) {
        bool is_part = schemas[i]->n_bytes == sizeof(struct kvf_cache_state) &&
                       schemas[i] != &kvf_schema_cache_state;
        if (is_part || schemas[i] == &kvf_schema_pool_unregister) {
            continue; /* rows of a struct that another schema covers as a whole */
        }
        uint8_t *map = calloc(schemas[i]->n_bytes, 1);
        assert_non_null(map);
        cover_schema(map, schemas[i]);
        cover_exceptions(map, schemas[i]);
        check_gaps(map, schemas[i]);
        free(map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_exists_for_every_type_and_no_other),
        cmocka_unit_test(test_schema_of_a_type_is_that_of_its_name),
        cmocka_unit_test(test_schema_rows_match_the_descriptor),
        cmocka_unit_test(test_schema_rows_are_named_like_their_fields),
        cmocka_unit_test(test_schema_has_a_row_for_every_member),
    };
    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
