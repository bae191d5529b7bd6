/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: order of the phases of a turn, removal from inside callbacks, spinning and
 * sleeping, wake-ups, signals. Time is a fake clock except where sleeping itself is
 * tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"

#define LONG_NS (20 * KVF_NS_PER_S)

struct fake_clock {
    struct kvf_clock clock; /* first: see fake_now_ns */
    uint64_t now_ns;
};

static uint64_t fake_now_ns(const struct kvf_clock *clock)
{
    return ((const struct fake_clock *)(const void *)clock)->now_ns;
}

static const struct kvf_clock_ops fake_ops = {.now_ns = fake_now_ns,
                                              .wall_ns = fake_now_ns};

struct fixture {
    struct fake_clock clock;
    struct kvf_loop *loop;
    int pipes[2][2];
    char trace[64]; /* one letter per callback */
};

static struct kvf_loop *new_loop(const struct kvf_clock *clock, uint64_t spin_ns)
{
    struct kvf_loop_config config = {.clock = clock, .spin_ns = spin_ns};
    struct kvf_loop *loop = NULL;
    assert_int_equal(kvf_loop_create(&config, &loop), KVF_OK);
    return loop;
}

static int setup_with(void **state, bool is_fake)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    assert_non_null(f);
    f->clock = (struct fake_clock){.clock = {.ops = &fake_ops}, .now_ns = 1000};
    f->loop = new_loop(is_fake ? &f->clock.clock : &kvf_clock_system, 50 * KVF_NS_PER_US);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe2(f->pipes[i], O_CLOEXEC | O_NONBLOCK), 0);
    }
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, true);
}

static int setup_real(void **state)
{
    return setup_with(state, false);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        if (f->pipes[i / 2][i % 2] >= 0) {
            assert_int_equal(close(f->pipes[i / 2][i % 2]), 0);
        }
    }
    kvf_loop_destroy(f->loop);
    kvf_free(f);
    return 0;
}

static void note(struct fixture *f, char letter)
{
    size_t n = strlen(f->trace);
    assert_true(n + 1 < sizeof(f->trace));
    f->trace[n] = letter;
}

static void expect_trace(struct fixture *f, const char *expected)
{
    assert_string_equal(f->trace, expected);
    memset(f->trace, 0, sizeof(f->trace));
}

static void make_readable(struct fixture *f, int i)
{
    assert_int_equal(write(f->pipes[i][1], "x", 1), 1);
}

static void turn(struct fixture *f)
{
    kvf_loop_turn(f->loop, 0);
}

static void timer_ran(void *owner)
{
    note(owner, 't');
}

static void io_ran(void *owner, uint32_t events)
{
    note(owner, (events & KVF_IO_HANGUP) != 0 ? 'h' : 'i');
}

static bool hook_ran(void *owner)
{
    note(owner, 'k');
    return false;
}

static void post_ran(void *owner, enum kvf_status status)
{
    note(owner, status == KVF_OK ? 'p' : 'e');
}

static void zombie_ran(void *owner)
{
    note(owner, 'z');
}

static void start_timer(struct fixture *f, struct kvf_timer *timer, uint64_t at_ns)
{
    assert_int_equal(kvf_loop_timer_start(f->loop, timer, at_ns, timer_ran, f), KVF_OK);
}

static void watch(struct fixture *f, struct kvf_io *io, int i, uint32_t events,
                  kvf_io_fn fn)
{
    assert_int_equal(kvf_loop_io_add(f->loop, io, f->pipes[i][0], events, fn, f), KVF_OK);
}

/* ---- the turn */

