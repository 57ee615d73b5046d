"""The programs in the package: smolconv and smolrun."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

from ._library import FOLDER
from .errors import FileError, UsageError, from_status
from .settings import flag
from .settings import path as read_path

CONVERTER_COMMANDS = ("inspect", "report", "diff", "verify", "pack", "unpack", "delta", "patch")


def program(name: str) -> str:
    """Returns the path of "smolconv" or "smolrun"."""
    path = os.path.join(FOLDER, name)
    if not os.path.isfile(path):
        raise FileError(f"{path}: the program is not in this package: reinstall it")
    return path


def _run(name: str, words: list[str], quiet: bool = True) -> str:
    """Runs a program and returns its output; raises its error."""
    import subprocess

    command = [program(name), *words]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None, check=False
        )
    except OSError as error:
        raise FileError(f"{command[0]}: cannot be run: {error.strerror}") from None
    except ValueError as error:  # NUL, or half a surrogate pair
        raise UsageError(f"an argument that the system cannot take: {error}") from None
    if result.returncode:
        message = (result.stderr or b"").decode(errors="replace").strip().removeprefix(f"{name}: ")
        message = message.replace("use --force", "pass force=True")
        raise from_status(result.returncode, message or f"{name} ended with status {result.returncode}")
    return result.stdout.decode()


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    size: str | None = None,
    bits: float | None = None,
    max_kl: float | None = None,
    calibration: str | os.PathLike[str] | None = None,
    context: int | None = None,
    lora: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    template: str | None = None,
    chat_template: str | os.PathLike[str] | None = None,
    reranker: bool = False,
    threads: int | None = None,
    force: bool = False,
    progress: bool = False,
) -> str:
    """Converts a checkpoint (its folder, its safetensors file, or a folder of the Hub's cache) into a blob, as smolconv does.

    dtype: "int8" (the default), "int6", "int5", "int4", "bf16" or "f32"; or size ("95MB"), bits (a weight) or max_kl, for
    which dtypes are chosen. calibration: statistics, or "none". template: the name of the chat template to use, where there are
    several; chat_template: the file of another one. reranker: the checkpoint is Qwen3-Reranker. force: replaces an existing
    file. progress: shows it on standard error. The others are smolconv's options too. Returns the path of the blob."""
    options = {
        "--dtype": dtype, "--size": size, "--bits": bits, "--max-kl": max_kl, "--calibration": calibration,
        "--context": context, "--lora": lora, "--config": config, "--template": template, "--chat-template": chat_template,
        "--threads": threads,
    }  # fmt: skip
    words = [word for name, value in options.items() if value is not None for word in (name, str(value))]
    quiet, made = not flag("progress", progress, False), read_path(output, "output")
    words += ["--reranker"] * flag("reranker", reranker, False) + ["--force"] * flag("force", force, False) + ["--quiet"] * quiet
    _run("smolconv", [*words, "--", read_path(source, "source"), made], quiet=quiet)
    return made


def inspect(path: str | os.PathLike[str], *, stats: bool = False) -> dict[str, Any]:
    """Describes a blob, a safetensors file or a checkpoint, as `smolconv inspect --json` does."""
    words = ["inspect", "--json"] + ["--stats"] * flag("stats", stats, False)
    found: dict[str, Any] = json.loads(_run("smolconv", [*words, "--", read_path(path)]))
    return found


def main() -> NoReturn:
    """python -m smolrun WORDS: becomes smolconv for its commands and "convert", otherwise smolrun; "batch" is Python."""
    words = sys.argv[1:]
    if words[:1] == ["batch"]:
        from . import batch

        batch.main(words[1:])
    if words[:1] == ["convert"]:
        name, words = "smolconv", words[1:]
    elif words and words[0] in CONVERTER_COMMANDS:
        name = "smolconv"
    else:
        name = "smolrun"
    path = program(name)
    os.execv(path, [name, *words])
