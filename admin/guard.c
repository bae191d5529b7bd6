/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of guard.h. Host: IP literals pass, since probes and scrapers address the
 * pod by its address and a rebinding attack needs a name; names pass from a list only.
 * Origin: browsers send it with every cross-site write and with every scripted read, so
 * one that is not ours is a foreign page. The token is compared in time that depends on
 * what the client sent, never on what the file holds.
 */
#include "admin/guard.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define HOST_MAX     256
#define BEARER       "Bearer "
#define OWN_SCHEME   "http://"
#define JSON_TYPE    "application/json"
#define SECRET_MODES (S_IRWXG | S_IRWXO)

static const struct kvf_log_ctx context = {.comp = "http"};

enum kvf_problem kvf_guard_framing(const struct kvf_http_headers *headers,
                                   const char **out_detail)
{
    if (headers->has_transfer_encoding) {
        *out_detail = "Transfer-Encoding is not taken; send the body with Content-Length";
        return headers->n_content_lengths > 0 ? KVF_PROBLEM_MALFORMED
                                              : KVF_PROBLEM_LENGTH_REQUIRED;
    }
    if (headers->n_content_lengths > 1) {
        *out_detail = "more than one Content-Length";
        return KVF_PROBLEM_MALFORMED;
    }
    if (headers->has_control) {
        *out_detail = "a header or query value holds a control character";
        return KVF_PROBLEM_MALFORMED;
    }
    if (headers->content_length != NULL &&
        strtoull(headers->content_length, NULL, 10) > KVF_HTTP_BODY_MAX) {
        *out_detail = "the body is larger than 64 KiB";
        return KVF_PROBLEM_TOO_LARGE;
    }
    return KVF_PROBLEM_NONE;
}

static bool has_dot_dot(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")) != NULL; at++) {
        if (at[3] == '/' || at[3] == '\0') {
            return true;
        }
    }
    return false;
}

enum kvf_problem kvf_guard_path(const char *path, const char **out_detail)
{
    if (path[0] != '/') {
        *out_detail = "the path must begin with '/'";
        return KVF_PROBLEM_MALFORMED;
    }
    for (const char *c = path; *c != '\0'; c++) {
        if (iscntrl((unsigned char)*c)) {
            *out_detail = "the path holds a control character or a bad escape";
            return KVF_PROBLEM_MALFORMED;
        }
    }
    if (has_dot_dot(path)) {
        *out_detail = "the path holds a '..' segment";
        return KVF_PROBLEM_MALFORMED;
    }
    return KVF_PROBLEM_NONE;
}

/* Cuts the port off and the brackets of an IPv6 literal. False: not a host at all. */
static bool split_host(const char *text, char out[HOST_MAX])
{
    bool is_bracketed = text[0] == '[';
    const char *host = is_bracketed ? text + 1 : text;
    size_t n = strcspn(host, is_bracketed ? "]" : ":");
    const char *rest = host + n;
    if (n == 0 || n >= HOST_MAX || (is_bracketed && *rest != ']')) {
        return false;
    }
    rest += is_bracketed ? 1 : 0;
    if (*rest != '\0' && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")])) {
        return false;
    }
    memcpy(out, host, n);
    out[n] = '\0';
    return true;
}

static bool is_ip_literal(const char *host)
{
    struct in6_addr address; /* large enough for both */
    return inet_pton(AF_INET, host, &address) == 1 ||
           inet_pton(AF_INET6, host, &address) == 1;
}

static bool is_allowed_name(const struct kvf_guard *guard, const char *host)
{
    for (size_t i = 0; i < guard->n_allow_hosts; i++) {
        if (strcasecmp(guard->allow_hosts[i], host) == 0) {
            return true;
        }
    }
    return strcasecmp(host, "localhost") == 0;
}

enum kvf_problem kvf_guard_host(const struct kvf_guard *guard,
                                const struct kvf_http_headers *headers,
                                const char **out_detail)
{
    char host[HOST_MAX];
    if (headers->n_hosts == 0 && !headers->is_http_11) {
        return KVF_PROBLEM_NONE; /* old probes; no browser comes without Host */
    }
    if (headers->n_hosts != 1) {
        *out_detail = "exactly one Host header is needed";
        return KVF_PROBLEM_MALFORMED;
    }
    if (!split_host(headers->host, host)) {
        *out_detail = "the Host header is not host[:port]";
        return KVF_PROBLEM_MALFORMED;
    }
    if (!is_ip_literal(host) && !is_allowed_name(guard, host)) {
        *out_detail = "this name is not listed in admin.allow_hosts; use an IP address, "
                      "localhost or a listed name";
        return KVF_PROBLEM_MISDIRECTED;
    }
    return KVF_PROBLEM_NONE;
}

