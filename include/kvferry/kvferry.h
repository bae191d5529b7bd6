/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libkvferry: what an engine links to move KV cache blocks through its node's kvferryd.
 *
 * The lifetime contract, in seven rules:
 *
 *  1. A pool stays mapped and its layout fixed from kvf_pool_register() until
 *     kvf_pool_unregister() returned KVF_OK or the engine was closed.
 *  2. Blocks named in kvf_send_async() or kvf_receive_async() belong to that transfer
 *     until an event with KVF_EVENT_REUSABLE for its handle was read. Nothing else frees
 *     them, no timer and no error code of another call. If kvf_*_async() itself fails
 *     they were never taken.
 *  3. Every accepted transfer yields exactly one event whose new_bits hold
 *     KVF_EVENT_DONE, whatever happens; its status is final. KVF_OK means every byte of
 *     every block arrived and is visible.
 *  4. DONE, QUIESCED and REUSABLE come in this order, possibly in one event.
 *  5. Arguments are copied before a call returns; nothing the caller passed is kept,
 *     except pool memory (rule 1).
 *  6. One engine is used by one thread at a time. The library starts no thread, calls no
 *     callback and installs no signal handler; work happens inside its calls.
 *  7. An engine does not survive fork(): in the child every call but kvf_engine_close()
 *     returns KVF_FORKED, and closing there leaves the parent's session alone.
 *
 * Plain C99, usable from C++ and from ctypes. Structs start with their size, so that a
 * newer library understands an older caller: set it to sizeof(struct ...), zero the rest.
 */
#ifndef KVFERRY_H
#define KVFERRY_H

#include <stddef.h>
#include <stdint.h>

#include <kvferry/layout.h>
#include <kvferry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVF_VERSION_MAJOR 0
#define KVF_VERSION_MINOR 1
#define KVF_VERSION_PATCH 0
/* "0.1.0" */
#define KVF_VERSION_TEXT                                                                 \
    KVF_VERSION_TEXT_OF(KVF_VERSION_MAJOR, KVF_VERSION_MINOR, KVF_VERSION_PATCH)
#define KVF_VERSION_TEXT_OF(a, b, c)   KVF_VERSION_TEXT_JOIN(a, b, c)
#define KVF_VERSION_TEXT_JOIN(a, b, c) #a "." #b "." #c

/* Incremented when a struct or call changes incompatibly. Compare before use (ctypes). */
#define KVF_ABI_VERSION                1u
KVF_API uint32_t kvf_abi_version(void);
KVF_API const char *kvf_version(void); /* "0.1.0", static */

#define KVF_LABEL_MAX  64u      /* bytes of a request label, without the final NUL */
#define KVF_NAME_MAX   63u      /* bytes of node, instance and engine names */
#define KVF_NOTIFY_MAX 4096u    /* bytes of one notification */
#define KVF_TABLES_MAX 16u      /* pools one request may use */
#define KVF_PARAMS_MAX 65536u   /* no context params are longer */
#define KVF_BLOCKS_MAX 1048576u /* blocks of one request over all its tables */
#define KVF_DETAIL_MAX 192u     /* bytes of a detail sentence, with the final NUL */

struct kvf_engine; /* one rank's session with the daemon of its node */
struct kvf_pool;   /* one registered memory range, owned by its engine */

/* ---- engine --------------------------------------------------------------------------
 */

struct kvf_engine_config {
    uint32_t size;
    uint32_t rank;           /* rank of this process in its instance, see topology */
    const char *socket_path; /* NULL: $KVFERRY_ENGINE, else /run/kvferry/engine.sock */
    const char *instance;    /* instance name as in the daemon's YAML; required */
    const char *name;        /* label in logs and metrics; NULL: "<instance>/<rank>" */
    uint32_t connect_timeout_ms; /* 0: 5000 */
    uint32_t daemon_uid;         /* expected owner of the daemon process ... */
    uint32_t
        check_daemon_uid; /* ... compared when 1; 0: root or our own uid is accepted */
};

/* Connects, checks who listens (SO_PEERCRED), says hello and learns the instance nonce.
 * Blocks up to connect_timeout_ms. *out_engine is owned by the caller until closed.
 * Errors: INVALID_ARGUMENT, DAEMON_LOST (nobody listens), PERMISSION, VERSION,
 * NAME_TAKEN, UNKNOWN_INSTANCE, TIMED_OUT, NO_MEMORY. */
KVF_API enum kvf_status KVF_MUST_CHECK
kvf_engine_open(const struct kvf_engine_config *config, struct kvf_engine **out_engine);

