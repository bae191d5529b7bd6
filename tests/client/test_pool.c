/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: that both sides see the same memory, which files are refused, and what an
 * unanswered or late answer leaves behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/client/fixture.h"

static void test_pool_is_shared_and_sealed(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct fake_seen seen = fake_daemon_expect(fixture.fake, KVF_MSG_POOL_REGISTER, 0);
    assert_true(seen.has_fd);
    assert_int_equal(seen.length, FIXTURE_BYTES);
    assert_int_equal(kvf_pool_length(fixture.pool), FIXTURE_BYTES);
    int fd = fake_daemon_take_fd(fixture.fake);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
                     F_SEAL_SHRINK | F_SEAL_GROW);
    uint8_t *theirs =
        mmap(NULL, FIXTURE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(theirs, MAP_FAILED);
    uint8_t *ours = kvf_pool_base(fixture.pool);
    theirs[FIXTURE_BYTES - 1] = 0x5a;
    assert_int_equal(ours[FIXTURE_BYTES - 1], 0x5a);
    assert_int_equal(munmap(theirs, FIXTURE_BYTES), 0);
    assert_int_equal(close(fd), 0);
    fixture_close(&fixture);
}

static int make_memfd(size_t length, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_pool_takes_a_part_of_the_callers_file(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    int fd = make_memfd(FIXTURE_BYTES + 4096, F_SEAL_SHRINK | F_SEAL_GROW);
    assert_int_equal(pwrite(fd, "x", 1, 4096), 1);
    struct kvf_pool_config config = fixture_pool_config(1);
    config.fd = fd;
    config.offset = 4096;
    struct kvf_pool *pool = NULL;
    assert_int_equal(kvf_pool_register(fixture.engine, &config, 0, &pool), KVF_OK);
    assert_int_equal(fake_daemon_expect(fixture.fake, KVF_MSG_POOL_REGISTER, 1).offset,
                     4096);
    assert_int_equal(*(const char *)kvf_pool_base(pool), 'x');
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still the caller's */
    assert_int_equal(close(fd), 0);
    fixture_close(&fixture);
}

static void expect_refusal(struct fixture *fixture, const struct kvf_pool_config *config,
                           enum kvf_status status)
{
    struct kvf_pool *pool = NULL;
    assert_int_equal(kvf_pool_register(fixture->engine, config, 0, &pool), status);
    assert_null(pool);
    assert_string_not_equal(kvf_engine_detail(fixture->engine), "");
}

static void test_pool_refuses_unsealed_and_short_files(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_pool_config config = fixture_pool_config(1);
    config.fd = make_memfd(FIXTURE_BYTES, F_SEAL_GROW);
    expect_refusal(&fixture, &config, KVF_POOL_UNSEALED);
    assert_int_equal(close(config.fd), 0);
    config.fd = make_memfd(FIXTURE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
    config.offset = 4096;
    expect_refusal(&fixture, &config, KVF_BAD_REF);
    config.offset = 1;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT);
    assert_int_equal(close(config.fd), 0);
    config.offset = 0;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT); /* closed */
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_POOL_REGISTER), 1);
    fixture_close(&fixture);
}

static void test_pool_refuses_what_it_cannot_compute_with(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct kvf_pool_config config = fixture_pool_config(1);
    struct kvf_layout layout = *config.layout;
    config.layout = &layout;
    layout.tokens_per_block = 0;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT);
    layout.tokens_per_block = 16;
    layout.layer_offsets = NULL;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT);
    config.layout = NULL;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT);
    config = fixture_pool_config(1);
    config.memory = KVF_MEMORY_CUDA;
    expect_refusal(&fixture, &config, KVF_NOT_SHAREABLE);
    config = fixture_pool_config(1);
    config.length = 0;
    expect_refusal(&fixture, &config, KVF_INVALID_ARGUMENT);
    fixture_close(&fixture);
}

static void test_pool_refusal_of_the_daemon_is_passed_on(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct fake_config refuses = {.pool_status = KVF_LAYOUT_MISMATCH};
    fake_daemon_configure(fixture.fake, &refuses);
    struct kvf_pool_config config = fixture_pool_config(1);
    expect_refusal(&fixture, &config, KVF_LAYOUT_MISMATCH);
    assert_string_equal(kvf_engine_detail(fixture.engine), "as the test wants");
    fixture_close(&fixture);
}

