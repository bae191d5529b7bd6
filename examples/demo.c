/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvferry in one command: two daemons, two engines without a model, KV caches of real
 * shapes moved between them over each transport, every byte checked. This process is the
 * router in between and owns all others; they are gone when it is. The exit status is 0
 * only when everything was as the last line says.
 */
#include "examples/demo.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define DEFAULT_REQUESTS   12u
#define DEFAULT_POOL_BYTES (4ull << 30)
#define DEFAULT_MAX_BYTES  20000000000ull
#define REQUESTS_MAX       100000u
#define EXIT_INTERRUPTED   130

static void print_usage(FILE *out)
{
    (void)fputs(
        "usage: demo [OPTIONS]\n"
        "Starts two daemons and two engines, moves KV caches of three model shapes "
        "between\n"
        "them and checks every byte. Nothing is left behind.\n"
        "  --transport ucx|tcp|both  which data path, default both\n"
        "  --layers K                layers of each model, at most its own; default: "
        "what fits\n"
        "  --requests N              prompts per shape and transport, default 12\n"
        "  --trace FILE              replay a JSONL request trace instead "
        "(llama-3.1-8b)\n"
        "  --limit N                 only its first N requests\n"
        "  --speedup X               its clock runs X times as fast, default 1\n"
        "  --max-bytes SIZE          KV bytes of a trace and transport, default 20GB: "
        "sets\n"
        "                            the layers, and when given also ends the trace\n"
        "  --pool-bytes SIZE         memory of all pools together, default 4GiB\n"
        "  --seed N                  of block order, lengths and contents, default 1\n"
        "  --keep                    leave the daemons up and say how to reach them\n"
        "  --bin DIR                 where kvferryd is; default: beside this program\n"
        "  --deploy DIR              where prefill-0.yaml and decode-0.yaml are\n",
        out);
}

/* ---- options */

static bool parse_count(const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0 || *end != '\0' || value > max) {
        return false;
    }
    *out = value;
    return true;
}

static bool parse_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"MiB", 1ull << 20},
                 {"GiB", 1ull << 30}};
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno != 0 || value == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0 && value <= (1ull << 50) / units[i].bytes) {
            *out = value * units[i].bytes;
            return true;
        }
    }
    return false;
}

static bool parse_transport(const char *text, struct demo_options *options)
{
    options->wants_ucx = strcmp(text, "tcp") != 0;
    options->wants_tcp = strcmp(text, "ucx") != 0;
    return strcmp(text, "both") == 0 || !options->wants_ucx || !options->wants_tcp;
}

static bool parse_speedup(const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0.001 && value <= 1e9)) {
        return false;
    }
    *out = value;
    return true;
}

static bool parse_text(const char *text, char out[DEMO_FILE_MAX])
{
    int n = snprintf(out, DEMO_FILE_MAX, "%s", text);
    return n > 0 && n < DEMO_FILE_MAX;
}

