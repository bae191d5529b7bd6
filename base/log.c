/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log sink: level, counters, the limit per call site, and the writer thread behind a
 * ring. How a line looks is log_line.c.
 *
 * The caller formats the whole line and pushes it; it never waits and never touches the
 * descriptor while the writer runs. The ring has one producer, so all callers are one
 * thread: the loop's, or start-up and shutdown code when no loop runs. Other threads
 * report through the loop. The writer blocks all signals and asks poll before each
 * write, so that a reader who stopped reading costs lines and never the shutdown.
 */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log_line.h"
#include "base/ring.h"

#define N_LEVELS         5
#define RING_LINES       1024 /* 1 MiB */
#define SITE_LINES_PER_S 10
#define POLL_SLICE_MS    50 /* how soon a stuck writer notices that time is up */
#define DIRECT_LIMIT_NS  (100 * KVF_NS_PER_MS) /* one line without the writer */
#define GIVE_UP_NS       (900 * KVF_NS_PER_MS) /* after close, the queued lines */
#define CLOSE_LIMIT_NS   (1000 * KVF_NS_PER_MS)

struct writer {
    struct kvf_ring *ring; /* owns; of struct kvf_log_line */
    sem_t n_waiting;       /* one per line in the ring, one for the stop */
    sem_t has_ended;       /* posted by the thread as its last act */
    pthread_t thread;
    int fd; /* borrowed */
    enum kvf_log_format format;
    _Atomic uint64_t limit_ns; /* monotonic, set by close; 0: none */
};

/* The one mutable global there is: a failure can be logged from anywhere. */
static struct {
    const struct kvf_clock *clock; /* borrowed */
    enum kvf_log_level level;
    enum kvf_log_format format; /* as asked for */
    char *node;                 /* owns; NULL before the first open */
    struct writer *writer;      /* owns; NULL: lines go to stderr directly */
    uint64_t counts[N_LEVELS];
    uint64_t n_full;           /* lines that found the ring full */
    uint64_t n_full_reported;  /* of these, told of in a line */
    _Atomic uint64_t n_failed; /* lines the descriptor did not take */
    /* NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables) */
} sink = {
    .clock = &kvf_clock_system,
    .level = KVF_LOG_INFO,
    .format = KVF_LOG_AUTO,
};

static const char *const level_names[N_LEVELS] = {"error", "warn", "info", "debug",
                                                  "trace"};

/* Descriptors are real, so this time is too, whatever clock the lines carry. */
static bool is_past(const _Atomic uint64_t *limit_ns)
{
    uint64_t limit = atomic_load_explicit(limit_ns, memory_order_relaxed);
    return limit != 0 && kvf_clock_now_ns(&kvf_clock_system) >= limit;
}

/* The whole line or false. A pipe that polls writable takes PIPE_BUF bytes without
 * blocking, and a line is shorter. */
static bool write_line(int fd, const struct kvf_log_line *line,
                       const _Atomic uint64_t *limit_ns)
{
    size_t n_done = 0;
    while (n_done < line->n_bytes) {
        if (is_past(limit_ns)) {
            return false;
        }
        struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
        if (poll(&pollfd, 1, POLL_SLICE_MS) == 0) {
            continue;
        }
        ssize_t n = write(fd, line->bytes + n_done, line->n_bytes - n_done);
        if (n > 0) {
            n_done += (size_t)n;
        } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
            return false;
        }
    }
    return true;
}

static void write_or_count(int fd, const struct kvf_log_line *line,
                           const _Atomic uint64_t *limit_ns)
{
    if (!write_line(fd, line, limit_ns)) {
        atomic_fetch_add_explicit(&sink.n_failed, 1, memory_order_relaxed);
    }
}

static void *writer_main(void *argument)
{
    struct writer *writer = argument;
    for (;;) {
        while (sem_wait(&writer->n_waiting) != 0) {
            /* EINTR; nothing else can happen to a valid semaphore */
        }
        struct kvf_log_line line;
        if (!kvf_ring_pop(writer->ring, &line)) {
            break; /* every line is counted, so this count was the stop */
        }
        write_or_count(writer->fd, &line, &writer->limit_ns);
    }
    (void)sem_post(&writer->has_ended); /* from 0: cannot overflow */
    return NULL;
}

