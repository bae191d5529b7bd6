/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of service/transport.h, the same tests for every implementation: the
 * program's argument is "tcp", "ucx-tcp" or "ucx-shm". Real sockets and shared memory on
 * loopback, both ends in this process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "transport_rig.h"

static bool has_arrival(struct rig *rig)
{
    return rig->b.n_arrived > 0;
}

static bool is_endpoint_lost(struct rig *rig)
{
    return rig->a.n_endpoints_lost > 0 && rig_is_idle(rig);
}

static bool is_one_receiving(struct rig *rig)
{
    for (size_t i = 0; i < RIG_CHUNKS; i++) {
        if (rig->b.receives[i].is_under_way) {
            return true;
        }
    }
    return false;
}

static void transfer_one(struct rig *rig, uint32_t length, uint32_t n_spans,
                         uint64_t seed)
{
    rig->b.receives[0].n_done = 0;
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, length, n_spans, seed), KVF_OK);
    size_t before = rig->b.n_arrived;
    while (rig->b.n_arrived == before || !rig_is_idle(rig)) {
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
    assert_int_equal(rig->a.sends[0].n_done, 1);
    assert_int_equal(rig->b.receives[0].n_done, 1);
    assert_int_equal(rig->a.sends[0].status, KVF_OK);
    assert_int_equal(rig->b.receives[0].status, KVF_OK);
    assert_true(rig_holds(&rig->b, 0, length, seed));
}

static void test_payload_arrives_whatever_its_size_and_spans(void **state)
{
    struct rig *rig = *state;
    static const uint32_t lengths[] = {1,      2,      71,     72,      1000,
                                       4096,   8191,   16384,  65537,   262144,
                                       262145, 524287, 786433, 1048575, 1048576};
    static const uint32_t spans[] = {1, 2, 3, 16, 63, 64};
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < sizeof(spans) / sizeof(spans[0]); k++) {
            transfer_one(rig, lengths[i], spans[k], seed++);
        }
    }
}

static void test_header_arrives_as_it_was_sent(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_HOLD;
    assert_int_equal(rig_post(&rig->a, &rig->b, 5, 100, 1, 77), KVF_OK);
    assert_true(rig_run_until(rig, has_arrival));
    const struct kvf_chunk_header *sent = &rig->a.sends[5].op.header;
    const struct kvf_chunk_header *got = &rig->b.held[0].header;
    assert_int_equal(got->receiver_session, sent->receiver_session);
    assert_int_equal(got->offset, sent->offset);
    assert_int_equal(got->length, sent->length);
    assert_int_equal(rig_land(&rig->b, 0), KVF_OK);
    assert_true(rig_run_until(rig, rig_is_idle));
}

static void test_dropped_chunk_does_not_disturb_the_next(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_DROP;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, 600000, 7, i), KVF_OK);
    }
    while (rig->b.n_arrived < 8 || !rig_is_idle(rig)) {
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(rig->a.sends[i].n_done, 1);
    }
    rig->b.policy = RIG_LAND;
    transfer_one(rig, 123456, 5, 99);
}

static void test_answer_may_come_late(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_HOLD;
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, RIG_CHUNK_BYTES, 16, 3), KVF_OK);
    assert_true(rig_run_until(rig, has_arrival));
    rig_run_for_ms(rig, 20);
    assert_int_equal(rig->b.n_held, 1);
    assert_int_equal(rig_land(&rig->b, 0), KVF_OK);
    assert_true(rig_run_until(rig, rig_is_idle));
    assert_int_equal(rig->b.receives[0].status, KVF_OK);
    assert_true(rig_holds(&rig->b, 0, RIG_CHUNK_BYTES, 3));
}

static void test_both_directions_at_once(void **state)
{
    struct rig *rig = *state;
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, 900001, 9, i), KVF_OK);
        assert_int_equal(rig_post(&rig->b, &rig->a, 32 + i, 900001, 9, i + 100), KVF_OK);
    }
    while (rig->a.n_arrived < 16 || rig->b.n_arrived < 16 || !rig_is_idle(rig)) {
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
    for (uint32_t i = 0; i < 16; i++) {
        assert_true(rig_holds(&rig->b, i, 900001, i));
        assert_true(rig_holds(&rig->a, 32 + i, 900001, i + 100));
    }
}

