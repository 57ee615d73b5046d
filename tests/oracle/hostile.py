"""Hand-written bad files, one for each rule of each format, and the real programs run on them, with
little memory and time:

    "$(scripts/venv)" tests/oracle/hostile.py BUILD [--sanitized]

runs them and counts; test_hostile.py does the same with pytest, and compares with other readers.
Sanitized programs, which take long to start, get no blob twice where the same code reads it. BLOBS are named after the step of FORMAT.md section 9, the others after what is wrong. Each
blob comes a second and a third time: packed, and as what a delta makes.

Where a case is what made a published flaw in readers of GGUF, it is marked:
  [21802]  CVE-2024-21802  a count of dimensions past the end of an array
  [23605]  CVE-2024-23605  a count that wraps when multiplied by the size of an entry
  [53630]  CVE-2025-53630  a sum of sizes that wraps
  [27940]  CVE-2026-27940  the same once each size is checked: rounding or another factor wraps
  [33298]  CVE-2026-33298  a product of dimensions that wraps to something small
  [7482]   CVE-2026-7482   offset and size of a tensor past the end of the file
  [length] a string's length past its end    [zero]    a zero that something is divided by
  [align]  an alignment without a bound      [type]    a table of the wrong element type
  [alias]  an offset into the header         [depth]   recursion without a bound
What only an assertion forbade, gone in a release build, has no mark: all cases run on release
builds.
"""

import ctypes
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from packed import FOOTER_MAGIC, PIECE, TABLE_MAGIC, frame, packed, seek_table
from smol_reader import TEMPLATE as CHAT_TEMPLATE
from smol_reader import (
    BLOCKS,
    CAPS,
    CHUNK,
    DIGESTS,
    GENERATION,
    INV_FREQ,
    KINDS,
    LAYERS,
    MAGIC,
    MAX_FRONT,
    MODEL,
    MODEL_FIELDS,
    NO_TOKEN,
    PROVENANCE,
    SCALES,
    SCANNER,
    SCANNERS,
    STOP,
    TEMPLATE_FEATURE,
    TENSORS,
    TEXT,
    TEXT_FEATURE,
    TEXT_FIELDS,
    TEXT_TABLES,
    TOKENIZER,
    WEIGHTS,
    round_up,
)

ROOT = Path(__file__).resolve().parent.parent.parent
DEMO = ROOT / "demo/model"
BASES = ROOT / "tests/data/blobs"
OK, USAGE, FILE, DAMAGED, UNSUPPORTED, MEMORY, NUMERIC = 0, 2, 3, 4, 5, 6, 7
GIB = 1 << 30
ADDRESS_SPACE, SECONDS = GIB + (512 << 20), 60  # of a process: the largest file and half a gibibyte


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes that begins with `head`; the rest is a hole."""

    head: bytes
    size: int


@dataclass(frozen=True)
class Case:
    name: str
    content: object  # bytes, Sparse, or a function without arguments that makes one of them
    status: object = DAMAGED  # or a tuple: of each program that is run
    words: tuple = ()

    def make(self):
        return self.content() if callable(self.content) else self.content


# --- blobs ------------------------------------------------------------------------------------

TOKENIZER_FIELDS = """n_tokens n_text_bytes n_merge_slots max_probe n_added n_class_blocks
    pretokenizer reserved0 token_spans text byte_tokens merges added class_index class_blocks
    reserved1""".split()
NAN, INFINITY = float("nan"), float("inf")
_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return _xxhash.XXH3_64bits(bytes(data), len(data))


def repair_front(blob):
    """Makes the front's digest of a changed blob (a bytearray) right; returns it."""
    (data_offset,) = struct.unpack_from("<Q", blob, 32)
    struct.pack_into("<Q", blob, 8, xxh3(blob[16:data_offset]))
    return blob


def repair(blob):
    """Makes all digests right."""
    (data_offset,) = struct.unpack_from("<Q", blob, 32)
    (table,) = struct.unpack_from("<Q", blob, 64 + KINDS.index(DIGESTS) * 24 + 8)
    for i, start in enumerate(range(data_offset, len(blob), CHUNK)):
        struct.pack_into("<Q", blob, table + 8 * i, xxh3(blob[start : start + CHUNK]))
    return repair_front(blob)


def with_section(blob, bit, kind, content):
    """A good blob with a section more, which feature `bit` calls for: the front laid out anew."""
    front, data_offset = bytearray(blob), struct.unpack_from("<Q", blob, 32)[0]
    table = [struct.unpack_from("<IIQQ", blob, 64 + i * 24) for i in range(blob[20])]
    parts = [(k, blob[at : at + size] if at < data_offset else size) for k, _, at, size in table]
    parts = sorted([*parts, (kind, content)], key=lambda part: part[0])
    front[64:data_offset] = bytes(data_offset - 64)
    end = 64 + len(parts) * 24
    for i, (kind, part) in enumerate(parts):
        start, size = round_up(end, 64 if kind < 32 else CHUNK), part
        if kind < 32:
            size = len(part)
            front[start : start + size] = part
        struct.pack_into("<IIQQ", front, 64 + i * 24, kind, 0, start, size)
        end = start + size
    (features,) = struct.unpack_from("<Q", blob, 40)
    struct.pack_into("<HI", front, 18, 1, len(parts))
    struct.pack_into("<Q", front, 40, features | bit)
    return front


def with_blocks():
    """A blob whose first layer has a window of three positions, and nothing else."""
    image = Image("1.0-int8")
    head_dim = image.get(image.at(MODEL) + MODEL_FIELDS.index("head_dim") * 4, "I")
    layers = bytes([1, *bytes(image.get(image.at(MODEL) + 8, "I") - 1)])
    values = (0, 1.0, 1.0, 0.5, 0, 1.0, 0, 3, head_dim, 1, 1.0, 0)
    image.put(image.at(MODEL) + 72, "I6fIIIff", *values)
    return bytes(repair(with_section(image.bytes, BLOCKS, LAYERS, layers)))


def text_section():
    """A text section with a little of everything: fields, then the rows of each table."""
    pool = b"a" + "▁".encode() + b"ab"
    names = [(NO_TOKEN, 0, 0), (NO_TOKEN, 0, 0)]
    names[xxh3(b"ab") & 1] = (3, 4, 2)
    rows = [
        [(1,)], [(2,)], [(5, 0, 0, 0), (1, 0, 1, 3)], [(3, 1, 0, 3)], names, [(b,) for b in pool],
        [(0,)] * 768 + [(1,)] + [(0,)] * 3583, [(0,) * 256, (*[0] * 255, 1)],
        [(0, 0, 0, 0, 0), (0, 2, 230, 1, 0)], [(0x61,), (0x301,)], [(0x61, 0x301, 0xE1), (0x62, 0x301, 0x62)],
    ]  # fmt: skip
    data = struct.pack("<17I60x", 63, 0, 0x2581, 0x20, 1, 1, *map(len, rows))
    for table, entry in zip(rows, TEXT_TABLES.values(), strict=True):
        data += bytes(-len(data) % 64)
        data += b"".join(struct.pack("<" + entry, *row) for row in table)
    return data


def with_text():
    blob = with_section(base("1.0-int8"), TEXT_FEATURE, TEXT, text_section())
    return bytes(repair(blob))


# a scanner that finds "a": the fields of its header, its stage, and its rows of four, in which the
# symbols are: not an a, an a, the end
SCANNER_HEAD, SCANNER_STAGE = (1, 1, 2, 4, 3), (3, 1, 0, 0)
SCANNER_STARTS, SCANNER_STATES = (1, 1, 1, 0), (0, 0, 0, 0, 0, 4, 0, 0, 1, 1, 1, 0)
SCANNER_PLACES = {
    "stage": 64, "index": 128, "block": 8832, "bytes": 9088, "starts": 9344, "states": 9408
}  # fmt: skip


def with_scanner():
    """A blob whose words are the letters a and what lies between them."""
    content = bytearray(9408 + 24)
    struct.pack_into("<5I", content, 0, *SCANNER_HEAD)
    struct.pack_into("<4I", content, SCANNER_PLACES["stage"], *SCANNER_STAGE)
    content[SCANNER_PLACES["block"] + ord("a")] = content[SCANNER_PLACES["bytes"] + ord("a")] = 1
    struct.pack_into("<4H", content, SCANNER_PLACES["starts"], *SCANNER_STARTS)
    struct.pack_into("<12H", content, SCANNER_PLACES["states"], *SCANNER_STATES)
    image = Image("1.0-int8")
    image.tokenizer("pretokenizer", 4)
    return bytes(repair(with_section(image.bytes, SCANNERS, SCANNER, bytes(content))))


# a template that writes "a" for each message: its constants, its function, and its operations
TEMPLATE_TEXT = b"amessages"
TEMPLATE_CONSTANTS = ((5, 1, 0), (5, 8, 1))
TEMPLATE_FUNCTION = (0, 8, 0, 1, 2, 0, 0, 0)
TEMPLATE_CODE = ((7, 0, 1, 1), (37, 0, 1, 0), (38, 0, 1, 6), (9, 0, 1, 0), (0, 0, 1, 0),
                 (33, 0, 1, 2), (41, 0, 1, 7), (32, 0, 1, 0))  # fmt: skip
TEMPLATE_PLACES = {"constants": 64, "functions": 96, "operations": 128, "text": 192}


def template_section():
    function = (0, len(TEMPLATE_CODE), *TEMPLATE_FUNCTION[2:])
    head = (len(TEMPLATE_CONSTANTS), 1, len(TEMPLATE_CODE), 0, len(TEMPLATE_TEXT), 0, NO_TOKEN, 9)
    return b"".join([
        struct.pack("<8I32x", *head),
        *(struct.pack("<IIQ", *row) for row in TEMPLATE_CONSTANTS),
        struct.pack("<8I", *function),
        *(struct.pack("<BBHI", *row) for row in TEMPLATE_CODE),
        TEMPLATE_TEXT,
    ])  # fmt: skip


def with_template():
    blob = with_section(base("1.0-int8"), TEMPLATE_FEATURE, CHAT_TEMPLATE, template_section())
    return bytes(repair(blob))


