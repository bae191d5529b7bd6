/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The turn and everything that hangs on it: epoll for descriptors, a timer heap
 * (base/timer.c), the queues of completions and of objects to destroy, polled hooks,
 * signals. It is not a scheduler: nothing here has a priority, and every phase works on
 * what it found when it began, so no callback can keep a turn from ending. The loop owns
 * its descriptors and borrows everything else. One thread; only kvf_loop_wake() may come
 * from another.
 */
#include "base/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/timer.h"

#define EVENTS_MAX                                                                       \
    64 /* per turn; epoll hands out the rest in later turns, in a circle                 \
        */
#define SIGNALS_MAX     8 /* per turn */
#define FIRST_BUCKET_NS (10 * KVF_NS_PER_US)
#define SLEEP_FOREVER   UINT64_MAX

struct kvf_loop {
    const struct kvf_clock *clock; /* borrowed */
    uint64_t spin_ns;
    uint64_t now_ns;      /* start of this turn */
    uint64_t progress_ns; /* start of the last turn in which a hook found work */
    bool is_spinning;     /* progress_ns is valid and recent */
    bool is_stopped;
    bool is_in_turn;
    bool has_pwait2; /* the kernel sleeps with nanoseconds */
    int epoll_fd;    /* owns */
    int wake_fd;     /* owns; eventfd */
    int signal_fd;   /* owns; -1 until signals are opened */
    struct kvf_io signal_io;
    kvf_signal_fn signal_fn;
    void *signal_owner; /* borrowed for the loop's life */
    struct kvf_timers timers;
    struct kvf_list ios, posts, zombies, hooks; /* borrow their members */
    struct kvf_node post_mark;                  /* ends the running completion phase */
    struct kvf_node *next_hook; /* where the running walk over hooks goes on */
    struct epoll_event events[EVENTS_MAX];
    int n_events, next_event; /* what the last wait returned, what is still to run */
    struct kvf_loop_stats stats;
};

/* ---- life */

static enum kvf_status open_descriptors(struct kvf_loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->wake_fd < 0) {
        return KVF_SYSTEM;
    }
    /* Edge-triggered: every write to an eventfd is a new edge, so that a wake-up costs no
     * read. The counter would be full after 2^64 wakes. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        return KVF_SYSTEM;
    }
    return KVF_OK;
}

enum kvf_status kvf_loop_create(const struct kvf_loop_config *config,
                                struct kvf_loop **out_loop)
{
    struct kvf_loop *loop = kvf_alloc(sizeof(*loop));
    if (loop == NULL) {
        return KVF_NO_MEMORY;
    }
    loop->clock = config->clock;
    loop->spin_ns = config->spin_ns;
    loop->now_ns = kvf_clock_now_ns(loop->clock);
    loop->has_pwait2 = true;
    loop->epoll_fd = loop->wake_fd = loop->signal_fd = -1;
    kvf_list_init(&loop->ios);
    kvf_list_init(&loop->posts);
    kvf_list_init(&loop->zombies);
    kvf_list_init(&loop->hooks);
    enum kvf_status status = open_descriptors(loop);
    if (status != KVF_OK) {
        kvf_log_error(NULL, "event loop not created: %s", strerrordesc_np(errno));
        kvf_loop_destroy(loop);
        return status;
    }
    *out_loop = loop;
    return KVF_OK;
}

static void run_zombies(struct kvf_loop *loop)
{
    for (;;) {
        struct kvf_node *node = kvf_list_pop(&loop->zombies);
        if (node == NULL) {
            return;
        }
        struct kvf_zombie *zombie = KVF_CONTAINER(node, struct kvf_zombie, node);
        zombie->fn(zombie->object); /* frees the zombie too */
    }
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd); /* nothing was written through it that an error could lose */
    }
}

void kvf_loop_destroy(struct kvf_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    run_zombies(loop);
    /* The signals stay blocked: one that comes now must not kill the orderly end. */
    kvf_loop_io_remove(&loop->signal_io);
    assert(loop->ios.n == 0 && loop->posts.n == 0 && loop->hooks.n == 0);
    assert(loop->timers.n == 0);
    kvf_timers_fini(&loop->timers);
    close_fd(loop->signal_fd);
    close_fd(loop->wake_fd);
    close_fd(loop->epoll_fd);
    kvf_free(loop);
}

/* ---- time */

uint64_t kvf_loop_now_ns(const struct kvf_loop *loop)
{
    return loop->now_ns;
}

