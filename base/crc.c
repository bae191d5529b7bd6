/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC32C over ISA-L, which picks the instruction set at run time. This is the one file
 * that knows ISA-L's conventions: its crc32_iscsi works on the bare register (neither
 * inverted before nor after), takes an int length and a buffer that is not const.
 *
 * Not a cryptographic check: it catches damage, not intent. Any thread.
 */
#include "base/crc.h"

#include <limits.h>

#include <isa-l/crc.h>

/* Pieces stay 64-byte multiples so that only the last one runs ISA-L's tail code. */
#define PIECE_MAX_BYTES ((size_t)INT_MAX & ~(size_t)63)

uint32_t kvf_crc32c(uint32_t crc, const void *bytes, size_t n_bytes)
{
    /* ISA-L only reads; the cast through uintptr_t is for its missing const. */
    unsigned char *next = (unsigned char *)(uintptr_t)bytes;
    uint32_t bare = ~crc;
    while (n_bytes > 0) {
        size_t piece = n_bytes < PIECE_MAX_BYTES ? n_bytes : PIECE_MAX_BYTES;
        bare = crc32_iscsi(next, (int)piece, bare);
        next += piece;
        n_bytes -= piece;
    }
    return ~bare;
}
