/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf bytes to plain structs. protobuf-c parses, because bytes from outside deserve
 * a parser that many have attacked; its tree and the plain structs both lie in the
 * arena, whose budget also pays for unknown fields. Arrays of numbers, texts and blobs
 * are not copied again. Then the rows of the schema are checked: nothing that breaks a
 * limit reaches the caller. The walk keeps its own small stack. Any thread.
 */
#include <assert.h>
#include <string.h>

#include "kvferry.pb-c.h"
#include "proto/schema.h"

struct reader {
    struct kvf_arena *arena;      /* borrows */
    ProtobufCAllocator allocator; /* of the arena */
    bool is_exhausted;
};

/* protobuf-c forgets how long a string was and so cannot tell "a" from "a\0b". Every
 * block it gets remembers its size in front. */
#define SIZE_PREFIX_BYTES 8u

static void *arena_alloc(struct reader *reader, size_t n_bytes)
{
    void *block = kvf_arena_alloc(reader->arena, n_bytes);
    reader->is_exhausted |= block == NULL;
    return block;
}

static void *allocate(void *owner, size_t n_bytes)
{
    uint64_t total;
    if (!kvf_size_add(n_bytes, SIZE_PREFIX_BYTES, &total)) {
        return NULL;
    }
    uint8_t *block = arena_alloc(owner, total);
    if (block == NULL) {
        return NULL;
    }
    uint64_t size = n_bytes;
    memcpy(block, &size, sizeof(size));
    return block + SIZE_PREFIX_BYTES;
}

/* The arena frees everything at once. */
static void release(void *owner, void *block)
{
    (void)owner;
    (void)block;
}

/* Bytes of a string that protobuf-c parsed, a NUL inside included. */
static size_t parsed_length(const char *text)
{
    if (text == protobuf_c_empty_string) {
        return 0;
    }
    uint64_t size;
    memcpy(&size, text - SIZE_PREFIX_BYTES, sizeof(size));
    return size - 1;
}

static const void *pointer_at(const void *at)
{
    const void *pointer;
    memcpy(&pointer, at, sizeof(pointer));
    return pointer;
}

static void set_pointer(uint8_t *member, const void *pointer)
{
    memcpy(member, &pointer, sizeof(pointer));
}

/* One record under way: `parsed` is protobuf-c's struct, `record` the plain one. */
struct level {
    const struct kvf_schema *schema;
    const uint8_t *parsed;
    uint8_t *record;
    size_t n_rows; /* taken; the last one taken is the current row */
    /* Nested records of the current row. */
    const uint8_t *inner_parsed; /* [n_inner] pointers */
    uint8_t *inner_records;      /* [n_inner] */
    size_t n_inner, n_done;
    const ProtobufCMessage *unpacked; /* storage for inner_parsed of a packed record */
};

static const struct kvf_field *current(const struct level *level)
{
    return &level->schema->fields[level->n_rows - 1];
}

static const ProtobufCFieldDescriptor *descriptor(const struct level *level)
{
    return &level->schema->wire->fields[level->n_rows - 1];
}

/* protobuf-c's member for the current row, and its count when it is repeated. */
static const uint8_t *parsed_member(const struct level *level)
{
    return level->parsed + descriptor(level)->offset;
}

static size_t parsed_count(const struct level *level)
{
    size_t n;
    memcpy(&n, level->parsed + descriptor(level)->quantifier_offset, sizeof(n));
    return n;
}

static void read_scalar(const struct level *level, const struct kvf_field *field)
{
    uint8_t *member = level->record + field->offset;
    if (field->encoding != KVF_ENCODING_BOOL) {
        memcpy(member, parsed_member(level), field->width_bytes);
        return;
    }
    protobuf_c_boolean parsed;
    memcpy(&parsed, parsed_member(level), sizeof(parsed));
    bool flag = parsed != 0;
    uint32_t wide = flag ? 1 : 0; /* structs that cross the ABI have no bool */
    if (field->width_bytes == sizeof(flag)) {
        memcpy(member, &flag, sizeof(flag));
    } else {
        memcpy(member, &wide, sizeof(wide));
    }
}

