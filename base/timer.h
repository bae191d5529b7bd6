/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap behind kvf_loop_timer_start: which timers run, and which of them are due. It
 * knows no clock and no loop; base/loop.c hands in the instant. Timers are the caller's,
 * the heap borrows them until they ran or were stopped. Private to base. Loop thread.
 */
#ifndef KVF_BASE_TIMER_H
#define KVF_BASE_TIMER_H

#include <stdint.h>

#include <kvferry/status.h>

#include "base/loop.h"

#define KVF_TIMER_NEVER UINT64_MAX

/* The key lies beside the pointer so that sifting does not touch the timers. */
struct kvf_timer_slot {
    uint64_t deadline_ns;
    uint64_t sequence; /* breaks ties: equal deadlines run in the order of starting */
    struct kvf_timer *timer;
};

struct kvf_timers {
    struct kvf_timer_slot *heap; /* owns; [capacity], n of them used */
    struct kvf_timer **due;      /* owns; [capacity]; NULL entry: stopped before it ran */
    uint32_t n, n_due, capacity;
    uint64_t n_started; /* gives the sequence numbers */
};

void kvf_timers_fini(struct kvf_timers *timers); /* a zeroed struct is an empty heap */

/* Starts or moves; fn, owner and loop of the timer are the caller's business. */
enum kvf_status KVF_MUST_CHECK kvf_timers_add(struct kvf_timers *timers,
                                              struct kvf_timer *timer,
                                              uint64_t deadline_ns);
void kvf_timers_remove(struct kvf_timers *timers, struct kvf_timer *timer);

/* The earliest deadline, KVF_TIMER_NEVER without timers. */
uint64_t kvf_timers_next_ns(const struct kvf_timers *timers);

/* Runs what was due at now_ns when called, in deadline order. What the callbacks start
 * waits for the next run, also if it is due already. */
void kvf_timers_run(struct kvf_timers *timers, uint64_t now_ns);

#endif
