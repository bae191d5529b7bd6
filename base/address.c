/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses as people write them and as the kernel takes them. Text is parsed strictly:
 * what is accepted here is what config files, topology and command lines may say. No
 * names are looked up; "localhost" alone is known here, as 127.0.0.1, so that what counts
 * as loopback does not depend on a hosts file. Pure functions, any thread.
 */
#include "base/sock.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define UNIX_PREFIX  "unix:"
#define UNIX_MAX     (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)
#define PORT_TEXT    16
#define NAME_MAX_LEN 253 /* RFC 1035: 255 octets on the wire */

static const char *parse_unix(const char *path, struct kvf_address *out)
{
    size_t n = strlen(path);
    if (path[0] != '/') {
        return "a unix path must be absolute";
    }
    if (n > UNIX_MAX) {
        return "the unix path is longer than 107 bytes";
    }
    out->kind = KVF_ADDRESS_UNIX;
    memcpy(out->host, path, n + 1);
    return NULL;
}

static bool is_host_name(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr("-._", text[i]) == NULL) {
            return false;
        }
    }
    return n > 0;
}

/* The zone, as in fe80::1%eth0, is looked at when the address is used. */
static bool is_ipv6_literal(const char *text)
{
    char digits[KVF_ADDRESS_MAX];
    struct in6_addr address;
    size_t n = strcspn(text, "%");
    bool has_empty_zone = text[n] == '%' && text[n + 1] == '\0';
    memcpy(digits, text, n);
    digits[n] = '\0';
    return !has_empty_zone && inet_pton(AF_INET6, digits, &address) == 1;
}

/* Splits off the host; *out_rest points at what follows it. */
static const char *parse_host(const char *text, struct kvf_address *out,
                              const char **out_rest)
{
    bool is_bracketed = text[0] == '[';
    const char *host = is_bracketed ? text + 1 : text;
    size_t n = strcspn(host, is_bracketed ? "]" : ":");
    if (is_bracketed && host[n] != ']') {
        return "the bracket is not closed";
    }
    if (host[n] == ':' && strchr(host + n + 1, ':') != NULL) {
        return "an IPv6 address must be in brackets";
    }
    if (n == 0) {
        return "the host is missing";
    }
    if (n > NAME_MAX_LEN) {
        return "the host is longer than 253 bytes";
    }
    memcpy(out->host, host, n);
    out->host[n] = '\0';
    *out_rest = host + n + (is_bracketed ? 1 : 0);
    if (is_bracketed) {
        return is_ipv6_literal(out->host) ? NULL : "no IPv6 address between the brackets";
    }
    return is_host_name(out->host, n) ? NULL
                                      : "the host has a character no name may have";
}

/* Decimal digits alone: strtoul would take signs, spaces and 0x. */
static bool parse_port(const char *text, const char **out_end, uint16_t *out_port)
{
    uint32_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++) {
        value = value * 10 + (uint32_t)(*at - '0');
        if (value > UINT16_MAX) {
            return false;
        }
    }
    if (at == text) {
        return false;
    }
    *out_end = at;
    *out_port = (uint16_t)value;
    return true;
}

static const char *parse_ports(const char *text, struct kvf_address *out)
{
    const char *end = text;
    if (text[0] != ':' || text[1] == '\0') {
        return "the port is missing";
    }
    if (!parse_port(text + 1, &end, &out->port)) {
        return "the port must be a number from 0 to 65535";
    }
    out->port_last = out->port;
    if (*end == '\0') {
        return NULL;
    }
    if (*end != '-' || !parse_port(end + 1, &end, &out->port_last) || *end != '\0') {
        return "ports are written as 7480 or 7480-7495";
    }
    if (out->port == 0 || out->port_last < out->port) {
        return "the port range must rise and not begin at 0";
    }
    return NULL;
}

enum kvf_status kvf_address_parse(const char *text, struct kvf_address *out,
                                  const char **out_error)
{
    struct kvf_address address = {.kind = KVF_ADDRESS_TCP};
    const char *error;
    if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
        error = parse_unix(text + strlen(UNIX_PREFIX), &address);
    } else {
        const char *rest = text;
        error = parse_host(text, &address, &rest);
        if (error == NULL) {
            error = parse_ports(rest, &address);
        }
    }
    if (error != NULL) {
        *out_error = error;
        return KVF_INVALID_ARGUMENT;
    }
    *out = address;
    return KVF_OK;
}

