#!/usr/bin/env python3
"""Make reference drafters: a tiny target with random weights and what drafts for it, logits computed by mlx-lm's layers.

  make_draft_references.py OUT_DIR [NAME ...]

Needs mlx, mlx-lm, gguf; the tests do not. Every layer is mlx-lm's; what stands around it (norms, projection, heads) is written here from
the definition of each drafter: prediction layers (MTP) of DeepSeek V3, GLM 4.5, Qwen3 Next and MiMo, EAGLE and EAGLE 3. OUT_DIR/NAME has
  config.json, model.safetensors    the target, with its prediction layer under published names
  drafter/                          the drafter, where it has files of its own
  expected.safetensors              input_ids int32 [40]; draft_logits float32 [39 + 6][vocab]: row p reads the features of position p and
                                    the token of position p + 1; then 6 rows that go on from the target's best next token and from their own
A name with .gguf is its target as GGUF. All arithmetic is float32.
"""

import json, os, shutil, sys
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm import utils
from mlx_lm.models import deepseek_v3, glm4_moe, llama, mimo, qwen3_next
from safetensors.numpy import save_file

from make_family_references import BASE, experts_one_by_one, fill, to_bfloat16

PROMPT, STEPS, MARGIN = 40, 6, 2e-2
MOE = dict(
    BASE,
    n_routed_experts=4,
    num_experts_per_tok=2,
    n_shared_experts=1,
    moe_intermediate_size=16,
    routed_scaling_factor=1.5,
    norm_topk_prob=True,
    n_group=1,
    topk_group=1,
    first_k_dense_replace=1,
    num_nextn_predict_layers=1,
)
CONFIGS = {
    "glm4_moe": dict(
        MOE,
        model_type="glm4_moe",
        head_dim=16,
        partial_rotary_factor=0.5,
        use_qk_norm=True,
        attention_bias=True,
        rope_scaling=None,
        scoring_func="sigmoid",
        topk_method="noaux_tc",
    ),
    "deepseek_v3": dict(
        MOE,
        model_type="deepseek_v3",
        num_key_value_heads=4,
        q_lora_rank=24,
        kv_lora_rank=16,
        qk_nope_head_dim=16,
        qk_rope_head_dim=8,
        v_head_dim=16,
        rope_scaling=None,
        scoring_func="sigmoid",
        topk_method="noaux_tc",
        moe_layer_freq=1,
        attention_bias=False,
    ),
    "qwen3_next": dict(
        BASE,
        model_type="qwen3_next",
        num_hidden_layers=4,
        head_dim=16,
        full_attention_interval=4,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        norm_topk_prob=True,
        partial_rotary_factor=0.5,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        linear_conv_kernel_dim=4,
        rope_scaling=None,
        attention_bias=False,
    ),
    "mimo": dict(BASE, model_type="mimo", num_nextn_predict_layers=1, rope_scaling=None),
    "llama": dict(BASE, model_type="llama", num_hidden_layers=6, rope_scaling=None),
}


def f32(module):
    module.update(tree_unflatten([(k, v.astype(mx.float32)) for k, v in tree_flatten(module.parameters())]))
    return module


def rounded(module, seed):
    fill(module, seed, False)
    module.update(tree_unflatten([(k, mx.array(to_bfloat16(np.array(v)))) for k, v in tree_flatten(module.parameters())]))
    return module


class Around(nn.Module):
    """What a drafter has beside its layers."""

    def __init__(self, h, wide=0, vocab=0, norm=True):
        super().__init__()
        self.token_norm, self.hidden_norm = nn.RMSNorm(h, eps=1e-6), nn.RMSNorm(h, eps=1e-6)
        self.fc = nn.Linear(wide or 2 * h, h, bias=False)
        self.norm = nn.RMSNorm(h, eps=1e-6)
        if vocab:
            self.lm_head = nn.Linear(h, vocab, bias=False)