static bool parse_small(const char *text, uint64_t max, uint32_t *out)
{
    uint64_t value;
    if (!parse_count(text, max, &value) || value == 0) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool apply_option(int option, const char *text, struct demo_options *options)
{
    switch (option) {
    case 't':
        return parse_transport(text, options);
    case 'k':
        return parse_small(text, SHAPE_LAYERS_MAX, &options->n_layers);
    case 'r':
        return parse_small(text, REQUESTS_MAX, &options->n_requests);
    case 'f':
        options->trace_file = text;
        return true;
    case 'l':
        return parse_count(text, SIZE_MAX, &options->limit) && options->limit > 0;
    case 'x':
        return parse_speedup(text, &options->speedup);
    case 'm':
        options->has_max_bytes = true;
        return parse_size(text, &options->max_bytes);
    case 'p':
        return parse_size(text, &options->pool_bytes);
    case 's':
        return parse_count(text, UINT64_MAX / 2, &options->seed);
    case 'K':
        options->wants_keep = true;
        return true;
    case 'b':
        return parse_text(text, options->bin);
    case 'd':
        return parse_text(text, options->deploy);
    default:
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct demo_options *options)
{
    static const struct option known[] = {
        {"transport", required_argument, NULL, 't'},
        {"layers", required_argument, NULL, 'k'},
        {"requests", required_argument, NULL, 'r'},
        {"trace", required_argument, NULL, 'f'},
        {"limit", required_argument, NULL, 'l'},
        {"speedup", required_argument, NULL, 'x'},
        {"max-bytes", required_argument, NULL, 'm'},
        {"pool-bytes", required_argument, NULL, 'p'},
        {"seed", required_argument, NULL, 's'},
        {"keep", no_argument, NULL, 'K'},
        {"bin", required_argument, NULL, 'b'},
        {"deploy", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option, index = 0;
    while ((option = getopt_long(argc, argv, "", known, &index)) != -1) {
        if (option == 'h') {
            print_usage(stdout);
            exit(EXIT_SUCCESS);
        }
        if (option == '?') {
            return false;
        }
        if (!apply_option(option, optarg, options)) {
            (void)fprintf(stderr, "demo: --%s cannot be '%s'\n", known[index].name,
                          optarg);
            return false;
        }
    }
    return optind == argc;
}

/* The first of the candidates, relative to base, that holds name. */
static bool find_folder(const char *base, const char *const *candidates, const char *name,
                        char out[DEMO_FILE_MAX])
{
    for (; *candidates != NULL; candidates++) {
        char path[3 * DEMO_FILE_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s/%s", base, *candidates, name);
        if (access(path, R_OK) == 0) {
            path[strlen(path) - strlen(name) - 1] = '\0';
            return parse_text(path, out);
        }
    }
    (void)fprintf(stderr, "demo: cannot find %s: say --bin or --deploy\n", name);
    return false;
}

static bool find_files(struct demo_options *options)
{
    static const char *const bins[] = {".", "../service", "../bin", NULL};
    static const char *const deploys[] = {"../../../deploy", "../../deploy",
                                          "../share/kvferry/deploy", NULL};
    char here[DEMO_FILE_MAX];
    ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
    if (n <= 0) {
        return false;
    }
    here[n] = '\0';
    *strrchr(here, '/') = '\0';
    return (options->bin[0] != '\0' ||
            find_folder(here, bins, "kvferryd", options->bin)) &&
           (options->deploy[0] != '\0' ||
            find_folder(here, deploys, "decode-0.yaml", options->deploy));
}

/* ---- rounds */

static bool move_all(struct demo_round *round, bool is_first)
{
    const struct demo_plan *plan = round->plan;
    if (is_first && !demo_cancel_one(round)) {
        return false;
    }
    size_t first = 0;
    while (first < plan->n_jobs) {
        size_t n = 1;
        while (first + n < plan->n_jobs &&
               plan->jobs[first + n].shape == plan->jobs[first].shape) {
            n++;
        }
        if (!demo_router_run(round, first, n)) {
            return false;
        }
        first += n;
    }
    return demo_router_audit(round);
}

static bool run_rounds(const struct demo_options *options, const struct demo_plan *plan,
                       int signal_fd, struct demo_round *rounds, size_t *out_n)
{
    const char *transports[DEMO_ROUNDS_MAX];
    size_t n = 0;
    if (options->wants_ucx) {
        transports[n++] = "ucx_tcp";
    }
    if (options->wants_tcp) {
        transports[n++] = "tcp";
    }
    bool is_good = true;
    for (size_t i = 0; i < n && is_good; i++) {
        struct demo_options round_options = *options;
        round_options.wants_keep = options->wants_keep && i + 1 == n;
        rounds[i] = (struct demo_round){.options = &round_options,
                                        .plan = plan,
                                        .transport = transports[i],
                                        .signal_fd = signal_fd};
        *out_n = i + 1;
        is_good = demo_round_start(&rounds[i]) && move_all(&rounds[i], i == 0);
        is_good = demo_round_stop(&rounds[i], !is_good) && is_good;
        rounds[i].options = options;
    }
    return is_good;
}

/* The last line is the verdict; it is printed as counted, also when something failed. */
static int judge(const struct demo_round *rounds, size_t n, bool is_good)
{
    uint64_t n_ok = 0, n_bytes = 0, n_wrong = 0, n_cancelled = 0, n_audited = 0;
    bool is_interrupted = false;
    for (size_t i = 0; i < n; i++) {
        n_ok += rounds[i].n_ok;
        n_bytes += rounds[i].n_verified_bytes;
        n_wrong += rounds[i].n_wrong;
        n_cancelled += rounds[i].n_cancelled;
        n_audited += rounds[i].n_audited_bytes;
        is_interrupted = is_interrupted || rounds[i].is_interrupted;
    }
    if (is_interrupted) {
        (void)printf("interrupted, all processes are ended\n");
    } else if (n_audited > 0) {
        (void)printf("%.2f GB of pools outside of transfers looked at, %s\n",
                     (double)n_audited / 1e9, n_wrong == 0 ? "unchanged" : "see above");
    }
    (void)printf("demo: %" PRIu64 " requests, %" PRIu64 " bytes verified, %" PRIu64
                 " mismatches, %" PRIu64 " cancelled\n",
                 n_ok, n_bytes, n_wrong, n_cancelled);
    if (is_interrupted) {
        return EXIT_INTERRUPTED;
    }
    return is_good && n_wrong == 0 && n_cancelled == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int open_signals(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN); /* a gone engine is seen as a closed pipe */
    return sigprocmask(SIG_BLOCK, &signals, NULL) == 0
               ? signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)
               : -1;
}

int main(int argc, char **argv)
{
    struct demo_options options = {.wants_ucx = true,
                                   .wants_tcp = true,
                                   .n_requests = DEFAULT_REQUESTS,
                                   .seed = 1,
                                   .max_bytes = DEFAULT_MAX_BYTES,
                                   .pool_bytes = DEFAULT_POOL_BYTES,
                                   .limit = SIZE_MAX,
                                   .speedup = 1};
    struct demo_plan plan;
    struct demo_round rounds[DEMO_ROUNDS_MAX] = {{.n_ready = 0}};
    size_t n_rounds = 0;
    if (!parse_options(argc, argv, &options)) {
        print_usage(stderr);
        return 2;
    }
    if (!find_files(&options) || !demo_plan_make(&options, &plan)) {
        return EXIT_FAILURE;
    }
    demo_report_plan(&options, &plan);
    int signal_fd = open_signals();
    bool is_good =
        signal_fd >= 0 && run_rounds(&options, &plan, signal_fd, rounds, &n_rounds);
    demo_report_table(rounds, n_rounds);
    int code = judge(rounds, n_rounds, is_good);
    for (size_t i = 0; i < n_rounds; i++) {
        demo_round_fini(&rounds[i]);
    }
    demo_plan_fini(&plan);
    return code;
}
