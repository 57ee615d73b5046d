"""Bad deltas, named after the step of DELTA.md section 5 that finds them, and good ones that make a bad
blob. OLD is the int8 blob."""

import struct

from blob_images import base, xxh3
from hostile_blobs import BLOBS
from hostile_cases import DAMAGED, GIB, OK, UNSUPPORTED, USAGE, Case, Sparse, shortened
from packed import TABLE_MAGIC, declared, frame

DELTAS = []
DELTA_MAGIC = b"\x89SMD\r\n\x1a\n"
MOST = 1 << 20  # bytes that a part makes, unless it copies


def delta(new, parts, digest=None, of=None, file_size=None, new_size=None, rest=(1, 0, 0, 0, 0)):
    """A delta that makes `new`; `rest`: major, minor, reserved, required and optional features."""
    old = base("1.0-int8")
    major, minor, reserved, required, optional = rest
    of = of or (old[8:16], len(old))
    size = 80 + len(b"".join(parts)) if file_size is None else file_size
    fields = struct.pack("<HHIQQQ", major, minor, reserved, size, required, optional)
    fields += of[0] + struct.pack("<Q", of[1]) + new[8:16].ljust(8, b"\0")
    fields += struct.pack("<Q", len(new) if new_size is None else new_size)
    digest = xxh3(fields) if digest is None else digest
    return DELTA_MAGIC + struct.pack("<Q", digest) + fields + b"".join(parts)


def part(method, new_size, coded=b"", old=(0, 0), coded_size=None, digest=None):
    size = len(coded) if coded_size is None else coded_size
    body = struct.pack("<IIQQQ", method, size, new_size, *old) + coded
    return struct.pack("<Q", xxh3(body) if digest is None else digest) + body


AFTER_THE_PART = 80 + 40 + len(frame(base("1.0-bf16")))  # as this release of zstd compresses
DELTA_WORDS = {
    "3": "digest of the header", "8": "digest of a part", "10": "invalid sizes",
    "12": "cannot be decompressed", "13": "the new blob", "14": "the new blob",
    "15": "makes a blob other than its header names", "16": f"(offset {AFTER_THE_PART})",
}  # fmt: skip


def delta_case(name, make, *words, status=DAMAGED):
    """What `make` makes of NEW, the bf16 blob."""
    step = name.split()[0]
    words = words or ((DELTA_WORDS[step],) if step in DELTA_WORDS else ())
    DELTAS.append(Case(f"delta: {name}", lambda: make(base("1.0-bf16")), status, words))


def header_case(name, *words, status=DAMAGED, **fields):
    delta_case(name, lambda b: delta(b, [part(1, len(b), frame(b))], **fields), *words,
               status=status)  # fmt: skip


def part_case(name, change, *words, status=DAMAGED):
    """The one part of a delta is what `change` makes of NEW."""
    delta_case(name, lambda b: delta(b, [change(b)]), *words, status=status)


header_case("a good one", status=OK)
delta_case("1 empty", lambda b: b"")
delta_case("1 cut off within the header", lambda b: delta(b, [])[:79])
delta_case("1 a blob", lambda b: b, "not a delta", status=USAGE)
delta_case("1 line ends changed", lambda b: delta(b, []).replace(b"\r\n", b"\n", 1), "line endings")
header_case("2 another major version", "2.0", status=UNSUPPORTED, rest=(2, 0, 0, 0, 0))
header_case("3 the header's digest", digest=1)
header_case("4 a needed feature", "0x4", status=UNSUPPORTED, rest=(1, 0, 0, 4, 0))
header_case("4 a feature that may be ignored", status=OK, rest=(1, 9, 0, 0, 4))
header_case("5 the reserved field", "reserved", rest=(1, 0, 1, 0, 0))
header_case("6 another OLD", status=USAGE, of=(bytes(8), 143488))
header_case("6 an OLD of another size", status=USAGE, of=(base("1.0-int8")[8:16], 2**64 - 1))
delta_case("7 no parts", lambda b: delta(b, []))
part_case("7 half a part's head [length]", lambda b: part(0, 1, old=(0, 1))[:20])
for size in (1179649, 2**31, 2**32 - 1):
    part_case(f"7 {size} coded bytes [length]", lambda b, s=size: part(
        1, len(b), frame(b), coded_size=s))  # fmt: skip
part_case("7 coded bytes cut off", lambda b: part(1, len(b), frame(b))[:-1])
part_case("8 a part's digest", lambda b: part(1, len(b), frame(b), digest=1))
for method in (4, 2**32 - 1):
    part_case(f"9 method {method}", lambda b, m=method: part(m, len(b), frame(b)), "unknown method")
