#!/usr/bin/env python3
"""Write tests/data/tokenizers: small tokenizers, one feature each, and what Hugging Face's tokenizers library makes of texts.

cases.json      "models": vocabularies and merges; "tokenizers": name -> {model, options, parts, cases}. A test puts parts and
                options into the model's file. A case is {text, ids} with ids_special, decoded, decoded_skip where they differ
                (decoded from text, decoded_skip from decoded, ids_special from ids).
bytes.gguf      the byte-level model with the pre-tokenizer named qwen2
spm.gguf        the SentencePiece model: pieces, scores, types
spm.model       the same as SentencePiece writes it

make_tokenizer_cases.py [FOLDER]      needs the PyPI packages tokenizers 0.23, sentencepiece, gguf, numpy
"""

import base64
import json
import os
import struct
import sys
import tempfile

import gguf
import numpy
import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TRAINING = [
    "The quick brown fox jumps over the lazy dog. It's what they'd said, isn't it? We'll see; you're right, I've 1234 of them.",
    "def main(argc, argv):\n    return [x for x in range(10) if x % 2 == 0]\n\n\n# comment\n\tprint('Hello world')\r\n",
    "Führer naïve café déjà vu — “quoted” … Zażółć gęślą jaźń. Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "日本語のテキストと中文文本，以及한국어 문장입니다。 नमस्ते दुनिया สวัสดีชาวโลก مرحبا بالعالم שלום עולם 😊👍 12.5% 3,141,592 x=y+z",
    "hello hello world world yesterday yesterday foo bar foobar the the the then there their    indented        more   spaces",
]
TEXTS = [
    "",
    " ",
    "  ",
    "Hello world",
    " Hello",
    "Hello  world ",
    "It's what they'D said, isn't it?",
    "12345 3,141,592 1",
    "a\n\n b\r\n\r\n  c\t\td   ",
    "Führer Fu\u0308hrer café cafe\u0301",
    "日本語のテキスト。中文 文本",
    "한국어 각 \u1100\u1161\u11a8 ㅋㅋ",
    "नमस्ते कि ก็ำ",
    "مرحبا שלום ЁЖ Ωσς ǅ",
    "😊👨\u200d👩\u200d👧🇩🇪 \U0001fae8",
    "x=y+z; // #!? <|a|> [b] {c}",
    "foo <mask> bar",
    "foobar foo, Foo_foo",
    "YESTERDAY Yesterday yesterday",
    "<s>G</s> world<unk>x",
    "Hello</s> world",
    "<a><ab><abc> <|é|>",
    "\u00a0\u3000\u2028\x0b\x85x",
    "▁▁a▁ b",
    "<0x41><0xE4>",
    "ﬁ ① ｶﾞ ² ½ Ⅷ ﷺ Å",
    "İſKß",
    "\ufffd\x00\ufeff\u200b",
    "<pad>text<eos>",
    "<|im_start|>user\nHi<|im_end|>\n",
    "The quick brown fox jumps over the lazy dog. " * 3,
    "x" * 40,
    "_-_-" * 8 + "\n" * 9 + " " * 11,
]

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTE_LEVEL_REGEX = dict(BYTE_LEVEL, use_regex=True)
SPACE_DECODER = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
STRIP_DECODER = {"type": "Sequence", "decoders": SPACE_DECODER + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
HAN_UPPER, HAN_LOWER = UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]"
FRONT = r"[^\r\n\p{L}\p{N}]?"
EXPRESSIONS = {
    "qwen2": CONTRACTION + "|" + FRONT + r"\p{L}+|\p{N}|" + TAIL,
    "llama3": CONTRACTION + "|" + FRONT + r"\p{L}+|\p{N}{1,3}|" + TAIL,
    "gpt4o": FRONT
    + UPPER
    + "*"
    + LOWER
    + "+"
    + CONTRACTION
    + "?|"
    + FRONT
    + UPPER
    + "+"
    + LOWER
    + "*"
    + CONTRACTION
    + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi_k2": r"[\p{Han}]+|"
    + FRONT
    + HAN_UPPER
    + "*"
    + HAN_LOWER
    + "+"
    + CONTRACTION
    + "?|"
    + FRONT
    + HAN_UPPER
    + "+"
    + HAN_LOWER
    + "*"
    + CONTRACTION
    + r"?|\p{N}{1,3}|"
    + TAIL,
    "possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "groups_of_three": r"\d{1,3}(?=(?:\d{3})*\b)",
    "posix": r"[[:punct:]]+|[[:alpha:]&&[^a-f]]+|\h+",
}


