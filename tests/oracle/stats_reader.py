"""A reader of calibration statistics, written from format/STATS.md alone."""

import struct

import numpy as np
from blobs import xxh3

HEADER = struct.Struct("<8sHHIQQQII4I")
MAGIC = b"\x89SMC\r\n\x1a\n"
KINDS = {1: "gram", 2: "diagonal"}
LAYERS = struct.Struct("<4I128s128s")  # from minor version 1 on
HEADS = struct.Struct("<4I")  # from minor version 3 on
VARIED = struct.Struct("<4I128s")  # from minor version 4 on
PARTIAL = struct.Struct("<128s128s")  # from minor version 5 on


def word(data):
    return int.from_bytes(data[:8], "little")


class Stats:
    """kind, n_tokens, n_windows, model_key, text_digest, records: full matrices, or diagonals, and sensitivities."""

    def __init__(self, data):
        head = data[: HEADER.size]
        magic, major, self.minor, kind, self.model_key, self.text_digest, *rest = HEADER.unpack(head)
        assert (magic, major) == (MAGIC, 1) and self.minor in (0, 1, 2, 3, 4, 5, 6)
        self.n_tokens, self.n_windows, self.n_layers, *self.widths = rest
        self.kind = KINDS[kind]
        self.records = []
        head = data[: HEADER.size + (LAYERS.size if self.minor else 0) + (HEADS.size if self.minor >= 3 else 0) + (VARIED.size if self.minor >= 4 else 0) + (PARTIAL.size if self.minor >= 5 else 0)]
        assert word(data[len(head) :]) == xxh3(head)
        at = len(head) + 8
        widths = self._widths(head[HEADER.size :])
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

    def _widths(self, more):
        """Returns the widths of all records. stateful and sparse are lists of layers; each sparse one has n_experts."""
        fields = LAYERS.unpack(more[: LAYERS.size]) if self.minor else (0, 0, 0, 0, b"", b"")
        self.n_heads, self.query_rank, query_dim, latent_width = HEADS.unpack(more[LAYERS.size :][: HEADS.size]) if self.minor >= 3 else (0, 0, 0, 0)
        state_width, self.n_experts, expert_width, shared_width, *sets = fields
        varied = VARIED.unpack(more[LAYERS.size + HEADS.size :][: VARIED.size]) if self.minor in (4, 6) else (0, self.n_layers, 0, 0, b"")
        second_width, first_shared, late_width, input_width, second = varied
        partial = PARTIAL.unpack(more[LAYERS.size + HEADS.size + VARIED.size :]) if self.minor >= 5 else (b"", b"")
        sets += [second, *partial]
        bits = [np.unpackbits(np.frombuffer(s, np.uint8), bitorder="little").nonzero()[0].tolist() for s in sets]
        self.stateful, self.sparse, second, no_mixer, no_mlp = bits
        widths = []
        for layer in range(self.n_layers):
            hidden, attended, mlp, gated = self.widths
            attended = state_width if layer in self.stateful and self.minor in (1, 5) else attended
            attended = second_width if layer in second else attended
            gated = late_width if layer >= first_shared else gated
            record = [hidden, attended, mlp, shared_width if layer in self.sparse else gated]
            record[:2] = [0, 0] if layer in no_mixer else record[:2]
            widths += record[:2] + ([0, 0] if layer in no_mlp else record[2:])
        widths += self.widths[:1] + [self.widths[0], expert_width] * (self.n_experts * len(self.sparse))
        widths += [state_width] * (len(self.stateful) if self.minor == 2 else 0)
        widths += [self.query_rank] * (self.n_layers if self.query_rank else 0)
        widths += [query_dim, latent_width] * (self.n_layers * self.n_heads)
        widths += [self.widths[0], input_width] * (self.n_layers if input_width else 0)
        self.per_layer = 12 if self.minor else 7  # sensitivities
        return [*widths, self.per_layer * self.n_layers + (4 if input_width else 2)]

    def expert(self, layer, expert):
        """The number of the first record of an expert."""
        return 4 * self.n_layers + 1 + 2 * (self.sparse.index(layer) * self.n_experts + expert)

    def query(self, layer):
        """The number of the record of a layer's queries, before their last matrix."""
        return 4 * self.n_layers + 1 + layer

    def head(self, layer, head):
        """The number of the first record of a head."""
        return 4 * self.n_layers + 1 + (self.n_layers if self.query_rank else 0) + 2 * (layer * self.n_heads + head)

    def _matrix(self, values, width):
        if self.kind == "diagonal":
            return values
        matrix = np.zeros((width, width), np.float32)
        matrix[np.triu_indices(width)] = values
        return matrix + np.triu(matrix, 1).T
