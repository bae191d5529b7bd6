/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resolver thread. "127.1" stands for a name: our own parser does not take it as
 * numeric, but getaddrinfo resolves it without a network. Only what needs the thread's
 * answer waits for real time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/resolver.h"
#include "net_support.h"

#define N_MANY     64 /* lookups that may wait */
#define TURN_NS    (10 * KVF_NS_PER_MS)
#define TURNS_MAX  2000
#define TIMEOUT_MS 20000

struct question {
    struct kvf_lookup lookup;
    int n_done;
    enum kvf_status status;
};

struct fixture {
    struct kvf_loop *loop;
    struct kvf_resolver *resolver;
    struct question questions[N_MANY + 1];
    int n_fds_before;
};

static int setup(void **state)
{
    struct fixture *f = kvf_alloc(sizeof(*f));
    struct kvf_loop_config config = {.clock = &kvf_clock_system};
    assert_non_null(f);
    f->n_fds_before = net_count_fds();
    assert_int_equal(kvf_loop_create(&config, &f->loop), KVF_OK);
    assert_int_equal(kvf_resolver_create_system(f->loop, &f->resolver), KVF_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    f->resolver->ops->destroy(f->resolver);
    kvf_loop_destroy(f->loop);
    assert_int_equal(net_count_fds(), f->n_fds_before);
    kvf_free(f);
    return 0;
}

static void done(void *owner, enum kvf_status status)
{
    struct question *question = owner;
    question->n_done++;
    question->status = status;
}

static struct kvf_address name(const char *host, uint16_t port)
{
    struct kvf_address address = {.port = port, .port_last = port};
    assert_true(strlen(host) < sizeof(address.host));
    memcpy(address.host, host, strlen(host) + 1);
    return address;
}

static void ask(struct fixture *f, int i, const char *host, uint32_t timeout_ms)
{
    struct kvf_address address = name(host, 7470);
    struct question *question = &f->questions[i];
    f->resolver->ops->lookup(f->resolver, &address, timeout_ms, &question->lookup, done,
                             question);
    assert_int_equal(question->n_done, 0); /* not inside the call */
}

static void expect_done(struct fixture *f, int i, enum kvf_status status)
{
    struct question *question = &f->questions[i];
    for (int turn = 0; turn < TURNS_MAX && question->n_done == 0; turn++) {
        kvf_loop_turn(f->loop, TURN_NS);
    }
    assert_int_equal(question->n_done, 1);
    assert_int_equal(question->status, status);
}

static void expect_result(const struct fixture *f, int i, const char *text)
{
    char out[KVF_ADDRESS_MAX];
    kvf_sockaddr_format(&f->questions[i].lookup.result, out, sizeof(out));
    assert_string_equal(out, text);
}

static void test_numeric_hosts_are_done_in_the_next_turn(void **state)
{
    struct fixture *f = *state;
    ask(f, 0, "10.1.2.3", TIMEOUT_MS);
    ask(f, 1, "localhost", TIMEOUT_MS);
    ask(f, 2, "::1", TIMEOUT_MS);
    kvf_loop_turn(f->loop, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->questions[i].n_done, 1);
        assert_int_equal(f->questions[i].status, KVF_OK);
    }
    expect_result(f, 0, "10.1.2.3:7470");
    expect_result(f, 1, "127.0.0.1:7470");
    expect_result(f, 2, "[::1]:7470");
}

static void test_names_are_answered_by_the_thread(void **state)
{
    struct fixture *f = *state;
    ask(f, 0, "127.1", TIMEOUT_MS);
    expect_done(f, 0, KVF_OK);
    expect_result(f, 0, "127.0.0.1:7470");
}

static void test_name_that_cannot_exist_is_unreachable(void **state)
{
    struct fixture *f = *state;
    char label[65]; /* one more than a label may have: answered without a query */
    memset(label, 'a', 64);
    label[64] = '\0';
    ask(f, 0, label, TIMEOUT_MS);
    expect_done(f, 0, KVF_PEER_UNREACHABLE);
}

