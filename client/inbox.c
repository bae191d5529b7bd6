/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon says, taken in: answers to the one call that waits, news of transfers,
 * notifications, and its loss. Nothing is handed to the caller here; that is event.c's.
 * Whatever bytes came before a loss are taken in before the loss is told. Caller's
 * thread.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/engine_private.h"

static bool is_failure(enum kvf_status status)
{
    return status != KVF_OK && status != KVF_IN_PROGRESS;
}

/* ---- the caller's descriptor */

static void signal_news(struct kvf_engine *engine)
{
    bool has_news = engine->news.n > 0 || engine->has_daemon_news ||
                    kvf_notifications_untold(&engine->notifications) > 0;
    if (has_news == engine->is_signalled) {
        return;
    }
    uint64_t one = 1;
    ssize_t n = has_news ? write(engine->event_fd, &one, sizeof(one))
                         : read(engine->event_fd, &one, sizeof(one));
    (void)n; /* from 0 to 1 and back: neither can fail */
    engine->is_signalled = has_news;
}

static void arm_write(struct kvf_engine *engine)
{
    bool wants_write = !engine->is_lost && kvf_connection_has_output(&engine->connection);
    if (wants_write == engine->is_write_armed || engine->is_lost) {
        return;
    }
    struct epoll_event wanted = {.events = EPOLLIN};
    if (wants_write) {
        wanted.events |= EPOLLOUT;
    }
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, engine->connection.fd, &wanted) == 0) {
        engine->is_write_armed = wants_write;
    }
}

void kvf_engine_settle(struct kvf_engine *engine)
{
    signal_news(engine);
    arm_write(engine);
}

/* ---- messages */

static void take_answer(struct kvf_engine *engine, enum kvf_message_type type,
                        uint32_t pool_id, int32_t status, const char *detail)
{
    struct kvf_answer *answer = &engine->answer;
    if (answer->type != type || answer->pool_id != pool_id) {
        return; /* its caller stopped waiting */
    }
    answer->has_come = true;
    answer->status = (enum kvf_status)status;
    kvf_text_copy(answer->detail, sizeof(answer->detail), detail);
}

/* An older daemon did not know the question. */
static void take_error(struct kvf_engine *engine, const struct kvf_error_message *error)
{
    struct kvf_answer *answer = &engine->answer;
    if (answer->type != 0 && answer->sequence == error->frame_sequence) {
        take_answer(engine, answer->type, answer->pool_id, error->cause, error->detail);
    }
}

static void take_event(struct kvf_engine *engine, const struct kvf_transfer_event *event)
{
    struct kvf_record *record = kvf_record_find(engine, event->handle);
    if (record != NULL) {
        kvf_record_update(engine, record, event);
    }
}

static void dispatch(struct kvf_engine *engine, const struct kvf_message *message)
{
    const struct kvf_pool_answer *pool = &message->u.pool_answer;
    const struct kvf_comm_state_ack *comm = &message->u.comm_state_ack;
    switch ((int)message->type) {
    case KVF_MSG_TRANSFER_EVENT:
        take_event(engine, &message->u.transfer_event);
        break;
    case KVF_MSG_POOL_REGISTERED:
    case KVF_MSG_POOL_UNREGISTERED:
        take_answer(engine, message->type, pool->pool_id, pool->status, pool->detail);
        break;
    case KVF_MSG_COMM_STATE_ACK:
        take_answer(engine, message->type, 0, comm->status, comm->detail);
        break;
    case KVF_MSG_NOTIFY_EVENT:
        kvf_notifications_add(&engine->notifications, &message->u.engine_notify);
        break;
    case KVF_MSG_ERROR:
        take_error(engine, &message->u.error);
        break;
    default:
        break; /* known, but nothing that engines are told */
    }
}

/* ---- loss */

/* Blocks are the engine's again: the daemon that had them mapped is gone, and peers
 * never write into engine memory. */
static void lose(struct kvf_engine *engine, const char *why)
{
    engine->is_lost = true;
    engine->has_daemon_news = true;
    /* A forked child may hold the socket open and with it this registration. */
    (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, engine->connection.fd, NULL);
    kvf_connection_close(&engine->connection);
    const struct kvf_transfer_event last = {.bits = KVF_ALL_BITS,
                                            .status = KVF_DAEMON_LOST,
                                            .peer = "",
                                            .path = "",
                                            .detail = why};
    for (struct kvf_node *node = kvf_list_first(&engine->live); node != NULL;
         node = kvf_list_next(&engine->live, node)) {
        kvf_record_update(engine, KVF_CONTAINER(node, struct kvf_record, live_node),
                          &last);
    }
}

void kvf_engine_pump(struct kvf_engine *engine)
{
    if (engine->is_lost) {
        return;
    }
    const char *detail = "the daemon closed the connection or died";
    bool is_broken = is_failure(kvf_connection_write(&engine->connection));
    is_broken |= is_failure(kvf_connection_read(&engine->connection));
    enum kvf_status status;
    do {
        struct kvf_message message;
        status = kvf_connection_take(&engine->connection, &engine->inbox_arena, &message,
                                     &detail);
        if (status == KVF_OK) {
            dispatch(engine, &message);
        }
    } while (status == KVF_OK);
    if (is_broken || is_failure(status)) {
        lose(engine, detail);
    }
    kvf_engine_settle(engine);
}

/* ---- sending */

enum kvf_status kvf_engine_send(struct kvf_engine *engine,
                                const struct kvf_message *message, int fd)
{
    enum kvf_status status = kvf_connection_queue(&engine->connection, message, fd);
    if (status == KVF_BUSY) {
        return kvf_engine_fail(engine, status,
                               "the queue to the daemon is full: kvf_poll(), try again");
    }
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "%s was not queued: %s",
                               kvf_message_name(message->type), kvf_status_text(status));
    }
    if (is_failure(kvf_connection_write(&engine->connection))) {
        kvf_engine_pump(engine);
    }
    kvf_engine_settle(engine);
    return KVF_OK;
}

static enum kvf_status wait_for_answer(struct kvf_engine *engine, uint64_t deadline_ns)
{
    const struct kvf_answer *answer = &engine->answer;
    for (;;) {
        kvf_engine_pump(engine);
        if (answer->has_come) {
            return answer->status == KVF_OK
                       ? KVF_OK
                       : kvf_engine_fail(engine, answer->status, "%s", answer->detail);
        }
        if (engine->is_lost) {
            return kvf_engine_fail(engine, KVF_DAEMON_LOST,
                                   "the daemon went away instead of answering");
        }
        if (kvf_clock_now_ns(&kvf_clock_system) >= deadline_ns) {
            return kvf_engine_fail(engine, KVF_TIMED_OUT, "the daemon did not answer");
        }
        kvf_connection_wait(&engine->connection, deadline_ns);
    }
}

enum kvf_status kvf_engine_ask(struct kvf_engine *engine,
                               const struct kvf_message *question, int fd,
                               const struct kvf_answer *expected, uint64_t deadline_ns)
{
    engine->answer = *expected;
    engine->answer.sequence = engine->connection.sequence + 1;
    enum kvf_status status = kvf_engine_send(engine, question, fd);
    if (status == KVF_OK) {
        status = wait_for_answer(engine, deadline_ns);
    }
    engine->answer.type = (enum kvf_message_type)0;
    return status;
}
