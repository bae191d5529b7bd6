/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups by one helper thread. A ticket travels to it and back over two rings; whoever
 * holds the ticket owns it. The thread never looks at the lookup, so that one can expire
 * or be cancelled while getaddrinfo still ponders; tickets that nobody waits for any more
 * pass through unasked, so that a dead name server leaves no backlog behind. The thread
 * touches the channel alone, never the loop. One that does not come back within the grace
 * at the end is left behind with its channel: a few KiB, once, at exit.
 */
#include "base/resolver.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/ring.h"

#define TICKETS_MAX   64 /* with the thread; more is BUSY */
#define STOP_GRACE_NS (200 * KVF_NS_PER_MS)
#define PORT_TEXT     8

struct ticket {
    struct kvf_lookup *lookup; /* loop's side only; NULL: nobody waits any more */
    _Atomic bool is_abandoned; /* the same, for the thread */
    struct kvf_address address;
    struct kvf_sockaddr result;
    int gai_error, system_error; /* of getaddrinfo; valid on the way back */
};

/* What loop and thread share. */
struct channel {
    struct kvf_ring *questions, *answers; /* owns; of struct ticket * */
    sem_t n_questions;                    /* one per question, one for the stop */
    _Atomic bool is_stopping;
    sem_t has_ended; /* posted by the thread as its last act */
    int answer_fd;   /* owns; eventfd */
};

struct system_resolver {
    struct kvf_resolver resolver;
    struct kvf_loop *loop;   /* borrowed */
    struct channel *channel; /* owns, until it is left to a stuck thread */
    pthread_t thread;
    bool has_thread;
    uint32_t n_out; /* tickets with the thread */
    struct kvf_io io;
};

static struct system_resolver *system_of(struct kvf_resolver *resolver)
{
    return KVF_CONTAINER(resolver, struct system_resolver, resolver);
}

/* ---- the thread */

static void look_up(struct ticket *ticket)
{
    char port[PORT_TEXT];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    (void)snprintf(port, sizeof(port), "%u", ticket->address.port); /* 5 digits */
    ticket->gai_error = getaddrinfo(ticket->address.host, port, &hints, &found);
    ticket->system_error = errno;
    if (ticket->gai_error == 0) {
        memcpy(&ticket->result.storage, found->ai_addr, found->ai_addrlen);
        ticket->result.length = found->ai_addrlen;
        freeaddrinfo(found);
    }
}

static void push_answer(struct channel *channel, struct ticket *ticket)
{
    uint64_t one = 1;
    bool is_pushed = kvf_ring_push(channel->answers, &ticket);
    assert(is_pushed); /* the ring holds every ticket there is */
    (void)is_pushed;   /* unused without assertions */
    (void)!write(channel->answer_fd, &one, sizeof(one)); /* fails only at 2^64 - 2 */
}

static void *answer_questions(void *argument)
{
    struct channel *channel = argument;
    for (;;) {
        struct ticket *ticket;
        while (sem_wait(&channel->n_questions) != 0) {
            /* EINTR; nothing else can happen to a valid semaphore */
        }
        if (atomic_load_explicit(&channel->is_stopping, memory_order_relaxed) ||
            !kvf_ring_pop(channel->questions, &ticket)) {
            break; /* every question is counted, so this count was the stop */
        }
        if (!atomic_load_explicit(&ticket->is_abandoned, memory_order_relaxed)) {
            look_up(ticket);
        }
        push_answer(channel, ticket);
    }
    (void)sem_post(&channel->has_ended); /* from 0: cannot overflow */
    return NULL;
}

/* ---- the loop's side */

static enum kvf_status gai_status(int gai_error)
{
    switch (gai_error) {
    case 0:
        return KVF_OK;
    case EAI_MEMORY:
        return KVF_NO_MEMORY;
    case EAI_SYSTEM:
        return KVF_SYSTEM;
    default:
        return KVF_PEER_UNREACHABLE;
    }
}

static void abandon_ticket(struct kvf_lookup *lookup)
{
    struct ticket *ticket = lookup->ticket;
    if (ticket != NULL) {
        ticket->lookup = NULL;
        atomic_store_explicit(&ticket->is_abandoned, true, memory_order_relaxed);
        lookup->ticket = NULL;
    }
}

