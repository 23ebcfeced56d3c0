#!/usr/bin/env python3
"""Make reference models of families that neither mlx-lm nor the tools of the formats have: the passes are written out here, in float64,
after the code that defines each family. Files and results are as make_family_references.py makes them.

  make_own_references.py OUT_DIR [NAME ...]
  make_own_references.py --gguf OUT_DIR [NAME ...]          NAME.gguf from NAME, as llama.cpp's converter does it; needs `pip install gguf`

Needs numpy and, to write bfloat16, `pip install "mlx[cpu]" mlx-lm`; the tests do not: what it makes is kept in tests/data/models.
"""

import json, re, sys
from pathlib import Path

import numpy as np
from make_recurrent_references import add, load, pairs

VOCAB, HIDDEN = 128, 32
BASE = dict(vocab_size=VOCAB, hidden_size=HIDDEN, max_position_embeddings=256, bos_token_id=1, eos_token_id=2)


# ---- parts of a pass; x is [positions][width] ----


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)


def rms(x, weight=1.0, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def layer_norm(w, name, x, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".weight"] + w.get(name + ".bias", 0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    from math import erf

    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def rotate(x, dims, theta):
    """Halves of the first `dims` elements; x: [positions][heads][head_dim]."""
    angles = np.arange(len(x))[:, None] * theta ** (-np.arange(0, dims, 2) / dims)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b, rest = x[..., : dims // 2], x[..., dims // 2 : dims], x[..., dims:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attend(q, k, v):
    """q: [positions][heads][head_dim], k and v with fewer heads."""
    n, heads, dim = q.shape
    k, v = (np.repeat(t, heads // k.shape[1], 1) for t in (k, v))
    scores = np.einsum("phd,qhd->hpq", q, k) / np.sqrt(dim)
    scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
    return np.einsum("hpq,qhd->phd", softmax(scores), v).reshape(n, -1)


def by_group(x, kv_heads, dim):
    """Each key head's queries, its key, its value -> q, k, v."""
    x = x.reshape(len(x), kv_heads, -1, dim)
    return x[:, :, :-2].reshape(len(x), -1, dim), x[:, :, -2], x[:, :, -1]


# ---- families: (config, {name: shape}, pass) ----


def minimax(even=False):
    """transformers, modeling_minimax.py, with the names of MiniMaxAI/MiniMax-Text-01; even: one factor for all, as GGUF has it"""
    heads, kv, dim, experts, width, layers = 4, 2, 16, 4, 24, 4
    kinds = [0, 0, 1, 0]
    config = dict(
        BASE,
        model_type="minimax_text_01",
        architectures=["MiniMaxText01ForCausalLM"],
        intermediate_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=dim,
        rotary_dim=8,
        rms_norm_eps=1e-5,
        rope_theta=10000000.0,
        num_local_experts=experts,
        num_experts_per_tok=2,
        attn_type_list=kinds,
        postnorm=True,
        layernorm_full_attention_alpha=3.5565588200778455,
        layernorm_full_attention_beta=1.0,
        layernorm_linear_attention_alpha=3.5565588200778455 if even else 3.0,
        layernorm_linear_attention_beta=1.0 if even else 0.75,
        layernorm_mlp_alpha=3.5565588200778455 if even else 3.25,
        layernorm_mlp_beta=1.0 if even else 1.25,
        shared_intermediate_size=0,
        shared_moe_mode="sigmoid",
        tie_word_embeddings=False,
    )
    shapes = {}
    for i, full in enumerate(kinds):
        p = "model.layers.%d." % i
        if full:
            for name, rows in (("q", heads), ("k", kv), ("v", kv)):
                shapes[p + "self_attn.%s_proj.weight" % name] = (rows * dim, HIDDEN)
            shapes[p + "self_attn.o_proj.weight"] = (HIDDEN, heads * dim)
        else:
            shapes[p + "self_attn.qkv_proj.weight"] = (3 * heads * dim, HIDDEN)
            shapes[p + "self_attn.output_gate.weight"] = (heads * dim, HIDDEN)
            shapes[p + "self_attn.out_proj.weight"] = (HIDDEN, heads * dim)
            shapes[p + "self_attn.norm.weight"] = (heads * dim,)
        shapes[p + "block_sparse_moe.gate.weight"] = (experts, HIDDEN)
        for e in range(experts):
            for name, shape in (("w1", (width, HIDDEN)), ("w2", (HIDDEN, width)), ("w3", (width, HIDDEN))):
                shapes[p + "block_sparse_moe.experts.%d.%s.weight" % (e, name)] = shape
        shapes[p + "input_layernorm.weight"] = shapes[p + "post_attention_layernorm.weight"] = (HIDDEN,)
    shapes.update({"model.embed_tokens.weight": (VOCAB, HIDDEN), "lm_head.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)})

    def full_attention(w, p, x):
        q, k, v = (linear(w, p + "self_attn.%s_proj" % name, x).reshape(len(x), -1, dim) for name in "qkv")
        return linear(w, p + "self_attn.o_proj", attend(rotate(q, 8, 1e7), rotate(k, 8, 1e7), v))

    def lightning(w, p, x, i):
        q, k, v = by_group(silu(linear(w, p + "self_attn.qkv_proj", x)), heads, dim)
        slopes = 2.0 ** (-8 * (np.arange(heads) + 1) / heads) * (1 - i / (layers - 1 + 1e-5) + 1e-5)
        state, out = np.zeros((heads, dim, dim)), []
        for t in range(len(x)):
            state = state * np.exp(-slopes)[:, None, None] + k[t][:, :, None] * v[t][:, None, :]
            out.append(np.einsum("hd,hde->he", q[t], state).reshape(-1))
        mixed = rms(np.stack(out), w[p + "self_attn.norm.weight"])
        return linear(w, p + "self_attn.out_proj", sigmoid(linear(w, p + "self_attn.output_gate", x)) * mixed)

    def mixture(w, p, x):
        scores = softmax(linear(w, p + "gate", x))
        out = np.zeros_like(x)
        for t, row in enumerate(scores):
            best = np.argsort(-row)[:2]
            for e in best:
                q = p + "experts.%d." % e
                y = linear(w, q + "w2", silu(linear(w, q + "w1", x[t])) * linear(w, q + "w3", x[t]))
                out[t] += y * row[e] / row[best].sum()
        return out

    def run(w, ids):
        x = w["model.embed_tokens.weight"][ids]
        for i, full in enumerate(kinds):
            p = "model.layers.%d." % i
            x = rms(x, w[p + "input_layernorm.weight"], 1e-5)
            x = (
                x * config["layernorm_full_attention_alpha"] + full_attention(w, p, x)
                if full
                else x * config["layernorm_linear_attention_alpha"]
                + lightning(w, p, x, i) * config["layernorm_linear_attention_beta"]
            )
            x = rms(x, w[p + "post_attention_layernorm.weight"], 1e-5)
            x = x * config["layernorm_mlp_alpha"] + mixture(w, p + "block_sparse_moe.", x) * config["layernorm_mlp_beta"]
        return linear(w, "lm_head", rms(x, w["model.norm.weight"], 1e-5))

    return config, shapes, run


def ffn_shapes(p, names, width):
    up, down = names
    return {p + up + ".weight": (width, HIDDEN), p + down + ".weight": (HIDDEN, width)}


def biased(shapes):
    return {**shapes, **{k[: -len("weight")] + "bias": s[:1] for k, s in shapes.items()}}


def arcee():
    """transformers, modeling_arcee.py"""
    heads, kv, dim, width, layers = 4, 2, 8, 48, 3
    config = dict(
        BASE,
        model_type="arcee",
        architectures=["ArceeForCausalLM"],
        hidden_act="relu2",
        intermediate_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=dim,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=False,
    )
    shapes = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "lm_head.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(layers):
        p = "model.layers.%d." % i
        for name, rows in (("q", heads), ("k", kv), ("v", kv)):
            shapes[p + "self_attn.%s_proj.weight" % name] = (rows * dim, HIDDEN)
        shapes[p + "self_attn.o_proj.weight"] = (HIDDEN, heads * dim)
        shapes.update(ffn_shapes(p, ("mlp.up_proj", "mlp.down_proj"), width))
        shapes[p + "input_layernorm.weight"] = shapes[p + "post_attention_layernorm.weight"] = (HIDDEN,)

    def run(w, ids):
        x = w["model.embed_tokens.weight"][ids]
        for i in range(layers):
            p = "model.layers.%d." % i
            y = rms(x, w[p + "input_layernorm.weight"], 1e-5)
            q, k, v = (linear(w, p + "self_attn.%s_proj" % name, y).reshape(len(x), -1, dim) for name in "qkv")
            x = x + linear(w, p + "self_attn.o_proj", attend(rotate(q, dim, 1e4), rotate(k, dim, 1e4), v))
            y = rms(x, w[p + "post_attention_layernorm.weight"], 1e-5)
            x = x + linear(w, p + "mlp.down_proj", np.maximum(linear(w, p + "mlp.up_proj", y), 0) ** 2)
        return linear(w, "lm_head", rms(x, w["model.norm.weight"], 1e-5))

    return config, shapes, run


def gpt_neox(parallel=True):
    """transformers, modeling_gpt_neox.py"""
    heads, width, layers, theta = 2, 96, 3, 10000
    dim = HIDDEN // heads
    config = dict(
        BASE,
        model_type="gpt_neox",
        architectures=["GPTNeoXForCausalLM"],
        hidden_act="gelu",
        intermediate_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        rotary_pct=0.25,
        rotary_emb_base=theta,
        layer_norm_eps=1e-5,
        use_parallel_residual=parallel,
        tie_word_embeddings=False,
    )
    shapes = {"gpt_neox.final_layer_norm.weight": (HIDDEN,)}
    for i in range(layers):
        p = "gpt_neox.layers.%d." % i
        shapes[p + "attention.query_key_value.weight"] = (3 * HIDDEN, HIDDEN)
        shapes[p + "attention.dense.weight"] = (HIDDEN, HIDDEN)
        shapes.update(ffn_shapes(p, ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"), width))
        shapes[p + "input_layernorm.weight"] = shapes[p + "post_attention_layernorm.weight"] = (HIDDEN,)
    shapes = biased(shapes)
    shapes.update({"gpt_neox.embed_in.weight": (VOCAB, HIDDEN), "embed_out.weight": (VOCAB, HIDDEN)})

    def run(w, ids):
        x = w["gpt_neox.embed_in.weight"][ids]
        for i in range(layers):
            p, rotated = "gpt_neox.layers.%d." % i, dim // 4
            y = layer_norm(w, p + "input_layernorm", x, 1e-5)
            q, k, v = by_group(linear(w, p + "attention.query_key_value", y), heads, dim)
            mixed = linear(w, p + "attention.dense", attend(rotate(q, rotated, theta), rotate(k, rotated, theta), v))
            y = layer_norm(w, p + "post_attention_layernorm", x if parallel else x + mixed, 1e-5)
            x = x + mixed + linear(w, p + "mlp.dense_4h_to_h", gelu(linear(w, p + "mlp.dense_h_to_4h", y)))
        return linear(w, "embed_out", layer_norm(w, "gpt_neox.final_layer_norm", x, 1e-5))

    return config, shapes, run


def falcon(new=True):
    """transformers, modeling_falcon.py; new: as the 40B, with two norms, else as the 7B, with one key head"""
    heads, kv, width, layers = 4, 2 if new else 1, 4 * HIDDEN, 2
    dim = HIDDEN // heads
    config = dict(
        BASE,
        model_type="falcon",
        architectures=["FalconForCausalLM"],
        activation="gelu",
        alibi=False,
        bias=False,
        parallel_attn=True,
        multi_query=True,
        new_decoder_architecture=new,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_kv_heads=kv if new else heads,
        layer_norm_epsilon=1e-5,
    )
    norms = ("ln_attn", "ln_mlp") if new else ("input_layernorm",) * 2
    shapes = {"transformer.ln_f.weight": (HIDDEN,)}
    for i in range(layers):
        for norm in norms:
            shapes["transformer.h.%d.%s.weight" % (i, norm)] = (HIDDEN,)
    shapes = biased(shapes)
    for i in range(layers):
        p = "transformer.h.%d." % i
        shapes[p + "self_attention.query_key_value.weight"] = ((heads + 2 * kv) * dim, HIDDEN)
        shapes[p + "self_attention.dense.weight"] = (HIDDEN, HIDDEN)
        shapes.update(ffn_shapes(p, ("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"), width))
    shapes["transformer.word_embeddings.weight"] = (VOCAB, HIDDEN)

    def run(w, ids):
        x = w["transformer.word_embeddings.weight"][ids]
        for i in range(layers):
            p = "transformer.h.%d." % i
            y, z = (layer_norm(w, p + norm, x, 1e-5) for norm in norms)
            q, k, v = by_group(linear(w, p + "self_attention.query_key_value", y), kv, dim)
            mixed = linear(w, p + "self_attention.dense", attend(rotate(q, dim, 1e4), rotate(k, dim, 1e4), v))
            x = x + mixed + linear(w, p + "mlp.dense_4h_to_h", gelu(linear(w, p + "mlp.dense_h_to_4h", z)))
        return layer_norm(w, "transformer.ln_f", x, 1e-5) @ w["transformer.word_embeddings.weight"].T

    return config, shapes, run


FAMILIES = {
    "minimax": minimax,
    "minimax-even": lambda: minimax(True),
    "arcee": arcee,
    "gpt_neox": gpt_neox,
    "gpt_neox-sequential": lambda: gpt_neox(False),
    "falcon": falcon,
    "falcon-multiquery": lambda: falcon(False),
}


def value(name, shape, r):
    """As base.fill, by published names."""
    if "embed" in name:
        return r * (1.4 / shape[-1] ** 0.5 if "word_embeddings" in name else 1)
    if name.endswith("bias"):
        return 0.3 * r
    if len(shape) == 1:
        return 1 + 0.15 * r
    return (2.5 if ".gate." in name or "router" in name else 1.4) * r / shape[-1] ** 0.5


def make(name, out):
    from safetensors.numpy import save_file

    import make_family_references as base

    config, shapes, run = FAMILIES[name]()
    for seed in range(1, 40):
        random = np.random.default_rng(seed)
        weights = {k: base.to_bfloat16(value(k, s, random.standard_normal(s))) for k, s in shapes.items()}
        w = {k: v.astype(np.float64) for k, v in weights.items()}
        ids = [int(i) for i in np.random.default_rng(seed + 1000).integers(3, VOCAB, base.PROMPT)]
        logits, more, margins = run(w, np.array(ids)), [], []
        for _ in range(base.STEPS):
            last = run(w, np.array(ids + more))[-1]
            top = np.sort(last)
            margins.append(top[-1] - top[-2])
            more.append(int(last.argmax()))
        if min(margins) > base.MARGIN * np.abs(logits).max() and len(set(more)) > 2:
            base.save(Path(out) / name, config, weights)
            result = {
                "input_ids": np.array(ids, np.int32),
                "logits": logits.astype(np.float32),
                "greedy_ids": np.array(more, np.int32),
                "greedy_margins": np.array(margins, np.float32),
            }
            save_file(result, Path(out) / name / "expected.safetensors", metadata={"made": "numpy, float64"})
            print("%s: seed %d, smallest margin %.3g" % (name, seed, min(margins)))
            return
    sys.exit("%s: no seed gives clear greedy steps" % name)


# ---- GGUF ----

NAMES = {
    "input_layernorm": "attn_norm",
    "ln_mlp": "attn_norm",
    "ln_attn": "attn_norm_2",
    "post_attention_layernorm": "ffn_norm",
    "query_key_value": "attn_qkv",
    "dense": "attn_output",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "dense_h_to_4h": "ffn_up",
    "dense_4h_to_h": "ffn_down",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
    "embed_tokens": "token_embd",
    "embed_in": "token_embd",
    "word_embeddings": "token_embd",
    "embed_out": "output",
    "lm_head": "output",
    "norm": "output_norm",
    "final_layer_norm": "output_norm",
    "ln_f": "output_norm",
}


def to_gguf(directory):
    import gguf

    config = json.load(open(directory / "config.json"))
    heads, kind = config["num_attention_heads"], config["model_type"]
    dim = config.get("head_dim", HIDDEN // heads)
    kv = config.get("num_key_value_heads", heads if kind == "gpt_neox" else config.get("num_kv_heads"))
    if config.get("multi_query") and not config["new_decoder_architecture"]:
        kv = 1
    out = gguf.GGUFWriter(str(directory) + ".gguf", {"gpt_neox": "gptneox"}.get(kind, kind))
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(HIDDEN)
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config.get("intermediate_size", 4 * HIDDEN))
    out.add_head_count(heads)
    out.add_head_count_kv(kv)
    if kind == "arcee":
        out.add_layer_norm_rms_eps(config["rms_norm_eps"])
        out.add_rope_dimension_count(dim)
    else:
        out.add_layer_norm_eps(config.get("layer_norm_eps", config.get("layer_norm_epsilon")))
    if kind == "gpt_neox":
        out.add_rope_dimension_count(int(dim * config["rotary_pct"]))
        out.add_parallel_residual(config["use_parallel_residual"])
    for name, w in load(directory / "model.safetensors").items():
        layer, parts = re.search(r"\.(\d+)\.", name), name.split(".")
        if "query_key_value" in name:
            q, k, v = by_group(w.reshape(-1, w.shape[0]) if w.ndim == 1 else w.T, kv, dim)
            w = np.concatenate([t.reshape(-1, t.shape[-2] * dim) for t in (q, k, v)], 1).T
            w = w[:, 0] if parts[-1] == "bias" else w
        if kind == "arcee" and parts[-2] in ("q_proj", "k_proj"):
            w = pairs(w, heads if parts[-2] == "q_proj" else kv)
        add(out, "%s%s.%s" % ("blk.%s." % layer[1] if layer else "", NAMES[parts[-2]], parts[-1]), w)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    if sys.argv[1] == "--gguf":
        for family in sys.argv[3:]:
            to_gguf(Path(sys.argv[2]) / family)
        sys.exit(0)
    for family in sys.argv[2:] or FAMILIES:
        make(family, sys.argv[1])
