/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fake_daemon.h. The thread owns the listener and all reading; the test's thread may
 * send. What both touch is behind one mutex. A failure of the fake itself aborts: cmocka
 * can fail a test from the test's thread only.
 */
#include "tests/client/fake_daemon.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/stream_io.h"
#include "proto/frame.h"

#define SEEN_MAX      16384u
#define EXPECT_WAIT_S 5
#define IN_MAX_BYTES  (KVF_FRAME_MAX_ENGINE + KVF_FRAME_HEADER_BYTES)

struct fake_daemon {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char folder[64], path[96];
    int listen_fd, wake_fd;
    /* under the mutex */
    struct fake_config config;
    int fd; /* the connection; -1: none */
    int pool_fd;
    bool is_stopping, is_paused;
    size_t n_seen;
    struct fake_seen seen[SEEN_MAX];
    struct kvf_buf frame;
    uint64_t sequence;
    /* of the thread */
    struct kvf_in_queue in;
    struct kvf_arena arena;
};

static void require(bool is_true, const char *what)
{
    if (!is_true) {
        (void)fprintf(stderr, "fake daemon: %s\n", what);
        abort();
    }
}

static void wake(struct fake_daemon *fake)
{
    uint64_t one = 1;
    require(write(fake->wake_fd, &one, sizeof(one)) == sizeof(one), "wake");
}

/* ---- out; the mutex is held */

static void send_bytes(struct fake_daemon *fake, const uint8_t *bytes, size_t n)
{
    while (n > 0 && fake->fd >= 0) {
        ssize_t n_sent = send(fake->fd, bytes, n, MSG_NOSIGNAL);
        if (n_sent < 0) {
            return; /* the engine left, which may be what is tested */
        }
        bytes += n_sent;
        n -= (size_t)n_sent;
    }
}

static void send_locked(struct fake_daemon *fake, const struct kvf_message *message)
{
    kvf_buf_clear(&fake->frame);
    require(kvf_message_encode(message, 7, ++fake->sequence, &fake->frame) == KVF_OK,
            "encode");
    send_bytes(fake, kvf_buf_head(&fake->frame), kvf_buf_length(&fake->frame));
}

void fake_daemon_send(struct fake_daemon *fake, const struct kvf_message *message)
{
    (void)pthread_mutex_lock(&fake->mutex);
    send_locked(fake, message);
    (void)pthread_mutex_unlock(&fake->mutex);
}

static void event_locked(struct fake_daemon *fake, uint64_t handle, uint32_t bits,
                         enum kvf_status status)
{
    const struct kvf_message message = {
        .type = KVF_MSG_TRANSFER_EVENT,
        .u.transfer_event = {.handle = handle,
                             .bits = bits,
                             .status = status,
                             .bytes = 4096,
                             .duration_ns = 77,
                             .peer = "node-b",
                             .path = "staged/tcp",
                             .detail = status == KVF_OK ? "" : "as the test wants"},
    };
    send_locked(fake, &message);
}

void fake_daemon_event(struct fake_daemon *fake, uint64_t handle, uint32_t bits,
                       enum kvf_status status)
{
    (void)pthread_mutex_lock(&fake->mutex);
    event_locked(fake, handle, bits, status);
    (void)pthread_mutex_unlock(&fake->mutex);
}

void fake_daemon_garbage(struct fake_daemon *fake)
{
    static const uint8_t bytes[64] = "this is no frame";
    (void)pthread_mutex_lock(&fake->mutex);
    send_bytes(fake, bytes, sizeof(bytes));
    (void)pthread_mutex_unlock(&fake->mutex);
}

