#!/usr/bin/env python3
"""Make reference models of latent attention in forms that other references lack.

  make_latent_references.py DATA_DIR [NAME ...]        DATA_DIR: tests/data/models

Needs numpy, safetensors, ml_dtypes and gguf; the tests do not: what it makes is kept. The forward pass below follows the published code of
deepseek_v3, deepseek_v32 and glm_moe_dsa (expanded form, float64); it is first checked against references that transformers made
(deepseek_v3, deepseek_v32, glm_moe_dsa, youtu_llm of DATA_DIR). Then:
  glm_moe_dsa-shared      layer 1 has no index and takes the choice of layer 0 (indexer_types)
  kimi_k25-wrapper        deepseek_v3 under model_type kimi_k2 in a multimodal wrapper, keys under language_model., a vision tensor to skip
  youtu_llm-mlx-kv_b      kv_b_proj unsplit in MLX 4-bit groups of 32, as older MLX conversions have it; the rest not quantised
  deepseek_v3-legacy.gguf attn_kv_b unsplit and keys without _mla, as GGUF files of before April 2025
"""
import json, os, shutil, struct, sys
import numpy as np
import ml_dtypes
from safetensors.numpy import load_file, save_file

EPSILON, STEPS, PROMPT = 1e-6, 16, 40


def load(path):
    """Tensors of a safetensors file as float64 (unsigned integers as they are)."""
    kinds = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I32": np.int32, "U32": np.uint32}
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start, out = f.tell(), {}
        for name, t in header.items():
            if name == "__metadata__": continue
            f.seek(start + t["data_offsets"][0])
            data = np.frombuffer(f.read(t["data_offsets"][1] - t["data_offsets"][0]), kinds[t["dtype"]]).reshape(t["shape"])
            out[name] = data if t["dtype"].startswith("U") else data.astype(np.float64)
    return out


# ---- the forward pass ----

def rms(x, w, eps): return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w
def silu(x): return x / (1 + np.exp(-x))
def sigmoid(x): return 1 / (1 + np.exp(-x))


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + EPSILON) * w + b


def rope_of(c):
    r = c.get("rope_parameters") or c.get("rope_scaling") or {}
    return (r if r.get("rope_type", r.get("type", "default")) == "yarn" else {}), r.get("rope_theta", c.get("rope_theta", 10000.0))


def angles(c, count):
    """cos and sin [count][half] and what the scores' scale is multiplied by."""
    yarn, theta = rope_of(c)
    dim = c["qk_rope_head_dim"]; i = np.arange(dim // 2)
    f = theta ** (-2.0 * i / dim); stretch = 1.0
    if yarn:
        def turn(n): return dim * np.log(yarn["original_max_position_embeddings"] / (n * 2 * np.pi)) / (2 * np.log(theta))
        low, high = max(np.floor(turn(yarn["beta_fast"])), 0), min(np.ceil(turn(yarn["beta_slow"])), dim - 1)
        ramp = np.clip((i - low) / ((high - low) or 0.001), 0, 1)
        f = f / yarn["factor"] * ramp + f * (1 - ramp)
        assert yarn["mscale"] == yarn["mscale_all_dim"]  # cos and sin stay as they are
        stretch = (0.1 * yarn["mscale_all_dim"] * np.log(yarn["factor"]) + 1) ** 2
    a = np.arange(count)[:, None] * f
    return np.cos(a), np.sin(a), stretch


def rotate(x, cos, sin, pairs):
    """x [tokens][heads][dim]"""
    half = x.shape[-1] // 2
    a, b = (x[..., 0::2], x[..., 1::2]) if pairs else (x[..., :half], x[..., half:])
    cos, sin = cos[:, None], sin[:, None]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)  # the order of elements does not matter to a product


def choose(c, w, x, narrow, cos, sin):
    """[tokens][tokens] True where a position may be looked at."""
    tokens, heads, dim, rot = len(x), c["index_n_heads"], c["index_head_dim"], c["qk_rope_head_dim"]
    pairs = c["model_type"] == "glm_moe_dsa"
    q = (narrow @ w("indexer.wq_b").T).reshape(tokens, heads, dim)
    k = layer_norm(x @ w("indexer.wk").T, w("indexer.k_norm"), w("indexer.k_norm", ".bias"))[:, None]
    q, k = (np.concatenate([rotate(v[..., :rot], cos, sin, pairs), v[..., rot:]], -1) for v in (q, k))
    score = np.einsum("qh,qhk->qk", x @ w("indexer.weights_proj").T, np.maximum(np.einsum("qhd,kd->qhk", q, k[:, 0]), 0))
    score[np.triu_indices(tokens, 1)] = -np.inf
    seen = np.zeros((tokens, tokens), bool)
    np.put_along_axis(seen, np.argsort(-score, 1, kind="stable")[:, :c["index_topk"]], True, 1)
    return seen


