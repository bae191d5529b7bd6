/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy workers: bytes and digests are the executor's, every job ends once on the loop,
 * cancelled ones stop, full rings say BUSY. Run it under ThreadSanitizer too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/crc.h"
#include "plan/execute.h"
#include "service/copy.h"

#define N_BLOCKS    12u
#define ROW_BYTES   2048u
#define N_HEADS     4u
#define N_TOKENS    16u
#define BLOCK_BYTES (2u * N_HEADS * N_TOKENS * ROW_BYTES) /* 256 KiB */
#define POOL_BYTES  (N_BLOCKS * BLOCK_BYTES)
#define RING_JOBS   256u
#define POISON      0x5a

struct fixture {
    struct kvf_loop *loop;
    struct kvf_copy *copy;
    uint64_t layer_offset;
    struct kvf_layout layout;
    uint32_t src_blocks[N_BLOCKS], dst_blocks[N_BLOCKS];
    struct kvf_plan plan;
    uint8_t *src, *dst, *slot, *expected; /* POOL_BYTES each */
};

struct job {
    struct kvf_copy_job job;
    uint32_t n_done;
    enum kvf_status status;
};

static void on_done(void *owner, enum kvf_status status)
{
    struct job *job = owner;
    job->n_done++;
    job->status = status;
}

static void build_plan(struct fixture *f)
{
    f->layout = (struct kvf_layout){
        .size = sizeof(f->layout),
        .n_layers = 1,
        .kv_factor = 2,
        .n_heads = N_HEADS,
        .tokens_per_block = N_TOKENS,
        .row_bytes = ROW_BYTES,
        .n_blocks = N_BLOCKS,
        .dtype = KVF_DTYPE_F16,
        .block_stride = BLOCK_BYTES,
        .kv_stride = BLOCK_BYTES / 2,
        .head_stride = (uint64_t)N_TOKENS * ROW_BYTES,
        .token_stride = ROW_BYTES,
        .layer_offsets = &f->layer_offset,
    };
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        f->src_blocks[i] = (5 * i + 3) % N_BLOCKS;
        f->dst_blocks[i] = (7 * i + 1) % N_BLOCKS;
    }
    struct kvf_shard src = {.layout = &f->layout,
                            .cp_size = 1,
                            .blocks = f->src_blocks,
                            .n_blocks = N_BLOCKS};
    struct kvf_shard dst = src;
    dst.blocks = f->dst_blocks;
    const struct kvf_plan_range range = {.n_tokens = N_BLOCKS * N_TOKENS, .n_layers = 1};
    struct kvf_plan_refusal refusal;
    assert_int_equal(kvf_plan_build(&src, &dst, &range, &f->plan, &refusal), KVF_OK);
    assert_int_equal(kvf_plan_bytes(&f->plan), POOL_BYTES);
}

static struct fixture *create_fixture(uint32_t n_workers)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    const struct kvf_loop_config config = {.clock = &kvf_clock_system};
    assert_int_equal(kvf_loop_create(&config, &f->loop), KVF_OK);
    assert_int_equal(kvf_copy_create_host(f->loop, n_workers, &f->copy), KVF_OK);
    build_plan(f);
    uint8_t **const buffers[] = {&f->src, &f->dst, &f->slot, &f->expected};
    for (size_t i = 0; i < 4; i++) {
        *buffers[i] = kvf_alloc(POOL_BYTES);
        assert_non_null(*buffers[i]);
    }
    for (uint32_t i = 0; i < POOL_BYTES; i++) {
        f->src[i] = (uint8_t)((i * 2654435761u) >> 24);
    }
    memset(f->dst, POISON, POOL_BYTES);
    kvf_execute_copy(&f->plan, f->src, f->expected, 0, POOL_BYTES, NULL);
    return f;
}

static void destroy_fixture(struct fixture *f)
{
    f->copy->ops->destroy(f->copy);
    kvf_loop_destroy(f->loop);
    kvf_free(f->src);
    kvf_free(f->dst);
    kvf_free(f->slot);
    kvf_free(f->expected);
    kvf_free(f);
}

