"""smolconv diff against numpy: the numbers of a blob come from smol_reader.py, those of safetensors
from the safetensors package, and everything is compared in float64."""
import json
import math
import os
import re
import resource
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import test_embedder
import test_encoder_families
import test_roberta
import torch
from blobs import edited, read_blob, repaired, section, spoiled, xxh3
from checkpoints import edit_config, make, make_of
from families import CONFIGS
from features import FEATURES, config_of, featured
from hypothesis import given, settings
from hypothesis import strategies as st
from internal import BUILD, ROOT
from programs import assert_refuses, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import CHUNK, EMBEDDER_SECTION, NO_TOKEN, PROVENANCE, STATES_SECTION, TOKENIZER
from test_embedder import make as make_embedder
from test_embedder import write_modules
from test_encoder import lines
from test_encoder import make as make_encoder
from test_format import source_name
from test_nested import NESTS, make_nested
from test_rerank import make_bert, make_modern

DEMO = ROOT / "demo/model"
DTYPES = ("int8", "bf16", "f32")


def convert(source, target, dtype="int8"):
    result = smolconv("--quiet", "--force", "--dtype", dtype, source, target)
    assert result.returncode == 0, result.stderr
    return target


# --- reading what diff writes -----------------------------------------------------------------

VALUES = re.compile(
    r"(?P<n>\d+) +(?P<of>\d+) +(?P<largest>\S+) +(?P<mean>\S+) +(?P<at>\[[\d, ]*\])?"
    r"(?: *(?P<changed>\d+) of (?P<chunks>\d+))?(?: +(?P<dtypes>\S+ \| \S+))?"
    r"(?: +NaN or infinite: (?P<odd>\d+), first at (?P<odd_at>\[[\d, ]*\]))?"
)


class Diff:
    """The parts of the output; every line must be understood."""

    def __init__(self, result):
        assert result.returncode in (0, 1) and result.stderr == "", result
        self.status = result.returncode
        heading, *blocks, summary = result.stdout.rstrip("\n").split("\n\n")
        assert re.fullmatch(r"A  .*\nB  .*", heading)
        self.summary = summary
        self.rows, self.tensors = {}, {}
        for block in blocks:
            title, *lines = block.split("\n")
            kind = title.split()[0]
            if kind == "tensor":
                for line in lines:
                    name, rest = re.fullmatch(r"  (\S+) +(.*)", line).groups()
                    self.tensors[name] = rest
            else:
                self.rows[kind] = lines
        self.check_summary()

    def check_summary(self):
        if self.status == 0:
            assert self.summary.startswith("the same") and not self.tensors
            assert not set(self.rows) - {"provenance"}
            return
        pattern = r"different: settings (\d+), tokenizer (\d+), tensors (\d+) of (\d+).*"
        n_settings, n_tokenizer, n_tensors, _ = map(int, re.match(pattern, self.summary).groups())
        assert n_tensors == len(self.tensors)
        for kind, n in ("settings", n_settings), ("tokenizer", n_tokenizer):
            lines = self.rows.get(kind, [])
            more = [int(x.split()[2]) for x in lines if x.startswith("  ... and ")]
            assert len(lines) - len(more) + sum(more) == n

    def cells(self, kind):
        """{name: (a, b)} of the rows of settings or tokenizer."""
        found = {}
        for line in self.rows.get(kind, []):
            parts = re.split(r" {2,}", line.strip())
            found[parts[0]] = tuple(parts[1:])
        return found


def diff(a, b, **options):
    return Diff(smolconv("diff", a, b, **options))


def place(index, shape):
    return str([int(i) for i in np.unravel_index(index, shape)])


def check_values(line, a, b):
    """One line against two arrays of float64."""
    found = VALUES.fullmatch(line)
    assert found, line
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    odd = differ & ~(np.isfinite(a) & np.isfinite(b))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(differ & ~odd, np.abs(a - b), 0)
    assert (int(found["n"]), int(found["of"])) == (differ.sum(), a.size)
    assert int(found["odd"] or 0) == odd.sum()
    if odd.any():
        assert found["odd_at"] == place(np.argmax(odd), a.shape)
    if differ.sum() == odd.sum():
        assert (found["largest"], found["mean"], found["at"]) == ("-", "-", None)
        return found
    largest, mean = float(found["largest"]), float(found["mean"])
    assert math.isclose(largest, apart.max(), rel_tol=1e-5)
    assert math.isclose(mean, apart.sum() / (a.size - odd.sum()), rel_tol=1e-5)
    assert found["at"] == place(np.argmax(apart), a.shape)
    return found


def blob_values(path):
    return {name: t.values().astype(np.float64) for name, t in read_blob(path).tensors.items()}


def wide(tensor):
    return tensor.to(torch.float64).numpy()


def checkpoint_values(folder, like):
    """The tensors under the names of a blob's; where there is no head, it is the embedding."""
    tensors = load_file(folder / "model.safetensors")
    if "lm_head.weight" not in tensors:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    return {name: wide(tensors[source_name(name)]) for name in like}


def check_tensors(found, a, b, tied=True):
    """Every tensor that differs has its line, and no other."""
    for name in a:
        same = np.array_equal(a[name], b[name], equal_nan=True)
        if name == "output" and tied:
            assert name not in found.tensors  # it is the embedding
        elif same:
            assert name not in found.tensors, (name, found.tensors[name])
        else:
            check_values(found.tensors[name], a[name], b[name])
    assert set(found.tensors) <= set(a)


