/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and transfers. A *request* is what one engine asked for: an offer (send) or a
 * receive, with its lease on blocks, its deadline and its one outcome. A *transfer* is
 * the work of a request with one counterpart rank: a state table, streams of chunks,
 * credit. request.c checks and matches; transfer.c moves bytes. Loop thread.
 */
#ifndef KVF_SERVICE_TRANSFER_H
#define KVF_SERVICE_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/kvferry.h>

#include "base/map.h"
#include "base/slab.h"
#include "plan/plan.h"
#include "service/copy.h"
#include "service/peer.h"
#include "service/session.h"
#include "service/slots.h"
#include "service/timings.h"

enum kvf_direction { KVF_SEND = 0, KVF_RECEIVE = 1, KVF_DIRECTIONS = 2 };

enum kvf_transfer_state {
    KVF_TRANSFER_NEW = 0,
    /* sender */
    KVF_TRANSFER_MATCHED,    /* RequestInfo accepted; the producer's fence may be open */
    KVF_TRANSFER_SEND_READY, /* Ready sent */
    KVF_TRANSFER_SENDING,    /* chunks are posted */
    KVF_TRANSFER_CLOSING,    /* everything posted; waits for receipts and Done */
    /* receiver */
    KVF_TRANSFER_QUEUED,        /* the counterpart's node is not up yet */
    KVF_TRANSFER_REQUESTED,     /* RequestInfo sent */
    KVF_TRANSFER_RECEIVE_READY, /* Ready came and the plans agree */
    KVF_TRANSFER_RECEIVING,     /* chunks land, or the local copy runs */
    KVF_TRANSFER_VERIFYING,     /* all bytes came; scatters and digests finish */
    /* both */
    KVF_TRANSFER_DRAINING, /* outcome decided against; own operations come to rest */
    KVF_TRANSFER_ENDED,
    KVF_TRANSFER_STATES
};

enum kvf_path {
    KVF_PATH_NONE = 0,
    KVF_PATH_LOCAL_HOST,
    KVF_PATH_DIRECT,
    KVF_PATH_STAGED
};

struct kvf_transfers;
struct kvf_requests;
struct kvf_request;

/* A stretch of a segment's stream. */
struct kvf_interval {
    uint32_t segment;
    uint64_t offset, end;
};
#define KVF_INTERVALS_MAX 40u /* landed stretches that do not touch; window + slack */

struct kvf_stream_plan { /* one segment with its plan */
    struct kvf_segment segment;
    struct kvf_plan plan;
    struct kvf_daemon_pool *pool;  /* ours; referenced by the request */
    struct kvf_daemon_pool *other; /* local_host: the counterpart's, referenced here */
    struct kvf_layout peer_layout; /* as told; layer_offsets in the request's arena */
    uint64_t n_bytes;
    uint64_t n_runs;
    uint64_t next_offset; /* sender, local copy: first byte not yet posted */
};

struct kvf_transfer {
    uint64_t id;
    struct kvf_transfers *transfers; /* borrows; owner */
    struct kvf_request *request;     /* borrows; owner */
    struct kvf_peer *peer;           /* borrows; lives as long as the topology */
    uint64_t peer_session;           /* the counterpart's transfer id; 0: not known yet */
    uint32_t peer_rank;
    enum kvf_direction direction;
    enum kvf_transfer_state state;
    uint64_t state_since_ns;
    struct kvf_node state_node, peer_node, runnable_node;
    struct kvf_zombie zombie;

    struct kvf_stream_plan *streams; /* [n_streams], in the request's arena */
    size_t n_streams, current_stream;
    uint64_t total_bytes;
    uint64_t arrived_bytes; /* receiver: landed, perhaps not scattered yet */
    uint64_t done_bytes;    /* receiver: in place; sender: as receipts say */
    uint64_t plan_hash;
    uint64_t lease_generation;

    enum kvf_path path;
    char peer_path[16];
    uint32_t integrity, chunk_bytes, window;
    uint64_t n_chunks_posted, credit_chunks; /* sender */
    uint64_t n_chunks_receipted;             /* receiver: receipts sent */
    struct kvf_list chunks;                  /* under way: kvf_chunk.node */
    struct kvf_list arrivals;                /* unanswered: kvf_waiting.node in flow.c */
    struct kvf_interval landed[KVF_INTERVALS_MAX];
    size_t n_landed;

    bool is_done;          /* OK decided; ends when nothing is under way */
    uint64_t local_sender; /* receiver on the same node: transfer whose blocks it reads */
    uint32_t n_local_readers; /* sender: receivers that read its blocks right now */
    enum kvf_status status;   /* KVF_IN_PROGRESS until decided */
    struct kvf_timing timing;
};

struct kvf_match_key { /* no padding: hashed as bytes */
    uint8_t nonce[KVF_NONCE_BYTES];
    uint64_t request_id;
    uint32_t attempt;
    uint32_t rank;
};

struct kvf_request_table {
    uint32_t group, n_blocks;
    const uint32_t *blocks; /* in the arena */
    struct kvf_daemon_pool *pool;
};

