/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of ended transfers. The kvferry format has one row per (request, counterpart) and
 * one column table, below; the trtllm format keeps the original's columns and units (ms,
 * Gbit/s) so that existing scripts read it. Rows stay in a ring for HTTP; files are
 * sink's business (timings_file.c).
 */
#include "service/timings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "service/timings_file.h"

struct kvf_timings {
    struct kvf_timing *rows; /* owns; ring of n_rows */
    uint64_t n_rows;
    uint64_t last_sequence;
    enum kvf_timings_text file_format;
    struct kvf_timings_file *file; /* owns; NULL: no files */
};

/* ---- text */

struct kvf_text {
    char *at;
    size_t left; /* 0: did not fit */
};

static void put(struct kvf_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct kvf_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= text->left) {
        text->left = 0;
        return;
    }
    text->at += n;
    text->left -= (size_t)n;
}

/* RFC 4180 quoting; a leading = + - @ would be a formula to a spreadsheet. */
static void put_text(struct kvf_text *text, const char *value)
{
    bool is_formula = value[0] != '\0' && strchr("=+-@", value[0]) != NULL;
    if (!is_formula && strpbrk(value, ",\"\r\n") == NULL) {
        put(text, "%s", value);
        return;
    }
    put(text, "\"%s", is_formula ? "'" : "");
    for (const char *c = value; *c != '\0'; c++) {
        put(text, *c == '"' ? "\"\"" : "%c", *c);
    }
    put(text, "\"");
}

static void put_u64(struct kvf_text *text, uint64_t value)
{
    put(text, "%" PRIu64, value);
}

static uint64_t since(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns != 0 && to_ns > from_ns ? to_ns - from_ns : 0;
}

static double gbit_per_s(uint64_t n_bytes, uint64_t ns)
{
    return ns > 0 ? (double)n_bytes * 8.0 / (double)ns : 0.0;
}

static uint64_t wire_ns(const struct kvf_timing *t)
{
    uint64_t first = t->t_first_post != 0 ? t->t_first_post : t->t_first_byte;
    uint64_t last = t->t_last_byte != 0 ? t->t_last_byte : t->t_last_receipt;
    return since(first, last != 0 ? last : t->t_notify);
}

/* ---- the column table of the kvferry format */

#define NUMBER(name, expression)                                                         \
    static void column_##name(struct kvf_text *text, const struct kvf_timing *t)         \
    {                                                                                    \
        put_u64(text, (uint64_t)(expression));                                           \
    }
#define TEXT(name, expression)                                                           \
    static void column_##name(struct kvf_text *text, const struct kvf_timing *t)         \
    {                                                                                    \
        put_text(text, (expression));                                                    \
    }

NUMBER(seq, t->sequence)
NUMBER(request_id, t->request_id)
NUMBER(attempt, t->attempt)
TEXT(trace_id, t->trace_id)
TEXT(direction, t->direction)
TEXT(instance, t->instance)
NUMBER(rank, t->rank)
TEXT(peer, t->peer)
NUMBER(peer_rank, t->peer_rank)
TEXT(engine, t->engine)
TEXT(path_send, t->path_send)
TEXT(path_recv, t->path_recv)
TEXT(transport, t->lane[0] != '\0' ? t->lane : t->transport)
TEXT(outcome, kvf_status_name(t->outcome))
TEXT(cause, t->cause)
TEXT(integrity, t->integrity)
NUMBER(tokens, t->n_tokens)
NUMBER(blocks, t->n_blocks)
NUMBER(runs, t->n_runs)
NUMBER(bytes, t->n_bytes)
NUMBER(retries, t->n_retries)
NUMBER(t_accept_ns, t->t_accept)
NUMBER(t_match_ns, t->t_match)
NUMBER(t_ready_ns, t->t_ready)
NUMBER(t_first_gather_ns, t->t_first_gather)
NUMBER(t_first_post_ns, t->t_first_post)
NUMBER(t_first_byte_ns, t->t_first_byte)
NUMBER(t_last_byte_ns, t->t_last_byte)
NUMBER(t_last_scatter_ns, t->t_last_scatter)
NUMBER(t_notify_ns, t->t_notify)
NUMBER(t_quiesced_ns, t->t_quiesced)
NUMBER(duration_us, since(t->t_accept, t->t_notify) / KVF_NS_PER_US)
NUMBER(queue_us, since(t->t_accept, t->t_match) / KVF_NS_PER_US)
NUMBER(wire_us, wire_ns(t) / KVF_NS_PER_US)

static void column_wall_accept(struct kvf_text *text, const struct kvf_timing *t)
{
    char time[KVF_TIME_TEXT_MAX];
    kvf_clock_format_wall(t->wall_accept_ns, time);
    put(text, "%s", time);
}

static void column_gbit_per_s(struct kvf_text *text, const struct kvf_timing *t)
{
    put(text, "%.3f", gbit_per_s(t->n_bytes, wire_ns(t)));
}

/* Left alone, the list would be indented deeper with every line. */
/* clang-format off */
#define COLUMNS(X)                                                                       \
    X(seq) X(request_id) X(attempt) X(trace_id) X(direction) X(instance) X(rank)         \
    X(peer) X(peer_rank) X(engine) X(path_send) X(path_recv) X(transport) X(outcome)     \
    X(cause) X(integrity) X(tokens) X(blocks) X(runs) X(bytes) X(retries)                \
    X(wall_accept) X(t_accept_ns) X(t_match_ns) X(t_ready_ns) X(t_first_gather_ns)       \
    X(t_first_post_ns) X(t_first_byte_ns) X(t_last_byte_ns) X(t_last_scatter_ns)         \
    X(t_notify_ns) X(t_quiesced_ns) X(duration_us) X(queue_us) X(wire_us) X(gbit_per_s)
