/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logging: one line an event, lower case, noun then value. error = we lost something,
 * warn = we coped, info = state changes an operator wants, debug = proportional to
 * objects, trace = per transfer. Lines go through a bounded ring to a writer thread; a
 * full ring drops and counts. A call site that anybody outside can trigger is limited to
 * 10 lines a second. Callers: loop thread and start-up code. The sink is the one allowed
 * global.
 */
#ifndef KVF_BASE_LOG_H
#define KVF_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/clock.h"

enum kvf_log_level {
    KVF_LOG_ERROR = 0,
    KVF_LOG_WARN = 1,
    KVF_LOG_INFO = 2,
    KVF_LOG_DEBUG = 3,
    KVF_LOG_TRACE = 4
};
enum kvf_log_format { KVF_LOG_AUTO = 0, KVF_LOG_TEXT = 1, KVF_LOG_JSON = 2 };

/* What the line is about; NULL and 0 fields are left out. */
struct kvf_log_ctx {
    const char *comp; /* "peer", "engine", "transfer", ... */
    const char *peer;
    const char *engine;
    uint64_t request_id;
    bool has_request;
};

/* Time of the lines and of the limit, borrowed until changed; kvf_clock_system at start.
 * Before kvf_log_open: the simulator and tests hand in theirs. */
void kvf_log_set_clock(const struct kvf_clock *clock);

/* Starts the writer thread. fd is borrowed (normally 2). AUTO: text on a terminal, else
 * JSON lines. Before open and after close lines go to stderr directly. */
enum kvf_status KVF_MUST_CHECK kvf_log_open(enum kvf_log_format format,
                                            enum kvf_log_level level, int fd,
                                            const char *node);
/* Writes what is queued, for at most 1 s; then fd is the caller's again. */
void kvf_log_close(void);
void kvf_log_set_level(enum kvf_log_level level);
enum kvf_log_level kvf_log_get_level(void);
bool kvf_log_level_parse(const char *text, enum kvf_log_level *out_level);
const char *kvf_log_level_name(enum kvf_log_level level);
/* Events at a level since start, including those a limit or a full ring kept back. */
uint64_t kvf_log_count(enum kvf_log_level level);
/* Lines lost to a full ring or to a descriptor that failed or stayed full. */
uint64_t kvf_log_dropped(void);

/* A call site and its limit: the lines kept back are counted and reported as suppressed=N
 * by the next line that gets through. */
struct kvf_log_site {
    uint64_t window_ns; /* start of the running second */
    uint32_t n_in_window;
    uint32_t n_suppressed;
};

/* Keeps errno. site NULL: no limit. What does not fit in a line is cut, marked by "...".
 */
void kvf_log_write(enum kvf_log_level level, struct kvf_log_site *site,
                   const struct kvf_log_ctx *ctx, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define KVF_LOG_AT(level, ctx, ...)                                                      \
    do {                                                                                 \
        static struct kvf_log_site kvf_log_site_;                                        \
        (level) <= kvf_log_get_level()                                                   \
            ? kvf_log_write((level), &kvf_log_site_, (ctx), __VA_ARGS__)                 \
            : (void)0;                                                                   \
    } while (0)
#define kvf_log_error(ctx, ...) KVF_LOG_AT(KVF_LOG_ERROR, ctx, __VA_ARGS__)
#define kvf_log_warn(ctx, ...)  KVF_LOG_AT(KVF_LOG_WARN, ctx, __VA_ARGS__)
#define kvf_log_info(ctx, ...)  KVF_LOG_AT(KVF_LOG_INFO, ctx, __VA_ARGS__)
#define kvf_log_debug(ctx, ...) KVF_LOG_AT(KVF_LOG_DEBUG, ctx, __VA_ARGS__)
#define kvf_log_trace(ctx, ...) KVF_LOG_AT(KVF_LOG_TRACE, ctx, __VA_ARGS__)

/* Copies text that came from outside, with everything but printable ASCII as \xNN, cut at
 * out_bytes - 1. Returns out. */
const char *kvf_log_escape(const char *text, size_t n, char *out, size_t out_bytes);

#endif
