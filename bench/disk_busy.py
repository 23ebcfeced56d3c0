#!/usr/bin/env python3
"""How busy is the disk while sluice waits for what it misses?

  disk_busy.py [--binary build/sluice] -- generate MODEL --ram 7800M ...

Runs sluice under the kernel's tracing (root; tracefs with uprobes and block events): every call of store_wait, in which a pass waits
for reads, and every read of every block device. Prints how long it waited, and in which share of that time at least one read was with
a device, before the first text and after it (so not with --print-ids, which comes at the end). For a quiet machine: what waits for a
processor is counted, too.
"""
import argparse, os, re, struct, subprocess, sys, time

TRACING = "/sys/kernel/tracing"
EVENTS = ("uprobes/sluice_wait", "uprobes/sluice_waited", "block/block_rq_issue", "block/block_rq_complete")


def put(name, text, mode="w"):
    with open(os.path.join(TRACING, name), mode) as f:
        f.write(text)


def get(name):
    with open(os.path.join(TRACING, name)) as f:
        return f.read().split()[0]


def file_offset(binary, symbol):
    """Where a function of an ELF64 file lies in it."""
    listed = subprocess.run(["nm", binary], capture_output=True, text=True, check=True).stdout
    address = next((int(l.split()[0], 16) for l in listed.splitlines() if l.endswith(" T " + symbol) or l.endswith(" t " + symbol)), None)
    if address is None:
        sys.exit(f"{binary} has no symbol {symbol}: build it without stripping")
    with open(binary, "rb") as f:
        header = f.read(64)
        start, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        for i in range(count):
            f.seek(start + i * size)
            kind, _, offset, virtual, _, length = struct.unpack("<IIQQQQ", f.read(40))
            if kind == 1 and virtual <= address < virtual + length:
                return address - virtual + offset
    sys.exit(f"{symbol} of {binary} is in no segment")


def record(binary, arguments):
    """Runs it: its process, when its first output came, the trace's lines."""
    offset = file_offset(binary, "store_wait")
    before = {name: get(name) for name in ("tracing_on", "buffer_size_kb")}
    put("uprobe_events", f"p:uprobes/sluice_wait {binary}:{offset:#x}\nr:uprobes/sluice_waited {binary}:{offset:#x}\n")
    try:
        put("tracing_on", "1")
        put("trace_clock", "mono")
        put("buffer_size_kb", "131072")
        put("trace", "")
        for event in EVENTS:
            put(f"events/{event}/enable", "1")
        process = subprocess.Popen([binary, *arguments], stdout=subprocess.PIPE)
        process.stdout.read1(1)
        first = time.clock_gettime(time.CLOCK_MONOTONIC)
        process.stdout.read()
        if process.wait():
            sys.exit(f"sluice ended with {process.returncode}")
        with open(os.path.join(TRACING, "trace")) as f:
            return process.pid, first, f.read().splitlines()
    finally:
        for event in EVENTS:
            put(f"events/{event}/enable", "0")
        put("uprobe_events", "")
        put("trace", "")
        for name, value in before.items():
            put(name, value)


def intervals(lines, pid):
    """Times in which the process waited, and in which a device had a request: lists of (begin, end)."""
    line_form = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+([\d.]+): (\w+):(.*)")
    waits, busy, began, flight, since = [], [], None, {}, 0.0
    for line in lines:
        found = line_form.search(line)
        if not found:
            continue
        thread, at, event, rest = int(found[1]), float(found[2]), found[3], found[4]
        if event.startswith("sluice_wait") and thread == pid:
            if event == "sluice_wait":
                began = at
            elif began is not None:
                waits.append((began, at))
                began = None
        elif event.startswith("block_rq"):
            request = re.search(r"(\d+,\d+) (\w+) .*?(\d+) \+ (\d+)", rest)
            if not request or "R" not in request[2]:
                continue
            key = (request[1], request[3])
            if event == "block_rq_issue":
                since = since if flight else at
                flight[key] = at
            elif flight.pop(key, None) is not None and not flight:
                busy.append((since, at))
    return waits, busy


def shared(waits, busy):
    total, both, b = sum(e - s for s, e in waits), 0.0, 0
    for start, end in waits:
        while b < len(busy) and busy[b][1] <= start:
            b += 1
        for s, e in busy[b:]:
            if s >= end:
                break
            both += min(e, end) - max(s, start)
    return total, both


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/sluice")
    parser.add_argument("arguments", nargs="+")
    args = parser.parse_args()
    pid, first, lines = record(os.path.realpath(args.binary), args.arguments)
    waits, busy = intervals(lines, pid)
    for name, some in (("load and prompt", [w for w in waits if w[0] < first]), ("decoding", [w for w in waits if w[0] >= first])):
        total, both = shared(some, busy)
        print(f"{name}: {len(some)} waits, {total:.2f} s; a device was busy in {100 * both / total if total else 0:.1f} % of that")


if __name__ == "__main__":
    main()
