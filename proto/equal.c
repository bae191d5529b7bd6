/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equality of two records of one schema, row by row, so a field that is added to a schema
 * is compared without a word here. Values count, not pointers; rows marked as uncompared
 * and members that are not on the wire do not. Any thread.
 */
#include <assert.h>
#include <string.h>

#include "proto/schema.h"

struct level {
    const struct kvf_schema *schema;
    const uint8_t *a, *b;
    size_t n_rows; /* taken; the last one taken is the current row */
    size_t n_records, n_done;
};

static const struct kvf_field *current(const struct level *level)
{
    return &level->schema->fields[level->n_rows - 1];
}

static bool texts_are_equal(const struct kvf_field *field, const void *a, const void *b)
{
    size_t n = kvf_field_count(field, a);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(kvf_field_text(field, a, i), kvf_field_text(field, b, i)) != 0) {
            return false;
        }
    }
    return true;
}

static bool bytes_are_equal(const struct kvf_field *field, const void *a, const void *b)
{
    size_t n_a = 0;
    size_t n_b = 0;
    const uint8_t *bytes_a = kvf_field_bytes(field, a, &n_a);
    const uint8_t *bytes_b = kvf_field_bytes(field, b, &n_b);
    return n_a == n_b && (n_a == 0 || memcmp(bytes_a, bytes_b, n_a) == 0);
}

/* The row's members in both records; nested records are only counted. */
static bool row_is_equal(const struct level *level, const struct kvf_field *field)
{
    const uint8_t *a = level->a;
    const uint8_t *b = level->b;

    if (kvf_field_count(field, a) != kvf_field_count(field, b)) {
        return false;
    }
    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        return memcmp(a + field->offset, b + field->offset, field->width_bytes) == 0;
    case KVF_FIELD_TEXT:
    case KVF_FIELD_TEXTS:
        return texts_are_equal(field, a, b);
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
    case KVF_FIELD_BLOB:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
        return bytes_are_equal(field, a, b);
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RECORDS:
    case KVF_FIELD_RESERVED:
        break;
    }
    return true;
}

static bool take_row(struct level *level)
{
    const struct kvf_field *field = &level->schema->fields[level->n_rows++];
    level->n_records = 0;
    level->n_done = 0;
    if (field->is_uncompared) {
        return true;
    }
    if (field->nested != NULL) {
        level->n_records = kvf_field_count(field, level->a);
    }
    return row_is_equal(level, field);
}

static void enter_inner(struct level *inner, struct level *outer)
{
    const struct kvf_field *field = current(outer);
    size_t i = outer->n_done++;
    *inner = (struct level){
        .schema = field->nested,
        .a = kvf_field_record(field, outer->a, i),
        .b = kvf_field_record(field, outer->b, i),
    };
}

bool kvf_schema_equal(const struct kvf_schema *schema, const void *a, const void *b)
{
    struct level levels[KVF_SCHEMA_DEPTH];
    struct level *level = levels;

    *level = (struct level){.schema = schema, .a = a, .b = b};
    for (;;) {
        if (level->n_done < level->n_records) {
            assert(level + 1 < levels + KVF_SCHEMA_DEPTH);
            enter_inner(level + 1, level);
            level++;
        } else if (level->n_rows < level->schema->n_fields) {
            if (!take_row(level)) {
                return false;
            }
        } else if (level == levels) {
            return true;
        } else {
            level--;
        }
    }
}

bool kvf_cache_state_equal(const struct kvf_cache_state *a,
                           const struct kvf_cache_state *b)
{
    return kvf_schema_equal(&kvf_schema_cache_state, a, b);
}

bool kvf_comm_state_equal(const struct kvf_comm_state *a, const struct kvf_comm_state *b)
{
    return kvf_schema_equal(&kvf_schema_comm_state, a, b);
}

bool kvf_block_key_equal(const struct kvf_block_key *a, const struct kvf_block_key *b)
{
    return kvf_schema_equal(&kvf_schema_block_key, a, b);
}

bool kvf_request_info_equal(const struct kvf_request_info *a,
                            const struct kvf_request_info *b)
{
    return kvf_schema_equal(&kvf_schema_request_info, a, b);
}
