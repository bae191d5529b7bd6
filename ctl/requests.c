/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about requests: the list, one of them, cancelling. */
#include <string.h>

#include "base/log.h"

#include "ctl/ask.h"
#include "ctl/command.h"
#include "ctl/table.h"

#define TEXT_MAX 256

static const char *option(const struct kvf_ctl *ctl, enum kvf_option which)
{
    return ctl->options.values[which];
}

/* ---- the list */

static void add_request(struct kvf_table *table, const json_t *request)
{
    char text[KVF_NUMBER_TEXT];
    const char *status = kvf_json_get_text(request, "status");
    const char *state = kvf_json_get_text(request, "state");
    bool has_failed = status[0] != '\0' && strcmp(status, "OK") != 0;
    kvf_table_add_number(table, kvf_json_get_count(request, "sequence"));
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(request, "id"));
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(request, "label"));
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(request, "direction"));
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(request, "peer"));
    kvf_table_add(table, has_failed ? KVF_RED : kvf_color_of(state), state);
    kvf_table_add(table, has_failed ? KVF_RED : KVF_PLAIN, status);
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(request, "path"));
    kvf_table_add(table, KVF_PLAIN,
                  kvf_format_bytes(kvf_json_get_count(request, "bytes"), text));
    kvf_table_add(table, KVF_PLAIN,
                  kvf_format_bytes(kvf_json_get_count(request, "bytes_done"), text));
    kvf_table_add(table, KVF_PLAIN,
                  kvf_format_ns(kvf_json_get_count(request, "duration_ns"), text));
}

static enum kvf_exit print_list(const struct kvf_ctl *ctl, const json_t *answer)
{
    static const struct kvf_column columns[] = {
        {"SEQ", true},   {"ID", false},    {"LABEL", false},  {"DIR", false},
        {"PEER", false}, {"STATE", false}, {"STATUS", false}, {"PATH", false},
        {"BYTES", true}, {"DONE", true},   {"TIME", true}};
    const json_t *items = json_object_get(answer, "items");
    struct kvf_table table;
    kvf_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_array_size(items); i++) {
        add_request(&table, json_array_get(items, i));
    }
    enum kvf_status status = kvf_table_print(&table, ctl->has_color, ctl->out);
    kvf_table_fini(&table);
    if (status != KVF_OK) {
        return kvf_complain(KVF_EXIT_FAILED, "%s", kvf_status_text(status));
    }
    uint64_t next = kvf_json_get_count(answer, "next_since");
    if (next > 0) {
        (void)fprintf(ctl->out, "more: --since %llu\n", (unsigned long long)next);
    }
    return KVF_EXIT_OK;
}

enum kvf_exit kvf_run_requests(const struct kvf_ctl *ctl)
{
    struct kvf_target target;
    json_t *answer = NULL;
    kvf_target_init(&target, "/v1/requests");
    kvf_target_add_query(&target, "state", option(ctl, KVF_OPTION_STATE));
    kvf_target_add_query(&target, "peer", option(ctl, KVF_OPTION_PEER));
    kvf_target_add_query(&target, "engine", option(ctl, KVF_OPTION_ENGINE));
    kvf_target_add_query(&target, "since", option(ctl, KVF_OPTION_SINCE));
    kvf_target_add_query(&target, "limit", option(ctl, KVF_OPTION_LIMIT));
    enum kvf_exit code = kvf_ask_json(ctl, "GET", &target, &answer);
    if (code == KVF_EXIT_OK && !ctl->is_json) {
        code = print_list(ctl, answer);
    }
    json_decref(answer);
    return code;
}

/* ---- one request */

static void print_field(const struct kvf_ctl *ctl, const char *name, const char *text)
{
    char escaped[TEXT_MAX];
    if (text[0] != '\0') {
        (void)fprintf(ctl->out, "%-10s %s\n", name,
                      kvf_log_escape(text, strlen(text), escaped, sizeof(escaped)));
    }
}

