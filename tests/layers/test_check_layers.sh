#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# test_check_layers.sh CHECKER: every rule of the checker fires on a breach of it, at the
# right line, and nothing fires on the same words in comments and strings.
set -eu
checker=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/base" "$root/service" "$root/plan"
failed=0

# expect PATH SENTENCE: the file on stdin gives exactly this complaint, or none
expect() {
    cat >"$root/$1"
    found=$(python3 "$checker" "$root" | sed '$d') || true
    if [ "$found" != "$2" ]; then
        printf 'wanted: %s\nfound:  %s\n' "$2" "$found"
        failed=1
    fi
    rm "$root/$1"
}

expect service/a.c '' <<'C'
#include "base/loop.h"
/* malloc(1) is not called, #include "client/x.h" neither */
const char *text = "free(block); /*";
int sleep_time(int x); // time(0)
C
expect plan/a.c 'plan/a.c:2: plan/ must not include service/' <<'C'
/* one */
#include "service/transfer.h"
C
expect service/b.c 'service/b.c:3: allocation is not allowed here: malloc(' <<'C'
/* two
 * lines */
void *p = malloc(3);
C
expect service/b.c 'service/b.c:1: clock or entropy is not allowed here: time(' <<'C'
long now = time(0);
C
expect service/peer.c 'service/peer.c:1: UCX is not allowed here: #include <ucp/' <<'C'
#include <ucp/api/ucp.h>
C
expect service/b.c 'service/b.c:1: protobuf-c is not allowed here: #include "kvferry.pb-c.h' <<'C'
#include "kvferry.pb-c.h"
C
expect service/b.c 'service/b.c:1: lock is not allowed here: pthread_mutex_lock' <<'C'
int x = pthread_mutex_lock(&m);
C
expect base/b.c 'base/b.c:1: goto other than fail is not allowed here: goto' <<'C'
void f(void) { goto out; }
C
expect base/b.c 'base/b.c:1: include of a .c file is not allowed here: #include "base/a.c"' <<'C'
#include "base/a.c"
C
expect base/b.c 'base/b.c:1: include without its folder is not allowed here: #include "loop.h"' <<'C'
#include "loop.h"
C
expect base/utils.c 'base/utils.c:1: a file is named after what its functions are about' <<'C'
int x;
C
exit "$failed"
