/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer process is killed: whatever was under way with it ends, once, within a bound,
 * and the endpoint is reported lost also when it was idle. The argument is a transport as
 * in test_transport. Children are forked before anything else, because UCX does not
 * survive a fork; each waits for its test to name a role.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport_rig.h"

#define N_CHILDREN 3u
#define N_CHUNKS   16u

enum role { ROLE_HOLD = 'h', ROLE_LAND = 'l', ROLE_SEND = 's' };

/* How to reach a side, as it crosses the socket. */
struct contact {
    uint8_t blob[KVF_DATA_BLOB_MAX];
    size_t n;
    uint8_t token[KVF_DATA_TOKEN_BYTES];
};

struct child {
    pid_t pid;
    int fd;
};
static struct child children[N_CHILDREN];
static size_t n_children_used;

static void put(int fd, const void *bytes, size_t n)
{
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
}

static void take(int fd, void *bytes, size_t n)
{
    assert_int_equal(recv(fd, bytes, n, MSG_WAITALL), n);
}

static void put_contact(int fd, struct rig_side *side)
{
    struct contact contact = {.n = sizeof(contact.blob)};
    assert_int_equal(
        side->transport->ops->blob(side->transport, contact.blob, &contact.n), KVF_OK);
    memcpy(contact.token, side->token, sizeof(contact.token));
    put(fd, &contact, sizeof(contact));
}

/* Connects side to the process at the other end; `peer` stands for it in the rig. */
static void connect_contact(int fd, struct rig_side *side, struct rig_side *peer)
{
    struct contact contact;
    take(fd, &contact, sizeof(contact));
    memcpy(peer->token, contact.token, sizeof(contact.token));
    assert_int_equal(side->transport->ops->connect(side->transport, contact.blob,
                                                   contact.n, NULL, peer->token, side,
                                                   &side->endpoint),
                     KVF_OK);
}

/* In turn over all places: sent is not received, so none is used again soon. */
static void send_forever(struct rig *rig)
{
    for (uint32_t next = 0;; kvf_loop_turn(rig->loop, KVF_NS_PER_MS)) {
        while (rig_under_way(rig) < N_CHUNKS) {
            (void)rig_post(&rig->a, &rig->b, next % RIG_CHUNKS, RIG_CHUNK_BYTES, 16,
                           next);
            next++;
        }
    }
}

/* Lives until it is killed, or its test's end closes the socket before it has a role. */
static void run_child(int fd)
{
    char role;
    if (recv(fd, &role, 1, 0) != 1) {
        _exit(0);
    }
    struct rig *rig = rig_create();
    rig_open_side(rig, &rig->a);
    rig->a.policy = role == ROLE_HOLD ? RIG_HOLD : RIG_LAND;
    put_contact(fd, &rig->a);
    connect_contact(fd, &rig->a, &rig->b);
    if (role == ROLE_SEND) {
        send_forever(rig);
    }
    for (;;) {
        kvf_loop_turn(rig->loop, KVF_NS_PER_MS);
    }
}

static bool fork_children(void)
{
    for (size_t i = 0; i < N_CHILDREN; i++) {
        int fds[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
            return false;
        }
        children[i].pid = fork();
        if (children[i].pid < 0) {
            return false;
        }
        if (children[i].pid == 0) {
            (void)close(fds[0]);
            run_child(fds[1]);
        }
        (void)close(fds[1]);
        children[i].fd = fds[0];
    }
    return true;
}

static void kill_children(void)
{
    for (size_t i = 0; i < N_CHILDREN; i++) {
        if (children[i].pid > 0) {
            (void)kill(children[i].pid, SIGKILL);
            (void)waitpid(children[i].pid, NULL, 0);
            (void)close(children[i].fd);
        }
    }
}

/* Side a is ours; b stands for the child. */
static struct child *start_child(struct rig *rig, enum role role)
{
    struct child *child = &children[n_children_used++];
    const char byte = (char)role;
    put(child->fd, &byte, 1);
    rig_open_side(rig, &rig->a);
    put_contact(child->fd, &rig->a);
    connect_contact(child->fd, &rig->a, &rig->b);
    return child;
}

static void kill_child(struct child *child)
{
    assert_int_equal(kill(child->pid, SIGKILL), 0);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    child->pid = 0;
    (void)close(child->fd);
}

static void finish(struct rig *rig)
{
    void *state = rig;
    (void)rig_teardown(&state);
}

static bool is_lost_and_idle(struct rig *rig)
{
    return rig->a.n_endpoints_lost == 1 && rig_is_idle(rig);
}

static void test_death_of_a_receiver_ends_what_was_posted(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct child *child = start_child(rig, ROLE_HOLD);
    for (uint32_t i = 0; i < N_CHUNKS; i++) {
        assert_int_equal(rig_post(&rig->a, &rig->b, i, RIG_CHUNK_BYTES, 16, i), KVF_OK);
    }
    rig_run_for_ms(rig, 100);
    assert_false(rig_is_idle(rig));
    kill_child(child);
    assert_true(rig_run_until(rig, is_lost_and_idle));
    for (uint32_t i = 0; i < N_CHUNKS; i++) {
        assert_int_equal(rig->a.sends[i].n_done, 1);
    }
    assert_int_equal(rig->a.sends[N_CHUNKS - 1].status, KVF_DATA_PATH);
    finish(rig);
}

static bool is_sent(struct rig *rig)
{
    return rig->a.sends[0].n_done == 1;
}

static void test_death_of_an_idle_peer_is_noticed(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct child *child = start_child(rig, ROLE_LAND);
    assert_int_equal(rig_post(&rig->a, &rig->b, 0, 1000, 1, 1), KVF_OK);
    assert_true(rig_run_until(rig, is_sent));
    kill_child(child);
    assert_true(rig_run_until(rig, is_lost_and_idle));
    finish(rig);
}

static bool is_receiving(struct rig *rig)
{
    return rig->a.n_arrived > 3 && !rig_is_idle(rig);
}

static void test_death_of_a_sender_ends_what_was_received(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct child *child = start_child(rig, ROLE_SEND);
    assert_true(rig_run_until(rig, is_receiving));
    kill_child(child);
    assert_true(rig_run_until(rig, is_lost_and_idle));
    rig_poison(&rig->a);
    rig_run_for_ms(rig, 200);
    assert_true(rig_is_poisoned(&rig->a));
    finish(rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death_of_a_receiver_ends_what_was_posted),
        cmocka_unit_test(test_death_of_an_idle_peer_is_noticed),
        cmocka_unit_test(test_death_of_a_sender_ends_what_was_received),
    };
    const char *kind = argc > 1 ? argv[1] : "tcp";
    rig_choose(kind);
    if (!fork_children()) {
        return 1;
    }
    int failed = 77;
    if (rig_select(kind)) {
        failed = cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    } else {
        (void)fprintf(stderr, "skipped: %s cannot run here\n", kind);
    }
    kill_children();
    return failed;
}
