"""--require-digest runs the file that sha256sum and hashlib say it is, and no other."""

import ctypes
import hashlib
import random
import subprocess

import numpy as np
import pytest
from engine import Model, SmolError
from internal import lib
from programs import run

OK, USAGE, FILE, DAMAGED = 0, 2, 3, 4


def our_digest(data, size=None):
    state = ctypes.create_string_buffer(64)  # more than a struct sha256
    text = ctypes.create_string_buffer(65)
    lib.smol_sha256_start(state)
    lib.smol_sha256_end(state, data, ctypes.c_size_t(len(data) if size is None else size), text)
    return text.value.decode()


def sha256sum(path):
    done = subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True)
    return done.stdout.split()[0]


def smolrun(*arguments):
    done = run("smolrun", arguments, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def digest(blob):
    return sha256sum(blob)


@pytest.fixture(params=["generate", "tokenize", "logits", "bench"])
def command(request, blob, tmp_path):
    """command(digest, blob): the words of each command that opens a model."""
    words = {
        "generate": lambda file: [file, "Once", "-n", "4"],
        "tokenize": lambda file: ["tokenize", file, "Once"],
        "logits": lambda file: ["logits", file, "Once", "-o", tmp_path / "logits"],
        "bench": lambda file: ["bench", file, "-p", "4", "-n", "4"],
    }[request.param]
    return lambda digest, file=blob: [*words(file), "--require-digest", digest]


# --- the digest ---------------------------------------------------------------------------------


def test_every_length_of_a_few_blocks_agrees_with_hashlib():
    data = random.Random(1).randbytes(1000)
    for size in range(len(data) + 1):
        assert our_digest(data[:size]) == hashlib.sha256(data[:size]).hexdigest(), size


def test_long_messages_at_odd_addresses_agree_with_hashlib():
    data = random.Random(2).randbytes(3 << 20)
    memory = ctypes.create_string_buffer(data, len(data))
    for start in (0, 1, 3, 8, 63):
        digest = our_digest(ctypes.byref(memory, start), len(data) - start)
        assert digest == hashlib.sha256(data[start:]).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 4096, 1000003])
def test_files_agree_with_sha256sum(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(random.Random(size).randbytes(size))
    assert our_digest(path.read_bytes()) == sha256sum(path)


# --- requiring it -------------------------------------------------------------------------------


def test_the_file_with_the_digest_runs(command, digest):
    for spelling in (digest, digest.upper()):
        status, text, complaint = smolrun(*command(spelling))
        assert status == OK and complaint == "", complaint


def test_another_digest_is_refused_with_both_named(command, digest, tmp_path):
    for i in (0, 31, 63):
        other = digest[:i] + "0123456789abcdef"[int(digest[i], 16) ^ 1] + digest[i + 1 :]
        status, text, complaint = smolrun(*command(other))
        assert status == DAMAGED and text == "", complaint
        assert digest in complaint and other in complaint and "int8.smol" in complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "malformed", ["", "abc", "g" * 64, "0" * 63, "0" * 65, "0x" + "0" * 62, " " + "0" * 63]
)
def test_a_malformed_digest_is_wrong_usage_whatever_the_file(command, malformed):
    for file in ({}, {"file": __file__}):
        status, text, complaint = smolrun(*command(malformed, **file))
        assert status == USAGE and text == "", complaint
        assert "64 hexadecimal digits" in complaint


def test_nothing_is_interpreted_before_the_digest_is_right(blob, digest, tmp_path):
    """A file that is no blob at all, or ends too soon, is refused for its digest alone."""
    for data in (b"", b"GGUF", blob.read_bytes()[:-1], b"\0" * 100):
        path = tmp_path / "file.smol"
        path.write_bytes(data)
        status, _, complaint = smolrun(path, "Once", "--require-digest", digest)
        assert status == DAMAGED and "SHA-256" in complaint, complaint
        status, _, complaint = smolrun(path, "Once", "--require-digest", sha256sum(path))
        assert status not in (OK, USAGE, FILE) and "SHA-256" not in complaint, complaint


def test_every_flipped_bit_of_a_byte_anywhere_is_refused(blob, digest, tmp_path):
    data = bytearray(blob.read_bytes())
    path = tmp_path / "flipped.smol"
    for place in random.Random(3).sample(range(len(data)), 20):
        bit = 1 << place % 8
        data[place] ^= bit
        path.write_bytes(data)
        with pytest.raises(SmolError, match="SHA-256") as error:
            Model(path, require_digest=digest.encode())
        assert error.value.status == DAMAGED
        data[place] ^= bit


def test_what_runs_is_what_had_the_digest_whatever_becomes_of_the_file(blob, digest, tmp_path):
    path = tmp_path / "changing.smol"
    path.write_bytes(blob.read_bytes())
    ids = [1, 2, 3, 4]
    with Model(blob) as model:
        expected = model.logits(ids)
    with Model(path, require_digest=digest.encode()) as model:
        with open(path, "r+b") as file:  # the same file, not another under its name
            file.write(bytes(path.stat().st_size))
        assert np.array_equal(model.logits(ids), expected)
        path.write_bytes(b"")
        assert np.array_equal(model.logits(ids), expected)
