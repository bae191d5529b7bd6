/* SPDX-License-Identifier: Apache-2.0 */
/* fork and exec, with the child's half written so that only async-signal-safe calls are
 * made in it. */
#include "examples/demo_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "examples/channel.h"

#define TAIL_BYTES 4096
#define STEP_MS    10u

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd); /* nothing to do about a failure */
        *fd = -1;
    }
}

struct child_fds {
    int in[2], out[2], log; /* pipes as from pipe(2) */
};

static void run_child(const struct process_config *config, const struct child_fds *fds,
                      pid_t parent)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (config->is_to_stay) {
        (void)setsid(); /* a Ctrl-C is meant for the demo */
    } else if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent) {
        _exit(127);
    }
    if ((config->has_pipes &&
         (dup2(fds->in[0], STDIN_FILENO) < 0 || dup2(fds->out[1], STDOUT_FILENO) < 0)) ||
        (!config->has_pipes && dup2(fds->log, STDOUT_FILENO) < 0) ||
        dup2(fds->log, STDERR_FILENO) < 0) {
        _exit(127);
    }
    (void)execv(config->arguments[0], config->arguments);
    (void)dprintf(STDERR_FILENO, "cannot run %s\n", config->arguments[0]);
    _exit(127);
}

static bool open_fds(struct process *process, const struct process_config *config,
                     struct child_fds *out)
{
    *out = (struct child_fds){.in = {-1, -1}, .out = {-1, -1}, .log = -1};
    (void)snprintf(process->log_path, sizeof(process->log_path), "%s/%s.log",
                   config->directory, config->name);
    out->log = open(process->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out->log < 0 || !config->has_pipes) {
        return out->log >= 0;
    }
    if (pipe2(out->in, O_CLOEXEC) != 0 || pipe2(out->out, O_CLOEXEC) != 0) {
        return false;
    }
    /* Room for every line in flight; refused only where an administrator lowered the
     * limit, and then the default still holds dozens of prompts. */
    (void)fcntl(out->in[1], F_SETPIPE_SZ, CHANNEL_PIPE_SIZE);
    (void)fcntl(out->out[0], F_SETPIPE_SZ, CHANNEL_PIPE_SIZE);
    return fcntl(out->out[0], F_SETFL, O_NONBLOCK) == 0;
}

bool process_start(struct process *process, const struct process_config *config)
{
    struct child_fds fds;
    *process = (struct process){.name = config->name, .in_fd = -1, .out_fd = -1};
    bool is_open = open_fds(process, config, &fds);
    pid_t parent = getpid();
    pid_t pid = is_open ? fork() : -1;
    if (pid == 0) {
        run_child(config, &fds, parent);
    }
    if (pid > 0) {
        process->pid = pid;
        process->in_fd = fds.in[1];
        process->out_fd = fds.out[0];
        fds.in[1] = fds.out[0] = -1;
    } else {
        (void)fprintf(stderr, "demo: cannot start %s: %s\n", config->name,
                      strerror(errno));
    }
    close_fd(&fds.in[0]);
    close_fd(&fds.in[1]);
    close_fd(&fds.out[0]);
    close_fd(&fds.out[1]);
    close_fd(&fds.log);
    return pid > 0;
}

/* True: it has ended and is collected. */
static bool collect(struct process *process, int *out_status)
{
    pid_t pid = waitpid(process->pid, out_status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR)) {
        return false;
    }
    process->pid = 0;
    return true;
}

bool process_is_running(struct process *process)
{
    int status = 0;
    return process->pid > 0 && !collect(process, &status);
}

bool process_stop(struct process *process, int signal_number, uint32_t grace_ms)
{
    int status = 0;
    bool is_good = true;
    close_fd(&process->in_fd);
    if (process->pid > 0) {
        if (signal_number != 0) {
            (void)kill(process->pid, signal_number);
        }
        uint32_t waited_ms = 0;
        while (waited_ms < grace_ms && !collect(process, &status)) {
            (void)poll(NULL, 0, STEP_MS);
            waited_ms += STEP_MS;
        }
        if (process->pid > 0) {
            (void)kill(process->pid, SIGKILL);
            (void)waitpid(process->pid, &status, 0);
            process->pid = 0;
        }
        is_good = WIFEXITED(status) ? WEXITSTATUS(status) == 0
                                    : WTERMSIG(status) == signal_number;
        if (!is_good) {
            (void)fprintf(stderr, "demo: %s ended with %s %d\n", process->name,
                          WIFEXITED(status) ? "status" : "signal",
                          WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        }
    }
    close_fd(&process->out_fd);
    return is_good;
}

void process_leave(struct process *process)
{
    close_fd(&process->in_fd);
    close_fd(&process->out_fd);
    process->pid = 0;
}

void process_print_log_tail(const struct process *process)
{
    char bytes[TAIL_BYTES + 1];
    int fd = open(process->log_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;
    ssize_t n = pread(fd, bytes, TAIL_BYTES, from);
    (void)close(fd);
    if (n <= 0) {
        return;
    }
    bytes[n] = '\0';
    const char *text = bytes;
    if (from > 0 && strchr(bytes, '\n') != NULL) {
        text = strchr(bytes, '\n') + 1; /* not half a line */
    }
    (void)fprintf(stderr, "---- end of %s\n%s", process->log_path, text);
}
