/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap of timers. A run first moves every due timer to an array, in order, and
 * then calls them from there: a callback may start or stop any timer, including one that
 * is due in the same run, and a timer that restarts itself for "now" cannot hold the run
 * for ever. `index` of a timer tells where it is: position in the heap + 1, or position
 * in the array + 1 with DUE set. Loop thread.
 */
#include "base/timer.h"

#include <assert.h>
#include <stddef.h>

#include "base/alloc.h"

#define DUE            0x80000000u
#define FIRST_CAPACITY 64u
#define MAX_CAPACITY   (1u << 30)

void kvf_timers_fini(struct kvf_timers *timers)
{
    kvf_free(timers->heap);
    kvf_free(timers->due);
    *timers = (struct kvf_timers){0};
}

static bool is_before(const struct kvf_timer_slot *a, const struct kvf_timer_slot *b)
{
    if (a->deadline_ns != b->deadline_ns) {
        return a->deadline_ns < b->deadline_ns;
    }
    return a->sequence < b->sequence;
}

static void place(struct kvf_timers *timers, uint32_t at, struct kvf_timer_slot slot)
{
    timers->heap[at] = slot;
    slot.timer->index = at + 1;
}

static void sift_up(struct kvf_timers *timers, uint32_t at, struct kvf_timer_slot slot)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / 2;
        if (!is_before(&slot, &timers->heap[parent])) {
            break;
        }
        place(timers, at, timers->heap[parent]);
        at = parent;
    }
    place(timers, at, slot);
}

static void sift_down(struct kvf_timers *timers, uint32_t at, struct kvf_timer_slot slot)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= timers->n) {
            break;
        }
        if (child + 1 < timers->n &&
            is_before(&timers->heap[child + 1], &timers->heap[child])) {
            child++;
        }
        if (!is_before(&timers->heap[child], &slot)) {
            break;
        }
        place(timers, at, timers->heap[child]);
        at = child;
    }
    place(timers, at, slot);
}

/* Puts slot where position `at` has become free, in whichever direction it belongs. */
static void sift(struct kvf_timers *timers, uint32_t at, struct kvf_timer_slot slot)
{
    if (at > 0 && is_before(&slot, &timers->heap[(at - 1) / 2])) {
        sift_up(timers, at, slot);
    } else {
        sift_down(timers, at, slot);
    }
}

static void heap_remove(struct kvf_timers *timers, uint32_t at)
{
    timers->n--;
    if (at != timers->n) {
        sift(timers, at, timers->heap[timers->n]);
    }
}

static enum kvf_status grow(struct kvf_timers *timers)
{
    if (timers->capacity >= MAX_CAPACITY) {
        return KVF_NO_MEMORY;
    }
    uint32_t capacity = timers->capacity > 0 ? 2 * timers->capacity : FIRST_CAPACITY;
    struct kvf_timer_slot *heap =
        kvf_realloc(timers->heap, capacity * sizeof(struct kvf_timer_slot));
    if (heap == NULL) {
        return KVF_NO_MEMORY;
    }
    timers->heap = heap;
    struct kvf_timer **due =
        kvf_realloc(timers->due, capacity * sizeof(struct kvf_timer *));
    if (due == NULL) {
        return KVF_NO_MEMORY; /* the larger heap stays, the capacity does not change */
    }
    timers->due = due;
    timers->capacity = capacity;
    return KVF_OK;
}

enum kvf_status kvf_timers_add(struct kvf_timers *timers, struct kvf_timer *timer,
                               uint64_t deadline_ns)
{
    bool is_in_heap = timer->index != 0 && (timer->index & DUE) == 0;
    if (!is_in_heap && timers->n == timers->capacity) {
        enum kvf_status status = grow(timers);
        if (status != KVF_OK) {
            return status;
        }
    }
    struct kvf_timer_slot slot = {
        .deadline_ns = deadline_ns, .sequence = timers->n_started++, .timer = timer};
    timer->deadline_ns = deadline_ns;
    if (is_in_heap) {
        sift(timers, timer->index - 1, slot);
        return KVF_OK;
    }
    kvf_timers_remove(timers, timer);
    timers->n++;
    sift_up(timers, timers->n - 1, slot);
    return KVF_OK;
}

void kvf_timers_remove(struct kvf_timers *timers, struct kvf_timer *timer)
{
    if (timer->index == 0) {
        return;
    }
    if ((timer->index & DUE) != 0) {
        timers->due[(timer->index & ~DUE) - 1] = NULL;
    } else {
        assert(timers->heap[timer->index - 1].timer == timer);
        heap_remove(timers, timer->index - 1);
    }
    timer->index = 0;
}

uint64_t kvf_timers_next_ns(const struct kvf_timers *timers)
{
    return timers->n > 0 ? timers->heap[0].deadline_ns : KVF_TIMER_NEVER;
}

void kvf_timers_run(struct kvf_timers *timers, uint64_t now_ns)
{
    while (timers->n > 0 && timers->heap[0].deadline_ns <= now_ns) {
        struct kvf_timer *timer = timers->heap[0].timer;
        heap_remove(timers, 0);
        timers->due[timers->n_due++] = timer;
        timer->index = timers->n_due | DUE;
    }
    for (uint32_t i = 0; i < timers->n_due; i++) {
        struct kvf_timer *timer = timers->due[i]; /* the array may move in a callback */
        if (timer != NULL) {
            timer->index = 0;
            timer->fn(timer->owner);
        }
    }
    timers->n_due = 0;
}