static void test_turn_runs_its_phases_in_order(void **state)
{
    struct fixture *f = *state;
    struct kvf_zombie zombie = {0};
    struct kvf_post post = {0};
    struct kvf_hook hook = {.progress = hook_ran, .owner = f};
    struct kvf_io io = {0};
    struct kvf_timer timer = {0};
    kvf_loop_destroy_later(f->loop, &zombie, zombie_ran, f);
    kvf_loop_post(f->loop, &post, post_ran, f, KVF_OK);
    kvf_loop_hook_add(f->loop, &hook);
    watch(f, &io, 0, KVF_IO_READ, io_ran);
    make_readable(f, 0);
    start_timer(f, &timer, 1000);
    turn(f);
    expect_trace(f, "tikpz");
    kvf_loop_hook_remove(&hook);
    kvf_loop_io_remove(&io);
}

static void test_turn_sees_one_instant(void **state)
{
    struct fixture *f = *state;
    f->clock.now_ns = 5000;
    turn(f);
    f->clock.now_ns = 6000;
    assert_int_equal(kvf_loop_now_ns(f->loop), 5000);
    assert_int_equal(kvf_loop_clock_ns(f->loop), 6000);
}

static void test_run_ends_after_the_turn_that_stopped_it(void **state)
{
    struct fixture *f = *state;
    struct kvf_post post = {0};
    kvf_loop_stop(f->loop);
    kvf_loop_run(f->loop); /* a stop before the start is not forgotten */
    kvf_loop_post(f->loop, &post, post_ran, f, KVF_OK);
    turn(f);
    expect_trace(f, "p");
}

static void test_create_fails_cleanly(void **state)
{
    struct fixture *f = *state;
    struct kvf_loop_config config = {.clock = &f->clock.clock};
    struct kvf_loop *loop = NULL;
    struct rlimit before;
    struct rlimit limit;
    kvf_alloc_fail_nth(1);
    assert_int_equal(kvf_loop_create(&config, &loop), KVF_NO_MEMORY);
    kvf_alloc_fail_nth(0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    enum kvf_status status = kvf_loop_create(&config, &loop);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, KVF_SYSTEM);
    assert_null(loop);
    kvf_loop_destroy(NULL);
}

/* ---- timers */

static void test_timer_runs_when_its_time_has_come(void **state)
{
    struct fixture *f = *state;
    struct kvf_timer timer = {0};
    start_timer(f, &timer, 2000);
    turn(f);
    expect_trace(f, "");
    f->clock.now_ns = 2000;
    turn(f);
    expect_trace(f, "t");
    turn(f);
    expect_trace(f, "");
}

static void test_timer_stopped_does_not_run(void **state)
{
    struct fixture *f = *state;
    struct kvf_timer timer = {0};
    kvf_loop_timer_stop(&timer);
    start_timer(f, &timer, 1000);
    kvf_loop_timer_stop(&timer);
    turn(f);
    expect_trace(f, "");
}

/* ---- completions */

struct chain {
    struct fixture *f;
    struct kvf_post post, other;
};

static void post_again(void *owner, enum kvf_status status)
{
    struct chain *chain = owner;
    post_ran(chain->f, status);
    kvf_loop_post(chain->f->loop, &chain->post, post_again, chain, KVF_OK);
}

static void test_post_from_a_completion_waits_for_the_next_turn(void **state)
{
    struct fixture *f = *state;
    struct chain chain = {.f = f};
    kvf_loop_post(f->loop, &chain.post, post_again, &chain, KVF_OK);
    turn(f);
    expect_trace(f, "p");
    turn(f);
    expect_trace(f, "p");
    kvf_loop_post_remove(&chain.post);
    turn(f);
    expect_trace(f, "");
}

static void remove_other(void *owner, enum kvf_status status)
{
    struct chain *chain = owner;
    post_ran(chain->f, status);
    kvf_loop_post_remove(&chain->other);
}

static void test_post_removed_by_an_earlier_one_is_not_delivered(void **state)
{
    struct fixture *f = *state;
    struct chain chain = {.f = f};
    struct kvf_post last = {0};
    kvf_loop_post(f->loop, &chain.post, remove_other, &chain, KVF_OK);
    kvf_loop_post(f->loop, &chain.other, post_ran, f, KVF_OK);
    kvf_loop_post(f->loop, &last, post_ran, f, KVF_BUSY);
    turn(f);
    expect_trace(f, "pe");
}

