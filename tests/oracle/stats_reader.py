"""A reader of calibration statistics, written from format/STATS.md alone."""

import struct

import numpy as np
from blobs import xxh3

HEADER = struct.Struct("<8sHHIQQQII4I")
MAGIC = b"\x89SMC\r\n\x1a\n"
KINDS = {1: "gram", 2: "diagonal"}


def word(data):
    return int.from_bytes(data[:8], "little")


class Stats:
    """kind, n_tokens, n_windows, model_key, text_digest, records: full matrices, or diagonals, and sensitivities."""

    def __init__(self, data):
        head = data[: HEADER.size]
        magic, major, minor, kind, self.model_key, self.text_digest, *rest = HEADER.unpack(head)
        assert (magic, major, minor) == (MAGIC, 1, 0)
        assert word(data[HEADER.size :]) == xxh3(head)
        self.n_tokens, self.n_windows, self.n_layers, *self.widths = rest
        self.kind = KINDS[kind]
        self.records = []
        at = HEADER.size + 8
        widths = self.widths * self.n_layers + self.widths[:1] + [7 * self.n_layers + 2]
        for number, width in enumerate(widths):
            last = number == len(widths) - 1
            size = 4 * (width if last or self.kind == "diagonal" else width * (width + 1) // 2)
            values = data[at : at + size]
            assert len(values) == size
            digest = xxh3(struct.pack("<3Q", xxh3(head), number, xxh3(values)))
            assert word(data[at + size :]) == digest
            floats = np.frombuffer(values, "<f4")
            if last:
                self.sensitivities = floats
            else:
                self.records.append(self._matrix(floats, width))
            at += size + 8
        assert at == len(data)

    def _matrix(self, values, width):
        if self.kind == "diagonal":
            return values
        matrix = np.zeros((width, width), np.float32)
        matrix[np.triu_indices(width)] = values
        return matrix + np.triu(matrix, 1).T
