#!/usr/bin/env python3
"""Files as they reach users: cases D of docs/CASES.md, one test each, named by its number. PROGRAM DATA.

There is no converter yet, so what the cases ask of one is asked of inspect, logits and generate here.
"""

import array
import json
import os
import shutil
import signal
import struct
import subprocess

import model_files
from model_files import (
    ARRAY,
    Case,
    F32,
    Gguf,
    I32,
    Run,
    TEXT,
    U16,
    U32,
    U64,
    U8,
    floats,
    main,
    read_safetensors,
    safetensors,
    text,
    toy,
    value_bytes,
)


def q4_0(rows, cols, scale_bits=0x2C00):
    return (struct.pack("<H", scale_bits) + bytes(range(0x10, 0x20))) * (rows * cols // 32)


class Damage(Case):
    def test_d01_truncated_gguf(self):
        whole = toy().bytes()
        self.works(self.write("whole.gguf", whole))
        self.refused(self.write("m.gguf", whole[:-1]), "m.gguf", "tensor", "bytes")
        self.refused(self.write("m.gguf", whole[: len(whole) // 2]), "m.gguf", "tensor", "bytes")
        self.refused(self.write("m.gguf", whole[:100]), "m.gguf", "download")
        self.refused(self.write("m.gguf", b""), "m.gguf", "empty")
        for length in range(1, 1200, 37):
            self.refused(self.write("m.gguf", whole[:length]), "m.gguf")
        out = self.path("out.safetensors")
        run = Run(["inspect", self.write("m.gguf", whole[:-1]), "--dump", out])
        self.assertEqual((run.code, os.path.exists(out)), (1, False))

    def test_d02_not_a_model(self):
        self.refused(self.write("m.gguf", "<!DOCTYPE html>\n<html>no</html>"), "web page", "download")
        self.refused(
            self.write("m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"), "Git LFS pointer", "download"
        )
        model = self.copy_model("llama")
        self.write("model/model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
        self.refused(model, "model.safetensors", "Git LFS pointer")

    def test_d03_not_called_damaged(self):
        said = self.refused(self.write("m.gguf", toy("brandnew", experts=4)), "'brandnew'", "not supported", "nearest")
        for word in ("corrupt", "damaged", "incomplete"):
            self.assertNotIn(word, said)
        gguf = toy()
        gguf.tensor("blk.1.attn_v.weight")[0] = "blk.1.attn_w.weight"
        said = self.refused(self.write("m.gguf", gguf), "1 tensor", "llama", "blk.1.attn_v.weight")
        for word in ("corrupt", "damaged", "incomplete"):
            self.assertNotIn(word, said)

    def test_d06_byte_split(self):
        self.refused(self.write("m.gguf.part1of2", toy().bytes()[:900]), "part", "join")

    def test_d07_dimensions(self):
        for dims in ([1] * 5, [1] * 9, []):
            gguf = toy()
            gguf.tensors.append(["odd", dims, 0, bytes(4), None])
            self.refused(self.write("m.gguf", gguf), "odd", "dimension")
        head = Gguf([("general.architecture", TEXT, "llama")], []).bytes()
        head = head[:8] + struct.pack("<Q", 1) + head[16:]
        head = head[: 24 + 8 + 20 + 4 + 8 + 5]
        for count in (5, 9, 0xFFFFFFFF, 0):
            self.refused(self.write("m.gguf", head + text("odd") + struct.pack("<I", count) + bytes(200)), "m.gguf", "odd", "dimension")

    def test_d09_products_that_wrap(self):
        for dims in ([4, 2**42 + 1], [2, 2**63], [2, 2**64 - 1], [2**32, 2**32], [2**62, 4]):
            gguf = toy()
            gguf.tensor("blk.0.attn_q.weight")[1] = dims
            self.refused(self.write("m.gguf", gguf), "blk.0.attn_q.weight")
        for offset in (2**64 - 32, 2**63, 2**64 - 4096):
            gguf = toy()
            gguf.tensor("blk.0.attn_q.weight")[4] = offset
            self.refused(self.write("m.gguf", gguf), "blk.0.attn_q.weight")
        gguf = toy()  # sizes that fit one by one, and wrap as a sum
        gguf.tensors += [[f"many{i}", [2**30, 2**30], 0, b"", None] for i in range(20)]
        self.refused(self.write("m.gguf", gguf), "many0")
        for entry in (
            {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]},
            {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
            {"dtype": "F32", "shape": [4], "data_offsets": [2**64 - 16, 2**64]},
        ):
            model = self.path("hf")
            shutil.rmtree(model, ignore_errors=True)
            self.copy_model("llama", "hf")
            self.write("hf/model.safetensors", safetensors({}, header=json.dumps({"a": entry}).encode()))
            self.refused(model, "model.safetensors", "a")

    def test_d10_huge_counts(self):
        start = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
        for length in (2**30 - 1, 2**63, 2**64 - 1):
            self.refused(self.write("m.gguf", start + struct.pack("<Q", length) + bytes(120)), "m.gguf", memory_mib=10)  # a key
            self.refused(self.write("m.gguf", start + text("k") + struct.pack("<IQ", TEXT, length) + bytes(100)), "m.gguf", memory_mib=10)
            self.refused(self.write("m.gguf", start + text("k") + struct.pack("<IIQ", ARRAY, U8, length) + bytes(100)), memory_mib=10)
        self.refused(self.write("m.gguf", start + text("k") + struct.pack("<IIQ", ARRAY, F32, 2**40) + bytes(100)), memory_mib=10)
        self.refused(self.write("m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 2**62) + bytes(136)), "m.gguf", memory_mib=10)
        self.refused(self.write("m.gguf", b"GGUF" + struct.pack("<IQQ", 3, 2**62, 0) + bytes(136)), "m.gguf", memory_mib=10)
        nested = struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 10000 + struct.pack("<IQ", U8, 0)
        self.refused(self.write("m.gguf", start + text("k") + nested + bytes(64)), "m.gguf", memory_mib=10)

    def test_d11_alignment(self):
        for value in (0, 3, 2**30, 2**31, 2**32 - 1):
            self.refused(self.write("m.gguf", toy().set("general.alignment", U32, value)), "general.alignment")
        self.refused(self.write("m.gguf", toy().set("general.alignment", TEXT, "32")), "general.alignment")
        gguf = toy()
        gguf.tensor("blk.0.attn_q.weight")[4] = 7
        self.refused(self.write("m.gguf", gguf), "blk.0.attn_q.weight", "align")
        for value in (1, 8, 4096):
            gguf = toy().set("general.alignment", U32, value)
            gguf.alignment = value
            self.works(self.write("m.gguf", gguf))

    def test_d13_duplicates(self):
        gguf = toy()
        gguf.tensors.append(list(gguf.tensors[3]))
        self.refused(self.write("m.gguf", gguf), gguf.tensors[3][0], "twice")
        gguf = toy()
        gguf.keys.append(("llama.block_count", U32, 3))
        self.refused(self.write("m.gguf", gguf), "llama.block_count", "twice")
        model = self.copy_model("llama")
        entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
        doubled = '{"a":%s,"a":%s}' % (json.dumps(entry), json.dumps(entry))
        self.write("model/model.safetensors", safetensors({"a": ("F32", [1], bytes(4))}, header=doubled.encode()))
        self.refused(model, "model.safetensors", "a")
        self.shards(["a", "a"])
        self.refused(self.path("two"), "tensor a occurs twice", "model-00001-of-00002", "model-00002-of-00002")

    def shards(self, names):
        config = self.copy_model("llama", "two")
        os.remove(os.path.join(config, "model.safetensors"))
        for i, name in enumerate(names):
            self.write(f"two/model-0000{i + 1}-of-00002.safetensors", safetensors({name: ("F32", [1], bytes(4))}))

    def test_d14_tensor_types(self):
        gguf = toy()
        for number, words in (
            (4, ("Q4_2", "convert")),
            (5, ("Q4_3",)),
            (31, ("Q4_0_4_4", "convert")),
            (36, ("IQ4_NL_4_4", "convert")),
            (43, ("43",)),
            (200, ("200",)),
            (-1, ("4294967295",)),
            (0x80000000, ("2147483648",)),
        ):
            gguf.tensor("blk.0.attn_q.weight")[2] = number
            self.refused(self.write("m.gguf", gguf), "blk.0.attn_q.weight", *words)
        gguf = toy()
        tensor = gguf.tensor("blk.0.attn_q.weight")
        values = array.array("f", tensor[3])
        tensor[2], tensor[3] = 30, b"".join(struct.pack("<f", v)[2:] for v in values)  # BF16
        self.works(self.write("m.gguf", gguf))
        tensor[2], tensor[3] = 39, (b"\x7d" + bytes(range(16))) * (64 * 64 // 32)  # MXFP4
        self.works(self.write("m.gguf", gguf))
        tensor[2], tensor[3] = 24, bytes(64 * 64)  # I8: known, and no format of weights
        self.refused(self.write("m.gguf", gguf), "attn_q", "I8")

    def test_d15_endianness_and_version(self):
        whole = toy().bytes()
        self.refused(self.write("m.gguf", b"GGUF" + struct.pack(">I", 3) + whole[8:]), "big-endian")
        self.refused(self.write("m.gguf", b"FUGG" + whole[4:]), "big-endian")
        for version in (0, 1, 4, 2**16):
            self.refused(
                self.write("m.gguf", whole[:4] + struct.pack("<I", version) + whole[8:]),
                *(["unsupported", str(version)] if version < 2**16 else ["m.gguf"]),
            )
        self.works(self.write("m.gguf", whole[:4] + struct.pack("<I", 2) + whole[8:]))

    def test_d16_lying_offset(self):
        gguf = toy()
        gguf.tensor("blk.1.ffn_up.weight")[4] = 1 << 40
        path = self.write("m.gguf", gguf)
        self.refused(path, "blk.1.ffn_up.weight", "m.gguf")
        out = self.path("out.safetensors")
        for arguments in (
            ["inspect", path, "--dump", out],
            ["logits", path, "--ids", self.ids([1]), "--out", out],
            ["serve", path],
            ["plan", path],
        ):
            run = Run(arguments)
            self.assertEqual((run.code, run.out, os.path.exists(out)), (1, b"", False), arguments)
            self.assertIn("blk.1.ffn_up.weight", run.err)

    def test_d17_weights_that_are_no_numbers(self):
        for name, bits in (("token_embd.weight", 0x7C00), ("blk.0.attn_q.weight", 0x7E01), ("blk.1.ffn_down.weight", 0x7C00)):
            gguf = toy(ffn=64)
            tensor = gguf.tensor(name)
            blocks = q4_0(tensor[1][1], tensor[1][0])
            tensor[2], tensor[3] = 2, blocks[:18] + struct.pack("<H", bits) + blocks[20:]
            path = self.write("m.gguf", gguf)
            for flags in (["--ram", "all"], ["--ram", "min"], ["--activations", "f32"]):
                run = self.generate(path, [0, 1, 2, 3], "--max-tokens", "4", *flags)
                self.assertEqual((run.code, run.out), (1, b""), (name, flags))
                self.assertIn("finite", run.err)
                self.assertIn(name.rsplit(".", 1)[0], run.err)
        gguf = toy()
        tensor = gguf.tensor("blk.1.attn_norm.weight")
        tensor[3] = struct.pack("<f", float("nan")) + tensor[3][4:]
        self.refused(self.write("m.gguf", gguf), "blk.1.attn_norm.weight", "element 0", "finite")


class Sets(Case):
    def parts(self, count=5):
        names = [f"qwen3_moe-0000{i}-of-0000{count}.gguf" for i in range(1, count + 1)]
        for name in names:
            shutil.copy(self.data("gguf/split/" + name), self.path(name))
        return names

    def test_d04_any_shard_opens_the_set(self):
        names = self.parts()
        wanted = self.works(self.data("models/qwen3_moe.gguf"))
        for name in names:
            self.assertEqual(self.works(self.path(name)), wanted)
        self.assertEqual(self.works(self.folder), wanted)
        whole = "one/x-00001-of-00001.gguf"
        self.write(whole, self.read(self.data("models/qwen3_moe.gguf")))
        self.assertEqual(self.works(self.path(whole)), wanted)
        self.assertEqual(self.works(self.path("one")), wanted)
        cache = "cache-00001-of-00003/model.gguf"
        self.write(cache, self.read(self.data("models/qwen3_moe.gguf")))
        self.assertEqual(self.works(self.path(cache)), wanted)
        shutil.copytree(self.data("gguf/split"), self.path("deep-00001-of-00003/more"))
        self.assertEqual(self.works(self.path("deep-00001-of-00003/more/" + names[2])), wanted)

    def test_d05_lost_and_mixed_shards(self):
        names = self.parts()
        os.remove(self.path(names[1]))
        for start in (names[0], names[2]):
            self.refused(self.path(start), names[1])
        shutil.copy(self.path(names[2]), self.path(names[1]))  # another part under its name
        self.refused(self.path(names[0]), names[1])
        content = self.read(self.data("gguf/split/" + names[1]))
        for key, word in ((b"split.count", "split"), (b"split.tensors.count", "tensor")):
            at = content.index(key) + len(key) + 4
            changed = bytearray(content)
            changed[at] += 1
            self.write(names[1], bytes(changed))
            self.refused(self.path(names[0]), names[1], word)
        model = self.copy_model("llama")
        self.write(
            "model/model.safetensors.index.json",
            json.dumps(
                {
                    "weight_map": {
                        name: "gone.safetensors" if "layers.1" in name else "model.safetensors"
                        for name in read_safetensors(model + "/model.safetensors")
                    }
                }
            ),
        )
        self.refused(model, "gone.safetensors")

    def test_split_safetensors(self):
        wanted = self.works(self.data("models/llama"))
        model = self.copy_model("llama")
        tensors = read_safetensors(model + "/model.safetensors")
        os.remove(model + "/model.safetensors")
        names = sorted(tensors)
        for part in range(2):
            self.write(f"model/model-0000{part + 1}-of-00002.safetensors", safetensors({n: tensors[n] for n in names[part::2]}))
        self.assertEqual(self.works(model), wanted)
        self.write(
            "model/model.safetensors.index.json",
            json.dumps({"weight_map": {n: f"model-0000{part + 1}-of-00002.safetensors" for part in range(2) for n in names[part::2]}}),
        )
        self.assertEqual(self.works(model), wanted)


class Safetensors(Case):
    def model(self, content):
        if not os.path.exists(self.path("model")):
            self.copy_model("llama")
        self.write("model/model.safetensors", content)
        return self.path("model")

    def test_d18_header_length(self):
        whole = self.read(self.data("models/llama/model.safetensors"))
        length = struct.unpack("<Q", whole[:8])[0]
        for content in (
            b"\xff" * 8 + whole[8:],
            struct.pack("<Q", len(whole)) + whole[8:],
            struct.pack("<Q", 0) + whole[8:],
            whole[:7],
            whole[:8],
            struct.pack("<Q", length - 5) + whole[8:],
            struct.pack("<Q", 2**63) + whole[8:],
            struct.pack("<Q", 2**64 - 5) + whole[8:],
        ):
            self.refused(self.model(content), "model.safetensors")
        self.refused(self.model(whole[:-1]), "model.safetensors", "bytes")
        wanted = self.works(self.data("models/llama"))
        padded = struct.pack("<Q", length + 24) + whole[8 : 8 + length] + b" " * 24 + whole[8 + length :]
        self.assertEqual(self.works(self.model(padded)), wanted)

    def test_d20_large_headers(self):
        tensors = read_safetensors(self.data("models/llama/model.safetensors"))
        wanted = self.works(self.data("models/llama"))
        plain = struct.unpack("<Q", safetensors(tensors, metadata={"x": ""})[:8])[0]
        seconds = {}
        for size in (99_999, 100_000, 100_001, 2_000_000, 101_000_000):
            model = self.model(safetensors(tensors, metadata={"x": "a" * (size - plain)}))
            self.assertEqual(struct.unpack("<Q", self.read(model + "/model.safetensors")[:8])[0], size)
            self.assertEqual(self.works(model), wanted, size)
        many = {f"unused.{i}": ("F32", [1], bytes(4)) for i in range(200_000)}
        self.assertEqual(self.works(self.model(safetensors({**tensors, **many}))), wanted)
        said = self.refused(self.model(struct.pack("<Q", 2**31) + b"{" + bytes(99)), "model.safetensors")
        self.assertTrue(any(c.isdigit() for c in said))

    def test_d21_mlx_overrides(self):
        model = self.copy_model("mlx-qwen3_moe-mixed")
        config = json.loads(self.read(model + "/config.json"))
        quantization = config["quantization"]
        wanted = self.works(model)
        overrides = [key for key, value in quantization.items() if isinstance(value, dict)]
        self.assertTrue(overrides)
        # the map may know the modules by their names in the wrapper, tensors by others
        renamed = {("language_model." + k if k in overrides else k): v for k, v in quantization.items()}
        self.change_config(quantization=renamed, quantization_config=renamed)
        self.assertEqual(self.works(model), wanted)
        self.change_config(quantization=quantization, quantization_config=quantization)
        for key in overrides:
            wrong = dict(quantization)
            wrong[key] = {**quantization[key], "bits": 3 if quantization[key]["bits"] != 3 else 5}
            self.change_config(quantization=wrong, quantization_config=wrong)
            run = self.generate(model, [1, 2, 3], "--max-tokens", "4")
            told = Run(["inspect", model, "--json"])
            # packed and scale shapes decide: either they are followed, or the error names both
            self.assertTrue((run.code == 0 and run.out == wanted) or (run.code == 1 and "bits" in run.err), (key, run.err))
            self.assertEqual(told.code, 0)
        tensors = read_safetensors(model + "/model.safetensors")
        name = next(n for n in tensors if n.endswith("q_proj.scales"))
        dtype, shape, content = tensors[name]
        tensors[name] = (dtype, [shape[0], shape[1] * 2], content * 2)
        self.change_config(quantization=quantization, quantization_config=quantization)
        self.write("model/model.safetensors", safetensors(tensors))
        self.refused(model, name.rsplit(".", 1)[0])

    def test_d22_tied_embeddings(self):
        def build(tied, head):
            tensors = read_safetensors(self.data("models/llama/model.safetensors"))
            if not head:
                tensors.pop("lm_head.weight")
            shutil.rmtree(self.path("model"), ignore_errors=True)
            model = self.copy_model("llama", tie_word_embeddings=tied)
            self.write("model/model.safetensors", safetensors(tensors))
            return model

        own = self.logits(build(False, True), [1, 2, 3])
        tied = self.logits(build(True, False), [1, 2, 3])
        self.assertNotEqual(own, tied)
        self.refused(build(False, False), "lm_head.weight")
        both = build(True, True)  # transformers ties and drops the head of the file
        self.assertEqual(self.logits(both, [1, 2, 3]), tied)
        self.assertEqual(self.inspect(both)["unused_names"], ["lm_head.weight"])

    def test_d23_rows_of_several_blocks(self):
        # every type of GGUF, [2][4][512]; rows of 1, 2 and 3 blocks: tests/unit/test_dtype.c
        out = self.path("out.safetensors")
        self.assertEqual(Run(["inspect", self.data("gguf/types.gguf"), "--dump", out]).code, 0)
        got, wanted = read_safetensors(out), read_safetensors(self.data("gguf/types.expected.safetensors"))
        self.assertEqual(set(got), set(wanted))
        for name in wanted:
            self.assertEqual(got[name][2], wanted[name][2], name)

    def test_d24_refused_at_once(self):
        model = self.copy_model("llama", model_type="brandnew", architectures=["BrandNewForCausalLM"])
        with open(model + "/model.safetensors", "ab") as file:
            file.truncate(3 << 30)  # whatever lies in 3 GiB of weights is not looked at
        self.assertEqual(Run(["generate", model, "-p", "a"], memory_mib=24, timeout=10).code, 1)

    def test_d25_odd_config(self):
        for changes, words in (
            ({"num_hidden_layers": -1}, ["num_hidden_layers", "-1"]),
            ({"num_hidden_layers": 10**9}, ["num_hidden_layers"]),
            ({"num_hidden_layers": "32"}, ["num_hidden_layers"]),
            ({"num_hidden_layers": 1.5}, ["num_hidden_layers", "1.5"]),
            ({"num_hidden_layers": None}, ["num_hidden_layers", "missing"]),
            ({"num_hidden_layers": [2]}, ["num_hidden_layers"]),
            ({"num_hidden_layers": 99}, ["layers"]),
            ({"hidden_size": None}, ["hidden_size"]),
            ({"num_attention_heads": None}, ["num_attention_heads"]),
            ({"num_attention_heads": 0}, ["heads"]),
            ({"head_dim": 0}, ["head_dim", "0"]),
            ({"num_key_value_heads": 3}, ["heads", "3"]),
            ({"hidden_size": 7}, ["7"]),
            ({"intermediate_size": 10**12}, ["intermediate_size"]),
            ({"hidden_act": "gelu"}, ["hidden_act", "gelu"]),
            ({"vocab_size": 2**40}, ["vocab_size"]),
            ({"rms_norm_eps": "small"}, ["rms_norm_eps"]),
            ({"rms_norm_eps": -1}, ["rms_norm_eps", "-1"]),
        ):
            shutil.rmtree(self.path("model"), ignore_errors=True)
            self.refused(self.copy_model("llama", **changes), *words)
        for changes, words in (
            ({"num_experts_per_tok": 99}, ["99"]),
            ({"num_experts": 3}, ["mlp.gate.weight", "[3][32]"]),
            ({"num_experts_per_tok": 0}, ["0"]),
            ({"num_experts": -4}, ["num_experts", "-4"]),
        ):
            shutil.rmtree(self.path("model"), ignore_errors=True)
            self.refused(self.copy_model("qwen3_moe", **changes), *words)
        shutil.rmtree(self.path("model"))
        self.works(self.copy_model("mistral-window", sliding_window=10**6))  # wider than the context: all of it is seen
        shutil.rmtree(self.path("model"))
        self.works(self.copy_model("llama"))
        config = self.read(self.path("model/config.json"))
        self.write("model/config.json", config[: len(config) // 2])
        self.refused(self.path("model"), "config.json", "line")
        self.write("model/config.json", "[1]")
        self.refused(self.path("model"), "config.json")
        for key, kind, value in (
            ("llama.block_count", TEXT, "2"),
            ("llama.block_count", F32, 1.5),
            ("llama.attention.head_count", U64, 2**40),
            ("llama.attention.layer_norm_rms_epsilon", TEXT, "x"),
            ("general.architecture", U32, 1),
            ("llama.embedding_length", ARRAY, (U32, [64])),
            ("llama.attention.head_count_kv", ARRAY, (U32, [])),
        ):
            self.refused(self.write("m.gguf", toy().set(key, kind, value)), key.split(".")[-1].split("_")[0])

    def test_d26_sizes_of_a_tokenizer_call(self):
        # the library allocates: there is no capacity to pass; what is too long for the context is refused by count
        demo = os.path.join(model_files.DATA, "../../demo/novels-moe-Q4_K_M.gguf")
        self.write("long.txt", "a " * 400_000)
        run = Run(["generate", demo, "--prompt-file", self.path("long.txt"), "--max-tokens", "1", "--ctx", "2048", "--quiet"])
        self.assertEqual((run.code, run.out), (3, b""))
        self.assertRegex(run.err, r"\d{5}")


if __name__ == "__main__":
    main()
