"""Model files made byte by byte, right ones and wrong ones, and running the program on them. Standard library only."""

import array
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, DATA = "", ""  # set by main()

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)  # GGUF value types
PACK = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(kind, value):
    if kind == TEXT:
        return text(value)
    if kind == ARRAY:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(value_bytes(element, item) for item in items)
    return struct.pack(PACK[kind], value)


class Gguf:
    """keys: [(key, type, value)], tensors: [[name, dims fastest first, type, data, offset or None]]; all may be nonsense."""

    def __init__(self, keys=(), tensors=()):
        self.keys, self.tensors = list(keys), [list(t) for t in tensors]
        self.magic, self.version, self.alignment, self.tail = b"GGUF", 3, 32, b""

    def set(self, key, kind, value):
        self.keys = [k for k in self.keys if k[0] != key] + [(key, kind, value)]
        return self

    def tensor(self, name):
        return next(t for t in self.tensors if t[0] == name)

    def bytes(self):
        head = self.magic + struct.pack("<IQQ", self.version, len(self.tensors), len(self.keys))
        for key, kind, value in self.keys:
            head += (
                text(key) + struct.pack("<I", kind) + (value if isinstance(value, bytes) and kind != TEXT else value_bytes(kind, value))
            )
        data = b""
        for name, dims, kind, content, offset in self.tensors:
            data += bytes(-len(data) % self.alignment)
            at = len(data) if offset is None else offset
            head += text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
            head += struct.pack("<IQ", kind & 0xFFFFFFFF, at)
            data += content
        return head + bytes(-len(head) % self.alignment) + data + self.tail


def floats(count, seed, scale=0.2):
    generator = random.Random(seed)
    return array.array("f", (generator.uniform(-scale, scale) for _ in range(count))).tobytes()


def toy_tensors(hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, vocab=32, head_dim=None, experts=0):
    """Names of GGUF with [out, in] shapes."""
    dim = head_dim or hidden // heads
    shapes = {"token_embd": (vocab, hidden), "output": (vocab, hidden), "output_norm": (hidden,)}
    for layer in range(layers):
        block = f"blk.{layer}."
        shapes.update(
            {
                block + "attn_norm": (hidden,),
                block + "attn_q": (heads * dim, hidden),
                block + "attn_k": (kv_heads * dim, hidden),
                block + "attn_v": (kv_heads * dim, hidden),
                block + "attn_output": (hidden, heads * dim),
                block + "ffn_norm": (hidden,),
            }
        )
        if experts:
            shapes.update(
                {
                    block + "ffn_gate_inp": (experts, hidden),
                    block + "ffn_gate_exps": (experts, ffn, hidden),
                    block + "ffn_up_exps": (experts, ffn, hidden),
                    block + "ffn_down_exps": (experts, hidden, ffn),
                }
            )
        else:
            shapes.update({block + "ffn_gate": (ffn, hidden), block + "ffn_up": (ffn, hidden), block + "ffn_down": (hidden, ffn)})
    return shapes


def toy(arch="llama", **sizes):
    """A small random model in F32 that runs."""
    shape = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "ffn": 96, "vocab": 32, "head_dim": None, "experts": 0, **sizes}
    keys = [
        ("general.architecture", TEXT, arch),
        (arch + ".block_count", U32, shape["layers"]),
        (arch + ".context_length", U32, 512),
        (arch + ".embedding_length", U32, shape["hidden"]),
        (arch + ".feed_forward_length", U32, shape["ffn"]),
        (arch + ".attention.head_count", U32, shape["heads"]),
        (arch + ".attention.head_count_kv", U32, shape["kv_heads"]),
        (arch + ".attention.layer_norm_rms_epsilon", F32, 1e-5),
        (arch + ".rope.freq_base", F32, 10000.0),
    ]
    if shape["head_dim"]:
        keys.append((arch + ".attention.key_length", U32, shape["head_dim"]))
        keys.append((arch + ".attention.value_length", U32, shape["head_dim"]))
    if shape["experts"]:
        keys += [(arch + ".expert_count", U32, shape["experts"]), (arch + ".expert_used_count", U32, 2)]
    tensors = []
    for index, (name, dims) in enumerate(toy_tensors(**shape).items()):
        count = 1
        for d in dims:
            count *= d
        content = array.array("f", [1.0] * count).tobytes() if name.endswith("norm") else floats(count, index)
        tensors.append([name + ".weight", list(reversed(dims)), 0, content, None])
    return Gguf(keys, tensors)


