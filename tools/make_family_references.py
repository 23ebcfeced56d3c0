#!/usr/bin/env python3
"""Make reference models of families that have none elsewhere: tiny, random weights, logits computed by mlx-lm.

  make_family_references.py OUT_DIR [NAME ...]
  make_family_references.py --published SOURCE OUT_DIR      mimo_v2_flash once more, with the keys of the published config.json

Needs `pip install "mlx[cpu]" mlx-lm`; the tests do not: what it makes is kept in tests/data/models. An entry of FAMILIES gives
OUT_DIR/NAME with
  config.json            as published checkpoints have it
  model.safetensors      bfloat16, under the names of published checkpoints
  expected.safetensors   input_ids int32 [40], logits float32 [40][vocab], greedy_ids int32 [16], greedy_margins float32 [16]
Published names are not always mlx-lm's: `rename` turns the latter into the former, and the saved directory is loaded again through
mlx-lm's own reader of published checkpoints, in float32, so that a wrong name or layout cannot pass unseen. A seed is kept when no greedy
step is near a tie.
"""

import json, os, re, shutil, sys, types
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm import utils
from mlx_lm.models import longcat_flash
from safetensors.numpy import save_file

mx.set_default_device(mx.cpu)
mx.disable_compile()
nn.gelu = nn.gelu_approx  # gemma and starcoder2: the checkpoints' own code has the tanh form
longcat_flash.nn = types.SimpleNamespace(**{**vars(nn), "RMSNorm": lambda n, eps=1e-6: nn.RMSNorm(n, eps)})  # its own code's epsilon
PROMPT, STEPS, MARGIN = 40, 16, 5e-3
BASE = dict(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    rms_norm_eps=1e-6,
    rope_theta=10000.0,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
)
SLIDE = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]


def unstack(weights, stack, single):
    """mlx-lm's stacked experts -> one tensor for each expert. stack: regular expression with the projection as its group."""
    out = {}
    for key, value in weights.items():
        match = re.fullmatch(stack, key)
        if not match:
            out[key] = value
            continue
        for e in range(value.shape[0]):
            out[single.format(*match.groups(), e=e)] = value[e]
    return out


def experts_one_by_one(weights):
    return unstack(weights, r"(.*)\.mlp\.switch_mlp\.(\w+)\.weight", "{0}.mlp.experts.{e}.{1}.weight")


def bailing(weights):
    return {k.replace("mlp.gate.gate_proj.", "mlp.gate."): v for k, v in experts_one_by_one(weights).items()}


def bailing_hybrid(weights):
    return bailing(whole_kv_b(weights))


def exaone_moe(weights):
    return {k.replace("mlp.gate.e_score", "mlp.e_score"): v for k, v in experts_one_by_one(weights).items()}


def afmoe(weights):
    return unstack(weights, r"(.*)\.mlp\.experts\.(\w+)\.weight", "{0}.mlp.experts.{e}.{1}.weight")


def whole_kv_b(weights):
    """mlx-lm's halves of a latent's matrix -> the published one."""
    out = dict(weights)
    for key in weights:
        if key.endswith(".embed_q.weight"):
            value = out.pop(key.replace("embed_q", "unembed_out"))
            pair = np.concatenate([out.pop(key).swapaxes(1, 2), value], 1)
            out[key.replace("embed_q", "kv_b_proj")] = np.ascontiguousarray(pair.reshape(-1, pair.shape[-1]))
    return out


def mistral4(weights):
    """Experts stacked, gate and up side by side."""
    out = {}
    for key, value in whole_kv_b(weights).items():
        if ".switch_mlp.gate_proj." in key:
            up = weights[key.replace("gate_proj", "up_proj")]
            out[key.replace("switch_mlp.gate_proj.weight", "experts.gate_up_proj")] = np.concatenate([value, up], 1)
        elif ".switch_mlp.down_proj." in key:
            out[key.replace("switch_mlp.down_proj.weight", "experts.down_proj")] = value
        elif ".switch_mlp.up_proj." not in key:
            out[key] = value
    return out


