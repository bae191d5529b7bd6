/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every command of kvferryctl gets: parsed options, arguments, where the daemon is.
 * Exit codes are part of the interface. One thread, blocking.
 */
#ifndef KVF_CTL_CTL_H
#define KVF_CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/sock.h"

#include "ctl/options.h"

#define KVF_CTL_TOKEN_MAX 256

enum kvf_exit {
    KVF_EXIT_OK = 0,
    KVF_EXIT_FAILED = 1, /* or a negative answer, such as "not ready" */
    KVF_EXIT_USAGE = 2,
    KVF_EXIT_UNREACHABLE = 3,
    KVF_EXIT_NOT_FOUND = 4,
    KVF_EXIT_DENIED = 5,
    KVF_EXIT_TIMEOUT = 6
};

struct kvf_ctl {
    struct kvf_options options;
    struct kvf_address address;
    const char *address_text;      /* as it was given */
    char token[KVF_CTL_TOKEN_MAX]; /* "": none */
    bool is_json, has_color;
    FILE *out; /* answers; complaints go to stderr */
};

/* "kvferryctl: ..." on stderr, one line; what came from outside must be escaped before.
 * Returns code. */
enum kvf_exit kvf_complain(enum kvf_exit code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
