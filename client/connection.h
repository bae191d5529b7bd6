/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's end of the engine socket: a non-blocking Unix stream that carries frames.
 * Knows frames and messages, nothing of pools or transfers. The queues are those of the
 * daemon's streams (base/stream_io.h); there is no loop here: only kvf_connection_wait()
 * sleeps, and its caller says until when. The engine owns its connection. Caller's
 * thread.
 */
#ifndef KVF_CLIENT_CONNECTION_H
#define KVF_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include <kvferry/status.h>

#include "base/stream_io.h"
#include "proto/message.h"

struct kvf_connection {
    int fd;            /* owns; -1 when closed */
    uint64_t sequence; /* of the last frame that was queued */
    struct kvf_out_queue out;
    struct kvf_in_queue in;
    struct kvf_buf frame; /* encoding, one frame at a time */
};

/* Connects to the socket at path, trying again until deadline_ns while its backlog is
 * full. Errors: DAEMON_LOST (nobody listens), PERMISSION, INVALID_ARGUMENT (path too
 * long), TIMED_OUT, SYSTEM. The struct is ready for kvf_connection_close() in any case.
 */
enum kvf_status KVF_MUST_CHECK kvf_connection_open(struct kvf_connection *connection,
                                                   const char *path,
                                                   uint64_t deadline_ns);
void kvf_connection_close(struct kvf_connection *connection);

/* Who listens, as the kernel saw it at listen(). */
enum kvf_status KVF_MUST_CHECK kvf_connection_credentials(
    const struct kvf_connection *connection, struct kvf_credentials *out);

/* Queues one frame, all or nothing; fd >= 0 rides on it and is duplicated. Errors: BUSY
 * (queue full), INVALID_ARGUMENT (a field over its limit), NO_MEMORY, SYSTEM. */
enum kvf_status KVF_MUST_CHECK kvf_connection_queue(struct kvf_connection *connection,
                                                    const struct kvf_message *message,
                                                    int fd);
bool kvf_connection_has_output(const struct kvf_connection *connection);

/* One attempt to write what is queued or to read what has come. OK and IN_PROGRESS are
 * both fine; anything else means that the connection is lost. */
enum kvf_status KVF_MUST_CHECK kvf_connection_write(struct kvf_connection *connection);
enum kvf_status KVF_MUST_CHECK kvf_connection_read(struct kvf_connection *connection);

/* Takes the oldest whole message; frames of unknown type, from a newer daemon, are
 * skipped. IN_PROGRESS: there is none. Errors: PROTOCOL, VERSION, NO_MEMORY, with a
 * static sentence in *out_detail. The message lives in arena, which is reset first. */
enum kvf_status KVF_MUST_CHECK kvf_connection_take(struct kvf_connection *connection,
                                                   struct kvf_arena *arena,
                                                   struct kvf_message *out,
                                                   const char **out_detail);

/* Sleeps until there is something to read or, with output queued, room to write, or
 * until deadline_ns. */
void kvf_connection_wait(const struct kvf_connection *connection, uint64_t deadline_ns);

#endif
