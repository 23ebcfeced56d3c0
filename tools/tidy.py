#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that a program can check. Prints "file:line: rule: text"; exit status 1 on an error.

Usage: tidy.py [ROOT] [--warnings]

The tables come first: who may include whom, limits, banned calls and their replacements, exceptions. A file is read once;
comments and string contents are blanked (lines stay), and the rest is cut into what stands at file scope: functions,
declarations, types. Rules work on those. A new exception is a line in a table here, with its reason.
"""
import os
import re
import sys

# ---- tables ----

# Folder of src/ -> folders whose headers it may include, beside its own. Includes go down only.
LAYERS = {
    "base": [],
    "io": ["base"],
    "dtype": ["base"],
    "format": ["io", "dtype", "base"],
    "kernel": ["dtype", "base"],
    "op": ["dtype", "base"],
    "model": ["format", "op", "dtype", "base"],
    "backend": ["op", "kernel", "dtype", "base"],
    "store": ["io", "backend", "dtype", "base"],
    "run": ["model", "store", "backend", "op", "dtype", "base"],
    "text": ["format", "base"],
    "generate": ["run", "text", "kernel", "base"],  # sampling is arithmetic: it calls kernels directly
    "pack": ["model", "kernel", "op", "format", "dtype", "io", "base"],
    "engine": ["pack", "generate", "text", "run", "store", "backend", "model", "op", "kernel", "format", "dtype", "io", "base"],
    "server": ["base"],
}
PUBLIC_HEADERS = ("sluice.h", "sluice_tools.h")
PUBLIC_FOR = ("engine", "server", "apps")  # who may include them
APPS_MAY_INCLUDE = ["server", "base"]

FILE_LINES_MAX = 800
FUNCTION_LINES_WARN = 70
FUNCTION_LINES_MAX = 120
LINE_CHARACTERS_MAX = 140
PARAMETERS_MAX = 6
LINES_PER_CHECK = 40

GENERATED = "/generated/"
LONG_FUNCTIONS = ("src/kernel/", "src/dtype/decode")  # unrolled arithmetic
MANY_PARAMETERS = ("src/kernel/", "src/dtype/")  # raw pointers and strides
NO_CHECKS_NEEDED = ("src/kernel/", "src/model/arch/")  # kernels trust their contract; tables have nothing to check

# Call -> what to use instead. Applies to src/ and apps/, and to tests/ and bench/ where the third column says so.
BANNED_CALLS = {
    "malloc": ("memory_alloc", False), "calloc": ("memory_alloc_array", False), "realloc": ("memory_resize", False),
    "free": ("memory_free", False), "reallocarray": ("memory_resize", False), "posix_memalign": ("memory_region_create", False),
    "aligned_alloc": ("memory_region_create", False), "strdup": ("memory_copy_text", False), "strndup": ("memory_copy_text", False),
    "asprintf": ("byte_buffer_printf", False), "vasprintf": ("byte_buffer_printf", False), "alloca": ("memory_alloc", True),
    "getenv": ("a row in the table of options", False), "secure_getenv": ("a row in the table of options", False),
    "exit": ("a returned status", False), "_exit": ("a returned status", False), "abort": ("CHECK", False),
    "strcpy": ("memcpy with a known length", True), "strncpy": ("memcpy with a known length", True),
    "strcat": ("byte_buffer_append", True), "strncat": ("byte_buffer_append", True), "sprintf": ("snprintf", True),
    "vsprintf": ("vsnprintf", True), "gets": ("file_read", True), "strtok": ("strsep or strcspn", True),
    "strtok_r": ("strsep or strcspn", True), "atoi": ("text_parse_i64", True), "atol": ("text_parse_i64", True),
    "atoll": ("text_parse_i64", True), "atof": ("text_parse_f64", True), "strtol": ("text_parse_i64", False),
    "strtoll": ("text_parse_i64", False), "strtoul": ("text_parse_u64", False), "strtoull": ("text_parse_u64", False),
    "strtod": ("text_parse_f64", False), "strtof": ("text_parse_f64", False), "sscanf": ("text_parse_u64 and its kin", False),
    "system": ("posix_spawn", True), "popen": ("posix_spawn", True), "rand": ("a seeded generator", True),
    "mlockall": ("locked regions of memory_region_create", True),
}
CALLS_ALLOWED = {  # file or folder -> calls
    "src/base/memory.c": {"malloc", "calloc", "realloc", "free"},
    "src/base/options.c": {"getenv"},
    "src/base/check.c": {"abort"},
    "apps/": {"_exit"},
}

CONDITIONALS_ALLOWED = re.compile(
    r"^(src/kernel/kernel_select\.c|src/base/cpu_info\.c|src/base/check\.h|include/.*)$"
)

MUTABLE_ALLOWED = {  # file -> reason
    "src/base/bus_guard.c": "a signal handler has no argument",
    "apps/app.c": "what a signal handler may reach",
    "src/base/json.c": "the parse under way, per thread: jansson's allocation hooks know no context",
    "src/base/log.c": "standard error is one per process",
    "src/base/memory.c": "counters of the process, atomic",
    "src/base/cpu_info.c": "what the processor is and has, found out once",
}
CONSTANT_TYPES = re.compile(r"\b(pthread_once_t|pthread_mutex_t)\b")

# Words that may not stand anywhere in the repository; written so that this table does not find itself.
FORBIDDEN_WORDS = [
    (re.compile(r"(?<![\w.])/wor[k]/(main|shared|\.)"), "a path of one machine"),
    (re.compile(r"/roo[t]/|/home/[a-z]+/(?!\.)"), "a path of one machine"),
    (re.compile(r"\bpyp[i]\.org|pythonhoste[d]|registry\.npmj[s]|proxy\.golan[g]|artifactor[y]|\bdevp[i]\b", re.I), "a package host"),
]
WORDS_SKIP = (".ci/", "demo/")  # containers have such paths; checked by eye

SOURCE_FOLDERS = ("src", "include", "apps", "tests", "bench")
TEXT_ENDINGS = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".md", ".build", ".txt", ".yml", ".yaml", ".html", ".css", ".js", ".toml")
LENGTH_ENDINGS = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".build")

# ---- report ----

problems = []  # (path, line, rule, text, is_error)


def report(path, line, rule, text, is_error=True):
    problems.append((path, line, rule, text, is_error))


# ---- reading C ----

TOKENS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
NOT_NEWLINE = re.compile(r"[^\n]")


def blank(match):
    token = match.group()
    if token[0] == '"' or token[0] == "'":
        return token[0] + " " * (len(token) - 2) + token[0]
    return NOT_NEWLINE.sub(" ", token)


def code_only(text):
    """Text with comments and the insides of literals as spaces."""
    return TOKENS.sub(blank, text)


def without_preprocessor(code):
    """Blanks directives with their continuation lines; also unifies the branches of #if by keeping all of them."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: NOT_NEWLINE.sub(" ", m.group()), code, flags=re.M)


