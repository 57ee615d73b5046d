"""Builds wheels and source distributions (PEP 517), with nothing but Python, make and a C compiler.

    pip install .                      a wheel for this machine, installed
    scripts/build-wheels               wheels for other machines too

A wheel is the folder that `make python` leaves, zipped with names in order and a constant time, so the same sources and
compiler give the same bytes. It is `py3-none-PLATFORM`: the library does not use Python's headers.

Settings (pip's --config-settings): platform, the wheel's tag instead of linux_MACHINE; make, further words for make;
folder, one that `make python` has made already. For a source distribution: vendor, the folder that scripts/vendor prints,
whose libraries the distribution then contains, so that it needs a C compiler and make only.

An editable install is not supported: build/python, which `make python` makes, has links to the modules."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent
NAME = "smolrun"
TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can tell
Settings = dict[str, Any] | None


# --- metadata ----------------------------------------------------------------------------------------


def version() -> str:
    return ".".join(re.findall(r"^#define SMOL_VERSION_[A-Z]+ (\d+)$", (ROOT / "smol.h").read_text(), re.M))


def metadata() -> str:
    """Returns the fields that pyproject.toml states, and the version of smol.h. tests/oracle/test_python_wheel.py compares
    them: a parser of TOML is in Python only from 3.11 on."""
    lines = (ROOT / "pyproject.toml").read_text()
    project = lines.partition("[project]\n")[2].partition("\n[tool")[0]

    def value(key: str) -> str:
        (found,) = re.findall(rf'^{key} = "(.*)"$', project, re.M)
        return str(found)

    def values(key: str) -> list[str]:
        (found,) = re.findall(rf"^{key} = \[(.*?)\]$", project, re.M | re.S)
        return re.findall(r'"([^"]+)"', found)

    fields = ["Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {version()}", f"Summary: {value('description')}"]
    fields += [f"License-Expression: {value('license')}"]
    fields += [f"License-File: {path.relative_to(ROOT)}" for path in licenses()]
    fields += [f"Classifier: {one}" for one in values("classifiers")]
    fields += [f"Requires-Python: {value('requires-python')}"]
    fields += [f"Requires-Dist: {one}" for one in values("dependencies")]
    extras = project.partition("[project.optional-dependencies]\n")[2]
    for extra in re.findall(r"^([a-z-]+) = ", extras, re.M):
        fields += [f"Provides-Extra: {extra}"]
        fields += [f'Requires-Dist: {one}; extra == "{extra}"' for one in values(extra)]
    fields += ["Description-Content-Type: text/markdown"]
    return "\n".join(fields) + "\n\n" + (ROOT / value("readme")).read_text()


def licenses() -> list[Path]:
    """The licence of this project, and of the libraries that are compiled into the programs."""
    return [ROOT / "LICENSE", *sorted((ROOT / "python/licenses").iterdir())]


def info() -> str:
    return f"{NAME}-{version()}.dist-info"


def platform_tag(settings: Settings) -> str:
    return str((settings or {}).get("platform") or sysconfig.get_platform().replace("-", "_").replace(".", "_"))


# --- wheels ------------------------------------------------------------------------------------------


def run(words: list[str]) -> None:
    try:
        subprocess.run(words, check=True)
    except FileNotFoundError:
        raise SystemExit(f"{NAME}: {words[0]} is missing: the build needs make and a C compiler") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{NAME}: {words[0]} ended with status {error.returncode}: its message is above") from None


def make(settings: Settings, work: Path) -> Path:
    """Returns the folder of the built package."""
    settings = settings or {}
    if settings.get("folder"):
        return Path(settings["folder"])
    if any(character.isspace() for character in str(work)):
        raise SystemExit(f"{work.parent}: make needs a folder for temporary files without blanks: set TMPDIR")
    words = ["make", "-s", f"-j{len(os.sched_getaffinity(0))}", "-C", str(ROOT), *shlex.split(settings.get("make", ""))]
    run([*words, f"BUILD={work / 'build'}", *vendored(words, work), "python"])
    return work / "build/python/smolrun"


def vendored(make: list[str], work: Path) -> list[str]:
    """Compiles the libraries that a source distribution contains, and returns words for make that take them instead of
    the system's."""
    if not (ROOT / "python/vendor").is_dir():
        return []
    built = work / "vendor"
    run([*make, "-f", "python/vendor.mk", f"OUT={built}"])
    more = {name: os.environ.get(name, "") for name in ("CPPFLAGS", "LDFLAGS")}
    return [f"CPPFLAGS=-I{built / 'include'} {more['CPPFLAGS']}", f"LDFLAGS=-L{built} {more['LDFLAGS']}"]


