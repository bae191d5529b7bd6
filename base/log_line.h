/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One log line as bytes: the text and the JSON form with the fixed keys ts, level, msg,
 * comp, node, req, peer, engine, suppressed, in this order. Pure: no clock, no state, no
 * descriptor. Values are cut so that a line always fits, and a cut line is still one
 * whole line of valid JSON.
 */
#ifndef KVF_BASE_LOG_LINE_H
#define KVF_BASE_LOG_LINE_H

#include "base/log.h"

#define KVF_LOG_LINE_MAX 1022

struct kvf_log_line {
    uint16_t n_bytes; /* with the newline, without the NUL */
    char bytes[KVF_LOG_LINE_MAX];
};

struct kvf_log_event {
    uint64_t wall_ns;
    enum kvf_log_level level;
    const char *message;
    const char *node; /* may be NULL */
    uint32_t n_suppressed;
    struct kvf_log_ctx ctx;
};

/* format is TEXT or JSON. */
void kvf_log_line_format(enum kvf_log_format format, const struct kvf_log_event *event,
                         struct kvf_log_line *out_line);

#endif
