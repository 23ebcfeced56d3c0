#!/usr/bin/env python3
"""Memory, streaming and what a run tells of it: cases E of docs/CASES.md, one test each, named by its number. PROGRAM DATA."""

import ctypes
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import model_files
from model_files import Case, Run, main, toy

TIGHT = "24M"  # the demo model with about three quarters of its experts


def demo():
    return os.path.join(model_files.DATA, "../../demo/novels-moe-Q4_K_M.gguf")


class Memory(Case):
    def demo_run(self, *flags, code=0, model=None, tokens=60, quiet=True):
        metrics = self.path("metrics.json")
        run = Run(
            ["generate", model or demo(), "--prompt", "It was a dark", "--max-tokens", str(tokens), "--temp", "0", "--ignore-eos"]
            + ["--metrics", metrics, *(["--quiet"] if quiet else []), *flags],
            environment={"XDG_CACHE_HOME": self.folder},
        )
        self.assertEqual(run.code, code, run.err)
        run.metrics = json.loads(self.read(metrics)) if code == 0 else None
        return run


def limited(preexec, *arguments):
    """(code, standard output, standard error) of a run that began with preexec()."""
    done = subprocess.run([model_files.PROGRAM, *arguments], capture_output=True, preexec_fn=preexec, timeout=120)
    return done.returncode, done.stdout, done.stderr.decode()


def file_limit(size):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def lock_limit():
    drop_from_bounding_set, may_lock = 24, 14
    ctypes.CDLL(None).prctl(drop_from_bounding_set, may_lock, 0, 0, 0)  # else root may lock everything
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))


