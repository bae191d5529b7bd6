/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications between engines: a ring that is allocated when the first one comes. Best
 * effort by contract, so a full ring drops the newest. Each one yields one event, unless
 * it is read before. Caller's thread.
 */
#include <string.h>

#include "base/alloc.h"
#include "client/engine_private.h"

static struct kvf_notification *slot(const struct kvf_notifications *notifications,
                                     uint32_t i)
{
    return &notifications->slots[(notifications->first + i) % KVF_NOTIFICATIONS_MAX];
}

void kvf_notifications_add(struct kvf_notifications *notifications,
                           const struct kvf_engine_notify *notify)
{
    if (notifications->slots == NULL) {
        notifications->slots =
            kvf_alloc_array(KVF_NOTIFICATIONS_MAX, sizeof(*notifications->slots));
    }
    if (notifications->slots == NULL ||
        notifications->n_waiting == KVF_NOTIFICATIONS_MAX ||
        notify->payload.n > KVF_NOTIFY_MAX) {
        return;
    }
    struct kvf_notification *one = slot(notifications, notifications->n_waiting++);
    kvf_text_copy(one->from, sizeof(one->from), notify->instance);
    one->rank = notify->rank;
    one->n_bytes = (uint32_t)notify->payload.n;
    if (notify->payload.n > 0) {
        memcpy(one->bytes, notify->payload.data, notify->payload.n);
    }
}

uint32_t kvf_notifications_untold(const struct kvf_notifications *notifications)
{
    return notifications->n_waiting - notifications->n_told;
}

bool kvf_notifications_tell(struct kvf_notifications *notifications,
                            struct kvf_event *out_event)
{
    if (kvf_notifications_untold(notifications) == 0) {
        return false;
    }
    const struct kvf_notification *one = slot(notifications, notifications->n_told++);
    *out_event = (struct kvf_event){
        .size = sizeof(*out_event), .type = KVF_EVENT_NOTIFY, .n_bytes = one->n_bytes};
    return true;
}

enum kvf_status kvf_notify(struct kvf_engine *engine, const char *instance, uint32_t rank,
                           const void *bytes, size_t n_bytes)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (instance == NULL || instance[0] == '\0' || (bytes == NULL && n_bytes > 0) ||
        n_bytes > KVF_NOTIFY_MAX) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "a notification needs an instance and at most %u bytes",
                               KVF_NOTIFY_MAX);
    }
    status = kvf_arguments_text(engine, "instance", instance, KVF_NAME_MAX);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_message message = {
        .type = KVF_MSG_ENGINE_NOTIFY,
        .u.engine_notify = {.instance = instance,
                            .rank = rank,
                            .payload = {.data = bytes, .n = n_bytes}},
    };
    return kvf_engine_send(engine, &message, -1);
}

enum kvf_status kvf_notify_read(struct kvf_engine *engine, void *bytes, size_t *len,
                                char from[KVF_NAME_MAX + 1], uint32_t *out_rank)
{
    enum kvf_status status = kvf_engine_enter(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (len == NULL || (bytes == NULL && *len > 0) || from == NULL || out_rank == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "an output is NULL");
    }
    struct kvf_notifications *notifications = &engine->notifications;
    if (notifications->n_waiting == 0) {
        return kvf_engine_fail(engine, KVF_NOT_FOUND, "no notification waits");
    }
    const struct kvf_notification *one = slot(notifications, 0);
    if (*len < one->n_bytes) {
        *len = one->n_bytes;
        return kvf_engine_fail(engine, KVF_BUFFER_TOO_SMALL,
                               "the notification has %u bytes", one->n_bytes);
    }
    if (one->n_bytes > 0) {
        memcpy(bytes, one->bytes, one->n_bytes);
    }
    *len = one->n_bytes;
    memcpy(from, one->from, sizeof(one->from));
    *out_rank = one->rank;
    notifications->first = (notifications->first + 1) % KVF_NOTIFICATIONS_MAX;
    notifications->n_waiting--;
    notifications->n_told -= notifications->n_told > 0 ? 1 : 0;
    kvf_engine_settle(engine);
    return KVF_OK;
}
