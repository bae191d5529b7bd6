#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh BUILD_TREE SOURCE_TREE: installs the build into a fresh prefix, moves the prefix to
# prove that nothing in it is absolute, then builds and runs a user's project against it,
# found once through CMake and once through pkg-config.
set -eu
tree=$1
source=$2
work=$tree/tests/install/work

rm -rf "$work"
mkdir -p "$work"
cmake --build "$tree" --target all_verify_interface_header_sets
cmake --install "$tree" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/prefix"

cmake -S "$source/tests/install" -B "$work/user" -G Ninja -DKVF_EXAMPLES="$source/examples" \
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
