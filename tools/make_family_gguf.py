#!/usr/bin/env python3
"""Reference models once more as GGUF, by the rules of llama.cpp's converter: NAME/ -> NAME.gguf.

  make_family_gguf.py DIR NAME ...

Needs numpy and the package gguf, in the version of a llama.cpp that knows the families (gguf-py in its sources).
"""

import json, re, sys
from pathlib import Path

import numpy as np
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, ExpertGatingFuncType, GGUFWriter, RopeScalingType, get_tensor_name_map
from make_recurrent_references import add, load, pairs

ARCHS = {
    "afmoe": MODEL_ARCH.AFMOE,
    "bailing_moe": MODEL_ARCH.BAILINGMOE,
    "bailing_moe_v2": MODEL_ARCH.BAILINGMOE2,
    "jamba": MODEL_ARCH.JAMBA,
    "mellum": MODEL_ARCH.MELLUM,
    "minimax": MODEL_ARCH.MINIMAX01,
    "step3p5": MODEL_ARCH.STEP35,
}


def common(out, c):
    layers = c["num_hidden_layers"]
    out.add_block_count(layers)
    out.add_context_length(c["max_position_embeddings"])
    out.add_embedding_length(c["hidden_size"])
    out.add_feed_forward_length(c["intermediate_size"])
    out.add_vocab_size(c["vocab_size"])
    out.add_layer_norm_rms_eps(c["rms_norm_eps"])
    if "head_dim" in c:
        out.add_key_length(c["head_dim"])
        out.add_value_length(c["head_dim"])
    out.add_expert_count(c.get("num_experts", c.get("num_local_experts", c.get("moe_num_experts"))))
    out.add_expert_used_count(c.get("num_experts_per_tok", c.get("moe_top_k")))
    if "moe_intermediate_size" in c:
        out.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "score_func" in c or "score_function" in c:
        out.add_expert_gating_func(ExpertGatingFuncType.SIGMOID)
    if c.get("n_group"):
        out.add_expert_group_count(c["n_group"])
        out.add_expert_group_used_count(c["topk_group"])


def heads(out, c):
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_rope_freq_base(c["rope_theta"])


def afmoe(out, c):
    heads(out, c)
    out.add_rope_dimension_count(c["head_dim"])
    out.add_expert_shared_count(c["num_shared_experts"])
    out.add_leading_dense_block_count(c["num_dense_layers"])
    out.add_expert_weights_norm(c["route_norm"])
    out.add_expert_weights_scale(c["route_scale"])
    out.add_sliding_window(c["sliding_window"])


def bailing_moe(out, c):
    heads(out, c)
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    second = c["architectures"][0] == "BailingMoeV2ForCausalLM" if "architectures" in c else False
    out.add_rope_dimension_count(int(head * c.get("partial_rotary_factor", 0.5)) if second else head)
    out.add_leading_dense_block_count(c["first_k_dense_replace"])
    out.add_expert_weights_scale(c.get("routed_scaling_factor", 1.0))
    out.add_expert_shared_count(c["num_shared_experts"])
    out.add_expert_weights_norm(c["norm_topk_prob"])


def jamba(out, c):
    out.add_head_count(c["num_attention_heads"])
    attention = [i % c["attn_layer_period"] == c["attn_layer_offset"] for i in range(c["num_hidden_layers"])]
    out.add_head_count_kv([c["num_key_value_heads"] if a else 0 for a in attention])
    out.add_ssm_conv_kernel(c["mamba_d_conv"])
    out.add_ssm_inner_size(c["mamba_expand"] * c["hidden_size"])
    out.add_ssm_state_size(c["mamba_d_state"])
    out.add_ssm_time_step_rank(c["mamba_dt_rank"])


def mellum(out, c):
    full, window = (c["rope_parameters"][k] for k in ("full_attention", "sliding_attention"))
    out.add_head_count(c["num_attention_heads"])
    out.add_head_count_kv(c["num_key_value_heads"])
    out.add_rope_freq_base(full["rope_theta"])
    out.add_rope_freq_base_swa(window["rope_theta"])
    out.add_rope_scaling_type(RopeScalingType.YARN)
    out.add_rope_scaling_factor(full["factor"])
    out.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    out.add_rope_scaling_yarn_beta_fast(full["beta_fast"])
    out.add_rope_scaling_yarn_beta_slow(full["beta_slow"])
    out.add_sliding_window(c["sliding_window"])
    out.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])


def minimax(out, c):
    heads(out, c)
    out.add_residual_scale(c["layernorm_full_attention_alpha"])
    out.add_rope_dimension_count(c["rotary_dim"])


