#!/usr/bin/env python3
"""Streaming off and on, alternating: the full logits of every step are compared, and the steps are timed.

  off_on.py MODEL IDS.safetensors --budget 7800M [--within 'with_ram 8G'] [--rounds 3] [--sluice build/sluice] [--option=--threads=2]

Off: everything in memory (--ram all). On: the model under a budget, and, with --within, under a command that runs its arguments as on
a machine with less memory. IDS is the int32 tensor input_ids; each id is a pass of its own, as in decoding. Ends with 1 when any bit
differs.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile
import numpy as np


def run(args, mode, folder):
    out, metrics = os.path.join(folder, mode), os.path.join(folder, "metrics.json")
    budget = "all" if mode == "off" else args.budget
    prefix = args.within.split() if args.within and mode == "on" else []
    command = [args.sluice, "logits", args.model, "--ids", args.ids, "--chunk", "1", "--ram", budget, "-o", out, "--metrics", metrics, "-q"]
    if subprocess.run(prefix + command + args.option).returncode:
        sys.exit(1)
    with open(out, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        rows, vocab = json.loads(f.read(size))["logits"]["shape"]
        logits = np.frombuffer(f.read(), dtype=np.float32).reshape(rows, vocab)
    return logits, json.load(open(metrics))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("ids")
    parser.add_argument("--budget", required=True)
    parser.add_argument("--within")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sluice", default="build/sluice")
    parser.add_argument("--option", action="append", default=[])
    args = parser.parse_args()
    first, rates, largest, differ = None, {"off": [], "on": []}, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for mode in ("off", "on"):
                logits, m = run(args, mode, folder)
                first = logits if first is None else first
                largest = max(largest, float(np.abs(logits - first).max()))
                differ += int((logits.view(np.uint32) != first.view(np.uint32)).sum())
                rates[mode].append(m["times"]["prompt_tokens_per_s"])
                print(f"{mode:3} {rates[mode][-1]:.2f} steps/s, hits {m['reads']['hit_rate']:.3f}, "
                      f"{m['reads']['read_bytes'] / 2**20:.0f} MiB read, peak {m['memory']['peak_bytes'] / 2**20:.0f} MiB", flush=True)
    print(f"{first.shape[0]} steps x {first.shape[1]} logits: largest difference {largest}, {differ} of other bits; "
          f"medians {statistics.median(rates['off']):.2f} and {statistics.median(rates['on']):.2f} steps/s")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
