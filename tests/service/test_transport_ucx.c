/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What only the ucx transport promises: blobs are sealed, kept announcements are capped,
 * and nothing listens on a network that is not trusted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "transport_rig.h"

static enum kvf_status connect_to(struct rig *rig, const uint8_t *blob, size_t n)
{
    struct kvf_endpoint *endpoint = NULL;
    enum kvf_status status = rig->a.transport->ops->connect(
        rig->a.transport, blob, n, NULL, rig->b.token, &rig->a, &endpoint);
    if (status == KVF_OK) {
        rig->a.transport->ops->disconnect(endpoint);
    }
    return status;
}

/* UCX itself would crash on most of these. */
static void test_ucx_refuses_damaged_blobs(void **state)
{
    struct rig *rig = *state;
    uint8_t blob[KVF_DATA_BLOB_MAX];
    size_t n = sizeof(blob);
    assert_int_equal(rig->b.transport->ops->blob(rig->b.transport, blob, &n), KVF_OK);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        blob[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(connect_to(rig, blob, n), KVF_PROTOCOL);
        blob[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    for (size_t length = 0; length < n; length++) {
        assert_int_equal(connect_to(rig, blob, length), KVF_PROTOCOL);
    }
    assert_int_equal(connect_to(rig, blob, KVF_DATA_BLOB_MAX + 1), KVF_PROTOCOL);
    assert_int_equal(connect_to(rig, blob, n), KVF_OK);
}

static bool is_everything_announced(struct rig *rig)
{
    return rig->b.n_held == RIG_KEPT_MAX;
}

static void test_ucx_drops_announcements_beyond_its_limit(void **state)
{
    struct rig *rig = *state;
    const uint32_t n = RIG_KEPT_MAX + 10;
    rig->b.policy = RIG_HOLD;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, 20000, 3, i), KVF_OK);
    }
    assert_true(rig_run_until(rig, is_everything_announced));
    rig_run_for_ms(rig, 50);
    assert_int_equal(rig->b.n_arrived, RIG_KEPT_MAX);
    for (size_t i = 0; i < RIG_KEPT_MAX; i++) {
        assert_int_equal(rig_land(&rig->b, i), KVF_OK);
    }
    assert_true(rig_run_until(rig, rig_is_idle));
    uint32_t n_landed = 0;
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(rig->a.sends[i].status, KVF_OK); /* sent is not received */
        n_landed += rig->b.receives[i].n_done == 1 && rig_holds(&rig->b, i, 20000, i);
    }
    assert_int_equal(n_landed, RIG_KEPT_MAX);
}

static void test_ucx_needs_a_trusted_network_beyond_loopback(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    strcpy(rig->config.data.listen.host, "0.0.0.0");
    const struct kvf_transport_config config = {
        .loop = rig->loop, .config = &rig->config, .max_kept = 4};
    struct kvf_transport *transport = NULL;
    assert_int_equal(kvf_transport_ucx.open(&config, &transport), KVF_TRANSPORT_REFUSED);
    assert_null(transport);
    void *owned = rig;
    (void)rig_teardown(&owned);
}

#define RIG_TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(test_ucx_refuses_damaged_blobs),
        RIG_TEST(test_ucx_drops_announcements_beyond_its_limit),
        cmocka_unit_test(test_ucx_needs_a_trusted_network_beyond_loopback),
    };
    if (!rig_select("ucx-tcp")) {
        (void)fprintf(stderr, "skipped: UCX over TCP cannot run here\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