uint64_t kvf_loop_clock_ns(const struct kvf_loop *loop)
{
    return kvf_clock_now_ns(loop->clock);
}

uint64_t kvf_loop_wall_ns(const struct kvf_loop *loop)
{
    return kvf_clock_wall_ns(loop->clock);
}

/* ---- the turn */

/* How long nothing that the loop itself knows is due. */
static uint64_t idle_ns(const struct kvf_loop *loop, uint64_t max_sleep_ns)
{
    if (max_sleep_ns == 0 || loop->is_stopped || loop->posts.n > 0 ||
        loop->zombies.n > 0) {
        return 0;
    }
    uint64_t next_ns = kvf_timers_next_ns(&loop->timers);
    if (next_ns == KVF_TIMER_NEVER) {
        return max_sleep_ns;
    }
    uint64_t now_ns = kvf_clock_now_ns(loop->clock);
    if (next_ns <= now_ns) {
        return 0;
    }
    return next_ns - now_ns < max_sleep_ns ? next_ns - now_ns : max_sleep_ns;
}

static bool keeps_spinning(struct kvf_loop *loop)
{
    if (loop->is_spinning) {
        uint64_t now_ns = kvf_clock_now_ns(loop->clock);
        loop->is_spinning = now_ns - loop->progress_ns < loop->spin_ns;
    }
    return loop->is_spinning;
}

/* Walks the hooks so that any of them may be removed on the way. */
static struct kvf_hook *walk_hooks(struct kvf_loop *loop, struct kvf_node *node)
{
    if (node == NULL) {
        loop->next_hook = NULL;
        return NULL;
    }
    loop->next_hook = kvf_list_next(&loop->hooks, node);
    return KVF_CONTAINER(node, struct kvf_hook, node);
}

static bool hooks_agree_to_sleep(struct kvf_loop *loop)
{
    struct kvf_hook *hook = walk_hooks(loop, kvf_list_first(&loop->hooks));
    for (; hook != NULL; hook = walk_hooks(loop, loop->next_hook)) {
        if (hook->prepare_sleep != NULL && !hook->prepare_sleep(hook->owner)) {
            loop->next_hook = NULL;
            return false;
        }
    }
    return true;
}

static uint64_t sleep_ns(struct kvf_loop *loop, uint64_t max_sleep_ns)
{
    if (idle_ns(loop, max_sleep_ns) == 0 || keeps_spinning(loop) ||
        !hooks_agree_to_sleep(loop)) {
        return 0;
    }
    return idle_ns(loop, max_sleep_ns); /* again: a hook may have posted something */
}

static int wait_ms(uint64_t limit_ns)
{
    if (limit_ns == SLEEP_FOREVER) {
        return -1;
    }
    uint64_t ms = limit_ns / KVF_NS_PER_MS + (limit_ns % KVF_NS_PER_MS != 0);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Kernels before 5.11 do not know epoll_pwait2, and container sandboxes older than it
 * answer EPERM; there a sleep is rounded up to 1 ms. */
static int wait_epoll(struct kvf_loop *loop, uint64_t limit_ns)
{
    if (loop->has_pwait2) {
        struct timespec limit = {.tv_sec = (time_t)(limit_ns / KVF_NS_PER_S),
                                 .tv_nsec = (long)(limit_ns % KVF_NS_PER_S)};
        int n = epoll_pwait2(loop->epoll_fd, loop->events, EVENTS_MAX,
                             limit_ns == SLEEP_FOREVER ? NULL : &limit, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return n;
        }
        loop->has_pwait2 = false;
    }
    return epoll_wait(loop->epoll_fd, loop->events, EVENTS_MAX, wait_ms(limit_ns));
}

static void collect_events(struct kvf_loop *loop, uint64_t max_sleep_ns)
{
    uint64_t limit_ns = sleep_ns(loop, max_sleep_ns);
    loop->stats.n_sleeps += limit_ns > 0;
    int n = wait_epoll(loop, limit_ns);
    assert(n >= 0 || errno == EINTR);
    loop->n_events = n > 0 ? n : 0;
}

static uint32_t events_of(uint32_t epoll_events)
{
    uint32_t events = 0;
    if ((epoll_events & EPOLLIN) != 0) {
        events |= KVF_IO_READ;
    }
    if ((epoll_events & EPOLLOUT) != 0) {
        events |= KVF_IO_WRITE;
    }
    if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0) {
        events |= KVF_IO_HANGUP;
    }
    return events;
}

