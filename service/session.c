/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine sessions. What an engine says is checked here against the topology and against
 * its own pools; what it wants is handed up. A broken frame costs the engine its session
 * and nobody else anything.
 */
#include "service/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "proto/frame.h"
#include "service/registration.h"

#define KVF_POOLS_MAX            64u
#define KVF_ENGINE_OUT_MAX_BYTES (1u << 20)
#define KVF_ENGINE_BATCH         64 /* frames of one engine per turn: others are served too */

struct kvf_sessions {
    struct kvf_sessions_config config;
    struct kvf_listener *listener; /* owns */
    struct kvf_list list;
    struct kvf_arena arena; /* decoding, one message at a time */
    struct kvf_buf frame;   /* encoding, one frame at a time */
    uint64_t next_id;
};

static struct kvf_log_ctx log_of(const struct kvf_session *session)
{
    return (struct kvf_log_ctx){.comp = "engine", .engine = session->name};
}

/* ---- end of a session */

static void session_free(void *object)
{
    struct kvf_session *session = object;
    kvf_free(session->node_names);
    kvf_free(session);
}

static void remove_pools(struct kvf_session *session)
{
    struct kvf_node *node;
    while ((node = kvf_list_pop(&session->pools)) != NULL) {
        /* Pools in use live on until their transfers are at rest. */
        kvf_daemon_pool_remove(KVF_CONTAINER(node, struct kvf_daemon_pool, node));
    }
}

static void session_close(struct kvf_session *session, const char *why)
{
    struct kvf_sessions *sessions = session->sessions;
    struct kvf_log_ctx ctx = log_of(session);
    if (session->is_registered) {
        kvf_log_info(&ctx, "engine %s gone (%s), %zu requests, %zu pools", session->name,
                     why, session->requests.n, session->pools.n);
    }
    kvf_loop_timer_stop(&session->timer);
    kvf_loop_post_remove(&session->overrun_post);
    kvf_loop_post_remove(&session->more_post);
    sessions->config.sock->ops->close(session->stream);
    session->stream = NULL;
    kvf_list_remove(&sessions->list, &session->node);
    if (session->is_registered) {
        sessions->config.events->lost(sessions->config.owner, session);
    }
    remove_pools(session);
    kvf_loop_destroy_later(sessions->config.loop, &session->zombie, session_free,
                           session);
}

static void on_stream_lost(void *owner, enum kvf_status status)
{
    session_close(owner, kvf_status_text(status));
}

/* ---- frames out */

static void on_overrun(void *owner, enum kvf_status status)
{
    session_close(owner, kvf_status_text(status));
}

void kvf_session_send(struct kvf_session *session, const struct kvf_message *message)
{
    struct kvf_sessions *sessions = session->sessions;
    if (session->stream == NULL) {
        return;
    }
    kvf_buf_clear(&sessions->frame);
    enum kvf_status status = kvf_message_encode(
        message, session->id, ++session->sequence_out, &sessions->frame);
    if (status == KVF_OK) {
        status = sessions->config.sock->ops->send(
            session->stream, kvf_buf_head(&sessions->frame),
            kvf_buf_length(&sessions->frame), NULL, 0);
    }
    if (status != KVF_OK && !session->is_overrun) {
        /* Closing here could pull the session from under our caller. */
        struct kvf_log_ctx ctx = log_of(session);
        kvf_log_error(&ctx, "engine %s does not read its events (%s), closing it",
                      session->name, kvf_status_text(status));
        session->is_overrun = true;
        kvf_loop_post(sessions->config.loop, &session->overrun_post, on_overrun, session,
                      status);
    }
}

/* ---- registration */

static void answer_hello(struct kvf_session *session, enum kvf_status status,
                         const char *detail)
{
    const struct kvf_config *config = session->sessions->config.config;
    struct kvf_message message = {
        .type = KVF_MSG_ENGINE_HELLO_ACK,
        .u.engine_hello_ack = {.status = status,
                               .detail = detail,
                               .node = config->node.name,
                               .version = KVF_ENGINE_PROTOCOL,
                               .default_deadline_ms = config->engine.default_deadline_ms,
                               .max_deadline_ms = config->engine.max_deadline_ms,
                               .max_requests = config->engine.max_requests},
    };
    if (status == KVF_OK) {
        kvf_session_state(session, &message.u.engine_hello_ack.state);
    }
    kvf_session_send(session, &message);
}

