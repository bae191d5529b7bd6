#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD_TREE SOURCE_TREE: installs the build into a fresh prefix, moves the prefix to
# prove that nothing in it is absolute, then builds a user's project against it, found once
# through CMake and once through pkg-config, and moves a prompt with the installed daemon.
set -eu
tree=$1
source=$2
work=$tree/tests/install/work
run=$(mktemp -d)
daemon=
# shellcheck disable=SC2086 # empty or one number
trap '[ -z "$daemon" ] || kill $daemon; rm -rf "$run"' EXIT

rm -rf "$work"
mkdir -p "$work"
cmake --build "$tree" --target all_verify_interface_header_sets
cmake --install "$tree" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"

cmake -S "$source/tests/install" -B "$work/user" -G Ninja -DKVF_SOURCE="$source" \
    -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/user"
"$work/user/headers_c99"
"$work/user/headers_cxx"

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name kvferry.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # words
cc -o "$work/user/by_pkg_config" "$source/tests/install/headers.c" \
    $(pkg-config --cflags --libs kvferry)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir kvferry) "$work/user/by_pkg_config"

# The smallest example against the installed daemon, ports of the kernel's choice.
KVFERRY_RUN=$run KVFERRY_CONTROL_PORT=0 KVFERRY_DATA_PORTS=0 KVFERRY_OBSERVE_PORT=0 \
    "$work/prefix/bin/kvferryd" --config "$source/examples/send_receive.yaml" &
daemon=$!
tries=100
until [ -S "$run/kvferry-engine.sock" ]; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 0.1
done
"$work/user/examples/send_receive" "$run/kvferry-engine.sock" prefill decode

# The example engine and the demo, one layer and a few prompts. The demo looks for the
# engine beside the daemon.
cp "$work/user/examples/engine" "$work/prefix/bin"
"$work/user/examples/demo" --transport tcp --layers 1 --requests 2 --pool-bytes 256MiB \
    --bin "$work/prefix/bin" --deploy "$source/deploy"
