/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame headers, field by field in little-endian. The length is judged before anything is
 * allocated or waited for, the checksum before anything is decoded.
 */
#include "proto/frame.h"

#include <string.h>

#include "base/crc.h"

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_LENGTH = 8,
    AT_CRC = 12,
    AT_TAG = 16,
    AT_SEQUENCE = 24
};
_Static_assert(AT_SEQUENCE + 8 == KVF_FRAME_HEADER_BYTES, "header layout");

static void write_le(uint8_t *out, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t read_le(const uint8_t *in, size_t n)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}

static uint32_t checksum(const uint8_t *bytes, uint32_t length)
{
    uint8_t header[KVF_FRAME_HEADER_BYTES];
    memcpy(header, bytes, sizeof(header));
    memset(header + AT_CRC, 0, 4);
    uint32_t crc = kvf_crc32c(0, header, sizeof(header));
    return kvf_crc32c(crc, bytes + KVF_FRAME_HEADER_BYTES, length);
}

enum kvf_status kvf_frame_parse(const uint8_t *bytes, size_t n, uint32_t max_payload,
                                struct kvf_frame *out, const char **out_detail)
{
    /* Foreign protocols are recognised by their first four bytes, not by a stall. */
    if (n >= 4 && read_le(bytes + AT_MAGIC, 4) != KVF_FRAME_MAGIC) {
        *out_detail = "not a kvferry frame: wrong magic";
        return KVF_PROTOCOL;
    }
    if (n < KVF_FRAME_HEADER_BYTES) {
        return KVF_IN_PROGRESS;
    }
    uint16_t version = (uint16_t)read_le(bytes + AT_VERSION, 2);
    if (version != KVF_FRAME_VERSION) {
        *out_detail = "frame version is not 1";
        return KVF_VERSION;
    }
    uint32_t length = (uint32_t)read_le(bytes + AT_LENGTH, 4);
    if (length > max_payload) {
        *out_detail = "frame length over the limit";
        return KVF_PROTOCOL;
    }
    if (n - KVF_FRAME_HEADER_BYTES < length) {
        return KVF_IN_PROGRESS;
    }
    if (checksum(bytes, length) != (uint32_t)read_le(bytes + AT_CRC, 4)) {
        *out_detail = "frame checksum differs";
        return KVF_PROTOCOL;
    }
    *out = (struct kvf_frame){
        .version = version,
        .type = (uint16_t)read_le(bytes + AT_TYPE, 2),
        .length = length,
        .session_tag = read_le(bytes + AT_TAG, 8),
        .sequence = read_le(bytes + AT_SEQUENCE, 8),
        .payload = bytes + KVF_FRAME_HEADER_BYTES,
    };
    return KVF_OK;
}

void kvf_frame_seal(uint8_t *bytes, uint16_t type, uint32_t length, uint64_t session_tag,
                    uint64_t sequence)
{
    write_le(bytes + AT_MAGIC, KVF_FRAME_MAGIC, 4);
    write_le(bytes + AT_VERSION, KVF_FRAME_VERSION, 2);
    write_le(bytes + AT_TYPE, type, 2);
    write_le(bytes + AT_LENGTH, length, 4);
    write_le(bytes + AT_TAG, session_tag, 8);
    write_le(bytes + AT_SEQUENCE, sequence, 8);
    write_le(bytes + AT_CRC, checksum(bytes, length), 4);
}
