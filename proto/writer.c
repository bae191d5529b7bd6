/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain structs to protobuf bytes, the same bytes that protobuf-c would pack: fields
 * ascend by number, zero and empty values are left out, repeated numbers are packed.
 * protobuf-c's own packer wants a second tree of structs with a pointer per element;
 * sending must not allocate, so this walks the schema and writes straight into the
 * frame. The walk keeps its own small stack; nothing recurses. Any thread.
 */
#include <assert.h>
#include <endian.h>
#include <string.h>

#include "proto/schema.h"

#define VARINT_MAX_BYTES 10u

enum wire_type { WIRE_VARINT = 0, WIRE_DELIMITED = 2 };

static void put_bytes(struct kvf_writer *writer, const void *bytes, size_t n)
{
    writer->n += n;
    if (writer->end != NULL && n > 0) {
        memcpy(writer->end - writer->n, bytes, n);
    }
}

static void put_varint(struct kvf_writer *writer, uint64_t value)
{
    uint8_t bytes[VARINT_MAX_BYTES];
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (uint8_t)value;
    put_bytes(writer, bytes, n);
}

static void put_tag(struct kvf_writer *writer, const struct kvf_field *field,
                    enum wire_type type)
{
    put_varint(writer, (uint64_t)field->number << 3 | type);
}

/* Tag and length of n bytes that were just written. */
static void put_prefix(struct kvf_writer *writer, const struct kvf_field *field, size_t n)
{
    put_varint(writer, n);
    put_tag(writer, field, WIRE_DELIMITED);
}

static void put_delimited(struct kvf_writer *writer, const struct kvf_field *field,
                          const void *bytes, size_t n)
{
    put_bytes(writer, bytes, n);
    put_prefix(writer, field, n);
}

/* The member's bytes as an unsigned number, not sign-extended. */
static uint64_t load(const uint8_t *at, size_t width_bytes)
{
    uint8_t narrow;
    uint32_t medium;
    uint64_t wide;

    if (width_bytes == sizeof(narrow)) {
        return *at;
    }
    if (width_bytes == sizeof(medium)) {
        memcpy(&medium, at, sizeof(medium));
        return medium;
    }
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

/* Small negative numbers become small positive ones. */
static uint64_t zigzag(int64_t value)
{
    uint64_t doubled = (uint64_t)value << 1;
    return value < 0 ? ~doubled : doubled;
}

static void put_scalar(struct kvf_writer *writer, const struct kvf_field *field,
                       uint64_t value)
{
    uint32_t fixed32 = htole32((uint32_t)value);
    uint64_t fixed64 = htole64(value);

    switch ((enum kvf_encoding)field->encoding) {
    case KVF_ENCODING_BOOL:
        put_varint(writer, value != 0 ? 1 : 0);
        break;
    case KVF_ENCODING_INT32: /* protobuf wants ten bytes for a negative int32 */
        put_varint(writer, (uint64_t)(int64_t)(int32_t)value);
        break;
    case KVF_ENCODING_SINT32:
        put_varint(writer, zigzag((int32_t)value));
        break;
    case KVF_ENCODING_SINT64:
        put_varint(writer, zigzag((int64_t)value));
        break;
    case KVF_ENCODING_UINT32:
    case KVF_ENCODING_UINT64:
        put_varint(writer, value);
        break;
    case KVF_ENCODING_FIXED32:
        put_bytes(writer, &fixed32, sizeof(fixed32));
        break;
    case KVF_ENCODING_FIXED64:
        put_bytes(writer, &fixed64, sizeof(fixed64));
        break;
    }
}

static void put_scalars(struct kvf_writer *writer, const struct kvf_field *field,
                        const uint8_t *elements, size_t n)
{
    size_t before = writer->n;
    for (size_t i = n; i > 0; i--) {
        const uint8_t *element = elements + (i - 1) * field->width_bytes;
        put_scalar(writer, field, load(element, field->width_bytes));
    }
    if (n > 0) {
        put_prefix(writer, field, writer->n - before);
    }
}

static void put_field(struct kvf_writer *writer, const struct kvf_field *field,
                      const uint8_t *record)
{
    size_t n = 0;
    const uint8_t *bytes;
    const char *text;
    uint64_t value;

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        value = load(record + field->offset, field->width_bytes);
        if (value != 0) {
            put_scalar(writer, field, value);
            put_tag(writer, field, WIRE_VARINT);
        }
        break;
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
        bytes = kvf_field_bytes(field, record, &n);
        put_scalars(writer, field, bytes, n / field->width_bytes);
        break;
    case KVF_FIELD_TEXT:
        text = kvf_field_text(field, record, 0);
        if (text[0] != '\0') {
            put_delimited(writer, field, text, strlen(text));
        }
        break;
    case KVF_FIELD_TEXTS: /* an empty entry still counts */
        for (size_t i = kvf_field_count(field, record); i > 0; i--) {
            text = kvf_field_text(field, record, i - 1);
            put_delimited(writer, field, text, strlen(text));
        }
        break;
    case KVF_FIELD_BLOB:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
        bytes = kvf_field_bytes(field, record, &n);
        if (n > 0) {
            put_delimited(writer, field, bytes, n);
        }
        break;
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RECORDS:
    case KVF_FIELD_RESERVED:
        break; /* records are the walk's business */
    }
}