def causal(x):
    place = mx.arange(x.shape[1])
    return place[:, None] >= place[None]


def prediction(layer, around, embed, head, mimo):
    """mimo: the projection reads features before the token, and features are x as it is before the last norm."""

    def rows(tokens, given, own):
        token, hidden = around.token_norm(embed(tokens)), around.hidden_norm(mx.concatenate([given, own], 1))
        x = around.fc(mx.concatenate([hidden, token] if mimo else [token, hidden], -1))
        x = layer(x, causal(x), None)
        normed = around.norm(x)
        return head(normed), x if mimo else normed

    return rows


def eagle(layer, around, embed, head):
    def rows(tokens, given, own):
        x = around.fc(mx.concatenate([embed(tokens), mx.concatenate([given, own], 1)], -1))
        x = x + layer.self_attn(x, causal(x), None)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return head(x), x

    return rows


def eagle3(layer, around, embed):
    def rows(tokens, given, own):
        x = mx.concatenate([around.fc(given), own], 1)
        pair = mx.concatenate([layer.input_layernorm(embed(tokens)), around.hidden_norm(x)], -1)
        x = x + layer.self_attn(pair, causal(pair), None)
        x = x + layer.mlp(layer.post_attention_layernorm(x))
        return around.lm_head(around.norm(x)), x

    return rows


def chain(rows, ids, best, given, width, numbers):
    """[39 + 6][vocab], smallest margin of the last 6"""
    tokens, own, last, margin = list(ids[1:]) + [best], mx.zeros((1, 0, width)), [], 1e9
    forced = np.array(rows(mx.array(tokens[:-1])[None], given[:, :-1], own)[0][0])
    for _ in range(STEPS):
        logits, x = rows(mx.array(tokens)[None], given, own)
        logits, own = np.array(logits[0, -1]), mx.concatenate([own, x[:, -1:]], 1)
        top = np.sort(logits)
        last.append(logits)
        margin = min(margin, (top[-1] - top[-2]) / np.abs(logits).max())
        tokens.append(int(numbers[logits.argmax()]))
    return np.concatenate([forced, np.stack(last)]), margin


def parts(module, prefix):
    return {prefix + k: np.array(v) for k, v in tree_flatten(module.parameters())}


def published(kind, weights, less_one=()):
    out = experts_one_by_one(weights)
    return {k: v - 1 if k.endswith(tuple(less_one)) else v for k, v in out.items()}


def rename(weights, table):
    for old, new in table:
        weights = {new + k[len(old) :] if k.startswith(old) else k: v for k, v in weights.items()}
    return weights


def save(directory, config, weights):
    os.makedirs(directory, exist_ok=True)
    json.dump(config, open(directory / "config.json", "w"), indent=1)
    whole = {k: v for k, v in weights.items() if np.asarray(v).dtype == np.int64}
    data = {k: mx.array(v).astype(mx.bfloat16) for k, v in weights.items() if k not in whole}
    mx.save_safetensors(str(directory / "model.safetensors"), {**data, **{k: mx.array(v) for k, v in whole.items()}}, {"format": "pt"})


def target_of(kind, seed):
    config = CONFIGS[kind]
    classes = utils._get_classes(dict(config))
    args = classes[1].from_dict(config)
    return config, args, rounded(classes[0](args), seed)


