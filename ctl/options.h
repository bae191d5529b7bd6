/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every option of kvferryctl in one table: it feeds getopt_long, the check that a command
 * takes an option, and --help. Options may stand before or after the command. One thread.
 */
#ifndef KVF_CTL_OPTIONS_H
#define KVF_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kvferry/status.h>

/* X(name, long name, short name or 0, argument or NULL, is for every command, help) */
#define KVF_OPTION_TABLE(X)                                                              \
    X(ADDR, "addr", 0, "ADDR", true, "unix:PATH or http://HOST:PORT (env KVFERRY_ADDR)") \
    X(TOKEN_FILE, "token-file", 0, "FILE", true, "bearer token, first line of FILE")     \
    X(JSON, "json", 0, NULL, true, "print the daemon's JSON")                            \
    X(NO_COLOR, "no-color", 0, NULL, true, "no colour (also env NO_COLOR)")              \
    X(HELP, "help", 'h', NULL, true, "this text, or that of a command")                  \
    X(STATE, "state", 0, "LIST", false, "active, done, failed; comma-separated")         \
    X(PEER, "peer", 0, "NAME", false, "only requests with this peer")                    \
    X(ENGINE, "engine", 0, "NAME", false, "only requests of this engine")                \
    X(SINCE, "since", 0, "SEQ", false, "only what comes after this sequence number")     \
    X(LIMIT, "limit", 0, "N", false, "at most N rows, 1 to 1000")                        \
    X(WAIT, "wait", 0, "TIME", false, "wait for the end, such as 500ms or 2s")           \
    X(FORMAT, "format", 0, "NAME", false, "kvferry or trtllm")                           \
    X(OUTPUT, "output", 'o', "FILE", false, "write to FILE")

enum kvf_option {
#define KVF_OPTION_ENUM(name, long_name, short_name, argument, is_common, help)          \
    KVF_OPTION_##name,
    KVF_OPTION_TABLE(KVF_OPTION_ENUM)
#undef KVF_OPTION_ENUM
        KVF_OPTION_COUNT
};
#define KVF_OPTION_BIT(name) (1u << KVF_OPTION_##name)

struct kvf_options {
    const char *values[KVF_OPTION_COUNT]; /* borrowed from argv; "" for a flag; NULL: not
                                             given */
    char **arguments;                     /* what is not an option, the command first */
    size_t n_arguments;
};

/* INVALID_ARGUMENT with the reason on stderr. Reorders argv. */
enum kvf_status KVF_MUST_CHECK kvf_options_parse(int argc, char **argv,
                                                 struct kvf_options *out);
/* The name of a given option that is neither common nor in `taken`; NULL: all are fine.
 */
const char *kvf_options_find_foreign(const struct kvf_options *options, uint32_t taken);
/* Lines of help for the options in `taken`, or for the common ones. */
void kvf_options_print(uint32_t taken, bool is_common, FILE *out);

#endif
