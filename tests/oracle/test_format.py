"""Blobs against FORMAT.md: smol_reader.py, written from that document alone, must find in a blob
exactly what the checkpoint holds, quantized by the document's rule in numpy.

    SMOL_BUILD=build python tests/oracle/test_format.py

prints the worked example of FORMAT.md anew."""

import ctypes
import json
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from blobs import opens, read_blob, reads, xxh3
from internal import BUILD, OK, UNSUPPORTED, Error, lib, open_writer
from smol_reader import (
    BF16,
    BITS,
    F32,
    INT4,
    INT5,
    INT6,
    INT8,
    MAX_FRONT,
    NO_TOKEN,
    Blob,
)
from structs import c_struct

pytestmark = pytest.mark.quick

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo/model"
DTYPES = {"f32": F32, "bf16": BF16, "int8": INT8, "int6": INT6, "int5": INT5, "int4": INT4}
OUTER = {INT6: INT8, INT5: INT8, INT4: INT6}  # the embedding and the output layer of a mix


def convert(source, target, dtype, *options):
    subprocess.run(
        [BUILD / "smolconv", "--quiet", "--dtype", dtype, *options, source, target], check=True
    )
    return target


# --- the document's rules in numpy ----------------------------------------------------------------


def bf16_from_f32(values):
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def f32_from_bf16(halves):
    return (halves.astype(np.uint32) << 16).view(np.float32)


