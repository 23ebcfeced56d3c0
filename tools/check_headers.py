#!/usr/bin/env python3
"""Compiles every header alone, with the flags that the build gives to the sources beside it.

Usage: check_headers.py SOURCE_ROOT BUILD_DIRECTORY
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

FOLDERS = ("include", "src", "apps", "tests")


def flags_by_folder(build):
    """Compiler and flags (no input, no output) of one source in each folder of the compile database."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    result = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        kept = [word for word in words[1:] if word.startswith(("-I", "-isystem", "-D", "-U", "-std=", "-m", "-W", "-f"))]
        kept = [word for word in kept if not word.startswith(("-fsanitize=fuzzer", "-D_FORTIFY_SOURCE"))]
        compiler = [word for word in words[: next(i for i, w in enumerate(words) if w.startswith("-"))]]
        source = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        result.setdefault(os.path.dirname(source), (compiler, kept, entry["directory"]))
    return result


def check(header, flags):
    compiler, kept, directory = flags
    command = compiler + kept + ["-Werror", "-Wno-unused-function", "-O1", "-fsyntax-only", "-x", "c", "-"]
    done = subprocess.run(command, cwd=directory, input=f'#include "{header}"\ntypedef int not_empty;\n', text=True, capture_output=True)
    return header, done.returncode, done.stderr


def main():
    root, build = (os.path.abspath(path) for path in sys.argv[1:3])
    known = flags_by_folder(build)
    fallback = known[os.path.join(root, "src", "base")]
    headers = []
    for folder in FOLDERS:
        for place, _, names in os.walk(os.path.join(root, folder)):
            if place not in known and any(name.endswith(".c") for name in names):
                continue  # of another processor: this build compiles nothing of it
            headers += [os.path.join(place, name) for name in names if name.endswith(".h")]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for header, status, text in pool.map(lambda h: check(h, known.get(os.path.dirname(h), fallback)), sorted(headers)):
            if status != 0:
                failed += 1
                print(f"{os.path.relpath(header, root)}: does not compile alone:\n{text}")
    print(f"{len(headers)} headers, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
