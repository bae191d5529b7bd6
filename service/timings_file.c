/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer thread behind timings_file.h. The loop formats a row into a ring record, the
 * thread appends it to its file. A row that cannot be written whole is cut off again, so
 * a reader never meets half a row. Files are opened per row batch and kept while the name
 * stays the same.
 */
#include "service/timings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/ring.h"

#define KVF_ROW_BYTES    1280u
#define KVF_RING_ROWS    1024u
#define KVF_FLUSH_ROUNDS 100 /* of 10 ms at the end */

struct kvf_file_row {
    char name[KVF_NAME_MAX + 32]; /* below the directory */
    uint32_t n_bytes;
    char text[KVF_ROW_BYTES];
};

struct kvf_timings_file {
    char dir[KVF_CONFIG_PATH_BYTES];
    uint64_t max_bytes;
    uint32_t keep;
    char header[KVF_ROW_BYTES];
    size_t header_bytes;
    struct kvf_ring *ring; /* owns; loop -> thread */
    int wake_fd;           /* owns */
    pthread_t thread;
    bool is_started;
    atomic_bool is_stopping, is_finished;
    atomic_uint_fast64_t n_dropped;
    struct kvf_file_row next; /* loop thread */
    /* writer thread */
    struct kvf_file_row row;
    int fd;
    char open_name[KVF_NAME_MAX + 32];
};

/* ---- writer thread */

static void path_of(const struct kvf_timings_file *file, const char *name,
                    uint32_t number, char *out, size_t max)
{
    if (number == 0) {
        (void)snprintf(out, max, "%s/%s", file->dir, name);
    } else {
        (void)snprintf(out, max, "%s/%s.%u", file->dir, name, number);
    }
}

static void rotate(struct kvf_timings_file *file, const char *name)
{
    char from[KVF_CONFIG_PATH_BYTES + 128], to[KVF_CONFIG_PATH_BYTES + 128];
    for (uint32_t i = file->keep; i > 0; i--) {
        path_of(file, name, i - 1, from, sizeof(from));
        path_of(file, name, i, to, sizeof(to));
        (void)rename(from, to); /* a missing file is normal */
    }
    if (file->keep == 0) {
        path_of(file, name, 0, from, sizeof(from));
        (void)unlink(from);
    }
}

static void close_file(struct kvf_timings_file *file)
{
    if (file->fd >= 0) {
        (void)close(file->fd);
        file->fd = -1;
    }
}

static bool open_file(struct kvf_timings_file *file, const char *name)
{
    char path[KVF_CONFIG_PATH_BYTES + 128];
    if (file->fd >= 0 && strcmp(file->open_name, name) == 0) {
        return true;
    }
    close_file(file);
    path_of(file, name, 0, path, sizeof(path));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    (void)mkdir(path, 0750); /* exists already: fine; other errors show at open */
    *slash = '/';
    file->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    (void)snprintf(file->open_name, sizeof(file->open_name), "%s", name);
    return file->fd >= 0;
}

/* All or nothing. */
static bool write_whole(int fd, const char *text, size_t n_bytes)
{
    struct stat before;
    if (fstat(fd, &before) != 0) {
        return false;
    }
    ssize_t n = write(fd, text, n_bytes);
    if (n >= 0 && (size_t)n == n_bytes) {
        return true;
    }
    if (n > 0) {
        (void)!ftruncate(fd, before.st_size); /* the disk is full anyway */
    }
    return false;
}

static bool write_row(struct kvf_timings_file *file, const struct kvf_file_row *row)
{
    struct stat info;
    if (!open_file(file, row->name) || fstat(file->fd, &info) != 0) {
        return false;
    }
    if (info.st_size > 0 && (uint64_t)info.st_size + row->n_bytes > file->max_bytes) {
        close_file(file);
        rotate(file, row->name);
        if (!open_file(file, row->name)) {
            return false;
        }
        info.st_size = 0;
    }
    if (info.st_size == 0 && !write_whole(file->fd, file->header, file->header_bytes)) {
        return false;
    }
    return write_whole(file->fd, row->text, row->n_bytes);
}