static void init_job(struct job *job, struct fixture *f, enum kvf_copy_kind kind,
                     const void *src, void *dst)
{
    *job = (struct job){.job = {.kind = kind,
                                .plan = &f->plan,
                                .src = src,
                                .dst = dst,
                                .n_bytes = POOL_BYTES,
                                .has_digest = true,
                                .done = on_done,
                                .owner = job}};
}

static void run(struct fixture *f, struct job *job)
{
    assert_int_equal(f->copy->ops->submit(f->copy, &job->job), KVF_OK);
    assert_int_equal(job->n_done, 0); /* never inside the call */
    for (int turns = 0; job->n_done == 0; turns++) {
        assert_in_range(turns, 0, 10000);
        kvf_loop_turn(f->loop, KVF_NS_PER_MS);
    }
    assert_int_equal(job->n_done, 1);
}

static void test_copy_does_what_the_executor_does(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(2);
    struct job job;
    init_job(&job, f, KVF_COPY_LOCAL, f->src, f->dst);
    run(f, &job);
    assert_int_equal(job.status, KVF_OK);
    assert_memory_equal(f->dst, f->expected, POOL_BYTES);
    assert_int_equal(job.job.digest,
                     kvf_execute_crc(&f->plan, KVF_PLAN_SRC, f->src, 0, POOL_BYTES, 0));
    assert_true(job.job.started_ns > 0 && job.job.ended_ns >= job.job.started_ns);
    destroy_fixture(f);
}

static void test_copy_gathers_and_scatters_through_a_slot(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(1);
    struct job gather, scatter, src, dst;
    init_job(&gather, f, KVF_COPY_GATHER, f->src, f->slot);
    init_job(&scatter, f, KVF_COPY_SCATTER, f->slot, f->dst);
    init_job(&src, f, KVF_COPY_CRC_SRC, f->src, NULL);
    init_job(&dst, f, KVF_COPY_CRC_DST, NULL, f->dst);
    run(f, &gather);
    run(f, &scatter);
    run(f, &src);
    run(f, &dst);
    assert_memory_equal(f->dst, f->expected, POOL_BYTES);
    assert_int_equal(gather.job.digest, kvf_crc32c(0, f->slot, POOL_BYTES));
    assert_int_equal(scatter.job.digest, gather.job.digest);
    assert_int_equal(src.job.digest, gather.job.digest);
    assert_int_equal(dst.job.digest, gather.job.digest);
    destroy_fixture(f);
}

/* Offsets that are no multiple of a piece or of a row. */
static void test_copy_moves_parts_of_the_stream(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(2);
    static const uint64_t edges[] = {0, 1, 70001, 1u << 20, 2500001, POOL_BYTES};
    for (size_t i = 0; i + 1 < sizeof(edges) / sizeof(edges[0]); i++) {
        struct job gather, scatter;
        init_job(&gather, f, KVF_COPY_GATHER, f->src, f->slot);
        init_job(&scatter, f, KVF_COPY_SCATTER, f->slot, f->dst);
        gather.job.offset = scatter.job.offset = edges[i];
        gather.job.n_bytes = scatter.job.n_bytes = edges[i + 1] - edges[i];
        run(f, &gather);
        run(f, &scatter);
    }
    assert_memory_equal(f->dst, f->expected, POOL_BYTES);
    destroy_fixture(f);
}

static void test_copy_of_nothing_completes(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(1);
    struct job job;
    init_job(&job, f, KVF_COPY_LOCAL, f->src, f->dst);
    job.job.n_bytes = 0;
    run(f, &job);
    assert_int_equal(job.status, KVF_OK);
    assert_int_equal(job.job.digest, 0);
    assert_int_equal(f->dst[0], POISON);
    destroy_fixture(f);
}

static size_t count_done(const struct job *jobs, size_t n, enum kvf_status status)
{
    size_t n_done = 0;
    for (size_t i = 0; i < n; i++) {
        assert_in_range(jobs[i].n_done, 0, 1);
        n_done += jobs[i].n_done == 1 && jobs[i].status == status;
    }
    return n_done;
}

static void run_all(struct fixture *f, const struct job *jobs, size_t n)
{
    for (int turns = 0;
         count_done(jobs, n, KVF_OK) + count_done(jobs, n, KVF_CANCELLED) < n; turns++) {
        assert_in_range(turns, 0, 20000);
        kvf_loop_turn(f->loop, KVF_NS_PER_MS);
    }
}

