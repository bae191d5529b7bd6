#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check_elf.sh LIBRARY MAP PROGRAM...: what the linker was asked for is what it did. The
# library exports exactly the names of its map, refuses undeclared dependencies, and every
# file is hardened: position independent, read-only relocations, no lazy binding, no
# executable stack.
set -eu
library=$1
map=$2
shift 2
failed=0

fail() {
    echo "$*"
    failed=1
}

hardened() {
    headers=$(readelf -W --program-headers --file-header "$1")
    dynamic=$(readelf -W --dynamic "$1")
    case $headers in *"DYN ("*) ;; *) fail "$1: not position independent" ;; esac
    case $headers in *GNU_RELRO*) ;; *) fail "$1: relocations stay writable" ;; esac
    case $dynamic in *BIND_NOW*) ;; *) fail "$1: binds lazily" ;; esac
    ! printf '%s\n' "$headers" | grep -q 'GNU_STACK.*RWE' || fail "$1: executable stack"
}

for file in "$library" "$@"; do
    hardened "$file"
done

wanted=$(sed -n 's/^    \(kvf_[a-z_0-9]*\);$/\1/p' "$map" | sort)
exported=$(nm -D --defined-only --without-symbol-versions "$library" |
    awk '$2 != "A" { print $3 }' | sort)
[ "$wanted" = "$exported" ] ||
    fail "$library exports other names than its map: $(printf '%s\n%s\n' "$wanted" "$exported" | sort | uniq -u | tr '\n' ' ')"

# An engine loads the library beside its own UCX and CUDA: nothing of those, and nothing new
# without a decision.
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
    libc.so.6 | ld-linux* | libprotobuf-c.so.1 | libisal.so.2) ;;
    *) fail "$library needs $needed" ;;
    esac
done
exit "$failed"
