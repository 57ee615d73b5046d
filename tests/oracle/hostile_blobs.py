"""Bad blobs: front, model, tensors and weights, and with those of hostile_texts.py all of them. They
are named after the step of FORMAT.md section 9 that finds them."""

import functools
import struct

from blob_images import INFINITY, NAN, as_it_is, base, repair_front, spoil
from hostile_cases import DAMAGED, GIB, NUMERIC, OK, UNSUPPORTED, Case, Sparse
from hostile_texts import TEXTS
from smol_reader import (
    CAPS,
    CHUNK,
    DIGESTS,
    GENERATION,
    INV_FREQ,
    KINDS,
    LAYERS,
    LEVELS,
    MAGIC,
    MAX_FRONT,
    MODEL,
    MODEL_FIELDS,
    PROVENANCE,
    SCALES,
    STOP,
    TENSORS,
    TOKENIZER,
    WEIGHTS,
)

BLOBS = [*TEXTS]
spoilt = functools.partial(spoil, BLOBS)

# --- header and section table -----------------------------------------------------------------


def head(at, kind, *values):
    return lambda b: b.put(at, kind, *values)


BLOBS += [
    Case("1 empty", b"", DAMAGED, ("x.smol: ",)),
    Case("1 cut off within the magic", MAGIC[:5], DAMAGED, ("truncated within the header",)),
    Case("1 line ends changed", lambda: base("1.0-int8").replace(b"\r\n", b"\n", 1), DAMAGED,
         ("line endings were changed",)),
    Case("1 another magic", b"SMOL" + bytes(100), DAMAGED, ("x.smol: not ",)),
    Case("1 GGUF", b"GGUF" + bytes(104), (UNSUPPORTED, OK, UNSUPPORTED), ("GGUF",)),
    Case("1 a session", MAGIC[:3] + b"S" + MAGIC[4:] + bytes(100), UNSUPPORTED, ("a session, not",)),
    Case("1 statistics", MAGIC[:3] + b"C" + MAGIC[4:] + bytes(100), UNSUPPORTED,
         ("calibration statistics, not a",)),
    Case("1 a gibibyte of nothing", Sparse(b"", GIB), DAMAGED, ("x.smol: ",)),
    Case("2 cut off within the header", lambda: base("1.0-int8")[:63], DAMAGED, ("truncated",)),
    Case("4 cut off within the data", lambda: base("1.0-int8")[:-1], DAMAGED, ("truncated",)),
    Case("4 cut off after the header", lambda: base("1.0-int8")[:64], DAMAGED, ("truncated",)),
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
spoilt("4 file_size of 2^64 - 1 [53630]", head(24, "Q", 2**64 - 1), "file_size is out of range")
spoilt("4 file_size of 2^63 - 1", head(24, "Q", 2**63 - 1), "truncated")
spoilt("4 file_size 0", head(24, "Q", 0), "convert again", digests=as_it_is)
for offset in (0, 32, 64, 65535, 65537, 2**63, 2**64 - CHUNK):
    spoilt(f"5 data_offset {offset} [alias] [align] [53630]", head(32, "Q", offset),
           "data_offset is out of range", digests=as_it_is)  # fmt: skip
spoilt("6 the front's digest", head(8, "Q", 1), "digest of header and tables", digests=as_it_is)
spoilt("6 a changed table", head(400, "B", 1), "digest of header and tables", digests=as_it_is)
spoilt("7 a needed feature", head(40, "Q", 1 << 40), "features 0x10000000000",
       status=UNSUPPORTED)  # fmt: skip
for bit in (1 << 17, 1 << 18):
    spoilt(f"7 feature {bit} without that of an embedder", head(40, "Q", bit),
           "need the embedder feature")  # fmt: skip
spoilt("8 the reserved field", head(56, "Q", 1), "reserved")
for n in (0, 8, 10, 2**32 - 1, 0x0AAAAAAB):  # the last one times 24 is 8 beyond 2^32
    spoilt(f"9 {n} sections [23605]", head(20, "I", n), "wrong number of sections")
spoilt("10 a kind that is free", lambda b: b.put(b.entry(STOP), "I", 8), "unexpected entry in its place")
spoilt("10 a kind twice", lambda b: b.put(b.entry(STOP), "I", INV_FREQ), "unexpected entry in its place")
spoilt("10 a reserved field", lambda b: b.put(b.entry(STOP) + 4, "I", 1), "unexpected entry in its place")
for kind in KINDS:
    spoilt(f"10 section {kind} at 0 [alias]", lambda b, k=kind: b.offset(k, 0), "wrong offset or size",
           digests=repair_front)  # fmt: skip
    spoilt(f"10 section {kind} 64 bytes later", lambda b, k=kind: b.offset(k, b.at(k) + 64),
           "wrong offset or size")  # fmt: skip
spoilt("10 section 2 lies in section 1", lambda b: b.offset(INV_FREQ, b.at(MODEL)), "wrong offset or size")
for kind in (PROVENANCE, TENSORS, DIGESTS, WEIGHTS):
    for size in (2**64 - 1, 2**64 - 65536, 2**63, 1 << 40):
        spoilt(
            f"10 section {kind} of {size} bytes [53630] [27940] [length]",
            lambda b, k=kind, s=size: b.put(b.entry(k) + 16, "Q", s),
            "wrong offset or size",
        )
spoilt("10 the tokenizer's size wraps to nothing [27940]",
       lambda b: b.put(b.entry(TOKENIZER) + 16, "Q", 2**64 - 1), "wrong offset or size")  # fmt: skip


def wrap_weights(b):
    """The tokenizer ends so near 2^64 that the next multiple of 65536 is 0."""
    b.put(b.entry(TOKENIZER) + 16, "Q", 2**64 - 10 - b.at(TOKENIZER))
    b.offset(WEIGHTS, 0)
    b.put(b.entry(WEIGHTS) + 16, "Q", 2**64 - 10)
    b.put(24, "Q", 2**64 - 10)


spoilt("4 the weights' offset wraps to 0 [27940]", wrap_weights, "file_size is out of range")
spoilt("10 a byte between the tables", lambda b: b.put(b.at(STOP) - 1, "B", 1), "padding")
spoilt("10 a byte after the tables", lambda b: b.put(b.at(TOKENIZER) - 1, "B", 1), "padding")
spoilt("10 a byte between the data sections", lambda b: b.put(b.at(WEIGHTS) - 1, "B", 1), "padding")
spoilt("11 the data starts before the tokenizer", head(32, "Q", 2 * CHUNK), "do not start at")
spoilt("11 bytes after the weights", lambda b: b.append(bytes(64)), "after the last section")

# --- model ------------------------------------------------------------------------------------


def field_case(name, value, *words, rule="12", mark=""):
    spoilt(f"{rule} {name} is {value}{mark}", lambda b: b.model(name, value), *words)


spoilt("12 a model of 127 bytes [length]", lambda b: b.resize(MODEL, 127), "wrong size")
spoilt("12 no model", lambda b: b.resize(MODEL, 0), "convert again")
for name, low, high in [
    ("family", 0, 2), ("dtype", 0, 4), ("n_layers", 0, 1025), ("hidden_size", 0, 2**20 + 1),
    ("intermediate_size", 0, 2**22 + 1), ("n_heads", 0, 4097), ("n_kv_heads", 0, 4097),
    ("head_dim", 0, 1026), ("vocab_size", 0, 2**24 + 1), ("context_length", 0, 2**24 + 1),
]:  # fmt: skip
    field_case(name, low, name, mark=" [zero]")
    field_case(name, high, name)
    field_case(name, 2**32 - 1, name, mark=" [33298]")
for name in ("tied_embeddings", "attention_bias", "mlp_bias"):
    field_case(name, 2)
field_case("activation", 3)
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
spoilt("13 an entry too many", lambda b: b.resize(INV_FREQ, 12), "inv_freq: its size does not match")
spoilt("13 an entry too few [length]", lambda b: b.resize(INV_FREQ, 4), "inv_freq: its size does not match")
for value in (NAN, INFINITY, -0.5, 1.5):
    spoilt(f"13 inv_freq of {value}", lambda b, v=value: b.put(b.at(INV_FREQ), "f", v), "inv_freq")
spoilt("14 half an id", lambda b: b.resize(STOP, 6), "whole number of elements")
spoilt("14 an id twice", lambda b: b.put(b.at(STOP), "II", 2, 2), "section stop: ids")
spoilt("14 an id that there is not", lambda b: b.put(b.at(STOP), "II", 1, 41), "section stop: ids")
spoilt("15 no generation section", lambda b: b.resize(GENERATION, 60), "whole number of elements")
spoilt("15 an unknown bit", lambda b: b.put(b.at(GENERATION), "I", 64), "generation")
spoilt("15 a default that is absent", lambda b: b.put(b.at(GENERATION), "I", 0), "generation")
spoilt("15 do_sample 2", lambda b: b.put(b.at(GENERATION) + 4, "I", 2), "generation")
for value in (NAN, INFINITY, -1.0):
    spoilt(f"15 temperature {value}", lambda b, v=value: b.put(b.at(GENERATION) + 12, "f", v),
           "generation")  # fmt: skip
spoilt("15 a reserved byte", lambda b: b.put(b.at(GENERATION) + 63, "B", 1), "generation")


def in_blocks(name, change, *words):
    spoilt(f"12 {name}, with blocks", change, *words, of="blocks")


for name, value in [
    ("attention_bias", 3), ("activation", 2), ("activation", 4), ("blocks", 12), ("blocks", 16),
    ("blocks", 20), ("blocks", 32), ("blocks", 64), ("blocks", 65), ("blocks", 66), ("blocks", 128),
    ("blocks", 512), ("blocks", 770), ("blocks", 1024), ("blocks", 2048), ("blocks", 4096),
    ("blocks", 2**32 - 1), ("query_period", 1), ("query_period", 2**24 + 1), ("rotary_dim", 0),
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
in_blocks("a layer too few", lambda b: b.resize(LAYERS, 0), "layers: its size does not match")
in_blocks("no feature", lambda b: b.put(40, "Q", 0), "wrong number of sections")
def in_components(name, change, *words):
    spoilt(f"12 {name}, with components", change, *words, of="components")


for name, value in [
    ("blocks", 16), ("blocks", 64 + 1), ("blocks", 64 + 2), ("blocks", 512), ("blocks", 4096),
    ("query_period", 0), ("query_period", 2**24 + 1), ("query_growth", 0.0), ("query_growth", -0.0),
    ("query_growth", -1.0), ("query_growth", NAN), ("query_growth", INFINITY), ("activation", 3),
]:  # fmt: skip
    in_components(f"{name} is {value}", lambda b, n=name, v=value: b.model(n, v))
for bit, name in ((64, "LayerNorms"), (128, "no gate"), (1024, "positions"), (2048, "an output bias")):
    in_components(f"{name} that there are not", lambda b, v=32 + bit: b.model("blocks", v),
                  "wrong number of tensors")  # fmt: skip
in_components("no feature for them", lambda b: b.put(40, "Q", 1), "do not match the components feature")
in_components("no feature", lambda b: b.put(40, "Q", 64), "wrong number of sections")
in_blocks("components that there are not", lambda b: b.put(40, "Q", 65), "do not match the components")
in_blocks("a plain model", lambda b: b.put(b.at(MODEL) + 72, "48x"), "do not match the blocks feature")

# --- tensors and digests ----------------------------------------------------------------------


def grow_weights(b):
    b.append(bytes(64))
    b.put(b.entry(WEIGHTS) + 16, "Q", b.size(WEIGHTS) + 64)


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
               "does not match the model")  # fmt: skip
field_case("n_layers", 1, "wrong number of tensors", rule="16")
field_case("n_layers", 1024, "wrong number of tensors", rule="16", mark=" [23605]")
field_case("vocab_size", 2**24, "does not match the model", rule="16", mark=" [33298]")
spoilt("16 the model of f32 says int8 [type]", lambda b: b.model("dtype", 3),
       "does not match the model", of="1.0-f32")  # fmt: skip
spoilt("16 biases that there are not", lambda b: b.model("mlp_bias", 1), "wrong number of tensors")
spoilt("16 an output that is tied and has bytes", lambda b: b.model("tied_embeddings", 1),
       "does not match the model", of="1.0-bf16")  # fmt: skip
spoilt("16 room after the tensors", grow_weights, "do not fill the weights section")
spoilt("17 a digest too many [23605]", lambda b: b.resize(DIGESTS, b.size(DIGESTS) + 8),
       "wrong number of chunk digests")  # fmt: skip
spoilt("17 a digest too few", lambda b: b.resize(DIGESTS, 8), "wrong number of chunk digests",
       digests=repair_front)  # fmt: skip
spoilt("17 half a digest", lambda b: b.resize(DIGESTS, 20), "whole number of elements")

# --- mixed dtypes -----------------------------------------------------------------------------

# tensors: 0 embed (int6), 2 attn_q (int4), 3 attn_k (int8), 4 attn_v (int5)


def in_mix(name, change, *words):
    spoilt(f"16 {name}, in a mix", change, *words, of="mix")


def entry(i, place, value):
    return lambda b: b.put(b.tensor(i)[0] + place, "I", value)


def level(table, i, value):
    return lambda b: b.put(b.at(LEVELS) + table * 64 + i, "b", value)


for dtype in (0, 1, 2, 7, 2**32 - 1):
    in_mix(f"a matrix of dtype {dtype} [type]", entry(2, 8, dtype), "dtype that is not allowed")
for dtype in (3, 4, 5):
    in_mix(f"an int4 matrix that says {dtype} [type]", entry(2, 8, dtype), "tensor layers.0.attn_q")
in_mix("a vector of int8 [type]", entry(1, 8, 3), "does not match the model")
in_mix("a table that comes too early [index]", entry(0, 48, 1), "not next in order")
in_mix("a table that there is not [index]", entry(4, 48, 3), "not next in order")
in_mix("table 2^32 - 1 [index]", entry(2, 48, 2**32 - 1), "not next in order")
in_mix("a table of another dtype", entry(4, 48, 1), "levels that are malformed")
in_mix("a table of int8", entry(3, 48, 1), "int8 uses none")
in_mix("a table of a vector", entry(1, 48, 1), "does not match the model")
in_mix("the first reserved byte", entry(2, 52, 1), "does not match the model")
in_mix("the last reserved byte", entry(2, 60, 2**24), "does not match the model")
in_mix("levels that do not ascend", level(0, 1, -127), "levels that are malformed")
in_mix("a level of -128", level(1, 0, -128), "levels that are malformed")
in_mix("a byte after the levels", level(1, 16, 127), "levels that are malformed")
in_mix("the last byte after the levels", level(2, 63, 1), "levels that are malformed")
in_mix("half a table", lambda b: b.resize(LEVELS, 160), "whole number of elements")
in_mix("a table too few", lambda b: b.resize(LEVELS, 128), "not next in order")
in_mix("no tables [length]", lambda b: b.resize(LEVELS, 0), "not next in order")
in_mix("no feature", lambda b: b.put(40, "Q", 0), "wrong number of sections")
in_mix("a bf16 model [type]", lambda b: b.model("dtype", 2), "does not match the mixed feature")
in_mix("an f32 model [type]", lambda b: b.model("dtype", 1), "does not match the mixed feature")
spoilt("16 int4 without the feature [type]", lambda b: b.put(b.tensor(2)[0] + 8, "I", 6), "does not match the model")

# --- weights ----------------------------------------------------------------------------------

# The next ones break bytes that are checked at first use, so inspect finds nothing.
USED = (DAMAGED, OK, DAMAGED)
spoilt("20 a weight's digest", lambda b: b.put(len(b.bytes) - 1, "B", 1), "data damaged (weights",
       status=USED, digests=as_it_is)  # fmt: skip
spoilt("20 another digest", lambda b: b.put(b.at(DIGESTS) + 8, "Q", 1), "data damaged (weights",
       status=USED, digests=repair_front)  # fmt: skip
# And these harm nobody who runs them: results are numbers or a complaint about NaN.
HARMLESS = (DAMAGED, OK, (OK, NUMERIC))


def in_tensor(name, i, place, kind, value, of):
    spoilt(f"21 {name} ({of.removeprefix('1.0-')})", lambda b: b.put(b.tensor(i)[1] + place, kind, value),
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
in_tensor("after a vector", 1, 12 * 4, "B", 1, "1.0-int8")
in_tensor("a vector's NaN", 1, 0, "f", NAN, "1.0-int8")
in_tensor("an infinite weight", 0, 0, "H", 0x7F80, "1.0-bf16")
in_tensor("a missing row", 0, 2 * 6 * 64 + 9 * 4, "H", 1, "1.0-bf16")
in_tensor("a weight that is NaN", 0, 0, "f", NAN, "1.0-f32")
in_tensor("a missing row", 0, 2 * 12 * 64 + 9 * 4, "I", 1, "1.0-f32")
# embed of int6: (41, 12): scales of 16 rows, four lines of nibbles, two of pairs of bits
for place, kind, value, what in [
    (0, "H", 0x7C00, "an infinite scale"), (0, "H", 0xFE00, "a scale that is NaN"),
    (0, "H", 0x8000, "a scale of -0"), (32, "H", 1, "the scales of a group that there is not"),
    (2 * 448 + 9 * 2, "H", 1, "a missing row's scale"),
    (2 * 448 + 64 + 9 * 4, "B", 1, "a missing row's code"),
    (2 * 448 + 64 + 256 + 9 * 4, "B", 1, "a missing row's upper bits"),
    (64 + 1 * 64, "B", 0x10, "a missing input's code"),
    (64 + 256, "B", 0x40, "a missing input's upper bits"),
    (64 + 320, "B", 1, "a missing input's upper bits in the second line"),
]:  # fmt: skip
    in_tensor(what, 0, place, kind, value, "mix")
