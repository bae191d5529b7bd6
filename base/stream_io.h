/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream keeps in memory, and the system calls that move it: a queue of bytes to
 * send with the descriptors that ride on them, and a queue of bytes and descriptors that
 * arrived. No events, no callbacks, no connection states: those are base/stream.c.
 * For base/stream.c and for the library, whose waits are its own. One thread.
 */
#ifndef KVF_BASE_STREAM_IO_H
#define KVF_BASE_STREAM_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/buf.h"
#include "base/sock.h"

/* The outcome of a failed socket call, from its errno. */
enum kvf_status kvf_sock_status(int error);

struct kvf_out_queue {
    struct kvf_buf bytes;
    uint64_t n_sent; /* bytes of this stream that the kernel has taken, ever */
    size_t n_fds;
    struct {
        uint64_t offset;       /* in the stream: the byte that carries it */
        int fd;                /* owns */
    } fds[KVF_STREAM_FDS_MAX]; /* in stream order */
};
void kvf_out_queue_fini(struct kvf_out_queue *queue);
/* All or nothing; fds are duplicated. BUSY: over a ceiling. */
enum kvf_status KVF_MUST_CHECK kvf_out_queue_append(struct kvf_out_queue *queue,
                                                    const void *bytes, size_t n_bytes,
                                                    const int *fds, size_t n_fds);
/* Writes at most budget_bytes. OK: the queue is empty; IN_PROGRESS: the socket is full or
 * the budget used up; else the connection is lost. */
enum kvf_status KVF_MUST_CHECK kvf_out_queue_write(struct kvf_out_queue *queue, int fd,
                                                   size_t budget_bytes);

struct kvf_in_queue {
    struct kvf_buf bytes;
    size_t n_fds;
    int fds[KVF_STREAM_FDS_MAX]; /* owns; oldest first */
};
void kvf_in_queue_fini(struct kvf_in_queue *queue);
/* The oldest descriptor, now the caller's; -1: none. */
int kvf_in_queue_take_fd(struct kvf_in_queue *queue);
/* Reads until the socket is empty (OK), or the budget is used up, the queue is full or
 * descriptors came, which the owner should take before more arrive (IN_PROGRESS). Else
 * the connection is lost: PEER_LOST also when the peer closed it, PROTOCOL when more
 * descriptors came than may wait. *out_has_input, set whatever the status, says whether
 * there is something new to offer. */
enum kvf_status KVF_MUST_CHECK kvf_in_queue_read(struct kvf_in_queue *queue, int fd,
                                                 bool takes_fds, size_t budget_bytes,
                                                 bool *out_has_input);

#endif
