/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table per message: which member of the plain struct is which field on the wire, and
 * its limit. The tables (*_schema.c) are the only place that knows this; writer.c,
 * reader.c and equal.c walk them. Row i belongs to field i of the protobuf-c descriptor,
 * so rows are complete and ascend by number (tests/proto/test_schema.c holds them to it).
 * Inside proto/ only; const data, any thread.
 */
#ifndef KVF_PROTO_SCHEMA_H
#define KVF_PROTO_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/kvferry.h>

#include "base/alloc.h"
#include "proto/message.h"

/* Records inside records: Receive > params > state > cache state > model. */
#define KVF_SCHEMA_DEPTH      5u
#define KVF_SCHEMA_FIELDS     32u /* most rows of one schema */

#define KVF_DETAIL_BYTES      (KVF_DETAIL_MAX - 1)
#define KVF_PATH_BYTES        31u /* with a NUL it fits into kvf_event.path */
#define KVF_SOFTWARE_BYTES    63u
#define KVF_VERSION_BYTES     32u
#define KVF_TRANSPORT_BYTES   15u
#define KVF_BLOB_BYTES        1024u
#define KVF_ENGINE_NAME_BYTES 127u
#define KVF_UUID_BYTES        64u
#define KVF_TICKET_BYTES      64u
#define KVF_RESERVED_BYTES    1024u
#define KVF_HASH_BYTES        32u
#define KVF_TRACE_BYTES       16u
#define KVF_BLOBS_MAX         8u
#define KVF_EXTRA_KEYS_MAX    1024u
#define KVF_FIRST_TOKENS_MAX  4096u

enum kvf_field_kind {
    KVF_FIELD_SCALAR,          /* a number or a claim */
    KVF_FIELD_SCALARS,         /* pointer and count */
    KVF_FIELD_COUNTED_SCALARS, /* the count is a field of its own and must agree */
    KVF_FIELD_TEXT,            /* const char *, UTF-8 */
    KVF_FIELD_TEXTS,           /* pointer and count */
    KVF_FIELD_BLOB,            /* struct kvf_bytes */
    KVF_FIELD_DIGEST,          /* exactly `limit` bytes, inside the struct */
    KVF_FIELD_OPTIONAL_DIGEST, /* the same or nothing; the has_ member is not on the wire
                                */
    KVF_FIELD_RECORD,          /* another struct by value, always there */
    KVF_FIELD_OPTIONAL_RECORD, /* there when the has_ member says so */
    KVF_FIELD_PACKED_RECORD, /* the same, but `bytes` in the schema: opaque to routers */
    KVF_FIELD_RECORDS,       /* pointer and count */
    KVF_FIELD_RESERVED       /* never written, not kept, but held to its limit */
};

/* How a number is written; the names are protobuf's own. */
enum kvf_encoding {
    KVF_ENCODING_BOOL,
    KVF_ENCODING_INT32,
    KVF_ENCODING_SINT32,
    KVF_ENCODING_UINT32,
    KVF_ENCODING_UINT64,
    KVF_ENCODING_SINT64,
    KVF_ENCODING_FIXED32,
    KVF_ENCODING_FIXED64
};

struct kvf_schema;

struct kvf_field {
    uint8_t kind;         /* enum kvf_field_kind */
    uint8_t encoding;     /* enum kvf_encoding, scalars only */
    uint8_t width_bytes;  /* of the member or of one element, scalars only */
    bool is_uncompared;   /* equality passes over it */
    uint16_t number;      /* on the wire */
    uint16_t offset;      /* of the member */
    uint16_t side_offset; /* of its count or has_ member */
    uint32_t limit;       /* bytes of a text, blob or digest; entries of an array */
    const struct kvf_schema *nested;
    const char *refusal; /* static sentence for bytes that break the row's rules */
};

struct kvf_schema {
    const struct ProtobufCMessageDescriptor *wire;
    const struct kvf_field *fields; /* [n_fields] */
    size_t n_fields;
    size_t n_bytes; /* of the plain struct */
    /* Rules over several members, after all rows; NULL when there is none. Returns a
     * static sentence, or NULL when they hold. */
    const char *(*refusal)(const void *record);
    /* Fills in what is not on the wire; NULL when there is nothing. */
    void (*complete)(void *record);
};

