"""Bad calibration statistics, and odd but good ones, of the models of tests/fault/tiny.py. Written from format/STATS.md
alone, with right digests unless a case is about them."""

import functools
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
from blob_images import xxh3
from hostile_cases import DAMAGED, OK, ROOT, UNSUPPORTED, USAGE, Case, Sparse

sys.path.append(str(ROOT / "tests/fault"))
import tiny  # noqa: E402

STATS = []
OF_HEADS = set()  # names of cases of the model of latent vectors
HEADER = struct.Struct("<8sHHIQQQII4I")
MAGIC = b"\x89SMC\r\n\x1a\n"
GRAM, DIAGONAL = 1, 2
MIDDLE = 32
WIDTHS = (tiny.HIDDEN, tiny.HIDDEN, tiny.HIDDEN, MIDDLE)
ORDER = """model.embed_tokens input_layernorm self_attn.q_proj self_attn.k_proj self_attn.v_proj
    self_attn.o_proj post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj model.norm"""


LATENT_ORDER = """model.embed_tokens input_layernorm self_attn.q_a_proj self_attn.q_a_layernorm self_attn.q_b_proj
    self_attn.kv_a_proj_with_mqa self_attn.kv_a_layernorm self_attn.k_up self_attn.v_up self_attn.o_proj
    post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj model.norm"""


def bf16(row):
    """The upper halves of floats, rounded to nearest even."""
    bits = np.frombuffer(row, "<u4").astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


@functools.cache
def model_key():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights"
        tiny.write_weights(path, MIDDLE, seed=0)
        tensors = {name: (shape, data) for name, shape, data in tiny.read_tensors(path)}
    head_dim, vocabulary = tiny.HIDDEN // tiny.HEADS, len(tiny.TOKENS) + len(tiny.MERGES)
    shape = (tiny.LAYERS, tiny.HIDDEN, MIDDLE, tiny.HEADS, tiny.HEADS, head_dim, vocabulary, 1)
    key = xxh3(struct.pack("<8I", *shape))
    for name in ORDER.split():
        place = name if name.startswith("model.") else f"model.layers.0.{name}"
        shape, data = tensors[f"{place}.weight"]
        size = 4 * shape[-1]
        for start in range(0, min(len(data), 16 * size), size):
            key = xxh3(struct.pack("<2Q", key, xxh3(bf16(data[start : start + size]))))
    return key


@functools.cache
def latent_key():
    """Returns the key of the model with latent vectors: `attn_k_up` is its part of `kv_b_proj`, transposed."""
    with tempfile.TemporaryDirectory() as folder:
        path = tiny.share(tiny.make(Path(folder) / "tiny"), Path(folder) / "latent") / "model.safetensors"
        tensors = {name: np.frombuffer(data, "<f4").reshape(shape) for name, shape, data in tiny.read_tensors(path)}
    query, rank, plain, rotary, value = tiny.LATENT.values()
    layer = "model.layers.0."
    of_heads = tensors[layer + "self_attn.kv_b_proj.weight"].reshape(tiny.HEADS, plain + value, rank)
    tensors[layer + "self_attn.k_up.weight"] = of_heads[:, :plain].swapaxes(1, 2).reshape(-1, plain)
    tensors[layer + "self_attn.v_up.weight"] = of_heads[:, plain:].reshape(-1, rank)
    vocabulary = len(tiny.TOKENS) + len(tiny.MERGES)
    key = xxh3(struct.pack("<8I", tiny.LAYERS, tiny.HIDDEN, MIDDLE, tiny.HEADS, 1, rank + rotary, vocabulary, 1))
    for name in LATENT_ORDER.split():
        place = name if name.startswith("model.") else layer + name
        for row in np.atleast_2d(tensors[f"{place}.weight"])[:16]:
            key = xxh3(struct.pack("<2Q", key, xxh3(bf16(row.tobytes()))))
    return key


def header(**changes):
    fields = {
        "magic": MAGIC, "major": 1, "minor": 0, "kind": GRAM, "key": model_key(), "text": 5,
        "tokens": 100, "windows": 1, "layers": tiny.LAYERS, "widths": WIDTHS,
    } | changes  # fmt: skip
    *others, widths = fields.values()
    return HEADER.pack(*others, *widths)


