/* SPDX-License-Identifier: Apache-2.0 */
/* The command table and its help. A new command is a row here and a function. */
#include "ctl/command.h"

#include <string.h>

static enum kvf_exit run_help(const struct kvf_ctl *ctl);

static const struct kvf_command table[] = {
    {"status", "", "state, engines, peers, totals and warnings", 0, 0, kvf_run_status, 0,
     false},
    {"requests", "", "requests, running and ended", 0, 0, kvf_run_requests,
     KVF_OPTION_BIT(STATE) | KVF_OPTION_BIT(PEER) | KVF_OPTION_BIT(ENGINE) |
         KVF_OPTION_BIT(SINCE) | KVF_OPTION_BIT(LIMIT),
     false},
    {"request", "ID", "one request with its phases; ID is its number or label", 1, 1,
     kvf_run_request, 0, false},
    {"cancel", "ID...", "cancel requests", 1, KVF_ARGUMENTS_MANY, kvf_run_cancel,
     KVF_OPTION_BIT(WAIT), false},
    {"timings", "", "CSV of ended transfers", 0, 0, kvf_run_timings,
     KVF_OPTION_BIT(FORMAT) | KVF_OPTION_BIT(SINCE) | KVF_OPTION_BIT(OUTPUT), false},
    {"metrics", "[PREFIX]", "metrics whose name begins with PREFIX", 0, 1,
     kvf_run_metrics, 0, false},
    {"version", "", "versions of this program and of the daemon", 0, 0, kvf_run_version,
     0, false},
    {"healthcheck", "", "exit 0 when the daemon is ready, 1 when not", 0, 0,
     kvf_run_healthcheck, 0, false},
    {"help", "[COMMAND]", "this text, or that of a command", 0, 1, run_help, 0, true},
};
#define N_COMMANDS (sizeof(table) / sizeof(table[0]))

const struct kvf_command *kvf_command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(table[i].name, name) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *out)
{
    (void)fprintf(out, "usage: kvferryctl [OPTIONS] COMMAND [ARGUMENTS]\n\ncommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s %s", table[i].name, table[i].arguments);
        (void)fprintf(out, "  %-22s %s\n", left, table[i].summary);
    }
    (void)fprintf(out, "\noptions:\n");
    kvf_options_print(0, true, out);
    (void)fprintf(out, "\nexit codes: 0 ok, 1 failed or a negative answer, 2 usage, "
                       "3 daemon not reachable,\n  4 not found, 5 denied, 6 timeout\n");
}

void kvf_command_help(const struct kvf_command *command, FILE *out)
{
    if (command == NULL) {
        print_overview(out);
        return;
    }
    (void)fprintf(out, "usage: kvferryctl %s%s%s%s\n\n%s\n", command->name,
                  command->options != 0 ? " [OPTIONS]" : "",
                  command->arguments[0] != '\0' ? " " : "", command->arguments,
                  command->summary);
    if (command->options != 0) {
        (void)fprintf(out, "\noptions:\n");
        kvf_options_print(command->options, false, out);
    }
    (void)fprintf(out, "\ncommon options:\n");
    kvf_options_print(0, true, out);
}

static enum kvf_exit run_help(const struct kvf_ctl *ctl)
{
    const struct kvf_command *command = NULL;
    if (kvf_ctl_n_arguments(ctl) > 0) {
        command = kvf_command_find(kvf_ctl_argument(ctl, 0));
        if (command == NULL) {
            return kvf_complain(KVF_EXIT_USAGE, "no command '%s'; see kvferryctl help",
                                kvf_ctl_argument(ctl, 0));
        }
    }
    kvf_command_help(command, ctl->out);
    return KVF_EXIT_OK;
}
