#!/usr/bin/env python3
"""Writes tests/data/variants.json: what transformers computes from the weights of reference models when config.json says something else.

usage  make_variants.py OUT.json          (in the root of the repository; needs torch and transformers)

A case names a directory of tests/data/models, keys that its config.json gets (`set`) or loses (`unset`), and either some logits of the last
position of 32 fixed tokens, computed in float64 from the weights as saved, or words of the refusal.
"""

import json
import os
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = "tests/data/models"
LOGITS, TOKENS = 12, 32
FLAGS = ["layer_types", "use_sliding_window"]
WINDOW = {"use_sliding_window": True, "sliding_window": 7}
LINEAR = {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}}
LONG = {"type": "longrope", "factor": 4.0, "short_factor": [1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0]}
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}}
# name, directory, set, unset
CASES = [
    ("a scaling that is given once holds in window layers", "mistral-window", LINEAR, ["rope_scaling", "rope_theta"]),
    ("windows from a layer on, scaled", "qwen2", {**WINDOW, "max_window_layers": 1}, ["layer_types"]),
    ("windows in every other layer below one", "qwen2_moe", {**WINDOW, "max_window_layers": 2}, ["layer_types"]),
    ("windows in all layers", "qwen3_moe", {**WINDOW, "max_window_layers": 2}, []),
    ("windows in layers that do not rotate", "smollm3", WINDOW, ["layer_types"]),
    ("windows from a layer on without a flag", "dots1", {"sliding_window": 7, "max_window_layers": 1}, FLAGS),
    ("a tied head with a bias", "phi", {"tie_word_embeddings": True}, []),
    ("rotation that is not named", "granitemoehybrid", {"position_embedding_type": None}, []),
    ("rotation that is named", "granitemoehybrid", {"position_embedding_type": "rope"}, []),
    ("dynamic scaling begins at the model's context", "qwen2", DYNAMIC, ["rope_scaling"]),
    ("rotation of gemma 4 when nothing is said", "gemma4", {}, ["rope_parameters", "rope_scaling", "rope_theta"]),
    ("no rotation in full layers alone", "exaone_moe", {"layer_types": ["full_attention"] * 4}, []),
    ("the stretch that long rope says", "phi3-longrope", {"rope_scaling": LONG, "partial_rotary_factor": 0.75}, ["rope_parameters"]),
    ("groups that are not asked for", "deepseek_v2-grouped", {"topk_method": "greedy"}, []),
    ("an embedding that is not scaled", "afmoe", {"global_attn_every_n_layers": 2}, ["mup_enabled", "layer_types"]),
    ("no windows without a list", "mellum", {}, ["layer_types"]),
    ("the usual number of groups", "granitemoehybrid", {}, ["mamba_n_groups"]),
    ("a list of layers without their number", "nemotron_h-moe", {}, ["num_hidden_layers", "norm_topk_prob"]),
    ("the usual scale of experts", "deepseek_v3", {}, ["routed_scaling_factor"]),
]
REFUSED = [
    ("bounded queries", "olmoe", {"clip_qkv": 1.5}, "clip_qkv"),
    ("a window in a family without", "minimax", {"sliding_window": 8}, "sliding_window"),
    ("another network of the same name", "bailing_hybrid", {"kda_lower_bound": -5.0}, "kda_lower_bound"),
]


def changed(directory, keys, unset):
    with open(os.path.join(MODELS, directory, "config.json")) as f:
        config = json.load(f)
    for key in unset:
        config.pop(key, None)
    return {**config, **keys}


def logits(directory, keys, unset):
    weights = load_file(os.path.join(MODELS, directory, "model.safetensors"))
    if keys.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)  # transformers would not tie two that differ
    with tempfile.TemporaryDirectory() as place:
        save_file({k: v.float().contiguous() for k, v in weights.items()}, place + "/model.safetensors", metadata={"format": "pt"})
        with open(place + "/config.json", "w") as f:
            json.dump(changed(directory, keys, unset), f)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            place, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager")
    ids = [3 + i * 37 % 100 for i in range(TOKENS)]
    return model.eval().double()(torch.tensor([ids]), use_cache=False).logits[0].float()


def main():
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    cases = []
    for name, directory, keys, unset in CASES:
        rows = logits(directory, keys, unset)
        wanted = [round(float(x), 5) for x in rows[-1, :LOGITS]]
        largest = round(float(rows.abs().max()), 4)
        cases.append({"name": name, "model": directory, "set": keys, "unset": unset, "largest": largest, "last": wanted})
    for name, directory, keys, words in REFUSED:
        cases.append({"name": name, "model": directory, "set": keys, "unset": [], "refused": words})
    with open(sys.argv[1], "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


main()
