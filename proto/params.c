/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Context params and comm states as opaque blobs for routers that carry them from one
 * engine to another: 16 bytes of magic, version, length and CRC32C, then protobuf. A
 * router that cuts, re-encodes or mixes up blobs is found out before protobuf looks at
 * them. Any thread.
 */
#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "proto/schema.h"

#define ENVELOPE_VERSION 1u
#define ENVELOPE_BYTES   16u

/* All four are little-endian on the wire; the CRC covers the three before it and the
 * payload. */
struct envelope {
    uint32_t magic, version, length, crc;
};
_Static_assert(sizeof(struct envelope) == ENVELOPE_BYTES, "envelope without padding");

struct blob_kind {
    uint32_t magic;
    const struct kvf_schema *schema;
};
static const struct blob_kind params_blob = {0x5046564bu, /* "KVFP" */
                                             &kvf_schema_context_params};
static const struct blob_kind comm_state_blob = {0x4346564bu, /* "KVFC" */
                                                 &kvf_schema_comm_state};

static uint32_t envelope_crc(const uint8_t *bytes, size_t n_payload)
{
    uint32_t crc = kvf_crc32c(0, bytes, offsetof(struct envelope, crc));
    return kvf_crc32c(crc, bytes + ENVELOPE_BYTES, n_payload);
}

static enum kvf_status seal(const struct blob_kind *kind, const void *record,
                            uint8_t *bytes, size_t *n)
{
    struct kvf_writer counter = {.end = NULL};
    if (kvf_schema_write(kind->schema, record, &counter) != NULL ||
        counter.n > KVF_PARAMS_MAX - ENVELOPE_BYTES) {
        return KVF_INVALID_ARGUMENT;
    }
    size_t total = ENVELOPE_BYTES + counter.n;
    size_t capacity = *n;
    *n = total;
    if (capacity < total) {
        return KVF_BUFFER_TOO_SMALL;
    }
    struct kvf_writer writer = {.end = bytes + total};
    const char *refusal = kvf_schema_write(kind->schema, record, &writer);
    assert(refusal == NULL && writer.n == counter.n);
    (void)refusal; /* only counting refuses */
    struct envelope envelope = {
        .magic = htole32(kind->magic),
        .version = htole32(ENVELOPE_VERSION),
        .length = htole32((uint32_t)counter.n),
    };
    memcpy(bytes, &envelope, sizeof(envelope));
    envelope.crc = htole32(envelope_crc(bytes, counter.n));
    memcpy(bytes, &envelope, sizeof(envelope));
    return KVF_OK;
}

/* What is wrong with the envelope, or NULL. */
static const char *envelope_refusal(const uint8_t *bytes, size_t n, uint32_t magic)
{
    struct envelope envelope;
    if (n < ENVELOPE_BYTES || n > KVF_PARAMS_MAX) {
        return "blob is shorter than its header or too long";
    }
    memcpy(&envelope, bytes, sizeof(envelope));
    if (le32toh(envelope.magic) != magic) {
        return "blob does not start with its magic";
    }
    if (le32toh(envelope.version) != ENVELOPE_VERSION) {
        return "blob has another version";
    }
    if (le32toh(envelope.length) != n - ENVELOPE_BYTES) {
        return "blob is not as long as it says";
    }
    if (le32toh(envelope.crc) != envelope_crc(bytes, n - ENVELOPE_BYTES)) {
        return "blob checksum differs";
    }
    return NULL;
}

static enum kvf_status unseal(const struct blob_kind *kind, const uint8_t *bytes,
                              size_t n, struct kvf_arena *arena, void *out,
                              const char **out_detail)
{
    const char *refusal = envelope_refusal(bytes, n, kind->magic);
    if (refusal != NULL) {
        *out_detail = refusal;
        return KVF_BAD_PARAMS;
    }
    enum kvf_status status = kvf_schema_read(kind->schema, bytes + ENVELOPE_BYTES,
                                             n - ENVELOPE_BYTES, arena, out, out_detail);
    return status == KVF_PROTOCOL ? KVF_BAD_PARAMS : status;
}

enum kvf_status kvf_context_params_encode(const struct kvf_context_params *p,
                                          uint8_t *bytes, size_t *n)
{
    return seal(&params_blob, p, bytes, n);
}

enum kvf_status kvf_context_params_decode(const uint8_t *bytes, size_t n,
                                          struct kvf_arena *arena,
                                          struct kvf_context_params *out,
                                          const char **out_detail)
{
    return unseal(&params_blob, bytes, n, arena, out, out_detail);
}

enum kvf_status kvf_comm_state_encode(const struct kvf_comm_state *state, uint8_t *bytes,
                                      size_t *n)
{
    return seal(&comm_state_blob, state, bytes, n);
}

enum kvf_status kvf_comm_state_decode(const uint8_t *bytes, size_t n,
                                      struct kvf_arena *arena, struct kvf_comm_state *out,
                                      const char **out_detail)
{
    return unseal(&comm_state_blob, bytes, n, arena, out, out_detail);
}

/* Appends text at *length, cut so that the NUL still fits. */
static void append(char *out, size_t out_bytes, size_t *length, const char *text)
{
    size_t room = out_bytes - *length;
    int n = snprintf(out + *length, room, "%s", text);
    if (n > 0) {
        *length += (size_t)n < room ? (size_t)n : room - 1;
    }
}

void kvf_comm_state_format(const struct kvf_comm_state *state, char *out,
                           size_t out_bytes)
{
    size_t length = 0;
    if (out_bytes == 0) {
        return;
    }
    append(out, out_bytes, &length, "kvferry:");
    append(out, out_bytes, &length, state->instance != NULL ? state->instance : "");
    append(out, out_bytes, &length, "[");
    for (size_t i = 0; i < state->n_nodes; i++) {
        append(out, out_bytes, &length, i > 0 ? "," : "");
        append(out, out_bytes, &length, state->node_names[i]);
    }
    append(out, out_bytes, &length, "]");
}