@functools.cache
def base(name):
    if name == "blocks":
        return with_blocks()
    if name == "template":
        return with_template()
    if name == "text":
        return with_text()
    if name == "scanner":
        return with_scanner()
    command = ["zstd", "-q", "-d", "-c", BASES / f"{name}.smol.zst"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


class Image:
    """A good blob, to be spoiled."""

    def __init__(self, name):
        self.bytes = bytearray(base(name))

    def get(self, at, kind):
        return struct.unpack_from("<" + kind, self.bytes, at)[0]

    def put(self, at, kind, *values):
        struct.pack_into("<" + kind, self.bytes, at, *values)

    def entry(self, kind):
        kinds = (self.get(64 + i * 24, "I") for i in range(self.get(20, "I")))
        return 64 + list(kinds).index(kind) * 24

    def at(self, kind):
        return self.get(self.entry(kind) + 8, "Q")

    def size(self, kind):
        return self.get(self.entry(kind) + 16, "Q")

    def offset(self, kind, value):
        self.put(self.entry(kind) + 8, "Q", value)

    def resize(self, kind, size):
        """Another size; what is cut off becomes padding."""
        end = self.at(kind) + self.size(kind)
        start = self.at(kind) + size
        self.bytes[start:end] = bytes(max(0, end - start))
        self.put(self.entry(kind) + 16, "Q", size)

    def model(self, name, value):
        i = MODEL_FIELDS.index(name)
        place = i * 4 if i <= MODEL_FIELDS.index("rope_theta") else i * 4 + 4
        kind = {"rope_theta": "d", "rms_norm_eps": "f"}.get(name, "I")
        kind = "f" if name in SCALES + CAPS else kind
        self.put(self.at(MODEL) + place, kind, value)

    def tokenizer(self, name, value):
        self.put(self.at(TOKENIZER) + TOKENIZER_FIELDS.index(name) * 4, "I", value)

    def table(self, name):
        start = self.at(TOKENIZER)
        return start + self.get(start + TOKENIZER_FIELDS.index(name) * 4, "I")

    def count(self, name):
        return self.get(self.at(TOKENIZER) + TOKENIZER_FIELDS.index(name) * 4, "I")

    def merge(self, empty):
        """The first slot of the merge hash that is (not) empty."""
        slots = range(self.table("merges"), self.table("added"), 16)
        return next(s for s in slots if (self.get(s, "I") == NO_TOKEN) == empty)

    def text(self, name, value):
        self.put(self.at(TEXT) + TEXT_FIELDS.index(name) * 4, "I", value)

    def text_table(self, name):
        at = 128
        for table, entry in TEXT_TABLES.items():
            at = round_up(at, 64)
            if table == name:
                return self.at(TEXT) + at
            at += self.get(self.at(TEXT) + TEXT_FIELDS.index(table) * 4, "I") * struct.calcsize("<" + entry)

    def append(self, data):
        self.bytes += data
        self.put(24, "Q", len(self.bytes))

    def tensor(self, i):
        """Where the entry is, and where the tensor."""
        entry = self.at(TENSORS) + i * 64
        return entry, self.get(entry + 32, "Q")


BLOBS = []


def spoilt(name, change, *words, status=DAMAGED, of="1.0-int8", digests=repair):
    """A case: `change` is made to a good blob, whose digests are then right again."""

    def content():
        image = Image(of)
        change(image)
        return bytes(digests(image.bytes))

    BLOBS.append(Case(name, content, status, words))


def as_it_is(blob):
    return blob


def field_case(name, value, *words, rule="12", mark=""):
    spoilt(f"{rule} {name} is {value}{mark}", lambda b: b.model(name, value), *words)


def head(at, kind, *values):
    return lambda b: b.put(at, kind, *values)


def in_tokenizer(name, value, *words, mark=""):
    words = words or ("tokenizer",)
    spoilt(f"19 {name} is {value}{mark}", lambda b: b.tokenizer(name, value), *words)


BLOBS += [
    Case("1 empty", b"", DAMAGED, ("x.smol: ",)),
    Case("1 cut off within the magic", MAGIC[:5], DAMAGED, ("truncated within the header",)),
    Case("1 line ends changed", lambda: base("1.0-int8").replace(b"\r\n", b"\n", 1), DAMAGED,
         ("line ends were changed",)),
    Case("1 another magic", b"SMOL" + bytes(100), DAMAGED, ("x.smol: not ",)),
    Case("1 GGUF", b"GGUF\3\0\0\0" + bytes(100), UNSUPPORTED, ("GGUF",)),
    Case("1 a gibibyte of nothing", Sparse(b"", GIB), DAMAGED, ("x.smol: ",)),
    Case("2 cut off within the header", lambda: base("1.0-int8")[:63], DAMAGED, ("truncated",)),
    Case("4 cut off within the data", lambda: base("1.0-int8")[:-1], DAMAGED, ("truncated",)),
    Case("4 cut off behind the header", lambda: base("1.0-int8")[:64], DAMAGED, ("truncated",)),
    Case("4 a byte too many", lambda: base("1.0-int8") + b"\0", DAMAGED, ("appended",)),
    Case("4 a gibibyte too many", lambda: Sparse(base("1.0-int8"), GIB), DAMAGED, ("appended",)),
    Case("5 a front over 64 MiB, its bytes all there",
         lambda: Sparse(struct.pack("<8sQHHIQQ", MAGIC, 0, 1, 0, 9, GIB, MAX_FRONT + CHUNK), GIB),
         DAMAGED, ("data_offset",)),
    Case("6 a front of 64 MiB of zeros",
         lambda: Sparse(struct.pack("<8sQHHIQQ", MAGIC, 0, 1, 0, 9, GIB, MAX_FRONT), GIB),
         DAMAGED, ("digest of header and tables",)),
]  # fmt: skip
spoilt("3 major version 0", head(16, "H", 0), "version 0.0", status=UNSUPPORTED)
spoilt("3 major version 2", head(16, "H", 2), "version 2.0", status=UNSUPPORTED)
spoilt("4 file_size of 2^64 - 1 [53630]", head(24, "Q", 2**64 - 1), "truncated")
spoilt("4 file_size 0", head(24, "Q", 0), "convert again", digests=as_it_is)
for offset in (0, 32, 64, 65535, 65537, 2**63, 2**64 - CHUNK):
    spoilt(f"5 data_offset {offset} [alias] [align] [53630]", head(32, "Q", offset),
           "data_offset is out of place", digests=as_it_is)  # fmt: skip
spoilt("6 the front's digest", head(8, "Q", 1), "digest of header and tables", digests=as_it_is)
spoilt("6 a changed table", head(400, "B", 1), "digest of header and tables", digests=as_it_is)
spoilt("7 a needed feature", head(40, "Q", 1 << 40), "features 0x10000000000",
       status=UNSUPPORTED)  # fmt: skip
spoilt("8 the reserved field", head(56, "Q", 1), "reserved")
for n in (0, 8, 10, 2**32 - 1, 0x0AAAAAAB):  # the last one times 24 is 8 beyond 2^32
    spoilt(f"9 {n} sections [23605]", head(20, "I", n), "wrong number of sections")
spoilt("10 a kind that is free", lambda b: b.put(b.entry(STOP), "I", 8), "the table has another entry")
spoilt("10 a kind twice", lambda b: b.put(b.entry(STOP), "I", INV_FREQ), "the table has another entry")
spoilt("10 a reserved field", lambda b: b.put(b.entry(STOP) + 4, "I", 1), "the table has another entry")
for kind in KINDS:
    spoilt(f"10 section {kind} at 0 [alias]", lambda b, k=kind: b.offset(k, 0), "out of place",
           digests=repair_front)  # fmt: skip
    spoilt(f"10 section {kind} 64 bytes later", lambda b, k=kind: b.offset(k, b.at(k) + 64),
           "out of place")  # fmt: skip
spoilt("10 section 2 lies in section 1", lambda b: b.offset(INV_FREQ, b.at(MODEL)), "out of place")
for kind in (PROVENANCE, TENSORS, DIGESTS, WEIGHTS):
    for size in (2**64 - 1, 2**64 - 65536, 2**63, 1 << 40):
        spoilt(
            f"10 section {kind} of {size} bytes [53630] [27940] [length]",
            lambda b, k=kind, s=size: b.put(b.entry(k) + 16, "Q", s),
            "out of place",
        )
spoilt("10 the tokenizer's size wraps to nothing [27940]",
       lambda b: b.put(b.entry(TOKENIZER) + 16, "Q", 2**64 - 1), "out of place")  # fmt: skip
spoilt("10 a byte between the tables", lambda b: b.put(b.at(STOP) - 1, "B", 1), "padding")
spoilt("10 a byte behind the tables", lambda b: b.put(b.at(TOKENIZER) - 1, "B", 1), "padding")
spoilt("10 a byte between the data sections", lambda b: b.put(b.at(WEIGHTS) - 1, "B", 1), "padding")
spoilt("11 the data starts before the tokenizer", head(32, "Q", 2 * CHUNK), "do not start at")
spoilt("11 bytes behind the weights", lambda b: b.append(bytes(64)), "behind the last section")

spoilt("12 a model of 127 bytes [length]", lambda b: b.resize(MODEL, 127), "odd size")
spoilt("12 no model", lambda b: b.resize(MODEL, 0), "convert again")
for name, low, high in [
    ("family", 0, 2), ("dtype", 0, 4), ("n_layers", 0, 1025), ("hidden_size", 0, 2**20 + 1),
    ("intermediate_size", 0, 2**22 + 1), ("n_heads", 0, 4097), ("n_kv_heads", 0, 4097),
    ("head_dim", 0, 1026), ("vocab_size", 0, 2**24 + 1), ("context_length", 0, 2**24 + 1),
]:  # fmt: skip
    field_case(name, low, name, mark=" [zero]")
    field_case(name, high, name)
    field_case(name, 2**32 - 1, name, mark=" [33298]")
for name in ("tied_embeddings", "attention_bias", "mlp_bias", "activation"):
    field_case(name, 2)
field_case("activation", 1, "activation")
for name in MODEL_FIELDS[MODEL_FIELDS.index("blocks") :]:
    field_case(name, 1, mark=" without its feature")
field_case("n_kv_heads", 2, "n_kv_heads")
field_case("head_dim", 3, "head_dim")
field_case("bos_id", 41, "bos_id")
for value in (NAN, -1.0, 1.0, INFINITY):
    field_case("rms_norm_eps", value, "rms_norm_eps")
for value in (NAN, 0.0, 1e31, INFINITY):
    field_case("rope_theta", value, "rope_theta")
spoilt("12 the last reserved byte", lambda b: b.put(b.at(MODEL) + 127, "B", 1), "reserved")
spoilt("13 an entry too many", lambda b: b.resize(INV_FREQ, 12), "inv_freq: does not fit")
spoilt("13 an entry too few [length]", lambda b: b.resize(INV_FREQ, 4), "inv_freq: does not fit")
for value in (NAN, INFINITY, -0.5, 1.5):
    spoilt(f"13 inv_freq of {value}", lambda b, v=value: b.put(b.at(INV_FREQ), "f", v), "inv_freq")
spoilt("14 half an id", lambda b: b.resize(STOP, 6), "odd size")
spoilt("14 an id twice", lambda b: b.put(b.at(STOP), "II", 2, 2), "section stop: ids")
spoilt("14 an id that there is not", lambda b: b.put(b.at(STOP), "II", 1, 41), "section stop: ids")
spoilt("15 no generation section", lambda b: b.resize(GENERATION, 60), "odd size")
spoilt("15 an unknown bit", lambda b: b.put(b.at(GENERATION), "I", 64), "generation")
spoilt("15 a default that is absent", lambda b: b.put(b.at(GENERATION), "I", 0), "generation")
spoilt("15 do_sample 2", lambda b: b.put(b.at(GENERATION) + 4, "I", 2), "generation")
for value in (NAN, INFINITY, -1.0):
    spoilt(f"15 temperature {value}", lambda b, v=value: b.put(b.at(GENERATION) + 12, "f", v),
           "generation")  # fmt: skip
spoilt("15 a reserved byte", lambda b: b.put(b.at(GENERATION) + 63, "B", 1), "generation")
for place, kind, value, what in [
    (0, "I", 18, "role"), (4, "I", 1, "layer"), (8, "I", 1, "dtype [type]"), (12, "I", 0, "layout"),
    (16, "Q", 0, "no rows [zero]"), (16, "Q", 2**63, "2^63 rows [33298]"),
    (24, "Q", 2**64 - 1, "2^64 - 1 columns [33298]"), (32, "Q", 0, "offset 0 [alias]"),
    (32, "Q", 1 << 40, "offset past the end [7482]"), (32, "Q", 2**64 - 64, "offset [53630]"),
    (40, "Q", 0, "size 0"), (40, "Q", 1 << 40, "size past the end [7482]"),
    (40, "Q", 2**64 - 64, "size [53630]"), (63, "B", 1, "reserved byte"),
]:  # fmt: skip
    for i in (0, 2):
        spoilt(f"16 tensor {i}: {what}",
               lambda b, i=i, p=place, k=kind, v=value: b.put(b.tensor(i)[0] + p, k, v),
               "is not what the model calls for")  # fmt: skip
field_case("n_layers", 1, "wrong number of tensors", rule="16")
field_case("n_layers", 1024, "wrong number of tensors", rule="16", mark=" [23605]")
field_case("vocab_size", 2**24, "is not what", rule="16", mark=" [33298]")
spoilt("16 the model of f32 says int8 [type]", lambda b: b.model("dtype", 3),
       "is not what", of="1.0-f32")  # fmt: skip
spoilt("16 biases that there are not", lambda b: b.model("mlp_bias", 1), "wrong number of tensors")
spoilt("16 an output that is tied and has bytes", lambda b: b.model("tied_embeddings", 1),
       "is not what", of="1.0-bf16")  # fmt: skip


def in_blocks(name, change, *words):
    spoilt(f"12 {name}, with blocks", change, *words, of="blocks")


for name, value in [
    ("attention_bias", 3), ("activation", 2), ("blocks", 12), ("blocks", 16), ("rotary_dim", 0),
    ("rotary_dim", 1), ("rotary_dim", 1024), ("n_rope_tables", 0), ("n_rope_tables", 3),
    ("sliding_window", 2**24 + 1), ("sliding_window", 2**32 - 1), ("sliding_window", 0),
    ("rope_scale1", 1.0),
]:  # fmt: skip
    in_blocks(f"{name} is {value}", lambda b, n=name, v=value: b.model(n, v))
for name in SCALES + CAPS:
    for value in (NAN, INFINITY, -1.0, -0.0):
        in_blocks(f"{name} is {value}", lambda b, n=name, v=value: b.model(n, v), name[:10])
for name in SCALES:
    in_blocks(f"{name} is 0", lambda b, n=name: b.model(n, 0.0), name)
for bits in (0, 3 + 4, 4, 1 + 4, 8, 255):
    in_blocks(f"a layer with bits {bits}", lambda b, v=bits: b.put(b.at(LAYERS), "B", v), "layer")
in_blocks("norms that there are not", lambda b: b.model("blocks", 1), "wrong number of tensors")
in_blocks("no norms, which there are", lambda b: b.model("blocks", 2), "wrong number of tensors")
in_blocks("less rotation than inv_freq has", lambda b: b.model("rotary_dim", 2), "inv_freq")
in_blocks("a layer too few", lambda b: b.resize(LAYERS, 0), "layers: does not fit")
in_blocks("no feature", lambda b: b.put(40, "Q", 0), "wrong number of sections")
in_blocks("a plain model", lambda b: b.put(b.at(MODEL) + 72, "48x"), "go together")


def in_text(name, change, *words):
    spoilt(f"17 {name}, in the text section", change, *(words or ("section text",)), of="text")


for name, value in [
    ("flags", 64), ("flags", 2**31), ("flags", 62), ("flags", 0), ("split", 0xD800), ("split", 2**32 - 1),
    ("strip", 0x110000), ("strip", 0), ("n_strip", 0), ("n_strip", 65), ("max_probe", 256),
    ("max_probe", 0), ("n_before", 17), ("n_before", 2**32 - 1), ("n_behind", 17), ("n_steps", 9),
    ("n_steps", 2**32 - 1), ("n_late_steps", 9), ("n_name_slots", 3), ("n_name_slots", 2**31),
    ("n_pool", 2**32 - 1), ("n_pool", 3), ("n_letter_index", 0), ("n_letter_index", 4351),
    ("n_letter_index", 2**32 - 1), ("n_letter_blocks", 0), ("n_letter_blocks", 2**32 - 1),
    ("n_letters", 1), ("n_letters", 2**32 - 1), ("n_letter_texts", 1), ("n_letter_texts", 2**32 - 1),
    ("n_pairs", 2**32 - 1), ("n_pairs", 2**31),
]:  # fmt: skip
    in_text(f"{name} is {value}", lambda b, n=name, v=value: b.text(n, v))
for table, at, kind, value, what in [
    ("n_before", 0, "I", NO_TOKEN, "no id before"), ("n_before", 4, "B", 1, "padding"),
    ("n_steps", 0, "I", 0, "step 0"), ("n_steps", 0, "I", 6, "step 6"), ("n_steps", 4, "I", 1, "NFC of"),
    ("n_steps", 16 + 4, "I", 2**32 - 1, "a step outside"), ("n_steps", 16 + 8, "I", 0, "no pattern"),
    ("n_steps", 16 + 8, "I", 65, "a long pattern"), ("n_steps", 16 + 12, "I", 65, "a long text"),
    ("n_steps", 16 + 12, "I", 2, "half a character"), ("n_late_steps", 8, "I", 1, "a pattern"),
    ("n_late_steps", 12, "I", 0, "nothing to put before"), ("n_letter_index", 0, "H", 2, "block 2"),
    ("n_letter_blocks", 510, "H", 2, "letter 2"), ("n_letter_blocks", 0x41 * 2, "H", 1, "ASCII"),
    ("n_letters", 4, "B", 1, "letter 0"), ("n_letters", 8 + 0, "I", 1, "a decomposition outside"),
    ("n_letters", 8 + 4, "B", 5, "a long decomposition"), ("n_letters", 8 + 6, "B", 2, "joins 2"),
    ("n_letters", 8 + 7, "B", 1, "a reserved byte"), ("n_letter_texts", 0, "I", 0xDFFF, "a surrogate"),
    ("n_pairs", 0, "I", 0x63, "pairs out of order"), ("n_pairs", 8, "I", 0, "no composition"),
    ("n_pairs", 4, "I", 0xD800, "a surrogate in a pair"), ("n_pool", 4, "B", 0x7A, "a name that is not found"),
]:  # fmt: skip
    in_text(what, lambda b, t=table, a=at, k=kind, v=value: b.put(b.text_table(t) + a, k, v))
for name, change in [
    ("growth without end", lambda b: b.put(b.text_table("n_late_steps"), "4I", 5, 0, 0, 0)),
    ("an empty slot that is not", lambda b: b.put(
        b.text_table("n_name_slots") + 12 * (1 - (xxh3(b"ab") & 1)) + 4, "I", 1)),
    ("a name outside", lambda b: b.put(b.text_table("n_name_slots") + 12 * (xxh3(b"ab") & 1) + 8, "I", 2**32 - 1)),
    ("reserved", lambda b: b.put(b.at(TEXT) + 124, "I", 1)),
    ("no header", lambda b: b.resize(TEXT, 64)),
    ("a table too few", lambda b: b.resize(TEXT, b.size(TEXT) - 12)),
]:  # fmt: skip
    in_text(name, change)
for name, value in [("unknown_id", 2**31), ("unknown_id", 2**32 - 2)]:
    spoilt(f"19 {name} is {value}", lambda b, n=name, v=value: b.text(n, v),
           "knows more tokens", of="text")  # fmt: skip
spoilt("19 an id around that has no token", lambda b: b.put(b.text_table("n_behind"), "I", 999),
       "knows more tokens", of="text")  # fmt: skip
spoilt("19 a byte of two bytes", lambda b: b.put(b.table("token_spans") + 4, "HH", 2, 4), "bad entry",
       of="text")  # fmt: skip
spoilt("19 a token flag that is none", lambda b: b.put(b.table("token_spans") + 6, "H", 16), "bad entry",
       of="text")  # fmt: skip
spoilt("9 no feature, with text", lambda b: b.put(40, "Q", 0), "wrong number of sections", of="text")
def in_scanner(name, change, *words):
    spoilt(f"17 {name}, in a scanner", change, *words, of="scanner")


def scanner_put(place, kind, value, more=0):
    place = SCANNER_PLACES.get(place, place) + more
    return lambda b: b.put(b.at(SCANNER) + place, kind, value)


for field, values in [
    ("n_stages", (0, 2, 17, 2**32 - 1)), ("n_class_blocks", (0, 2, 4353, 2**32 - 1)),
    ("n_classes", (0, 1, 3, 256, 2**32 - 1)), ("row", (0, 2, 3, 8, 512, 2**31)),
    ("n_states", (0, 2, 4, 2**18 + 1, 2**32 - 1)), ("reserved", (1,)),
]:  # fmt: skip
    at = 4 * "n_stages n_class_blocks n_classes row n_states reserved".split().index(field)
    for value in values:
        in_scanner(f"{field} is {value}", scanner_put(at, "I", value), "scanner: ")
for what, place, kind, value, more in [
    ("a stage with no states", "stage", "I", 0, 0), ("a stage with more states", "stage", "I", 4, 0),
    ("a behaviour", "stage", "I", 5, 4), ("a flag", "stage", "I", 16, 8),
    ("a stage's reserved field", "stage", "I", 1, 12), ("a class block", "index", "H", 1, 8702),
    ("a class", "block", "B", 2, 255), ("a byte's class", "bytes", "B", 2, 255),
    ("no start", "starts", "H", 0, 2), ("starts that differ", "starts", "H", 2, 2),
    ("a start past the states", "starts", "H", 3, 0), ("a start of no symbol", "starts", "H", 1, 6),
    ("a way on from state 0", "states", "H", 4, 0), ("a match in state 0", "states", "H", 1, 0),
    ("an empty match", "states", "H", 1, 8), ("a way back to the start", "states", "H", 2, 8),
    ("a state that there is not", "states", "H", 6, 8), ("a way on behind the end", "states", "H", 4, 12),
    ("a transition of no symbol", "states", "H", 1, 14), ("padding", 80, "B", 1, 0),
    ("padding behind the starts", 9360, "B", 1, 0),
]:  # fmt: skip
    in_scanner(f"{what} [{value}]", scanner_put(place, kind, value, more), "scanner: ")
in_scanner("its end missing", lambda b: b.resize(SCANNER, 9400), "scanner: ")
in_scanner("bytes behind it", lambda b: b.resize(SCANNER, 9472), "scanner: ")
in_scanner("a tokenizer without it", lambda b: b.tokenizer("pretokenizer", 2), "does not go with")
in_scanner("no feature", lambda b: b.put(40, "Q", 0), "wrong number of sections")


def grow_weights(b):
    b.append(bytes(64))
    b.put(b.entry(WEIGHTS) + 16, "Q", b.size(WEIGHTS) + 64)


spoilt("16 room behind the tensors", grow_weights, "do not fill the weights section")
spoilt("17 a digest too many [23605]", lambda b: b.resize(DIGESTS, b.size(DIGESTS) + 8),
       "wrong number of chunk digests")  # fmt: skip
spoilt("17 a digest too few", lambda b: b.resize(DIGESTS, 8), "wrong number of chunk digests",
       digests=repair_front)  # fmt: skip
spoilt("17 half a digest", lambda b: b.resize(DIGESTS, 20), "odd size")
def in_template(name, place, kind, value, *words):
    """A rule of 5.11: another value at a place of the template section."""
    spoilt(f"17 {name}, in the template", lambda b: b.put(b.at(CHAT_TEMPLATE) + place, kind, value),
           *(words or ("section template",)), of="template")  # fmt: skip


OPERATION = TEMPLATE_PLACES["operations"]
for at in (0, 4, 8, 12, 16):
    in_template(f"a count, at {at}, that is too large", at, "I", 2**32 - 1)
in_template("no constants", 0, "I", 0)
in_template("a name that is none", 20, "I", 2)
in_template("a reason beside the code", 24, "I", 0, "reason")
in_template("a reserved field", 60, "I", 1, "reserved")
in_template("a type that there is not", 64, "I", 6, "bad constant")
in_template("a text behind the end", 64 + 8, "Q", 9, "bad constant")
in_template("a text whose end wraps", 64 + 8, "Q", 2**64 - 1, "bad constant")
in_template("a text that is no UTF-8", TEMPLATE_PLACES["text"], "B", 0xFF, "bad constant")
in_template("a number with a length", 64, "I", 3, "bad constant")
for at, value in ((0, 1), (4, 0), (4, 9), (8, 1), (12, 1025), (16, 1025), (20, 2), (28, 1)):
    in_template(f"a function's field {at} is {value}", 96 + at, "I", value, "bad function")
in_template("a stack that is too low", 96 + 16, "I", 1, "bad operation")
in_template("slots that there are not", 96 + 12, "I", 0, "bad operation")
for i, code in ((0, 42), (0, 255), (0, 1), (1, 14), (2, 3), (4, 2), (7, 14)):
    in_template(f"operation {i} is {code}", OPERATION + 8 * i, "B", code, "bad operation")
for i, b in ((0, 2), (2, 8), (2, 3), (3, 1), (5, 0), (5, 8), (6, 2**32 - 1), (7, 1), (1, 1)):
    in_template(f"operand {i} is {b}", OPERATION + 8 * i + 4, "I", b, "bad operation")
in_template("field a of an operation", OPERATION + 8 * 3 + 1, "B", 2, "bad operation")
spoilt("17 a byte behind the template", lambda b: b.resize(CHAT_TEMPLATE, 202), "does not end",
       of="template")  # fmt: skip
spoilt("9 no feature, with a template", lambda b: b.put(40, "Q", 0), "wrong number of sections",
       of="template")  # fmt: skip

spoilt("18 the tokenizer's digest", lambda b: b.put(b.table("text"), "B", 1), "section tokenizer",
       digests=as_it_is)  # fmt: skip

spoilt("19 no room for the header [length]", lambda b: b.resize(TOKENIZER, 63), "no room")
spoilt("19 nothing but the header", lambda b: b.resize(TOKENIZER, 64), "out of place")
spoilt("19 room behind the tables", lambda b: b.resize(TOKENIZER, b.size(TOKENIZER) + 64),
       "does not end with its last table")  # fmt: skip
in_tokenizer("n_tokens", 42, "more tokens than")
in_tokenizer("n_tokens", 2**32 - 1, "more tokens than", mark=" [23605]")
in_tokenizer("n_tokens", 0, mark=" [zero]")
in_tokenizer("n_text_bytes", 0)
in_tokenizer("n_text_bytes", 2**32 - 1, "out of place", mark=" [length]")
for value in (0, 3, 2**32 - 1):
    in_tokenizer("n_merge_slots", value, "power of two", mark=" [zero]")
for value in (1, 1 << 28, 1 << 31):  # the second one times 16 is 2^32
    in_tokenizer("n_merge_slots", value, mark=" [23605]")
in_tokenizer("max_probe", 256, "max_probe")
in_tokenizer("max_probe", 0, "bad merge")
in_tokenizer("n_added", 1 << 28, "out of place", mark=" [23605]")
in_tokenizer("n_class_blocks", 0)
in_tokenizer("n_class_blocks", 1 << 24, "out of place", mark=" [23605]")
for value in (0, 1, 5, 6, 8, 2**32 - 1):
    in_tokenizer("pretokenizer", value, "unknown pre-tokenizer")
in_tokenizer("pretokenizer", 4, "scanner")
in_tokenizer("reserved0", 1, "reserved")
in_tokenizer("reserved1", 1, "reserved")
for name in TOKENIZER_FIELDS[8:15]:
    in_tokenizer(name, 0, "table out of place", mark=" [alias]")
    in_tokenizer(name, 2**32 - 64, "table out of place", mark=" [7482]")
spoilt("19 padding between tables", lambda b: b.put(b.table("byte_tokens") - 1, "B", 1), "padding")
for what, values in [
    ("starts past the pool", (2**32 - 1, 1, 0)), ("is past the pool [length]", (0, 65535, 0)),
    ("wraps [53630]", (2**32 - 1, 65535, 0)), ("has an unknown flag", (0, 1, 4)),
    ("is unused and has bytes", (0, 1, 2)), ("is unused and special", (0, 0, 3)),
]:  # fmt: skip
    spoilt(f"19 a token {what}", lambda b, v=values: b.put(b.table("token_spans") + 16, "IHH", *v),
           "bad entry (token 2)")  # fmt: skip
spoilt("19 a byte's token that there is not", lambda b: b.put(b.table("byte_tokens"), "I", 38),
       "no such token (of byte 0)")  # fmt: skip
for what, place, value in [
    ("left", 0, 38), ("right", 4, 38), ("rank", 8, 1 << 20), ("merged", 12, 38),
    ("left is another, and it is not found", 0, 1), ("merged is no token", 12, NO_TOKEN),
]:  # fmt: skip
    spoilt(
        f"19 a merge: {what}",
        lambda b, p=place, v=value: b.put(b.merge(empty=False) + p, "I", v),
        "bad merge",
    )
spoilt(
    "19 an empty slot that is not", lambda b: b.put(b.merge(empty=True) + 8, "I", 1), "bad merge"
)


def merge_twice(b):
    """The pair of one slot in the next, too."""
    slot = next(s for s in range(b.table("merges"), b.table("added") - 16, 16)
                if b.get(s, "I") != NO_TOKEN and b.get(s + 16, "I") == NO_TOKEN)  # fmt: skip
    b.bytes[slot + 16 : slot + 32] = b.bytes[slot : slot + 16]


spoilt("19 a merge twice", merge_twice, "bad merge")
for what, place, value in [
    ("id", 0, 38), ("start past the pool", 4, 2**32 - 1), ("empty", 8, 0), ("too long", 8, 1025),
    ("wraps [length]", 8, 2**32 - 1), ("unknown flag", 12, 2), ("out of order", 12, 1),
]:  # fmt: skip
    spoilt(
        f"19 an added token: {what}",
        lambda b, p=place, v=value: b.put(b.table("added") + p, "I", v),
        "bad added token (entry ",
    )


def twice(b):
    b.bytes[b.table("added") + 16 :][:16]
    b.bytes[b.table("added") + 16 : b.table("added") + 32] = b.bytes[b.table("added") :][:16]


def not_utf8(b):
    b.put(b.table("text") + b.get(b.table("added") + 4, "I"), "B", 0xFF)


spoilt("19 an added token twice", twice, "bad added token (entry 1)")
spoilt("19 an added token that is not UTF-8", not_utf8, "bad added token (entry 0)")
spoilt(
    "19 a block that there is not",
    lambda b: b.put(b.table("class_index") + 2 * 4351, "H", 65535),
    "no such class block",
)
spoilt("19 an unknown class", lambda b: b.put(b.table("class_blocks") + 65, "B", 16), "class")
spoilt(
    "19 a letter that is a number", lambda b: b.put(b.table("class_blocks") + 65, "B", 3), "class"
)
spoilt(
    "19 a space that is none",
    lambda b: b.put(
        b.table("class_blocks") + b.get(b.table("class_index"), "H") * 256 + 32, "B", 0
    ),
    "the space is no white space",
)

# What the next ones break shows at first use, so that inspect has nothing to say.
USED = (DAMAGED, OK, DAMAGED)
spoilt("20 a weight's digest", lambda b: b.put(len(b.bytes) - 1, "B", 1), "data damaged (weights",
       status=USED, digests=as_it_is)  # fmt: skip
spoilt("20 another digest", lambda b: b.put(b.at(DIGESTS) + 8, "Q", 1), "data damaged (weights",
       status=USED, digests=repair_front)  # fmt: skip
# And these harm nobody who runs them: results are numbers or a complaint about NaN.
HARMLESS = (DAMAGED, OK, (OK, NUMERIC))


def in_tensor(name, i, place, kind, value, of):
    spoilt(f"21 {name} ({of[4:]})", lambda b: b.put(b.tensor(i)[1] + place, kind, value),
           "breaks the format", status=HARMLESS, of=of)  # fmt: skip


# embed of int8: (41, 12): scales of 16 rows, then steps by 4 inputs; the third block has 9 rows
in_tensor("an infinite scale", 0, 0, "H", 0x7C00, "1.0-int8")
in_tensor("a scale that is NaN", 0, 0, "H", 0x7E00, "1.0-int8")
in_tensor("a scale of -0", 0, 0, "H", 0x8000, "1.0-int8")
in_tensor("a step of -128", 0, 64, "B", 0x80, "1.0-int8")
in_tensor("the scales of a group that there is not", 0, 32, "H", 1, "1.0-int8")
in_tensor("a missing row's scale", 0, 2 * 576 + 9 * 2, "H", 1, "1.0-int8")
in_tensor("a missing row's step", 0, 2 * 576 + 64 + 9 * 4, "B", 1, "1.0-int8")
in_tensor("a missing input's step", 0, 64 + 3 * 64, "B", 1, "1.0-int8")
in_tensor("behind a vector", 1, 12 * 4, "B", 1, "1.0-int8")
in_tensor("a vector's NaN", 1, 0, "f", NAN, "1.0-int8")
in_tensor("an infinite weight", 0, 0, "H", 0x7F80, "1.0-bf16")
in_tensor("a missing row", 0, 2 * 6 * 64 + 9 * 4, "H", 1, "1.0-bf16")
in_tensor("a weight that is NaN", 0, 0, "f", NAN, "1.0-f32")
in_tensor("a missing row", 0, 2 * 12 * 64 + 9 * 4, "I", 1, "1.0-f32")

# --- safetensors --------------------------------------------------------------------------------

SAFETENSORS = []


def assemble(header, data):
    return struct.pack("<Q", len(header)) + header + data


def tensor(name="a", dtype="U8", shape="[1]", offsets="[0,1]", more=""):
    return f'"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


def header(name, text, *words, n_data=1, status=DAMAGED):
    raw = text if isinstance(text, bytes) else text.encode()
    SAFETENSORS.append(Case(name, assemble(raw, bytes(n_data)), status, words))


def whole(name, content, *words, status=DAMAGED):
    SAFETENSORS.append(Case(name, content, status, words))


BIG = 2**64 - 1
whole("empty", b"", "empty")
whole("shorter than a length", b"\x01\0\0", "too short")
whole("nothing but a length of 0", bytes(8), "the header is damaged")
whole("a gibibyte of nothing", Sparse(b"", GIB), "the header is damaged")
whole(
    "a header over 100,000,000 bytes", Sparse(struct.pack("<Q", 10**8 + 1), GIB), "over 100000000"
)
whole(
    "a header of 100,000,000 zeros", Sparse(struct.pack("<Q", 10**8), GIB), "the header is damaged"
)
whole("a header of 2^64 - 1 bytes [length]", struct.pack("<Q", BIG) + b"{}", "over 100000000")
whole("8 + the header's length wraps [53630]", struct.pack("<Q", BIG - 7) + b"{}", "over 100000000")
whole("a header past the end [length]", struct.pack("<Q", 3) + b"{}", "truncated")
header("no object", "[]", "'{' expected")
header("nothing but white space", "   ", "'{' expected")
header("an object that does not end", "{" + tensor(), "expected")
header("something behind the object", "{" + tensor() + "}x", "behind its end")
header("a NUL behind the object", "{" + tensor() + "}\0", "behind its end")
header("a byte order mark", "\ufeff{" + tensor() + "}", "'{' expected")
header("a comma too many", "{" + tensor() + ",}", "expected")
header(
    "no comma", "{" + tensor() + " " + tensor("b", offsets="[1,1]", shape="[0]") + "}", "expected"
)
header("not UTF-8", b'{"\xff":1}', "not UTF-8")
header("an overlong NUL", b'{"\xc0\x80":1}', "not UTF-8")
header("half of a surrogate pair", '{"\\ud800":1}', "surrogate")
header("a control character", '{"a\n":1}', "control byte")
header("a NUL byte in a name", "{" + tensor("a\0b") + "}", "control byte")
header("an escaped NUL in a name", "{" + tensor("a\\u0000b") + "}", "holds a NUL")  # stricter
header("an unknown escape", '{"\\x41":1}', "no such escape")
header("a tensor that is null", '{"a":null}', "'{' expected")
header("a tensor that is a list [type]", '{"a":["U8",[1],[0,1]]}', "'{' expected")  # stricter
header("no dtype", '{"a":{"shape":[1],"data_offsets":[0,1]}}', "lacks")
header("no shape", '{"a":{"dtype":"U8","data_offsets":[0,1]}}', "lacks")
header("no offsets", '{"a":{"dtype":"U8","shape":[1]}}', "lacks")
header("a field twice", "{" + tensor(more=',"shape":[1]') + "}", "a field twice")
header("a tensor twice", "{" + tensor() + "," + tensor(offsets="[1,2]") + "}", "there twice",
       n_data=2)  # fmt: skip  # stricter
header(
    "a tensor twice, once escaped",
    "{" + tensor() + "," + tensor("\\u0061", offsets="[1,2]") + "}",
    "there twice",
    n_data=2,
)  # stricter
header("an unknown dtype [type]", "{" + tensor(dtype="Q4_0") + "}", "dtype")
header("a dtype that is a number [type]", '{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}',
       "a string expected")  # fmt: skip
header(
    "a dtype that is an object [type]",
    '{"a":{"dtype":{"U8":null},"shape":[1],"data_offsets":[0,1]}}',
    "a string expected",
)  # stricter
header("a shape that is a number [type]", "{" + tensor(shape="1") + "}", "'[' expected")
header("a negative dimension", "{" + tensor(shape="[-1]") + "}", "(byte ")
header("a dimension with a fraction", "{" + tensor(shape="[1.0]") + "}", "(byte ")
header("a dimension of 2^64", "{" + tensor(shape="[18446744073709551616]") + "}", "over 64 bits")
header("a dimension of 400 digits", "{" + tensor(shape=f"[{'9' * 400}]") + "}", "over 64 bits")
header("nine dimensions [21802]", "{" + tensor(shape="[1,1,1,1,1,1,1,1,1]") + "}", "8 dimensions",
       status=UNSUPPORTED)  # fmt: skip  # stricter
header("a million dimensions [21802]", "{" + tensor(shape="[1" + ",1" * 10**6 + "]") + "}",
       "8 dimensions", status=UNSUPPORTED)  # fmt: skip  # stricter
header(
    "a shape whose product wraps to 0 [33298]",
    "{" + tensor(dtype="F32", shape="[4294967296,4294967296]", offsets="[0,0]") + "}",
    "2^61",
    n_data=0,
)
header(
    "a shape whose bytes wrap to 4 [33298]",
    "{" + tensor(dtype="F32", shape="[4611686018427387905]", offsets="[0,4]") + "}",
    "2^61",
    n_data=4,
)
header("a shape that wraps before its zero [33298] [zero]", "{" + tensor(
    shape=f"[{BIG},2,0]", offsets="[0,0]") + "}", "2^61", n_data=0)  # fmt: skip
header("one offset", "{" + tensor(offsets="[0]") + "}", "expected")
header("three offsets", "{" + tensor(offsets="[0,1,1]") + "}", "expected")
header("offsets that are texts [type]", "{" + tensor(offsets='["0","1"]') + "}", "(byte ")
header("offsets that run backwards", "{" + tensor(offsets="[1,0]") + "}", "ends before it begins")
header(
    "an end past the file [7482]", "{" + tensor(shape="[100]", offsets="[0,100]") + "}", "truncated"
)
header("an end near 2^64 [7482] [53630]", "{" + tensor(
    shape="[1]", offsets=f"[{BIG - 1},{BIG}]") + "}", "(")  # fmt: skip
header(
    "sizes whose sum wraps [53630] [27940]",
    "{"
    + tensor(shape="[9223372036854775808]", offsets="[0,9223372036854775808]")
    + ","
    + tensor("b", shape="[9223372036854775808]", offsets="[9223372036854775808,0]")
    + "}",
    "(",
    n_data=0,
)
header("a size unlike the shape's", "{" + tensor(shape="[2]") + "}", "another size than its shape")
header("half a byte", "{" + tensor(dtype="F4", shape="[1]") + "}", "whole number of bytes")
header("tensors that overlap [alias]", "{" + tensor() + "," + tensor("b") + "}", "overlaps")
header("a hole in front [align]", "{" + tensor(offsets="[1,2]") + "}", "hole", n_data=2)
header(
    "a hole between", "{" + tensor() + "," + tensor("b", offsets="[2,3]") + "}", "hole", n_data=3
)
header("bytes behind the last tensor", "{" + tensor() + "}", "behind the last tensor", n_data=2)
header("metadata that is no object", '{"__metadata__":[],' + tensor() + "}", "(byte ")
header("metadata with a number [type]", '{"__metadata__":{"a":1},' + tensor() + "}", "a string")
header("metadata twice", '{"__metadata__":{},"__metadata__":{},' + tensor() + "}", "twice")
header("126 lists in a list [depth]", "{" + tensor(more=',"x":' + "[" * 126 + "]" * 126) + "}",
       "nested too deeply")  # fmt: skip
header(
    "a million objects in an object [depth]", "{" + tensor(more=',"x":' + '{"a":' * 10**6), "nested"
)
header("a number beyond f64", "{" + tensor(more=',"x":1e999') + "}", "(byte ")

# What looks bad and is good: the reference takes it, and so do we.
header("white space in front of the header", " \n\t\r{" + tensor() + "}", status=OK)
header("no tensors", "{}", n_data=0, status=OK)
header("a scalar", "{" + tensor(shape="[]") + "}", status=OK)
header("an empty tensor", "{" + tensor(shape="[0]", offsets="[0,0]") + "}", n_data=0, status=OK)
header("an empty tensor of a huge shape", "{" + tensor(shape=f"[0,{BIG}]", offsets="[0,0]") + "}",
       n_data=0, status=OK)  # fmt: skip
header("unknown fields", "{" + tensor(more=',"x":[{"y":1e300}]') + "}", status=OK)

# --- JSON ---------------------------------------------------------------------------------------

JSON = []


def document(name, file, content, *words, status=DAMAGED):
    raw = content.encode() if isinstance(content, str) else content
    JSON.append((file, Case(f"{file}: {name}", raw, status, words)))


INDEX = "model.safetensors.index.json"
for file in ("config.json", "tokenizer.json", "generation_config.json", "tokenizer_config.json", INDEX):
    document("empty", file, b"", "empty")
    document("nothing but white space", file, " \n", "not valid JSON")
    document("a list", file, "[]", "list")
    document("a number", file, "1", file)
    document("not closed", file, '{"a":', "not valid JSON")
    document("something behind its end", file, "{}{}", "not valid JSON")
    document("a NUL byte", file, b'{"a":"\0"}', "not valid JSON")
    document("an escaped NUL in a key", file, '{"a\\u0000":1}', "not valid JSON")
    document("not UTF-8", file, b'{"a":"\xff"}', "not valid JSON")
    document("a surrogate in UTF-8", file, b'{"a":"\xed\xa0\x80"}', "not valid JSON")
    document("a key twice", file, '{"a":1,"a":1}', "not valid JSON", "duplicate")
    document("3,000 lists in each other [depth]", file, '{"a":' + "[" * 3000 + "]" * 3000 + "}",
             "not valid JSON")  # fmt: skip
    document("a million lists in each other [depth]", file, "[" * 10**6, "not valid JSON")
    document("a million objects in each other [depth]", file, '{"a":' * 10**6, "not valid JSON")
    document("a number beyond f64", file, '{"a":1e999}', "not valid JSON")
    document("a number of a million digits", file, '{"a":' + "9" * 10**6 + "}", file)
    document("ten million values", file, "[" + "0," * 10**7 + "0]", "values")
    document("a gibibyte of nothing", file, Sparse(b"", GIB), "too large")
    document("a web page", file, "<!DOCTYPE html>", "web page")


def changed(file, name, path, value, *words, status=DAMAGED):
    """The bundled file with `value` at `path` (keys and indexes, separated by spaces)."""

    def content():
        whole = json.loads((DEMO / file).read_text())
        *outer, last = (int(key) if key.isdigit() else key for key in path.split())
        place = whole
        for key in outer:
            place = place[key]
        place[last] = value
        return json.dumps(whole).encode()

    JSON.append((file, Case(f"{file}: {name}", content, status, words)))


CONFIG, TOKENS, SETTINGS = "config.json", "tokenizer.json", "tokenizer_config.json"
for value in ("168", 168.5, 1e300, True, [168], {}):
    changed(CONFIG, f"hidden_size {value!r} [type]", "hidden_size", value, "hidden_size")
for key in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size",
            "hidden_size", "intermediate_size", "max_position_embeddings", "head_dim"):  # fmt: skip
    changed(CONFIG, f"{key} 0 [zero]", key, 0, key)
    changed(CONFIG, f"{key} -1", key, -1, key)
    for value in (2**31, 2**63 - 1):  # there might be such a model
        changed(CONFIG, f"{key} {value} [33298]", key, value, key, status=UNSUPPORTED)
