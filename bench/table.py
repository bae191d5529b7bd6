#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the JSON lines of bench/run.sh as a table with each row's ratio to its floor."""
import json
import platform
import sys

FLOOR = {"ucx_tcp": "floor ucx_tcp", "tcp": "floor tcp", "local_host": "floor memcpy",
         "ucx_tcp+crc": "floor ucx_tcp"}


def name_of(row):
    return row["name"] if "name" in row else "floor " + row["floor"]


def block_of(row):
    return row["block"] if "block" in row else row["block_bytes"]


def main():
    rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    speed = {(name_of(r), block_of(r)): r["gb_per_s"] for r in rows}
    print(f"{platform.node()} {platform.machine()}, Linux {platform.release()}")
    print(f"{'what':14} {'block':>8} {'GB/s':>7} {'CPU s/GiB':>10} {'floor':>7} {'ratio':>6}  path")
    for r in rows:
        name = name_of(r)
        floor = speed.get((FLOOR.get(name), block_of(r)))
        tail = f"{floor:7.2f} {r['gb_per_s'] / floor:6.2f}" if floor else f"{'':14}"
        print(f"{name:14} {block_of(r):8} {r['gb_per_s']:7.2f} "
              f"{r.get('cpu_s_per_gib', 0):10.2f} {tail}  {r.get('path', '')}")
    if any(r.get("bad_blocks") for r in rows):
        sys.exit("blocks differ: the figures are worthless")


main()