def step3p5(out, c):
    other, window = c["attention_other_setting"], [t == "sliding_attention" for t in c["layer_types"]]
    out.add_head_count([other["num_attention_heads"] if w else c["num_attention_heads"] for w in window])
    out.add_head_count_kv([other["num_attention_groups"] if w else c["num_attention_groups"] for w in window])
    out.add_rope_freq_base(c["rope_theta"][0])
    out.add_rope_freq_base_swa(c["rope_theta"][1])
    out.add_sliding_window(c["sliding_window"])
    out.add_sliding_window_pattern(window)
    out.add_expert_shared_feed_forward_length(c["share_expert_dim"])
    out.add_expert_weights_scale(c["moe_router_scaling_factor"])
    out.add_expert_weights_norm(c["norm_expert_weight"])
    out.add_leading_dense_block_count(int(c["moe_layers_enum"].split(",")[0]))
    out.add_moe_every_n_layers(1)
    out.add_swiglu_clamp_exp(c["swiglu_limits"])
    out.add_swiglu_clamp_shexp(c["swiglu_limits_shared"])
    s, dim = c["rope_scaling"], int(c["head_dim"] * c["partial_rotary_factors"][0])
    factors = []
    for i in range(0, dim, 2):
        length = 2 * np.pi * c["rope_theta"][0] ** (i / dim)
        low, high = (s["original_max_position_embeddings"] / s[k] for k in ("low_freq_factor", "high_freq_factor"))
        smooth = (s["original_max_position_embeddings"] / length - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
        mixed = 1 / ((1 - smooth) / s["factor"] + smooth)
        factors.append(1.0 if length < high else s["factor"] if length > low else mixed)
    add(out, "rope_freqs.weight", np.array(factors + [1.0] * (c["head_dim"] // 2 - len(factors)), np.float32))


KEYS = {f.__name__: f for f in (afmoe, bailing_moe, jamba, mellum, minimax, step3p5)} | {"bailing_moe_v2": bailing_moe}


def convert(name, c, key, w):
    """Names as the converter's table knows them, and values: [(name, value)]."""
    if name == "bailing_moe" and key.endswith("query_key_value.weight"):
        h, kv = c["num_attention_heads"], c["num_key_value_heads"]
        q, k, v = np.split(w, [h * w.shape[0] // (h + 2 * kv), (h + kv) * w.shape[0] // (h + 2 * kv)])
        p = key.replace("attention.query_key_value", "self_attn.%s_proj")
        return [(p % "q", pairs(q, h)), (p % "k", pairs(k, kv)), (p % "v", v)]
    if name == "step3p5" and key.endswith("norm.weight"):
        w = w + 1
    if key.endswith(("expert_bias", "router_bias")):
        key += ".bias"
    if key.endswith("A_log"):
        w = -np.exp(w)
    if key.endswith("conv1d.weight"):
        w = w[:, 0]
    key = key.replace("feed_forward.experts", "mlp.experts")
    expert = re.fullmatch(r"(.*\.)block_sparse_moe\.experts\.(w[123])\.weight", key)
    if expert:
        key = "%smlp.experts.%s_proj.weight" % (expert[1], {"w1": "gate", "w2": "down", "w3": "up"}[expert[2]])
    return [(key, w)]


def new_name(names, key):
    """bailing_moe's table has no feed-forward without experts, though its files may."""
    dense = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.weight", key)
    found = names.get_name(key, try_suffixes=(".weight", ".bias")) or (dense and "blk.%s.ffn_%s.weight" % (dense[1], dense[2]))
    assert found, key
    return found


def to_gguf(directory):
    name, c = directory.name.split("-")[0], json.load(open(directory / "config.json"))
    writer = GGUFWriter(str(directory) + ".gguf", MODEL_ARCH_NAMES[ARCHS[name]])
    common(writer, c)
    KEYS[name](writer, c)
    names, stacks = get_tensor_name_map(ARCHS[name], c["num_hidden_layers"]), {}
    for key, w in load(directory / "model.safetensors").items():
        single = re.fullmatch(r"(.*\.experts)\.(\d+)\.(.*)", key)
        if single:
            stacks.setdefault("%s.%s" % (single[1], single[3]), {})[int(single[2])] = w
            continue
        for key, w in convert(name, c, key, w):
            add(writer, new_name(names, key), w)
    for key, stack in stacks.items():
        for key, w in convert(name, c, key, np.stack([stack[e] for e in range(len(stack))])):
            add(writer, new_name(names, key), w)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    for made in sys.argv[2:]:
        to_gguf(Path(sys.argv[1]) / made)
