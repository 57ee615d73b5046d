"""Packed files from outside, by format/PACKED.md alone: zstd's own program unpacks them, and what
the seek table says is read here. With libzstd, frames for files that are not as they should be."""

import ctypes
import struct
import subprocess

PIECE = 1 << 18
TABLE_MAGIC, FOOTER_MAGIC = 0x184D2A5E, 0x8F92EAB1
CONTENT_SIZE, CHECKSUM = 200, 201  # enum ZSTD_cParameter

zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
zstd.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
zstd.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
zstd.ZSTD_CCtx_loadDictionary.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
zstd.ZSTD_CCtx_loadDictionary.restype = ctypes.c_size_t
zstd.ZSTD_compress2.argtypes = [
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t
]  # fmt: skip
zstd.ZSTD_compress2.restype = ctypes.c_size_t


def frame(content, content_size=1, checksum=1, dictionary=b""):
    """Returns one zstd frame."""
    context = zstd.ZSTD_createCCtx()
    zstd.ZSTD_CCtx_setParameter(context, CONTENT_SIZE, content_size)
    zstd.ZSTD_CCtx_setParameter(context, CHECKSUM, checksum)
    if dictionary:
        assert zstd.ZSTD_CCtx_loadDictionary(context, dictionary, len(dictionary)) == 0
    room = len(content) + len(content) // 256 + 512
    out = ctypes.create_string_buffer(room)
    n = zstd.ZSTD_compress2(context, out, room, bytes(content), len(content))
    zstd.ZSTD_freeCCtx(context)
    assert n < room
    return out.raw[:n]


def declared(size):
    """The beginning of a frame that says it holds `size` bytes."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\0\0"


def seek_table(sizes):
    """The seek table of frames of which each has (bytes, bytes of content)."""
    entries = b"".join(struct.pack("<II", *pair) for pair in sizes)
    footer = struct.pack("<IBI", len(sizes), 0, FOOTER_MAGIC)
    return struct.pack("<II", TABLE_MAGIC, len(entries) + len(footer)) + entries + footer


def packed(blob, piece=PIECE, **options):
    """A blob's bytes, packed as the document says."""
    pieces = [blob[i : i + piece] for i in range(0, len(blob), piece)]
    frames = [frame(p, **options) for p in pieces]
    table = seek_table([(len(f), len(p)) for f, p in zip(frames, pieces)])
    return b"".join(frames) + table


def read_table(data):
    """[(start, end, bytes of content)] of each frame, as the seek table has it."""
    count, descriptor, magic = struct.unpack_from("<IBI", data, len(data) - 9)
    start = len(data) - 9 - 8 * count - 8
    assert (descriptor, magic) == (0, FOOTER_MAGIC)
    assert struct.unpack_from("<II", data, start) == (TABLE_MAGIC, 8 * count + 9)
    frames, at = [], 0
    for i in range(count):
        size, content = struct.unpack_from("<II", data, start + 8 + 8 * i)
        frames.append((at, at + size, content))
        at += size
    assert at == start
    return frames


def zstd_restores(data):
    """Returns what zstd restores from a packed file, or from a part of it."""
    return subprocess.run(["zstd", "-dcq"], input=data, capture_output=True, check=True).stdout
