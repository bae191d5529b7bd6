/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and what can go wrong with them. Whatever the daemon (or something else on that
 * port) sends is escaped before a terminal sees it. One thread, blocking.
 */
#include "ctl/ask.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"

#include "ctl/http_client.h"

#define TIMEOUT_MS   10000u
#define WAIT_MORE_MS 35000u /* the daemon waits up to 30 s for a cancel */
#define PIECE        ((size_t)16 * 1024)
#define SHOWN_MAX    512
#define ACCEPT       "application/json, application/problem+json, */*;q=0.5"

enum kvf_exit kvf_complain(enum kvf_exit code, const char *format, ...)
{
    va_list arguments;
    (void)fprintf(stderr, "kvferryctl: ");
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "\n");
    return code;
}

/* ---- targets */

static void add(struct kvf_target *target, const char *bytes, size_t n)
{
    if (target->n + n >= sizeof(target->text)) {
        target->is_cut = true;
        return;
    }
    memcpy(target->text + target->n, bytes, n);
    target->n += n;
    target->text[target->n] = '\0';
}

static void add_encoded(struct kvf_target *target, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        char encoded[4];
        if (isalnum((unsigned char)*c) || strchr("-._~", *c) != NULL) {
            add(target, c, 1);
        } else {
            (void)snprintf(encoded, sizeof(encoded), "%%%02X", (unsigned char)*c);
            add(target, encoded, 3);
        }
    }
}

void kvf_target_init(struct kvf_target *target, const char *path)
{
    *target = (struct kvf_target){.n = 0};
    add(target, path, strlen(path));
}

void kvf_target_add_segment(struct kvf_target *target, const char *value)
{
    add(target, "/", 1);
    add_encoded(target, value);
}

void kvf_target_add_query(struct kvf_target *target, const char *key, const char *value)
{
    if (value == NULL) {
        return;
    }
    add(target, target->has_query ? "&" : "?", 1);
    add(target, key, strlen(key));
    add(target, "=", 1);
    add_encoded(target, value);
    target->has_query = true;
}

/* ---- failures */

static enum kvf_exit explain_call(const struct kvf_ctl *ctl, enum kvf_status status,
                                  const char *error)
{
    const char *reason = error[0] != '\0' ? error : kvf_status_text(status);
    switch ((int)status) {
    case KVF_PEER_UNREACHABLE:
    case KVF_SYSTEM:
        return kvf_complain(
            KVF_EXIT_UNREACHABLE,
            "cannot reach daemon at %s: %s (is it running? KVFERRY_ADDR?)",
            ctl->address_text, reason);
    case KVF_EXPIRED:
        return kvf_complain(KVF_EXIT_TIMEOUT, "daemon at %s does not answer in time",
                            ctl->address_text);
    case KVF_PEER_LOST:
        return kvf_complain(KVF_EXIT_FAILED, "the connection to %s broke off",
                            ctl->address_text);
    case KVF_PROTOCOL:
        return kvf_complain(KVF_EXIT_FAILED, "what answers at %s does not speak HTTP",
                            ctl->address_text);
    default:
        return kvf_complain(KVF_EXIT_FAILED, "%s", reason);
    }
}

static enum kvf_exit exit_of(unsigned int http)
{
    switch (http) {
    case 401:
    case 403:
        return KVF_EXIT_DENIED;
    case 404:
        return KVF_EXIT_NOT_FOUND;
    case 408:
    case 504:
        return KVF_EXIT_TIMEOUT;
    default:
        return KVF_EXIT_FAILED;
    }
}

/* Says what the daemon said, from a problem document or from plain text. */
static enum kvf_exit explain_http(unsigned int http, const struct kvf_buf *body)
{
    char shown[SHOWN_MAX];
    const char *text = (const char *)kvf_buf_head(body);
    json_t *problem = json_loadb(text, kvf_buf_length(body), 0, NULL);
    const char *detail = kvf_json_get_text(problem, "detail");
    if (detail[0] == '\0') {
        detail = text;
    }
    (void)kvf_complain(
        exit_of(http), "%s (HTTP %u)",
        kvf_log_escape(detail, strcspn(detail, "\r\n"), shown, sizeof(shown)), http);
    json_decref(problem);
    return exit_of(http);
}

/* ---- calls */

static enum kvf_exit open_call(const struct kvf_ctl *ctl, const char *method,
                               const struct kvf_target *target, struct kvf_call **out)
{
    bool is_long = ctl->options.values[KVF_OPTION_WAIT] != NULL;
    struct kvf_call_config config = {
        .address = &ctl->address,
        .method = method,
        .target = target->text,
        .accept = ACCEPT,
        .token = ctl->token,
        .timeout_ms = is_long ? WAIT_MORE_MS : TIMEOUT_MS,
    };
    char error[KVF_CALL_ERROR_MAX];
    if (target->is_cut) {
        return kvf_complain(KVF_EXIT_USAGE, "the arguments are too long");
    }
    enum kvf_status status = kvf_call_open(&config, out, error);
    return status == KVF_OK ? KVF_EXIT_OK : explain_call(ctl, status, error);
}

