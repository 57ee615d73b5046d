"""smolconv verify --source: a blob that came from a checkpoint is told from one that did not."""
import json
import re
import resource
import struct

import numpy as np
import pytest
from blobs import edited, read_blob, section, spoiled
from checkpoints import make
from internal import NO, ROOT
from programs import assert_fails, smolconv
from smol_reader import PROVENANCE

DEMO = ROOT / "demo/model"
DTYPES = ("int8", "int4", "bf16", "f32")


def verify(blob, source, *arguments, **options):
    return smolconv("verify", "--source", source, *arguments, blob, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_blob_of_the_bundled_model_comes_from_it(demo_blob, dtype, tmp_path):
    before = sorted(DEMO.iterdir())
    for threads in (1, 2, 5):
        result = verify(demo_blob(dtype), DEMO, "--threads", threads, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        assert "every byte is the same" in result.stdout
    assert verify(demo_blob(dtype), DEMO / "model.safetensors").returncode == 0
    assert list(tmp_path.iterdir()) == [] and sorted(DEMO.iterdir()) == before


@pytest.mark.parametrize("seed", range(6))
def test_random_checkpoints_of_odd_shapes(tmp_path, seed):
    rng = np.random.default_rng(seed)
    heads, kv_heads = [(2, 1), (3, 3), (4, 2)][seed % 3]
    settings = dict(
        hidden_size=heads * 2 * int(rng.integers(1, 30)),
        intermediate_size=int(rng.integers(1, 150)),
        num_hidden_layers=int(rng.integers(1, 4)),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=bool(seed % 2),
        attention_bias=bool(seed & 2),
        mlp_bias=bool(seed & 4),
    )
    make(tmp_path / "a", seed=seed, dtype=["BF16", "F16", "F32"][seed % 3], **settings)
    make(tmp_path / "b", seed=seed + 100, dtype=["BF16", "F16", "F32"][seed % 3], **settings)
    for dtype in DTYPES:
        blob = tmp_path / f"{dtype}.smol"
        assert smolconv("--dtype", dtype, tmp_path / "a", blob).returncode == 0
        assert verify(blob, tmp_path / "a").returncode == 0
        assert_fails(verify(blob, tmp_path / "b"), NO, f"{dtype}.smol", "tensor embed")


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_bit_of_one_weight_is_found_and_its_tensor_named(tmp_path, demo_blob, dtype):
    tensors = read_blob(demo_blob(dtype)).tensors
    for name in ("embed", "layers.2.mlp_norm", "layers.3.attn_v", "layers.5.mlp_down"):
        at = tensors[name].offset + 64  # beyond the first scales

        def flip(data):
            data[at] ^= 1

        blob = edited(demo_blob(dtype), tmp_path / "edited.smol", flip)
        assert smolconv("verify", blob).returncode == 0
        assert_fails(verify(blob, DEMO), NO, "edited.smol", f"weights, tensor {name}, offset {at}")


def test_other_settings_are_named_by_their_section(tmp_path, demo_blob, checkpoint):
    for name, changes, place in [
        ("config.json", {"max_position_embeddings": 513}, "section model"),
        ("config.json", {"rope_theta": 20000.0, "rope_parameters": None}, "section model"),
        ("config.json", {"eos_token_id": [0, 1]}, "section stop"),
        ("generation_config.json", {"temperature": 0.3}, "section generation"),
    ]:
        path = checkpoint / name
        original = path.read_text()
        path.write_text(json.dumps({**json.loads(original), **changes}))
        assert_fails(verify(demo_blob(), checkpoint), NO, place)
        path.write_text(original)
    path = checkpoint / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    tokenizer["model"]["merges"].pop()
    path.write_text(json.dumps(tokenizer))
    assert_fails(verify(demo_blob(), checkpoint), NO, "section tokenizer")


def test_a_source_that_gives_the_same_contents_from_other_files_is_told(demo_blob, checkpoint):
    path = checkpoint / "config.json"
    path.write_text(path.read_text() + "\n")
    size = path.stat().st_size
    result = verify(demo_blob(), checkpoint)
    assert_fails(result, NO, "the contents are what this checkpoint gives", f"config.json, {size} bytes")
    at = int(re.search(r"offset (\d+)", result.stderr)[1])
    offset, length = section(demo_blob().read_bytes(), PROVENANCE)
    line = demo_blob().read_bytes()[offset : offset + length].index(b"source: config.json")
    assert at == offset + line + len("source: config.json, 6")  # 609 bytes became 610


def test_a_missing_optional_file_is_a_missing_line(demo_blob, checkpoint):
    (checkpoint / "generation_config.json").unlink()
    result = verify(demo_blob(), checkpoint)
    assert_fails(result, NO, "section stop")  # only that file says that a turn's end is one


def test_another_release_is_reported_and_fine(tmp_path, demo_blob):
    offset, _ = section(demo_blob().read_bytes(), PROVENANCE)

    def change(data):
        at = offset + len("converter: smolconv ")
        data[at : at + 5] = b"9.8.7"

    blob = edited(demo_blob(), tmp_path / "other.smol", change)
    result = verify(blob, DEMO)
    assert (result.returncode, result.stderr) == (0, "")
    assert "by smolconv 9.8.7" in result.stdout
    assert "the same bytes except for its number" in result.stdout

    def steer(data):
        at = offset + len("converter: smolconv ")
        data[at : at + 5] = b"\x1b[31m"

    result = verify(edited(demo_blob(), tmp_path / "steer.smol", steer), DEMO)
    assert result.returncode == 0 and "\x1b" not in result.stdout and "?[31m" in result.stdout


def test_a_release_number_of_another_length_moves_what_follows(tmp_path, demo_blob):
    """The provenance grows, and may push the sections after it by 64 bytes."""
    data = bytearray(demo_blob().read_bytes())
    offset, size = section(data, PROVENANCE)
    room = -(-size // 64) * 64 - size
    assert room > 0
    at = offset + len("converter: smolconv ")
    data[at:at] = b"1" * room
    del data[offset + size + room : offset + size + 2 * room]
    struct.pack_into("<Q", data, 64 + 4 * 24 + 16, size + room)
    blob = tmp_path / "longer.smol"
    blob.write_bytes(data)
    assert smolconv("verify", edited(blob, blob, lambda d: None)).returncode == 0
    result = verify(blob, DEMO)
    assert result.returncode == 0 and f"by smolconv {'1' * room}0.1.0" in result.stdout


def test_a_blob_of_no_release_did_not_come_from_us(tmp_path, demo_blob):
    offset, _ = section(demo_blob().read_bytes(), PROVENANCE)

    def change(data):
        data[offset : offset + 9] = b"Converter"

    blob = edited(demo_blob(), tmp_path / "other.smol", change)
    assert_fails(verify(blob, DEMO), NO, "the contents are", 'expected "converter: smolconv ')


def test_a_damaged_blob_is_status_4_whatever_the_source(tmp_path, demo_blob, checkpoint):
    bad = spoiled(demo_blob(), tmp_path / "bad.smol")
    for source in (DEMO, tmp_path / "none"):
        result = verify(bad, source)
        assert result.returncode == 4 and "bad.smol: data damaged" in result.stderr


def test_a_source_that_cannot_be_converted_has_its_own_status(tmp_path, demo_blob, checkpoint):
    result = verify(demo_blob(), tmp_path / "none")
    assert result.returncode == 3 and "none" in result.stderr
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    result = verify(demo_blob(), checkpoint)
    assert result.returncode == 5 and "relu" in result.stderr
    (checkpoint / "config.json").write_text("{")
    assert verify(demo_blob(), checkpoint).returncode == 4


@pytest.mark.parametrize(
    "arguments",
    [["--source"], ["--source", "a"], ["--threads", "0", "a"], ["--source", "a", "b", "c"]],
)
def test_wrong_usage_is_status_2(arguments):
    assert smolconv("verify", *arguments).returncode == 2


@pytest.mark.parametrize("dtype", ["int8", *(pytest.param(d, marks=pytest.mark.slow) for d in DTYPES[1:])])
def test_the_real_model_needs_no_file_and_64_megabytes(tmp_path, real_model_dir, dtype):
    blob = tmp_path / "real.smol"
    assert smolconv("--dtype", dtype, real_model_dir, blob).returncode == 0

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (64_000_000, 64_000_000))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    result = verify(blob, real_model_dir, "--threads", 2, preexec_fn=limited)
    assert result.returncode == 0, result.stderr
    assert "every byte is the same" in result.stdout
