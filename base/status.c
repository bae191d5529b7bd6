/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups in the table of <kvferry/status.h>. There is no second table: text, scope and
 * advice are the columns of the same row that made the enum.
 *
 * The functions take an int because the value may come from a newer peer. Rows are only
 * ever appended inside the value range of their scope, so an unknown value still tells
 * how much is broken. Exported from libkvferry. Any thread.
 */
#include <kvferry/status.h>

#include <stddef.h>

struct row {
    int value;
    int is_retryable;
    enum kvf_scope scope;
    const char *name;
    const char *text;
    const char *advice;
};

static const struct row rows[] = {
#define ROW(name, value, scope, retryable, text, advice)                                 \
    {(value), (retryable), KVF_SCOPE_##scope, #name, (text), (advice)},
    KVF_STATUS_TABLE(ROW)
#undef ROW
};

static const struct row *find_row(int status)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].value == status) {
            return &rows[i];
        }
    }
    return NULL;
}

/* A value that this release does not know, by the ranges of the table. A positive one
 * fits no range and is still a failure of at least the request. */
static enum kvf_scope scope_of_range(int status)
{
    if (status <= KVF_DAEMON_LOST) {
        return KVF_SCOPE_DAEMON;
    }
    if (status <= KVF_PEER_LOST) {
        return KVF_SCOPE_PEER;
    }
    return status <= KVF_PROTOCOL ? KVF_SCOPE_SESSION : KVF_SCOPE_REQUEST;
}

const char *kvf_status_name(int status)
{
    const struct row *row = find_row(status);
    return row != NULL ? row->name : "UNKNOWN";
}

const char *kvf_status_text(int status)
{
    const struct row *row = find_row(status);
    return row != NULL ? row->text : "unknown status";
}

const char *kvf_status_advice(int status)
{
    const struct row *row = find_row(status);
    return row != NULL ? row->advice
                       : "the other side is newer than this program; upgrade this one";
}

enum kvf_scope kvf_status_scope(int status)
{
    const struct row *row = find_row(status);
    return row != NULL ? row->scope : scope_of_range(status);
}

int kvf_status_is_retryable(int status)
{
    const struct row *row = find_row(status);
    return row != NULL ? row->is_retryable : 0;
}