static void *run(void *owner)
{
    struct kvf_timings_file *file = owner;
    for (;;) {
        while (kvf_ring_pop(file->ring, &file->row)) {
            if (!write_row(file, &file->row)) {
                atomic_fetch_add(&file->n_dropped, 1);
                close_file(
                    file); /* opened anew with the next row: the disk may recover */
            }
        }
        if (atomic_load(&file->is_stopping)) {
            break;
        }
        uint64_t count;
        if (read(file->wake_fd, &count, sizeof(count)) < 0 && errno != EINTR) {
            break;
        }
    }
    close_file(file);
    atomic_store(&file->is_finished, true);
    return NULL;
}

/* ---- loop thread */

static void wake(const struct kvf_timings_file *file)
{
    const uint64_t one = 1;
    (void)!write(file->wake_fd, &one, sizeof(one)); /* only a full counter fails: awake */
}

enum kvf_status kvf_timings_file_create(const struct kvf_config *config,
                                        struct kvf_timings_file **out_file)
{
    static const struct kvf_log_ctx ctx = {.comp = "timings"};
    struct kvf_timings_file *file = kvf_alloc(sizeof(*file));
    if (file == NULL) {
        return KVF_NO_MEMORY;
    }
    enum kvf_status status;
    file->fd = -1;
    (void)snprintf(file->dir, sizeof(file->dir), "%s", config->timings.dir);
    file->max_bytes = config->timings.max_bytes;
    file->keep = config->timings.keep;
    file->header_bytes = kvf_timings_header(config->timings.format == KVF_TIMINGS_TRTLLM
                                                ? KVF_TIMINGS_TEXT_TRTLLM
                                                : KVF_TIMINGS_TEXT_KVFERRY,
                                            file->header, sizeof(file->header));
    file->wake_fd = eventfd(0, EFD_CLOEXEC);
    status = kvf_ring_create(sizeof(struct kvf_file_row), KVF_RING_ROWS, &file->ring);
    if (status != KVF_OK || file->wake_fd < 0) {
        status = status != KVF_OK ? status : KVF_SYSTEM;
        goto fail;
    }
    if (mkdir(file->dir, 0750) != 0 && errno != EEXIST) {
        kvf_log_error(&ctx, "timings.dir %s cannot be made: %s", file->dir,
                      strerrordesc_np(errno));
        status = KVF_CONFIG;
        goto fail;
    }
    if (pthread_create(&file->thread, NULL, run, file) != 0) {
        status = KVF_SYSTEM;
        goto fail;
    }
    file->is_started = true;
    *out_file = file;
    return KVF_OK;
fail:
    kvf_timings_file_destroy(file);
    return status;
}

void kvf_timings_file_destroy(struct kvf_timings_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->is_started) {
        atomic_store(&file->is_stopping, true);
        wake(file);
        for (int i = 0; i < KVF_FLUSH_ROUNDS && !atomic_load(&file->is_finished); i++) {
            (void)poll(NULL, 0, 10);
        }
        if (!atomic_load(&file->is_finished)) {
            /* Stuck in the disk: it keeps its memory until the process ends. */
            (void)pthread_detach(file->thread);
            return;
        }
        (void)pthread_join(file->thread, NULL);
    }
    if (file->wake_fd >= 0) {
        (void)close(file->wake_fd);
    }
    kvf_ring_destroy(file->ring);
    kvf_free(file);
}

void kvf_timings_file_add(struct kvf_timings_file *file, enum kvf_timings_text format,
                          const struct kvf_timing *timing)
{
    struct kvf_file_row *row = &file->next;
    if (format == KVF_TIMINGS_TEXT_TRTLLM) {
        (void)snprintf(row->name, sizeof(row->name), "%s/rank_%u_%s.csv",
                       timing->instance, timing->rank, timing->direction);
    } else {
        (void)snprintf(row->name, sizeof(row->name), "timings.csv");
    }
    row->n_bytes =
        (uint32_t)kvf_timings_row(format, timing, row->text, sizeof(row->text));
    if (row->n_bytes == 0 || !kvf_ring_push(file->ring, row)) {
        atomic_fetch_add(&file->n_dropped, 1);
        return;
    }
    wake(file);
}

uint64_t kvf_timings_file_dropped(const struct kvf_timings_file *file)
{
    return atomic_load(&file->n_dropped);
}
