/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timer heap alone: order, moving, stopping, starting from inside callbacks, and a
 * comparison with a plain sorted list under random operations.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/timer.h"

#define N_MANY 200

struct probe {
    struct kvf_timer timer;
    struct kvf_timers *timers;
    struct probe *victim; /* stopped by the callback */
    uint64_t restart_ns;  /* the callback starts the timer again; 0: no */
    struct probe **log;   /* where the callback writes itself */
    size_t *n_logged;
};

static void ran(void *owner)
{
    struct probe *probe = owner;
    probe->log[(*probe->n_logged)++] = probe;
    if (probe->victim != NULL) {
        kvf_timers_remove(probe->timers, &probe->victim->timer);
    }
    if (probe->restart_ns != 0) {
        enum kvf_status status =
            kvf_timers_add(probe->timers, &probe->timer, probe->restart_ns);
        assert_int_equal(status, KVF_OK);
    }
}

struct fixture {
    struct kvf_timers timers;
    struct probe probes[N_MANY];
    struct probe *log[4 * N_MANY];
    size_t n_logged;
};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    for (size_t i = 0; i < N_MANY; i++) {
        f->probes[i] =
            (struct probe){.timers = &f->timers, .log = f->log, .n_logged = &f->n_logged};
        f->probes[i].timer.fn = ran;
        f->probes[i].timer.owner = &f->probes[i];
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    kvf_timers_fini(&f->timers);
    kvf_free(f);
    return 0;
}

static void start(struct fixture *f, size_t i, uint64_t deadline_ns)
{
    assert_int_equal(kvf_timers_add(&f->timers, &f->probes[i].timer, deadline_ns),
                     KVF_OK);
}

static void expect_log(const struct fixture *f, size_t n, const size_t *order)
{
    assert_int_equal(f->n_logged, n);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(f->log[i], &f->probes[order[i]]);
    }
}

static void test_timers_run_in_deadline_order(void **state)
{
    struct fixture *f = *state;
    start(f, 0, 30);
    start(f, 1, 10);
    start(f, 2, 20);
    kvf_timers_run(&f->timers, 30);
    expect_log(f, 3, (const size_t[]){1, 2, 0});
    assert_int_equal(kvf_timers_next_ns(&f->timers), KVF_TIMER_NEVER);
}

static void test_timers_with_equal_deadlines_run_in_start_order(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < 5; i++) {
        start(f, 4 - i, 10);
    }
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 5, (const size_t[]){4, 3, 2, 1, 0});
}

static void test_timers_wait_for_their_deadline(void **state)
{
    struct fixture *f = *state;
    start(f, 0, 10);
    start(f, 1, 11);
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 1, (const size_t[]){0});
    assert_false(kvf_timer_is_running(&f->probes[0].timer));
    assert_true(kvf_timer_is_running(&f->probes[1].timer));
    assert_int_equal(kvf_timers_next_ns(&f->timers), 11);
}

static void test_timers_move_both_ways(void **state)
{
    struct fixture *f = *state;
    start(f, 0, 10);
    start(f, 1, 20);
    start(f, 2, 30);
    start(f, 2, 5);
    start(f, 0, 40);
    kvf_timers_run(&f->timers, 40);
    expect_log(f, 3, (const size_t[]){2, 1, 0});
}

static void test_timers_restarted_for_now_wait_for_the_next_run(void **state)
{
    struct fixture *f = *state;
    f->probes[0].restart_ns = 1;
    start(f, 0, 1);
    start(f, 1, 2);
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 2, (const size_t[]){0, 1});
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 3, (const size_t[]){0, 1, 0});
}

static void test_timers_stopped_by_a_due_one_do_not_run(void **state)
{
    struct fixture *f = *state;
    f->probes[0].victim = &f->probes[1];
    start(f, 0, 1);
    start(f, 1, 2);
    start(f, 2, 3);
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 2, (const size_t[]){0, 2});
    assert_false(kvf_timer_is_running(&f->probes[1].timer));
}

static void move_second(void *owner)
{
    struct fixture *f = owner;
    start(f, 1, 50);
}