static void test_lookup_expires_and_the_late_answer_is_dropped(void **state)
{
    struct fixture *f = *state;
    ask(f, 0, "127.1", 0); /* timers run before answers in a turn */
    expect_done(f, 0, KVF_EXPIRED);
    f->questions[0].n_done = 0;
    ask(f, 0, "127.2", TIMEOUT_MS); /* the first answer comes before this one */
    expect_done(f, 0, KVF_OK);
    expect_result(f, 0, "127.0.0.2:7470");
}

static void test_cancelled_lookup_is_never_done(void **state)
{
    struct fixture *f = *state;
    ask(f, 0, "127.1", TIMEOUT_MS);
    ask(f, 1, "127.0.0.1", TIMEOUT_MS);
    f->resolver->ops->cancel(f->resolver, &f->questions[0].lookup);
    f->resolver->ops->cancel(f->resolver, &f->questions[1].lookup);
    f->resolver->ops->cancel(f->resolver, &f->questions[2].lookup); /* never begun */
    ask(f, 3, "127.3", TIMEOUT_MS);
    expect_done(f, 3, KVF_OK);
    assert_int_equal(f->questions[0].n_done + f->questions[1].n_done, 0);
}

static void test_lookups_beyond_the_ceiling_are_busy(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i <= N_MANY; i++) {
        ask(f, i, "127.1", TIMEOUT_MS);
    }
    expect_done(f, N_MANY, KVF_BUSY);
    for (int i = 0; i < N_MANY; i++) {
        expect_done(f, i, KVF_OK);
    }
    f->questions[N_MANY].n_done = 0;
    ask(f, N_MANY, "127.1", TIMEOUT_MS); /* there is room again */
    expect_done(f, N_MANY, KVF_OK);
}

static void test_lookup_reports_want_of_memory(void **state)
{
    struct fixture *f = *state;
    for (int nth = 1; nth <= 2; nth++) { /* the ticket, the loop's first timer */
        f->questions[0].n_done = 0;
        kvf_alloc_fail_nth((uint64_t)nth);
        ask(f, 0, "127.1", TIMEOUT_MS);
        kvf_alloc_fail_nth(0);
        expect_done(f, 0, KVF_NO_MEMORY);
    }
}

static void test_destroy_does_not_wait_for_cancelled_lookups(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < N_MANY; i++) {
        ask(f, i, "127.1", TIMEOUT_MS);
        f->resolver->ops->cancel(f->resolver, &f->questions[i].lookup);
    }
    const struct kvf_resolver_ops *ops = f->resolver->ops;
    ops->destroy(NULL);
    /* The teardown destroys it with every ticket under way, and counts descriptors. */
}

static void test_create_fails_cleanly_without_memory(void **state)
{
    struct fixture *f = *state;
    struct kvf_resolver *other = NULL;
    int n_before = net_count_fds();
    for (uint64_t nth = 1; nth < 20; nth++) {
        kvf_alloc_fail_nth(nth);
        enum kvf_status status = kvf_resolver_create_system(f->loop, &other);
        kvf_alloc_fail_nth(0);
        if (status == KVF_OK) {
            break; /* there is no nth allocation */
        }
        assert_int_equal(status, KVF_NO_MEMORY);
        assert_null(other);
        assert_int_equal(net_count_fds(), n_before);
    }
    assert_non_null(other);
    other->ops->destroy(other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_numeric_hosts_are_done_in_the_next_turn),
        T(test_names_are_answered_by_the_thread),
        T(test_name_that_cannot_exist_is_unreachable),
        T(test_lookup_expires_and_the_late_answer_is_dropped),
        T(test_cancelled_lookup_is_never_done),
        T(test_lookups_beyond_the_ceiling_are_busy),
        T(test_lookup_reports_want_of_memory),
        T(test_destroy_does_not_wait_for_cancelled_lookups),
        T(test_create_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
