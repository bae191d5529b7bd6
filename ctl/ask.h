/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the daemon: one call, its failures turned into a sentence on stderr and an exit
 * code, its answer as text, as JSON or copied through. One thread, blocking.
 */
#ifndef KVF_CTL_ASK_H
#define KVF_CTL_ASK_H

#include <jansson.h>

#include "base/buf.h"

#include "ctl/ctl.h"

#define KVF_ASK_ANSWER_MAX ((size_t)16 * 1024 * 1024)
#define KVF_ASK_TARGET_MAX 1024

/* A path and query under construction; values are percent-encoded. */
struct kvf_target {
    char text[KVF_ASK_TARGET_MAX];
    size_t n;
    bool has_query, is_cut;
};
void kvf_target_init(struct kvf_target *target, const char *path);
void kvf_target_add_segment(struct kvf_target *target, const char *value);
/* Nothing when value is NULL. */
void kvf_target_add_query(struct kvf_target *target, const char *key, const char *value);

/* The body of a 2xx answer, NUL-terminated. `also` is one more HTTP status whose body is
 * an answer (0: none). out_http may be NULL. On KVF_EXIT_OK the caller ends *out with
 * kvf_buf_fini. */
enum kvf_exit kvf_ask_text(const struct kvf_ctl *ctl, const char *method,
                           const struct kvf_target *target, unsigned int also,
                           struct kvf_buf *out, unsigned int *out_http);
/* The same, parsed; with --json the body is printed, and *out is still set. */
enum kvf_exit kvf_ask_json(const struct kvf_ctl *ctl, const char *method,
                           const struct kvf_target *target, json_t **out);
/* Copies the body to a stream as it comes. */
enum kvf_exit kvf_ask_copy(const struct kvf_ctl *ctl, const struct kvf_target *target,
                           FILE *to);

/* Members by name; absent or of another type: "" and 0. */
const char *kvf_json_get_text(const json_t *object, const char *key);
uint64_t kvf_json_get_count(const json_t *object, const char *key);
double kvf_json_get_real(const json_t *object, const char *key);

#endif
