/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Non-temporal stores of SSE2, which every x86-64 has. Only whole lines go past: a
 * partial one would cost a read-modify-write in the memory controller.
 *
 * Measured on an AMD EPYC (one core, 256 MiB, GB/s without -> with): pool to pool in runs
 * of 64 KiB 9 -> 13, of 4 KiB 5 -> 6, rows of 512 bytes 6.5 -> 13, of 256 6.2 -> 12; warm
 * slot to pool 14 -> 24, 6.5 -> 20, 11 -> 24, 11 -> 21. They lose into a slot that is
 * sent at once (64 KiB and digest 11 -> 8.5), with rows that are no whole lines (132
 * bytes from a slot 11 -> 5.3), and with short rows picked out of a cold pool, where
 * loads need the store buffer more (256 of every 2048 bytes 3.4 -> 2.7). Any thread.
 */
#include "plan/bypass.h"

#include <emmintrin.h>
#include <string.h>

#define LINE_BYTES 64u

static void copy_lines(char *dst, const char *src, uint64_t n_bytes)
{
    for (uint64_t at = 0; at < n_bytes; at += LINE_BYTES) {
        const __m128i *from = (const __m128i *)(const void *)(src + at);
        __m128i *to = (__m128i *)(void *)(dst + at);
        const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
        const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);

        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, d);
    }
}

void kvf_bypass_copy(char *dst, const char *src, uint64_t n_bytes)
{
    const uint64_t head = -(uintptr_t)dst % LINE_BYTES;

    if (n_bytes < head + LINE_BYTES) {
        memcpy(dst, src, n_bytes);
        return;
    }
    const uint64_t lines = (n_bytes - head) / LINE_BYTES * LINE_BYTES;
    memcpy(dst, src, head);
    copy_lines(dst + head, src + head, lines);
    memcpy(dst + head + lines, src + head + lines, n_bytes - head - lines);
}

void kvf_bypass_fence(void)
{
    _mm_sfence();
}