changed(CONFIG, "heads that do not divide", "num_key_value_heads", 4, "num_key_value_heads")
changed(CONFIG, "an odd head_dim", "head_dim", 27, "head_dim", status=UNSUPPORTED)
changed(CONFIG, "an end that is a text [type]", "eos_token_id", "0", "eos_token_id")
changed(CONFIG, "an end that there is not", "eos_token_id", [0, 1990], "eos_token_id")
changed(CONFIG, "a start that there is not", "bos_token_id", 1990, "bos_token_id")
changed(CONFIG, "rope_theta that is a text [type]", "rope_theta", "10000", "rope_theta")
changed(CONFIG, "rope_theta 0 [zero]", "rope_theta", 0, "rope_theta")
changed(CONFIG, "rms_norm_eps 2", "rms_norm_eps", 2.0, "rms_norm_eps")
changed(CONFIG, "an architecture that is a number [type]", "architectures", 3, "architectures")
changed(CONFIG, "an architecture that is in a list in a list [type]", "architectures", [["a"]],
        "architectures", status=UNSUPPORTED)  # fmt: skip


def many_templates():
    """A list of chat templates whose names all have to be compared, and whose last is none."""
    settings = json.loads((DEMO / SETTINGS).read_text())
    settings["chat_template"] = [{"name": f"n{i}", "template": ""} for i in range(200000)] + [0]
    return json.dumps(settings).encode()