static void post_many(struct rig *rig)
{
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, RIG_CHUNK_BYTES, 32, i), KVF_OK);
    }
}

static void check_ended_once(const struct rig_side *side, bool is_sender)
{
    for (uint32_t i = 0; i < 32; i++) {
        const struct rig_chunk *chunk = is_sender ? &side->sends[i] : &side->receives[i];
        assert_false(chunk->is_under_way);
        assert_in_range(chunk->n_done, is_sender ? 1 : 0, 1);
    }
}

/* Nothing may be written after the last completion. */
static void check_nothing_lands(struct rig *rig)
{
    rig_poison(&rig->b);
    rig_run_for_ms(rig, 200);
    assert_true(rig_is_poisoned(&rig->b));
}

static void test_disconnect_of_the_sender_ends_everything_once(void **state)
{
    struct rig *rig = *state;
    post_many(rig);
    assert_true(rig_run_until(rig, is_one_receiving));
    rig->a.transport->ops->disconnect(rig->a.endpoint);
    rig->a.endpoint = NULL;
    assert_true(rig_run_until(rig, rig_is_idle));
    check_ended_once(&rig->a, true);
    check_ended_once(&rig->b, false);
    check_nothing_lands(rig);
    check_ended_once(&rig->a, true);
    assert_int_equal(rig->a.n_endpoints_lost, 0);
}

/* The receiver's way out: its endpoint to the peer (ucx: both directions are one), and
 * the token under which the peer came (tcp). */
static void revoke(struct rig_side *side)
{
    side->transport->ops->disconnect(side->endpoint);
    side->endpoint = NULL;
    side->transport->ops->token_remove(side->transport, side->token);
}

static void test_receiver_revokes_chunks_under_way(void **state)
{
    struct rig *rig = *state;
    transfer_one(rig, 1000, 1, 1);
    post_many(rig);
    assert_true(rig_run_until(rig, is_one_receiving));
    rig->b.policy = RIG_DROP;
    revoke(&rig->b);
    assert_true(rig_run_until(rig, is_endpoint_lost));
    assert_int_equal(rig->a.lost_status, KVF_DATA_PATH);
    check_ended_once(&rig->a, true);
    check_ended_once(&rig->b, false);
    check_nothing_lands(rig);
    assert_int_equal(rig_post(&rig->a, &rig->b, 40, 100, 1, 5), KVF_DATA_PATH);
}

static void test_new_endpoint_works_after_a_revocation(void **state)
{
    struct rig *rig = *state;
    post_many(rig);
    assert_true(rig_run_until(rig, is_one_receiving));
    revoke(&rig->b);
    assert_true(rig_run_until(rig, is_endpoint_lost));
    rig->a.transport->ops->disconnect(rig->a.endpoint);
    assert_int_equal(rig->b.transport->ops->token_add(rig->b.transport, rig->b.token),
                     KVF_OK);
    rig_connect(&rig->a, &rig->b);
    rig_connect(&rig->b, &rig->a);
    rig_run_for_ms(rig, 20);
    transfer_one(rig, 500000, 20, 9);
}

static bool is_an_arrival_lost(struct rig *rig)
{
    return rig->b.n_arrivals_lost > 0 && rig->b.n_held == 0;
}

static void test_unanswered_arrivals_are_lost_with_their_sender(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_HOLD;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, 300000, 4, i), KVF_OK);
    }
    assert_true(rig_run_until(rig, has_arrival));
    rig->a.transport->ops->disconnect(rig->a.endpoint);
    rig->a.endpoint = NULL;
    assert_true(rig_run_until(rig, is_an_arrival_lost));
    assert_true(rig_run_until(rig, rig_is_idle));
}

