"""The Python package as `make python` leaves it, imported; and its interpreter, for tests that need a process."""

import os
import subprocess
import sys

from internal import BUILD

FOLDER = BUILD / "python"
sys.path.insert(0, str(FOLDER))  # before the tree, whose folder smolrun holds the program

import smolrun  # noqa: E402, F401


def run_python(code, *words, **options):
    """Runs code in an interpreter of its own that can import the package; its output is text."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), **options.pop("env", {})}
    options.setdefault("timeout", 120)
    return subprocess.run(
        [options.pop("python", sys.executable), "-c", code, *map(str, words)],
        env=environment, text=True, capture_output=True, cwd="/", **options,
    )  # fmt: skip


def output_of(code, *words, **options):
    """Returns what it prints; it must succeed, and complain about nothing."""
    result = run_python(code, *words, **options)
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return result.stdout