static bool on_engine_hello(struct kvf_session *session,
                            const struct kvf_engine_hello *hello)
{
    struct kvf_sessions *sessions = session->sessions;
    struct kvf_plan_refusal refusal = {.text = ""};
    enum kvf_status status = kvf_registration_judge_hello(
        sessions, sessions->config.config, hello, &session->instance, &refusal);
    struct kvf_log_ctx ctx = log_of(session);
    if (status != KVF_OK) {
        kvf_log_warn(&ctx, "engine of pid %u refused: %s", hello->pid, refusal.text);
        answer_hello(session, status, refusal.text);
        return false;
    }
    session->node_names =
        kvf_alloc_array(session->instance->n_ranks, sizeof(*session->node_names));
    if (session->node_names == NULL) {
        answer_hello(session, KVF_NO_MEMORY, "");
        return false;
    }
    for (uint32_t i = 0; i < session->instance->n_ranks; i++) {
        session->node_names[i] = session->instance->rank_nodes[i];
    }
    kvf_loop_timer_stop(&session->timer);
    session->rank = hello->rank;
    session->pid = hello->pid;
    memcpy(session->nonce, hello->nonce, sizeof(session->nonce));
    if (hello->name[0] != '\0') {
        (void)kvf_log_escape(hello->name, strlen(hello->name), session->name,
                             sizeof(session->name));
    } else {
        (void)snprintf(session->name, sizeof(session->name), "%s/%u",
                       session->instance->name, session->rank);
    }
    session->is_registered = true;
    kvf_log_info(&ctx, "engine %s registered as %s rank %u, pid %u", session->name,
                 session->instance->name, session->rank, session->pid);
    answer_hello(session, KVF_OK, "");
    return true;
}

static void answer_pool(struct kvf_session *session, enum kvf_message_type type,
                        uint32_t pool_id, enum kvf_status status, const char *detail)
{
    struct kvf_message message = {
        .type = type,
        .u.pool_answer = {.pool_id = pool_id, .status = status, .detail = detail},
    };
    kvf_session_send(session, &message);
}

static struct kvf_daemon_pool *find_pool(struct kvf_session *session, uint32_t pool_id)
{
    for (struct kvf_node *node = kvf_list_first(&session->pools); node != NULL;
         node = kvf_list_next(&session->pools, node)) {
        struct kvf_daemon_pool *pool = KVF_CONTAINER(node, struct kvf_daemon_pool, node);
        if (pool->pool_id == pool_id) {
            return pool;
        }
    }
    return NULL;
}

struct kvf_daemon_pool *kvf_session_pool(struct kvf_session *session, uint32_t group)
{
    for (struct kvf_node *node = kvf_list_first(&session->pools); node != NULL;
         node = kvf_list_next(&session->pools, node)) {
        struct kvf_daemon_pool *pool = KVF_CONTAINER(node, struct kvf_daemon_pool, node);
        if (pool->group == group) {
            return pool;
        }
    }
    return NULL;
}

static enum kvf_status register_pool(struct kvf_session *session,
                                     const struct kvf_pool_register_message *message,
                                     int fd, struct kvf_plan_refusal *out_refusal)
{
    struct kvf_sessions *sessions = session->sessions;
    const struct kvf_pool_layout *layout = &message->layout;
    if (session->pools.n >= KVF_POOLS_MAX) {
        (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                       "an engine may register %u pools", KVF_POOLS_MAX);
        return KVF_BUSY;
    }
    if (find_pool(session, message->pool_id) != NULL ||
        kvf_session_pool(session, layout->group) != NULL) {
        (void)snprintf(out_refusal->text, sizeof(out_refusal->text),
                       "pool id %u or group %u is registered already", message->pool_id,
                       layout->group);
        return KVF_DUPLICATE;
    }
    enum kvf_status status = kvf_registration_judge_pool(session->instance, session->rank,
                                                         layout, out_refusal);
    if (status != KVF_OK) {
        return status;
    }
    struct kvf_pool_wanted wanted = {
        .pool_id = message->pool_id,
        .group = layout->group,
        .memory_kind = layout->memory,
        .layout = &layout->layout,
        .offset = message->offset,
        .length = message->length,
        .fd = fd,
    };
    struct kvf_daemon_pool *pool;
    status = kvf_daemon_pool_create(&wanted, sessions->config.transports,
                                    sessions->config.n_transports, &pool, out_refusal);
    if (status == KVF_OK) {
        kvf_list_add_tail(&session->pools, &pool->node);
        session->pool_bytes += pool->length;
    }
    return status;
}

