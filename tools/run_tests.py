#!/usr/bin/env python3
"""Builds a build directory, runs its meson tests and prints, last, "N passed, N failed".

Usage: run_tests.py BUILD [--suite NAME]... [further arguments of meson test]

What counts as one test: in a cmocka program every test case, as its report says ("[       OK ] name"); in a program that
prints lines "ok - name" and "not ok - name", every such line; any other program as a whole. A program that ends badly
without a failed case of its own (crash, sanitizer report, timeout) adds one failure, so a failure is never lost.
"""
import json
import os
import re
import subprocess
import sys

CASE_PASSED = re.compile(r"^(\[       OK \] \S|ok\b)", re.M)


def count_cases(entry):
    """(passed, failed) of one program of meson's testlog.json."""
    output = entry.get("stdout") or ""
    errors = entry.get("stderr") or ""
    passed = len(CASE_PASSED.findall(output))
    # cmocka lists failed cases twice, while it runs and in its summary, both on standard error; names make them one.
    failed = {line.strip() for line in re.findall(r"^\[  FAILED  \] (?!\d+ test).*$", output + "\n" + errors, re.M)}
    failed_count = len(failed) + len(re.findall(r"^not ok\b", output, re.M))
    good = entry["result"] in ("OK", "EXPECTEDFAIL")
    if not good and failed_count == 0:
        failed_count = 1
    if entry["result"] == "SKIP":
        return 0, 0
    if good and passed == 0:
        passed = 1
    return passed, failed_count


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, arguments = sys.argv[1], sys.argv[2:]
    # What tests need beside the default targets (an environment with other people's clients) is for whole runs and the server's suite.
    prerequisites = ["meson-test-prereq"] if "--suite" not in arguments or "server" in arguments else []
    if subprocess.run(["ninja", "-C", build, "--quiet", "all", *prerequisites]).returncode != 0:
        print("the build failed\n0 passed, 1 failed")
        sys.exit(1)
    log = os.path.join(build, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.remove(log)
    status = subprocess.run(["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs"] + arguments).returncode
    passed = failed = 0
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                more_passed, more_failed = count_cases(json.loads(line))
                passed += more_passed
                failed += more_failed
    if status != 0 and failed == 0:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed == 0 else 0)


if __name__ == "__main__":
    main()
