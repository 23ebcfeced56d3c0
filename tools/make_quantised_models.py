#!/usr/bin/env python3
"""Makes the tiny models of tests/data/models whose weights are packed the ways that other tools publish them.

  make_quantised_models.py OUT [NAME ...]

Each is a llama or qwen3_moe with random weights. A packing is written from its definition (FORMATS below), read back by the decoder beside
it, and the network is computed in float64 from the decoded weights: OUT/NAME/{config.json, model.safetensors, expected.safetensors}. Needs
numpy alone. The expected file holds input_ids [40], logits [40][vocab], greedy_ids [16] and greedy_margins.
"""
import json, os, struct, sys
import numpy as np

VOCAB, HIDDEN, FFN, HEADS, KV_HEADS, HEAD, LAYERS, EXPERTS, TOP_K, EXPERT_FFN = 128, 64, 96, 4, 2, 16, 2, 4, 2, 32
EPSILON, THETA, TOKENS, GREEDY = 1e-5, 10000.0, 40, 16

# ---- numbers ----

def e4m3_value(code):
    s, e, m = -1.0 if code & 128 else 1.0, code >> 3 & 15, code & 7
    return s * (m / 8 * 2.0 ** -6 if e == 0 else np.nan if code & 127 == 127 else (1 + m / 8) * 2.0 ** (e - 7))

def e5m2_value(code):
    s, e, m = -1.0 if code & 128 else 1.0, code >> 2 & 31, code & 3
    return s * (m / 4 * 2.0 ** -14 if e == 0 else np.nan if e == 31 else (1 + m / 4) * 2.0 ** (e - 15))

TABLES = {"F8_E4M3": np.array([e4m3_value(c) for c in range(256)]), "F8_E5M2": np.array([e5m2_value(c) for c in range(256)]),
          "E2M1": np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])}
LARGEST = {"F8_E4M3": 448.0, "F8_E5M2": 57344.0, "E2M1": 6.0}

def nearest(table, x):
    """Codes of the values of a table that are nearest to x."""
    t = TABLES[table]
    order = np.argsort(np.where(np.isnan(t), np.inf, t), kind="stable")[: np.isfinite(t).sum()]
    values = t[order]
    at = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    at -= np.abs(x - values[at - 1]) <= np.abs(values[at] - x)
    return order[at].astype(np.uint8)

def bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)

def bf16_value(codes): return (codes.astype(np.uint32) << 16).view(np.float32)
def f16(x): return np.asarray(x, np.float16)

# ---- files ----

KINDS = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.int32): "I32", np.dtype(np.int64): "I64",
         np.dtype(np.uint8): "U8", np.dtype(np.int8): "I8"}

class Typed:
    """An array whose type numpy has no name for."""
    def __init__(self, kind, data): self.kind, self.data = kind, data

def write_safetensors(path, tensors):
    header, body, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        t = tensors[name]
        kind, data = (t.kind, t.data) if isinstance(t, Typed) else (KINDS[t.dtype], t)
        raw = np.ascontiguousarray(data).tobytes()
        header[name] = {"dtype": kind, "shape": list(data.shape), "data_offsets": [at, at + len(raw)]}
        body.append(raw); at += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + b"".join(body))

# ---- formats: (name of the module, w [out][in] float64) -> ({ending: array}, decoded [out][in]) ----

def plain(w):
    codes = bf16(w)
    return {".weight": Typed("BF16", codes)}, bf16_value(codes).astype(np.float64)

