/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines between an example engine and whoever routes its requests, over two pipes.
 *
 *   to the engine:    run ID SHAPE TOKENS KEYS            prefill and offer a prompt
 *                     take ID SHAPE TOKENS KEYS PARAMS    receive an offered prompt
 *                     audit, quit
 *   from the engine:  ready POOL_BYTES
 *                     offer ID PARAMS                     hand PARAMS to the receiver
 *                     begun ID                            the receiver asked for it
 *                     end ID STATUS BYTES START_NS DURATION_NS HELD_TOKENS CHECKED_BYTES
 *                         WRONG_BYTES PATH
 *                     audited CHECKED_BYTES WRONG_BYTES
 *
 * SHAPE is the index of the engine's --shape options, KEYS the content keys of the
 * prompt's parts of 512 tokens ("1,2,3") or "-", PARAMS hexadecimal. Sending blocks; the
 * pipes hold more than what is in flight. A channel borrows its descriptors. One thread.
 */
#ifndef KVF_EXAMPLES_CHANNEL_H
#define KVF_EXAMPLES_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_LINE_MAX  ((size_t)192 * 1024)
#define CHANNEL_PIPE_SIZE (1024 * 1024)
#define CHUNK_TOKENS      512

struct channel {
    int in_fd, out_fd; /* borrows; in_fd does not block */
    char *bytes;       /* owns; [CHANNEL_LINE_MAX] */
    size_t n_bytes, n_taken;
};

enum channel_result { CHANNEL_LINE, CHANNEL_EMPTY, CHANNEL_CLOSED };

bool channel_init(struct channel *channel, int in_fd, int out_fd);
void channel_fini(struct channel *channel); /* accepts a zeroed one */

/* One line; false when nobody reads any more. */
bool channel_send(const struct channel *channel, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The next line without its end, valid until the next call. CLOSED also for lines over
 * the limit. */
enum channel_result channel_next(struct channel *channel, char **out_line);

/* Words of a line, split in place by single spaces. */
char *channel_word(char **line); /* NULL: none left */
bool channel_number(char **line, uint64_t *out);

#endif