def llama4(weights):
    """gate and up side by side, multiplied from the right."""
    out = {}
    for key, value in weights.items():
        if key.endswith(".experts.gate_proj.weight"):
            up = weights[key.replace("gate_proj", "up_proj")]
            out[key.replace("gate_proj.weight", "gate_up_proj")] = np.ascontiguousarray(np.concatenate([value, up], 1).swapaxes(1, 2))
        elif key.endswith(".experts.down_proj.weight"):
            out[key[: -len(".weight")]] = np.ascontiguousarray(value.swapaxes(1, 2))
        elif not key.endswith(".experts.up_proj.weight"):
            out[key] = value
    return out


def step3p5(weights):
    """Norms around 0, the mixture beside the feed-forward's place."""
    out = {}
    for key, value in weights.items():
        for new, old in (
            (".moe.gate.", ".mlp.gate.gate."),
            (".moe.router_bias", ".mlp.gate.router_bias"),
            (".moe.", ".mlp.switch_mlp."),
            (".share_expert.", ".mlp.share_expert."),
        ):
            key = key.replace(old, new)
        out[key] = to_bfloat16(value - 1) if key.endswith("norm.weight") else value
    return out


def longcat(weights):
    """Experts one by one; halves of a latent's matrix in one."""
    return experts_one_by_one(whole_kv_b(weights))


def wrapped(weights):
    """The text model of a multimodal checkpoint."""
    return {
        k.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head"): v
        for k, v in weights.items()
    }


def qwen3_vl_moe(weights):
    """gate and up side by side, multiplied from the right, without .weight."""
    out = {}
    for key, value in wrapped(weights).items():
        if ".switch_mlp.gate_proj." in key:
            up = weights[key.replace("model.language_model.", "language_model.model.").replace("gate_proj", "up_proj")]
            out[key.replace("switch_mlp.gate_proj.weight", "experts.gate_up_proj")] = np.ascontiguousarray(
                np.concatenate([value, up], 1).swapaxes(1, 2)
            )
        elif ".switch_mlp.down_proj." in key:
            out[key.replace("switch_mlp.down_proj.weight", "experts.down_proj")] = np.ascontiguousarray(value.swapaxes(1, 2))
        elif ".switch_mlp.up_proj." not in key:
            out[key] = value
    return out


