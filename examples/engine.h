/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the example engine: engine.c has the process (options, pools, the loop),
 * engine_request.c the life of a request in it. A process plays rank 0 of one instance
 * per shape, each with a session and a pool of its own ("lane"). One thread.
 */
#ifndef KVF_EXAMPLES_ENGINE_H
#define KVF_EXAMPLES_ENGINE_H

#include <kvferry/kvferry.h>

#include "examples/blocks.h"
#include "examples/channel.h"
#include "examples/prefix_cache.h"
#include "examples/shape.h"

struct lane {
    struct shape shape;
    struct kvf_engine *engine; /* owns */
    struct kvf_pool *pool;     /* of engine */
    uint8_t *base;             /* of pool */
    struct blocks blocks;
    struct prefix_cache cache;
};

struct request {
    struct request *next; /* in arrival order */
    uint64_t id;
    struct lane *lane; /* borrows */
    uint32_t n_tokens;
    uint64_t *keys; /* owns; [n_keys], empty: the content is the request's own */
    uint32_t n_keys;
    uint8_t *params; /* owns; what a receiver was given */
    size_t n_params;
    int32_t *blocks; /* owns; [n_blocks] once begun */
    uint32_t n_blocks, n_held_chunks;
    bool has_begun;
    uint64_t handle, start_ns;
};

struct engine {
    bool is_sender, has_reuse;
    uint8_t poison;
    struct lane lanes[SHAPES_PER_ENGINE];
    size_t n_lanes;
    struct request *requests; /* owns the list */
    struct channel channel;
};

/* Parses the words after "run" or "take" and queues the request; false: malformed. */
bool engine_request_add(struct engine *engine, char *words);
/* Begins what has blocks now, in arrival order. */
void engine_requests_begin(struct engine *engine);
/* An event of lane; ends its request at REUSABLE. */
void engine_request_event(struct engine *engine, struct lane *lane,
                          const struct kvf_event *event);
void engine_requests_drop(struct engine *engine);
/* Checks every block that no live request holds: poison if free, KV if cached. */
void engine_audit(struct engine *engine);

#endif
