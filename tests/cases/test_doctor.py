#!/usr/bin/env python3
"""inspect, doctor and the tables of docs: what they say is what then happens. PROGRAM DATA."""

import json
import os
import shutil
import tempfile

import model_files
from model_files import Case, F32, Run, U32, main, toy


def demo():
    return os.path.join(model_files.DATA, "../../demo/novels-moe-Q4_K_M.gguf")


class Tables(Case):
    def same(self, flag, name):
        with open(os.path.join(model_files.DATA, "../../docs", name), "rb") as file:
            self.assertEqual(Run([flag]).out, file.read(), f"write it anew: build/sluice {flag} > docs/{name}")

    def test_families(self):
        self.same("--family-table", "FAMILIES.md")

    def test_formats(self):
        self.same("--format-table", "FORMATS.md")


class Inspect(Case):
    def test_numbers_of_a_mixture(self):
        told = self.inspect(demo())
        wanted = {
            "kind": "GGUF",
            "family": "qwen3_moe",
            "layers": 8,
            "hidden": 256,
            "vocab": 4096,
            "context": 2048,
            "experts": 64,
            "experts_per_token": 8,
            "shared_experts": 0,
            "expert_layers": 8,
            "kv_bytes_per_token": 2048,
            "tokenizer": "byte-level BPE",
            "tokenizer_vocab": 4096,
            "chat_template": "no",
            "end_ids": [4093],
            "unused_tensors": 0,
        }
        self.assertEqual({key: told[key] for key in wanted}, wanted)
        self.assertEqual(told["bytes_per_token"], told["bytes_per_token_dense"] + told["bytes_per_token_experts"])
        self.assertAlmostEqual(sum(told["formats"].values()), 1, places=6)
        self.assertEqual(set(told["formats"]), {"F32", "Q5_0", "Q8_0", "Q4_K", "Q6_K"})
        self.assertNotIn("problem", told)
        self.assertNotIn("unknown_keys", told)

    def test_bytes_per_token_of_a_toy(self):
        told = self.inspect(self.write("m.gguf", toy(experts=4)))
        matrices = 32 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 4 * 64)
        self.assertEqual(told["bytes_per_token_dense"], 4 * (matrices + 64))  # the head, and one row of the embedding
        self.assertEqual(told["bytes_per_token_experts"], 4 * 2 * 2 * 3 * 96 * 64)
        self.assertEqual(told["kv_bytes_per_token"], 2 * 2 * 2 * (16 + 16))
        self.assertEqual(told["formats"], {"F32": 1.0})

    def test_text_says_what_json_says(self):
        told, lines = self.inspect(demo()), Run(["inspect", demo()]).out.decode().splitlines()
        keys = {line.split()[0] for line in lines if line and line[0] != " "}
        self.assertEqual(keys, {key for key, value in told.items() if value != []})

    def test_unknown_key_of_importance(self):
        model = self.copy_model("qwen3", attention_twist=0.5, some_dropout=0, use_cache=True)
        self.assertEqual(self.inspect(model)["unknown_keys"], ["attention_twist"])
        gguf = toy().set("llama.attention.twist", F32, 0.5).set("llama.other", U32, 0)
        self.assertEqual(self.inspect(self.write("m.gguf", gguf))["unknown_keys"], ["llama.attention.twist"])

    def test_missing_tensors_are_listed(self):
        gguf = toy()
        gguf.tensors = [t for t in gguf.tensors if t[0] not in ("blk.0.attn_k.weight", "blk.1.ffn_down.weight")]
        told = self.inspect(self.write("m.gguf", gguf))
        self.assertEqual(told["missing_tensors"], ["blk.0.attn_k.weight", "blk.1.ffn_down.weight"])
        self.assertIn("blk.0.attn_k.weight, blk.1.ffn_down.weight", told["problem"])

    def test_unused_tensors_are_listed(self):
        gguf = toy()
        gguf.tensors.append(["vision.patch.weight", [4, 4], 0, bytes(64), None])
        path = self.write("m.gguf", gguf)
        told = self.inspect(path)
        self.assertEqual((told["unused_tensors"], told["unused_names"]), (1, ["vision.patch.weight"]))
        self.works(path)

    def test_template_and_reply_format(self):
        model = self.copy_model("qwen3")
        shutil.copy(self.data("templates/Qwen-Qwen3-0.6B.jinja"), os.path.join(model, "chat_template.jinja"))
        told = self.inspect(model)
        self.assertEqual((told["chat_template"], told["reply_format"]), ("yes", "hermes"))