JSON.append((SETTINGS, Case(f"{SETTINGS}: many templates", many_templates, DAMAGED, ["chat_template"])))


def asking(name, keys, *words, status=DAMAGED):
    """The bundled config.json with other keys."""

    def content():
        return json.dumps(json.loads((DEMO / CONFIG).read_text()) | keys).encode()

    JSON.append((CONFIG, Case(f"{CONFIG}: {name}", content, status, words)))


for rope, word in [
    ("linear", "rope_scaling"),
    ({"type": 3}, "type"),
    ({"type": "linear"}, "factor"),
    ({"type": "linear", "factor": 0}, "factor"),
    ({"type": "linear", "factor": "2"}, "factor"),
    ({"type": "llama3", "factor": 8}, "low_freq_factor"),
    ({"type": "yarn", "factor": 8, "original_max_position_embeddings": 0}, "original_max"),
    ({"type": "yarn", "factor": 8, "original_max_position_embeddings": 1.5}, "original_max"),
    ({"type": "yarn", "factor": 8, "beta_fast": [32]}, "beta_fast"),
    ({"type": "yarn", "factor": 1e300}, "factor"),
    ({"type": "longrope", "short_factor": 1, "long_factor": 1}, "short_factor"),
    ({"type": "longrope", "short_factor": [1.0] * 10**6}, "short_factor"),
    ({"type": "longrope", "short_factor": [0.0] * 14, "long_factor": [1] * 14}, "short_factor"),
    ({"type": "longrope", "short_factor": [1] * 14, "long_factor": [1e300] * 14}, "long_factor"),
]:
    asking(f"rope_scaling {json.dumps(rope)[:60]} [type]", {"rope_scaling": rope}, word)
