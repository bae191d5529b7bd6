/* SPDX-License-Identifier: Apache-2.0 */
/* The option table at work. getopt_long prints its own complaints, under our name. */
#include "ctl/options.h"

#include <getopt.h>
#include <string.h>

static const struct {
    const char *name, *argument, *help;
    char letter; /* 0: none */
    bool is_common;
} table[KVF_OPTION_COUNT] = {
#define KVF_OPTION_ROW(name, long_name, short_name, argument, is_common, help)           \
    [KVF_OPTION_##name] = {(long_name), (argument), (help), (short_name), (is_common)},
    KVF_OPTION_TABLE(KVF_OPTION_ROW)
#undef KVF_OPTION_ROW
};

#define LETTERS_MAX (2 * KVF_OPTION_COUNT + 1)
#define FIRST_LONG  256 /* above every letter */

static void fill_long(struct option out[KVF_OPTION_COUNT + 1], char letters[LETTERS_MAX])
{
    size_t n = 0;
    for (int i = 0; i < KVF_OPTION_COUNT; i++) {
        bool has_argument = table[i].argument != NULL;
        out[i] = (struct option){
            .name = table[i].name,
            .has_arg = has_argument ? required_argument : no_argument,
            .val = FIRST_LONG + i,
        };
        if (table[i].letter != 0) {
            letters[n++] = table[i].letter;
            if (has_argument) {
                letters[n++] = ':';
            }
        }
    }
    out[KVF_OPTION_COUNT] = (struct option){.name = NULL};
    letters[n] = '\0';
}

static int index_of(int code)
{
    for (int i = 0; i < KVF_OPTION_COUNT; i++) {
        if (code == FIRST_LONG + i || (code != 0 && code == table[i].letter)) {
            return i;
        }
    }
    return -1;
}

enum kvf_status kvf_options_parse(int argc, char **argv, struct kvf_options *out)
{
    struct option longs[KVF_OPTION_COUNT + 1];
    char letters[LETTERS_MAX];
    struct kvf_options options = {.n_arguments = 0};
    int code;
    fill_long(longs, letters);
    optind = 1;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        int i = index_of(code);
        if (i < 0) {
            return KVF_INVALID_ARGUMENT; /* getopt_long has said why */
        }
        options.values[i] = optarg != NULL ? optarg : "";
    }
    options.arguments = argv + optind;
    options.n_arguments = (size_t)(argc - optind);
    *out = options;
    return KVF_OK;
}

const char *kvf_options_find_foreign(const struct kvf_options *options, uint32_t taken)
{
    for (int i = 0; i < KVF_OPTION_COUNT; i++) {
        if (options->values[i] != NULL && !table[i].is_common && (taken >> i & 1) == 0) {
            return table[i].name;
        }
    }
    return NULL;
}

void kvf_options_print(uint32_t taken, bool is_common, FILE *out)
{
    for (int i = 0; i < KVF_OPTION_COUNT; i++) {
        char left[64];
        if (is_common ? !table[i].is_common : (taken >> i & 1) == 0) {
            continue;
        }
        const char *argument = table[i].argument != NULL ? table[i].argument : "";
        if (table[i].letter != 0) {
            (void)snprintf(left, sizeof(left), "-%c, --%s %s", table[i].letter,
                           table[i].name, argument);
        } else {
            (void)snprintf(left, sizeof(left), "--%s %s", table[i].name, argument);
        }
        (void)fprintf(out, "  %-22s %s\n", left, table[i].help);
    }
}
