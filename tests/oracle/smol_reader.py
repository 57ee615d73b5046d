"""A second reader of .smol blobs, written from format/FORMAT.md alone: no code is shared with the
tools that it checks. Slow and strict; section numbers in comments are FORMAT.md's."""

import struct
from dataclasses import dataclass, field

import numpy as np
from vocabulary_reader import Clusters, Vocabulary

MAGIC = b"\x89SML\r\n\x1a\n"
CHUNK = 65536
MAX_FRONT = 2**26
NO_TOKEN = 0xFFFFFFFF
F32, BF16, INT8, INT6, INT5, INT4 = range(1, 7)
BITS = {INT8: 8, INT6: 6, INT5: 5, INT4: 4}
MODEL, INV_FREQ, STOP, GENERATION, PROVENANCE, TENSORS, DIGESTS = range(1, 8)
LAYERS, TEMPLATE, SCANNER, TEXT, LEVELS, ENCODER_SECTION, STATES_SECTION, EMBEDDER_SECTION = 8, 9, 10, 11, 12, 13, 14, 16
EXPERTS_SECTION, HYBRID_SECTION, LATENT_SECTION, VARIED_SECTION, PARTIAL_SECTION, TOKENIZER, WEIGHTS = 15, 17, 18, 19, 20, 32, 33
KINDS = (MODEL, INV_FREQ, STOP, GENERATION, PROVENANCE, TENSORS, DIGESTS, TOKENIZER, WEIGHTS)
BLOCKS, TEMPLATE_FEATURE, SCANNERS, TEXT_FEATURE, MIXED, TOOLS = 1, 2, 4, 8, 16, 32
COMPONENTS, VOCABULARY, ENCODER, STATES, EXPERTS, EMBEDDER, CLUSTERS, AHEAD = 64, 128, 256, 512, 1024, 2048, 4096, 8192
AROUND, HYBRID, LATENT, NORMED, DOUBLED, RELATIVE, HEAD_GATES, FURTHER = 16384, 32768, 65536, 131072, 262144, 524288, 1048576, 2097152
VARIED, PARTIAL, OWN_NORMS = 1 << 22, 1 << 23, 1 << 24
N_TOOL_STYLES = 25
FEATURE_KINDS = {
    BLOCKS: LAYERS, TEMPLATE_FEATURE: TEMPLATE, SCANNERS: SCANNER, TEXT_FEATURE: TEXT, MIXED: LEVELS,
    ENCODER: ENCODER_SECTION, STATES: STATES_SECTION, EXPERTS: EXPERTS_SECTION, EMBEDDER: EMBEDDER_SECTION,
    HYBRID: HYBRID_SECTION, LATENT: LATENT_SECTION, VARIED: VARIED_SECTION, PARTIAL: PARTIAL_SECTION,
}  # 3


class Damaged(Exception):
    pass


