/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain main for a fuzz target: feeds it every file of the folders and every file named
 * on the command line, so that the corpus is a test with any compiler and a crash input
 * can be looked at in a debugger. Exits 1 when an argument cannot be read or is empty of
 * files.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX_BYTES ((size_t)1 << 20)

static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return false;
    }
    uint8_t *read_bytes = malloc(INPUT_MAX_BYTES);
    size_t n = read_bytes == NULL ? 0 : fread(read_bytes, 1, INPUT_MAX_BYTES, file);
    (void)fclose(file); /* only read */
    /* A copy of the exact size lets AddressSanitizer see a read past the end. */
    uint8_t *exact = malloc(n == 0 ? 1 : n);
    if (read_bytes != NULL && exact != NULL) {
        memcpy(exact, read_bytes, n);
        (void)LLVMFuzzerTestOneInput(exact, n); /* 0 by contract */
    }
    bool is_replayed = read_bytes != NULL && exact != NULL;
    free(exact);
    free(read_bytes);
    return is_replayed;
}

static bool replay_folder(const char *folder, DIR *entries, size_t *n_files)
{
    char path[4096];
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof(path) || !replay_file(path)) {
            return false;
        }
        (*n_files)++;
    }
    return true;
}

int main(int argc, char **argv)
{
    size_t n_files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *entries = opendir(argv[i]);
        bool is_replayed;
        if (entries != NULL) {
            is_replayed = replay_folder(argv[i], entries, &n_files);
            (void)closedir(entries); /* only read */
        } else {
            is_replayed = replay_file(argv[i]);
            n_files++;
        }
        if (!is_replayed) {
            return 1;
        }
    }
    (void)printf("%zu inputs\n", n_files);
    return n_files == 0 ? 1 : 0;
}
