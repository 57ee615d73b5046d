"""The converter's safetensors reader against the reference package. Mutations are seeded:
SMOL_FUZZ_SEED and SMOL_FUZZ_ROUNDS repeat or lengthen a run (`make mutations`)."""

import ctypes
import json
import os
import random
import struct

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from internal import Error, lib
from structs import c_struct

ROUNDS = int(os.environ.get("SMOL_FUZZ_ROUNDS", 10000 if os.environ.get("SMOL_TEST_ALL") else 1000))
SEED = int(os.environ.get("SMOL_FUZZ_SEED", "1"))
MAX_RANK = 8


# ---- our reader ----


Tensor = c_struct("convert/checkpoint/safetensors.h", "safetensors_tensor")
Reader = c_struct("convert/checkpoint/safetensors.h", "safetensors", tensors=ctypes.POINTER(Tensor))
lib.smol_element_name.restype = ctypes.c_char_p


def read_ours(path):
    """{name: (dtype, shape, bytes)}, or the message of the refusal."""
    reader, error = Reader(), Error()
    if lib.smol_safetensors_open(str(path).encode(), ctypes.byref(reader), ctypes.byref(error)):
        return str(error)
    tensors = {}
    for tensor in reader.tensors[: reader.n_tensors]:
        dtype = lib.smol_element_name(tensor.dtype).decode()
        data = ctypes.string_at(tensor.data, tensor.size)
        tensors[tensor.name.decode()] = (dtype, list(tensor.shape[: tensor.rank]), data)
    lib.smol_safetensors_close(ctypes.byref(reader))
    return tensors


def read_theirs(blob):
    """Returns the tensors as the reference package reads them, or None if it refuses."""
    try:
        entries = safetensors.deserialize(blob)
    except safetensors.SafetensorError:
        return None
    return {name: (e["dtype"], e["shape"], bytes(e["data"])) for name, e in entries}


def assemble(header, data):
    return struct.pack("<Q", len(header)) + header + data


class Pairs(list):
    """A JSON object as its list of pairs, repeated keys included."""


def stricter(blob):
    """Whether one of the rules holds in which we are stricter on purpose, see safetensors.c."""
    size = struct.unpack("<Q", blob[:8])[0]
    tensors = json.loads(blob[8 : 8 + size], object_pairs_hook=Pairs)
    names = [name for name, _ in tensors]
    if len(set(names)) < len(names) or any("\0" in name for name in names):
        return True
    for name, description in tensors:
        if name == "__metadata__":
            continue
        if not isinstance(description, Pairs):
            return True
        fields = dict(description)
        if not isinstance(fields["dtype"], str) or len(fields["shape"]) > MAX_RANK:
            return True
    return False


def agree(blob, path):
    """Checks that both readers say the same of `blob`; returns whether they accept it."""
    path.write_bytes(blob)
    ours, theirs = read_ours(path), read_theirs(blob)
    if theirs is None:
        assert isinstance(ours, str), f"only we accept {blob!r}"
        return False
    if isinstance(ours, str):
        assert stricter(blob), f"only we refuse {blob!r}: {ours}"
        return False
    assert ours == theirs, blob
    assert not stricter(blob), f"we accept {blob!r}"
    return True


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("safetensors") / "model.safetensors"


# ---- files of the reference read back ----

DTYPES = "bool uint8 int8 uint16 int16 float16 uint32 int32 float32 uint64 int64 float64 complex64"


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES.split())))
    shape = draw(st.lists(st.integers(0, 5), max_size=5))
    n_bytes = int(np.prod(shape, dtype=int)) * dtype.itemsize
    data = random.Random(draw(st.integers(0, 2**32))).randbytes(n_bytes)
    if dtype == bool:
        data = bytes(b & 1 for b in data)
    return np.frombuffer(data, dtype).reshape(shape)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.dictionaries(names.filter(lambda name: name != "__metadata__"), arrays(), max_size=8),
    # an empty dictionary would do, but without tensors the reference writes broken JSON for it
    st.none() | st.dictionaries(names, names, min_size=1, max_size=4),
)
def test_reads_back_what_the_reference_writes(path, tensors, metadata):
    blob = safetensors.numpy.save(tensors, metadata)
    assert agree(blob, path)
    ours = read_ours(path)
    assert set(ours) == set(tensors)
    for name, array in tensors.items():
        assert ours[name][1:] == (list(array.shape), array.tobytes())


# ---- agreement on what is accepted ----

ONE = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
TWO = ONE + ',"b":{"dtype":"F16","shape":[1,2],"data_offsets":[1,5]}'


def with_field(text):
    return '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":' + text + "}}"


def with_dtype(text):
    return '{"a":{"dtype":' + text + ',"shape":[1],"data_offsets":[0,1]}}'


def with_shape(text):
    return '{"a":{"dtype":"U8","shape":' + text + ',"data_offsets":[0,1]}}'