ATTRIBUTES = re.compile(r"__attribute__\s*\(\(.*?\)\)|\bPRINTF_LIKE\s*\([^)]*\)|\b_Alignas\s*\([^)]*\)|\bextern\s*\"\s*\"", re.S)


class Item:
    """Something at file scope: head (before the body), its first line, the body's end line, and the body (or None)."""

    def __init__(self, head, start, body, body_start, end):
        self.head, self.start, self.body, self.body_start, self.end = head, start, body, body_start, end

    def is_function(self):
        return self.body is not None and self.function_name() is not None

    def is_prototype(self):
        return self.body is None and self.function_name() not in (None, "_Static_assert", "STATIC_ASSERT")

    def function_name(self):
        head = self.head
        if re.match(r"\s*typedef\b", head):
            return None
        paren = head.find("(")
        before = head[:paren]
        if paren < 0 or re.match(r"\(\s*\*", head[paren:]) or "=" in before or "{" in before:
            return None
        name = re.search(r"([A-Za-z_]\w*)\s*$", before)
        return name.group(1) if name else None

    def parameters(self):
        head = self.head
        depth, count, start = 0, 0, head.find("(")
        for i in range(start, len(head)):
            c = head[i]
            if c == "(":
                depth += 1
            elif c == ")":
                depth -= 1
                if depth == 0:
                    inside = head[start + 1 : i].strip()
                    return 0 if inside in ("", "void") else count + 1
            elif c == "," and depth == 1:
                count += 1
        return 0