def make_prediction(kind):
    layers = {
        "glm4_moe": glm4_moe.DecoderLayer,
        "deepseek_v3": deepseek_v3.DeepseekV3DecoderLayer,
        "qwen3_next": qwen3_next.Qwen3NextDecoderLayer,
        "mimo": lambda args, i: mimo.TransformerBlock(args),
    }

    def make(directory, seed):
        config, args, model = target_of(kind, seed)
        n = config["num_hidden_layers"]
        layer, around = rounded(layers[kind](args, n - 1 if kind == "qwen3_next" else n), seed + 50), rounded(
            Around(args.hidden_size), seed + 60
        )
        rows = prediction(layer, around, model.model.embed_tokens, model.lm_head, kind == "mimo")
        weights = parts(model, "")
        glm = [("token_norm", "enorm"), ("hidden_norm", "hnorm"), ("fc", "eh_proj"), ("norm", "shared_head.norm")]
        place = "model.layers.%d." % n
        if kind == "mimo":
            place = "model.mtp_layers.0."
            glm = [
                ("token_norm", "token_layernorm"),
                ("hidden_norm", "hidden_layernorm"),
                ("fc", "input_proj"),
                ("norm", "final_layernorm"),
            ]
        if kind == "qwen3_next":
            place = "mtp.layers.0."
            glm = [
                ("token_norm", "mtp.pre_fc_norm_embedding"),
                ("hidden_norm", "mtp.pre_fc_norm_hidden"),
                ("fc", "mtp.fc"),
                ("norm", "mtp.norm"),
            ]
        weights.update(parts(layer, place))
        weights.update(rename(parts(around, ""), [(a, b if kind == "qwen3_next" else place + b) for a, b in glm]))
        if kind == "deepseek_v3":  # published files repeat table and head, and keep kv_b whole
            weights[place + "embed_tokens.weight"] = weights["model.embed_tokens.weight"]
            weights[place + "shared_head.head.weight"] = weights["lm_head.weight"]
            for i in range(n + 1):
                p = "model.layers.%d.self_attn." % i
                k, v = weights.pop(p + "embed_q.weight").swapaxes(1, 2), weights.pop(p + "unembed_out.weight")
                weights[p + "kv_b_proj.weight"] = np.concatenate([k, v], 1).reshape(-1, k.shape[-1])
        if kind == "qwen3_next":  # norms around 0, a convolution's last axis last
            ends = (
                ".input_layernorm.weight",
                ".post_attention_layernorm.weight",
                "model.norm.weight",
                ".q_norm.weight",
                ".k_norm.weight",
                "mtp.norm.weight",
                "mtp.pre_fc_norm_embedding.weight",
                "mtp.pre_fc_norm_hidden.weight",
            )
            weights = {
                k: v - 1 if k.endswith(ends) else np.moveaxis(v, 1, 2) if k.endswith("conv1d.weight") else v for k, v in weights.items()
            }
            weights = {k: to_bfloat16(v) for k, v in weights.items()}
            for module, prefix in ((model, ""), (layer, place)):  # what the rounded files hold
                module.update(
                    tree_unflatten(
                        [
                            (k, mx.array(weights[prefix + k] + 1))
                            for k, _ in tree_flatten(module.parameters())
                            if (prefix + k).endswith(ends)
                        ]
                    )
                )
            for a, b in glm:
                if a != "fc":
                    getattr(around, a).weight = mx.array(weights[b + ".weight"] + 1)
        save(directory, config, experts_one_by_one(weights))
        taps = [n] if kind == "mimo" else None
        return model, model.model, rows, args.hidden_size, np.arange(config["vocab_size"]), taps

    return make