def extended(
    layers=tiny.LAYERS, widths=WIDTHS, state=0, experts=0, expert=0, shared=0, stateful=(), sparse=(), minor=1, heads=(), **changes
):
    """A header of a minor version from 1 on, with its digest, and no records."""
    sets = [sum(1 << i for i in places).to_bytes(128, "little") for places in (stateful, sparse)]
    head = header(minor=minor, layers=layers, widths=widths, **changes) + struct.pack("<4I", state, experts, expert, shared) + b"".join(sets)
    head += struct.pack(f"<{len(heads)}I", *heads)
    return head + struct.pack("<Q", xxh3(head))


def gram(number):
    """A good record, as a whole matrix."""
    width = (*WIDTHS, tiny.HIDDEN)[number]
    x = np.random.default_rng(number).normal(size=(100, width)) * np.arange(1, width + 1) ** 0.5
    return x.T @ x


def statistics(edit=None, record=0, **changes):
    """The file; `edit` changes one record's matrix, or the sensitivities, which are in record 5."""
    head = header(**changes)
    parts = [head, struct.pack("<Q", xxh3(head))]
    for number in range(4 * tiny.LAYERS + 2):
        is_last = number == 4 * tiny.LAYERS + 1
        matrix = np.eye(7 * tiny.LAYERS + 2) if is_last else gram(number)
        if edit and number == record:
            edit(matrix)
        is_gram = changes.get("kind", GRAM) == GRAM and not is_last
        places = np.triu_indices(len(matrix)) if is_gram else np.diag_indices(len(matrix))
        with np.errstate(over="ignore"):
            values = matrix[places].astype("<f4").tobytes()
        parts += [values, struct.pack("<Q", xxh3(struct.pack("<3Q", xxh3(head), number, xxh3(values))))]
    return b"".join(parts)


def case(name, make, *words, status=DAMAGED):
    STATS.append(Case(f"statistics: {name}", make, status, words))


def spoiled(name, change, *words, status=DAMAGED):
    """Adds a case: a good file after `change`."""
    case(name, lambda: change(statistics()), *words, status=status)


def flipped(offset):
    def flip(data):
        data = bytearray(data)
        data[offset] ^= 1 << offset % 8
        return bytes(data)

    return flip


case("good", statistics, status=OK)
case("good diagonals", lambda: statistics(kind=DIAGONAL), status=OK)

foreign = "not a file of calibration statistics"
case("empty", lambda: b"", foreign, status=UNSUPPORTED)
case("text", lambda: b"Once upon a time" * 9, foreign, status=UNSUPPORTED)
spoiled("half the magic", lambda d: d[:4], foreign, status=UNSUPPORTED)
spoiled("half a header", lambda d: d[:40])
for size in (*range(64, 73), 73, 79, 80, 400, 1000, 4000):
    spoiled(f"truncated to {size} bytes [length]", lambda d, n=size: d[:n], f"{size} bytes, expected")
for size in (1, 7, 8, 9, 500):
    spoiled(f"truncated by {size} bytes [length]", lambda d, n=size: d[:-n], "bytes, expected")
spoiled("longer", lambda d: d + b"\0", "bytes, expected")
spoiled("twice", lambda d: d + d, "bytes, expected")

spoiled("flipped in the magic", flipped(7), foreign, status=UNSUPPORTED)
for offset in (8, 10, 12, 16, 24, 33, 40, 45, 50, 63, 64, 71):
    spoiled(f"flipped at {offset}", flipped(offset), "the header's digest is wrong")
for offset in (72, 300, 615, 616, 623):
    spoiled(f"flipped at {offset}", flipped(offset), "record 0 is damaged (offset 72)")
spoiled("flipped in the middle", flipped(2000), "is damaged")
spoiled("flipped in the last digest", flipped(-1), "record 5 is damaged")
spoiled("records exchanged", lambda d: d[:72] + d[624:1176] + d[72:624] + d[1176:], "record 0 is damaged")
spoiled(
    "records of another file", lambda d: d[:72] + statistics(tokens=99)[72:], "record 5 is damaged"
)