def file_scope(code):
    """Cuts blanked code into items."""
    code = ATTRIBUTES.sub(lambda m: NOT_NEWLINE.sub(" ", m.group()), code)
    items = []
    start = 0  # of the current item
    depth = 0
    body_start = None
    for match in re.finditer(r"[{};]", code):
        c, at = match.group(), match.start()
        if c == "{":
            if depth == 0 and body_start is None:
                body_start = at
            depth += 1
        elif c == "}":
            depth = max(0, depth - 1)
            if depth == 0 and body_start is not None:
                item = Item(code[start:body_start], start, code[body_start : at + 1], body_start, at)
                if item.is_function():
                    items.append(item)
                    start, body_start = at + 1, None
        elif depth == 0:  # ';'
            if body_start is None:
                items.append(Item(code[start:at], start, None, at, at))
            else:  # a type, or a variable with an initialiser: the head gets what follows the body too
                item = Item(code[start:at], start, code[body_start:at], body_start, at)
                items.append(item)
            start, body_start = at + 1, None
    return items


def line_of(code, at):
    return code.count("\n", 0, at) + 1


def first_line(code, item):
    text = code[item.start :]
    return line_of(code, item.start + len(text) - len(text.lstrip()))


# ---- rules ----


def check_lines(path, lines):
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_CHARACTERS_MAX:
            report(path, number, "line-length", f"{len(line)} characters, at most {LINE_CHARACTERS_MAX}")
        if line != line.rstrip():
            report(path, number, "trailing-space", "space at the end of the line")


def check_words(path, lines):
    if path.startswith(WORDS_SKIP):
        return
    for number, line in enumerate(lines, 1):
        for pattern, what in FORBIDDEN_WORDS:
            if pattern.search(line):
                report(path, number, "forbidden-word", f"{what}: {line.strip()[:80]}")


MARKERS = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")


def check_markers(path, lines):
    for number, line in enumerate(lines, 1):
        if MARKERS.search(line):
            report(path, number, "todo", "finish it, or open an issue and say nothing here")


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" else parts[0]


def check_includes(path, text, root):
    layer = layer_of(path)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M):
        kind, name = match.groups()
        line = line_of(text, match.start())
        if name.endswith((".c", ".cu")):
            report(path, line, "include-c", f"{name}: a source file is compiled, not included")
        if kind == "<":
            continue
        if path.startswith("src/") and layer not in LAYERS:
            report(path, line, "layers", f"src/{layer} is not in the table of layers")
        folder = name.split("/")[0] if "/" in name else None
        if name in PUBLIC_HEADERS:
            if path.startswith("src/") and layer not in PUBLIC_FOR:
                report(path, line, "layers", f"src/{layer} may not include {name}")
        elif folder in LAYERS:
            allowed = LAYERS.get(layer, []) if path.startswith("src/") else APPS_MAY_INCLUDE if layer == "apps" else list(LAYERS)
            if folder != layer and folder not in allowed and layer != "include":
                report(path, line, "layers", f"{layer} may not include {name} (may: {', '.join(allowed) or 'nothing'})")
            if layer == "include":
                report(path, line, "layers", f"a public header may not include {name}")
            if not os.path.exists(os.path.join(root, "src", name)):
                report(path, line, "layers", f"src/{name} does not exist")
        elif path.startswith("src/"):
            report(path, line, "layers", f'"{name}": write the path from src/, such as "base/status.h"')


def check_conditionals(path, code):
    if not path.startswith(("src/", "apps/", "include/")) or CONDITIONALS_ALLOWED.match(path) or GENERATED in path:
        return
    for match in re.finditer(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif)\b[^\n]*", code, re.M):
        report(path, line_of(code, match.start()), "conditional", f"{match.group().strip()[:60]}: choose a file in the build instead")


CALL = re.compile(r"(?<![\w.])(?<!->)(" + "|".join(sorted(BANNED_CALLS, key=len, reverse=True)) + r")[ \t]*\(")


def check_calls(path, code):
    in_product = path.startswith(("src/", "apps/"))
    allowed = set()
    for place, calls in CALLS_ALLOWED.items():
        if path.startswith(place):
            allowed |= calls
    for match in CALL.finditer(code):
        name = match.group(1)
        instead, everywhere = BANNED_CALLS[name]
        if name not in allowed and (in_product or everywhere):
            report(path, line_of(code, match.start()), "banned-call", f"{name}: use {instead}")


