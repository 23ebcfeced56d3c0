#!/usr/bin/env python3
"""Arithmetic as users stumble over it: cases F of docs/CASES.md that can be shown with the program. PROGRAM DATA."""

import array
import json
import math
import os
import random
import struct

import model_files
from model_files import Case, F32, Run, U32, floats, main, read_safetensors, safetensors, toy

LEVELS = ("ref", "avx2", "avx512")


def finite(values):
    return all(v - v == 0 for v in values)


def rows(values, vocab):
    return [values[i : i + vocab] for i in range(0, len(values), vocab)]


def divergence(exact, other, vocab):
    """Mean KL(exact || other)."""

    def log_softmax(row):
        top = max(row)
        norm = top + math.log(sum(math.exp(v - top) for v in row))
        return [v - norm for v in row]

    total = 0.0
    for a, b in zip(rows(exact, vocab), rows(other, vocab)):
        p, q = log_softmax(a), log_softmax(b)
        total += sum(math.exp(x) * (x - y) for x, y in zip(p, q))
    return total / (len(exact) // vocab)


def prompt(count, vocab, seed=1):
    generator = random.Random(seed)
    return [generator.randrange(3, vocab) for _ in range(count)]


class Numerics(Case):
    def demo(self):
        return os.path.join(model_files.DATA, "../../demo/novels-moe-Q4_K_M.gguf")

    def levels(self):
        """Instruction sets of this machine."""
        model = self.write("probe.gguf", toy())
        found = [level for level in LEVELS if self.generate(model, [1], "--max-tokens", "1", "--isa", level).code == 0]
        self.assertIn("ref", found)
        return found

    def test_f01_keys_and_values(self):
        # f16 is the one type that is offered; f32 comes with --activations f32
        for name, window in (("mistral-window", 12), ("llama", 12), ("gpt_oss", 12), ("gemma3", 12), ("deepseek_v3", 12)):
            model = self.data("models/" + name)
            for length in (window - 1, window, window + 1, 2 * window, 3 * window + 1):
                ids = prompt(length, 128)
                got, exact = self.logits(model, ids), self.logits(model, ids, "--activations", "f32")
                self.assertTrue(finite(got))
                self.assertLess(divergence(exact, got, 128), 1e-5, (name, length))
        for flag in ("--kv-type", "--cache-type-k"):
            self.assertEqual(self.generate(self.data("models/llama"), [1], flag, "q4").code, 2)  # not silently ignored

    def test_f02_large_activations(self):
        for scale in (1e5, 1e7):
            gguf = toy()
            table = gguf.tensor("token_embd.weight")
            table[3] = floats(32 * 64, 1, scale)  # the residual passes 65504
            path = self.write("m.gguf", gguf)
            got, exact = self.logits(path, prompt(20, 32)), self.logits(path, prompt(20, 32), "--activations", "f32")
            self.assertTrue(finite(got))
            self.assertLess(divergence(exact, got, 32), 1e-5)
        for weight, names in (
            (3e4, ["blk.0.ffn_norm.weight", "blk.1.ffn_norm.weight"]),
            (300.0, ["blk.0.attn_norm.weight", "output_norm.weight"]),
        ):
            gguf = toy()
            for name in names:
                gguf.tensor(name)[3] = array.array("f", [weight] * 64).tobytes()
            path = self.write("m.gguf", gguf)
            got, exact = self.logits(path, prompt(20, 32)), self.logits(path, prompt(20, 32), "--activations", "f32")
            self.assertTrue(finite(got))
            largest = max(map(abs, exact))
            self.assertLess(max(abs(x - y) for x, y in zip(exact, got)), 2e-3 * largest, names)
        gguf = toy()  # keys beyond 65504, which the cache cannot hold: said, not computed with
        gguf.tensor("blk.0.attn_norm.weight")[3] = array.array("f", [3e5] * 64).tobytes()
        path = self.write("m.gguf", gguf)
        run = self.generate(path, prompt(20, 32), "--max-tokens", "3")
        self.assertEqual((run.code, run.out), (1, b""))
        for word in ("layer 0", "keys or values", "65504", "--activations f32"):
            self.assertIn(word, run.err)
        self.assertTrue(finite(self.logits(path, prompt(20, 32), "--activations", "f32")))

    def test_f03_no_token_from_what_is_no_number(self):
        for name, where in (("blk.1.ffn_up.weight", "layer 1"), ("blk.0.attn_v.weight", "layer 0"), ("output.weight", "output.weight")):
            gguf = toy()
            tensor = gguf.tensor(name)
            tensor[3] = tensor[3][: 4 * 70] + struct.pack("<f", float("nan")) + tensor[3][4 * 71 :]  # row 1, element 6
            path = self.write("m.gguf", gguf)
            for flags in (["--temp", "0"], ["--temp", "1", "--seed", "4"], ["--temp", "1", "--top-k", "3", "--top-p", "0.9"]):
                run = Run(["generate", path, "--ids", self.ids([1, 2, 3]), "--print-ids", "--max-tokens", "5", "--quiet", *flags])
                self.assertEqual((run.code, run.out), (1, b""), (name, flags, run.err))
                for word in (where, name, "row 1", "element 6"):
                    self.assertIn(word, run.err)
            run = Run(["logits", path, "--ids", self.ids([1, 2, 3]), "--out", self.path("o.safetensors"), "--quiet"])
            self.assertEqual((run.code, os.path.exists(self.path("o.safetensors"))), (1, False))
        gguf = toy(experts=4)  # an expert that is only sometimes chosen: the first use fails, the others work
        tensor = gguf.tensor("blk.1.ffn_down_exps.weight")
        tensor[3] = tensor[3][: 4 * 64 * 96 * 2] + struct.pack("<f", float("inf")) + tensor[3][4 * 64 * 96 * 2 + 4 :]
        path, codes = self.write("m.gguf", gguf), set()
        for token in range(32):
            run = self.generate(path, [token], "--max-tokens", "1")
            codes.add(run.code)
            self.assertTrue(run.code == 0 or (run.out == b"" and "blk.1.ffn_down_exps.weight, row 128, element 0" in run.err), run.err)
        self.assertEqual(codes, {0, 1})

    def test_f06_sinks(self):
        model = self.data("models/gpt_oss")
        ids = prompt(37, 128)  # three windows
        got, exact = self.logits(model, ids), self.logits(model, ids, "--activations", "f32")
        self.assertTrue(finite(got))
        self.assertLess(divergence(exact, got, 128), 1e-5)
        for chunk in ("1", "5", "12"):
            self.assertEqual(self.logits(model, ids, "--chunk", chunk), got)
        tensors = read_safetensors(model + "/model.safetensors")
        copy = self.copy_model("gpt_oss", "other")
        for name in tensors:
            if name.endswith("sinks"):
                dtype, shape, content = tensors[name]
                tensors[name] = (dtype, shape, struct.pack("<H", 0xC2C8) * (len(content) // 2))  # -100: as if there were none
        self.write("other/model.safetensors", safetensors(tensors))
        self.assertNotEqual(self.logits(copy, ids), got)

    def test_f09_where_an_expert_lives(self):
        model = self.data("models/gpt_oss")  # clamped activation
        ids = prompt(30, 128)
        wanted, text = self.logits(model, ids, "--ram", "all"), self.generate(model, ids, "--max-tokens", "20", "--ram", "all").out
        plan = Run(["plan", model, "--json", "--ram", "min"])
        smallest = int(json.loads(plan.out)["minimum_bytes"])
        for flags in (
            ["--ram", "min"],
            ["--ram", f"{smallest // 1024 + 440}K"],
            ["--ram", f"{smallest // 1024 + 700}K"],
            ["--reader", "sync"],
            ["--ram", "min", "--reader", "threads"],
        ):
            self.assertEqual(self.logits(model, ids, *flags), wanted, flags)
            self.assertEqual(self.generate(model, ids, "--max-tokens", "20", *flags).out, text, flags)

    def test_f10_soft_caps(self):
        ids = prompt(40, 128)
        capped = self.copy_model("gemma2", "capped", attn_logit_softcapping=0.5, final_logit_softcapping=3.0)
        wanted = self.logits(capped, ids)
        self.assertLess(max(abs(v) for v in wanted), 3.0)
        for chunk in ("1", "7", "64"):  # prompt, decode and batches agree
            self.assertEqual(self.logits(capped, ids, "--chunk", chunk), wanted)
        exact = self.logits(capped, ids, "--activations", "f32")
        self.assertLess(divergence(exact, wanted, 128), 1e-5)
        first = self.generate(capped, ids, "--max-tokens", "1").out.split()
        last = rows(wanted, 128)[-1]
        self.assertEqual(int(first[0]), max(range(128), key=lambda i: last[i]))
        none = self.logits(self.copy_model("gemma2", "none", attn_logit_softcapping=None, final_logit_softcapping=None), ids)
        self.change_config("none", attn_logit_softcapping=50.0, final_logit_softcapping=30.0)  # the family's defaults
        self.assertEqual(self.logits(self.path("none"), ids), none)
        config = json.loads(self.read(self.path("none/config.json")))
        config.update(attn_logit_softcapping=None, final_logit_softcapping=None)  # null: no cap
        self.write("none/config.json", json.dumps(config))
        uncapped = self.logits(self.path("none"), ids)
        self.assertNotEqual(uncapped, none)

    def test_f11_same_answer_in_any_company(self):
        for name in ("qwen3_moe", "mistral-window", "qwen3_next", "deepseek_v3"):
            model, ids = self.data("models/" + name), prompt(70, 128)
            wanted = self.generate(model, ids, "--max-tokens", "16").out
            for flags in (
                ["--chunk", "1"],
                ["--chunk", "64"],
                ["--chunk", "512"],
                ["--threads", "1"],
                ["--threads", "3"],
                ["--ram", "min"],
                ["--ctx", "256"],
            ):
                self.assertEqual(self.generate(model, ids, "--max-tokens", "16", *flags).out, wanted, (name, flags))

    def test_f12_temperature_zero_is_the_likeliest_with_penalties(self):
        model = self.data("models/qwen3_moe")
        for frequency, presence, repetition in ((1.5, 0, 1), (0, 2, 1), (-2, 0, 1), (0, 0, 1.3), (0, 0, 0.5), (0.4, -0.3, 1.1)):
            flags = [f"--frequency-penalty={frequency}", f"--presence-penalty={presence}", f"--repetition-penalty={repetition}"]
            ids = prompt(20, 128)
            run = self.generate(model, ids, "--max-tokens", "24", *flags)
            answer = [int(word) for word in run.out.split()]
            self.assertEqual(len(answer), 24, run.err)
            logits = rows(self.logits(model, ids + answer[:-1]), 128)[len(ids) - 1 :]
            for n, (x, token) in enumerate(zip(logits, answer)):
                for i in set(ids + answer[:n]):
                    count = answer[:n].count(i)
                    x[i] = (x[i] / repetition if x[i] > 0 else x[i] * repetition) - count * frequency - (count > 0) * presence
                self.assertEqual(max(range(128), key=lambda i: (x[i], -i)), token, (flags, n))

    def test_f12_temperature_zero_is_the_likeliest(self):
        model, ids = self.data("models/qwen3_moe"), prompt(20, 128)
        last = rows(self.logits(model, ids), 128)[-1]
        best = max(range(128), key=lambda i: (last[i], -i))
        for flags in ([], ["--top-k", "50"], ["--top-k", "1"], ["--top-p", "0.01"], ["--min-p", "0.9"], ["--seed", "77"]):
            run = Run(["generate", model, "--ids", self.ids(ids), "--print-ids", "--temp", "0", "--max-tokens", "1", "--quiet", *flags])
            self.assertEqual(run.out.split(), [str(best).encode()], flags)
        for temperature in ("1e-9", "1e-38", "1e-45", "1e-300"):
            run = Run(["generate", model, "--ids", self.ids(ids), "--print-ids", "--temp", temperature, "--max-tokens", "1", "--quiet"])
            self.assertEqual(run.out.split(), [str(best).encode()], temperature)
        gguf = toy()  # all logits alike: the lowest id
        gguf.tensor("output.weight")[3] = floats(64, 5) * 32
        self.assertEqual(self.generate(self.write("m.gguf", gguf), [5, 6], "--max-tokens", "3").out.split(), [b"0"] * 3)

    def test_f14_odd_lengths(self):
        model, longest = self.data("models/qwen3_moe"), prompt(256, 128, 9)
        whole = rows(self.logits(model, longest, "--chunk", "1"), 128)
        for length in [*range(1, 18), 31, 32, 33, 47, 63, 64, 65, 100, 127, 128, 129, 191, 255, 256]:
            for chunk in ("1", "8", "63", "64", "512", "4096"):
                got = self.logits(model, longest[:length], "--chunk", chunk)
                self.assertEqual(list(got), [v for row in whole[:length] for v in row], (length, chunk))
                if chunk == "64" and length < 64:
                    break
        self.assertTrue(finite(v for row in whole for v in row))

    def test_f15_sizes_that_fit_no_tile(self):
        gguf = toy(hidden=72, ffn=100, vocab=257, heads=3, kv_heads=3, head_dim=24)
        path, ids = self.write("m.gguf", gguf), prompt(40, 257)
        wanted = self.logits(path, ids, "--isa", "ref", "--threads", "1")
        exact = self.logits(path, ids, "--isa", "ref", "--activations", "f32")
        self.assertLess(divergence(exact, wanted, 257), 1e-5)
        for level in self.levels():
            for threads in ("1", "2", "5"):
                self.assertEqual(self.logits(path, ids, "--isa", level, "--threads", threads), wanted, (level, threads))
            self.assertEqual(self.logits(path, ids, "--isa", level, "--activations", "f32"), exact, level)
        for odd in (
            {"hidden": 66, "heads": 3, "kv_heads": 1, "head_dim": 22, "ffn": 1},
            {"hidden": 8, "heads": 1, "kv_heads": 1, "ffn": 7, "vocab": 17},
        ):
            path, ids = self.write("odd.gguf", toy(**odd)), prompt(30, odd.get("vocab", 32))
            wanted = self.logits(path, ids, "--isa", "ref")
            self.assertTrue(finite(wanted))
            for level in self.levels():
                self.assertEqual(self.logits(path, ids, "--isa", level), wanted, (odd, level))

    def test_f16_same_tokens_on_every_processor(self):
        for model, ids in ((self.demo(), prompt(12, 4000)), (self.data("models/mlx-qwen3_moe-mixed"), prompt(12, 128))):
            answers = {self.generate(model, ids, "--max-tokens", "64", "--isa", level).out for level in self.levels()}
            self.assertEqual(len(answers), 1)
            self.assertEqual(len(answers.pop().split()), 64)

    def test_f17_positions_behind_65536(self):
        gguf = toy(hidden=16, layers=1, heads=1, kv_heads=1, head_dim=8, ffn=8, vocab=32).set("llama.context_length", U32, 131072)
        path, ids = self.write("m.gguf", gguf), prompt(33_000, 32)
        needle = list(ids)  # what stands at a tenth of the way is still seen behind position 32768
        for i in range(3300, 3600):
            needle[i] = 7
        self.assertNotEqual(self.tail(path, ids), self.tail(path, needle))
        window, ids = self.copy_model("mistral-window", max_position_embeddings=131072), prompt(66_000, 128)
        whole = self.generate(window, ids, "--max-tokens", "16", "--chunk", "512").out
        self.assertEqual(len(whole.split()), 16)
        self.assertEqual(self.generate(window, ids, "--max-tokens", "16", "--chunk", "999").out, whole)

    def tail(self, path, ids):
        run = Run(
            ["generate", path, "--ids", self.ids(ids), "--print-ids", "--temp", "5", "--seed", "1", "--max-tokens", "64", "--quiet"]
        )
        self.assertEqual(run.code, 0, run.err)
        return run.out

    def test_f18_context_full(self):
        for name in ("llama", "mistral-window", "deepseek_v3", "qwen3_next", "lfm2_moe", "gpt_oss"):
            ids = prompt(10, 128)
            run = Run(
                [
                    "generate",
                    self.data("models/" + name),
                    "--ids",
                    self.ids(ids),
                    "--print-ids",
                    "--temp",
                    "0",
                    "--ignore-eos",
                    "--ctx",
                    "64",
                    "--max-tokens",
                    "1000",
                ]
            )
            self.assertEqual(run.code, 0, run.err)
            self.assertEqual(len(run.out.split()), 64 - 10 + 1)  # the last one needs no place
            self.assertIn("context", run.err)
            self.assertEqual(self.generate(self.data("models/" + name), prompt(65, 128), "--ctx", "64").code, 3)


if __name__ == "__main__":
    main()
