/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arbitrary bytes as the daemon's configuration file. Either it is refused, and then at
 * least one problem says so on a line of its own; or what came out can be printed, and
 * the print is a configuration again.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "tests/fuzz/fuzz.h"

static struct kvf_config *parse(const char *text, size_t n)
{
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {0};
    enum kvf_status status = kvf_config_parse("input", text, n, &config, &problems);
    if (status == KVF_CONFIG) {
        assert(config == NULL && problems.n > 0 && problems.text[0] != '\0');
    } else {
        assert(status == KVF_OK && config != NULL);
    }
    kvf_config_problems_fini(&problems);
    return config;
}

static void check_print(const struct kvf_config *config)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    assert(stream != NULL);
    kvf_config_print(config, stream);
    (void)fclose(stream); /* memory only */
    struct kvf_config *again = parse(text, n);
    assert(again != NULL);
    kvf_config_destroy(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct kvf_config *config = parse((const char *)bytes, n);
    if (config != NULL) {
        check_print(config);
    }
    kvf_config_destroy(config);
    return 0;
}
