"""Bad blobs whose tokenizer or chat template is at fault, in all sections that these have: see
hostile_blobs.py."""

import functools

from blob_images import SCANNER_PLACES, TEMPLATE_PLACES, TOKENIZER_FIELDS, as_it_is, spoil, xxh3
from smol_reader import NO_TOKEN, SCANNER, TEXT, TEXT_FIELDS, TOKENIZER
from smol_reader import TEMPLATE as CHAT_TEMPLATE

TEXTS = []
spoilt = functools.partial(spoil, TEXTS)

# --- tokenizer --------------------------------------------------------------------------------


def in_tokenizer(name, value, *words, mark=""):
    words = words or ("tokenizer",)
    spoilt(f"19 {name} is {value}{mark}", lambda b: b.tokenizer(name, value), *words)


spoilt("18 the tokenizer's digest", lambda b: b.put(b.table("text"), "B", 1), "section tokenizer",
       digests=as_it_is)  # fmt: skip

spoilt("19 no room for the header [length]", lambda b: b.resize(TOKENIZER, 63), "too small for its header")
spoilt("19 nothing but the header", lambda b: b.resize(TOKENIZER, 64), "no room for a table")
spoilt("19 room after the tables", lambda b: b.resize(TOKENIZER, b.size(TOKENIZER) + 64),
       "must end with its last table")  # fmt: skip
in_tokenizer("n_tokens", 42, "more tokens than")
in_tokenizer("n_tokens", 2**32 - 1, "more tokens than", mark=" [23605]")
in_tokenizer("n_tokens", 0, mark=" [zero]")
in_tokenizer("n_text_bytes", 0)
in_tokenizer("n_text_bytes", 2**32 - 1, "no room for a table", mark=" [length]")
for value in (0, 3, 2**32 - 1):
    in_tokenizer("n_merge_slots", value, "power of two", mark=" [zero]")
for value in (1, 1 << 28, 1 << 31):  # the second one times 16 is 2^32
    in_tokenizer("n_merge_slots", value, mark=" [23605]")
in_tokenizer("max_probe", 256, "max_probe")
in_tokenizer("max_probe", 0, "bad merge")
in_tokenizer("n_added", 1 << 28, "no room for a table", mark=" [23605]")
in_tokenizer("n_class_blocks", 0)
in_tokenizer("n_class_blocks", 1 << 24, "no room for a table", mark=" [23605]")
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
       "no such token (byte 0)")  # fmt: skip
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
    "the space (U+0020) must be white space",
)

# --- text -------------------------------------------------------------------------------------


def in_text(name, change, *words):
    spoilt(f"17 {name}, in the text section", change, *(words or ("section text",)), of="text")


