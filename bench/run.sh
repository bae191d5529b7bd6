#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: bench/run.sh BUILD_TREE [--rounds N] [--json]
# Goodput of permuted blocks through two daemons (UCX and tcp) and through one (local_host),
# with the floors of this machine in the same run. One JSON line each, then a table of ratios.
# Integrity is off here on both sides of the comparison: the floors compute no digest; the
# last rows show what it costs.
set -eu
tree=$1
shift
rounds=7
json=no
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --json) json=yes; shift ;;
    *) sed -n 's/^# usage: /usage: /p' "$0"; exit 2 ;;
    esac
done
run=$(mktemp -d)
pids=
stop() { # and waits: their ports have to be free again
    for pid in $pids; do
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=
}
cleanup() {
    stop
    rm -rf "$run"
}
trap cleanup EXIT INT TERM
daemon=$tree/service/kvferryd
[ -x "$daemon" ] || daemon=$(find "$tree" -name kvferryd -type f -perm -u+x | head -n 1)

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port_a=$(port)
port_b=$(port)

# instance NAME KV_HEADS NODE ROLE
instance() {
    cat <<YAML
  - {name: $1, role: $4, layers: 1, kv_heads: $2, head_size: 64, tokens_per_block: 16, node: $3}
YAML
}

config() { # NAME PORT PEER PEER_PORT
    cat <<YAML
node: {name: $1}
control: {listen: "127.0.0.1:$2"}
data: {listen: "127.0.0.1:0", arena: 256MiB}
engine: {listen: "unix:$run/$1.sock"}
observe: {listen: "127.0.0.1:0"}
admin: {listen: "unix:$run/$1-admin.sock"}
log: {level: warn}
peers: [{name: $3, address: "127.0.0.1:$4"}]
instances:
YAML
    for kib in 4 16 32 64 1024; do
        instance "from-$kib" $((kib / 4)) node-a context
        instance "to-$kib" $((kib / 4)) node-b generation
        instance "local-$kib" $((kib / 4)) node-a generation
    done
}
config node-a "$port_a" node-b "$port_b" >"$run/a.yaml"
config node-b "$port_b" node-a "$port_a" >"$run/b.yaml"

start() { # TRANSPORT INTEGRITY
    stop
    rm -f "$run"/*.sock # a dead daemon's socket would end the wait below too early
    export KVFERRY_DATA__PREFER="$1" KVFERRY_DATA__INTEGRITY="$2"
    # UCX must not leave TCP here: the floor beside it is TCP as well.
    export UCX_TLS=tcp,self
    for node in a b; do
        "$daemon" --config "$run/$node.yaml" 2>>"$run/log" &
        pids="$pids $!"
    done
    i=0
    until [ -S "$run/node-a.sock" ] && [ -S "$run/node-b.sock" ]; do
        i=$((i + 1))
        [ $i -lt 100 ] || { cat "$run/log"; exit 1; }
        sleep 0.05
    done
    sleep 0.5
}

move() { # NAME KIB BLOCKS RECEIVER_NODE RECEIVER_PREFIX
    # shellcheck disable=SC2086 # two numbers
    set -- "$@" $pids
    "$tree/bench/transfer" --name "$1" --context "$run/node-a.sock" \
        --generation "$run/$4.sock" --instances "from-$2,$5-$2" --block $(($2 * 1024)) \
        --blocks "$3" --rounds "$rounds" --pid "$6" --pid "$7" >>"$run/out"
}

floors() { # KIB
    for floor in ucx tcp; do
        "$tree/bench/floor_$floor" --block "$1K" --chunk 2M --total 2G --pool 256M
    done >>"$run/out"
    "$tree/bench/floor_memcpy" --block "$1K" --total 2G --pool 256M >>"$run/out"
}

shapes="4:16384 16:8192 32:4096 64:2048 1024:128"
for shape in $shapes; do floors "${shape%:*}"; done
for transport in ucx_tcp tcp; do
    start $transport off
    for shape in $shapes; do
        move "$transport" "${shape%:*}" "${shape#*:}" node-b to
    done
done
start ucx_tcp off
for shape in $shapes; do move local_host "${shape%:*}" "${shape#*:}" node-a local; done
start ucx_tcp full
move ucx_tcp+crc 32 4096 node-b to

if [ $json = yes ]; then
    cat "$run/out"
else
    python3 bench/table.py "$run/out"
fi