static void test_pool_withdraws_what_was_not_answered_in_time(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct fake_config ignores = {.ignores_pools = true};
    fake_daemon_configure(fixture.fake, &ignores);
    struct kvf_pool_config config = fixture_pool_config(1);
    struct kvf_pool *pool = NULL;
    assert_int_equal(kvf_pool_register(fixture.engine, &config, 30, &pool),
                     KVF_TIMED_OUT);
    assert_null(pool);
    struct fake_seen asked = fake_daemon_expect(fixture.fake, KVF_MSG_POOL_REGISTER, 1);
    assert_int_equal(fake_daemon_expect(fixture.fake, KVF_MSG_POOL_UNREGISTER, 0).pool_id,
                     asked.pool_id);
    /* The late answer belongs to nobody: the next registration waits for its own. */
    struct fake_config behaves = {.greeting = FAKE_GREETS};
    fake_daemon_configure(fixture.fake, &behaves);
    const struct kvf_message late = {
        .type = KVF_MSG_POOL_REGISTERED,
        .u.pool_answer = {.pool_id = asked.pool_id, .status = KVF_BUSY, .detail = ""}};
    fake_daemon_send(fixture.fake, &late);
    assert_int_equal(kvf_pool_register(fixture.engine, &config, 0, &pool), KVF_OK);
    fixture_close(&fixture);
}

static void test_pool_keeps_events_that_come_while_it_waits(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE, KVF_OK);
    struct kvf_pool_config config = fixture_pool_config(1);
    struct kvf_pool *pool = NULL;
    assert_int_equal(kvf_pool_register(fixture.engine, &config, 0, &pool), KVF_OK);
    assert_true(fixture_is_readable(&fixture, 0));
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(event.handle, handle);
    assert_int_equal(event.bits, KVF_EVENT_DONE);
    fixture_close(&fixture);
}

static void test_pool_is_busy_until_reusable_was_read(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    uint64_t handle = fixture_send(&fixture, 1);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_BUSY);
    (void)fake_daemon_expect(fixture.fake, KVF_MSG_OFFER, 0);
    fake_daemon_event(fixture.fake, handle, KVF_EVENT_DONE | KVF_EVENT_REUSABLE, KVF_OK);
    struct kvf_event event;
    fixture_poll(&fixture, &event, 1);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_OK);
    assert_int_equal(fake_daemon_count(fixture.fake, KVF_MSG_POOL_UNREGISTER), 1);
    struct kvf_send_args args = fixture_send_args(2);
    uint8_t params[4096];
    size_t n = sizeof(params);
    assert_int_equal(kvf_send_async(fixture.engine, &args, params, &n, &handle),
                     KVF_BAD_REF); /* its group is gone */
    fixture_close(&fixture);
}

static void test_pool_stays_when_the_daemon_will_not_let_go(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(NULL);
    struct fake_config busy = {.pool_status = KVF_BUSY};
    fake_daemon_configure(fixture.fake, &busy);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_BUSY);
    memset(kvf_pool_base(fixture.pool), 1, FIXTURE_BYTES); /* still mapped */
    struct fake_config forgot = {.pool_status = KVF_NOT_FOUND};
    fake_daemon_configure(fixture.fake, &forgot);
    assert_int_equal(kvf_pool_unregister(fixture.pool, 0), KVF_OK);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_is_shared_and_sealed),
        cmocka_unit_test(test_pool_takes_a_part_of_the_callers_file),
        cmocka_unit_test(test_pool_refuses_unsealed_and_short_files),
        cmocka_unit_test(test_pool_refuses_what_it_cannot_compute_with),
        cmocka_unit_test(test_pool_refusal_of_the_daemon_is_passed_on),
        cmocka_unit_test(test_pool_withdraws_what_was_not_answered_in_time),
        cmocka_unit_test(test_pool_keeps_events_that_come_while_it_waits),
        cmocka_unit_test(test_pool_is_busy_until_reusable_was_read),
        cmocka_unit_test(test_pool_stays_when_the_daemon_will_not_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