LLAMA4_TEXT = dict(
    BASE,
    model_type="llama4_text",
    num_hidden_layers=4,
    head_dim=16,
    intermediate_size=24,
    intermediate_size_mlp=48,
    attention_bias=False,
    num_local_experts=4,
    num_experts_per_tok=1,
    interleave_moe_layer_step=2,
    attention_chunk_size=12,
    use_qk_norm=True,
    attn_temperature_tuning=4,
    floor_scale=8,
    attn_scale=0.1,
    rope_scaling=None,
    rope_theta=500000.0,
)
LATENT = dict(kv_lora_rank=16, q_lora_rank=24, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16)
BAILING = dict(
    BASE,
    num_experts=8,
    num_experts_per_tok=2,
    num_shared_experts=1,
    moe_intermediate_size=16,
    norm_topk_prob=True,
    first_k_dense_replace=1,
)
FAMILIES = {
    "afmoe": (
        dict(
            BASE,
            model_type="afmoe",
            num_hidden_layers=4,
            head_dim=16,
            layer_types=SLIDE,
            sliding_window=12,
            num_experts=8,
            num_experts_per_tok=2,
            num_shared_experts=1,
            num_dense_layers=1,
            moe_intermediate_size=16,
            route_norm=True,
            route_scale=2.0,
            score_func="sigmoid",
            mup_enabled=True,
        ),
        afmoe,
    ),
    "deepseek": (
        dict(
            BASE,
            model_type="deepseek",
            num_key_value_heads=4,
            moe_intermediate_size=16,
            n_shared_experts=2,
            n_routed_experts=8,
            num_experts_per_tok=3,
            first_k_dense_replace=1,
            norm_topk_prob=False,
        ),
        experts_one_by_one,
    ),
    "longcat_flash": (
        dict(
            {k: v for k, v in BASE.items() if k not in ("intermediate_size", "num_hidden_layers", "num_key_value_heads")},
            model_type="longcat_flash",
            architectures=["LongcatFlashForCausalLM"],
            attention_method="MLA",
            attention_bias=False,
            num_layers=2,
            ffn_hidden_size=40,
            expert_ffn_hidden_size=16,
            moe_topk=3,
            n_routed_experts=6,
            zero_expert_num=3,
            zero_expert_type="identity",
            **LATENT,
            routed_scaling_factor=2.5,
            mla_scale_q_lora=True,
            mla_scale_kv_lora=True,
            router_bias=False,
            rms_norm_eps=1e-5,
        ),
        longcat,
    ),
    "mellum": (
        dict(
            BASE,
            model_type="mellum",
            num_hidden_layers=4,
            head_dim=16,
            layer_types=SLIDE,
            sliding_window=12,
            num_experts=8,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            norm_topk_prob=True,
            rope_parameters=dict(
                full_attention=dict(
                    rope_type="yarn",
                    rope_theta=500000.0,
                    factor=4.0,
                    original_max_position_embeddings=64,
                    beta_fast=32.0,
                    beta_slow=1.0,
                ),
                sliding_attention=dict(rope_type="default", rope_theta=10000.0),
            ),
        ),
        experts_one_by_one,
    ),
    "mistral4": (
        dict(
            BASE,
            model_type="mistral4",
            num_key_value_heads=4,
            moe_intermediate_size=16,
            n_shared_experts=1,
            n_routed_experts=8,
            num_experts_per_tok=2,
            first_k_dense_replace=0,
            routed_scaling_factor=1.0,
            norm_topk_prob=True,
            n_group=1,
            topk_group=1,
            **LATENT,
            rope_interleave=True,
            rope_parameters=dict(
                type="yarn",
                rope_type="yarn",
                rope_theta=10000.0,
                factor=8.0,
                beta_fast=32.0,
                beta_slow=1.0,
                mscale=1.0,
                mscale_all_dim=1.0,
                llama_4_scaling_beta=0.1,
                original_max_position_embeddings=16,
            ),
        ),
        mistral4,
    ),
    "step3p5": (
        dict(
            BASE,
            model_type="step3p5",
            num_hidden_layers=4,
            num_attention_groups=2,
            head_dim=16,
            layer_types=["full_attention"] + SLIDE[:3],
            sliding_window=12,
            rope_theta=[500000.0, 10000.0, 10000.0, 10000.0],
            partial_rotary_factors=[0.5, 1.0, 1.0, 1.0],
            yarn_only_types=["full_attention"],
            rope_scaling=dict(
                rope_type="llama3", factor=2.0, low_freq_factor=1.0, high_freq_factor=32.0, original_max_position_embeddings=64
            ),
            attention_other_setting=dict(num_attention_heads=6, num_attention_groups=2),
            use_head_wise_attn_gate=True,
            moe_num_experts=8,
            moe_top_k=2,
            moe_intermediate_size=16,
            share_expert_dim=24,
            moe_layers_enum="1,2,3",
            moe_router_scaling_factor=1.75,
            norm_expert_weight=True,
            swiglu_limits=[0.0, 0.0, 0.4, 0.3],
            swiglu_limits_shared=[0.5, 0.0, 0.0, 0.4],
        ),
        step3p5,
    ),
    "stablelm": (
        dict(BASE, model_type="stablelm", use_qkv_bias=True, partial_rotary_factor=0.25, layer_norm_eps=1e-5),
        None,
    ),
    "gemma": (dict(BASE, model_type="gemma", head_dim=16, tie_word_embeddings=True), None),
    "starcoder2": (dict(BASE, model_type="starcoder2", norm_epsilon=1e-5, tie_word_embeddings=True), None),
    "phi": (dict(BASE, model_type="phi", partial_rotary_factor=0.5, layer_norm_eps=1e-5, num_key_value_heads=4), None),
    "cohere": (
        dict(
            BASE,
            model_type="cohere",
            layer_norm_eps=1e-5,
            logit_scale=0.0625,
            use_qk_norm=True,
            layer_norm_bias=False,
            attention_bias=False,
            tie_word_embeddings=True,
        ),
        None,
    ),
    "bailing_moe": (dict(BAILING, model_type="bailing_moe"), bailing),
    "bailing_moe_v2": (
        dict(
            BAILING,
            model_type="bailing_moe",
            architectures=["BailingMoeV2ForCausalLM"],
            use_qk_norm=True,
            partial_rotary_factor=0.5,
            moe_router_enable_expert_bias=True,
            score_function="sigmoid",
            n_group=4,
            topk_group=2,
            routed_scaling_factor=2.5,
        ),
        bailing,
    ),
    "bailing_hybrid": (
        dict(
            BAILING,
            model_type="bailing_hybrid",
            architectures=["BailingMoeV2_5ForCausalLM"],
            num_hidden_layers=5,
            num_key_value_heads=4,
            head_dim=16,
            layer_group_size=3,
            group_norm_size=2,
            n_group=4,
            topk_group=2,
            routed_scaling_factor=2.5,
            score_function="sigmoid",
            **LATENT,
            partial_rotary_factor=0.5,
        ),
        bailing_hybrid,
    ),
    "bailing_moe_linear": (
        dict(
            BAILING,
            model_type="bailing_moe_linear",
            architectures=["BailingMoeLinearV2ForCausalLM"],
            hidden_size=48,
            num_attention_heads=6,
            num_hidden_layers=4,
            layer_group_size=2,
            group_norm_size=3,
            n_group=4,
            topk_group=2,
            routed_scaling_factor=2.5,
            score_function="sigmoid",
            use_qk_norm=True,
            partial_rotary_factor=0.5,
            moe_router_enable_expert_bias=True,
        ),
        bailing,
    ),
    "exaone_moe": (
        dict(
            BASE,
            model_type="exaone_moe",
            num_hidden_layers=4,
            head_dim=16,
            num_experts=8,
            num_experts_per_tok=2,
            num_shared_experts=1,
            moe_intermediate_size=16,
            sliding_window=12,
            layer_types=SLIDE,
            is_moe_layer=[False, True, True, True],
            routed_scaling_factor=2.5,
            norm_topk_prob=True,
            n_group=1,
            topk_group=1,
            rope_theta=1000000.0,
        ),
        exaone_moe,
    ),
    "qwen3_vl": (
        dict(
            model_type="qwen3_vl",
            text_config=dict(
                BASE,
                model_type="qwen3_vl_text",
                head_dim=16,
                rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=[3, 3, 2]),
            ),
        ),
        wrapped,
    ),
    "qwen3_vl_moe": (
        dict(
            model_type="qwen3_vl_moe",
            text_config=dict(
                BASE,
                model_type="qwen3_vl_moe_text",
                head_dim=16,
                num_experts=8,
                num_experts_per_tok=2,
                moe_intermediate_size=24,
                decoder_sparse_step=1,
                mlp_only_layers=[],
                norm_topk_prob=True,
                rope_scaling=dict(rope_type="default", mrope_interleaved=True, mrope_section=[3, 3, 2]),
            ),
        ),
        qwen3_vl_moe,
    ),
    "llama4": (dict(model_type="llama4", vocab_size=128, text_config=LLAMA4_TEXT), llama4),
}