out = "out of range"
case("newer", lambda: statistics(major=2), "version 2.0", status=UNSUPPORTED)
case("a later minor version", lambda: statistics(minor=9), "version 1.9", status=UNSUPPORTED)
for kind in (0, 3, 2**32 - 1):
    case(f"kind {kind}", lambda k=kind: statistics(kind=k), out)
for n in (0, 1025, 2**31, 2**32 - 1):
    case(f"{n} layers [23605]", lambda n=n: statistics(layers=n), out)
for n in (0, 2**22 + 1, 2**32 - 1):
    for place in range(4):
        widths = tuple(n if i == place or (place, i) == (0, 2) else w for i, w in enumerate(WIDTHS))
        case(f"width {place} of {n} [23605]", lambda w=widths: statistics(widths=w), out)
case("two hidden sizes", lambda: statistics(widths=(16, 16, 17, 32)), out)
case("no tokens [zero]", lambda: statistics(tokens=0), out)
for kind in (GRAM, DIAGONAL):
    case(f"widths of 2^22, kind {kind} [23605]", lambda k=kind: statistics(kind=k, widths=(2**22,) * 4), "expected")
case("1024 layers of widths of 2^22 [53630]", lambda: statistics(layers=1024, widths=(2**22,) * 4), "expected")
case("2^64 - 1 tokens", lambda: statistics(tokens=2**64 - 1), status=OK)

MINOR_1 = {
    "a state's width without a layer": {"state": 16},
    "a state without a width": {"stateful": [0]},
    "a width of 2^22 + 1": {"stateful": [0], "state": 2**22 + 1},
    "a layer with a state that is not there": {"stateful": [0, tiny.LAYERS], "state": 16},
    "a layer with experts that is not there": {"sparse": [0, 1023], "experts": 2, "expert": 8},
    "experts without a layer": {"experts": 2, "expert": 8},
    "a layer without experts": {"sparse": [0], "expert": 8},
    "experts without a width": {"sparse": [0], "experts": 2},
    "1025 experts": {"sparse": [0], "experts": 1025, "expert": 8},
    "a width of experts without any": {"expert": 8},
    "a shared width without experts": {"shared": 8},
    "more than 2^60 bytes [23605]": {
        "layers": 1024, "widths": (2**22,) * 4, "sparse": range(1024), "experts": 1024, "expert": 2**22,
    },
}  # fmt: skip
for name, fields in MINOR_1.items():
    case(f"minor version 1: {name}", lambda f=fields: extended(**f), out)
case("minor version 2: no state", lambda: extended(minor=2), out)
case("minor version 2: experts", lambda: extended(minor=2, stateful=[0], state=16, sparse=[0], experts=2, expert=8), out)
case("minor version 2: no records", lambda: extended(minor=2, stateful=[0], state=16), "expected")
case("minor version 1: no records", lambda: extended(sparse=[0], experts=2, expert=8), "expected")
case("minor version 1: half a header", lambda: extended()[:200], "200 bytes, expected 344 or more")
MINOR_3 = {
    "no heads": {"heads": (0, 8, 8, 8)},
    "4097 heads": {"heads": (4097, 8, 8, 8)},
    "a query_rank of 2^20 + 1": {"heads": (2, 2**20 + 1, 8, 8)},
    "no query_dim": {"heads": (2, 8, 0, 8)},
    "a query_dim of 1025": {"heads": (2, 8, 1025, 8)},
    "no latent_width": {"heads": (2, 8, 8, 0)},
    "a latent_width of 1025": {"heads": (2, 8, 8, 1025)},
    "a state": {"heads": (2, 8, 8, 8), "stateful": [0], "state": 16},
    "experts": {"heads": (2, 8, 8, 8), "sparse": [0], "experts": 2, "expert": 8},
}
for name, fields in MINOR_3.items():
    case(f"minor version 3: {name}", lambda f=fields: extended(minor=3, **f), out)
for heads in ((2, 8, 8, 8), (2, 0, 8, 8), (4096, 2**20, 1024, 1024)):
    case(f"minor version 3: no records of {heads}", lambda h=heads: extended(minor=3, heads=h), "360 bytes, expected")
case("minor version 3: half a header", lambda: extended(minor=3, heads=(2, 8, 8, 8))[:350], "350 bytes, expected 360 or more")


