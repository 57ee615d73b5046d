"""Versions of the format: blobs of every released version, tests/data/blobs, are read and give the
results that they gave when they were made; what a later version may change, FORMAT.md section 11,
is accepted or refused as said there. scripts/release-blobs makes the blobs."""

import hashlib
import json
import random
import struct
import subprocess

import numpy as np
import pytest
from blob_images import repair_front, xxh3
from chats import chat_ids
from engine import KV_TYPES, Model
from internal import BUILD, DAMAGED, OK, ROOT, UNSUPPORTED
from smol_reader import Blob, Unsupported

pytestmark = pytest.mark.quick

BLOBS = ROOT / "tests/data/blobs"
PACKED = sorted(BLOBS.glob("*.smol.zst"))
MESSAGES = [
    {"role": "user", "content": " the thin hat\n"},
    {"role": "tool", "content": None},
    {"role": "assistant", "content": "that’s </s> it, and then some more"},
]


def unpack(packed, folder):
    path = folder / packed.name.removesuffix(".zst")
    subprocess.run(["zstd", "-q", "-d", packed, "-o", path], check=True)
    return path


def describe(path):
    command = [BUILD / "smolconv", "inspect", "--tensors", path]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode(errors="replace")


# --- blobs of the past ----------------------------------------------------------------------------


@pytest.fixture(params=PACKED, ids=lambda path: path.name.removesuffix(".smol.zst"))
def released(request, tmp_path):
    """A blob, and what it gave when it was made."""
    path = unpack(request.param, tmp_path)
    expected = json.loads((BLOBS / f"{path.stem}.json").read_text())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == expected["sha256"]
    return path, expected


def test_there_are_blobs_of_every_kind():
    names = {path.name.removesuffix(".smol.zst") for path in PACKED}
    kinds = """1.0-int8 1.0-bf16 1.0-f32 1.1-blocks 1.1-scanner 1.1-template 1.1-text
        1.2-int4 1.2-int5 1.65535-optional"""
    assert names >= set(kinds.split())


def test_a_released_blob_verifies(released):
    path, expected = released
    result = subprocess.run([BUILD / "smolconv", "verify", path], capture_output=True, text=True)
    assert result.returncode == OK and f"good: {expected['bytes']} bytes" in result.stdout
    Blob(path.read_bytes(), xxh3).check_padding()


def test_a_released_blob_gives_the_same_logits(released):
    path, expected = released
    with Model(path) as model:
        for kv, digest in expected["logits"].items():
            logits = model.logits(expected["ids"], kv=kv)
            assert np.isfinite(logits).all()
            assert hashlib.sha256(logits.tobytes()).hexdigest() == digest, kv
    assert set(expected["logits"]) >= set(KV_TYPES) - {"int4"}  # the youngest


def test_a_released_blob_gives_the_same_token_ids(released):
    path, expected = released
    with Model(path) as model:
        for text, ids in expected["texts"].items():
            assert model.tokenize(text, parse_special=True) == ids
    assert sum(map(len, expected["texts"].values())) > 20


def test_a_released_blob_gives_the_same_conversation(released):
    path, expected = released
    with Model(path) as model:
        if "chat" in expected:
            assert chat_ids(model.handle, MESSAGES) == expected["chat"]
    assert ("chat" in expected) == ("template" in path.name)


def test_a_released_blob_is_shown_as_before(released):
    path, _ = released
    wanted = (BLOBS / f"{path.stem}.inspect.txt").read_text()
    assert describe(path) == wanted, "a change of what is shown: scripts/release-blobs --inspect"


# --- versions and features of the future ----------------------------------------------------------


@pytest.fixture()
def blob(tmp_path):
    return bytearray(unpack(BLOBS / "1.0-int8.smol.zst", tmp_path).read_bytes())


def results(path, blob):
    """Exit status and message of each program for a file with these bytes."""
    path.write_bytes(blob)
    for program, *arguments in (
        ("smolconv", "verify", path),
        ("smolconv", "inspect", path),
        ("smolrun", path, "the", "-n", "1"),
    ):
        result = subprocess.run([BUILD / program, *arguments], capture_output=True, timeout=60)
        yield result.returncode, result.stderr.decode()


def assert_all(path, blob, status, part=""):
    for returncode, message in results(path, blob):
        assert returncode == status and part in message, message


@pytest.mark.parametrize("major", [0, 2, 256, 65535])
def test_another_major_version_is_unsupported_whatever_else_there_is(tmp_path, blob, major):
    struct.pack_into("<HH", blob, 16, major, 3)
    noise = random.Random(major).randbytes(len(blob))
    for rest in (blob[20:], noise[20:], noise[20:64], bytes(44)):
        changed = blob[:8] + noise[8:16] + blob[16:20] + rest
        assert_all(tmp_path / "x.smol", changed, UNSUPPORTED, f"version {major}.3")
        with pytest.raises(Unsupported):
            Blob(bytes(changed), xxh3)


@pytest.mark.parametrize("bits", [1 << 29, 1 << 31, 1 << 32, 1 << 63, 0x80000000_60000000])
def test_unknown_required_features_are_unsupported_and_named(tmp_path, blob, bits):
    struct.pack_into("<Q", blob, 40, bits)
    assert_all(tmp_path / "x.smol", repair_front(blob), UNSUPPORTED, f"features {bits:#x}:")
    with pytest.raises(Unsupported):
        Blob(bytes(blob), xxh3)


@pytest.mark.parametrize("start", [20, 56, 64, 65536])
def test_needs_come_before_what_they_may_change(tmp_path, blob, start):
    """The number of sections, the reserved field, the section table, the data."""
    struct.pack_into("<HHIQQQQQ", blob, 16, 1, 9, 10, len(blob), 65536, 1 << 29, 0, 1)
    changed = blob[:start] + random.Random(start).randbytes(len(blob) - start)
    struct.pack_into("<QQQ", changed, 24, len(blob), 65536, 1 << 29)
    assert_all(tmp_path / "x.smol", repair_front(changed), UNSUPPORTED, "features 0x20000000:")


def test_damage_comes_before_needs(tmp_path, blob):
    """A bit may have been flipped: only a front whose digest is right can ask for anything."""
    struct.pack_into("<Q", blob, 40, 1 << 29)
    assert_all(tmp_path / "x.smol", blob, DAMAGED, "digest")
    repair_front(blob)
    assert_all(tmp_path / "x.smol", blob[:-1], DAMAGED, "truncated")
    assert_all(tmp_path / "x.smol", blob + b"\0", DAMAGED, "appended")
    struct.pack_into("<Q", blob, 32, 65537)
    assert_all(tmp_path / "x.smol", blob, DAMAGED, "data_offset")


@pytest.mark.parametrize("minor", [1, 255, 65535])
def test_minor_versions_and_optional_features_are_accepted(tmp_path, blob, minor):
    struct.pack_into("<H", blob, 18, minor)
    struct.pack_into("<Q", blob, 48, 1 << minor % 64)
    assert_all(tmp_path / "x.smol", repair_front(blob), OK)
    assert f".smol 1.{minor}\n" in describe(tmp_path / "x.smol")


def test_kinds_of_section_that_are_free_need_a_feature(tmp_path, blob):
    """Without a feature, a reader reports them as damage: nothing unknown is skipped."""
    for kind in (0, 8, 31, 34, 2**32 - 1):
        struct.pack_into("<I", blob, 64 + 24, kind)
        assert_all(tmp_path / "x.smol", repair_front(blob), DAMAGED, "section")
