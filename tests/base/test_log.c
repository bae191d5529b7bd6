/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sink: what reaches the descriptor, the limit per call site under a fixed clock, and
 * that a reader who is slow, stuck or gone costs counted lines and never a wait. Lines
 * are read from a pipe; the sink is process-wide, so each test opens and closes it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

#define RING_LINES 1024
#define PIPE_BYTES (4 * 4096) /* poll calls a pipe writable while it has a free page */

static uint64_t fixed_now_ns = 5 * KVF_NS_PER_S;

static uint64_t fixed_now(const struct kvf_clock *clock)
{
    (void)clock;
    return fixed_now_ns;
}

static uint64_t fixed_wall(const struct kvf_clock *clock)
{
    (void)clock;
    return 0;
}

static const struct kvf_clock_ops fixed_ops = {.now_ns = fixed_now,
                                               .wall_ns = fixed_wall};
static const struct kvf_clock fixed_clock = {.ops = &fixed_ops};

#define STAMP "1970-01-01T00:00:00.000000Z "

/* Two ends of a pipe, -1 once closed. */
struct outlet {
    int read_fd;
    int write_fd;
};

static void outlet_open(struct outlet *outlet)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_true(fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
    *outlet = (struct outlet){fds[0], fds[1]};
}

static void outlet_close(struct outlet *outlet)
{
    (void)close(outlet->read_fd);
    (void)close(outlet->write_fd);
}

/* What is in the pipe now, as a string; the writer has ended. */
static void read_all(struct outlet *outlet, char *out, size_t out_bytes)
{
    assert_int_equal(fcntl(outlet->read_fd, F_SETFL, O_NONBLOCK), 0);
    ssize_t n = read(outlet->read_fd, out, out_bytes - 1);
    out[n > 0 ? n : 0] = '\0';
}

static void open_text(struct outlet *outlet)
{
    outlet_open(outlet);
    assert_int_equal(kvf_log_open(KVF_LOG_TEXT, KVF_LOG_INFO, outlet->write_fd, "node-a"),
                     KVF_OK);
}

static int use_fixed_clock(void **state)
{
    (void)state;
    fixed_now_ns = 5 * KVF_NS_PER_S;
    kvf_log_set_clock(&fixed_clock);
    return 0;
}

static void test_log_writes_the_line_with_its_context(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    struct kvf_log_ctx ctx = {.comp = "peer", .peer = "b"};
    kvf_log_warn(&ctx, "peer lost, %d transfers cancelled", 3);
    kvf_log_info(NULL, "ready");
    kvf_log_close();
    char text[PIPE_BYTES];
    read_all(&outlet, text, sizeof(text));
    assert_string_equal(text,
                        STAMP "warn peer lost, 3 transfers cancelled comp=peer "
                              "node=node-a peer=b\n" STAMP "info ready node=node-a\n");
    outlet_close(&outlet);
}

static void test_log_auto_is_json_on_a_pipe_and_text_on_a_terminal(void **state)
{
    (void)state;
    struct outlet outlet;
    outlet_open(&outlet);
    assert_int_equal(kvf_log_open(KVF_LOG_AUTO, KVF_LOG_INFO, outlet.write_fd, "n"),
                     KVF_OK);
    kvf_log_info(NULL, "ready");
    kvf_log_close();
    char text[PIPE_BYTES];
    read_all(&outlet, text, sizeof(text));
    assert_string_equal(text,
                        "{\"ts\":\"1970-01-01T00:00:00.000000Z\",\"level\":\"info\","
                        "\"msg\":\"ready\",\"node\":\"n\"}\n");
    outlet_close(&outlet);

    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    assert_int_equal(grantpt(terminal), 0);
    assert_int_equal(unlockpt(terminal), 0);
    char name[64];
    assert_int_equal(ptsname_r(terminal, name, sizeof(name)), 0);
    int line_end = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(line_end >= 0);
    assert_int_equal(kvf_log_open(KVF_LOG_AUTO, KVF_LOG_INFO, line_end, "n"), KVF_OK);
    kvf_log_info(NULL, "ready");
    kvf_log_close();
    ssize_t n = read(terminal, text, sizeof(text));
    assert_true(n > 0);
    assert_memory_equal(text, STAMP "info ready", strlen(STAMP "info ready"));
    (void)close(line_end);
    (void)close(terminal);
}