static void test_removed_token_loses_its_arrivals(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_HOLD;
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, 300000, 4, 0), KVF_OK);
    assert_true(rig_run_until(rig, has_arrival));
    rig->b.transport->ops->token_remove(rig->b.transport, rig->b.token);
    assert_int_equal(rig->b.n_arrivals_lost, 0); /* not inside the call */
    assert_true(rig_run_until(rig, is_an_arrival_lost));
    assert_int_equal(rig->b.n_arrivals_lost, 1);
}

static void test_lost_arrival_may_still_be_answered(void **state)
{
    struct rig *rig = *state;
    rig->b.policy = RIG_HOLD;
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, 300000, 4, 0), KVF_OK);
    assert_true(rig_run_until(rig, has_arrival));
    rig->b.transport->ops->token_remove(rig->b.transport, rig->b.token);
    assert_int_equal(rig_land(&rig->b, 0), KVF_DATA_PATH);
    rig_run_for_ms(rig, 20);
    assert_int_equal(rig->b.n_arrivals_lost, 0);
    assert_int_equal(rig->b.receives[0].n_done, 0);
}

static void test_endpoint_is_lost_when_the_peer_closes(void **state)
{
    struct rig *rig = *state;
    if (rig_is_shm()) {
        skip(); /* UCX asks whether the peer's process lives, and it is this one */
    }
    transfer_one(rig, 1000, 1, 1);
    rig_close_side(&rig->b);
    assert_true(rig_run_until(rig, is_endpoint_lost));
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, 100, 1, 5), KVF_DATA_PATH);
    rig_run_for_ms(rig, 20);
    assert_int_equal(rig->a.n_endpoints_lost, 1);
}

static void post_if_free(struct rig *rig, uint32_t place, uint64_t *posted)
{
    if (rig->a.sends[place].is_under_way || rig->b.receives[place].is_under_way ||
        *posted >= 2000) {
        return;
    }
    uint32_t length = 1 + (uint32_t)kvf_rng_below(&rig->rng, 100000);
    uint32_t n_spans = 1 + (uint32_t)kvf_rng_below(&rig->rng, KVF_SPANS_MAX);
    assert_int_equal(rig_post(&rig->a, &rig->b, place, length, n_spans, (*posted)++),
                     KVF_OK);
}

/* Answers held arrivals now or later, or drops them; counts what was dropped. */
static void answer_some(struct rig *rig, uint64_t *dropped)
{
    for (size_t i = 0; i < RIG_KEPT_MAX; i++) {
        uint64_t dice = kvf_rng_below(&rig->rng, 10);
        struct kvf_arrival *arrival = rig->b.held[i].arrival;
        if (arrival == NULL || dice > 7) {
            continue;
        }
        if (dice == 0) {
            rig->b.held[i].arrival = NULL;
            rig->b.n_held--;
            rig->b.transport->ops->drop(arrival);
            *dropped += 1;
        } else {
            assert_int_equal(rig_land(&rig->b, i), KVF_OK);
        }
    }
}

static void check_landed(struct rig *rig, uint32_t place, uint64_t *landed)
{
    struct rig_chunk *chunk = &rig->b.receives[place];
    if (chunk->n_done == 1) {
        assert_int_equal(chunk->status, KVF_OK);
        assert_true(
            rig_holds(&rig->b, place, chunk->op.header.length, chunk->op.header.offset));
        chunk->n_done = 0;
        *landed += 1;
    }
}

static void test_two_thousand_chunks_land_or_are_dropped(void **state)
{
    struct rig *rig = *state;
    uint64_t posted = 0, dropped = 0, landed = 0;
    rig->b.policy = RIG_HOLD;
    for (uint32_t turn = 0; landed + dropped < 2000; turn++) {
        assert_in_range(turn, 0, 200000);
        for (uint32_t place = 0; place < 8; place++) {
            check_landed(rig, place, &landed);
            bool is_waiting = false; /* the place belongs to an unanswered arrival */
            for (size_t i = 0; i < RIG_KEPT_MAX; i++) {
                is_waiting |= rig->b.held[i].arrival != NULL &&
                              rig->b.held[i].header.receiver_session == place;
            }
            /* Sent is not received: only an answered place is free again. */
            if (!is_waiting && posted - landed - dropped < 8) {
                post_if_free(rig, place, &posted);
            }
        }
        answer_some(rig, &dropped);
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS / 10);
    }
    assert_true(landed > 1000 && dropped > 50);
}

