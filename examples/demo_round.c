/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of one round: two daemons with the files of deploy/, two engines. What
 * differs from a real deployment (ports, sockets, layers, the transport) is said through
 * the environment, as an operator would.
 */
#include "examples/demo.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/demo_http.h"
#include "examples/pattern.h"

#define PORT_FIRST      20000u /* below those that outgoing connections take */
#define PORT_LAST       31000u
#define PORTS           24u /* per side: control, observe, 10 for data */
#define PORTS_PER_SIDE  12u
#define PORT_TRIES      200u
#define READY_LIMIT_NS  (20 * DEMO_NS_PER_S)
#define ENGINE_GRACE_MS 5000u
#define DAEMON_GRACE_MS 15000u
#define STEP_MS         20
#define HTTP_LIMIT_MS   2000u

static const char *const node_names[] = {"prefill-0", "decode-0"};
static const char *const engine_names[] = {"prefill-engine", "decode-engine"};

/* ---- ports and environment */

static bool is_port_free(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free =
        fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_free;
}

static bool choose_ports(struct demo_round *round)
{
    uint64_t random = demo_now_ns();
    for (uint32_t i = 0; i < PORT_TRIES; i++) {
        random = pattern_key(random, (uint64_t)getpid());
        uint32_t first = PORT_FIRST + (uint32_t)(random % (PORT_LAST - PORT_FIRST));
        uint32_t n_free = 0;
        while (n_free < PORTS && is_port_free((uint16_t)(first + n_free))) {
            n_free++;
        }
        if (n_free == PORTS) {
            round->first_port = (uint16_t)first;
            return true;
        }
    }
    (void)fprintf(stderr, "demo: no %u free ports in a row\n", PORTS);
    return false;
}

static uint32_t observe_port(const struct demo_round *round, enum demo_side side)
{
    return round->first_port + (uint32_t)side * PORTS_PER_SIDE + 1;
}

static bool export(const char *name, const char *side, uint32_t first, uint32_t last)
{
    char variable[64], value[32];
    (void)snprintf(variable, sizeof(variable), "KVFERRY_%s_%s", side, name);
    if (first == last) {
        (void)snprintf(value, sizeof(value), "%" PRIu32, first);
    } else {
        (void)snprintf(value, sizeof(value), "%" PRIu32 "-%" PRIu32, first, last);
    }
    return setenv(variable, value, 1) == 0;
}

static bool export_all(const struct demo_round *round)
{
    static const char *const names[] = {"PREFILL", "DECODE"};
    /* The two daemons stand for two nodes, which share no memory that UCX could take. */
    bool is_good = setenv("UCX_TLS", "tcp", 0) == 0 &&
                   setenv("KVFERRY_RUN", round->directory, 1) == 0 &&
                   setenv("KVFERRY_DATA__PREFER", round->transport, 1) == 0 &&
                   setenv("KVFERRY_DATA__REQUIRE", round->transport, 1) == 0 &&
                   demo_plan_export(round->plan);
    for (uint32_t i = 0; i < DEMO_SIDES && is_good; i++) {
        uint32_t port = round->first_port + i * PORTS_PER_SIDE;
        is_good = export("CONTROL_PORT", names[i], port, port) &&
                  export("OBSERVE_PORT", names[i], port + 1, port + 1) &&
                  export("DATA_PORTS", names[i], port + 2, port + PORTS_PER_SIDE - 1);
    }
    return is_good;
}

/* ---- daemons */

void demo_round_admin_path(const struct demo_round *round, enum demo_side side,
                           char out_path[DEMO_FILE_MAX])
{
    (void)snprintf(out_path, DEMO_FILE_MAX, "%.200s/%s-admin.sock", round->directory,
                   node_names[side]);
}