static void test_log_level_filters_and_can_be_changed(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_log_count(KVF_LOG_DEBUG);
    kvf_log_debug(NULL, "unseen");
    kvf_log_set_level(KVF_LOG_DEBUG);
    assert_int_equal(kvf_log_get_level(), KVF_LOG_DEBUG);
    kvf_log_debug(NULL, "seen");
    kvf_log_trace(NULL, "unseen");
    kvf_log_set_level(KVF_LOG_ERROR);
    kvf_log_warn(NULL, "unseen");
    kvf_log_error(NULL, "seen too");
    kvf_log_close();
    char text[PIPE_BYTES];
    read_all(&outlet, text, sizeof(text));
    assert_string_equal(text, STAMP "debug seen node=node-a\n" STAMP
                                    "error seen too node=node-a\n");
    assert_int_equal(kvf_log_count(KVF_LOG_DEBUG) - before, 1);
    outlet_close(&outlet);
}

static void test_log_level_names_parse_back(void **state)
{
    (void)state;
    for (enum kvf_log_level level = KVF_LOG_ERROR; level <= KVF_LOG_TRACE; level++) {
        enum kvf_log_level parsed = KVF_LOG_ERROR;
        assert_true(kvf_log_level_parse(kvf_log_level_name(level), &parsed));
        assert_int_equal(parsed, level);
    }
    enum kvf_log_level untouched = KVF_LOG_DEBUG;
    assert_false(kvf_log_level_parse("INFO", &untouched));
    assert_false(kvf_log_level_parse("", &untouched));
    assert_int_equal(untouched, KVF_LOG_DEBUG);
}

/* One call site. */
static void log_n_times(int n)
{
    for (int i = 0; i < n; i++) {
        kvf_log_warn(NULL, "bad frame %d", i);
    }
}

static void test_log_site_is_limited_and_reports_suppressed_later(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_log_count(KVF_LOG_WARN);
    log_n_times(17);
    kvf_log_warn(NULL, "another site is not affected");
    fixed_now_ns += KVF_NS_PER_S - 1;
    log_n_times(1);
    fixed_now_ns += 1;
    log_n_times(2);
    kvf_log_close();

    char text[PIPE_BYTES + 1], expected[PIPE_BYTES] = "";
    for (int i = 0; i < 10; i++) {
        char line[100];
        (void)snprintf(line, sizeof(line), STAMP "warn bad frame %d node=node-a\n", i);
        strcat(expected, line);
    }
    strcat(expected, STAMP "warn another site is not affected node=node-a\n");
    strcat(expected, STAMP "warn bad frame 0 node=node-a suppressed=8\n");
    strcat(expected, STAMP "warn bad frame 1 node=node-a\n");
    read_all(&outlet, text, sizeof(text));
    assert_string_equal(text, expected);
    assert_int_equal(kvf_log_count(KVF_LOG_WARN) - before, 21);
    outlet_close(&outlet);
}

static void test_log_keeps_errno(void **state)
{
    (void)state;
    int kept_stderr = dup(STDERR_FILENO);
    (void)close(STDERR_FILENO); /* the direct write fails with EBADF */
    errno = ENOENT;
    kvf_log_error(NULL, "open failed");
    assert_int_equal(errno, ENOENT);
    assert_true(dup2(kept_stderr, STDERR_FILENO) >= 0);
    (void)close(kept_stderr);
}

struct tally {
    uint64_t n_lines; /* "line N" */
    uint64_t n_lost;  /* as the log itself tells */
};

