/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the library share: the engine and how calls enter it (engine.c), the
 * daemon's messages (inbox.c), transfer records and their news (record.c), judging
 * arguments (arguments.c), pools (pool.c). A record of a transfer lives from its
 * acceptance until REUSABLE was read; all events of a transfer are its record's state, so
 * that there is no event queue that could overflow. One thread at a time.
 */
#ifndef KVF_CLIENT_ENGINE_PRIVATE_H
#define KVF_CLIENT_ENGINE_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <kvferry/kvferry.h>

#include "base/list.h"
#include "base/slab.h"
#include "client/connection.h"

#define KVF_ALL_BITS           (KVF_EVENT_DONE | KVF_EVENT_QUIESCED | KVF_EVENT_REUSABLE)
#define KVF_NOTIFICATIONS_MAX  64u
#define KVF_DEFAULT_TIMEOUT_MS 10000u

struct kvf_pool {
    struct kvf_engine *engine; /* borrows; owner */
    uint32_t pool_id, group;
    uint32_t n_blocks, tokens_per_block;
    uint32_t n_transfers; /* records that name blocks of it */
    void *base;           /* owns, mmap; NULL when not mapped */
    uint64_t length;
    struct kvf_node node; /* in the engine's pools once registered */
};

struct kvf_record {
    struct kvf_event event; /* what is known: bits cumulative, status final with DONE */
    uint32_t told_bits;     /* bits that the caller has read */
    uint32_t attempt;
    uint8_t nonce[KVF_NONCE_BYTES]; /* of the context instance */
    bool is_receive;
    bool is_fenced; /* a send whose kvf_send_ready() is still to come */
    bool is_cancel_sent;
    size_t n_pools;
    struct kvf_pool *pools[KVF_TABLES_MAX]; /* borrows; counted in n_transfers */
    struct kvf_node live_node;
    struct kvf_node bucket_node;
    struct kvf_node news_node; /* linked while bits are unread */
};

struct kvf_notification {
    char from[KVF_NAME_MAX + 1];
    uint32_t rank;
    uint32_t n_bytes;
    uint8_t bytes[KVF_NOTIFY_MAX];
};

/* A ring in arrival order; those behind the first n_told have no event yet. */
struct kvf_notifications {
    struct kvf_notification *slots; /* owns; [KVF_NOTIFICATIONS_MAX], NULL before one */
    uint32_t first, n_waiting, n_told;
};

/* What a call that waits for the daemon wants to hear. */
struct kvf_answer {
    enum kvf_message_type type; /* 0: nobody waits */
    uint32_t pool_id;
    uint64_t sequence; /* of the question */
    bool has_come;
    enum kvf_status status;
    char detail[KVF_DETAIL_MAX];
};

struct kvf_engine {
    pid_t pid; /* that opened it */
    struct kvf_connection connection;
    int epoll_fd; /* owns; what the caller polls: the socket and event_fd */
    int event_fd; /* owns; readable while there are news */
    bool is_signalled, is_write_armed;
    bool is_lost;
    bool has_daemon_news;         /* the loss has no event yet */
    struct kvf_arena inbox_arena; /* one message at a time */
    struct kvf_arena ack_arena;   /* what `state` points into */
    struct kvf_arena names_arena; /* node names that replaced those of the ack */
    struct kvf_transceiver_state state;
    struct kvf_list pools;
    uint32_t next_pool_id;
    struct kvf_slab *records; /* owns */
    struct kvf_list *buckets; /* owns; live records by request id */
    uint32_t n_buckets;       /* a power of two */
    struct kvf_list live;     /* every record, oldest first */
    struct kvf_list news;     /* records with unread bits, oldest news first */
    struct kvf_notifications notifications;
    struct kvf_answer answer;
    struct kvf_statistics statistics;
    uint8_t *params; /* owns; what kvf_send() delivers, NULL before */
    char detail[KVF_DETAIL_MAX];
};

/* ---- engine.c */

