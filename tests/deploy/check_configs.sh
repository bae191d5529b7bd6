#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# check_configs.sh KVFERRYD DEPLOY_FOLDER: the daemon accepts every configuration we hand
# out: the node files, and what the manifest carries in its ConfigMap.
set -eu
kvferryd=$1
deploy=$2
carried=$(mktemp)
trap 'rm -f "$carried"' EXIT

awk '/^  kvferry.yaml: \|$/ { inside = 1; next }
     inside && /^[^ ]/ { exit }
     inside { print substr($0, 5) }' "$deploy/sidecar.yaml" >"$carried"
[ -s "$carried" ]

for file in "$deploy"/*-0.yaml "$carried"; do
    "$kvferryd" --config "$file" --check-config
done
