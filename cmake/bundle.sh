#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# bundle.sh BUILD_TREE: a folder in dist/ with the programs, libkvferry, the examples and
# the bench, and every shared library they load except those that must be the machine's own:
# the C library, and those of rdma-core, which know each other by a private interface.
# Everything finds everything by $ORIGIN, so the folder runs anywhere with a C library as new
# as this machine's; without rdma-core there UCX leaves RDMA out.
set -eu
cd "$(dirname "$0")/.."
tree=$1
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$tree/CMakeCache.txt")
name=kvferry-$version-$(uname -m)
to=dist/$name

rm -rf "$to"
cmake --install "$tree" --prefix "$PWD/$to" --strip >/dev/null
mkdir -p "$to/bench" "$to/share/kvferry/deploy"
find "$tree/examples" -maxdepth 1 -type f -perm -u+x -exec cp -t "$to/bin" {} +
find "$tree/bench" -maxdepth 1 -type f -perm -u+x -exec cp -t "$to/bench" {} +
cp bench/run.sh bench/table.py "$to/bench"
cp deploy/*.yaml "$to/share/kvferry/deploy"
cp examples/*.yaml "$to/share/kvferry"
cp LICENSE README.md "$to"

# needed FILE: the paths of the libraries it loads from this machine, to be taken along
needed() {
    ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r path; do
        case ${path##*/} in
        libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.*) ;;
        ld-linux* | libgcc_s.so.* | libcuda.so.* | libkvferry.so.* | libuct_*) ;;
        libibverbs.so.* | librdmacm.so.* | libmlx*.so.* | libefa.so.* | libnl-*) ;;
        *) printf '%s\n' "$path" ;;
        esac
    done
}

take() {
    target=$to/$1/${2##*/}
    [ -e "$target" ] || cp -L "$2" "$target"
}

programs=$(find "$to/bin" "$to/bench" -type f -perm -u+x ! -name '*.sh')
for program in $programs; do
    needed "$program" | while read -r path; do take lib "$path"; done
done

# UCX loads its transports from the folder ucx/ beside libucs, by name.
ucs=$(needed "$to/bin/kvferryd" | grep '/libucs\.so' | head -n 1)
mkdir -p "$to/lib/ucx"
for module in "$(dirname "$ucs")"/ucx/*.so.0; do
    take lib/ucx "$module"
    needed "$module" | while read -r path; do take lib "$path"; done
done

# RPATH, not RUNPATH: it also serves the libraries that libraries load.
libraries=$(find "$to/lib" -maxdepth 1 -type f -name '*.so*')
for file in $programs $libraries; do
    chmod u+w "$file"
    # shellcheck disable=SC2016 # $ORIGIN is the loader's
    patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$file"
done
# shellcheck disable=SC2016
find "$to/lib/ucx" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN:$ORIGIN/..' {} +

tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --zstd -cf "dist/$name.tar.zst" "$name"
printf '%s\n' "$to" "dist/$name.tar.zst"
