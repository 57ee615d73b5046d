"""Bad safetensors files, and some that only look bad."""

import struct

from hostile_cases import DAMAGED, GIB, OK, UNSUPPORTED, Case, Sparse

SAFETENSORS = []


def assemble(header, data):
    return struct.pack("<Q", len(header)) + header + data


def tensor(name="a", dtype="U8", shape="[1]", offsets="[0,1]", more=""):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


def header(name, text, *words, n_data=1, status=DAMAGED):
    raw = text if isinstance(text, bytes) else text.encode()
    SAFETENSORS.append(Case(name, assemble(raw, bytes(n_data)), status, words))


def whole(name, content, *words, status=DAMAGED):
    SAFETENSORS.append(Case(name, content, status, words))


BIG = 2**64 - 1
whole("empty", b"", "empty")
whole("shorter than a length", b"\x01\0\0", "too short")
whole("nothing but a length of 0", bytes(8), "the header is damaged")
whole("a gibibyte of nothing", Sparse(b"", GIB), "the header is damaged")
whole(
    "a header over 100,000,000 bytes", Sparse(struct.pack("<Q", 10**8 + 1), GIB), "over 100000000"
)
whole(
    "a header of 100,000,000 zeros", Sparse(struct.pack("<Q", 10**8), GIB), "the header is damaged"
)
whole("a header of 2^64 - 1 bytes [length]", struct.pack("<Q", BIG) + b"{}", "over 100000000")
whole("8 + the header's length wraps [53630]", struct.pack("<Q", BIG - 7) + b"{}", "over 100000000")
whole("a header past the end [length]", struct.pack("<Q", 3) + b"{}", "truncated")
header("no object", "[]", "expected '{'")
header("nothing but white space", "   ", "expected '{'")
header("an object that does not end", "{" + tensor(), "expected")
header("something after the object", "{" + tensor() + "}x", "after the end of the value")
header("a NUL after the object", "{" + tensor() + "}\0", "after the end of the value")
header("a byte order mark", "\ufeff{" + tensor() + "}", "expected '{'")
header("a comma too many", "{" + tensor() + ",}", "expected")
header(
    "no comma", "{" + tensor() + " " + tensor("b", offsets="[1,1]", shape="[0]") + "}", "expected"
)
header("not UTF-8", b'{"\xff":1}', "not UTF-8")
header("an overlong NUL", b'{"\xc0\x80":1}', "not UTF-8")
header("half of a surrogate pair", '{"\\ud800":1}', "surrogate")
header("a control character", '{"a\n":1}', "control character")
header("a NUL byte in a name", "{" + tensor("a\0b") + "}", "control character")
header("an escaped NUL in a name", "{" + tensor("a\\u0000b") + "}", "contains a NUL")  # stricter
header("an unknown escape", '{"\\x41":1}', "unknown escape")
header("a tensor that is null", '{"a":null}', "expected '{'")
header("a tensor that is a list [type]", '{"a":["U8",[1],[0,1]]}', "expected '{'")  # stricter
header("no dtype", '{"a":{"shape":[1],"data_offsets":[0,1]}}', "lacks")
header("no shape", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', "lacks")
header("no offsets", '{"a":{"dtype":"U8","shape":[1]}}', "lacks")
header("a field twice", "{" + tensor(more=',"shape":[1]') + "}", "the same field twice")
header("a tensor twice", "{" + tensor() + "," + tensor(offsets="[1,2]") + "}", "appears twice",
       n_data=2)  # fmt: skip  # stricter
header(
    "a tensor twice, once escaped",
    "{" + tensor() + "," + tensor("\\u0061", offsets="[1,2]") + "}",
    "appears twice",
    n_data=2,
)  # stricter
header("an unknown dtype [type]", "{" + tensor(dtype="Q4_0") + "}", "dtype")
header("a dtype that is a number [type]", '{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}',
       "expected a string")  # fmt: skip
header(
    "a dtype that is an object [type]",
    '{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}',
    "expected a string",
)  # stricter
header("a shape that is a number [type]", "{" + tensor(shape="1") + "}", "expected '['")
header("a negative dimension", "{" + tensor(shape="[-1]") + "}", "(byte ")
header("a dimension with a fraction", "{" + tensor(shape="[1.0]") + "}", "(byte ")
header("a dimension of 2^64", "{" + tensor(shape="[18446744073709551616]") + "}", "expected an integer from 0")
header("a dimension of 400 digits", "{" + tensor(shape=f"[{'9' * 400}]") + "}", "expected an integer from 0")
header("nine dimensions [21802]", "{" + tensor(shape="[1,1,1,1,1,1,1,1,1]") + "}", "8 dimensions",
       status=UNSUPPORTED)  # fmt: skip  # stricter
header("a million dimensions [21802]", "{" + tensor(shape="[1" + ",1" * 10**6 + "]") + "}",
       "8 dimensions", status=UNSUPPORTED)  # fmt: skip  # stricter
header(
    "a shape whose product wraps to 0 [33298]",
    "{" + tensor(dtype="F32", shape="[4294967296,4294967296]", offsets="[0,0]") + "}",
    "2^61",
    n_data=0,
)
header(
    "a shape whose bytes wrap to 4 [33298]",
    "{" + tensor(dtype="F32", shape="[4611686018427387905]", offsets="[0,4]") + "}",
    "2^61",
    n_data=4,
)
header("a shape that wraps before its zero [33298] [zero]", "{" + tensor(
    shape=f"[{BIG},2,0]", offsets="[0,0]") + "}", "2^61", n_data=0)  # fmt: skip
header("one offset", "{" + tensor(offsets="[0]") + "}", "expected")
header("three offsets", "{" + tensor(offsets="[0,1,1]") + "}", "expected")
header("offsets that are texts [type]", "{" + tensor(offsets='["0","1"]') + "}", "(byte ")
header("offsets that run backwards", "{" + tensor(offsets="[1,0]") + "}", "ends before it begins")
header(
    "an end past the file [7482]", "{" + tensor(shape="[100]", offsets="[0,100]") + "}", "truncated"
)
header("an end near 2^64 [7482] [53630]", "{" + tensor(
    shape="[1]", offsets=f"[{BIG - 1},{BIG}]") + "}", "(")  # fmt: skip
header(
    "sizes whose sum wraps [53630] [27940]",
    "{"
    + tensor(shape="[9223372036854775808]", offsets="[0,9223372036854775808]")
    + ","
    + tensor("b", shape="[9223372036854775808]", offsets="[9223372036854775808,0]")
    + "}",
    "(",
    n_data=0,
)
header("a size unlike the shape's", "{" + tensor(shape="[2]") + "}", "does not match its shape")
header("half a byte", "{" + tensor(dtype="F4", shape="[1]") + "}", "does not fill whole bytes")
header("tensors that overlap [alias]", "{" + tensor() + "," + tensor("b") + "}", "overlaps")
header("a hole in front [align]", "{" + tensor(offsets="[1,2]") + "}", "gap", n_data=2)
header(
    "a hole between", "{" + tensor() + "," + tensor("b", offsets="[2,3]") + "}", "gap", n_data=3
)
header("bytes after the last tensor", "{" + tensor() + "}", "after the last tensor", n_data=2)
header("metadata that is no object", '{"__metadata__":[],' + tensor() + "}", "(byte ")
header("metadata with a number [type]", '{"__metadata__":{"a":1},' + tensor() + "}", "a string")
header("metadata twice", '{"__metadata__":{},"__metadata__":{},' + tensor() + "}", "twice")
header("126 lists in a list [depth]", "{" + tensor(more=',"x":' + "[" * 126 + "]" * 126) + "}",
       "nested too deeply")  # fmt: skip
header(
    "a million objects in an object [depth]", "{" + tensor(more=',"x":' + '{"a":' * 10**6), "nested"
)
header("a number beyond f64", "{" + tensor(more=',"x":1e999') + "}", "(byte ")

# These look bad but are good: the reference accepts them, and so does smol.
header("white space in front of the header", " \n\t\r{" + tensor() + "}", status=OK)
header("no tensors", "{}", n_data=0, status=OK)
header("a scalar", "{" + tensor(shape="[]") + "}", status=OK)
header("an empty tensor", "{" + tensor(shape="[0]", offsets="[0,0]") + "}", n_data=0, status=OK)
header("an empty tensor of a huge shape", "{" + tensor(shape=f"[0,{BIG}]", offsets="[0,0]") + "}",
       n_data=0, status=OK)  # fmt: skip
header("unknown fields", "{" + tensor(more=',"x":[{"y":1e300}]') + "}", status=OK)
