"""smolconv diff of the tensors of models and of safetensors files, against numpy, and what it refuses."""

import json
import math
import os
import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from blobs import edited, read_blob, repaired, spoiled
from checkpoints import edit_config, make, make_of
from diffs import DEMO, DTYPES, blob_values, check_tensors, check_values, checkpoint_values, convert, diff, place_in_f32, wide
from features import featured
from hypothesis import given, settings
from hypothesis import strategies as st
from internal import BUILD
from programs import assert_refuses, limited, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import CHUNK
from test_format import source_name


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
    """Changes one element of some tensors, all of some others, and leaves the rest."""
    for tensor in tensors.values():
        choice = rng.integers(3)
        flat = tensor.view(-1)
        if choice == 0:
            flat[int(rng.integers(len(flat)))] += float(rng.normal())
        elif choice == 1:
            flat += torch.from_numpy(rng.normal(size=len(flat)) * 0.01).to(flat.dtype)


@pytest.mark.sample(4)
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
    for name, part in ((qkv, "layers.1.attn_q"), (gate_up, "layers.0.mlp_up")):  # what is not of the model's shape is shown as it is
        save_file(weights | {name: weights[name][:-1].contiguous()}, file)
        assert {name, part} <= set(diff(blob, file).tensors)


@pytest.mark.sample(6)
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
    memory = limited("DATA", 24_000_000)
    found = diff(blob["int8"], blob["bf16"], preexec_fn=memory)
    source = load_file(real_model_dir / "model.safetensors")
    tensors = read_blob(blob["int8"]).tensors
    assert len(found.tensors) == sum(not t.is_vector for t in tensors.values()) - 1
    for name in ("layers.7.attn_v", "layers.29.mlp_down"):
        values = tensors[name].values().astype(np.float64)
        check_values(found.tensors[name], values, wide(source[source_name(name)]))
    path = real_model_dir / "model.safetensors"  # in BF16
    assert diff(path, blob["bf16"], preexec_fn=memory).status == 0
    assert diff(real_model_dir, blob["bf16"]).status == 0
    at = tensors["layers.9.mlp_up"].offset + 64

    def flip(data):
        data[at] ^= 1

    found = diff(blob["int8"], edited(blob["int8"], tmp_path / "edited", flip), preexec_fn=memory)
    assert list(found.tensors) == ["layers.9.mlp_up"] and "chunks 1 of 2227" in found.summary