static void test_post_keeps_the_loop_from_sleeping(void **state)
{
    struct fixture *f = *state;
    struct kvf_post post = {0};
    struct kvf_loop_stats stats;
    kvf_loop_post(f->loop, &post, post_ran, f, KVF_OK);
    kvf_loop_turn(f->loop, LONG_NS);
    expect_trace(f, "p");
    kvf_loop_stats_get(f->loop, &stats);
    assert_int_equal(stats.n_sleeps, 0);
}

/* ---- destruction */

struct family {
    struct fixture *f;
    struct kvf_zombie parent, child;
};

static void destroy_family(void *object)
{
    struct family *family = object;
    note(family->f, 'P');
    kvf_loop_destroy_later(family->f->loop, &family->child, zombie_ran, family->f);
}

static void test_zombie_may_bury_another(void **state)
{
    struct fixture *f = *state;
    struct family family = {.f = f};
    kvf_loop_destroy_later(f->loop, &family.parent, destroy_family, &family);
    turn(f);
    expect_trace(f, "Pz");
}

static void test_loop_destroy_runs_waiting_zombies(void **state)
{
    struct fixture *f = *state;
    struct kvf_loop *loop = new_loop(&f->clock.clock, 0);
    struct kvf_zombie zombie = {0};
    kvf_loop_destroy_later(loop, &zombie, zombie_ran, f);
    kvf_loop_destroy(loop);
    expect_trace(f, "z");
}

/* ---- descriptors */

struct pair {
    struct fixture *f;
    struct kvf_io ios[2];
};

static void remove_both(void *owner, uint32_t events)
{
    struct pair *pair = owner;
    io_ran(pair->f, events);
    kvf_loop_io_remove(&pair->ios[0]);
    kvf_loop_io_remove(&pair->ios[1]);
}

static void silence_both(void *owner, uint32_t events)
{
    struct pair *pair = owner;
    io_ran(pair->f, events);
    kvf_loop_io_set(&pair->ios[0], 0);
    kvf_loop_io_set(&pair->ios[1], 0);
}

static void watch_pair(struct pair *pair, kvf_io_fn fn)
{
    for (int i = 0; i < 2; i++) {
        make_readable(pair->f, i);
        assert_int_equal(kvf_loop_io_add(pair->f->loop, &pair->ios[i],
                                         pair->f->pipes[i][0], KVF_IO_READ, fn, pair),
                         KVF_OK);
    }
}

static void test_io_removed_in_the_turn_gets_no_event(void **state)
{
    struct pair pair = {.f = *state};
    watch_pair(&pair, remove_both);
    turn(pair.f);
    expect_trace(pair.f, "i");
    turn(pair.f);
    expect_trace(pair.f, "");
}

static void test_io_silenced_in_the_turn_gets_no_event(void **state)
{
    struct pair pair = {.f = *state};
    watch_pair(&pair, silence_both);
    turn(pair.f);
    turn(pair.f);
    expect_trace(pair.f, "i");
    kvf_loop_io_remove(&pair.ios[0]);
    kvf_loop_io_remove(&pair.ios[1]);
}

static void test_io_is_level_triggered(void **state)
{
    struct fixture *f = *state;
    struct kvf_io io = {0};
    make_readable(f, 0);
    watch(f, &io, 0, KVF_IO_READ, io_ran);
    turn(f);
    turn(f);
    expect_trace(f, "ii");
    kvf_loop_io_set(&io, 0);
    turn(f);
    expect_trace(f, "");
    kvf_loop_io_set(&io, KVF_IO_READ);
    turn(f);
    expect_trace(f, "i");
    kvf_loop_io_remove(&io);
    kvf_loop_io_remove(&io); /* no-op when not added */
    turn(f);
    expect_trace(f, "");
}

