#!/usr/bin/env python3
"""How far rounded activations take a model from the exact pass over the same weights, and how far llama.cpp goes.

usage   kl.py SLUICE MODEL.gguf...
prints  a Markdown table: per model the mean Kullback-Leibler divergence KL(exact || x) over eight texts of 256 tokens (kl_texts.txt),
        the largest of a position, and how often the likeliest token is the same; for sluice, for sluice with --activations f32 a second
        time (another instruction set: 0 shows that there is one exact pass), and for llama.cpp if llama_cpp can be imported.

The exact pass is `sluice logits --activations f32`: float32 over decoded weights, 1e-7 from float64 (results/kl.md). Needs numpy,
safetensors, and for the comparison llama-cpp-python.
"""

import os
import subprocess
import sys
import tempfile

import numpy
from safetensors.numpy import load_file, save_file

TOKENS = 256


def log_softmax(x):
    x = x.astype(numpy.float64)
    x -= x.max(-1, keepdims=True)
    return x - numpy.log(numpy.exp(x).sum(-1, keepdims=True))


def divergence(exact, other):
    p, q = log_softmax(exact), log_softmax(other)
    return (numpy.exp(p) * (p - q)).sum(-1)


def texts(sluice, model):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kl_texts.txt")
    with open(path, encoding="utf-8") as file:
        for text in file.read().split("\n\n"):
            ids = [int(i) for i in subprocess.check_output([sluice, "tokenize", model, "--text", text.strip()]).split()]
            assert len(ids) >= TOKENS, f"{len(ids)} tokens: {text[:40]}"
            yield ids[:TOKENS]


def sluice_logits(sluice, model, ids, *flags):
    with tempfile.TemporaryDirectory() as folder:
        save_file({"input_ids": numpy.array(ids, numpy.int32)}, folder + "/ids")
        subprocess.check_call([sluice, "logits", model, "--ids", folder + "/ids", "--out", folder + "/out", "--quiet", *flags])
        return load_file(folder + "/out")["logits"]


def llama_logits(model):
    try:
        import llama_cpp
    except ImportError:
        return None
    llama = llama_cpp.Llama(model, n_ctx=TOKENS, n_batch=TOKENS, n_ubatch=TOKENS, logits_all=True, verbose=False)

    def run(ids):
        llama.reset()
        llama.eval(ids)
        return numpy.array(llama.scores[:TOKENS])

    return run


def main():
    sluice, models = sys.argv[1], sys.argv[2:]
    print("| model | engine | mean KL | of single texts | largest | same top token |\n|---|---|---|---|---|---|")
    for model in models:
        engines = {
            "sluice": lambda ids, m=model: sluice_logits(sluice, m, ids),
            "sluice f32, ref": lambda ids, m=model: sluice_logits(sluice, m, ids, "--activations", "f32", "--isa", "ref"),
        }
        llama = llama_logits(model)
        if llama:
            engines["llama.cpp"] = llama
        all_ids = list(texts(sluice, model))
        exact = [sluice_logits(sluice, model, ids, "--activations", "f32") for ids in all_ids]
        for name, run in engines.items():
            results = [run(ids) for ids in all_ids]
            kl = numpy.array([divergence(e, r) for e, r in zip(exact, results)])
            same = numpy.mean([e.argmax(-1) == r.argmax(-1) for e, r in zip(exact, results)])
            means = kl.mean(-1)
            print(
                f"| {os.path.basename(model)} | {name} | {kl.mean():.2e} | {means.min():.2e} to {means.max():.2e} | {kl.max():.2e} | "
                f"{100 * same:.1f} % |",
                flush=True,
            )


main()