enum kvf_problem kvf_guard_origin(const struct kvf_http_headers *headers,
                                  const char **out_detail)
{
    const char *origin = headers->origin;
    size_t n = strlen(OWN_SCHEME);
    if (origin == NULL) {
        return KVF_PROBLEM_NONE;
    }
    if (headers->host == NULL || strncasecmp(origin, OWN_SCHEME, n) != 0 ||
        strcasecmp(origin + n, headers->host) != 0) {
        *out_detail = "the Origin header names another site";
        return KVF_PROBLEM_FORBIDDEN;
    }
    return KVF_PROBLEM_NONE;
}

/* Walks all that the client sent, whatever the first difference. */
static bool is_same_secret(const char *sent, const char *secret, size_t n_secret)
{
    size_t n_sent = strlen(sent);
    uint8_t difference = n_sent == n_secret ? 0 : 1;
    for (size_t i = 0; i < n_sent; i++) {
        difference |= (uint8_t)((uint8_t)sent[i] ^ (uint8_t)secret[i % n_secret]);
    }
    return difference == 0;
}

enum kvf_problem kvf_guard_token(const struct kvf_guard *guard,
                                 const struct kvf_http_headers *headers,
                                 const char **out_detail)
{
    const char *sent = headers->authorization;
    size_t n = strlen(BEARER);
    if (guard->n_token == 0) {
        return KVF_PROBLEM_NONE;
    }
    if (sent == NULL || strncasecmp(sent, BEARER, n) != 0) {
        *out_detail =
            "send the token of admin.token_file as 'Authorization: Bearer TOKEN'";
        return KVF_PROBLEM_UNAUTHORIZED;
    }
    if (!is_same_secret(sent + n, guard->token, guard->n_token)) {
        *out_detail = "the bearer token is not the one of admin.token_file";
        return KVF_PROBLEM_UNAUTHORIZED;
    }
    return KVF_PROBLEM_NONE;
}

static bool is_json(const char *type)
{
    size_t n = strlen(JSON_TYPE);
    return type != NULL && strncasecmp(type, JSON_TYPE, n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}

enum kvf_problem kvf_guard_mutation(const struct kvf_http_headers *headers,
                                    const char **out_detail)
{
    bool is_marked = headers->kvferry != NULL && strcmp(headers->kvferry, "1") == 0;
    if (is_marked || is_json(headers->content_type)) {
        return KVF_PROBLEM_NONE;
    }
    *out_detail = "a change needs the header 'X-Kvferry: 1' or 'Content-Type: "
                  "application/json', which a web form cannot send";
    return KVF_PROBLEM_FORBIDDEN;
}

/* ---- the token file */

static enum kvf_status read_first_line(int fd, struct kvf_guard *guard, const char *file)
{
    char bytes[KVF_HTTP_TOKEN_MAX + 2]; /* a line end may follow the longest token */
    ssize_t n_read = read(fd, bytes, sizeof(bytes) - 1);
    if (n_read < 0) {
        kvf_log_error(&context, "cannot read token file %s: %s", file,
                      strerrordesc_np(errno));
        return KVF_CONFIG;
    }
    bytes[n_read] = '\0';
    size_t n = strcspn(bytes, "\r\n");
    if (n == 0 || n >= sizeof(guard->token)) {
        kvf_log_error(&context, "token file %s: its first line must have 1 to %zu bytes",
                      file, sizeof(guard->token) - 1);
        return KVF_CONFIG;
    }
    memcpy(guard->token, bytes, n);
    guard->token[n] = '\0';
    guard->n_token = n;
    return KVF_OK;
}

enum kvf_status kvf_guard_load_token(struct kvf_guard *guard, const char *file)
{
    struct stat info;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        kvf_log_error(&context, "cannot open token file %s: %s", file,
                      strerrordesc_np(errno));
        return KVF_CONFIG;
    }
    if (fstat(fd, &info) == 0 && (info.st_mode & SECRET_MODES) != 0) {
        kvf_log_warn(&context, "token file %s is open to group or others, chmod 600 it",
                     file);
    }
    enum kvf_status status = read_first_line(fd, guard, file);
    (void)close(fd); /* only read from */
    return status;
}
