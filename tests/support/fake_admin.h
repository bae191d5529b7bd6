/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon as the HTTP side sees it: kvf_admin_ops over plain arrays that tests set, and
 * both listeners opened on a loop of their own. The test's thread turns the loop.
 */
#ifndef KVF_TESTS_FAKE_ADMIN_H
#define KVF_TESTS_FAKE_ADMIN_H

#include <stddef.h>

#include "admin/admin.h"

#define FAKE_REQUESTS_MAX 2048

struct fake_admin {
    struct kvf_loop *loop;
    struct kvf_admin *admin; /* NULL until fake_admin_open */
    struct kvf_metrics *metrics;

    char state[16];
    struct kvf_admin_check checks[8];
    size_t n_checks;
    struct kvf_admin_engine engines[4];
    size_t n_engines;
    struct kvf_admin_peer peers[4];
    size_t n_peers;
    struct kvf_admin_request *requests; /* in sequence order */
    size_t n_requests;
    uint64_t n_timings;
    bool ends_on_cancel; /* a cancelled request ends at the second look */

    size_t n_cancels, n_collects, n_looks;
    char cancelled_id[128], cancelled_by[128];
    size_t longest_slice, most_rows; /* asked of timings_rows and requests */
};

/* A ready daemon with one engine, two peers, one check and three requests: 17 (done),
 * 18 (streaming) and 19 (failed). */
void fake_admin_init(struct fake_admin *fake);
void fake_admin_fini(struct fake_admin *fake);
/* Turns the table of requests into n ended ones, sequences 1..n. */
void fake_admin_fill_requests(struct fake_admin *fake, size_t n);

struct fake_listeners {
    const char *observe, *admin; /* NULL: 127.0.0.1:0 */
    const char *token_file;
    bool is_insecure;
};
enum kvf_status KVF_MUST_CHECK fake_admin_open(struct fake_admin *fake,
                                               const struct fake_listeners *at);

#endif
