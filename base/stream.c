/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected byte stream: connecting, open, lost, closed, and which of its owner's four
 * callbacks runs when. Sends are only queued; one posted completion per turn writes them,
 * so that the frames of a turn leave in one system call. The same completion looks
 * whether a paused owner has consumed something, and carries verdicts that are known
 * before the call that caused them has returned. What the peer had sent before it went
 * away is offered before the loss is told. The stream owns its descriptor and its queues;
 * its memory goes at the end of the turn in which it is closed. Loop thread.
 */
#include "base/stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/stream_io.h"

#define STREAM_MAGIC     0x6b766673u
#define TURN_READ_BYTES  262144u
#define TURN_WRITE_BYTES 262144u
#define UNIX_RETRY_NS    (10 * KVF_NS_PER_MS)
#define KEEPALIVE_PROBES 3
#define MS_PER_S         1000u

enum stream_step {
    STREAM_DETACHED, /* accepted, nobody listens yet */
    STREAM_CONNECTING,
    STREAM_OPEN,
    STREAM_LOST,
    STREAM_CLOSED
};

struct kvf_stream {
    uint32_t magic;
    enum stream_step step;
    struct kvf_loop *loop; /* borrowed */
    int fd;                /* owns */
    bool is_unix;
    bool is_paused;   /* in_max_bytes are unread */
    bool wants_write; /* the socket was full */
    struct kvf_stream_config config;
    struct kvf_stream_events events;
    void *owner;            /* borrowed until close */
    struct kvf_sockaddr to; /* connecting only */
    uint64_t deadline_ns;   /* connecting only; UINT64_MAX: none */
    struct kvf_io io;
    struct kvf_timer timer; /* connecting only: its deadline, or the next attempt */
    struct kvf_post post;
    struct kvf_zombie zombie;
    struct kvf_out_queue out;
    struct kvf_in_queue in;
};

static struct kvf_stream *stream_of(void *owner)
{
    struct kvf_stream *stream = owner;
    assert(stream->magic == STREAM_MAGIC);
    return stream;
}

/* ---- life */

struct kvf_stream *kvf_stream_adopt(struct kvf_loop *loop, int fd, bool is_unix)
{
    struct kvf_stream *stream = kvf_alloc(sizeof(*stream));
    if (stream == NULL) {
        return NULL;
    }
    stream->magic = STREAM_MAGIC;
    stream->step = STREAM_DETACHED;
    stream->loop = loop;
    stream->fd = fd;
    stream->is_unix = is_unix;
    return stream;
}

static void destroy_stream(void *object)
{
    struct kvf_stream *stream = stream_of(object);
    kvf_out_queue_fini(&stream->out);
    kvf_in_queue_fini(&stream->in);
    stream->magic = 0;
    kvf_free(stream);
}

static void let_go(struct kvf_stream *stream)
{
    kvf_loop_io_remove(&stream->io);
    kvf_loop_timer_stop(&stream->timer);
    kvf_loop_post_remove(&stream->post);
}

void kvf_stream_close(struct kvf_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    assert(stream->step != STREAM_CLOSED);
    if (stream->step == STREAM_OPEN) {
        /* A last word, such as the error that is the reason for closing, should arrive.
         * What the socket does not take now is lost with the connection. */
        (void)!kvf_out_queue_write(&stream->out, stream->fd, SIZE_MAX);
    }
    let_go(stream);
    (void)close(stream->fd); /* its errors concern bytes that nobody waits for */
    stream->fd = -1;
    stream->step = STREAM_CLOSED;
    kvf_loop_destroy_later(stream->loop, &stream->zombie, destroy_stream, stream);
}

static void report_lost(struct kvf_stream *stream, enum kvf_status status)
{
    let_go(stream);
    stream->step = STREAM_LOST;
    kvf_log_debug(NULL, "stream on descriptor %d lost: %s", stream->fd,
                  kvf_status_text(status));
    stream->events.lost(stream->owner, status);
}

static void set_number(int fd, int level, int option, uint32_t value)
{
    int number = (int)value;
    /* Without the option the stream is slower or notices a loss later, but correct. */
    (void)setsockopt(fd, level, option, &number, sizeof(number));
}

/* The kernel gives up on a silent peer after user_timeout_ms: unacknowledged data by
 * TCP_USER_TIMEOUT, an idle connection by keepalive probes spread over that time. */
