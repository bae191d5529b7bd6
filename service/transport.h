/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data plane as a port: chunks of bytes between two daemons, described by spans of
 * memory and a header. It knows nothing of blocks, layers or requests. Two
 * implementations: ucx and tcp; the simulator is a third.
 *
 * No call calls back inline: completions come through the loop's posts, arrivals from the
 * transport's hook or I/O callback. A chunk that was posted completes exactly once, also
 * when its endpoint is closed; until then its memory must stay. "Sent" proves nothing:
 * only the receiver's receipt (control channel) does. Loop thread.
 */
#ifndef KVF_SERVICE_TRANSPORT_H
#define KVF_SERVICE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <kvferry/status.h>

#include "base/loop.h"
#include "config/config.h"

#define KVF_SPANS_MAX          64u   /* pieces of one chunk */
#define KVF_DATA_BLOB_MAX      1024u /* bytes of a Hello blob */
#define KVF_DATA_TOKEN_BYTES   16u
#define KVF_CHUNK_LENGTH_MAX   (64u << 20) /* payload of one chunk */

/* 72 bytes on the wire, little-endian, written field by field (chunk.c). */
#define KVF_CHUNK_HEADER_BYTES 72u
struct kvf_chunk_header {
    uint8_t
        token[KVF_DATA_TOKEN_BYTES]; /* the receiver's data token for this peer session */
    uint64_t receiver_session;
    uint64_t lease_generation;
    uint32_t segment;
    uint32_t endpoint_generation; /* of the sender's endpoint */
    uint64_t offset;              /* in the segment's stream */
    uint32_t length;              /* payload bytes, 1..KVF_CHUNK_LENGTH_MAX */
    uint32_t flags;               /* KVF_CHUNK_* */
    uint32_t digest;              /* CRC32C of the payload when KVF_CHUNK_HAS_DIGEST */
};
#define KVF_CHUNK_HAS_DIGEST 1u
void kvf_chunk_header_write(const struct kvf_chunk_header *header,
                            uint8_t out[KVF_CHUNK_HEADER_BYTES]);
/* PROTOCOL: magic, version, header CRC, unknown flags, or length out of bounds. */
enum kvf_status KVF_MUST_CHECK kvf_chunk_header_read(const uint8_t *bytes, size_t n,
                                                     struct kvf_chunk_header *out);

/* Memory registered once (pool or arena). base/length as given; impl private. */
struct kvf_transport_memory;

/* One chunk under way; embedded by the caller, borrowed until done ran. */
struct kvf_chunk_op {
    struct kvf_chunk_header header;
    struct iovec spans[KVF_SPANS_MAX];
    size_t n_spans;
    struct kvf_transport_memory
        *memory; /* that all spans lie in; owned by whoever added it */
    kvf_done_fn done;
    void *owner;
    /* private to the transport */
    struct kvf_post post;
    struct kvf_node node;
    void *impl[4];
    uint8_t wire[KVF_CHUNK_HEADER_BYTES];
    uint64_t progress_bytes;
};

/* The caller's side of the contract, for asserts: 1 .. KVF_SPANS_MAX spans (one when
 * is_contiguous) that lie in memory[n_bytes] and together hold `length` bytes. */
bool kvf_chunk_op_is_sound(const struct kvf_chunk_op *op, const uint8_t *memory,
                           size_t n_bytes, bool is_contiguous, uint64_t length);

struct kvf_transport;
struct kvf_endpoint; /* our way to send to one peer */
struct kvf_arrival;  /* a chunk that announced itself and waits for an answer */

struct kvf_transport_events {
    /* A chunk arrived for the peer session that `token` (header.token) names. Answer now
     * or later with receive or drop; unanswered ones hold memory of the transport. The
     * pointer is valid until answered. */
    void (*arrived)(void *owner, struct kvf_transport *transport,
                    struct kvf_arrival *arrival, const struct kvf_chunk_header *header);
    /* The arrival's connection died before it was answered: forget it. */
    void (*arrival_lost)(void *owner, struct kvf_arrival *arrival);
    /* The endpoint broke (DATA_PATH or PEER_LOST): posted chunks complete with an error,
     * then the owner disconnects it. */
    void (*endpoint_lost)(void *owner, void *endpoint_owner, enum kvf_status status);
};