def quantize(values):
    """FORMAT.md 10.2: steps and scales (one per element, like its weight)."""
    rows, cols = values.shape
    groups = -(-cols // 32)
    padded = np.zeros((rows, groups * 32), np.float32)
    padded[:, :cols] = values
    padded = padded.reshape(rows, groups, 32)
    amax = np.abs(padded).max(axis=2)
    quotient = amax / np.float32(127)
    scale = quotient.astype(np.float16)
    low = scale.astype(np.float32) < quotient
    scale[low] = np.nextafter(scale[low], np.float16(np.inf))
    scale[(amax > 0) & (scale == 0)] = np.float16(2.0**-24)
    wide = scale.astype(np.float32)[:, :, None]
    steps = np.rint(np.divide(padded, wide, out=np.zeros_like(padded), where=wide > 0))
    assert np.abs(steps).max() <= 127
    steps = steps.astype(np.int8).reshape(rows, -1)[:, :cols]
    return steps, np.repeat(scale, 32, axis=1)[:, :cols]


# --- checkpoints ----------------------------------------------------------------------------------

NAMES = {
    "embed": "model.embed_tokens.weight",
    "final_norm": "model.norm.weight",
    "output": "lm_head.weight",
    "attn_norm": "input_layernorm.weight",
    "attn_q": "self_attn.q_proj.weight",
    "attn_k": "self_attn.k_proj.weight",
    "attn_v": "self_attn.v_proj.weight",
    "attn_o": "self_attn.o_proj.weight",
    "attn_q_bias": "self_attn.q_proj.bias",
    "attn_k_bias": "self_attn.k_proj.bias",
    "attn_v_bias": "self_attn.v_proj.bias",
    "attn_o_bias": "self_attn.o_proj.bias",
    "mlp_norm": "post_attention_layernorm.weight",
    "mlp_gate": "mlp.gate_proj.weight",
    "mlp_up": "mlp.up_proj.weight",
    "mlp_down": "mlp.down_proj.weight",
    "mlp_gate_bias": "mlp.gate_proj.bias",
    "mlp_up_bias": "mlp.up_proj.bias",
    "mlp_down_bias": "mlp.down_proj.bias",
}


def source_name(name):
    _, layer, role = ["", "", name] if "." not in name else name.split(".")
    return f"model.layers.{layer}.{NAMES[role]}" if layer else NAMES[role]


def read_safetensors(path):
    """Every tensor as float32 without torch, which need not be loaded for this."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    out = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = raw[8 + length + begin : 8 + length + end]
        kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]]
        values = np.frombuffer(data, kind)
        values = f32_from_bf16(values) if entry["dtype"] == "BF16" else values.astype(np.float32)
        out[name] = values.reshape(entry["shape"])
    return out


def default_levels(dtype):
    """FORMAT.md 10.2."""
    if dtype == INT4:
        return (-127, -97, -75, -58, -43, -31, -20, -9, 0, 9, 20, 31, 45, 61, 80, 104)
    t = np.arange(0, 2, 2.0 ** (1 - BITS[dtype])) - 1
    return tuple(np.floor(127 * (0.6 * t + 0.4 * t**3) + 0.5).astype(int))


def check_coded(tensor, wanted):
    """Each weight has a nearest level, and no scale that spreads a group over all levels is better."""
    assert tensor.levels == default_levels(tensor.dtype), tensor.name
    levels = np.array(tensor.levels, np.float64)
    codes, scales = tensor.steps_and_scales(*wanted.shape)
    scales, wanted = scales.astype(np.float64), wanted.astype(np.float64)
    error = np.abs(wanted - levels[codes] * scales)
    least = np.abs(wanted[:, :, None] - levels * scales[:, :, None]).min(axis=2)
    assert np.all(error <= least + np.abs(scales) * 1e-4), tensor.name
    for start in range(0, wanted.shape[1], 32):
        group = wanted[:, start : start + 32]
        whole = np.maximum(group.max(axis=1) / levels[-1], -group.min(axis=1) / -levels[0])
        whole = np.float16(np.maximum(whole, 2.0**-24)).astype(np.float64)[:, None, None]
        plain = np.square(np.abs(group[:, :, None] - levels * whole).min(axis=2)).sum(axis=1)
        found = np.square(error[:, start : start + 32]).sum(axis=1)
        zeros = np.square(group).sum(axis=1)
        assert np.all(found <= np.minimum(plain, zeros) * 1.0001), tensor.name
        assert not codes[:, start : start + 32][scales[:, start] == 0].any(), tensor.name


def check_dtypes(blob, dtype):
    for name, tensor in blob.tensors.items():
        outer = name in ("embed", "output")
        want = F32 if tensor.is_vector else OUTER.get(dtype, dtype) if outer else dtype
        assert tensor.dtype == want, name


def check_tensors(blob, source):
    """Every tensor of the blob is what the source's rule makes of it, to the bit."""
    used = set()
    for name, tensor in blob.tensors.items():
        alias = name == "output" and blob.model["tied_embeddings"]
        wanted = source[source_name("embed" if alias else name)]
        used.add(source_name("embed" if alias else name))
        assert [1, *wanted.shape][-2:] == [tensor.rows, tensor.cols], name
        if tensor.dtype > INT8:
            check_coded(tensor, wanted)
            continue
        if tensor.dtype == INT8:
            steps, scales = tensor.steps_and_scales(tensor.rows, tensor.cols)
            want_steps, want_scales = quantize(wanted)
            assert np.array_equal(scales.view(np.uint16), want_scales.view(np.uint16)), name
            assert np.array_equal(steps, want_steps), name
            continue
        if tensor.dtype == BF16:
            wanted = f32_from_bf16(bf16_from_f32(wanted))
        values = np.ascontiguousarray(tensor.values())
        assert np.array_equal(values.view(np.uint32), wanted.view(np.uint32)), name
    assert used | {"lm_head.weight"} >= set(source)


# --- the bundled model ----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=DTYPES)
def demo(request, demo_blob):
    blob = read_blob(demo_blob(request.param, "--calibration", "none"))
    assert blob.model["dtype"] == min(DTYPES[request.param], INT8)
    check_dtypes(blob, DTYPES[request.param])
    return blob


@pytest.mark.sample(2)
def test_the_bundled_models_tensors_are_the_checkpoints_by_the_documented_rule(demo):
    check_tensors(demo, read_safetensors(DEMO / "model.safetensors"))
    demo.check_padding()


def test_the_bundled_models_hyper_parameters_are_the_configurations(demo):
    config = json.loads((DEMO / "config.json").read_text())
    model = demo.model
    assert model["n_layers"] == config["num_hidden_layers"]
    assert model["hidden_size"] == config["hidden_size"]
    assert model["intermediate_size"] == config["intermediate_size"]
    assert model["n_heads"] == config["num_attention_heads"]
    assert model["n_kv_heads"] == config["num_key_value_heads"]
    assert model["head_dim"] == config["head_dim"]
    assert model["vocab_size"] == config["vocab_size"]
    assert model["context_length"] == config["max_position_embeddings"]
    assert model["bos_id"] == config["bos_token_id"]
    assert model["tied_embeddings"] == config["tie_word_embeddings"]
    assert np.float32(model["rms_norm_eps"]) == np.float32(config["rms_norm_eps"])
    assert model["rope_theta"] == config["rope_theta"]
    exponents = np.arange(0, model["head_dim"], 2, dtype=np.float32) / np.float32(model["head_dim"])
    powers = np.power(model["rope_theta"], exponents.astype(np.float64)).astype(np.float32)
    assert np.array_equal(demo.inv_freq, np.float32(1) / powers)
    assert 0 in demo.stop


def test_the_provenance_names_every_source_with_size_and_digest(demo):
    lines = demo.provenance.splitlines()
    assert lines[0].startswith("converter: smolconv ") and lines[1].startswith("dtype: ")
    for line in lines[2:]:
        name, size, digest = re.fullmatch(
            r"source: (\S+), (\d+) bytes, xxh3 ([0-9a-f]{16})", line
        ).groups()
        data = (DEMO / name).read_bytes()
        assert int(size) == len(data) and int(digest, 16) == xxh3(data)
    assert demo.provenance.endswith("\n")


def test_the_bundled_tokenizers_tables_are_the_files(demo):
    model = json.loads((DEMO / "tokenizer.json").read_text())["model"]
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(b): b for b in printable}
    others = [b for b in range(256) if b not in printable]
    alphabet |= {chr(256 + i): b for i, b in enumerate(others)}
    tables, vocab = demo.tokenizer, model["vocab"]
    for text, token in vocab.items():
        if all(c in alphabet for c in text):
            assert tables.bytes_of(token) == bytes(alphabet[c] for c in text)
    for character, byte in alphabet.items():
        assert tables.byte_tokens[byte] == vocab.get(character, NO_TOKEN)
    for rank, (left, right) in enumerate(model["merges"]):
        slot = tables.find(vocab[left], vocab[right])
        assert tables.merges[slot][2:] == (rank, vocab[left + right])
    assert sum(m[0] != NO_TOKEN for m in tables.merges) == len(model["merges"])
    for c in "aZé中7٣ \t\xa0.!😀":
        kind = 1 if c.isalpha() else 2 if c.isnumeric() else 4 if c.isspace() else 0
        assert tables.classes(ord(c)) & 7 == kind, c


