/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: what may be written, what is refused and with which sentence, what counts as
 * loopback, and the way to the kernel's form and back to text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/sock.h"

static struct kvf_address parse(const char *text)
{
    struct kvf_address address;
    const char *error = NULL;
    assert_int_equal(kvf_address_parse(text, &address, &error), KVF_OK);
    assert_null(error);
    return address;
}

static void expect_tcp(const char *text, const char *host, uint16_t first, uint16_t last)
{
    struct kvf_address address = parse(text);
    assert_int_equal(address.kind, KVF_ADDRESS_TCP);
    assert_string_equal(address.host, host);
    assert_int_equal(address.port, first);
    assert_int_equal(address.port_last, last);
}

static void test_address_parses_hosts_and_ports(void **state)
{
    (void)state;
    expect_tcp("127.0.0.1:7470", "127.0.0.1", 7470, 7470);
    expect_tcp("node-a.rack_1.example:0", "node-a.rack_1.example", 0, 0);
    expect_tcp("[::]:65535", "::", 65535, 65535);
    expect_tcp("[fe80::1%lo]:80", "fe80::1%lo", 80, 80);
    expect_tcp("0.0.0.0:7480-7495", "0.0.0.0", 7480, 7495);
    expect_tcp("[::1]:7480-7480", "::1", 7480, 7480);
}

static void test_address_parses_unix_paths(void **state)
{
    (void)state;
    struct kvf_address address = parse("unix:/run/kvferry/engine.sock");
    assert_int_equal(address.kind, KVF_ADDRESS_UNIX);
    assert_string_equal(address.host, "/run/kvferry/engine.sock");
    assert_int_equal(address.port, 0);
}

static void expect_error(const char *text, const char *sentence)
{
    struct kvf_address address;
    struct kvf_address before;
    const char *error = NULL;
    memset(&address, 0x5a, sizeof(address));
    before = address;
    assert_int_equal(kvf_address_parse(text, &address, &error), KVF_INVALID_ARGUMENT);
    assert_string_equal(error, sentence);
    assert_memory_equal(&address, &before, sizeof(address));
}

static void test_address_refuses_what_it_cannot_mean(void **state)
{
    (void)state;
    const char *no_port = "the port is missing";
    const char *bad_port = "the port must be a number from 0 to 65535";
    const char *bad_form = "ports are written as 7480 or 7480-7495";
    const char *bad_range = "the port range must rise and not begin at 0";
    const char *no_host = "the host is missing";
    const char *bad_host = "the host has a character no name may have";
    const char *no_v6 = "no IPv6 address between the brackets";
    expect_error("", no_host);
    expect_error(":80", no_host);
    expect_error("[]:80", no_host);
    expect_error("host", no_port);
    expect_error("host:", no_port);
    expect_error("[::1]", no_port);
    expect_error("[::1]80", no_port);
    expect_error("host:65536", bad_port);
    expect_error("host:99999999999999999999", bad_port);
    expect_error("host:-1", bad_port);
    expect_error("host:+80", bad_port);
    expect_error("host: 80", bad_port);
    expect_error("host:http", bad_port);
    expect_error("host:80 ", bad_form);
    expect_error("host:80-", bad_form);
    expect_error("host:80-90-95", bad_form);
    expect_error("host:80-70000", bad_form);
    expect_error("host:90-80", bad_range);
    expect_error("host:0-5", bad_range);
    expect_error("a b:80", bad_host);
    expect_error("host/x:80", bad_host);
    expect_error("::1:80", "an IPv6 address must be in brackets");
    expect_error("[::1:80", "the bracket is not closed");
    expect_error("[127.0.0.1]:80", no_v6);
    expect_error("[::1%]:80", no_v6);
    expect_error("[host]:80", no_v6);
}

static void test_address_refuses_what_does_not_fit(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'a', sizeof(text));
    memcpy(text + 254, ":80", 4);
    expect_error(text, "the host is longer than 253 bytes");
    memcpy(text + 253, ":80", 4);
    assert_int_equal(strlen(parse(text).host), 253);

    memcpy(text, "unix:/", 6);
    memset(text + 6, 'a', sizeof(text) - 6);
    text[5 + 108] = '\0';
    expect_error(text, "the unix path is longer than 107 bytes");
    text[5 + 107] = '\0';
    assert_int_equal(strlen(parse(text).host), 107);
    expect_error("unix:run/x", "a unix path must be absolute");
    expect_error("unix:", "a unix path must be absolute");
}

static void test_address_format_gives_what_was_parsed(void **state)
{
    (void)state;
    const char *texts[] = {"127.0.0.1:7470", "[::1]:0", "host:7480-7495",
                           "[fe80::1%lo]:80-81", "unix:/a/b"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char out[KVF_ADDRESS_MAX];
        struct kvf_address address = parse(texts[i]);
        kvf_address_format(&address, out, sizeof(out));
        assert_string_equal(out, texts[i]);
    }
}

