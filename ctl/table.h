/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and numbers for people: columns as wide as their widest cell, colour on the cell
 * and not on its padding, sizes and times in the unit that reads well. Cells are escaped,
 * since names come from outside and a terminal obeys escape sequences. One thread.
 */
#ifndef KVF_CTL_TABLE_H
#define KVF_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <kvferry/status.h>

enum kvf_color { KVF_PLAIN, KVF_GREEN, KVF_YELLOW, KVF_RED, KVF_BOLD };

struct kvf_column {
    const char *title;
    bool is_number; /* aligned right */
};

struct kvf_cell {
    char *text; /* owns */
    enum kvf_color color;
};

struct kvf_table {
    const struct kvf_column *columns; /* borrowed */
    size_t n_columns;
    struct kvf_cell *cells; /* owns; row by row */
    size_t n_cells, n_room;
    bool has_failed; /* out of memory: nothing will be printed */
};

void kvf_table_init(struct kvf_table *table, const struct kvf_column *columns, size_t n);
void kvf_table_fini(struct kvf_table *table);
/* The next cell, from the left, row after row. */
void kvf_table_add(struct kvf_table *table, enum kvf_color color, const char *text);
void kvf_table_add_number(struct kvf_table *table, uint64_t number);
enum kvf_status KVF_MUST_CHECK kvf_table_print(const struct kvf_table *table,
                                               bool has_color, FILE *out);

/* Text in a colour, or as it is. */
void kvf_print_colored(const char *text, enum kvf_color color, bool has_color, FILE *out);
/* Green for what is well (up, ready, done, OK), red for what is not, yellow between. */
enum kvf_color kvf_color_of(const char *state);

#define KVF_NUMBER_TEXT 32
const char *kvf_format_bytes(uint64_t n_bytes, char out[KVF_NUMBER_TEXT]); /* 57.0 GiB */
const char *kvf_format_ns(uint64_t ns, char out[KVF_NUMBER_TEXT]);         /* 1.29 ms */
const char *kvf_format_uptime(double seconds, char out[KVF_NUMBER_TEXT]);  /* 2h15m */

#endif
