/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real daemons for the integration tests: each kvferryd is a child process with its own
 * directory, configuration and ports on loopback, and the tests are its engines through
 * libkvferry. Nothing here looks into the daemon: what a test knows comes from events,
 * HTTP, the log and the timing files.
 *
 * Nodes are the test's storage; a node owns its process and its directory until
 * fixture_node_fini(). Every failure of the fixture itself fails the running test.
 * Waiting is polling with a bound, never a sleep of a guessed length. Single thread.
 */
#ifndef KVF_TESTS_INTEGRATION_FIXTURE_H
#define KVF_TESTS_INTEGRATION_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <kvferry/kvferry.h>

#define FIXTURE_WAIT_MS    5000u
#define FIXTURE_PATH_BYTES 96u
#define FIXTURE_TEXT_BYTES 65536u

/* ---- time */

uint64_t fixture_now_ms(void);
/* Between two looks at a condition; false once the deadline passed. */
bool fixture_pause_until(uint64_t deadline_ms);

/* ---- daemons: fixture.c */

struct fixture_node {
    const char *name; /* borrows a literal */
    pid_t pid;        /* 0: not running */
    uint16_t control_port, observe_port, data_port, data_port_last;
    char dir[FIXTURE_PATH_BYTES];
};

struct fixture_options {
    const char *transport; /* "ucx_tcp" or "tcp"; no other is allowed to be used */
    bool force_contiguous;
    const char *timings; /* format of timing files below <dir>/timings; NULL: none */
};

/* Nodes "a" and "b" that know each other. Instances: ctx, ctx-small and gen-near on a;
 * gen and gen-small on b. Started, ready and connected on return. */
struct fixture {
    struct fixture_node a, b;
    struct fixture_options options;
};

void fixture_init(struct fixture *fixture, const struct fixture_options *options);
/* Asks what runs to stop, which it must do with exit code 0, and removes the directories.
 * Accepts a half-built fixture. */
void fixture_fini(struct fixture *fixture);

void fixture_node_start(struct fixture_node *node);
/* Sends the signal and reaps the process; returns its wait status. */
int fixture_node_stop(struct fixture_node *node, int signal_number);
/* Until /readyz answers 200 and no check of it fails, peers included. */
void fixture_node_wait_ready(const struct fixture_node *node);
bool fixture_node_is_alive(const struct fixture_node *node);
void fixture_node_path(const struct fixture_node *node, const char *file, char *out);
/* Whether the log holds text now; waiting for it up to FIXTURE_WAIT_MS. */
bool fixture_log_has(const struct fixture_node *node, const char *text);

/* Whole file as a string, at most max - 1 bytes; "" when there is none. */
void fixture_read_file(const char *path, char *out, size_t max);

/* ---- HTTP and raw sockets: fixture_net.c */

/* One exchange; returns the status code (0: no answer) and the answer's text from its
 * first header on. The observe listener serves GET, the admin socket everything. */
int fixture_observe_get(const struct fixture_node *node, const char *target, char *out,
                        size_t max);
int fixture_admin(const struct fixture_node *node, const char *method, const char *target,
                  char *out, size_t max);
/* Descriptors of the caller; -1 when nobody listens. */
int fixture_connect_tcp(uint16_t port);
int fixture_connect_unix(const char *path);
/* A port nobody listens on, and n_more that follow it. */
uint16_t fixture_free_ports(uint16_t n_more);

/* ---- engines: fixture_engine.c */

struct fixture_engine {
    struct kvf_engine *engine; /* owns */
    struct kvf_pool *pool;     /* owned by engine */
    uint8_t *base;             /* of the pool */
    uint32_t n_blocks, block_bytes, tokens_per_block;
};

/* Opens rank 0 of the instance at the node and registers a pool of n_blocks, poisoned.
 * Small instances have blocks of 4 KiB, the others of 32 KiB. */
void fixture_engine_open(struct fixture_engine *engine, const struct fixture_node *node,
                         const char *instance, uint32_t n_blocks);
void fixture_engine_close(struct fixture_engine *engine);
/* Configuration for kvf_engine_open(); the path is kept in storage of the caller. */
struct kvf_engine_config fixture_engine_config(const struct fixture_node *node,
                                               const char *instance, char *path);
/* The whole-block layout of an instance: a block is one run that holds every layer. */
void fixture_layout(const char *instance, uint32_t n_blocks, struct kvf_layout *out,
                    uint64_t layer_offsets[2]);

void fixture_poison(struct fixture_engine *engine);
/* Writes the content of logical block i of the request into block blocks[i]. */
void fixture_fill(struct fixture_engine *engine, uint64_t request_id,
                  const int32_t *blocks, uint32_t n);
/* blocks[i] holds logical block i for skip <= i < n, and no other byte was written. */
void fixture_verify(const struct fixture_engine *engine, uint64_t request_id,
                    const int32_t *blocks, uint32_t n, uint32_t skip);
/* Likewise, without a look at the rest of the pool. */
void fixture_verify_blocks(const struct fixture_engine *engine, uint64_t request_id,
                           const int32_t *blocks, uint32_t n);
void fixture_verify_untouched(const struct fixture_engine *engine);

/* ---- one request */

struct fixture_request {
    uint64_t id;
    uint32_t n_blocks;
    uint32_t n_prefix_blocks;
    uint32_t flags; /* of the send */
    uint32_t deadline_ms;
    int32_t send_blocks[64], receive_blocks[64];
    uint8_t params[4096];
    size_t params_len;
    uint64_t send_handle, receive_handle;
};

/* Permuted blocks of both pools, disjoint between requests of one test by `first`. */
void fixture_request_init(struct fixture_request *request, uint64_t id, uint32_t n_blocks,
                          uint32_t first);
enum kvf_status fixture_send(struct fixture_engine *engine,
                             struct fixture_request *request);
enum kvf_status fixture_receive(struct fixture_engine *engine,
                                struct fixture_request *request);
/* Waits for the event of the handle; the outcome must be `expected`. */
struct kvf_event fixture_expect(struct fixture_engine *engine, uint64_t handle,
                                enum kvf_status expected);
/* A whole transfer that must succeed and be byte-exact. */
void fixture_transfer(struct fixture_engine *from, struct fixture_engine *to,
                      uint64_t id);

#endif
