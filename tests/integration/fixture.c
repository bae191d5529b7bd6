/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Daemon processes: configuration, start, readiness, stop, log. The child dies with the
 * test program (PDEATHSIG), so a failing test leaves nothing behind but its directory.
 */
#include "tests/integration/fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define POLL_MS 2

uint64_t fixture_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

bool fixture_pause_until(uint64_t deadline_ms)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    (void)nanosleep(&pause, NULL);
    return fixture_now_ms() < deadline_ms;
}

void fixture_node_path(const struct fixture_node *node, const char *file, char *out)
{
    (void)snprintf(out, FIXTURE_PATH_BYTES, "%.64s/%.28s", node->dir, file);
}

void fixture_read_file(const char *path, char *out, size_t max)
{
    size_t n = 0;
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        n = fread(out, 1, max - 1, file);
        (void)fclose(file);
    }
    out[n] = '\0';
}

/* ---- configuration */

static void write_instance(FILE *out, const char *name, const char *role,
                           const char *node, bool is_small)
{
    (void)fprintf(out,
                  "  - name: %s\n    role: %s\n    layers: %d\n    kv_heads: %d\n"
                  "    head_size: %d\n    tokens_per_block: 32\n    node: %s\n",
                  name, role, is_small ? 1 : 2, is_small ? 1 : 2, is_small ? 32 : 64,
                  node);
}

static void write_config(const struct fixture_node *node, const struct fixture_node *peer,
                         const struct fixture_options *options)
{
    char path[FIXTURE_PATH_BYTES];
    fixture_node_path(node, "kvferryd.yaml", path);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    (void)fprintf(out,
                  "node:\n  name: %s\n"
                  "control:\n  listen: 127.0.0.1:%u\n  reconnect_max: 200ms\n"
                  "data:\n  listen: 127.0.0.1:%u-%u\n  prefer: [%s]\n  require: [%s]\n"
                  "  arena: 16MiB\n  copy_workers: 1\n  force_contiguous: %s\n"
                  "engine:\n  listen: unix:%s/engine.sock\n"
                  "observe:\n  listen: 127.0.0.1:%u\n"
                  "admin:\n  listen: unix:%s/admin.sock\n"
                  "shutdown:\n  grace: 2s\n",
                  node->name, node->control_port, node->data_port, node->data_port_last,
                  options->transport, options->transport,
                  options->force_contiguous ? "true" : "false", node->dir,
                  node->observe_port, node->dir);
    if (options->timings != NULL) {
        (void)fprintf(out, "timings:\n  dir: %s/timings\n  format: %s\n", node->dir,
                      options->timings);
    }
    (void)fprintf(out, "peers:\n  - name: %s\n    address: 127.0.0.1:%u\ninstances:\n",
                  peer->name, peer->control_port);
    write_instance(out, "ctx", "context", "a", false);
    write_instance(out, "gen", "generation", "b", false);
    write_instance(out, "gen-near", "generation", "a", false);
    write_instance(out, "ctx-small", "context", "a", true);
    write_instance(out, "gen-small", "generation", "b", true);
    assert_int_equal(fclose(out), 0);
}

/* ---- processes */

static void exec_daemon(const char *config, const char *log)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        _exit(126);
    }
    (void)execl(KVF_DAEMON_PATH, "kvferryd", "--config", config, (char *)NULL);
    _exit(127);
}

void fixture_node_start(struct fixture_node *node)
{
    char config[FIXTURE_PATH_BYTES], log[FIXTURE_PATH_BYTES];
    fixture_node_path(node, "kvferryd.yaml", config);
    fixture_node_path(node, "log", log);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        exec_daemon(config, log);
    }
    node->pid = pid;
}