class Budget(Memory):
    def test_e01_reads_what_it_misses(self):
        run = self.demo_run("--ram", TIGHT, tokens=200)
        reads, times = run.metrics["reads"], run.metrics["times"]
        self.assertEqual(run.metrics["memory"]["swap_bytes"], 0)
        self.assertEqual(run.metrics["plan"]["streamed_bytes_per_pass"], 0)
        missed = run.metrics["plan"]["token_expert_bytes"] * (1 - reads["hit_rate_decode"])
        self.assertAlmostEqual(reads["demanded_bytes_per_token"] / missed, 1, delta=0.05)
        self.assertLessEqual(reads["read_bytes"], reads["demanded_bytes"] + reads["reads"] * 2 * 4096)
        self.assertLess(times["token_p50_s"], 10 * times["decode_s"] / 199)

    def test_e02_budget_that_cannot_fit(self):
        small = self.demo_run("--ram", "9M", "--ctx", "2048", code=3).err
        for part in ("process", "keys and values for 2048 tokens", "activations", "smallest"):
            self.assertIn(part, small)
        huge = self.demo_run("--ram", "900T", quiet=False)
        self.assertEqual(huge.err.count("lowered"), 1, huge.err)
        self.assertLess(huge.metrics["memory"]["peak_bytes"], huge.metrics["plan"]["planned_bytes"] * 1.02 + (4 << 20))

    def test_e06_model_on_tmpfs(self):
        """Direct reads may be refused there; the tail of this file is no whole block, and its experts begin at 32 bytes."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            model = os.path.join(folder, "model.gguf")
            shutil.copyfile(demo(), model)
            self.assertNotEqual(os.path.getsize(model) % 4096, 0)
            for reader in ("uring", "threads", "sync"):
                run = self.demo_run("--ram", TIGHT, "--reader", reader, model=model, quiet=False)
                self.assertEqual(run.out, self.demo_run("--ram", "all").out)
                self.assertLessEqual(run.err.count("direct reads are refused"), 1)

    def test_e08_too_little_memory_is_told(self):
        """With ever more memory it fails with a line, until it works; never silently. Every allocation: test_engine_faults."""
        works = 0
        for mib in range(1, 40, 2):
            run = self.generate(demo(), [1, 2, 3], "--max-tokens", "4", "--ram", "min", memory_mib=mib)
            works += run.code == 0
            if run.code == 127:
                self.assertIn("shared", run.err)  # the system's loader, before main
            elif run.code != 0:
                self.assertIn(run.code, (1, 3), run.err)
                self.assertRegex(run.err, "memory|thread")  # a thread's stack is memory too
        self.assertGreater(works, 2)

    def test_e11_disk_full(self):
        self.ids([1, 2, 3, 4, 5, 6, 7, 8])
        ids, out = self.path("ids.safetensors"), self.path("out")
        for arguments in (["logits", demo(), "--ids", ids, "--out", out], ["inspect", demo(), "--dump", out]):
            code, _, err = limited(file_limit(100_000), *arguments, "--quiet")
            self.assertEqual(code, 1, err)
            self.assertIn(out, err)
            self.assertIn("write failed", err)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out")], [])
            missing = os.path.join(self.folder, "no/such/out")
            run = Run([*arguments[:-1], missing])
            self.assertEqual(run.code, 1)
            self.assertIn("No such file or directory", run.err)

    def test_e12_killed_while_writing(self):
        self.ids([1 + i % 100 for i in range(400)])
        out, generator = self.path("out"), random.Random(2)
        command = [model_files.PROGRAM, "logits", demo(), "--ids", self.path("ids.safetensors"), "--out", out, "--quiet"]
        begin = time.monotonic()
        subprocess.run(command, check=True)
        longest, want = time.monotonic() - begin, self.read(out)
        for _ in range(10):
            if os.path.exists(out):
                os.remove(out)
            process = subprocess.Popen(command)
            time.sleep(generator.uniform(0, longest))
            process.kill()
            process.wait()
            if os.path.exists(out):
                self.assertEqual(self.read(out), want)
        subprocess.run(command, check=True)
        self.assertEqual(self.read(out), want)

    def test_e13_large_reads(self):
        model = self.write("m.gguf", toy(experts=6, hidden=256, ffn=512))
        run = self.generate(model, [1, 2, 3], "--max-tokens", "20", "--ram", "min", "--metrics", self.path("m.json"))
        self.assertEqual(run.code, 0, run.err)
        reads = json.loads(self.read(self.path("m.json")))["reads"]
        self.assertGreater(reads["read_bytes"] / reads["reads"], 256 << 10)

    def test_e14_lock_limit(self):
        arguments = ["generate", demo(), "--prompt", "It was", "--max-tokens", "3", "--temp", "0", "--ram", TIGHT]
        code, out, err = limited(lock_limit, *arguments)
        self.assertEqual(code, 0, err)
        self.assertEqual(err.count("ulimit -l"), 1, err)
        self.assertRegex(err, r"[0-9.]+ [KMB]i?B? of [0-9.]+ MiB of weights are locked")
        self.assertEqual(out, Run(arguments).out)
        self.assertEqual(limited(lock_limit, *arguments, "--quiet")[2], "")

    def test_e16_prompt_reads_each_expert_once(self):
        """One chunk of 256 tokens, nothing in memory before: no expert of a layer is read twice."""
        metrics = self.path("m.json")
        ids = [random.Random(3).randrange(4000) for _ in range(256)]
        run = self.generate(demo(), ids, "--max-tokens", "2", "--ram", "20M", "--chunk", "256", "--metrics", metrics)
        self.assertEqual(run.code, 0, run.err)
        told = json.loads(self.read(metrics))
        self.assertEqual(told["plan"]["chunk"], 256)
        self.assertLessEqual(told["reads"]["prompt_read_bytes"], 1.35 * told["plan"]["expert_bytes"])
        self.assertGreater(told["times"]["first_token_s"], 0)

    def test_e17_prompt_that_is_no_text(self):
        noise = self.write("noise", random.Random(4).randbytes(5_000_000))
        run = Run(["generate", demo(), "--prompt-file", noise, "--quiet"], memory_mib=64)
        self.assertEqual((run.code, run.out), (2, b""), run.err)
        self.assertIn("no text", run.err)
        long = self.write("long", b"it was a long way to the sea, and " * 100_000)
        run = Run(["generate", demo(), "--prompt-file", long, "--ctx", "2048", "--quiet"], memory_mib=400)
        self.assertEqual(run.code, 3, run.err)
        self.assertIn("--ctx", run.err)

    def test_e18_more_memory_is_never_worse(self):
        before, used = -1, []
        for mib in (14, 16, 18, 20, 22, 24):
            metrics = self.demo_run("--ram", f"{mib}M", tokens=100).metrics
            rate = metrics["reads"]["hit_rate_decode"]
            self.assertGreaterEqual(rate, before - 0.002)
            before = rate
            self.assertLessEqual(metrics["memory"]["peak_bytes"], (mib << 20) + (4 << 20))
            used.append(metrics["plan"]["planned_bytes"] / (mib << 20))
        self.assertGreater(min(used), 0.95)


class Bound(Memory):
    def test_dependency_bound(self):
        for ram in (TIGHT, "12M", "all"):
            run = self.demo_run("--ram", ram, "--verbose", tokens=100, quiet=False)
            bounds = run.metrics["bounds"]
            self.assertEqual(bounds["dependency_tokens"], 99)
            share = bounds["dependency_tokens_per_s"] / bounds["dependency_bound_tokens_per_s"]
            self.assertAlmostEqual(bounds["dependency_share"], share, delta=1e-6)
            self.assertGreater(share, 0.001)
            self.assertLessEqual(share, 1)  # nothing is read ahead of a router
        run = self.demo_run("--ram", TIGHT, tokens=100, quiet=False)
        self.assertRegex(run.err, r"the last 99 tokens: [0-9.]+/s, [0-9]+ % of the [0-9.]+/s that their compute and a disk")
        self.assertNotRegex(self.demo_run("--ram", "all", quiet=False).err, "the last")

    def test_dependency_bound_of_the_last_tokens(self):
        """A prompt of one token makes a pass like those of decode; the last 128 are kept."""
        for prompt, tokens, known in ((["It"], 1, 0), (["It"], 2, 1), (["It"], 100, 99), (["It"], 200, 128), (["It was a dark"], 129, 128)):
            run = self.demo_run("--ram", TIGHT, "--prompt", *prompt, "--ctx", "256", tokens=tokens)
            self.assertEqual(run.metrics["generated_tokens"], tokens)
            self.assertEqual(run.metrics["bounds"]["dependency_tokens"], known, (prompt, tokens))

    def test_disk_is_measured_once(self):
        first = self.demo_run("--ram", TIGHT).metrics["bounds"]
        self.assertEqual(self.demo_run("--ram", TIGHT).metrics["bounds"]["disk_bytes_per_s"], first["disk_bytes_per_s"])


class Trace(Memory):
    def test_replay_agrees_with_the_run(self):
        for ram in ("16M", "20M", TIGHT):
            trace = self.path("trace")
            run = self.demo_run("--ram", ram, "--trace", trace, tokens=150)
            told = Run(["trace", trace, "--svg", self.path("curve.svg")])
            self.assertEqual(told.code, 0, told.err)
            rows = [line.split("%") for line in told.out.decode().splitlines() if re.match(r" +[0-9.]+ [KMG]iB", line)]
            self.assertGreater(len(rows), 10)
            own = [row for row in rows if row[-1].endswith("*")]
            self.assertEqual(len(own), 1, told.out)
            wanted = 100 * run.metrics["reads"]["hit_rate_decode"]
            self.assertAlmostEqual(float(own[0][1]), wanted, delta=1)
            self.assertGreater(wanted, 5)
            self.assertIn(f"hit rate {wanted:.2f} %", told.out.decode())
            for row in rows:  # nothing beats Belady
                rates = [float(cell.split()[-1]) for cell in row[1:5]]
                self.assertEqual(max(rates), rates[3], row)
            self.assertEqual(self.read(self.path("curve.svg")).count(b"<polyline"), 4)

    def test_changes_no_byte(self):
        plain = self.demo_run("--ram", TIGHT)
        self.assertEqual(self.demo_run("--ram", TIGHT, "--trace", self.path("trace")).out, plain.out)

    def test_everything_in_memory_is_traced_too(self):
        self.demo_run("--ram", "all", "--trace", self.path("trace"))
        self.demo_run("--ram", TIGHT, "--trace", self.path("tight"))
        in_memory, tight = (Run(["trace", self.path(name)]).out.decode().splitlines() for name in ("trace", "tight"))
        self.assertIn("everything was in memory", in_memory[2])
        self.assertEqual(in_memory[4:], [line for line in tight[4:] if not line.endswith("*")])

    def test_no_experts(self):
        run = self.generate(self.data("models/llama.gguf"), [1, 2, 3], "--trace", self.path("trace"))
        self.assertEqual(run.code, 2)
        self.assertIn("no experts", run.err)
        self.assertFalse(os.path.exists(self.path("trace")))

    def test_is_no_trace(self):
        for content in (b"", b"SLUICETR", b"{}", bytes(500)):
            run = Run(["trace", self.write("trace", content)])
            self.assertEqual(run.code, 1)
            self.assertIn(self.path("trace"), run.err)
            self.assertEqual(run.out, b"")

    def test_e11_disk_full_while_tracing(self):
        """The answer comes, the trace does not, and the run says so."""
        trace, want = self.path("trace"), self.demo_run("--ram", TIGHT, tokens=600).out

        arguments = ["generate", demo(), "--prompt", "It was a dark", "--max-tokens", "600", "--temp", "0", "--ignore-eos", "--quiet"]
        code, out, err = limited(file_limit(100_000), *arguments, "--ram", TIGHT, "--trace", trace)
        self.assertEqual((code, out), (1, want), err)
        self.assertIn(trace, err)
        self.assertIn("write failed", err)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("trace")], [])

    def test_e12_killed_while_tracing(self):
        """At any moment: the file is whole or not there, and the next run does not mind what is left."""
        trace, generator, whole = self.path("trace"), random.Random(1), 0
        arguments = ["generate", demo(), "--prompt", "It was a dark", "--max-tokens", "40", "--ignore-eos", "--quiet"]
        command = [model_files.PROGRAM, *arguments, "--ram", TIGHT, "--trace", trace]
        begin = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        longest = 1.2 * (time.monotonic() - begin)
        for _ in range(25):
            if os.path.exists(trace):
                os.remove(trace)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(generator.uniform(0, longest))
            process.kill()
            process.wait()
            if os.path.exists(trace):
                whole += 1
                self.assertEqual(Run(["trace", trace]).code, 0)
        self.assertLess(whole, 25)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(Run(["trace", trace]).code, 0)
        self.assertFalse(os.path.exists(trace + ".partial"))


class Faults(Memory):
    """The file changes while tokens come: those that came are right, then an error names the file."""

    def disturbed(self, ram, change):
        model = self.path("model.gguf")
        if os.path.exists(model):
            os.remove(model)
        shutil.copyfile(demo(), model)
        arguments = ["generate", model, "--prompt", "It was a dark", "--max-tokens", "2000", "--temp", "0", "--ignore-eos", "--quiet"]
        process = subprocess.Popen(
            [model_files.PROGRAM, *arguments, "--ram", ram, "--threads", "1"], bufsize=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        begin = process.stdout.read(40)
        change(model)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn(model.encode(), err)
        self.assertTrue(self.long_answer().startswith((begin + out).removesuffix(b"\n")))

    def long_answer(self):
        if not hasattr(Faults, "answer"):
            Faults.answer = self.demo_run("--ram", "all", tokens=2000).out
        return Faults.answer

    def every_way(self, change):
        for ram in ("min", "all"):
            self.disturbed(ram, change)

    def test_file_cut_short(self):
        def cut(model):
            os.truncate(model, 1 << 20)

        self.every_way(cut)

    def test_file_rewritten(self):
        def rewrite(model):
            with open(model, "r+b") as file:
                file.seek(4 << 20)
                file.write(bytes(8 << 20))

        self.every_way(rewrite)

    def test_file_replaced(self):
        def replace(model):
            with open(model + ".new", "wb") as file:
                file.write(bytes(1000))
            os.replace(model + ".new", model)

        self.every_way(replace)

    def test_file_removed_is_no_fault(self):
        model, want = self.path("model.gguf"), self.demo_run("--ram", "min", tokens=300).out
        shutil.copyfile(demo(), model)
        arguments = ["generate", model, "--prompt", "It was a dark", "--max-tokens", "300", "--temp", "0", "--ignore-eos", "--quiet"]
        process = subprocess.Popen([model_files.PROGRAM, *arguments, "--ram", "min"], stdout=subprocess.PIPE, bufsize=0)
        begin = process.stdout.read(20)
        os.remove(model)
        out, _ = process.communicate(timeout=120)
        self.assertEqual((process.returncode, begin + out), (0, want))


if __name__ == "__main__":
    main()
