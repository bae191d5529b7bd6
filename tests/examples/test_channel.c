/* SPDX-License-Identifier: Apache-2.0 */
/* Lines come whole, whatever pieces the pipe delivers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "examples/channel.h"

struct fixture {
    int fds[2];
    struct channel channel;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    *state = &fixture;
    return pipe2(fixture.fds, O_CLOEXEC | O_NONBLOCK) == 0 &&
                   channel_init(&fixture.channel, fixture.fds[0], fixture.fds[1])
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    channel_fini(&fixture->channel);
    (void)close(fixture->fds[0]);
    (void)close(fixture->fds[1]);
    return 0;
}

static void put(const struct fixture *fixture, const char *text)
{
    assert_int_equal(write(fixture->fds[1], text, strlen(text)), strlen(text));
}

static void test_channel_joins_pieces_and_splits_lines(void **state)
{
    struct fixture *fixture = *state;
    char *line = NULL;
    put(fixture, "run 1");
    assert_int_equal(channel_next(&fixture->channel, &line), CHANNEL_EMPTY);
    put(fixture, "2\nquit\nau");
    assert_int_equal(channel_next(&fixture->channel, &line), CHANNEL_LINE);
    assert_string_equal(line, "run 12");
    assert_int_equal(channel_next(&fixture->channel, &line), CHANNEL_LINE);
    assert_string_equal(line, "quit");
    assert_int_equal(channel_next(&fixture->channel, &line), CHANNEL_EMPTY);
    assert_true(channel_send(&fixture->channel, "%s\n", "dit"));
    assert_int_equal(channel_next(&fixture->channel, &line), CHANNEL_LINE);
    assert_string_equal(line, "audit");
}

static void test_channel_closes_on_a_line_without_end(void **state)
{
    struct fixture *fixture = *state;
    static char piece[4097];
    char *line = NULL;
    memset(piece, 'x', sizeof(piece) - 1);
    enum channel_result result = CHANNEL_EMPTY;
    for (size_t n = 0; n <= CHANNEL_LINE_MAX && result == CHANNEL_EMPTY; n += 4096) {
        put(fixture, piece);
        result = channel_next(&fixture->channel, &line);
    }
    assert_int_equal(result, CHANNEL_CLOSED);
}

static void test_channel_words_are_split_and_numbers_checked(void **state)
{
    (void)state;
    char text[] = "end 18446744073709551615 -1 12x";
    char *line = text;
    uint64_t value = 0;
    assert_string_equal(channel_word(&line), "end");
    assert_true(channel_number(&line, &value));
    assert_true(value == UINT64_MAX);
    assert_false(channel_number(&line, &value));
    assert_false(channel_number(&line, &value));
    assert_null(channel_word(&line));
    assert_false(channel_number(&line, &value));
    assert_true(value == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_channel_joins_pieces_and_splits_lines,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_channel_closes_on_a_line_without_end, set_up,
                                        tear_down),
        cmocka_unit_test(test_channel_words_are_split_and_numbers_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
