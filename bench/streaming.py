#!/usr/bin/env python3
"""Models bigger than memory, beside other engines under the same limit, alternating, cold.

  streaming.py MODEL.gguf PROMPT.txt --limit 8G --within 'with_ram {}' [--budget 7800M] [--rounds 3] [--tokens 256] [--threads 2]
               [--sluice build/sluice] [--llama build/bench/peer_llama --llama-tokens 16] [--bmoe PATH/bmoe-cli --bmoe-cache 5000]

--within is a command that runs its arguments as on a machine with {} of memory (a control group that counts the page cache too,
without swap).
Engines read through mmap only while the block device reads ahead little: set it to 128 KiB first (blockdev --setra 256).
Every run starts without the model in the page cache. Prints one line a run, then medians as a table. tokens/s of decoding are given as a
whole and by the median token, which a busy machine disturbs less.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile, time


def drop_pages(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def sluice(args, out):
    command = [args.sluice, "generate", args.model, "--ram", args.budget, "--prompt-file", args.prompt, "--max-tokens", str(args.tokens),
               "--temp", "0", "--ignore-eos", "--print-ids", "--threads", str(args.threads), "--metrics", out]
    run(args, command + args.sluice_option)
    m = json.load(open(out))
    times, reads, bounds = m["times"], m["reads"], m["bounds"]
    return {"prompt": times["prompt_tokens_per_s"], "decode": times["decode_tokens_per_s"], "median": 1 / times["token_p50_s"],
            "first_s": times["load_s"] + times["first_token_s"], "hit": reads["hit_rate_decode"],
            "MB/token": reads["read_bytes_per_token"] / 1e6, "of bound": bounds["dependency_share"],
            "peak MiB": m["memory"]["peak_bytes"] / 2**20}


def llama(args, out):
    words = [args.llama, args.model, str(args.threads), args.prompt, str(args.llama_tokens), "1", "mmap"]
    prompt, decode = [json.loads(line) for line in run(args, words, "prompt decode").splitlines() if line.startswith("{")]
    return {"prompt": prompt["prompt_tokens_per_s"], "decode": decode["decode_tokens_per_s"], "median": 1e3 / decode["median_ms"],
            "first_s": prompt["first_token_s"]}


def bmoe(args, out):
    text = run(args, [args.bmoe, "-m", args.model, "--moe-stream", "--overlap", "--cache-mb", str(args.bmoe_cache), "--io-threads", "4",
                      "-t", str(args.threads), "-c", "1024", "-n", str(args.tokens), "--progress", "-p", open(args.prompt).read()])
    walls = [json.loads(line.split(" ", 1)[1])["wall_ms"] for line in text.splitlines() if line.startswith("BMOE_PROGRESS")]
    number = lambda pattern: float(re.search(pattern, text).group(1))
    return {"prompt": number(r"prefill: .*?\(([\d.]+) tok/s"), "decode": number(r"\(([\d.]+) tok/s\)"),
            "median": 1e3 / statistics.median(walls), "first_s": number(r"TTFT ([\d.]+) s"),
            "hit": number(r"moe-cache: ([\d.]+)% hit") / 100, "MB/token": number(r"\(([\d.]+) MiB/token") * 2**20 / 1e6}


def run(args, command, asked=""):
    drop_pages(args.model)
    prefix = args.within.format(args.limit).split() if args.within else []
    done = subprocess.run(prefix + command, input=asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prompt")
    parser.add_argument("--limit", default="8G")
    parser.add_argument("--within", default="")
    parser.add_argument("--budget", default="7800M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sluice", default="build/sluice")
    parser.add_argument("--sluice-option", action="append", default=[])
    parser.add_argument("--llama")
    parser.add_argument("--llama-tokens", type=int, default=16)
    parser.add_argument("--bmoe")
    parser.add_argument("--bmoe-cache", type=int, default=5000)
    args = parser.parse_args()
    engines = [("sluice", sluice)] + [(name, fn) for name, fn in (("bmoe", bmoe), ("llama", llama)) if getattr(args, name)]
    results = {name: [] for name, _ in engines}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for name, engine in engines:
                start = time.monotonic()
                figures = engine(args, os.path.join(folder, "metrics.json"))
                results[name].append(figures)
                print(name, " ".join(f"{k} {v:.3g}" for k, v in figures.items()), f"({time.monotonic() - start:.0f} s)", flush=True)
    keys = list(dict.fromkeys(k for runs in results.values() for figures in runs for k in figures))
    print(f"\n| {args.limit} | " + " | ".join(keys) + " |\n|---|" + "---|" * len(keys))
    for name, runs in results.items():
        print(f"| {name} | " + " | ".join(f"{statistics.median(f[k] for f in runs):.3g}" if k in runs[0] else "" for k in keys) + " |")


if __name__ == "__main__":
    main()