static void writer_destroy(struct writer *writer)
{
    if (writer == NULL) {
        return;
    }
    (void)sem_destroy(&writer->n_waiting); /* nobody waits on them any more */
    (void)sem_destroy(&writer->has_ended);
    kvf_ring_destroy(writer->ring);
    kvf_free(writer);
}

/* Signals belong to the loop's signalfd: the thread is born with all of them blocked. */
static enum kvf_status start_thread(struct writer *writer)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&writer->thread, NULL, writer_main, writer);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        return KVF_SYSTEM;
    }
    (void)pthread_setname_np(writer->thread, "kvf-log"); /* only a name */
    return KVF_OK;
}

static enum kvf_log_format resolve_format(enum kvf_log_format format, int fd)
{
    if (format != KVF_LOG_AUTO) {
        return format;
    }
    return isatty(fd) ? KVF_LOG_TEXT : KVF_LOG_JSON;
}

static enum kvf_status writer_create(enum kvf_log_format format, int fd,
                                     struct writer **out_writer)
{
    struct writer *writer = kvf_alloc(sizeof(*writer));
    if (writer == NULL) {
        return KVF_NO_MEMORY;
    }
    (void)sem_init(&writer->n_waiting, 0, 0); /* fails only for other arguments */
    (void)sem_init(&writer->has_ended, 0, 0);
    writer->fd = fd;
    writer->format = resolve_format(format, fd);
    enum kvf_status status =
        kvf_ring_create(sizeof(struct kvf_log_line), RING_LINES, &writer->ring);
    if (status != KVF_OK) {
        goto fail;
    }
    status = start_thread(writer);
    if (status != KVF_OK) {
        goto fail;
    }
    *out_writer = writer;
    return KVF_OK;

fail:
    writer_destroy(writer);
    return status;
}

void kvf_log_set_clock(const struct kvf_clock *clock)
{
    sink.clock = clock;
}

enum kvf_status kvf_log_open(enum kvf_log_format format, enum kvf_log_level level, int fd,
                             const char *node)
{
    assert(sink.writer == NULL);
    char *own_node = kvf_strdup(node);
    if (own_node == NULL) {
        return KVF_NO_MEMORY;
    }
    enum kvf_status status = writer_create(format, fd, &sink.writer);
    if (status != KVF_OK) {
        kvf_free(own_node);
        return status;
    }
    kvf_free(sink.node);
    sink.node = own_node;
    sink.format = format;
    sink.level = level;
    return KVF_OK;
}

/* False when the thread did not end in time. */
static bool wait_ended(struct writer *writer, uint64_t limit_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / KVF_NS_PER_S),
                             .tv_nsec = (long)(limit_ns % KVF_NS_PER_S)};
    int result;
    do {
        result = sem_clockwait(&writer->has_ended, CLOCK_MONOTONIC, &limit);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

void kvf_log_close(void)
{
    struct writer *writer = sink.writer;
    if (writer == NULL) {
        return;
    }
    sink.writer = NULL;
    uint64_t now_ns = kvf_clock_now_ns(&kvf_clock_system);
    atomic_store_explicit(&writer->limit_ns, now_ns + GIVE_UP_NS, memory_order_relaxed);
    (void)sem_post(&writer->n_waiting); /* cannot overflow: the ring bounds the count */
    if (!wait_ended(writer, now_ns + CLOSE_LIMIT_NS)) {
        /* Stuck inside write (a dead network disk): the thread keeps its memory. */
        (void)pthread_detach(writer->thread);
        return;
    }
    (void)pthread_join(writer->thread, NULL); /* it only has to return */
    writer_destroy(writer);
}

void kvf_log_set_level(enum kvf_log_level level)
{
    sink.level = level;
}

enum kvf_log_level kvf_log_get_level(void)
{
    return sink.level;
}

bool kvf_log_level_parse(const char *text, enum kvf_log_level *out_level)
{
    for (int i = 0; i < N_LEVELS; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out_level = (enum kvf_log_level)i;
            return true;
        }
    }
    return false;
}

const char *kvf_log_level_name(enum kvf_log_level level)
{
    return level_names[level];
}