static bool on_pool_register(struct kvf_session *session,
                             const struct kvf_pool_register_message *message)
{
    struct kvf_log_ctx ctx = log_of(session);
    struct kvf_plan_refusal refusal = {.text = ""};
    int fd = session->sessions->config.sock->ops->take_fd(session->stream);
    if (fd < 0) {
        answer_pool(session, KVF_MSG_POOL_REGISTERED, message->pool_id, KVF_PROTOCOL,
                    "no descriptor came with the registration");
        return true;
    }
    enum kvf_status status = register_pool(session, message, fd, &refusal);
    (void)close(fd); /* the mapping keeps the file */
    if (status == KVF_OK) {
        kvf_log_info(&ctx, "pool %u of %s registered, group %u, %llu bytes, %u blocks",
                     message->pool_id, session->name, message->layout.group,
                     (unsigned long long)message->length,
                     message->layout.layout.n_blocks);
    } else {
        kvf_log_warn(&ctx, "pool %u of %s refused: %s", message->pool_id, session->name,
                     refusal.text);
    }
    answer_pool(session, KVF_MSG_POOL_REGISTERED, message->pool_id, status, refusal.text);
    return true;
}

static bool on_pool_unregister(struct kvf_session *session, uint32_t pool_id)
{
    struct kvf_daemon_pool *pool = find_pool(session, pool_id);
    if (pool == NULL) {
        answer_pool(session, KVF_MSG_POOL_UNREGISTERED, pool_id, KVF_NOT_FOUND,
                    "no such pool in this session");
        return true;
    }
    if (pool->n_references > 0) {
        answer_pool(session, KVF_MSG_POOL_UNREGISTERED, pool_id, KVF_BUSY,
                    "transfers still use blocks of the pool");
        return true;
    }
    session->pool_bytes -= pool->length;
    kvf_list_remove(&session->pools, &pool->node);
    kvf_daemon_pool_remove(pool);
    answer_pool(session, KVF_MSG_POOL_UNREGISTERED, pool_id, KVF_OK, "");
    return true;
}

static bool on_comm_state_set(struct kvf_session *session,
                              const struct kvf_comm_state *state)
{
    const struct kvf_config *config = session->sessions->config.config;
    enum kvf_status status = KVF_OK;
    const char *detail = "";
    if (state->n_nodes != session->instance->n_ranks) {
        status = KVF_INVALID_ARGUMENT;
        detail = "one node name per rank of the instance is needed";
    }
    for (size_t i = 0; status == KVF_OK && i < state->n_nodes; i++) {
        const char *name = state->node_names[i];
        const struct kvf_config_peer *peer = kvf_config_find_peer(config, name);
        if (peer != NULL) {
            session->node_names[i] = peer->name;
        } else if (strcmp(name, config->node.name) == 0) {
            session->node_names[i] = config->node.name;
        } else {
            status = KVF_PEER_UNKNOWN;
            detail = "a node name is not in the daemon's topology";
        }
    }
    struct kvf_message message = {
        .type = KVF_MSG_COMM_STATE_ACK,
        .u.comm_state_ack = {.status = status, .detail = detail},
    };
    kvf_session_send(session, &message);
    return true;
}

/* ---- frames in */

static bool protocol_error(struct kvf_session *session, const char *detail)
{
    struct kvf_log_ctx ctx = log_of(session);
    kvf_log_warn(&ctx, "malformed message from %s: %s",
                 session->is_registered ? session->name : "an engine", detail);
    session_close(session, detail);
    return false;
}

/* False: the session is closed. */
static bool dispatch(struct kvf_session *session, const struct kvf_message *message)
{
    const struct kvf_session_events *events = session->sessions->config.events;
    void *owner = session->sessions->config.owner;
    switch ((int)message->type) {
    case KVF_MSG_POOL_REGISTER:
        return on_pool_register(session, &message->u.pool_register);
    case KVF_MSG_POOL_UNREGISTER:
        return on_pool_unregister(session, message->u.pool_answer.pool_id);
    case KVF_MSG_COMM_STATE_SET:
        return on_comm_state_set(session, &message->u.comm_state_set.state);
    case KVF_MSG_OFFER:
        events->offer(owner, session, &message->u.offer);
        return true;
    case KVF_MSG_OFFER_READY:
        events->offer_ready(owner, session, &message->u.offer_ready);
        return true;
    case KVF_MSG_RECEIVE:
        events->receive(owner, session, &message->u.receive);
        return true;
    case KVF_MSG_ENGINE_CANCEL:
        events->cancel(owner, session, &message->u.engine_cancel);
        return true;
    case KVF_MSG_ENGINE_NOTIFY:
        events->notify(owner, session, &message->u.engine_notify);
        return true;
    default:
        return protocol_error(session, "a message that engines do not send");
    }
}