def with_offsets(text):
    return '{"a":{"dtype":"U8","shape":[1],"data_offsets":' + text + "}}"


def with_name(text):
    return '{"' + text + '":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'


NUMBERS = """0 -0 1 -1 10 01 -01 1. .5 1.5 -1.5e3 1e5 1E+5 1e-5 1e 1e+ - +1 0x1 0e999 1e400 -1e400
    1e-400 2e308 1.7976931348623157e308 NaN Infinity tru true nul null 18446744073709551615
    18446744073709551616 9e99999999999999999 0e99999999999999999 1e-99999999999999999""".split()
NUMBERS += [
    "9" * 400,
    "1" + "0" * 308,
    "1" + "0" * 309,
    "0." + "0" * 500 + "1",
    "[]",
    "{}",
    '""',
    "",
]
STRINGS = [
    r"\u0041",
    r"\ud83d\ude00",
    r"\ud83d",
    r"\ude00",
    r"\ud83dx",
    r"\ud83d\n",
    r"\ud83d\ud83d",
]
STRINGS += [
    r"\ud83d\u0041",
    r"\q",
    r"\u12",
    r"\u12g4",
    r"\U0041",
    r"\/\b\f\n\r\t\\" + r"\"",
    r"\u0000",
]
STRINGS += [
    "\n",
    "\t",
    "\x00",
    "\x1f",
    "\x7f",
    "\x80",
    "\ufffd",
    "\ufeff",
    "\U0010ffff",
    "__metadata__",
]
DEPTHS = [1, 50, 100, 124, 125, 126, 127, 128, 129, 1000]
VALID_DTYPES = """BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ
    I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64""".split()

HEADERS = [
    "",
    " ",
    "{",
    "}",
    "[]",
    "null",
    "{}",
    "{,}",
    "{}{}",
    "{} x",
    "{}\0",
    "\0{}",
    "\ufeff{}",
    "[[],[]]",
]
HEADERS += [
    a + "{" + ONE + "}" + b
    for a in ("", " \n\t\r", "\v", "\f")
    for b in ("", " \n\t\r", "\v", "\0")
]
HEADERS += [
    "{" + ONE + ",}",
    "{" + ONE + "," + ONE + "}",
    "{," + ONE + "}",
    "{" + ONE + " " + ONE + "}",
]
HEADERS += ['{"a":' + value + "}" for value in ("null", "1", "[]", "{}", '"x"', '["U8",[1],[0,1]]')]
HEADERS += [
    '{"__metadata__":' + value + "," + ONE + "}"
    for value in (
        "null",
        "{}",
        "[]",
        "1",
        '{"a":"b"}',
        '{"a":1}',
        '{"a":null}',
        '{"a":"b","a":"c"}',
        '{"a":"b",}',
        'null,"__metadata__":null',
        '{},"__metadata__":{}',
    )
]
HEADERS += [with_field(text) for text in NUMBERS]
HEADERS += [with_field('"' + text + '"') for text in STRINGS]
HEADERS += [with_field('[{"' + text + '":0}]') for text in STRINGS]
HEADERS += [with_field("[" * n + "]" * n) for n in DEPTHS]
HEADERS += [with_field('{"a":' * n + "1" + "}" * n) for n in DEPTHS]
HEADERS += [
    with_field(text) for text in ("[1,]", "[,]", "[1 2]", "{1:2}", '{"a"}', '{"a":1,}', "[1}", "{]")
]
HEADERS += [with_field("1," + text) for text in ('"x":1', '"dtype":"U8"', '"shape":[1]', '"y":2')]
HEADERS += [
    with_dtype(text) for text in ("null", "1", '"u8"', '"U8 "', '"U9"', '{"U8":null}', r'"\u00558"')
]
HEADERS += [
    with_shape(text) for text in ("null", "[]", "[1,1]", "[1,]", "[,1]", '["1"]', "{}", "1", "[0]")
]
HEADERS += [with_shape("[" + text + "]") for text in NUMBERS]
HEADERS += [with_shape("[" + ",".join(["1"] * n) + "]") for n in (8, 9, 30)]
HEADERS += [
    with_offsets(text)
    for text in ("null", "[]", "[0]", "[0,1,1]", "[1,0]", "[1,2]", '{"0":0,"1":1}')
]
HEADERS += [with_offsets("[0," + text + "]") for text in NUMBERS]
HEADERS += [with_name(text) for text in STRINGS]
HEADERS += [
    "{"
    + ONE
    + ","
    + with_name("b").replace("U8", dtype).replace("[1]", shape)[1:].replace("[0,1]", offsets)
    for dtype in ("U8", "F4", "F6_E3M2", "F32")
    for shape in (
        "[1]",
        "[0]",
        "[]",
        "[2]",
        "[4]",
        "[0,18446744073709551615]",
        "[18446744073709551615,2,0]",
    )
    for offsets in ("[1,1]", "[1,2]", "[1,5]", "[0,0]", "[0,1]", "[2,2]", "[1,4]", "[2,6]")
]