class Unsupported(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Damaged(what)


def round_up(value, unit):
    return -(-value // unit) * unit


def is_utf8(data):
    try:
        return data.decode() is not None
    except UnicodeDecodeError:
        return False


# 5.1
MODEL_FIELDS = """family dtype n_layers hidden_size intermediate_size n_heads n_kv_heads head_dim
    vocab_size context_length bos_id tied_embeddings rms_norm_eps attention_bias mlp_bias activation
    rope_theta blocks embedding_scale residual_scale attention_scale attention_softcap logit_divisor
    logit_softcap sliding_window rotary_dim n_rope_tables rope_scale rope_scale1 query_growth
    query_period""".split()
RANGES = {
    "family": (1, 1), "dtype": (1, 3), "n_layers": (1, 2**10), "hidden_size": (1, 2**20),
    "intermediate_size": (1, 2**22), "n_heads": (1, 2**12), "n_kv_heads": (1, 2**12),
    "head_dim": (2, 2**10), "vocab_size": (1, 2**24), "context_length": (1, 2**24),
    "tied_embeddings": (0, 1), "attention_bias": (0, 2), "mlp_bias": (0, 1), "activation": (0, 3),
}  # fmt: skip
BLOCK_RANGES = {
    "blocks": (0, 2**17 - 1), "sliding_window": (0, 2**24), "n_rope_tables": (1, 2),
    "query_period": (0, 2**24),
}  # fmt: skip
SCALES = "embedding_scale residual_scale attention_scale logit_divisor rope_scale".split()
CAPS = "attention_softcap logit_softcap rope_scale1 query_growth".split()
NORM_OUTPUTS, NO_INPUT_NORMS, QK_NORM_HEADS, QK_NORM_ALL, QK_NORM_LATE = 1, 2, 4, 8, 16
ROTATE_NEIGHBOURS = 32
NORM_STREAM, ATTENTION_GATE, BY_DISTANCE, GATE_HEADS, HAS_SINKS = 4096, 8192, 16384, 32768, 65536
LAYER_NORM, NO_GATE, PARALLEL, ONE_NORM, POSITIONS, OUTPUT_BIAS = 64, 128, 256, 512, 1024, 2048
WINDOWED, NO_ROTATION, SECOND_TABLE = 1, 2, 4

# 5.15
EXPERT_FIELDS = """n_experts n_used width shared_width scoring normalizes choice_bias sum_epsilon scale
    qkv_clip shared_gate own_norms""".split()

# 5.17
HYBRID_FIELDS = """parallel norm input_biases output_bias attention_in attention_out mixer_in mixer_out gate x b c step
    mlp_gate mlp_out reserved""".split()

# 5.4
GENERATION_FIELDS = "do_sample temperature top_k top_p min_p repetition_penalty".split()

# 7.1, in the order of the table: role, name, per layer, shape, which models have it
ROLES = [
    (0, "embed", False, "VH", None),
    (23, "positions", False, "CH", lambda m: m["blocks"] & POSITIONS),
    (56, "relative", False, "bn", lambda m: m["blocks"] & BY_DISTANCE),
    (58, "input_embed", False, "Zz", "input_width"),
    (59, "input_projection", False, "YH", "input_width"),
    (60, "input_norm", False, "z", "input_width"),
    (1, "attn_norm", True, "H", lambda m: m["mixes"] and not m["blocks"] & NO_INPUT_NORMS),
    (24, "attn_norm_bias", True, "H", lambda m: m["blocks"] & LAYER_NORM),
    (51, "attn_q_down", True, "RH", "q_rank"),
    (52, "attn_q_down_norm", True, "R", "q_rank"),
    (2, "attn_q", True, "Qi", None),
    (3, "attn_k", True, "KH", "keeps"),
    (53, "attn_latent_norm", True, "L", "kv_rank"),
    (54, "attn_k_up", True, "ud", "kv_rank"),
    (55, "attn_v_up", True, "AL", "kv_rank"),
    (4, "attn_v", True, "KH", lambda m: m["has_values"] and not m["kv_rank"]),
    (5, "attn_o", True, "HA", None),
    (6, "attn_q_bias", True, "Q", "attention_bias"),
    (7, "attn_k_bias", True, "K", lambda m: m["keeps"] and m["attention_bias"]),
    (8, "attn_v_bias", True, "K", lambda m: m["has_values"] and m["attention_bias"]),
    (9, "attn_o_bias", True, "H", lambda m: m["attention_bias"] == 1),
    (19, "attn_q_norm", True, "q", lambda m: m["blocks"] & (QK_NORM_HEADS | QK_NORM_ALL)),
    (20, "attn_k_norm", True, "k", lambda m: m["keeps"] and m["blocks"] & (QK_NORM_HEADS | QK_NORM_ALL)),
    (57, "attn_sinks", True, "n", lambda m: m["blocks"] & HAS_SINKS),
    (46, "attn_gate", True, "gH", lambda m: m["blocks"] & ATTENTION_GATE),
    (47, "attn_gate_bias", True, "Q", lambda m: m["blocks"] & (ATTENTION_GATE | GATE_HEADS) == ATTENTION_GATE and m["attention_bias"]),
    (39, "mixer_gate", True, "MH", lambda m: m["state_kind"] > 1),
    (49, "mixer_gate_bias", True, "M", "input_biases"),
    (28, "mixer_in", True, "3H", None),
    (29, "mixer_in_bias", True, "3", lambda m: m["input_biases"] or m["state_biases"] and m["state_kind"] == 1),
    (30, "mixer_conv", True, "TX", None),
    (31, "mixer_conv_bias", True, "X", "state_biases"),
    (40, "mixer_step", True, "hH", lambda m: m["state_kind"] > 1),
    (50, "mixer_step_in_bias", True, "h", "input_biases"),
    (41, "mixer_rate", True, "hH", lambda m: m["state_kind"] == 3),
    (42, "mixer_step_bias", True, "h", lambda m: m["state_kind"] > 1),
    (43, "mixer_decay", True, "h", lambda m: m["state_kind"] > 1),
    (44, "mixer_skip", True, "h", lambda m: m["state_kind"] == 2),
    (45, "mixer_norm", True, "N", lambda m: m["state_kind"] > 1 and m["norm"] != 2),
    (32, "mixer_out", True, "HM", None),
    (33, "mixer_out_bias", True, "H", lambda m: m["output_bias"] or m["state_biases"] and m["state_kind"] == 1),
    (21, "attn_out_norm", True, "H", lambda m: m["blocks"] & NORM_OUTPUTS),
    (10, "mlp_norm", True, "H", lambda m: m["has_mlp"] and not m["blocks"] & (NO_INPUT_NORMS | ONE_NORM)),
    (25, "mlp_norm_bias", True, "H", lambda m: m["blocks"] & (LAYER_NORM | ONE_NORM) == LAYER_NORM),
    (11, "mlp_gate", True, "IH", lambda m: not m["blocks"] & NO_GATE),
    (12, "mlp_up", True, "IH", None),
    (13, "mlp_down", True, "HI", None),
    (14, "mlp_gate_bias", True, "I", lambda m: m["mlp_bias"] and not m["blocks"] & NO_GATE),
    (15, "mlp_up_bias", True, "I", "mlp_bias"),
    (16, "mlp_down_bias", True, "H", lambda m: m["mlp_bias"] and m["has_mlp"]),
    (65, "shared_out_norm", True, "H", "own_norms"),
    (66, "router_norm", True, "H", "own_norms"),
    (34, "router", True, "EH", "sparse"),
    (35, "router_bias", True, "E", "choice_bias"),
    (67, "router_scale", True, "E", "own_norms"),
    (48, "shared_gate", True, "1H", "shared_gate"),
    (68, "expert_norm", True, "H", "own_norms"),
    (36, "gate", True, "WH", "expert"),
    (37, "up", True, "WH", "expert"),
    (38, "down", True, "HW", "expert"),
    (69, "expert_out_norm", True, "H", "own_norms"),
    (22, "mlp_out_norm", True, "H", lambda m: m["blocks"] & NORM_OUTPUTS),
    (61, "input_gate", True, "zH", "input_width"),
    (62, "input_out", True, "Hz", "input_width"),
    (63, "input_out_norm", True, "H", "input_width"),
    (64, "layer_scale", True, "1", "second_head_dim"),
    (17, "final_norm", False, "H", None),
    (26, "final_norm_bias", False, "H", lambda m: m["blocks"] & LAYER_NORM),
    (27, "output_bias", False, "V", lambda m: m["blocks"] & OUTPUT_BIAS),
    (18, "output", False, "VH", None),
]


def block_bytes(dtype, cols):
    """7.3 to 7.6: bytes of a block of 16 rows."""
    if dtype == F32:
        return cols * 64
    if dtype == BF16:
        return -(-cols // 2) * 64
    groups = -(-cols // 32)
    return groups * 64 * BITS[dtype] + -(-groups // 2) * 64


@dataclass
class Tensor:
    name: str
    dtype: int
    rows: int
    cols: int
    offset: int
    size: int
    is_vector: bool
    data: bytes
    levels: tuple = ()  # of int6, int5 and int4

    def elements(self, row, col, offset, kind):
        """The elements at the byte offsets that offset(block_offset, r, c) gives; 7.3 to 7.6."""
        blocks = (row // 16) * block_bytes(self.dtype, self.cols)
        at = offset(blocks, row % 16, col)
        size = np.dtype(kind).itemsize
        raw = np.frombuffer(self.data, np.uint8)
        return raw[at[..., None] + np.arange(size)].view(kind)[..., 0]

    def scales(self, row, col):
        """The f16 scales of elements; 7.5 and 7.6."""
        pair = 64 + 128 * BITS[self.dtype]
        return self.elements(
            row, col, lambda b, r, c: b + c // 64 * pair + c // 32 % 2 * 32 + r * 2, "<f2"
        )

    def line(self, row, col, line, kind):
        """The byte that belongs to each element in a line of its group."""
        size = 64 * BITS[self.dtype]
        return self.elements(
            row, col,
            lambda b, r, c: b + c // 64 * (64 + 2 * size) + 64 + c // 32 % 2 * size + line * 64
            + r * 4 + c % 4, kind,
        )  # fmt: skip

    def steps_and_scales(self, rows, cols):
        """The steps of int8 weights, or the codes of others, and the f16 scales that go with them."""
        row, col = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        scales, quad = self.scales(row, col), col % 32 // 4
        if self.dtype == INT8:
            return self.line(row, col, quad, "<i1"), scales
        codes = self.line(row, col, quad // 2, "<u1") >> quad % 2 * 4 & 15
        if self.dtype == INT5:
            codes |= (self.line(row, col, 4, "<u1") >> quad & 1) << 4
        if self.dtype == INT6:
            codes |= (self.line(row, col, 4 + quad // 4, "<u1") >> quad % 4 * 2 & 3) << 4
        return codes.astype(np.uint8), scales

    def values(self, rows=None, cols=None):
        """The elements as float32; more rows and columns than the shape has show the padding."""
        rows, cols = rows or self.rows, cols or self.cols
        if self.is_vector:
            found = np.frombuffer(self.data, "<f4")[: self.rows * cols]
            return found if self.rows == 1 else found.reshape(self.rows, cols)
        row, col = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
        if self.dtype == F32:
            return self.elements(row, col, lambda b, r, c: b + c * 64 + r * 4, "<f4")
        if self.dtype == BF16:
            half = self.elements(
                row, col, lambda b, r, c: b + c // 2 * 64 + r * 4 + c % 2 * 2, "<u2"
            )
            return (half.astype(np.uint32) << 16).view(np.float32)
        steps, scales = self.steps_and_scales(rows, cols)
        if self.dtype != INT8:
            steps = np.array(self.levels, np.float32)[steps]
        return steps.astype(np.float32) * scales.astype(np.float32)


class Scanner:
    """5.10: the tables, and the rules that keep a reader within them; and how to cut with them."""

    def __init__(self, data):
        need(len(data) >= 64 and not any(data[28:64]), "scanner header")
        n_stages, n_blocks, self.n_classes, row, n_states, n_ahead, self.n_looks = struct.unpack_from("<7I", data)
        need(n_stages <= 16 and 1 <= n_blocks <= 4352 and 1 <= self.n_classes <= 255, "scanner")
        need(self.n_classes < row <= 256 and row & (row - 1) == 0, "row")
        need(max(n_states, n_ahead) * row <= 2**20, "n_states")
        need(self.n_looks <= 3 and (self.n_looks > 0) == (n_ahead > 0), "n_looks")
        need((self.n_classes + 1) << self.n_looks <= row, "row")
        sizes = [n_stages * 16, 8704, n_blocks * 256, 256, n_stages * row * 2, n_states * row * 2]
        sizes += [n_ahead * row * 2] if n_ahead else []
        tables, end = [], 64
        for size in sizes:
            start = round_up(end, 64)
            need(start + size <= len(data) and not any(data[end:start]), "scanner table")
            tables.append(data[start : start + size])
            end = start + size
        need(end == len(data), "scanner size")
        stages, index, self.blocks, self.byte_classes, starts, states, ahead = (*tables, b"")[:7]
        self.stages = list(struct.iter_unpack("<4I", stages))
        self.index = struct.unpack("<4352H", index)
        self.starts = list(struct.iter_unpack(f"<{row}H", starts))
        rows = list(struct.iter_unpack(f"<{row}H", states))
        need(max(self.index) < n_blocks, "class index")
        need(max(self.blocks + self.byte_classes) < self.n_classes, "class")
        ahead = list(struct.iter_unpack(f"<{row}H", ahead))
        self.states, self.ahead = [], []
        for stage, start in zip(self.stages, self.starts, strict=True):
            self.states.append(rows[: stage[0]])
            rows = rows[stage[0] :]
            self.ahead.append(ahead[: stage[3]])
            ahead = ahead[stage[3] :]
            need(len(self.ahead[-1]) == stage[3], "ahead")
            self.check_stage(stage, start, self.states[-1])
            self.check_ahead(self.ahead[-1])
        need(not rows and not ahead, "states")
        self.looks_ahead = n_ahead > 0 or any(stage[2] & 16 for stage in self.stages)

    def check_stage(self, stage, starts, rows):
        n_states, behaviour, flags, n_ahead = stage
        n, last = self.n_classes, max(starts)
        need(len(rows) == n_states and behaviour <= (1 if flags & 16 else 4) and flags < 32, "stage")
        n_symbols = n + 1 << (self.n_looks if n_ahead else 0)
        need(0 < min(starts[: n + 1]) and last < n_states and not any(starts[n + 1 :]), "starts")
        need(flags & 8 or last == 1, "starts that differ")
        for state, row in enumerate(rows):
            need(not any(row[n_symbols:]) and max(row[n : n_symbols : n + 1]) < 2, "row")
            need(state > 0 or not any(row), "state 0")
            for entry in row:
                need(entry < 2 or last < entry >> 1 < n_states, "transition")
                need(state > last or flags & 16 or entry & 1 == 0, "empty match")

    def check_ahead(self, rows):
        for row in rows:
            need(not any(row[self.n_classes + 1 :]), "ahead row")
            need(all(entry // 8 < len(rows) and entry % 8 < 2**self.n_looks for entry in row), "ahead")

    def seen(self, stage, symbols):
        """The symbols of a piece and its end, with the looks of the place before each."""
        end = self.n_classes
        if not self.ahead[stage]:
            return [*symbols, end]
        entry, out = self.ahead[stage][0][end], []
        for symbol, before in zip([end, *reversed(symbols)], [*reversed(symbols), end], strict=True):
            entry = self.ahead[stage][entry // 8][before]
            out.append(entry % 8 * (end + 1) + symbol)
        return out[::-1]

    def symbols(self, stage, piece):
        """Returns the symbols that a stage sees of a piece: [(symbol, bytes)]."""
        if self.stages[stage][2] & 2:
            return [(self.byte_classes[b], bytes([b])) for b in piece]
        characters = [(ord(c), c.encode()) for c in piece.decode()]
        return [(self.blocks[self.index[c // 256] * 256 + c % 256], b) for c, b in characters]

    def match(self, stage, symbols, at):
        """Where the match at a place ends, or None. `symbols` are what seen() returned."""
        before = symbols[at - 1] % (self.n_classes + 1) if at > 0 else self.n_classes
        state, end = self.starts[stage][before], None
        for place, symbol in enumerate(symbols[at:], at):
            entry = self.states[stage][state][symbol]
            end, state = place if entry & 1 else end, entry >> 1
            if state == 0:
                break
        return end

    def segments(self, stage, symbols):
        """[[start, end, is_match]]"""
        out, at, start = [], 0, 0
        seen = self.seen(stage, symbols)
        while at < len(symbols):
            end = self.match(stage, seen, at)
            if end is None or end == at == start:
                at += 1
                continue
            out += [[start, at, False]] * (start < at) + [[at, end, True]] * (at < end)
            at = start = end
        return out + [[start, at, False]] * (start < at)

    def cut(self, piece, stage=0):
        """The words of a stretch of text, as bytes."""
        if stage == len(self.stages) or not piece:
            return [piece] * bool(piece)
        _, behaviour, flags, _ = self.stages[stage]
        if flags & 4 and piece[:1] != b" ":
            piece = b" " + piece
        seen = self.symbols(stage, piece)
        segments = [
            [a, b, match != bool(flags & 1)] for a, b, match in self.segments(stage, [s for s, _ in seen])
        ]
        pieces, before = [], None
        for start, end, match in segments:
            joins = before is not None and {
                2: match and not before, 3: before and not match, 4: match == before
            }.get(behaviour)  # fmt: skip
            if joins:
                pieces[-1][1] = end
            elif behaviour > 0 or not match:
                pieces.append([start, end])
            before = match
        parts = [b"".join(b for _, b in seen[start:end]) for start, end in pieces]
        return [word for part in parts for word in self.cut(part, stage + 1)]


class Tokenizer:
    """6: the tables, and the rules that keep a reader within them."""
# 5.9: the fields, and of the tables struct's format of an entry
TEXT_FIELDS = """flags unknown_id split strip n_strip max_probe n_before n_after n_steps n_late_steps
    n_name_slots n_pool n_letter_index n_letter_blocks n_letters n_letter_texts n_pairs
    model prefix n_prefix max_word n_maps n_map_blocks n_nodes n_scores
    n_cluster_blocks n_cluster_classes n_cluster_states n_clusters""".split()
TEXT_TABLES = dict(zip(
    TEXT_FIELDS[6:17], ["I", "I", "4I", "4I", "3I", "B", "H", "256H", "IBBBB", "I", "3I"], strict=True
))  # fmt: skip
# those of the feature *vocabulary*
MORE_TABLES = {"n_maps": "4352H", "n_map_blocks": "256I", "n_nodes": "IIHBB", "n_scores": "d"}


def is_scalar(c):
    return c <= 0x10FFFF and not 0xD800 <= c < 0xE000


# 5.11: of each operation the values that it takes and gives, what happens to captures, and its operand
# (s: a constant string, c: a constant, g: a slot, f: a function, j: a jump, n: a number, -: none)
OPERATIONS = """text 0 0 0 s, print 1 0 0 -, capture 0 0 1 -, captured 0 1 -1 -, capture_leave 0 0 -1 -,
    constant 0 1 0 c, undefined 0 1 0 s, resolve 0 1 0 s, get 0 1 0 g, set 1 0 0 g, list 0 1 0 n,
    tuple 0 1 0 n, dict 0 1 0 n, function 0 1 0 f, pop 1 0 0 -, dup 1 2 0 -, swap 2 2 0 -, tuck 2 3 0 -,
    unpack 1 0 0 n, attribute 1 1 0 s, item 2 1 0 -, slice 4 1 0 -, not 1 1 0 -, unary 1 1 0 -,
    binary 2 1 0 -, compare 2 1 0 -, concat 0 1 0 n, store 2 0 0 s, call 1 1 0 n, filter 1 1 0 n,
    test 1 1 0 n, given 0 0 0 j, return 0 0 0 -, jump 0 0 0 j, jump_false 1 0 0 j, and 1 0 0 j,
    or 1 0 0 j, loop 1 1 0 -, next 1 2 0 j, keep 2 1 0 -, rewind 1 1 0 -, loop_end 1 0 0 j,
    call_list 2 1 0 n"""
OPERATIONS = [o.split() for o in OPERATIONS.split(",")]
N_FILTERS, N_TESTS = 32, 24


class Template:
    """5.11: the section's tables, and its rules."""

    def __init__(self, data):
        need(len(data) >= 64 and not any(data[36:64]), "template header")
        counts = struct.unpack_from("<9I", data)
        self.name, self.reason, self.source_size, self.tool_style = counts[5:]
        need(self.tool_style < (N_TOOL_STYLES if counts[1] else 1), "tool style")
        need(max(counts[0], counts[2], counts[3]) <= 2**20 and counts[1] <= 2**10, "counts")
        need((self.reason == NO_TOKEN) == (counts[1] > 0), "code or a reason")
        at, tables = 64, []
        for n, entry in zip(counts[:4], ("IIQ", "8I", "BBHI", "II"), strict=True):
            size = n * struct.calcsize("<" + entry)
            need(at + size <= len(data), "tables")
            tables.append(list(struct.iter_unpack("<" + entry, data[at : at + size])))
            at += size
        need(len(data) == at + counts[4], "template size")
        self.constants, self.functions, self.operations, self.variables = tables
        self.text = bytes(data[at:])
        self.check_tables()
        start = 0
        for i, f in enumerate(self.functions):
            need(f[0] == start and 0 < f[1] <= len(self.operations) - start, "function")
            self.check_function(i, *f)
            start += f[1]
        need(start == len(self.operations), "operations after the last function")

    def check_tables(self):
        need(sum(length for _, length, _ in self.constants) <= len(self.text), "strings that share text")
        for kind, length, value in self.constants:
            need(kind <= 5 and (kind == 5 or length == 0) and (kind >= 3 or value == 0), "constant")
            if kind == 5:
                need(value + length <= len(self.text), "string")
                need(is_utf8(self.text[value : value + length]), "string")
        for entry in self.variables:
            need(all(map(self.is_string, entry)), "variable")
        need(self.is_string(self.name), "name")
        need(self.reason == NO_TOKEN or self.is_string(self.reason), "reason")

    def is_string(self, index):
        return index < len(self.constants) and self.constants[index][0] == 5

    def check_operand(self, f, code, a, b):
        n, n_parameters, n_slots = f[1:4]
        name, kind = OPERATIONS[code][0], OPERATIONS[code][4]
        limits = {"get": 2, "set": 2, "unary": 2, "binary": 7, "compare": 8, "given": n_parameters,
                  "call": 256, "filter": 256, "test": 256}  # fmt: skip
        need(a < limits.get(name, 1), "a")
        slots = self.functions[0][3] if a else n_slots
        good = {"s": self.is_string(b), "c": b < len(self.constants), "g": b < slots, "j": b < n,
                "f": 0 < b < len(self.functions), "-": b == 0, "n": True}[kind]  # fmt: skip
        need(good, "b")
        need(name != "filter" or b % 65536 < N_FILTERS, "filter")
        need(name != "test" or b % 65536 < N_TESTS, "test")

    def check_function(self, i, start, n, n_parameters, n_slots, max_stack, name, parameters, zero):
        f = (start, n, n_parameters, n_slots)
        need(n_parameters <= n_slots <= 2**10 and max_stack <= 2**10 and zero == 0, "function")
        need(self.is_string(name) and (i > 0 or n_parameters == 0), "function")
        need(all(self.is_string(parameters + k) for k in range(n_parameters)), "parameters")
        heights = {0: (0, 0)}
        for at, (code, a, _, b) in enumerate(self.operations[start : start + n]):
            need(at in heights and code < len(OPERATIONS), "operation")
            self.check_operand(f, code, a, b)
            stack, captures = heights[at]
            op, pops, pushes, opens, kind = OPERATIONS[code]
            pops, pushes = int(pops), int(pushes)
            pops += {"list": b, "tuple": b, "concat": b, "dict": 2 * b, "call": a + 2 * b}.get(op, 0)
            pops += a + b // 65536 * 2 if op in ("filter", "test") else 0
            pushes += b if op == "unpack" else 0
            need(pops <= stack, "stack")
            stack, captures = stack - pops + pushes, captures + int(opens)
            need(stack <= max_stack and 0 <= captures <= 32, "heights")
            if op == "return":
                need((stack, captures) == (0, 0), "return")
                continue
            if kind == "j":
                there = (stack + (op in ("and", "or")) - (op == "next"), captures)
                need(b > at or b in heights, "jump back")
                need(heights.setdefault(b, there) == there, "heights differ")
            if op != "jump":
                need(at + 1 < n, "end of a function")
                need(heights.setdefault(at + 1, (stack, captures)) == (stack, captures), "heights")


class Text:
    """5.9: the section's fields (f) and tables (t), and its rules."""

    def __init__(self, data, digest):
        need(len(data) >= 128 and not any(data[116:128]), "text header")
        self.digest = digest
        f = self.f = dict(zip(TEXT_FIELDS, struct.unpack_from("<29I", data), strict=True))
        self.t, end = dict.fromkeys(MORE_TABLES, []), 128
        for name, entry in (TEXT_TABLES | (MORE_TABLES if f["model"] or f["n_maps"] else {})).items():
            start, size = round_up(end, 64), f[name] * struct.calcsize("<" + entry)
            need(start + size <= len(data) and not any(data[end:start]), name)
            rows = struct.iter_unpack("<" + entry, data[start : start + size])
            self.t[name] = [row if len(row) > 1 else row[0] for row in rows]
            end = start + size
        self.clusters = None
        if f["n_cluster_blocks"]:
            self.clusters = Clusters(f, data, end, need)
            end = self.clusters.end
        need(end == len(data), "text section size")
        self.pool = bytes(self.t["n_pool"])
        self.vocabulary = Vocabulary(f, self.t, self.pool, need)
        steps = self.t["n_steps"] + self.t["n_late_steps"]
        uses = [kind == 10 for kind, *_ in steps]
        need(any(uses) == bool(self.clusters), "clusters")
        if self.clusters:
            self.clusters.map = (self.vocabulary, self.pool)
            self.clusters.check_changes(need)
        self.extended = bool(f["model"] or f["n_maps"] or any(kind > 5 for kind, *_ in steps))
        self.check_fields()
        self.check_names()
        self.check_letters()

    def check_fields(self):
        f = self.f
        need(f["flags"] < 64 and (f["flags"] & 1 or not f["flags"] & 2 and not f["split"]), "flags")
        need(is_scalar(f["split"]) and is_scalar(f["strip"]), "split or strip")
        need(f["n_strip"] <= 64 and (f["n_strip"] > 0) == (f["strip"] > 0), "n_strip")
        need(max(f["n_before"], f["n_after"]) <= 16, "ids around")
        need(max(f["n_steps"], f["n_late_steps"]) <= 8, "steps")
        growth = 1
        for kind, start, pattern, text in self.t["n_steps"] + self.t["n_late_steps"]:
            need(1 <= kind <= 10 and max(pattern, text) <= 64, "step")
            need((pattern > 0) == (kind in (1, 8)), "pattern")
            if kind in (5, 6, 7, 9, 10):
                need(text == 0 and (start == 0 or kind in (7, 9, 10)), "text of a step")
                need(kind in (7, 9, 10) or f["n_letter_index"], "normalization")
                need(kind not in (7, 10) or start < f["n_maps"], "map")
                need(kind != 9 or 1 <= start <= 3, "sides")
                factor = {5: 16, 6: 8, 9: 1}.get(kind) or self.vocabulary.growth(start)
                growth *= max(factor, self.clusters.growth() if kind == 10 else 1)
                continue
            need(start + pattern + text <= len(self.pool), "step")
            need(is_utf8(self.pool[start : start + pattern]), "pattern")
            need(is_utf8(self.pool[start + pattern : start + pattern + text]), "text of a step")
            need(pattern > 0 or text > 0, "nothing to put before")
            growth *= max(1, -(-text // pattern)) if pattern else 1
        need(growth <= (32768 if self.clusters else 1024 if self.extended else 256), "growth")
        need(NO_TOKEN not in self.t["n_before"] + self.t["n_after"], "id around")

    def check_names(self):
        n, names = self.f["n_name_slots"], self.t["n_name_slots"]
        need(n & (n - 1) == 0 and self.f["max_probe"] <= 255, "names")
        for id_, start, length in names:
            need(id_ != NO_TOKEN or (start, length) == (0, 0), "empty name")
            need(id_ == NO_TOKEN or length > 0 and start + length <= len(self.pool), "name")
        need(sum(length for _, _, length in names) <= len(self.pool), "names that share text")
        for slot, (id_, start, length) in enumerate(names):
            if id_ != NO_TOKEN:
                need(self.find(self.pool[start : start + length]) == slot, "name out of reach")

    def find(self, name):
        """The slot of a name, or None."""
        names = self.t["n_name_slots"]
        slot = self.digest(name) & (len(names) - 1)
        for _ in range(self.f["max_probe"]):
            id_, start, length = names[slot]
            if id_ == NO_TOKEN:
                return None
            if self.pool[start : start + length] == name:
                return slot
            slot = (slot + 1) & (len(names) - 1)
        return None

    def check_letters(self):
        f, t = self.f, self.t
        rest = [f[name] for name in TEXT_FIELDS[13:17]]
        need(f["n_letter_index"] in (0, 4352), "letter index")
        need(f["n_letter_index"] or not any(rest), "letters without an index")
        need(all(block < f["n_letter_blocks"] for block in t["n_letter_index"]), "letter block")
        need(all(x < f["n_letters"] for block in t["n_letter_blocks"] for x in block), "letter")
        for i, (start, length, class_, joins, zero) in enumerate(t["n_letters"]):
            need(length <= 4 and joins <= 1 and zero == 0, "letter")
            need(start + length <= f["n_letter_texts"] and (length or not start), "letter text")
            need(i or not (length or class_ or joins), "letter 0")
        if f["n_letter_index"]:
            need(not any(t["n_letter_blocks"][t["n_letter_index"][0]][:128]), "ASCII")
        need(all(map(is_scalar, t["n_letter_texts"])), "letter text")
        pairs = t["n_pairs"]
        need(all(all(map(is_scalar, pair)) and pair[2] for pair in pairs), "pair")
        need(all(a[:2] < b[:2] for a, b in zip(pairs, pairs[1:])), "order of pairs")

    def ids(self):
        unknown = [] if self.f["unknown_id"] == NO_TOKEN else [self.f["unknown_id"]]
        named = [id_ for id_, _, _ in self.t["n_name_slots"] if id_ != NO_TOKEN]
        return unknown + self.t["n_before"] + self.t["n_after"] + named + self.vocabulary.ids()


class Tokenizer:
    """6: the tables, and the rules that keep a reader within them. `text` is a Text, or None."""

    def __init__(self, data, vocab_size, text):
        self.text_rules = text
        need(len(data) >= 64, "no tokenizer header")
        (n_tokens, n_text, n_slots, self.max_probe, n_added, n_blocks, self.pretokenizer, zero,
         *offsets, zero1) = struct.unpack_from("<16I", data)  # fmt: skip
        need(n_tokens <= vocab_size, "n_tokens")
        need(n_slots and n_slots & (n_slots - 1) == 0, "n_merge_slots")
        need(self.max_probe <= 255 and self.pretokenizer in (2, 3, 4), "probe or pretokenizer")
        need(zero == 0 and zero1 == 0, "reserved")
        sizes = [n_tokens * 8, n_text, 1024, n_slots * 16, n_added * 16, 4352 * 2, n_blocks * 256]
        tables, end = [], 64
        for offset, size in zip(offsets, sizes, strict=True):
            start = round_up(end, 64)
            need(offset == start and start + size <= len(data), "table out of place")
            need(not any(data[end:start]), "padding")
            tables.append(data[start : start + size])
            end = start + size
        need(end == len(data), "section size")
        spans, self.text, self.byte_tokens, merges, added, index, self.class_blocks = tables
        self.spans = list(struct.iter_unpack("<IHH", spans))
        self.byte_tokens = struct.unpack("<256I", self.byte_tokens)
        self.merges = list(struct.iter_unpack("<4I", merges))
        self.added = list(struct.iter_unpack("<4I", added))
        self.class_index = struct.unpack("<4352H", index)
        self.check(n_tokens, n_blocks)

    def check(self, n_tokens, n_blocks):
        token_flags, added_flags, classes_above = (13, 31, 32) if self.text_rules else (1, 1, 16)
        if self.text_rules and self.text_rules.f["model"] == 1:
            token_flags |= 16
        for start, length, flags in self.spans:
            need(flags & ~token_flags == 0 or (start, length, flags) == (0, 0, 2), "span")
            need(not flags & 4 or length == 1, "byte")
            need(start + length <= len(self.text), "span")
        need(all(t < n_tokens or t == NO_TOKEN for t in self.byte_tokens), "byte token")
        for slot, (left, right, rank, merged) in enumerate(self.merges):
            if left == NO_TOKEN:
                need((right, rank, merged) == (0, 0, 0), "empty slot")
            else:
                need(max(left, right, merged) < n_tokens and rank < len(self.merges), "merge")
                need(self.find(left, right) == slot, "merge out of reach")
        keys = []
        for id_, start, length, flags in self.added:
            text = self.text[start : start + length]
            need(id_ < n_tokens and flags <= added_flags, "added token")
            need(1 <= length <= 1024, "length of an added token")
            need(len(text) == length and is_utf8(text), "added token's text")
            keys.append((flags & 1, text))
        need(sum(len(text) for _, text in keys) <= len(self.text), "text of added tokens")
        need(all(a < b for a, b in zip(keys, keys[1:])), "order of added tokens")
        need(all(block < n_blocks for block in self.class_index), "class index")
        for classes in set(self.class_blocks):
            need(classes < classes_above and (classes & 7) in (0, 1, 2, 4), "class")
        need(self.classes(0x20) & 4, "the space")
        if self.text_rules:
            need(all(id_ < n_tokens for id_ in self.text_rules.ids()), "id of the text section")

    def find(self, left, right):
        """The slot of a merge, or None."""
        mask = len(self.merges) - 1
        slot = ((left << 32 | right) * 0x9E3779B97F4A7C15 % 2**64 >> 32) & mask
        for _ in range(self.max_probe):
            if self.merges[slot][:2] == (left, right):
                return slot
            if self.merges[slot][0] == NO_TOKEN:
                return None
            slot = (slot + 1) & mask
        return None

    def classes(self, code_point):
        return self.class_blocks[self.class_index[code_point // 256] * 256 + code_point % 256]

    def bytes_of(self, token):
        start, length, _ = self.spans[token]
        return self.text[start : start + length]


@dataclass
class Blob:
    """9: a blob's contents, checked in the order that FORMAT.md gives. `digest` is XXH3-64."""

    data: bytes
    digest: object
    model: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)

    def __post_init__(self):
        self.check_header()
        self.check_sections()
        self.read_model()
        self.read_encoder()
        self.read_partial()
        self.read_hybrid()
        self.read_states()
        self.read_experts()
        self.read_latent()
        self.read_varied()
        self.read_small_sections()
        self.read_tensors()
        self.check_chunks()
        has_template = self.features & TEMPLATE_FEATURE
        self.template = Template(self.section(TEMPLATE)) if has_template else None
        has_style = bool(has_template and self.template.tool_style)
        need(has_style == bool(self.features & TOOLS), "tools")
        has_text = self.features & TEXT_FEATURE
        self.text = Text(self.section(TEXT), self.digest) if has_text else None
        extended = bool(has_text and self.text.extended)
        need(extended == bool(self.features & VOCABULARY), "vocabulary")
        need(bool(has_text and self.text.clusters) == bool(self.features & CLUSTERS), "clusters")
        self.scanner = Scanner(self.section(SCANNER)) if self.features & SCANNERS else None
        need(bool(self.scanner and self.scanner.looks_ahead) == bool(self.features & AHEAD), "ahead")
        self.tokenizer = Tokenizer(self.section(TOKENIZER), self.model["vocab_size"], self.text)
        need((self.tokenizer.pretokenizer == 4) == (self.scanner is not None), "pretokenizer")

    def check_header(self):
        data = self.data
        need(data[:8] == MAGIC and len(data) >= 64, "magic")
        (front_digest, major, self.minor, self.n_sections, file_size, self.data_offset, required,
         self.optional_features, reserved) = struct.unpack_from("<QHHIQQQQQ", data, 8)  # fmt: skip
        if major != 1:
            raise Unsupported(f"version {major}")
        need(file_size == len(data), "file_size")
        need(64 <= self.data_offset <= file_size and self.data_offset % CHUNK == 0, "data_offset")
        need(self.data_offset <= MAX_FRONT, "front too large")
        need(self.digest(data[16 : self.data_offset]) == front_digest, "front digest")
        others = TOOLS | COMPONENTS | VOCABULARY | CLUSTERS | AHEAD | AROUND | NORMED | DOUBLED | RELATIVE | HEAD_GATES | FURTHER | OWN_NORMS
        if unknown := required & ~(sum(FEATURE_KINDS) | others):
            raise Unsupported(f"features {unknown:#x}")
        self.features = required
        need(reserved == 0, "reserved")

    def check_sections(self):
        kinds = {*KINDS, *(k for bit, k in FEATURE_KINDS.items() if bit & self.features)}
        kinds = sorted(kinds | ({ENCODER_SECTION} if self.features & EMBEDDER else set()))
        need(self.n_sections == len(kinds), "n_sections")
        self.places, end = {}, 64 + len(kinds) * 24
        for i, expected in enumerate(kinds):
            kind, reserved, offset, size = struct.unpack_from("<IIQQ", self.data, 64 + i * 24)
            need(kind == expected and reserved == 0, "section kind")
            front = kind < 32
            start = round_up(end, 64 if front else CHUNK)
            limit = self.data_offset if front else len(self.data)
            need(offset == start and start + size <= limit, "section out of place")
            need(not any(self.data[end:start]), "padding")
            self.places[kind] = (offset, size)
            end = start + size
        need(self.places[TOKENIZER][0] == self.data_offset, "data_offset")
        need(end == len(self.data), "bytes after the last section")

    def section(self, kind):
        offset, size = self.places[kind]
        return self.data[offset : offset + size]

    def entries(self, kind, layout):
        """A section that is an array."""
        data = self.section(kind)
        need(len(data) % struct.calcsize(layout) == 0, "odd section size")
        return list(struct.iter_unpack(layout, data))

    def read_model(self):
        data = self.section(MODEL)
        need(len(data) == 128, "model section")
        values = struct.unpack_from("<12IfIIIdI6fIIIfffI", data)
        m = self.model = dict(zip(MODEL_FIELDS, values, strict=True))
        for name, (low, high) in RANGES.items():
            need(low <= m[name] <= high, name)
        need(m["n_heads"] % m["n_kv_heads"] == 0 and m["head_dim"] % 2 == 0, "heads")
        need(m["bos_id"] < m["vocab_size"] or m["bos_id"] == NO_TOKEN, "bos_id")
        need(0 <= m["rms_norm_eps"] < 1 and 1 <= m["rope_theta"] <= 1e30, "eps or theta")
        if self.features & BLOCKS:
            self.check_blocks(data)
        else:
            need(not any(data[72:]) and not m["activation"], "fields of blocks")
            need(m["attention_bias"] <= 1, "attention_bias")
            self.layers = bytes(m["n_layers"])
            m |= self.plain()
        uses = m["blocks"] >= 16 or m["activation"] >= 2 or m["query_growth"] or m["query_period"]
        need(bool(uses) == bool(self.features & COMPONENTS), "components")
        n = m["n_rope_tables"] * (m["rotary_dim"] // 2)
        if self.features & VARIED:  # the second table is that of whole heads of the second kind
            n = m["rotary_dim"] // 2 + struct.unpack_from("<I", self.section(VARIED_SECTION))[0] // 2
        need(len(self.section(INV_FREQ)) == n * 4, "inv_freq size")
        self.inv_freq = np.frombuffer(self.section(INV_FREQ), "<f4")
        need(np.all((self.inv_freq >= 0) & (self.inv_freq <= 1)), "inv_freq")

    def plain(self):
        """5.1: what the fields of blocks stand for when they are zero."""
        head_dim = np.float32(self.model["head_dim"])
        return {
            "activation": 0, "blocks": 0, "embedding_scale": 1, "residual_scale": 1,
            "attention_scale": float(np.float32(1) / np.sqrt(head_dim)), "attention_softcap": 0,
            "logit_divisor": 1, "logit_softcap": 0, "sliding_window": 0,
            "rotary_dim": self.model["head_dim"], "n_rope_tables": 1, "rope_scale": 1,
            "rope_scale1": 0, "query_growth": 0, "query_period": 0,
        }  # fmt: skip

    def check_blocks(self, data):
        """5.1 and 5.8, with the feature of blocks."""
        m, self.layers = self.model, self.section(LAYERS)
        for name, (low, high) in BLOCK_RANGES.items():
            need(low <= m[name] <= high, name)
        need(m["blocks"] & 12 != 12, "two kinds of norms of q and k")
        need(not m["blocks"] & QK_NORM_LATE or m["blocks"] & 12, "late norms, but none")
        need(not m["blocks"] & LAYER_NORM or not m["blocks"] & 3, "places of LayerNorms")
        one = m["blocks"] & (ONE_NORM | PARALLEL | NO_INPUT_NORMS)
        need(not one & ONE_NORM or one == ONE_NORM | PARALLEL, "one norm")
        need((m["query_growth"] > 0) == (m["query_period"] > 0), "growth of queries")
        need(2 <= m["rotary_dim"] <= m["head_dim"] and m["rotary_dim"] % 2 == 0, "rotary_dim")
        need(all(0 < m[name] < float("inf") for name in SCALES), "scale")
        need(all(0 <= m[name] < float("inf") for name in CAPS), "cap")
        need(all(np.copysign(1, m[name]) == 1 for name in CAPS), "minus zero")
        need((m["rope_scale1"] > 0) == (m["n_rope_tables"] == 2), "rope_scale[1]")
        need(len(self.layers) == m["n_layers"], "layers")
        need(all(bits < 8 and bits & 6 != 6 for bits in self.layers), "bits of a layer")
        need(any(b & WINDOWED for b in self.layers) == (m["sliding_window"] > 0), "window")
        need(any(b & SECOND_TABLE for b in self.layers) == (m["n_rope_tables"] == 2), "tables")
        plain = all(m[name] == value for name, value in self.plain().items())
        need(not plain or m["attention_bias"] == 2 or any(self.layers), "nothing needs blocks")

    def read_hybrid(self):
        """5.17"""
        m = self.model
        m |= {"parallel": 0, "norm": 0, "input_biases": 0, "output_bias": 0}
        m["hybrid"] = {"norm": 0} | dict.fromkeys(HYBRID_FIELDS[4:15], 1.0)
        if not self.features & HYBRID:
            return
        data = self.section(HYBRID_SECTION)
        need(len(data) == 64 and self.features & STATES, "hybrid section")
        h = dict(zip(HYBRID_FIELDS, struct.unpack("<4I11fI", data), strict=True))
        need(h["parallel"] == 1 and h["norm"] <= 2 and not h["reserved"], "hybrid")
        need(max(h["input_biases"], h["output_bias"]) <= 1, "biases of a hybrid")
        need(all(0 < h[name] < float("inf") for name in HYBRID_FIELDS[4:15]), "scales of a hybrid")
        need(not m["blocks"] & (NORM_OUTPUTS | NO_INPUT_NORMS | NO_GATE | PARALLEL | ONE_NORM | ATTENTION_GATE), "blocks of a hybrid")
        m |= h | {"hybrid": h}

    def read_partial(self):
        """5.20"""
        m = self.model
        m |= {"no_mixer": [], "no_mlp": []}
        if not self.features & PARTIAL:
            return
        data = self.section(PARTIAL_SECTION)
        need(len(data) == 256 and self.features & BLOCKS, "partial section")
        need(not self.features & (HYBRID | LATENT | VARIED | ENCODER), "features of layers that lack a block")
        need(not m["blocks"] & (NORM_OUTPUTS | NO_INPUT_NORMS | LAYER_NORM | PARALLEL | ONE_NORM), "blocks of layers that lack one")
        lists = [np.flatnonzero(np.unpackbits(np.frombuffer(half, np.uint8), bitorder="little")).tolist() for half in (data[:128], data[128:])]
        m["no_mixer"], m["no_mlp"] = lists
        need(any(lists) and max(sum(lists, [])) < m["n_layers"], "layers that lack a block")
        need(not set(lists[0]) & set(lists[1]), "a layer without a block")
        need(not any(self.layers[i] for i in lists[0]), "bits of layers without attention")
        need(len(lists[0]) < m["n_layers"] and len(lists[1]) < m["n_layers"], "no attention or no MLP")

    def read_states(self):
        """5.14"""
        self.stateful = self.model["stateful"] = []
        by_head = bool(self.model["blocks"] & GATE_HEADS)
        need(by_head == bool(self.features & HEAD_GATES), "gates of heads and their feature")
        need(not by_head or self.model["blocks"] & ATTENTION_GATE, "gates of heads without gates")
        self.model |= dict.fromkeys(("state_kind", "taps", "state_biases"), 0) | {"state_sizes": (0, 0, 0, 0)}
        if not self.features & STATES:
            need(not self.model["blocks"] & ATTENTION_GATE, "a gate of attention")
            return
        data = self.section(STATES_SECTION)
        need(len(data) == 192 and not any(data[28:64]) and not self.features & ENCODER, "states section")
        kind, taps, biases = struct.unpack_from("<3I", data)
        need(1 <= kind <= 3 and 2 <= taps <= 16 and biases <= 1, "states")
        sizes = struct.unpack_from("<4I", data, 12)
        if kind == 1:
            need(not any(sizes), "sizes of a short convolution")
        else:
            limits = (2**12, 2**10, 2**10, 2**12)
            need(all(1 <= n <= most for n, most in zip(sizes, limits, strict=True)), "sizes of states")
            need(sizes[0] % sizes[3] == 0, "groups of states")
        self.stateful = self.model["stateful"] = [i for i in range(1024) if data[64 + i // 8] >> i % 8 & 1]
        n = self.model["n_layers"]
        beside = self.model["parallel"]
        without = {*self.stateful} | {*self.model["no_mixer"]}
        need(self.stateful and (beside or len(without) < n) and max(self.stateful) < n, "layers with states")
        need(len(without) == len(self.stateful) + len(self.model["no_mixer"]), "a state of no block")
        need(beside or not any(self.layers[i] for i in self.stateful), "bits of layers with states")
        need(kind == 2 or not beside, "kind of a hybrid")
        self.model |= {"state_kind": kind, "taps": taps, "state_biases": biases, "state_sizes": sizes}

    def read_encoder(self):
        stream = bool(self.model.get("blocks", 0) & NORM_STREAM)
        self.encoder = self.embedder = None
        ahead = bool(self.features & ENCODER)
        need(ahead or not stream, "an encoder's blocks")
        relative = bool(self.model.get("blocks", 0) & BY_DISTANCE)
        need(relative == bool(self.features & RELATIVE), "relative positions and their feature")
        capped = any(self.model.get(name, 0) for name in ("sliding_window", "attention_softcap", "query_period"))
        need(not relative or ahead and not capped, "relative positions")
        sinks = bool(self.model.get("blocks", 0) & HAS_SINKS)
        need(not (sinks and relative), "sinks and relative positions")
        need((sinks or self.model["activation"] == 3) == bool(self.features & FURTHER), "further parts and their feature")
        need(ahead or not self.features & AROUND, "around without an encoder")
        need(self.features & EMBEDDER or not self.features & (NORMED | DOUBLED), "normed or doubled without an embedder")
        if not self.features & (ENCODER | EMBEDDER):
            return
        data = self.section(ENCODER_SECTION)
        need(len(data) == 64 and not any(data[16:]), "encoder section")
        pooling, normalizes, max_length = self.encoder = struct.unpack_from("<3I", data)
        [self.norms_embedding] = struct.unpack_from("<I", data, 12)
        need(pooling <= (3 if self.features & EMBEDDER else 2) and normalizes <= 1, "pooling")
        need(1 <= max_length <= self.model["context_length"], "max_length")
        need(not ahead or self.model["context_length"] <= 8192, "an encoder's context")
        around = self.model["context_length"] > 512 or self.model["sliding_window"] > 0 or self.norms_embedding
        need(bool(ahead and around) == bool(self.features & AROUND), "around")
        need(self.norms_embedding <= bool(self.features & AROUND), "the norm of the embedding")
        need(not (stream and self.norms_embedding), "two ways of norms")
        need(not stream | self.norms_embedding or not self.model["blocks"] & (1 | 2 | 256 | 512), "norms of an encoder")
        if self.features & EMBEDDER:
            self.read_embedder()

    def read_embedder(self):
        """5.16"""
        data, width = self.section(EMBEDDER_SECTION), self.model["hidden_size"]
        need(len(data) >= 64, "embedder section")
        n_prompts, default, n_strings, n_dense, score, pair, separator, has_types = struct.unpack_from("<8I", data)
        need(n_prompts <= 64 and (default == NO_TOKEN or default < n_prompts), "prompts")
        need(n_strings <= 2**18 and n_dense <= 2 and score <= 2 and pair <= 3, "embedder fields")
        need((score == 0) == (pair == 0) and has_types <= (pair == 1), "pairs")
        need(separator < self.model["vocab_size"] if pair in (1, 3) else separator == 0, "separator")
        end = 64

        def table(size):
            nonlocal end
            start = round_up(end, 64) if size else end
            need(not any(data[end:start]) and start + size <= len(data), "a table")
            end = start + size
            return data[start:end]

        strings = table(n_strings).split(b"\0")
        need(not strings.pop() and len(strings) == 2 * n_prompts + 3 * (pair == 2), "strings")
        need(all(map(is_utf8, strings)), "UTF-8")
        names = strings[: 2 * n_prompts : 2]
        need(all(names) and names == sorted(set(names)), "names")
        layers, dtype = [], F32 if self.model["dtype"] == F32 else BF16
        for i in range(2):
            outputs, activation, has_bias, reserved = struct.unpack_from("<4I", data, 32 + 16 * i)
            if i >= n_dense:
                need(not outputs | activation | has_bias | reserved, "a layer that is none")
                continue
            need(1 <= outputs <= 2**16 and activation <= 3 and has_bias <= 1 and not reserved, "dense")
            rows = round_up(outputs, 16)
            cols = width if dtype == F32 else round_up(width, 2)
            raw = np.frombuffer(table(rows * cols * (4 if dtype == F32 else 2)), "<u4" if dtype == F32 else "<u2")
            per = 1 if dtype == F32 else 2
            bits = raw.reshape(rows // 16, cols // per, 16, per).transpose(0, 2, 1, 3).reshape(rows, cols)
            need(not bits[outputs:].any() and not bits[:, width:].any(), "padding of a layer")
            matrix = (bits.astype("<u4") << (0 if dtype == F32 else 16)).view("<f4")[:outputs, :width]
            bias = np.frombuffer(table(4 * outputs * has_bias), "<f4")
            need(np.isfinite(matrix).all() and np.isfinite(bias).all(), "numbers of a layer")
            layers.append((matrix, bias, activation))
            width = outputs
        types = np.frombuffer(table(4 * self.model["hidden_size"] * has_types), "<f4")
        need(np.isfinite(types).all() and end == len(data), "the end of the section")
        need(score == 0 or (layers and width == 1), "a score")
        need(any(layer[2] == 2 for layer in layers) == bool(self.features & NORMED), "normed")
        need((pair == 3 or any(layer[2] == 3 for layer in layers)) == bool(self.features & DOUBLED), "doubled")
        texts = [s.decode() for s in strings]
        self.embedder = {
            "prompts": dict(zip(texts[: 2 * n_prompts : 2], texts[1 : 2 * n_prompts : 2], strict=True)),
            "default": None if default == NO_TOKEN else names[default].decode(), "dense": layers, "score": score,
            "pair": pair, "separator": separator, "types": types, "texts": texts[2 * n_prompts :],
        }  # fmt: skip

    def read_experts(self):
        """5.15"""
        self.experts, self.sparse = None, [False] * self.model["n_layers"]
        self.model |= {"experts": dict.fromkeys(EXPERT_FIELDS, 0), "sparse": []}
        if not self.features & EXPERTS:
            need(not self.features & OWN_NORMS, "own norms without experts")
            return
        m, data = self.model, self.section(EXPERTS_SECTION)
        need(len(data) == 192 and not any(data[48:64]) and not self.features & ENCODER, "experts section")
        x = self.experts = dict(zip(EXPERT_FIELDS, struct.unpack_from("<7I3f2I", data), strict=True))
        need(1 <= x["n_used"] <= x["n_experts"] <= 2**10, "n_used or n_experts")
        need(1 <= x["width"] <= 2**22 and x["shared_width"] <= 2**22, "widths")
        need(x["scoring"] <= 2 and max(x["normalizes"], x["choice_bias"]) <= (x["scoring"] != 1), "scoring")
        need(x["shared_gate"] + x["own_norms"] <= (x["shared_width"] > 0), "shared_gate or own_norms")
        need(x["own_norms"] == bool(self.features & OWN_NORMS), "own norms and their feature")
        norms = m["blocks"] & (NORM_OUTPUTS | NO_INPUT_NORMS | LAYER_NORM | NORM_STREAM)
        need(not x["own_norms"] or norms == NORM_OUTPUTS and self.features & VARIED, "norms beside experts")
        need(0 < x["scale"] < float("inf"), "scale")
        need(all(0 <= x[name] < float("inf") for name in ("sum_epsilon", "qkv_clip")), "epsilon or clip")
        need(all(np.copysign(1, x[name]) == 1 for name in ("sum_epsilon", "qkv_clip")), "minus zero")
        need(x["normalizes"] or not x["sum_epsilon"], "epsilon of no sum")
        need(not m["mlp_bias"] and not m["blocks"] & ((0 if self.features & PARTIAL else NO_GATE) | PARALLEL) and not m["parallel"], "blocks of experts")
        dense = np.unpackbits(np.frombuffer(data[64:], np.uint8), bitorder="little")
        self.sparse = [not bit for bit in dense[: m["n_layers"]]]
        need(not any(dense[m["n_layers"] :]) and any(self.sparse), "dense layers")
        m |= {"experts": x, "sparse": [i for i, has in enumerate(self.sparse) if has]}
        need(not any(self.sparse[i] for i in m["no_mlp"]), "experts of no MLP")
        is_dense = [not has and i not in m["no_mlp"] for i, has in enumerate(self.sparse)]
        need(any(is_dense) or m["intermediate_size"] == x["width"], "intermediate_size")

    def read_latent(self):
        """5.18"""
        m = self.model
        m |= dict.fromkeys(("kv_rank", "q_rank", "query_dim", "value_dim", "latent_norm_eps"), 0)
        if not self.features & LATENT:
            return
        data = self.section(LATENT_SECTION)
        need(len(data) == 64 and not any(data[20:]), "latent section")
        need(self.features & BLOCKS and not self.features & (STATES | EXPERTS | ENCODER), "features of latent vectors")
        kv_rank, q_rank, query_dim, value_dim, epsilon = struct.unpack_from("<4If", data)
        need(all(n % 16 == 0 and 16 <= n <= 2**10 for n in (kv_rank, value_dim)), "kv_rank or value_dim")
        need(q_rank <= 2**20 and 1 <= query_dim <= 2**10, "q_rank or query_dim")
        need(0 <= epsilon < 1 and np.copysign(1, epsilon) == 1, "norm_eps")
        need(m["n_kv_heads"] == 1 and m["head_dim"] == kv_rank + m["rotary_dim"], "the key of all heads")
        need(not m["attention_bias"] and not m["blocks"] & (QK_NORM_HEADS | QK_NORM_ALL), "biases or norms of heads")
        need(not m["query_growth"] and not m["attention_softcap"], "growth or caps with latent vectors")
        m |= {"kv_rank": kv_rank, "q_rank": q_rank, "query_dim": query_dim, "value_dim": value_dim}
        m |= {"latent_norm_eps": epsilon}

    def read_varied(self):
        """5.19"""
        m = self.model
        names = "second_head_dim second_kv_heads keys_are_values first_shared late_width input_width".split()
        scales = "input_scale projection_scale sum_scale".split()
        m |= dict.fromkeys(names + scales, 0) | {"second_layers": [], "source": list(range(m["n_layers"]))}
        if not self.features & VARIED:
            return
        data = self.section(VARIED_SECTION)
        need(len(data) == 192 and not any(data[36:64]), "varied section")
        need(self.features & BLOCKS and not self.features & (STATES | LATENT | ENCODER), "features of layers that differ")
        need(not self.features & EXPERTS or self.features & OWN_NORMS and not any(data[20:24]), "experts of layers that differ")
        m |= dict(zip(names + scales, struct.unpack_from("<6I3f", data), strict=True))
        need(2 <= m["second_head_dim"] <= 2**10 and m["second_head_dim"] % 2 == 0, "head_dim")
        need(1 <= m["second_kv_heads"] <= 2**12 and m["n_heads"] % m["second_kv_heads"] == 0, "n_kv_heads")
        need(m["keys_are_values"] <= 1 and 1 <= m["first_shared"] <= m["n_layers"], "keys_are_values or first_shared")
        need(1 <= m["late_width"] <= 2**22 and m["input_width"] <= 2**12, "widths")
        need(m["first_shared"] < m["n_layers"] or m["late_width"] == m["intermediate_size"], "late_width")
        if m["input_width"]:
            need(all(0 < m[name] < float("inf") for name in scales), "scales")
        else:
            need(not any(data[24:36]), "scales of no inputs")
        blocks = QK_NORM_ALL | QK_NORM_LATE | ROTATE_NEIGHBOURS | LAYER_NORM | NO_GATE | PARALLEL | POSITIONS
        need(m["blocks"] & QK_NORM_HEADS and not m["blocks"] & (blocks | NORM_STREAM | BY_DISTANCE | ATTENTION_GATE), "blocks")
        need(m["n_rope_tables"] == 2 and m["rotary_dim"] == m["head_dim"] and not m["query_period"], "rotation")
        second = np.unpackbits(np.frombuffer(data[64:], np.uint8), bitorder="little")
        need(not any(second[m["n_layers"] :]), "second layers")
        kinds = [bool(bit) for bit in second[: m["n_layers"]]]
        need(kinds == [bool(bits & SECOND_TABLE) for bits in self.layers], "kinds of layers")
        first = m["first_shared"]
        for layer in range(first, m["n_layers"]):
            same = [i for i in range(first) if kinds[i] == kinds[layer]]
            need(same and not (self.layers[same[-1]] ^ self.layers[layer]) & WINDOWED, "what a layer shares")
            m["source"][layer] = same[-1]
        m["second_layers"] = [i for i, kind in enumerate(kinds) if kind]

    def read_small_sections(self):
        self.stop = [i for (i,) in self.entries(STOP, "<I")]
        need(self.stop == sorted(set(self.stop)), "stop order")
        need(all(i < self.model["vocab_size"] for i in self.stop), "stop range")
        data = self.section(GENERATION)
        need(len(data) == 64 and not any(data[28:]), "generation section")
        present, do_sample, top_k, temperature, top_p, min_p, penalty = struct.unpack_from(
            "<IIIffff", data
        )
        values = (do_sample, temperature, top_k, top_p, min_p, penalty)
        need(present < 64 and do_sample <= 1, "generation")
        need(all(0 <= v < float("inf") for v in values), "generation")
        self.generation = {}
        for bit, (name, value) in enumerate(zip(GENERATION_FIELDS, values, strict=True)):
            need(present >> bit & 1 or value == 0, "absent default")
            if present >> bit & 1:
                self.generation[name] = value
        self.provenance = self.section(PROVENANCE).decode(errors="replace")

    def presences(self, layer):
        """7.1: what the names of ROLES' last column stand for."""
        x, sparse, m = self.experts or {}, self.sparse[layer], self.model
        keeps = m["source"][layer] == layer
        return m | {
            "I": 0 if layer in m["no_mlp"] else x["shared_width"] if sparse else m["intermediate_size"] if keeps else m["late_width"],
            "mixes": layer not in m["no_mixer"], "has_mlp": layer not in m["no_mlp"], "keeps": keeps, "has_values": keeps and not (m["keys_are_values"] and layer in m["second_layers"]),
            "sparse": sparse, "expert": sparse, "choice_bias": sparse and x["choice_bias"],
            "shared_gate": sparse and x["shared_gate"], "own_norms": sparse and x["own_norms"],
        }  # fmt: skip

    def expected_tensors(self):
        """7.1: (role, layer, expert, name, shape) in order."""
        m, x = self.model, self.experts or {"n_experts": 0, "width": 0}
        extents = {
            "H": m["hidden_size"], "V": m["vocab_size"], "C": m["context_length"], "E": x["n_experts"], "1": 1, "b": 32, "n": m["n_heads"], "3": 3 * m["hidden_size"], "T": m["taps"],
            "Q": m["n_heads"] * m["head_dim"], "K": m["n_kv_heads"] * m["head_dim"], "W": x["width"],
        }  # fmt: skip
        extents |= {"A": extents["Q"], "i": m["q_rank"] or m["hidden_size"], "R": m["q_rank"], "L": m["kv_rank"]}
        if m["kv_rank"]:
            extents |= {
                "Q": m["n_heads"] * (m["query_dim"] + m["rotary_dim"]), "A": m["n_heads"] * m["value_dim"],
                "u": m["n_heads"] * m["kv_rank"], "d": m["query_dim"],
            }  # fmt: skip
        heads, head_dim, size, groups = m["state_sizes"]
        width = heads * head_dim if heads else m["hidden_size"]
        extents |= {"M": width, "X": width + 2 * groups * size, "h": heads, "N": head_dim if m["state_kind"] == 3 else width}
        if m["state_kind"] > 1:
            extents["3"] = extents["X"]
        extents["g"] = m["n_heads"] if m["blocks"] & GATE_HEADS else extents["Q"]
        whole = m["blocks"] & QK_NORM_ALL
        extents |= {"Z": m["vocab_size"] * m["n_layers"], "z": m["input_width"], "Y": m["n_layers"] * m["input_width"]}
        extents |= {letter.lower(): extents[letter] if whole else m["head_dim"] for letter in "QK"}

        def present(layer):
            known = self.presences(layer)
            for r in ROLES:
                has = r[4] is None or (r[4](known) if callable(r[4]) else known[r[4]])
                if has and (known["I"] or "I" not in r[3]):
                    yield r

        order = [(r, 0, 0) for r in present(0) if r[1] in ("embed", "positions", "relative", "input_embed", "input_projection", "input_norm")]
        for layer in range(m["n_layers"]):
            absent = {*range(2, 10), 19, 20, 46, 47, 57} if layer in self.stateful else {*range(28, 34), *range(39, 46), 49, 50}
            absent |= {*range(2, 10), 19, 20, 46, 47, 57} if layer in m["no_mixer"] else set()
            absent |= {36} if m["blocks"] & NO_GATE else set()
            absent = set() if m["parallel"] and layer in self.stateful else absent
            own = [r for r in present(layer) if r[2] and r[0] not in absent]
            of_experts = [r for r in own if r[4] == "expert"]
            last = [r for r in own if r[1] in ("expert_out_norm", "mlp_out_norm", "input_gate", "input_out", "input_out_norm", "layer_scale")]
            order += [(r, layer, 0) for r in own if r not in of_experts + last]
            order += [(r, layer, e) for e in range(x["n_experts"]) for r in of_experts]
            order += [(r, layer, 0) for r in last]
        order += [(r, 0, 0) for r in present(0) if not r[2] and (r, 0, 0) not in order]
        for (role, name, per_layer, shape, presence), layer, expert in order:
            name = f"experts.{expert}.{name}" if presence == "expert" else name
            full = f"layers.{layer}.{name}" if per_layer else name
            sizes = extents | {"I": self.presences(layer)["I"]}
            if per_layer and layer in m["second_layers"]:
                dim = m["second_head_dim"]
                sizes |= {"Q": m["n_heads"] * dim, "A": m["n_heads"] * dim, "K": m["second_kv_heads"] * dim, "q": dim, "k": dim}
            yield role, layer, expert, full, [sizes[letter] for letter in shape]

    def read_tensors(self):
        table = self.entries(TENSORS, "<IIIIQQQQII8s")
        mixed = self.features & MIXED
        tables = self.entries(LEVELS, "<64b") if mixed else []
        need(not mixed or self.model["dtype"] == INT8, "dtype of a mix")
        n_used = 0
        expected = list(self.expected_tensors())
        need(len(table) == len(expected), "number of tensors")
        end, weights_size = self.places[WEIGHTS]
        weights_end = end + weights_size
        for entry, (role, layer, expert, name, shape) in zip(table, expected, strict=True):
            is_vector, is_rows, router = len(shape) == 1, name in ("positions", "relative") or name.endswith("mixer_conv"), role in (34, 48)
            rows, cols = [1, *shape][-2:]
            alias = name == "output" and self.model["tied_embeddings"]
            dtype, levels = F32 if is_vector or is_rows or router else self.model["dtype"], 0
            if mixed and not is_vector and not is_rows and not router:
                dtype, levels = (chosen := table[0] if alias else entry)[2], chosen[8]
                need(dtype in BITS, f"storage of {name}")
                if dtype != INT8:
                    need(levels <= n_used and levels < len(tables), f"levels of {name}")
                    n_used = max(n_used, levels + 1)
                    self.check_levels(tables[levels], 2 ** BITS[dtype])
                else:
                    need(levels == 0, f"levels of {name}")
            size = -(-rows // 16) * block_bytes(dtype, cols)
            if is_vector or is_rows:
                size = round_up(rows * cols * 4, 64)
            offset = table[0][6] if alias else end
            layout = 0 if is_vector else 2 if is_rows else 1
            want = (role, layer, dtype, layout, rows, cols, offset, size, levels, expert, bytes(8))
            need(entry == want, f"tensor {name}")
            data = self.data[offset : offset + size]
            values = tables[levels][: 2 ** BITS[dtype]] if dtype > INT8 else ()
            self.tensors[name] = Tensor(
                name, dtype, rows, cols, offset, size, is_vector or is_rows, data, values
            )
            end += 0 if alias else size
        need(end == weights_end, "tensors do not fill the section")
        need(n_used == len(tables), "levels that nothing uses")
        need(not mixed or n_used, "nothing needs the mix")

    def check_levels(self, levels, n):
        """5.12."""
        need(levels[0] >= -127 and not any(levels[n:]), "levels")
        need(all(a < b for a, b in zip(levels, levels[1:n])), "order of levels")

    def check_chunks(self):
        self.chunk_digests = [d for (d,) in self.entries(DIGESTS, "<Q")]
        starts = range(self.data_offset, len(self.data), CHUNK)
        need(len(self.chunk_digests) == len(starts), "number of digests")
        for start, digest in zip(starts, self.chunk_digests, strict=True):
            need(self.digest(self.data[start : start + CHUNK]) == digest, f"chunk at {start}")

    def check_padding(self):
        """9, step 21: what is no element of a tensor is zero; numbers are finite."""
        for tensor in self.tensors.values():
            if tensor.is_vector:
                need(not any(tensor.data[tensor.rows * tensor.cols * 4 :]), "vector padding")
                need(np.isfinite(tensor.values()).all(), "not finite")
                continue
            step = {F32: 1, BF16: 2}.get(tensor.dtype, 64)  # a pair of groups shares its scales
            rows, cols = round_up(tensor.rows, 16), round_up(tensor.cols, step)
            if tensor.dtype < INT8:
                values = tensor.values(rows, cols).view(np.uint32)
            else:
                groups = -(-tensor.cols // 32)
                steps, _ = tensor.steps_and_scales(rows, groups * 32)
                need(tensor.dtype != INT8 or np.all(steps != -128), "-128")
                values = np.pad(steps, ((0, 0), (0, cols - groups * 32)))
                # columns of a group that does not exist have scales only
                group_cols = np.arange(0, cols, 32)
                row, col = np.meshgrid(np.arange(rows), group_cols, indexing="ij")
                scales = tensor.scales(row, col).view(np.uint16)
                if tensor.dtype == INT8:
                    need(np.all(scales < 0x7C00), "scale")
                need(np.all((scales & 0x7FFF < 0x7C00) & (scales != 0x8000)), "scale")
                need(not scales[tensor.rows :].any() and not scales[:, groups:].any(), "scale pad")
            need(not values[tensor.rows :].any(), "row padding")
            need(not values[:, tensor.cols :].any(), "column padding")
            need(np.isfinite(tensor.values()).all(), "not finite")