static void greet(struct fake_daemon *fake, const struct kvf_engine_hello *hello)
{
    static const int32_t heads[] = {2, 2, 2, 2}, layers[] = {4};
    static const char *const nodes[] = {"node-a", "node-b"};
    struct kvf_message message = {
        .type = KVF_MSG_ENGINE_HELLO_ACK,
        .u.engine_hello_ack =
            {.status = fake->config.hello_status,
             .detail = fake->config.hello_detail,
             .node = "node-a",
             .version = fake->config.hello_version > 0 ? fake->config.hello_version : 1,
             .default_deadline_ms = 30000,
             .max_deadline_ms = 600000,
             .max_requests =
                 fake->config.max_requests > 0 ? fake->config.max_requests : 64,
             .state = {.has_cache = true,
                       .has_comm = true,
                       .cache = {.kv_heads_per_layer = heads,
                                 .n_model_layers = 4,
                                 .size_per_head = 8,
                                 .tokens_per_block = 16,
                                 .tp = 2,
                                 .pp = 1,
                                 .cp = 1,
                                 .dp_size = 1,
                                 .layers_per_stage = layers,
                                 .n_stages = 1,
                                 .kv_factor = 2,
                                 .dtype = KVF_DTYPE_F16,
                                 .rank_convention = KVF_RANK_CONVENTION_CP_FASTEST},
                       .comm = {.node_names = nodes,
                                .n_nodes = 2,
                                .self_rank = (int32_t)hello->rank,
                                .instance = hello->instance}}},
    };
    memcpy(message.u.engine_hello_ack.state.comm.instance_nonce, hello->nonce,
           KVF_NONCE_BYTES);
    switch (fake->config.greeting) {
    case FAKE_GREETS:
        send_locked(fake, &message);
        break;
    case FAKE_HANGS_UP:
        (void)shutdown(fake->fd, SHUT_RDWR);
        break;
    case FAKE_GARBAGE:
        send_bytes(fake, (const uint8_t *)"HTTP/1.1 400 Bad Request\r\n\r\n12345678", 36);
        break;
    case FAKE_OTHER_MESSAGE:
        message.type = KVF_MSG_PONG;
        message.u.pong = (struct kvf_pong){.sequence = 1};
        send_locked(fake, &message);
        break;
    case FAKE_SILENT:
    default:
        break;
    }
}

static void answer_pool(struct fake_daemon *fake, enum kvf_message_type type,
                        uint32_t pool_id)
{
    const struct kvf_message message = {
        .type = type,
        .u.pool_answer = {.pool_id = pool_id,
                          .status = fake->config.pool_status,
                          .detail = fake->config.pool_status == KVF_OK
                                        ? ""
                                        : "as the test wants"},
    };
    if (fake->config.hangs_up_on_pool) {
        (void)shutdown(fake->fd, SHUT_RDWR);
    } else if (!fake->config.ignores_pools) {
        send_locked(fake, &message);
    }
}

static void answer_comm(struct fake_daemon *fake, uint64_t sequence)
{
    struct kvf_message message = {
        .type = KVF_MSG_COMM_STATE_ACK,
        .u.comm_state_ack = {.status = fake->config.comm_status, .detail = "names"},
    };
    if (fake->config.is_old) {
        message.type = KVF_MSG_ERROR;
        message.u.error = (struct kvf_error_message){.cause = KVF_UNSUPPORTED,
                                                     .detail = "unknown message type",
                                                     .frame_type = KVF_MSG_COMM_STATE_SET,
                                                     .frame_sequence = sequence};
    }
    send_locked(fake, &message);
}

/* ---- in */

static void note_tables(struct fake_seen *seen, const struct kvf_table *tables, size_t n)
{
    seen->n_tables = n;
    for (size_t i = 0; i < n; i++) {
        seen->n_blocks += tables[i].n_blocks;
        seen->last_block = tables[i].blocks[tables[i].n_blocks - 1];
    }
}

static struct fake_seen note_offer(const struct kvf_offer *offer)
{
    struct fake_seen seen = {.handle = offer->handle,
                             .request_id = offer->request_id,
                             .attempt = offer->attempt,
                             .n_tokens = offer->n_tokens,
                             .deadline_ms = offer->deadline_ms,
                             .n_hashes = offer->n_block_hashes,
                             .is_ready = offer->is_ready,
                             .has_trace_id = offer->has_trace_id};
    memcpy(seen.nonce, offer->trace_id, sizeof(seen.nonce));
    (void)snprintf(seen.label, sizeof(seen.label), "%s", offer->label);
    note_tables(&seen, offer->tables, offer->n_tables);
    return seen;
}

