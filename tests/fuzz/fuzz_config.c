/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a configuration file, as an operator may send them to be checked. Either there
 * are problems with a text, or there is a configuration; what is printed of that one is
 * accepted again, and printed the same.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "tests/fuzz/fuzz.h"

static struct kvf_config *load(const char *text, size_t n)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    enum kvf_status status = kvf_config_parse("f", text, n, &config, &problems);
    assert(status == KVF_OK || status == KVF_CONFIG || status == KVF_NO_MEMORY);
    assert((status == KVF_OK) == (config != NULL));
    assert((status == KVF_CONFIG) == (problems.n > 0));
    assert(problems.n <= KVF_CONFIG_PROBLEMS_MAX);
    for (const char *at = problems.text; at != NULL && *at != '\0'; at++) {
        assert(*at == '\n' || (*at >= ' ' && *at <= '~'));
    }
    kvf_config_problems_fini(&problems);
    return config;
}

/* Up to the first source: those differ between a file and its print. */
static size_t value_length(const char *line)
{
    const char *source = strstr(line, "  # ");
    size_t n = strcspn(line, "\n");
    return source != NULL && (size_t)(source - line) < n ? (size_t)(source - line) : n;
}

static void compare(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        size_t n = value_length(a);
        assert(n == value_length(b) && strncmp(a, b, n) == 0);
        a += strcspn(a, "\n");
        b += strcspn(b, "\n");
        a += *a == '\n' ? 1 : 0;
        b += *b == '\n' ? 1 : 0;
    }
}

static char *print(const struct kvf_config *config, size_t *out_n)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, out_n);
    if (out == NULL) {
        return NULL;
    }
    kvf_config_print(config, out);
    return fclose(out) == 0 ? text : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvf_config *config = load((const char *)bytes, n);
    if (config == NULL) {
        return 0;
    }
    size_t n_text = 0;
    size_t n_again = 0;
    char *text = print(config, &n_text);
    struct kvf_config *again = text != NULL ? load(text, n_text) : NULL;
    assert(text == NULL || again != NULL);
    char *text_again = again != NULL ? print(again, &n_again) : NULL;
    if (text_again != NULL) {
        compare(text, text_again);
    }
    free(text);
    free(text_again);
    kvf_config_destroy(config);
    kvf_config_destroy(again);
    return 0;
}