/* Ends the session; pending transfers end at the daemon with ENGINE_LOST. Pools of the
 * engine are released and unmapped. Accepts NULL. Does not block. */
KVF_API void kvf_engine_close(struct kvf_engine *engine);

/* A descriptor that becomes readable when kvf_poll() has something to do; -1 when the
 * daemon is lost and all events were read. Owned by the library: add it to a poll set,
 * never read or close it. */
KVF_API int kvf_engine_fd(const struct kvf_engine *engine);

/* One sentence about the last failed call on this engine: what, where, what to do. Valid
 * until the next call on the engine. Never NULL. With engine NULL: about the last failed
 * kvf_engine_open() of this thread. */
KVF_API const char *kvf_engine_detail(const struct kvf_engine *engine);

/* ---- pools ---------------------------------------------------------------------------
 */

struct kvf_pool_config {
    uint32_t size;
    uint32_t group;  /* pairs pools of two ranks: same group, same content */
    uint32_t memory; /* enum kvf_memory */
    int32_t fd;      /* sealed memfd that holds the pool; -1: allocate one */
    uint64_t offset; /* of the pool in the file, multiple of the page size */
    uint64_t length; /* bytes */
    const struct kvf_layout *layout; /* required; every block must lie inside the pool */
};

/* Registers a pool and waits for the daemon's answer, up to timeout_ms (0: 10 s).
 * fd >= 0: a memfd sealed with F_SEAL_SHRINK|F_SEAL_GROW; it is duplicated, the caller
 * keeps its own. fd == -1: the library makes, seals and maps one of `length` bytes.
 * *out_pool is owned by the engine: unregister it, or close the engine.
 * Errors: INVALID_ARGUMENT, BAD_REF (layout leaves the pool), POOL_UNSEALED,
 * LAYOUT_MISMATCH (differs from the topology), NOT_SHAREABLE, BUSY, NO_MEMORY,
 * DAEMON_LOST, TIMED_OUT. */
KVF_API enum kvf_status KVF_MUST_CHECK
kvf_pool_register(struct kvf_engine *engine, const struct kvf_pool_config *config,
                  uint32_t timeout_ms, struct kvf_pool **out_pool);

/* Where the pool is mapped in this process; valid until it is unregistered. */
KVF_API void *kvf_pool_base(const struct kvf_pool *pool);
KVF_API uint64_t kvf_pool_length(const struct kvf_pool *pool);

/* Asks the daemon to let go and waits for it, up to timeout_ms (0: 10 s). BUSY while a
 * transfer still holds blocks of it: cancel, read REUSABLE, try again. On KVF_OK the pool
 * is gone; DAEMON_LOST frees it too. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_pool_unregister(struct kvf_pool *pool,
                                                           uint32_t timeout_ms);

/* ---- transfers -----------------------------------------------------------------------
 */

/* The block table of one pool: blocks[i] holds tokens [i*B, (i+1)*B) of the request, in
 * order. Ids are indices into the pool, never addresses. */
struct kvf_block_table {
    uint32_t group;        /* of the pool */
    uint32_t n_blocks;     /* >= 1 */
    const int32_t *blocks; /* [n_blocks]; copied */
};

enum kvf_send_flags {
    KVF_SEND_NOT_READY = 1 /* KV is still being computed: kvf_send_ready() follows */
};

struct kvf_send_args {
    uint32_t size;
    uint32_t attempt;    /* 0 first; higher on every retry of request_id */
    uint64_t request_id; /* unique per instance while alive */
    const char *label;   /* engine's own id, <= KVF_LABEL_MAX; may be NULL */
    uint32_t n_tokens;   /* prompt tokens whose KV is offered, >= 1 */
    uint32_t n_tables;   /* 1 .. KVF_TABLES_MAX */
    const struct kvf_block_table *tables; /* each covers all n_tokens */
    uint32_t deadline_ms;                 /* 0: the daemon's default (30 s) */
    uint32_t flags;                       /* enum kvf_send_flags */
    const int32_t *first_tokens; /* first generated tokens for the decode engine */
    uint32_t n_first_tokens;
    uint32_t n_draft_tokens;
    const int32_t *draft_tokens;
    const uint64_t *block_hashes; /* [blocks of tables[0]] or NULL: not compared */
    uint64_t user_data;           /* comes back in events */
    const char *trace_id;         /* 32 hex digits (W3C) or NULL */
};