# --- random checkpoints ---------------------------------------------------------------------------


def write_tokenizer(folder, n_tokens):
    alphabet = [chr(b) for b in range(33, 127)][:n_tokens]
    pre_tokenizer = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    model = {"type": "BPE", "vocab": {c: i for i, c in enumerate(alphabet)}, "merges": []}
    spec = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(spec))


def write_safetensors(path, tensors):
    """name -> (dtype name, array of its elements, uint16 for BF16)."""
    header, data = {}, b""
    for name, (dtype, values) in tensors.items():
        raw = values.tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def random_values(rng, shape):
    """Weights of every size: some groups tiny, some zero, some halfway between two steps."""
    values = rng.standard_normal(shape).astype(np.float32)
    flat = values.reshape(-1)
    kinds = rng.integers(0, 8, -(-flat.size // 32)).repeat(32)[: flat.size]
    flat[kinds == 0] = 0
    flat[kinds == 1] *= np.float32(2.0**-20)  # f16's subnormal scales
    flat[kinds == 2] *= np.float32(2.0**-130)  # f32's own subnormals
    flat[kinds == 3] = np.rint(flat[kinds == 3] * 8) / np.float32(2)  # ties
    return values


def random_checkpoint(folder, rng):
    """Odd shapes on purpose; returns the tensors as float32."""
    kv, per_kv, pairs = (int(rng.integers(1, n)) for n in (4, 4, 9))
    heads, head_dim = kv * per_kv, 2 * pairs
    hidden, inter = int(rng.integers(1, 100)), int(rng.integers(1, 140))
    vocab, layers = int(rng.integers(3, 90)), int(rng.integers(1, 4))
    tied, attention_bias, mlp_bias = (bool(b) for b in rng.integers(0, 2, 3))
    config = dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu",
        hidden_size=hidden, intermediate_size=inter, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim, vocab_size=vocab,
        max_position_embeddings=77, rms_norm_eps=1e-6, rope_theta=5000.0, bos_token_id=None,
        eos_token_id=[2, 1], tie_word_embeddings=tied, attention_bias=attention_bias,
        mlp_bias=mlp_bias,
    )  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder, vocab)
    q, k = heads * head_dim, kv * head_dim
    shapes = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,)}
    if not tied:
        shapes["lm_head.weight"] = (vocab, hidden)
    per_layer = {
        "attn_norm": (hidden,), "attn_q": (q, hidden), "attn_k": (k, hidden), "attn_v": (k, hidden),
        "attn_o": (hidden, q), "mlp_norm": (hidden,), "mlp_gate": (inter, hidden),
        "mlp_up": (inter, hidden), "mlp_down": (hidden, inter),
    }  # fmt: skip
    if attention_bias:
        per_layer |= {"attn_q_bias": (q,), "attn_k_bias": (k,), "attn_v_bias": (k,)}
        per_layer |= {"attn_o_bias": (hidden,)}
    if mlp_bias:
        per_layer |= {"mlp_gate_bias": (inter,), "mlp_up_bias": (inter,)}
        per_layer |= {"mlp_down_bias": (hidden,)}
    for layer in range(layers):
        for role, shape in per_layer.items():
            shapes[f"model.layers.{layer}.{NAMES[role]}"] = shape
    tensors, widened = {}, {}
    for name in rng.permutation(list(shapes)):  # any order
        values = random_values(rng, shapes[name])
        dtype = str(rng.choice(["F32", "F16", "BF16"]))
        stored = {"F32": values, "F16": values.astype(np.float16), "BF16": bf16_from_f32(values)}
        tensors[name] = (dtype, stored[dtype])
        widened[name] = (
            f32_from_bf16(stored[dtype]) if dtype == "BF16" else stored[dtype].astype(np.float32)
        )
    write_safetensors(folder / "model.safetensors", tensors)
    return widened, config


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(12))
def test_random_checkpoints_of_odd_shapes_become_what_the_document_says(tmp_path, seed):
    source, config = random_checkpoint(tmp_path, np.random.default_rng(seed))
    for dtype in DTYPES:
        blob = read_blob(convert(tmp_path, tmp_path / f"{dtype}.smol", dtype, "--calibration", "none"))
        check_dtypes(blob, DTYPES[dtype])
        check_tensors(blob, source)
        blob.check_padding()
        assert blob.stop == [i for i in (1, 2) if i < config["vocab_size"]]
        assert blob.model["bos_id"] == NO_TOKEN
        assert blob.model["attention_bias"] == config["attention_bias"]
        assert blob.model["tied_embeddings"] == config["tie_word_embeddings"]
        assert blob.generation == {}


