#!/usr/bin/env python3
"""Tests of tools/tidy.py: each rule finds what was planted for it, and a clean tree has no findings.

Usage: style.py SOURCE_ROOT
"""
import os
import subprocess
import sys
import tempfile

HEAD = "/* thing: a thing for the tests of tidy, long enough to say something. */\n"
HEADER = HEAD + "#pragma once\n\n"
CLEAN = {
    "src/base/thing.h": HEADER
    + "struct thing {\n    int a, b;\n};\n\nenum { THING_MAX = 3 };\n\n/* Does it. */\nint thing_do(int a);\n"
    + "void thing_more(void);\n\n"
    + "static inline int thing_twice(int a) { return 2 * a; }\n\nvoid thing_destroy(struct thing *thing);\n",
    "src/base/thing.c": HEAD
    + '#include "base/thing.h"\n\n#include <stdlib.h>\n\nstruct row {\n    const char *name;\n    void (*run)(void);\n};\n\n'
    + 'static const struct row rows[] = {{"a = b; static int x;", NULL}};\nstatic const struct {\n    int a;\n} table[] = {{1}};\n'
    + "static const char *const names[] = {\"malloc(1)\"};\nstatic pthread_once_t once = PTHREAD_ONCE_INIT;\n\n"
    + "int thing_do(int a) {\n    static const int local[] = {1};\n"
    + "    return thing->free(a) + memory_free(rows) + local[0]; /* malloc() */\n}\n",
    "src/base/meson.build": "core_sources += files('thing.c')\n",
    "src/io/up.c": HEAD + '#include "base/thing.h"\n',
    "src/io/meson.build": "core_sources += files('up.c')\n",
}
LONG_BODY = "\n".join("    a++;" for _ in range(125))

# name of the rule, file that is added or replaced, its text
PLANTED = [
    ("layers", "src/base/thing.c", HEAD + '#include "io/up.h"\n'),
    ("layers", "src/base/thing.c", HEAD + '#include "thing.h"\n'),
    ("layers", "apps/main.c", HEAD + '#include "io/up.h"\n'),
    ("layers", "src/base/thing.c", HEAD + '#include "sluice.h"\n'),
    ("layers", "include/sluice.h", HEADER + '#include "base/thing.h"\n'),
    ("include-c", "src/io/up.c", HEAD + '#include "base/thing.c"\n'),
    ("file-length", "src/base/thing.c", HEAD + "\n" * 800),
    ("line-length", "src/base/thing.c", HEAD + "/* " + "x" * 140 + " */\n"),
    ("function-length", "src/base/thing.c", HEAD + "int f(int a) {\n" + LONG_BODY + "\n}\n"),
    ("banned-call", "src/base/thing.c", HEAD + "void f(void) {\n    char *a = malloc(3);\n}\n"),
    ("banned-call", "src/base/thing.c", HEAD + "void f(void) {\n    exit (1);\n}\n"),
    ("banned-call", "tests/test_a.c", HEAD + "void f(void) {\n    strcpy(a, b);\n}\n"),
    ("conditional", "src/base/thing.c", HEAD + "#ifdef NDEBUG\n#endif\n"),
    ("contract", "src/base/thing.c", '#include "base/thing.h"\n'),
    ("pragma-once", "src/base/thing.h", HEAD),
    ("header-comment", "src/base/thing.h", HEADER + "int thing_do(int a);\n"),
    ("mutable-global", "src/base/thing.c", HEAD + "static int counter;\n"),
    ("mutable-global", "src/base/thing.c", HEAD + "int counter = 3;\n"),
    ("mutable-global", "src/base/thing.c", HEAD + 'static const char *name = "a";\n'),
    ("mutable-global", "src/base/thing.c", HEAD + "static struct {\n    int a;\n} state;\n"),
    ("mutable-global", "src/base/thing.c", HEAD + "static void (*hook)(int);\n"),
    ("mutable-static", "src/base/thing.c", HEAD + "int f(void) {\n    static int times = 0;\n    return times++;\n}\n"),
    ("mutable-static", "src/base/thing.c", HEAD + "int f(void) {\n    static const char *last;\n    return last != 0;\n}\n"),
    ("todo", "src/base/thing.c", HEAD + "/* TO" + "DO: finish */\n"),
    ("not-built", "src/base/other.c", HEAD),
    ("trailing-space", "src/base/thing.c", HEAD + "int a(void); \n"),
    ("forbidden-word", "README.md", "See /wor" + "k/main/x.\n"),
    ("forbidden-word", "tools/a.py", "# from pyp" + "i.org\n"),
]


def findings(root, tree):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in tree.items():
            full = os.path.join(folder, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        command = [sys.executable, os.path.join(root, "tools", "tidy.py"), folder]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout


def main():
    root = sys.argv[1]
    failed = 0

    def result(good, name, output):
        nonlocal failed
        print(f"{'ok' if good else 'not ok'} - {name}")
        if not good:
            failed += 1
            print(output)

    status, output = findings(root, CLEAN)
    result(status == 0, "a clean tree", output)
    for number, (rule, path, text) in enumerate(PLANTED, 1):
        status, output = findings(root, {**CLEAN, path: text})
        result(status == 1 and f": {rule}: " in output and path in output, f"{number} {rule} in {path}", output)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
