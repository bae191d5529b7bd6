/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's session with its node's daemon: opening, closing, the descriptor to poll.
 * What arrives later is inbox.c's. The engine owns everything the library holds for it;
 * a process that forked owns nothing of it, which every call checks first.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "client/engine_private.h"

#define DEFAULT_SOCKET     "/run/kvferry/engine.sock"
#define CONNECT_TIMEOUT_MS 5000u
#define ENGINE_NAME_MAX    127u
#define REQUESTS_MAX       (1u << 20) /* a daemon that claims more is not believed */
#define RECORDS_FIRST      64u

/* Why kvf_engine_open() failed: there is no engine yet that could keep it. */
/* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
static _Thread_local char open_detail[KVF_DETAIL_MAX];

uint32_t kvf_abi_version(void)
{
    return KVF_ABI_VERSION;
}

const char *kvf_version(void)
{
    return KVF_VERSION_TEXT;
}

enum kvf_status kvf_engine_fail(struct kvf_engine *engine, enum kvf_status status,
                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(engine->detail, sizeof(engine->detail), format, arguments);
    va_end(arguments);
    return status;
}

void kvf_text_copy(char *out, size_t out_bytes, const char *text)
{
    size_t n = strnlen(text, out_bytes - 1);
    memcpy(out, text, n);
    out[n] = '\0';
}

uint64_t kvf_deadline_ns(uint32_t timeout_ms, uint32_t default_ms)
{
    uint64_t ms = timeout_ms != 0 ? timeout_ms : default_ms;
    return kvf_clock_now_ns(&kvf_clock_system) + ms * KVF_NS_PER_MS;
}

enum kvf_status kvf_engine_enter(struct kvf_engine *engine)
{
    if (engine == NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    if (getpid() != engine->pid) {
        return kvf_engine_fail(engine, KVF_FORKED,
                               "this engine belongs to process %d; open one here",
                               (int)engine->pid);
    }
    return KVF_OK;
}

enum kvf_status kvf_engine_enter_live(struct kvf_engine *engine)
{
    enum kvf_status status = kvf_engine_enter(engine);
    if (status == KVF_OK && engine->is_lost) {
        status = kvf_engine_fail(engine, KVF_DAEMON_LOST,
                                 "the daemon is gone; read the events, then open anew");
    }
    return status;
}

/* ---- opening */

static const char *socket_path(const struct kvf_engine_config *config)
{
    const char *path = config->socket_path;
    if (path == NULL || path[0] == '\0') {
        path = secure_getenv("KVFERRY_ENGINE");
    }
    if (path == NULL || path[0] == '\0') {
        path = DEFAULT_SOCKET;
    }
    return strncmp(path, "unix:", 5) == 0 ? path + 5 : path;
}

static enum kvf_status check_config(struct kvf_engine *engine,
                                    const struct kvf_engine_config *config)
{
    enum kvf_status status =
        kvf_arguments_struct(engine, "kvf_engine_config", config, sizeof(*config));
    if (status != KVF_OK) {
        return status;
    }
    if (config->instance == NULL || config->instance[0] == '\0') {
        return kvf_engine_fail(engine, KVF_INVALID_ARGUMENT, "instance is required");
    }
    status = kvf_arguments_text(engine, "instance", config->instance, KVF_NAME_MAX);
    if (status == KVF_OK) {
        status = kvf_arguments_text(engine, "name", config->name, ENGINE_NAME_MAX);
    }
    return status;
}

static enum kvf_status connect_to(struct kvf_engine *engine, const char *path,
                                  uint64_t deadline_ns)
{
    enum kvf_status status = kvf_connection_open(&engine->connection, path, deadline_ns);
    if (status == KVF_OK) {
        return KVF_OK;
    }
    /* Saved by nobody in between: connection_open() returns right after the call. */
    const char *reason = status == KVF_SYSTEM || status == KVF_DAEMON_LOST
                             ? strerrordesc_np(errno)
                             : kvf_status_text(status);
    return kvf_engine_fail(engine, status, "cannot reach a daemon at %.100s: %s", path,
                           reason);
}

static enum kvf_status check_daemon(struct kvf_engine *engine,
                                    const struct kvf_engine_config *config)
{
    struct kvf_credentials credentials;
    enum kvf_status status =
        kvf_connection_credentials(&engine->connection, &credentials);
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "the kernel does not say who listens");
    }
    bool is_expected = config->check_daemon_uid != 0
                           ? credentials.uid == config->daemon_uid
                           : credentials.uid == 0 || credentials.uid == geteuid();
    if (!is_expected) {
        return kvf_engine_fail(engine, KVF_PERMISSION,
                               "user %u listens on the engine socket, which is not whom "
                               "this engine trusts",
                               (unsigned)credentials.uid);
    }
    return KVF_OK;
}

