/* SPDX-License-Identifier: Apache-2.0 */
/* See parse_support.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/config/parse_support.h"

#include <stdlib.h>
#include <string.h>

struct kvf_config *parse_good(const char *text)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    enum kvf_status status =
        kvf_config_parse(FILE_NAME, text, strlen(text), &config, &problems);
    if (status != KVF_OK) {
        print_message("%s", problems.text);
    }
    assert_int_equal(status, KVF_OK);
    assert_int_equal(problems.n, 0);
    assert_string_equal(problems.text, "");
    kvf_config_problems_fini(&problems);
    return config;
}

void refuses(const char *text, const char *message)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    assert_int_equal(kvf_config_parse(FILE_NAME, text, strlen(text), &config, &problems),
                     KVF_CONFIG);
    assert_null(config);
    char line[600];
    (void)snprintf(line, sizeof(line), FILE_NAME ":%s\n", message);
    if (strstr(problems.text, line) == NULL) {
        print_message("expected %sgot\n%s", line, problems.text);
        fail();
    }
    kvf_config_problems_fini(&problems);
}

char *print_to_text(const struct kvf_config *config,
                    void (*print)(const struct kvf_config *config, FILE *out))
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    print(config, out);
    assert_int_equal(fclose(out), 0);
    return text;
}
