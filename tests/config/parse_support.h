/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configurations from text for the tests: one call, and the test fails with the problems
 * on the screen. The node is named in every text, so that the host's name does not
 * matter.
 */
#ifndef KVF_TESTS_CONFIG_PARSE_SUPPORT_H
#define KVF_TESTS_CONFIG_PARSE_SUPPORT_H

#include "config/config.h"

#define FILE_NAME "t.yaml"
#define NODE      "node: {name: here}\n"

/* The caller destroys it. */
struct kvf_config *parse_good(const char *text);
/* The text is refused and the message without its "t.yaml:" is among the problems. */
void refuses(const char *text, const char *message);
/* A whole stream's text; the caller frees it. */
char *print_to_text(const struct kvf_config *config,
                    void (*print)(const struct kvf_config *config, FILE *out));

#endif