/* clang-format on */

static const struct {
    const char *name;
    void (*put)(struct kvf_text *text, const struct kvf_timing *timing);
} columns[] = {
#define COLUMN(name) {#name, column_##name},
    COLUMNS(COLUMN)
#undef COLUMN
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* ---- the original's columns */

/* "0.0" for a point that was not reached; "previous" moves on reached points only. */
static void put_step(struct kvf_text *text, uint64_t *previous, uint64_t point)
{
    if (point == 0) {
        put(text, ",0.0");
        return;
    }
    put(text, ",%.6g", (double)since(*previous, point) / 1e6);
    *previous = point;
}

static void trtllm_row(struct kvf_text *text, const struct kvf_timing *t)
{
    bool is_send = strcmp(t->direction, "send") == 0;
    uint64_t first = is_send ? t->t_first_post : t->t_first_byte;
    uint64_t last = is_send ? t->t_last_receipt : t->t_last_byte;
    uint64_t previous = t->t_accept;
    put_u64(text, t->request_id);
    put_step(text, &previous, t->t_match);
    put_step(text, &previous, t->t_ready);
    put_step(text, &previous, first);
    put_step(text, &previous, last);
    put_step(text, &previous, is_send ? t->t_notify : t->t_last_scatter);
    put(text, ",%.6g,%.6g,%.6g", (double)since(t->t_ready, first) / 1e6,
        (double)since(first, last) / 1e6, gbit_per_s(t->n_bytes, since(first, last)));
}

static size_t finish(const struct kvf_text *text, const char *out)
{
    return text->left > 0 ? (size_t)(text->at - out) : 0;
}

size_t kvf_timings_header(enum kvf_timings_text format, char *out, size_t max)
{
    struct kvf_text text = {.at = out, .left = max};
    if (format == KVF_TIMINGS_TEXT_TRTLLM) {
        put(&text,
            "RequestID,RequestInfo,Preparation,Preprocess,Transmissions,Postprocess,"
            "Delay,Duration,Bandwidth(Gbps)");
    }
    for (size_t i = 0; format == KVF_TIMINGS_TEXT_KVFERRY && i < N_COLUMNS; i++) {
        put(&text, "%s%s", i > 0 ? "," : "", columns[i].name);
    }
    put(&text, "\n");
    return finish(&text, out);
}

size_t kvf_timings_row(enum kvf_timings_text format, const struct kvf_timing *timing,
                       char *out, size_t max)
{
    struct kvf_text text = {.at = out, .left = max};
    if (format == KVF_TIMINGS_TEXT_TRTLLM) {
        trtllm_row(&text, timing);
    }
    for (size_t i = 0; format == KVF_TIMINGS_TEXT_KVFERRY && i < N_COLUMNS; i++) {
        if (i > 0) {
            put(&text, ",");
        }
        columns[i].put(&text, timing);
    }
    put(&text, "\n");
    return finish(&text, out);
}

/* ---- the ring */

enum kvf_status kvf_timings_create(const struct kvf_config *config,
                                   struct kvf_timings **out)
{
    struct kvf_timings *timings = kvf_alloc(sizeof(*timings));
    if (timings == NULL) {
        return KVF_NO_MEMORY;
    }
    enum kvf_status status = KVF_NO_MEMORY;
    timings->n_rows = config->timings.rows;
    timings->rows = kvf_alloc_array(timings->n_rows, sizeof(*timings->rows));
    if (timings->rows == NULL) {
        goto fail;
    }
    timings->file_format = config->timings.format == KVF_TIMINGS_TRTLLM
                               ? KVF_TIMINGS_TEXT_TRTLLM
                               : KVF_TIMINGS_TEXT_KVFERRY;
    if (config->timings.dir[0] != '\0') {
        status = kvf_timings_file_create(config, &timings->file);
        if (status != KVF_OK) {
            goto fail;
        }
    }
    *out = timings;
    return KVF_OK;
fail:
    kvf_timings_destroy(timings);
    return status;
}

void kvf_timings_destroy(struct kvf_timings *timings)
{
    if (timings == NULL) {
        return;
    }
    kvf_timings_file_destroy(timings->file);
    kvf_free(timings->rows);
    kvf_free(timings);
}

void kvf_timings_add(struct kvf_timings *timings, const struct kvf_timing *timing)
{
    struct kvf_timing *row = &timings->rows[timings->last_sequence % timings->n_rows];
    *row = *timing;
    row->sequence = ++timings->last_sequence;
    /* The original has no row when nothing was measured. */
    bool has_row = timings->file_format == KVF_TIMINGS_TEXT_KVFERRY || row->n_bytes > 0;
    if (timings->file != NULL && has_row) {
        kvf_timings_file_add(timings->file, timings->file_format, row);
    }
}

const struct kvf_timing *kvf_timings_after(const struct kvf_timings *timings,
                                           uint64_t since_)
{
    uint64_t oldest = timings->last_sequence > timings->n_rows
                          ? timings->last_sequence - timings->n_rows
                          : 0;
    uint64_t sequence = since_ > oldest ? since_ : oldest;
    return sequence < timings->last_sequence ? &timings->rows[sequence % timings->n_rows]
                                             : NULL;
}

uint64_t kvf_timings_dropped(const struct kvf_timings *timings)
{
    return timings->file != NULL ? kvf_timings_file_dropped(timings->file) : 0;
}