static void test_address_format_cuts_at_the_end_of_the_buffer(void **state)
{
    (void)state;
    char out[8];
    struct kvf_address address = parse("127.0.0.1:7470");
    kvf_address_format(&address, out, sizeof(out));
    assert_string_equal(out, "127.0.0");
}

static void test_loopback_is_this_machine_only(void **state)
{
    (void)state;
    const char *inside[] = {"127.0.0.1:1", "127.255.0.9:1", "[::1]:1",
                            "localhost:1", "LocalHost:1",   "unix:/a"};
    const char *outside[] = {"128.0.0.1:1",  "0.0.0.0:1",           "[::]:1",
                             "[::2]:1",      "localhost.example:1", "node:1",
                             "10.127.0.0:1", "[::ffff:10.0.0.1]:1", "127.1:1"};
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        struct kvf_address address = parse(inside[i]);
        assert_true(kvf_address_is_loopback(&address));
    }
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        struct kvf_address address = parse(outside[i]);
        assert_false(kvf_address_is_loopback(&address));
    }
}

static void expect_sockaddr(const char *text, int family, const char *formatted)
{
    char out[KVF_ADDRESS_MAX];
    struct kvf_sockaddr resolved;
    struct kvf_address address = parse(text);
    assert_int_equal(kvf_sockaddr_from_numeric(&address, &resolved), KVF_OK);
    assert_int_equal(resolved.storage.ss_family, family);
    kvf_sockaddr_format(&resolved, out, sizeof(out));
    assert_string_equal(out, formatted);
}

static void test_sockaddr_of_numeric_hosts_and_paths(void **state)
{
    (void)state;
    expect_sockaddr("10.1.2.3:7470", AF_INET, "10.1.2.3:7470");
    expect_sockaddr("10.1.2.3:7480-7495", AF_INET, "10.1.2.3:7480");
    expect_sockaddr("localhost:80", AF_INET, "127.0.0.1:80");
    expect_sockaddr("[2001:db8:0::1]:65535", AF_INET6, "[2001:db8::1]:65535");
    expect_sockaddr("[fe80::1%lo]:80", AF_INET6, "[fe80::1%lo]:80");
    expect_sockaddr("unix:/run/x.sock", AF_UNIX, "unix:/run/x.sock");
}

static void test_sockaddr_leaves_names_to_the_resolver(void **state)
{
    (void)state;
    const char *texts[] = {"node-a:80", "127.1:80", "1.2.3.4.5:80",
                           "[fe80::1%nosuchif]:80"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct kvf_sockaddr resolved = {.length = 77};
        struct kvf_address address = parse(texts[i]);
        assert_int_equal(kvf_sockaddr_from_numeric(&address, &resolved),
                         KVF_INVALID_ARGUMENT);
        assert_int_equal(resolved.length, 77);
    }
}

static void test_sockaddr_refuses_a_path_the_kernel_cannot_take(void **state)
{
    (void)state;
    struct kvf_sockaddr resolved;
    struct kvf_address address = {.kind = KVF_ADDRESS_UNIX};
    memset(address.host, 'a', 150);
    assert_int_equal(kvf_sockaddr_from_numeric(&address, &resolved),
                     KVF_INVALID_ARGUMENT);
}

static void test_sockaddr_format_of_an_unnamed_unix_socket(void **state)
{
    (void)state;
    char out[KVF_ADDRESS_MAX];
    struct kvf_sockaddr unnamed;
    memset(&unnamed, 'x', sizeof(unnamed)); /* nothing beyond the length may be read */
    unnamed.storage.ss_family = AF_UNIX;
    unnamed.length = offsetof(struct sockaddr_un, sun_path);
    kvf_sockaddr_format(&unnamed, out, sizeof(out));
    assert_string_equal(out, "unix:");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_parses_hosts_and_ports),
        cmocka_unit_test(test_address_parses_unix_paths),
        cmocka_unit_test(test_address_refuses_what_it_cannot_mean),
        cmocka_unit_test(test_address_refuses_what_does_not_fit),
        cmocka_unit_test(test_address_format_gives_what_was_parsed),
        cmocka_unit_test(test_address_format_cuts_at_the_end_of_the_buffer),
        cmocka_unit_test(test_loopback_is_this_machine_only),
        cmocka_unit_test(test_sockaddr_of_numeric_hosts_and_paths),
        cmocka_unit_test(test_sockaddr_leaves_names_to_the_resolver),
        cmocka_unit_test(test_sockaddr_refuses_a_path_the_kernel_cannot_take),
        cmocka_unit_test(test_sockaddr_format_of_an_unnamed_unix_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