static struct fake_seen note_receive(const struct kvf_receive_message *receive)
{
    const struct kvf_comm_state *comm = &receive->params.state.comm;
    struct fake_seen seen = {.handle = receive->handle,
                             .request_id = receive->params.request_id,
                             .attempt = receive->params.attempt,
                             .n_tokens = receive->params.n_tokens,
                             .n_prefix_tokens = receive->n_prefix_tokens,
                             .deadline_ms = receive->deadline_ms,
                             .n_hashes = receive->n_block_hashes};
    memcpy(seen.nonce, comm->instance_nonce, sizeof(seen.nonce));
    (void)snprintf(seen.label, sizeof(seen.label), "%s", receive->label);
    (void)snprintf(seen.text, sizeof(seen.text), "%s", comm->node_names[0]);
    note_tables(&seen, receive->tables, receive->n_tables);
    return seen;
}

static struct fake_seen note_other(const struct kvf_message *message)
{
    struct fake_seen seen = {.n_bytes = 0};
    switch ((int)message->type) {
    case KVF_MSG_ENGINE_HELLO:
        memcpy(seen.nonce, message->u.engine_hello.nonce, sizeof(seen.nonce));
        (void)snprintf(seen.text, sizeof(seen.text), "%s",
                       message->u.engine_hello.instance);
        (void)snprintf(seen.label, sizeof(seen.label), "%s",
                       message->u.engine_hello.name);
        break;
    case KVF_MSG_POOL_REGISTER:
        seen.pool_id = message->u.pool_register.pool_id;
        seen.group = message->u.pool_register.layout.group;
        seen.offset = message->u.pool_register.offset;
        seen.length = message->u.pool_register.length;
        break;
    case KVF_MSG_POOL_UNREGISTER:
        seen.pool_id = message->u.pool_answer.pool_id;
        break;
    case KVF_MSG_OFFER_READY:
        seen.handle = message->u.offer_ready.handle;
        seen.status = message->u.offer_ready.status;
        break;
    case KVF_MSG_ENGINE_CANCEL:
        seen.handle = message->u.engine_cancel.handle;
        seen.by_request = message->u.engine_cancel.by_request;
        break;
    case KVF_MSG_ENGINE_NOTIFY:
        seen.n_bytes = message->u.engine_notify.payload.n;
        (void)snprintf(seen.text, sizeof(seen.text), "%s",
                       message->u.engine_notify.instance);
        break;
    case KVF_MSG_COMM_STATE_SET:
        (void)snprintf(seen.text, sizeof(seen.text), "%s",
                       message->u.comm_state_set.state.node_names[0]);
        memcpy(seen.nonce, message->u.comm_state_set.state.instance_nonce,
               sizeof(seen.nonce));
        break;
    default:
        require(false, "a message that engines do not send");
    }
    return seen;
}

static struct fake_seen note(const struct kvf_message *message)
{
    struct fake_seen seen;
    if (message->type == KVF_MSG_OFFER) {
        seen = note_offer(&message->u.offer);
    } else if (message->type == KVF_MSG_RECEIVE) {
        seen = note_receive(&message->u.receive);
    } else {
        seen = note_other(message);
    }
    seen.type = message->type;
    return seen;
}

static void keep_pool_fd(struct fake_daemon *fake, struct fake_seen *seen)
{
    int fd = kvf_in_queue_take_fd(&fake->in);
    seen->has_fd = fd >= 0;
    if (fake->pool_fd >= 0) {
        (void)close(fake->pool_fd);
    }
    fake->pool_fd = fd;
}