def split(expression, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


def sequence(*stages):
    return {"type": "Sequence", "pretokenizers": list(stages)}


def added(first, contents, **flags):
    token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [dict(token, id=first + i, content=c, **flags) for i, c in enumerate(contents)]


def template(before, behind, ids):
    item = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [item(b) for b in before] + [{"Sequence": {"id": "A", "type_id": 0}}] + [item(b) for b in behind],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {n: {"id": n, "ids": [ids[n]], "tokens": [n]} for n in before + behind},
    }


def train_bytes():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.train_from_iterator(
        TRAINING, trainers.BpeTrainer(vocab_size=640, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    )
    model = json.loads(tokenizer.to_str())["model"]
    return {"type": "BPE", "vocab": model["vocab"], "merges": model["merges"]}


def train_spm():
    """Merges of characters, in the order of their scores, as converted SentencePiece models have them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    texts = [t for t in TRAINING if t.isascii()]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=220, show_progress=False))
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    pieces = ["".join(m) for m in merges] + ["▁" * n for n in (2, 3, 4)]
    pieces = list(dict.fromkeys(pieces))
    tokens = (
        ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)] + pieces + sorted(set("".join(texts + pieces)) - set(" \n\t\r"))
    )
    vocab = {t: i for i, t in enumerate(dict.fromkeys(tokens))}
    scores = {t: -float(i) for t, i in vocab.items() if i >= 259}
    pairs = [
        (-scores[p], -len(p[:i]), -len(p[i:]), p[:i], p[i:])
        for p in scores
        for i in range(1, len(p))
        if p[:i] in scores and p[i:] in scores
    ]
    return {"type": "BPE", "vocab": vocab, "merges": [[a, b] for _, _, _, a, b in sorted(pairs)]}, scores


def train_unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TRAINING, trainers.UnigramTrainer(vocab_size=260, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>", show_progress=False)
    )
    vocab = json.loads(tokenizer.to_str())["model"]["vocab"]
    return {"type": "Unigram", "unk_id": 0, "vocab": vocab + [["<0x%02X>" % b, 0.0] for b in range(256)]}


def charsmap():
    """A small precompiled map: a few sequences, one of which becomes nothing."""
    rules = {"ﬁ": "fi", "①": "1", "ｶﾞ": "ガ", "e\u0301": "é", "\u200b": "", "İ": "I", "Ａ": "A", "½": "1/2"}
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/rules.tsv", "w") as f:
            for source, target in rules.items():
                f.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in source), " ".join("%X" % ord(c) for c in target)))
        with open(folder + "/text.txt", "w") as f:
            f.write("\n".join(TRAINING))
        sentencepiece.SentencePieceTrainer.train(
            input=folder + "/text.txt",
            model_prefix=folder + "/m",
            vocab_size=300,
            hard_vocab_limit=False,
            normalization_rule_tsv=folder + "/rules.tsv",
            minloglevel=2,
        )
        data = open(folder + "/m.model", "rb").read()
    for number, value in fields(data):
        if number == 3:
            return next(v for n, v in fields(value) if n == 2)


def fields(data):
    """Fields of a protocol buffer: (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            at += size
            yield key >> 3, data[at - size : at]
        else:
            size = 4 if key & 7 == 5 else 8
            at += size
            yield key >> 3, data[at - size : at]


def pattern_tokenizers():
    out = {name: dict(pre_tokenizer=sequence(split(e), BYTE_LEVEL)) for name, e in EXPRESSIONS.items()}
    out["gpt2"] = dict(pre_tokenizer=BYTE_LEVEL_REGEX)
    out["gpt2_prefix_space"] = dict(pre_tokenizer=dict(BYTE_LEVEL_REGEX, add_prefix_space=True))
    out["deepseek_v3"] = dict(
        pre_tokenizer=sequence(
            split(r"\p{N}{1,3}"),
            split("[一-龥぀-ゟ゠-ヿ]+"),
            split(
                "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
            ),
            BYTE_LEVEL,
        )
    )
    out["falcon"] = dict(
        pre_tokenizer=sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            BYTE_LEVEL_REGEX,
            {"type": "Digits", "individual_digits": False},
            split("[0-9][0-9][0-9]"),
        )
    )
    out["digits"] = dict(pre_tokenizer=sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL_REGEX))
    out["whitespace"] = dict(pre_tokenizer=sequence({"type": "Whitespace"}, BYTE_LEVEL))
    out["bert"] = dict(pre_tokenizer=sequence({"type": "BertPreTokenizer"}, BYTE_LEVEL))
    out["delimiter"] = dict(
        pre_tokenizer=sequence({"type": "CharDelimiterSplit", "delimiter": "o"}, {"type": "WhitespaceSplit"}, BYTE_LEVEL)
    )
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            out["%s%s" % (behavior.lower(), "_inverted" if invert else "")] = dict(
                pre_tokenizer=sequence(split(r"\s|'|o", behavior, invert), BYTE_LEVEL)
            )
    out["empty_matches"] = dict(pre_tokenizer=sequence(split("o*|(?=l)", "MergedWithNext"), BYTE_LEVEL))
    return out