static enum kvf_status queue_hello(struct kvf_engine *engine,
                                   const struct kvf_engine_config *config)
{
    struct kvf_message message = {
        .type = KVF_MSG_ENGINE_HELLO,
        .u.engine_hello = {.version_min = KVF_ENGINE_PROTOCOL,
                           .version_max = KVF_ENGINE_PROTOCOL,
                           .rank = config->rank,
                           .pid = (uint32_t)engine->pid,
                           .instance = config->instance,
                           .name = config->name,
                           .software = KVF_VERSION_TEXT},
    };
    struct kvf_rng rng;
    kvf_rng_init_system(&rng);
    kvf_rng_fill(&rng, message.u.engine_hello.nonce, KVF_NONCE_BYTES);
    enum kvf_status status = kvf_connection_queue(&engine->connection, &message, -1);
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "the greeting could not be queued");
    }
    return KVF_OK;
}

/* The first message, into an arena of its own: the state points there for good. */
static enum kvf_status wait_for_ack(struct kvf_engine *engine,
                                    struct kvf_message *message, uint64_t deadline_ns)
{
    struct kvf_connection *connection = &engine->connection;
    for (;;) {
        const char *detail = "";
        enum kvf_status written = kvf_connection_write(connection);
        enum kvf_status got = kvf_connection_read(connection);
        enum kvf_status status =
            kvf_connection_take(connection, &engine->ack_arena, message, &detail);
        if (status == KVF_OK) {
            return KVF_OK;
        }
        if (status != KVF_IN_PROGRESS) {
            return kvf_engine_fail(engine, status, "the daemon's greeting: %s", detail);
        }
        if ((written != KVF_OK && written != KVF_IN_PROGRESS) ||
            (got != KVF_OK && got != KVF_IN_PROGRESS)) {
            return kvf_engine_fail(
                engine, KVF_DAEMON_LOST,
                "the daemon hung up instead of greeting; its log says why (see "
                "engine.allow_uids and engine.max_engines)");
        }
        if (kvf_clock_now_ns(&kvf_clock_system) >= deadline_ns) {
            return kvf_engine_fail(engine, KVF_TIMED_OUT,
                                   "something listens but did not greet in time");
        }
        kvf_connection_wait(connection, deadline_ns);
    }
}

static enum kvf_status judge_ack(struct kvf_engine *engine,
                                 const struct kvf_message *message)
{
    const struct kvf_engine_hello_ack *ack = &message->u.engine_hello_ack;
    if (message->type != KVF_MSG_ENGINE_HELLO_ACK) {
        return kvf_engine_fail(engine, KVF_PROTOCOL, "the daemon said %s first",
                               kvf_message_name(message->type));
    }
    if (ack->status != KVF_OK) {
        return kvf_engine_fail(engine, (enum kvf_status)ack->status, "%s", ack->detail);
    }
    if (ack->version != KVF_ENGINE_PROTOCOL) {
        return kvf_engine_fail(engine, KVF_VERSION, "the daemon chose version %u",
                               ack->version);
    }
    if (!ack->state.has_cache || !ack->state.has_comm || ack->max_requests == 0 ||
        ack->max_requests > REQUESTS_MAX) {
        return kvf_engine_fail(engine, KVF_PROTOCOL,
                               "the daemon's greeting lacks the state or the limits");
    }
    return KVF_OK;
}

static enum kvf_status create_records(struct kvf_engine *engine, uint32_t max_requests)
{
    uint32_t n_first = max_requests < RECORDS_FIRST ? max_requests : RECORDS_FIRST;
    enum kvf_status status = kvf_slab_create(sizeof(struct kvf_record), n_first,
                                             max_requests, &engine->records);
    if (status != KVF_OK) {
        return kvf_engine_fail(engine, status, "no memory for transfer records");
    }
    uint32_t n_buckets = 1;
    while (n_buckets < max_requests) {
        n_buckets *= 2;
    }
    engine->buckets = kvf_alloc_array(n_buckets, sizeof(*engine->buckets));
    if (engine->buckets == NULL) {
        return kvf_engine_fail(engine, KVF_NO_MEMORY, "no memory for transfer records");
    }
    engine->n_buckets = n_buckets;
    for (uint32_t i = 0; i < n_buckets; i++) {
        kvf_list_init(&engine->buckets[i]);
    }
    return KVF_OK;
}

