/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blobs that leave us: context params on their way through a router, comm states in an
 * engine's hands. 16 bytes in front (magic, version, length, CRC32C of the rest) tell a
 * damaged or foreign blob from ours before anything is decoded.
 */
#include <string.h>

#include "base/crc.h"
#include "proto/codec.h"

#define KVF_BLOB_HEADER_BYTES 16u
#define KVF_BLOB_VERSION      1u
#define KVF_BLOB_MAX_BYTES    65536u
#define KVF_PARAMS_MAGIC      0x5046564bu /* "KVFP" */
#define KVF_COMM_MAGIC        0x4346564bu /* "KVFC" */

static void write_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint32_t read_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 |
           (uint32_t)in[3] << 24;
}

static enum kvf_status pack_blob(const ProtobufCMessage *wire, uint32_t magic,
                                 uint8_t *bytes, size_t *n)
{
    size_t length = protobuf_c_message_get_packed_size(wire);
    size_t need = KVF_BLOB_HEADER_BYTES + length;
    if (need > KVF_BLOB_MAX_BYTES) {
        return KVF_INVALID_ARGUMENT;
    }
    if (bytes == NULL || *n < need) {
        *n = need;
        return KVF_BUFFER_TOO_SMALL;
    }
    write_u32(bytes, magic);
    write_u32(bytes + 4, KVF_BLOB_VERSION);
    write_u32(bytes + 8, (uint32_t)length);
    (void)protobuf_c_message_pack(wire, bytes + KVF_BLOB_HEADER_BYTES); /* == length */
    write_u32(bytes + 12, kvf_crc32c(0, bytes + KVF_BLOB_HEADER_BYTES, length));
    *n = need;
    return KVF_OK;
}

static enum kvf_status check_blob(const uint8_t *bytes, size_t n, uint32_t magic,
                                  const char **out_detail)
{
    if (bytes == NULL || n < KVF_BLOB_HEADER_BYTES || read_u32(bytes) != magic) {
        *out_detail = "these bytes do not come from kvferry";
    } else if (read_u32(bytes + 4) != KVF_BLOB_VERSION) {
        *out_detail = "they come from an incompatible kvferry release";
    } else if (read_u32(bytes + 8) != n - KVF_BLOB_HEADER_BYTES) {
        *out_detail = "bytes are missing or were added on the way";
    } else if (read_u32(bytes + 12) !=
               kvf_crc32c(0, bytes + KVF_BLOB_HEADER_BYTES, n - KVF_BLOB_HEADER_BYTES)) {
        *out_detail = "bytes were changed on the way";
    } else {
        return KVF_OK;
    }
    return KVF_BAD_PARAMS;
}

static enum kvf_status verdict(const struct kvf_decoder *decoder, const char **out_detail)
{
    if (decoder->bad != NULL) {
        *out_detail = decoder->bad;
        return KVF_BAD_PARAMS;
    }
    if (decoder->is_out_of_memory) {
        *out_detail = "out of memory";
        return KVF_NO_MEMORY;
    }
    return KVF_OK;
}

enum kvf_status kvf_context_params_encode(const struct kvf_context_params *params,
                                          uint8_t *bytes, size_t *n)
{
    struct kvf_encoder encoder;
    encoder.bad = NULL;
    encoder.used = 0;
    kvf_arena_init(&encoder.spill, 1u << 24);
    Kvferry__ContextPhaseParams *wire = kvf_put_params(&encoder, params);
    enum kvf_status status = encoder.bad != NULL ? KVF_INVALID_ARGUMENT
                             : wire == NULL      ? KVF_NO_MEMORY
                                                 : KVF_OK;
    if (status == KVF_OK) {
        status = pack_blob(&wire->base, KVF_PARAMS_MAGIC, bytes, n);
    }
    kvf_arena_fini(&encoder.spill);
    return status;
}

enum kvf_status kvf_context_params_decode(const uint8_t *bytes, size_t n,
                                          struct kvf_arena *arena,
                                          struct kvf_context_params *out,
                                          const char **out_detail)
{
    enum kvf_status status = check_blob(bytes, n, KVF_PARAMS_MAGIC, out_detail);
    if (status != KVF_OK) {
        return status;
    }
    ProtobufCAllocator allocator = kvf_arena_allocator(arena);
    Kvferry__ContextPhaseParams *wire = kvferry__context_phase_params__unpack(
        &allocator, n - KVF_BLOB_HEADER_BYTES, bytes + KVF_BLOB_HEADER_BYTES);
    if (wire == NULL) {
        *out_detail = "they cannot be decoded";
        return KVF_BAD_PARAMS;
    }
    struct kvf_decoder decoder = {.arena = arena};
    struct kvf_context_params params;
    memset(&params, 0, sizeof(params));
    kvf_get_params(&decoder, wire, &params);
    status = verdict(&decoder, out_detail);
    if (status == KVF_OK) {
        *out = params;
    }
    return status;
}

enum kvf_status kvf_comm_state_encode(const struct kvf_comm_state *state, uint8_t *bytes,
                                      size_t *n)
{
    struct kvf_encoder encoder;
    encoder.bad = NULL;
    encoder.used = 0;
    kvf_arena_init(&encoder.spill, 1u << 24);
    Kvferry__CommState *wire = kvf_put_comm_state(&encoder, state);
    enum kvf_status status = encoder.bad != NULL ? KVF_INVALID_ARGUMENT
                             : wire == NULL      ? KVF_NO_MEMORY
                                                 : KVF_OK;
    if (status == KVF_OK) {
        status = pack_blob(&wire->base, KVF_COMM_MAGIC, bytes, n);
    }
    kvf_arena_fini(&encoder.spill);
    return status;
}

enum kvf_status kvf_comm_state_decode(const uint8_t *bytes, size_t n,
                                      struct kvf_arena *arena, struct kvf_comm_state *out,
                                      const char **out_detail)
{
    enum kvf_status status = check_blob(bytes, n, KVF_COMM_MAGIC, out_detail);
    if (status != KVF_OK) {
        return status;
    }
    ProtobufCAllocator allocator = kvf_arena_allocator(arena);
    Kvferry__CommState *wire = kvferry__comm_state__unpack(
        &allocator, n - KVF_BLOB_HEADER_BYTES, bytes + KVF_BLOB_HEADER_BYTES);
    if (wire == NULL) {
        *out_detail = "they cannot be decoded";
        return KVF_BAD_PARAMS;
    }
    struct kvf_decoder decoder = {.arena = arena};
    struct kvf_comm_state state;
    memset(&state, 0, sizeof(state));
    kvf_get_comm_state(&decoder, wire, &state);
    status = verdict(&decoder, out_detail);
    if (status == KVF_OK) {
        *out = state;
    }
    return status;
}
