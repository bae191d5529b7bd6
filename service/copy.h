/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy engine as a port: jobs that run part of a plan between pools and slots. The
 * host implementation has worker threads fed by single-producer rings; a job is split in
 * pieces of at most 1 MiB and checks its cancel mark before each. Completion comes on the
 * loop. Loop thread.
 */
#ifndef KVF_SERVICE_COPY_H
#define KVF_SERVICE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "plan/plan.h"

enum kvf_copy_kind {
    KVF_COPY_LOCAL = 0,   /* src pool -> dst pool */
    KVF_COPY_GATHER = 1,  /* src pool -> slot */
    KVF_COPY_SCATTER = 2, /* slot -> dst pool */
    KVF_COPY_CRC_SRC = 3, /* digest only, of the source pool */
    KVF_COPY_CRC_DST = 4
};

/* Embedded by the caller, borrowed until done ran. */
struct kvf_copy_job {
    enum kvf_copy_kind kind;
    const struct kvf_plan *plan;
    const void *src;
    void *dst;
    uint64_t offset, n_bytes; /* of the plan's stream */
    bool has_digest;
    uint32_t digest;  /* out: CRC32C of the stream bytes */
    kvf_done_fn done; /* KVF_OK, or CANCELLED when the mark was seen before the end */
    void *owner;
    uint64_t started_ns, ended_ns; /* out */
    /* private */
    uint32_t is_cancelled; /* atomic */
    struct kvf_post post;
};

struct kvf_copy;
struct kvf_copy_ops {
    /* BUSY: all rings full. */
    enum kvf_status (*submit)(struct kvf_copy *copy, struct kvf_copy_job *job);
    /* Marks it; done still follows, once. */
    void (*cancel)(struct kvf_copy *copy, struct kvf_copy_job *job);
    void (*destroy)(struct kvf_copy *copy); /* no job may be under way */
};
struct kvf_copy {
    const struct kvf_copy_ops *ops;
};

/* n_workers 0: one less than the cores we may run on, at least 1 and at most 4. */
enum kvf_status KVF_MUST_CHECK kvf_copy_create_host(struct kvf_loop *loop,
                                                    uint32_t n_workers,
                                                    struct kvf_copy **out);

#endif