static void test_io_reports_a_hangup_nobody_asked_for(void **state)
{
    struct fixture *f = *state;
    struct kvf_io io = {0};
    watch(f, &io, 0, 0, io_ran);
    turn(f);
    expect_trace(f, "");
    assert_int_equal(close(f->pipes[0][1]), 0);
    f->pipes[0][1] = -1;
    turn(f);
    expect_trace(f, "h");
    kvf_loop_io_remove(&io);
}

static void test_io_add_refuses_a_regular_file(void **state)
{
    struct fixture *f = *state;
    struct kvf_io io = {0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(kvf_loop_io_add(f->loop, &io, fd, KVF_IO_READ, io_ran, f),
                     KVF_SYSTEM);
    assert_null(io.loop);
    assert_int_equal(close(fd), 0);
}

/* ---- hooks */

struct poller {
    struct fixture *f;
    struct kvf_hook hook;
    struct poller *victim; /* removed by progress */
    bool has_work, refuses_sleep;
    int n_asked;
};

static bool poller_progress(void *owner)
{
    struct poller *poller = owner;
    note(poller->f, 'k');
    if (poller->victim != NULL) {
        kvf_loop_hook_remove(&poller->victim->hook);
    }
    return poller->has_work;
}

static bool poller_prepare(void *owner)
{
    struct poller *poller = owner;
    poller->n_asked++;
    return !poller->refuses_sleep;
}

static void add_poller(struct fixture *f, struct poller *poller)
{
    poller->f = f;
    poller->hook = (struct kvf_hook){
        .progress = poller_progress, .prepare_sleep = poller_prepare, .owner = poller};
    kvf_loop_hook_add(f->loop, &poller->hook);
}

static void test_hook_may_remove_itself_and_its_successor(void **state)
{
    struct fixture *f = *state;
    struct poller pollers[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        add_poller(f, &pollers[i]);
    }
    pollers[0].victim = &pollers[1];
    turn(f);
    expect_trace(f, "kk");
    pollers[0].victim = &pollers[0];
    turn(f);
    expect_trace(f, "kk");
    turn(f);
    expect_trace(f, "k");
    kvf_loop_hook_remove(&pollers[2].hook);
    turn(f);
    expect_trace(f, "");
}

static uint64_t n_sleeps(const struct fixture *f)
{
    struct kvf_loop_stats stats;
    kvf_loop_stats_get(f->loop, &stats);
    return stats.n_sleeps;
}

static void test_hook_that_refuses_keeps_the_loop_awake(void **state)
{
    struct fixture *f = *state;
    struct poller poller = {.refuses_sleep = true};
    add_poller(f, &poller);
    kvf_loop_turn(f->loop, LONG_NS);
    assert_int_equal(poller.n_asked, 1);
    assert_int_equal(n_sleeps(f), 0);
    poller.refuses_sleep = false;
    kvf_loop_turn(f->loop, 1);
    assert_int_equal(n_sleeps(f), 1);
    kvf_loop_hook_remove(&poller.hook);
}

static void test_loop_spins_after_progress_before_it_asks_to_sleep(void **state)
{
    struct fixture *f = *state;
    struct poller poller = {.has_work = true};
    add_poller(f, &poller);
    turn(f);
    poller.has_work = false;
    f->clock.now_ns += 49 * KVF_NS_PER_US;
    kvf_loop_turn(f->loop, LONG_NS);
    assert_int_equal(poller.n_asked, 0);
    assert_int_equal(n_sleeps(f), 0);
    f->clock.now_ns += KVF_NS_PER_US;
    kvf_loop_turn(f->loop, 1);
    assert_int_equal(poller.n_asked, 1);
    assert_int_equal(n_sleeps(f), 1);
    kvf_loop_hook_remove(&poller.hook);
}

/* ---- sleeping and waking, on the system's clock */

static void stop_loop(void *owner)
{
    struct fixture *f = owner;
    kvf_loop_stop(f->loop);
}

static void test_sleep_ends_at_the_timer_and_costs_no_turns(void **state)
{
    struct fixture *f = *state;
    struct kvf_timer timer = {0};
    struct kvf_loop_stats stats;
    uint64_t start_ns = kvf_loop_clock_ns(f->loop);
    uint64_t deadline_ns = start_ns + 20 * KVF_NS_PER_MS + 300 * KVF_NS_PER_US;
    assert_int_equal(kvf_loop_timer_start(f->loop, &timer, deadline_ns, stop_loop, f),
                     KVF_OK);
    kvf_loop_run(f->loop);
    assert_true(kvf_loop_now_ns(f->loop) >= deadline_ns);
    kvf_loop_stats_get(f->loop, &stats);
    assert_true(stats.n_turns <= 3);
    assert_true(stats.n_sleeps >= 1);
}

static void *wake_thread(void *argument)
{
    kvf_loop_wake(argument);
    return NULL;
}

static void test_wake_from_another_thread_ends_a_sleep(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        uint64_t start_ns = kvf_loop_clock_ns(f->loop);
        assert_int_equal(pthread_create(&thread, NULL, wake_thread, f->loop), 0);
        kvf_loop_turn(f->loop, LONG_NS);
        assert_true(kvf_loop_clock_ns(f->loop) - start_ns < LONG_NS);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void test_wake_before_the_sleep_is_not_lost(void **state)
{
    struct fixture *f = *state;
    uint64_t start_ns = kvf_loop_clock_ns(f->loop);
    kvf_loop_wake(f->loop);
    kvf_loop_wake(f->loop);
    kvf_loop_turn(f->loop, LONG_NS);
    assert_true(kvf_loop_clock_ns(f->loop) - start_ns < LONG_NS);
    kvf_loop_turn(f->loop, KVF_NS_PER_MS); /* one turn answers both */
    assert_true(kvf_loop_clock_ns(f->loop) - start_ns >= KVF_NS_PER_MS);
}

/* From here on this process gets `error` from epoll_pwait2. */
static bool deny_pwait2(unsigned int error)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(rules) / sizeof(rules[0]),
                                 .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* In a child of its own, since a filter stays; the exit status is the verdict. */
static void sleep_without_pwait2(struct fixture *f, unsigned int error)
{
    struct kvf_timer timer = {0};
    struct kvf_loop_stats stats;
    uint64_t deadline_ns = kvf_loop_clock_ns(f->loop) + 3 * KVF_NS_PER_MS + 1;
    if (!deny_pwait2(error)) {
        _exit(77);
    }
    if (kvf_loop_timer_start(f->loop, &timer, deadline_ns, stop_loop, f) != KVF_OK) {
        _exit(1);
    }
    kvf_loop_run(f->loop);
    kvf_loop_stats_get(f->loop, &stats);
    _exit(kvf_loop_now_ns(f->loop) >= deadline_ns && stats.n_turns <= 3 ? 0 : 2);
}

static void test_sleep_without_epoll_pwait2(void **state)
{
    const unsigned int errors[] = {ENOSYS, EPERM};
    for (int i = 0; i < 2; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            sleep_without_pwait2(*state, errors[i]);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77) {
            skip(); /* a system without seccomp */
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* ---- signals */

static void signal_ran(void *owner, int signo)
{
    note(owner, signo == SIGUSR1 ? '1' : '2');
}

static void test_signals_arrive_as_callbacks(void **state)
{
    struct fixture *f = *state;
    const int signos[] = {SIGUSR1, SIGUSR2};
    assert_int_equal(kvf_loop_signals_open(f->loop, signos, 2, signal_ran, f), KVF_OK);
    assert_int_equal(kvf_loop_signals_open(f->loop, signos, 2, signal_ran, f),
                     KVF_DUPLICATE);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    turn(f);
    expect_trace(f, "12"); /* the kernel hands out the lower number first */
}

static void test_signals_open_refuses_a_number_that_is_none(void **state)
{
    struct fixture *f = *state;
    const int signos[] = {SIGUSR1, 4711};
    assert_int_equal(kvf_loop_signals_open(f->loop, signos, 2, signal_ran, f),
                     KVF_INVALID_ARGUMENT);
}

/* ---- numbers */

static void take_60_us(void *owner, enum kvf_status status)
{
    struct fixture *f = owner;
    post_ran(f, status);
    f->clock.now_ns += 60 * KVF_NS_PER_US;
}

static void test_stats_sort_turns_by_length(void **state)
{
    struct fixture *f = *state;
    struct kvf_post post = {0};
    struct kvf_loop_stats stats;
    turn(f);
    kvf_loop_post(f->loop, &post, take_60_us, f, KVF_OK);
    turn(f);
    kvf_loop_stats_get(f->loop, &stats);
    assert_int_equal(stats.n_turns, 2);
    assert_int_equal(stats.turn_buckets[0], 1); /* up to 10 us */
    assert_int_equal(stats.turn_buckets[2], 1); /* up to 160 us */
    assert_int_equal(stats.last_turn_ns, 60 * KVF_NS_PER_US);
    assert_int_equal(stats.busy_ns, 60 * KVF_NS_PER_US);
}

static void test_steady_state_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    struct kvf_timer timer = {0};
    struct kvf_post post = {0};
    struct kvf_io io = {0};
    start_timer(f, &timer, 1000);
    turn(f);
    uint64_t n_before = kvf_alloc_count();
    for (int i = 0; i < 20; i++) {
        memset(f->trace, 0, sizeof(f->trace));
        start_timer(f, &timer, 1000);
        kvf_loop_post(f->loop, &post, post_ran, f, KVF_OK);
        watch(f, &io, 0, KVF_IO_READ, io_ran);
        turn(f);
        kvf_loop_io_remove(&io);
        expect_trace(f, "tp");
    }
    assert_int_equal(kvf_alloc_count(), n_before);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define R(name) cmocka_unit_test_setup_teardown(name, setup_real, teardown)
    const struct CMUnitTest tests[] = {
        T(test_turn_runs_its_phases_in_order),
        T(test_turn_sees_one_instant),
        T(test_run_ends_after_the_turn_that_stopped_it),
        T(test_create_fails_cleanly),
        T(test_timer_runs_when_its_time_has_come),
        T(test_timer_stopped_does_not_run),
        T(test_post_from_a_completion_waits_for_the_next_turn),
        T(test_post_removed_by_an_earlier_one_is_not_delivered),
        T(test_post_keeps_the_loop_from_sleeping),
        T(test_zombie_may_bury_another),
        T(test_loop_destroy_runs_waiting_zombies),
        T(test_io_removed_in_the_turn_gets_no_event),
        T(test_io_silenced_in_the_turn_gets_no_event),
        T(test_io_is_level_triggered),
        T(test_io_reports_a_hangup_nobody_asked_for),
        T(test_io_add_refuses_a_regular_file),
        T(test_hook_may_remove_itself_and_its_successor),
        T(test_hook_that_refuses_keeps_the_loop_awake),
        T(test_loop_spins_after_progress_before_it_asks_to_sleep),
        R(test_sleep_ends_at_the_timer_and_costs_no_turns),
        R(test_wake_from_another_thread_ends_a_sleep),
        R(test_wake_before_the_sleep_is_not_lost),
        R(test_sleep_without_epoll_pwait2),
        T(test_signals_arrive_as_callbacks),
        T(test_signals_open_refuses_a_number_that_is_none),
        T(test_stats_sort_turns_by_length),
        T(test_steady_state_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