def test_the_bytes_do_not_depend_on_the_number_of_threads(tmp_path):
    random_checkpoint(tmp_path, np.random.default_rng(99))
    blobs = {
        convert(tmp_path, tmp_path / f"{n}.smol", "int8", "--threads", str(n)).read_bytes()
        for n in (1, 2, 5)
    }
    assert len(blobs) == 1


# --- digests and damage ---------------------------------------------------------------------------


def test_the_digest_is_xxh3_with_64_bits_and_seed_0():
    # from xxHash's own documentation and sanity checks
    assert xxh3(b"") == 0x2D06800538D394C2
    assert xxh3(b"a") == 0xE6C632B61E964E1F
    assert xxh3(b"abc") == 0x78AF5F94892F3950


def test_both_readers_refuse_the_same_damage(tmp_path):
    """One bit anywhere in a small blob is changed, mostly with all digests made right again."""
    data, rng = example_blob(tmp_path), np.random.default_rng(1)
    regions = [(16, 320), (320, 1472), (65536, 66880), (65536, 75840), (131072, len(data))]
    path, n_refused = tmp_path / "damaged.smol", 0
    for round_ in range(600):
        damaged, at = bytearray(data), int(rng.integers(*regions[round_ % len(regions)]))
        damaged[at] ^= 1 << int(rng.integers(0, 8))
        if round_ % 7:
            for i, start in enumerate((65536, 131072)):
                struct.pack_into("<Q", damaged, 1472 + 8 * i, xxh3(damaged[start:][:65536]))
            struct.pack_into("<Q", damaged, 8, xxh3(damaged[16:65536]))
        path.write_bytes(damaged)
        ours = reads(bytes(damaged))
        assert opens(path) == ours, f"byte {at} became {damaged[at]:#x}: smol_reader says {ours}"
        n_refused += not ours
    assert 200 < n_refused < 600


