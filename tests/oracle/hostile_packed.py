"""Bad packed blobs: files that are no packed blobs, and bad blobs in good ones."""

import struct

from blob_images import base
from hostile_blobs import BLOBS
from hostile_cases import DAMAGED, GIB, UNSUPPORTED, Case, Sparse, shortened
from packed import FOOTER_MAGIC, PIECE, TABLE_MAGIC, declared, frame, packed, seek_table
from smol_reader import CHUNK

PACKED = []


def packaged(name, make, *words, status=DAMAGED):
    """Adds a case: `make` spoils a good blob. A file that `zstd -d` can still restore is unsupported, not damaged."""
    PACKED.append(Case(f"packed: {name}", lambda: make(base("1.0-int8")), status, words))


def with_table(frames, *sizes):
    return b"".join(frames) + seek_table(sizes)


def with_footer(blob, count, descriptor=0, magic=FOOTER_MAGIC, more=0, entries=1):
    """One good frame, and a seek table that says what it should not."""
    content = frame(blob)
    table = struct.pack("<II", len(content), len(blob)) * entries
    table += struct.pack("<IBI", count, descriptor, magic)
    return content + struct.pack("<II", TABLE_MAGIC, len(table) + more) + table


packaged("empty", lambda b: b"")
packaged("no zstd", lambda b: b"hello, this is no zstd at all")
packaged("a blob", lambda b: b, "not packed", status=UNSUPPORTED)
packaged("nothing but a seek table", lambda b: seek_table([]))
packaged("no content size", lambda b: packed(b, content_size=0), status=UNSUPPORTED)
packaged("a frame in several", lambda b: packed(b, piece=CHUNK), status=UNSUPPORTED)
packaged("a dictionary", lambda b: packed(b, dictionary=b[:4096] * 2))
packaged("a frame cut off", lambda b: frame(b)[:-20])
packaged("a frame's checksum [type]", lambda b: frame(b)[:-1] + b"\0" + seek_table([]))
packaged("a frame of 2^63 bytes [23605]", lambda b: declared(2**63) + b, status=UNSUPPORTED)
packaged("a frame of 2^64 - 1 bytes [53630]", lambda b: declared(2**64 - 1) + b, status=UNSUPPORTED)
packaged("a frame of a gibibyte", lambda b: declared(GIB) + b, status=UNSUPPORTED)
packaged("a gibibyte of zeros in a frame", lambda b: frame(b"\0" * PIECE) * 4096)
packaged("a gibibyte after the frame", lambda b: Sparse(frame(b), GIB))
packaged("a frame twice", lambda b: with_table([frame(b)] * 2, (len(frame(b)), len(b))),
         status=UNSUPPORTED)  # fmt: skip
packaged("packed twice", lambda b: packed(packed(b)), status=UNSUPPORTED)
packaged("no seek table", frame)
packaged("a seek table cut off [length]", lambda b: packed(b)[:-1])
packaged("bytes after the seek table", lambda b: packed(b) + b"\0")
packaged("a seek table of no frames", lambda b: with_footer(b, 0, entries=0))
packaged("a seek table of 2^32 - 1 frames [23605]", lambda b: with_footer(b, 2**32 - 1))
packaged("a seek table of 2^29 + 1 frames [23605]", lambda b: with_footer(b, 2**29 + 1))
packaged("a seek table of a frame too many", lambda b: with_footer(b, 2, entries=2))
packaged("a seek table with an unknown descriptor", lambda b: with_footer(b, 1, descriptor=4))
packaged("a seek table with checksums", lambda b: with_footer(b, 1, descriptor=128))
packaged("a seek table with another magic", lambda b: with_footer(b, 1, magic=1))
packaged("a seek table past the end [length]", lambda b: with_footer(b, 1, more=100))
packaged("a seek table of 4 GiB [length]", lambda b: with_footer(b, 1, more=2**32 - 40))
packaged("another size of the frame [7482]", lambda b: with_table([frame(b)], (1 << 31, len(b))))
packaged("another size of its content", lambda b: with_table([frame(b)], (len(frame(b)), 1)))
packaged("a skippable frame in front", lambda b: struct.pack("<II", TABLE_MAGIC - 1, 0) + packed(b),
         status=UNSUPPORTED)  # fmt: skip


def repacked(case):
    """A case with a bad blob in a valid packed file."""
    return Case(f"packed: {case.name}", lambda: packed(shortened(case.make())), case.strictest)

PACKED += [repacked(case) for case in BLOBS]
