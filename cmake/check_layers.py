#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who may include whom, and which calls stay behind which door.

The tables state the rules; the code below only applies them. Prints one line per breach
and exits 1 if there was any. Usage: check_layers.py [REPOSITORY ROOT]
"""
import pathlib
import re
import sys

# folder: folders whose headers it may include (its own always)
MAY_INCLUDE = {
    "include": "",
    "base": "include",
    "proto": "include base",
    "config": "include base",
    "plan": "include base",
    "client": "include base proto",
    "ctl": "include base config plan",
    "admin": "include base",
    "service": "include base proto config plan admin",
    "bench": "include base client",
    "examples": "include base client",
    "tests": "include base proto config plan client ctl admin service bench examples",
}

# (what, pattern over the code without comments and strings, where it is allowed)
ONLY_IN = [
    ("allocation", r"\b(m|c|re)alloc(array)?\s*\(|\bfree\s*\(|\bstrn?dup\s*\(|\bv?asprintf\s*\(",
     r"base/|tests/|bench/|examples/"),
    ("clock or entropy", r"\b(clock_gettime|gettimeofday|time|getrandom|getentropy|s?rand(om)?)\s*\(",
     r"base/|tests/|examples/"),
    ("UCX", r"#\s*include\s*<uc[pstm]/",
     r"service/(transport_)?ucx\w*\.[ch]|bench/floor_ucx\.c"),
    ("protobuf-c", r"#\s*include\s*[<\"](protobuf-c/|[\w/]*\.pb-c\.h)", r"proto/|tests/proto/"),
    ("lock", r"\b(pthread_(mutex|cond|rwlock|spin)_\w+|mtx_\w+|cnd_\w+)", r"(?!service/)"),
    ("goto other than fail", r"\bgoto\s+(?!fail\b)", r"(?!)"),
    ("include of a .c file", r"#\s*include\s*[<\"][^>\"]*\.c[>\"]", r"(?!)"),
    ("include without its folder", r'#\s*include\s*"(?!kvferry\.pb-c\.h)[^/"]+"', r"tests/"),
    ("alloca", r"\balloca\s*\(", r"(?!)"),
]
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}

COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|(#\s*include[^\n]*)|"(?:\\.|[^"\\\n])*"|'
                               r"'(?:\\.|[^'\\\n])*'", re.S)
INCLUDE = re.compile(r'#\s*include\s*[<"](\w+)/')


def breaches(path, code):
    folder = path.split("/")[0]
    allowed = {folder, *MAY_INCLUDE[folder].split()}
    for match in INCLUDE.finditer(code):
        target = "include" if match[1] == "kvferry" else match[1]
        if target in MAY_INCLUDE and target not in allowed:
            yield match.start(), f"{folder}/ must not include {target}/"
    for what, pattern, where in ONLY_IN:
        if not re.match(where, path):
            for match in re.finditer(pattern, code):
                yield match.start(), f"{what} is not allowed here: {match[0].strip()}"
    if pathlib.PurePath(path).stem in BANNED_NAMES:
        yield 0, "a file is named after what its functions are about"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    files = [f for folder in MAY_INCLUDE for f in sorted((root / folder).rglob("*.[chu]*"))
             if f.suffix in (".c", ".h", ".cu", ".cuh")]
    n_breaches = 0
    for file in files:
        path = file.relative_to(root).as_posix()
        code = COMMENT_OR_STRING.sub(lambda m: m[1] or "\n" * m[0].count("\n"),
                                     file.read_text())
        for offset, sentence in breaches(path, code):
            print(f"{path}:{code.count(chr(10), 0, offset) + 1}: {sentence}")
            n_breaches += 1
    print(f"check_layers: {len(files)} files, {n_breaches} breaches")
    return 1 if n_breaches or not files else 0


sys.exit(main())