for rope, word in [
    ({"type": "dynamic", "factor": 2}, "dynamic"),
    ({"type": "x" * 10**5}, "xxxx"),
    ({"type": "linear", "factor": 1e-30}, "frequency 0"),
    ({"full_attention": {}}, "full_attention"),
]:
    asking(f"rope_scaling {json.dumps(rope)[:60]}", {"rope_scaling": rope}, word, status=UNSUPPORTED)
SMOLLM3 = {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3"}
GEMMA2 = {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2"}
GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}
for value in (1, [], [1], [1] * 5, [2] * 6, ["1"] * 6, [[1]] * 6):
    asking(f"no_rope_layers {value} [type]", SMOLLM3 | {"no_rope_layers": value}, "no_rope_layers")
for value in (0, -1, "4", [4]):
    asking(f"no_rope_layer_interval {value!r} [zero]", SMOLLM3 | {"no_rope_layer_interval": value},
           "no_rope_layer_interval")  # fmt: skip
for value in ("full_attention", [], ["full_attention"] * 7, [1] * 6, [None] * 6):
    asking(f"layer_types {value} [type]", GEMMA2 | {"layer_types": value}, "layer_types")
for value in (0, -1, "4096", [4096]):
    asking(f"sliding_window {value!r}", GEMMA2 | {"sliding_window": value}, "sliding_window")
for value in (0, -1, "30", 1e300):
    asking(f"a soft-cap of {value!r}", GEMMA2 | {"final_logit_softcapping": value}, "softcapping")
for value, word in ((3, "rope_parameters"), ({"rope_theta": 1}, "rope_parameters"),
                    ({"full_attention": 1}, "rope_parameters"), ({"sliding_attention": [1]}, "rope_theta")):
    asking(f"rope_parameters {value} [type]", GEMMA3 | {"rope_theta": None, "rope_parameters": value,
           "sliding_window_pattern": 2}, word)  # fmt: skip
asking("another family's tensors", GEMMA2 | {"head_dim": 28}, "pre_feedforward_layernorm")
changed(CONFIG, "tied to a text [type]", "tie_word_embeddings", "yes", "tie_word_embeddings")
changed("generation_config.json", "a temperature that is a text [type]", "temperature", "hot",
        "temperature")  # fmt: skip
changed("generation_config.json", "top_k -1", "top_k", -1, "top_k")
changed(
    "generation_config.json", "an end that there is not", "eos_token_id", [1990], "eos_token_id"
)
changed(
    "generation_config.json", "ends that are texts [type]", "eos_token_id", ["0"], "eos_token_id"
)
changed(SETTINGS, "an end that is a number [type]", "eos_token", 0, "eos_token")
changed(SETTINGS, "an end that is a list [type]", "eos_token", ["a"], "eos_token")
for value in (None, [], "BPE", 1):
    changed(TOKENS, f"the model is {value!r} [type]", "model", value, "model")
    changed(TOKENS, f"the vocabulary is {value!r} [type]", "model vocab", value, "vocab")
    changed(
        TOKENS,
        f"the pre-tokenizer is {value!r} [type]",
        "pre_tokenizer",
        value,
        "pre_tokenizer",
        status=UNSUPPORTED,
    )
for value in (None, {}, "h e", 1, [1], ["he"], ["h e x"], [["h"]], [["h", "e", "x"]], [["h", 1]],
              [[]], [["h", "\U0001f600"]]):  # fmt: skip
    changed(TOKENS, f"the merges are {value!r} [type]", "model merges", value, "merge")
for value in ("5", 5.5, None, -1, 1990, 2**32, 2**63 - 1, [5], 0):
    changed(TOKENS, f"a token's id is {value!r} [type]", "model vocab h", value, "token")
for value in ({}, "x", 1, [1], [None], [[]], [{}]):
    changed(TOKENS, f"the added tokens are {value!r} [type]", "added_tokens", value, "added")
for key, values in {
    "content": ["", None, 1],
    "id": ["0", -1, 1990, 2**63 - 1],
    "special": ["yes", None, 1],
    "normalized": [0],
    "lstrip": [1],
}.items():
    for value in values:
        changed(
            TOKENS, f"an added token's {key} is {value!r} [type]", f"added_tokens 1 {key}", value
        )
for n in (1025, 10**6):
    changed(TOKENS, f"an added token of {n} bytes [length]", "added_tokens 1 content", "x" * n,
            "too long", status=UNSUPPORTED)  # fmt: skip
changed(TOKENS, "another model", "model type", "Unigram", "Unigram", status=UNSUPPORTED)
changed(TOKENS, "a model's kind that is a number [type]", "model type", 1, "type",
        status=UNSUPPORTED)  # fmt: skip
for value in ({"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}, [], 7,
              {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 65},
              {"type": "Prepend", "prepend": ""}, {"type": "Prepend", "prepend": "b" * 10**6},
              {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 3},
              {"type": "Sequence", "normalizers": [{"type": "NFC"}] * 10**5},
              {"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": []}]}):  # fmt: skip
    changed(TOKENS, f"a normalizer: {str(value)[:60]}... of {len(str(value))}", "normalizer", value,
            "normalizer", status=UNSUPPORTED)  # fmt: skip
