#!/usr/bin/env python3
"""sluice beside other engines, everything in memory, taking turns.

  peers.py --sluice build/bench/bench_sequences --peer 'llama.cpp=build/bench/peer_llama' --peer 'ik_llama.cpp=PATH/peer_ik'
           --peer 'ik_llama.cpp, mapped=PATH/peer_ik mmap' [--threads 2] [--rounds 3] 'LABEL=MODEL.gguf@WORK,..' ...

WORK is PROMPT+DECODE, or SEQUENCESxPROMPT+DECODE: tokens/s of a prompt of so many tokens and of decoding behind it; of several sequences,
of decoding together. A prompt that is longer than --once tokens is read once, and left out of the table. All engines keep the model open
while they take turns, so there must be memory for it as often as engines copy it. `taskset` before the command pins them all.
Prints every figure as it comes, then a table: all rounds, and the median of sluice over that of the fastest peer.
"""
import argparse, json, statistics, subprocess, sys, time

WORK = "512+32,2048+32,8x128+32,16000+32"


class Engine:
    def __init__(self, name, command, model, threads, prompt, decode, sequences):
        words, self.name = command.split(), name
        arguments = [model, str(threads), str(prompt), str(decode), str(sequences)]
        self.process = subprocess.Popen(words[:1] + arguments + words[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, word):
        try:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            sys.exit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(answer)[word + "_tokens_per_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(args, model, work):
    """{what: {engine: [tokens/s]}} of one model and one piece of work."""
    sequences, tokens = work.split("x") if "x" in work else ("1", work)
    prompt, decode = tokens.split("+")
    once = int(prompt) > args.once
    asked = ["together"] if int(sequences) > 1 else ["decode"] if once else ["prompt", "decode"]
    engines = [Engine(name, command, model, args.threads, prompt, decode, sequences) for name, command in args.engines]
    figures = {word: {engine.name: [] for engine in engines} for word in asked}
    for engine in engines:  # reads what stays from then on, and wakes up what sleeps
        engine.ask(asked[-1] if int(sequences) > 1 or not once else "prompt")
    for _ in range(args.rounds):
        for word in asked:
            for engine in engines:
                time.sleep(0.3)  # threads of the one before may still spin
                figures[word][engine.name].append(engine.ask(word))
                print(f"{work} {word}, {engine.name}: {figures[word][engine.name][-1]:.2f}", file=sys.stderr, flush=True)
    for engine in engines:
        engine.close()
    names = {"prompt": f"prompt of {prompt}", "decode": f"decode behind {prompt}", "together": f"{sequences} sequences behind {prompt}"}
    return {names[word]: rates for word, rates in figures.items()}


def table_row(label, what, rates, names):
    medians = {name: statistics.median(rates[name]) for name in names}
    shown = [", ".join(f"{x:.0f}" if x >= 100 else f"{x:.1f}" for x in rates[name]) for name in names]
    peers = [medians[name] for name in names[1:]]
    ratio = f"{medians[names[0]] / max(peers):.2f}" if peers else ""
    return f"| {label} | {what} | " + " | ".join(shown) + f" | {ratio} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--sluice", default="build/bench/bench_sequences")
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", type=int, default=4096)
    args = parser.parse_args()
    args.engines = [("sluice", args.sluice)] + [tuple(peer.split("=", 1)) for peer in args.peer]
    names = [name for name, _ in args.engines]
    rows = []
    for model in args.model:
        label, place = model.split("=", 1)
        path, _, works = place.partition("@")
        for work in (works or WORK).split(","):
            rows += [table_row(label, what, rates, names) for what, rates in measure(args, path, work).items()]
    print(f"| model, {args.threads} threads | | " + " | ".join(names) + " | times the fastest peer |\n|" + "---|" * (len(names) + 3))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
