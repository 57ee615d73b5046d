"""Changing blobs from outside: bytes set by hand, digests made right again, so that nothing but the
change itself can give it away."""

import ctypes
import struct

from internal import lib
from smol_reader import CHUNK, Blob

lib.smol_digest.restype = ctypes.c_uint64
lib.smol_digest.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return lib.smol_digest(bytes(data), len(data))


def read_blob(path):
    return Blob(path.read_bytes(), xxh3)


def section(data, kind):
    """Where a section lies: offset and size."""
    for i in range(data[20]):
        entry_kind, _, offset, size = struct.unpack_from("<IIQQ", data, 64 + i * 24)
        if entry_kind == kind:
            return offset, size
    raise KeyError(kind)


def repaired(data):
    """The bytes with every digest computed anew."""
    data = bytearray(data)
    (data_offset,) = struct.unpack_from("<Q", data, 32)
    digests, _ = section(data, 7)
    for i, start in enumerate(range(data_offset, len(data), CHUNK)):
        struct.pack_into("<Q", data, digests + i * 8, xxh3(data[start : start + CHUNK]))
    struct.pack_into("<Q", data, 8, xxh3(data[16:data_offset]))
    return bytes(data)


def edited(source, target, edit):
    """Writes the blob `source` to `target` after edit(bytearray), digests right. Returns target."""
    data = bytearray(source.read_bytes())
    edit(data)
    target.write_bytes(repaired(data))
    return target


def spoiled(source, target, at=-5):
    """Writes the blob `source` to `target` with a bit changed, by default in its last tensor, and the
    digests left as they were. Returns target."""
    data = bytearray(source.read_bytes())
    data[at] ^= 1
    target.write_bytes(data)
    return target