def normalizer_tokenizers():
    norms = {kind.lower(): {"type": kind} for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")}
    norms["strip"] = {"type": "Strip", "strip_left": True, "strip_right": True}
    norms["replace"] = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "},
            {"type": "Replace", "pattern": {"String": "hello"}, "content": "foo"},
        ],
    }
    norms["charsmap"] = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()}
    return {"norm_" + name: dict(normalizer=n, pre_tokenizer=BYTE_LEVEL_REGEX) for name, n in norms.items()}


def added_tokenizers(size):
    contents = ["<mask>", "foo", "yesterday", "<a>", "<ab>", "<abc>", "<|é|>", "<|im_start|>", "<|im_end|>"]
    flags = {
        "plain": {},
        "lstrip": {"lstrip": True},
        "rstrip": {"rstrip": True},
        "both": {"lstrip": True, "rstrip": True},
        "single_word": {"single_word": True},
        "normalized": {"normalized": True, "special": False},
    }
    out = {"added_" + name: dict(pre_tokenizer=BYTE_LEVEL_REGEX, added_tokens=added(size, contents, **f)) for name, f in flags.items()}
    out["added_normalized"]["normalizer"] = {"type": "Lowercase"}
    ids = {"<|im_start|>": size + 7, "<|im_end|>": size + 8}
    for t in (out["added_plain"], out["added_both"]):
        t["post_processor"] = {
            "type": "Sequence",
            "processors": [
                {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                template(["<|im_start|>"], ["<|im_end|>"], ids),
            ],
        }
    out["added_rstrip"]["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["<|im_end|>", size + 8],
        "cls": ["<|im_start|>", size + 7],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    return out


def spm_tokenizers():
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, space]}
    specials = added(0, ["<unk>", "<s>", "</s>"])
    bos = template(["<s>"], [], {"<s>": 1})
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    base = dict(added_tokens=specials, decoder=STRIP_DECODER, post_processor=bos)
    out = {
        "spm_prepend": dict(base, normalizer=prepend),
        "spm_no_prefix": dict(base, normalizer=space, decoder={"type": "Sequence", "decoders": SPACE_DECODER}),
    }
    for scheme in ("first", "always", "never"):
        for cut in (True, False):
            out["spm_%s%s" % (scheme, "_split" if cut else "")] = dict(
                base,
                pre_tokenizer=dict(METASPACE, prepend_scheme=scheme, split=cut),
                decoder=dict(METASPACE, prepend_scheme=scheme, split=cut),
            )
    out = {name: (t, options) for name, t in out.items()}
    out["spm_unknown"] = (out["spm_prepend"][0], dict(options, byte_fallback=False))
    out["spm_unknown_apart"] = (out["spm_prepend"][0], dict(options, byte_fallback=False, fuse_unk=False))
    return out


def unigram_tokenizers():
    base = dict(
        added_tokens=added(0, ["<unk>", "<s>", "</s>"]),
        pre_tokenizer=METASPACE,
        decoder=METASPACE,
        post_processor=template([], ["</s>"], {"</s>": 2}),
    )
    cleaned = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Strip", "strip_left": False, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
        ],
    }
    return {"unigram": (base, {}), "unigram_bytes": (dict(base, normalizer=cleaned), {"byte_fallback": True})}


def document(model, parts, options):
    defaults = {"added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    plain = {
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        **defaults,
        **parts,
        "model": {**({} if model["type"] == "Unigram" else plain), **model, **options},
    }


