#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The printed JSON Schema is one, takes the shipped examples and refuses what it should.

Usage: check_schema.py KVFERRYD FILE...   Exit 77 without python3-jsonschema or python3-yaml.
"""
import json
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Each breaks one rule of the schema.
BAD = [
    {"dat": {}},
    {"data": {"chunks": 1}},
    {"data": {"chunk": "64M"}},
    {"data": {"chunk": 1024}},
    {"data": {"window": 17}},
    {"data": {"window": "four"}},
    {"data": {"prefer": ["rdma", "ib"]}},
    {"control": {"heartbeat": 500}},
    {"control": {"insecure_no_auth": "yes"}},
    {"node": {"name": "a b"}},
    {"peers": {"name": "a"}},
    {"peers": [{"name": "a"}]},
    {"instances": [{"name": "a", "role": "prefill", "layers": 1, "head_size": 1,
                    "tokens_per_block": 1}]},
]


def main():
    daemon, *files = sys.argv[1:]
    run = subprocess.run
    schema = json.loads(run([daemon, "--print-schema"], check=True, capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    defaults = run([daemon, "--print-defaults"], check=True, capture_output=True).stdout
    good = {"the defaults": defaults}
    for file in files:
        with open(file, "rb") as stream:
            good[file] = stream.read()
    n_wrong = 0
    for name, text in good.items():
        for error in validator.iter_errors(yaml.safe_load(text)):
            print(f"{name}: {'.'.join(map(str, error.absolute_path))}: {error.message}")
            n_wrong += 1
    for document in BAD:
        if validator.is_valid(document):
            print(f"not refused: {document}")
            n_wrong += 1
    print(f"{len(good)} good, {len(BAD)} bad, {n_wrong} wrong")
    return 1 if n_wrong else 0


sys.exit(main())