static bool start_daemon(struct demo_round *round, enum demo_side side)
{
    char program[2 * DEMO_FILE_MAX], config[2 * DEMO_FILE_MAX];
    char flag[] = "--config";
    (void)snprintf(program, sizeof(program), "%s/kvferryd", round->options->bin);
    (void)snprintf(config, sizeof(config), "%s/%s.yaml", round->options->deploy,
                   node_names[side]);
    char *arguments[] = {program, flag, config, NULL};
    struct process_config process = {.name = node_names[side],
                                     .directory = round->directory,
                                     .arguments = arguments,
                                     .is_to_stay = round->options->wants_keep};
    return process_start(&round->daemons[side], &process);
}

/* Ready, and connected to the other one. */
static bool is_daemon_up(const struct demo_round *round, enum demo_side side)
{
    static struct http_answer answer;
    char path[DEMO_FILE_MAX];
    demo_round_admin_path(round, side, path);
    if (!http_call(path, "GET", "/v1/status", HTTP_LIMIT_MS, &answer) ||
        answer.status != 200) {
        return false;
    }
    json_t *status = json_loads(answer.body, 0, NULL);
    const char *state = "", *peer = "";
    bool is_up = json_unpack(status, "{s:s, s:[{s:s}]}", "state", &state, "peers",
                             "state", &peer) == 0 &&
                 strcmp(state, "ready") == 0 && strcmp(peer, "up") == 0;
    json_decref(status);
    return is_up;
}

static bool await_daemons(struct demo_round *round)
{
    uint64_t limit_ns = demo_now_ns() + READY_LIMIT_NS;
    while (demo_now_ns() < limit_ns) {
        bool are_up = true;
        for (int side = 0; side < DEMO_SIDES; side++) {
            if (!process_is_running(&round->daemons[side])) {
                (void)fprintf(stderr, "demo: %s did not start\n", node_names[side]);
                return false;
            }
            are_up = are_up && is_daemon_up(round, (enum demo_side)side);
        }
        if (are_up) {
            return true;
        }
        if (!demo_router_pump(round, STEP_MS)) {
            return false;
        }
    }
    (void)fprintf(stderr, "demo: the daemons did not find each other\n");
    return false;
}

/* ---- engines */

static bool start_engine(struct demo_round *round, enum demo_side side)
{
    char program[2 * DEMO_FILE_MAX], socket_path[2 * DEMO_FILE_MAX], seed[24];
    char shapes[DEMO_SHAPES_MAX][SHAPE_TEXT_MAX];
    char role_flag[] = "--role", socket_flag[] = "--socket", seed_flag[] = "--seed";
    char shape_flag[] = "--shape", reuse_flag[] = "--reuse";
    char roles[DEMO_SIDES][8] = {"prefill", "decode"};
    (void)snprintf(program, sizeof(program), "%s/engine", round->options->bin);
    if (access(program, X_OK) != 0) {
        (void)snprintf(program, sizeof(program), "%s/../examples/engine",
                       round->options->bin); /* a build tree */
    }
    (void)snprintf(socket_path, sizeof(socket_path), "%s/%s-engine.sock",
                   round->directory, node_names[side]);
    (void)snprintf(seed, sizeof(seed), "%" PRIu64, round->options->seed + (uint64_t)side);
    char *arguments[10 + 2 * DEMO_SHAPES_MAX] = {
        program, role_flag, roles[side], socket_flag, socket_path, seed_flag, seed};
    size_t n = 7;
    for (size_t i = 0; i < round->plan->n_shapes; i++) {
        shape_format(&round->plan->shapes[i], shapes[i]);
        arguments[n++] = shape_flag;
        arguments[n++] = shapes[i];
    }
    if (round->plan->is_trace && side == DEMO_DECODE) {
        arguments[n++] = reuse_flag;
    }
    struct process_config process = {.name = engine_names[side],
                                     .directory = round->directory,
                                     .arguments = arguments,
                                     .has_pipes = true};
    struct process *engine = &round->engines[side];
    return process_start(engine, &process) &&
           channel_init(&round->channels[side], engine->out_fd, engine->in_fd);
}

/* ---- round */

