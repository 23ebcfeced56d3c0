#!/usr/bin/env python3
"""The budget as a promise to the machine. PROGRAM DATA.

Every reference model, from the smallest budget to all of it: the peak (VmHWM) is at most 2 % or 4 MiB above; 1 MiB below the smallest is
refused, and the smallest is named. And in a control group that allows the budget and what is stated beside it, as an ordinary user
with 8 MiB of locked memory and no swap: the process is not killed, and says the same.

A control group needs root. Without it that part says why it did not run, and the whole counts as skipped: exit code 77.
"""

import glob
import json
import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
GROUPS = "/sys/fs/cgroup"


def allowance(budget):
    """Above the budget: what a peak may be, and the kernel's own memory for the process."""
    return max(budget // 50, 4 * MIB) + budget * 3 // 1000 + MIB


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def run(program, model, ids, ram, folder, preexec=None, extra=()):
    """(exit code, standard output, standard error, metrics)"""
    metrics = os.path.join(folder, "metrics.json")
    if os.path.exists(metrics):
        os.remove(metrics)
    done = subprocess.run(
        [program, "generate", model, "--ids", ids, "--ram", str(ram), "--max-tokens", "12", "--ignore-eos", "--print-ids", "--quiet"]
        + ["--temp", "0.7", "--seed", "3", "--metrics", metrics, *extra],
        capture_output=True,
        timeout=120,
        preexec_fn=preexec,
        env={**os.environ, "XDG_CACHE_HOME": folder},
    )
    told = None
    if done.returncode == 0:
        with open(metrics, encoding="utf-8") as file:
            told = json.load(file)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace"), told


# ---- every model ----


def check_model(program, model, ids, folder):
    """Returns the largest peak above its budget, in bytes."""
    worst, answers = -(1 << 62), set()

    def one(ram, extra=()):
        nonlocal worst
        code, out, err, told = run(program, model, ids, ram, folder, extra=extra)
        expect(code == 0, f"--ram {ram}: {err}")
        plan, peak = told["plan"], told["memory"]["peak_bytes"]
        budget = plan["budget_bytes"] or plan["planned_bytes"]
        expect(plan["planned_bytes"] <= budget, f"--ram {ram}: planned {plan['planned_bytes']} of {budget}")
        expect(peak <= budget + max(budget // 50, 4 * MIB), f"--ram {ram}: the peak is {peak - budget} bytes above {budget}")
        worst = max(worst, peak - budget)
        answers.add(out)
        return plan

    smallest = one("min")["minimum_bytes"]
    whole = one("all")["planned_bytes"]
    one((smallest + whole) // 2 + MIB // 2)
    expect(len(answers) == 1, "the answer depends on the budget")
    code, out, err, _ = run(program, model, ids, smallest - MIB, folder)
    expect(code == 3 and out == b"", f"{smallest - MIB} bytes are not refused: {code}, {err}")
    named = re.search(r"smallest that works is ([0-9.]+) ([KMG])iB", err)
    expect(named, f"no smallest budget is named: {err}")
    one(named[1] + named[2])
    return worst


def check_models(program, data, folder):
    ids = os.path.join(data, "models/qwen3_moe/expected.safetensors")
    models = sorted(glob.glob(os.path.join(data, "models/*.gguf")))
    models += sorted(os.path.dirname(path) for path in glob.glob(os.path.join(data, "models/*/config.json")))
    expect(len(models) > 100, f"only {len(models)} models in {data}")
    failed, worst = 0, -(1 << 62)
    for model in models:
        try:
            worst = max(worst, check_model(program, model, ids, folder))
        except Failure as failure:
            failed += 1
            print(f"not ok - {os.path.basename(model)}: {failure}")
    print(f"# {len(models)} models; the highest peak is {worst / MIB:.2f} MiB above its budget")
    print("ok - peaks of every reference model" if failed == 0 else f"# {failed} failed")
    return failed == 0


# ---- a control group ----


class Group:
    """A new control group with a limit of memory and no swap; version 1 or 2. Raises OSError with the reason where there can be none."""

    def __init__(self):
        name = f"sluice-test-{os.getpid()}"
        self.v1 = os.path.isdir(os.path.join(GROUPS, "memory"))
        parent = os.path.join(GROUPS, "memory") if self.v1 else GROUPS
        if not self.v1:
            if not os.path.exists(os.path.join(parent, "cgroup.controllers")):
                raise OSError("no control groups are mounted")
            with open(os.path.join(parent, "cgroup.subtree_control"), "r+", encoding="ascii") as file:
                if "memory" not in file.read().split():
                    file.write("+memory")
        self.path = os.path.join(parent, name)
        os.mkdir(self.path)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def limit(self, size):
        if self.v1:
            swap = os.path.join(self.path, "memory.memsw.limit_in_bytes")
            if os.path.exists(swap):
                self.write("memory.memsw.limit_in_bytes", -1)  # never below the other
            self.write("memory.limit_in_bytes", size)
            if os.path.exists(swap):
                self.write("memory.memsw.limit_in_bytes", size)
        else:
            self.write("memory.max", size)
            if os.path.exists(os.path.join(self.path, "memory.swap.max")):
                self.write("memory.swap.max", 0)

    def kills(self):
        name = "memory.oom_control" if self.v1 else "memory.events"
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            found = re.search(r"^oom_kill (\d+)$", file.read(), re.M)
        return int(found[1]) if found else 0

    def remove(self):
        for _ in range(50):
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)


def check_group(program, data, folder):
    """True: it held; None: it could not be tried."""
    if os.geteuid() != 0:
        print("# not run: a control group with a limit needs root")
        return None
    try:
        group = Group()
        group.limit(64 * MIB)
    except OSError as error:
        print(f"# not run: no control group can be made here: {error}")
        return None
    nobody = pwd.getpwnam("nobody")

    def enter():
        group.write("cgroup.procs", os.getpid())
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 * MIB, 8 * MIB))
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)

    own = os.path.join(folder, "program")  # where that user may read them
    ids = os.path.join(folder, "ids.safetensors")
    shutil.copy(program, own)
    shutil.copy(os.path.join(data, "models/qwen3_moe/expected.safetensors"), ids)
    os.chmod(folder, 0o777)
    failed = 0
    try:
        for path in ("../../demo/novels-moe-Q4_K_M.gguf", "models/llama-tied-bias.gguf", "models/qwen3_moe"):
            model = os.path.join(folder, os.path.basename(path))
            source = os.path.join(data, path)
            if os.path.isdir(source):
                shutil.copytree(source, model)
            else:
                shutil.copy(source, model)
            plans = {ram: run(own, model, ids, ram, folder) for ram in ("min", "all")}
            smallest, whole = plans["min"][3]["plan"]["minimum_bytes"], plans["all"][3]["plan"]["planned_bytes"]
            for budget in (smallest + MIB, (smallest + whole) // 2 + MIB, whole + MIB):
                for reader in ("best", "threads", "sync"):
                    group.limit(budget + allowance(budget))
                    kills = group.kills()
                    code, out, err, told = run(own, model, ids, budget, folder, enter, ("--reader", reader))
                    limit = budget + allowance(budget)
                    what = f"{os.path.basename(path)}, --ram {budget / MIB:.1f}M in a group of {limit / MIB:.1f}M, {reader}"
                    try:
                        expect(group.kills() == kills and code == 0, f"{what}: exit code {code}, {err or 'killed'}")
                        expect(told["memory"]["swap_bytes"] == 0, f"{what}: it swapped")
                        expect(out == plans["all"][1], f"{what}: another answer")
                        print(f"# {what}: peak {told['memory']['peak_bytes'] / MIB:.1f}M")
                    except Failure as failure:
                        failed += 1
                        print(f"not ok - {failure}")
    finally:
        group.remove()
    if failed == 0:
        print("ok - not killed under the budget and the allowance, as an ordinary user")
    return failed == 0


def main():
    program, data = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        good = check_models(program, data, folder)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        grouped = check_group(program, data, folder)
    if not good or grouped is False:
        sys.exit(1)
    sys.exit(0 if grouped else 77)


main()
