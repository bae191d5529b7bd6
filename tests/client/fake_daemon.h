/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon for the tests of the library: a thread that listens on a socket of its own,
 * greets, answers pool messages as told, and notes everything it hears. It moves no data
 * and decides nothing: events are sent by the test. One connection at a time.
 */
#ifndef KVF_TESTS_CLIENT_FAKE_DAEMON_H
#define KVF_TESTS_CLIENT_FAKE_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/kvferry.h>

#include "proto/message.h"

enum fake_greeting {
    FAKE_GREETS = 0,   /* with hello_status */
    FAKE_SILENT,       /* accepts and says nothing */
    FAKE_HANGS_UP,     /* closes when the hello has come */
    FAKE_GARBAGE,      /* answers with bytes that are no frame */
    FAKE_OTHER_MESSAGE /* greets with a Pong */
};

struct fake_config {
    enum fake_greeting greeting;
    enum kvf_status hello_status;
    const char *hello_detail;
    uint32_t hello_version; /* 0: 1 */
    uint32_t max_requests;  /* 0: 64 */
    enum kvf_status pool_status, comm_status;
    bool ignores_pools; /* leaves pool messages unanswered */
    bool hangs_up_on_pool;
    bool confirms_cancels; /* every cancel by handle ends its transfer at once */
    bool is_old;           /* answers CommStateSet with Error{UNSUPPORTED} */
};

/* What was heard, reduced to what tests compare. */
struct fake_seen {
    uint32_t type; /* enum kvf_message_type */
    uint64_t handle, request_id;
    uint32_t attempt, n_tokens, n_prefix_tokens, deadline_ms, pool_id, group;
    int32_t status;
    uint64_t offset, length;
    size_t n_tables, n_blocks, n_hashes, n_bytes;
    uint32_t last_block;
    bool is_ready, by_request, has_trace_id, has_fd;
    char label[KVF_LABEL_MAX + 1];
    char text[KVF_NAME_MAX + 1]; /* instance, or the first node name */
    uint8_t nonce[KVF_NONCE_BYTES];
};

struct fake_daemon;

struct fake_daemon *fake_daemon_start(const struct fake_config *config);
void fake_daemon_stop(struct fake_daemon *fake); /* accepts NULL */
const char *fake_daemon_path(const struct fake_daemon *fake);

/* Waits up to 5 s for the nth (from 0) message of the type; fails the test without. */
struct fake_seen fake_daemon_expect(struct fake_daemon *fake, uint32_t type, size_t nth);
size_t fake_daemon_count(struct fake_daemon *fake, uint32_t type);
/* The descriptor of the last PoolRegister, now the caller's. */
int fake_daemon_take_fd(struct fake_daemon *fake);

void fake_daemon_send(struct fake_daemon *fake, const struct kvf_message *message);
void fake_daemon_event(struct fake_daemon *fake, uint64_t handle, uint32_t bits,
                       enum kvf_status status);
void fake_daemon_garbage(struct fake_daemon *fake);
/* Changes what later messages meet; waits until the daemon's thread knows. */
void fake_daemon_configure(struct fake_daemon *fake, const struct fake_config *config);
/* While paused nothing is read from the engine. */
void fake_daemon_pause(struct fake_daemon *fake, bool is_paused);
void fake_daemon_hang_up(struct fake_daemon *fake);

#endif