class Doctor(Case):
    def doctor(self, *arguments, cache="cache"):
        run = Run(["doctor", *arguments, "--json"], {"XDG_CACHE_HOME": self.path(cache)})
        return run, json.loads(run.out)

    def agree(self, code, model, *flags):
        """The verdict, and what generate then does."""
        run, told = self.doctor(model, *flags)
        then = Run(["generate", model, "--prompt", "It was", "--max-tokens", "4", "--quiet", *flags])
        self.assertEqual(run.code, code, run.err)
        self.assertEqual(then.code == 0, code == 0, then.err)
        self.assertEqual(then.code == 3, code == 3, then.err)
        self.assertEqual(told["generate"]["works"], code == 0)
        if code:
            self.assertIn(told["generate"]["why"][:40], then.err)
        return told

    def test_good(self):
        for budget in ("auto", "all", "min", "24M"):
            told = self.agree(0, demo(), "--ram", budget)
            self.assertGreater(told["bounds"]["memory_tokens_per_s"], 0)
            if budget != "auto":
                self.assertEqual("disk_tokens_per_s_cold" in told["bounds"], budget != "all", budget)
            self.assertEqual(told["model"]["family"], "qwen3_moe")

    def test_too_large(self):
        for flags in (["--ram", "1M"], ["--ram", "5M"], ["--ram", "30M", "--ctx", "100000"]):
            self.agree(3, demo(), *flags)

    def test_damaged(self):
        with open(demo(), "rb") as file:
            whole = file.read()
        self.agree(1, self.write("cut.gguf", whole[:-1]))
        self.agree(1, self.write("half.gguf", whole[: len(whole) // 2]))
        self.agree(1, self.write("page.gguf", "<!DOCTYPE html><html></html>"))
        gguf = toy()
        gguf.tensors.pop()
        self.agree(1, self.write("missing.gguf", gguf))

    def test_unsupported(self):
        self.agree(1, self.write("m.gguf", toy("notyet")))
        self.agree(1, self.copy_model("llama", model_type="notyet", architectures=["NotYetForCausalLM"]))
        self.agree(1, self.copy_model("llama", "act", hidden_act="gelu"))
        self.agree(1, self.write("notok.gguf", toy()))  # no tokenizer: a prompt cannot be read

    def test_options(self):
        self.agree(1 if Run(["generate", demo(), "-p", "a", "-n", "1", "--isa", "avx512"]).code else 0, demo(), "--isa", "avx512")
        self.agree(0, demo(), "--reader", "sync")

    def test_copies(self):
        """Each device alone and all at once; the bound is of what copies give together."""
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folders = [self.path("here"), tempfile.mkdtemp(dir=memory)]
        self.addCleanup(shutil.rmtree, folders[1], ignore_errors=True)
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
            shutil.copy(demo(), folder)
        flags = [flag for folder in folders for flag in ("--copy", folder)]
        run, told = self.doctor(demo(), "--ram", "min", *flags)
        self.assertEqual((run.code, told["model"]["files"]), (0, 1), run.err)
        paths = [demo(), *(os.path.join(folder, os.path.basename(demo())) for folder in folders)]
        devices = {os.stat(path).st_dev for path in paths}
        if len(devices) == 1:
            self.assertEqual(told["reading"]["devices"], [])
        else:
            self.assertEqual(len(told["reading"]["devices"]), len(devices))
            self.assertEqual(told["reading"]["together"]["disk_bytes_per_s"], told["reading"]["disk_bytes_per_s"])
            self.assertEqual(told["reading"]["together"]["measured"], "earlier")
        self.assertEqual(any("one device" in line for line in told["advice"]), len(devices) < 3)
        self.assertEqual(len(os.listdir(self.path("cache/sluice"))), 1 if len(devices) == 1 else len(devices) + 1)
        text = Run(["doctor", demo(), "--ram", "min", *flags], {"XDG_CACHE_HOME": self.path("cache")}).out.decode()
        self.assertEqual("all disks at once" in text, len(devices) > 1)
        with open(os.path.join(folders[0], os.path.basename(demo())), "r+b") as file:
            file.write(b"guf")
        run, told = self.doctor(demo(), *flags)
        self.assertEqual(run.code, 1)
        self.assertIn("differ at offset 0", told["generate"]["why"])

    def test_machine_alone(self):
        run, told = self.doctor()
        self.assertEqual(run.code, 0)
        self.assertGreater(told["machine"]["memory_total_bytes"], 0)
        self.assertIn("ref", told["machine"]["instruction_levels"])

    def test_measurements_are_kept(self):
        run, told = self.doctor(demo())
        self.assertEqual(told["reading"]["measured"], "now")
        self.assertGreater(len(told["reading"]["points"]), 0)
        folder = self.path("cache/sluice")
        (name,) = os.listdir(folder)
        kept = os.path.join(folder, name)
        self.assertEqual(self.doctor(demo())[1]["reading"]["measured"], "earlier")
        with open(kept) as file:
            content = file.read()
        for damage in (
            "",
            "{",
            content[:-9],
            content.replace("EPYC", "ABACUS").replace("threads", "fingers"),
            '{"identity": 3}',
            content.replace('"disk_bytes_per_s": ', '"disk_bytes_per_s": -'),
        ):
            with open(kept, "w") as file:
                file.write(damage)
            self.assertEqual(self.doctor(demo())[1]["reading"]["measured"], "now", damage[:40])
            with open(kept) as file:
                self.assertIn("disk_bytes_per_s", json.load(file))
        self.write("file", "")
        self.assertEqual(self.doctor(demo(), cache="file")[1]["reading"]["measured"], "now")  # no folder can be made there


if __name__ == "__main__":
    main()