static void test_steady_state_does_not_allocate(void **state)
{
    struct rig *rig = *state;
    for (uint64_t i = 0; i < 20; i++) {
        transfer_one(rig, 200000, 16, i);
    }
    uint64_t before = kvf_alloc_count();
    for (uint64_t i = 0; i < 100; i++) {
        transfer_one(rig, 200000, 16, i);
    }
    assert_int_equal(kvf_alloc_count(), before);
}

static void test_open_survives_every_failing_allocation(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    const struct kvf_transport_config config = {
        .loop = rig->loop, .config = &rig->config, .max_kept = 4};
    struct kvf_transport *transport = NULL;
    enum kvf_status status = KVF_NO_MEMORY;
    for (uint64_t nth = 1; status == KVF_NO_MEMORY; nth++) {
        assert_null(transport);
        assert_in_range(nth, 1, 20);
        kvf_alloc_fail_nth(nth);
        status = rig->ops->open(&config, &transport);
    }
    kvf_alloc_fail_nth(0);
    assert_int_equal(status, KVF_OK);
    rig->ops->close(transport);
    kvf_loop_destroy(rig->loop);
    kvf_free(rig);
}

static void test_contiguous_configuration_takes_back_direct(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    rig->config.data.force_contiguous = true;
    rig_open(rig);
    assert_false(rig->a.transport->ops->is_direct_send);
    assert_false(rig->a.transport->ops->is_direct_receive);
    transfer_one(rig, RIG_CHUNK_BYTES, 1, 4);
    void *owned = rig;
    (void)rig_teardown(&owned);
}

static void test_transport_says_what_it_is(void **state)
{
    struct rig *rig = *state;
    transfer_one(rig, 100000, 4, 1);
    const char *lane = rig->a.transport->ops->lane(rig->a.endpoint);
    assert_true(strcmp(lane, "tcp") == 0 || strcmp(lane, "posix") == 0 ||
                strcmp(lane, "sysv") == 0);
    assert_true(rig->a.transport->ops->is_direct_send);
    assert_true(rig->a.transport->ops->is_direct_receive);
    assert_string_not_equal(rig->a.transport->ops->version(rig->a.transport), "");
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_payload_arrives_whatever_its_size_and_spans),
        RIG_TEST(test_header_arrives_as_it_was_sent),
        RIG_TEST(test_dropped_chunk_does_not_disturb_the_next),
        RIG_TEST(test_answer_may_come_late),
        RIG_TEST(test_both_directions_at_once),
        RIG_TEST(test_disconnect_of_the_sender_ends_everything_once),
        RIG_TEST(test_receiver_revokes_chunks_under_way),
        RIG_TEST(test_new_endpoint_works_after_a_revocation),
        RIG_TEST(test_unanswered_arrivals_are_lost_with_their_sender),
        RIG_TEST(test_removed_token_loses_its_arrivals),
        RIG_TEST(test_lost_arrival_may_still_be_answered),
        RIG_TEST(test_endpoint_is_lost_when_the_peer_closes),
        RIG_TEST(test_two_thousand_chunks_land_or_are_dropped),
        RIG_TEST(test_steady_state_does_not_allocate),
        cmocka_unit_test(test_open_survives_every_failing_allocation),
        cmocka_unit_test(test_contiguous_configuration_takes_back_direct),
        RIG_TEST(test_transport_says_what_it_is),
    };
    const char *kind = argc > 1 ? argv[1] : "tcp";
    if (!rig_select(kind)) {
        (void)fprintf(stderr, "skipped: %s cannot run here\n", kind);
        return 77;
    }
    return cmocka_run_group_tests_name(kind, tests, NULL, NULL);
}
