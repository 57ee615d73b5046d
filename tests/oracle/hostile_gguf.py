"""Bad GGUF files. The base is a container without fault, whose model is none: what accepts it says that
general.architecture is missing. Cases that made published flaws in other readers are marked as hostile.py
explains."""

import struct

from hostile_cases import DAMAGED, GIB, UNSUPPORTED, Case, Sparse

GGUF = []
U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10
BIG = 2**64 - 1


def text(content, size=None):
    raw = content if isinstance(content, bytes) else content.encode()
    return struct.pack("<Q", len(raw) if size is None else size) + raw


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def items(kind, n, data=b""):
    return struct.pack("<IQ", kind, n) + data


def tensor(name="a", dims=(2, 3), kind=0, offset=0, rank=None):
    head = text(name) + struct.pack("<I", len(dims) if rank is None else rank)
    return head + struct.pack(f"<{len(dims)}QIQ", *dims, kind, offset)


def assemble(pairs=(), tensors=(tensor(),), data=bytes(24), version=3, n_tensors=None, n_pairs=None, alignment=32):
    counts = (len(tensors) if n_tensors is None else n_tensors, len(pairs) if n_pairs is None else n_pairs)
    head = b"GGUF" + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + b"".join(tensors)
    return head.ljust(-(-len(head) // alignment) * alignment, b"\0") + data


def case(name, content, *words, status=DAMAGED):
    GGUF.append(Case(name, content, status, words))


BASE = assemble()
case("no fault in the container", BASE, "general.architecture is missing")
case("nothing but the magic", b"GGUF", "truncated")
case("a gibibyte of nothing", Sparse(b"GGUF", GIB), "GGUF version 0", status=UNSUPPORTED)
case("ends in the counts", BASE[:20], "truncated")
for end in (33, 45, 60, len(BASE) - 1):
    case(f"ends at byte {end}", BASE[:end], "byte" if end < 60 else "truncated")
case("version 1", assemble(version=1), "version 1", status=UNSUPPORTED)
case("version 4", assemble(version=4), "version 4", status=UNSUPPORTED)
case("big-endian", assemble(version=3 << 24), "big-endian", status=UNSUPPORTED)

# counts
case("2^64 - 1 tensors [23605]", assemble(n_tensors=BIG), "its number of tensors needs")
case("tensors whose table wraps [23605]", assemble(n_tensors=2**59), "its number of tensors needs")
case("2^64 - 1 keys [23605]", assemble(n_pairs=BIG), "its number of keys needs")
case("keys whose table wraps [23605]", assemble(n_pairs=2**58 + 1), "its number of keys needs")
case("one key more than there is", assemble(n_pairs=1), "byte")
case("2^31 tensors in a gibibyte of nothing", Sparse(assemble((), (), b"", n_tensors=2**31), GIB), "number of tensors")
case("2^25 keys in a gibibyte of nothing", Sparse(assemble((), (), b"", n_pairs=2**25), GIB), "key is empty")
case("2^24 tensors in a gibibyte of nothing", Sparse(assemble((), (), b"", n_tensors=2**24), GIB), "name is empty")

# keys and values
ARCH = pair("general.architecture", STRING, text("llama"))
case("a key past the end [length]", assemble([text("k", BIG)], ()), "longer than the rest")
case("8 + a length wraps [53630]", assemble([text("k", BIG - 7)], ()), "longer than the rest")
case("an empty key", assemble([pair("", U8, b"\0")]), "a key is empty")
case("a key that is not UTF-8", assemble([pair(b"\xff", U8, b"\0")]), "not UTF-8")
case("a key with a NUL", assemble([pair("a\0b", U8, b"\0")]), "not UTF-8")
case("a key twice", assemble([pair("k", U8, b"\0")] * 2), "k appears twice")
case("an unknown type [type]", assemble([pair("k", 13, b"\0")]), "unknown type")
case("type 2^32 - 1 [type]", assemble([pair("k", 2**32 - 1, b"\0")]), "unknown type")
case("a string past the end [length]", assemble([pair("k", STRING, text("v", GIB))]), "longer than the rest")
case("a flag of 2", assemble([pair("k", BOOL, b"\2")]), "neither 0 nor 1")
case("a list past the end [length]", assemble([pair("k", ARRAY, items(U64, 2**40))]), "more items")
case("a list whose bytes wrap [23605]", assemble([pair("k", ARRAY, items(U64, 2**61 + 1))]), "more items")
case("a list of 2^64 - 1 bytes [53630]", assemble([pair("k", ARRAY, items(U8, BIG))]), "more items")
case("a list of 2^61 strings [23605]", assemble([pair("k", ARRAY, items(STRING, 2**61))]), "more items")
case("a list of an unknown type [type]", assemble([pair("k", ARRAY, items(99, 1))]), "unknown type")
NESTED = b"".join(struct.pack("<IQ", ARRAY, 1) for _ in range(100000))
case("lists within lists [depth]", assemble([pair("k", ARRAY, NESTED)]), "list of lists", status=UNSUPPORTED)
case("a list of empty lists", assemble([pair("k", ARRAY, items(ARRAY, 0))]), "list of lists", status=UNSUPPORTED)

# tensors
def tensors(name, *all, words, status=DAMAGED, **named):
    case(name, assemble((), all, **named), words, status=status)


tensors("no dimensions [zero]", tensor(dims=()), words="no dimensions")
tensors("5 dimensions [21802]", tensor(dims=(1,) * 5), words="more than 4")
tensors("2^32 - 1 dimensions [21802]", tensor(rank=2**32 - 1), words="more than 4")
tensors("a dimension of 0 [zero]", tensor(dims=(0, 2)), words="dimension of 0")
tensors("a product that wraps to 0 [33298]", tensor(dims=(2**32, 2**32)), words="2^64 elements")
tensors("a product that wraps to 6 [33298]", tensor(dims=(2**63 + 3, 2)), words="2^64 elements")
tensors("bytes that wrap [27940]", tensor(dims=(2**62, 1)), words="over 2^64 bytes")
tensors("bytes of blocks that wrap [27940]", tensor(dims=(2**63, 1), kind=24), words="truncated")
tensors("rows that are not whole blocks", tensor(dims=(33, 2), kind=2), words="whole blocks")
tensors("an unknown type [type]", tensor(kind=99), words="type 99 (unknown)", status=UNSUPPORTED)
tensors("type 4, which was removed [type]", tensor(kind=4), words="type 4 (unknown)", status=UNSUPPORTED)
tensors("type 2^32 - 1 [type]", tensor(kind=2**32 - 1), words="(unknown)", status=UNSUPPORTED)
tensors("a type that is not read", tensor(dims=(256, 1), kind=17), words="IQ2_XS", status=UNSUPPORTED)
tensors("a name past the end [length]", text("a", BIG), words="longer than the rest")
tensors("an empty name", tensor(name=""), words="name is empty")
tensors("a name of 128 bytes [length]", tensor(name="n" * 128), words="over 127")
tensors("a name with a NUL", tensor(name="a\0b"), words="not UTF-8")
tensors("a name twice", tensor(), tensor(offset=32), data=bytes(64), words="appears twice")
tensors("data past the end [7482]", tensor(dims=(2, 300)), words="truncated")
tensors("an offset past the end [7482]", tensor(offset=2**40), words="gap")
tensors("an offset that wraps [53630]", tensor(), tensor(name="b", offset=BIG - 31), data=bytes(64), words="gap")
tensors("an offset into the header [alias]", tensor(), tensor(name="b", offset=BIG - 63), data=bytes(64), words="gap")
tensors("two tensors at one place [alias]", tensor(), tensor(name="b"), words="overlaps")
tensors("two that overlap [alias]", tensor(dims=(9, 1)), tensor(name="b", offset=32), data=bytes(64), words="overlaps")
tensors("an offset that is not aligned", tensor(), tensor(name="b", offset=25), data=bytes(64), words="aligned")
tensors("a gap", tensor(), tensor(name="b", offset=64), data=bytes(96), words="gap")
tensors("bytes after the last tensor", tensor(), data=bytes(24 + 32), words="after the last tensor")


# alignment
def aligned(name, value, kind=U32, form="<I", words="power of two"):
    case(name, assemble([pair("general.alignment", kind, struct.pack(form, value))]), words)


aligned("an alignment of 0 [zero]", 0)
aligned("an alignment of 3 [align]", 3)
aligned("an alignment of 2^31 [align]", 2**31, words="truncated")
aligned("an alignment of another type [type]", 32, F32, "<f")
aligned("an alignment of 64 bits [align]", 2**63, U64, "<Q")
case("an alignment that is a list [type]",
     assemble([pair("general.alignment", ARRAY, items(U32, 1, struct.pack("<I", 32)))]), "power of two")  # fmt: skip

# keys of the model
EMBED = tensor("token_embd.weight")
NEEDED = {
    f"llama.{key}": (U32, struct.pack("<I", 1)) for key in ("block_count", "context_length", "embedding_length", "attention.head_count")
} | {"llama.attention.layer_norm_rms_epsilon": (F32, struct.pack("<f", 1e-5))}


def model(name, *pairs, words, status=DAMAGED, lacks=()):
    """Adds a case with the keys that every model has, unless `pairs` have them or `lacks` names them."""
    needed = [pair(key, *value) for key, value in NEEDED.items()
              if key not in lacks and not any(given.startswith(text(key)) for given in pairs)]  # fmt: skip
    case(name, assemble([ARCH, *needed, *pairs], (EMBED,)), words, status=status)


model("an architecture alone", words="llama.block_count is missing", lacks=NEEDED)
for missing in NEEDED:
    model(f"a model without {missing}", words=f"{missing} is missing", lacks=(missing,))
model("no tokenizer", words="tokenizer.ggml.model is missing", status=UNSUPPORTED)
case("an architecture that is a number [type]", assemble([pair("general.architecture", U8, b"\1")]), "is missing")
model("a size that is text [type]", pair("llama.block_count", STRING, text("2")), words="must be an integer",
      status=UNSUPPORTED)  # fmt: skip
model("a list of sizes [type]", pair("llama.feed_forward_length", ARRAY, items(U32, 1, bytes(4))), words="an integer")
model("negative layers", pair("llama.block_count", 5, struct.pack("<i", -1)), words="an integer")
model("2^40 layers", pair("llama.block_count", U64, struct.pack("<Q", 2**40)), words="an integer")
model("an epsilon that is not a number", pair("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", float("nan"))),
      words="a number")  # fmt: skip
model("heads of 0 [zero]", pair("llama.attention.head_count", U32, bytes(4)), pair("llama.embedding_length", U32, bytes(4)),
      words="tokenizer.ggml.model is missing", status=UNSUPPORTED)  # fmt: skip
NAN = struct.pack("<f", float("nan"))
model("a factor that is not a number", pair("llama.rope.scaling.type", STRING, text("linear")),
      pair("llama.rope.scaling.factor", F32, NAN), words="llama.rope.scaling.factor must be a number")  # fmt: skip
case("rotary factors that are not numbers",
     assemble([ARCH, *(pair(key, *value) for key, value in NEEDED.items())],
              (EMBED, tensor("rope_factors_long.weight", (1,), offset=32)), bytes(32) + NAN),
     "rope_factors_long.weight must be a list of at most")  # fmt: skip

GPT2 = [pair("tokenizer.ggml.model", STRING, text("gpt2")), pair("tokenizer.ggml.pre", STRING, text("gpt-2"))]
MERGES = pair("tokenizer.ggml.merges", ARRAY, items(STRING, 1, text("a b")))


def tokens(*all):
    return pair("tokenizer.ggml.tokens", ARRAY, items(STRING, len(all), b"".join(map(text, all))))


model("no tokens", *GPT2, MERGES, words="list of 1 to")
model("tokens that are numbers [type]", *GPT2, MERGES, pair("tokenizer.ggml.tokens", ARRAY, items(U8, 2, b"ab")), words="list of 1 to")
model("merges that are numbers [type]", *GPT2, tokens("a"), pair("tokenizer.ggml.merges", ARRAY, items(U8, 1, b"a")), words="list of texts")
model("fewer kinds than tokens [21802]", *GPT2, MERGES, tokens("a", "b"),
      pair("tokenizer.ggml.token_type", ARRAY, items(5, 1, bytes(4))), words="each of the 2 tokens")  # fmt: skip
model("kinds that are bytes [type]", *GPT2, MERGES, tokens("a", "b"),
      pair("tokenizer.ggml.token_type", ARRAY, items(U8, 2, b"\1\1")), words="each of the 2 tokens")  # fmt: skip
model("a token twice", *GPT2, MERGES, tokens("a", "a"), words="two tokens")
model("a token that is not UTF-8", *GPT2, MERGES, tokens("a", b"\xff"), words="not UTF-8")
model("a merge that is not UTF-8", *GPT2, tokens("a"), pair("tokenizer.ggml.merges", ARRAY, items(STRING, 1, text(b"\xff"))),
      words="not UTF-8")  # fmt: skip
model("bos past the end [21802]", *GPT2, MERGES, tokens("a"), pair("tokenizer.ggml.bos_token_id", U32, struct.pack("<I", 1)),
      words="the id of a token")  # fmt: skip
model("a piece of 60000 bytes", pair("tokenizer.ggml.model", STRING, text("llama")), tokens("a", "a" * 60000),
      pair("tokenizer.ggml.token_type", ARRAY, items(5, 2, struct.pack("<ii", 1, 1))),
      pair("tokenizer.ggml.scores", ARRAY, items(F32, 2, bytes(8))), words="longer than 256 bytes", status=UNSUPPORTED)  # fmt: skip
RUNS = ["a" * i + "b" * j for i in range(152) for j in range(152 - i) if i + j]  # every cut of one makes two others
model("pieces that make a million merges", pair("tokenizer.ggml.model", STRING, text("llama")), tokens(*RUNS),
      pair("tokenizer.ggml.token_type", ARRAY, items(5, len(RUNS), struct.pack("<i", 1) * len(RUNS))),
      pair("tokenizer.ggml.scores", ARRAY, items(F32, len(RUNS), bytes(4 * len(RUNS)))),
      words="more than 1048576 merges", status=UNSUPPORTED)  # fmt: skip
model("a score that is not a number", pair("tokenizer.ggml.model", STRING, text("llama")), tokens("a", "b"),
      pair("tokenizer.ggml.token_type", ARRAY, items(5, 2, struct.pack("<ii", 1, 1))),
      pair("tokenizer.ggml.scores", ARRAY, items(F32, 2, struct.pack("<ff", 0, float("nan")))), words="score of token 1 is not a number")  # fmt: skip
