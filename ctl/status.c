/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about the daemon as a whole: status, version, healthcheck. */
#include <string.h>

#include "base/log.h"

#include "ctl/ask.h"
#include "ctl/command.h"
#include "ctl/table.h"

#define TEXT_MAX 256

static enum kvf_exit no_memory(void)
{
    return kvf_complain(KVF_EXIT_FAILED, "%s", kvf_status_text(KVF_NO_MEMORY));
}

/* Daemon text that goes to the terminal outside of a table. */
static void print_escaped(const struct kvf_ctl *ctl, const char *text)
{
    char escaped[TEXT_MAX];
    (void)fprintf(ctl->out, "%s",
                  kvf_log_escape(text, strlen(text), escaped, sizeof(escaped)));
}

static enum kvf_exit print_engines(const struct kvf_ctl *ctl, const json_t *engines)
{
    static const struct kvf_column columns[] = {
        {"ENGINE", false}, {"INSTANCE", false}, {"RANK", true},
        {"ROLE", false},   {"STATE", false},    {"POOLS", true},
        {"MEMORY", true},  {"KIND", false},     {"REQUESTS", true}};
    struct kvf_table table;
    char bytes[KVF_NUMBER_TEXT];
    kvf_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_array_size(engines); i++) {
        const json_t *engine = json_array_get(engines, i);
        const char *state = kvf_json_get_text(engine, "state");
        kvf_table_add(&table, KVF_PLAIN, kvf_json_get_text(engine, "name"));
        kvf_table_add(&table, KVF_PLAIN, kvf_json_get_text(engine, "instance"));
        kvf_table_add_number(&table, kvf_json_get_count(engine, "rank"));
        kvf_table_add(&table, KVF_PLAIN, kvf_json_get_text(engine, "role"));
        kvf_table_add(&table, kvf_color_of(state), state);
        kvf_table_add_number(&table, kvf_json_get_count(engine, "pools"));
        kvf_table_add(
            &table, KVF_PLAIN,
            kvf_format_bytes(kvf_json_get_count(engine, "registered_bytes"), bytes));
        kvf_table_add(&table, KVF_PLAIN, kvf_json_get_text(engine, "memory"));
        kvf_table_add_number(&table, kvf_json_get_count(engine, "requests"));
    }
    enum kvf_status status = kvf_table_print(&table, ctl->has_color, ctl->out);
    kvf_table_fini(&table);
    return status == KVF_OK ? KVF_EXIT_OK : no_memory();
}

/* The transport in use, and the wanted one where they differ. */
static void add_transport(struct kvf_table *table, const json_t *peer)
{
    const json_t *transport = json_object_get(peer, "transport");
    const char *wanted = kvf_json_get_text(transport, "wanted");
    const char *actual = kvf_json_get_text(transport, "actual");
    char text[TEXT_MAX];
    if (actual[0] == '\0' || wanted[0] == '\0' || strcmp(actual, wanted) == 0) {
        kvf_table_add(table, KVF_PLAIN, actual[0] != '\0' ? actual : "-");
        return;
    }
    (void)snprintf(text, sizeof(text), "%s (not %s)", actual, wanted);
    kvf_table_add(table, KVF_YELLOW, text);
}

static void add_peer(struct kvf_table *table, const json_t *peer)
{
    char text[KVF_NUMBER_TEXT];
    const char *state = kvf_json_get_text(peer, "state");
    double rtt_ns = kvf_json_get_real(peer, "rtt_seconds") * (double)KVF_NS_PER_S;
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(peer, "name"));
    kvf_table_add(table, kvf_color_of(state), state);
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(peer, "address"));
    add_transport(table, peer);
    bool has_rtt = rtt_ns > 0 && rtt_ns < 1e18;
    kvf_table_add(table, KVF_PLAIN,
                  has_rtt ? kvf_format_ns((uint64_t)(rtt_ns + 0.5), text) : "-");
    kvf_table_add_number(table, kvf_json_get_count(peer, "in_flight"));
    kvf_table_add(table, KVF_PLAIN,
                  kvf_format_bytes(kvf_json_get_count(peer, "bytes_sent"), text));
    kvf_table_add(table, KVF_PLAIN,
                  kvf_format_bytes(kvf_json_get_count(peer, "bytes_received"), text));
    kvf_table_add(table, KVF_PLAIN, kvf_json_get_text(peer, "reason"));
}

static enum kvf_exit print_peers(const struct kvf_ctl *ctl, const json_t *peers)
{
    static const struct kvf_column columns[] = {
        {"PEER", false},      {"STATE", false},   {"ADDRESS", false},
        {"TRANSPORT", false}, {"RTT", true},      {"IN FLIGHT", true},
        {"SENT", true},       {"RECEIVED", true}, {"REASON", false}};
    struct kvf_table table;
    kvf_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_array_size(peers); i++) {
        add_peer(&table, json_array_get(peers, i));
    }
    enum kvf_status status = kvf_table_print(&table, ctl->has_color, ctl->out);
    kvf_table_fini(&table);
    return status == KVF_OK ? KVF_EXIT_OK : no_memory();
}

