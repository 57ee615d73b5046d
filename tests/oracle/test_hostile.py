"""The programs refuse every bad file of hostile.py, in words and with the right status, within its
limits of memory and time; readers that we share no code with agree. scripts/check runs hostile.py
on the sanitized programs too."""

import pytest
from blob_images import xxh3
from hostile import (
    check_blob,
    check_delta,
    check_gguf,
    check_json,
    check_packed,
    check_safetensors,
    check_shards,
    check_stats,
)
from hostile_blobs import BLOBS
from hostile_cases import OK, UNSUPPORTED, shortened
from hostile_deltas import DELTAS, PATCHED
from hostile_gguf import GGUF
from hostile_json import JSON
from hostile_packed import PACKED
from hostile_safetensors import SAFETENSORS
from hostile_shards import SHARDS
from hostile_stats import STATS
from internal import BUILD
from smol_reader import Blob, Damaged, Unsupported
from test_safetensors import agree

FOREIGN = {"1 GGUF", "1 a session", "1 statistics"}  # which we name, and so call unsupported


def by_name(case):
    return case.name


def test_there_is_a_case_for_every_rule():
    steps = {int(case.name.split()[0]) for case in BLOBS}
    assert steps == set(range(1, 22))
    assert {case.name.split()[1] for case in DELTAS} >= {*map(str, range(1, 17))} - {"11"}
    assert min(len(BLOBS), len(SAFETENSORS), len(GGUF), len(JSON)) >= 60
    marks = " ".join(case.name for case in [*BLOBS, *SAFETENSORS, *GGUF, *(case for _, case in JSON)])
    for mark in "21802 23605 53630 27940 33298 7482 length zero align type alias depth".split():
        assert f"[{mark}]" in marks


@pytest.mark.sample(120)
@pytest.mark.parametrize("case", BLOBS, ids=by_name)
def test_a_blob_that_breaks_a_rule_is_refused(case, tmp_path):
    assert check_blob(case, BUILD, tmp_path) == []


@pytest.mark.sample(300)
@pytest.mark.parametrize("case", BLOBS, ids=by_name)
def test_the_reader_written_from_the_document_agrees(case):
    content = shortened(case.make())
    kind = Unsupported if case.strictest == UNSUPPORTED and case.name not in FOREIGN else Damaged
    with pytest.raises(kind):
        Blob(content, xxh3).check_padding()


@pytest.mark.sample(80)
@pytest.mark.parametrize("case", PACKED, ids=by_name)
def test_a_bad_packed_file_is_refused_and_leaves_nothing(case, tmp_path):
    assert check_packed(case, BUILD, tmp_path) == []


@pytest.mark.sample(80)
@pytest.mark.parametrize("case", [*DELTAS, *PATCHED], ids=by_name)
def test_a_bad_delta_makes_nothing(case, tmp_path):
    assert check_delta(case, BUILD, tmp_path) == []


@pytest.mark.sample(25)
@pytest.mark.parametrize("case", SAFETENSORS, ids=by_name)
def test_bad_safetensors_are_refused(case, tmp_path):
    assert check_safetensors(case, BUILD, tmp_path) == []


@pytest.mark.parametrize("case", SAFETENSORS, ids=by_name)
def test_the_reference_agrees_on_safetensors(case, tmp_path):
    content = shortened(case.make())
    assert agree(content, tmp_path / "model.safetensors") == (case.status == OK)


@pytest.mark.sample(35)
@pytest.mark.parametrize("case", GGUF, ids=by_name)
def test_a_bad_gguf_file_is_refused(case, tmp_path):
    assert check_gguf(case, BUILD, tmp_path) == []


@pytest.mark.sample(50)
@pytest.mark.parametrize(("file", "case"), JSON, ids=lambda value: getattr(value, "name", ""))
def test_bad_json_is_refused(file, case, tmp_path):
    assert check_json(file, case, BUILD, tmp_path) == []


SLOW_SHARDS = [pytest.param(c, marks=pytest.mark.slow) if "million" in c.name else c for c in SHARDS]


@pytest.mark.sample(12)
@pytest.mark.parametrize("case", SLOW_SHARDS, ids=by_name)
def test_a_bad_index_is_refused(case, tmp_path):
    assert check_shards(case, BUILD, tmp_path) == []


@pytest.mark.sample(25)
@pytest.mark.parametrize("case", STATS, ids=by_name)
def test_bad_statistics_are_refused(case, tmp_path):
    assert check_stats(case, BUILD, tmp_path) == []
