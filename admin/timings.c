/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timing rows as CSV, in slices of at most 32 KiB: each slice holds whole rows and
 * moves the cursor, so what is recorded meanwhile comes at the end and nothing is held
 * between turns but a sequence number. Loop thread.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#include "admin/pages.h"
#include "admin/query.h"

#define CSV_TYPE "text/csv; charset=utf-8; header=present"

static const char *const format_names[] = {
    [KVF_ADMIN_TIMINGS_KVFERRY] = "kvferry",
    [KVF_ADMIN_TIMINGS_TRTLLM] = "trtllm",
};
#define N_FORMATS (sizeof(format_names) / sizeof(format_names[0]))

static enum kvf_status fill_csv(struct kvf_http_request *request)
{
    struct kvf_page_state *page = &request->page;
    struct kvf_buf *out = &request->reply.body;
    uint8_t *bytes = kvf_buf_reserve(out, KVF_HTTP_SLICE_BYTES);
    if (bytes == NULL) {
        return KVF_NO_MEMORY;
    }
    size_t n;
    if (!page->is_begun) {
        page->is_begun = true;
        n = request->ops->timings_header(request->ops_owner, page->format, (char *)bytes,
                                         KVF_HTTP_SLICE_BYTES);
    } else {
        n = request->ops->timings_rows(request->ops_owner, page->format, &page->cursor,
                                       (char *)bytes, KVF_HTTP_SLICE_BYTES);
    }
    kvf_buf_commit(out, n);
    return KVF_OK;
}

/* timings-prefill-0-20261130T210000Z.csv, for `curl -OJ` and browsers. */
static void name_file(struct kvf_http_request *request)
{
    struct kvf_admin_status status;
    char text[KVF_TIME_TEXT_MAX];
    char stamp[KVF_TIME_TEXT_MAX];
    size_t n = 0;
    request->ops->status(request->ops_owner, &status);
    for (char *c = status.node; *c != '\0'; c++) {
        *c = isalnum((unsigned char)*c) || *c == '-' ? *c : '_';
    }
    kvf_clock_format_wall(kvf_loop_wall_ns(request->loop), text);
    for (const char *c = text; *c != '\0' && *c != '.'; c++) {
        if (isalnum((unsigned char)*c)) {
            stamp[n++] = *c;
        }
    }
    stamp[n] = '\0';
    kvf_reply_header(request, "Content-Disposition",
                     "attachment; filename=\"timings-%s-%sZ.csv\"", status.node, stamp);
}

void kvf_page_timings(struct kvf_http_request *request)
{
    size_t format = KVF_ADMIN_TIMINGS_KVFERRY;
    if (!kvf_query_choice(request, "format", format_names, N_FORMATS, &format) ||
        !kvf_query_u64(request, "since", 0, UINT64_MAX, &request->page.cursor)) {
        return;
    }
    request->page.format = (enum kvf_admin_timings)format;
    if (kvf_reply_stream(request, CSV_TYPE, fill_csv)) {
        name_file(request);
    }
}