/* False: no whole frame, or the session is closed. */
static bool take_frame(struct kvf_session *session)
{
    struct kvf_sessions *sessions = session->sessions;
    struct kvf_buf *in = sessions->config.sock->ops->in(session->stream);
    struct kvf_frame frame;
    const char *detail = "";
    enum kvf_status status = kvf_frame_parse(
        kvf_buf_head(in), kvf_buf_length(in),
        session->is_registered ? KVF_FRAME_MAX_ENGINE : KVF_FRAME_MAX_UNPROVEN, &frame,
        &detail);
    if (status == KVF_IN_PROGRESS) {
        return false;
    }
    struct kvf_message message = {.type = (enum kvf_message_type)0};
    if (status == KVF_OK && kvf_message_type_is_known(frame.type)) {
        kvf_arena_reset(&sessions->arena, kvf_message_budget(frame.length));
        status = kvf_message_decode(frame.type, frame.payload, frame.length,
                                    &sessions->arena, &message, &detail);
    }
    if (status != KVF_OK) {
        return protocol_error(session, detail);
    }
    kvf_buf_consume(in, KVF_FRAME_HEADER_BYTES + frame.length);
    if (message.type == 0) {
        struct kvf_message answer = {
            .type = KVF_MSG_ERROR,
            .u.error = {.cause = KVF_UNSUPPORTED,
                        .detail = "unknown message type",
                        .frame_type = frame.type,
                        .frame_sequence = frame.sequence},
        };
        kvf_session_send(session, &answer);
        return true;
    }
    if (session->is_registered) {
        return dispatch(session, &message);
    }
    if (message.type != KVF_MSG_ENGINE_HELLO) {
        return protocol_error(session, "something else than EngineHello came first");
    }
    if (!on_engine_hello(session, &message.u.engine_hello)) {
        session_close(session, "refused");
        return false;
    }
    return true;
}

static void on_readable(void *owner);

static void on_more(void *owner, enum kvf_status status)
{
    (void)status;
    on_readable(owner);
}

static void on_readable(void *owner)
{
    struct kvf_session *session = owner;
    struct kvf_sessions *sessions = session->sessions;
    for (int i = 0; i < KVF_ENGINE_BATCH; i++) {
        if (session->stream == NULL || !take_frame(session)) {
            return;
        }
    }
    if (session->more_post.loop == NULL) {
        kvf_loop_post(sessions->config.loop, &session->more_post, on_more, session,
                      KVF_OK);
    }
}

static const struct kvf_stream_events stream_events = {
    .readable = on_readable,
    .lost = on_stream_lost,
};

static void on_hello_timeout(void *owner)
{
    session_close(owner, "no EngineHello in time");
}

/* ---- accepting */

static enum kvf_status judge_credentials(const struct kvf_sessions *sessions,
                                         struct kvf_stream *stream,
                                         struct kvf_credentials *out)
{
    const struct kvf_config *config = sessions->config.config;
    enum kvf_status status = sessions->config.sock->ops->credentials(stream, out);
    if (status != KVF_OK) {
        return status;
    }
    if (config->engine.n_allow_uids == 0) {
        return out->uid == 0 || out->uid == geteuid() ? KVF_OK : KVF_PERMISSION;
    }
    for (size_t i = 0; i < config->engine.n_allow_uids; i++) {
        if (config->engine.allow_uids[i] == out->uid) {
            return KVF_OK;
        }
    }
    return KVF_PERMISSION;
}

static void on_accepted(void *owner, struct kvf_stream *stream, const char *from)
{
    (void)from; /* a Unix peer has no address */
    struct kvf_sessions *sessions = owner;
    const struct kvf_config *config = sessions->config.config;
    static const struct kvf_log_ctx ctx = {.comp = "engine"};
    struct kvf_credentials credentials;
    if (judge_credentials(sessions, stream, &credentials) != KVF_OK) {
        kvf_log_warn(&ctx,
                     "an engine of another user was refused; see engine.allow_uids");
        sessions->config.sock->ops->close(stream);
        return;
    }
    struct kvf_session *session = NULL;
    if (sessions->list.n < config->engine.max_engines) {
        session = kvf_alloc(sizeof(*session));
    }
    if (session == NULL) {
        kvf_log_warn(&ctx,
                     "an engine was refused: %zu are connected, see engine.max_engines",
                     sessions->list.n);
        sessions->config.sock->ops->close(stream);
        return;
    }
    session->sessions = sessions;
    session->id = ++sessions->next_id;
    session->credentials = credentials;
    session->stream = stream;
    kvf_list_init(&session->pools);
    kvf_list_init(&session->requests);
    kvf_list_add_tail(&sessions->list, &session->node);
    const struct kvf_stream_config stream_config = {
        .in_max_bytes = KVF_FRAME_MAX_ENGINE + KVF_FRAME_HEADER_BYTES,
        .out_max_bytes = KVF_ENGINE_OUT_MAX_BYTES,
    };
    sessions->config.sock->ops->attach(stream, &stream_config, &stream_events, session);
    uint64_t deadline = kvf_loop_now_ns(sessions->config.loop) +
                        config->control.hello_timeout_ms * KVF_NS_PER_MS;
    if (kvf_loop_timer_start(sessions->config.loop, &session->timer, deadline,
                             on_hello_timeout, session) != KVF_OK) {
        session_close(session, "out of memory");
    }
}