FUSE, STRIP = {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
for value in (None, 7, [], {"type": "CTC"}, {"type": "Metaspace"}, {"type": "Sequence", "decoders": []},
              {"type": "Sequence", "decoders": [FUSE, FUSE]}, {"type": "Sequence", "decoders": [STRIP]},
              *({"type": "Sequence", "decoders": [FUSE, STRIP | change]} for change in (
                  {"start": -1}, {"start": 65}, {"start": 2**63 - 1}, {"start": "1"}, {"stop": 1},
                  {"content": ""}, {"content": "ab"}, {"content": None}))):  # fmt: skip
    changed(TOKENS, f"a decoder: {value!r}", "decoder", value, "decoder", status=UNSUPPORTED)
GROW = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 64}
changed(TOKENS, "a decoder's text of 65 bytes", "decoder", GROW | {"content": "a" * 65}, "decoder",
        status=UNSUPPORTED)  # fmt: skip
TEMPLATE = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}], "special_tokens": {}}
for value in (7, [], {"type": "BertProcessing"}, TEMPLATE | {"single": []}, TEMPLATE | {"single": 1},
              TEMPLATE | {"single": [{"Sequence": {"id": "B"}}]},
              TEMPLATE | {"single": [{"Sequence": {"id": "A"}}] * 2},
              {"type": "Sequence", "processors": [TEMPLATE, TEMPLATE]}):  # fmt: skip
    changed(TOKENS, f"a post-processor: {value!r}", "post_processor", value, "post_processor",
            status=UNSUPPORTED)  # fmt: skip
for value in (1990, -1, 2**63 - 1, "1", None, 10**9):
    piece = {"SpecialToken": {"id": "x"}}
    template = TEMPLATE | {"single": [piece, *TEMPLATE["single"]], "special_tokens": {"x": {"ids": [value]}}}
    changed(TOKENS, f"an id around a text is {value!r} [type]", "post_processor", template, "post_processor")
for key in ("byte_fallback", "fuse_unk", "ignore_merges", "unk_token"):
    for value in (1, [True], {}):
        changed(TOKENS, f"{key} is {value!r} [type]", f"model {key}", value, key)
NESTED = {}
for _ in range(200):
    NESTED = {"type": "Sequence", "pretokenizers": [NESTED]}
changed(TOKENS, "a pre-tokenizer in itself, 200 times [depth]", "pre_tokenizer", NESTED,
        "pre_tokenizer", status=UNSUPPORTED)  # fmt: skip
for what, pattern, *words in [
    ("a million repetitions [work]", "(?:a{999}){999}", "repeats too much"),
    ("too many states [memory]", r"(?:\w{30}|\d){30}b", "states"),
    ("of a megabyte [length]", "a" * (1 << 20), "too long"),
    ("groups within groups [depth]", "(" * 8000 + "a" + ")" * 8000, "nested too deep"),
    ("classes within classes [depth]", "[" * 8000 + "a" + "]" * 8000, "nested too deep"),
    ("repetitions of repetitions [depth]", "a" + "{2}" * 5000, "repeating repetitions"),
    ("a character of its own each [memory]", "|".join(map(chr, range(0x4E00, 0x5A00))), "classes"),
    ("properties over and over [work]", "[" + r"\p{L}" * 2000 + "]", "too large"),
    ("empty matches", "a*", "nothing"),
    ("a back-reference", r"(a)\1", "escape"),
    ("not closed", "(a", "without its )"),
]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    row = [split, {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
    changed(TOKENS, f"a pattern, {what}", "pre_tokenizer", {"type": "Sequence", "pretokenizers": row},
            *words, status=UNSUPPORTED)  # fmt: skip
changed(TOKENS, "dropout", "model dropout", 0.5, "dropout", status=UNSUPPORTED)

# --- shards -------------------------------------------------------------------------------------

SHARDS = []
ONE, TWO = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))


