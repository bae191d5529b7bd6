/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes on the data port: a greeting and a chunk header. What is accepted lies within the
 * limits and is written back as the same bytes.
 */
#include <assert.h>
#include <string.h>

#include "base/crc.h"
#include "service/tcp.h"
#include "tests/fuzz/fuzz.h"

static void check_header(const uint8_t *bytes, size_t n)
{
    struct kvf_chunk_header header;
    if (kvf_chunk_header_read(bytes, n, &header) != KVF_OK) {
        return;
    }
    uint8_t again[KVF_CHUNK_HEADER_BYTES];
    assert(header.length >= 1 && header.length <= KVF_CHUNK_LENGTH_MAX);
    assert(header.offset <= UINT64_MAX - header.length);
    kvf_chunk_header_write(&header, again);
    assert(memcmp(again, bytes, sizeof(again)) == 0);
}

/* The input as it is, and with a CRC that fits, which a mutation rarely finds. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const uint8_t *token;
    if (n >= KVF_TCP_GREETING_BYTES && kvf_tcp_greeting_read(bytes, &token) == KVF_OK) {
        uint8_t again[KVF_TCP_GREETING_BYTES];
        kvf_tcp_greeting_write(token, again);
        assert(memcmp(again, bytes, sizeof(again)) == 0);
    }
    check_header(bytes, n);
    if (n == KVF_CHUNK_HEADER_BYTES) {
        uint8_t sealed[KVF_CHUNK_HEADER_BYTES];
        memcpy(sealed, bytes, sizeof(sealed));
        uint32_t crc = kvf_crc32c(0, sealed, sizeof(sealed) - 4);
        for (size_t i = 0; i < 4; i++) {
            sealed[sizeof(sealed) - 4 + i] = (uint8_t)(crc >> (8 * i));
        }
        check_header(sealed, sizeof(sealed));
    }
    return 0;
}
