"""A checkpoint always gives the same blob: for any number of threads, in any locale, umask, time zone, folder and
environment. scripts/check-blobs adds other compilers and another architecture."""
import hashlib
import os
import shutil
import subprocess

import pytest
from internal import BUILD, ROOT

DEMO = ROOT / "demo/model"
DTYPES = ("int8", "bf16", "f32")


def committed(dtype):
    for line in (ROOT / "tests/data/demo-blobs.sha256").read_text().splitlines():
        digest, name = line.split()
        if name == f"demo-{dtype}.smol":
            return digest
    raise KeyError(dtype)


def convert(dtype, out, source=DEMO, threads=2, environment=None, **options):
    command = [BUILD / "smolconv", "--quiet", "--dtype", dtype, "--threads", str(threads)]
    subprocess.run([*command, source, out], check=True, timeout=120,
                   env={**os.environ, **(environment or {})}, **options)
    return hashlib.sha256(out.read_bytes()).hexdigest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threads", (1, 2, 3, 16))
def test_the_number_of_threads_changes_nothing(tmp_path, dtype, threads):
    assert convert(dtype, tmp_path / "blob", threads=threads) == committed(dtype)


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """A locale whose decimal point is a comma, made for this test."""
    folder = tmp_path_factory.mktemp("locales")
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], check=True)
    environment = {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8"}
    shown = subprocess.run(["printf", "%.1f", "1,5"], env={"PATH": os.environ["PATH"], **environment},
                           capture_output=True, text=True, check=True)
    assert shown.stdout == "1,5"
    return environment


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_locale_with_a_decimal_comma_changes_nothing(tmp_path, dtype, german):
    assert convert(dtype, tmp_path / "blob", environment=german) == committed(dtype)


@pytest.mark.parametrize(
    "environment",
    (
        {"TZ": "Pacific/Chatham"},
        {"TZ": "UTC", "SOURCE_DATE_EPOCH": "1"},
        {"HOME": "/nowhere", "USER": "x", "LANG": "tr_TR.UTF-8"},
        {"MALLOC_PERTURB_": "165"},  # fresh memory is not zero
    ),
)
def test_the_environment_changes_nothing(tmp_path, environment):
    assert convert("int8", tmp_path / "blob", environment=environment) == committed("int8")


@pytest.mark.parametrize("umask", (0, 0o022, 0o077))
def test_the_umask_changes_nothing(tmp_path, umask):
    out = tmp_path / "blob"
    assert convert("int8", out, umask=umask) == committed("int8")
    assert out.stat().st_mode & 0o777 == 0o666 & ~umask


def test_folder_time_and_order_of_the_files_change_nothing(tmp_path):
    copy = tmp_path / "a folder with another name"
    copy.mkdir()
    for path in sorted(DEMO.iterdir(), reverse=True):
        shutil.copyfile(path, copy / path.name)
        os.utime(copy / path.name, (0, 0))
    assert convert("int8", tmp_path / "1", source=copy) == committed("int8")
    assert convert("int8", tmp_path / "2", source=".", cwd=copy) == committed("int8")
    assert convert("int8", tmp_path / "3", source=f"{copy}//") == committed("int8")
    assert convert("int8", tmp_path / "4", source="model.safetensors", cwd=copy) == committed("int8")


def test_one_bit_of_the_source_changes_the_blob(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(DEMO, copy)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert convert("f32", tmp_path / "blob", source=copy) != committed("f32")