@functools.cache
def demo_tensors():
    """name: (description, bytes) of the bundled model's tensors."""
    raw = (DEMO / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    entries = json.loads(raw[8 : 8 + size])
    entries.pop("__metadata__", None)
    spans = {name: [8 + size + at for at in entry["data_offsets"]] for name, entry in entries.items()}
    return {name: (entry, raw[spans[name][0] : spans[name][1]]) for name, entry in entries.items()}


def safetensors_of(names):
    texts, data = [], b""
    for name in names:
        entry, content = demo_tensors()[name]
        place = [len(data), len(data) + len(content)]
        texts.append(f"{json.dumps(name)}:{json.dumps({**entry, 'data_offsets': place})}")
        data += content
    return assemble(("{" + ",".join(texts) + "}").encode(), data)


class Sharded:
    """The bundled model in two shards, to be spoiled."""

    def __init__(self):
        names = list(demo_tensors())
        self.parts = {ONE: names[:7], TWO: names[7:]}
        self.files = {}  # others, or other contents
        self.links = {}
        self.map = {name: file for file, part in self.parts.items() for name in part}
        self.metadata = {"total_size": sum(len(data) for _, data in demo_tensors().values())}

    def write(self, folder):
        for file, names in self.parts.items():
            write(folder / file, safetensors_of(names))
        for file, content in self.files.items():
            write(folder / file, content)
        for file, target in self.links.items():
            (folder / file).symlink_to(target)
        if INDEX not in self.files:
            index = {"metadata": self.metadata, "weight_map": self.map}
            write(folder / INDEX, json.dumps(index).encode())


def sharded(name, change, *words, status=DAMAGED):
    def content():
        checkpoint = Sharded()
        change(checkpoint)
        return checkpoint

    SHARDS.append(Case(name, content, status, words))


def put(attribute, value):
    return lambda s: setattr(s, attribute, value)


def in_map(value):
    return lambda s: s.map.update({s.parts[ONE][0]: value})


def in_file(name, content):
    return lambda s: s.files.update({name: content})


def second(name, link=None):
    """The second shard has this name, and is not there, or a link to something."""

    def change(s):
        s.map.update(dict.fromkeys(s.parts.pop(TWO), name))
        if link:
            s.links[name] = link

    return change


def duplicate_key(s):
    """As no JSON library writes it."""
    pair = f'{json.dumps(s.parts[ONE][0])}: "{TWO}"'
    s.files[INDEX] = f'{{"weight_map": {{{pair}, {json.dumps(s.map)[1:]}}}'.encode()


sharded("two shards", lambda s: None, status=OK)
sharded("no total", put("metadata", {}), status=OK)
sharded("no metadata", put("metadata", None), status=OK)
sharded("a total with a point", lambda s: s.metadata.update(total_size=float(s.metadata["total_size"])),
        status=OK)  # fmt: skip
for value in (None, [], {}, "x", 1):
    sharded(f"weight_map {value!r} [type]", put("map", value), INDEX, "weight_map")
for value in (None, 1, [ONE], {}, "", ".", "..", ".safetensors/", "model.bin", "/etc/passwd"):
    sharded(f"a tensor in {value!r} [type]", in_map(value), INDEX, "beside the index")
for value in (f"../{ONE}", f"/tmp/{ONE}", f"./{ONE}", f"a/{ONE}", f"..\\{ONE}", f"C:\\{ONE}"):
    sharded(f"a tensor in {value} [alias]", in_map(value), INDEX, "beside the index")
sharded("a name of a megabyte [length]", second("x" * 10**6 + ".safetensors"), "xxx", status=FILE)
sharded("a shard that there is not", second("other.safetensors"), "other.safetensors", status=FILE)
sharded("a shard that is missing", second(TWO), TWO, status=FILE)
sharded("a shard that is a folder", second(TWO, "/"), "a folder", status=FILE)
sharded("a link that leads nowhere", second(TWO, "x"), TWO, status=FILE)
sharded("the index lacks a shard", lambda s: s.map.update(dict.fromkeys(s.map, ONE)), INDEX,
        "lists 1 shards")  # fmt: skip
sharded("a shard of another series", in_map("model-00001-of-00003.safetensors"), "lists 3 shards")
sharded("a shard that is left over", in_file("model-00003-of-00002.safetensors", assemble(b"{}", b"")),
        "model-00003-of-00002.safetensors", "does not list")  # fmt: skip
sharded("513 shards", lambda s: s.map.update({f"t{i}": f"{i}.safetensors" for i in range(600)}),
        "more than 512", status=UNSUPPORTED)  # fmt: skip
sharded("a million shards", lambda s: s.map.update({f"t{i}": f"{i}.safetensors" for i in range(10**6)}),
        "more than 512", status=UNSUPPORTED)  # fmt: skip
sharded("a tensor that no shard has", lambda s: s.map.update({"x" * 10**6: ONE}), "is missing")
sharded("a tensor that its shard lacks", lambda s: s.parts[TWO].pop(), "is missing", TWO)
sharded("a tensor in another shard", lambda s: s.map.update({s.parts[ONE][0]: TWO}), "is in", ONE, TWO)
sharded("a tensor that is in no place", lambda s: s.map.pop(s.parts[TWO][0]), TWO, "none of the index")
sharded("a tensor in two shards", lambda s: s.parts[TWO].append(s.parts[ONE][0]), "there twice", ONE, TWO)
sharded("a tensor twice in a shard", lambda s: s.parts[TWO].append(s.parts[TWO][0]), "there twice", TWO)
sharded("a shard under two names", second("x.safetensors", ONE), "there twice")
sharded("a tensor twice in the index", duplicate_key, "not valid JSON", "duplicate")
for value in (0, -1, 10**30, 0.5, "1", [], {}, True, 2**63 - 1, 1e300):
    sharded(f"total_size {value!r} [53630]", put("metadata", {"total_size": value}), INDEX,
            "metadata.total_size")  # fmt: skip
sharded("a total that is one too many", lambda s: s.metadata.update(total_size=s.metadata["total_size"] + 1),
        "metadata.total_size")  # fmt: skip
for value in ([], "x", 1):
    sharded(f"metadata {value!r} [type]", put("metadata", value), INDEX, "metadata")
sharded("a shard cut off", lambda s: s.files.update({TWO: safetensors_of(s.parts[TWO])[:-1]}), TWO, "truncated")
sharded("a shard that is empty", in_file(ONE, b""), ONE, "empty")
sharded("a shard that is a GGUF file", in_file(ONE, b"GGUF" + bytes(60)), ONE, "GGUF", status=UNSUPPORTED)
sharded("a gibibyte of nothing for a shard", in_file(ONE, Sparse(b"", GIB)), ONE, "header is damaged")

# --- packed blobs ---------------------------------------------------------------------------------

PACKED = []


def packaged(name, make, *words, status=DAMAGED):
    """What `make` makes of a good blob. What `zstd -d` can still restore is unsupported."""

    PACKED.append(Case(f"packed: {name}", lambda: make(base("1.0-int8")), status, words))


def with_table(frames, *sizes):
    return b"".join(frames) + seek_table(sizes)


def with_footer(blob, count, descriptor=0, magic=FOOTER_MAGIC, more=0, entries=1):
    """One good frame, and a seek table that says what it should not."""
    content = frame(blob)
    table = struct.pack("<II", len(content), len(blob)) * entries
    table += struct.pack("<IBI", count, descriptor, magic)
    return content + struct.pack("<II", TABLE_MAGIC, len(table) + more) + table


def declared(size):
    """A frame that says it holds `size` bytes."""
    return b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", size) + b"\x01\0\0"


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
packaged("a gibibyte behind the frame", lambda b: Sparse(frame(b), GIB))
packaged("a frame twice", lambda b: with_table([frame(b)] * 2, (len(frame(b)), len(b))),
         status=UNSUPPORTED)  # fmt: skip
packaged("packed twice", lambda b: packed(packed(b)), status=UNSUPPORTED)
packaged("no seek table", frame)
packaged("a seek table cut off [length]", lambda b: packed(b)[:-1])
packaged("bytes behind the seek table", lambda b: packed(b) + b"\0")
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
    """The same blob in a packed file that is fine."""
    status = case.status[0] if isinstance(case.status, tuple) else case.status
    return Case(f"packed: {case.name}", lambda: packed(shortened(case.make())), status)


def shortened(content):
    """The bytes of a content, a megabyte of them if it is sparse."""
    return content.head.ljust(1 << 20, b"\0") if isinstance(content, Sparse) else content


PACKED += [repacked(case) for case in BLOBS]

# --- deltas ---------------------------------------------------------------------------------------

DELTAS = []  # OLD is the int8 blob; named after the step of DELTA.md section 5
DELTA_MAGIC = b"\x89SMD\r\n\x1a\n"
MOST = 1 << 20  # bytes that a part makes, unless it copies


def delta(new, parts, digest=None, of=None, file_size=None, new_size=None, rest=(1, 0, 0, 0, 0)):
    """A delta that makes `new`; `rest`: major, minor, reserved, required and optional features."""
    old = base("1.0-int8")
    major, minor, reserved, required, optional = rest
    of = of or (old[8:16], len(old))
    size = 80 + len(b"".join(parts)) if file_size is None else file_size
    fields = struct.pack("<HHIQQQ", major, minor, reserved, size, required, optional)
    fields += of[0] + struct.pack("<Q", of[1]) + new[8:16].ljust(8, b"\0")
    fields += struct.pack("<Q", len(new) if new_size is None else new_size)
    digest = xxh3(fields) if digest is None else digest
    return DELTA_MAGIC + struct.pack("<Q", digest) + fields + b"".join(parts)


def part(method, new_size, coded=b"", old=(0, 0), coded_size=None, digest=None):
    size = len(coded) if coded_size is None else coded_size
    body = struct.pack("<IIQQQ", method, size, new_size, *old) + coded
    return struct.pack("<Q", xxh3(body) if digest is None else digest) + body


DELTA_WORDS = {
    "3": "digest of the header", "8": "digest of a part", "10": "sizes make no sense",
    "12": "cannot be decompressed", "13": "the new blob", "14": "the new blob",
    "15": "makes another blob", "16": "(offset 9263)",
}  # fmt: skip


def delta_case(name, make, *words, status=DAMAGED):
    """What `make` makes of NEW, the bf16 blob."""
    step = name.split()[0]
    words = words or ((DELTA_WORDS[step],) if step in DELTA_WORDS else ())
    DELTAS.append(Case(f"delta: {name}", lambda: make(base("1.0-bf16")), status, words))


def header_case(name, *words, status=DAMAGED, **fields):
    delta_case(name, lambda b: delta(b, [part(1, len(b), frame(b))], **fields), *words,
               status=status)  # fmt: skip


def part_case(name, change, *words, status=DAMAGED):
    """The one part of a delta is what `change` makes of NEW."""
    delta_case(name, lambda b: delta(b, [change(b)]), *words, status=status)


header_case("a good one", status=OK)
delta_case("1 empty", lambda b: b"")
delta_case("1 cut off within the header", lambda b: delta(b, [])[:79])
delta_case("1 a blob", lambda b: b, "not a delta", status=USAGE)
delta_case("1 line ends changed", lambda b: delta(b, []).replace(b"\r\n", b"\n", 1), "line ends")
header_case("2 another major version", "2.0", status=UNSUPPORTED, rest=(2, 0, 0, 0, 0))
header_case("3 the header's digest", digest=1)
header_case("4 a needed feature", "0x4", status=UNSUPPORTED, rest=(1, 0, 0, 4, 0))
header_case("4 a feature that may be ignored", status=OK, rest=(1, 9, 0, 0, 4))
header_case("5 the reserved field", "reserved", rest=(1, 0, 1, 0, 0))
header_case("6 another OLD", status=USAGE, of=(bytes(8), 143488))
header_case("6 an OLD of another size", status=USAGE, of=(base("1.0-int8")[8:16], 2**64 - 1))
delta_case("7 no parts", lambda b: delta(b, []))
part_case("7 half a part's head [length]", lambda b: part(0, 1, old=(0, 1))[:20])
for size in (1179649, 2**31, 2**32 - 1):
    part_case(f"7 {size} coded bytes [length]", lambda b, s=size: part(
        1, len(b), frame(b), coded_size=s))  # fmt: skip
part_case("7 coded bytes cut off", lambda b: part(1, len(b), frame(b))[:-1])
part_case("8 a part's digest", lambda b: part(1, len(b), frame(b), digest=1))
for method in (4, 2**32 - 1):
    part_case(f"9 method {method}", lambda b, m=method: part(m, len(b), frame(b)), "unknown way")
part_case("10 a part of nothing [zero]", lambda b: part(0, 0))
part_case("10 more than is missing", lambda b: part(0, len(b) + 1, old=(0, len(b) + 1)))
part_case("10 a size of 2^64 - 1 [53630]", lambda b: part(0, 2**64 - 1, old=(0, 2**64 - 1)))
part_case("10 a copy past the end of OLD [7482]", lambda b: part(0, 64, old=(143488 - 63, 64)))
part_case("10 a copy of what wraps [53630]", lambda b: part(0, 64, old=(2**64 - 32, 64)))
part_case("10 a copy of another size", lambda b: part(0, 64, old=(0, 32)))
part_case("10 a copy with coded bytes", lambda b: part(0, 64, b"x", old=(0, 64)))
part_case("12 no coded bytes", lambda b: part(1, len(b)))
part_case("10 history at 1 of no bytes", lambda b: part(1, len(b), frame(b), old=(1, 0)))
part_case("10 history past the end [7482]", lambda b: part(1, len(b), frame(b), old=(1, 143488)))
part_case("10 history over 4 MiB", lambda b: part(1, len(b), frame(b), old=(0, 4 * MOST + 1)))
part_case("10 differences to less", lambda b: part(2, len(b), frame(b), old=(0, 100)))
part_case("10 an odd number of halves", lambda b: part(3, 65, frame(bytes(65)), old=(0, 65)))
delta_case("10 over a megabyte in a part [23605]", lambda b: delta(
    b, [part(1, MOST + 1, frame(bytes(MOST + 1)))], new_size=2 * MOST))  # fmt: skip
part_case("12 no frame", lambda b: part(1, len(b), b[:1000]))
part_case("12 no content size", lambda b: part(1, len(b), frame(b, content_size=0)))
part_case("12 another content size [length]", lambda b: part(1, len(b), frame(b[:-1])))
part_case("12 a gibibyte of content [23605]", lambda b: part(1, len(b), declared(GIB) + b[:99]))
part_case("12 a dictionary", lambda b: part(1, len(b), frame(b, dictionary=b[:4096] * 2)))
part_case("12 a frame's checksum", lambda b: part(1, len(b), frame(b)[:-1] + b"\0"))
part_case("12 a skippable frame", lambda b: part(1, 8, struct.pack("<II", TABLE_MAGIC, 0)))
part_case("12 two frames", lambda b: part(1, len(b), frame(b[:99]) + frame(b[99:])))
part_case("12 bytes behind the frame", lambda b: part(1, len(b), frame(b) + b"\0"))
part_case("12 differences in halves, cut off", lambda b: part(
    3, len(b), frame(b[:-2]), old=(0, len(b))))  # fmt: skip
part_case("13 a NEW of zeros", lambda b: part(1, len(b), frame(bytes(len(b)))))
part_case("13 a NEW whose last byte is wrong", lambda b: part(
    1, len(b), frame(b[:-1] + bytes([b[-1] ^ 1]))))  # fmt: skip
part_case("13 OLD's bytes, of which NEW's are not", lambda b: part(0, len(b), old=(0, len(b))))
delta_case("14 a NEW that lacks a byte", lambda b: delta(b, [part(1, len(b) - 1, frame(b[:-1]))],
                                                         new_size=len(b) - 1))  # fmt: skip
delta_case("14 a NEW with a byte too many", lambda b: delta(
    b, [part(1, len(b), frame(b)), part(0, 1, old=(0, 1))], new_size=len(b) + 1))  # fmt: skip
delta_case("15 another digest of NEW", lambda b: delta(
    bytes(len(b)), [part(1, len(b), frame(b))]))  # fmt: skip
delta_case("16 a byte behind the parts", lambda b: delta(b, [part(1, len(b), frame(b))]) + b"\0")
delta_case("16 a part too many", lambda b: delta(
    b, [part(1, len(b), frame(b)), part(0, 1, old=(0, 1))]))  # fmt: skip
header_case("16 another file_size", file_size=1 << 40)
delta_case("16 a gibibyte behind the parts", lambda b: Sparse(
    delta(b, [part(1, len(b), frame(b))]), GIB))  # fmt: skip


def patched(case):
    """A delta that is fine and makes a bad NEW. No reader comes to harm by what step 21 finds."""
    status = case.status[0] if isinstance(case.status, tuple) else case.status

    def make():
        new = shortened(case.make())
        pieces = [new[i : i + MOST] for i in range(0, len(new), MOST)]
        return delta(new, [part(1, len(piece), frame(piece)) for piece in pieces])

    return Case(f"delta: {case.name}", make, OK if case.name.startswith("21") else status)


PATCHED = [patched(case) for case in BLOBS]

# --- running ------------------------------------------------------------------------------------


def write(path, content):
    if isinstance(content, Sparse):
        path.write_bytes(content.head)
        os.truncate(path, content.size)
    else:
        path.write_bytes(content)


def run(command, limited):
    """(exit status, what it says); a run that takes too long fails."""
    limit = ["sh", "-c", f'ulimit -v {ADDRESS_SPACE >> 10} && exec "$0" "$@"'] if limited else []
    result = subprocess.run(
        [*limit, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, timeout=SECONDS,
    )  # fmt: skip
    return result.returncode, result.stderr.decode(errors="replace")


def complaint(program, expected, words, result):
    """What is wrong with the result of a run, or None."""
    status, message = result
    allowed = expected if isinstance(expected, tuple) else (expected,)
    if status not in allowed:
        return f"{program}: exit status {status}, should be {expected}: {message}"
    if status == OK:
        return None
    if message.count("\n") != 1 or not message.startswith(program.split()[0] + ": "):
        return f"{program}: not one line: {message}"
    if status != NUMERIC:
        missing = [word for word in words if word not in message]
        if missing:
            return f"{program}: does not say {missing}: {message}"
    return None


def check_blob(case, build, folder, limited=True):
    """Gives the case to all that reads blobs; returns what is wrong."""
    path = folder / "x.smol"
    write(path, case.make())
    commands = {
        "smolconv verify": [build / "smolconv", "verify", path],
        "smolconv inspect": [build / "smolconv", "inspect", path],
        "smolrun": [build / "smolrun", path, "the", "-n", "2", "--threads", "1"],
        "smolconv diff": [build / "smolconv", "diff", path, path],
    }
    statuses = case.status if isinstance(case.status, tuple) else (case.status,) * 3
    statuses = (*statuses, statuses[0])  # it looks at everything, as verify does
    found = [
        complaint(program, status, case.words, run(command, limited))
        for (program, command), status in zip(commands.items(), statuses, strict=True)
        if limited or program in ("smolconv verify", "smolrun")
    ]
    return [text for text in found if text]


def check_packed(case, build, folder, limited=True):
    """Unpacking finds what is wrong with the packed file, or with the blob in it."""
    path = folder / "x.smol.zst"
    write(path, case.make())
    found = run([build / "smolconv", "unpack", "--threads", "1", path, folder / "x.smol"], limited)
    unpacked = complaint("smolconv unpack", case.status, ("x.smol", *case.words), found)
    left = "an output is left" if sorted(folder.iterdir()) != [path] else None
    return [text for text in (unpacked, left) if text]


def check_delta(case, build, folder, limited=True):
    """A bad delta makes no NEW."""
    old, path, new = folder / "old.smol", folder / "x.smoldelta", folder / "new.smol"
    old.write_bytes(base("1.0-int8"))
    write(path, case.make())
    found = run([build / "smolconv", "patch", old, path, new], limited)
    made = complaint("smolconv patch", case.status, case.words, found)
    allowed = [new, old, path] if found[0] == OK else [old, path]
    left = "an output is left" if sorted(folder.iterdir()) != allowed else None
    return [text for text in (made, left) if text]


def checkpoint(folder, file, content):
    """The bundled checkpoint with one file of it replaced."""
    for source in DEMO.glob("*.json"):
        shutil.copy(source, folder)
    if file not in ("model.safetensors", INDEX):
        (folder / "model.safetensors").symlink_to(DEMO / "model.safetensors")
    write(folder / file, content)


def check_safetensors(case, build, folder, limited=True):
    """What passes as safetensors lacks the model's tensors."""
    checkpoint(folder, "model.safetensors", case.make())
    path = folder / "model.safetensors"
    found = run([build / "smolconv", "inspect", path], limited)
    inspected = complaint("smolconv inspect", case.status, case.words, found)
    found = run([build / "smolconv", "diff", path, path], limited)
    compared = complaint("smolconv diff", case.status, case.words, found)
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    words = case.words if case.status != OK else ()
    converted = complaint("smolconv", case.status or DAMAGED, words, found)
    left = "an output is left" if list(folder.glob("*.smol*")) else None
    return [text for text in (inspected, compared, converted, left) if text]


def check_json(file, case, build, folder, limited=True):
    checkpoint(folder, file, case.make())
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    converted = complaint("smolconv", case.status, (file, *case.words), found)
    left = "an output is left" if list(folder.glob("*.smol*")) else None
    return [text for text in (converted, left) if text]


def check_shards(case, build, folder, limited=True):
    """An index that is believed too much."""
    for source in DEMO.glob("*.json"):
        shutil.copy(source, folder)
    case.make().write(folder)
    found = run([build / "smolconv", "--threads", "1", folder, folder / "x.smol"], limited)
    converted = complaint("smolconv", case.status, case.words, found)
    found = run([build / "smolconv", "diff", folder / INDEX, folder], limited)
    compared = complaint("smolconv diff", case.status, case.words, found)
    made = [folder / "x.smol"] if case.status == OK else []
    left = "an output is left" if list(folder.glob("*.smol*")) != made else None
    return [text for text in (converted, compared, left) if text]


def main():
    build, limited = Path(sys.argv[1]), "--sanitized" not in sys.argv[2:]
    checks = [(f"blob, {c.name}", lambda f, c=c: check_blob(c, build, f, limited)) for c in BLOBS]
    checks += [(c.name, lambda f, c=c: check_packed(c, build, f, limited)) for c in PACKED]
    deltas = [*DELTAS, *(PATCHED if limited else ())]
    checks += [(c.name, lambda f, c=c: check_delta(c, build, f, limited)) for c in deltas]
    checks += [(f"safetensors, {c.name}", lambda f, c=c: check_safetensors(c, build, f, limited))
               for c in SAFETENSORS]  # fmt: skip
    checks += [(c.name, lambda f, n=n, c=c: check_json(n, c, build, f, limited)) for n, c in JSON]
    checks += [(f"shards, {c.name}", lambda f, c=c: check_shards(c, build, f, limited)) for c in SHARDS]
    failed = 0
    for name, check in checks:
        with tempfile.TemporaryDirectory() as folder:
            found = check(Path(folder))
        failed += bool(found)
        for text in found:
            print(f"{name}: {text}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