static void run_ios(struct kvf_loop *loop)
{
    loop->next_event = 0;
    while (loop->next_event < loop->n_events) {
        const struct epoll_event *event = &loop->events[loop->next_event++];
        struct kvf_io *io = event->data.ptr;
        if (io == NULL) {
            continue; /* the wake descriptor, or removed since */
        }
        /* A callback of this turn may have narrowed what is wanted. */
        uint32_t events = events_of(event->events) & (io->events | KVF_IO_HANGUP);
        if (events != 0) {
            io->fn(io->owner, events);
        }
    }
    loop->n_events = loop->next_event = 0;
}

static void run_hooks(struct kvf_loop *loop)
{
    struct kvf_hook *hook = walk_hooks(loop, kvf_list_first(&loop->hooks));
    for (; hook != NULL; hook = walk_hooks(loop, loop->next_hook)) {
        if (hook->progress(hook->owner)) {
            loop->progress_ns = loop->now_ns;
            loop->is_spinning = true;
        }
    }
}

/* Delivers up to a mark put behind what waits now: completions posted meanwhile belong
 * to the next turn. */
static void run_posts(struct kvf_loop *loop)
{
    if (loop->posts.n == 0) {
        return;
    }
    kvf_list_add_tail(&loop->posts, &loop->post_mark);
    for (;;) {
        struct kvf_node *node = kvf_list_pop(&loop->posts);
        assert(node != NULL); /* the mark comes first */
        if (node == &loop->post_mark) {
            return;
        }
        struct kvf_post *post = KVF_CONTAINER(node, struct kvf_post, node);
        post->loop = NULL;
        post->fn(post->owner, post->status);
    }
}

static void count_turn(struct kvf_loop *loop)
{
    uint64_t turn_ns = kvf_clock_now_ns(loop->clock) - loop->now_ns;
    uint64_t limit_ns = FIRST_BUCKET_NS;
    size_t last = sizeof(loop->stats.turn_buckets) / sizeof(uint64_t) - 1;
    size_t bucket = 0;
    while (bucket < last && turn_ns > limit_ns) {
        limit_ns *= 4;
        bucket++;
    }
    loop->stats.turn_buckets[bucket]++;
    loop->stats.last_turn_ns = turn_ns;
    loop->stats.busy_ns += turn_ns;
    loop->stats.n_turns++;
}

void kvf_loop_turn(struct kvf_loop *loop, uint64_t max_sleep_ns)
{
    assert(!loop->is_in_turn);
    loop->is_in_turn = true;
    collect_events(loop, max_sleep_ns);
    loop->now_ns = kvf_clock_now_ns(loop->clock);
    kvf_timers_run(&loop->timers, loop->now_ns);
    run_ios(loop);
    run_hooks(loop);
    run_posts(loop);
    run_zombies(loop);
    count_turn(loop);
    loop->is_in_turn = false;
}

void kvf_loop_run(struct kvf_loop *loop)
{
    while (!loop->is_stopped) {
        kvf_loop_turn(loop, SLEEP_FOREVER);
    }
    loop->is_stopped = false;
}

void kvf_loop_stop(struct kvf_loop *loop)
{
    loop->is_stopped = true;
}

void kvf_loop_wake(struct kvf_loop *loop)
{
    uint64_t one = 1;
    ssize_t n = write(loop->wake_fd, &one, sizeof(one));
    assert(n == sizeof(one)); /* an eventfd takes 2^64 - 2 of them */
    (void)n;                  /* unused without assertions */
}

void kvf_loop_stats_get(const struct kvf_loop *loop, struct kvf_loop_stats *out)
{
    *out = loop->stats;
}

/* ---- descriptors */

static uint32_t epoll_events_of(uint32_t events)
{
    return ((events & KVF_IO_READ) != 0 ? (uint32_t)EPOLLIN : 0) |
           ((events & KVF_IO_WRITE) != 0 ? (uint32_t)EPOLLOUT : 0);
}

enum kvf_status kvf_loop_io_add(struct kvf_loop *loop, struct kvf_io *io, int fd,
                                uint32_t events, kvf_io_fn fn, void *owner)
{
    assert(io->loop == NULL);
    struct epoll_event event = {.events = epoll_events_of(events), .data.ptr = io};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        int error = errno;
        kvf_log_error(NULL, "descriptor %d not added to the loop: %s", fd,
                      strerrordesc_np(error));
        return error == ENOMEM ? KVF_NO_MEMORY : KVF_SYSTEM;
    }
    io->fd = fd;
    io->events = events;
    io->fn = fn;
    io->owner = owner;
    io->loop = loop;
    kvf_list_add_tail(&loop->ios, &io->node);
    return KVF_OK;
}