uint64_t kvf_log_count(enum kvf_log_level level)
{
    return sink.counts[level];
}

uint64_t kvf_log_dropped(void)
{
    return sink.n_full + atomic_load_explicit(&sink.n_failed, memory_order_relaxed);
}

/* False: the ring is full. */
static bool push(const struct kvf_log_event *event)
{
    struct kvf_log_line line = {0};
    kvf_log_line_format(sink.writer->format, event, &line);
    if (!kvf_ring_push(sink.writer->ring, &line)) {
        return false;
    }
    (void)sem_post(&sink.writer->n_waiting); /* cannot overflow, as above */
    return true;
}

static void write_direct(const struct kvf_log_event *event)
{
    struct kvf_log_line line = {0};
    kvf_log_line_format(resolve_format(sink.format, STDERR_FILENO), event, &line);
    _Atomic uint64_t limit_ns = kvf_clock_now_ns(&kvf_clock_system) + DIRECT_LIMIT_NS;
    write_or_count(STDERR_FILENO, &line, &limit_ns);
}

/* Waits until half of the ring is free: told earlier, each slot that comes free would go
 * to a line about the gap and make the gap longer. */
static void report_gap(uint64_t wall_ns)
{
    if (kvf_ring_length(sink.writer->ring) > RING_LINES / 2) {
        return;
    }
    char message[64];
    (void)snprintf(message, sizeof(message), "log ring full, %llu lines lost",
                   (unsigned long long)(sink.n_full - sink.n_full_reported));
    struct kvf_log_event event = {.wall_ns = wall_ns,
                                  .level = KVF_LOG_WARN,
                                  .message = message,
                                  .node = sink.node,
                                  .ctx = {.comp = "log"}};
    if (push(&event)) {
        sink.n_full_reported = sink.n_full;
    }
}

/* False: lost to a full ring, and counted. */
static bool submit(const struct kvf_log_event *event)
{
    if (sink.writer == NULL) {
        write_direct(event);
        return true;
    }
    if (sink.n_full != sink.n_full_reported) {
        report_gap(event->wall_ns);
    }
    if (!push(event)) {
        sink.n_full++;
        return false;
    }
    return true;
}

/* A window starts with the first line after the last one ended. */
static bool admit(struct kvf_log_site *site, uint64_t now_ns)
{
    if (now_ns - site->window_ns >= KVF_NS_PER_S) {
        site->window_ns = now_ns;
        site->n_in_window = 0;
    }
    if (site->n_in_window >= SITE_LINES_PER_S) {
        site->n_suppressed++;
        return false;
    }
    site->n_in_window++;
    return true;
}

void kvf_log_write(enum kvf_log_level level, struct kvf_log_site *site,
                   const struct kvf_log_ctx *ctx, const char *format, ...)
{
    int saved_errno = errno;
    sink.counts[level]++;
    if (site != NULL && !admit(site, kvf_clock_now_ns(sink.clock))) {
        return;
    }
    char message[KVF_LOG_LINE_MAX];
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(message, sizeof(message), format, arguments) < 0) {
        message[0] = '\0';
    }
    va_end(arguments);

    struct kvf_log_event event = {.wall_ns = kvf_clock_wall_ns(sink.clock),
                                  .level = level,
                                  .message = message,
                                  .node = sink.node,
                                  .n_suppressed = site != NULL ? site->n_suppressed : 0};
    if (ctx != NULL) {
        event.ctx = *ctx;
    }
    if (submit(&event) && site != NULL) {
        site->n_suppressed = 0;
    }
    errno = saved_errno;
}

const char *kvf_log_escape(const char *text, size_t n, char *out, size_t out_bytes)
{
    assert(out_bytes > 0);
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_plain = text[i] >= ' ' && text[i] <= '~';
        size_t n_form = is_plain ? 1 : 4;
        if (n_form > out_bytes - 1 - n_out) {
            break;
        }
        if (is_plain) {
            out[n_out] = text[i];
        } else {
            (void)snprintf(out + n_out, n_form + 1, "\\x%02x", (unsigned char)text[i]);
        }
        n_out += n_form;
    }
    out[n_out] = '\0';
    return out;
}
