/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: one thread owns everything hung on it. A turn is, in this order: sleep
 * if nothing is due and every hook agrees, due timers, I/O callbacks, hooks' progress,
 * posted completions, end-of-turn destruction. No callback runs inside the call that
 * caused it, and nothing is freed while its callback may be on the stack. Whatever hangs
 * on the loop may be removed from inside any callback.
 *
 * The caller embeds kvf_io, kvf_timer and kvf_post, zeroed, in its objects (the loop
 * borrows them until removed, stopped or delivered), so the steady state allocates
 * nothing.
 */
#ifndef KVF_BASE_LOOP_H
#define KVF_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/clock.h"
#include "base/list.h"

struct kvf_loop;

/* The one shape of completion in the tree. */
typedef void (*kvf_done_fn)(void *owner, enum kvf_status status);

struct kvf_loop_config {
    const struct kvf_clock *clock; /* borrowed for the loop's life */
    uint64_t spin_ns; /* spin this long after the last progress before sleeping */
};

enum kvf_status KVF_MUST_CHECK kvf_loop_create(const struct kvf_loop_config *config,
                                               struct kvf_loop **out_loop);
/* Runs what was posted for destruction; everything else must have been removed. */
void kvf_loop_destroy(struct kvf_loop *loop);

/* Time at the start of this turn: one reading per turn, so that a turn sees one instant.
 */
uint64_t kvf_loop_now_ns(const struct kvf_loop *loop);
/* A fresh reading, for timing points. */
uint64_t kvf_loop_clock_ns(const struct kvf_loop *loop);
uint64_t kvf_loop_wall_ns(const struct kvf_loop *loop);

/* Runs turns until kvf_loop_stop(). */
void kvf_loop_run(struct kvf_loop *loop);
/* One turn, sleeping at most max_sleep_ns; the simulator and tests drive it. */
void kvf_loop_turn(struct kvf_loop *loop, uint64_t max_sleep_ns);
void kvf_loop_stop(struct kvf_loop *loop);

/* ---- descriptors */
enum kvf_io_events { KVF_IO_READ = 1, KVF_IO_WRITE = 2, KVF_IO_HANGUP = 4 };
typedef void (*kvf_io_fn)(void *owner, uint32_t events);
struct kvf_io {
    int fd; /* borrowed */
    uint32_t events;
    kvf_io_fn fn;
    void *owner;
    struct kvf_node node;
    struct kvf_loop *loop; /* NULL when not added */
};
/* HANGUP is always reported, also with events = 0. Level-triggered. */
enum kvf_status KVF_MUST_CHECK kvf_loop_io_add(struct kvf_loop *loop, struct kvf_io *io,
                                               int fd, uint32_t events, kvf_io_fn fn,
                                               void *owner);
void kvf_loop_io_set(struct kvf_io *io, uint32_t events);
/* After it returns fn is not called again, also not for events of this turn. No-op when
 * not added. */
void kvf_loop_io_remove(struct kvf_io *io);

/* ---- timers (heap) */
typedef void (*kvf_timer_fn)(void *owner);
struct kvf_timer {
    uint64_t deadline_ns;
    kvf_timer_fn fn;
    void *owner;
    uint32_t index; /* position in the heap + 1; 0 = not running */
    struct kvf_loop *loop;
};
/* Starts or moves. deadline_ns is absolute, on the loop's clock. Timers due in a turn run
 * in the order of their deadlines, equal ones in the order of starting; one started by
 * them runs in the next turn at the earliest. BUSY never happens: the heap grows;
 * NO_MEMORY may. */
enum kvf_status KVF_MUST_CHECK kvf_loop_timer_start(struct kvf_loop *loop,
                                                    struct kvf_timer *timer,
                                                    uint64_t deadline_ns, kvf_timer_fn fn,
                                                    void *owner);
void kvf_loop_timer_stop(struct kvf_timer *timer); /* no-op when not running */
static inline bool kvf_timer_is_running(const struct kvf_timer *timer)
{
    return timer->index != 0;
}

/* ---- completions */
struct kvf_post {
    struct kvf_node node;
    kvf_done_fn fn;
    void *owner;
    enum kvf_status status;
    struct kvf_loop *loop; /* NULL when not posted */
};
/* Delivers fn(owner, status) in the next completion phase, in posting order. A post
 * already waiting must not be posted again. */
void kvf_loop_post(struct kvf_loop *loop, struct kvf_post *post, kvf_done_fn fn,
                   void *owner, enum kvf_status status);
void kvf_loop_post_remove(struct kvf_post *post); /* no-op when not waiting */

/* ---- destruction */
typedef void (*kvf_destroy_fn)(void *object);
struct kvf_zombie {
    struct kvf_node node;
    kvf_destroy_fn fn;
    void *object;
};
/* fn(object) at the end of the turn. */
void kvf_loop_destroy_later(struct kvf_loop *loop, struct kvf_zombie *zombie,
                            kvf_destroy_fn fn, void *object);

/* ---- hooks: things that are polled, such as a UCX worker or a ring from a worker thread
 */
struct kvf_hook {
    /* Does bounded work; returns true if it found any (the loop then keeps spinning). */
    bool (*progress)(void *owner);
    /* Last look before sleeping; false: do not sleep this time. May be NULL. */
    bool (*prepare_sleep)(void *owner);
    void *owner;
    struct kvf_node node;
    struct kvf_loop *loop;
};
void kvf_loop_hook_add(struct kvf_loop *loop, struct kvf_hook *hook);
void kvf_loop_hook_remove(struct kvf_hook *hook);

/* Makes a sleeping loop run a turn. The only call that other threads may make. */
void kvf_loop_wake(struct kvf_loop *loop);

/* ---- signals: the loop's thread blocks them and reads a signalfd. Once per loop, before
 * other threads start; DUPLICATE the second time. */
typedef void (*kvf_signal_fn)(void *owner, int signo);
enum kvf_status KVF_MUST_CHECK kvf_loop_signals_open(struct kvf_loop *loop,
                                                     const int *signos, size_t n,
                                                     kvf_signal_fn fn, void *owner);

/* ---- numbers for metrics */
struct kvf_loop_stats {
    uint64_t n_turns, n_sleeps, last_turn_ns, busy_ns;
    uint64_t turn_buckets[9]; /* turn length <= 10us * 4^i, last = more */
};
void kvf_loop_stats_get(const struct kvf_loop *loop, struct kvf_loop_stats *out);

#endif
