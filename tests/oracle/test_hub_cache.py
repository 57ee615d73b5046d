"""The cache of the Hub as INPUT: models--OWNER--NAME with its links, read as huggingface_hub reads it."""
import shutil
from pathlib import Path

import pytest
from checkpoints import make
from huggingface_hub import snapshot_download
from programs import assert_fails, smolconv

REPO, FOLDER = "someone/tiny", "models--someone--tiny"
FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Two revisions of one model."""
    return [make(tmp_path_factory.mktemp(f"revision{i}"), seed=i) for i in range(2)]


def add_snapshot(cache, revision, checkpoint):
    """As huggingface_hub lays it out: files are links to ../../blobs/DIGEST."""
    snapshot = cache / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir(exist_ok=True)
    for file in checkpoint.iterdir():
        blob = f"{revision[0]}-{file.name}"
        shutil.copy(file, cache / "blobs" / blob)
        (snapshot / file.name).symlink_to(f"../../blobs/{blob}")
    return snapshot


@pytest.fixture()
def cache(tmp_path, checkpoints):
    """Both revisions; refs/main names the second."""
    folder = tmp_path / FOLDER
    for revision, checkpoint in zip((FIRST, SECOND), checkpoints):
        add_snapshot(folder, revision, checkpoint)
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(SECOND)
    return folder


def convert(source, out, *arguments):
    result = smolconv("--quiet", *arguments, source, out)
    assert (result.returncode, result.stderr) == (0, "")
    return out.read_bytes()


def test_the_revision_of_main_is_taken_as_the_reference_takes_it(tmp_path, cache, checkpoints):
    reference = snapshot_download(REPO, cache_dir=tmp_path, local_files_only=True)
    assert Path(reference).name == SECOND
    blob = convert(cache, tmp_path / "cache.smol")
    assert blob == convert(reference, tmp_path / "reference.smol")
    assert blob == convert(checkpoints[1], tmp_path / "plain.smol")
    assert convert(f"{cache}/", tmp_path / "slash.smol") == blob


def test_a_snapshot_by_its_own_name_is_a_checkpoint(tmp_path, cache, checkpoints):
    blob = convert(cache / "snapshots" / FIRST, tmp_path / "cache.smol")
    assert blob == convert(checkpoints[0], tmp_path / "plain.smol")
    file = cache / "snapshots" / FIRST / "model.safetensors"
    assert blob == convert(file, tmp_path / "file.smol")


def test_the_blob_does_not_tell_where_the_cache_lay(tmp_path, cache):
    blob = convert(cache, tmp_path / "cache.smol")
    for word in (FOLDER, SECOND, "snapshots", "blobs"):
        assert word.encode() not in blob


def test_every_command_takes_a_cache(tmp_path, cache, checkpoints):
    convert(cache, tmp_path / "cache.smol")
    assert smolconv("verify", "--source", cache, tmp_path / "cache.smol").returncode == 0
    assert smolconv("diff", cache, checkpoints[1]).returncode == 0
    assert smolconv("diff", cache, checkpoints[0]).returncode == 1
    assert "supported          yes" in smolconv("inspect", cache).stdout
    config = checkpoints[1] / "config.json"
    convert(cache, tmp_path / "config.smol", "--config", config)


def test_without_main_the_only_snapshot_is_taken(tmp_path, cache, checkpoints):
    shutil.rmtree(cache / "refs")
    shutil.rmtree(cache / "snapshots" / SECOND)
    blob = convert(cache, tmp_path / "cache.smol")
    assert blob == convert(checkpoints[0], tmp_path / "plain.smol")


def test_a_choice_is_left_to_the_user(tmp_path, cache, checkpoints):
    (cache / "refs/main").unlink()
    expected = f"2 snapshots and no refs/main: name the folder of one in snapshots ({FIRST}, {SECOND})"
    for arguments in ([cache, tmp_path / "o"], ["inspect", cache], ["diff", cache, cache]):
        assert_fails(smolconv(*arguments), 2, expected)
    for i in range(3, 8):
        (cache / "snapshots" / f"{i}").mkdir()
    assert_fails(smolconv(cache, tmp_path / "o"), 2, f"{FIRST}, {SECOND}, 3, 4, ...)")


def test_a_snapshot_of_main_that_is_missing_is_not_replaced_by_another(tmp_path, cache):
    shutil.rmtree(cache / "snapshots" / SECOND)
    assert_fails(smolconv(cache, tmp_path / "o"), 3, f"no snapshot of refs/main, {SECOND}", FIRST)
    shutil.rmtree(cache / "snapshots" / FIRST)
    assert_fails(smolconv(cache, tmp_path / "o"), 3, "no snapshot in it")


@pytest.mark.parametrize("main", ["", "\n", ".", "..", "../../other", "a/b", "a\\b", "x" * 128])
def test_main_leads_nowhere_but_into_snapshots(tmp_path, cache, main):
    (cache / "refs/main").write_text(main)
    assert_fails(smolconv(cache, tmp_path / "o"), 4, "refs/main: names no revision")


def test_links_that_lead_nowhere_are_named(tmp_path, cache):
    (cache / "blobs/2-model.safetensors").unlink()
    assert_fails(smolconv(cache, tmp_path / "o"), 3, f"{SECOND}/model.safetensors: cannot open")


def test_a_checkpoint_with_a_folder_of_snapshots_is_a_checkpoint(tmp_path, cache, checkpoints):
    copy = Path(shutil.copytree(checkpoints[0], tmp_path / "copy"))
    shutil.copytree(cache / "snapshots", copy / "snapshots", symlinks=True)
    assert convert(copy, tmp_path / "a.smol") == convert(checkpoints[0], tmp_path / "b.smol")