def own_norms(varied=(24, tiny.LAYERS, 8, 0), second=b"\1", rest=b"", heads=(0, 0, 0, 0), **changes):
    """A header of minor version 6, with its digest, and no records."""
    fields = {"sparse": [0], "experts": 2, "expert": 8, "shared": 8} | changes
    head = extended(minor=6, heads=heads, **fields)[:-8] + struct.pack("<4I", *varied) + second.ljust(128, b"\0") + rest.ljust(256, b"\0")
    return head + struct.pack("<Q", xxh3(head))


MINOR_6 = {
    "no experts": {"sparse": (), "experts": 0, "expert": 0, "shared": 0},
    "1025 experts": {"experts": 1025},
    "a state": {"stateful": [1], "state": 16},
    "a state's width": {"state": 16},
    "heads": {"heads": (2, 0, 8, 8)},
    "inputs of layers": {"varied": (24, tiny.LAYERS, 8, 16)},
    "no second width": {"varied": (0, tiny.LAYERS, 8, 0)},
    "no layer before those that share": {"varied": (24, 0, 8, 0)},
    "no late width": {"varied": (24, tiny.LAYERS, 0, 0)},
    "a second layer that is not there": {"second": b"\1" + bytes(126) + b"\x80"},
    "a layer without attention": {"rest": b"\1"},
    "a layer without an MLP": {"rest": bytes(255) + b"\x80"},
}
for name, fields in MINOR_6.items():
    case(f"minor version 6: {name}", lambda f=fields: own_norms(**f), out)
case("minor version 6: no records", own_norms, "760 bytes, expected")
case("minor version 6: half a header", lambda: own_norms()[:700], "700 bytes, expected 760 or more")


def of_latent_vectors():
    """Good but for the model, which has none: for each of two heads two records."""
    head = extended(minor=3, heads=(2, 8, 4, 16))
    widths = [*WIDTHS * tiny.LAYERS, tiny.HIDDEN, *[8] * tiny.LAYERS, *[4, 16] * (2 * tiny.LAYERS)]
    return head + bytes(sum(2 * w * (w + 1) + 8 for w in widths) + 4 * (12 * tiny.LAYERS + 2) + 8)


case("minor version 3: of latent vectors", of_latent_vectors, "of another shape", status=USAGE)
case("minor version 1: 2^59 bytes", lambda: extended(widths=(2**16, 8, 2**16, 8), sparse=[0], experts=1, expert=8), "expected")

case("another key", lambda: statistics(key=model_key() ^ 1), "with other weights", status=USAGE)


def of_another_shape():
    """A gibibyte of diagonals."""
    head = header(kind=DIAGONAL, layers=1023, widths=(2**16,) * 4)
    size = 72 + 4 * 1023 * (4 * 2**16 + 8) + 4 * 2**16 + 8 + 4 * (7 * 1023 + 2) + 8
    return Sparse(head + struct.pack("<Q", xxh3(head)), size)


case("another shape", of_another_shape, "of another shape", status=USAGE)


def put(value, i=0, k=0):
    def edit(matrix):
        matrix[i, k] = value

    return edit


def fill(value, diagonal):
    def edit(matrix):
        matrix[:] = value
        matrix[np.diag_indices(len(matrix))] = diagonal

    return edit


def one_channel(matrix):
    matrix[:] = 0
    matrix[3, 3] = 3e38


def steep(matrix):
    """Far from positive semidefinite, within the bounds that a reader checks."""
    matrix[:] = 3e38
    matrix[np.diag_indices(len(matrix))] = 0
    matrix[0, 0] = 3e38


BAD = {
    "NaN": put(np.nan, 3, 7),
    "NaN on the diagonal": put(np.nan, 5, 5),
    "infinity": put(np.inf, 0, 15),
    "minus infinity": put(-np.inf, 0, 1),
    "infinity on the diagonal": put(np.inf, 2, 2),
    "a negative diagonal": put(-1e-30, 5, 5),
    "an element without squares": fill(1, 0),
    "a large element": fill(-2.1, 1),
}
GOOD = {
    "minus zero": put(-0.0, 5, 5),
    "zeros": fill(0, 0),
    "indefinite": fill(-1, 1),
    "more indefinite": fill(-2, 1),
    "steep": steep,
    "one channel": one_channel,
    "huge": fill(3e38, 3.3e38),
    "huge and small": fill(0, 10.0 ** np.arange(-45, 39, 84 / 16)[:16]),
    "subnormal": fill(1e-45, 1e-45),
}