static void tune_tcp(int fd, uint32_t user_timeout_ms)
{
    set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (user_timeout_ms == 0) {
        return;
    }
    uint32_t probe_s = user_timeout_ms / (KEEPALIVE_PROBES * MS_PER_S);
    probe_s = probe_s > 0 ? probe_s : 1;
    set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
    set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, probe_s);
    set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_s);
    set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

static void bind_owner(struct kvf_stream *stream, const struct kvf_stream_config *config,
                       const struct kvf_stream_events *events, void *owner)
{
    stream->config = *config;
    stream->events = *events;
    stream->owner = owner;
    kvf_buf_init(&stream->in.bytes, config->in_max_bytes);
    kvf_buf_init(&stream->out.bytes, config->out_max_bytes);
    if (!stream->is_unix) {
        tune_tcp(stream->fd, config->user_timeout_ms);
    }
}

/* ---- moving bytes */

static void update_interest(struct kvf_stream *stream)
{
    kvf_loop_io_set(&stream->io, (stream->is_paused ? 0 : (uint32_t)KVF_IO_READ) |
                                     (stream->wants_write ? (uint32_t)KVF_IO_WRITE : 0));
}

static void read_in(struct kvf_stream *stream)
{
    bool has_input;
    enum kvf_status status = kvf_in_queue_read(&stream->in, stream->fd, stream->is_unix,
                                               TURN_READ_BYTES, &has_input);
    if (has_input) {
        stream->events.readable(stream->owner);
        if (stream->step != STREAM_OPEN) {
            return;
        }
    }
    if (status != KVF_OK && status != KVF_IN_PROGRESS) {
        report_lost(stream, status);
        return;
    }
    stream->is_paused = kvf_buf_length(&stream->in.bytes) >= stream->config.in_max_bytes;
    update_interest(stream);
}

/* The peer takes no more bytes from us, but its last ones may wait in the socket. */
static void lose_after_input(struct kvf_stream *stream, enum kvf_status status)
{
    bool has_input;
    /* How reading ends does not matter: the loss is certain. */
    (void)!kvf_in_queue_read(&stream->in, stream->fd, stream->is_unix, SIZE_MAX,
                             &has_input);
    if (has_input) {
        stream->events.readable(stream->owner);
        if (stream->step != STREAM_OPEN) {
            return;
        }
    }
    report_lost(stream, status);
}

static void write_out(struct kvf_stream *stream)
{
    if (kvf_buf_length(&stream->out.bytes) == 0) {
        return;
    }
    enum kvf_status status =
        kvf_out_queue_write(&stream->out, stream->fd, TURN_WRITE_BYTES);
    if (status != KVF_OK && status != KVF_IN_PROGRESS) {
        lose_after_input(stream, status);
        return;
    }
    stream->wants_write = status == KVF_IN_PROGRESS;
    update_interest(stream);
    if (status == KVF_OK && stream->events.drained != NULL) {
        stream->events.drained(stream->owner);
    }
}

/* The peer hung up while its bytes wait for the owner to make room. A reset has made
 * them worthless; after an orderly end they are still to be read, and until then the
 * level-triggered hang-up must not keep the loop awake. */
static void hang_up_paused(struct kvf_stream *stream)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error != 0) {
        report_lost(stream, kvf_sock_status(error));
        return;
    }
    kvf_loop_io_remove(&stream->io);
}

static void io_ready(void *owner, uint32_t events);

static enum kvf_status watch(struct kvf_stream *stream, uint32_t events)
{
    return kvf_loop_io_add(stream->loop, &stream->io, stream->fd, events, io_ready,
                           stream);
}

static void resume_reading(struct kvf_stream *stream)
{
    if (!stream->is_paused ||
        kvf_buf_length(&stream->in.bytes) >= stream->config.in_max_bytes) {
        return;
    }
    stream->is_paused = false;
    if (stream->io.loop != NULL) {
        update_interest(stream);
        return;
    }
    enum kvf_status status = watch(stream, KVF_IO_READ);
    if (status != KVF_OK) {
        report_lost(stream, status);
    }
}

/* ---- connecting */

static void begin_connect(struct kvf_stream *stream);

