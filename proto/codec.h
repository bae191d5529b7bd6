/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to proto/: how plain structs become protobuf-c objects and back. An encoder
 * builds objects in scratch memory on the caller's stack (heap only for the rare large
 * message), a decoder in the caller's arena. Both stop at the first field that breaks a
 * limit and name it. Pure functions over memory.
 */
#ifndef KVF_PROTO_CODEC_H
#define KVF_PROTO_CODEC_H

#include "kvferry.pb-c.h"
#include "message.h"

#define KVF_SCRATCH_BYTES 32768u

struct kvf_encoder {
    struct kvf_arena spill; /* owns; when the stack part is full */
    const char *bad;        /* name of the field over its limit, NULL: none */
    size_t used;
    _Alignas(16) uint8_t bytes[KVF_SCRATCH_BYTES];
};
struct kvf_decoder {
    struct kvf_arena *arena; /* borrows */
    const char *bad;         /* name of the offending field, NULL: none */
    bool is_out_of_memory;
};

void *kvf_encoder_alloc(struct kvf_encoder *encoder, size_t n, size_t size);
/* Text and arrays are borrowed, not copied; a limit of 0 means none. */
char *kvf_put_text(struct kvf_encoder *encoder, const char *text, size_t max,
                   const char *field);
ProtobufCBinaryData kvf_put_bytes(const uint8_t *bytes, size_t n);
/* Notes the field when n > max. */
void kvf_put_limit(struct kvf_encoder *encoder, size_t n, size_t max, const char *field);

void *kvf_decoder_alloc(struct kvf_decoder *decoder, size_t n, size_t size);
/* Valid UTF-8 of at most max bytes; NULL becomes "". */
const char *kvf_get_text(struct kvf_decoder *decoder, const char *text, size_t max,
                         const char *field);
/* Exactly n bytes. */
void kvf_get_exact(struct kvf_decoder *decoder, const ProtobufCBinaryData *data,
                   uint8_t *out, size_t n, const char *field);
/* 0 or 16 bytes; true when there. */
bool kvf_get_trace(struct kvf_decoder *decoder, const ProtobufCBinaryData *data,
                   uint8_t out[16]);
bool kvf_get_limit(struct kvf_decoder *decoder, size_t n, size_t max, const char *field);

/* state_codec.c */
Kvferry__CacheState *kvf_put_cache_state(struct kvf_encoder *encoder,
                                         const struct kvf_cache_state *state);
Kvferry__CommState *kvf_put_comm_state(struct kvf_encoder *encoder,
                                       const struct kvf_comm_state *state);
Kvferry__DataTransceiverState *kvf_put_state(struct kvf_encoder *encoder,
                                             const struct kvf_transceiver_state *state);
Kvferry__BlockKey *kvf_put_block_key(struct kvf_encoder *encoder,
                                     const struct kvf_block_key *key);
Kvferry__PoolLayout *kvf_put_layout(struct kvf_encoder *encoder,
                                    const struct kvf_pool_layout *layout);
Kvferry__ContextPhaseParams *kvf_put_params(struct kvf_encoder *encoder,
                                            const struct kvf_context_params *params);
void kvf_get_cache_state(struct kvf_decoder *decoder, const Kvferry__CacheState *wire,
                         struct kvf_cache_state *out);
void kvf_get_comm_state(struct kvf_decoder *decoder, const Kvferry__CommState *wire,
                        struct kvf_comm_state *out);
void kvf_get_state(struct kvf_decoder *decoder, const Kvferry__DataTransceiverState *wire,
                   struct kvf_transceiver_state *out);
void kvf_get_block_key(struct kvf_decoder *decoder, const Kvferry__BlockKey *wire,
                       struct kvf_block_key *out);
void kvf_get_layout(struct kvf_decoder *decoder, const Kvferry__PoolLayout *wire,
                    struct kvf_pool_layout *out);
void kvf_get_params(struct kvf_decoder *decoder, const Kvferry__ContextPhaseParams *wire,
                    struct kvf_context_params *out);

/* One row per message type; the tables are in peer_codec.c and engine_codec.c. */
struct kvf_codec {
    enum kvf_message_type type;
    const char *name;
    const ProtobufCMessageDescriptor *descriptor;
    ProtobufCMessage *(*put)(struct kvf_encoder *encoder,
                             const struct kvf_message *message);
    void (*get)(struct kvf_decoder *decoder, const ProtobufCMessage *wire,
                struct kvf_message *out);
};
extern const struct kvf_codec kvf_peer_codecs[];
extern const size_t kvf_n_peer_codecs;
extern const struct kvf_codec kvf_engine_codecs[];
extern const size_t kvf_n_engine_codecs;

/* protobuf-c's allocator over an arena; frees nothing. */
ProtobufCAllocator kvf_arena_allocator(struct kvf_arena *arena);

#endif
