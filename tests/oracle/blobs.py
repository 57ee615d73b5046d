"""Changing blobs from outside: bytes set by hand, digests made right again, so that nothing but the
change itself can give it away; and whether smol and the reader of these tests accept the result."""

import ctypes
import struct

import programs
import pytest
from internal import OK, Error, lib
from smol_reader import CHUNK, Blob, Damaged, Unsupported

lib.smol_digest.restype = ctypes.c_uint64
lib.smol_digest.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return lib.smol_digest(bytes(data), len(data))


def read_blob(path):
    return Blob(path.read_bytes(), xxh3)


def section(data, kind):
    """Returns the offset and size of a section."""
    for i in range(data[20]):
        entry_kind, _, offset, size = struct.unpack_from("<IIQQ", data, 64 + i * 24)
        if entry_kind == kind:
            return offset, size
    raise KeyError(kind)


def repaired(data):
    """Returns the bytes with every digest computed again."""
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


def both_refuse(blob, folder, edit, part=""):
    """Checks that smolconv verify, with `part` in its message, and the reader of these tests refuse the blob after
    edit(bytearray) as damaged."""
    target = edited(blob, folder / "edited.smol", edit)
    programs.assert_refuses(programs.smolconv("verify", target), 4, part)
    with pytest.raises(Damaged):
        Blob(target.read_bytes(), xxh3).check_padding()


def flip_features(data, features):
    """Changes some of a blob's required features."""
    data[40:48] = (int.from_bytes(data[40:48], "little") ^ features).to_bytes(8, "little")


def spoiled(source, target, at=-5):
    """Writes the blob `source` to `target` with a bit changed, by default in its last tensor, and the
    digests left as they were. Returns target."""
    data = bytearray(source.read_bytes())
    data[at] ^= 1
    target.write_bytes(data)
    return target


def reads(data):
    """Returns whether the reader of these tests accepts a blob, padding included."""
    try:
        Blob(data, xxh3).check_padding()
    except (Damaged, Unsupported):
        return False
    return True


def opens(path, verify_at_open=1):
    """Returns whether smol opens a blob, with every digest and rule checked."""
    blob, error = ctypes.create_string_buffer(4096), Error()
    status = lib.smol_blob_open(
        str(path).encode(), True, verify_at_open, ctypes.byref(blob), ctypes.byref(error)
    )
    if status == OK:
        lib.smol_blob_close(ctypes.byref(blob))
    return status == OK


def accepted_bits(blob, folder, start, end):
    """Flips each bit of the required features and of the bytes start to end - 1, alone and with repaired digests. Both
    readers must agree on every one. Returns how many are accepted."""
    n = 0
    for bit in [*range(40 * 8, 48 * 8), *range(start * 8, end * 8)]:
        damaged = bytearray(blob.read_bytes())
        damaged[bit // 8] ^= 1 << bit % 8
        path = folder / "flipped.smol"
        path.write_bytes(repaired(damaged))
        accepted = reads(path.read_bytes())
        assert opens(path) == accepted, f"byte {bit // 8}, bit {bit % 8}"
        n += accepted
    return n
