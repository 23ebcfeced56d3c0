#!/usr/bin/env python3
"""Make reference models of families with recurrent layers: tiny, random weights, logits computed by mlx-lm.

  make_recurrent_references.py OUT_DIR [NAME ...]
  make_recurrent_references.py --gguf OUT_DIR [NAME ...]      OUT_DIR/NAME once more as OUT_DIR/NAME.gguf, by llama.cpp's rules

The first needs what make_family_references.py needs, and makes the same files; the second needs the package gguf. What they make is
kept in tests/data/models. The saved directory has the names and layouts of published checkpoints, and mlx-lm's own
reader of those reads it back.
"""

import json, re, struct, sys
from pathlib import Path

import numpy as np

BASE = dict(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
)

GRANITE = dict(
    BASE,
    model_type="granitemoehybrid",
    rms_norm_eps=1e-6,
    layer_types=["mamba", "mamba", "attention", "mamba"],
    attention_bias=False,
    embedding_multiplier=2.0,
    attention_multiplier=0.25,
    logits_scaling=1.5,
    residual_multiplier=0.7,
    shared_intermediate_size=40,
    mamba_n_heads=4,
    mamba_d_head=16,
    mamba_proj_bias=False,
    mamba_d_state=12,
    mamba_d_conv=4,
    mamba_n_groups=1,
    mamba_conv_bias=True,
    position_embedding_type="nope",
    time_step_limit=[0.0, float("inf")],
)
NEMOTRON = dict(
    BASE,
    model_type="nemotron_h",
    num_hidden_layers=6,
    hybrid_override_pattern="M-M*M-",
    head_dim=16,
    attention_bias=False,
    mamba_num_heads=4,
    mamba_head_dim=12,
    mamba_proj_bias=False,
    ssm_state_size=16,
    conv_kernel=4,
    n_groups=2,
    mlp_bias=False,
    layer_norm_epsilon=1e-5,
    use_bias=False,
    use_conv_bias=True,
    time_step_limit=[0.0, float("inf")],
)


