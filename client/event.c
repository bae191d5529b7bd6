/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handing out what is known: events in the order in which transfers got news, then
 * notifications, then the loss of the daemon, which is told last because everything it
 * ended is told before. Waiting is poll(2) on the socket until one transfer is at rest.
 * Caller's thread.
 */
#include <unistd.h>

#include "base/clock.h"
#include "client/engine_private.h"

static bool take_event(struct kvf_engine *engine, struct kvf_event *out_event)
{
    struct kvf_node *node = kvf_list_first(&engine->news);
    if (node != NULL) {
        kvf_record_read(engine, KVF_CONTAINER(node, struct kvf_record, news_node),
                        out_event);
        return true;
    }
    if (kvf_notifications_tell(&engine->notifications, out_event)) {
        return true;
    }
    if (!engine->has_daemon_news) {
        return false;
    }
    engine->has_daemon_news = false;
    *out_event = (struct kvf_event){
        .size = sizeof(*out_event), .type = KVF_EVENT_DAEMON, .status = KVF_DAEMON_LOST};
    kvf_text_copy(out_event->detail, sizeof(out_event->detail),
                  kvf_status_advice(KVF_DAEMON_LOST));
    return true;
}

enum kvf_status kvf_poll(struct kvf_engine *engine, struct kvf_event *events, size_t max,
                         size_t *out_n)
{
    enum kvf_status status = kvf_engine_enter(engine);
    if (status != KVF_OK) {
        return status;
    }
    if ((events == NULL && max > 0) || out_n == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "an output is NULL");
    }
    kvf_engine_pump(engine);
    size_t n = 0;
    while (n < max && take_event(engine, &events[n])) {
        n++;
    }
    kvf_engine_settle(engine);
    if (n == 0 && engine->is_lost && !engine->is_signalled) {
        return kvf_engine_enter_live(engine); /* says so */
    }
    *out_n = n;
    return KVF_OK;
}

enum kvf_status kvf_wait(struct kvf_engine *engine, uint64_t handle, uint32_t timeout_ms,
                         struct kvf_event *out_event)
{
    enum kvf_status status = kvf_engine_enter(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (out_event == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "out_event is NULL");
    }
    struct kvf_record *record = kvf_record_find(engine, handle);
    if (record == NULL) {
        return kvf_engine_fail(engine, KVF_NOT_FOUND,
                               "no such transfer, or its last event was read");
    }
    uint64_t deadline_ns = kvf_deadline_ns(timeout_ms, 0);
    for (;;) {
        kvf_engine_pump(engine); /* a loss makes every record reusable */
        if ((record->event.bits & KVF_EVENT_REUSABLE) != 0) {
            kvf_record_read(engine, record, out_event);
            kvf_engine_settle(engine);
            return KVF_OK;
        }
        if (kvf_clock_now_ns(&kvf_clock_system) >= deadline_ns) {
            return kvf_engine_fail(engine, KVF_TIMED_OUT,
                                   "the transfer is not at rest after %u ms", timeout_ms);
        }
        kvf_connection_wait(&engine->connection, deadline_ns);
    }
}

enum kvf_status kvf_transfer_status(const struct kvf_engine *engine, uint64_t handle,
                                    struct kvf_event *out_event)
{
    if (engine == NULL || out_event == NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    if (getpid() != engine->pid) {
        return KVF_FORKED;
    }
    const struct kvf_record *record = kvf_record_find(engine, handle);
    if (record == NULL) {
        return KVF_NOT_FOUND;
    }
    *out_event = record->event;
    out_event->new_bits = record->event.bits & ~record->told_bits;
    return KVF_OK;
}

enum kvf_status kvf_statistics_get(const struct kvf_engine *engine,
                                   struct kvf_statistics *out)
{
    if (engine == NULL || out == NULL || out->size < sizeof(*out)) {
        return KVF_INVALID_ARGUMENT;
    }
    if (getpid() != engine->pid) {
        return KVF_FORKED;
    }
    *out = engine->statistics;
    out->size = sizeof(*out);
    out->n_live = kvf_slab_used(engine->records);
    out->events_unread = engine->news.n +
                         kvf_notifications_untold(&engine->notifications) +
                         (engine->has_daemon_news ? 1 : 0);
    return KVF_OK;
}
