/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that hand on what the daemon measured: timings as CSV, metrics as text. */
#include <errno.h>
#include <string.h>

#include "ctl/ask.h"
#include "ctl/command.h"

enum kvf_exit kvf_run_timings(const struct kvf_ctl *ctl)
{
    const char *path = ctl->options.values[KVF_OPTION_OUTPUT];
    struct kvf_target target;
    FILE *to = ctl->out;
    kvf_target_init(&target, "/v1/timings");
    kvf_target_add_query(&target, "format", ctl->options.values[KVF_OPTION_FORMAT]);
    kvf_target_add_query(&target, "since", ctl->options.values[KVF_OPTION_SINCE]);
    if (path != NULL) {
        to = fopen(path, "we");
    }
    if (to == NULL) {
        return kvf_complain(KVF_EXIT_FAILED, "cannot write %s: %s", path,
                            strerrordesc_np(errno));
    }
    enum kvf_exit code = kvf_ask_copy(ctl, &target, to);
    if (path != NULL && fclose(to) != 0 && code == KVF_EXIT_OK) {
        return kvf_complain(KVF_EXIT_FAILED, "cannot write %s: %s", path,
                            strerrordesc_np(errno));
    }
    return code;
}

/* The metric that a line of the text format is about. */
static const char *name_in(const char *line)
{
    static const char *const marks[] = {"# HELP ", "# TYPE "};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strncmp(line, marks[i], strlen(marks[i])) == 0) {
            return line + strlen(marks[i]);
        }
    }
    return line;
}

enum kvf_exit kvf_run_metrics(const struct kvf_ctl *ctl)
{
    const char *prefix = kvf_ctl_n_arguments(ctl) > 0 ? kvf_ctl_argument(ctl, 0) : "";
    struct kvf_target target;
    struct kvf_buf body;
    kvf_target_init(&target, "/metrics");
    enum kvf_exit code = kvf_ask_text(ctl, "GET", &target, 0, &body, NULL);
    if (code != KVF_EXIT_OK) {
        return code;
    }
    const char *line = (const char *)kvf_buf_head(&body);
    while (*line != '\0') {
        size_t n = strcspn(line, "\n");
        n += line[n] == '\n' ? 1 : 0;
        if (strncmp(name_in(line), prefix, strlen(prefix)) == 0) {
            (void)fwrite(line, 1, n, ctl->out); /* main checks the stream */
        }
        line += n;
    }
    kvf_buf_fini(&body);
    return KVF_EXIT_OK;
}
