/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON through jansson. json_pack keeps each shape readable in one place and returns NULL
 * when any member is NULL, which is how lack of memory travels to the one check at the
 * end. Loop thread.
 */
#include "admin/json.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#include "admin/http.h"

#define REAL_DIGITS 12
#define ESCAPED_MAX 1024
#define DUMP_FLAGS  (JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS))
#define DECIMAL_MAX 24

json_t *kvf_json_text(const char *text)
{
    json_t *json = json_string(text);
    if (json == NULL) {
        char escaped[ESCAPED_MAX];
        json = json_string(kvf_log_escape(text, strlen(text), escaped, sizeof(escaped)));
    }
    return json;
}

json_t *kvf_json_text_or_null(const char *text)
{
    return text == NULL || text[0] == '\0' ? json_null() : kvf_json_text(text);
}

json_t *kvf_json_count(uint64_t n)
{
    return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

json_t *kvf_json_seconds(double seconds)
{
    return isfinite(seconds) ? json_real(seconds) : json_null();
}

static json_t *id_text(uint64_t id)
{
    char text[DECIMAL_MAX];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
    return json_string(text);
}

json_t *kvf_json_version(const struct kvf_admin_version *version)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:{s:[I, I], s:[I, I]}}", "name",
                     "kvferry", "version", kvf_json_text_or_null(version->version),
                     "commit", kvf_json_text_or_null(version->commit), "ucx",
                     kvf_json_text_or_null(version->ucx_version), "cuda",
                     kvf_json_text_or_null(version->cuda), "protocol", "control",
                     (json_int_t)version->control_min, (json_int_t)version->control_max,
                     "engine", (json_int_t)version->engine_min,
                     (json_int_t)version->engine_max);
}

json_t *kvf_json_check(const struct kvf_admin_check *check)
{
    return json_pack("{s:o, s:b, s:b, s:o}", "name", kvf_json_text(check->name), "ok",
                     check->is_ok, "warning", check->is_warning, "detail",
                     kvf_json_text_or_null(check->detail));
}

json_t *kvf_json_engine(const struct kvf_admin_engine *engine)
{
    return json_pack("{s:o, s:o, s:I, s:o, s:I, s:o, s:I, s:o, s:o, s:o}", "name",
                     kvf_json_text(engine->name), "instance",
                     kvf_json_text_or_null(engine->instance), "rank",
                     (json_int_t)engine->rank, "role", kvf_json_text(engine->role), "pid",
                     (json_int_t)engine->pid, "state", kvf_json_text(engine->state),
                     "pools", (json_int_t)engine->n_pools, "registered_bytes",
                     kvf_json_count(engine->pool_bytes), "memory",
                     kvf_json_text_or_null(engine->memory), "requests",
                     kvf_json_count(engine->n_requests));
}

json_t *kvf_json_peer(const struct kvf_admin_peer *peer)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}", "name",
        kvf_json_text(peer->name), "state", kvf_json_text(peer->state), "address",
        kvf_json_text(peer->address), "reason", kvf_json_text_or_null(peer->reason),
        "transport", "wanted", kvf_json_text_or_null(peer->wanted), "actual",
        kvf_json_text_or_null(peer->transport), "lane", kvf_json_text_or_null(peer->lane),
        "rtt_seconds", kvf_json_seconds(peer->rtt_seconds), "in_flight",
        kvf_json_count(peer->n_in_flight), "bytes_sent", kvf_json_count(peer->bytes_sent),
        "bytes_received", kvf_json_count(peer->bytes_received), "reconnects",
        kvf_json_count(peer->n_reconnects));
}

json_t *kvf_json_totals(const struct kvf_admin_status *status)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o}", "in_flight", kvf_json_count(status->n_in_flight),
        "queued", kvf_json_count(status->n_queued), "completed",
        kvf_json_count(status->n_completed), "failed", kvf_json_count(status->n_failed),
        "cancelled", kvf_json_count(status->n_cancelled));
}

/* null while it runs and when it ended well. */
static json_t *error_of(const struct kvf_admin_request *request)
{
    if (request->status[0] == '\0' ||
        strcmp(request->status, kvf_status_name(KVF_OK)) == 0) {
        return json_null();
    }
    return json_pack("{s:o, s:o}", "status", kvf_json_text(request->status), "detail",
                     kvf_json_text_or_null(request->detail));
}

static json_t *phases_of(const struct kvf_admin_request *request)
{
    json_t *phases = json_array();
    for (size_t i = 0; i < request->n_phases && phases != NULL; i++) {
        const struct kvf_admin_phase *phase = &request->phases[i];
        json_t *item = json_pack("{s:s, s:o, s:o}", "name", phase->name, "start_ns",
                                 kvf_json_count(phase->start_ns), "duration_ns",
                                 kvf_json_count(phase->duration_ns));
        if (json_array_append_new(phases, item) != 0) {
            json_decref(phases);
            phases = NULL;
        }
    }
    return phases;
}

json_t *kvf_json_request(const struct kvf_admin_request *request, bool with_phases)
{
    char accepted_at[KVF_TIME_TEXT_MAX];
    kvf_clock_format_wall(request->accepted_wall_ns, accepted_at);
    json_t *json = json_pack(
        "{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, "
        "s:o, "
        "s:o, s:o, s:s, s:o, s:o}",
        "sequence", kvf_json_count(request->sequence), "id", id_text(request->request_id),
        "attempt", (json_int_t)request->attempt, "label",
        kvf_json_text_or_null(request->label), "trace_id",
        kvf_json_text_or_null(request->trace_id), "direction",
        kvf_json_text(request->direction), "peer", kvf_json_text_or_null(request->peer),
        "engine", kvf_json_text_or_null(request->engine), "state",
        kvf_json_text(request->state), "status", kvf_json_text_or_null(request->status),
        "live", request->is_live, "path", kvf_json_text_or_null(request->path),
        "transport", kvf_json_text_or_null(request->transport), "lane",
        kvf_json_text_or_null(request->lane), "blocks", kvf_json_count(request->n_blocks),
        "runs", kvf_json_count(request->n_runs), "bytes",
        kvf_json_count(request->n_bytes), "bytes_done",
        kvf_json_count(request->n_bytes_done), "accepted_at", accepted_at, "duration_ns",
        kvf_json_count(request->duration_ns), "error", error_of(request));
    if (with_phases && json != NULL &&
        json_object_set_new(json, "phases", phases_of(request)) != 0) {
        json_decref(json);
        json = NULL;
    }
    return json;
}

struct dump {
    struct kvf_buf *out;
    bool has_failed; /* remembered, since jansson 2.14 ignores it while writing keys */
};

static int append(const char *bytes, size_t n, void *owner)
{
    struct dump *dump = owner;
    dump->has_failed |= kvf_buf_append(dump->out, bytes, n) != KVF_OK;
    return dump->has_failed ? -1 : 0;
}

enum kvf_status kvf_json_write(json_t *json, struct kvf_buf *out)
{
    struct dump dump = {.out = out};
    if (json == NULL) {
        return KVF_NO_MEMORY;
    }
    int rc = json_dump_callback(json, append, &dump, DUMP_FLAGS);
    json_decref(json);
    return rc == 0 && !dump.has_failed ? KVF_OK : KVF_NO_MEMORY;
}

void kvf_json_reply(struct kvf_http_request *request, unsigned int status,
                    const char *type, json_t *json)
{
    kvf_reply_begin(request, status, type);
    if (kvf_json_write(json, &request->reply.body) != KVF_OK) {
        kvf_reply_begin(request, 500, NULL);
        return;
    }
    kvf_reply_append(request, "\n", 1);
}