static void open_stream(struct kvf_stream *stream)
{
    kvf_loop_timer_stop(&stream->timer);
    kvf_loop_post_remove(&stream->post);
    stream->step = STREAM_OPEN;
    update_interest(stream);
    stream->events.opened(stream->owner);
    if (stream->step == STREAM_OPEN) {
        write_out(stream); /* what was queued while connecting */
    }
}

/* A connect to a free port of the ephemeral range can meet itself: the kernel picks the
 * same port as source, and the two SYNs cross. Nobody serves there. */
static bool is_connected_to_itself(const struct kvf_stream *stream)
{
    struct kvf_sockaddr here = {.length = sizeof(here.storage)};
    struct kvf_sockaddr there = {.length = sizeof(there.storage)};
    if (stream->is_unix ||
        getsockname(stream->fd, (struct sockaddr *)&here.storage, &here.length) != 0 ||
        getpeername(stream->fd, (struct sockaddr *)&there.storage, &there.length) != 0) {
        return false;
    }
    return here.length == there.length &&
           memcmp(&here.storage, &there.storage, here.length) == 0;
}

static void finish_connect(struct kvf_stream *stream)
{
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error == 0 && is_connected_to_itself(stream)) {
        error = ECONNREFUSED;
    }
    if (error != 0) {
        report_lost(stream, kvf_sock_status(error));
        return;
    }
    open_stream(stream);
}

static void connect_timer(void *owner)
{
    struct kvf_stream *stream = stream_of(owner);
    if (kvf_loop_now_ns(stream->loop) >= stream->deadline_ns) {
        report_lost(stream, KVF_EXPIRED);
        return;
    }
    begin_connect(stream);
}

static enum kvf_status start_timer(struct kvf_stream *stream, uint64_t at_ns)
{
    at_ns = at_ns < stream->deadline_ns ? at_ns : stream->deadline_ns;
    if (at_ns == UINT64_MAX) {
        return KVF_OK;
    }
    return kvf_loop_timer_start(stream->loop, &stream->timer, at_ns, connect_timer,
                                stream);
}

static void turn_work(void *owner, enum kvf_status status)
{
    struct kvf_stream *stream = stream_of(owner);
    if (status != KVF_OK) {
        report_lost(stream, status);
        return;
    }
    if (stream->step == STREAM_CONNECTING) {
        finish_connect(stream);
        return;
    }
    resume_reading(stream);
    if (stream->step == STREAM_OPEN && !stream->wants_write) {
        write_out(stream);
    }
}

/* Has turn_work run in the next completion phase; a verdict replaces ordinary work. */
static void schedule(struct kvf_stream *stream, enum kvf_status status)
{
    if (stream->post.loop != NULL) {
        if (status == KVF_OK) {
            return;
        }
        kvf_loop_post_remove(&stream->post);
    }
    kvf_loop_post(stream->loop, &stream->post, turn_work, stream, status);
}

/* The descriptor is watched only after connect(): before it, epoll reports a hang-up. */
static void begin_connect(struct kvf_stream *stream)
{
    enum kvf_status status;
    int rc = connect(stream->fd, (const struct sockaddr *)&stream->to.storage,
                     stream->to.length);
    if (rc == 0 || errno == EINPROGRESS || errno == EINTR) {
        status = start_timer(stream, stream->deadline_ns);
        if (status == KVF_OK) {
            status = watch(stream, rc == 0 ? 0 : KVF_IO_WRITE);
        }
        if (status != KVF_OK || rc == 0) {
            schedule(stream, status);
        }
        return;
    }
    if (errno == EAGAIN && stream->is_unix) {
        /* The listener's backlog is full, and the kernel offers nothing to wait for. */
        status = start_timer(stream, kvf_loop_now_ns(stream->loop) + UNIX_RETRY_NS);
    } else {
        status = kvf_sock_status(errno);
    }
    if (status != KVF_OK) {
        schedule(stream, status);
    }
}

