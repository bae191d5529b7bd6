/* SPDX-License-Identifier: Apache-2.0 */
/* kvferryd: the command line, the configuration, and then the daemon in the foreground.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <kvferry/kvferry.h>

#include "base/log.h"
#include "config/config.h"
#include "service/daemon.h"

#define KVF_EXIT_USAGE  2
#define KVF_EXIT_CONFIG 78 /* EX_CONFIG: a restart would not help */

enum kvf_verb { RUN, CHECK, PRINT, DEFAULTS, SCHEMA, VERSION, HELP };

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'},
    {"check-config", no_argument, NULL, CHECK},
    {"print-config", no_argument, NULL, PRINT},
    {"print-defaults", no_argument, NULL, DEFAULTS},
    {"print-schema", no_argument, NULL, SCHEMA},
    {"version", no_argument, NULL, VERSION},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static void print_help(FILE *out)
{
    (void)fputs(
        "usage: kvferryd [--config FILE] [VERB]\n"
        "Moves KV cache blocks between the engines of this node and those of its peers.\n"
        "  --config FILE      YAML configuration and topology\n"
        "  --check-config     say every problem of the configuration; exit 0 or 78\n"
        "  --print-config     the effective configuration and where each value comes "
        "from\n"
        "  --print-defaults   every key with its default and meaning, as YAML\n"
        "  --print-schema     JSON Schema of the configuration\n"
        "  --version, --help\n"
        "SIGTERM drains (shutdown.grace) and stops; a second one cancels what is left.\n",
        out);
}

static int load(const char *file, struct kvf_config **out_config)
{
    struct kvf_config_problems problems = {.text = NULL};
    enum kvf_status status = kvf_config_load(file, out_config, &problems);
    if (status != KVF_OK) {
        (void)fprintf(stderr, "%s",
                      problems.text != NULL ? problems.text : kvf_status_text(status));
        (void)fprintf(stderr, "kvferryd: %zu problems in the configuration\n",
                      problems.n);
    }
    kvf_config_problems_fini(&problems);
    return status == KVF_OK ? 0 : KVF_EXIT_CONFIG;
}

static int run(struct kvf_config *config)
{
    struct kvf_daemon *daemon = NULL;
    if (kvf_log_open(config->log.format, config->log.level, STDERR_FILENO,
                     config->node.name) != KVF_OK) {
        (void)fputs("kvferryd: the log thread cannot be started\n", stderr);
        kvf_config_destroy(config);
        return EXIT_FAILURE;
    }
    /* Pools and slots hold prompts: no other process of this user reads them. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    enum kvf_status status = kvf_daemon_create(config, &daemon);
    if (status == KVF_OK) {
        kvf_daemon_run(daemon);
    }
    kvf_daemon_destroy(daemon);
    kvf_log_close();
    return status == KVF_OK       ? EXIT_SUCCESS
           : status == KVF_CONFIG ? KVF_EXIT_CONFIG
                                  : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *file = NULL;
    enum kvf_verb verb = RUN;
    int option;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread yet */
    while ((option = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
        if (option == 'c') {
            file = optarg;
        } else if (option == '?') {
            print_help(stderr);
            return KVF_EXIT_USAGE;
        } else {
            verb = (enum kvf_verb)option;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "kvferryd: unexpected argument '%s'\n", argv[optind]);
        return KVF_EXIT_USAGE;
    }
    if (verb == HELP) {
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    if (verb == VERSION) {
        (void)puts("kvferryd " KVF_VERSION_TEXT);
        return EXIT_SUCCESS;
    }
    if (verb == DEFAULTS || verb == SCHEMA) {
        (verb == DEFAULTS ? kvf_config_print_defaults : kvf_config_print_schema)(stdout);
        return EXIT_SUCCESS;
    }
    struct kvf_config *config = NULL;
    int code = load(file, &config);
    if (code != 0 || verb == RUN) {
        return code != 0 ? code : run(config);
    }
    if (verb == PRINT) {
        kvf_config_print(config, stdout);
    } else {
        (void)printf("%s: configuration is good\n", file != NULL ? file : "environment");
    }
    kvf_config_destroy(config);
    return EXIT_SUCCESS;
}