# --- the worked example ---------------------------------------------------------------------------


POINTERS = "model inv_freq stop generation provenance tokenizer scanner layers text template_section encoder embedder".split()
Contents = c_struct("convert/blob/writer.h", "blob_contents", **dict.fromkeys(POINTERS, ctypes.c_char_p))
EXAMPLE_EMBED = np.array(
    [[127, -63.5, 2.5], [0, 0, 0], [0.5, -1, 0.75], [2, 4, -8]], np.float32
)


def example_tokenizer():
    """Four tokens: "a", "b", "ab", which is made of them, and the special "<s>"."""
    head = [4, 5, 2, 1, 1, 1, 2, 0]
    spans = struct.pack("<" + "IHH" * 4, 0, 1, 0, 1, 1, 0, 0, 2, 0, 2, 3, 1)
    byte_tokens = [NO_TOKEN] * 256
    byte_tokens[ord("a")], byte_tokens[ord("b")] = 0, 1
    slot = (1 * 0x9E3779B97F4A7C15 % 2**64 >> 32) % 2  # home of (0, 1)
    merges = [(NO_TOKEN, 0, 0, 0)] * 2
    merges[slot] = (0, 1, 0, 2)
    classes = bytearray(256)
    classes[0x20] = 4
    for letter in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        classes[letter] = 1
    for digit in b"0123456789":
        classes[digit] = 2 | 8
    tables = [
        spans, b"ab<s>", struct.pack("<256I", *byte_tokens),
        b"".join(struct.pack("<4I", *m) for m in merges),
        struct.pack("<4I", 3, 2, 3, 0), bytes(4352 * 2), bytes(classes),
    ]  # fmt: skip
    body, offsets = bytearray(64), []
    for table in tables:
        body += bytes(-len(body) % 64)
        offsets.append(len(body))
        body += table
    struct.pack_into("<16I", body, 0, *head, *offsets, 0)
    return bytes(body)