def cases(tokenizer):
    out = []
    for text in TEXTS:
        ids, special = tokenizer.encode(text, add_special_tokens=False).ids, tokenizer.encode(text).ids
        decoded, skipped = tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)
        case = {"text": text, "ids": ids}
        if special != ids:
            case["ids_special"] = special
        if decoded != text:
            case["decoded"] = decoded
        if skipped != decoded:
            case["decoded_skip"] = skipped
        if "\ufffd" not in text and "\ufffd" in decoded:
            case.pop("decoded", None)
            case["no_decode"] = True
        out.append(case)
    return out


def write_ggufs(folder, data, scores):
    def start(name):
        writer = gguf.GGUFWriter(os.path.join(folder, name), "llama")
        writer.add_uint32("llama.block_count", 1)
        return writer

    def finish(writer):
        writer.add_tensor("x", numpy.zeros((32,), dtype=numpy.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def by_id(vocab):
        return [t for t, _ in sorted(vocab.items(), key=lambda kv: kv[1])]

    model = data["models"]["bytes"]
    tokens = by_id(model["vocab"])
    writer = start("bytes.gguf")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens + ["<|im_start|>", "<|im_end|>", "<think>"])
    writer.add_token_types([1] * len(tokens) + [3, 3, 4])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in model["merges"]])
    writer.add_bos_token_id(len(tokens))
    writer.add_eos_token_id(len(tokens) + 1)
    writer.add_add_bos_token(False)
    finish(writer)
    tokens = by_id(data["models"]["spm"]["vocab"])
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    writer = start("spm.gguf")
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([scores.get(t, 0.0) for t in tokens])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    finish(writer)

    def number(value):
        out = b""
        while value > 127:
            out += bytes([value & 127 | 128])
            value >>= 7
        return out + bytes([value])

    def block(field, data):
        return number(field << 3 | 2) + number(len(data)) + data

    proto = b"".join(
        block(1, block(1, t.encode()) + b"\x15" + struct.pack("<f", scores.get(t, 0.0)) + b"\x18" + bytes([k]))
        for t, k in zip(tokens, types)
    )
    proto += block(2, b"\x18\x02" + number(35 << 3) + b"\x01") + block(3, b"\x18\x01\x20\x00")
    open(os.path.join(folder, "spm.model"), "wb").write(proto)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../tests/data/tokenizers")
    os.makedirs(folder, exist_ok=True)
    spm, scores = train_spm()
    data = {"models": {"bytes": train_bytes(), "spm": spm, "unigram": train_unigram()}, "tokenizers": {}}
    size = len(data["models"]["bytes"]["vocab"])
    plain = {**pattern_tokenizers(), **normalizer_tokenizers(), **added_tokenizers(size)}
    entries = {name: ("bytes", dict(parts, decoder=BYTE_LEVEL), {}) for name, parts in plain.items()}
    entries["ignore_merges"] = (
        "bytes",
        dict(pre_tokenizer=sequence({"type": "WhitespaceSplit"}, BYTE_LEVEL), decoder=BYTE_LEVEL),
        {"ignore_merges": True},
    )
    entries["no_decoder"] = ("bytes", dict(pre_tokenizer=BYTE_LEVEL_REGEX), {})
    # The GGUF's own tokenizer, for the test that compares the two.
    gguf_added = added(size, ["<|im_start|>", "<|im_end|>"]) + added(size + 2, ["<think>"], special=False)
    entries["gguf_bytes"] = (
        "bytes",
        dict(
            normalizer={"type": "NFC"},
            pre_tokenizer=sequence(split(EXPRESSIONS["qwen2"]), BYTE_LEVEL),
            decoder=BYTE_LEVEL,
            added_tokens=gguf_added,
        ),
        {},
    )
    entries.update({name: ("spm", parts, options) for name, (parts, options) in spm_tokenizers().items()})
    entries.update({name: ("unigram", parts, options) for name, (parts, options) in unigram_tokenizers().items()})
    for name, (model, parts, options) in entries.items():
        tokenizer = Tokenizer.from_str(json.dumps(document(data["models"][model], parts, options)))
        data["tokenizers"][name] = {"model": model, "options": options, "parts": parts, "cases": cases(tokenizer)}
    with open(os.path.join(folder, "cases.json"), "w") as f:
        f.write('{"models": %s,\n"tokenizers": {\n' % json.dumps(data["models"], ensure_ascii=False, separators=(",", ":")))
        rows = [
            "%s: %s" % (json.dumps(name), json.dumps(t, ensure_ascii=False, separators=(",", ":")))
            for name, t in data["tokenizers"].items()
        ]
        f.write(",\n".join(rows) + "\n}}\n")
    write_ggufs(folder, data, scores)


main()
