/* SPDX-License-Identifier: Apache-2.0 */
/* Lines over pipes: a read buffer of one longest line, and whole writes. */
#include "examples/channel.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool channel_init(struct channel *channel, int in_fd, int out_fd)
{
    *channel = (struct channel){.in_fd = in_fd, .out_fd = out_fd};
    channel->bytes = malloc(CHANNEL_LINE_MAX);
    return channel->bytes != NULL;
}

void channel_fini(struct channel *channel)
{
    free(channel->bytes);
    channel->bytes = NULL;
}

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t n_written = write(fd, bytes, n);
        if (n_written < 0 && errno != EINTR) {
            return false;
        }
        if (n_written > 0) {
            bytes += n_written;
            n -= (size_t)n_written;
        }
    }
    return true;
}

bool channel_send(const struct channel *channel, const char *format, ...)
{
    char *line = NULL;
    va_list arguments;
    va_start(arguments, format);
    int n = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (n < 0) {
        return false;
    }
    bool is_sent = write_all(channel->out_fd, line, (size_t)n);
    free(line);
    return is_sent;
}

static enum channel_result fill(struct channel *channel)
{
    size_t n_left = channel->n_bytes - channel->n_taken;
    memmove(channel->bytes, channel->bytes + channel->n_taken, n_left);
    channel->n_taken = 0;
    channel->n_bytes = n_left;
    if (n_left == CHANNEL_LINE_MAX) {
        return CHANNEL_CLOSED;
    }
    ssize_t n = read(channel->in_fd, channel->bytes + n_left, CHANNEL_LINE_MAX - n_left);
    if (n > 0) {
        channel->n_bytes += (size_t)n;
        return CHANNEL_LINE;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? CHANNEL_EMPTY : CHANNEL_CLOSED;
}

enum channel_result channel_next(struct channel *channel, char **out_line)
{
    for (;;) {
        char *begin = channel->bytes + channel->n_taken;
        char *end = memchr(begin, '\n', channel->n_bytes - channel->n_taken);
        if (end != NULL) {
            *end = '\0';
            channel->n_taken = (size_t)(end + 1 - channel->bytes);
            *out_line = begin;
            return CHANNEL_LINE;
        }
        enum channel_result result = fill(channel);
        if (result != CHANNEL_LINE) {
            return result;
        }
    }
}

char *channel_word(char **line)
{
    char *word = *line;
    if (word == NULL || *word == '\0') {
        return NULL;
    }
    char *space = strchr(word, ' ');
    *line = space != NULL ? space + 1 : NULL;
    if (space != NULL) {
        *space = '\0';
    }
    return word;
}

bool channel_number(char **line, uint64_t *out)
{
    char *word = channel_word(line);
    char *end = NULL;
    if (word == NULL || *word < '0' || *word > '9') {
        return false;
    }
    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *out = value;
    return true;
}