static const struct kvf_listener_events listener_events = {.accepted = on_accepted};

/* ---- the set */

enum kvf_status kvf_sessions_create(const struct kvf_sessions_config *config,
                                    struct kvf_sessions **out_sessions)
{
    struct kvf_sessions *sessions = kvf_alloc(sizeof(*sessions));
    if (sessions == NULL) {
        return KVF_NO_MEMORY;
    }
    sessions->config = *config;
    kvf_list_init(&sessions->list);
    kvf_arena_init(&sessions->arena, 0);
    kvf_buf_init(&sessions->frame, KVF_FRAME_MAX_PEER + KVF_FRAME_HEADER_BYTES);
    enum kvf_status status =
        config->sock->ops->listen(config->sock, &config->config->engine.listen,
                                  &listener_events, sessions, &sessions->listener);
    if (status != KVF_OK) {
        kvf_sessions_destroy(sessions);
        return status;
    }
    *out_sessions = sessions;
    return KVF_OK;
}

void kvf_sessions_destroy(struct kvf_sessions *sessions)
{
    if (sessions == NULL) {
        return;
    }
    struct kvf_node *node;
    while ((node = kvf_list_first(&sessions->list)) != NULL) {
        session_close(KVF_CONTAINER(node, struct kvf_session, node), "shutdown");
    }
    sessions->config.sock->ops->listener_close(sessions->listener);
    kvf_arena_fini(&sessions->arena);
    kvf_buf_fini(&sessions->frame);
    kvf_free(sessions);
}

struct kvf_session *kvf_sessions_find(struct kvf_sessions *sessions, const char *instance,
                                      uint32_t rank)
{
    for (struct kvf_node *node = kvf_list_first(&sessions->list); node != NULL;
         node = kvf_list_next(&sessions->list, node)) {
        struct kvf_session *session = KVF_CONTAINER(node, struct kvf_session, node);
        if (session->is_registered && session->rank == rank &&
            strcmp(session->instance->name, instance) == 0) {
            return session;
        }
    }
    return NULL;
}

struct kvf_session *kvf_sessions_find_nonce(struct kvf_sessions *sessions,
                                            const uint8_t nonce[KVF_NONCE_BYTES],
                                            uint32_t rank)
{
    for (struct kvf_node *node = kvf_list_first(&sessions->list); node != NULL;
         node = kvf_list_next(&sessions->list, node)) {
        struct kvf_session *session = KVF_CONTAINER(node, struct kvf_session, node);
        if (session->is_registered && session->rank == rank &&
            memcmp(session->nonce, nonce, KVF_NONCE_BYTES) == 0) {
            return session;
        }
    }
    return NULL;
}

const struct kvf_list *kvf_sessions_list(const struct kvf_sessions *sessions)
{
    return &sessions->list;
}

void kvf_session_state(const struct kvf_session *session,
                       struct kvf_transceiver_state *out)
{
    const struct kvf_config_instance *instance = session->instance;
    *out = (struct kvf_transceiver_state){
        .has_cache = true,
        .has_comm = true,
        .cache = instance->state,
        .comm = {.node_names = session->node_names,
                 .n_nodes = instance->n_ranks,
                 .self_rank = (int32_t)session->rank,
                 .instance = instance->name},
    };
    if (instance->state.has_attention_dp != 0) {
        struct kvf_rank_place place;
        kvf_rank_place(&instance->state, (int32_t)session->rank, &place);
        uint32_t group = (uint32_t)(instance->state.tp / instance->state.dp_size);
        out->cache.dp_rank = (int32_t)(place.tp / group);
    }
    memcpy(out->comm.instance_nonce, session->nonce, KVF_NONCE_BYTES);
}
