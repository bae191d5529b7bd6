/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: the list, one request, and its cancellation. The list streams a few rows a
 * turn, so a limit of 1000 costs the loop no more than a limit of 16. A waiting cancel
 * suspends its connection and looks at the request until no entry of it is live. Loop
 * thread.
 */
#include <string.h>

#include "admin/json.h"
#include "admin/pages.h"
#include "admin/query.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define ROWS_PER_TURN 16
#define ENTRIES_MAX   16 /* of one id: two directions, a few attempts */
#define WAIT_MAX_MS   30000u

/* ---- the list */

static const char *const state_names[] = {"active", "done", "failed"};
#define N_STATES (sizeof(state_names) / sizeof(state_names[0]))

static enum kvf_status write_rows(struct kvf_http_request *request,
                                  const struct kvf_admin_request *rows, size_t n)
{
    struct kvf_buf *out = &request->reply.body;
    for (size_t i = 0; i < n; i++) {
        enum kvf_status status = KVF_OK;
        if (request->page.n_written > 0) {
            status = kvf_buf_append(out, ",", 1);
        }
        if (status == KVF_OK) {
            status = kvf_json_write(kvf_json_request(&rows[i], false), out);
        }
        if (status != KVF_OK) {
            return status;
        }
        request->page.n_written++;
    }
    return KVF_OK;
}

static void write_end(struct kvf_http_request *request)
{
    if (request->page.cursor == 0) {
        kvf_reply_print(request, "],\"next_since\":null}\n");
    } else {
        kvf_reply_print(request, "],\"next_since\":%llu}\n",
                        (unsigned long long)request->page.cursor);
    }
}

static enum kvf_status fill_list(struct kvf_http_request *request)
{
    struct kvf_page_state *page = &request->page;
    struct kvf_admin_request rows[ROWS_PER_TURN];
    if (page->is_ended) {
        return KVF_OK;
    }
    if (!page->is_begun) {
        page->is_begun = true;
        kvf_reply_print(request, "{\"items\":[");
    }
    size_t n_left = page->filter.limit - page->n_written;
    struct kvf_admin_filter filter = page->filter;
    filter.limit = n_left < ROWS_PER_TURN ? n_left : ROWS_PER_TURN;
    size_t n = request->ops->requests(request->ops_owner, &filter, rows, filter.limit,
                                      &page->cursor);
    enum kvf_status status = write_rows(request, rows, n);
    if (status != KVF_OK) {
        return status;
    }
    page->filter.since = page->cursor;
    /* Without rows the client goes on by next_since: a slice must not be empty. */
    if (page->cursor == 0 || n == 0 || page->n_written == page->filter.limit) {
        page->is_ended = true;
        write_end(request);
    }
    return KVF_OK;
}

static bool read_filter(struct kvf_http_request *request, struct kvf_admin_filter *out)
{
    uint32_t states = (1u << N_STATES) - 1;
    uint64_t since = 0;
    uint64_t limit = LIMIT_DEFAULT;
    if (!kvf_query_set(request, "state", state_names, N_STATES, &states) ||
        !kvf_query_u64(request, "since", 0, UINT64_MAX, &since) ||
        !kvf_query_u64(request, "limit", 1, LIMIT_MAX, &limit)) {
        return false;
    }
    *out = (struct kvf_admin_filter){.want_active = (states & 1) != 0,
                                     .want_done = (states & 2) != 0,
                                     .want_failed = (states & 4) != 0,
                                     .peer = kvf_http_query(request, "peer"),
                                     .engine = kvf_http_query(request, "engine"),
                                     .since = since,
                                     .limit = (size_t)limit};
    return true;
}

void kvf_page_requests(struct kvf_http_request *request)
{
    if (read_filter(request, &request->page.filter)) {
        /* On failure the 503 is written already. */
        (void)kvf_reply_stream(request, KVF_JSON_TYPE, fill_list);
    }
}