enum kvf_status kvf_stream_connect(struct kvf_sock *sock, const struct kvf_sockaddr *to,
                                   const struct kvf_stream_config *config,
                                   const struct kvf_stream_events *events, void *owner,
                                   struct kvf_stream **out)
{
    int family = to->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        kvf_log_error(NULL, "no socket to connect with: %s", strerrordesc_np(errno));
        return KVF_SYSTEM;
    }
    struct kvf_stream *stream = kvf_stream_adopt(sock->loop, fd, family == AF_UNIX);
    if (stream == NULL) {
        (void)close(fd); /* nothing was sent through it */
        return KVF_NO_MEMORY;
    }
    bind_owner(stream, config, events, owner);
    stream->step = STREAM_CONNECTING;
    stream->to = *to;
    stream->deadline_ns = UINT64_MAX;
    if (config->connect_ms > 0) {
        stream->deadline_ns =
            kvf_loop_clock_ns(stream->loop) + config->connect_ms * KVF_NS_PER_MS;
    }
    begin_connect(stream);
    *out = stream;
    return KVF_OK;
}

/* Another owner, the same queues: what was not read yet is offered again. */
static void hand_over(struct kvf_stream *stream, const struct kvf_stream_config *config,
                      const struct kvf_stream_events *events, void *owner)
{
    stream->config = *config;
    stream->events = *events;
    stream->owner = owner;
    stream->in.bytes.max_bytes = config->in_max_bytes;
    stream->out.bytes.max_bytes = config->out_max_bytes;
    if (!stream->is_unix) {
        tune_tcp(stream->fd, config->user_timeout_ms);
    }
    if (stream->step == STREAM_OPEN && kvf_buf_length(&stream->in.bytes) > 0) {
        schedule(stream, KVF_OK);
    }
}

void kvf_stream_attach(struct kvf_stream *stream, const struct kvf_stream_config *config,
                       const struct kvf_stream_events *events, void *owner)
{
    assert(stream->step != STREAM_CONNECTING && stream->step != STREAM_CLOSED);
    if (stream->step != STREAM_DETACHED) {
        hand_over(stream, config, events, owner);
        return;
    }
    bind_owner(stream, config, events, owner);
    stream->step = STREAM_OPEN;
    enum kvf_status status = watch(stream, KVF_IO_READ);
    if (status != KVF_OK) {
        schedule(stream, status);
    }
}

/* ---- events and the owner's calls */

static void io_ready(void *owner, uint32_t events)
{
    struct kvf_stream *stream = stream_of(owner);
    if (stream->step == STREAM_CONNECTING) {
        finish_connect(stream);
        return;
    }
    if (!stream->is_paused && (events & (KVF_IO_READ | KVF_IO_HANGUP)) != 0) {
        read_in(stream);
    } else if ((events & KVF_IO_HANGUP) != 0) {
        hang_up_paused(stream);
    }
    if (stream->step == STREAM_OPEN && (events & KVF_IO_WRITE) != 0) {
        write_out(stream);
    }
}

struct kvf_buf *kvf_stream_in(struct kvf_stream *stream)
{
    if (stream->is_paused && stream->step == STREAM_OPEN) {
        schedule(stream,
                 KVF_OK); /* whoever asks for the bytes is likely to consume some */
    }
    return &stream->in.bytes;
}

int kvf_stream_take_fd(struct kvf_stream *stream)
{
    return kvf_in_queue_take_fd(&stream->in);
}

enum kvf_status kvf_stream_send(struct kvf_stream *stream, const void *bytes,
                                size_t n_bytes, const int *fds, size_t n_fds)
{
    assert(stream->step != STREAM_DETACHED && stream->step != STREAM_CLOSED);
    if (stream->step == STREAM_LOST) {
        return KVF_PEER_LOST;
    }
    if (n_fds > 0 && !stream->is_unix) {
        return KVF_UNSUPPORTED;
    }
    enum kvf_status status =
        kvf_out_queue_append(&stream->out, bytes, n_bytes, fds, n_fds);
    if (status == KVF_OK && stream->step == STREAM_OPEN && !stream->wants_write) {
        schedule(stream, KVF_OK);
    }
    return status;
}

size_t kvf_stream_out_length(const struct kvf_stream *stream)
{
    return kvf_buf_length(&stream->out.bytes);
}

enum kvf_status kvf_stream_credentials(const struct kvf_stream *stream,
                                       struct kvf_credentials *out)
{
    struct ucred credentials;
    socklen_t length = sizeof(credentials);
    if (!stream->is_unix) {
        return KVF_UNSUPPORTED;
    }
    if (getsockopt(stream->fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
        return kvf_sock_status(errno);
    }
    out->pid = credentials.pid;
    out->uid = credentials.uid;
    out->gid = credentials.gid;
    return KVF_OK;
}