static void finish(struct kvf_loop *loop, struct kvf_lookup *lookup,
                   enum kvf_status status)
{
    abandon_ticket(lookup);
    kvf_loop_timer_stop(&lookup->timer);
    kvf_loop_post(loop, &lookup->post, lookup->done, lookup->owner, status);
}

static void take_answer(struct system_resolver *resolver, const struct ticket *ticket)
{
    if (ticket->lookup == NULL) {
        return;
    }
    enum kvf_status status = gai_status(ticket->gai_error);
    if (status != KVF_OK) {
        kvf_log_warn(NULL, "name %s not resolved: %s", ticket->address.host,
                     ticket->gai_error == EAI_SYSTEM
                         ? strerrordesc_np(ticket->system_error)
                         : gai_strerror(ticket->gai_error));
    }
    ticket->lookup->result = ticket->result;
    finish(resolver->loop, ticket->lookup, status);
}

static void answers_ready(void *owner, uint32_t events)
{
    struct system_resolver *resolver = owner;
    struct ticket *ticket;
    uint64_t n;
    (void)events;                                             /* reading alone */
    (void)!read(resolver->channel->answer_fd, &n, sizeof(n)); /* only clears it */
    while (kvf_ring_pop(resolver->channel->answers, &ticket)) {
        resolver->n_out--;
        take_answer(resolver, ticket);
        kvf_free(ticket);
    }
}

static void lookup_expired(void *owner)
{
    struct kvf_lookup *lookup = owner;
    finish(lookup->timer.loop, lookup, KVF_EXPIRED);
}

/* Hands the question to the thread; the answer or the timer ends the lookup. */
static enum kvf_status ask(struct system_resolver *resolver,
                           const struct kvf_address *address, uint32_t timeout_ms,
                           struct kvf_lookup *lookup)
{
    if (resolver->n_out == TICKETS_MAX) {
        return KVF_BUSY;
    }
    struct ticket *ticket = kvf_alloc(sizeof(*ticket));
    if (ticket == NULL) {
        return KVF_NO_MEMORY;
    }
    ticket->address = *address;
    enum kvf_status status = kvf_loop_timer_start(resolver->loop, &lookup->timer,
                                                  kvf_loop_clock_ns(resolver->loop) +
                                                      timeout_ms * KVF_NS_PER_MS,
                                                  lookup_expired, lookup);
    if (status != KVF_OK) {
        kvf_free(ticket);
        return status;
    }
    ticket->lookup = lookup;
    lookup->ticket = ticket;
    bool is_pushed = kvf_ring_push(resolver->channel->questions, &ticket);
    assert(is_pushed); /* n_out is below the ring's size */
    (void)is_pushed;   /* unused without assertions */
    resolver->n_out++;
    (void)sem_post(&resolver->channel->n_questions); /* n_out bounds the count */
    return KVF_OK;
}

static void system_lookup(struct kvf_resolver *resolver,
                          const struct kvf_address *address, uint32_t timeout_ms,
                          struct kvf_lookup *lookup, kvf_done_fn done, void *owner)
{
    struct system_resolver *self = system_of(resolver);
    assert(lookup->ticket == NULL && lookup->post.loop == NULL);
    lookup->done = done;
    lookup->owner = owner;
    if (kvf_sockaddr_from_numeric(address, &lookup->result) == KVF_OK) {
        finish(self->loop, lookup, KVF_OK);
        return;
    }
    enum kvf_status status = ask(self, address, timeout_ms, lookup);
    if (status != KVF_OK) {
        finish(self->loop, lookup, status);
    }
}

static void system_cancel(struct kvf_resolver *resolver, struct kvf_lookup *lookup)
{
    (void)resolver; /* the lookup knows its ticket */
    abandon_ticket(lookup);
    kvf_loop_timer_stop(&lookup->timer);
    kvf_loop_post_remove(&lookup->post);
}

/* ---- life */

static void free_tickets(struct kvf_ring *ring)
{
    struct ticket *ticket;
    while (ring != NULL && kvf_ring_pop(ring, &ticket)) {
        kvf_free(ticket);
    }
    kvf_ring_destroy(ring);
}

