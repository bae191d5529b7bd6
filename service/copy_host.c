/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy engine for host memory: worker threads that run jobs through the host
 * executor. Each worker has a ring of jobs in and a ring of finished jobs out, both with
 * the loop thread at the other end, so nothing is shared but the rings, the job it holds
 * and the job's cancel mark. A job stays on one worker (its digest is one running CRC);
 * parallelism comes from submitting several.
 *
 * The host owns workers, rings and eventfds; jobs are borrowed from submit until done.
 * Loop thread, except run_worker and what it calls.
 */
#include "service/copy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/ring.h"
#include "plan/execute.h"

/* Between two looks at the cancel mark: 0.1 ms of copying. */
#define PIECE_BYTES   (1u << 20)
#define RING_JOBS     256u
#define WORKERS_MAX   64u
#define WORKERS_GUESS 4u

/* What travels in the rings. In: job NULL = stop. Out: the job and how it ended. */
struct copy_record {
    struct kvf_copy_job *job;
    enum kvf_status status;
};

struct copy_worker {
    struct kvf_loop *loop; /* borrows; only kvf_loop_wake is called on it */
    pthread_t thread;
    bool is_started;
    int wake_fd;               /* owns; counts submits */
    struct kvf_ring *in, *out; /* owns */
    uint32_t n_under_way;      /* submitted, not yet taken back; loop thread */
};

struct copy_host {
    struct kvf_copy base;
    struct kvf_loop *loop; /* borrows */
    struct kvf_hook hook;
    bool is_hooked;
    uint32_t n_workers;
    struct copy_worker *workers; /* owns; [n_workers] */
};

static const struct kvf_log_ctx log_ctx = {.comp = "copy"};

static struct copy_host *to_host(struct kvf_copy *copy)
{
    return KVF_CONTAINER(copy, struct copy_host, base);
}

/* ---- worker thread */

static void run_piece(struct kvf_copy_job *job, uint64_t done_bytes, uint64_t n_bytes)
{
    uint32_t *crc = job->has_digest ? &job->digest : NULL;
    uint64_t offset = job->offset + done_bytes;
    switch (job->kind) {
    case KVF_COPY_LOCAL:
        kvf_execute_copy(job->plan, job->src, job->dst, offset, n_bytes, crc);
        break;
    case KVF_COPY_GATHER:
        kvf_execute_gather(job->plan, job->src, (uint8_t *)job->dst + done_bytes, offset,
                           n_bytes, crc);
        break;
    case KVF_COPY_SCATTER:
        kvf_execute_scatter(job->plan, (const uint8_t *)job->src + done_bytes, job->dst,
                            offset, n_bytes, crc);
        break;
    case KVF_COPY_CRC_SRC:
        job->digest = kvf_execute_crc(job->plan, KVF_PLAN_SRC, job->src, offset, n_bytes,
                                      job->digest);
        break;
    case KVF_COPY_CRC_DST:
        job->digest = kvf_execute_crc(job->plan, KVF_PLAN_DST, job->dst, offset, n_bytes,
                                      job->digest);
        break;
    }
}

static enum kvf_status run_job(struct kvf_copy_job *job)
{
    enum kvf_status status = KVF_OK;
    uint64_t done_bytes = 0;
    job->digest = 0;
    job->started_ns = kvf_clock_now_ns(&kvf_clock_system);
    while (done_bytes < job->n_bytes) {
        if (__atomic_load_n(&job->is_cancelled, __ATOMIC_RELAXED) != 0) {
            status = KVF_CANCELLED;
            break;
        }
        uint64_t left = job->n_bytes - done_bytes;
        uint64_t n_bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
        run_piece(job, done_bytes, n_bytes);
        done_bytes += n_bytes;
    }
    job->ended_ns = kvf_clock_now_ns(&kvf_clock_system);
    return status;
}

/* Every submit adds to the eventfd after its push, so an empty ring and a zero counter
 * together mean that nothing was submitted since: no wake-up is lost. */