static void print_head(const struct kvf_ctl *ctl, const json_t *status)
{
    char uptime[KVF_NUMBER_TEXT];
    char shown[TEXT_MAX];
    const char *state = kvf_json_get_text(status, "state");
    print_escaped(ctl, kvf_json_get_text(status, "name"));
    (void)fprintf(ctl->out, "  kvferry ");
    print_escaped(ctl, kvf_json_get_text(status, "version"));
    (void)fprintf(ctl->out, "  ");
    kvf_print_colored(kvf_log_escape(state, strlen(state), shown, sizeof(shown)),
                      kvf_color_of(state), ctl->has_color, ctl->out);
    (void)fprintf(ctl->out, "  up %s\n",
                  kvf_format_uptime(kvf_json_get_real(status, "uptime_seconds"), uptime));
    const json_t *transfers = json_object_get(status, "transfers");
    static const char *const keys[] = {"in_flight", "queued", "completed", "failed",
                                       "cancelled"};
    static const char *const words[] = {"in flight", "queued", "completed", "failed",
                                        "cancelled"};
    (void)fprintf(ctl->out, "transfers:");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        (void)fprintf(ctl->out, "%s %llu %s", i > 0 ? "," : "",
                      (unsigned long long)kvf_json_get_count(transfers, keys[i]),
                      words[i]);
    }
    (void)fprintf(ctl->out, "\n");
}

static void print_warnings(const struct kvf_ctl *ctl, const json_t *warnings)
{
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        const json_t *warning = json_array_get(warnings, i);
        (void)fprintf(ctl->out, i == 0 ? "\n" : "");
        kvf_print_colored("warning", KVF_YELLOW, ctl->has_color, ctl->out);
        (void)fprintf(ctl->out, " ");
        print_escaped(ctl, kvf_json_get_text(warning, "code"));
        (void)fprintf(ctl->out, ": ");
        print_escaped(ctl, kvf_json_get_text(warning, "message"));
        (void)fprintf(ctl->out, "\n");
    }
}

enum kvf_exit kvf_run_status(const struct kvf_ctl *ctl)
{
    struct kvf_target target;
    json_t *status = NULL;
    kvf_target_init(&target, "/v1/status");
    enum kvf_exit code = kvf_ask_json(ctl, "GET", &target, &status);
    if (code == KVF_EXIT_OK && !ctl->is_json) {
        const json_t *engines = json_object_get(status, "engines");
        const json_t *peers = json_object_get(status, "peers");
        print_head(ctl, status);
        if (json_array_size(engines) > 0) {
            (void)fprintf(ctl->out, "\n");
            code = print_engines(ctl, engines);
        }
        if (json_array_size(peers) > 0 && code == KVF_EXIT_OK) {
            (void)fprintf(ctl->out, "\n");
            code = print_peers(ctl, peers);
        }
        print_warnings(ctl, json_object_get(status, "warnings"));
    }
    json_decref(status);
    return code;
}

enum kvf_exit kvf_run_version(const struct kvf_ctl *ctl)
{
    struct kvf_target target;
    json_t *version = NULL;
    kvf_target_init(&target, "/version");
    if (!ctl->is_json) {
        (void)fprintf(ctl->out, "kvferryctl " KVF_CTL_VERSION "\n");
    }
    enum kvf_exit code = kvf_ask_json(ctl, "GET", &target, &version);
    if (code == KVF_EXIT_OK && !ctl->is_json) {
        static const char *const keys[] = {"version", "commit", "ucx", "cuda"};
        static const char *const words[] = {"kvferryd ", ", commit ", ", UCX ",
                                            ", CUDA "};
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            const char *text = kvf_json_get_text(version, keys[i]);
            if (text[0] != '\0') {
                (void)fprintf(ctl->out, "%s", words[i]);
                print_escaped(ctl, text);
            }
        }
        (void)fprintf(ctl->out, "\n");
    }
    json_decref(version);
    return code;
}

/* Prints the checks line by line only when something is wrong, so that a healthy
 * container logs nothing but "ready". */
enum kvf_exit kvf_run_healthcheck(const struct kvf_ctl *ctl)
{
    struct kvf_target target;
    json_t *ready = NULL;
    struct kvf_buf body;
    unsigned int http = 0;
    kvf_target_init(&target, "/readyz");
    enum kvf_exit code = kvf_ask_text(ctl, "GET", &target, 503, &body, &http);
    if (code != KVF_EXIT_OK) {
        return code;
    }
    const char *text = (const char *)kvf_buf_head(&body);
    code = http == 503 ? KVF_EXIT_FAILED : KVF_EXIT_OK;
    ready = json_loadb(text, kvf_buf_length(&body), 0, NULL);
    const json_t *checks = json_object_get(ready, "checks");
    if (ctl->is_json) {
        (void)fwrite(text, 1, kvf_buf_length(&body),
                     ctl->out); /* main checks the stream */
    } else {
        (void)fprintf(ctl->out, code == KVF_EXIT_OK ? "ready\n" : "not ready\n");
    }
    for (size_t i = 0; i < json_array_size(checks) && !ctl->is_json; i++) {
        const json_t *check = json_array_get(checks, i);
        if (!json_is_true(json_object_get(check, "ok"))) {
            print_escaped(ctl, kvf_json_get_text(check, "name"));
            (void)fprintf(ctl->out, ": ");
            print_escaped(ctl, kvf_json_get_text(check, "detail"));
            (void)fprintf(ctl->out, "\n");
        }
    }
    json_decref(ready);
    kvf_buf_fini(&body);
    return code;
}
