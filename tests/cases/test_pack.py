#!/usr/bin/env python3
"""Packs and checks of whole models: what cases D and E of docs/CASES.md ask of a converter, and `sluice verify`. PROGRAM DATA."""

import array
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import model_files
from model_files import F32, U32, Case, Gguf, Run, floats, main, read_safetensors, safetensors, toy
from test_memory import demo, file_limit, limited

IDS = [1 + i * 7 % 30 for i in range(24)]
Q4_0_BLOCK, F32_TYPE = 18, 0


def read_gguf(path):
    """Metadata, and {name: (dims, type, offset in the file)}."""
    with open(path, "rb") as file:
        whole = file.read()
    at = 4

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, whole, at)
        at += struct.calcsize("<" + form)
        return value[0]

    def take_text():
        nonlocal at
        length = take("Q")
        at += length
        return whole[at - length : at].decode()

    def take_value(kind):
        if kind == model_files.TEXT:
            return take_text()
        if kind == model_files.ARRAY:
            element = take("I")
            return [take_value(element) for _ in range(take("Q"))]
        return take(model_files.PACK[kind][1:])

    take("I")
    tensors, entries = take("Q"), take("Q")
    keys = {take_text(): take_value(take("I")) for _ in range(entries)}
    table = {}
    for _ in range(tensors):
        name = take_text()
        dims = [take("Q") for _ in range(take("I"))]
        table[name] = (dims, take("I"), take("Q"))
    alignment = keys.get("general.alignment", 32)
    data = -(-at // alignment) * alignment
    return keys, {name: (dims, kind, data + offset) for name, (dims, kind, offset) in table.items()}


def hf_toy(hidden=64, ffn=128, vocab=32, layers=2):
    """A small llama as a folder's files, in bf16."""

    def matrix(rows, cols, seed):
        wide = floats(rows * cols, seed)
        return ("BF16", [rows, cols], b"".join(wide[i + 2 : i + 4] for i in range(0, len(wide), 4)))

    def norm(size):
        return ("BF16", [size], b"\x80\x3f" * size)

    entries = {"model.embed_tokens.weight": matrix(vocab, hidden, 1), "lm_head.weight": matrix(vocab, hidden, 2)}
    entries["model.norm.weight"] = norm(hidden)
    for layer in range(layers):
        block = f"model.layers.{layer}."
        entries[block + "input_layernorm.weight"] = norm(hidden)
        entries[block + "post_attention_layernorm.weight"] = norm(hidden)
        for i, (name, rows, cols) in enumerate(
            [("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", hidden // 2, hidden), ("self_attn.v_proj", hidden // 2, hidden)]
            + [("self_attn.o_proj", hidden, hidden), ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden)]
            + [("mlp.down_proj", hidden, ffn)]
        ):
            entries[block + name + ".weight"] = matrix(rows, cols, 10 * layer + i + 5)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": ffn}
    config.update(num_hidden_layers=layers, num_attention_heads=4, num_key_value_heads=2, vocab_size=vocab, rms_norm_eps=1e-5)
    config.update(max_position_embeddings=512, rope_theta=10000.0, tie_word_embeddings=False, torch_dtype="bfloat16")
    return {"config.json": json.dumps(config), "model.safetensors": safetensors(entries), "tokenizer_config.json": "{}"}


def large_toy(experts=8, hidden=512, ffn=1024):
    """A mixture of about 100 MB in F32, made fast."""
    model = toy(hidden=64, experts=2)
    block = floats(1 << 16, 3)
    for key, value in ((".embedding_length", hidden), (".feed_forward_length", ffn), (".expert_count", experts)):
        model.set("llama" + key, U32, value)
    small = toy(hidden=hidden, ffn=32, experts=0, vocab=32)
    tensors = [t for t in small.tensors if "ffn_gate" not in t[0] and "ffn_up" not in t[0] and "ffn_down" not in t[0]]
    for layer in range(2):
        for seed, (name, dims) in enumerate(
            [("gate_exps", [hidden, ffn, experts]), ("up_exps", [hidden, ffn, experts]), ("down_exps", [ffn, hidden, experts])]
        ):
            count = hidden * ffn * experts * 4
            turned = block[64 * seed :] + block[: 64 * seed]
            tensors.append([f"blk.{layer}.ffn_{name}.weight", dims, F32_TYPE, (turned * (count // len(turned) + 1))[:count], None])
        tensors.append([f"blk.{layer}.ffn_gate_inp.weight", [hidden, experts], F32_TYPE, floats(hidden * experts, 9 + layer), None])
    model.tensors = tensors
    return model


class Packs(Case):
    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = self.path("cache")

    def pack(self, model, out, *flags, code=0):
        run = Run(["pack", model, out, *flags])
        self.assertEqual(run.code, code, run.err)
        return run

    def verify(self, model, code=0):
        run = Run(["verify", model])
        self.assertEqual(run.code, code, run.err + run.out.decode())
        return run.out.decode()

    def same(self, a, b):
        """The same logits, bit for bit, all in memory and with as little as there may be."""
        want = self.logits(a, IDS)
        for ram in ("all", "min"):
            self.assertEqual(self.logits(b, IDS, "--ram", ram), want)

    def write_folder(self, name, files):
        for file, content in files.items():
            self.write(os.path.join(name, file), content)
        return self.path(name)

    def nothing_left(self, out):
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith(os.path.basename(out))], [])


class Packing(Packs):
    def test_packed_is_the_same_model(self):
        names = ("qwen3_moe.gguf", "qwen3_moe", "mlx-qwen3_moe-4bit", "gpt_oss-mxfp4", "deepseek_v3.gguf", "llama-awq", "qwen3_moe-fp8")
        names += ("gemma4-moe.gguf", "qwen3_5_moe-wrapper", "bailing_moe.gguf")
        for name in names:
            source, out = self.data("models/" + name), self.path("packed-" + name)
            self.pack(source, out)
            self.same(source, out)
            self.assertIn("checksums of the pack: good", self.verify(out))
            self.assertEqual(self.inspect(source)["parameters"], self.inspect(out)["parameters"])

    def test_text_of_a_pack(self):
        out = self.path("demo.gguf")
        self.pack(demo(), out)
        arguments = ["--prompt", "It was a dark", "--max-tokens", "60", "--temp", "0.8", "--seed", "3", "--quiet"]
        want = Run(["generate", demo(), *arguments]).out
        self.assertGreater(len(want), 100)
        for ram in ("all", "min", "24M"):
            self.assertEqual(Run(["generate", out, *arguments, "--ram", ram]).out, want)

    def test_an_expert_is_one_read(self):
        reads = {}
        out = self.path("demo.gguf")
        self.pack(demo(), out)
        keys, tensors = read_gguf(out)
        self.assertTrue(all(at % 4096 == 0 for _, _, at in tensors.values()))
        experts = [name for name in tensors if name.split(".")[3:4] and name.split(".")[3].isdigit()]
        self.assertEqual([name.split(".")[2] for name in experts[:3]], ["ffn_gate", "ffn_up", "ffn_down"])
        self.assertEqual(len({tuple(name.split(".")[1:4:2]) for name in experts}) * 3, len(experts))
        places = [tensors[name][2] for name in experts]
        self.assertEqual(places, sorted(places))
        for model in (demo(), out):
            run = Run(
                ["generate", model, "--prompt", "It was", "--max-tokens", "50", "--ignore-eos", "--ram", "20M", "--quiet"]
                + ["--metrics", self.path("m.json")]
            )
            self.assertEqual(run.code, 0, run.err)
            figures = json.loads(self.read(self.path("m.json")))["reads"]
            reads[model] = figures["reads"] / (1 - figures["hit_rate"])  # of a missing expert: caches differ with the process
        self.assertLess(reads[out] * 2.5, reads[demo()])

    def test_metadata_stays(self):
        out = self.path("demo.gguf")
        self.pack(demo(), out)
        packed, source = self.inspect(out), self.inspect(demo())
        for key in ("family", "parameters", "context", "tokenizer", "chat_template", "expert_layers"):
            self.assertEqual(packed.get(key), source.get(key), key)
        again = self.path("again.gguf")
        self.pack(out, again)  # a pack of a pack
        self.assertEqual(self.read(again), self.read(out))

    def test_split_files_become_one(self):
        folder = self.data("gguf/split")
        parts = sorted(name for name in os.listdir(folder) if name.endswith(".gguf") and "-of-" in name)
        whole = [self.path("a.gguf"), self.path("b.gguf")]
        for part, out in zip((parts[0], parts[-1]), whole):
            self.pack(os.path.join(folder, part), out)
        self.assertEqual(self.read(whole[0]), self.read(whole[1]))
        self.same(os.path.join(folder, parts[0]), whole[0])

    def test_types_of_gguf(self):
        source = self.write("m.gguf", toy(hidden=256, ffn=512))
        want, bits = self.logits(source, IDS), {}
        for name, most in (("q4_0", 0.4), ("q8_0", 0.04), ("q4_k", 0.4), ("q5_k", 0.2), ("q6_k", 0.1), ("f16", 0.01), ("bf16", 0.04)):
            out = self.path(name + ".gguf")
            self.pack(source, out, "--type", name)
            got = self.logits(out, IDS)
            error = (sum((a - b) ** 2 for a, b in zip(got, want)) / sum(a * a for a in want)) ** 0.5
            self.assertLess(error, most, name)
            self.assertEqual(self.logits(out, IDS, "--ram", "min"), got)
            self.assertIn("good", self.verify(out))
            bits[name] = os.path.getsize(out)
        self.assertLess(bits["q4_0"] * 5, os.path.getsize(source))
        self.assertLess(bits["q4_k"], bits["q5_k"])
        mixture, out = self.write("mixture.gguf", toy(hidden=256, ffn=256, experts=4)), self.path("mixture-q4.gguf")
        self.pack(mixture, out, "--type", "q4_k")
        self.assertEqual(self.logits(out, IDS, "--ram", "min"), self.logits(out, IDS))
        formats = {name: kind for name, (_, kind, _) in read_gguf(out)[1].items()}
        self.assertEqual((formats["blk.0.ffn_gate_inp.weight"], formats["blk.0.ffn_norm.weight"]), (0, 0))  # F32
        self.assertEqual((formats["blk.1.ffn_down.3.weight"], formats["output.weight"]), (12, 14))  # Q4_K, Q6_K
        refused = self.pack(self.path("q4_0.gguf"), self.path("again.gguf"), "--type", "q8_0", code=1)
        self.assertIn("quantised already", refused.err)
        self.nothing_left("again.gguf")

    def test_types_of_directories(self):
        source = self.write_folder("source", hf_toy())
        want = self.logits(source, IDS)
        for name, most in (("mlx4", 0.4), ("mlx8", 0.04)):
            out = self.path(name)
            self.pack(source, out, "--type", name)
            got = self.logits(out, IDS)
            error = (sum((a - b) ** 2 for a, b in zip(got, want)) / sum(a * a for a in want)) ** 0.5
            self.assertLess(error, most, name)
            config = json.loads(self.read(os.path.join(out, "config.json")))
            self.assertEqual(config["quantization"], {"group_size": 64, "bits": int(name[3:]), "mode": "affine"})
            self.assertEqual(config["vocab_size"], 32)
            tensors = read_safetensors(os.path.join(out, "model.safetensors"))
            self.assertEqual(tensors["model.layers.0.mlp.up_proj.weight"][0], "U32")
            self.assertEqual(tensors["model.layers.0.mlp.up_proj.scales"][:2], ("BF16", [128, 1]))
            self.assertEqual(tensors["model.norm.weight"][0], "BF16")
            self.assertIn("good", self.verify(out))
            again = self.pack(out, self.path("again"), "--type", "mlx8", code=1)
            self.assertIn("quantised already", again.err)

    def test_fp8_becomes_mlx(self):
        source, out = self.data("models/qwen3_moe-fp8"), self.path("mlx")
        self.pack(source, out, "--type", "mlx8")
        want, got = self.logits(source, IDS), self.logits(out, IDS)
        self.assertLess(sum((a - b) ** 2 for a, b in zip(got, want)), 1e-3 * sum(a * a for a in want))

    def test_g09_a_prediction_layer_keeps_its_type(self):
        """A drafter of few bits guesses badly: --type changes what the model itself uses."""
        source, out, small = self.data("models/glm4_moe-mtp.gguf"), self.path("out.gguf"), self.path("small.gguf")
        self.pack(source, out)
        self.assertEqual(self.logits(out, IDS, "--mtp"), self.logits(source, IDS, "--mtp"))
        self.pack(source, small, "--type", "q4_0")
        self.logits(small, IDS, "--mtp")
        before, after = read_gguf(source)[1], read_gguf(small)[1]
        layer = [name for name in before if name.startswith("blk.3.")]
        self.assertGreater(len(layer), 10)
        self.assertEqual([before[name][:2] for name in layer], [after[name][:2] for name in layer])
        self.assertNotEqual(before["blk.0.attn_q.weight"][1], after["blk.0.attn_q.weight"][1])

    def test_wrong_use(self):
        gguf, folder = self.write("m.gguf", toy()), self.write_folder("source", hf_toy())
        there = self.write("there.gguf", b"")
        for model, out, flags, code, part in (
            (gguf, there, [], 2, "is there already"),
            (gguf, self.path("out"), [], 2, "ends in .gguf"),
            (folder, self.path("out.gguf"), [], 2, "without .gguf"),
            (gguf, self.path("no/such/out.gguf"), [], 1, "no such folder"),
            (gguf, self.path("out.gguf"), ["--type", "mlx4"], 2, "type of directories"),
            (folder, self.path("out"), ["--type", "q4_0"], 2, "type of GGUF"),
            (gguf, self.path("out.gguf"), ["--type", "q3"], 2, "q3"),
            (gguf, self.path("out.gguf"), ["--type", "q4_k"], 0, ""),  # rows of 64 and 96 become q8_0
        ):
            run = self.pack(model, out, *flags, code=code)
            self.assertIn(part, run.err)
            if code:
                self.nothing_left(os.path.join(self.folder, "out"))
        self.assertEqual(self.read(there), b"")


class Refused(Packs):
    """Nothing is written of what is no model that runs."""

    def refuse(self, model, *parts):
        out = self.path("out.gguf" if not os.path.isdir(model) else "out")
        run = self.pack(model, out, code=1)
        self.assertEqual(run.err.count("\n"), 1, run.err)
        for part in parts:
            self.assertIn(part, run.err)
        self.nothing_left(out)

    def test_d01_truncated(self):
        whole = toy().bytes()
        for size in (len(whole) - 1, len(whole) // 2, 300, 0):
            self.refuse(self.write("m.gguf", whole[:size]), "m.gguf")

    def test_d16_lying_offset(self):
        model = toy()
        model.tensor("blk.1.ffn_up.weight")[4] = 1 << 40
        self.refuse(self.write("m.gguf", model), "blk.1.ffn_up.weight", "incomplete")

    def test_d24_family_that_is_not_known(self):
        begin = time.monotonic()
        self.refuse(self.write("m.gguf", toy(arch="grok")), "grok")
        self.assertLess(time.monotonic() - begin, 5)

    def test_d17_numbers_that_are_none(self):
        model = toy(experts=4, hidden=64)
        tensor = model.tensor("blk.1.ffn_down_exps.weight")
        data = bytearray(tensor[3])
        struct.pack_into("<f", data, 4 * 7001, float("nan"))
        tensor[3] = bytes(data)
        source = self.write("m.gguf", model)
        run = self.pack(source, self.path("out.gguf"), code=1)
        self.assertIn("blk.1.ffn_down_exps.weight", run.err)
        self.assertIn("no finite number", run.err)
        self.assertFalse(os.path.exists(self.path("out.gguf")))
        run = self.pack(source, self.path("out2.gguf"), "--type", "q8_0", code=1)
        self.assertIn("blk.1.ffn_down_exps.weight", run.err)
        found = self.verify(source, code=1)
        self.assertIn("tensor blk.1.ffn_down_exps.weight", found)
        at = self.read(source).find(tensor[3]) + 4 * 7001
        self.assertIn(f"offset {at}:", found)


class Stopped(Packs):
    def setUp(self):
        super().setUp()
        self.source, self.out = self.write("m.gguf", large_toy()), self.path("out.gguf")

    def whole(self, *flags):
        self.pack(self.source, self.path("whole.gguf"), *flags)
        return self.read(self.path("whole.gguf"))

    def test_e11_disk_full(self):
        """A limit of file sizes is a disk that fills up. What was written is kept, and goes on when there is room."""
        want = self.whole()
        code, _, err = limited(file_limit(len(want) // 2), "pack", self.source, self.out)
        self.assertEqual(code, 1)
        for part in (self.out + ".partial", "offset", "more are needed", "goes on"):
            self.assertIn(part, err)
        self.assertFalse(os.path.exists(self.out))
        self.refused(self.out + ".partial", "unfinished")
        run = self.pack(self.source, self.out)
        self.assertIn("from an earlier call", run.out.decode())
        self.assertEqual(self.read(self.out), want)
        self.assertEqual([n for n in os.listdir(self.folder) if ".partial" in n], [])

    def test_e11_disk_too_small(self):
        """Known before the start: a model with a tensor, all hole, that no disk here has room for."""
        free = os.statvfs(self.folder)
        terabytes = (free.f_bavail * free.f_frsize >> 40) + 2
        model = toy()
        model.tensors.append(["unused.weight", [1 << 20, terabytes << 18], F32_TYPE, b"", None])
        source = self.write("huge.gguf", model)
        os.truncate(source, os.path.getsize(source) + (terabytes << 40))
        run = self.pack(source, self.path("no.gguf"), code=1)
        for part in ("the pack needs", "free", "are missing", "nothing was written"):
            self.assertIn(part, run.err)
        self.nothing_left("no.gguf")

    def test_e12_killed_at_any_moment(self):
        generator = random.Random(4)
        begin = time.monotonic()
        want = self.whole("--type", "q5_k", "--threads", "1")
        longest, kills, kept = time.monotonic() - begin, 0, 0
        for round_number in range(3):
            if os.path.exists(self.out):
                os.remove(self.out)
            for _ in range(40):
                command = [model_files.PROGRAM, "pack", self.source, self.out, "--type", "q5_k", "--threads", "1", "--quiet"]
                process = subprocess.Popen(command, stdout=subprocess.PIPE)
                try:
                    out, _ = process.communicate(timeout=longest * generator.uniform(0.02, 0.95))
                    kept += b"from an earlier call" in out
                    break
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    kills += 1
                self.assertFalse(os.path.exists(self.out) and self.read(self.out) != want)
            else:
                kept += b"from an earlier call" in self.pack(self.source, self.out, "--type", "q5_k").out
            self.assertEqual(self.read(self.out), want)
        self.assertGreater(kills, 2)
        self.assertGreater(kept, 0)

    def test_h05_ctrl_c(self):
        want = self.whole("--type", "q5_k")
        process = subprocess.Popen([model_files.PROGRAM, "pack", self.source, self.out, "--type", "q5_k", "--quiet"])
        while not os.path.exists(self.out + ".partial"):
            self.assertIsNone(process.poll())
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=5), 130)
        self.assertFalse(os.path.exists(self.out))
        self.pack(self.source, self.out, "--type", "q5_k")
        self.assertEqual(self.read(self.out), want)

    def test_what_is_there_is_not_trusted(self):
        """A byte of the unfinished pack changes, its note is damaged, or it is of other arguments: the pack is right all the same."""
        want = self.whole()
        for spoil in ("data", "note", "arguments"):
            limited(file_limit(len(want) // 2), "pack", self.source, self.out, *(["--type", "f16"] if spoil == "arguments" else []))
            name = self.out + (".partial.state" if spoil == "note" else ".partial")
            with open(name, "r+b") as file:
                file.seek(100 if spoil == "note" else len(want) // 4)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
            self.pack(self.source, self.out)
            self.assertEqual(self.read(self.out), want, spoil)
            os.remove(self.out)

    def test_folders_go_on_too(self):
        source = self.write_folder("source", hf_toy(hidden=512, ffn=4096, vocab=1000))
        out = self.path("packed")
        self.pack(source, self.path("whole"))
        limit = os.path.getsize(os.path.join(source, "model.safetensors")) // 2
        code, _, err = limited(file_limit(limit), "pack", source, out)
        self.assertEqual(code, 1, err)
        self.assertFalse(os.path.exists(out))
        self.assertIn("unfinished", self.refused(out + ".partial", out + ".partial"))
        self.pack(source, out)
        for name in os.listdir(self.path("whole")):
            self.assertEqual(self.read(os.path.join(out, name)), self.read(os.path.join(self.path("whole"), name)), name)
        self.assertFalse(os.path.exists(out + ".partial"))


class Verified(Packs):
    def flip(self, path, at):
        """One bit, and the file's times as they were: as a disk does it."""
        times = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 4]))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def test_damaged_pack(self):
        generator = random.Random(5)
        out = self.path("out.gguf")
        self.pack(self.data("models/qwen3_moe.gguf"), out)
        _, tensors = read_gguf(out)
        places = sorted((at, name) for name, (_, _, at) in tensors.items())
        for _ in range(25):
            at = generator.randrange(os.path.getsize(out))
            owner = next((name for begin, name in reversed(places) if begin <= at), None)
            self.flip(out, at)
            run = Run(["verify", out])
            self.assertEqual(run.code, 1, f"bit at {at}")
            said = run.out.decode() + run.err
            self.assertIn(out, said)
            if owner and f"tensor {owner}," not in said:
                self.assertIn("outside of its tensors", said)  # a gap
            self.flip(out, at)
        self.verify(out)

    def test_damaged_folder_pack(self):
        out = self.path("packed")
        self.pack(self.data("models/qwen3_moe"), out)
        data = os.path.join(out, "model.safetensors")
        self.flip(data, os.path.getsize(data) - 10)
        self.assertIn(f", {data}, bytes", self.verify(out, code=1))
        self.flip(data, os.path.getsize(data) - 10)
        with open(os.path.join(out, "config.json"), "a") as file:
            file.write(" ")
        self.assertIn("config.json: its checksum is not the pack's", self.verify(out, code=1))

    def test_own_checksums(self):
        model = self.write("m.gguf", toy())
        self.assertIn("checksums made", self.verify(model))
        self.assertIn("checksums of the first check: good", self.verify(model))
        tensor = toy().tensor("blk.0.attn_k.weight")[3]
        at = self.read(model).find(tensor)
        self.flip(model, at + 50)
        self.assertIn(f"tensor blk.0.attn_k.weight, {model}, bytes {at} to {at + len(tensor)}", self.verify(model, code=1))
        self.flip(model, at + 50)
        self.verify(model)
        name = self.read(model).find(b"llama.context_length")
        self.flip(model, name + len("llama.context_length") + 4)
        self.assertIn("outside of its tensors", self.verify(model, code=1))
        smaller = toy()
        smaller.tensors.append(["more.weight", [4], F32_TYPE, bytes(16), None])
        self.write("m.gguf", smaller)
        self.assertIn("outside of its tensors", self.verify(model, code=1))
        cache = self.path("cache/sluice")
        for name in os.listdir(cache):
            os.remove(os.path.join(cache, name))
        self.assertIn("checksums made", self.verify(model))

    def git_hash(self, data):
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def test_hub_download(self):
        files = hf_toy()
        folder = self.write_folder("m", files)
        notes = ".cache/huggingface/download/"
        data, config = self.read(os.path.join(folder, "model.safetensors")), files["config.json"].encode()
        self.write(f"m/{notes}model.safetensors.metadata", f"abcdef\n{hashlib.sha256(data).hexdigest()}\n1700000000.0\n")
        self.write(f"m/{notes}config.json.metadata", f'abcdef\n"{self.git_hash(config)}"\n1700000000.0\n')
        self.assertIn("2 files compared with their download", self.verify(folder))
        shutil.rmtree(self.path("cache"))  # without checksums of its own the file is known to be damaged, not the tensor
        self.flip(os.path.join(folder, "model.safetensors"), len(data) - 7)
        self.assertIn("model.safetensors: its SHA-256 is", self.verify(folder, code=1))
        self.flip(os.path.join(folder, "model.safetensors"), len(data) - 7)
        self.flip(os.path.join(folder, "config.json"), config.find(b"10000"))
        self.assertIn("config.json: its git hash is", self.verify(folder, code=1))

    def test_hub_cache(self):
        files = hf_toy()
        os.makedirs(self.path("hub/blobs"))
        os.makedirs(self.path("hub/snapshots/abc"))
        for name, content in files.items():
            content = content if isinstance(content, bytes) else content.encode()
            blob = hashlib.sha256(content).hexdigest() if name == "model.safetensors" else self.git_hash(content)
            self.write("hub/blobs/" + blob, content)
            os.symlink("../../blobs/" + blob, self.path("hub/snapshots/abc/" + name))
        folder = self.path("hub/snapshots/abc")
        self.assertIn("3 files compared with their download: ", self.verify(folder).replace(";", ":"))
        shutil.rmtree(self.path("cache"))
        self.flip(os.path.realpath(os.path.join(folder, "model.safetensors")), 5000)
        self.assertIn("model.safetensors: its SHA-256 is", self.verify(folder, code=1))

    def test_structure(self):
        whole = toy().bytes()
        model = self.write("m.gguf", whole[:-5])
        run = Run(["verify", model])
        self.assertEqual(run.code, 1)
        self.assertIn("incomplete", run.err)
        self.assertEqual(Run(["verify", self.path("nothing")]).code, 1)

    def test_total_size_is_a_note(self):
        folder = self.write_folder("m", hf_toy())
        tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
        index = {"metadata": {"total_size": 5}, "weight_map": {name: "model.safetensors" for name in tensors}}
        self.write("m/model.safetensors.index.json", json.dumps(index))
        said = self.verify(folder)
        self.assertIn("says 5 bytes in all", said)
        self.assertIn("good", said)

    def test_scales_that_are_no_numbers(self):
        model = toy()
        tensor = model.tensor("blk.1.ffn_up.weight")
        blocks = bytearray(struct.pack("<e16s", 0.01, bytes(16)) * (64 * 96 // 32))
        tensor[2], tensor[3] = 2, bytes(blocks)
        self.verify(self.write("good.gguf", model))
        for scale in (b"\x00\x7c", b"\x01\x7e"):
            blocks[Q4_0_BLOCK * 77 : Q4_0_BLOCK * 77 + 2] = scale
            tensor[3] = bytes(blocks)
            path = self.write("m.gguf", model)
            at = self.read(path).find(tensor[3]) + Q4_0_BLOCK * 77
            said = self.verify(path, code=1)
            self.assertIn(f"no number: tensor blk.1.ffn_up.weight, {path}, offset {at}: Q4_0 element {77 * 32}", said)
            self.assertNotIn("checksums made", said)


if __name__ == "__main__":
    main()
