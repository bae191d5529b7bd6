/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kvferryctl: one command, one answer, one exit code. From the command line to the
 * command: options, address, token, colour. One thread, blocking.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/http_client.h"

#define DEFAULT_ADDRESS "unix:/run/kvferry/admin.sock"

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

/* https://no-color.org */
static bool wants_color(const struct kvf_options *options)
{
    const char *term = getenv("TERM");
    return options->values[KVF_OPTION_NO_COLOR] == NULL &&
           options->values[KVF_OPTION_JSON] == NULL && !is_set("NO_COLOR") &&
           term != NULL && strcmp(term, "dumb") != 0 && isatty(STDOUT_FILENO) == 1;
}

static enum kvf_exit read_token(struct kvf_ctl *ctl, const char *file)
{
    char bytes[KVF_CTL_TOKEN_MAX + 2];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n_read = fd >= 0 ? read(fd, bytes, sizeof(bytes) - 1) : -1;
    int error = errno;
    if (fd >= 0) {
        (void)close(fd); /* only read from */
    }
    if (n_read < 0) {
        return kvf_complain(KVF_EXIT_USAGE, "cannot read token file %s: %s", file,
                            strerrordesc_np(error));
    }
    bytes[n_read] = '\0';
    size_t n = strcspn(bytes, "\r\n");
    if (n == 0 || n >= sizeof(ctl->token)) {
        return kvf_complain(KVF_EXIT_USAGE,
                            "token file %s: its first line must have 1 to %d bytes", file,
                            KVF_CTL_TOKEN_MAX - 1);
    }
    memcpy(ctl->token, bytes, n);
    ctl->token[n] = '\0';
    return KVF_EXIT_OK;
}

/* Where the daemon is and how to open its door. */
static enum kvf_exit find_daemon(struct kvf_ctl *ctl)
{
    const char *error = "";
    const char *file = ctl->options.values[KVF_OPTION_TOKEN_FILE];
    ctl->address_text = ctl->options.values[KVF_OPTION_ADDR];
    if (ctl->address_text == NULL) {
        ctl->address_text =
            is_set("KVFERRY_ADDR") ? getenv("KVFERRY_ADDR") : DEFAULT_ADDRESS;
    }
    if (kvf_call_parse_address(ctl->address_text, &ctl->address, &error) != KVF_OK) {
        return kvf_complain(KVF_EXIT_USAGE, "bad address '%s': %s", ctl->address_text,
                            error);
    }
    return file != NULL ? read_token(ctl, file) : KVF_EXIT_OK;
}

static enum kvf_exit check_arguments(const struct kvf_ctl *ctl,
                                     const struct kvf_command *command)
{
    size_t n = kvf_ctl_n_arguments(ctl);
    const char *foreign = kvf_options_find_foreign(&ctl->options, command->options);
    if (foreign != NULL) {
        return kvf_complain(KVF_EXIT_USAGE, "%s takes no --%s; see kvferryctl help %s",
                            command->name, foreign, command->name);
    }
    if (n < command->min_arguments || n > command->max_arguments) {
        return kvf_complain(KVF_EXIT_USAGE, "usage: kvferryctl %s %s", command->name,
                            command->arguments);
    }
    return KVF_EXIT_OK;
}

static enum kvf_exit run(struct kvf_ctl *ctl)
{
    bool wants_help = ctl->options.values[KVF_OPTION_HELP] != NULL;
    if (ctl->options.n_arguments == 0) {
        kvf_command_help(NULL, wants_help ? ctl->out : stderr);
        return wants_help ? KVF_EXIT_OK : KVF_EXIT_USAGE;
    }
    const char *name = ctl->options.arguments[0];
    const struct kvf_command *command = kvf_command_find(name);
    if (command == NULL) {
        return kvf_complain(KVF_EXIT_USAGE, "no command '%s'; see kvferryctl help", name);
    }
    if (wants_help) {
        kvf_command_help(command, ctl->out);
        return KVF_EXIT_OK;
    }
    enum kvf_exit code = check_arguments(ctl, command);
    if (code == KVF_EXIT_OK && !command->is_local) {
        code = find_daemon(ctl);
    }
    return code == KVF_EXIT_OK ? command->run(ctl) : code;
}

int main(int argc, char **argv)
{
    struct kvf_ctl ctl = {.out = stdout};
    if (kvf_options_parse(argc, argv, &ctl.options) != KVF_OK) {
        return KVF_EXIT_USAGE;
    }
    ctl.is_json = ctl.options.values[KVF_OPTION_JSON] != NULL;
    ctl.has_color = wants_color(&ctl.options);
    enum kvf_exit code = run(&ctl);
    if ((fflush(stdout) != 0 || ferror(stdout) != 0) && code == KVF_EXIT_OK) {
        code = kvf_complain(KVF_EXIT_FAILED, "cannot write: %s", strerrordesc_np(errno));
    }
    return (int)code;
}