def make_eagle(version):
    def make(directory, seed):
        config, args, model = target_of("llama", seed)
        h, draft_vocab, taps = args.hidden_size, 96, [1, 3, 4]
        layer = llama.TransformerBlock(args)
        if version == 3:
            for name in ("q_proj", "k_proj", "v_proj"):
                setattr(layer.self_attn, name, nn.Linear(2 * h, getattr(layer.self_attn, name).weight.shape[0], bias=False))
        layer, embed = rounded(layer, seed + 50), rounded(nn.Embedding(config["vocab_size"], h), seed + 70)
        around = rounded(Around(h, 3 * h if version == 3 else 0, draft_vocab if version == 3 else 0), seed + 60)
        weights = parts(layer, "midlayer." if version == 3 else "layers.0.")
        weights["fc.weight"] = np.array(around.fc.weight)
        numbers = np.arange(config["vocab_size"])
        draft = dict(config, num_hidden_layers=1, architectures=["LlamaForCausalLM"])
        if version == 3:
            numbers = np.sort(np.random.default_rng(seed).permutation(config["vocab_size"])[:draft_vocab])
            weights.update(
                {
                    "midlayer.hidden_norm.weight": np.array(around.hidden_norm.weight),
                    "norm.weight": np.array(around.norm.weight),
                    "lm_head.weight": np.array(around.lm_head.weight),
                    "d2t": numbers - np.arange(draft_vocab),
                }
            )
            draft.update(
                draft_vocab_size=draft_vocab,
                eagle_config=dict(eagle_aux_hidden_state_layer_ids=taps),
                architectures=["LlamaForCausalLMEagle3"],
            )
            rows = eagle3(layer, around, model.model.embed_tokens)
        else:
            del weights["layers.0.input_layernorm.weight"]
            weights["embed_tokens.weight"] = np.array(embed.weight)
            rows = eagle(layer, around, embed, model.lm_head)
        save(directory, config, parts(model, ""))
        save(directory / "drafter", draft, weights)
        return model, model.model, rows, h, numbers, taps if version == 3 else None

    return make


MAKERS = {k + "-mtp": make_prediction(k) for k in ("glm4_moe", "deepseek_v3", "qwen3_next", "mimo")}
MAKERS.update({"llama-eagle": make_eagle(1), "llama-eagle3": make_eagle(3)})


def features_of(inner, ids, taps):
    if not taps:
        return inner(mx.array(ids)[None])
    h, kept = inner.embed_tokens(mx.array(ids)[None]), []
    for i, layer in enumerate(inner.layers):
        if i in taps:
            kept.append(h)
        h = layer(h, causal(h), None)
    if len(inner.layers) in taps:
        kept.append(h)
    return mx.concatenate(kept, -1)


def make(out, name):
    for seed in range(1, 60):
        directory = Path(out) / name
        shutil.rmtree(directory, ignore_errors=True)
        model, inner, rows, width, numbers, taps = MAKERS[name](directory, seed)
        ids = [int(i) for i in np.random.default_rng(seed + 1000).integers(3, 128, PROMPT)]
        best = np.sort(np.array(model(mx.array(ids)[None])[0, -1]))
        token = int(np.array(model(mx.array(ids)[None])[0, -1]).argmax())
        logits, margin = chain(rows, ids, token, features_of(inner, ids, taps), width, numbers)
        if margin > MARGIN and (best[-1] - best[-2]) / np.abs(best).max() > MARGIN:
            save_file(
                {"input_ids": np.array(ids, np.int32), "draft_logits": logits.astype(np.float32)},
                directory / "expected.safetensors",
                metadata={"made": "mlx-lm layers, float32"},
            )
            print("%s: seed %d, smallest margin %.3g" % (name, seed, margin))
            return
    sys.exit("%s: no seed gives clear steps" % name)


def stack_experts(tensors, layers, experts):
    for i in range(layers):
        for p in ("gate_proj", "up_proj", "down_proj"):
            names = ["model.layers.%d.mlp.experts.%d.%s.weight" % (i, e, p) for e in range(experts)]
            if names[0] in tensors:
                tensors["model.layers.%d.mlp.experts.%s.weight" % (i, p)] = np.stack([tensors.pop(n) for n in names])