static bool read_scalars(const struct level *level, const struct kvf_field *field)
{
    size_t n = parsed_count(level);
    if (n > field->limit) {
        return false;
    }
    if (field->kind == KVF_FIELD_COUNTED_SCALARS) {
        if (n != kvf_field_count(field, level->record)) {
            return false;
        }
    } else {
        memcpy(level->record + field->side_offset, &n, sizeof(n));
    }
    set_pointer(level->record + field->offset, pointer_at(parsed_member(level)));
    return true;
}

static bool text_is_acceptable(const char *text, uint32_t limit)
{
    size_t n = parsed_length(text);
    return n <= limit && kvf_text_is_valid(text, n);
}

static bool read_text(const struct level *level, const struct kvf_field *field)
{
    const char *text = pointer_at(parsed_member(level));
    set_pointer(level->record + field->offset, text);
    return text_is_acceptable(text, field->limit);
}

static bool read_texts(const struct level *level, const struct kvf_field *field)
{
    const uint8_t *texts = pointer_at(parsed_member(level));
    size_t n = parsed_count(level);
    if (n > field->limit) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!text_is_acceptable(pointer_at(texts + i * sizeof(char *)), KVF_NAME_MAX)) {
            return false;
        }
    }
    set_pointer(level->record + field->offset, texts);
    memcpy(level->record + field->side_offset, &n, sizeof(n));
    return true;
}

static bool read_bytes(const struct level *level, const struct kvf_field *field)
{
    ProtobufCBinaryData parsed;
    memcpy(&parsed, parsed_member(level), sizeof(parsed));
    struct kvf_bytes blob = {.data = parsed.data, .n = parsed.len};
    bool has = parsed.len > 0;

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_BLOB:
        memcpy(level->record + field->offset, &blob, sizeof(blob));
        return parsed.len <= field->limit;
    case KVF_FIELD_OPTIONAL_DIGEST:
        memcpy(level->record + field->side_offset, &has, sizeof(has));
        if (!has) {
            return true;
        }
        break;
    case KVF_FIELD_RESERVED:
        return parsed.len <= field->limit;
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_SCALAR:
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
    case KVF_FIELD_TEXT:
    case KVF_FIELD_TEXTS:
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
    case KVF_FIELD_PACKED_RECORD:
    case KVF_FIELD_RECORDS:
        break;
    }
    if (parsed.len != field->limit) {
        return false;
    }
    memcpy(level->record + field->offset, parsed.data, parsed.len);
    return true;
}

/* A record by value: it must be there, unless its has_ member says otherwise. */
static bool open_record(struct level *level, const struct kvf_field *field)
{
    level->inner_parsed = parsed_member(level);
    level->inner_records = level->record + field->offset;
    level->n_inner = kvf_field_count(field, level->record);
    return level->n_inner == 0 || pointer_at(level->inner_parsed) != NULL;
}

static bool open_packed_record(struct reader *reader, struct level *level,
                               const struct kvf_field *field)
{
    ProtobufCBinaryData packed;
    memcpy(&packed, parsed_member(level), sizeof(packed));
    level->inner_parsed = (const uint8_t *)&level->unpacked;
    level->inner_records = level->record + field->offset;
    level->n_inner = kvf_field_count(field, level->record);
    if (level->n_inner == 0) {
        return true;
    }
    if (packed.len > field->limit) {
        return false;
    }
    level->unpacked = protobuf_c_message_unpack(field->nested->wire, &reader->allocator,
                                                packed.len, packed.data);
    return level->unpacked != NULL;
}

static bool open_records(struct reader *reader, struct level *level,
                         const struct kvf_field *field)
{
    size_t n = parsed_count(level);
    if (n == 0) {
        return true;
    }
    if (n > field->limit) {
        return false;
    }
    level->inner_records = arena_alloc(reader, n * field->nested->n_bytes);
    if (level->inner_records == NULL) {
        return false;
    }
    level->inner_parsed = pointer_at(parsed_member(level));
    level->n_inner = n;
    set_pointer(level->record + field->offset, level->inner_records);
    memcpy(level->record + field->side_offset, &n, sizeof(n));
    return true;
}