def fill(model, seed, tied):
    """Every part matters: activations of order one, norms and biases off their neutral value, routers that decide clearly."""
    random, new = np.random.default_rng(seed), []
    for name, old in tree_flatten(model.parameters()):
        r = random.standard_normal(old.shape).astype(np.float32)
        if "expert_bias" in name or "correction_bias" in name:
            value = 0.2 * r
        elif "embed" in name:
            value = r * (1.4 / old.shape[-1] ** 0.5 if tied else 1.0)
        elif name.endswith("bias"):
            value = 0.3 * r
        elif "norm" in name:
            value = np.array(old) + 0.15 * r
        else:
            value = (2.5 if "router" in name or ".gate." in name else 1.4) * r / old.shape[-1] ** 0.5
        new.append((name, mx.array(value)))
    model.update(tree_unflatten(new))


def to_bfloat16(value):
    """float32 -> the nearest bfloat16, as float32."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def save(directory, config, weights):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    json.dump(config, open(directory / "config.json", "w"), indent=1)
    mx.save_safetensors(
        str(directory / "model.safetensors"), {k: mx.array(v).astype(mx.bfloat16) for k, v in weights.items()}, {"format": "pt"}
    )


def run(model, ids):
    return np.array(model(mx.array(ids)[None])[0].astype(mx.float32))


def expected(directory, seed):
    model, _ = utils.load_model(directory, strict=True)
    model.update(tree_unflatten([(k, v.astype(mx.float32)) for k, v in tree_flatten(model.parameters())]))
    ids = [int(i) for i in np.random.default_rng(seed + 1000).integers(3, 128, PROMPT)]
    out, more, margins = run(model, ids), [], []
    for _ in range(STEPS):
        last = run(model, ids + more)[-1]
        top = np.sort(last)
        margins.append(top[-1] - top[-2])
        more.append(int(last.argmax()))
    return {
        "input_ids": np.array(ids, np.int32),
        "logits": out,
        "greedy_ids": np.array(more, np.int32),
        "greedy_margins": np.array(margins, np.float32),
    }


def published_mimo(source, out):
    """Same tensors and results; config.json in the form that XiaomiMiMo/MiMo-V2-Flash has, before transformers knew the family."""
    directory = Path(out) / "mimo_v2_flash-published"
    shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(source, directory)
    config = json.load(open(directory / "config.json"))
    rope = config.pop("rope_parameters")
    kinds, mlps, window = config.pop("layer_types"), config.pop("mlp_layer_types"), config.pop("sliding_window")
    config.update(
        hybrid_layer_pattern=[int(k == "sliding_attention") for k in kinds],
        moe_layer_freq=[int(k == "sparse") for k in mlps],
        sliding_window_size=window - 1,
        layernorm_epsilon=config.pop("rms_norm_eps"),
        scoring_func="sigmoid",
        topk_method="noaux_tc",
        rope_theta=rope["full_attention"]["rope_theta"],
        swa_rope_theta=rope["sliding_attention"]["rope_theta"],
        partial_rotary_factor=rope["full_attention"]["partial_rotary_factor"],
        rope_scaling=None,
        routed_scaling_factor=None,
        swa_num_attention_heads=config["num_attention_heads"],
        swa_num_key_value_heads=2 * config["num_key_value_heads"],
        swa_head_dim=config["head_dim"],
        swa_v_head_dim=config["v_head_dim"],
        add_swa_attention_sink_bias=True,
        add_full_attention_sink_bias=False,
    )
    json.dump(config, open(directory / "config.json", "w"), indent=1)


def make(name, out):
    config, rename = FAMILIES[name]
    text = config.get("text_config", config)
    for seed in range(1, 40):
        directory = Path(out) / name
        classes = utils._get_classes(dict(config))
        model = classes[0](classes[1].from_dict(config))
        fill(model, seed, text["tie_word_embeddings"])
        weights = {k: to_bfloat16(v) for k, v in tree_flatten(model.parameters())}
        save(directory, config, rename(weights) if rename else weights)
        result = expected(directory, seed)
        if result["greedy_margins"].min() > MARGIN * np.abs(result["logits"]).max() and len(set(result["greedy_ids"])) > 2:
            save_file(result, directory / "expected.safetensors", metadata={"made": "mlx-lm, float32"})
            print("%s: seed %d, smallest margin %.3g" % (name, seed, result["greedy_margins"].min()))
            return
    sys.exit("%s: no seed gives clear greedy steps" % name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--published"]:
        sys.exit(published_mimo(*sys.argv[2:4]))
    for family in sys.argv[2:] or FAMILIES:
        make(family, sys.argv[1])
