/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a configuration, and where: collected while it is read, shown in the
 * order of the file with the source line and a caret. Texts may quote the file, so they
 * are escaped on the way in. Nothing is logged here. Start-up and loop thread.
 */
#ifndef KVF_CONFIG_PROBLEM_H
#define KVF_CONFIG_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "config/config.h"

#define KVF_PROBLEM_TEXT_BYTES 400
#define KVF_REFUSAL_BYTES      256
#define KVF_NEAREST_BYTES      96

/* Where a value comes from. line 0 and no variable: it is the default. */
struct kvf_where {
    uint32_t line, column; /* from 1; columns count characters */
    const char *variable;  /* the environment variable's name; borrowed like the value */
};

struct kvf_problem {
    struct kvf_where where;
    char text[KVF_PROBLEM_TEXT_BYTES];
};

/* Sorted by place: file order, then what came from the environment. */
struct kvf_problem_list {
    const char *name;   /* borrowed; the file's name as the user knows it */
    const char *source; /* borrowed; its text */
    size_t n_source_bytes;
    struct kvf_problem items[KVF_CONFIG_PROBLEMS_MAX];
    size_t n;
    size_t n_dropped; /* beyond the limit: the last ones in file order */
};

void kvf_problem_add(struct kvf_problem_list *list, struct kvf_where where,
                     const char *format, ...) __attribute__((format(printf, 3, 4)));
/* NO_MEMORY, or the text that the caller frees with kvf_config_problems_fini(). */
enum kvf_status KVF_MUST_CHECK kvf_problem_list_render(
    const struct kvf_problem_list *list, struct kvf_config_problems *out);

/* Why one value was refused, before anybody knows where it stood. */
struct kvf_value_refusal {
    char text[KVF_REFUSAL_BYTES];
};
/* Fills the sentence (out may be NULL) and returns CONFIG, so that a check is one line.
 */
enum kvf_status KVF_MUST_CHECK kvf_value_refuse(struct kvf_value_refusal *out,
                                                const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The known word nearest to a mistyped one, at most two edits away. Offer every
 * candidate; `word` and the candidates are borrowed. */
struct kvf_nearest {
    const char *word;
    const char *best; /* NULL: nothing is near */
    size_t distance;
    char suffix[KVF_NEAREST_BYTES];
};
void kvf_nearest_init(struct kvf_nearest *nearest, const char *word);
void kvf_nearest_offer(struct kvf_nearest *nearest, const char *candidate);
/* "; did you mean 'x'?" or "", valid as long as *nearest. */
const char *kvf_nearest_suffix(struct kvf_nearest *nearest);

#endif
