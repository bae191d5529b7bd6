/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands in one table: name, arguments, options, and the function. Help and the
 * checks before a command runs come from it. One thread.
 */
#ifndef KVF_CTL_COMMAND_H
#define KVF_CTL_COMMAND_H

#include "ctl/ctl.h"

#define KVF_ARGUMENTS_MANY 1024

struct kvf_command {
    const char *name;
    const char *arguments; /* for help: "ID..." */
    const char *summary;
    size_t min_arguments, max_arguments;
    enum kvf_exit (*run)(const struct kvf_ctl *ctl);
    uint32_t options; /* KVF_OPTION_BIT set beside the common ones */
    bool is_local;    /* asks no daemon */
};

/* NULL: no such command. */
const struct kvf_command *kvf_command_find(const char *name);
/* Help of one command, or of all (command NULL). */
void kvf_command_help(const struct kvf_command *command, FILE *out);

/* The n-th argument after the command's name; it exists. */
static inline const char *kvf_ctl_argument(const struct kvf_ctl *ctl, size_t n)
{
    return ctl->options.arguments[1 + n];
}
static inline size_t kvf_ctl_n_arguments(const struct kvf_ctl *ctl)
{
    return ctl->options.n_arguments - 1;
}

/* status.c */
enum kvf_exit kvf_run_status(const struct kvf_ctl *ctl);
enum kvf_exit kvf_run_version(const struct kvf_ctl *ctl);
enum kvf_exit kvf_run_healthcheck(const struct kvf_ctl *ctl);
/* requests.c */
enum kvf_exit kvf_run_requests(const struct kvf_ctl *ctl);
enum kvf_exit kvf_run_request(const struct kvf_ctl *ctl);
enum kvf_exit kvf_run_cancel(const struct kvf_ctl *ctl);
/* export.c */
enum kvf_exit kvf_run_timings(const struct kvf_ctl *ctl);
enum kvf_exit kvf_run_metrics(const struct kvf_ctl *ctl);

#endif
