#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh BUILD_TREE [--changed]: every static check, all of them even when one fails, then
# one line a check. --changed looks only at files that differ from the main branch.
set -u
cd "$(dirname "$0")/.." || exit 1
tree=$1
base=
[ "${2:-}" != --changed ] || base=$(git merge-base HEAD main)
report=
failed=0

# sources PATTERN...: tracked files, changed ones when asked for
sources() {
    if [ -n "$base" ]; then
        git diff --name-only --diff-filter=d "$base" -- "$@"
    else
        git ls-files -- "$@"
    fi
}

# check NAME COMMAND...: runs it, notes the outcome
check() {
    name=$1
    shift
    printf '== %s\n' "$name"
    if "$@"; then
        report="$report$name: ok
"
    else
        report="$report$name: FAILED
"
        failed=$((failed + 1))
    fi
}

skip() {
    report="$report$1: skipped, $2
"
}

# Formats differ between releases; the tree follows the one of Debian 12.
format() {
    sources '*.c' '*.h' | xargs -r "$formatter" --dry-run -Werror
}

# Only what is compiled: the build's own list says with which flags.
tidy() {
    sources '*.c' | while read -r file; do
        ! grep -qF "/$file\"" "$tree/compile_commands.json" || printf '%s\n' "$file"
    done | xargs -r -n 1 -P "$(nproc)" clang-tidy -p "$tree" --quiet \
        --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang
}

# invalidFunctionArg: cppcheck 2.10 believes that mmap() takes no fd of -1.
# readdirCalled: readdir_r() is the one that glibc deprecates.
cppchecker() {
    sources 'base/*.c' 'proto/*.c' 'config/*.c' 'plan/*.c' 'client/*.c' 'admin/*.c' \
        'service/*.c' 'ctl/*.c' 'examples/*.c' 'bench/*.c' |
        cppcheck --quiet --file-list=- --enable=warning,performance,portability \
            --inline-suppr --suppress=missingIncludeSystem --suppress=invalidFunctionArg \
            --suppress=readdirCalled --std=c11 -D_GNU_SOURCE \
            --library=gnu --library=posix -I. -Iinclude -j "$(nproc)" --error-exitcode=1
}

analyzer() {
    cmake -S . -B build/analyzer -G Ninja -DKVF_BUILD_TESTS=OFF \
        -DCMAKE_C_FLAGS='-fanalyzer -Werror' >/dev/null &&
        cmake --build build/analyzer --target kvf_base kvf_proto
}

# Every header compiles alone.
headers() {
    sources '*.h' | xargs -r -n 1 cc -fsyntax-only -std=gnu17 -Wall -Wextra -Werror \
        -D_GNU_SOURCE -I. -Iinclude -I"$tree/proto/generated" -x c
}

scripts() {
    { sources '*.sh'; sources dev .ci/run; } | xargs -r shellcheck
}

spelling() {
    sources . ':!tests/fuzz/corpus' | xargs -r codespell --ignore-words cmake/codespell.txt
}

yaml() {
    sources '*.yaml' '*.yml' | xargs -r yamllint --strict -c .yamllint.yaml
}

formatter=$(command -v clang-format-14 || command -v clang-format)
case $("$formatter" --version 2>/dev/null) in
*"version 14."*) check clang-format format ;;
*) skip clang-format "the tree follows version 14" ;;
esac
check clang-tidy tidy
check cppcheck cppchecker
check 'gcc -fanalyzer' analyzer
check headers headers
check layers python3 cmake/check_layers.py
check shellcheck scripts
check codespell spelling
check yamllint yaml

printf '\n%s' "$report"
[ "$failed" -eq 0 ]
