/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three floor programs share: options, a pool of blocks in random order, and the
 * one JSON line they print. A floor is what the bare mechanism gives on this machine with
 * nothing of kvferry around it; kvferry's own figures are judged against it.
 */
#ifndef KVF_BENCH_FLOOR_H
#define KVF_BENCH_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define FLOOR_SPANS_MAX  1024u
#define FLOOR_WINDOW_MAX 64u

struct floor_options {
    uint64_t block_bytes, chunk_bytes, total_bytes, pool_bytes;
    uint32_t window; /* chunks under way */
    bool is_shm;     /* floor_ucx only */
};

/* Prints usage and returns false when an argument is wrong. */
bool floor_parse(int argc, char **argv, struct floor_options *out);
static inline uint32_t floor_spans_per_chunk(const struct floor_options *options)
{
    return (uint32_t)(options->chunk_bytes / options->block_bytes);
}

/* A pool whose i-th block in use order is order[i]. */
struct floor_pool {
    const struct floor_options *options; /* borrows */
    uint8_t *bytes;                      /* owns */
    uint32_t *order;                     /* owns */
    uint32_t n_blocks;
};
bool floor_pool_open(struct floor_pool *pool, const struct floor_options *options,
                     uint64_t seed);
void floor_pool_close(struct floor_pool *pool);
/* Spans of the nth chunk (wraps around the pool); returns their number. */
size_t floor_spans(const struct floor_pool *pool, uint64_t chunk,
                   struct iovec out[FLOOR_SPANS_MAX]);
/* Marks every block with its place in use order, or checks that the marks came. */
void floor_mark(struct floor_pool *pool);
bool floor_is_marked(const struct floor_pool *pool);

/* Two processes: fork() with a connected socket on either side. Returns 0 in the child,
 * the child's pid in the parent, -1 on failure. */
int floor_fork(int *out_fd);
bool floor_read(int fd, void *bytes, size_t n_bytes);
bool floor_write(int fd, const void *bytes, size_t n_bytes);
/* Waits for the child; true when it exited with 0. */
bool floor_wait(int pid);

uint64_t floor_now_ns(void);
/* CPU time of this process and its children that were waited for is added. */
void floor_report(const char *name, const struct floor_options *options, uint64_t bytes,
                  uint64_t elapsed_ns);

#endif
