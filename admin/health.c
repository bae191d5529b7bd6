/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes. /livez answers from the loop it vouches for: a loop that hangs does not answer,
 * and the prober's timeout is the 503. /readyz is the daemon's own list of checks plus
 * its state; warnings are shown and do not count. Loop thread.
 */
#include <stdio.h>
#include <string.h>

#include "admin/accept.h"
#include "admin/json.h"
#include "admin/pages.h"

#define CHECKS_MAX 64

struct readiness {
    struct kvf_admin_check checks[CHECKS_MAX];
    size_t n;
    bool is_ready;
};

void kvf_page_livez(struct kvf_http_request *request)
{
    kvf_reply_begin(request, 200, KVF_TEXT_TYPE);
    kvf_reply_print(request, "ok\n");
}

void kvf_page_startupz(struct kvf_http_request *request)
{
    struct kvf_admin_status status;
    request->ops->status(request->ops_owner, &status);
    bool is_starting = strcmp(status.state, "starting") == 0;
    kvf_reply_begin(request, is_starting ? 503 : 200, KVF_TEXT_TYPE);
    kvf_reply_print(request, is_starting ? "starting\n" : "ok\n");
}

static void gather(struct kvf_http_request *request, struct readiness *out)
{
    struct kvf_admin_status status;
    request->ops->status(request->ops_owner, &status);
    struct kvf_admin_check *state = &out->checks[0];
    *state = (struct kvf_admin_check){.name = "state",
                                      .is_ok = strcmp(status.state, "ready") == 0};
    (void)snprintf(state->detail, sizeof(state->detail), "%s", status.state);
    out->n =
        1 + request->ops->checks(request->ops_owner, out->checks + 1, CHECKS_MAX - 1);
    out->is_ready = true;
    for (size_t i = 0; i < out->n; i++) {
        out->is_ready &= out->checks[i].is_ok || out->checks[i].is_warning;
    }
}

static void answer_text(struct kvf_http_request *request, const struct readiness *ready)
{
    bool is_verbose = kvf_http_query(request, "verbose") != NULL;
    if (ready->is_ready && !is_verbose) {
        kvf_reply_print(request, "ok\n");
        return;
    }
    for (size_t i = 0; i < ready->n; i++) {
        const struct kvf_admin_check *check = &ready->checks[i];
        if (check->is_ok) {
            kvf_reply_print(request, "[+]%s ok\n", check->name);
        } else {
            kvf_reply_print(request, "[%c]%s: %s\n", check->is_warning ? '!' : '-',
                            check->name, check->detail);
        }
    }
    kvf_reply_print(request, "readyz check %s\n", ready->is_ready ? "passed" : "failed");
}

static json_t *ready_json(const struct readiness *ready)
{
    json_t *checks = json_array();
    for (size_t i = 0; i < ready->n && checks != NULL; i++) {
        if (json_array_append_new(checks, kvf_json_check(&ready->checks[i])) != 0) {
            json_decref(checks);
            checks = NULL;
        }
    }
    return json_pack("{s:b, s:o}", "ready", ready->is_ready, "checks", checks);
}

void kvf_page_readyz(struct kvf_http_request *request)
{
    struct readiness ready;
    gather(request, &ready);
    unsigned int status = ready.is_ready ? 200 : 503;
    if (kvf_accept_prefers(request->headers.accept, KVF_JSON_TYPE, "text/plain")) {
        kvf_json_reply(request, status, KVF_JSON_TYPE, ready_json(&ready));
    } else {
        kvf_reply_begin(request, status, KVF_TEXT_TYPE);
        answer_text(request, &ready);
    }
    kvf_reply_header(request, "Vary", "Accept");
}
