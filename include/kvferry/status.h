/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of outcomes.
 *
 * Every fallible call of the library and of the daemon returns enum kvf_status. The value
 * is also the code on the wire, so a row is never renumbered; new rows are appended
 * inside their scope. The scope is the largest thing that is broken: a REQUEST can be
 * retried alone, a SESSION needs the engine to register again, a PEER affects every
 * request to that node, a DAEMON everything on this one. Nothing else in the tree maps
 * outcomes to text.
 */
#ifndef KVFERRY_STATUS_H
#define KVFERRY_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define KVF_MUST_CHECK __attribute__((warn_unused_result))
#else
#define KVF_MUST_CHECK
#endif

#ifndef KVF_API
#if defined(__GNUC__) || defined(__clang__)
#define KVF_API __attribute__((visibility("default")))
#else
#define KVF_API
#endif
#endif

enum kvf_scope {
    KVF_SCOPE_NONE = 0,
    KVF_SCOPE_REQUEST = 1,
    KVF_SCOPE_SESSION = 2,
    KVF_SCOPE_PEER = 3,
    KVF_SCOPE_DAEMON = 4
};

/* X(name, value, scope, retryable 0|1, text, advice) */
#define KVF_STATUS_TABLE(X)                                                              \
    X(OK, 0, NONE, 0, "ok", "nothing to do")                                             \
    X(IN_PROGRESS, 1, NONE, 1, "still in progress", "poll or wait again")                \
    X(INVALID_ARGUMENT, -1, REQUEST, 0, "invalid argument",                              \
      "the detail names the argument; correct the call")                                 \
    X(NOT_FOUND, -2, REQUEST, 0, "no such request",                                      \
      "the id is unknown here: it ended long ago, was never offered, or belongs to "     \
      "another instance")                                                                \
    X(DUPLICATE, -3, REQUEST, 0, "request id already in use",                            \
      "use a new request id, or a higher attempt after the first one ended")             \
    X(CANCELLED, -4, REQUEST, 0, "cancelled",                                            \
      "the blocks may be used again once the reusable bit is set")                       \
    X(EXPIRED, -5, REQUEST, 1, "deadline passed",                                        \
      "the other side did not come in time: check that it is up, or allow more time")    \
    X(TIMED_OUT, -6, REQUEST, 1, "the wait ended before the transfer did",               \
      "the transfer goes on: wait again or cancel it")                                   \
    X(BUSY, -7, REQUEST, 1, "a limit is reached",                                        \
      "retry after the hint, or raise the limit named in the detail")                    \
    X(BAD_REF, -8, REQUEST, 0, "reference outside the pool or lease",                    \
      "the detail names the block and the pool; check the block table")                  \
    X(LAYOUT_MISMATCH, -9, REQUEST, 0, "the two sides do not fit together",              \
      "the detail names the field and both values; the models must be the same")         \
    X(PLAN_MISMATCH, -10, REQUEST, 0, "the two sides planned different transfers",       \
      "run the same kvferry release on both nodes")                                      \
    X(HASH_MISMATCH, -11, REQUEST, 0, "block hashes differ",                             \
      "the offered blocks hold another prompt; recompute the prefix")                    \
    X(INTEGRITY, -12, REQUEST, 1, "checksum mismatch",                                   \
      "data was damaged on the way; recompute, and look at this peer's link")            \
    X(DATA_PATH, -13, REQUEST, 1, "the data path failed",                                \
      "control works but data does not: check ports 7480-7495 and the transport")        \
    X(TOO_LATE, -14, REQUEST, 0, "already ended", "read the outcome that was reported")  \
    X(NOT_READY, -15, REQUEST, 1, "the sending engine refused",                          \
      "the detail carries its cause; recompute the prompt")                              \
    X(BUFFER_TOO_SMALL, -16, REQUEST, 1, "buffer too small",                             \
      "the needed size was returned; call again with that many bytes")                   \
    X(UNSUPPORTED, -17, REQUEST, 0, "not supported",                                     \
      "the detail says what is supported instead")                                       \
    X(BAD_PARAMS, -18, REQUEST, 0, "context params are damaged",                         \
      "hand the bytes of kvf_send_async through the router unchanged")                   \
    X(PROTOCOL, -30, SESSION, 0, "malformed message",                                    \
      "the sender of the message is not kvferry or is damaged")                          \
    X(VERSION, -31, SESSION, 0, "no common protocol version",                            \
      "upgrade the older of the two programs")                                           \
    X(FORKED, -32, SESSION, 0, "used after fork",                                        \
      "open a new engine session in the child process")                                  \
    X(NOT_SHAREABLE, -33, SESSION, 0, "memory cannot be shared",                         \
      "allocate the pool as the detail says")                                            \
    X(POOL_UNSEALED, -34, SESSION, 0, "pool file is not sealed against shrinking",       \
      "fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) before registering")          \
    X(ENGINE_LOST, -35, SESSION, 1, "an engine disappeared",                             \
      "retry when it has registered again")                                              \
    X(NAME_TAKEN, -36, SESSION, 0, "a live engine holds this instance and rank",         \
      "stop the other engine or give this one its own rank")                             \
    X(UNKNOWN_INSTANCE, -37, SESSION, 0, "instance or rank is not in the topology",      \
      "add it under instances: in the daemon's YAML")                                    \
    X(PERMISSION, -38, SESSION, 0, "not allowed",                                        \
      "the daemon and the engine must run as allowed users; see engine.allow_uids")      \
    X(PEER_LOST, -50, PEER, 1, "the peer daemon disappeared",                            \
      "it is reconnected by itself; retry or recompute")                                 \
    X(PEER_UNKNOWN, -51, PEER, 0, "the peer is not in the topology",                     \
      "add it under peers: on both nodes")                                               \
    X(PEER_UNREACHABLE, -52, PEER, 1, "the peer is not connected",                       \
      "see the peer's state in kvferryctl status")                                       \
    X(PEER_VERSION, -53, PEER, 0, "the peer speaks another protocol version",            \
      "upgrade the older daemon")                                                        \
    X(TRANSPORT_REFUSED, -54, PEER, 0, "no allowed transport reaches the peer",          \
      "see data.require and data.prefer on both nodes")                                  \
    X(DAEMON_LOST, -70, DAEMON, 1, "the daemon is gone",                                 \
      "restart kvferryd; host pools may be used at once")                                \
    X(SHUTDOWN, -71, DAEMON, 1, "the daemon is shutting down",                           \
      "retry on another node or after the restart")                                      \
    X(NO_MEMORY, -72, DAEMON, 1, "out of memory",                                        \
      "raise the container's memory limit or lower data.arena")                          \
    X(CONFIG, -73, DAEMON, 0, "configuration error",                                     \
      "run kvferryd --check-config and correct what it names")                           \
    X(SYSTEM, -74, DAEMON, 1, "operating system error",                                  \
      "the log carries the original error text")                                         \
    X(INTERNAL, -75, DAEMON, 0, "internal error", "report it with the daemon's log")     \
    X(GPU_LOST, -76, DAEMON, 1, "the GPU or its worker failed",                          \
      "see kvferryctl status for the GPU; other GPUs are unaffected")

enum kvf_status {
#define KVF_STATUS_ENUM(name, value, scope, retryable, text, advice) KVF_##name = (value),
    KVF_STATUS_TABLE(KVF_STATUS_ENUM)
#undef KVF_STATUS_ENUM
};

/* All four accept any int, also one received from a newer peer. They never return NULL,
 * the strings are static. Any thread. */
KVF_API const char *kvf_status_name(int status);
KVF_API const char *kvf_status_text(int status);
KVF_API const char *kvf_status_advice(int status);
KVF_API enum kvf_scope kvf_status_scope(int status);
KVF_API int kvf_status_is_retryable(int status);

#ifdef __cplusplus
}
#endif
#endif