def check_contract(path, text):
    if not text.lstrip().startswith("/*"):
        report(path, 1, "contract", "the file must open with a comment that says what it is for")
        return
    opening = text[: text.find("*/")]
    if path.endswith(".h") and len(re.sub(r"[\s*/]", "", opening)) < 20:
        report(path, 1, "contract", "the opening comment says too little")
    guarded = path.startswith("include/") and re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)  # for compilers of others
    if path.endswith(".h") and not guarded and not re.search(r"^#pragma once$", text, re.M):
        report(path, 1, "pragma-once", "a header needs #pragma once")


def check_functions(path, code, items):
    for item in items:
        name = item.function_name()
        if name is None or name == "STATIC_ASSERT":
            continue
        line = first_line(code, item)
        if item.body is None:
            continue
        if item.parameters() > PARAMETERS_MAX and not path.startswith(MANY_PARAMETERS) and path.startswith(("src/", "apps/")):
            report(path, line, "parameters", f"{name} takes {item.parameters()}, at most {PARAMETERS_MAX}: use a struct", is_error=False)
        length = line_of(code, item.end) - line + 1
        if path.startswith(LONG_FUNCTIONS) or GENERATED in path:
            continue
        if length > FUNCTION_LINES_MAX:
            report(path, line, "function-length", f"{name} has {length} lines, at most {FUNCTION_LINES_MAX}")
        elif length > FUNCTION_LINES_WARN:
            report(path, line, "function-length", f"{name} has {length} lines, better below {FUNCTION_LINES_WARN}", is_error=False)


def is_constant(head):
    """Is the variable that this declaration names itself constant? For pointers: const behind the last star."""
    declarator = head.split("=")[0]
    if CONSTANT_TYPES.search(declarator):
        return True
    declarator = re.sub(r"\[[^\]]*\]", "", declarator)
    if "(*" in declarator:  # pointer to function
        return bool(re.search(r"\(\*\s*const\b", declarator))
    after_star = declarator.rsplit("*", 1)
    return bool(re.search(r"\bconst\b", after_star[-1]))


def declared_variable(item):
    """Qualifiers, type and name without a type's body and an initialiser; empty when the item declares a type alone."""
    head, brace = item.head, item.head.find("{")
    if brace < 0 or "=" in head[:brace] or not re.search(r"\b(struct|union|enum)\b", head[:brace]):
        head = head.split("=")[0].strip()
        return "" if re.fullmatch(r"(struct|union|enum)\s+\w+", head) else head
    depth = 0
    for at in range(brace, len(head)):
        depth += {"{": 1, "}": -1}.get(head[at], 0)
        if depth == 0:
            tail = head[at + 1 :].split("=")[0].strip()
            return f"{head[:brace].strip()} {tail}" if tail else ""
    return ""


def check_mutable(path, code, items):
    if not path.startswith(("src/", "apps/")) or path in MUTABLE_ALLOWED:
        return
    for item in items:
        if item.is_function():
            for match in re.finditer(r"\b(?:static|_Thread_local)\b([^;{}()=]*(?:\(\*[^;{}=]*)?)[;=]", item.body):
                if not is_constant(match.group(1)):
                    report(path, line_of(code, item.body_start + match.start()), "mutable-static", match.group().strip()[:80])
            continue
        head = declared_variable(item)
        if not head or item.is_prototype() or re.match(r"(typedef|extern|_Static_assert|STATIC_ASSERT)\b", head):
            continue
        if re.search(r"\w[\s*(]+\w", head) and not is_constant(head):
            report(path, first_line(code, item), "mutable-global", " ".join(head.split())[:80])


CONTRACTS_ELSEWHERE = "Contracts are those of"
LIFE_ENDS = re.compile(r"_(deinit|destroy|close|clear)$")


