/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sync forms: an asynchronous call, a wait and, when the wait was too short, a
 * cancel. They return only with the blocks at rest, with one exception that is told: a
 * daemon that is alive but frozen keeps them, and the caller gets the handle to wait on.
 * Caller's thread.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/engine_private.h"

#define CANCEL_PATIENCE_MS 5000u
#define CANCEL_RETRY_MS    100u /* the cancel itself may meet a full queue */

/* Returns the transfer's outcome, or TIMED_OUT when it does not even come to rest. */
static enum kvf_status cancel_and_wait(struct kvf_engine *engine, uint64_t handle,
                                       struct kvf_event *out_event)
{
    uint64_t deadline_ns = kvf_deadline_ns(CANCEL_PATIENCE_MS, 0);
    enum kvf_status status;
    bool is_sent = false;
    do {
        is_sent = is_sent || kvf_cancel(engine, handle) == KVF_OK;
        status = kvf_wait(engine, handle, CANCEL_RETRY_MS, out_event);
    } while (status == KVF_TIMED_OUT &&
             kvf_clock_now_ns(&kvf_clock_system) < deadline_ns);
    if (status == KVF_OK) {
        return (enum kvf_status)out_event->status;
    }
    if (kvf_transfer_status(engine, handle, out_event) != KVF_OK) {
        return status;
    }
    return kvf_engine_fail(engine, status,
                           "cancelled, but the daemon does not give the blocks back; "
                           "kvf_wait() on out_event->handle");
}

static enum kvf_status wait_for_outcome(struct kvf_engine *engine, uint64_t handle,
                                        uint32_t timeout_ms, struct kvf_event *out_event)
{
    enum kvf_status status = kvf_wait(engine, handle, timeout_ms, out_event);
    if (status == KVF_TIMED_OUT) {
        return cancel_and_wait(engine, handle, out_event);
    }
    if (status != KVF_OK) {
        return status;
    }
    return kvf_engine_fail(engine, (enum kvf_status)out_event->status, "%s",
                           out_event->detail);
}

enum kvf_status kvf_receive(struct kvf_engine *engine,
                            const struct kvf_receive_args *args, uint32_t timeout_ms,
                            struct kvf_event *out_event)
{
    uint64_t handle;
    enum kvf_status status = kvf_receive_async(engine, args, &handle);
    if (status != KVF_OK) {
        return status;
    }
    return wait_for_outcome(engine, handle, timeout_ms, out_event);
}

enum kvf_status kvf_send(struct kvf_engine *engine, const struct kvf_send_args *args,
                         kvf_deliver_fn deliver, void *owner, uint32_t timeout_ms,
                         struct kvf_event *out_event)
{
    enum kvf_status status = kvf_engine_enter_live(engine);
    if (status != KVF_OK) {
        return status;
    }
    if (deliver == NULL || out_event == NULL) {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT,
                               "deliver or out_event is NULL");
    }
    if (engine->params == NULL) {
        engine->params = kvf_alloc(KVF_PARAMS_MAX);
    }
    if (engine->params == NULL) {
        return kvf_engine_fail(engine, KVF_NO_MEMORY, "no memory for the params");
    }
    size_t n = KVF_PARAMS_MAX;
    uint64_t handle;
    status = kvf_send_async(engine, args, engine->params, &n, &handle);
    if (status != KVF_OK) {
        return status;
    }
    if (deliver(owner, engine->params, n) != KVF_OK) {
        return cancel_and_wait(engine, handle, out_event);
    }
    return wait_for_outcome(engine, handle, timeout_ms, out_event);
}