#define KVF_WIDTH(type, member) ((uint8_t)sizeof(((struct kvf_##type *)NULL)->member))
#define KVF_ELEMENT_WIDTH(type, member)                                                  \
    ((uint8_t)sizeof(*((struct kvf_##type *)NULL)->member))
#define KVF_AT(type, member) ((uint16_t)offsetof(struct kvf_##type, member))

#define KVF_SCALAR(n, form, type, member)                                                \
    {                                                                                    \
        .kind = KVF_FIELD_SCALAR, .encoding = KVF_ENCODING_##form,                       \
        .width_bytes = KVF_WIDTH(type, member), .number = (n),                           \
        .offset = KVF_AT(type, member), .refusal = #member                               \
    }
#define KVF_UNCOMPARED_SCALAR(n, form, type, member)                                     \
    {                                                                                    \
        .kind = KVF_FIELD_SCALAR, .encoding = KVF_ENCODING_##form,                       \
        .width_bytes = KVF_WIDTH(type, member), .is_uncompared = true, .number = (n),    \
        .offset = KVF_AT(type, member), .refusal = #member                               \
    }
#define KVF_SCALARS(n, form, type, member, count, max)                                   \
    {                                                                                    \
        .kind = KVF_FIELD_SCALARS, .encoding = KVF_ENCODING_##form,                      \
        .width_bytes = KVF_ELEMENT_WIDTH(type, member), .number = (n),                   \
        .offset = KVF_AT(type, member), .side_offset = KVF_AT(type, count),              \
        .limit = (max), .refusal = #member " has too many entries"                       \
    }
#define KVF_COUNTED_SCALARS(n, form, type, member, count, max)                           \
    {                                                                                    \
        .kind = KVF_FIELD_COUNTED_SCALARS, .encoding = KVF_ENCODING_##form,              \
        .width_bytes = KVF_ELEMENT_WIDTH(type, member), .number = (n),                   \
        .offset = KVF_AT(type, member), .side_offset = KVF_AT(type, count),              \
        .limit = (max), .refusal = #member " are not as many as " #count " or too many"  \
    }
#define KVF_TEXT(n, type, member, max)                                                   \
    {                                                                                    \
        .kind = KVF_FIELD_TEXT, .number = (n), .offset = KVF_AT(type, member),           \
        .limit = (max), .refusal = #member " is too long or not text in UTF-8"           \
    }
#define KVF_TEXTS(n, type, member, count, max)                                           \
    {                                                                                    \
        .kind = KVF_FIELD_TEXTS, .number = (n), .offset = KVF_AT(type, member),          \
        .side_offset = KVF_AT(type, count), .limit = (max),                              \
        .refusal = #member " has too many entries, or one too long or not in UTF-8"      \
    }
#define KVF_BLOB(n, type, member, max)                                                   \
    {                                                                                    \
        .kind = KVF_FIELD_BLOB, .number = (n), .offset = KVF_AT(type, member),           \
        .limit = (max), .refusal = #member " is too long"                                \
    }
#define KVF_DIGEST(n, type, member)                                                      \
    {                                                                                    \
        .kind = KVF_FIELD_DIGEST, .number = (n), .offset = KVF_AT(type, member),         \
        .limit = KVF_WIDTH(type, member), .refusal = #member " has the wrong length"     \
    }
#define KVF_OPTIONAL_DIGEST(n, type, member, has)                                        \
    {                                                                                    \
        .kind = KVF_FIELD_OPTIONAL_DIGEST, .number = (n),                                \
        .offset = KVF_AT(type, member), .side_offset = KVF_AT(type, has),                \
        .limit = KVF_WIDTH(type, member), .refusal = #member " has the wrong length"     \
    }
#define KVF_RECORD(n, type, member, schema)                                              \
    {                                                                                    \
        .kind = KVF_FIELD_RECORD, .number = (n), .offset = KVF_AT(type, member),         \
        .nested = (schema), .refusal = #member " is missing"                             \
    }
/* A message of its own on the wire, members of the enclosing struct here. */
#define KVF_INLINE_RECORD(n, name, schema)                                               \
    {                                                                                    \
        .kind = KVF_FIELD_RECORD, .number = (n), .nested = (schema),                     \
        .refusal = #name " is missing"                                                   \
    }
#define KVF_OPTIONAL_RECORD(n, type, member, has, schema)                                \
    {                                                                                    \
        .kind = KVF_FIELD_OPTIONAL_RECORD, .number = (n),                                \
        .offset = KVF_AT(type, member), .side_offset = KVF_AT(type, has),                \
        .nested = (schema), .refusal = #member " is missing"                             \
    }
#define KVF_PACKED_RECORD(n, type, member, has, schema, max)                             \
    {                                                                                    \
        .kind = KVF_FIELD_PACKED_RECORD, .number = (n), .offset = KVF_AT(type, member),  \
        .side_offset = KVF_AT(type, has), .limit = (max), .nested = (schema),            \
        .refusal = #member " is too long or malformed"                                   \
    }
#define KVF_RECORDS(n, type, member, count, schema, max)                                 \
    {                                                                                    \
        .kind = KVF_FIELD_RECORDS, .number = (n), .offset = KVF_AT(type, member),        \
        .side_offset = KVF_AT(type, count), .limit = (max), .nested = (schema),          \
        .refusal = #member " has too many entries"                                       \
    }
#define KVF_RESERVED(n, name, max)                                                       \
    {                                                                                    \
        .kind = KVF_FIELD_RESERVED, .number = (n), .limit = (max),                       \
        .refusal = #name " is too long"                                                  \
    }

#define KVF_SCHEMA(type, descriptor, rows)                                               \
    .wire = &(descriptor), .fields = (rows),                                             \
    .n_fields = sizeof(rows) / sizeof((rows)[0]), .n_bytes = sizeof(struct kvf_##type)

/* Messages, by the names of kvferry.proto. */
extern const struct kvf_schema kvf_schema_hello, kvf_schema_hello_ack, kvf_schema_ping,
    kvf_schema_pong, kvf_schema_request_info, kvf_schema_ready, kvf_schema_receipt,
    kvf_schema_cancel, kvf_schema_cancel_ack, kvf_schema_done, kvf_schema_done_ack,
    kvf_schema_error, kvf_schema_drain, kvf_schema_notify;
extern const struct kvf_schema kvf_schema_engine_hello, kvf_schema_engine_hello_ack,
    kvf_schema_pool_register, kvf_schema_pool_registered, kvf_schema_pool_unregister,
    kvf_schema_pool_unregistered, kvf_schema_offer, kvf_schema_offer_ready,
    kvf_schema_receive, kvf_schema_engine_cancel, kvf_schema_transfer_event,
    kvf_schema_engine_notify, kvf_schema_notify_event, kvf_schema_comm_state_set,
    kvf_schema_comm_state_ack;
/* What they are made of. */
extern const struct kvf_schema kvf_schema_cache_state, kvf_schema_comm_state,
    kvf_schema_transceiver_state, kvf_schema_block_key, kvf_schema_context_params,
    kvf_schema_segment, kvf_schema_pool_layout;

/* The schema of a message type; NULL for a type we do not know. */
const struct kvf_schema *kvf_message_schema(uint32_t type);

/* Entries of the field in this record: of an array its length, else 0 or 1. */
size_t kvf_field_count(const struct kvf_field *field, const void *record);
/* Entry i of a text or record field. */
const char *kvf_field_text(const struct kvf_field *field, const void *record, size_t i);
const void *kvf_field_record(const struct kvf_field *field, const void *record, size_t i);
/* The elements of a scalar array, the bytes of a blob or digest. */
const uint8_t *kvf_field_bytes(const struct kvf_field *field, const void *record,
                               size_t *out_n);

/* ---- writer.c
 *
 * Back to front: when the length prefix of a nested record is due, its bytes are already
 * there, so one pass needs neither scratch memory nor remembered sizes. */
struct kvf_writer {
    uint8_t *end; /* borrows; bytes go below it. NULL: only count and check limits */
    size_t n;     /* bytes so far */
};
/* Returns a static sentence (the record may not be sent; only when counting) or NULL. */
const char *kvf_schema_write(const struct kvf_schema *schema, const void *record,
                             struct kvf_writer *writer);

/* ---- reader.c
 *
 * protobuf-c unpacks into the arena, then the rows are checked and copied into *out
 * (schema->n_bytes). Statuses as kvf_message_decode(). */
enum kvf_status KVF_MUST_CHECK kvf_schema_read(const struct kvf_schema *schema,
                                               const uint8_t *bytes, size_t n,
                                               struct kvf_arena *arena, void *out,
                                               const char **out_detail);

/* ---- equal.c */
bool kvf_schema_equal(const struct kvf_schema *schema, const void *a, const void *b);

/* ---- text.c */
/* Well-formed UTF-8 (RFC 3629) without NUL. */
bool kvf_text_is_valid(const char *text, size_t n_bytes);

#endif
