/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to addresses off the loop: one helper thread calls getaddrinfo, answers come back
 * as completions on the loop. Numeric hosts never wait. A lookup that takes longer than
 * its limit ends with EXPIRED (the thread's late answer is dropped). Loop thread.
 */
#ifndef KVF_BASE_RESOLVER_H
#define KVF_BASE_RESOLVER_H

#include "base/loop.h"
#include "base/sock.h"

struct kvf_resolver;
struct kvf_lookup {
    struct kvf_sockaddr result; /* valid when done got KVF_OK */
    kvf_done_fn done;
    void *owner;
    void *ticket; /* private */
    struct kvf_post post;
    struct kvf_timer timer;
};
struct kvf_resolver_ops {
    /* done gets OK, EXPIRED, PEER_UNREACHABLE (no such name, or no answer), BUSY (too
     * many lookups wait), NO_MEMORY or SYSTEM. lookup is zeroed before its first use. */
    void (*lookup)(struct kvf_resolver *resolver, const struct kvf_address *address,
                   uint32_t timeout_ms, struct kvf_lookup *lookup, kvf_done_fn done,
                   void *owner);
    /* done is not called any more; no-op when nothing is under way. */
    void (*cancel)(struct kvf_resolver *resolver, struct kvf_lookup *lookup);
    /* Accepts NULL. Lookups must have ended or been cancelled. */
    void (*destroy)(struct kvf_resolver *resolver);
};
struct kvf_resolver {
    const struct kvf_resolver_ops *ops;
};
enum kvf_status KVF_MUST_CHECK kvf_resolver_create_system(struct kvf_loop *loop,
                                                          struct kvf_resolver **out);

#endif