static void test_copy_cancelled_before_it_runs_touches_nothing(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(1);
    static struct job jobs[20];
    for (size_t i = 0; i < 20; i++) {
        /* Only the last one writes to dst. */
        init_job(&jobs[i], f, KVF_COPY_GATHER, f->src, f->slot);
    }
    init_job(&jobs[19], f, KVF_COPY_LOCAL, f->src, f->dst);
    for (size_t i = 0; i < 20; i++) {
        assert_int_equal(f->copy->ops->submit(f->copy, &jobs[i].job), KVF_OK);
    }
    f->copy->ops->cancel(f->copy, &jobs[19].job);
    run_all(f, jobs, 20);
    assert_int_equal(jobs[19].status, KVF_CANCELLED);
    assert_int_equal(count_done(jobs, 20, KVF_OK), 19);
    assert_int_equal(f->dst[0], POISON);
    assert_memory_equal(f->dst, f->dst + 1, POOL_BYTES - 1);
    destroy_fixture(f);
}

static void test_copy_is_busy_when_its_rings_are_full(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(2);
    static struct job jobs[2 * RING_JOBS + 1];
    for (size_t i = 0; i <= 2 * RING_JOBS; i++) {
        init_job(&jobs[i], f, KVF_COPY_GATHER, f->src, f->slot + (i % N_BLOCKS) * 64);
        jobs[i].job.n_bytes = 64;
        jobs[i].job.has_digest = false;
        enum kvf_status status = f->copy->ops->submit(f->copy, &jobs[i].job);
        assert_int_equal(status, i < 2 * RING_JOBS ? KVF_OK : KVF_BUSY);
    }
    run_all(f, jobs, 2 * RING_JOBS);
    assert_int_equal(jobs[2 * RING_JOBS].n_done, 0);
    run(f, &jobs[2 * RING_JOBS]); /* and is not when they have emptied */
    destroy_fixture(f);
}

static void test_copy_wakes_a_sleeping_loop(void **state)
{
    (void)state;
    struct fixture *f = create_fixture(1);
    struct job job;
    init_job(&job, f, KVF_COPY_LOCAL, f->src, f->dst);
    assert_int_equal(f->copy->ops->submit(f->copy, &job.job), KVF_OK);
    uint64_t start_ns = kvf_loop_clock_ns(f->loop);
    while (job.n_done == 0) {
        kvf_loop_turn(f->loop, 20 * KVF_NS_PER_S);
    }
    assert_true(kvf_loop_clock_ns(f->loop) - start_ns < 10 * KVF_NS_PER_S);
    destroy_fixture(f);
}

static void test_copy_survives_every_failing_allocation(void **state)
{
    (void)state;
    struct kvf_loop *loop;
    struct kvf_copy *copy = NULL;
    const struct kvf_loop_config config = {.clock = &kvf_clock_system};
    assert_int_equal(kvf_loop_create(&config, &loop), KVF_OK);
    enum kvf_status status = KVF_NO_MEMORY;
    for (uint64_t nth = 1; status == KVF_NO_MEMORY; nth++) {
        assert_null(copy);
        assert_in_range(nth, 1, 100);
        kvf_alloc_fail_nth(nth);
        status = kvf_copy_create_host(loop, 3, &copy);
    }
    kvf_alloc_fail_nth(0);
    assert_int_equal(status, KVF_OK);
    copy->ops->destroy(copy);
    copy = NULL;
    assert_int_equal(kvf_copy_create_host(loop, 1000, &copy), KVF_INVALID_ARGUMENT);
    kvf_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_does_what_the_executor_does),
        cmocka_unit_test(test_copy_gathers_and_scatters_through_a_slot),
        cmocka_unit_test(test_copy_moves_parts_of_the_stream),
        cmocka_unit_test(test_copy_of_nothing_completes),
        cmocka_unit_test(test_copy_cancelled_before_it_runs_touches_nothing),
        cmocka_unit_test(test_copy_is_busy_when_its_rings_are_full),
        cmocka_unit_test(test_copy_wakes_a_sleeping_loop),
        cmocka_unit_test(test_copy_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