static void print_phases(const struct kvf_ctl *ctl, const json_t *phases)
{
    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *phase = json_array_get(phases, i);
        char start[KVF_NUMBER_TEXT];
        char spent[KVF_NUMBER_TEXT];
        char line[TEXT_MAX];
        (void)snprintf(line, sizeof(line), "%-12s at %9s for %9s",
                       kvf_json_get_text(phase, "name"),
                       kvf_format_ns(kvf_json_get_count(phase, "start_ns"), start),
                       kvf_format_ns(kvf_json_get_count(phase, "duration_ns"), spent));
        print_field(ctl, i == 0 ? "phases" : "", line);
    }
}

static void print_amounts(const struct kvf_ctl *ctl, const json_t *item)
{
    char done[KVF_NUMBER_TEXT];
    char all[KVF_NUMBER_TEXT];
    char line[TEXT_MAX];
    (void)snprintf(line, sizeof(line), "%s of %s, %llu blocks in %llu runs",
                   kvf_format_bytes(kvf_json_get_count(item, "bytes_done"), done),
                   kvf_format_bytes(kvf_json_get_count(item, "bytes"), all),
                   (unsigned long long)kvf_json_get_count(item, "blocks"),
                   (unsigned long long)kvf_json_get_count(item, "runs"));
    print_field(ctl, "moved", line);
    print_field(ctl, "time", kvf_format_ns(kvf_json_get_count(item, "duration_ns"), all));
}

static void print_item(const struct kvf_ctl *ctl, const json_t *item)
{
    static const char *const keys[] = {"id",   "label",     "trace_id", "direction",
                                       "peer", "engine",    "state",    "status",
                                       "path", "transport", "lane",     "accepted_at"};
    static const char *const words[] = {"request", "label",     "trace", "direction",
                                        "peer",    "engine",    "state", "status",
                                        "path",    "transport", "lane",  "accepted"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        print_field(ctl, words[i], kvf_json_get_text(item, keys[i]));
    }
    print_field(ctl, "detail",
                kvf_json_get_text(json_object_get(item, "error"), "detail"));
    print_amounts(ctl, item);
    print_phases(ctl, json_object_get(item, "phases"));
}

enum kvf_exit kvf_run_request(const struct kvf_ctl *ctl)
{
    struct kvf_target target;
    json_t *answer = NULL;
    kvf_target_init(&target, "/v1/requests");
    kvf_target_add_segment(&target, kvf_ctl_argument(ctl, 0));
    enum kvf_exit code = kvf_ask_json(ctl, "GET", &target, &answer);
    const json_t *items = json_object_get(answer, "items");
    for (size_t i = 0; i < json_array_size(items) && !ctl->is_json; i++) {
        (void)fprintf(ctl->out, i > 0 ? "\n" : "");
        print_item(ctl, json_array_get(items, i));
    }
    json_decref(answer);
    return code;
}

/* ---- cancelling */

static enum kvf_exit cancel_one(const struct kvf_ctl *ctl, const char *id)
{
    struct kvf_target target;
    json_t *answer = NULL;
    kvf_target_init(&target, "/v1/requests");
    kvf_target_add_segment(&target, id);
    kvf_target_add_query(&target, "wait", option(ctl, KVF_OPTION_WAIT));
    enum kvf_exit code = kvf_ask_json(ctl, "DELETE", &target, &answer);
    if (code == KVF_EXIT_OK && !ctl->is_json) {
        const char *state = kvf_json_get_text(answer, "state");
        char escaped[TEXT_MAX];
        (void)fprintf(ctl->out, "%s: %s\n", id,
                      kvf_log_escape(state, strlen(state), escaped, sizeof(escaped)));
    }
    json_decref(answer);
    return code;
}

/* Every id is tried; with --json one object a line. The first failure is the exit code.
 */
enum kvf_exit kvf_run_cancel(const struct kvf_ctl *ctl)
{
    enum kvf_exit first = KVF_EXIT_OK;
    for (size_t i = 0; i < kvf_ctl_n_arguments(ctl); i++) {
        enum kvf_exit code = cancel_one(ctl, kvf_ctl_argument(ctl, i));
        if (first == KVF_EXIT_OK) {
            first = code;
        }
        if (code == KVF_EXIT_UNREACHABLE) {
            break; /* the others would say the same */
        }
    }
    return first;
}