# --- models -----------------------------------------------------------------------------------


def random_settings(rng):
    heads, kv_heads = [(2, 1), (3, 3), (4, 2), (6, 2)][rng.integers(4)]
    return dict(
        vocab_size=int(rng.integers(40, 200)),
        hidden_size=heads * 2 * int(rng.integers(1, 25)),
        intermediate_size=int(rng.integers(1, 150)),
        num_hidden_layers=int(rng.integers(1, 4)),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=bool(rng.integers(2)),
        attention_bias=bool(rng.integers(2)),
        mlp_bias=bool(rng.integers(2)),
    )


def spoil(tensors, rng):
    """Of the tensors, some get one other element, some are other altogether, some stay."""
    for tensor in tensors.values():
        choice = rng.integers(3)
        flat = tensor.view(-1)
        if choice == 0:
            flat[int(rng.integers(len(flat)))] += float(rng.normal())
        elif choice == 1:
            flat += torch.from_numpy(rng.normal(size=len(flat)) * 0.01).to(flat.dtype)


@pytest.mark.parametrize("seed", range(8))
def test_random_models_differ_as_numpy_says(tmp_path, seed):
    """Each kind of side against each other; what the blobs hold is what smol_reader.py reads."""
    rng = np.random.default_rng(seed)
    shape = random_settings(rng)
    dtype = ["BF16", "F16", "F32"][seed % 3]
    folders = {
        "a": make(tmp_path / "a", seed=seed, dtype=dtype, **shape),
        "b": make(tmp_path / "b", seed, dtype, lambda tensors: spoil(tensors, rng), **shape),
    }
    sides = {}
    for letter, folder in folders.items():
        for kind in DTYPES:
            path = convert(folder, tmp_path / f"{letter}-{kind}.smol", kind)
            sides[letter, kind] = path, blob_values(path)
        values = checkpoint_values(folder, sides[letter, "f32"][1])
        sides[letter, "folder"] = folder, values
        sides[letter, "file"] = folder / "model.safetensors", values
    kinds = (*DTYPES, "folder", "file")
    tied = shape["tie_word_embeddings"]
    for left, right in [(x, y) for x in kinds for y in kinds if {x, y} - {"folder", "file"}]:
        path_a, a = sides["a", left]
        path_b, b = sides["b", right]
        found = diff(path_a, path_b)
        check_tensors(found, a, b, tied)
        settings_due = {"dtype"} if left != right and {left, right} <= set(DTYPES) else set()
        assert set(found.cells("settings")) == settings_due
        assert diff(path_a, path_a).status == 0
    found = diff(folders["a"], folders["b"])
    check_tensors(found, sides["a", "folder"][1], sides["b", "folder"][1], tied)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_checkpoint_and_its_exact_blob_are_the_same(tmp_path, dtype):
    folder = make(tmp_path / "a", dtype="BF16", attention_bias=True, tie_word_embeddings=False)
    blob = convert(folder, tmp_path / "a.smol", dtype)
    for a, b in [(folder, blob), (blob, folder), (folder, folder)]:
        assert smolconv("diff", a, b).stdout.endswith("\n\nthe same\n")
    for a, b in [(folder / "model.safetensors", blob), (folder, folder / "model.safetensors")]:
        assert "\n\nthe same (tensors only:" in smolconv("diff", a, b).stdout


def test_fused_tensors_are_compared_part_by_part(tmp_path):
    """A file that keeps several matrices in one tensor, beside a model that has each by itself."""
    config = featured("phi3")
    folder = make_of(config, tmp_path / "a")
    blob, file = convert(folder, tmp_path / "a.smol", "f32"), folder / "model.safetensors"
    weights = load_file(file)
    for a, b in [(file, blob), (blob, file), (folder, file)]:
        assert "\n\nthe same (tensors only:" in smolconv("diff", a, b).stdout
    qkv, gate_up = (f"model.layers.1.{x}_proj.weight" for x in ("self_attn.qkv", "mlp.gate_up"))
    changed = {name: tensor.clone() for name, tensor in weights.items()}
    n_v = config.num_key_value_heads * (config.hidden_size // config.num_attention_heads)
    for name, row in ((qkv, -n_v), (gate_up, config.intermediate_size - 1)):
        changed[name][row, 3] += 1
    save_file(changed, file)
    found = diff(blob, file)
    values = blob_values(blob)
    new = {"layers.1.attn_v": wide(changed[qkv])[-n_v:],
           "layers.1.mlp_gate": wide(changed[gate_up])[: config.intermediate_size]}  # fmt: skip
    check_tensors(found, values, values | new, config.tie_word_embeddings)
    for name in (qkv, gate_up):  # what is not of the model's shape is shown as it is
        save_file(weights | {name: weights[name][:-1].contiguous()}, file)
        assert {name, "layers.1.attn_q", "layers.0.mlp_up"} <= set(diff(blob, file).tensors)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["embed", "layers.3.attn_k", "layers.5.mlp_norm", "final_norm"])
