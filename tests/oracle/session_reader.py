"""Reads and writes sessions, from format/SESSION.md alone."""

import dataclasses
import struct

import numpy as np
from blobs import xxh3

HEADER = struct.Struct("<8sHHIQQIIIIffffIIQQ")
STATES = struct.Struct("<4I")
FIELDS = (
    "magic major minor kv front_digest file_size n_ids n_positions n_data has_sampler temperature "
    "top_p min_p repetition_penalty top_k n_lost seed n_calls"
).split()
MAGIC = bytes([0x89, 0x53, 0x4D, 0x53, 0x0D, 0x0A, 0x1A, 0x0A])
TYPES = {1: np.dtype("<f4"), 2: np.dtype("<f2"), 3: np.dtype("i1")}  # 4: int4
LEVELS = np.array([-116, -90, -71, -56, -43, -29, -17, -6, 6, 17, 29, 43, 56, 71, 90, 116], np.float32)


@dataclasses.dataclass
class Session:
    header: dict
    ids: np.ndarray  # (n_ids)
    data: bytes
    states: dict  # position: (floats)
    records: list  # of keys and values, (keys, values) each (n, head_dim), int8 and int4 scaled, int4 transformed back


def digest(before, record):
    return xxh3(struct.pack("<Q", before) + record)


def split(n, at_once):
    return [min(at_once, n - done) for done in range(0, n, at_once)]


def start_sizes(header):
    """Returns the sizes of the records before the positions of states, or before keys and values."""
    return [HEADER.size, *(4 * n for n in split(header["n_ids"], 4096)), *split(header["n_data"], 16384)]


def record_sizes(header, n_layers, n_heads, head_dim, window=0, windowed=(), stateful=()):
    """Returns the sizes of all records but states, and the number of positions of each block of keys and values.
    `windowed` and `stateful` are layers."""
    kv = header["kv"]
    row = head_dim // 2 if kv == 4 else head_dim * TYPES[kv].itemsize
    position = 2 * row + (8 if kv >= 3 else 0)
    n_stored = header["n_positions"] - header["n_lost"]
    blocks = [
        n
        for i, n in enumerate(split(n_stored, 64))
        for layer in range(n_layers)
        if layer not in stateful
        if layer not in windowed or header["minor"] == 0 or 64 * i + 63 >= n_stored - window
        for _ in range(n_heads)
    ]
    return [*start_sizes(header), *[STATES.size] * bool(stateful), *(n * position for n in blocks)], blocks


def hadamard(x):
    """The transform of each row, in parts of the largest power of two that divides their length."""
    part = x.shape[1] & -x.shape[1]
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < part:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return (x.reshape(-1, part) @ matrix).reshape(x.shape)


def read_int4_rows(record, n, head_dim):
    row = head_dim // 2
    packed = np.frombuffer(record, "u1", 2 * n * row).reshape(2 * n, row)
    codes = np.stack([packed & 15, packed >> 4], axis=-1).reshape(2 * n, 2 * row)
    scales = np.frombuffer(record, "<f4", 2 * n, 2 * n * row)
    part = head_dim & -head_dim
    rows = hadamard(LEVELS[codes] * scales[:, None]) / part
    return rows[:n], rows[n:]


def read_rows(record, n, kv, head_dim):
    if kv == 4:
        return read_int4_rows(record, n, head_dim)
    dtype = TYPES[kv]
    count = n * head_dim
    keys, values = (
        np.frombuffer(record, dtype, count, part * count * dtype.itemsize).reshape(n, head_dim)
        for part in (0, 1)
    )
    if kv != 3:
        return keys.astype(np.float32), values.astype(np.float32)
    scales = np.frombuffer(record, "<f4", 2 * n, 2 * count)
    return keys * scales[:n, None], values * scales[n:, None]


def positions_of(data, header):
    """Returns the positions of the states, from their record."""
    n, *positions = STATES.unpack_from(data, sum(size + 8 for size in start_sizes(header)))
    assert n <= 3 and positions[n:] == [0] * (3 - n) and positions[:n] == sorted(set(positions[:n]))
    return positions[:n]


def read(data, n_layers, n_heads, head_dim, window=0, windowed=(), n_floats=0, stateful=()):
    """`n_floats` are those of all states of the layers `stateful`."""
    header = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True))
    minor = 2 if stateful else int(window > 0)
    assert header["magic"] == MAGIC and (header["major"], header["minor"]) == (1, minor)
    sizes, blocks = record_sizes(header, n_layers, n_heads, head_dim, window, windowed, stateful)
    positions = positions_of(data, header) if stateful else []
    assert positions[-1:] == [header["n_positions"] - header["n_lost"]] * bool(positions)
    sizes += split(4 * n_floats, 16384) * len(positions)
    records, at, before = [], 0, 0
    for size in sizes:
        records.append(data[at : at + size])
        (stored,) = struct.unpack_from("<Q", data, at + size)
        assert stored == digest(before, records[-1])
        at, before = at + size + 8, stored
    assert at == len(data)
    first = len(start_sizes(header)) + bool(stateful)
    states = np.frombuffer(b"".join(records[first + len(blocks) :]), "<f4").reshape(len(positions), n_floats)
    n_id_records = len(split(header["n_ids"], 4096))
    return Session(
        header,
        np.frombuffer(b"".join(records[1 : 1 + n_id_records]), "<u4"),
        b"".join(records[1 + n_id_records : len(start_sizes(header))]),
        dict(zip(positions, states, strict=True)),
        [
            read_rows(record, n, header["kv"], head_dim)
            for record, n in zip(records[first : first + len(blocks)], blocks, strict=True)
        ],
    )


def edited(data, **changes):
    """The session with other fields in its header and that record's digest right. The next digest is
    wrong then, but nobody should come so far."""
    header = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True)) | changes
    record = HEADER.pack(*header.values())
    return record + struct.pack("<Q", digest(0, record)) + data[HEADER.size + 8 :]


def rewritten(data, n_layers, n_heads, head_dim, **changes):
    """The session with other fields in its header and every digest right; sizes stay."""
    header = dict(zip(FIELDS, HEADER.unpack_from(data), strict=True))
    sizes, _ = record_sizes(header, n_layers, n_heads, head_dim)
    out, at, before = b"", 0, 0
    for size in sizes:
        record = data[at : at + size] if at else HEADER.pack(*(header | changes).values())
        before = digest(before, record)
        out += record + struct.pack("<Q", before)
        at += size + 8
    return out
