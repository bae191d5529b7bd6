/* SPDX-License-Identifier: Apache-2.0 */
/* See floor.h. Single-threaded programs. */
#include "bench/floor.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"

static const struct floor_options defaults = {
    .block_bytes = 64u << 10,
    .chunk_bytes = 1u << 20,
    .total_bytes = 4ull << 30,
    .pool_bytes = 256u << 20,
    .window = 4,
};

static const struct option long_options[] = {
    {"block", required_argument, NULL, 'b'},
    {"chunk", required_argument, NULL, 'c'},
    {"total", required_argument, NULL, 't'},
    {"pool", required_argument, NULL, 'p'},
    {"window", required_argument, NULL, 'w'},
    {"shm", no_argument, NULL, 's'},
    {NULL, 0, NULL, 0},
};

/* "64K", "2M", "4G" or a plain number; 0 when it is none. */
static uint64_t parse_bytes(const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    bool has_rest = end[shift > 0 ? 1 : 0] != '\0';
    if (errno != 0 || has_rest || value > UINT64_MAX >> shift) {
        return 0;
    }
    return value << shift;
}

static bool is_sane(const struct floor_options *options)
{
    return options->block_bytes > 0 && options->chunk_bytes >= options->block_bytes &&
           options->chunk_bytes % options->block_bytes == 0 &&
           options->chunk_bytes / options->block_bytes <= FLOOR_SPANS_MAX &&
           options->total_bytes >= options->chunk_bytes &&
           options->pool_bytes >= options->chunk_bytes * options->window &&
           options->pool_bytes % options->chunk_bytes == 0 && options->window >= 1 &&
           options->window <= FLOOR_WINDOW_MAX;
}

bool floor_parse(int argc, char **argv, struct floor_options *out)
{
    struct floor_options options = defaults;
    bool is_known = true;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): one thread */
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        uint64_t value = optarg != NULL ? parse_bytes(optarg) : 0;
        switch (c) {
        case 'b':
            options.block_bytes = value;
            break;
        case 'c':
            options.chunk_bytes = value;
            break;
        case 't':
            options.total_bytes = value;
            break;
        case 'p':
            options.pool_bytes = value;
            break;
        case 'w':
            options.window = value <= FLOOR_WINDOW_MAX ? (uint32_t)value : 0;
            break;
        case 's':
            options.is_shm = true;
            break;
        default:
            is_known = false;
            break;
        }
    }
    if (!is_known || optind != argc || !is_sane(&options)) {
        (void)fprintf(stderr,
                      "usage: %s [--block 64K] [--chunk 1M] [--total 4G] [--pool 256M] "
                      "[--window 4] [--shm]\n"
                      "at most %u blocks a chunk; the pool is a multiple of the chunk\n",
                      argv[0], FLOOR_SPANS_MAX);
        return false;
    }
    *out = options;
    return true;
}

bool floor_pool_open(struct floor_pool *pool, const struct floor_options *options,
                     uint64_t seed)
{
    struct kvf_rng rng;
    *pool = (struct floor_pool){.options = options};
    pool->n_blocks = (uint32_t)(options->pool_bytes / options->block_bytes);
    pool->order = kvf_alloc_array(pool->n_blocks, sizeof(*pool->order));
    pool->bytes = mmap(NULL, options->pool_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pool->order == NULL || pool->bytes == MAP_FAILED) {
        (void)fprintf(stderr, "no memory for the pool\n");
        return false;
    }
    kvf_rng_init_seeded(&rng, seed);
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        uint32_t j = (uint32_t)kvf_rng_below(&rng, i + 1);
        pool->order[i] = pool->order[j];
        pool->order[j] = i;
    }
    return true;
}

void floor_pool_close(struct floor_pool *pool)
{
    if (pool->bytes != NULL && pool->bytes != MAP_FAILED) {
        (void)munmap(pool->bytes, pool->options->pool_bytes);
    }
    kvf_free(pool->order);
}

static uint8_t *block_at(const struct floor_pool *pool, uint64_t place)
{
    return pool->bytes + pool->order[place] * pool->options->block_bytes;
}

size_t floor_spans(const struct floor_pool *pool, uint64_t chunk,
                   struct iovec out[FLOOR_SPANS_MAX])
{
    uint32_t n = floor_spans_per_chunk(pool->options);
    uint64_t first = (chunk % (pool->n_blocks / n)) * n;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (struct iovec){.iov_base = block_at(pool, first + i),
                                .iov_len = pool->options->block_bytes};
    }
    return n;
}

void floor_mark(struct floor_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_blocks; i++) {
        memset(block_at(pool, i), (int)(1 + i % 251), pool->options->block_bytes);
    }
}

bool floor_is_marked(const struct floor_pool *pool)
{
    uint64_t n_used = pool->options->total_bytes / pool->options->block_bytes;
    n_used = n_used < pool->n_blocks ? n_used : pool->n_blocks;
    n_used -= n_used % floor_spans_per_chunk(pool->options);
    for (uint64_t i = 0; i < n_used; i++) {
        const uint8_t *block = block_at(pool, i);
        if (block[0] != 1 + i % 251 ||
            memcmp(block, block + 1, pool->options->block_bytes - 1) != 0) {
            (void)fprintf(stderr, "block %llu did not come\n", (unsigned long long)i);
            return false;
        }
    }
    return true;
}

int floor_fork(int *out_fd)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return -1;
    }
    pid_t pid = fork();
    (void)close(fds[pid == 0 ? 0 : 1]);
    *out_fd = fds[pid == 0 ? 1 : 0];
    return pid;
}

bool floor_read(int fd, void *bytes, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        ssize_t n = read(fd, (uint8_t *)bytes + at, n_bytes - at);
        if (n <= 0) {
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

bool floor_write(int fd, const void *bytes, size_t n_bytes)
{
    return send(fd, bytes, n_bytes, MSG_NOSIGNAL) == (ssize_t)n_bytes;
}

bool floor_wait(int pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

uint64_t floor_now_ns(void)
{
    return kvf_clock_now_ns(&kvf_clock_system);
}

static double cpu_seconds(int who)
{
    struct rusage usage;
    if (getrusage(who, &usage) != 0) {
        return 0;
    }
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void floor_report(const char *name, const struct floor_options *options, uint64_t bytes,
                  uint64_t elapsed_ns)
{
    double cpu = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
    (void)printf("{\"floor\":\"%s\",\"block_bytes\":%llu,\"chunk_bytes\":%llu,"
                 "\"window\":%u,\"bytes\":%llu,\"seconds\":%.3f,\"gb_per_s\":%.3f,"
                 "\"cpu_s_per_gib\":%.3f}\n",
                 name, (unsigned long long)options->block_bytes,
                 (unsigned long long)options->chunk_bytes, options->window,
                 (unsigned long long)bytes, (double)elapsed_ns * 1e-9,
                 (double)bytes / (double)elapsed_ns, cpu / ((double)bytes / (1 << 30)));
}
