/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the envelope of every message on control TCP and on the engine socket. 32
 * bytes, little-endian: magic "KVF1" | version u16 | type u16 | length u32 | crc32c u32 |
 * session tag u64 | sequence u64, then `length` bytes of protobuf. The CRC covers the
 * header with its own field zero, and the payload. Pure functions over bytes; no socket
 * here.
 */
#ifndef KVF_PROTO_FRAME_H
#define KVF_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#define KVF_FRAME_MAGIC        0x3146564bu /* "KVF1" */
#define KVF_FRAME_VERSION      1
#define KVF_FRAME_HEADER_BYTES 32u
/* Longest payload before and after the other side proved who it is. Engines send block
 * tables of up to 2^20 ids, so their cap is higher. */
#define KVF_FRAME_MAX_UNPROVEN 4096u
#define KVF_FRAME_MAX_PEER     (1u << 20)
#define KVF_FRAME_MAX_ENGINE   (16u << 20)

struct kvf_frame {
    uint16_t version;
    uint16_t type; /* enum kvf_message_type, possibly one we do not know */
    uint32_t length;
    uint64_t session_tag;
    uint64_t sequence;
    const uint8_t *payload; /* borrows from the input buffer */
};

/*
 * Looks at the front of bytes[n]. KVF_OK: *out is a whole, checked frame of
 * KVF_FRAME_HEADER_BYTES + length bytes. KVF_IN_PROGRESS: more bytes are needed. Errors
 * close the connection: PROTOCOL (magic, length over max_payload, CRC), VERSION. The
 * length is judged as soon as the header is there, before any payload. *out_detail
 * (static sentence) says what was wrong.
 */
enum kvf_status KVF_MUST_CHECK kvf_frame_parse(const uint8_t *bytes, size_t n,
                                               uint32_t max_payload,
                                               struct kvf_frame *out,
                                               const char **out_detail);

/* Fills in the 32 header bytes before `length` payload bytes that follow at bytes + 32.
 */
void kvf_frame_seal(uint8_t *bytes, uint16_t type, uint32_t length, uint64_t session_tag,
                    uint64_t sequence);

#endif