def attention(c, w, x, cos, sin, stretch, shared_choice):
    tokens, heads, plain, rot, v = len(x), c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    narrow = rms(x @ w("q_a_proj").T, w("q_a_layernorm"), EPSILON) if c.get("q_lora_rank") else None
    q = (x @ w("q_proj").T if narrow is None else narrow @ w("q_b_proj").T).reshape(tokens, heads, plain + rot)
    latent = x @ w("kv_a_proj_with_mqa").T
    kv = (rms(latent[:, :c["kv_lora_rank"]], w("kv_a_layernorm"), EPSILON) @ w("kv_b_proj").T).reshape(tokens, heads, plain + v)
    q = np.concatenate([q[..., :plain], rotate(q[..., plain:], cos, sin, True)], -1)
    k = rotate(latent[:, None, c["kv_lora_rank"]:], cos, sin, True).repeat(heads, 1)
    k = np.concatenate([kv[..., :plain], k], -1)
    seen = np.tril(np.ones((tokens, tokens), bool))
    if "index_topk" in c:
        shared_choice = shared_choice if shared_choice is not None else choose(c, w, x, narrow, cos, sin)
        seen &= shared_choice
    s = np.einsum("qhd,khd->hqk", q, k) * stretch / np.sqrt(plain + rot)
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True)); p /= p.sum(-1, keepdims=True)
    return np.einsum("hqk,khd->qhd", p, kv[..., plain:]).reshape(tokens, -1) @ w("o_proj").T, shared_choice


def experts(c, t, p, x):
    score = sigmoid(x @ t[p + "gate.weight"].T)
    choice = score + t[p + "gate.e_score_correction_bias"]
    if c["n_group"] > 1:
        groups = choice.reshape(len(x), c["n_group"], -1)
        best = np.argsort(-np.sort(groups, -1)[..., -2:].sum(-1), 1)[:, :c["topk_group"]]
        keep = np.zeros(groups.shape[:2], bool); np.put_along_axis(keep, best, True, 1)
        choice = np.where(keep[..., None], groups, -np.inf).reshape(choice.shape)
    ids = np.argsort(-choice, 1)[:, :c["num_experts_per_tok"]]
    weight = np.take_along_axis(score, ids, 1)
    if c["norm_topk_prob"]: weight /= weight.sum(1, keepdims=True)
    out = feed_forward(t, p + "shared_experts.", x)
    for r in range(len(x)):
        for e, g in zip(ids[r], weight[r] * c["routed_scaling_factor"]):
            out[r] += g * feed_forward(t, p + "experts.%d." % e, x[r])
    return out


def feed_forward(t, p, x):
    return (silu(x @ t[p + "gate_proj.weight"].T) * (x @ t[p + "up_proj.weight"].T)) @ t[p + "down_proj.weight"].T


def forward(c, t, ids):
    cos, sin, stretch = angles(c, len(ids))
    x, seen = t["model.embed_tokens.weight"][ids], None
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        def w(name, end=".weight"): return t[p + "self_attn." + name + end]
        shared = c.get("indexer_types", ["full"] * 99)[i] == "shared"
        y, seen = attention(c, w, rms(x, t[p + "input_layernorm.weight"], c["rms_norm_eps"]), cos, sin, stretch, seen if shared else None)
        x = x + y
        h = rms(x, t[p + "post_attention_layernorm.weight"], c["rms_norm_eps"])
        x = x + (experts(c, t, p + "mlp.", h) if p + "mlp.gate.weight" in t else feed_forward(t, p + "mlp.", h))
    return rms(x, t["model.norm.weight"], c["rms_norm_eps"]) @ t.get("lm_head.weight", t["model.embed_tokens.weight"]).T


def expect(c, t, ids, path):
    ids, greedy, margins = [int(i) for i in ids], [], []
    logits = forward(c, t, ids)
    for _ in range(STEPS):
        last = forward(c, t, ids + greedy)[-1]
        two = np.sort(last)[-2:]; margins.append(two[1] - two[0]); greedy.append(int(last.argmax()))
    save_file({"input_ids": np.array(ids, np.int32), "logits": logits.astype(np.float32), "greedy_ids": np.array(greedy, np.int32),
               "greedy_margins": np.array(margins, np.float32)}, path)
    print("%-40s largest logit %.2f, smallest margin %.1e" % (path, np.abs(logits).max(), min(margins)))


# ---- what is made ----

def read(data, name): return json.load(open("%s/%s/config.json" % (data, name))), load("%s/%s/model.safetensors" % (data, name))
def ids_of(data, name): return load_file("%s/%s/expected.safetensors" % (data, name))["input_ids"]


def write(data, name, config, tensors):
    os.makedirs("%s/%s" % (data, name), exist_ok=True)
    json.dump(config, open("%s/%s/config.json" % (data, name), "w"), indent=2)
    stored = {k: v if v.dtype == np.uint32 else v.astype(ml_dtypes.bfloat16) for k, v in tensors.items()}
    save_file(stored, "%s/%s/model.safetensors" % (data, name))


def check(data):
    for name in ("deepseek_v3", "deepseek_v32", "glm_moe_dsa", "youtu_llm"):
        c, t = read(data, name)
        want = load_file("%s/%s/expected.safetensors" % (data, name))
        error = np.abs(forward(c, t, want["input_ids"]) - want["logits"]).max() / np.abs(want["logits"]).max()
        assert error < 1e-5, (name, error)