static bool text_is_sendable(const char *text, uint32_t limit)
{
    size_t n = strnlen(text, (size_t)limit + 1);
    return n <= limit && kvf_text_is_valid(text, n);
}

static bool texts_are_sendable(const struct kvf_field *field, const void *record)
{
    size_t n = kvf_field_count(field, record);
    if (n > field->limit) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!text_is_sendable(kvf_field_text(field, record, i), KVF_NAME_MAX)) {
            return false;
        }
    }
    return true;
}

/* The limits of one row. Pointers are only followed where the count allows it. */
static bool is_sendable(const struct kvf_field *field, const void *record)
{
    size_t n = 0;

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
    case KVF_FIELD_RECORDS:
        return kvf_field_count(field, record) <= field->limit;
    case KVF_FIELD_TEXT:
        return text_is_sendable(kvf_field_text(field, record, 0), field->limit);
    case KVF_FIELD_TEXTS:
        return texts_are_sendable(field, record);
    case KVF_FIELD_BLOB:
        (void)kvf_field_bytes(field, record, &n); /* only its length matters here */
        return n <= field->limit;
    case KVF_FIELD_SCALAR:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD: /* its size is known when it has been written */
    case KVF_FIELD_RESERVED:
        break;
    }
    return true;
}

/* One record under way. */
struct level {
    const struct kvf_schema *schema;
    const uint8_t *record;
    size_t n_rows;    /* not yet written; the last one taken is the current row */
    size_t n_records; /* of the current row, not yet written */
    size_t n_before;  /* bytes written when the record was entered */
};

static void enter(struct level *level, const struct kvf_schema *schema,
                  const void *record, const struct kvf_writer *writer)
{
    *level = (struct level){
        .schema = schema,
        .record = record,
        .n_rows = schema->n_fields,
        .n_before = writer->n,
    };
}

static const struct kvf_field *current(const struct level *level)
{
    return &level->schema->fields[level->n_rows];
}

/* Takes the next row. Returns its refusal or NULL. */
static const char *take_row(struct level *level, struct kvf_writer *writer)
{
    level->n_rows--;
    const struct kvf_field *field = current(level);
    if (writer->end == NULL && !is_sendable(field, level->record)) {
        return field->refusal;
    }
    if (field->nested != NULL) {
        level->n_records = kvf_field_count(field, level->record);
    } else {
        put_field(writer, field, level->record);
    }
    return NULL;
}

/* The record is complete: puts its prefix as a field of the record around it. */
static const char *leave(const struct level *level, const struct kvf_field *field,
                         struct kvf_writer *writer)
{
    size_t n = writer->n - level->n_before;
    if (field->kind == KVF_FIELD_PACKED_RECORD && n > field->limit) {
        return field->refusal;
    }
    if (n > 0 ||
        field->kind != KVF_FIELD_PACKED_RECORD) { /* empty `bytes` are left out */
        put_prefix(writer, field, n);
    }
    return NULL;
}

/* A record's own rule looks through arrays, so it comes after the rows' limits. */
static const char *record_refusal(const struct level *level,
                                  const struct kvf_writer *writer)
{
    bool has_rule = writer->end == NULL && level->schema->refusal != NULL;
    return has_rule ? level->schema->refusal(level->record) : NULL;
}

const char *kvf_schema_write(const struct kvf_schema *schema, const void *record,
                             struct kvf_writer *writer)
{
    struct level levels[KVF_SCHEMA_DEPTH];
    struct level *level = levels;
    const char *refusal = NULL;

    enter(level, schema, record, writer);
    while (refusal == NULL) {
        if (level->n_records > 0) {
            const struct kvf_field *field = current(level);
            const void *inner =
                kvf_field_record(field, level->record, --level->n_records);
            level++;
            assert(level < levels + KVF_SCHEMA_DEPTH);
            enter(level, field->nested, inner, writer);
        } else if (level->n_rows > 0) {
            refusal = take_row(level, writer);
        } else {
            refusal = record_refusal(level, writer);
            if (refusal != NULL || level == levels) {
                break;
            }
            refusal = leave(level, current(level - 1), writer);
            level--;
        }
    }
    return refusal;
}