/* Reads a line, waiting for the writer; false once it is "after". */
static bool read_line(FILE *stream, struct tally *tally)
{
    char text[200];
    unsigned long n = 0;
    assert_non_null(fgets(text, sizeof(text), stream));
    if (sscanf(text, STAMP "warn log ring full, %lu lines lost comp=log", &n) == 1) {
        tally->n_lost += n;
    } else if (sscanf(text, STAMP "info line %lu", &n) == 1) {
        tally->n_lines++;
    } else {
        assert_string_equal(text, STAMP "info after node=node-a\n");
        return false;
    }
    return true;
}

static void test_log_full_ring_drops_counts_and_tells(void **state)
{
    (void)state;
    enum { PUSHED = 3000, PIPE_LINES = PIPE_BYTES / 30 };
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_log_dropped();
    for (int i = 0; i < PUSHED; i++) { /* nobody reads: this must not block */
        kvf_log_write(KVF_LOG_INFO, NULL, NULL, "line %d", i);
    }
    FILE *stream = fdopen(outlet.read_fd, "r");
    assert_non_null(stream);
    struct tally tally = {0};
    for (int i = 0; i < RING_LINES; i++) {
        assert_true(read_line(stream, &tally));
    }
    kvf_log_info(NULL, "after"); /* most of the ring is free again */
    while (read_line(stream, &tally)) {
    }
    assert_int_equal(tally.n_lines + tally.n_lost, PUSHED);
    assert_int_equal(tally.n_lost, kvf_log_dropped() - before);
    assert_in_range(tally.n_lost, PUSHED - RING_LINES - PIPE_LINES - 1,
                    PUSHED - RING_LINES);
    kvf_log_close();
    (void)fclose(stream);
    (void)close(outlet.write_fd);
}

/* The limit is real time, so this test takes it: about a second. */
static void test_log_close_does_not_wait_for_a_stuck_reader(void **state)
{
    (void)state;
    enum { PUSHED = 900 };
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_log_dropped();
    for (int i = 0; i < PUSHED; i++) {
        kvf_log_write(KVF_LOG_INFO, NULL, NULL, "line %d", i);
    }
    uint64_t start_ns = kvf_clock_now_ns(&kvf_clock_system);
    kvf_log_close();
    uint64_t took_ns = kvf_clock_now_ns(&kvf_clock_system) - start_ns;
    assert_true(took_ns < 3 * KVF_NS_PER_S);
    uint64_t n_dropped = kvf_log_dropped() - before;
    char text[PIPE_BYTES + 1];
    read_all(&outlet, text, sizeof(text));
    uint64_t n_written = 0;
    for (const char *c = text; *c != '\0'; c++) {
        n_written += *c == '\n';
    }
    assert_true(n_dropped > 0);
    assert_int_equal(n_written + n_dropped, PUSHED);
    outlet_close(&outlet);
}

static void test_log_reader_gone_is_counted_and_raises_no_signal(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_log_dropped();
    (void)close(outlet.read_fd);
    for (int i = 0; i < 5; i++) {
        kvf_log_write(KVF_LOG_INFO, NULL, NULL, "line %d", i);
    }
    kvf_log_close();
    assert_int_equal(kvf_log_dropped() - before, 5);
    (void)close(outlet.write_fd);
}

/* A signal that the writer did not block would end the process here. */
static void test_log_writer_leaves_signals_to_others(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    sigset_t usr1, before;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &usr1, &before), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    static const struct timespec no_wait;
    assert_int_equal(sigtimedwait(&usr1, NULL, &no_wait), SIGUSR1);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    kvf_log_close();
    outlet_close(&outlet);
}

