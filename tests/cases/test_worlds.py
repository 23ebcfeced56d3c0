#!/usr/bin/env python3
"""The same network from a Hugging Face directory, from MLX's names, and from GGUF, and the quirks of published files. PROGRAM DATA.

Where llama.cpp's converter only renames, stacks, splits off or permutes rows (which is undone when an output row is stored), the logits
have the same bits. Elsewhere they agree to 1e-5 of their norm.
"""

import array
import json
import math
import os
import shutil

from model_files import ARRAY, Case, F32, Gguf, Run, TEXT, U32, floats, main, read_safetensors, safetensors, toy

SAME_BITS = [
    "apertus",
    "deepseek_v3",
    "ernie4_5",
    "gemma4-moe",
    "glm4",
    "glm4_moe",
    "granite",
    "granitemoe",
    "hunyuan_v1_moe",
    "lfm2",
    "lfm2_moe",
    "llama",
    "llama-tied-bias",
    "minimax_m2",
    "ministral3",
    "mixtral",
    "nemotron",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "youtu_llm",
]
NEAR = {  # and every other pair: state spaces and delta attention, whose decays GGUF holds as -exp(x)
    "hunyuan_v1_dense": "the base of its rotation is rounded to f32 with alpha in it",
    "phi3-longrope": "rotation factors as f32 tensors",
    "llama-fp8": "GGUF holds the products of codes and scales as f32",
    "qwen3_moe-fp8": "the same",
}
OTHER_NETWORKS = ["cohere2", "olmo3"]  # fewer layers, as llama.cpp fixes the pattern of windows


def stack_experts(tensors):
    """Hugging Face's expert tensors as mlx-lm stacks them."""
    out, stacks = {}, {}
    for name, (dtype, shape, content) in tensors.items():
        if ".mlp.experts." not in name:
            out[name] = (dtype, shape, content)
            continue
        before, after = name.split(".mlp.experts.")
        number, matrix = after.split(".", 1)
        stacks.setdefault(f"{before}.mlp.switch_mlp.{matrix}", {})[int(number)] = (dtype, shape, content)
    for name, parts in stacks.items():
        ordered = [parts[i] for i in range(len(parts))]
        out[name] = (ordered[0][0], [len(ordered), *ordered[0][1]], b"".join(part[2] for part in ordered))
    return out


class Worlds(Case):
    def ids_of(self, name):
        own = self.data(f"models/{name}.expected.safetensors")  # else those of the same weights in a directory
        path = own if os.path.exists(own) else self.data(f"models/{name}/expected.safetensors")
        return list(array.array("i", read_safetensors(path)["input_ids"][2]))

    def test_same_bits(self):
        for name in SAME_BITS:
            ids = self.ids_of(name)
            for flags in ([], ["--activations", "f32"]):
                a = self.logits(self.data("models/" + name), ids, *flags)
                self.assertEqual(a, self.logits(self.data(f"models/{name}.gguf"), ids, *flags), (name, flags))
        ids = self.ids_of("llama-tied-bias")
        self.assertEqual(
            self.logits(self.data("models/llama-tied-bias"), ids), self.logits(self.data("models/llama-tied-bias-fused.gguf"), ids)
        )

    def pairs(self):
        names = {n[:-5] for n in os.listdir(self.data("models")) if n.endswith(".gguf")}
        return {n for n in names if os.path.isdir(self.data("models/" + n))}

    def test_near(self):
        self.assertLessEqual(set(SAME_BITS) | set(NEAR) | set(OTHER_NETWORKS), self.pairs())
        for name in sorted(self.pairs() - set(SAME_BITS) - set(OTHER_NETWORKS)):
            ids = self.ids_of(name)
            for flags in ([], ["--activations", "f32"]):
                a, b = self.logits(self.data("models/" + name), ids, *flags), self.logits(self.data(f"models/{name}.gguf"), ids, *flags)
                distance = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b))) / math.sqrt(sum(x * x for x in a))
                self.assertLess(distance, 1e-5, (name, flags))

    def test_mlx_names(self):
        for name in ("qwen3_moe", "qwen2_moe", "qwen3"):
            model = self.copy_model(name, name)
            self.write(name + "/model.safetensors", safetensors(stack_experts(read_safetensors(model + "/model.safetensors"))))
            ids = self.ids_of(name)
            self.assertEqual(self.logits(model, ids), self.logits(self.data("models/" + name), ids), name)

    def test_split_gguf(self):
        ids = self.ids_of("qwen3_moe")
        self.assertEqual(
            self.logits(self.data("models/qwen3_moe"), ids), self.logits(self.data("gguf/split/qwen3_moe-00003-of-00005.gguf"), ids)
        )