def test_agrees_on_cases_written_by_hand(path):
    accepted = 0
    for header in HEADERS:
        for n_data in (0, 1, 2, 5) if os.environ.get("SMOL_TEST_ALL") else (1, 2):
            accepted += agree(
                assemble(header.encode("utf-8", "surrogatepass"), bytes(range(n_data))), path
            )
    assert accepted > 50


SIZES = range(65) if os.environ.get("SMOL_TEST_ALL") else (0, 1, 4, 5, 6, 8, 15, 16, 32, 64)


def test_agrees_on_dtypes(path):
    for dtype in VALID_DTYPES:
        bits = [
            n
            for n in SIZES
            if agree(
                assemble(
                    f'{{"a":{{"dtype":"{dtype}","shape":[8],"data_offsets":[0,{n}]}}}}'.encode(),
                    bytes(n),
                ),
                path,
            )
        ]
        assert len(bits) == 1, dtype


def test_agrees_on_bytes_that_are_not_utf8(path):
    for text in (
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf0\x90\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
        b"\x80",
    ):
        assert not agree(assemble(with_name("?").encode().replace(b"?", text), b"1"), path)
        assert not agree(assemble(with_field('"?"').encode().replace(b"?", text), b"1"), path)
        assert not agree(assemble(b"{" + ONE.encode() + b"} " + text, b"1"), path)


def test_agrees_on_sizes(path):
    header = ("{" + TWO + "}").encode()
    blob = assemble(header, bytes(5))
    for length in (
        0,
        1,
        len(header) - 1,
        len(header) + 1,
        len(blob),
        10**8,
        10**8 + 1,
        2**63,
        2**64 - 1,
    ):
        assert not agree(struct.pack("<Q", length) + blob[8:], path)
    for cut in range(len(blob)):
        assert not agree(blob[:cut], path)
    assert agree(blob, path)
    assert not agree(blob + b"\0", path)


# ---- mutations ----

SEEDS = [
    b"{" + TWO.encode() + b"}",
    b'{"__metadata__":{"format":"pt"},' + TWO.encode() + b"}  ",
    b' {"z":{"shape":[0,2],"data_offsets":[5,5],"dtype":"F32","x":[1.5,{"y":null}]},'
    + TWO.encode()
    + b"}",
    rb'{"\u00e9\n":{"dtype":"F4","shape":[2,5],"data_offsets":[0,5]}}',
]
PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b" ",
    b"\n",
    b"\0",
    b"-",
    b".",
    b"0",
    b"1",
    b"e",
    b"\xff",
]
PIECES += [
    b"null",
    b"true",
    b'"x":1',
    b"[]",
    b"{}",
    b'""',
    b'"dtype":"U8",',
    b"\\u0041",
    b"\\ud800",
    b"1e9",
    b"U8",
]
PIECES += [
    b'"shape"',
    b'"__metadata__":{},',
    ONE.encode() + b",",
    b"18446744073709551616",
    b"\xc3\xa9",
]


def mutate(header, rng):
    """One small change: a byte, a piece put in, a stretch cut out, copied or changed in order."""
    a, b = sorted(rng.randrange(len(header) + 1) for _ in range(2))
    b = min(b, a + rng.choice([1, 2, 5, 60]))
    kind = rng.randrange(6)
    if kind == 0:
        return header[:a] + bytes([rng.randrange(256)]) + header[a + 1 :]
    if kind == 1:
        return header[:a] + rng.choice(PIECES) + header[a:]
    if kind == 2:
        return header[:a] + header[b:]
    if kind == 3:
        return header[:b] + header[a:b] + header[b:]
    if kind == 4:
        digits = [i for i, c in enumerate(header) if 48 <= c < 58] or [0]
        at = rng.choice(digits)
        return (
            header[:at] + rng.choice([b"0", b"1", b"2", b"3", b"5", b"8", b"16"]) + header[at + 1 :]
        )
    return header[:a] + header[a:b][::-1] + header[b:]


def test_agrees_on_mutations(path):
    rng = random.Random(SEED)
    accepted = 0
    for _ in range(ROUNDS):
        header, n_data = rng.choice(SEEDS), 5
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            header = mutate(header, rng)
        if rng.randrange(8) == 0:
            n_data = rng.randrange(9)
        blob = bytearray(assemble(header, bytes(range(n_data))))
        if rng.randrange(20) == 0:
            blob[rng.randrange(8)] ^= 1 << rng.randrange(8)
        accepted += agree(bytes(blob), path)
    assert ROUNDS / 50 < accepted < ROUNDS * 0.9  # the mutations reach both answers