part_case("10 a part of nothing [zero]", lambda b: part(0, 0))
part_case("10 more than is missing", lambda b: part(0, len(b) + 1, old=(0, len(b) + 1)))
part_case("10 a size of 2^64 - 1 [53630]", lambda b: part(0, 2**64 - 1, old=(0, 2**64 - 1)))
part_case("10 a copy past the end of OLD [7482]", lambda b: part(0, 64, old=(143488 - 63, 64)))
part_case("10 a copy of what wraps [53630]", lambda b: part(0, 64, old=(2**64 - 32, 64)))
part_case("10 a copy of another size", lambda b: part(0, 64, old=(0, 32)))
part_case("10 a copy with coded bytes", lambda b: part(0, 64, b"x", old=(0, 64)))
part_case("12 no coded bytes", lambda b: part(1, len(b)))
part_case("10 history at 1 of no bytes", lambda b: part(1, len(b), frame(b), old=(1, 0)))
part_case("10 history past the end [7482]", lambda b: part(1, len(b), frame(b), old=(1, 143488)))
part_case("10 history over 4 MiB", lambda b: part(1, len(b), frame(b), old=(0, 4 * MOST + 1)))
part_case("10 differences to less", lambda b: part(2, len(b), frame(b), old=(0, 100)))
part_case("10 an odd number of halves", lambda b: part(3, 65, frame(bytes(65)), old=(0, 65)))
delta_case("10 over a megabyte in a part [23605]", lambda b: delta(
    b, [part(1, MOST + 1, frame(bytes(MOST + 1)))], new_size=2 * MOST))  # fmt: skip
part_case("12 no frame", lambda b: part(1, len(b), b[:1000]))
part_case("12 no content size", lambda b: part(1, len(b), frame(b, content_size=0)))
part_case("12 another content size [length]", lambda b: part(1, len(b), frame(b[:-1])))
part_case("12 a gibibyte of content [23605]", lambda b: part(1, len(b), declared(GIB) + b[:99]))
part_case("12 a dictionary", lambda b: part(1, len(b), frame(b, dictionary=b[:4096] * 2)))
part_case("12 a frame's checksum", lambda b: part(1, len(b), frame(b)[:-1] + b"\0"))
part_case("12 a skippable frame", lambda b: part(1, 8, struct.pack("<II", TABLE_MAGIC, 0)))
part_case("12 two frames", lambda b: part(1, len(b), frame(b[:99]) + frame(b[99:])))
part_case("12 bytes after the frame", lambda b: part(1, len(b), frame(b) + b"\0"))
part_case("12 differences in halves, cut off", lambda b: part(
    3, len(b), frame(b[:-2]), old=(0, len(b))))  # fmt: skip
part_case("13 a NEW of zeros", lambda b: part(1, len(b), frame(bytes(len(b)))))
part_case("13 a NEW whose last byte is wrong", lambda b: part(
    1, len(b), frame(b[:-1] + bytes([b[-1] ^ 1]))))  # fmt: skip
part_case("13 OLD's bytes, of which NEW's are not", lambda b: part(0, len(b), old=(0, len(b))))
delta_case("14 a NEW that lacks a byte", lambda b: delta(b, [part(1, len(b) - 1, frame(b[:-1]))],
                                                         new_size=len(b) - 1))  # fmt: skip
delta_case("14 a NEW with a byte too many", lambda b: delta(
    b, [part(1, len(b), frame(b)), part(0, 1, old=(0, 1))], new_size=len(b) + 1))  # fmt: skip
delta_case("15 another digest of NEW", lambda b: delta(
    bytes(len(b)), [part(1, len(b), frame(b))]))  # fmt: skip
delta_case("16 a byte after the parts", lambda b: delta(b, [part(1, len(b), frame(b))]) + b"\0")
delta_case("16 a part too many", lambda b: delta(
    b, [part(1, len(b), frame(b)), part(0, 1, old=(0, 1))]))  # fmt: skip
header_case("16 another file_size", file_size=1 << 40)
delta_case("16 a gibibyte after the parts", lambda b: Sparse(
    delta(b, [part(1, len(b), frame(b))]), GIB))  # fmt: skip


def patched(case):
    """A delta that is fine and makes a bad NEW. No reader comes to harm by what step 21 finds."""
    status = OK if case.name.startswith("21") else case.strictest

    def make():
        new = shortened(case.make())
        pieces = [new[i : i + MOST] for i in range(0, len(new), MOST)]
        return delta(new, [part(1, len(piece), frame(piece)) for piece in pieces])

    return Case(f"delta: {case.name}", make, status)


PATCHED = [patched(case) for case in BLOBS]
