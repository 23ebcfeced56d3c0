#!/usr/bin/env python3
"""Memory, streaming and what a run tells of it: cases E of docs/CASES.md, one test each, named by its number. PROGRAM DATA."""

import json
import os
import random
import re
import resource
import signal
import subprocess
import time

import model_files
from model_files import Case, Run, main

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

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        arguments = ["generate", demo(), "--prompt", "It was a dark", "--max-tokens", "600", "--temp", "0", "--ignore-eos", "--quiet"]
        done = subprocess.run(
            [model_files.PROGRAM, *arguments, "--ram", TIGHT, "--trace", trace], capture_output=True, preexec_fn=limit, timeout=120
        )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, want)
        self.assertIn(trace.encode(), done.stderr)
        self.assertIn(b"write failed", done.stderr)
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
        with open(demo(), "rb") as source, open(model, "wb") as copy:
            copy.write(source.read())
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
        with open(demo(), "rb") as source, open(model, "wb") as copy:
            copy.write(source.read())
        arguments = ["generate", model, "--prompt", "It was a dark", "--max-tokens", "300", "--temp", "0", "--ignore-eos", "--quiet"]
        process = subprocess.Popen([model_files.PROGRAM, *arguments, "--ram", "min"], stdout=subprocess.PIPE, bufsize=0)
        begin = process.stdout.read(20)
        os.remove(model)
        out, _ = process.communicate(timeout=120)
        self.assertEqual((process.returncode, begin + out), (0, want))


if __name__ == "__main__":
    main()
