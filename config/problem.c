/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list keeps the first problems in file order, whatever order the checks run in. A
 * shown source line is reduced to one printable ASCII character for each character of the
 * file, so that the caret stands right and a terminal gets nothing to interpret.
 */
#include "config/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"

#define RENDERED_MAX_BYTES (256u * 1024)
#define SHOWN_LINE_MAX     160 /* characters; a caret beyond them is left out */
#define NEAREST_WORD_MAX   64
#define NEAREST_EDITS_MAX  2

static uint32_t order_of(const struct kvf_where *where)
{
    return where->variable != NULL ? UINT32_MAX : where->line;
}

static bool is_before(const struct kvf_where *a, const struct kvf_where *b)
{
    if (order_of(a) != order_of(b)) {
        return order_of(a) < order_of(b);
    }
    return a->column < b->column;
}

void kvf_problem_add(struct kvf_problem_list *list, struct kvf_where where,
                     const char *format, ...)
{
    char text[KVF_PROBLEM_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    /* A sentence that is too long is cut: it quotes something long. */
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);

    size_t at = list->n;
    while (at > 0 && is_before(&where, &list->items[at - 1].where)) {
        at--;
    }
    if (list->n == KVF_CONFIG_PROBLEMS_MAX) {
        list->n_dropped++;
        if (at == list->n) {
            return;
        }
        list->n--;
    }
    memmove(&list->items[at + 1], &list->items[at],
            (list->n - at) * sizeof(list->items[0]));
    list->n++;
    list->items[at].where = where;
    (void)kvf_log_escape(text, strlen(text), list->items[at].text,
                         sizeof(list->items[at].text));
}

static enum kvf_status append_text(struct kvf_buf *out, const char *text)
{
    return kvf_buf_append(out, text, strlen(text));
}

static const char *find_line(const struct kvf_problem_list *list, uint32_t line,
                             size_t *out_bytes)
{
    const char *at = list->source;
    const char *end = at + list->n_source_bytes;
    for (uint32_t i = 1; i < line && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline == NULL ? end : newline + 1;
    }
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    *out_bytes = (size_t)((newline == NULL ? end : newline) - at);
    return at;
}

/* One output character for each character of the line; returns how many. */
static size_t show_line(const char *line, size_t n_bytes, char out[SHOWN_LINE_MAX + 1])
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes && n < SHOWN_LINE_MAX; i++) {
        unsigned char c = (unsigned char)line[i];
        bool is_continuation = (c & 0xc0) == 0x80;
        if (!is_continuation) {
            out[n++] = (char)(c == '\t' ? ' ' : c >= ' ' && c < 0x7f ? c : '?');
        }
    }
    while (n > 0 && (out[n - 1] == ' ' || out[n - 1] == '?')) {
        n--; /* carriage returns, among others */
    }
    out[n] = '\0';
    return n;
}

static enum kvf_status append_source(struct kvf_buf *out,
                                     const struct kvf_problem_list *list,
                                     const struct kvf_where *where)
{
    size_t n_bytes = 0;
    char shown[SHOWN_LINE_MAX + 1];
    const char *line = find_line(list, where->line, &n_bytes);
    size_t n = show_line(line, n_bytes, shown);
    if (n == 0 || where->column > n + 1) {
        return KVF_OK;
    }
    char text[2 * SHOWN_LINE_MAX + 16];
    (void)snprintf(text, sizeof(text), "  %s\n  %*s\n", shown, (int)where->column, "^");
    return append_text(out, text);
}

static enum kvf_status append_problem(struct kvf_buf *out,
                                      const struct kvf_problem_list *list,
                                      const struct kvf_problem *problem)
{
    const struct kvf_where *where = &problem->where;
    char name[KVF_CONFIG_PATH_BYTES];
    char text[KVF_PROBLEM_TEXT_BYTES + KVF_CONFIG_PATH_BYTES + 32];
    (void)kvf_log_escape(list->name, strlen(list->name), name, sizeof(name));
    if (where->variable != NULL) {
        char variable[KVF_CONFIG_PATH_BYTES];
        (void)kvf_log_escape(where->variable, strlen(where->variable), variable,
                             sizeof(variable));
        (void)snprintf(text, sizeof(text), "%s: %s\n", variable, problem->text);
    } else if (where->line > 0) {
        (void)snprintf(text, sizeof(text), "%s:%u:%u: %s\n", name, where->line,
                       where->column, problem->text);
    } else {
        (void)snprintf(text, sizeof(text), "%s: %s\n", name, problem->text);
    }
    enum kvf_status status = append_text(out, text);
    if (status == KVF_OK && where->variable == NULL && where->line > 0) {
        status = append_source(out, list, where);
    }
    return status;
}

enum kvf_status kvf_problem_list_render(const struct kvf_problem_list *list,
                                        struct kvf_config_problems *out)
{
    struct kvf_buf buf;
    kvf_buf_init(&buf, RENDERED_MAX_BYTES);
    enum kvf_status status = KVF_OK;
    for (size_t i = 0; i < list->n && status == KVF_OK; i++) {
        status = append_problem(&buf, list, &list->items[i]);
    }
    if (status == KVF_OK && list->n_dropped > 0) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%zu more problems are not shown\n",
                       list->n_dropped);
        status = append_text(&buf, text);
    }
    if (status == KVF_OK) {
        status = kvf_buf_append(&buf, "", 1);
    }
    if (status != KVF_OK) {
        kvf_buf_fini(&buf);
        return KVF_NO_MEMORY;
    }
    /* Nothing was consumed: the queue's memory is the text. */
    out->text = (char *)buf.bytes;
    out->n = list->n;
    return KVF_OK;
}

void kvf_config_problems_fini(struct kvf_config_problems *problems)
{
    kvf_free(problems->text);
    *problems = (struct kvf_config_problems){.n = 0};
}

enum kvf_status kvf_value_refuse(struct kvf_value_refusal *out, const char *format, ...)
{
    if (out != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(out->text, sizeof(out->text), format, arguments);
        va_end(arguments);
    }
    return KVF_CONFIG;
}

void kvf_nearest_init(struct kvf_nearest *nearest, const char *word)
{
    *nearest = (struct kvf_nearest){.word = word, .distance = SIZE_MAX};
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein distance of two words shorter than NEAREST_WORD_MAX, one row at a time. */
static size_t count_edits(const char *a, const char *b)
{
    size_t row[NEAREST_WORD_MAX];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = smaller(replaced, smaller(row[j], row[j - 1]) + 1);
        }
    }
    return row[n];
}

void kvf_nearest_offer(struct kvf_nearest *nearest, const char *candidate)
{
    size_t length = strlen(nearest->word);
    if (length >= NEAREST_WORD_MAX || strlen(candidate) >= NEAREST_WORD_MAX) {
        return;
    }
    /* Two edits of a two-letter word are another word. */
    size_t limit = smaller(NEAREST_EDITS_MAX, (length + 1) / 3);
    size_t distance = count_edits(nearest->word, candidate);
    if (distance <= limit && distance < nearest->distance) {
        nearest->best = candidate;
        nearest->distance = distance;
    }
}

const char *kvf_nearest_suffix(struct kvf_nearest *nearest)
{
    if (nearest->best != NULL) {
        (void)snprintf(nearest->suffix, sizeof(nearest->suffix), "; did you mean '%s'?",
                       nearest->best);
    }
    return nearest->suffix;
}
