#!/usr/bin/env python3
"""Writes tests/data/rope_cases.json: cosines and sines of rotations as transformers' modeling_rope_utils computes them, in float64.

usage  make_rope_cases.py OUT.json

Needs transformers and numpy, not torch: the few functions of torch that those formulas call are numpy's here, and always in float64, so
that what is compared is the formula and not the rounding of its steps.
"""

import json
import math
import sys
import types

import numpy

HEAD, ORIGINAL, THETA = 16, 64, 10000.0


class Tensor(numpy.ndarray):
    def to(self, *unused, **also_unused):
        return self

    def float(self):
        return self


def wrap(x):
    return numpy.asarray(x, numpy.float64).view(Tensor)


torch = types.ModuleType("torch")
torch.int64 = torch.float = torch.float32 = None
torch.Tensor = Tensor
torch.arange = lambda *a, **k: wrap(numpy.arange(*a))
torch.tensor = lambda x, **k: wrap(x)
torch.where = lambda c, a, b: wrap(numpy.where(c, a, b))
torch.clamp = lambda x, low, high: wrap(numpy.clip(x, low, high))
torch.maximum = lambda a, b: wrap(numpy.maximum(a, b))
torch.cat = lambda parts, **k: wrap(numpy.concatenate(parts))
torch.zeros = lambda n, **k: wrap(numpy.zeros(n))


def formulas():
    from transformers import modeling_rope_utils

    modeling_rope_utils.torch = torch
    return modeling_rope_utils.ROPE_INIT_FUNCTIONS


class Config:
    """What the formulas ask of a configuration."""

    def __init__(self, parameters, maximum, partial):
        self.rope_parameters = {"rope_theta": THETA, **({"partial_rotary_factor": partial} if partial else {}), **parameters}
        self.hidden_size, self.num_attention_heads, self.head_dim, self.max_position_embeddings = 64, 4, HEAD, maximum

    def standardize_rope_params(self):
        pass


FACTORS = {"short_factor": [1 + 0.05 * i for i in range(HEAD // 2)], "long_factor": [1 + 0.5 * i for i in range(HEAD // 2)]}
# name, parameters, longest context, rotated part
CASES = [
    ("default", {"rope_type": "default"}, 256, None),
    ("partial", {"rope_type": "default"}, 256, 0.5),
    ("linear", {"rope_type": "linear", "factor": 4.0}, 256, None),
    ("dynamic", {"rope_type": "dynamic", "factor": 4.0}, 64, None),
    ("yarn", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL}, 256, None),
    (
        "yarn with betas",
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": ORIGINAL, "beta_fast": 20.0, "beta_slow": 2.0},
        512,
        None,
    ),
    (
        "yarn, not rounded",
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": ORIGINAL, "truncate": False},
        512,
        None,
    ),
    (
        "yarn of Kimi K2.5",
        {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 1.0},
        262144,
        None,
    ),
    (
        "yarn with mscale",
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL, "mscale": 0.7, "mscale_all_dim": 1.0},
        256,
        None,
    ),
    (
        "yarn with a factor of attention",
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL, "attention_factor": 1.5},
        256,
        None,
    ),
    (
        "llama3",
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
        512,
        None,
    ),
    (
        "llama3, partial",
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": ORIGINAL,
        },
        512,
        0.5,
    ),
    ("longrope", {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": ORIGINAL, **FACTORS}, 256, None),
]


def main():
    init, out = formulas(), []
    for name, parameters, maximum, partial in CASES:
        original = parameters.get("original_max_position_embeddings", ORIGINAL)
        contexts = [original, 4 * original + 1] if parameters["rope_type"] in ("longrope", "dynamic") else [4 * original + 1]
        for context in contexts:
            config = Config(dict(parameters), maximum, partial)
            if parameters["rope_type"] == "default":
                dim = int(HEAD * (partial or 1))
                frequencies, magnitude = 1.0 / THETA ** (numpy.arange(0, dim, 2) / dim), 1.0
            else:
                frequencies, magnitude = init[parameters["rope_type"]](config, "cpu", seq_len=context)
            positions = [p for p in (0, 1, original - 1, original, 4 * original) if p < context]
            out.append(
                {
                    "name": name,
                    "parameters": parameters,
                    "theta": THETA,
                    "partial": partial,
                    "max_position_embeddings": maximum,
                    "head_dim": HEAD,
                    "context": context,
                    "positions": positions,
                    "cos": [[float(magnitude) * math.cos(p * float(f)) for f in frequencies] for p in positions],
                    "sin": [[float(magnitude) * math.sin(p * float(f)) for f in frequencies] for p in positions],
                }
            )
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in out) + "\n]\n")


main()