static void test_log_without_writer_goes_to_stderr(void **state)
{
    (void)state;
    struct outlet outlet;
    outlet_open(&outlet);
    int kept_stderr = dup(STDERR_FILENO);
    assert_true(dup2(outlet.write_fd, STDERR_FILENO) >= 0);
    kvf_log_set_level(KVF_LOG_INFO);
    kvf_log_warn(NULL, "early");
    assert_true(dup2(kept_stderr, STDERR_FILENO) >= 0);
    (void)close(kept_stderr);
    char text[PIPE_BYTES];
    read_all(&outlet, text, sizeof(text));
    assert_non_null(strstr(text, "early"));
    outlet_close(&outlet);
}

static void test_log_open_fails_cleanly_without_memory(void **state)
{
    (void)state;
    struct outlet outlet;
    outlet_open(&outlet);
    uint64_t nth = 0;
    enum kvf_status status;
    do {
        kvf_alloc_fail_nth(++nth);
        status = kvf_log_open(KVF_LOG_TEXT, KVF_LOG_INFO, outlet.write_fd, "n");
        assert_true(status == KVF_OK || status == KVF_NO_MEMORY);
    } while (status != KVF_OK);
    kvf_alloc_fail_nth(0);
    assert_int_equal(nth, 5); /* name, writer, ring, its records; the fifth is not made */
    kvf_log_close();
    outlet_close(&outlet);
}

static void test_log_close_twice_is_harmless(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    kvf_log_close();
    kvf_log_close();
    outlet_close(&outlet);
}

static void test_log_lines_allocate_nothing(void **state)
{
    (void)state;
    struct outlet outlet;
    open_text(&outlet);
    uint64_t before = kvf_alloc_count();
    log_n_times(5);
    assert_int_equal(kvf_alloc_count(), before);
    kvf_log_close();
    outlet_close(&outlet);
}

static void test_log_escape_keeps_only_printable_ascii(void **state)
{
    (void)state;
    char out[64];
    static const char bytes[] = "a b~\n\0\x1b\x7f\xe4";
    assert_string_equal(kvf_log_escape(bytes, sizeof(bytes) - 1, out, sizeof(out)),
                        "a b~\\x0a\\x00\\x1b\\x7f\\xe4");
    assert_string_equal(kvf_log_escape(NULL, 0, out, sizeof(out)), "");
}

static void test_log_escape_cuts_between_characters(void **state)
{
    (void)state;
    static const char *const expected[] = {"", "a", "a", "a", "a", "a\\x0a", "a\\x0ab"};
    for (size_t out_bytes = 1; out_bytes <= 7; out_bytes++) {
        char out[16];
        memset(out, 0x5a, sizeof(out));
        assert_string_equal(kvf_log_escape("a\nb", 3, out, out_bytes),
                            expected[out_bytes - 1]);
        assert_int_equal(out[out_bytes], 0x5a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_without_writer_goes_to_stderr),
        cmocka_unit_test(test_log_writes_the_line_with_its_context),
        cmocka_unit_test(test_log_auto_is_json_on_a_pipe_and_text_on_a_terminal),
        cmocka_unit_test(test_log_level_filters_and_can_be_changed),
        cmocka_unit_test(test_log_level_names_parse_back),
        cmocka_unit_test(test_log_site_is_limited_and_reports_suppressed_later),
        cmocka_unit_test(test_log_keeps_errno),
        cmocka_unit_test(test_log_full_ring_drops_counts_and_tells),
        cmocka_unit_test(test_log_close_does_not_wait_for_a_stuck_reader),
        cmocka_unit_test(test_log_reader_gone_is_counted_and_raises_no_signal),
        cmocka_unit_test(test_log_writer_leaves_signals_to_others),
        cmocka_unit_test(test_log_open_fails_cleanly_without_memory),
        cmocka_unit_test(test_log_close_twice_is_harmless),
        cmocka_unit_test(test_log_lines_allocate_nothing),
        cmocka_unit_test(test_log_escape_keeps_only_printable_ascii),
        cmocka_unit_test(test_log_escape_cuts_between_characters),
    };
    return cmocka_run_group_tests(tests, use_fixed_clock, NULL);
}