/* Offers the blocks of a finished (or running) prompt. Writes the context params into
 * params at once, without waiting for anybody: hand them to the decode engine through the
 * router. *params_len: capacity in, length out; with too small a capacity nothing is
 * offered, BUFFER_TOO_SMALL is returned and *params_len holds the need. Does not block.
 * Errors: INVALID_ARGUMENT, BAD_REF, DUPLICATE, BUSY (send queue full: poll and retry),
 * BUFFER_TOO_SMALL, DAEMON_LOST. Refusals of the daemon arrive as the DONE event. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_send_async(struct kvf_engine *engine,
                                                      const struct kvf_send_args *args,
                                                      void *params, size_t *params_len,
                                                      uint64_t *out_handle);

/* The producer's fence: the offered blocks now hold the prompt. Outcome KVF_OK lets the
 * transfer run; an error status refuses it, and the receiver ends with NOT_READY. Once
 * per transfer that was sent with KVF_SEND_NOT_READY. Errors: NOT_FOUND, TOO_LATE (it
 * ended), INVALID_ARGUMENT (not fenced), BUSY (poll and try again), DAEMON_LOST. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_send_ready(struct kvf_engine *engine,
                                                      uint64_t handle,
                                                      enum kvf_status status);

struct kvf_receive_args {
    uint32_t size;
    uint32_t n_prefix_tokens; /* leading tokens already held, multiple of B */
    const void *params;       /* bytes from kvf_send_async(), unchanged */
    size_t params_len;
    uint32_t n_tables;                    /* 1 .. KVF_TABLES_MAX */
    uint32_t deadline_ms;                 /* 0: the daemon's default (30 s) */
    const struct kvf_block_table *tables; /* cover all tokens of the prompt, prefix too */
    const char *label;                    /* may be NULL */
    const uint64_t *block_hashes;         /* [blocks of tables[0]] or NULL */
    uint64_t user_data;
};

/* Asks for the blocks that the params describe; the bytes land in this engine's pools.
 * Does not block. Errors as kvf_send_async(), and BAD_PARAMS. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_receive_async(
    struct kvf_engine *engine, const struct kvf_receive_args *args, uint64_t *out_handle);

enum kvf_event_type {
    KVF_EVENT_TRANSFER = 1, /* bits say what became known */
    KVF_EVENT_NOTIFY =
        2, /* kvf_notify() of another engine; read it with kvf_notify_read */
    KVF_EVENT_DAEMON = 3 /* status DAEMON_LOST or OK (connected again) */
};

enum kvf_event_bits {
    KVF_EVENT_DONE = 1,     /* outcome known: status is final */
    KVF_EVENT_QUIESCED = 2, /* no copy of ours or of a peer touches the blocks */
    KVF_EVENT_REUSABLE = 4  /* the blocks are the engine's again */
};

struct kvf_event {
    uint32_t size;
    uint32_t type; /* enum kvf_event_type */
    uint32_t bits; /* enum kvf_event_bits, cumulative for the handle */
    int32_t status;
    uint64_t handle;
    uint64_t request_id;
    uint64_t user_data;
    uint64_t bytes;       /* payload moved so far */
    uint64_t duration_ns; /* accepted -> done, measured by the daemon; 0 before */
    uint32_t n_bytes;     /* NOTIFY: length of the waiting notification */
    uint32_t new_bits;    /* those of bits that no earlier event of the handle had */
    char peer[KVF_NAME_MAX + 1];
    char path[32]; /* "local_host", "direct/tcp", ... of our side; "" if none */
    char detail[KVF_DETAIL_MAX]; /* a sentence when status is an error, else "" */
};

/* Reads up to max events; *out_n of them are valid. Never blocks. KVF_OK also with none.
 * events[i].size is set by the library. Also drives sending, so call it when the fd is
 * readable and regularly. Errors: FORKED; DAEMON_LOST when lost and all events were read.
 */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_poll(struct kvf_engine *engine,
                                                struct kvf_event *events, size_t max,
                                                size_t *out_n);

/* Waits until the transfer is REUSABLE or timeout_ms passed (then TIMED_OUT and nothing
 * is consumed). Fills *out_event with the final state and consumes the events of this
 * handle; others stay for kvf_poll(). The call's status says how the wait went, the
 * transfer's own outcome is out_event->status. NOT_FOUND: unknown handle, or its last
 * event was read. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_wait(struct kvf_engine *engine,
                                                uint64_t handle, uint32_t timeout_ms,
                                                struct kvf_event *out_event);

/* kvf_receive_async() + kvf_wait(); on TIMED_OUT the transfer is cancelled and waited for
 * until it is reusable. Returns the transfer's outcome. A daemon that is alive but does
 * not answer the cancel within 5 s: TIMED_OUT, and the blocks stay the transfer's until
 * kvf_wait() on out_event->handle or kvf_poll() says REUSABLE. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_receive(struct kvf_engine *engine,
                                                   const struct kvf_receive_args *args,
                                                   uint32_t timeout_ms,
                                                   struct kvf_event *out_event);

/* kvf_send_async(), then deliver(owner, params, len) so that the caller's router gets the
 * params, then kvf_wait() as in kvf_receive(). deliver runs inside the call, on this
 * thread, and must not call kvf_send() or close this engine; an error it returns cancels
 * the send. */