for name, value in [
    ("flags", 64), ("flags", 2**31), ("flags", 62), ("flags", 0), ("split", 0xD800), ("split", 2**32 - 1),
    ("strip", 0x110000), ("strip", 0), ("n_strip", 0), ("n_strip", 65), ("max_probe", 256),
    ("max_probe", 0), ("n_before", 17), ("n_before", 2**32 - 1), ("n_after", 17), ("n_steps", 9),
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


def names_that_share_text(b):
    """A second name, which overlaps the first, in the slot where it is found."""
    at = b.text_table("n_pool")
    size = b.get(b.at(TEXT) + TEXT_FIELDS.index("n_pool") * 4, "I")
    pool, free = bytes(b.bytes[at : at + size]), 1 - (xxh3(b"ab") & 1)
    start, length = next(
        (start, end - start) for end in (size, size - 1) for start in (0, 1)
        if end - start > size - 2 and xxh3(pool[start:end]) & 1 == free
    )  # fmt: skip
    b.put(b.text_table("n_name_slots") + 12 * free, "3I", 3, start, length)


in_text("names that share text", names_that_share_text, "names share text")
for name, value in [("unknown_id", 2**31), ("unknown_id", 2**32 - 2)]:
    spoilt(f"19 {name} is {value}", lambda b, n=name, v=value: b.text(n, v),
           "ids without a token", of="text")  # fmt: skip
spoilt("19 an id around that has no token", lambda b: b.put(b.text_table("n_after"), "I", 999),
       "ids without a token", of="text")  # fmt: skip
spoilt("19 a byte of two bytes", lambda b: b.put(b.table("token_spans") + 4, "HH", 2, 4), "bad entry",
       of="text")  # fmt: skip
spoilt("19 a token flag that is none", lambda b: b.put(b.table("token_spans") + 6, "H", 16), "bad entry",
       of="text")  # fmt: skip
spoilt("9 no feature, with text", lambda b: b.put(40, "Q", 0), "wrong number of sections", of="text")

# --- scanner ----------------------------------------------------------------------------------


def in_scanner(name, change, *words):
    spoilt(f"17 {name}, in a scanner", change, *words, of="scanner")


def scanner_put(place, kind, value, more=0):
    place = SCANNER_PLACES.get(place, place) + more
    return lambda b: b.put(b.at(SCANNER) + place, kind, value)


for field, values in [
    ("n_stages", (0, 2, 17, 2**32 - 1)), ("n_class_blocks", (0, 2, 4353, 2**32 - 1)),
    ("n_classes", (0, 1, 3, 256, 2**32 - 1)), ("row", (0, 2, 3, 8, 512, 2**31)),
    ("n_states", (0, 2, 4, 2**18 + 1, 2**32 - 1)), ("n_ahead_states", (1, 2**32 - 1)), ("n_looks", (1, 4, 2**32 - 1)),
    ("reserved", (1,)),
]:  # fmt: skip
    at = 4 * "n_stages n_class_blocks n_classes row n_states n_ahead_states n_looks reserved".split().index(field)
    for value in values:
        in_scanner(f"{field} is {value}", scanner_put(at, "I", value), "scanner: ")
for what, place, kind, value, more in [
    ("a stage with no states", "stage", "I", 0, 0), ("a stage with more states", "stage", "I", 4, 0),
    ("a behaviour", "stage", "I", 5, 4), ("a flag", "stage", "I", 32, 8),
    ("empty matches without the feature", "stage", "I", 16, 8),
    ("a stage that reads states backwards that there are not", "stage", "I", 1, 12), ("a class block", "index", "H", 1, 8702),
    ("a class", "block", "B", 2, 255), ("a byte's class", "bytes", "B", 2, 255),
    ("no start", "starts", "H", 0, 2), ("starts that differ", "starts", "H", 2, 2),
    ("a start past the states", "starts", "H", 3, 0), ("a start of no symbol", "starts", "H", 1, 6),
    ("a way on from state 0", "states", "H", 4, 0), ("a match in state 0", "states", "H", 1, 0),
    ("an empty match", "states", "H", 1, 8), ("a way back to the start", "states", "H", 2, 8),
    ("a state that there is not", "states", "H", 6, 8), ("a transition past the end", "states", "H", 4, 12),
    ("a transition of no symbol", "states", "H", 1, 14), ("padding", 80, "B", 1, 0),
    ("padding after the starts", 9360, "B", 1, 0),
]:  # fmt: skip
    in_scanner(f"{what} [{value}]", scanner_put(place, kind, value, more), "scanner: ")
in_scanner("its end missing", lambda b: b.resize(SCANNER, 9400), "scanner: ")
in_scanner("bytes after it", lambda b: b.resize(SCANNER, 9472), "scanner: ")
in_scanner("a tokenizer without it", lambda b: b.tokenizer("pretokenizer", 2), "does not match the scanner")
in_scanner("no feature", lambda b: b.put(40, "Q", 0), "wrong number of sections")

# --- chat template ----------------------------------------------------------------------------


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
in_template("a style of tool calls without the feature", 32, "I", 1, "tools feature")
in_template("a style of tool calls that there is not", 32, "I", 99, "bad style of tool calls")
spoilt("17 the feature tools without a style", lambda b: b.put(40, "Q", 2 + 32), "tools feature", of="template")
in_template("a type that there is not", 64, "I", 6, "bad constant")
in_template("a text past the end", 64 + 8, "Q", 9, "bad constant")
in_template("a text whose end wraps", 64 + 8, "Q", 2**64 - 1, "bad constant")
in_template("texts that overlap", 64 + 4, "I", 2, "strings share text")
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
spoilt("17 a byte after the template", lambda b: b.resize(CHAT_TEMPLATE, 202), "does not end",
       of="template")  # fmt: skip
spoilt("9 no feature, with a template", lambda b: b.put(40, "Q", 0), "wrong number of sections",
       of="template")  # fmt: skip
