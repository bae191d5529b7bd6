/* SPDX-License-Identifier: Apache-2.0 */
/* Message types to codecs, and the frame around what they pack. */
#include "proto/message.h"

#include <string.h>

#include "proto/codec.h"
#include "proto/frame.h"

static const struct kvf_codec *find(uint32_t type)
{
    for (size_t i = 0; i < kvf_n_peer_codecs; i++) {
        if ((uint32_t)kvf_peer_codecs[i].type == type) {
            return &kvf_peer_codecs[i];
        }
    }
    for (size_t i = 0; i < kvf_n_engine_codecs; i++) {
        if ((uint32_t)kvf_engine_codecs[i].type == type) {
            return &kvf_engine_codecs[i];
        }
    }
    return NULL;
}

const char *kvf_message_name(uint32_t type)
{
    const struct kvf_codec *codec = find(type);
    return codec != NULL ? codec->name : "?";
}

bool kvf_message_type_is_known(uint32_t type)
{
    return find(type) != NULL;
}

/* The bytes of the scratch are not cleared as a whole: 32 KiB per frame would be felt. */
static void encoder_init(struct kvf_encoder *encoder)
{
    encoder->bad = NULL;
    encoder->used = 0;
    kvf_arena_init(&encoder->spill, 1u << 30);
}

static enum kvf_status put(struct kvf_encoder *encoder, const struct kvf_message *message,
                           ProtobufCMessage **out_wire)
{
    const struct kvf_codec *codec = find((uint32_t)message->type);
    if (codec == NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    *out_wire = codec->put(encoder, message);
    if (encoder->bad != NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    return *out_wire != NULL ? KVF_OK : KVF_NO_MEMORY;
}

static enum kvf_status append(const ProtobufCMessage *wire, uint16_t type,
                              uint64_t session_tag, uint64_t sequence,
                              struct kvf_buf *out)
{
    size_t length = protobuf_c_message_get_packed_size(wire);
    if (length > KVF_FRAME_MAX_ENGINE) {
        return KVF_INVALID_ARGUMENT;
    }
    size_t n_bytes = KVF_FRAME_HEADER_BYTES + length;
    uint8_t *frame = kvf_buf_reserve(out, n_bytes);
    if (frame == NULL) {
        return KVF_BUSY;
    }
    (void)protobuf_c_message_pack(wire, frame + KVF_FRAME_HEADER_BYTES); /* == length */
    kvf_frame_seal(frame, type, (uint32_t)length, session_tag, sequence);
    kvf_buf_commit(out, n_bytes);
    return KVF_OK;
}

enum kvf_status kvf_message_encode(const struct kvf_message *message,
                                   uint64_t session_tag, uint64_t sequence,
                                   struct kvf_buf *out)
{
    struct kvf_encoder encoder;
    ProtobufCMessage *wire = NULL;
    encoder_init(&encoder);
    enum kvf_status status = put(&encoder, message, &wire);
    if (status == KVF_OK) {
        status = append(wire, (uint16_t)message->type, session_tag, sequence, out);
    }
    kvf_arena_fini(&encoder.spill);
    return status;
}

size_t kvf_message_size(const struct kvf_message *message)
{
    struct kvf_encoder encoder;
    ProtobufCMessage *wire = NULL;
    encoder_init(&encoder);
    enum kvf_status status = put(&encoder, message, &wire);
    size_t n_bytes = status == KVF_OK ? protobuf_c_message_get_packed_size(wire) : 0;
    kvf_arena_fini(&encoder.spill);
    return n_bytes;
}

enum kvf_status kvf_message_decode(uint32_t type, const uint8_t *payload, size_t n,
                                   struct kvf_arena *arena, struct kvf_message *out,
                                   const char **out_detail)
{
    const struct kvf_codec *codec = find(type);
    if (codec == NULL) {
        *out_detail = "unknown message type";
        return KVF_PROTOCOL;
    }
    ProtobufCAllocator allocator = kvf_arena_allocator(arena);
    ProtobufCMessage *wire =
        protobuf_c_message_unpack(codec->descriptor, &allocator, n, payload);
    if (wire == NULL) {
        *out_detail = "not valid protobuf for its type, or it needs too much memory";
        return KVF_PROTOCOL;
    }
    struct kvf_decoder decoder = {.arena = arena};
    struct kvf_message message;
    memset(&message, 0, sizeof(message));
    message.type = codec->type;
    codec->get(&decoder, wire, &message);
    if (decoder.bad != NULL) {
        *out_detail = decoder.bad;
        return KVF_PROTOCOL;
    }
    if (decoder.is_out_of_memory) {
        *out_detail = "the message needs too much memory for its length";
        return KVF_NO_MEMORY;
    }
    *out = message;
    return KVF_OK;
}
