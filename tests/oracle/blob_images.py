"""Good blobs to be spoiled, one with each section that a feature calls for, and what is needed to
spoil them: where things lie, and digests that are right again. None of our own code is used."""

import ctypes
import functools
import struct
import subprocess

from hostile_cases import DAMAGED, ROOT, Case
from smol_reader import (
    BLOCKS,
    CAPS,
    CHUNK,
    COMPONENTS,
    DIGESTS,
    KINDS,
    INT4,
    INT5,
    INT6,
    INT8,
    LAYERS,
    LEVELS,
    MIXED,
    MODEL,
    MODEL_FIELDS,
    NO_TOKEN,
    SCALES,
    SCANNER,
    SCANNERS,
    TEMPLATE as CHAT_TEMPLATE,
    TEMPLATE_FEATURE,
    TENSORS,
    TEXT,
    TEXT_FEATURE,
    TEXT_FIELDS,
    TEXT_TABLES,
    TOKENIZER,
    WEIGHTS,
    block_bytes,
    round_up,
)

BASES = ROOT / "tests/data/blobs"

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
    struct.pack_into("<HI", front, 18, 2 if bit == MIXED else 1, len(parts))
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


def with_components():
    """A model of that kind whose heads rotate their neighbours, and whose queries grow."""
    image = Image("blocks")
    image.put(40, "Q", BLOCKS | COMPONENTS)
    image.model("blocks", 32)
    image.model("query_growth", 0.1)
    image.model("query_period", 2)
    return bytes(repair(image.bytes))


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


# tables of levels: evenly spaced, for int6, int4 and int5; then, by role, dtype and table
MIX_LEVELS = [[i * 4 - 127 for i in range(64)], [i * 16 - 127 for i in range(16)], [i * 8 - 127 for i in range(32)]]
MIX_ROLES = {
    0: (INT6, 0), 2: (INT4, 1), 3: (INT8, 0), 4: (INT5, 2), 5: (INT6, 0),
    11: (INT5, 2), 12: (INT4, 1), 13: (INT8, 0), 18: (INT4, 1),
}  # fmt: skip


def with_mix():
    """A blob with matrices of all dtypes of a mix, whose codes and scales are zero."""
    levels = b"".join(struct.pack("<64b", *t, *[0] * (64 - len(t))) for t in MIX_LEVELS)
    image = Image("1.0-int8")
    image.bytes = bytearray(with_section(image.bytes, MIXED, LEVELS, levels))
    start, table = image.at(WEIGHTS), image.at(TENSORS)
    weights, embed = b"", None
    for i in range(image.size(TENSORS) // 64):
        entry = table + i * 64
        role, _, _, layout, rows, cols, offset, size = struct.unpack_from("<4I4Q", image.bytes, entry)
        alias = role == 18 and offset == embed
        at = offset if alias else start + len(weights)
        if i == 0:
            embed = offset
        if layout == 0:
            weights += image.bytes[offset : offset + size]
            image.put(entry + 32, "Q", at)
            continue
        dtype, table_index = MIX_ROLES[0 if alias else role]
        size = -(-rows // 16) * block_bytes(dtype, cols)
        image.put(entry + 8, "I", dtype)
        image.put(entry + 32, "QQI", at, size, table_index)
        weights += b"" if alias else bytes(size)
    del image.bytes[start:]
    image.append(weights)
    image.put(image.entry(WEIGHTS) + 16, "Q", len(weights))
    (data,) = struct.unpack_from("<Q", image.bytes, 32)
    n_chunks = -(-(len(image.bytes) - data) // CHUNK)
    assert image.size(DIGESTS) == n_chunks * 8
    return bytes(repair(image.bytes))


@functools.cache
def base(name):
    if name == "mix":
        return with_mix()
    if name == "blocks":
        return with_blocks()
    if name == "components":
        return with_components()
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
        """Returns the place of the entry, and that of the tensor."""
        entry = self.at(TENSORS) + i * 64
        return entry, self.get(entry + 32, "Q")


def as_it_is(blob):
    return blob


def spoil(cases, name, change, *words, status=DAMAGED, of="1.0-int8", digests=repair):
    """A case more: `change` is made to a good blob, whose digests are then right again."""

    def content():
        image = Image(of)
        change(image)
        return bytes(digests(image.bytes))

    cases.append(Case(name, content, status, words))