static void hear(struct fake_daemon *fake, const struct kvf_message *message,
                 uint64_t sequence)
{
    struct fake_seen seen = note(message);
    (void)pthread_mutex_lock(&fake->mutex);
    if (message->type == KVF_MSG_POOL_REGISTER) {
        keep_pool_fd(fake, &seen);
    }
    require(fake->n_seen < SEEN_MAX, "too many messages for one test");
    fake->seen[fake->n_seen++] = seen;
    (void)pthread_cond_broadcast(&fake->changed);
    switch ((int)message->type) {
    case KVF_MSG_ENGINE_HELLO:
        greet(fake, &message->u.engine_hello);
        break;
    case KVF_MSG_POOL_REGISTER:
        answer_pool(fake, KVF_MSG_POOL_REGISTERED, seen.pool_id);
        break;
    case KVF_MSG_POOL_UNREGISTER:
        answer_pool(fake, KVF_MSG_POOL_UNREGISTERED, seen.pool_id);
        break;
    case KVF_MSG_COMM_STATE_SET:
        answer_comm(fake, sequence);
        break;
    case KVF_MSG_ENGINE_CANCEL:
        if (fake->config.confirms_cancels) {
            event_locked(fake, seen.handle, KVF_EVENT_REUSABLE, KVF_CANCELLED);
        }
        break;
    default:
        break;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}

static void take_frames(struct fake_daemon *fake)
{
    struct kvf_buf *in = &fake->in.bytes;
    while (kvf_buf_length(in) >= KVF_FRAME_HEADER_BYTES) {
        struct kvf_frame frame;
        struct kvf_message message;
        const char *detail = "";
        enum kvf_status status = kvf_frame_parse(kvf_buf_head(in), kvf_buf_length(in),
                                                 KVF_FRAME_MAX_ENGINE, &frame, &detail);
        if (status == KVF_IN_PROGRESS) {
            return;
        }
        require(status == KVF_OK, detail);
        kvf_arena_reset(&fake->arena, kvf_message_budget(frame.length));
        status = kvf_message_decode(frame.type, frame.payload, frame.length, &fake->arena,
                                    &message, &detail);
        require(status == KVF_OK, detail);
        kvf_buf_consume(in, KVF_FRAME_HEADER_BYTES + frame.length);
        hear(fake, &message, frame.sequence);
    }
}

static void set_connection(struct fake_daemon *fake, int fd)
{
    (void)pthread_mutex_lock(&fake->mutex);
    if (fake->fd >= 0) {
        (void)close(fake->fd);
    }
    fake->fd = fd;
    (void)pthread_mutex_unlock(&fake->mutex);
    kvf_in_queue_fini(&fake->in);
    kvf_buf_init(&fake->in.bytes, IN_MAX_BYTES);
}

static void *run(void *argument)
{
    struct fake_daemon *fake = argument;
    for (;;) {
        (void)pthread_mutex_lock(&fake->mutex);
        bool is_stopping = fake->is_stopping;
        int fd = fake->is_paused ? -1 : fake->fd;
        (void)pthread_mutex_unlock(&fake->mutex);
        if (is_stopping) {
            return NULL;
        }
        struct pollfd fds[] = {{.fd = fake->listen_fd, .events = POLLIN},
                               {.fd = fake->wake_fd, .events = POLLIN},
                               {.fd = fd, .events = POLLIN}};
        (void)poll(fds, 3, -1);
        uint64_t count;
        if (fds[1].revents != 0) {
            require(read(fake->wake_fd, &count, sizeof(count)) == sizeof(count), "wake");
        }
        if (fds[0].revents != 0) {
            set_connection(fake, accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC));
        } else if (fd >= 0 && fds[2].revents != 0) {
            bool has_input;
            enum kvf_status status =
                kvf_in_queue_read(&fake->in, fd, true, SIZE_MAX, &has_input);
            take_frames(fake);
            if (status != KVF_OK && status != KVF_IN_PROGRESS) {
                set_connection(fake, -1);
            }
        }
    }
}

/* ---- the test's side */