def test_one_element_is_found_with_place_and_chunk(tmp_path, demo_blob, dtype, name):
    blob = read_blob(demo_blob(dtype))
    tensor = blob.tensors[name]
    for at in (64, 64 + 4 * 7, 64 + 63):  # bytes of elements; the first 64 may be scales

        def flip(data):
            data[tensor.offset + at] ^= 1

        changed = edited(demo_blob(dtype), tmp_path / "changed.smol", flip)
        found = diff(demo_blob(dtype), changed)
        assert found.status == 1 and list(found.tensors) == [name]
        values = read_blob(changed).tensors[name].values().astype(np.float64)
        line = check_values(found.tensors[name], tensor.values().astype(np.float64), values)
        assert line["n"] == "1" and line["changed"] == "1"
        touched = range(tensor.offset // CHUNK, (tensor.offset + tensor.size - 1) // CHUNK + 1)
        assert int(line["chunks"]) == len(touched)
        assert found.summary.endswith(f"tensors 1 of 57, chunks 1 of {len(blob.chunk_digests)}")


def place_in_f32(tensor, element):
    """Where an element of an f32 blob lies; FORMAT.md, 7.2 and 7.3."""
    row, col = divmod(element, tensor.cols)
    if tensor.is_vector:
        return tensor.offset + col * 4
    return tensor.offset + row // 16 * tensor.cols * 64 + col * 64 + row % 16 * 4


def test_changed_chunks_are_counted_byte_by_byte(tmp_path, demo_blob):
    rng = np.random.default_rng(5)
    source = demo_blob("f32")
    original = source.read_bytes()
    tensors = read_blob(source).tensors
    names = [name for name in tensors if name != "output"]
    for n in (1, 7, 60):
        chosen = [tensors[name] for name in rng.choice(names, n)]
        places = {place_in_f32(t, int(rng.integers(t.rows * t.cols))) for t in chosen}

        def change(data):
            for at in places:
                data[at] ^= 1

        changed = edited(source, tmp_path / "changed.smol", change)
        data, found = changed.read_bytes(), diff(source, changed)
        for name in names:
            first, end = tensors[name].offset, tensors[name].offset + tensors[name].size
            edges = [first, *range((first // CHUNK + 1) * CHUNK, end, CHUNK), end]
            pairs = list(zip(edges, edges[1:]))
            n_changed = sum(original[x:y] != data[x:y] for x, y in pairs)
            if n_changed:
                assert found.tensors[name].endswith(f" {n_changed} of {len(pairs)}")
            else:
                assert name not in found.tensors
        assert f"chunks {len({at // CHUNK for at in places})} of " in found.summary


# --- safetensors ------------------------------------------------------------------------------

TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool, "I64": torch.int64, "F8_E4M3": torch.float8_e4m3fn,
}  # fmt: skip
OPAQUE = {"I64", "F8_E4M3"}
numbers = st.one_of(
    st.floats(width=32), st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf])
)


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(sorted(TYPES)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    values = draw(st.lists(numbers, min_size=math.prod(shape), max_size=math.prod(shape)))
    whole = torch.tensor(values, dtype=torch.float64).reshape(shape)
    if dtype[0] in "IUB":
        whole = torch.nan_to_num(whole, posinf=100, neginf=0).clamp(0, 100)
    return whole.to(TYPES[dtype])


def is_same(x, y):
    return x.shape == y.shape and x.dtype == y.dtype and raw(x) == raw(y)


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def dtype_name(tensor):
    return next(name for name, dtype in TYPES.items() if dtype == tensor.dtype)


def check_pair(line, x, y):
    names = dtype_name(x), dtype_name(y)
    if x.shape != y.shape:
        assert line == f"shape {list(x.shape)} | {list(y.shape)}"
    elif x.dtype == y.dtype and names[0] in OPAQUE:
        assert line == f"different bytes: {names[0]} cannot be compared as numbers"
    elif set(names) & OPAQUE:
        assert line == f"{names[0]} | {names[1]}, not compared"
    else:
        found = check_values(line, wide(x), wide(y))
        assert found["dtypes"] == (None if names[0] == names[1] else " | ".join(names))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_two_safetensors_files(tmp_path_factory, data):
    names = st.sampled_from(["a", "b.c", "model.norm.weight", "embed"])
    a = data.draw(st.dictionaries(names, tensors()))
    b = data.draw(st.dictionaries(names, tensors()))
    for name in data.draw(st.sets(names)) & set(a):
        b[name] = a[name].clone()
    folder = tmp_path_factory.getbasetemp()
    save_file(a, folder / "a.safetensors")
    save_file(b, folder / "b.safetensors")
    found = diff(folder / "a.safetensors", folder / "b.safetensors")
    due = {n for n in {*a, *b} if n not in a or n not in b or not is_same(a[n], b[n])}
    assert set(found.tensors) == due
    for name in due:
        if name in a and name in b:
            check_pair(found.tensors[name], a[name], b[name])
        else:
            assert found.tensors[name] == f"only in {'A' if name in a else 'B'}"


def test_nan_and_infinity_are_counted_and_placed(tmp_path):
    a = torch.ones(3, 5)
    b = a.clone()
    a[0, 1], b[0, 1] = math.nan, math.nan
    a[1, 2], b[1, 2] = math.inf, -math.inf
    b[2, 4] = math.nan
    b[2, 3] = 3
    save_file({"x": a}, tmp_path / "a.safetensors")
    save_file({"x": b}, tmp_path / "b.safetensors")
    line = diff(tmp_path / "a.safetensors", tmp_path / "b.safetensors").tensors["x"]
    assert line.endswith("NaN or infinite: 2, first at [1, 2]")
    check_values(line, wide(a), wide(b))


def test_a_broken_checkpoints_tensors_are_compared_with_a_good_blob(tmp_path, demo_blob):
    tensors = load_file(DEMO / "model.safetensors")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = math.nan
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(14)  # harmless
    tensors["embed"] = torch.ones(3)  # called like a role, and none
    del tensors["model.norm.weight"]
    tensors["model.layers.2.mlp.up_proj.weight"] = torch.ones(2, 2)
    tensors["model.layers.3.mlp.up_proj.weight"] = torch.ones(440, 168, dtype=torch.int64)
    path = tmp_path / "x.safetensors"
    save_file(tensors, path)
    found = diff(demo_blob("f32"), path).tensors
    assert found.pop("layers.1.mlp_up").endswith("NaN or infinite: 1, first at [3, 4]")
    assert found == {
        "final_norm": "only in A",
        "embed": "only in B",
        "layers.2.mlp_up": "shape [440, 168] | [2, 2]",
        "layers.3.mlp_up": "f32 | I64, not compared",
    }


def test_hostile_names_and_shapes_cannot_steer_the_terminal(tmp_path):
    def write(path, name, shape):
        header = json.dumps({name: {"dtype": "U8", "shape": shape, "data_offsets": [0, 0]}})
        path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
        return path

    name = "\x1b[31mred\u009b1m\n\u202etfel\u2066"
    a = write(tmp_path / "a", name, [0, 2**60])
    b = write(tmp_path / "b", "x" * 100_000, [0] * 8)
    text = smolconv("diff", a, b).stdout
    assert "  ?[31mred?1m??tfel?" in text and "x" * 100_000 in text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    shown = smolconv("diff", a, write(tmp_path / "c", name, [2**60, 0])).stdout
    assert f"shape [0, {2**60}] | [{2**60}, 0]" in shown


# --- settings ---------------------------------------------------------------------------------


def test_settings_that_differ_are_shown_with_both_values(tmp_path):
    a = make(tmp_path / "a", dtype="F32")
    b = Path(shutil.copytree(a, tmp_path / "b"))

    def change(config):
        config.update(max_position_embeddings=513, rms_norm_eps=2e-6, bos_token_id=5)
        config.update(eos_token_id=[2, 7])
        config["rope_parameters"]["rope_theta"] = 500000.0

    edit_config(b, change)
    new = '{"temperature": 0.7, "do_sample": true, "top_k": 40}'
    (a / "generation_config.json").write_text('{"temperature": 0.2, "top_p": 0.9}')
    (b / "generation_config.json").write_text(new)
    due = {
        "context_length": ("512", "513"),
        "bos_id": ("none", "5"),
        "rope_theta": ("10000", "500000"),
        "rms_norm_eps": ("1e-05", "2e-06"),
        "stop id 7": ("no", "yes"),
        "do_sample": ("-", "yes"),
        "temperature": ("0.2", "0.7"),
        "top_k": ("-", "40"),
        "top_p": ("0.9", "-"),
    }
    blobs = convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol")
    for left, right in [(a, b), (blobs[0], b), (a, blobs[1]), blobs]:
        found = diff(left, right)
        assert found.status == 1 and found.cells("settings") == due
        assert "tokenizer" not in found.rows
        assert not found.tensors or {left, right} != set(blobs)


def parts(kind, *paths):
    """How diff shows sections that it compares as wholes: a space is between two such cells."""
    places = [(path.read_bytes(), *section(bytearray(path.read_bytes()), kind)) for path in paths]
    return " ".join(f"{size} bytes, xxh3 {xxh3(data[at : at + size]):016x}" for data, at, size in places)


def test_states_that_differ_are_shown(tmp_path):
    """Other layers have them, they see other inputs, there are none, or one element is another."""

    def made(name, **settings):
        config = config_of("lfm2", **FEATURES["lfm2"][0] | settings)
        return convert(make_of(config, tmp_path / name, dtype="F32"), tmp_path / f"{name}.smol", "f32")

    a, same, taps = made("a"), made("same"), made("taps", conv_L_cache=3)
    moved = made("moved", layer_types=["full_attention", "conv"])
    none = made("none", layer_types=["full_attention", "full_attention"])
    assert diff(a, same).status == 0
    found = diff(a, taps)
    assert found.cells("settings") == {"states": (parts(STATES_SECTION, a, taps),)}
    assert found.tensors["layers.0.mixer_conv"] == "shape [4, 48] | [3, 48]"
    found = diff(a, moved)
    assert found.cells("settings") == {"states": (parts(STATES_SECTION, a, moved),)}
    assert found.tensors["layers.0.mixer_in"] == found.tensors["layers.1.attn_q"] == "only in A"
    assert found.tensors["layers.0.attn_q"] == found.tensors["layers.1.mixer_in"] == "only in B"
    assert diff(none, a).cells("settings")["states"] == ("none", parts(STATES_SECTION, a))
    name = "layers.0.mixer_in"

    def edit(data):
        struct.pack_into("<f", data, place_in_f32(read_blob(a).tensors[name], 69), 77.0)

    found = diff(a, edited(a, tmp_path / "edited.smol", edit))
    values, others = blob_values(a), blob_values(tmp_path / "edited.smol")
    assert not found.cells("settings") and list(found.tensors) == [name]
    check_values(found.tensors[name], values[name], others[name])


def test_embedders_that_differ_are_shown(tmp_path):
    """Another prompt, pooling or dense layer."""
    folder, dense = tmp_path / "a", [(33, "tanh", True)]
    make_embedder(folder, lines(20, seed=1), num_hidden_layers=1)

    def made(name, **settings):
        write_modules(folder, **{"dense": dense} | settings)
        return convert(folder, tmp_path / f"{name}.smol")

    a, same = made("a"), made("same")
    assert diff(a, same).status == 0
    for other in [
        made("prompts", prompts={"query": "Find: "}),
        made("weights", seed=1),
        made("activation", dense=[(33, "identity", True)]),
    ]:
        assert diff(a, other).cells("settings") == {"embedder": (parts(EMBEDDER_SECTION, a, other),)}
    for other, cells in [
        (made("pooling", pooling="mean_tokens"), {"pooling": ("last token", "mean")}),
        (made("raw", normalizes=False), {"normalizes": ("yes", "no")}),
    ]:
        found = diff(a, other)
        assert found.status == 1 and not found.tensors and "tokenizer" not in found.rows
        assert found.cells("settings") == cells


def test_models_of_other_sizes_are_compared_as_far_as_they_go(tmp_path):
    a = make(tmp_path / "a", num_hidden_layers=1, attention_bias=True)
    b = make(tmp_path / "b", num_hidden_layers=2, mlp_bias=True, vocab_size=120, head_dim=8)
    found = diff(convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol"))
    cells = found.cells("settings")
    assert cells["n_layers"] == ("1", "2") and cells["vocab_size"] == ("101", "120")
    assert cells["attention_bias"] == ("yes", "no") and cells["mlp_bias"] == ("no", "yes")
    assert found.tensors["embed"] == "shape [101, 64] | [120, 64]"
    assert found.tensors["layers.0.attn_q"] == "shape [64, 64] | [32, 64]"
    assert found.tensors["layers.0.attn_q_bias"] == "only in A"
    assert found.tensors["layers.1.mlp_up_bias"] == found.tensors["layers.1.mlp_up"] == "only in B"
    assert "inv_freq[0]" not in cells


@pytest.mark.parametrize("dtype", ["f32", "int8"])
def test_a_tied_head_is_compared_with_one_of_its_own(tmp_path, dtype):
    def untie(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors["lm_head.weight"][7, 5] += 1

    tied = make(tmp_path / "tied", dtype="F32", tie_word_embeddings=True)
    untied = make(tmp_path / "untied", dtype="F32", edit=untie, tie_word_embeddings=False)
    weights = load_file(tied / "model.safetensors")
    untie(weights)
    save_file(weights, untied / "model.safetensors")
    a = convert(tied, tmp_path / "tied.smol", dtype)
    b = convert(untied, tmp_path / "untied.smol", dtype)
    for left, right in [(a, b), (a, untied), (tied, b), (tied, untied)]:
        found = diff(left, right)
        assert found.cells("settings") == {"tied_embeddings": ("yes", "no")}
        assert "output" in found.tensors
    found = diff(tied / "model.safetensors", b)
    due = wide(weights["model.embed_tokens.weight"]), blob_values(b)["output"]
    check_values(found.tensors["output"], *due)
    assert diff(a, b).tensors.keys() == {"output"}
    found = diff(tied / "model.safetensors", untied / "model.safetensors")
    assert found.tensors == {"lm_head.weight": "only in B"}


def test_an_equal_copy_of_the_head_is_no_difference(tmp_path):
    def copy(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()

    tied = make(tmp_path / "tied", dtype="BF16")
    full = make(tmp_path / "full", dtype="BF16", edit=copy)
    blob = convert(tied, tmp_path / "tied.smol", "f32")
    for a, b in [(tied, full), (blob, full), (full, blob), (blob, full / "model.safetensors")]:
        assert diff(a, b).status == 0


def test_another_provenance_is_shown_and_is_no_difference(tmp_path, demo_blob):
    source = Path(shutil.copytree(DEMO, tmp_path / "source"))
    config = source / "config.json"
    config.write_text(config.read_text() + " ")
    blob = convert(source, tmp_path / "b.smol")
    found = diff(demo_blob(), blob)
    assert (found.status, found.summary) == (0, "the same except for the provenance")
    due = [
        f"  {letter}  {line}"
        for letter, path in (("A", demo_blob()), ("B", blob))
        for line in read_blob(path).provenance.splitlines()
        if line.startswith("source: config.json")
    ]
    assert found.rows == {"provenance": due}
    offset, size = section(blob.read_bytes(), PROVENANCE)

    def rewrite(data):
        data[offset : offset + size] = b"\x1b[2J\n".ljust(size, b"\n")

    found = diff(demo_blob(), edited(blob, tmp_path / "c.smol", rewrite))
    assert found.status == 0 and "  B  ?[2J" in found.rows["provenance"]


# --- embeddings -------------------------------------------------------------------------------


def embedding_model(folder, max_length=250, **modules):
    make(folder)
    write_modules(folder, width=64, **modules)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": max_length}))
    return folder


@pytest.mark.parametrize(
    ("change", "name", "cells"),
    [
        ({"pooling": "mean_tokens"}, "pooling", ("last token", "mean")),
        ({"normalizes": False}, "normalizes", ("yes", "no")),
        ({"max_length": 100}, "max_length", ("250", "100")),
        ({"prompts": {"query": "find "}}, "embedder", None),
        ({"default": "query"}, "embedder", None),
        ({"dense": [(32, "tanh", True)], "seed": 1}, "embedder", None),
        ({"dense": [(32, "identity", True)]}, "embedder", None),
    ],
)
def test_how_embeddings_are_made_is_compared(tmp_path, change, name, cells):
    """For each kind of side: of a checkpoint, as of the blob that it would be."""
    plain = {"dense": [(32, "tanh", True)]}
    a, b = embedding_model(tmp_path / "a", **plain), embedding_model(tmp_path / "b", **plain | change)
    sides = {}
    for letter, folder in ("a", a), ("b", b):
        sides[letter] = [folder, *(convert(folder, tmp_path / f"{letter}-{dtype}", dtype) for dtype in ("f32", "bf16"))]
    for left, right in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0)]:
        found = diff(sides["a"][left], sides["b"][right])
        assert found.status == 1 and set(found.cells("settings")) == {name}
        assert cells in (None, found.cells("settings")[name])
        assert diff(sides["a"][left], sides["a"][right]).summary.startswith("the same")


def test_a_model_of_embeddings_is_not_one_of_texts(tmp_path):
    a, b = embedding_model(tmp_path / "a"), make(tmp_path / "b")
    for left, right in [(a, b), (convert(a, tmp_path / "a.smol", "f32"), b)]:
        assert diff(left, right).cells("settings")["embeddings"] == ("yes", "no")


def test_windows_that_see_both_sides_are_compared(tmp_path):
    folder = make_of(featured("gemma3"), tmp_path / "a")
    write_modules(folder, width=64)
    edit_config(folder, lambda config: config.update(architectures=["Gemma3TextModel"]))
    other = Path(shutil.copytree(folder, tmp_path / "b"))
    edit_config(other, lambda config: config.update(use_bidirectional_attention=True))
    for right in (other, convert(other, tmp_path / "b.smol", "bf16")):
        cells = diff(folder, right).cells("settings")
        assert cells["sees the whole text"] == ("no", "yes")


def encoder(folder, **settings):
    """A BERT. Returns its weights."""
    make_encoder(folder, WORDS, seed=1, **settings)
    return load_file(folder / "model.safetensors")


WORDS = ["some words of a text", "others"] * 9
SOURCES = {
    "bert": encoder,
    "a bert that scores": lambda folder: make_bert(folder, WORDS, 2),
    "a modernbert that scores": lambda folder: make_modern(folder, 2),
    "a llama of embeddings": lambda folder: embedding_model(folder, dense=[(32, "tanh", True)]),
    "without names' prefix": lambda folder: (test_embedder.make(folder, WORDS), write_modules(folder)),
}
for kind in test_roberta.KINDS:
    for head in "Model", "ForMaskedLM", "ForSequenceClassification":
        SOURCES[f"{kind}, {head}"] = lambda folder, kind=kind, head=head: test_roberta.make(folder, kind, 1, head, **test_roberta.small_of(kind))
for kind in test_encoder_families.KINDS:
    for seed in range(3):
        SOURCES[f"{kind} {seed}"] = lambda folder, kind=kind, seed=seed: test_encoder_families.make(folder, kind, seed)
for kind in NESTS:
    SOURCES[f"nested {kind}"] = lambda folder, kind=kind: (folder.mkdir(), make_nested(featured(kind), kind, folder))
for kind in CONFIGS:
    SOURCES[kind] = lambda folder, kind=kind: make_of(featured(kind), folder)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_file_is_the_same_as_what_is_made_of_it(kind, tmp_path):
    """Whatever the blob renames, splits, moves, leaves out and adds to."""
    folder = tmp_path / "a"
    SOURCES[kind](folder)
    file, blob = folder / "model.safetensors", convert(folder, tmp_path / "a.smol", "f32")
    for a, b in [(file, blob), (blob, file), (file, folder)]:
        result = smolconv("diff", a, b)
        assert "\n\nthe same (tensors only:" in result.stdout, result.stdout
    assert diff(folder, blob).status == 0
    weights = load_file(file)
    name = max(x for x in weights if re.search(r"(layers?|h)\.0\..*(norm|ln_)", x.lower()) and not re.search("mtp|vis", x))
    weights[name].view(-1)[-1] += 1
    save_file(weights, file)
    n = len(read_blob(blob).tensors)
    for a, b in [(file, blob), (folder, blob)]:
        found = diff(a, b)
        assert len(found.tensors) == 1 and f"tensors 1 of {n}" in found.summary


def test_tensors_of_either_side_are_counted_once(tmp_path):
    save_file({"a": torch.zeros(1), "b": torch.zeros(1)}, tmp_path / "a")
    save_file({"b": torch.ones(1), "c": torch.zeros(1), "d": torch.zeros(1)}, tmp_path / "b")
    assert "tensors 4 of 4 " in diff(tmp_path / "a", tmp_path / "b").summary


def test_types_of_tokens_are_added_to_positions(tmp_path):
    """Their first row, as in a blob; transformers adds it to every token."""
    a, b, third = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    weights, types = encoder(a), "embeddings.token_type_embeddings.weight"
    for folder, row in (b, 0), (third, 1):
        shutil.copytree(a, folder)
        changed = weights[types].clone()
        changed[row] += 1
        save_file(weights | {types: changed}, folder / "model.safetensors")
    blobs = [convert(folder, tmp_path / f"{folder.name}.smol", "f32") for folder in (a, b)]
    values = [load_file(x / "model.safetensors")[types][0] for x in (a, b)]
    sums = [wide(weights["embeddings.position_embeddings.weight"] + row) for row in values]
    for left, right in [(a, b), (blobs[0], b), (a, blobs[1]), blobs]:
        found = diff(left, right)
        assert set(found.tensors) == {"positions"}
        check_values(found.tensors["positions"], *sums)
    for left, right in [(blobs[0], a), (b, blobs[1]), (a, third), (blobs[0], third)]:
        assert diff(left, right).status == 0


# --- tokenizers -------------------------------------------------------------------------------


@pytest.fixture()
def retokenized(tmp_path, demo_blob):
    """retokenized(edit): the bundled model's blob with tokenizer.json after edit(it)."""

    def build(edit):
        source = Path(shutil.copytree(DEMO, tmp_path / "source", dirs_exist_ok=True))
        content = json.loads((DEMO / "tokenizer.json").read_text())
        edit(content)
        (source / "tokenizer.json").write_text(json.dumps(content))
        return source, convert(source, tmp_path / "retokenized.smol")

    return build


def quoted(text):
    return '"' + text.decode().replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_renamed_token_is_shown_by_id_with_its_text(demo_blob, retokenized):
    def rename(tokenizer):
        vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
        text = "".join(merges[-1])  # the last merge makes it, and none uses it
        vocabulary["ĠXyz"] = vocabulary.pop(text)
        merges[-1:] = []

    old = read_blob(demo_blob()).tokenizer
    token = max((m for m in old.merges if m[0] != NO_TOKEN), key=lambda m: m[2])[3]
    for side in retokenized(rename):
        found = diff(demo_blob(), side)
        assert found.status == 1 and "settings" not in found.rows
        assert found.cells("tokenizer")[f"token {token}"] == (quoted(old.bytes_of(token)), '" Xyz"')


def test_merges_are_compared_as_pairs_of_tokens(demo_blob, retokenized):
    def swap_and_drop(tokenizer):
        merges = tokenizer["model"]["merges"]
        merges[10], merges[20] = merges[20], merges[10]
        merges.pop()

    source, blob = retokenized(swap_and_drop)
    cells = diff(demo_blob(), blob).cells("tokenizer")
    n = {m[:2] for m in read_blob(demo_blob()).tokenizer.merges if m[0] != NO_TOKEN}
    left = {m[:2] for m in read_blob(blob).tokenizer.merges if m[0] != NO_TOKEN}
    assert cells.pop("merges") == (str(len(n)), str(len(left)))
    assert cells.pop("merge ranks") == ("2 of those in both",)
    ((pair,),) = [n - left]
    tokenizer = read_blob(demo_blob()).tokenizer
    name = "merge " + " ".join(quoted(tokenizer.bytes_of(i)) for i in pair)
    rank, merged = tokenizer.merges[tokenizer.find(*pair)][2:]
    assert cells == {name: (f"rank {rank}, gives {merged}", "-")}


def test_added_tokens_and_flags_are_compared(demo_blob, retokenized):
    def change(tokenizer):
        added = tokenizer["added_tokens"]
        added[1]["special"] = not added[1]["special"]
        added[2]["normalized"] = not added[2]["normalized"]

    _, blob = retokenized(change)
    old = read_blob(demo_blob()).tokenizer
    text = [quoted(old.bytes_of(i)) for i in range(3)]
    found = diff(demo_blob(), blob)
    assert found.rows["tokenizer"] == [
        f"  {'token 1':<23} {text[1] + ' special':<25} {text[1]}",
        f"  {f'added {text[2]}':<23} {'id 2':<25} -",
        f"  {f'added {text[2]}':<23} {'-':<25} id 2, normalized",
    ]


def test_other_patterns_of_words_are_shown(tmp_path, retokenized):
    """The pattern is in a section of its own."""

    def split_at(pattern):
        steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                 {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]  # fmt: skip
        _, blob = retokenized(lambda content: content.update(pre_tokenizer={"type": "Sequence", "pretokenizers": steps}))
        return blob.rename(tmp_path / f"{len(pattern)}.smol")

    found = diff(split_at(r"\p{N}{1,3}"), split_at(r"[\p{N}_]{1,3}"))
    assert found.status == 1 and not found.tensors and [line.split()[0] for line in found.rows["tokenizer"]] == ["splitting"]


def test_parts_between_one_another_are_compared_whole(tmp_path):
    """A head's queries, keys and values follow one another in a fused tensor: the last rows are its last head's values."""
    folder = make_of(featured("gptneox"), tmp_path / "a")
    other = Path(shutil.copytree(folder, tmp_path / "b"))
    name = "gpt_neox.layers.1.attention.query_key_value.weight"
    weights = load_file(folder / "model.safetensors")
    weights[name][-1, 3] += 1
    save_file(weights, other / "model.safetensors")
    found = diff(folder, other)
    assert found.status == 1 and set(found.tensors) == {"layers.1.attn_v"}
    assert found.tensors["layers.1.attn_v"].split()[0] == "1"


def test_tokenizers_of_other_sizes(tmp_path):
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    content = json.loads((b / "tokenizer.json").read_text())
    last = max(content["model"]["vocab"], key=content["model"]["vocab"].get)
    content["model"]["vocab"].pop(last)
    (b / "tokenizer.json").write_text(json.dumps(content))
    found = diff(convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol"))
    cells = found.cells("tokenizer")
    assert cells["tokens"] == ("101", "100")
    text = read_blob(tmp_path / "a.smol").tokenizer.bytes_of(100)
    assert text == b"\xa7" and cells["token 100"] == ('"\\xa7"', "-")
    assert cells["token of byte a7"] == ("100", "-")


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_of_the_tokenizer_are_listed_by_id(tmp_path, demo_blob, seed):
    """Text bytes and flags, changed in place; compared with what smol_reader.py reads."""
    rng = np.random.default_rng(seed)
    tokenizer = read_blob(demo_blob()).tokenizer
    start, _ = section(demo_blob().read_bytes(), TOKENIZER)
    spans, text = struct.unpack_from("<II", demo_blob().read_bytes(), start + 32)
    added = {i for entry in tokenizer.added for i in range(entry[1], entry[1] + entry[2])}

    def change(data):
        for _ in range(int(rng.integers(1, 8))):
            at = int(rng.integers(len(tokenizer.text)))
            if at not in added:
                data[start + text + at] = int(rng.integers(256))
        for token in rng.integers(0, len(tokenizer.spans), 2):
            data[start + spans + int(token) * 8 + 6] ^= 1

    blob = edited(demo_blob(), tmp_path / "changed.smol", change)
    other = read_blob(blob).tokenizer
    due = [
        i
        for i in range(len(tokenizer.spans))
        if tokenizer.bytes_of(i) != other.bytes_of(i) or tokenizer.spans[i][2] != other.spans[i][2]
    ]
    result = smolconv("diff", demo_blob(), blob)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)
    found = Diff(result)
    shown = [x.split()[1] for x in found.rows["tokenizer"] if x.startswith("  token ")]
    assert shown == [str(i) for i in due[:10]]
    assert f"tokenizer {len(due)}," in found.summary


# --- refusing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["a"], ["a", "b", "c"], ["--force", "a", "b"]])
def test_wrong_usage_is_status_2(arguments):
    assert_refuses(smolconv("diff", *arguments), 2, "smolconv: ")


def test_help_says_what_the_exit_status_means():
    result = smolconv("diff", "--help")
    assert result.returncode == 0 and result.stdout.startswith("usage: smolconv diff A B")
    assert "Exit status: 0 no difference" in result.stdout
    assert "smolconv diff " in smolconv("--help").stdout


def test_either_side_may_be_missing_damaged_or_no_model(tmp_path, demo_blob):
    good = demo_blob()
    damaged = spoiled(good, tmp_path / "damaged.smol", -100)
    short = tmp_path / "short.safetensors"
    short.write_bytes((DEMO / "model.safetensors").read_bytes()[:-1])
    padding = tmp_path / "padding.smol"  # digests right, a rule broken
    data = bytearray(good.read_bytes())
    data[-1] ^= 1
    padding.write_bytes(repaired(data))
    other = tmp_path / "x.gguf"
    other.write_bytes(b"GGUF" + bytes(60))
    unsupported = Path(shutil.copytree(DEMO, tmp_path / "unsupported"))
    edit_config(unsupported, lambda config: config.update(hidden_act="relu"))
    empty = tmp_path / "empty"
    empty.mkdir()
    os.mkfifo(tmp_path / "fifo")
    for bad, status, part in [
        (tmp_path / "none", 3, "none"),
        (tmp_path / "fifo", 3, "pipe"),
        (empty, 3, "model.safetensors"),
        (damaged, 4, "data damaged"),
        (padding, 4, "breaks the format"),
        (short, 4, "truncated"),
        (other, 5, "GGUF"),
        (unsupported, 5, "relu"),
    ]:
        assert_refuses(smolconv("diff", good, bad), status, part)
        assert_refuses(smolconv("diff", bad, DEMO), status, part)


def test_a_closed_standard_output_is_status_3(demo_blob):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [BUILD / "smolconv", "diff", demo_blob(), demo_blob("f32")],
            stdout=full, stderr=subprocess.PIPE, timeout=60,
        )  # fmt: skip
    assert result.returncode == 3 and b"standard output" in result.stderr


# --- the real model ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_real_model_in_memory_that_does_not_grow_with_it(tmp_path, real_model_dir):
    blob = {dtype: convert(real_model_dir, tmp_path / dtype, dtype) for dtype in ("int8", "bf16")}

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (24_000_000, 24_000_000))

    found = diff(blob["int8"], blob["bf16"], preexec_fn=limited)
    source = load_file(real_model_dir / "model.safetensors")
    tensors = read_blob(blob["int8"]).tensors
    assert len(found.tensors) == sum(not t.is_vector for t in tensors.values()) - 1
    for name in ("layers.7.attn_v", "layers.29.mlp_down"):
        values = tensors[name].values().astype(np.float64)
        check_values(found.tensors[name], values, wide(source[source_name(name)]))
    path = real_model_dir / "model.safetensors"  # in BF16
    assert diff(path, blob["bf16"], preexec_fn=limited).status == 0
    assert diff(real_model_dir, blob["bf16"]).status == 0
    at = tensors["layers.9.mlp_up"].offset + 64

    def flip(data):
        data[at] ^= 1

    found = diff(blob["int8"], edited(blob["int8"], tmp_path / "edited", flip), preexec_fn=limited)
    assert list(found.tensors) == ["layers.9.mlp_up"] and "chunks 1 of 2227" in found.summary