def qwen3_next_for_gguf(c, tensors):
    """Qwen3 Next by llama.cpp's rules: 1 added to norms, rates as they act, q, k, v and z of all heads apart, the prediction layer last."""
    n, heads, values = c["num_hidden_layers"], c["linear_num_key_heads"], c["linear_num_value_heads"]
    k, v = c["linear_key_head_dim"], values // heads * c["linear_value_head_dim"]
    around = {"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}
    out = {}
    for key, value in tensors.items():
        key = key.replace("mtp.layers.0.", "model.layers.%d." % n)
        if key.startswith("mtp."):
            key = "model.layers.%d.%s.weight" % (n, around[key.split(".")[1]])
        if value.ndim == 1 and "norm" in key and "linear_attn.norm" not in key:
            value = value + 1
        if key.endswith("A_log"):
            value = -np.exp(value)
        if key.endswith("conv1d.weight"):
            value = value.reshape(len(value), -1)
        if key.endswith("in_proj_qkvz.weight"):
            by_head = value.reshape(heads, -1, value.shape[-1])
            pieces = [x.reshape(-1, value.shape[-1]) for x in np.split(by_head, [k, 2 * k, 2 * k + v], 1)]
            out[key.replace("in_proj_qkvz", "in_proj_z")] = pieces[3]
            key, value = key.replace("in_proj_qkvz", "in_proj_qkv"), np.concatenate(pieces[:3])
        out[key.replace("dt_bias", "dt_proj.bias")] = value
    return out


def to_gguf(out, name):
    """A target with its prediction layer under GGUF's names."""
    import gguf

    source = Path(out) / name[: -len(".gguf")]
    c = json.load(open(source / "config.json"))
    qwen, n = c["model_type"] == "qwen3_next", c["num_hidden_layers"]
    experts = c["num_experts"] if qwen else c["n_routed_experts"]
    w = gguf.GGUFWriter(Path(out) / name, "qwen3next" if qwen else "glm4moe")
    w.add_block_count(n + 1)
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_rope_dimension_count(int(c["head_dim"] * c["partial_rotary_factor"]))
    w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_expert_count(experts)
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if qwen:
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
        w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
        w.add_ssm_state_size(c["linear_key_head_dim"])
        w.add_ssm_group_count(c["linear_num_key_heads"])
        w.add_ssm_time_step_rank(c["linear_num_value_heads"])
        w.add_ssm_inner_size(c["linear_num_value_heads"] * c["linear_value_head_dim"])
        w.add_uint32("qwen3next.full_attention_interval", c["full_attention_interval"])
    else:
        w.add_expert_shared_count(c["n_shared_experts"])
        w.add_leading_dense_block_count(c["first_k_dense_replace"])
        w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_weights_norm(c["norm_topk_prob"])
        w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_nextn_predict_layers(1)
    w.add_string("tokenizer.ggml.model", "none")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3NEXT if qwen else gguf.MODEL_ARCH.GLM4_MOE, n + 1)
    nextn = {"eh_proj", "enorm", "hnorm", "shared_head.norm"}
    tensors = {k: np.array(v.astype(mx.float32)) for k, v in mx.load(str(source / "model.safetensors")).items()}
    if qwen:
        tensors = qwen3_next_for_gguf(c, tensors)
    stack_experts(tensors, n + 1, experts)
    for k, v in tensors.items():
        k = k.replace("e_score_correction_bias", "e_score_correction.bias")
        part = k[len("model.layers.%d." % n) : -len(".weight")]
        new = (
            "blk.%d.nextn.%s.weight" % (n, part.replace(".", "_"))
            if part in nextn
            else names.get_name(k, try_suffixes=(".weight", ".bias"))
        )
        assert new, k
        if v.ndim == 1 or "ffn_gate_inp" in new or "conv1d" in new:
            w.add_tensor(new, v.astype(np.float32))
        else:
            w.add_tensor(new, gguf.quants.quantize(v, gguf.GGMLQuantizationType.BF16), raw_dtype=gguf.GGMLQuantizationType.BF16)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    shutil.copy(source / "expected.safetensors", Path(out) / (name[: -len(".gguf")] + ".expected.safetensors"))


if __name__ == "__main__":
    for made in sys.argv[2:] or list(MAKERS) + ["glm4_moe-mtp.gguf", "qwen3_next-mtp.gguf"]:
        to_gguf(sys.argv[1], made) if made.endswith(".gguf") else make(sys.argv[1], made)