typedef enum kvf_status (*kvf_deliver_fn)(void *owner, const void *params, size_t len);
KVF_API enum kvf_status KVF_MUST_CHECK kvf_send(struct kvf_engine *engine,
                                                const struct kvf_send_args *args,
                                                kvf_deliver_fn deliver, void *owner,
                                                uint32_t timeout_ms,
                                                struct kvf_event *out_event);

/* Cancels by handle, or every live transfer of a request id. Idempotent, never blocks;
 * the outcome arrives as an event. NOT_FOUND: no such live transfer (already ended).
 * BUSY: the send queue is full, kvf_poll() and try again. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_cancel(struct kvf_engine *engine,
                                                  uint64_t handle);
KVF_API enum kvf_status KVF_MUST_CHECK kvf_cancel_request(struct kvf_engine *engine,
                                                          uint64_t request_id);

/* What is known of a transfer now, from memory, without asking the daemon. NOT_FOUND
 * after its REUSABLE event was read. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_transfer_status(
    const struct kvf_engine *engine, uint64_t handle, struct kvf_event *out_event);

/* ---- names, notifications, numbers
 * ----------------------------------------------------- */

/* What params say, for routers and logs. Strings are NUL-terminated copies. */
struct kvf_params_info {
    uint32_t size;
    uint32_t attempt;
    uint64_t request_id;
    uint32_t n_tokens;
    uint32_t rank; /* of the offering rank in its instance */
    uint32_t n_first_tokens;
    uint32_t n_draft_tokens;
    char node[KVF_NAME_MAX + 1];
    char instance[KVF_NAME_MAX + 1];
    char label[KVF_LABEL_MAX + 1];
};

KVF_API enum kvf_status KVF_MUST_CHECK kvf_params_inspect(
    const void *params, size_t params_len, struct kvf_params_info *out_info);

/* Copies first or draft tokens out of params. *n: capacity in, count out;
 * BUFFER_TOO_SMALL with the need when it does not fit. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_params_first_tokens(const void *params,
                                                               size_t params_len,
                                                               int32_t *tokens,
                                                               size_t *n);
KVF_API enum kvf_status KVF_MUST_CHECK kvf_params_draft_tokens(const void *params,
                                                               size_t params_len,
                                                               int32_t *tokens,
                                                               size_t *n);

/* The comm state of this rank's instance: node names, instance nonce and rank, encoded,
 * never an address. Set replaces the node names that this engine writes into params (a
 * renamed node); the daemon checks that its topology knows them, which set waits for, up
 * to 10 s: PEER_UNKNOWN, INVALID_ARGUMENT, TIMED_OUT. *len as for params. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_comm_state_get(const struct kvf_engine *engine,
                                                          void *state, size_t *len);
KVF_API enum kvf_status KVF_MUST_CHECK kvf_comm_state_set(struct kvf_engine *engine,
                                                          const void *state, size_t len);

/* Sends up to KVF_NOTIFY_MAX bytes to one rank of an instance; best effort, in order per
 * pair of engines. The receiver keeps 64 unread ones. Does not block. */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_notify(struct kvf_engine *engine,
                                                  const char *instance, uint32_t rank,
                                                  const void *bytes, size_t n_bytes);

/* Takes the oldest waiting notification. *len: capacity in, length out. NOT_FOUND: none.
 */
KVF_API enum kvf_status KVF_MUST_CHECK kvf_notify_read(struct kvf_engine *engine,
                                                       void *bytes, size_t *len,
                                                       char from[KVF_NAME_MAX + 1],
                                                       uint32_t *out_rank);

struct kvf_statistics {
    uint32_t size;
    uint32_t n_live;
    uint64_t sends_ok, sends_failed, sends_cancelled;
    uint64_t receives_ok, receives_failed, receives_cancelled;
    uint64_t bytes_sent, bytes_received;
    uint64_t events_unread;
};

KVF_API enum kvf_status KVF_MUST_CHECK kvf_statistics_get(const struct kvf_engine *engine,
                                                          struct kvf_statistics *out);

#ifdef __cplusplus
}
#endif
#endif