def shared(data, name):
    c, t = read(data, "glm_moe_dsa")
    c["indexer_types"] = ["full", "shared", "full"]
    t = {k: v for k, v in t.items() if "layers.1.self_attn.indexer" not in k}
    write(data, name, c, t)
    expect(c, t, ids_of(data, "glm_moe_dsa"), "%s/%s/expected.safetensors" % (data, name))


def kimi(data, name):
    c, t = read(data, "deepseek_v3")
    c["model_type"] = "kimi_k2"
    c.pop("architectures")
    out = {"language_model." + k: v for k, v in t.items()}
    out["vision_tower.patch_embed.proj.weight"] = np.zeros((4, 4))
    write(data, name, {"architectures": ["KimiK25ForConditionalGeneration"], "model_type": "kimi_k25", "text_config": c}, out)
    shutil.copy("%s/deepseek_v3/expected.safetensors" % data, "%s/%s/expected.safetensors" % (data, name))


def affine(w, bits=4, group=32):
    """[out][in] -> codes, scales, biases, and what they stand for"""
    g = w.reshape(len(w), -1, group)
    low = g.min(-1).astype(ml_dtypes.bfloat16).astype(np.float64)
    scale = ((g.max(-1) - low) / (2 ** bits - 1)).astype(ml_dtypes.bfloat16).astype(np.float64)
    q = np.clip(np.rint((g - low[..., None]) / scale[..., None]), 0, 2 ** bits - 1)
    words = (q.astype(np.uint32).reshape(len(w), -1, 32 // bits) << np.arange(0, 32, bits, dtype=np.uint32)).sum(-1, dtype=np.uint32)
    return words, scale, low, (q * scale[..., None] + low[..., None]).reshape(w.shape)


def mlx_kv_b(data, name):
    c, t = read(data, "youtu_llm")
    random = np.random.default_rng(5)
    c.update(kv_lora_rank=64, quantization={"group_size": 32, "bits": 4})
    rows = c["num_attention_heads"] * (c["qk_nope_head_dim"] + c["v_head_dim"])
    stored = dict(t)
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d.self_attn." % i
        a = random.normal(0, 0.18, (64 + c["qk_rope_head_dim"], c["hidden_size"])).astype(ml_dtypes.bfloat16).astype(np.float64)
        t[p + "kv_a_proj_with_mqa.weight"] = stored[p + "kv_a_proj_with_mqa.weight"] = a
        t[p + "kv_a_layernorm.weight"] = stored[p + "kv_a_layernorm.weight"] = np.ones(64)
        b = p + "kv_b_proj."
        stored[b + "weight"], stored[b + "scales"], stored[b + "biases"], t[b + "weight"] = affine(random.normal(0, 0.12, (rows, 64)))
    write(data, name, c, stored)
    expect(c, t, ids_of(data, "youtu_llm"), "%s/%s/expected.safetensors" % (data, name))


def legacy_gguf(data, name):
    import gguf
    old = gguf.GGUFReader("%s/deepseek_v3.gguf" % data)
    out = gguf.GGUFWriter("%s/%s" % (data, name), "deepseek2")
    numbers = {k.split(".", 1)[1]: f.contents() for k, f in old.fields.items() if k.startswith("deepseek2.")}
    key, value = numbers.pop("attention.key_length_mla"), numbers.pop("attention.value_length_mla")
    numbers.update({"attention.key_length": key, "attention.value_length": value})
    numbers["attention.head_count_kv"] = numbers["attention.head_count"]
    add = {bool: out.add_bool, str: out.add_string, float: out.add_float32, int: out.add_uint32}
    for k, v in numbers.items():
        add[type(v)]("deepseek2." + k, v)
    out.add_string("tokenizer.ggml.model", "none")
    data_of = {t.name: t for t in old.tensors}
    def bits(name): return data_of[name].data.view(np.uint16).reshape(list(reversed(data_of[name].shape.tolist())))
    for name, t in data_of.items():
        if "attn_v_b" in name: continue
        if "attn_k_b" in name:
            kv = np.concatenate([bits(name).transpose(0, 2, 1), bits(name.replace("k_b", "v_b"))], 1)
            kv = np.ascontiguousarray(kv.reshape(-1, kv.shape[-1]))
            out.add_tensor(name.replace("attn_k_b", "attn_kv_b"), kv.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            out.add_tensor(name, t.data, raw_dtype=t.tensor_type)
    out.write_header_to_file(); out.write_kv_data_to_file(); out.write_tensors_to_file(); out.close()
    shutil.copy("%s/deepseek_v3.expected.safetensors" % data, "%s/deepseek_v3-legacy.expected.safetensors" % data)


MADE = {"glm_moe_dsa-shared": shared, "kimi_k25-wrapper": kimi, "youtu_llm-mlx-kv_b": mlx_kv_b, "deepseek_v3-legacy.gguf": legacy_gguf}
if __name__ == "__main__":
    check(sys.argv[1])
    for made in sys.argv[2:] or MADE:
        MADE[made](sys.argv[1], made)
