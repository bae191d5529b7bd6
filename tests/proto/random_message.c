/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See random_message.h. Small values are as likely as large ones, so that zero (which is
 * not written), one-byte and ten-byte numbers all occur; arrays are mostly short.
 */
#include "random_message.h"

#include <assert.h>
#include <string.h>

#include "proto/schema.h"

static void *take(struct kvf_arena *arena, size_t n_bytes)
{
    void *block = kvf_arena_alloc(arena, n_bytes);
    assert(block != NULL);
    return block;
}

static uint64_t random_number(struct kvf_rng *rng, const struct kvf_field *field)
{
    uint64_t value = kvf_rng_u64(rng) >> kvf_rng_below(rng, 64);
    if (kvf_rng_below(rng, 8) == 0) {
        value = kvf_rng_below(rng, 2) == 0 ? 0 : UINT64_MAX;
    }
    return field->encoding == KVF_ENCODING_BOOL ? value & 1 : value;
}

static void set_number(struct kvf_rng *rng, const struct kvf_field *field, uint8_t *at)
{
    uint64_t wide = random_number(rng, field);
    uint32_t medium = (uint32_t)wide;
    bool narrow = wide != 0;
    if (field->width_bytes == sizeof(wide)) {
        memcpy(at, &wide, sizeof(wide));
    } else if (field->width_bytes == sizeof(medium)) {
        memcpy(at, &medium, sizeof(medium));
    } else {
        memcpy(at, &narrow, sizeof(narrow));
    }
}

static const char *random_text(struct kvf_rng *rng, size_t limit, struct kvf_arena *arena)
{
    static const char *const letters[] = {"a", "Z", "\xc3\xa9", "\xe2\x82\xac",
                                          "\xf0\x9f\x9a\xa2"};
    size_t n = kvf_rng_below(rng, 4) == 0 ? limit : kvf_rng_below(rng, limit + 1);
    char *text = take(arena, n + 1);
    char *end = text;
    const char *letter = letters[kvf_rng_below(rng, 5)];
    while ((size_t)(end - text) + strlen(letter) <= n) {
        end = stpcpy(end, letter);
        letter = letters[kvf_rng_below(rng, 5)];
    }
    return text;
}

static size_t random_count(struct kvf_rng *rng, size_t limit)
{
    return kvf_rng_below(rng, limit < 6 ? limit + 1 : 6);
}

static void set_pointer(uint8_t *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof(pointer));
}

static void set_bytes(struct kvf_rng *rng, const struct kvf_field *field, uint8_t *record,
                      struct kvf_arena *arena)
{
    struct kvf_bytes blob = {.n = kvf_rng_below(rng, field->limit + 1)};
    uint8_t *bytes = take(arena, blob.n);
    kvf_rng_fill(rng, bytes, blob.n);
    blob.data = bytes;
    memcpy(record + field->offset, &blob, sizeof(blob));
}

static void set_scalars(struct kvf_rng *rng, const struct kvf_field *field,
                        uint8_t *record, struct kvf_arena *arena)
{
    size_t n = random_count(rng, field->limit);
    if (field->kind == KVF_FIELD_COUNTED_SCALARS) { /* keeps a count set before it */
        uint32_t n_short = (uint32_t)n;
        memcpy(record + field->side_offset, &n_short, sizeof(n_short));
    } else {
        memcpy(record + field->side_offset, &n, sizeof(n));
    }
    uint8_t *elements = take(arena, n * field->width_bytes);
    for (size_t i = 0; i < n; i++) {
        set_number(rng, field, elements + i * field->width_bytes);
    }
    set_pointer(record + field->offset, elements);
}

static void set_texts(struct kvf_rng *rng, const struct kvf_field *field, uint8_t *record,
                      struct kvf_arena *arena)
{
    size_t n = random_count(rng, field->limit);
    const char **texts = take(arena, n * sizeof(*texts));
    for (size_t i = 0; i < n; i++) {
        texts[i] = random_text(rng, KVF_NAME_MAX, arena);
    }
    set_pointer(record + field->offset, texts);
    memcpy(record + field->side_offset, &n, sizeof(n));
}

static void set_flag(struct kvf_rng *rng, uint8_t *at)
{
    bool flag = kvf_rng_below(rng, 4) != 0;
    memcpy(at, &flag, sizeof(flag));
}

/* Everything but nested records. */
static void set_field(struct kvf_rng *rng, const struct kvf_field *field, uint8_t *record,
                      struct kvf_arena *arena)
{
    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        set_number(rng, field, record + field->offset);
        break;
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
        set_scalars(rng, field, record, arena);
        break;
    case KVF_FIELD_TEXT:
        set_pointer(record + field->offset, random_text(rng, field->limit, arena));
        break;
    case KVF_FIELD_TEXTS:
        set_texts(rng, field, record, arena);
        break;
    case KVF_FIELD_BLOB:
        set_bytes(rng, field, record, arena);
        break;
    case KVF_FIELD_OPTIONAL_DIGEST:
        set_flag(rng, record + field->side_offset);
        if (kvf_field_count(field, record) > 0) {
            kvf_rng_fill(rng, record + field->offset, field->limit);
        }
        break;
    case KVF_FIELD_DIGEST:
        kvf_rng_fill(rng, record + field->offset, field->limit);
        break;
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RECORDS:
    case KVF_FIELD_RESERVED:
        break;
    }
}

struct todo {
    const struct kvf_schema *schema;
    uint8_t *record;
};
#define TODO_MAX 1024u

static size_t add_records(struct kvf_rng *rng, const struct kvf_field *field,
                          uint8_t *record, struct kvf_arena *arena, struct todo *todo)
{
    uint8_t *inner = record + field->offset;
    if (field->kind == KVF_FIELD_RECORDS) {
        size_t n = random_count(rng, field->limit);
        inner = take(arena, n * field->nested->n_bytes);
        set_pointer(record + field->offset, inner);
        memcpy(record + field->side_offset, &n, sizeof(n));
    }
    size_t n = kvf_field_count(field, record);
    for (size_t i = 0; i < n; i++) {
        todo[i] = (struct todo){field->nested, inner + i * field->nested->n_bytes};
    }
    return n;
}

struct kvf_message random_message(struct kvf_rng *rng, enum kvf_message_type type,
                                  struct kvf_arena *arena)
{
    struct kvf_message message;
    struct todo todo[TODO_MAX];
    size_t n_todo = 1;

    memset(&message, 0, sizeof(message));
    message.type = type;
    todo[0] = (struct todo){kvf_message_schema(type), (uint8_t *)&message.u};
    while (n_todo > 0) {
        struct todo next = todo[--n_todo];
        for (size_t i = 0; i < next.schema->n_fields; i++) {
            const struct kvf_field *field = &next.schema->fields[i];
            set_field(rng, field, next.record, arena);
            if (field->nested != NULL) {
                n_todo += add_records(rng, field, next.record, arena, todo + n_todo);
                assert(n_todo + 8 < TODO_MAX);
            }
        }
        if (next.schema->complete != NULL) {
            next.schema->complete(next.record);
        }
    }
    return message;
}
