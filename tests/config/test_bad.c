/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every file of a folder (the argument) is refused with exactly the problems that its
 * first line names: "# expect: 4:10: what | 5:3: what else". Adding a case is adding a
 * file.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"

#define EXPECT      "# expect: "
#define SEPARATOR   " | "
#define TEXT_MAX    4096
#define FILES_LEAST 100

static const char *folder;

/* Lines that begin with the file's name, joined by the separator, without the name. */
static void join_problems(const char *path, const char *text, char out[TEXT_MAX])
{
    size_t used = 0;
    size_t n_path = strlen(path);
    out[0] = '\0';
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, path, n_path) == 0 && line[n_path] == ':') {
            int added =
                snprintf(out + used, TEXT_MAX - used, "%s%.*s", used > 0 ? SEPARATOR : "",
                         (int)(n - n_path - 1), line + n_path + 1);
            assert_in_range(added, 1, TEXT_MAX - used - 1);
            used += (size_t)added;
        }
        line += n + 1;
    }
}

static void read_expectation(const char *path, char out[TEXT_MAX])
{
    char line[TEXT_MAX];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    assert_int_equal(fclose(file), 0);
    line[strcspn(line, "\n")] = '\0';
    assert_int_equal(strncmp(line, EXPECT, strlen(EXPECT)), 0);
    (void)snprintf(out, TEXT_MAX, "%s", line + strlen(EXPECT));
}

static void check_file(const char *path)
{
    char expected[TEXT_MAX];
    char got[TEXT_MAX];
    struct kvf_config *config = NULL;
    struct kvf_config_problems problems = {.n = 0};
    read_expectation(path, expected);
    enum kvf_status status = kvf_config_load(path, &config, &problems);
    join_problems(path, problems.text, got);
    if (status != KVF_CONFIG || strcmp(got, expected) != 0) {
        print_message("%s\nexpected %s\ngot      %s\n", path, expected, got);
    }
    assert_int_equal(status, KVF_CONFIG);
    assert_string_equal(got, expected);
    assert_null(config);
    kvf_config_problems_fini(&problems);
}

static int is_case(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".yaml") == 0;
}

static void test_bad_files_are_refused_with_their_message(void **state)
{
    (void)state;
    struct dirent **entries = NULL;
    int n = scandir(folder, &entries, is_case, alphasort);
    assert_in_range(n, FILES_LEAST, 10000);
    for (int i = 0; i < n; i++) {
        char path[1024];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        check_file(path);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_files_are_refused_with_their_message),
    };
    folder = argc > 1 ? argv[1] : "bad";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