void kvf_address_format(const struct kvf_address *address, char *out, size_t out_bytes)
{
    if (address->kind == KVF_ADDRESS_UNIX) {
        (void)snprintf(out, out_bytes, UNIX_PREFIX "%s", address->host);
        return;
    }
    char ports[PORT_TEXT];
    if (address->port_last > address->port) {
        (void)snprintf(ports, sizeof(ports), "%u-%u", address->port, address->port_last);
    } else {
        (void)snprintf(ports, sizeof(ports), "%u", address->port);
    }
    bool is_ipv6 = strchr(address->host, ':') != NULL;
    (void)snprintf(out, out_bytes, is_ipv6 ? "[%s]:%s" : "%s:%s", address->host, ports);
}

static bool is_localhost(const char *host)
{
    return strcasecmp(host, "localhost") == 0;
}

bool kvf_address_is_loopback(const struct kvf_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (address->kind == KVF_ADDRESS_UNIX || is_localhost(address->host)) {
        return true;
    }
    if (inet_pton(AF_INET, address->host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return inet_pton(AF_INET6, address->host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static bool fill_unix(const char *path, struct kvf_sockaddr *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n > UNIX_MAX) {
        return false;
    }
    memcpy(address.sun_path, path, n);
    memcpy(&out->storage, &address, sizeof(address));
    out->length = sizeof(address);
    return true;
}

static bool fill_ipv4(const char *host, uint16_t port, struct kvf_sockaddr *out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, is_localhost(host) ? "127.0.0.1" : host, &address.sin_addr) !=
        1) {
        return false;
    }
    memcpy(&out->storage, &address, sizeof(address));
    out->length = sizeof(address);
    return true;
}

static bool fill_ipv6(const char *host, uint16_t port, struct kvf_sockaddr *out)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char digits[KVF_ADDRESS_MAX];
    (void)snprintf(digits, sizeof(digits), "%s", host);
    char *zone = strchr(digits, '%');
    if (zone != NULL) {
        *zone = '\0';
        address.sin6_scope_id = if_nametoindex(zone + 1);
        if (address.sin6_scope_id == 0) {
            return false;
        }
    }
    if (inet_pton(AF_INET6, digits, &address.sin6_addr) != 1) {
        return false;
    }
    memcpy(&out->storage, &address, sizeof(address));
    out->length = sizeof(address);
    return true;
}

enum kvf_status kvf_sockaddr_from_numeric(const struct kvf_address *address,
                                          struct kvf_sockaddr *out)
{
    struct kvf_sockaddr result = {.length = 0};
    bool is_numeric = address->kind == KVF_ADDRESS_UNIX
                          ? fill_unix(address->host, &result)
                          : fill_ipv4(address->host, address->port, &result) ||
                                fill_ipv6(address->host, address->port, &result);
    if (!is_numeric) {
        return KVF_INVALID_ARGUMENT;
    }
    *out = result;
    return KVF_OK;
}

static void format_ipv6(const struct kvf_sockaddr *address, char *out, size_t out_bytes)
{
    struct sockaddr_in6 v6;
    char digits[INET6_ADDRSTRLEN];
    char zone[IF_NAMESIZE + 1] = "";
    memcpy(&v6, &address->storage, sizeof(v6));
    (void)inet_ntop(AF_INET6, &v6.sin6_addr, digits, sizeof(digits)); /* it fits */
    if (v6.sin6_scope_id != 0 && if_indextoname(v6.sin6_scope_id, zone + 1) != NULL) {
        zone[0] = '%';
    }
    (void)snprintf(out, out_bytes, "[%s%s]:%u", digits, zone, ntohs(v6.sin6_port));
}

void kvf_sockaddr_format(const struct kvf_sockaddr *address, char *out, size_t out_bytes)
{
    struct sockaddr_in v4;
    struct sockaddr_un local = {.sun_path = ""};
    char digits[INET_ADDRSTRLEN];
    switch (address->storage.ss_family) {
    case AF_INET:
        memcpy(&v4, &address->storage, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, digits, sizeof(digits)); /* it fits */
        (void)snprintf(out, out_bytes, "%s:%u", digits, ntohs(v4.sin_port));
        return;
    case AF_INET6:
        format_ipv6(address, out, out_bytes);
        return;
    default:
        /* A client's end of a unix socket has no path: the length says so. */
        memcpy(&local, &address->storage,
               address->length < sizeof(local) ? address->length : sizeof(local));
        (void)snprintf(out, out_bytes, UNIX_PREFIX "%.*s", (int)UNIX_MAX, local.sun_path);
        return;
    }
}