/* Every call's first step. Errors: INVALID_ARGUMENT (NULL), FORKED. */
enum kvf_status KVF_MUST_CHECK kvf_engine_enter(struct kvf_engine *engine);
/* The same for calls that need the daemon: DAEMON_LOST too. */
enum kvf_status KVF_MUST_CHECK kvf_engine_enter_live(struct kvf_engine *engine);
/* Writes the sentence for kvf_engine_detail() and returns status. */
enum kvf_status kvf_engine_fail(struct kvf_engine *engine, enum kvf_status status,
                                const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Cuts text to fit. */
void kvf_text_copy(char *out, size_t out_bytes, const char *text);
/* timeout_ms from now; 0 means default_ms. */
uint64_t kvf_deadline_ns(uint32_t timeout_ms, uint32_t default_ms);

/* ---- inbox.c */

/* Writes what is queued, takes in what has come. Never blocks. */
void kvf_engine_pump(struct kvf_engine *engine);
/* Makes the caller's descriptor tell the truth; after whatever read or made news. */
void kvf_engine_settle(struct kvf_engine *engine);
/* Queues a message and tries to write it at once. After KVF_OK it is the daemon's, or
 * the loss of the daemon has been noticed and told to every record. */
enum kvf_status KVF_MUST_CHECK kvf_engine_send(struct kvf_engine *engine,
                                               const struct kvf_message *message, int fd);
/* Sends a question and waits for the answer of that type (and pool). Returns the
 * answer's status; own errors: BUSY, TIMED_OUT, DAEMON_LOST. */
enum kvf_status KVF_MUST_CHECK kvf_engine_ask(struct kvf_engine *engine,
                                              const struct kvf_message *question, int fd,
                                              const struct kvf_answer *expected,
                                              uint64_t deadline_ns);

/* ---- record.c */

/* NULL: the limit of live and unread transfers is reached, or no memory. */
struct kvf_record *kvf_record_create(struct kvf_engine *engine, uint64_t request_id);
void kvf_record_destroy(struct kvf_engine *engine, struct kvf_record *record);
struct kvf_record *kvf_record_find(const struct kvf_engine *engine, uint64_t handle);
/* The chain that holds every live record of this request id, among others. */
struct kvf_list *kvf_record_bucket(const struct kvf_engine *engine, uint64_t request_id);
/* New bits from the daemon or from its loss; the first DONE fixes status and detail. */
void kvf_record_update(struct kvf_engine *engine, struct kvf_record *record,
                       const struct kvf_transfer_event *what);
/* Hands out what is known; the record is gone when that included REUSABLE. */
void kvf_record_read(struct kvf_engine *engine, struct kvf_record *record,
                     struct kvf_event *out_event);

/* ---- notification.c */

/* Keeps a copy; beyond KVF_NOTIFICATIONS_MAX waiting ones it is dropped. */
void kvf_notifications_add(struct kvf_notifications *notifications,
                           const struct kvf_engine_notify *notify);
/* False: every waiting one has been told. */
bool kvf_notifications_tell(struct kvf_notifications *notifications,
                            struct kvf_event *out_event);
uint32_t kvf_notifications_untold(const struct kvf_notifications *notifications);

/* ---- pool.c */

struct kvf_pool *kvf_engine_pool(const struct kvf_engine *engine, uint32_t group);
/* Takes the pool from its engine and unmaps it. Accepts NULL and half-built ones. */
void kvf_pool_destroy(struct kvf_pool *pool);

/* ---- arguments.c */

/* Whether a struct of `size` bytes can be understood by a library that knows `known` of
 * them: older callers' are refused, newer ones' must be zero in what is not known. */
enum kvf_status KVF_MUST_CHECK kvf_arguments_struct(struct kvf_engine *engine,
                                                    const char *name, const void *object,
                                                    size_t known);
/* NULL counts as "". */
enum kvf_status KVF_MUST_CHECK kvf_arguments_text(struct kvf_engine *engine,
                                                  const char *name, const char *text,
                                                  size_t max_bytes);
/* Checks every table against its pool and writes out[n]; block ids are not copied. */
enum kvf_status KVF_MUST_CHECK kvf_arguments_tables(struct kvf_engine *engine,
                                                    const struct kvf_block_table *tables,
                                                    uint32_t n, uint32_t n_tokens,
                                                    struct kvf_table out[KVF_TABLES_MAX]);
/* 32 hex digits into 16 bytes. */
enum kvf_status KVF_MUST_CHECK kvf_arguments_trace_id(struct kvf_engine *engine,
                                                      const char *text, uint8_t out[16]);

#endif
