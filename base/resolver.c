/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups by one helper thread. A ticket travels to it and back over two rings; whoever
 * holds the ticket owns it, and it never refers to the lookup from the thread's side, so
 * that a lookup can expire or be cancelled while getaddrinfo still ponders. The thread
 * touches its rings and descriptors, never the loop. A thread that does not come back
 * within the grace at the end is left behind with them: a few KiB, once, at exit.
 */
#include "base/resolver.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
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
    struct kvf_address address;
    struct kvf_sockaddr result;
    int gai_error, system_error; /* of getaddrinfo; valid on the way back */
};

/* What loop and thread share. */
struct channel {
    struct kvf_ring *questions, *answers; /* owns; of struct ticket *, NULL: stop */
    int question_fd, answer_fd;           /* owns; eventfds, the first one blocking */
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

static void signal_eventfd(int fd)
{
    uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof(one));
    assert(n == sizeof(one)); /* an eventfd takes 2^64 - 2 of them */
    (void)n;                  /* unused without assertions */
}

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

static void *answer_questions(void *argument)
{
    struct channel *channel = argument;
    for (;;) {
        struct ticket *ticket;
        uint64_t n;
        while (kvf_ring_pop(channel->questions, &ticket)) {
            if (ticket == NULL) {
                return NULL;
            }
            look_up(ticket);
            bool is_pushed = kvf_ring_push(channel->answers, &ticket);
            assert(is_pushed); /* the ring holds every ticket there is */
            (void)is_pushed;   /* unused without assertions */
            signal_eventfd(channel->answer_fd);
        }
        (void)!read(channel->question_fd, &n, sizeof(n)); /* sleeps; EINTR looks again */
    }
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

static void finish(struct kvf_loop *loop, struct kvf_lookup *lookup,
                   enum kvf_status status)
{
    struct ticket *ticket = lookup->ticket;
    if (ticket != NULL) {
        ticket->lookup = NULL;
        lookup->ticket = NULL;
    }
    kvf_loop_timer_stop(&lookup->timer);
    kvf_loop_post(loop, &lookup->post, lookup->done, lookup->owner, status);
}

static void take_answer(struct system_resolver *resolver, const struct ticket *ticket)
{
    enum kvf_status status = gai_status(ticket->gai_error);
    if (status != KVF_OK) {
        kvf_log_warn(NULL, "name %s not resolved: %s", ticket->address.host,
                     ticket->gai_error == EAI_SYSTEM
                         ? strerrordesc_np(ticket->system_error)
                         : gai_strerror(ticket->gai_error));
    }
    if (ticket->lookup != NULL) {
        ticket->lookup->result = ticket->result;
        finish(resolver->loop, ticket->lookup, status);
    }
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
    signal_eventfd(resolver->channel->question_fd);
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
    struct ticket *ticket = lookup->ticket;
    (void)resolver; /* the lookup knows its ticket */
    if (ticket != NULL) {
        ticket->lookup = NULL;
        lookup->ticket = NULL;
    }
    kvf_loop_timer_stop(&lookup->timer);
    kvf_loop_post_remove(&lookup->post);
}

/* ---- life */

static void close_channel(struct channel *channel)
{
    struct ticket *ticket;
    if (channel == NULL) {
        return;
    }
    while (channel->questions != NULL && kvf_ring_pop(channel->questions, &ticket)) {
        kvf_free(ticket);
    }
    while (channel->answers != NULL && kvf_ring_pop(channel->answers, &ticket)) {
        kvf_free(ticket);
    }
    kvf_ring_destroy(channel->questions);
    kvf_ring_destroy(channel->answers);
    if (channel->question_fd >= 0) {
        (void)close(channel->question_fd); /* a counter: nothing to lose */
    }
    if (channel->answer_fd >= 0) {
        (void)close(channel->answer_fd); /* a counter: nothing to lose */
    }
    kvf_free(channel);
}

/* True when the thread is gone and the channel is ours alone. */
static bool stop_thread(struct system_resolver *resolver)
{
    struct ticket *stop = NULL;
    struct timespec until;
    if (!resolver->has_thread) {
        return true;
    }
    bool is_pushed = kvf_ring_push(resolver->channel->questions, &stop);
    assert(is_pushed); /* there is room for the tickets and this one */
    (void)is_pushed;   /* unused without assertions */
    signal_eventfd(resolver->channel->question_fd);
    uint64_t until_ns = kvf_clock_now_ns(&kvf_clock_system) + STOP_GRACE_NS;
    until = (struct timespec){.tv_sec = (time_t)(until_ns / KVF_NS_PER_S),
                              .tv_nsec = (long)(until_ns % KVF_NS_PER_S)};
    if (pthread_clockjoin_np(resolver->thread, NULL, CLOCK_MONOTONIC, &until) == 0) {
        return true;
    }
    (void)pthread_detach(resolver->thread); /* it exists: the join timed out */
    return false;
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
    channel->question_fd = eventfd(0, EFD_CLOEXEC);
    channel->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    enum kvf_status status = KVF_OK;
    if (channel->question_fd < 0 || channel->answer_fd < 0) {
        status = KVF_SYSTEM;
    }
    if (status == KVF_OK) { /* one more for the order to stop */
        status = kvf_ring_create(sizeof(struct ticket *), TICKETS_MAX + 1,
                                 &channel->questions);
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