def float8(kind, shape, name=".weight_scale", block=16):
    """shape: tensor, row or block."""
    def encode(w):
        out, cols = w.shape
        rows_of, cols_of = {"tensor": (out, cols), "row": (1, cols), "block": (block, block)}[shape]
        scale = np.zeros((-(-out // rows_of), -(-cols // cols_of)), np.float32)
        codes, decoded = np.zeros(w.shape, np.uint8), np.zeros(w.shape)
        for r in range(scale.shape[0]):
            for c in range(scale.shape[1]):
                part = np.s_[r * rows_of:(r + 1) * rows_of, c * cols_of:(c + 1) * cols_of]
                scale[r, c] = np.abs(w[part]).max() / LARGEST[kind]
                codes[part] = nearest(kind, w[part] / scale[r, c])
                decoded[part] = TABLES[kind][codes[part]] * scale[r, c]
        stored = {"tensor": scale[0, 0].reshape(()), "row": scale, "block": scale}[shape]
        return {".weight": Typed(kind, codes), name: stored}, decoded
    return encode

def groups_of(w, group): return w.reshape(w.shape[0], -1, group or w.shape[1])

def quantise(w, group, bits, symmetric):
    """-> codes [out][groups][group] from 0, scale [out][groups] float16, zero [out][groups]."""
    g, top = groups_of(w, group), 2 ** bits - 1
    if symmetric:
        scale, zero = f16(np.abs(g).max(-1) / (2 ** (bits - 1) - 0.5)), np.full(g.shape[:2], 2 ** (bits - 1))
    else:
        low, high = np.minimum(g.min(-1), 0), np.maximum(g.max(-1), 0)
        scale = f16((high - low) / top)
        zero = np.clip(np.rint(-low / scale.astype(np.float64)), 0, top).astype(int)
    codes = np.clip(np.rint(g / scale.astype(np.float64)[..., None]) + zero[..., None], 0, top).astype(np.uint32)
    decoded = (codes.astype(int) - zero[..., None]) * scale.astype(np.float64)[..., None]
    return codes, scale, zero, decoded.reshape(w.shape)

def words(codes, bits, axis, order=None):
    """Packs neighbours along an axis into 32-bit words, first in the low bits."""
    per = 32 // bits
    c = np.moveaxis(codes.astype(np.uint32), axis, -1)
    c = np.concatenate([c, np.zeros(c.shape[:-1] + (-c.shape[-1] % per,), np.uint32)], -1).reshape(c.shape[:-1] + (-1, per))
    if order: c = c[..., order]
    packed = np.zeros(c.shape[:-1], np.uint32)
    for i in range(per): packed |= c[..., i] << np.uint32(bits * i)
    return np.moveaxis(packed, -1, axis).view(np.int32)

def compressed(bits, group, symmetric):
    def encode(w):
        codes, scale, zero, decoded = quantise(w, group, bits, symmetric)
        t = {".weight_packed": words(codes.reshape(w.shape), bits, 1), ".weight_scale": scale,
             ".weight_shape": np.array(w.shape, np.int64)}
        if not symmetric: t[".weight_zero_point"] = words(zero, bits, 0)
        return t, decoded
    return encode

def int8_rows(w):
    scale = (np.abs(w).max(-1, keepdims=True) / 127).astype(np.float32)
    codes = np.rint(w / scale).astype(np.int8)
    return {".weight": codes, ".weight_scale": Typed("BF16", bf16(scale))}, codes * bf16_value(bf16(scale)).astype(np.float64)

def nvfp4(form):
    """form: compressed-tensors (the file has the divisor) or modelopt (the factor)."""
    def encode(w):
        g = groups_of(w, 16)
        factor = np.float32(np.abs(w).max() / (448 * 6))
        divisor = np.float32(1 / factor)
        factor = np.float32(1 / divisor) if form == "compressed-tensors" else factor
        scales = nearest("F8_E4M3", np.abs(g).max(-1) / 6 / factor)
        scale = TABLES["F8_E4M3"][scales] * np.float64(factor)
        codes = nearest("E2M1", g / np.where(scale == 0, 1, scale)[..., None])
        decoded = (TABLES["E2M1"][codes] * scale[..., None]).reshape(w.shape)
        codes = codes.reshape(w.shape)
        packed = codes[:, 0::2] | codes[:, 1::2] << 4
        if form == "modelopt":
            return {".weight": packed, ".weight_scale": Typed("F8_E4M3", scales), ".weight_scale_2": factor.reshape(()),
                    ".input_scale": np.float32(1).reshape(())}, decoded
        return {".weight_packed": packed, ".weight_scale": Typed("F8_E4M3", scales), ".weight_global_scale": divisor.reshape(1),
                ".input_global_scale": np.ones(1, np.float32)}, decoded
    return encode

AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]

def awq(group):
    def encode(w):
        codes, scale, zero, decoded = quantise(w, group, 4, False)
        return {".qweight": words(codes.reshape(w.shape).T, 4, 1, AWQ_ORDER), ".qzeros": words(zero.T, 4, 1, AWQ_ORDER),
                ".scales": np.ascontiguousarray(scale.T)}, decoded
    return encode

def gptq(bits, group, symmetric, zero_offset):
    def encode(w):
        codes, scale, zero, decoded = quantise(w, group, bits, symmetric)
        if zero_offset:  # what is stored is one less, and cannot be less than 0
            zero = np.maximum(zero, 1)
            decoded = ((codes.astype(int) - zero[..., None]) * scale.astype(np.float64)[..., None]).reshape(w.shape)
        order = (np.arange(w.shape[1]) // (group or w.shape[1])).astype(np.int32)
        return {".qweight": words(codes.reshape(w.shape).T, bits, 0), ".qzeros": words((zero - zero_offset).T, bits, 1),
                ".scales": np.ascontiguousarray(scale.T), ".g_idx": order}, decoded
    return encode

def ct(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": weights, "targets": ["Linear"]}}}

def fp8_config(method="fp8", **more): return dict(quant_method=method, **more)

def gptq_config(bits, group, symmetric, **more):
    return dict(quant_method="gptq", bits=bits, group_size=group, desc_act=False, sym=symmetric, **more)

AWQ_CONFIG = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
INT4 = dict(num_bits=4, type="int", group_size=32)
BLOCKS = dict(weight_block_size=[16, 16])

FORMATS = {  # name -> (network, encoder, quantization_config)
    "llama-fp8-tensor": ("llama", float8("F8_E4M3", "tensor"), fp8_config(activation_scheme="static")),
    "llama-fp8-row": ("llama", float8("F8_E4M3", "row"), fp8_config("fbgemm_fp8")),
    "llama-fp8-e5m2": ("llama", float8("F8_E5M2", "block", ".weight_scale_inv"), fp8_config(fmt="e5m2", **BLOCKS)),
    "llama-fp8-e5m2-tensor": ("llama", float8("F8_E5M2", "tensor"), fp8_config(fmt="e5m2")),
    "llama-fp8-ct-block": ("llama", float8("F8_E4M3", "block"), ct("float-quantized", num_bits=8, type="float", block_structure=[16, 16])),
    "llama-ct-int4": ("llama", compressed(4, 32, True), ct("pack-quantized", symmetric=True, **INT4)),
    "llama-ct-int4-rows": ("llama", compressed(4, None, True), ct("pack-quantized", num_bits=4, type="int", strategy="channel")),
    "llama-ct-int4-asym": ("llama", compressed(4, 32, False), ct("pack-quantized", symmetric=False, **INT4)),
    "llama-ct-w8": ("llama", compressed(8, 32, True), ct("pack-quantized", num_bits=8, type="int", group_size=32, symmetric=True)),
    "llama-ct-int8": ("llama", int8_rows, ct("int-quantized", num_bits=8, type="int", strategy="channel", symmetric=True)),
    "llama-ct-nvfp4": ("llama", nvfp4("compressed-tensors"), ct("nvfp4-pack-quantized", num_bits=4, type="float", group_size=16)),
    "llama-modelopt-nvfp4": ("llama", nvfp4("modelopt"), {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "llama-awq": ("llama", awq(32), AWQ_CONFIG),
    "llama-gptq": ("llama", gptq(4, 32, True, 1), gptq_config(4, 32, True)),
    "llama-gptq-asym8": ("llama", gptq(8, 32, False, 1), gptq_config(8, 32, False)),
    "llama-gptq-v2": ("llama", gptq(4, None, False, 0), gptq_config(4, -1, False, checkpoint_format="gptq_v2")),
    "qwen3_moe-fp8-tensor": ("qwen3_moe", float8("F8_E4M3", "tensor"), fp8_config(activation_scheme="dynamic")),
    "qwen3_moe-ct-int4-asym": ("qwen3_moe", compressed(4, 32, False), ct("pack-quantized", symmetric=False, **INT4)),
    "qwen3_moe-awq": ("qwen3_moe", awq(32), AWQ_CONFIG),
    "qwen3_moe-gptq": ("qwen3_moe", gptq(4, 32, True, 1), gptq_config(4, 32, True)),
}

# ---- the networks ----

def config_of(network):
    c = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
         "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "intermediate_size": FFN, "vocab_size": VOCAB,
         "rms_norm_eps": EPSILON, "rope_theta": THETA, "max_position_embeddings": 256, "hidden_act": "silu", "tie_word_embeddings": False,
         "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}
    if network == "qwen3_moe":
        c.update(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", num_experts=EXPERTS, num_experts_per_tok=TOP_K,
                 moe_intermediate_size=EXPERT_FFN, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
    return c

def shapes_of(network):
    """(module, rows, cols, packed): what has a matrix."""
    yield "model.embed_tokens", VOCAB, HIDDEN, False
    yield "lm_head", VOCAB, HIDDEN, False
    for l in range(LAYERS):
        p = "model.layers.%d." % l
        for n, rows in (("q_proj", HEADS * HEAD), ("k_proj", KV_HEADS * HEAD), ("v_proj", KV_HEADS * HEAD)):
            yield p + "self_attn." + n, rows, HIDDEN, True
        yield p + "self_attn.o_proj", HIDDEN, HEADS * HEAD, True
        if network == "qwen3_moe": yield p + "mlp.gate", EXPERTS, HIDDEN, False
        for e in range(EXPERTS) if network == "qwen3_moe" else [None]:
            width, at = (FFN, "mlp.") if e is None else (EXPERT_FFN, "mlp.experts.%d." % e)
            for n, rows, cols in (("gate_proj", width, HIDDEN), ("up_proj", width, HIDDEN), ("down_proj", HIDDEN, width)):
                yield p + at + n, rows, cols, True

def norms_of(network):
    yield "model.norm", HIDDEN
    for l in range(LAYERS):
        yield "model.layers.%d.input_layernorm" % l, HIDDEN
        yield "model.layers.%d.post_attention_layernorm" % l, HIDDEN
        if network == "qwen3_moe":
            yield "model.layers.%d.self_attn.q_norm" % l, HEAD
            yield "model.layers.%d.self_attn.k_norm" % l, HEAD

def rms(x, w): return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w
def softmax(x): e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)
def silu(x): return x / (1 + np.exp(-x))

def rotate(x):  # [tokens][heads][HEAD]
    angle = np.arange(len(x))[:, None] * THETA ** (-np.arange(0, HEAD, 2) / HEAD)
    c, s, half = np.cos(angle)[:, None], np.sin(angle)[:, None], HEAD // 2
    return np.concatenate([x[..., :half] * c - x[..., half:] * s, x[..., half:] * c + x[..., :half] * s], -1)

def attention(w, p, x, network):
    t = len(x)
    q, k, v = ((x @ w[p + n].T).reshape(t, -1, HEAD) for n in ("q_proj", "k_proj", "v_proj"))
    if network == "qwen3_moe": q, k = rms(q, w[p + "q_norm"]), rms(k, w[p + "k_norm"])
    q, k = rotate(q), rotate(k)
    k, v = (np.repeat(a, HEADS // KV_HEADS, 1) for a in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD) + np.triu(np.full((t, t), -np.inf), 1)
    return np.einsum("hqk,khd->qhd", softmax(scores), v).reshape(t, -1) @ w[p + "o_proj"].T

def feed_forward(w, p, x): return (silu(x @ w[p + "gate_proj"].T) * (x @ w[p + "up_proj"].T)) @ w[p + "down_proj"].T

MARGIN = 0.1  # of router logits, so that rounded activations choose the same experts
margins_seen = []

def mixture(w, p, x):
    raw = x @ w[p + "gate"].T
    best = np.sort(raw, 1)
    margins_seen.append((best[:, -TOP_K] - best[:, -TOP_K - 1]).min())
    scores = softmax(raw)
    y = np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-scores[t], kind="stable")[:TOP_K]
        for e in chosen: y[t] += scores[t, e] / scores[t, chosen].sum() * feed_forward(w, p + "experts.%d." % e, x[t:t + 1])[0]
    return y

def forward(w, network, ids):
    x = w["model.embed_tokens"][ids]
    for l in range(LAYERS):
        p = "model.layers.%d." % l
        x = x + attention(w, p + "self_attn.", rms(x, w[p + "input_layernorm"]), network)
        n = rms(x, w[p + "post_attention_layernorm"])
        x = x + (mixture if network == "qwen3_moe" else feed_forward)(w, p + "mlp.", n)
    return rms(x, w["model.norm"]) @ w["lm_head"].T

def fill(network, encode, seed):
    random, tensors, w = np.random.RandomState(seed), {}, {}
    for module, rows, cols, packed in shapes_of(network):
        gain = 2.5 if module.endswith("mlp.gate") else cols ** 0.5 if "embed" in module else 1.4
        parts, w[module] = (encode if packed else plain)(random.randn(rows, cols) * gain / cols ** 0.5)
        tensors.update({module + ending: t for ending, t in parts.items()})
    for module, size in norms_of(network):
        parts, w[module] = plain(1 + 0.15 * random.randn(size))
        tensors[module + ".weight"] = parts[".weight"]
    return tensors, w, random.randint(3, VOCAB, TOKENS).astype(np.int32)

def make(out, name):
    network, encode, quantization = FORMATS[name]
    seed = sum(name.encode())
    while True:
        tensors, w, ids = fill(network, encode, seed)
        margins_seen.clear()
        logits = forward(w, network, ids)
        if min(margins_seen, default=1) >= MARGIN: break
        seed += 1000
    sequence, margins = list(ids), []
    for _ in range(GREEDY):
        last = forward(w, network, np.array(sequence))[-1]
        margins.append(np.diff(np.sort(last)[-2:])[0])
        sequence.append(int(last.argmax()))
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    write_safetensors(os.path.join(d, "model.safetensors"), tensors)
    write_safetensors(os.path.join(d, "expected.safetensors"), {"input_ids": ids, "logits": logits.astype(np.float32),
                      "greedy_ids": np.array(sequence[TOKENS:], np.int32), "greedy_margins": np.array(margins, np.float32)})
    with open(os.path.join(d, "config.json"), "w") as f:
        json.dump(dict(config_of(network), quantization_config=quantization), f, indent=1)
        f.write("\n")

if __name__ == "__main__":
    if len(sys.argv) < 2: sys.exit(__doc__)
    for n in sys.argv[2:] or FORMATS: make(sys.argv[1], n)
