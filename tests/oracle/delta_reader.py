"""A second reader of .smoldelta files, written from format/DELTA.md alone: no code is shared with
the tools that it checks, but for libzstd, which decodes frames. And a writer of parts, for deltas
that are not as they should be. Section and step numbers are DELTA.md's."""

import ctypes
import struct

import numpy as np
from packed import zstd
from smol_reader import Unsupported, need

MAGIC = b"\x89SMD\r\n\x1a\n"
HEADER, PART = "<8sQHHIQQQQQQQ", "<QIIQQQ"
COPY, ZSTD, BYTES, HALVES = range(4)
MAX_NEW, MAX_OLD, MAX_CODED = 2**20, 2**22, 1179648

zstd.ZSTD_createDCtx.restype = ctypes.c_void_p
zstd.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
zstd.ZSTD_DCtx_refPrefix.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
zstd.ZSTD_decompressDCtx.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
]  # fmt: skip
zstd.ZSTD_decompressDCtx.restype = ctypes.c_size_t
for name in ("ZSTD_findFrameCompressedSize", "ZSTD_getFrameContentSize"):
    getattr(zstd, name).argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    getattr(zstd, name).restype = ctypes.c_ulonglong


class WrongBlob(Exception):
    pass


def content(coded, size, history=b""):
    """The content of exactly one frame, section 4."""
    need(coded[:4] == b"\x28\xb5\x2f\xfd", "not a frame")
    need(zstd.ZSTD_getFrameContentSize(coded, len(coded)) == size, "content size")
    need(zstd.ZSTD_findFrameCompressedSize(coded, len(coded)) == len(coded), "more than a frame")
    context, out = zstd.ZSTD_createDCtx(), ctypes.create_string_buffer(size)
    zstd.ZSTD_DCtx_refPrefix(context, history, len(history))
    n = zstd.ZSTD_decompressDCtx(context, out, size, coded, len(coded))
    zstd.ZSTD_freeDCtx(context)
    need(n == size, "frame")
    return out.raw


def decode(method, coded, old, size):
    """The bytes that a part makes, section 4."""
    if method == COPY:
        return old
    if method == ZSTD:
        return content(coded, size, old)
    d = np.frombuffer(content(coded, size), np.uint8)
    if method == BYTES:
        return (np.frombuffer(old, np.uint8) + d).tobytes()
    z = d[: size // 2] + 256 * d[size // 2 :].astype(np.uint16)
    s = np.where(z % 2 == 0, z // 2, 65535 - z // 2).astype(np.uint16)
    return (np.frombuffer(old, "<u2") + s).astype("<u2").tobytes()


def sizes_fit(method, coded_size, new_size, old_offset, old_size):
    """Section 4's table."""
    if method == COPY:
        return coded_size == 0 and old_size == new_size
    if not (1 <= coded_size <= MAX_CODED and new_size <= MAX_NEW):
        return False
    if method == ZSTD:
        return old_size <= MAX_OLD and (old_size > 0 or old_offset == 0)
    return old_size == new_size and (method == BYTES or new_size % 2 == 0)


def read_parts(data):
    """[(method, coded, new_size, old_offset, old_size)] of a delta that is as it should be."""
    parts, at = [], 80
    while at < len(data):
        _, method, coded_size, new_size, old_offset, old_size = struct.unpack_from(PART, data, at)
        coded = data[at + 40 : at + 40 + coded_size]
        parts.append((method, coded, new_size, old_offset, old_size))
        at += 40 + coded_size
    return parts


def apply(old, data, digest):
    """5: NEW, up to step 16 and without steps 11 and 13, which are those of blobs."""
    need(len(data) >= 80 and data[:8] == MAGIC, "magic")
    (_, head_digest, major, _, reserved, file_size, required, _, *blobs) = struct.unpack_from(
        HEADER, data
    )
    if major != 1:
        raise Unsupported(f"version {major}")
    need(digest(data[16:80]) == head_digest, "header digest")
    if required:
        raise Unsupported(f"features {required:#x}")
    need(reserved == 0, "reserved")
    old_digest, old_size, new_digest, new_size = blobs
    if struct.unpack_from("<Q8xQ", old, 8) != (old_digest, old_size):
        raise WrongBlob
    new, at = bytearray(), 80
    while len(new) < new_size:
        need(len(data) >= at + 40, "truncated")
        part_digest, method, coded_size, size, offset, used = struct.unpack_from(PART, data, at)
        need(coded_size <= MAX_CODED and len(data) >= at + 40 + coded_size, "coded_size")
        need(digest(data[at + 8 : at + 40 + coded_size]) == part_digest, "part digest")
        need(method <= HALVES, "method")
        need(1 <= size <= new_size - len(new) and offset + used <= old_size, "sizes")
        need(sizes_fit(method, coded_size, size, offset, used), "sizes")
        coded = data[at + 40 : at + 40 + coded_size]
        new += decode(method, coded, old[offset : offset + used], size)
        at += 40 + coded_size
    need(len(new) >= 64, "no blob")
    need(struct.unpack_from("<Q8xQ", new, 8) == (new_digest, len(new)), "another blob")
    need(at == len(data) == file_size, "bytes after the end")
    return bytes(new)


# --- writing ----------------------------------------------------------------------------------


def part(digest, method, coded, new_size, old_offset, old_size):
    rest = struct.pack(PART[0] + PART[2:], method, len(coded), new_size, old_offset, old_size)
    return struct.pack("<Q", digest(rest + coded)) + rest + coded


def delta(digest, old, new, parts, **changes):
    """A delta with these parts, (method, coded, new_size, old_offset, old_size); `changes` are
    fields of the header. Digests are right."""
    body = b"".join(part(digest, *p) for p in parts)
    fields = dict(
        major=1, minor=0, reserved=0, file_size=80 + len(body), required=0, optional=0,
        old_digest=struct.unpack_from("<Q", old, 8)[0], old_size=len(old),
        new_digest=struct.unpack_from("<Q", new, 8)[0], new_size=len(new),
    )  # fmt: skip
    assert changes.keys() <= fields.keys()
    rest = struct.pack("<HHIQQQQQQQ", *(fields | changes).values())
    return MAGIC + struct.pack("<Q", digest(rest)) + rest + body