/* The whole body and a NUL behind it. */
static enum kvf_status read_all(struct kvf_call *call, struct kvf_buf *out)
{
    for (;;) {
        size_t n = 0;
        uint8_t *room = kvf_buf_reserve(out, PIECE);
        if (room == NULL) {
            return KVF_BUSY;
        }
        enum kvf_status status = kvf_call_read(call, (char *)room, PIECE - 1, &n);
        if (status != KVF_OK) {
            return status;
        }
        room[n] = '\0';
        kvf_buf_commit(out, n);
        if (n == 0) {
            return KVF_OK;
        }
    }
}

static bool is_success(unsigned int http)
{
    return http >= 200 && http <= 299;
}

enum kvf_exit kvf_ask_text(const struct kvf_ctl *ctl, const char *method,
                           const struct kvf_target *target, unsigned int also,
                           struct kvf_buf *out, unsigned int *out_http)
{
    struct kvf_call *call = NULL;
    struct kvf_buf body;
    enum kvf_exit code = open_call(ctl, method, target, &call);
    if (code != KVF_EXIT_OK) {
        return code;
    }
    unsigned int http = kvf_call_status(call);
    kvf_buf_init(&body, KVF_ASK_ANSWER_MAX);
    enum kvf_status status = read_all(call, &body);
    kvf_call_close(call);
    if (status == KVF_BUSY) {
        code = kvf_complain(KVF_EXIT_FAILED, "the answer is larger than 16 MiB");
    } else if (status != KVF_OK) {
        code = explain_call(ctl, status, "");
    } else if (!is_success(http) && http != also) {
        code = explain_http(http, &body);
    }
    if (code != KVF_EXIT_OK) {
        kvf_buf_fini(&body);
        return code;
    }
    *out = body;
    if (out_http != NULL) {
        *out_http = http;
    }
    return KVF_EXIT_OK;
}

enum kvf_exit kvf_ask_json(const struct kvf_ctl *ctl, const char *method,
                           const struct kvf_target *target, json_t **out)
{
    struct kvf_buf body;
    json_error_t error;
    enum kvf_exit code = kvf_ask_text(ctl, method, target, 0, &body, NULL);
    if (code != KVF_EXIT_OK) {
        return code;
    }
    size_t n = kvf_buf_length(&body);
    json_t *json = json_loadb((const char *)kvf_buf_head(&body), n, 0, &error);
    if (json == NULL) {
        code = kvf_complain(KVF_EXIT_FAILED, "what answers at %s does not speak JSON",
                            ctl->address_text);
    } else {
        if (ctl->is_json) {
            (void)fwrite(kvf_buf_head(&body), 1, n,
                         ctl->out); /* main checks the stream */
        }
        *out = json;
    }
    kvf_buf_fini(&body);
    return code;
}

static enum kvf_exit copy_body(const struct kvf_ctl *ctl, struct kvf_call *call, FILE *to)
{
    char piece[PIECE];
    size_t n = 0;
    do {
        enum kvf_status status = kvf_call_read(call, piece, sizeof(piece), &n);
        if (status != KVF_OK) {
            return explain_call(ctl, status, "");
        }
        if (fwrite(piece, 1, n, to) != n) {
            return kvf_complain(KVF_EXIT_FAILED, "cannot write: %s",
                                strerrordesc_np(errno));
        }
    } while (n > 0);
    return KVF_EXIT_OK;
}

enum kvf_exit kvf_ask_copy(const struct kvf_ctl *ctl, const struct kvf_target *target,
                           FILE *to)
{
    struct kvf_call *call = NULL;
    struct kvf_buf body;
    enum kvf_exit code = open_call(ctl, "GET", target, &call);
    if (code != KVF_EXIT_OK) {
        return code;
    }
    if (is_success(kvf_call_status(call))) {
        code = copy_body(ctl, call, to);
    } else {
        kvf_buf_init(&body, KVF_ASK_ANSWER_MAX);
        enum kvf_status status = read_all(call, &body);
        code = status == KVF_OK ? explain_http(kvf_call_status(call), &body)
                                : explain_call(ctl, status, "");
        kvf_buf_fini(&body);
    }
    kvf_call_close(call);
    return code;
}

/* ---- reading JSON */

const char *kvf_json_get_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

uint64_t kvf_json_get_count(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

double kvf_json_get_real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}
