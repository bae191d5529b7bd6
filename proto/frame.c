/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The 32 header bytes, field by field: nothing is overlaid on a struct, so neither the
 * compiler's padding nor the host's byte order reaches the wire. A header is judged as
 * early as its bytes allow: a stranger who speaks HTTP is told so after one byte, and an
 * announced length never reserves anything. Pure functions; any thread.
 */
#include "proto/frame.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "base/crc.h"

/* Offsets in the header. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_TYPE = 6,
    AT_LENGTH = 8,
    AT_CRC = 12,
    AT_SESSION_TAG = 16,
    AT_SEQUENCE = 24,
    AT_PAYLOAD = 32
};
_Static_assert(AT_PAYLOAD == KVF_FRAME_HEADER_BYTES, "the header is 32 bytes");

static uint16_t load16(const uint8_t *at)
{
    uint16_t wire;
    memcpy(&wire, at, sizeof(wire));
    return le16toh(wire);
}

static uint32_t load32(const uint8_t *at)
{
    uint32_t wire;
    memcpy(&wire, at, sizeof(wire));
    return le32toh(wire);
}

static uint64_t load64(const uint8_t *at)
{
    uint64_t wire;
    memcpy(&wire, at, sizeof(wire));
    return le64toh(wire);
}

static void store16(uint8_t *at, uint16_t value)
{
    uint16_t wire = htole16(value);
    memcpy(at, &wire, sizeof(wire));
}

static void store32(uint8_t *at, uint32_t value)
{
    uint32_t wire = htole32(value);
    memcpy(at, &wire, sizeof(wire));
}

static void store64(uint8_t *at, uint64_t value)
{
    uint64_t wire = htole64(value);
    memcpy(at, &wire, sizeof(wire));
}

/* Over header and payload, the CRC's own field read as zero. */
static uint32_t frame_crc(const uint8_t *bytes, uint32_t length)
{
    static const uint8_t zero[4];
    uint32_t crc = kvf_crc32c(0, bytes, AT_CRC);
    crc = kvf_crc32c(crc, zero, sizeof(zero));
    return kvf_crc32c(crc, bytes + AT_SESSION_TAG,
                      KVF_FRAME_HEADER_BYTES - AT_SESSION_TAG + (size_t)length);
}

static bool starts_like_a_frame(const uint8_t *bytes, size_t n)
{
    uint8_t magic[4];
    store32(magic, KVF_FRAME_MAGIC);
    return n == 0 || memcmp(bytes, magic, n < sizeof(magic) ? n : sizeof(magic)) == 0;
}

/* What a whole header says; payload and CRC are not looked at. */
static enum kvf_status read_header(const uint8_t *bytes, uint32_t max_payload,
                                   struct kvf_frame *out, const char **out_detail)
{
    *out = (struct kvf_frame){
        .version = load16(bytes + AT_VERSION),
        .type = load16(bytes + AT_TYPE),
        .length = load32(bytes + AT_LENGTH),
        .session_tag = load64(bytes + AT_SESSION_TAG),
        .sequence = load64(bytes + AT_SEQUENCE),
        .payload = bytes + AT_PAYLOAD,
    };
    if (out->version != KVF_FRAME_VERSION) {
        *out_detail = "frame version is not 1";
        return KVF_VERSION;
    }
    if (out->length > max_payload) {
        *out_detail = "frame is longer than allowed on this connection";
        return KVF_PROTOCOL;
    }
    return KVF_OK;
}

enum kvf_status kvf_frame_parse(const uint8_t *bytes, size_t n, uint32_t max_payload,
                                struct kvf_frame *out, const char **out_detail)
{
    if (!starts_like_a_frame(bytes, n)) {
        *out_detail = "bytes do not start with the frame magic KVF1";
        return KVF_PROTOCOL;
    }
    if (n < KVF_FRAME_HEADER_BYTES) {
        return KVF_IN_PROGRESS;
    }
    struct kvf_frame frame;
    enum kvf_status status = read_header(bytes, max_payload, &frame, out_detail);
    if (status != KVF_OK) {
        return status;
    }
    if (n - KVF_FRAME_HEADER_BYTES < frame.length) {
        return KVF_IN_PROGRESS;
    }
    if (load32(bytes + AT_CRC) != frame_crc(bytes, frame.length)) {
        *out_detail = "frame checksum differs";
        return KVF_PROTOCOL;
    }
    *out = frame;
    return KVF_OK;
}

void kvf_frame_seal(uint8_t *bytes, uint16_t type, uint32_t length, uint64_t session_tag,
                    uint64_t sequence)
{
    store32(bytes + AT_MAGIC, KVF_FRAME_MAGIC);
    store16(bytes + AT_VERSION, KVF_FRAME_VERSION);
    store16(bytes + AT_TYPE, type);
    store32(bytes + AT_LENGTH, length);
    store64(bytes + AT_SESSION_TAG, session_tag);
    store64(bytes + AT_SEQUENCE, sequence);
    store32(bytes + AT_CRC, frame_crc(bytes, length));
}