def safetensors(entries, header=None, metadata=None, tail=b""):
    """entries: {name: (dtype, shape, bytes)}. header: the JSON text instead of the right one."""
    table, data = {}, b""
    if metadata:
        table["__metadata__"] = metadata
    for name, (dtype, shape, content) in entries.items():
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    encoded = header if header is not None else json.dumps(table).encode()
    return struct.pack("<Q", len(encoded)) + encoded + data + tail


def read_safetensors(path):
    with open(path, "rb") as file:
        whole = file.read()
    length = struct.unpack("<Q", whole[:8])[0]
    table = json.loads(whole[8 : 8 + length])
    table.pop("__metadata__", None)
    return {
        name: (t["dtype"], t["shape"], whole[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]])
        for name, t in table.items()
    }


class Run:
    """One run of the program. memory_mib: what it may have of private memory, touched or not, beyond which allocations fail."""

    def __init__(self, arguments, environment=None, timeout=120, memory_mib=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_DATA, (memory_mib << 20, memory_mib << 20))

        try:
            done = subprocess.run(
                [PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=timeout,
                env={**os.environ, **(environment or {})},
                preexec_fn=limit if memory_mib else None,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{arguments} runs for more than {timeout} s") from error
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr.decode(errors="replace")


class Case(unittest.TestCase):
    """A folder of its own, and what is expected of runs."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-cases-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content.bytes() if isinstance(content, Gguf) else content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def data(self, name):
        return os.path.join(DATA, name)

    def copy_model(self, name, to="model", **config_changes):
        """A directory of tests/data/models with other values in config.json; None takes a key out."""
        shutil.copytree(self.data("models/" + name), self.path(to))
        self.change_config(to, **config_changes)
        return self.path(to)

    def change_config(self, to="model", **changes):
        with open(os.path.join(self.path(to), "config.json")) as file:
            config = json.load(file)
        for key, value in changes.items():
            if value is None:
                config.pop(key, None)
            else:
                config[key] = value
        with open(os.path.join(self.path(to), "config.json"), "w") as file:
            json.dump(config, file)
        return config

    def ids(self, ids):
        return self.write("ids.safetensors", safetensors({"input_ids": ("I32", [len(ids)], array.array("i", ids).tobytes())}))

    def logits(self, model, ids, *flags):
        """f32 array of all positions, one after the other."""
        out = self.path("logits.safetensors")
        if os.path.exists(out):
            os.remove(out)
        run = Run(["logits", model, "--ids", self.ids(ids), "--out", out, "--quiet", *flags])
        self.assertEqual(run.code, 0, run.err)
        return array.array("f", read_safetensors(out)["logits"][2])

    def inspect(self, model, *flags):
        run = Run(["inspect", model, "--json", *flags])
        self.assertEqual(run.code, 0, run.err)
        return json.loads(run.out)

    def generate(self, model, ids, *flags, memory_mib=None):
        return Run(
            ["generate", model, "--ids", self.ids(ids), "--print-ids", "--temp", "0", "--ignore-eos", "--quiet", *flags],
            memory_mib=memory_mib,
        )

    def works(self, model):
        run = self.generate(model, [1, 2, 3], "--max-tokens", "4")
        self.assertEqual(run.code, 0, run.err)
        return run.out

    def refused(self, model, *texts, memory_mib=24):
        """Ends with code 1, one line with all the texts, nothing on standard output, in little memory; inspect does not crash either."""
        run = self.generate(model, [1, 2, 3], "--max-tokens", "4", memory_mib=memory_mib)
        self.assertIn(run.code, (1, 2), run.err)
        self.assertEqual(run.out, b"")
        self.assertEqual(run.err.count("\n"), 1, run.err)
        for part in texts:
            self.assertIn(part.lower(), run.err.lower())
        looked = Run(["inspect", model])
        self.assertIn(looked.code, (0, 1, 2), looked.err)
        return run.err


def main():
    """PROGRAM DATA [names of tests]"""
    global PROGRAM, DATA
    PROGRAM, DATA = sys.argv[1:3]
    os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
