/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaching a member of a plain struct through its row. Members are read with memcpy: the
 * rows name them by offset, and the types behind one kind of row differ (int32_t and
 * uint32_t arrays, size_t and uint64_t counts). Any thread.
 */
#include "proto/schema.h"

#include <string.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "counts are size_t or uint64_t");

static const uint8_t *at(const void *record, size_t offset)
{
    return (const uint8_t *)record + offset;
}

static const void *pointer_at(const void *record, size_t offset)
{
    const void *pointer;
    memcpy(&pointer, at(record, offset), sizeof(pointer));
    return pointer;
}

static size_t flag_at(const void *record, size_t offset)
{
    bool flag;
    memcpy(&flag, at(record, offset), sizeof(flag));
    return flag ? 1 : 0;
}

size_t kvf_field_count(const struct kvf_field *field, const void *record)
{
    uint64_t n;
    uint32_t n_short;

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_TEXTS:
    case KVF_FIELD_RECORDS:
        memcpy(&n, at(record, field->side_offset), sizeof(n));
        return n;
    case KVF_FIELD_COUNTED_SCALARS:
        memcpy(&n_short, at(record, field->side_offset), sizeof(n_short));
        return n_short;
    case KVF_FIELD_OPTIONAL_DIGEST:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
        return flag_at(record, field->side_offset);
    case KVF_FIELD_RESERVED:
        return 0;
    case KVF_FIELD_SCALAR:
    case KVF_FIELD_TEXT:
    case KVF_FIELD_BLOB:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_RECORD:
        break;
    }
    return 1;
}

const char *kvf_field_text(const struct kvf_field *field, const void *record, size_t i)
{
    const char *text;
    if (field->kind == KVF_FIELD_TEXTS) {
        const uint8_t *texts = pointer_at(record, field->offset);
        memcpy(&text, texts + i * sizeof(text), sizeof(text));
    } else {
        text = pointer_at(record, field->offset);
    }
    return text != NULL ? text : "";
}

const void *kvf_field_record(const struct kvf_field *field, const void *record, size_t i)
{
    if (field->kind != KVF_FIELD_RECORDS) {
        return at(record, field->offset);
    }
    const uint8_t *records = pointer_at(record, field->offset);
    return records + i * field->nested->n_bytes;
}

const uint8_t *kvf_field_bytes(const struct kvf_field *field, const void *record,
                               size_t *out_n)
{
    if (field->kind == KVF_FIELD_DIGEST || field->kind == KVF_FIELD_OPTIONAL_DIGEST) {
        *out_n = field->limit * kvf_field_count(field, record);
        return at(record, field->offset);
    }
    if (field->kind == KVF_FIELD_BLOB) {
        struct kvf_bytes blob;
        memcpy(&blob, at(record, field->offset), sizeof(blob));
        *out_n = blob.n;
        return blob.data;
    }
    *out_n = kvf_field_count(field, record) * field->width_bytes;
    return pointer_at(record, field->offset);
}