bool fixture_node_is_alive(const struct fixture_node *node)
{
    siginfo_t info = {.si_pid = 0};
    return node->pid > 0 &&
           waitid(P_PID, (id_t)node->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

int fixture_node_stop(struct fixture_node *node, int signal_number)
{
    int status = -1;
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    assert_true(node->pid > 0);
    (void)kill(node->pid, signal_number);
    while (waitpid(node->pid, &status, WNOHANG) == 0) {
        if (!fixture_pause_until(deadline_ms)) {
            (void)kill(node->pid, SIGKILL);
            (void)waitpid(node->pid, &status, 0);
        }
    }
    node->pid = 0;
    return status;
}

static void show_log(const struct fixture_node *node)
{
    static char text[FIXTURE_TEXT_BYTES];
    char path[FIXTURE_PATH_BYTES];
    fixture_node_path(node, "log", path);
    fixture_read_file(path, text, sizeof(text));
    (void)fprintf(stderr, "log of node %s:\n%s\n", node->name, text);
}

void fixture_node_wait_ready(const struct fixture_node *node)
{
    static char text[FIXTURE_TEXT_BYTES];
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    do {
        if (fixture_observe_get(node, "/readyz?verbose", text, sizeof(text)) == 200 &&
            strstr(text, "[!]") == NULL) {
            return;
        }
    } while (fixture_node_is_alive(node) && fixture_pause_until(deadline_ms));
    show_log(node);
    fail_msg("node %s is not ready: %s", node->name, text);
}

bool fixture_log_has(const struct fixture_node *node, const char *text)
{
    static char log[16 * FIXTURE_TEXT_BYTES];
    char path[FIXTURE_PATH_BYTES];
    uint64_t deadline_ms = fixture_now_ms() + FIXTURE_WAIT_MS;
    fixture_node_path(node, "log", path);
    do {
        fixture_read_file(path, log, sizeof(log));
        if (strstr(log, text) != NULL) {
            return true;
        }
    } while (fixture_pause_until(deadline_ms));
    return false;
}

/* ---- a pair of nodes */

static void node_init(struct fixture_node *node, const char *name)
{
    *node = (struct fixture_node){.name = name};
    (void)snprintf(node->dir, sizeof(node->dir), "/tmp/kvferry-test-XXXXXX");
    assert_non_null(mkdtemp(node->dir));
    node->control_port = fixture_free_ports(0);
    node->observe_port = fixture_free_ports(0);
    node->data_port = fixture_free_ports(3);
    node->data_port_last = (uint16_t)(node->data_port + 3);
}

static void remove_files(const char *dir)
{
    DIR *entries = opendir(dir);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        (void)unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
    (void)rmdir(dir);
}

/* A daemon leaves with 0 when asked to; a sanitizer's finding is not lost with its log.
 */
static bool stop_cleanly(struct fixture_node *node)
{
    static char text[FIXTURE_TEXT_BYTES];
    char path[FIXTURE_PATH_BYTES];
    int status = fixture_node_stop(node, SIGTERM);
    fixture_node_path(node, "log", path);
    fixture_read_file(path, text, sizeof(text));
    bool is_clean = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                    strstr(text, "runtime error:") == NULL;
    if (!is_clean) {
        (void)fprintf(stderr, "node %s ended with wait status %d\n", node->name, status);
        show_log(node);
    }
    return is_clean;
}

/* Whether the daemon, if it still ran, left as it should. */
static bool node_fini(struct fixture_node *node)
{
    static const char *const folders[] = {"timings/ctx", "timings/gen", "timings", "."};
    char path[FIXTURE_PATH_BYTES];
    bool is_clean = node->pid <= 0 || stop_cleanly(node);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        fixture_node_path(node, folders[i], path);
        remove_files(path);
    }
    (void)rmdir(node->dir);
    return is_clean;
}

void fixture_init(struct fixture *fixture, const struct fixture_options *options)
{
    *fixture = (struct fixture){.options = *options};
    node_init(&fixture->a, "a");
    node_init(&fixture->b, "b");
    write_config(&fixture->a, &fixture->b, options);
    write_config(&fixture->b, &fixture->a, options);
    fixture_node_start(&fixture->a);
    fixture_node_start(&fixture->b);
    fixture_node_wait_ready(&fixture->a);
    fixture_node_wait_ready(&fixture->b);
}

void fixture_fini(struct fixture *fixture)
{
    bool is_a_clean = node_fini(&fixture->a);
    bool is_b_clean = node_fini(&fixture->b);
    assert_true(is_a_clean && is_b_clean);
}