/* ---- one request */

static void answer_unknown(struct kvf_http_request *request)
{
    kvf_problem_reply(request, KVF_PROBLEM_REQUEST_NOT_FOUND, "no request '%s' is known",
                      request->parameter);
}

void kvf_page_request(struct kvf_http_request *request)
{
    struct kvf_admin_request entries[ENTRIES_MAX];
    size_t n = request->ops->request(request->ops_owner, request->parameter, entries,
                                     ENTRIES_MAX);
    if (n == 0) {
        answer_unknown(request);
        return;
    }
    json_t *items = json_array();
    for (size_t i = 0; i < n && items != NULL; i++) {
        if (json_array_append_new(items, kvf_json_request(&entries[i], true)) != 0) {
            json_decref(items);
            items = NULL;
        }
    }
    kvf_json_reply(
        request, 200, KVF_JSON_TYPE,
        json_pack("{s:o, s:o}", "id", kvf_json_text(request->parameter), "items", items));
}

/* ---- cancel */

/* entry NULL: nothing is known of how it ends. */
static void answer_cancel(struct kvf_http_request *request, unsigned int status,
                          const char *state, const struct kvf_admin_request *entry)
{
    kvf_json_reply(
        request, status, KVF_JSON_TYPE,
        json_pack("{s:o, s:o, s:o}", "id", kvf_json_text(request->parameter), "state",
                  kvf_json_text(state), "status",
                  kvf_json_text_or_null(entry != NULL ? entry->status : NULL)));
}

/* The entry that speaks for the id: a live one if there is any, else the newest. */
static bool find_entry(struct kvf_http_request *request, struct kvf_admin_request *out)
{
    struct kvf_admin_request entries[ENTRIES_MAX];
    size_t n = request->ops->request(request->ops_owner, request->parameter, entries,
                                     ENTRIES_MAX);
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        bool is_newer = entries[i].sequence > entries[best].sequence;
        if (entries[i].is_live != entries[best].is_live ? entries[i].is_live : is_newer) {
            best = i;
        }
    }
    if (n > 0) {
        *out = entries[best];
    }
    return n > 0;
}

static bool poll_cancel(struct kvf_http_request *request)
{
    struct kvf_admin_request entry;
    if (!find_entry(request, &entry)) {
        answer_unknown(request);
        return true;
    }
    if (!entry.is_live) {
        answer_cancel(request, 200, entry.state, &entry);
        return true;
    }
    if (kvf_loop_now_ns(request->loop) >= request->page.deadline_ns) {
        answer_cancel(request, 202, "cancelling", NULL);
        return true;
    }
    return false;
}

static void answer_done(struct kvf_http_request *request)
{
    struct kvf_admin_request entry;
    bool is_found = find_entry(request, &entry);
    answer_cancel(request, 200, "already_done", is_found ? &entry : NULL);
}

void kvf_page_cancel(struct kvf_http_request *request)
{
    char who[KVF_HTTP_WHO_MAX];
    uint64_t wait_ms = 0;
    if (!kvf_query_duration(request, "wait", WAIT_MAX_MS, &wait_ms)) {
        return;
    }
    enum kvf_status status = request->ops->cancel(request->ops_owner, request->parameter,
                                                  kvf_http_who(request, who));
    if (status == KVF_NOT_FOUND) {
        answer_unknown(request);
    } else if (status == KVF_TOO_LATE) {
        answer_done(request);
    } else if (status != KVF_OK) {
        kvf_problem_reply(request, KVF_PROBLEM_UNAVAILABLE, "not cancelled: %s",
                          kvf_status_text(status));
    } else if (wait_ms == 0) {
        answer_cancel(request, 202, "cancelling", NULL);
    } else {
        request->page.deadline_ns =
            kvf_loop_now_ns(request->loop) + wait_ms * KVF_NS_PER_MS;
        kvf_reply_wait(request, poll_cancel);
    }
}