static bool make_directory(struct demo_round *round)
{
    const char *parent = getenv("TMPDIR");
    int n = snprintf(round->directory, sizeof(round->directory), "%s/kvferry-demo-XXXXXX",
                     parent != NULL ? parent : "/tmp");
    if (n < 0 || n > 60 || mkdtemp(round->directory) == NULL) { /* sockets: 107 bytes */
        (void)fprintf(stderr, "demo: cannot make a folder like %s: %s\n",
                      round->directory, n > 60 ? "too long a path" : strerror(errno));
        round->directory[0] = '\0';
        return false;
    }
    return true;
}

bool demo_round_start(struct demo_round *round)
{
    for (int side = 0; side < DEMO_SIDES; side++) {
        round->daemons[side] = (struct process){.in_fd = -1, .out_fd = -1};
        round->engines[side] = (struct process){.in_fd = -1, .out_fd = -1};
    }
    size_t n_bytes = round->plan->n_jobs * sizeof(*round->jobs);
    round->jobs = malloc(n_bytes);
    if (round->jobs == NULL || !make_directory(round) || !choose_ports(round) ||
        !export_all(round)) {
        return false;
    }
    memcpy(round->jobs, round->plan->jobs, n_bytes);
    return start_daemon(round, DEMO_PREFILL) && start_daemon(round, DEMO_DECODE) &&
           await_daemons(round) && start_engine(round, DEMO_PREFILL) &&
           start_engine(round, DEMO_DECODE) && demo_router_await_ready(round);
}

static void remove_directory(const char *directory)
{
    DIR *listing = opendir(directory);
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; a DIR of our own */
    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(listing), entry->d_name, 0); /* rmdir says the rest */
        }
    }
    if (listing != NULL) {
        (void)closedir(listing);
    }
    if (rmdir(directory) != 0) {
        (void)fprintf(stderr, "demo: %s stays: %s\n", directory, strerror(errno));
    }
}

static void print_kept(const struct demo_round *round)
{
    (void)printf("The daemons stay up, their files are in %s:\n", round->directory);
    for (int side = 0; side < DEMO_SIDES; side++) {
        char path[DEMO_FILE_MAX];
        demo_round_admin_path(round, (enum demo_side)side, path);
        (void)printf("  %-9s http://127.0.0.1:%" PRIu32 "/metrics\n"
                     "            curl --unix-socket %s http://localhost/v1/status\n",
                     node_names[side], observe_port(round, (enum demo_side)side), path);
    }
    (void)printf("Stop them with: kill %d %d && rm -r %s\n",
                 (int)round->daemons[DEMO_PREFILL].pid,
                 (int)round->daemons[DEMO_DECODE].pid, round->directory);
}

static bool stop_processes(struct demo_round *round, bool has_failed, bool keeps_daemons)
{
    bool is_good = true;
    for (int side = 0; side < DEMO_SIDES; side++) {
        /* An engine ends by itself when its stdin does, if it is not stuck. */
        is_good = process_stop(&round->engines[side], has_failed ? SIGTERM : 0,
                               ENGINE_GRACE_MS) &&
                  is_good;
        channel_fini(&round->channels[side]);
    }
    for (int side = 0; side < DEMO_SIDES; side++) {
        if (keeps_daemons) {
            process_leave(&round->daemons[side]);
        } else {
            is_good =
                process_stop(&round->daemons[side], SIGTERM, DAEMON_GRACE_MS) && is_good;
        }
    }
    return is_good;
}

bool demo_round_stop(struct demo_round *round, bool has_failed)
{
    bool keeps_daemons = round->options->wants_keep && !has_failed;
    if (keeps_daemons) {
        print_kept(round);
    }
    bool is_good = stop_processes(round, has_failed, keeps_daemons) && !has_failed;
    if (!is_good && !round->is_interrupted) {
        for (int side = 0; side < DEMO_SIDES; side++) {
            process_print_log_tail(&round->daemons[side]);
            process_print_log_tail(&round->engines[side]);
        }
        (void)fprintf(stderr, "demo: the whole logs are in %s\n", round->directory);
    } else if (!keeps_daemons && round->directory[0] != '\0') {
        remove_directory(round->directory);
    }
    return is_good;
}

void demo_round_fini(struct demo_round *round)
{
    free(round->jobs);
    round->jobs = NULL;
}
