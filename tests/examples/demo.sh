#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh DEMO ARGUMENTS...: the demo ends well, says so in its last line, and leaves nothing
# behind.
set -eu
TMPDIR=$(mktemp -d /tmp/kvferry-test-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
"$@" >"$TMPDIR/output"
cat "$TMPDIR/output"
tail -n 1 "$TMPDIR/output" |
    grep -Eqx 'demo: [1-9][0-9]* requests, [1-9][0-9]* bytes verified, 0 mismatches, 1 cancelled'
rm "$TMPDIR/output"
rmdir "$TMPDIR"