struct kvf_transport_config {
    struct kvf_loop *loop;           /* borrowed */
    const struct kvf_config *config; /* borrowed */
    const struct kvf_transport_events *events;
    void *owner;
    size_t max_kept; /* unanswered arrivals; beyond it they are dropped and counted */
};

struct kvf_transport_ops {
    const char *name; /* "ucx", "tcp" */
    enum kvf_status (*open)(const struct kvf_transport_config *config,
                            struct kvf_transport **out);
    void (*close)(
        struct kvf_transport *transport); /* all endpoints disconnected before */

    /* What our Hello says: how to reach this data plane, and the version that must match.
     */
    enum kvf_status (*blob)(struct kvf_transport *transport, uint8_t *out, size_t *n);
    const char *(*version)(struct kvf_transport *transport);

    enum kvf_status (*memory_add)(struct kvf_transport *transport, void *base,
                                  size_t length, struct kvf_transport_memory **out);
    void (*memory_remove)(struct kvf_transport *transport,
                          struct kvf_transport_memory *memory);

    /* token: the *peer's* data token from its Hello; put in every header by the caller,
     * and used by tcp to open its connection. peer_host: the peer's control address as a
     * numeric host, used when the blob names none (it listens on every address); may be
     * NULL. Connecting is asynchronous: posts may follow at once. */
    enum kvf_status (*connect)(struct kvf_transport *transport, const uint8_t *blob,
                               size_t n, const char *peer_host,
                               const uint8_t token[KVF_DATA_TOKEN_BYTES], void *owner,
                               struct kvf_endpoint **out);
    /* Forced, never blocks: outstanding chunks complete with CANCELLED or an error as
     * soon as the transport no longer touches their memory. The endpoint pointer is dead
     * at once; its owner gets no endpoint_lost any more. */
    void (*disconnect)(struct kvf_endpoint *endpoint);
    /* What it really uses: "tcp", "posix", "rc_mlx5"; valid until disconnect. */
    const char *(*lane)(struct kvf_endpoint *endpoint);

    /* Sends op->header and spans. BUSY: too many under way, try when one completed.
     * After any other status than OK done is not called either. */
    enum kvf_status (*post)(struct kvf_endpoint *endpoint, struct kvf_chunk_op *op);

    /* Lands the payload in op->spans (their sum == header.length); op->done follows when
     * OK was returned. Either way the arrival is answered. */
    enum kvf_status (*receive)(struct kvf_arrival *arrival, struct kvf_chunk_op *op);
    void (*drop)(struct kvf_arrival *arrival);

    /* The data token that incoming connections must show to be heard (tcp); ucx checks it
     * in every header through the owner's `arrived`. Removing it ends what came under it:
     * unanswered arrivals are lost; tcp also closes the connections, so that chunks that
     * were being received complete with CANCELLED and touch their memory no more (remove
     * and add again = revoke; the sender's endpoint breaks and it connects anew). */
    enum kvf_status (*token_add)(struct kvf_transport *transport,
                                 const uint8_t token[KVF_DATA_TOKEN_BYTES]);
    void (*token_remove)(struct kvf_transport *transport,
                         const uint8_t token[KVF_DATA_TOKEN_BYTES]);

    bool is_direct_send;    /* posting straight from an engine's pool is revocable */
    bool is_direct_receive; /* landing straight in an engine's pool is our own doing */
};

struct kvf_transport {
    const struct kvf_transport_ops *ops;
};

extern const struct kvf_transport_ops kvf_transport_ucx;
extern const struct kvf_transport_ops kvf_transport_tcp;

#endif
