/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in memory until they are printed, because widths are known only at the end. */
#include "ctl/table.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

#define FIRST_ROOM  64
#define CELL_MAX    256
#define COLUMNS_MAX 16
#define GAP         "  "

static const char *const codes[] = {
    [KVF_PLAIN] = "",       [KVF_GREEN] = "\x1b[32m", [KVF_YELLOW] = "\x1b[33m",
    [KVF_RED] = "\x1b[31m", [KVF_BOLD] = "\x1b[1m",
};

void kvf_table_init(struct kvf_table *table, const struct kvf_column *columns, size_t n)
{
    *table = (struct kvf_table){.columns = columns, .n_columns = n};
}

void kvf_table_fini(struct kvf_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++) {
        kvf_free(table->cells[i].text);
    }
    kvf_free(table->cells);
    *table = (struct kvf_table){.n_cells = 0};
}

static bool make_room(struct kvf_table *table)
{
    if (table->n_cells < table->n_room) {
        return true;
    }
    size_t n_room = table->n_room > 0 ? table->n_room * 2 : FIRST_ROOM;
    struct kvf_cell *cells = kvf_realloc(table->cells, n_room * sizeof(*cells));
    if (cells == NULL) {
        return false;
    }
    table->cells = cells;
    table->n_room = n_room;
    return true;
}

void kvf_table_add(struct kvf_table *table, enum kvf_color color, const char *text)
{
    char escaped[CELL_MAX];
    char *copy = kvf_strdup(kvf_log_escape(text, strlen(text), escaped, sizeof(escaped)));
    if (copy == NULL || !make_room(table)) {
        kvf_free(copy);
        table->has_failed = true;
        return;
    }
    table->cells[table->n_cells++] = (struct kvf_cell){copy, color};
}

void kvf_table_add_number(struct kvf_table *table, uint64_t number)
{
    char text[KVF_NUMBER_TEXT];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    kvf_table_add(table, KVF_PLAIN, text);
}

void kvf_print_colored(const char *text, enum kvf_color color, bool has_color, FILE *out)
{
    if (!has_color || color == KVF_PLAIN) {
        (void)fprintf(out, "%s", text);
    } else {
        (void)fprintf(out, "%s%s\x1b[0m", codes[color], text);
    }
}

static void print_cell(const char *text, enum kvf_color color, int width, bool is_number,
                       bool has_color, FILE *out)
{
    int padding = width - (int)strlen(text);
    padding = padding > 0 ? padding : 0;
    (void)fprintf(out, "%*s", is_number ? padding : 0, "");
    kvf_print_colored(text, color, has_color, out);
    (void)fprintf(out, "%*s", is_number ? 0 : padding, "");
}

/* A last column of text needs no padding: its width is 0. */
static void find_widths(const struct kvf_table *table, int widths[COLUMNS_MAX])
{
    size_t last = table->n_columns - 1;
    for (size_t i = 0; i < table->n_columns; i++) {
        widths[i] = (int)strlen(table->columns[i].title);
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        int width = (int)strlen(table->cells[i].text);
        size_t column = i % table->n_columns;
        widths[column] = width > widths[column] ? width : widths[column];
    }
    if (!table->columns[last].is_number) {
        widths[last] = 0;
    }
}

enum kvf_status kvf_table_print(const struct kvf_table *table, bool has_color, FILE *out)
{
    int widths[COLUMNS_MAX];
    size_t n = table->n_columns;
    assert(n > 0 && n <= COLUMNS_MAX);
    if (table->has_failed) {
        return KVF_NO_MEMORY;
    }
    find_widths(table, widths);
    for (size_t i = 0; i < n; i++) {
        print_cell(table->columns[i].title, KVF_BOLD, widths[i],
                   table->columns[i].is_number, has_color, out);
        (void)fprintf(out, i + 1 < n ? GAP : "\n");
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t column = i % n;
        print_cell(table->cells[i].text, table->cells[i].color, widths[column],
                   table->columns[column].is_number, has_color, out);
        (void)fprintf(out, column + 1 < n ? GAP : "\n");
    }
    return KVF_OK;
}

enum kvf_color kvf_color_of(const char *state)
{
    static const char *const good[] = {"up", "ready", "registered", "done", "OK", "ok"};
    static const char *const bad[] = {"down", "failed", "lost", "version_mismatch"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (strcmp(state, good[i]) == 0) {
            return KVF_GREEN;
        }
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (strcmp(state, bad[i]) == 0) {
            return KVF_RED;
        }
    }
    return KVF_YELLOW;
}

const char *kvf_format_bytes(uint64_t n_bytes, char out[KVF_NUMBER_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)n_bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, KVF_NUMBER_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value,
                   units[unit]);
    return out;
}

const char *kvf_format_ns(uint64_t ns, char out[KVF_NUMBER_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1000;
        unit++;
    }
    (void)snprintf(out, KVF_NUMBER_TEXT, value < 100 ? "%.3g %s" : "%.0f %s", value,
                   units[unit]);
    return out;
}

const char *kvf_format_uptime(double seconds, char out[KVF_NUMBER_TEXT])
{
    uint64_t s = seconds > 0 ? (uint64_t)seconds : 0;
    unsigned long long days = s / 86400;
    unsigned long long hours = s / 3600 % 24;
    unsigned long long minutes = s / 60 % 60;
    if (days > 0) {
        (void)snprintf(out, KVF_NUMBER_TEXT, "%llud%02lluh", days, hours);
    } else if (hours > 0) {
        (void)snprintf(out, KVF_NUMBER_TEXT, "%lluh%02llum", hours, minutes);
    } else {
        (void)snprintf(out, KVF_NUMBER_TEXT, "%llum%02llus", minutes,
                       (unsigned long long)(s % 60));
    }
    return out;
}
