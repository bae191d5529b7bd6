/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two transports of one kind on one loop, each connected to the other, with memory,
 * tokens and a record of everything that was told. Tests decide what happens to arrivals
 * by `policy` or by hand. Not thread-safe, one rig per test.
 */
#ifndef KVF_TESTS_SERVICE_TRANSPORT_RIG_H
#define KVF_TESTS_SERVICE_TRANSPORT_RIG_H

#include "base/rng.h"
#include "service/transport.h"

#define RIG_CHUNKS       64u
#define RIG_CHUNK_BYTES  (1u << 20)
#define RIG_MEMORY_BYTES ((size_t)RIG_CHUNKS * RIG_CHUNK_BYTES)
#define RIG_KEPT_MAX     48u
#define RIG_POISON       0xa5

/* One side of one chunk: place i uses bytes [i, i + 1) * RIG_CHUNK_BYTES of the memory.
 */
struct rig_chunk {
    struct kvf_chunk_op op;
    bool is_under_way;
    uint32_t n_done;
    enum kvf_status status;
};

enum rig_policy { RIG_HOLD, RIG_LAND, RIG_DROP };

struct rig_side {
    struct rig *rig;
    struct kvf_transport *transport;
    struct kvf_transport_memory *memory;
    struct kvf_endpoint *endpoint; /* to the other side */
    uint8_t *bytes;                /* RIG_MEMORY_BYTES */
    uint8_t token[KVF_DATA_TOKEN_BYTES];
    struct rig_chunk sends[RIG_CHUNKS], receives[RIG_CHUNKS];

    enum rig_policy policy;
    struct {
        struct kvf_arrival *arrival; /* NULL: free */
        struct kvf_chunk_header header;
    } held[RIG_KEPT_MAX];
    size_t n_held;
    size_t n_arrived, n_arrivals_lost, n_endpoints_lost;
    enum kvf_status lost_status;
};

struct rig {
    struct kvf_loop *loop;
    struct kvf_config config;
    struct kvf_rng rng;
    const struct kvf_transport_ops *ops;
    struct rig_side a, b;
};

/* argument: "tcp", "ucx-tcp" or "ucx-shm". Choosing touches nothing; selecting also tries
 * and is false when this machine cannot do it. */
void rig_choose(const char *argument);
bool rig_select(const char *argument);
bool rig_is_shm(void);
/* cmocka set-up and tear-down with state = struct rig *. */
int rig_setup(void **state);
int rig_teardown(void **state);
/* The same without transports, for tests that want their own configuration first. */
struct rig *rig_create(void);
void rig_open(struct rig *rig);
void rig_open_side(struct rig *rig, struct rig_side *side);
void rig_connect(struct rig_side *from, struct rig_side *to);
void rig_close_side(struct rig_side *side);

/* Fills place `place` of the sender with bytes that depend on seed, posts them in n_spans
 * pieces that are permuted within the place. */
enum kvf_status rig_post(struct rig_side *from, struct rig_side *to, uint32_t place,
                         uint32_t length, uint32_t n_spans, uint64_t seed);
/* Receives a held arrival into the place that its header names, cut at random. */
enum kvf_status rig_land(struct rig_side *side, size_t held);
/* Whether the place holds what was posted with seed. */
bool rig_holds(const struct rig_side *side, uint32_t place, uint32_t length,
               uint64_t seed);
void rig_poison(struct rig_side *side);
bool rig_is_poisoned(const struct rig_side *side);

/* Turns until the condition holds; false after five seconds. */
bool rig_run_until(struct rig *rig, bool (*condition)(struct rig *rig));
/* Turns for a while, for things that must not happen. */
void rig_run_for_ms(struct rig *rig, uint64_t ms);
size_t rig_under_way(const struct rig *rig);
bool rig_is_idle(struct rig *rig);

#endif