/* Takes the next row. False: the row refuses the bytes, or the budget is spent. */
static bool take_row(struct reader *reader, struct level *level)
{
    level->n_rows++;
    level->n_inner = 0;
    level->n_done = 0;
    const struct kvf_field *field = current(level);

    switch ((enum kvf_field_kind)field->kind) {
    case KVF_FIELD_SCALAR:
        read_scalar(level, field);
        return true;
    case KVF_FIELD_SCALARS:
    case KVF_FIELD_COUNTED_SCALARS:
        return read_scalars(level, field);
    case KVF_FIELD_TEXT:
        return read_text(level, field);
    case KVF_FIELD_TEXTS:
        return read_texts(level, field);
    case KVF_FIELD_BLOB:
    case KVF_FIELD_DIGEST:
    case KVF_FIELD_OPTIONAL_DIGEST:
    case KVF_FIELD_RESERVED:
        return read_bytes(level, field);
    case KVF_FIELD_RECORD:
    case KVF_FIELD_OPTIONAL_RECORD:
        return open_record(level, field);
    case KVF_FIELD_PACKED_RECORD:
        return open_packed_record(reader, level, field);
    case KVF_FIELD_RECORDS:
        return open_records(reader, level, field);
    }
    return true;
}

static void enter_inner(struct level *inner, struct level *outer)
{
    const struct kvf_schema *schema = current(outer)->nested;
    size_t i = outer->n_done++;
    *inner = (struct level){
        .schema = schema,
        .parsed = pointer_at(outer->inner_parsed + i * sizeof(void *)),
        .record = outer->inner_records + i * schema->n_bytes,
    };
}

/* All rows are there: the record's own rule, and what the wire does not carry. */
static const char *complete(const struct level *level)
{
    const struct kvf_schema *schema = level->schema;
    if (schema->complete != NULL) {
        schema->complete(level->record);
    }
    return schema->refusal != NULL ? schema->refusal(level->record) : NULL;
}

/* Copies the parsed tree into *record. Returns a refusal or NULL. */
static const char *read_record(struct reader *reader, const struct kvf_schema *schema,
                               const ProtobufCMessage *parsed, void *record)
{
    struct level levels[KVF_SCHEMA_DEPTH];
    struct level *level = levels;

    *level = (struct level){
        .schema = schema, .parsed = (const uint8_t *)parsed, .record = record};
    for (;;) {
        if (level->n_done < level->n_inner) {
            assert(level + 1 < levels + KVF_SCHEMA_DEPTH);
            enter_inner(level + 1, level);
            level++;
        } else if (level->n_rows < level->schema->n_fields) {
            if (!take_row(reader, level)) {
                return current(level)->refusal;
            }
        } else {
            const char *refusal = complete(level);
            if (refusal != NULL || level == levels) {
                return refusal;
            }
            level--;
        }
    }
}

enum kvf_status kvf_schema_read(const struct kvf_schema *schema, const uint8_t *bytes,
                                size_t n, struct kvf_arena *arena, void *out,
                                const char **out_detail)
{
    struct reader reader = {.arena = arena};
    reader.allocator = (ProtobufCAllocator){
        .alloc = allocate, .free = release, .allocator_data = &reader};
    const char *refusal = "not a well-formed message of its type";
    void *record = arena_alloc(&reader, schema->n_bytes);
    const ProtobufCMessage *parsed = NULL;

    assert(schema->n_fields == schema->wire->n_fields);
    if (record != NULL) {
        parsed = protobuf_c_message_unpack(schema->wire, &reader.allocator, n, bytes);
    }
    if (parsed != NULL) {
        refusal = read_record(&reader, schema, parsed, record);
    }
    if (reader.is_exhausted) {
        *out_detail = "message needs more memory than its length allows";
        return KVF_NO_MEMORY;
    }
    if (refusal != NULL) {
        *out_detail = refusal;
        return KVF_PROTOCOL;
    }
    memcpy(out, record, schema->n_bytes);
    return KVF_OK;
}
