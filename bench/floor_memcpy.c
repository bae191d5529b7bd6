/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floor of a local copy: memcpy of blocks from one pool to another, both in random order,
 * one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/floor.h"

static uint64_t copy_chunks(const struct floor_pool *src, const struct floor_pool *dst,
                            uint64_t n_chunks)
{
    static struct iovec from[FLOOR_SPANS_MAX], to[FLOOR_SPANS_MAX];
    uint64_t start_ns = floor_now_ns();
    for (uint64_t chunk = 0; chunk < n_chunks; chunk++) {
        size_t n = floor_spans(src, chunk, from);
        (void)floor_spans(dst, chunk, to);
        for (size_t i = 0; i < n; i++) {
            memcpy(to[i].iov_base, from[i].iov_base, from[i].iov_len);
        }
    }
    return floor_now_ns() - start_ns;
}

int main(int argc, char **argv)
{
    struct floor_options options;
    struct floor_pool src, dst;
    if (!floor_parse(argc, argv, &options) || !floor_pool_open(&src, &options, 1) ||
        !floor_pool_open(&dst, &options, 2)) {
        return EXIT_FAILURE;
    }
    floor_mark(&src);
    uint64_t n_chunks = options.total_bytes / options.chunk_bytes;
    uint64_t elapsed_ns = copy_chunks(&src, &dst, n_chunks);
    bool is_right = floor_is_marked(&dst);
    floor_report("memcpy", &options, n_chunks * options.chunk_bytes, elapsed_ns);
    floor_pool_close(&src);
    floor_pool_close(&dst);
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