def strip(data: bytes, work: Path) -> bytes:
    """Removes symbols for debuggers from a program or library, where there is a program that can."""
    file = work / "stripped"
    file.write_bytes(data)
    try:
        subprocess.run([os.environ.get("STRIP", "strip"), str(file)], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return data
    return file.read_bytes()


def package_files(folder: Path, work: Path) -> list[tuple[str, bytes, int]]:
    """Lists (name, contents, mode) of the package."""
    files = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        native = path.parent.name == "_native"
        data = path.read_bytes()
        files.append((f"{NAME}/{path.relative_to(folder)}", strip(data, work) if native else data, 0o755 if native else 0o644))
    return files


def zip_wheel(path: Path, files: list[tuple[str, bytes, int]]) -> None:
    """Writes the files and a RECORD of them."""
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system, entry.external_attr = 3, (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)

        for name, data, mode in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            add(name, data, mode)
        name = f"{info()}/RECORD"
        add(name, f"{record}{name},,\n".encode(), 0o644)


def described(settings: Settings) -> list[tuple[str, bytes, int]]:
    """Lists (name, contents, mode) of the files that describe the wheel."""
    wheel = f"Wheel-Version: 1.0\nGenerator: smol {version()}\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: py3-none-{one}\n" for one in platform_tag(settings).split("."))
    files = {"METADATA": metadata().encode(), "WHEEL": wheel.encode()}
    files |= {f"licenses/{path.relative_to(ROOT)}": path.read_bytes() for path in licenses()}
    return [(f"{info()}/{name}", data, 0o644) for name, data in files.items()]


def prepare_metadata_for_build_wheel(directory: str, config_settings: Settings = None) -> str:
    """PEP 517. Without it, pip would build a wheel to read its metadata."""
    for name, data, _mode in described(config_settings):
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return info()


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """PEP 517."""
    name = f"{NAME}-{version()}-py3-none-{platform_tag(config_settings)}.whl"
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        files = package_files(make(config_settings, work), work)
        zip_wheel(work / name, files + described(config_settings))
        shutil.copy(work / name, directory)
    return name


# --- source distributions ----------------------------------------------------------------------------


def source_files(vendor: str | None) -> dict[str, Path]:
    """Returns {name: file} of a source distribution: tracked files that the build needs, and the vendored libraries. In an
    unpacked source distribution these are all files."""
    if (ROOT / "PKG-INFO").exists():
        listed = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    else:
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
    needed = re.compile(
        r"(common|format|convert|runtime|cli|smolrun|python)/.*|smol\.h|Makefile|LICENSE|README\.md|CHANGELOG\.md|pyproject\.toml"
        r"|docs/python\.md"
    )
    files = {name: ROOT / name for name in filter(needed.fullmatch, listed)}
    if vendor:
        files |= {f"python/vendor/{p.relative_to(vendor)}": p for p in Path(vendor).rglob("*.*") if p.is_file()}
    return files


def build_sdist(directory: str, config_settings: Settings = None) -> str:
    """PEP 517."""
    base = f"{NAME}-{version()}"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:

        def add(name: str, data: bytes, mode: int) -> None:
            entry = tarfile.TarInfo(f"{base}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, 315532800
            tar.addfile(entry, io.BytesIO(data))

        add("PKG-INFO", metadata().encode(), 0o644)
        for name, path in sorted(source_files((config_settings or {}).get("vendor")).items()):
            add(name, path.read_bytes(), 0o755 if os.access(path, os.X_OK) else 0o644)
    with open(Path(directory) / f"{base}.tar.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=315532800) as zipped:
        zipped.write(archive.getvalue())
    return f"{base}.tar.gz"


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []
