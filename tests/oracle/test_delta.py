"""Updates: what `smolconv delta` makes and `smolconv patch` applies, against a second reader."""

import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from blobs import read_blob, repaired, section, spoiled, xxh3
from checkpoints import make, make_of
from delta_reader import (
    BYTES,
    COPY,
    HALVES,
    MAX_CODED,
    MAX_NEW,
    MAX_OLD,
    ZSTD,
    WrongBlob,
    apply,
    delta,
    read_parts,
)
from engine import blob_of
from features import featured
from internal import ROOT
from packed import frame
from programs import assert_fails, limited, smolconv
from safetensors.torch import load_file, save_file
from smol_reader import GENERATION, STOP, WEIGHTS, Damaged, Unsupported
from test_format import example_blob
from updates import changed, trained_anew, trained_further, with_another_token

DEMO = ROOT / "demo/model"
DTYPES = ("int8", "int4", "bf16", "f32")


def succeeds(*arguments, **options):
    result = smolconv(*arguments, **options)
    assert result.returncode == 0, result.stderr
    return result


def apart(dtype):
    """Options for blobs each of whose matrices depends on itself alone."""
    return ["--calibration", "none"] if dtype == "int4" else []


def convert(checkpoint, blob, dtype="int8"):
    succeeds("--quiet", "--dtype", dtype, *apart(dtype), checkpoint, blob)
    return blob


def make_delta(old, new, path):
    succeeds("delta", "--quiet", "--force", old, new, path)
    return path


def round_trip(folder, old, new):
    """Makes and applies a delta, here and with the second reader; returns its size."""
    path, result = make_delta(old, new, folder / "d.smoldelta"), folder / "result.smol"
    succeeds("patch", "--force", old, path, result)
    assert result.read_bytes() == new.read_bytes()
    assert apply(old.read_bytes(), path.read_bytes(), xxh3) == new.read_bytes()
    return path.stat().st_size


# --- what updates cost --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A checkpoint of four layers, large enough for parts of each kind."""
    folder = tmp_path_factory.mktemp("base")
    make(folder / "base", hidden_size=128, intermediate_size=352, num_hidden_layers=4)
    return folder / "base"


@pytest.mark.parametrize("dtype", DTYPES)
def test_settings_cost_some_hundred_bytes(tmp_path, demo_blob, dtype):
    new = changed(DEMO, tmp_path / "new", generation_config={"temperature": 0.125, "top_k": 7},
                  tokenizer_config={"chat_template": "{{ messages }}"})  # fmt: skip
    assert round_trip(tmp_path, demo_blob(dtype, *apart(dtype)), convert(new, tmp_path / "n.smol", dtype)) < 700


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_token_costs_little_although_every_tensor_moves(tmp_path, demo_blob, dtype):
    new = convert(with_another_token(DEMO, tmp_path / "new"), tmp_path / "new.smol", dtype)
    n_chunks = new.stat().st_size // 65536
    assert round_trip(tmp_path, demo_blob(dtype, *apart(dtype)), new) < 8 * n_chunks + 2500


def layer_size(blob, layer):
    """Bytes of a layer's tensors, by FORMAT.md 5.6."""
    data = blob.read_bytes()
    start, size = section(data, 6)
    table = struct.iter_unpack("<IIIIQQQQ16x", data[start : start + size])
    return sum(entry[7] for entry in table if entry[1] == layer and 1 <= entry[0] <= 16)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_layers_trained_anew_cost_no_more_than_themselves(tmp_path, base, dtype):
    old = convert(base, tmp_path / "old.smol", dtype)
    new = convert(changed(base, tmp_path / "new", trained_anew([1, 3])), tmp_path / "n.smol", dtype)
    assert round_trip(tmp_path, old, new) < layer_size(new, 1) + layer_size(new, 3) + 1500


@pytest.mark.sample(1)
@pytest.mark.parametrize(("dtype", "share"), [("int8", 0.2), ("bf16", 0.55), ("f32", 0.3)])
def test_weights_that_moved_a_little_cost_a_part_of_themselves(tmp_path, base, dtype, share):
    """The source is bf16, so that half of f32 is zeros."""
    old = convert(base, tmp_path / "old.smol", dtype)
    tuned = changed(base, tmp_path / "new", trained_further(range(4), 0.003))
    new = convert(tuned, tmp_path / "new.smol", dtype)
    layers = sum(layer_size(new, layer) for layer in range(4))
    assert round_trip(tmp_path, old, new) < share * layers


def test_experts_that_moved_a_little_cost_a_part_of_themselves(tmp_path):
    """Each expert is compared with itself, not with the first one of its layer."""
    folder = make_of(featured("qwen3moe"), tmp_path / "a")
    old = convert(folder, tmp_path / "old.smol", "bf16")
    weights = load_file(folder / "model.safetensors")
    for name in (name for name in weights if ".experts." in name):
        weights[name].view(-1)[::50] *= 1.01
    save_file(weights, folder / "model.safetensors")
    new = convert(folder, tmp_path / "new.smol", "bf16")
    n_bytes = sum(t.size for t in read_blob(new).tensors.values() if "expert" in t.name)
    assert round_trip(tmp_path, old, new) < 0.2 * n_bytes


def test_layers_that_were_taken_out_or_moved_cost_next_to_nothing(tmp_path, base):
    def move(order):
        def edit(tensors):
            layers = {n: tensors.pop(n) for n in list(tensors) if ".layers." in n}
            for name, t in layers.items():
                before, layer, rest = name.split(".", 3)[:2], *name.split(".", 3)[2:]
                if int(layer) in order:
                    tensors[".".join([*before, str(order.index(int(layer))), rest])] = t

        return edit

    old = convert(base, tmp_path / "old.smol")
    for order in ([0, 1, 3], [3, 1, 2, 0]):
        new = changed(base, tmp_path / f"{len(order)}", move(order),
                      config={"num_hidden_layers": len(order)})  # fmt: skip
        blob = convert(new, tmp_path / f"{len(order)}.smol")
        assert round_trip(tmp_path, old, blob) < 0.02 * blob.stat().st_size


def test_the_same_blob_costs_a_header_and_a_part(tmp_path, demo_blob):
    old = demo_blob("int8")
    assert round_trip(tmp_path, old, old) == 80 + 40


@pytest.mark.slow
def test_the_real_model_s_updates_cost_little(tmp_path, real_model_dir):
    old, real = Path(blob_of(real_model_dir, "int8")), Path(real_model_dir)
    settings = changed(real, tmp_path / "settings", generation_config={"temperature": 0.2})
    assert round_trip(tmp_path, old, convert(settings, tmp_path / "settings.smol")) < 400
    token = convert(with_another_token(real, tmp_path / "token"), tmp_path / "token.smol")
    assert round_trip(tmp_path, old, token) < 25_000


@pytest.mark.slow
def test_a_layer_of_the_real_model_needs_40_megabytes_to_make_and_8_to_apply(
    tmp_path, real_model_dir
):
    old = Path(blob_of(real_model_dir, "int8"))
    layer = changed(Path(real_model_dir), tmp_path / "layer", trained_anew([7]))
    new, path = convert(layer, tmp_path / "new.smol"), tmp_path / "d"
    succeeds("delta", "--threads", 1, old, new, path, preexec_fn=limited("DATA", 40_000_000))
    assert path.stat().st_size < layer_size(new, 7)
    succeeds("patch", old, path, tmp_path / "result.smol", preexec_fn=limited("DATA", 8_000_000))
    assert (tmp_path / "result.smol").read_bytes() == new.read_bytes()


# --- anything into anything ---------------------------------------------------------------------


def odd_checkpoint(folder, seed):
    rng = np.random.default_rng(seed)
    heads, kv_heads = [(2, 1), (3, 3), (4, 2)][seed % 3]
    return make(
        folder, seed, ["BF16", "F32", "F16"][seed % 3],
        hidden_size=heads * 2 * int(rng.integers(1, 30)),
        intermediate_size=int(rng.integers(1, 300)), num_hidden_layers=int(rng.integers(1, 4)),
        num_attention_heads=heads, num_key_value_heads=kv_heads,
        vocab_size=int(rng.integers(3, 400)), tie_word_embeddings=bool(rng.integers(2)),
        attention_bias=bool(rng.integers(2)), mlp_bias=bool(rng.integers(2)),
    )  # fmt: skip


def test_blobs_of_any_two_shapes_and_dtypes(tmp_path):
    rng = np.random.default_rng(5)
    blobs = []
    n = 8 if os.environ.get("SMOL_TEST_ALL") else 5
    for seed in range(n):
        odd_checkpoint(tmp_path / str(seed), seed)
        blobs.append(convert(tmp_path / str(seed), tmp_path / f"{seed}.smol", DTYPES[seed % 4]))
    blobs.append(convert(tmp_path / "0", tmp_path / "other.smol", "f32"))
    for _ in range(2 * n):
        old, new = rng.choice(len(blobs), 2)
        round_trip(tmp_path, blobs[old], blobs[new])


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_bytes_of_a_blob_may_change(tmp_path, base, dtype):
    """Here and there, in runs of any length, in every section."""
    rng = np.random.default_rng(7)
    old = convert(base, tmp_path / "old.smol", dtype)
    start, size = section(old.read_bytes(), WEIGHTS)

    def edit(data):
        for _ in range(int(rng.integers(1, 12))):
            at = start + int(rng.integers(size))
            length = min(int(2 ** rng.uniform(0, 17)), start + size - at)
            data[at : at + length] = rng.integers(0, 64, length, np.uint8).tobytes()
        stop, _ = section(data, STOP)
        struct.pack_into("<I", data, stop, int(rng.integers(3)))

    for _ in range(6):
        new = tmp_path / "new.smol"
        data = bytearray(old.read_bytes())
        edit(data)
        new.write_bytes(repaired(data))
        if smolconv("verify", new).returncode == 0:  # f32 and bf16 may become infinite
            round_trip(tmp_path, old, new)


def test_any_number_of_threads_makes_the_same_delta(tmp_path, base):
    old = convert(base, tmp_path / "old.smol", "f32")
    tuned = changed(base, tmp_path / "new", trained_further([0, 2], 0.01))
    new = convert(tuned, tmp_path / "new.smol", "f32")
    expected = make_delta(old, new, tmp_path / "d").read_bytes()
    for threads in (1, 2, 7, 64) if os.environ.get("SMOL_TEST_ALL") else (1, 7):
        succeeds("delta", "--force", "--threads", threads, old, new, tmp_path / "d")
        assert (tmp_path / "d").read_bytes() == expected


# --- patch --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def update(tmp_path_factory, base):
    """(OLD, NEW, DELTA) with copies, coded parts, and tensors of OLD that are not used."""
    folder = tmp_path_factory.mktemp("update")
    old = convert(base, folder / "old.smol")
    new = changed(base, folder / "new", trained_anew([2]), generation_config={"top_k": 3})
    convert(new, folder / "new.smol")
    return old, folder / "new.smol", make_delta(old, folder / "new.smol", folder / "d.smoldelta")


def refuses(folder, old, path, status, *parts, out="result.smol", **options):
    """patch fails so, and leaves nothing behind."""
    before = sorted(folder.iterdir())
    assert_fails(smolconv("patch", old, path, folder / out, **options), status, *parts)
    assert sorted(folder.iterdir()) == before


def test_a_delta_can_be_applied_in_place_but_only_when_asked_to(tmp_path, update):
    old, new, path = update
    blob = Path(shutil.copy(old, tmp_path / "blob.smol"))
    refuses(tmp_path, blob, path, 3, "blob.smol", "exists", "--force", out="blob.smol")
    assert blob.read_bytes() == old.read_bytes()
    succeeds("patch", "--force", blob, path, blob)
    assert blob.read_bytes() == new.read_bytes()
    assert sorted(tmp_path.iterdir()) == [blob]
    assert_fails(smolconv("patch", "--force", blob, path, blob), 2, "nothing to do")


def test_a_delta_may_come_through_a_pipe(tmp_path, update):
    old, new, path = update
    succeeds("patch", old, "-", tmp_path / "result.smol", input=path.read_bytes())
    assert (tmp_path / "result.smol").read_bytes() == new.read_bytes()
    for size in (0, 17, 80, 100, path.stat().st_size - 1):
        refuses(tmp_path, old, "-", 4, "standard input", out="x", input=path.read_bytes()[:size])


def test_a_wrong_old_blob_is_told_at_once(tmp_path, update, demo_blob):
    old, new, path = update
    front_digest = old.read_bytes()[15:7:-1].hex()
    refuses(tmp_path, demo_blob("int8"), path, 2, "int8.smol", "d.smoldelta",
            front_digest, str(old.stat().st_size))  # fmt: skip
    refuses(tmp_path, new, path, 2, "nothing to do")
    refuses(tmp_path, path, old, 4, "d.smoldelta", "smolconv patch")
    refuses(tmp_path, old, new, 2, "OLD DELTA NEW")
    assert_fails(smolconv("verify", path), 4, "d.smoldelta", "smolconv patch")
    assert_fails(smolconv("inspect", path), 5, "d.smoldelta", "smolconv patch")
    with pytest.raises(WrongBlob):
        apply(new.read_bytes(), path.read_bytes(), xxh3)


def test_a_damaged_old_blob_is_named_where_it_is_used(tmp_path, update):
    old, new, path = update
    start, _ = section(old.read_bytes(), WEIGHTS)
    used = set()
    for method, _, _, offset, size in read_parts(path.read_bytes()):
        used.update(range(offset // 65536, -(-(offset + size) // 65536)))
    n_chunks = -(-old.stat().st_size // 65536)
    assert len(used) == n_chunks  # the chunks at the ends of what is coded are copied, too
    for chunk in range(n_chunks):
        data = bytearray(old.read_bytes())
        data[min(chunk * 65536 + 60000, len(data) - 1)] ^= 4
        (tmp_path / "old.smol").write_bytes(data)
        refuses(tmp_path, tmp_path / "old.smol", path, 4, "old.smol")
    (tmp_path / "old.smol").write_bytes(old.read_bytes()[:-1])
    refuses(tmp_path, tmp_path / "old.smol", path, 4, "old.smol", "truncated")


def test_a_damaged_delta_is_refused(tmp_path, update):
    old, new, path = update
    data, rng = path.read_bytes(), np.random.default_rng(3)
    bad = tmp_path / "bad.smoldelta"
    for at in [*range(8, 130, 3), *rng.integers(0, len(data), 40)]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << int(rng.integers(8))
        bad.write_bytes(flipped)
        refuses(tmp_path, old, bad, 5 if at in (16, 17) else 4, "bad.smoldelta")
    for size in [*range(0, 130, 7), *rng.integers(130, len(data), 10), len(data) - 1]:
        bad.write_bytes(data[:size])
        refuses(tmp_path, old, bad, 4, "bad.smoldelta")
    for extra in (b"\0", data):
        bad.write_bytes(data + extra)
        refuses(tmp_path, old, bad, 4, "bad.smoldelta", "bytes after the end")
    bad.write_bytes(data.replace(b"\r\n", b"\n", 1))
    refuses(tmp_path, old, bad, 4, "bad.smoldelta", "line endings")


def test_what_is_no_file_and_what_cannot_be_written(tmp_path, update):
    old, new, path = update
    refuses(tmp_path, old, tmp_path / "none", 3, "none", "No such file")
    refuses(tmp_path, tmp_path / "none", path, 3, "none", "No such file")
    refuses(tmp_path, old, tmp_path, 3, "Is a directory")
    refuses(tmp_path, old, path, 3, "no/such", "No such file", out="no/such/x.smol")
    copy = shutil.copy(path, tmp_path / "d")
    assert_fails(smolconv("patch", "--force", old, copy, copy), 2, "is the delta")
    refuses(tmp_path, old, path, 3, "result.smol", "write", preexec_fn=limited("FSIZE", 1 << 17))


# --- delta --------------------------------------------------------------------------------------


def test_a_delta_says_how_large_it_is(tmp_path, update):
    old, new, path = update
    result = succeeds("delta", old, new, tmp_path / "d")
    sizes = f"{path.stat().st_size} bytes, for a blob of {new.stat().st_size}\n"
    assert result.stderr == f"smolconv: {sizes}" and result.stdout == ""


def test_blobs_that_are_not_whole_get_no_delta(tmp_path, update):
    old, new, _ = update
    bad = spoiled(new, tmp_path / "bad.smol", -70)
    for pair in ((bad, new), (old, bad)):
        assert_fails(smolconv("delta", *pair, tmp_path / "d"), 4, "bad.smol", "tensor")
    assert_fails(smolconv("delta", old, DEMO / "config.json", tmp_path / "d"), 4, "config.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.smol"]


def test_a_delta_is_not_written_over_anything_unasked(tmp_path, update):
    old, new, path = update
    blob = shutil.copy(old, tmp_path / "blob.smol")
    assert_fails(smolconv("delta", blob, new, blob, "--force"), 2, "one of the blobs")
    assert_fails(smolconv("delta", new, blob, blob, "--force"), 2, "one of the blobs")
    assert_fails(smolconv("delta", old, new, blob), 3, "exists")
    succeeds("delta", "--force", old, new, blob)
    assert Path(blob).read_bytes() == path.read_bytes()


# --- deltas made on purpose, their digests right ------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """FORMAT.md's blob, and the same with another temperature: (OLD's path, OLD, NEW)."""
    folder = tmp_path_factory.mktemp("pair")
    old = example_blob(folder)
    new = bytearray(old)
    struct.pack_into("<f", new, section(new, GENERATION)[0] + 12, 0.25)
    return folder / "example.smol", old, repaired(new)


def raw_frame(data):
    """A zstd frame with one block that is not compressed, by hand (RFC 8878)."""
    block = (len(data) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x20" + bytes([len(data)]) + block + data


def example_parts(old, new):
    """DELTA.md, section 9."""
    at = section(old, GENERATION)[0] + 12
    difference = bytes((a - b) % 256 for a, b in zip(new[at : at + 4], old[at : at + 4]))
    return [
        (COPY, b"", 8, 0, 8),
        (ZSTD, raw_frame(new[8:16]), 8, 0, 0),
        (COPY, b"", at - 16, 16, at - 16),
        (BYTES, raw_frame(difference), 4, at, 4),
        (COPY, b"", len(old) - at - 4, at + 4, len(old) - at - 4),
    ]


def patch(folder, old_path, data):
    (folder / "x.smoldelta").write_bytes(data)
    return smolconv("patch", "--force", old_path, folder / "x.smoldelta", folder / "new.smol")


def both_take(folder, pair, data):
    old_path, old, new = pair
    result = patch(folder, old_path, data)
    assert result.returncode == 0, result.stderr
    assert (folder / "new.smol").read_bytes() == new == apply(old, data, xxh3)


def both_refuse(folder, pair, data, *parts, status=4, kind=Damaged):
    """None: the second reader leaves this to the reader of blobs."""
    old_path, old, _ = pair
    assert_fails(patch(folder, old_path, data), status, "x.smoldelta", *parts)
    assert sorted(p.name for p in folder.iterdir()) == ["x.smoldelta"]
    if kind:
        with pytest.raises(kind):
            apply(old, data, xxh3)


def test_parts_may_be_cut_and_coded_in_any_way(tmp_path, pair):
    _, old, new = pair
    parts = example_parts(old, new)
    both_take(tmp_path, pair, delta(xxh3, old, new, parts))
    cuts = [0, 1, 63, 64, 65535, 65536, 65537, 100001, len(new)]
    pieces = [(new[a:b], a, b - a) for a, b in zip(cuts, cuts[1:])]
    both_take(tmp_path, pair, delta(xxh3, old, new, [
        (ZSTD, frame(bytes_), size, 0, 0) for bytes_, _, size in pieces
    ]))  # fmt: skip
    both_take(tmp_path, pair, delta(xxh3, old, new, [
        (BYTES, frame(bytes((a - b) % 256 for a, b in zip(bytes_, old[at:]))), size, at, size)
        for bytes_, at, size in pieces
    ]))  # fmt: skip


def test_halves_are_as_the_document_says(tmp_path, pair):
    """All of NEW by differences from bytes of OLD that have nothing to do with it."""
    _, old, new = pair
    offset = 4000
    size = (len(new) - offset) // 2 * 2
    of = np.frombuffer(old, "<u2", size // 2, offset).astype(np.int64)
    to = np.frombuffer(new, "<u2", size // 2, 0).astype(np.int64)
    signed = (to - of + 32768) % 65536 - 32768
    z = np.where(signed >= 0, 2 * signed, -2 * signed - 1)
    coded = frame((z % 256).astype(np.uint8).tobytes() + (z // 256).astype(np.uint8).tobytes())
    rest = (ZSTD, frame(new[size:]), len(new) - size, 0, 0)
    both_take(tmp_path, pair, delta(xxh3, old, new, [(HALVES, coded, size, offset, size), rest]))


def test_a_history_that_looks_like_a_dictionary_is_only_bytes(tmp_path, pair):
    """zstd's own calls would take what starts with this magic for one, and refuse it."""
    old_path, old, _ = pair
    magic = bytes.fromhex("37a430ec")
    start, _ = section(old, STOP)
    old = bytearray(old)
    at, _ = section(old, 5)  # provenance
    old[at : at + 4] = magic
    old = repaired(old)
    new = bytearray(old)
    struct.pack_into("<I", new, start, 1)
    new = repaired(new)
    (tmp_path / "old.smol").write_bytes(old)
    parts = [(ZSTD, frame(new), len(new), at, len(old) - at)]
    both_take(tmp_path, (tmp_path / "old.smol", old, new), delta(xxh3, old, new, parts))


HEADERS = [
    (dict(major=2), "version 2.0", 5, Unsupported),
    (dict(major=0), "version 0.0", 5, Unsupported),
    (dict(required=1 << 40), "features 0x10000000000", 5, Unsupported),
    (dict(reserved=1), "reserved", 4, Damaged),
    (dict(old_digest=1), "not the blob", 2, WrongBlob),
    (dict(old_size=135873), "not the blob", 2, WrongBlob),
    (dict(new_digest=1), "a blob other than", 4, Damaged),
    (dict(new_size=135871), "sizes", 4, Damaged),
    (dict(new_size=2**64 - 1), "truncated", 4, Damaged),
    (dict(new_size=0), "", 4, Damaged),
    (dict(file_size=0), "file_size", 4, Damaged),
    (dict(file_size=2**64 - 1), "file_size", 4, Damaged),
]


@pytest.mark.parametrize(("changes", "message", "status", "kind"), HEADERS)
def test_headers_that_lie(tmp_path, pair, changes, message, status, kind):
    _, old, new = pair
    data = delta(xxh3, old, new, example_parts(old, new), **changes)
    both_refuse(tmp_path, pair, data, message, status=status, kind=kind)


def test_newer_minor_versions_and_optional_features_are_taken(tmp_path, pair):
    _, old, new = pair
    data = delta(xxh3, old, new, example_parts(old, new), minor=65535, optional=2**64 - 1)
    both_take(tmp_path, pair, data)


SKIPPABLE = struct.pack("<II", 0x184D2A50, 3) + b"abc"
EIGHT = bytes(8)  # in place of the front digest
ALL = 135872  # bytes of either blob


def spoilt(data, old, new):
    assert data.count(old) >= 1
    return data.replace(old, new, 1)


# The part that makes bytes 8 to 15 of NEW, in ways that are not allowed.
PARTS = {
    "method": (4, frame(EIGHT), 8, 0, 0),
    "method 2^32 - 1": (2**32 - 1, frame(EIGHT), 8, 0, 0),
    "no bytes": (COPY, b"", 0, 0, 0),
    "no coded bytes": (ZSTD, b"", 8, 0, 0),
    "more than is missing": (COPY, b"", ALL - 7, 0, ALL - 7),
    "far more than is missing": (COPY, b"", 2**64 - 1, 0, 2**64 - 1),
    "copy beyond the end": (COPY, b"", 8, ALL - 7, 8),
    "copy far beyond the end": (COPY, b"", 8, 2**64 - 8, 8),
    "offset and size that wrap": (COPY, b"", 2**64 - 4, 8, 2**64 - 4),
    "copy of fewer": (COPY, b"", 8, 0, 7),
    "copy of more": (COPY, b"", 8, 0, 9),
    "copy with coded bytes": (COPY, b"x", 8, 0, 8),
    "history beyond the end": (ZSTD, frame(EIGHT), 8, 1, ALL),
    "history that wraps": (ZSTD, frame(EIGHT), 8, 2**64 - 1, 2),
    "a place for no history": (ZSTD, frame(EIGHT), 8, 1, 0),
    "differences from fewer": (BYTES, frame(EIGHT), 8, 0, 7),
    "differences from more": (BYTES, frame(EIGHT), 8, 0, 16),
    "halves from fewer": (HALVES, frame(EIGHT), 8, 0, 6),
    "half a half": (HALVES, frame(EIGHT[:7]), 7, 0, 7),
    "not a frame": (ZSTD, EIGHT, 8, 0, 0),
    "a skippable frame": (ZSTD, SKIPPABLE, 8, 0, 0),
    "a skippable frame in front": (ZSTD, SKIPPABLE + frame(EIGHT), 8, 0, 0),
    "a skippable frame after": (ZSTD, frame(EIGHT) + SKIPPABLE, 8, 0, 0),
    "two frames": (ZSTD, frame(EIGHT[:4]) * 2, 8, 0, 0),
    "bytes after the frame": (ZSTD, frame(EIGHT) + b"\0", 8, 0, 0),
    "a cut frame": (ZSTD, frame(EIGHT)[:-1], 8, 0, 0),
    "a frame's start": (ZSTD, frame(EIGHT)[:4], 8, 0, 0),
    "a frame of zstd 0.7": (ZSTD, b"\x27" + frame(EIGHT)[1:], 8, 0, 0),
    "content without a size": (ZSTD, frame(EIGHT, content_size=0), 8, 0, 0),
    "content of another size": (ZSTD, frame(EIGHT * 2), 8, 0, 0),
    "a size that the content has not": (ZSTD, spoilt(raw_frame(EIGHT), b"\x08", b"\x09"), 9, 0, 0),
    "content that is too small": (BYTES, frame(EIGHT[:7]), 8, 0, 8),
    "content that is huge": (ZSTD, frame(bytes(1 << 24)), 8, 0, 0),
    "differences of huge content": (BYTES, frame(bytes(1 << 24)), 8, 0, 8),
    "a block of no known kind": (ZSTD, spoilt(raw_frame(EIGHT), b"\x41", b"\x47"), 8, 0, 0),
    "a wrong checksum": (ZSTD, frame(EIGHT)[:-1] + b"?", 8, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_break_a_rule(tmp_path, pair, name):
    _, old, new = pair
    parts = example_parts(old, new)
    both_refuse(tmp_path, pair, delta(xxh3, old, new, [parts[0], PARTS[name], *parts[2:]]))


def test_a_frame_for_a_dictionary_is_refused(tmp_path, pair, real_dictionary):
    _, old, new = pair
    parts = example_parts(old, new)
    coded = frame(new[8:16], dictionary=real_dictionary)
    for part in ((ZSTD, coded, 8, 0, 0), (ZSTD, coded, 8, 16, 1000)):
        both_refuse(tmp_path, pair, delta(xxh3, old, new, [parts[0], part, *parts[2:]]))


@pytest.fixture(scope="module")
def real_dictionary():
    """A dictionary with an id, made by libzstd."""
    import ctypes

    from packed import zstd

    samples = [bytes([i % 7, i % 5] * 20) + str(i).encode() for i in range(2000)]
    sizes = (ctypes.c_size_t * len(samples))(*map(len, samples))
    out = ctypes.create_string_buffer(4000)
    zstd.ZDICT_trainFromBuffer.restype = ctypes.c_size_t
    room = ctypes.c_size_t(4000)
    n = zstd.ZDICT_trainFromBuffer(out, room, b"".join(samples), sizes, len(samples))
    assert n <= 4000
    return out.raw[:n]


def test_parts_larger_than_the_limits_are_refused(tmp_path, base, update):
    """The result of such a part would be right; a part of one byte less is accepted."""
    old_path, new_path, _ = update
    big = 3 << 20
    old = convert(make(tmp_path / "c", hidden_size=256, intermediate_size=700, num_hidden_layers=3),
                  tmp_path / "old.smol", "f32")  # fmt: skip
    shutil.rmtree(tmp_path / "c")
    data = old.read_bytes()
    assert len(data) > MAX_OLD + big
    noise = np.random.default_rng(0).integers(0, 256, MAX_CODED, np.uint8).tobytes()
    copy = (COPY, b"", MAX_NEW, 0, MAX_NEW)
    rest = (COPY, b"", len(data) - MAX_NEW, MAX_NEW, len(data) - MAX_NEW)

    def result(*parts):
        (tmp_path / "d").write_bytes(delta(xxh3, data, data, [*parts]))
        status = smolconv("patch", "--force", old, tmp_path / "d", tmp_path / "n.smol").returncode
        try:
            assert apply(data, (tmp_path / "d").read_bytes(), xxh3) == data and status == 0
        except Damaged:
            assert status == 4
        return status

    assert result(copy, rest) == 0
    zeros = frame(bytes(MAX_NEW))
    assert result((BYTES, zeros, MAX_NEW, 0, MAX_NEW), rest) == 0
    assert result((ZSTD, frame(data[:MAX_NEW]), MAX_NEW, 0, MAX_OLD), rest) == 0
    assert result((ZSTD, frame(data[:MAX_NEW]), MAX_NEW, 0, MAX_OLD + 1), rest) == 4
    more = MAX_NEW + 2
    rest = (COPY, b"", len(data) - more, more, len(data) - more)
    assert result((BYTES, frame(bytes(more)), more, 0, more), rest) == 4
    assert result((HALVES, frame(bytes(more)), more, 0, more), rest) == 4
    assert result((ZSTD, frame(data[:more]), more, 0, 0), rest) == 4
    assert result((ZSTD, noise + b"x", MAX_NEW, 0, 0), rest) == 4


def test_bytes_after_the_last_part_are_refused(tmp_path, pair):
    _, old, new = pair
    parts = example_parts(old, new)
    both_refuse(tmp_path, pair, delta(xxh3, old, new, [*parts, (COPY, b"", 8, 0, 8)]), "after the end")
    both_refuse(tmp_path, pair, delta(xxh3, old, new, parts[:-1]), "truncated")
    both_refuse(tmp_path, pair, delta(xxh3, old, new, []), "truncated")


def test_what_comes_out_must_be_a_blob_to_its_last_byte(tmp_path, pair):
    """Every section of NEW spoilt in turn, by a delta that says so; then what its digests allow."""
    _, old, new = pair
    places = (0, 8, 16, 25, 70, 330, 520, 600, 700, 1480, 60000, 65600, 80000, 131100, ALL - 1)
    for at in places:
        bad = bytearray(new)
        bad[at] ^= 1
        data = delta(xxh3, old, bad, [(ZSTD, frame(bad), len(bad), 0, 0)])
        both_refuse(tmp_path, pair, data, status=5 if at == 16 else 4, kind=None)
    start, _ = section(new, 32)  # the tokenizer: rules that no digest stands for
    bad = bytearray(new)
    bad[start + 12] = 0  # max_probe
    bad = repaired(bad)
    data = delta(xxh3, old, bad, [(ZSTD, frame(bad), len(bad), 0, 0)])
    both_refuse(tmp_path, pair, data, "tokenizer", kind=None)


def test_a_small_delta_for_a_huge_blob_ends_with_the_front_that_does_not_fit(tmp_path, pair):
    """new_size claims 2^60 bytes: the parts may go on, but the front says what there can be."""
    _, old, new = pair
    huge = (COPY, b"", len(old), 0, len(old))
    data = delta(xxh3, old, new, [huge] * 1000, new_size=2**60)
    both_refuse(tmp_path, pair, data, "bytes after the end", kind=None)


# --- the document -------------------------------------------------------------------------------


def example_dump(data, new):
    """Section 9: the delta, with what its fields are."""
    old_digest, old_size, new_digest, new_size = struct.unpack_from("<4Q", data, 48)
    lines = []

    def show(start, size, what):
        for at in range(start, start + size, 16):
            piece = data[at : min(at + 16, start + size)]
            lines.append(f"{at:03x}  {piece.hex(' '):<47}  {what if at == start else ''}".rstrip())

    show(0, 8, "magic")
    show(8, 8, "digest")
    show(16, 16, f"major 1, minor 0, reserved, file_size {len(data)}")
    show(32, 16, "required, optional features")
    show(48, 16, f"OLD's front_digest, file_size {old_size}")
    show(64, 16, f"NEW's front_digest, file_size {new_size}")
    at = 80
    names = ("copy", "zstd", "bytes", "halves")
    for method, coded, size, offset, used in read_parts(data):
        show(at, 16, f"digest, method {method} ({names[method]}), coded_size {len(coded)}")
        show(at + 16, 24, f"new_size {size}, old_offset {offset}, old_size {used}")
        if coded:
            show(at + 40, len(coded), "a frame with one block that is not compressed")
        at += 40 + len(coded)
    return "\n".join(lines)


def test_the_worked_example_in_the_document_is_a_real_delta(tmp_path, pair):
    old_path, old, new = pair
    data = delta(xxh3, old, new, example_parts(old, new))
    both_take(tmp_path, pair, data)
    text = (ROOT / "format/DELTA.md").read_text()
    assert example_dump(data, new) in text, "run `python tests/oracle/test_delta.py`"
    assert f"{len(data)} bytes" in text
    (tmp_path / "blob.smol").write_bytes(new)
    made = make_delta(old_path, tmp_path / "blob.smol", tmp_path / "d").read_bytes()
    assert len(read_parts(made)) == 2


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        old = example_blob(folder)
        new = bytearray(old)
        struct.pack_into("<f", new, section(new, GENERATION)[0] + 12, 0.25)
        new = repaired(new)
        print(example_dump(delta(xxh3, old, new, example_parts(old, new)), new))