static void wait_for_submit(int wake_fd)
{
    uint64_t count;
    while (read(wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

static void *run_worker(void *owner)
{
    struct copy_worker *worker = owner;
    struct copy_record record;
    for (;;) {
        if (!kvf_ring_pop(worker->in, &record)) {
            wait_for_submit(worker->wake_fd);
            continue;
        }
        if (record.job == NULL) {
            return NULL;
        }
        record.status = run_job(record.job);
        /* Cannot be full: as many places as jobs under way. */
        (void)kvf_ring_push(worker->out, &record);
        kvf_loop_wake(worker->loop);
    }
}

/* ---- loop thread */

static bool push_to_worker(struct copy_worker *worker, struct kvf_copy_job *job)
{
    struct copy_record record = {.job = job};
    if (!kvf_ring_push(worker->in, &record)) {
        return false;
    }
    const uint64_t one = 1;
    /* Fails only when the counter is at its maximum, and then the worker is awake. */
    ssize_t n = write(worker->wake_fd, &one, sizeof(one));
    (void)n;
    return true;
}

static struct copy_worker *least_busy(struct copy_host *host)
{
    struct copy_worker *best = &host->workers[0];
    for (uint32_t i = 1; i < host->n_workers; i++) {
        if (host->workers[i].n_under_way < best->n_under_way) {
            best = &host->workers[i];
        }
    }
    return best;
}

static enum kvf_status submit(struct kvf_copy *copy, struct kvf_copy_job *job)
{
    struct copy_worker *worker = least_busy(to_host(copy));
    if (worker->n_under_way == RING_JOBS) {
        return KVF_BUSY;
    }
    __atomic_store_n(&job->is_cancelled, 0, __ATOMIC_RELAXED);
    if (!push_to_worker(worker, job)) {
        return KVF_BUSY;
    }
    worker->n_under_way++;
    return KVF_OK;
}

static void cancel(struct kvf_copy *copy, struct kvf_copy_job *job)
{
    (void)copy;
    __atomic_store_n(&job->is_cancelled, 1, __ATOMIC_RELAXED);
}

static bool take_finished(void *owner)
{
    struct copy_host *host = owner;
    bool found = false;
    for (uint32_t i = 0; i < host->n_workers; i++) {
        struct copy_worker *worker = &host->workers[i];
        struct copy_record record;
        while (kvf_ring_pop(worker->out, &record)) {
            worker->n_under_way--;
            kvf_loop_post(host->loop, &record.job->post, record.job->done,
                          record.job->owner, record.status);
            found = true;
        }
    }
    return found;
}

static bool is_nothing_finished(void *owner)
{
    struct copy_host *host = owner;
    for (uint32_t i = 0; i < host->n_workers; i++) {
        if (kvf_ring_length(host->workers[i].out) > 0) {
            return false;
        }
    }
    return true;
}

static void worker_fini(struct copy_worker *worker)
{
    if (worker->is_started) {
        /* No job is under way, so there is room for the stop record. */
        (void)push_to_worker(worker, NULL);
        (void)pthread_join(worker->thread, NULL); /* only fails for our bugs */
    }
    kvf_ring_destroy(worker->in);
    kvf_ring_destroy(worker->out);
    if (worker->wake_fd >= 0) {
        (void)close(worker->wake_fd);
    }
}

static void destroy(struct kvf_copy *copy)
{
    if (copy == NULL) {
        return;
    }
    struct copy_host *host = to_host(copy);
    if (host->is_hooked) {
        kvf_loop_hook_remove(&host->hook);
    }
    for (uint32_t i = 0; i < host->n_workers; i++) {
        worker_fini(&host->workers[i]);
    }
    kvf_free(host->workers);
    kvf_free(host);
}

/* Signals belong to the loop thread. */
static int start_thread(struct copy_worker *worker)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&worker->thread, NULL, run_worker, worker);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static enum kvf_status worker_init(struct copy_worker *worker, struct kvf_loop *loop,
                                   uint32_t index)
{
    worker->loop = loop;
    enum kvf_status status =
        kvf_ring_create(sizeof(struct copy_record), RING_JOBS, &worker->in);
    if (status == KVF_OK) {
        status = kvf_ring_create(sizeof(struct copy_record), RING_JOBS, &worker->out);
    }
    if (status != KVF_OK) {
        return status;
    }
    worker->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (worker->wake_fd < 0) {
        kvf_log_error(&log_ctx, "eventfd for copy worker %u failed: %s", index,
                      strerrordesc_np(errno));
        return KVF_SYSTEM;
    }
    int error = start_thread(worker);
    if (error != 0) {
        kvf_log_error(&log_ctx, "copy worker %u cannot start: %s", index,
                      strerrordesc_np(error));
        return KVF_SYSTEM;
    }
    worker->is_started = true;
    char name[16];
    (void)snprintf(name, sizeof(name), "kvf-copy-%u", index);
    (void)pthread_setname_np(worker->thread, name); /* for top(1) only */
    return KVF_OK;
}

static uint32_t guess_workers(void)
{
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
        return 1;
    }
    uint32_t n = (uint32_t)CPU_COUNT(&cpus);
    if (n <= 2) {
        return 1;
    }
    return n - 1 < WORKERS_GUESS ? n - 1 : WORKERS_GUESS;
}

static const struct kvf_copy_ops host_ops = {
    .submit = submit,
    .cancel = cancel,
    .destroy = destroy,
};

enum kvf_status kvf_copy_create_host(struct kvf_loop *loop, uint32_t n_workers,
                                     struct kvf_copy **out)
{
    if (n_workers > WORKERS_MAX) {
        return KVF_INVALID_ARGUMENT;
    }
    enum kvf_status status = KVF_NO_MEMORY;
    struct copy_host *host = kvf_alloc(sizeof(*host));
    if (host == NULL) {
        return KVF_NO_MEMORY;
    }
    *host = (struct copy_host){.base.ops = &host_ops, .loop = loop};
    uint32_t n = n_workers != 0 ? n_workers : guess_workers();
    host->workers = kvf_alloc_array(n, sizeof(*host->workers));
    if (host->workers == NULL) {
        goto fail;
    }
    for (uint32_t i = 0; i < n; i++) {
        host->workers[i].wake_fd = -1;
        host->n_workers = i + 1;
        status = worker_init(&host->workers[i], loop, i);
        if (status != KVF_OK) {
            goto fail;
        }
    }
    host->hook = (struct kvf_hook){
        .progress = take_finished,
        .prepare_sleep = is_nothing_finished,
        .owner = host,
    };
    kvf_loop_hook_add(loop, &host->hook);
    host->is_hooked = true;
    *out = &host->base;
    return KVF_OK;
fail:
    destroy(&host->base);
    return status;
}