def example_tensor(shape):
    """A tensor's bytes by sections 7.2 and 7.5: the embedding, or all ones."""
    if len(shape) == 1:
        return np.pad(np.ones(shape, np.float32), (0, -shape[0] % 16)).tobytes()
    steps, scales = quantize(EXAMPLE_EMBED if shape == [4, 3] else np.ones(shape, np.float32))
    block = bytearray(64 + 512)
    for row in range(shape[0]):
        struct.pack_into("<e", block, row * 2, scales[row, 0])
        for col in range(shape[1]):
            struct.pack_into("<b", block, 64 + col // 4 * 64 + row * 4 + col % 4, steps[row, col])
    return bytes(block)


def example_blob(folder, provenance=b"converter: by hand\n", wanted=OK):
    model = struct.pack(
        "<12IfIIId1976x", 1, INT8, 1, 3, 2, 1, 1, 2, 4, 8, 3, 1, 1e-5, 0, 0, 0, 10000.0
    )
    contents = Contents(
        model, struct.pack("<f", 1), struct.pack("<I", 3), 1,
        struct.pack("<IIIffff36x", 2, 0, 0, 0.5, 0, 0, 0), provenance, len(provenance),
        example_tokenizer(), len(example_tokenizer()),
    )  # fmt: skip
    shapes = [[4, 3], [3], [2, 3], [2, 3], [2, 3], [3, 2], [3], [2, 3], [2, 3], [3, 2], [3]]
    path, writer, error = Path(folder) / "example.smol", ctypes.c_void_p(), Error()
    status = open_writer(path, contents, writer, error)
    assert status == wanted, error
    if status:
        return None
    for shape in shapes:
        data = example_tensor(shape)
        size = ctypes.c_size_t(len(data))
        assert lib.smol_writer_append(writer, data, size, ctypes.byref(error)) == OK, error
    assert lib.smol_writer_finish(writer, ctypes.byref(error)) == OK, error
    return path.read_bytes()


def test_the_front_has_64_mebibytes_at_most(tmp_path):
    longest = MAX_FRONT - 640 - 12 * 64 - 64  # after it: the tensor table and two digests
    data = example_blob(tmp_path, bytes(longest))
    assert struct.unpack_from("<Q", data, 32)[0] == MAX_FRONT
    assert opens(tmp_path / "example.smol") and reads(data)
    example_blob(tmp_path, bytes(longest + 64), UNSUPPORTED)  # hostile_blobs.py has a front that long


# what the document shows of the example: first byte, bytes, and what they are
EXAMPLE_PARTS = [
    (0x000, 8, "magic"),
    (0x008, 8, "front_digest"),
    (0x010, 8, "major 1, minor 0, n_sections 9"),
    (0x018, 8, "file_size 135872"),
    (0x020, 8, "data_offset 65536"),
    (0x028, 24, "required, optional features; reserved"),
    (0x040, 24, "section 1, model: at 320, 128 bytes"),
    (0x058, 24, "section 2, inv_freq: at 448, 4 bytes"),
    (0x070, 24, "section 3, stop: at 512, 4 bytes"),
    (0x088, 24, "section 4, generation: at 576, 64 bytes"),
    (0x0A0, 24, "section 5, provenance: at 640, 19 bytes"),
    (0x0B8, 24, "section 6, tensors: at 704, 12 * 64 bytes"),
    (0x0D0, 24, "section 7, digests: at 1472, 2 * 8 bytes"),
    (0x0E8, 24, "section 32, tokenizer: at 65536, 10304 bytes"),
    (0x100, 24, "section 33, weights: at 131072, 4800 bytes"),
    (0x140, 16, "family 1, dtype 3, n_layers 1, hidden_size 3"),
    (0x150, 16, "intermediate_size 2, heads 1, 1, head_dim 2"),
    (0x160, 16, "vocab_size 4, context_length 8, bos_id 3, tied"),
    (0x170, 16, "rms_norm_eps 1e-5, no biases, reserved"),
    (0x180, 8, "rope_theta 10000"),
    (0x1C0, 4, "inv_freq[0] = 1"),
    (0x200, 4, "stop id 3"),
    (0x240, 16, "present: temperature; 0.5"),
    (0x280, 19, "\"converter: by hand\\n\""),
    (0x2C0, 48, "tensor 0: embed, int8, tiles, 4 by 3"),
    (0x580, 48, "tensor 11: output, an alias of tensor 0"),
    (0x5C0, 16, "digests of the chunks at 65536 and 131072"),
    (0x10000, 32, "n_tokens 4, 5 bytes, 2 slots, max_probe 1"),
    (0x10020, 32, "offsets of the seven tables"),
    (0x10040, 32, "spans: 0, 1; 1, 1; 0, 2; 2, 3, special"),
    (0x10080, 5, "text pool: \"ab<s>\""),
    (0x10244, 8, "byte tokens of \"a\" and \"b\": 0, 1"),
    (0x104C0, 32, "merge slots: (0, 1) rank 0 becomes 2"),
    (0x10500, 16, "added token: id 3, \"<s>\", not normalized"),
    (0x20000, 8, "scales: 1, 0, 0.0078773, 0.063019"),
    (0x20040, 16, "steps of inputs 0 to 3 of rows 0 to 3"),
]  # fmt: skip


def example_dump(data):
    lines = []
    for start, size, what in EXAMPLE_PARTS:
        for at in range(start, start + size, 16):
            piece = data[at : min(at + 16, start + size)]
            lines.append(f"{at:05x}  {piece.hex(' '):<47}  {what if at == start else ''}".rstrip())
    return "\n".join(lines)


def test_the_worked_example_in_the_document_is_a_real_blob(tmp_path):
    data = example_blob(tmp_path)
    document = (ROOT / "format/FORMAT.md").read_text()
    assert example_dump(data) in document, "make it anew: python tests/oracle/test_format.py"
    assert opens(tmp_path / "example.smol")
    blob = Blob(data, xxh3)
    blob.check_padding()
    assert len(data) == 135872
    assert np.allclose(blob.tensors["output"].values(), EXAMPLE_EMBED, atol=0.51)
    assert blob.tokenizer.bytes_of(2) == b"ab"


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print(example_dump(example_blob(folder)))
