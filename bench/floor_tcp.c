/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floor of a TCP stream on loopback: one process writes chunks of scattered blocks with
 * writev, another reads them into scattered blocks with readv. Blocking, one connection.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/floor.h"

typedef ssize_t (*transfer_fn)(int fd, const struct iovec *iov, int n);

/* All chunks through one descriptor by writev or readv. */
static bool move_chunks(int fd, const struct floor_pool *pool, uint64_t n_chunks,
                        transfer_fn transfer)
{
    static struct iovec spans[FLOOR_SPANS_MAX];
    for (uint64_t chunk = 0; chunk < n_chunks; chunk++) {
        size_t n = floor_spans(pool, chunk, spans);
        for (size_t first = 0; first < n;) {
            ssize_t moved = transfer(fd, spans + first, (int)(n - first));
            if (moved <= 0) {
                return false;
            }
            size_t left = (size_t)moved;
            while (first < n && left >= spans[first].iov_len) {
                left -= spans[first++].iov_len;
            }
            if (left > 0) {
                spans[first].iov_base = (uint8_t *)spans[first].iov_base + left;
                spans[first].iov_len -= left;
            }
        }
    }
    return true;
}

static int listen_loopback(struct sockaddr_in *out_address)
{
    socklen_t length = sizeof(*out_address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *out_address = (struct sockaddr_in){.sin_family = AF_INET,
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (const struct sockaddr *)out_address, length) != 0 ||
        listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)out_address, &length) != 0) {
        return -1;
    }
    return fd;
}

static int send_all(const struct floor_options *options,
                    const struct sockaddr_in *address, uint64_t n_chunks)
{
    struct floor_pool pool;
    const int on = 1;
    if (!floor_pool_open(&pool, options, 1)) {
        return EXIT_FAILURE;
    }
    floor_mark(&pool);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        return EXIT_FAILURE;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return move_chunks(fd, &pool, n_chunks, writev) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int receive_all(const struct floor_options *options, int listen_fd,
                       uint64_t n_chunks, int pid)
{
    struct floor_pool pool;
    if (!floor_pool_open(&pool, options, 2)) {
        return EXIT_FAILURE;
    }
    int fd = accept(listen_fd, NULL, NULL);
    uint64_t start_ns = floor_now_ns();
    bool is_done = fd >= 0 && move_chunks(fd, &pool, n_chunks, readv);
    uint64_t elapsed_ns = floor_now_ns() - start_ns;
    is_done = floor_wait(pid) && is_done && floor_is_marked(&pool);
    floor_report("tcp", options, n_chunks * options->chunk_bytes, elapsed_ns);
    floor_pool_close(&pool);
    return is_done ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct floor_options options;
    struct sockaddr_in address;
    int peer_fd = -1;
    if (!floor_parse(argc, argv, &options)) {
        return EXIT_FAILURE;
    }
    int listen_fd = listen_loopback(&address);
    if (listen_fd < 0) {
        perror("listen");
        return EXIT_FAILURE;
    }
    uint64_t n_chunks = options.total_bytes / options.chunk_bytes;
    int pid = floor_fork(&peer_fd);
    if (pid < 0) {
        perror("fork");
        return EXIT_FAILURE;
    }
    return pid == 0 ? send_all(&options, &address, n_chunks)
                    : receive_all(&options, listen_fd, n_chunks, pid);
}