struct kvf_request {
    uint64_t id;
    struct kvf_requests *requests; /* borrows; owner */
    uint64_t sequence;             /* order of acceptance */
    enum kvf_direction direction;
    struct kvf_match_key key;
    UT_hash_handle hh;
    struct kvf_session *session; /* NULL once the engine is lost */
    struct kvf_node session_node, live_node;
    struct kvf_zombie zombie;
    struct kvf_arena arena; /* tables, plans, layouts; lent by the set, see request.c */
    uint64_t handle;
    char label[KVF_LABEL_MAX + 1];
    char engine[128], instance[KVF_NAME_MAX + 1];
    uint32_t rank;
    bool has_trace_id;
    uint8_t trace_id[16];
    uint32_t n_tokens, n_prefix_tokens;
    struct kvf_cache_state peer_state; /* receive: the offering side's, in the arena */
    struct kvf_request_table tables[KVF_TABLES_MAX];
    size_t n_tables;
    uint64_t n_blocks;
    const uint64_t *block_hashes;
    size_t n_block_hashes;
    bool is_fenced; /* send: the producer said ready */
    uint64_t deadline_ns;
    uint64_t lease_generation;
    struct kvf_timer timer;
    struct kvf_transfer *transfer; /* owns; this release: one counterpart */
    enum kvf_status status;        /* KVF_IN_PROGRESS until decided */
    char detail[KVF_DETAIL_MAX];
    uint32_t bits; /* reported to the engine, enum kvf_event_bits */
    uint64_t accepted_ns, accepted_wall_ns, decided_ns;
};

struct kvf_transfers_config {
    const struct kvf_config *config;
    struct kvf_loop *loop;
    struct kvf_copy *copy;
    struct kvf_slots *slots;
};

/* ---- transfer.c: the machine
 * -------------------------------------------------------------- */
enum kvf_status KVF_MUST_CHECK kvf_transfers_create(
    const struct kvf_transfers_config *config, struct kvf_transfers **out);
void kvf_transfers_destroy(struct kvf_transfers *transfers); /* accepts NULL */

/* A transfer of `request` with rank peer_rank behind peer. NULL: at the ceiling. */
struct kvf_transfer *kvf_transfer_create(struct kvf_transfers *transfers,
                                         struct kvf_request *request,
                                         struct kvf_peer *peer, uint32_t peer_rank);

/* Receiver: asks the counterpart as soon as its node is up. */
void kvf_transfer_start_receive(struct kvf_transfer *transfer);
/* Sender: a checked RequestInfo matched; answers Ready when the fence is closed. */
void kvf_transfer_start_send(struct kvf_transfer *transfer,
                             const struct kvf_request_info *info);
void kvf_transfer_fence_closed(struct kvf_transfer *transfer);
/* Decides against: the counterpart is told when `tell_peer`, own operations are drained.
 */
void kvf_transfer_stop(struct kvf_transfer *transfer, enum kvf_status status,
                       const char *detail, bool tell_peer);
/* The status that a counterpart's Cancel gives; one that names none is CANCELLED. */
enum kvf_status kvf_transfer_cancel_cause(const struct kvf_cancel_message *cancel);

/* Messages and news. */
void kvf_transfers_message(struct kvf_transfers *transfers, struct kvf_peer *peer,
                           const struct kvf_message *message);
void kvf_transfers_peer_up(struct kvf_transfers *transfers, struct kvf_peer *peer);
void kvf_transfers_peer_down(struct kvf_transfers *transfers, struct kvf_peer *peer,
                             enum kvf_status status);
void kvf_transfers_arrived(struct kvf_transfers *transfers, struct kvf_peer *peer,
                           struct kvf_arrival *arrival,
                           const struct kvf_chunk_header *header);
void kvf_transfers_arrival_lost(struct kvf_transfers *transfers,
                                struct kvf_arrival *arrival);

const struct kvf_list *kvf_transfers_in_state(const struct kvf_transfers *transfers,
                                              enum kvf_transfer_state state);
const char *kvf_transfer_state_name(enum kvf_transfer_state state);
const char *kvf_path_name(enum kvf_path path);

/* ---- request.c: what transfer.c reports upwards
 * ------------------------------------------- */
/* The outcome is known and not OK, blocks are still touched. Tells the engine DONE. */
void kvf_request_decided(struct kvf_request *request, enum kvf_status status,
                         const char *detail);
/* Everything is at rest: tells the engine what it does not know yet, keeps the timing
 * row, frees the request at the end of the turn. */
void kvf_request_ended(struct kvf_request *request, struct kvf_transfer *transfer);
/* (Re)starts the deadline timer: the request's own deadline, or sooner while its
 * counterpart's node is down. */
void kvf_request_arm_timer(struct kvf_request *request);

/* Ready{ready = false}: a RequestInfo that has no transfer here. */
void kvf_transfer_refuse(struct kvf_peer *peer, uint64_t receiver_session,
                         enum kvf_status cause, const char *detail);

#endif