def of_heads(edit=None, record=0, kind=GRAM):
    """Statistics of the model of latent vectors; `edit` changes one record's matrix. Records 5 to 9 are about queries and about
    two heads, each of which has its queries and what it attends to; 10 has the sensitivities."""
    query, rank, plain, _, value = tiny.LATENT.values()
    widths = (tiny.HIDDEN, tiny.HEADS * value, tiny.HIDDEN, MIDDLE)
    head = extended(minor=3, heads=(tiny.HEADS, query, plain, rank), widths=widths, kind=kind, key=latent_key())[:-8]
    parts = [head, struct.pack("<Q", xxh3(head))]
    widths = [*widths, tiny.HIDDEN, query, *[plain, rank] * tiny.HEADS, 12 * tiny.LAYERS + 2]
    for number, width in enumerate(widths):
        x = np.random.default_rng(number).normal(size=(100, width)) * np.arange(1, width + 1) ** 0.5
        matrix = x.T @ x
        if edit and number == record:
            edit(matrix)
        is_gram = kind == GRAM and number < len(widths) - 1
        values = matrix[np.triu_indices(width) if is_gram else np.diag_indices(width)].astype("<f4").tobytes()
        parts += [values, struct.pack("<Q", xxh3(struct.pack("<3Q", xxh3(head), number, xxh3(values))))]
    return b"".join(parts)


def case_of_heads(name, make, *words, status=DAMAGED):
    case(f"heads: {name}", make, *words, status=status)
    OF_HEADS.add(STATS[-1].name)


case_of_heads("good", of_heads, status=OK)
case_of_heads("good diagonals", lambda: of_heads(kind=DIAGONAL), status=OK)
case_of_heads("without heads", statistics, "of another shape", status=USAGE)
for record in (5, 6, 7, 9):
    for name, edit in {
        "NaN": put(np.nan, 1, 3), "NaN on the diagonal": put(np.nan, 2, 2), "infinity on the diagonal": put(np.inf, 3, 3),
        "a negative diagonal": put(-1e-30, 1, 1), "an element without squares": fill(1, 0),
    }.items():  # fmt: skip
        case_of_heads(f"{name} in record {record}", lambda e=edit, r=record: of_heads(e, r), f"record {record} is damaged")
    case_of_heads(f"NaN in record {record}, alone", lambda r=record: of_heads(put(np.nan, 1, 1), r, DIAGONAL), f"record {record} is damaged")
    for name in ("zeros", "minus zero", "steep", "one channel", "huge", "subnormal"):
        edit = put(-0.0, 3, 3) if name == "minus zero" else GOOD[name]
        case_of_heads(f"{name} in record {record}", lambda e=edit, r=record: of_heads(e, r), status=OK)
    case_of_heads(f"zeros in record {record}, alone", lambda r=record: of_heads(fill(0, 0), r, DIAGONAL), status=OK)

for name, edit in BAD.items():
    for record in (0, 1, 4):
        words = (f"record {record} is damaged",)
        case(f"{name} in record {record}", lambda e=edit, r=record: statistics(e, r), *words)
for name in ("NaN on the diagonal", "infinity on the diagonal", "a negative diagonal"):
    case(f"{name}, alone", lambda e=BAD[name]: statistics(e, kind=DIAGONAL), "record 0 is damaged")
for name in ("NaN on the diagonal", "infinity on the diagonal", "a negative diagonal"):
    case(f"{name} of sensitivities", lambda e=BAD[name]: statistics(e, 5), "record 5 is damaged")
for name, edit in GOOD.items():
    for record in (0, 1, 2, 4):
        case(f"{name} in record {record}", lambda e=edit, r=record: statistics(e, r), status=OK)
    case(f"{name}, alone", lambda e=edit: statistics(e, 1, kind=DIAGONAL), status=OK)
