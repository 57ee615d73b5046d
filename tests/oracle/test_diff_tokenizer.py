"""smolconv diff of tokenizers."""

import json
import re
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from blobs import edited, read_blob, section
from checkpoints import make, make_of
from diffs import DEMO, Diff, convert, diff
from features import featured
from programs import smolconv
from safetensors.torch import load_file, save_file
from smol_reader import NO_TOKEN, TOKENIZER


@pytest.fixture()
def retokenized(tmp_path, demo_blob):
    """retokenized(edit): the bundled model's blob with tokenizer.json after edit(it)."""

    def build(edit):
        source = Path(shutil.copytree(DEMO, tmp_path / "source", dirs_exist_ok=True))
        content = json.loads((DEMO / "tokenizer.json").read_text())
        edit(content)
        (source / "tokenizer.json").write_text(json.dumps(content))
        return source, convert(source, tmp_path / "retokenized.smol")

    return build


def quoted(text):
    return '"' + text.decode().replace("\\", "\\\\").replace('"', '\\"') + '"'


def test_a_renamed_token_is_shown_by_id_with_its_text(demo_blob, retokenized):
    def rename(tokenizer):
        vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
        text = "".join(merges[-1])  # the last merge makes it, and none uses it
        vocabulary["ĠXyz"] = vocabulary.pop(text)
        merges[-1:] = []

    old = read_blob(demo_blob()).tokenizer
    token = max((m for m in old.merges if m[0] != NO_TOKEN), key=lambda m: m[2])[3]
    for side in retokenized(rename):
        found = diff(demo_blob(), side)
        assert found.status == 1 and "settings" not in found.rows
        assert found.cells("tokenizer")[f"token {token}"] == (quoted(old.bytes_of(token)), '" Xyz"')


def test_merges_are_compared_as_pairs_of_tokens(demo_blob, retokenized):
    def swap_and_drop(tokenizer):
        merges = tokenizer["model"]["merges"]
        merges[10], merges[20] = merges[20], merges[10]
        merges.pop()

    source, blob = retokenized(swap_and_drop)
    cells = diff(demo_blob(), blob).cells("tokenizer")
    n = {m[:2] for m in read_blob(demo_blob()).tokenizer.merges if m[0] != NO_TOKEN}
    left = {m[:2] for m in read_blob(blob).tokenizer.merges if m[0] != NO_TOKEN}
    assert cells.pop("merges") == (str(len(n)), str(len(left)))
    assert cells.pop("merge ranks") == ("2 of those in both",)
    ((pair,),) = [n - left]
    tokenizer = read_blob(demo_blob()).tokenizer
    name = "merge " + " ".join(quoted(tokenizer.bytes_of(i)) for i in pair)
    rank, merged = tokenizer.merges[tokenizer.find(*pair)][2:]
    assert cells == {name: (f"rank {rank}, gives {merged}", "-")}


def test_added_tokens_and_flags_are_compared(demo_blob, retokenized):
    def change(tokenizer):
        added = tokenizer["added_tokens"]
        added[1]["special"] = not added[1]["special"]
        added[2]["normalized"] = not added[2]["normalized"]

    _, blob = retokenized(change)
    old = read_blob(demo_blob()).tokenizer
    text = [quoted(old.bytes_of(i)) for i in range(3)]
    found = diff(demo_blob(), blob)
    assert found.rows["tokenizer"] == [
        f"  {'token 1':<23} {text[1] + ' special':<25} {text[1]}",
        f"  {f'added {text[2]}':<23} {'id 2':<25} -",
        f"  {f'added {text[2]}':<23} {'-':<25} id 2, normalized",
    ]


def test_other_patterns_of_words_are_shown(tmp_path, retokenized):
    """The pattern is in a section of its own."""

    def split_at(pattern):
        steps = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                 {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]  # fmt: skip
        _, blob = retokenized(lambda content: content.update(pre_tokenizer={"type": "Sequence", "pretokenizers": steps}))
        return blob.rename(tmp_path / f"{len(pattern)}.smol")

    found = diff(split_at(r"\p{N}{1,3}"), split_at(r"[\p{N}_]{1,3}"))
    assert found.status == 1 and not found.tensors and [line.split()[0] for line in found.rows["tokenizer"]] == ["splitting"]


def test_parts_between_one_another_are_compared_whole(tmp_path):
    """A head's queries, keys and values follow one another in a fused tensor: the last rows are its last head's values."""
    folder = make_of(featured("gptneox"), tmp_path / "a")
    other = Path(shutil.copytree(folder, tmp_path / "b"))
    name = "gpt_neox.layers.1.attention.query_key_value.weight"
    weights = load_file(folder / "model.safetensors")
    weights[name][-1, 3] += 1
    save_file(weights, other / "model.safetensors")
    found = diff(folder, other)
    assert found.status == 1 and set(found.tensors) == {"layers.1.attn_v"}
    assert found.tensors["layers.1.attn_v"].split()[0] == "1"


def test_tokenizers_of_other_sizes(tmp_path):
    a, b = make(tmp_path / "a"), make(tmp_path / "b")
    content = json.loads((b / "tokenizer.json").read_text())
    last = max(content["model"]["vocab"], key=content["model"]["vocab"].get)
    content["model"]["vocab"].pop(last)
    (b / "tokenizer.json").write_text(json.dumps(content))
    found = diff(convert(a, tmp_path / "a.smol"), convert(b, tmp_path / "b.smol"))
    cells = found.cells("tokenizer")
    assert cells["tokens"] == ("101", "100")
    text = read_blob(tmp_path / "a.smol").tokenizer.bytes_of(100)
    assert text == b"\xa7" and cells["token 100"] == ('"\\xa7"', "-")
    assert cells["token of byte a7"] == ("100", "-")


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_of_the_tokenizer_are_listed_by_id(tmp_path, demo_blob, seed):
    """Text bytes and flags, changed in place; compared with what smol_reader.py reads."""
    rng = np.random.default_rng(seed)
    tokenizer = read_blob(demo_blob()).tokenizer
    start, _ = section(demo_blob().read_bytes(), TOKENIZER)
    spans, text = struct.unpack_from("<II", demo_blob().read_bytes(), start + 32)
    added = {i for entry in tokenizer.added for i in range(entry[1], entry[1] + entry[2])}

    def change(data):
        for _ in range(int(rng.integers(1, 8))):
            at = int(rng.integers(len(tokenizer.text)))
            if at not in added:
                data[start + text + at] = int(rng.integers(256))
        for token in rng.integers(0, len(tokenizer.spans), 2):
            data[start + spans + int(token) * 8 + 6] ^= 1

    blob = edited(demo_blob(), tmp_path / "changed.smol", change)
    other = read_blob(blob).tokenizer
    due = [
        i
        for i in range(len(tokenizer.spans))
        if tokenizer.bytes_of(i) != other.bytes_of(i) or tokenizer.spans[i][2] != other.spans[i][2]
    ]
    result = smolconv("diff", demo_blob(), blob)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)
    found = Diff(result)
    shown = [x.split()[1] for x in found.rows["tokenizer"] if x.startswith("  token ")]
    assert shown == [str(i) for i in due[:10]]
    assert f"tokenizer {len(due)}," in found.summary