static void test_timers_moved_while_due_run_at_the_new_time(void **state)
{
    struct fixture *f = *state;
    f->probes[0].timer.fn = move_second;
    f->probes[0].timer.owner = f;
    start(f, 0, 1);
    start(f, 1, 2);
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 0, NULL);
    kvf_timers_run(&f->timers, 50);
    expect_log(f, 1, (const size_t[]){1});
}

static void start_the_rest(void *owner)
{
    struct fixture *f = owner;
    for (size_t i = 2; i < N_MANY; i++) {
        start(f, i, 100);
    }
}

static void test_timers_grow_while_due_ones_run(void **state)
{
    struct fixture *f = *state;
    f->probes[0].timer.fn = start_the_rest;
    f->probes[0].timer.owner = f;
    start(f, 0, 1);
    start(f, 1, 2);
    kvf_timers_run(&f->timers, 10);
    expect_log(f, 1, (const size_t[]){1});
    kvf_timers_run(&f->timers, 100);
    assert_int_equal(f->n_logged, N_MANY - 1);
}

static void test_timers_stay_as_they_were_without_memory(void **state)
{
    struct fixture *f = *state;
    for (uint64_t nth = 1; nth <= 2; nth++) {
        kvf_alloc_fail_nth(nth);
        assert_int_equal(kvf_timers_add(&f->timers, &f->probes[0].timer, 7),
                         KVF_NO_MEMORY);
        kvf_alloc_fail_nth(0);
        assert_false(kvf_timer_is_running(&f->probes[0].timer));
        assert_int_equal(kvf_timers_next_ns(&f->timers), KVF_TIMER_NEVER);
    }
    start(f, 0, 7);
    assert_int_equal(kvf_timers_next_ns(&f->timers), 7);
}

/* What must be due by now_ns, by looking at every timer. */
static size_t count_due(const uint64_t *deadlines, uint64_t now_ns)
{
    size_t n = 0;
    for (size_t i = 0; i < N_MANY; i++) {
        n += deadlines[i] != 0 && deadlines[i] <= now_ns;
    }
    return n;
}

static void expect_run(struct fixture *f, uint64_t *deadlines, uint64_t now_ns)
{
    size_t n_due = count_due(deadlines, now_ns);
    uint64_t last_ns = 0;
    f->n_logged = 0;
    kvf_timers_run(&f->timers, now_ns);
    assert_int_equal(f->n_logged, n_due);
    for (size_t i = 0; i < n_due; i++) {
        size_t which = (size_t)(f->log[i] - f->probes);
        assert_true(deadlines[which] >= last_ns && deadlines[which] <= now_ns);
        last_ns = deadlines[which];
        deadlines[which] = 0;
    }
}

static void test_timers_agree_with_a_plain_list(void **state)
{
    struct fixture *f = *state;
    uint64_t deadlines[N_MANY] = {0}; /* 0: not running */
    struct kvf_rng rng;
    kvf_rng_init_seeded(&rng, 7470);
    uint64_t now_ns = 1;
    for (int step = 0; step < 20000; step++) {
        size_t which = (size_t)kvf_rng_below(&rng, N_MANY);
        switch (kvf_rng_below(&rng, 8)) {
        case 0:
            kvf_timers_remove(&f->timers, &f->probes[which].timer);
            deadlines[which] = 0;
            break;
        case 1:
            now_ns += kvf_rng_below(&rng, 50);
            expect_run(f, deadlines, now_ns);
            break;
        default:
            deadlines[which] = now_ns + 1 + kvf_rng_below(&rng, 1000);
            start(f, which, deadlines[which]);
            break;
        }
        assert_int_equal(kvf_timer_is_running(&f->probes[which].timer),
                         deadlines[which] != 0);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_timers_run_in_deadline_order),
        T(test_timers_with_equal_deadlines_run_in_start_order),
        T(test_timers_wait_for_their_deadline),
        T(test_timers_move_both_ways),
        T(test_timers_restarted_for_now_wait_for_the_next_run),
        T(test_timers_stopped_by_a_due_one_do_not_run),
        T(test_timers_moved_while_due_run_at_the_new_time),
        T(test_timers_grow_while_due_ones_run),
        T(test_timers_stay_as_they_were_without_memory),
        T(test_timers_agree_with_a_plain_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