class Quirks(Case):
    IDS = list(range(3, 40))

    def same(self, a, b):
        self.assertEqual(self.logits(a, self.IDS), self.logits(b, self.IDS))

    def differ(self, a, b):
        self.assertNotEqual(self.logits(a, self.IDS), self.logits(b, self.IDS))

    def variant(self, name, **changes):
        shutil.rmtree(self.path("variant"), ignore_errors=True)
        return self.copy_model(name, "variant", **changes)

    def test_rope_fields_old_and_new(self):
        config = json.loads(self.read(self.data("models/llama/config.json")))
        new = config["rope_parameters"]
        scaling = {k: v for k, v in new.items() if k not in ("rope_theta", "rope_type")}
        plain = self.data("models/llama")
        for word in ("rope_type", "type"):
            self.same(
                plain, self.variant("llama", rope_parameters=None, rope_theta=new["rope_theta"], rope_scaling={**scaling, word: "llama3"})
            )
        self.same(
            plain,
            self.variant(
                "llama",
                rope_parameters=None,
                rope_theta=new["rope_theta"],
                rope_scaling={**scaling, "rope_type": "llama3", "type": "llama3"},
            ),
        )
        self.differ(plain, self.variant("llama", rope_parameters=None, rope_theta=new["rope_theta"]))
        self.differ(plain, self.variant("llama", rope_parameters=None, rope_theta=2e4, rope_scaling={**scaling, "rope_type": "llama3"}))
        theta = self.variant("llama", rope_parameters=None, rope_theta=1e6)
        wanted = self.logits(theta, self.IDS)
        self.assertEqual(
            wanted, self.logits(self.variant("llama", rope_parameters={"rope_theta": 1e6, "rope_type": "default"}), self.IDS)
        )
        self.assertEqual(
            wanted, self.logits(self.variant("llama", rope_parameters=None, rope_theta=1000000, rope_scaling=None), self.IDS)
        )
        for unknown in ({"rope_type": "spiral", "factor": 2.0}, {"type": "spiral", "factor": 2.0}):
            self.refused(self.variant("llama", rope_parameters=None, rope_scaling=unknown), "spiral")

    def test_text_config_wrapper(self):
        plain = self.data("models/qwen3")
        config = json.loads(self.read(plain + "/config.json"))
        wrapped = self.variant("qwen3")
        self.write(
            "variant/config.json",
            json.dumps(
                {
                    "model_type": "some_vision_model",
                    "architectures": ["SomeForConditionalGeneration"],
                    "vision_config": {"hidden_size": 7, "num_hidden_layers": 99},
                    "text_config": config,
                }
            ),
        )
        self.same(plain, wrapped)
        tied = config.pop("tie_word_embeddings", False)  # wrappers keep some keys at the top
        self.write(
            "variant/config.json", json.dumps({"model_type": "some_vision_model", "tie_word_embeddings": tied, "text_config": config})
        )
        self.same(plain, wrapped)

    def test_prefixes_of_tensors(self):
        plain = self.data("models/qwen3")
        tensors = read_safetensors(plain + "/model.safetensors")
        for model_prefix, head_prefix in (
            ("language_model.model.", "language_model."),
            ("model.language_model.", ""),
            ("", ""),
            ("model.language_model.", "model."),
            ("language_model.", ""),
        ):
            renamed = {(model_prefix + n[len("model.") :] if n.startswith("model.") else head_prefix + n): v for n, v in tensors.items()}
            other = self.variant("qwen3")
            self.write("variant/model.safetensors", safetensors(renamed))
            self.same(plain, other)

    def test_defaults_of_missing_keys(self):
        plain = self.data("models/llama")
        config = json.loads(self.read(plain + "/config.json"))
        self.assertEqual(config["rms_norm_eps"], 1e-6)
        self.same(
            plain,
            self.variant(
                "llama",
                rms_norm_eps=None,
                head_dim=None,
                attention_bias=None,
                mlp_bias=None,
                tie_word_embeddings=None,
                hidden_act=None,
                max_position_embeddings=None,
                pretraining_tp=None,
            ),
        )
        explicit = self.logits(self.variant("llama", rope_parameters=None, rope_theta=10000.0), self.IDS)
        self.assertEqual(explicit, self.logits(self.variant("llama", rope_parameters=None), self.IDS))
        whole = self.variant("olmoe")
        heads = json.loads(self.read(whole + "/config.json"))
        if heads["num_key_value_heads"] == heads["num_attention_heads"]:
            self.same(whole, self.copy_model("olmoe", "fewer", num_key_value_heads=None))
        gguf = toy()
        wanted = self.logits(self.write("a.gguf", gguf), self.IDS[:20])
        gguf.keys = [k for k in gguf.keys if not k[0].endswith(("rope.freq_base", "vocab_size"))]
        self.assertEqual(wanted, self.logits(self.write("b.gguf", gguf), self.IDS[:20]))
        gguf.set("llama.attention.key_length", U32, 16).set("llama.rope.dimension_count", U32, 16).set("llama.vocab_size", U32, 32)
        self.assertEqual(wanted, self.logits(self.write("c.gguf", gguf), self.IDS[:20]))

    def test_end_ids_from_everywhere(self):
        model = self.variant("qwen3", eos_token_id=[5, 6])
        self.write("variant/generation_config.json", json.dumps({"eos_token_id": [6, 7]}))
        self.assertEqual(self.inspect(model)["end_ids"], [5, 6, 7])
        self.change_config("variant", eos_token_id=9)
        self.write("variant/generation_config.json", json.dumps({"eos_token_id": 100000, "temperature": 0.6}))
        self.assertEqual(self.inspect(model)["end_ids"], [9])  # an id that no logit has ends nothing
        tokenizer = {
            "version": "1.0",
            "added_tokens": [{"id": 60, "content": "<end>", "special": True}],
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": None,
            "model": {"type": "BPE", "vocab": {chr(40 + i): i for i in range(60)}, "merges": []},
        }
        self.write("variant/tokenizer.json", json.dumps(tokenizer))
        self.write("variant/tokenizer_config.json", json.dumps({"eos_token": "<end>"}))
        self.assertEqual(self.inspect(model)["end_ids"], [9, 60])
        gguf = toy().set("tokenizer.ggml.eos_token_id", U32, 3).set("tokenizer.ggml.eot_token_id", U32, 4)
        self.assertEqual(self.inspect(self.write("m.gguf", gguf))["end_ids"], [3, 4])
        # generation stops at any of them, and not at others
        free = self.generate(self.data("models/qwen3"), [1, 2, 3], "--max-tokens", "8").out.split()
        os.remove(self.path("variant/tokenizer.json"))
        self.change_config("variant", eos_token_id=[127, int(free[2])])
        run = Run(["generate", model, "--ids", self.ids([1, 2, 3]), "--print-ids", "--temp", "0", "--max-tokens", "8", "--quiet"])
        self.assertEqual(run.out.split(), free[: free.index(free[2])])

    def test_padded_vocabulary(self):
        model = self.variant("qwen3")  # 128 rows, 61 tokens
        tokenizer = {
            "version": "1.0",
            "added_tokens": [{"id": 60, "content": "<end>", "special": True}],
            "normalizer": None,
            "pre_tokenizer": None,
            "post_processor": None,
            "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "vocab": {chr(40 + i): i for i in range(60)}, "merges": []},
        }
        self.write("variant/tokenizer.json", json.dumps(tokenizer))
        told = self.inspect(model)
        self.assertEqual((told["tokenizer_vocab"], told["vocab"]), (61, 128))
        self.same(self.data("models/qwen3"), model)
        run = Run(["generate", model, "--prompt", "ABC", "--max-tokens", "20", "--temp", "0", "--ignore-eos", "--quiet"])
        self.assertEqual(run.code, 0, run.err)  # ids behind the tokenizer's have no text
        run = Run(["generate", model, "--prompt", "ABC", "--max-tokens", "20", "--temp", "2", "--seed", "3", "--ignore-eos", "--quiet"])
        self.assertEqual(run.code, 0, run.err)

    def test_embedding_with_more_rows_than_vocab_size(self):
        gguf = toy(vocab=32).set("llama.vocab_size", U32, 30)
        self.assertEqual(self.inspect(self.write("m.gguf", gguf))["vocab"], 32)  # the table says it
        self.same_toy(gguf)
        tensors = read_safetensors(self.data("models/llama/model.safetensors"))
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            dtype, shape, content = tensors[name]
            tensors[name] = (dtype, [shape[0] + 64, shape[1]], content + bytes(64 * shape[1] * 2))
        model = self.variant("llama")
        self.write("variant/model.safetensors", safetensors(tensors))
        self.assertEqual(self.inspect(model)["vocab"], 192)
        plain = self.logits(self.data("models/llama"), self.IDS)
        padded = self.logits(model, self.IDS)
        self.assertEqual([padded[i * 192 + k] for i in range(len(self.IDS)) for k in range(128)], list(plain))

    def same_toy(self, gguf):
        self.assertEqual(self.logits(self.path("m.gguf"), self.IDS[:20]), self.logits(self.write("n.gguf", toy()), self.IDS[:20]))

    def test_tied_both_ways_in_gguf(self):
        gguf = toy()
        head = gguf.tensor("output.weight")
        gguf.tensors.remove(head)
        tied = self.logits(self.write("tied.gguf", gguf), self.IDS[:20])
        head[3] = gguf.tensor("token_embd.weight")[3]
        gguf.tensors.append(head)
        self.assertEqual(tied, self.logits(self.write("copy.gguf", gguf), self.IDS[:20]))

    def test_unused_tensors_are_ignored(self):
        tensors = read_safetensors(self.data("models/llama/model.safetensors"))
        tensors["vision_tower.patch.weight"] = ("F32", [2], bytes(8))
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = ("F32", [4], bytes(16))
        model = self.variant("llama")
        self.write("variant/model.safetensors", safetensors(tensors))
        self.same(self.data("models/llama"), model)
        self.assertEqual(self.inspect(model)["unused_tensors"], 2)

    def test_missing_tensors_are_listed(self):
        tensors = read_safetensors(self.data("models/llama/model.safetensors"))
        gone = ["model.layers.1.self_attn.q_proj.weight", "model.layers.2.input_layernorm.weight", "model.norm.weight"]
        for name in gone:
            tensors.pop(name)
        model = self.variant("llama")
        self.write("variant/model.safetensors", safetensors(tensors))
        self.refused(model, "3 tensors", *gone)
        self.assertEqual(sorted(self.inspect(model)["missing_tensors"]), gone)


if __name__ == "__main__":
    main()