OLMO = dict(
    BASE,
    model_type="olmo_hybrid",
    architectures=["OlmoHybridForCausalLM"],
    rms_norm_eps=1e-6,
    attention_bias=False,
    layer_types=["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=12,
    linear_value_head_dim=16,
    linear_conv_kernel_dim=4,
    linear_allow_neg_eigval=True,
    rope_parameters=dict(rope_theta=500000.0, rope_type="default"),
)


def convolutions(weights):
    """[channels][kernel][1] -> [channels][1][kernel]"""
    return {
        k: np.ascontiguousarray(v.swapaxes(1, 2)) if re.search(r"conv(1d)?\.weight$", k) and v.ndim == 3 else v
        for k, v in weights.items()
    }


def granite(weights):
    """gate over up in one tensor, of the experts, of the shared feed-forward, or of the only one."""
    out = {}
    for key, value in convolutions(weights).items():
        if ".switch_mlp.up_proj." in key or ".mlp.up_proj." in key:
            continue
        if ".switch_mlp.gate_proj." in key:
            up = weights[key.replace("gate_proj", "up_proj")]
            out[key.replace("switch_mlp.gate_proj", "input_linear")] = np.concatenate([value, up], 1)
        elif ".mlp.gate_proj." in key:
            up = weights[key.replace("gate_proj", "up_proj")]
            out[key.replace(".mlp.gate_proj", ".shared_mlp.input_linear")] = np.concatenate([value, up], 0)
        else:
            key = key.replace("switch_mlp.down_proj", "output_linear").replace(".mlp.down_proj", ".shared_mlp.output_linear")
            out[key] = value
    return out


def single_experts(weights, place, names={}):
    """Experts stacked in `place` one by one, their matrices by other names."""
    out = {}
    for key, value in convolutions(weights).items():
        stack = re.fullmatch(rf"(.*\.{place})\.switch_mlp\.(\w+)\.weight", key)
        if stack:
            out |= {f"{stack[1]}.experts.{e}.{names.get(stack[2], stack[2])}.weight": value[e] for e in range(len(value))}
        else:
            out[key] = value
    return out


def jamba(weights):
    return single_experts(weights, "feed_forward")


def nemotron(weights):
    return single_experts(weights, "mixer", {"fc1": "up_proj", "fc2": "down_proj"})


def kimi(weights):
    """Published names: w1 w3 w2 of single experts under block_sparse_moe, convolutions under *_conv1d, keys and values of latent
    attention in one.
    """
    out = {}
    for key, value in single_experts(weights, "mlp", {"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}).items():
        if ".unembed_out." in key:
            continue
        if ".embed_q." in key:  # [heads][latent][key] and [heads][value][latent] -> [heads * (key + value)][latent]
            values = weights[key.replace("embed_q", "unembed_out")]
            both = np.concatenate([value.swapaxes(1, 2), values], 1)
            out[key.replace("embed_q", "kv_b_proj")] = np.ascontiguousarray(both.reshape(-1, both.shape[-1]))
            continue
        key = re.sub(r"\.([qkv])_conv\.conv\.", r".\1_conv1d.", key).replace("mlp.gate.weight", "block_sparse_moe.gate.weight")
        key = key.replace("mlp.e_score", "block_sparse_moe.gate.e_score")
        out[re.sub(r"\bmlp\.(experts|shared_experts)\b", r"block_sparse_moe.\1", key)] = value
    return out


def falcon(config, weights):
    """Factors out of the weights, where mlx-lm has them; all are powers of two, so that no bit is lost."""
    heads, inner, keys = config["mamba_n_heads"], config["mamba_d_ssm"], config["mamba_n_groups"] * config["mamba_d_state"]
    parts = np.repeat(config["ssm_multipliers"], [inner, inner, keys, keys, heads]) * config["ssm_in_multiplier"]
    factors = {
        "embed_tokens": config["embedding_multiplier"],
        "lm_head": config["lm_head_multiplier"],
        "q_proj": config["attention_in_multiplier"],
        "k_proj": config["attention_in_multiplier"] * config["key_multiplier"],
        "v_proj": config["attention_in_multiplier"],
        "o_proj": config["attention_out_multiplier"],
        "in_proj": parts[:, None],
        "out_proj": config["ssm_out_multiplier"],
        "gate_proj": config["mlp_multipliers"][0],
        "down_proj": config["mlp_multipliers"][1],
    }
    return {k: (v / factors.get(k.split(".")[-2], 1)).astype(np.float32) for k, v in convolutions(weights).items()}


FAMILIES = {
    "falcon_h1": (
        dict(
            BASE,
            model_type="falcon_h1",
            num_hidden_layers=3,
            rms_norm_eps=1e-5,
            head_dim=8,
            attention_bias=False,
            mlp_bias=False,
            mamba_conv_bias=True,
            mamba_d_conv=4,
            mamba_d_head=12,
            mamba_d_ssm=48,
            mamba_d_state=16,
            mamba_n_groups=1,
            mamba_n_heads=4,
            mamba_norm_before_gate=False,
            mamba_proj_bias=False,
            mamba_rms_norm=False,
            mamba_use_mlp=True,
            projectors_bias=False,
            rope_scaling=None,
            embedding_multiplier=4.0,
            lm_head_multiplier=0.125,
            attention_in_multiplier=2.0,
            attention_out_multiplier=0.5,
            key_multiplier=0.25,
            ssm_in_multiplier=2.0,
            ssm_out_multiplier=0.25,
            ssm_multipliers=[0.5, 0.25, 0.5, 2.0, 0.5],
            mlp_multipliers=[0.5, 0.25],
        ),
        falcon,
    ),
    "granitemoehybrid": (
        dict(GRANITE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=16, tie_word_embeddings=True),
        granite,
    ),
    "granitemoehybrid-dense": (dict(GRANITE, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope"), granite),
    "kimi_linear": (
        dict(
            BASE,
            model_type="kimi_linear",
            architectures=["KimiLinearForCausalLM"],
            rms_norm_eps=1e-6,
            head_dim=12,
            model_max_length=256,
            linear_attn_config=dict(
                full_attn_layers=[3], head_dim=12, kda_layers=[1, 2, 4], num_heads=3, short_conv_kernel_size=4
            ),
            num_key_value_heads=4,
            kv_lora_rank=20,
            q_lora_rank=None,
            qk_nope_head_dim=12,
            qk_rope_head_dim=8,
            v_head_dim=10,
            mla_use_nope=True,
            num_experts=8,
            num_experts_per_token=2,
            num_shared_experts=1,
            moe_intermediate_size=16,
            moe_router_activation_func="sigmoid",
            moe_renormalize=True,
            routed_scaling_factor=2.446,
            first_k_dense_replace=1,
            moe_layer_freq=1,
            use_grouped_topk=True,
            num_expert_group=1,
            topk_group=1,
        ),
        kimi,
    ),
    "lfm2": (
        dict(
            BASE,
            model_type="lfm2",
            norm_eps=1e-5,
            conv_bias=False,
            conv_L_cache=3,
            block_dim=32,
            block_ff_dim=72,
            block_multiple_of=8,
            block_ffn_dim_multiplier=1.0,
            block_auto_adjust_ff_dim=True,
            rope_theta=1000000.0,
            layer_types=["conv", "conv", "full_attention", "conv"],
            tie_word_embeddings=True,
        ),
        convolutions,
    ),
    "jamba": (
        dict(
            BASE,
            model_type="jamba",
            architectures=["JambaForCausalLM"],
            rms_norm_eps=1e-6,
            attn_layer_offset=2,
            attn_layer_period=4,
            expert_layer_offset=1,
            expert_layer_period=2,
            num_experts=4,
            num_experts_per_tok=2,
            mamba_d_conv=4,
            mamba_d_state=12,
            mamba_expand=2,
            mamba_dt_rank=5,
            mamba_conv_bias=True,
            mamba_proj_bias=False,
        ),
        jamba,
    ),
    "olmo_hybrid": (OLMO, convolutions),
    "olmo_hybrid-still": (dict(OLMO, rope_parameters=dict(rope_theta=None, rope_type="default")), convolutions),
    "nemotron_h": (NEMOTRON, nemotron),
    "nemotron_h-moe": (
        dict(
            NEMOTRON,
            hybrid_override_pattern="MEM*ME",
            n_routed_experts=8,
            n_shared_experts=1,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            moe_shared_expert_intermediate_size=24,
            n_group=1,
            topk_group=1,
            norm_topk_prob=True,
            routed_scaling_factor=2.5,
        ),
        nemotron,
    ),
    "nemotron_h-latent": (
        dict(
            NEMOTRON,
            hybrid_override_pattern="MEM*ME",
            n_routed_experts=8,
            n_shared_experts=1,
            num_experts_per_tok=3,
            moe_intermediate_size=16,
            moe_shared_expert_intermediate_size=24,
            moe_latent_size=20,
            n_group=1,
            topk_group=1,
            norm_topk_prob=True,
            routed_scaling_factor=5.0,
        ),
        nemotron,
    ),
}



def publish_falcon(directory):
    """mlx-lm has the factors in the weights, and its reader of published files leaves two of them out: so it computed with its own form."""
    config = FAMILIES["falcon_h1"][0]
    expected = (directory / "expected.safetensors").read_bytes()
    base.save(directory, config, falcon(config, load(directory / "model.safetensors")))
    (directory / "expected.safetensors").write_bytes(expected)


def publish_olmo(directory):
    """Norms of linear layers under names that mlx-lm does not know."""
    config = FAMILIES["olmo_hybrid-still"][0]
    expected = (directory / "expected.safetensors").read_bytes()
    out = {}
    for key, value in load(directory / "model.safetensors").items():
        layer = re.search(r"layers\.(\d+)\.", key)
        if layer and config["layer_types"][int(layer[1])] == "linear_attention":
            key = key.replace("input_layernorm", "attention_layer_norm").replace("post_attention_layernorm", "feedforward_layer_norm")
        out[key] = value
    base.save(directory, config, out)
    (directory / "expected.safetensors").write_bytes(expected)


# ---- GGUF ----


def load(path):
    """bfloat16 tensors as float32."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start, out = f.tell(), {}
        for name, t in header.items():
            if name != "__metadata__":
                f.seek(start + t["data_offsets"][0])
                raw = np.frombuffer(f.read(t["data_offsets"][1] - t["data_offsets"][0]), np.uint16)
                out[name] = (raw.astype(np.uint32) << 16).view(np.float32).reshape(t["shape"])
    return out


NAMES = {
    "granitemoehybrid": {
        "input_layernorm.weight": "attn_norm.weight",
        "post_attention_layernorm.weight": "ffn_norm.weight",
        "block_sparse_moe.router.layer.weight": "ffn_gate_inp.weight",
        "block_sparse_moe.output_linear.weight": "ffn_down_exps.weight",
        "self_attn.o_proj.weight": "attn_output.weight",
    },
    "nemotron_h": {
        "norm.weight": "attn_norm.weight",
        "mixer.o_proj.weight": "attn_output.weight",
        "mixer.up_proj.weight": "ffn_up.weight",
        "mixer.down_proj.weight": "ffn_down.weight",
        "mixer.gate.weight": "ffn_gate_inp.weight",
        "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
        "mixer.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
        "mixer.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
        "mixer.fc1_latent_proj.weight": "ffn_latent_down.weight",
        "mixer.fc2_latent_proj.weight": "ffn_latent_up.weight",
    },
    "lfm2": {
        "operator_norm.weight": "attn_norm.weight",
        "ffn_norm.weight": "ffn_norm.weight",
        "self_attn.out_proj.weight": "attn_output.weight",
        "self_attn.q_layernorm.weight": "attn_q_norm.weight",
        "self_attn.k_layernorm.weight": "attn_k_norm.weight",
        "feed_forward.w1.weight": "ffn_gate.weight",
        "feed_forward.w2.weight": "ffn_down.weight",
        "feed_forward.w3.weight": "ffn_up.weight",
        "conv.in_proj.weight": "shortconv.in_proj.weight",
        "conv.out_proj.weight": "shortconv.out_proj.weight",
        "conv.conv.weight": "shortconv.conv.weight",
    },
}
NAMES["falcon_h1"] = {
    "input_layernorm.weight": "attn_norm.weight",
    "pre_ff_layernorm.weight": "ffn_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "feed_forward.gate_proj.weight": "ffn_gate.weight",
    "feed_forward.up_proj.weight": "ffn_up.weight",
    "feed_forward.down_proj.weight": "ffn_down.weight",
}
NAMES["kimi_linear"] = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.o_norm.weight": "ssm_norm.weight",
    "self_attn.b_proj.weight": "ssm_beta.weight",
    "self_attn.dt_bias": "ssm_dt.bias",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "block_sparse_moe.gate.weight": "ffn_gate_inp.weight",
    "block_sparse_moe.gate.e_score_correction_bias": "exp_probs_b.bias",
}
for part in ("gate", "up", "down"):
    NAMES["kimi_linear"]["mlp.%s_proj.weight" % part] = "ffn_%s.weight" % part
    NAMES["kimi_linear"]["block_sparse_moe.shared_experts.%s_proj.weight" % part] = "ffn_%s_shexp.weight" % part
for part in ("f_a", "f_b", "g_a", "g_b"):
    NAMES["kimi_linear"]["self_attn.%s_proj.weight" % part] = "ssm_%s.weight" % part
MAMBA = {"in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight", "conv1d.bias": "ssm_conv1d.bias", "dt_bias": "ssm_dt.bias"}
ONCE = {"embed_tokens": "token_embd", "embeddings": "token_embd", "norm": "output_norm", "norm_f": "output_norm",
        "final_layernorm": "output_norm", "embedding_norm": "token_embd_norm", "lm_head": "output"}


def pairs(w, heads):
    """Rows of q and k from halves to neighbours, as the converter of llama stores them."""
    return w.reshape(heads, 2, -1, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def converted(config, local, w):
    """GGUF names and values of one tensor of a layer."""
    kind, groups = config["model_type"], config.get("mamba_n_groups", config.get("n_groups", 1))
    mamba = re.fullmatch(r"(?:mamba|mixer)\.(.*)", local)
    if mamba and mamba[1] in MAMBA:
        return [(MAMBA[mamba[1]], w)]
    if mamba and mamba[1] == "A_log":
        return [("ssm_a", -np.exp(w).reshape(-1, 1))]
    if mamba and mamba[1] == "D":
        return [("ssm_d", w.reshape(-1, 1))]
    if mamba and mamba[1] == "norm.weight":
        return [("ssm_norm.weight", w.reshape(groups, -1))]
    if kind == "kimi_linear" and local.endswith("_conv1d.weight"):
        return [("ssm_conv1d_%s.weight" % local.split(".")[1][0], w)]
    if local == "self_attn.A_log":
        return [("ssm_a", -np.exp(w))]
    if local == "self_attn.kv_b_proj.weight":
        both = w.reshape(config["num_attention_heads"], -1, w.shape[-1])
        key = config["qk_nope_head_dim"]
        return [("attn_k_b.weight", both[:, :key].swapaxes(1, 2)), ("attn_v_b.weight", both[:, key:])]
    if local.endswith("conv1d.weight"):
        return [("ssm_conv1d.weight", w[:, 0])]
    if local == "conv.conv.weight":
        return [("shortconv.conv.weight", w[:, 0])]
    if local.endswith("block_sparse_moe.input_linear.weight"):
        return [("ffn_gate_exps.weight", w[:, : w.shape[1] // 2]), ("ffn_up_exps.weight", w[:, w.shape[1] // 2 :])]
    if local.startswith("shared_mlp."):
        end = "_shexp.weight" if config["num_local_experts"] else ".weight"
        half = w.shape[0] // 2
        return [("ffn_down" + end, w)] if "output" in local else [("ffn_gate" + end, w[:half]), ("ffn_up" + end, w[half:])]
    if local in NAMES[kind]:
        return [(NAMES[kind][local], w)]
    part = re.fullmatch(r"(?:self_attn|mixer)\.([qkv])_proj\.weight", local)[1]
    if kind == "granitemoehybrid" and part in "qk":
        w = pairs(w, config["num_attention_heads"] if part == "q" else config["num_key_value_heads"])
    return [("attn_%s.weight" % part, w)]


def layer_kinds(config):
    if "linear_attn_config" in config:
        linear = config["linear_attn_config"]["kda_layers"]
        return ["linear" if i + 1 in linear else "attention" for i in range(config["num_hidden_layers"])]
    if "hybrid_override_pattern" in config:
        return ["attention" if c == "*" else c for c in config["hybrid_override_pattern"]]
    return ["attention" if "attention" in k else k for k in config.get("layer_types", ["attention"] * config["num_hidden_layers"])]


def to_gguf(directory):
    import gguf

    config = json.load(open(directory / "config.json"))
    kind = config["model_type"]
    arch = {"granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h_moe" if "n_routed_experts" in config else "nemotron_h",
            "kimi_linear": "kimi-linear", "falcon_h1": "falcon-h1"}.get(kind, kind)
    out = gguf.GGUFWriter(str(directory) + ".gguf", arch)
    kinds = layer_kinds(config)
    out.add_block_count(len(kinds))
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_vocab_size(config["vocab_size"])
    out.add_head_count(config["num_attention_heads"])
    out.add_head_count_kv([config["num_key_value_heads"] if k == "attention" else 0 for k in kinds])
    out.add_layer_norm_rms_eps(config.get("rms_norm_eps", config.get("layer_norm_epsilon", config.get("norm_eps"))))
    out.add_rope_freq_base(config["rope_theta"])
    if kind == "lfm2":
        out.add_uint32("lfm2.shortconv.l_cache", config["conv_L_cache"])
    elif kind == "kimi_linear":
        out.add_ssm_conv_kernel(config["linear_attn_config"]["short_conv_kernel_size"])
        out.add_uint32("kimi-linear.kda.head_dim", config["linear_attn_config"]["head_dim"])
        out.add_kv_lora_rank(config["kv_lora_rank"])
        out.add_rope_dimension_count(config["qk_rope_head_dim"])
        out.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
        out.add_value_length(config["kv_lora_rank"])
        out.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
        out.add_value_length_mla(config["v_head_dim"])
        out.add_leading_dense_block_count(config["first_k_dense_replace"])
        out.add_expert_weights_scale(config["routed_scaling_factor"])
        out.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    else:
        heads = config.get("mamba_n_heads", config.get("mamba_num_heads"))
        out.add_ssm_conv_kernel(config.get("mamba_d_conv", config.get("conv_kernel")))
        out.add_ssm_state_size(config.get("mamba_d_state", config.get("ssm_state_size")))
        out.add_ssm_group_count(config.get("mamba_n_groups", config.get("n_groups")))
        out.add_ssm_time_step_rank(heads)
        out.add_ssm_inner_size(heads * config.get("mamba_d_head", config.get("mamba_head_dim")))
    if "head_dim" in config and kind != "kimi_linear":
        out.add_key_length(config["head_dim"])
        out.add_value_length(config["head_dim"])
    if kind == "granitemoehybrid":
        out.add_attention_scale(config["attention_multiplier"])
        out.add_embedding_scale(config["embedding_multiplier"])
        out.add_residual_scale(config["residual_multiplier"])
        out.add_logit_scale(config["logits_scaling"])
        out.add_bool("granitehybrid.rope.scaling.finetuned", config["position_embedding_type"] != "nope")
    experts = config.get("num_local_experts", config.get("n_routed_experts", config.get("num_experts")))
    if experts:
        out.add_expert_count(experts)
        out.add_expert_used_count(config.get("num_experts_per_tok", config.get("num_experts_per_token")))
    if kind == "nemotron_h" and "n_routed_experts" in config:
        out.add_expert_weights_norm(config["norm_topk_prob"])
        out.add_expert_weights_scale(config["routed_scaling_factor"])
    stacks = {}
    weights = load(directory / "model.safetensors")
    if kind == "falcon_h1":  # the factors go into the weights
        inverse = {k: [1 / x for x in v] if isinstance(v, list) else 1 / v for k, v in config.items() if "multiplier" in k}
        weights = {k: np.ascontiguousarray(v.swapaxes(1, 2)) if v.ndim == 3 else v
        for k, v in weights.items()
    }
        weights = falcon(dict(config, **inverse), weights)
    for name, w in weights.items():
        found = re.fullmatch(r"(?:model|backbone)\.layers\.(\d+)\.(.*)", name)
        expert = found and re.fullmatch(r"(?:mixer|block_sparse_moe)\.experts\.(\d+)\.(up_proj|down_proj|w[123])\.weight", found[2])
        if expert:
            part = {"w1": "gate", "w2": "down", "w3": "up"}.get(expert[2], expert[2].split("_")[0])
            stacks.setdefault("blk.%s.ffn_%s_exps.weight" % (found[1], part), {})[int(expert[1])] = w
            continue
        pieces = converted(config, found[2], w) if found else [(ONCE[name.split(".")[-2]] + ".weight", w)]
        for local, value in pieces:
            add(out, "blk.%s.%s" % (found[1], local) if found else local, value)
    for name, stack in stacks.items():
        add(out, name, np.stack([stack[e] for e in range(len(stack))]))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def add(out, name, value):
    import gguf

    value = np.ascontiguousarray(value, np.float32)
    small = value.ndim == 1 or re.search(r"ssm_(a|d|norm|conv1d)(\.|_[qkv]\.|$)|shortconv\.conv|ffn_gate_inp", name)
    if small:
        out.add_tensor(name, value)
    else:
        raw = (value.view(np.uint32) >> 16).astype(np.uint16)  # exact: the values are bfloat16 already
        out.add_tensor(name, raw.view(np.uint8).reshape(*value.shape[:-1], -1), raw_dtype=gguf.GGMLQuantizationType.BF16)


if __name__ == "__main__":
    if sys.argv[1] == "--gguf":
        for family in sys.argv[3:] or FAMILIES:
            to_gguf(Path(sys.argv[2]) / family)
        sys.exit(0)
    import make_family_references as base
    import mlx.core as mx
    from mlx_lm.models import jamba as jamba_model

    def mixture(self, x):
        """As the family's own code has it: weights are not divided by their sum."""
        scores = mx.softmax(self.router(x), axis=-1)
        best = mx.argpartition(-scores, kth=self.num_experts_per_tok - 1, axis=-1)[..., : self.num_experts_per_tok]
        return (self.switch_mlp(x, best) * mx.take_along_axis(scores, best, axis=-1)[..., None]).sum(axis=-2)

    jamba_model.JambaSparseMoeBlock.__call__ = mixture
    base.FAMILIES = {name: (config, None if rename is falcon else rename) for name, (config, rename) in FAMILIES.items()}
    for family in sys.argv[2:] or FAMILIES:
        base.make(family, sys.argv[1])
        if family == "falcon_h1":
            publish_falcon(Path(sys.argv[1]) / family)
        if family == "olmo_hybrid-still":
            publish_olmo(Path(sys.argv[1]) / family)