static void close_channel(struct channel *channel)
{
    if (channel == NULL) {
        return;
    }
    free_tickets(channel->questions);
    free_tickets(channel->answers);
    if (channel->answer_fd >= 0) {
        (void)close(channel->answer_fd); /* a counter: nothing to lose */
    }
    (void)sem_destroy(&channel->n_questions); /* nobody waits on them any more */
    (void)sem_destroy(&channel->has_ended);
    kvf_free(channel);
}

/* True when the thread is gone and the channel is ours alone. */
static bool stop_thread(struct system_resolver *resolver)
{
    if (!resolver->has_thread) {
        return true;
    }
    atomic_store_explicit(&resolver->channel->is_stopping, true, memory_order_relaxed);
    (void)sem_post(&resolver->channel->n_questions); /* n_out bounds the count */
    uint64_t until_ns = kvf_clock_now_ns(&kvf_clock_system) + STOP_GRACE_NS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / KVF_NS_PER_S),
                             .tv_nsec = (long)(until_ns % KVF_NS_PER_S)};
    int result;
    do {
        result = sem_clockwait(&resolver->channel->has_ended, CLOCK_MONOTONIC, &until);
    } while (result != 0 && errno == EINTR);
    if (result != 0) {
        (void)pthread_detach(resolver->thread); /* joinable until now: cannot fail */
        return false;
    }
    (void)pthread_join(resolver->thread, NULL); /* it has ended or is about to */
    return true;
}

static void system_destroy(struct kvf_resolver *base)
{
    if (base == NULL) {
        return;
    }
    struct system_resolver *resolver = system_of(base);
    kvf_loop_io_remove(&resolver->io);
    if (stop_thread(resolver)) {
        close_channel(resolver->channel);
    }
    kvf_free(resolver);
}

static enum kvf_status open_channel(struct channel **out)
{
    struct channel *channel = kvf_alloc(sizeof(*channel));
    if (channel == NULL) {
        return KVF_NO_MEMORY;
    }
    (void)sem_init(&channel->n_questions, 0, 0); /* fails only for other arguments */
    (void)sem_init(&channel->has_ended, 0, 0);
    channel->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum kvf_status status = channel->answer_fd >= 0 ? KVF_OK : KVF_SYSTEM;
    if (status == KVF_OK) {
        status =
            kvf_ring_create(sizeof(struct ticket *), TICKETS_MAX, &channel->questions);
    }
    if (status == KVF_OK) {
        status = kvf_ring_create(sizeof(struct ticket *), TICKETS_MAX, &channel->answers);
    }
    if (status != KVF_OK) {
        close_channel(channel);
        return status;
    }
    *out = channel;
    return KVF_OK;
}

/* The loop's signalfd works only if no thread takes the signals. */
static enum kvf_status start_thread(struct system_resolver *resolver)
{
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* fails only for a bad `how` */
    int error =
        pthread_create(&resolver->thread, NULL, answer_questions, resolver->channel);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* as above */
    resolver->has_thread = error == 0;
    return error == 0 ? KVF_OK : KVF_SYSTEM;
}

static const struct kvf_resolver_ops system_ops = {
    .lookup = system_lookup, .cancel = system_cancel, .destroy = system_destroy};

enum kvf_status kvf_resolver_create_system(struct kvf_loop *loop,
                                           struct kvf_resolver **out)
{
    struct system_resolver *resolver = kvf_alloc(sizeof(*resolver));
    if (resolver == NULL) {
        return KVF_NO_MEMORY;
    }
    resolver->resolver.ops = &system_ops;
    resolver->loop = loop;
    enum kvf_status status = open_channel(&resolver->channel);
    if (status != KVF_OK) {
        goto fail;
    }
    status = kvf_loop_io_add(loop, &resolver->io, resolver->channel->answer_fd,
                             KVF_IO_READ, answers_ready, resolver);
    if (status != KVF_OK) {
        goto fail;
    }
    status = start_thread(resolver);
    if (status != KVF_OK) {
        goto fail;
    }
    *out = &resolver->resolver;
    return KVF_OK;
fail:
    system_destroy(&resolver->resolver);
    return status;
}