def check_header_comments(path, text, code, items):
    """
    Each function of a header has a comment above it, beside it, or shares one of its block of lines. Free of it are inline
    functions (their body says it), the ends of lives, and headers that say "Contracts are those of ..." at the top.
    """
    if CONTRACTS_ELSEWHERE in text[: text.find("*/")]:
        return
    lines = text.split("\n")
    commented = [i for i, (a, b) in enumerate(zip(lines, code.split("\n"))) if a.rstrip() != b.rstrip() and ("*" in a or "//" in a)]
    commented = set(commented)  # 0-based lines that hold (part of) a comment
    for item in items:
        name = item.function_name()
        if not item.is_prototype() or LIFE_ENDS.search(name):
            continue
        first, last = first_line(code, item) - 1, line_of(code, item.end) - 1
        top = first
        while top > 0 and lines[top - 1].strip():
            top -= 1
        bottom = last
        while bottom + 1 < len(lines) and lines[bottom + 1].strip():
            bottom += 1
        if not any(i in commented for i in range(top, bottom + 1)):
            report(path, first + 1, "header-comment", f"{name} has no comment and shares none")


def check_listed(path, root):
    """A source that no meson.build names is dead."""
    folder, name = os.path.split(path)
    while True:
        build = os.path.join(root, folder, "meson.build")
        if os.path.exists(build):
            with open(build, encoding="utf-8") as file:
                if re.search(r"['/]" + re.escape(name) + "'", file.read()):
                    return
        if not folder:
            break
        folder = os.path.dirname(folder)
    report(path, 1, "not-built", "no meson.build lists this file")


def check_source(path, text, root, density):
    code = code_only(text)
    plain = without_preprocessor(code)
    items = file_scope(plain)
    lines = text.split("\n")
    if GENERATED not in path and len(lines) - 1 > FILE_LINES_MAX:
        report(path, FILE_LINES_MAX, "file-length", f"{len(lines) - 1} lines, at most {FILE_LINES_MAX}")
    check_contract(path, text)
    check_includes(path, text, root)
    check_conditionals(path, code)
    check_calls(path, code)
    check_functions(path, plain, items)
    check_mutable(path, plain, items)
    if path.endswith(".h") and path.startswith(("src/", "include/")):
        check_header_comments(path, text, plain, items)
    if path.endswith(".c"):
        check_listed(path, root)
    if path.startswith("src/") and path.endswith(".c") and GENERATED not in path and not path.startswith(NO_CHECKS_NEEDED):
        folder = density.setdefault("/".join(path.split("/")[:2]), [0, 0])
        folder[0] += sum(1 for line in plain.split("\n") if line.strip())
        folder[1] += len(re.findall(r"\b(?:CHECK|ASSERT|STATIC_ASSERT|_Static_assert)\s*\(", plain))


def check_density(density):
    for folder, (lines, checks) in sorted(density.items()):
        if lines > LINES_PER_CHECK * max(checks, 1) and lines > 2 * LINES_PER_CHECK:
            report(folder, 1, "few-checks", f"{checks} checks in {lines} lines of code, wanted one per {LINES_PER_CHECK}", is_error=False)


def check_file(path, root, density):
    full = os.path.join(root, path)
    try:
        with open(full, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        report(path, 1, "encoding", "not UTF-8")
        return
    lines = text.split("\n")
    check_words(path, lines)
    check_markers(path, lines)
    if path.endswith(LENGTH_ENDINGS) and GENERATED not in path:
        check_lines(path, lines)
    if path.startswith(SOURCE_FOLDERS) and path.endswith((".c", ".h")):
        check_source(path, text, root, density)


def files_of(root):
    """Text files of the repository, as paths from its root."""
    for place, folders, names in os.walk(root):
        inside = os.path.relpath(place, root)
        folders[:] = [f for f in folders if f not in (".git", "__pycache__", "data") and not (inside == "." and f.startswith("build"))]
        for name in names:
            path = os.path.normpath(os.path.join(inside, name))
            if name.endswith(TEXT_ENDINGS) or path in ("Makefile", ".ci/run"):
                yield path


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = os.path.abspath(arguments[0] if arguments else ".")
    show_warnings = "--warnings" in sys.argv
    density, count = {}, 0
    for path in sorted(files_of(root)):
        check_file(path, root, density)
        count += 1
    check_density(density)
    errors = [p for p in problems if p[4]]
    warnings = [p for p in problems if not p[4]]
    for path, line, rule, text, is_error in sorted(errors + (warnings if show_warnings else [])):
        print(f"{path}:{line}: {rule}: {'' if is_error else '(warning) '}{text}")
    hint = "" if show_warnings or not warnings else " (--warnings shows them)"
    print(f"{count} files, {len(errors)} errors, {len(warnings)} warnings{hint}")
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