struct fake_daemon *fake_daemon_start(const struct fake_config *config)
{
    struct fake_daemon *fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    fake->config = *config;
    fake->fd = fake->pool_fd = -1;
    kvf_buf_init(&fake->frame, KVF_FRAME_MAX_PEER);
    kvf_buf_init(&fake->in.bytes, IN_MAX_BYTES);
    kvf_arena_init(&fake->arena, 0);
    assert_int_equal(pthread_mutex_init(&fake->mutex, NULL), 0);
    assert_int_equal(pthread_cond_init(&fake->changed, NULL), 0);
    (void)snprintf(fake->folder, sizeof(fake->folder), "/tmp/kvferry-client-XXXXXX");
    assert_non_null(mkdtemp(fake->folder));
    (void)snprintf(fake->path, sizeof(fake->path), "%s/engine.sock", fake->folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);
    fake->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(fake->listen_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake->listen_fd, 8), 0);
    fake->wake_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(fake->wake_fd >= 0);
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
    return fake;
}

void fake_daemon_stop(struct fake_daemon *fake)
{
    if (fake == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&fake->mutex);
    fake->is_stopping = true;
    (void)pthread_mutex_unlock(&fake->mutex);
    wake(fake);
    (void)pthread_join(fake->thread, NULL);
    set_connection(fake, -1);
    kvf_in_queue_fini(&fake->in);
    if (fake->pool_fd >= 0) {
        (void)close(fake->pool_fd);
    }
    (void)close(fake->listen_fd);
    (void)close(fake->wake_fd);
    (void)unlink(fake->path);
    (void)rmdir(fake->folder);
    kvf_buf_fini(&fake->frame);
    kvf_arena_fini(&fake->arena);
    (void)pthread_mutex_destroy(&fake->mutex);
    (void)pthread_cond_destroy(&fake->changed);
    free(fake);
}

const char *fake_daemon_path(const struct fake_daemon *fake)
{
    return fake->path;
}

static const struct fake_seen *find_seen(const struct fake_daemon *fake, uint32_t type,
                                         size_t nth)
{
    for (size_t i = 0; i < fake->n_seen; i++) {
        if (fake->seen[i].type == type && nth-- == 0) {
            return &fake->seen[i];
        }
    }
    return NULL;
}

struct fake_seen fake_daemon_expect(struct fake_daemon *fake, uint32_t type, size_t nth)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += EXPECT_WAIT_S;
    struct fake_seen copy = {.type = 0};
    int rc = 0;
    (void)pthread_mutex_lock(&fake->mutex);
    const struct fake_seen *seen = find_seen(fake, type, nth);
    while (seen == NULL && rc == 0) {
        rc = pthread_cond_timedwait(&fake->changed, &fake->mutex, &until);
        seen = find_seen(fake, type, nth);
    }
    if (seen != NULL) {
        copy = *seen;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    assert_int_equal(copy.type, type);
    return copy;
}

size_t fake_daemon_count(struct fake_daemon *fake, uint32_t type)
{
    size_t n = 0;
    (void)pthread_mutex_lock(&fake->mutex);
    for (size_t i = 0; i < fake->n_seen; i++) {
        n += fake->seen[i].type == type ? 1 : 0;
    }
    (void)pthread_mutex_unlock(&fake->mutex);
    return n;
}

int fake_daemon_take_fd(struct fake_daemon *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    int fd = fake->pool_fd;
    fake->pool_fd = -1;
    (void)pthread_mutex_unlock(&fake->mutex);
    return fd;
}

void fake_daemon_configure(struct fake_daemon *fake, const struct fake_config *config)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->config = *config;
    (void)pthread_mutex_unlock(&fake->mutex);
}

void fake_daemon_pause(struct fake_daemon *fake, bool is_paused)
{
    (void)pthread_mutex_lock(&fake->mutex);
    fake->is_paused = is_paused;
    (void)pthread_mutex_unlock(&fake->mutex);
    wake(fake);
}

void fake_daemon_hang_up(struct fake_daemon *fake)
{
    (void)pthread_mutex_lock(&fake->mutex);
    if (fake->fd >= 0) {
        (void)shutdown(fake->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&fake->mutex);
}
