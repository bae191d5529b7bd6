/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunk header on the wire, the same for every transport: 72 bytes, little-endian,
 * written field by field. It ends with a CRC32C of the bytes before it, so that a damaged
 * or foreign header never picks a landing place; it does not protect the payload (that is
 * the digest's job) and authenticates nobody. Pure functions, any thread.
 */
#include <string.h>

#include "base/crc.h"
#include "service/transport.h"

#define CHUNK_MAGIC   0x4346564bu /* "KVFC" in memory order */
#define CHUNK_VERSION 1u

/* Offsets of the fields. */
enum {
    AT_MAGIC = 0,
    AT_VERSION = 4,
    AT_HEADER_BYTES = 6,
    AT_TOKEN = 8,
    AT_SESSION = 24,
    AT_LEASE = 32,
    AT_SEGMENT = 40,
    AT_ENDPOINT = 44,
    AT_OFFSET = 48,
    AT_LENGTH = 56,
    AT_FLAGS = 60,
    AT_DIGEST = 64,
    AT_CRC = 68
};
_Static_assert(AT_CRC + 4 == KVF_CHUNK_HEADER_BYTES, "the CRC is the last field");

static void put_le(uint8_t *out, uint64_t value, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get_le(const uint8_t *bytes, size_t n_bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        value |= (uint64_t)bytes[i] << (8 * i);
    }
    return value;
}

static uint32_t get_le32(const uint8_t *bytes)
{
    return (uint32_t)get_le(bytes, 4);
}

void kvf_chunk_header_write(const struct kvf_chunk_header *header,
                            uint8_t out[KVF_CHUNK_HEADER_BYTES])
{
    put_le(out + AT_MAGIC, CHUNK_MAGIC, 4);
    put_le(out + AT_VERSION, CHUNK_VERSION, 2);
    put_le(out + AT_HEADER_BYTES, KVF_CHUNK_HEADER_BYTES, 2);
    memcpy(out + AT_TOKEN, header->token, KVF_DATA_TOKEN_BYTES);
    put_le(out + AT_SESSION, header->receiver_session, 8);
    put_le(out + AT_LEASE, header->lease_generation, 8);
    put_le(out + AT_SEGMENT, header->segment, 4);
    put_le(out + AT_ENDPOINT, header->endpoint_generation, 4);
    put_le(out + AT_OFFSET, header->offset, 8);
    put_le(out + AT_LENGTH, header->length, 4);
    put_le(out + AT_FLAGS, header->flags, 4);
    put_le(out + AT_DIGEST, header->digest, 4);
    put_le(out + AT_CRC, kvf_crc32c(0, out, AT_CRC), 4);
}

static bool is_plausible(const struct kvf_chunk_header *header)
{
    return header->length >= 1 && header->length <= KVF_CHUNK_LENGTH_MAX &&
           header->offset <= UINT64_MAX - header->length &&
           (header->flags & ~KVF_CHUNK_HAS_DIGEST) == 0;
}

enum kvf_status kvf_chunk_header_read(const uint8_t *bytes, size_t n,
                                      struct kvf_chunk_header *out)
{
    if (n != KVF_CHUNK_HEADER_BYTES || get_le32(bytes + AT_MAGIC) != CHUNK_MAGIC ||
        get_le(bytes + AT_VERSION, 2) != CHUNK_VERSION ||
        get_le(bytes + AT_HEADER_BYTES, 2) != KVF_CHUNK_HEADER_BYTES ||
        get_le32(bytes + AT_CRC) != kvf_crc32c(0, bytes, AT_CRC)) {
        return KVF_PROTOCOL;
    }
    struct kvf_chunk_header header = {
        .receiver_session = get_le(bytes + AT_SESSION, 8),
        .lease_generation = get_le(bytes + AT_LEASE, 8),
        .segment = get_le32(bytes + AT_SEGMENT),
        .endpoint_generation = get_le32(bytes + AT_ENDPOINT),
        .offset = get_le(bytes + AT_OFFSET, 8),
        .length = get_le32(bytes + AT_LENGTH),
        .flags = get_le32(bytes + AT_FLAGS),
        .digest = get_le32(bytes + AT_DIGEST),
    };
    memcpy(header.token, bytes + AT_TOKEN, KVF_DATA_TOKEN_BYTES);
    if (!is_plausible(&header)) {
        return KVF_PROTOCOL;
    }
    *out = header;
    return KVF_OK;
}

bool kvf_chunk_op_is_sound(const struct kvf_chunk_op *op, const uint8_t *memory,
                           size_t n_bytes, bool is_contiguous, uint64_t length)
{
    uint64_t sum = 0;
    if (op->n_spans < 1 || op->n_spans > (is_contiguous ? 1 : KVF_SPANS_MAX)) {
        return false;
    }
    for (size_t i = 0; i < op->n_spans; i++) {
        const uint8_t *first = op->spans[i].iov_base;
        size_t n = op->spans[i].iov_len;
        if (n == 0 || first < memory || n > n_bytes || first > memory + (n_bytes - n)) {
            return false;
        }
        sum += n;
    }
    return sum == length;
}