void kvf_loop_io_set(struct kvf_io *io, uint32_t events)
{
    if (io->loop == NULL || io->events == events) {
        return;
    }
    struct epoll_event event = {.events = epoll_events_of(events), .data.ptr = io};
    int rc = epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event);
    assert(rc == 0); /* fails only for a descriptor that was closed while added */
    (void)rc;        /* unused without assertions */
    io->events = events;
}

void kvf_loop_io_remove(struct kvf_io *io)
{
    struct kvf_loop *loop = io->loop;
    if (loop == NULL) {
        return;
    }
    int rc = epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    assert(rc == 0); /* as above: remove first, close then */
    (void)rc;        /* unused without assertions */
    for (int i = loop->next_event; i < loop->n_events; i++) {
        if (loop->events[i].data.ptr == io) {
            loop->events[i].data.ptr = NULL;
        }
    }
    kvf_list_remove(&loop->ios, &io->node);
    io->loop = NULL;
}

/* ---- timers */

enum kvf_status kvf_loop_timer_start(struct kvf_loop *loop, struct kvf_timer *timer,
                                     uint64_t deadline_ns, kvf_timer_fn fn, void *owner)
{
    enum kvf_status status = kvf_timers_add(&loop->timers, timer, deadline_ns);
    if (status != KVF_OK) {
        return status;
    }
    timer->fn = fn;
    timer->owner = owner;
    timer->loop = loop;
    return KVF_OK;
}

void kvf_loop_timer_stop(struct kvf_timer *timer)
{
    if (kvf_timer_is_running(timer)) {
        kvf_timers_remove(&timer->loop->timers, timer);
    }
}

/* ---- completions and destruction */

void kvf_loop_post(struct kvf_loop *loop, struct kvf_post *post, kvf_done_fn fn,
                   void *owner, enum kvf_status status)
{
    assert(post->loop == NULL);
    post->fn = fn;
    post->owner = owner;
    post->status = status;
    post->loop = loop;
    kvf_list_add_tail(&loop->posts, &post->node);
}

void kvf_loop_post_remove(struct kvf_post *post)
{
    if (post->loop != NULL) {
        kvf_list_remove(&post->loop->posts, &post->node);
        post->loop = NULL;
    }
}

void kvf_loop_destroy_later(struct kvf_loop *loop, struct kvf_zombie *zombie,
                            kvf_destroy_fn fn, void *object)
{
    zombie->fn = fn;
    zombie->object = object;
    kvf_list_add_tail(&loop->zombies, &zombie->node);
}

/* ---- hooks */

void kvf_loop_hook_add(struct kvf_loop *loop, struct kvf_hook *hook)
{
    assert(hook->loop == NULL);
    hook->loop = loop;
    kvf_list_add_tail(&loop->hooks, &hook->node);
}

void kvf_loop_hook_remove(struct kvf_hook *hook)
{
    struct kvf_loop *loop = hook->loop;
    if (loop == NULL) {
        return;
    }
    if (loop->next_hook == &hook->node) {
        loop->next_hook = kvf_list_next(&loop->hooks, &hook->node);
    }
    kvf_list_remove(&loop->hooks, &hook->node);
    hook->loop = NULL;
}

/* ---- signals */

static void signal_readable(void *owner, uint32_t events)
{
    struct kvf_loop *loop = owner;
    (void)events; /* only reading was asked for */
    struct signalfd_siginfo infos[SIGNALS_MAX];
    ssize_t n = read(loop->signal_fd, infos, sizeof(infos));
    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof(infos[0]); i++) {
        loop->signal_fn(loop->signal_owner, (int)infos[i].ssi_signo);
    }
}

enum kvf_status kvf_loop_signals_open(struct kvf_loop *loop, const int *signos, size_t n,
                                      kvf_signal_fn fn, void *owner)
{
    if (loop->signal_fd >= 0) {
        return KVF_DUPLICATE;
    }
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < n; i++) {
        if (sigaddset(&set, signos[i]) != 0) {
            return KVF_INVALID_ARGUMENT;
        }
    }
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        return KVF_SYSTEM;
    }
    enum kvf_status status =
        kvf_loop_io_add(loop, &loop->signal_io, fd, KVF_IO_READ, signal_readable, loop);
    if (status != KVF_OK) {
        close_fd(fd);
        return status;
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* fails only for a bad `how` */
    loop->signal_fd = fd;
    loop->signal_fn = fn;
    loop->signal_owner = owner;
    return KVF_OK;
}
