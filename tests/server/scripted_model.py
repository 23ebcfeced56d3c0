"""Writes small models that say what a test wants: a llama whose embedding is one-hot and whose head holds one successor for each token.

Attention and feed-forward add nothing, so the next token depends on the last one alone and is certain at any usual temperature. The
tokenizer is byte-level with the 256 bytes and without merges; pieces of scripts are tokens of their own, which no text encodes to. The
model is real: a Hugging Face directory of config.json, model.safetensors and tokenizer.json, run by the real program.
"""
import array
import json
import os
import struct

END = "</s>"


def byte_characters():
    """GPT-2's visible character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + extra)
            extra += 1
    return table


class Vocabulary:
    """Bytes, then pieces of text (str or bytes), then control tokens: a tokenizer numbers added tokens behind its vocabulary."""

    def __init__(self, pieces, specials):
        self.characters = byte_characters()
        self.ids = {self.characters[byte]: byte for byte in range(256)}
        for piece in pieces:
            if piece not in specials:
                self.ids.setdefault(self.spell(piece), len(self.ids))
        self.added = {text: len(self.ids) + place for place, text in enumerate(specials)}
        self.count = len(self.ids) + len(self.added)

    def spell(self, piece):
        return "".join(self.characters[byte] for byte in (piece.encode() if isinstance(piece, str) else piece))

    def find(self, piece):
        return self.added[piece] if piece in self.added else self.ids[self.spell(piece)]


def write_tensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + 4 * len(data)]}
        offset += 4 * len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            data.tofile(file)


def zeros(*shape):
    size = 1
    for extent in shape:
        size *= extent
    return list(shape), array.array("f", bytes(4 * size))


def ones(count):
    return [count], array.array("f", [1.0] * count)


def weights(count, hidden, successors):
    embedding, head = zeros(count, hidden), zeros(count, hidden)
    for token in range(count):
        embedding[1][token * hidden + token] = 1.0
        head[1][successors.get(token, successors[None]) * hidden + token] = 1.0
    layer = {"input_layernorm.weight": ones(hidden), "post_attention_layernorm.weight": ones(hidden)}
    for name, rows in {"q": hidden, "k": hidden // 2, "v": hidden // 2, "o": hidden}.items():
        layer[f"self_attn.{name}_proj.weight"] = zeros(rows, hidden)
    for name, shape in {"gate": (32, hidden), "up": (32, hidden), "down": (hidden, 32)}.items():
        layer[f"mlp.{name}_proj.weight"] = zeros(*shape)
    return {"model.embed_tokens.weight": embedding, "lm_head.weight": head, "model.norm.weight": ones(hidden),
            **{"model.layers.0." + name: tensor for name, tensor in layer.items()}}


def default_template(scripts):
    """What was said between marks, then the word that begins the script of the last message's text."""
    choices = "".join("{% elif messages[-1].content == '" + name + "' %}<|go-" + name + "|>" for name in scripts)
    return "{% for m in messages %}<|turn|>{{ m.role }} {{ m.content }}{% endfor %}{% if false %}" + choices + "{% endif %}"


def write(folder, scripts, specials=(), template=None, starts=None, config=None, generation_config=None, tokenizer_config=None):
    """
    scripts: name -> pieces; the control token "<|go-NAME|>" begins one (or the token starts[NAME]), and behind its last piece comes END
    unless that is an end itself. specials: further control tokens. The others replace parts of the files; a template "" is left out.
    """
    pieces = [*(starts or {}).values(), *[piece for script in scripts.values() for piece in script]]
    vocabulary = Vocabulary(pieces, [END, "<|turn|>", *[f"<|go-{name}|>" for name in scripts], *specials])
    successors = {None: vocabulary.added[END]}
    for name, script in scripts.items():
        token = vocabulary.find((starts or {}).get(name, f"<|go-{name}|>"))
        for piece in [*script, END]:
            following = vocabulary.find(piece)
            assert token not in successors or successors[token] == following, f"{name}: the token before {piece!r} has another successor"
            successors[token] = following
            token = following
    hidden = (vocabulary.count + 63) // 64 * 64
    files = {
        "config.json": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": hidden,
                        "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
                        "head_dim": hidden // 4, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
                        "tie_word_embeddings": False, "vocab_size": vocabulary.count, "eos_token_id": vocabulary.added[END],
                        **(config or {})},
        "tokenizer.json": {"version": "1.0", "normalizer": None, "post_processor": None,
                           "added_tokens": [{"id": id, "content": text, "special": True, "single_word": False, "lstrip": False,
                                             "rstrip": False, "normalized": False} for text, id in vocabulary.added.items()],
                           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
                           "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
                           "model": {"type": "BPE", "vocab": vocabulary.ids, "merges": []}},
        "tokenizer_config.json": {"eos_token": END, **(tokenizer_config or {})},
    }
    if generation_config:
        files["generation_config.json"] = generation_config(vocabulary)
    os.makedirs(folder, exist_ok=True)
    for name, value in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
    if template != "":
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(template or default_template(scripts))
    write_tensors(os.path.join(folder, "model.safetensors"), weights(vocabulary.count, hidden, successors))
    return folder
