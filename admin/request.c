/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a request out of libmicrohttpd's connection: escapes, headers, query, and who
 * sent it. Nothing here judges; the guard does. Loop thread.
 */
#include "admin/request.h"

#include <ctype.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/sock.h"

#define BAD_ESCAPE '\x01' /* refused by the guard as a control character */

static int hex_digit(char c)
{
    if (isdigit((unsigned char)c)) {
        return c - '0';
    }
    return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Percent-decoding in place. libmicrohttpd's own would end the text at %00 and leave bad
 * escapes standing. */
size_t kvf_request_unescape(void *owner, struct MHD_Connection *connection, char *text)
{
    (void)owner;
    (void)connection;
    char *out = text;
    for (const char *in = text; *in != '\0'; in++) {
        if (*in != '%') {
            *out++ = *in;
            continue;
        }
        int high = hex_digit(in[1]);
        int low = high >= 0 ? hex_digit(in[2]) : -1;
        if (low < 0 || high * 16 + low == 0) {
            *out++ = BAD_ESCAPE;
        } else {
            *out++ = (char)(high * 16 + low);
        }
        in += low < 0 ? 0 : 2;
    }
    *out = '\0';
    return (size_t)(out - text);
}

static bool has_control(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (iscntrl((unsigned char)value[i]) && value[i] != '\t') {
            return true;
        }
    }
    return false;
}

static enum MHD_Result collect_header(void *owner, enum MHD_ValueKind kind,
                                      const char *key, size_t n_key, const char *value,
                                      size_t n_value)
{
    static const struct {
        const char *name;
        size_t offset;
    } wanted[] = {
        {"Host", offsetof(struct kvf_http_headers, host)},
        {"Origin", offsetof(struct kvf_http_headers, origin)},
        {"Accept", offsetof(struct kvf_http_headers, accept)},
        {"Authorization", offsetof(struct kvf_http_headers, authorization)},
        {"Content-Type", offsetof(struct kvf_http_headers, content_type)},
        {"Content-Length", offsetof(struct kvf_http_headers, content_length)},
        {"X-Kvferry", offsetof(struct kvf_http_headers, kvferry)},
    };
    struct kvf_http_headers *headers = owner;
    (void)kind;
    headers->has_control |= has_control(key, n_key) || has_control(value, n_value);
    headers->n_hosts += strcasecmp(key, "Host") == 0 ? 1 : 0;
    headers->n_content_lengths += strcasecmp(key, "Content-Length") == 0 ? 1 : 0;
    headers->has_transfer_encoding |= strcasecmp(key, "Transfer-Encoding") == 0;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (strcasecmp(key, wanted[i].name) == 0) {
            memcpy((char *)headers + wanted[i].offset, &value, sizeof(value));
        }
    }
    return MHD_YES;
}

static enum MHD_Result check_argument(void *owner, enum MHD_ValueKind kind,
                                      const char *key, size_t n_key, const char *value,
                                      size_t n_value)
{
    struct kvf_http_headers *headers = owner;
    (void)kind;
    headers->has_control |= has_control(key, n_key) || has_control(value, n_value);
    return MHD_YES;
}

void kvf_request_read_headers(struct MHD_Connection *connection, const char *version,
                              struct kvf_http_headers *out)
{
    *out = (struct kvf_http_headers){.is_http_11 =
                                         strcmp(version, MHD_HTTP_VERSION_1_0) != 0};
    /* The number of values is of no use. */
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, collect_header, out);
    (void)MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, check_argument,
                                      out);
}

/* ---- what pages ask */

const char *kvf_http_query(const struct kvf_http_request *request, const char *key)
{
    const char *value = NULL;
    size_t n = 0;
    if (MHD_lookup_connection_value_n(request->connection, MHD_GET_ARGUMENT_KIND, key,
                                      strlen(key), &value, &n) != MHD_YES) {
        return NULL;
    }
    return value != NULL ? value : "";
}

struct key_walk {
    kvf_http_key_fn fn;
    void *owner;
};

static enum MHD_Result walk_key(void *owner, enum MHD_ValueKind kind, const char *key,
                                const char *value)
{
    const struct key_walk *walk = owner;
    (void)kind;
    (void)value;
    return walk->fn(walk->owner, key) ? MHD_YES : MHD_NO;
}

void kvf_http_each_key(const struct kvf_http_request *request, kvf_http_key_fn fn,
                       void *owner)
{
    struct key_walk walk = {fn, owner};
    (void)MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, walk_key,
                                    &walk); /* the number is of no use */
}

const char *kvf_http_who(const struct kvf_http_request *request,
                         char out[KVF_HTTP_WHO_MAX])
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const char *token = request->guard->n_token > 0 ? "token from " : "";
    struct kvf_sockaddr from = {.length = sizeof(from.storage)};
    struct ucred peer;
    socklen_t n = sizeof(peer);
    (void)snprintf(out, KVF_HTTP_WHO_MAX, "%sunknown", token);
    if (info == NULL || getpeername(info->connect_fd, (struct sockaddr *)&from.storage,
                                    &from.length) != 0) {
        return out;
    }
    if (from.storage.ss_family != AF_UNIX) {
        char address[KVF_HTTP_WHO_MAX / 2];
        kvf_sockaddr_format(&from, address, sizeof(address));
        (void)snprintf(out, KVF_HTTP_WHO_MAX, "%s%s", token, address);
    } else if (getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0) {
        (void)snprintf(out, KVF_HTTP_WHO_MAX, "%suid %u pid %d", token, peer.uid,
                       peer.pid);
    }
    return out;
}
