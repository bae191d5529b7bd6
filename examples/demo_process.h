/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes of the demo: started with an environment and a log file, optionally
 * with pipes, and ended by their pid. A child dies with the demo unless it is meant to
 * stay. One thread.
 */
#ifndef KVF_EXAMPLES_DEMO_PROCESS_H
#define KVF_EXAMPLES_DEMO_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: not running */
    const char *name;
    char log_path[320];
    int in_fd, out_fd; /* own; our ends of the child's stdin and stdout, -1: none */
};

struct process_config {
    const char *name; /* static; also of the log file in directory */
    const char *directory;
    char *const *arguments;     /* [0] is the program, ends with NULL */
    bool has_pipes, is_to_stay; /* is_to_stay: survives us, also a Ctrl-C */
};

bool process_start(struct process *process, const struct process_config *config);
/* Collects the exit if there was one. */
bool process_is_running(struct process *process);
/* Sends the signal (0: none, it is ending anyway), waits, kills when grace_ms is over.
 * False: it had to be killed, or failed by itself. */
bool process_stop(struct process *process, int signal_number, uint32_t grace_ms);
/* Gives the process up without ending it. */
void process_leave(struct process *process);
void process_print_log_tail(const struct process *process);

#endif