static enum kvf_status greet(struct kvf_engine *engine,
                             const struct kvf_engine_config *config, uint64_t deadline_ns)
{
    struct kvf_message message;
    enum kvf_status status = queue_hello(engine, config);
    if (status == KVF_OK) {
        status = wait_for_ack(engine, &message, deadline_ns);
    }
    if (status == KVF_OK) {
        status = judge_ack(engine, &message);
    }
    if (status == KVF_OK) {
        engine->state = message.u.engine_hello_ack.state;
        status = create_records(engine, message.u.engine_hello_ack.max_requests);
    }
    return status;
}

/* The socket alone would not do: kvf_wait() may have read events of other transfers. */
static enum kvf_status open_poll_fd(struct kvf_engine *engine)
{
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event socket_in = {.events = EPOLLIN};
    struct epoll_event news_in = {.events = EPOLLIN};
    if (engine->event_fd < 0 || engine->epoll_fd < 0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->connection.fd, &socket_in) !=
            0 ||
        epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->event_fd, &news_in) != 0) {
        return kvf_engine_fail(engine, KVF_SYSTEM, "no descriptor to poll: %s",
                               strerrordesc_np(errno));
    }
    return KVF_OK;
}

static struct kvf_engine *create_engine(void)
{
    struct kvf_engine *engine = kvf_alloc(sizeof(*engine));
    if (engine == NULL) {
        return NULL;
    }
    engine->pid = getpid();
    engine->connection.fd = engine->epoll_fd = engine->event_fd = -1;
    kvf_arena_init(&engine->inbox_arena, 0);
    kvf_arena_init(&engine->ack_arena, 0);
    kvf_arena_init(&engine->names_arena, 0);
    kvf_list_init(&engine->pools);
    kvf_list_init(&engine->live);
    kvf_list_init(&engine->news);
    return engine;
}

enum kvf_status kvf_engine_open(const struct kvf_engine_config *config,
                                struct kvf_engine **out_engine)
{
    kvf_text_copy(open_detail, sizeof(open_detail), "config or out_engine is NULL");
    if (config == NULL || out_engine == NULL) {
        return KVF_INVALID_ARGUMENT;
    }
    struct kvf_engine *engine = create_engine();
    if (engine == NULL) {
        kvf_text_copy(open_detail, sizeof(open_detail), "no memory for the engine");
        return KVF_NO_MEMORY;
    }
    enum kvf_status status = check_config(engine, config);
    if (status != KVF_OK) {
        goto fail;
    }
    uint64_t deadline_ns =
        kvf_deadline_ns(config->connect_timeout_ms, CONNECT_TIMEOUT_MS);
    status = connect_to(engine, socket_path(config), deadline_ns);
    if (status != KVF_OK) {
        goto fail;
    }
    status = check_daemon(engine, config);
    if (status != KVF_OK) {
        goto fail;
    }
    status = greet(engine, config, deadline_ns);
    if (status != KVF_OK) {
        goto fail;
    }
    status = open_poll_fd(engine);
    if (status != KVF_OK) {
        goto fail;
    }
    open_detail[0] = '\0';
    *out_engine = engine;
    return KVF_OK;
fail:
    kvf_text_copy(open_detail, sizeof(open_detail), engine->detail);
    kvf_engine_close(engine);
    return status;
}

/* ---- closing */

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd); /* nothing of ours is buffered in it */
    }
}

/* Also in a forked child: descriptors and memory are its own copies, and nothing here
 * speaks to the daemon or changes the epoll set that the parent still uses. */
void kvf_engine_close(struct kvf_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    kvf_connection_close(&engine->connection);
    close_fd(engine->epoll_fd);
    close_fd(engine->event_fd);
    struct kvf_node *node;
    while ((node = kvf_list_first(&engine->pools)) != NULL) {
        kvf_pool_destroy(KVF_CONTAINER(node, struct kvf_pool, node));
    }
    kvf_slab_destroy(engine->records);
    kvf_free(engine->buckets);
    kvf_free(engine->notifications.slots);
    kvf_free(engine->params);
    kvf_arena_fini(&engine->inbox_arena);
    kvf_arena_fini(&engine->ack_arena);
    kvf_arena_fini(&engine->names_arena);
    kvf_free(engine);
}

int kvf_engine_fd(const struct kvf_engine *engine)
{
    if (engine == NULL || getpid() != engine->pid) {
        return -1;
    }
    bool has_ended = engine->is_lost && !engine->is_signalled;
    return has_ended ? -1 : engine->epoll_fd;
}

const char *kvf_engine_detail(const struct kvf_engine *engine)
{
    return engine != NULL ? engine->detail : open_detail;
}
