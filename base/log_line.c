/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a line into a fixed buffer. The message comes before the context in the line but
 * must not push it out, so the context is built first, into its own buffer that its
 * worst case fits, and the message takes what is left.
 *
 * Both forms carry the same characters: printable ASCII as it is, anything else as the
 * four characters \xNN. JSON then escapes backslash and quote, so a reader that parses
 * the JSON sees exactly the text form's message, and no byte of a peer's can end a line,
 * move a terminal's cursor or break UTF-8.
 */
#include "base/log_line.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Escaped length at which a context value is cut. Four of them, the numbers and the keys
 * fit in CONTEXT_MAX, and half of the line stays for the message. */
#define VALUE_MAX   88
#define CONTEXT_MAX 512

#define CUT_MARK    "..."

struct span {
    char *next;
    const char *end; /* the first byte that may not be written */
};

static size_t room(const struct span *span)
{
    return (size_t)(span->end - span->next);
}

/* All of text or nothing. */
static bool add(struct span *span, const char *text)
{
    size_t n = strlen(text);
    if (room(span) < n) {
        return false;
    }
    memcpy(span->next, text, n);
    span->next += n;
    return true;
}

/* For text whose room the sizes above guarantee. */
static void add_fitting(struct span *span, const char *text)
{
    bool fits = add(span, text);
    assert(fits);
    (void)fits;
}

/* The form of one character: at most five and a NUL. */
static void escape(enum kvf_log_format format, char c, bool keeps_space, char out[8])
{
    bool is_json = format == KVF_LOG_JSON;
    if (is_json && (c == '"' || c == '\\')) {
        (void)snprintf(out, 8, "\\%c", c);
    } else if ((c > ' ' && c <= '~') || (c == ' ' && keeps_space)) {
        (void)snprintf(out, 8, "%c", c);
    } else {
        (void)snprintf(out, 8, "%s\\x%02x", is_json ? "\\" : "", (unsigned char)c);
    }
}

/* At most max_bytes, cut between characters and then ended by the mark. */
static void add_escaped(struct span *span, enum kvf_log_format format, const char *text,
                        bool keeps_space, size_t max_bytes)
{
    assert(max_bytes <= room(span));
    struct span body = {span->next, span->next + max_bytes - strlen(CUT_MARK)};
    bool fits = true;
    for (; *text != '\0' && fits; text++) {
        char form[8];
        escape(format, *text, keeps_space, form);
        fits = add(&body, form);
    }
    span->next = body.next;
    if (!fits) {
        add_fitting(span, CUT_MARK);
    }
}

/* Text values have no quotes, so a space in them is written as \x20. */
static void add_value(struct span *span, enum kvf_log_format format, const char *key,
                      const char *value)
{
    if (value == NULL) {
        return;
    }
    bool is_json = format == KVF_LOG_JSON;
    add_fitting(span, is_json ? ",\"" : " ");
    add_fitting(span, key);
    add_fitting(span, is_json ? "\":\"" : "=");
    add_escaped(span, format, value, is_json, VALUE_MAX);
    add_fitting(span, is_json ? "\"" : "");
}

/* Request ids use all 64 bits; as a JSON number many readers would round them. */
static void add_context(struct span *span, enum kvf_log_format format,
                        const struct kvf_log_event *event)
{
    const struct kvf_log_ctx *ctx = &event->ctx;
    char number[48];
    add_value(span, format, "comp", ctx->comp);
    add_value(span, format, "node", event->node);
    if (ctx->has_request) {
        (void)snprintf(number, sizeof(number), "%" PRIu64, ctx->request_id);
        add_value(span, format, "req", number);
    }
    add_value(span, format, "peer", ctx->peer);
    add_value(span, format, "engine", ctx->engine);
    if (event->n_suppressed > 0) {
        const char *form = format == KVF_LOG_JSON ? ",\"suppressed\":" : " suppressed=";
        (void)snprintf(number, sizeof(number), "%s%" PRIu32, form, event->n_suppressed);
        add_fitting(span, number);
    }
}

void kvf_log_line_format(enum kvf_log_format format, const struct kvf_log_event *event,
                         struct kvf_log_line *out_line)
{
    bool is_json = format == KVF_LOG_JSON;
    char context[CONTEXT_MAX];
    struct span tail = {context, context + sizeof(context)};
    add_context(&tail, format, event);
    size_t n_context = (size_t)(tail.next - context);

    char *bytes = out_line->bytes;
    struct span line = {bytes, bytes + sizeof(out_line->bytes)};
    char ts[KVF_TIME_TEXT_MAX];
    kvf_clock_format_wall(event->wall_ns, ts);
    add_fitting(&line, is_json ? "{\"ts\":\"" : "");
    add_fitting(&line, ts);
    add_fitting(&line, is_json ? "\",\"level\":\"" : " ");
    add_fitting(&line, kvf_log_level_name(event->level));
    add_fitting(&line, is_json ? "\",\"msg\":\"" : " ");

    const char *after_message = is_json ? "\"" : "";
    const char *after_context = is_json ? "}\n" : "\n";
    size_t n_after = strlen(after_message) + n_context + strlen(after_context);
    add_escaped(&line, format, event->message, true, room(&line) - n_after);
    add_fitting(&line, after_message);
    memcpy(line.next, context, n_context);
    line.next += n_context;
    add_fitting(&line, after_context);
    out_line->n_bytes = (uint16_t)(line.next - bytes);
}
