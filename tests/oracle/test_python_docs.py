"""The Python code of the documents runs, one block after the other, with the bundled model in place of others."""

import json
import os
import re
import shutil
import subprocess
import sys

import package
import pytest
import smolrun
from internal import ROOT


def code(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


@pytest.mark.parametrize("page", ["docs/python.md", "python/README.md"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    for name in ("SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"):
        (tmp_path / name).symlink_to(ROOT / "demo/model")
    monkeypatch.chdir(tmp_path)
    blocks, names = code(page), {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert blocks and capsys.readouterr().out and os.path.getsize("model.smol") > 10**6


def test_the_blocks_of_the_page_on_many_prompts_run(blob, tmp_path, monkeypatch, capsys):
    """First the command, then the function, which finds everything answered."""
    (tmp_path / "model.smol").symlink_to(blob)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Once upon a time"}\n{"prompt": 5}\n')
    (command,), (code,) = (
        re.findall(rf"^```{kind} batch\n(.*?)^```", (ROOT / "docs/scale.md").read_text(), re.M | re.S) for kind in ("sh", "python")
    )
    environment = {**os.environ, "PYTHONPATH": str(package.FOLDER), "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    result = subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "1 error," in result.stderr and " for 1,000 rows" in result.stderr, result.stderr
    assert [json.loads(line)["index"] for line in result.stdout.splitlines()] == [0, 1]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/scale.md", "exec"), {})
    assert capsys.readouterr().out.startswith("2 of 2 rows, ")


def test_the_code_of_the_tutorial_runs(tmp_path):
    """It runs in the environment that has what it needs beside the package."""
    shutil.copytree(ROOT / "demo/model", tmp_path / "SmolLM2-135M-Instruct")
    command = [ROOT / "scripts/venv", "--alone", ROOT / "tests/tutorial-requirements.txt"]
    python = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    (tmp_path / "tutorial.py").write_text("\n".join(code("docs/python-tutorial.md")))
    environment = {**os.environ, "PYTHONPATH": str(package.FOLDER), "MPLCONFIGDIR": str(tmp_path / "cache")}
    done = subprocess.run([python, "tutorial.py"], cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with smolrun.Model(tmp_path / "model.smol") as model:
        assert model.chat([{"role": "user", "content": "Name three colours."}], max_tokens=40).text in done.stdout
    for part in ("confidence", "mood", "perplexity", "int4"):
        assert part in done.stdout
    assert (tmp_path / "probabilities.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


USE = """
import contextlib

import numpy as np
import numpy.typing as npt
import smolrun

model = smolrun.Model("x", n_ctx=5, progress=True)
chat = [{"role": "user", "content": "x"}]
answers: list[smolrun.Answer] = [model.generate("x", max_tokens=5, stop=["a"]), model.generate([1, 2]), model.generate(np.array([1]))]
answers += model.generate(["x", b"y", [1], np.array([1])], seed=1) + model.chat([chat, chat]) + [model.chat(chat, tools=[{"type": "function"}])]
scores: list[smolrun.Score] = [model.score("x", prompt="y"), *model.score(["x", "y"])]
arrays: list[npt.NDArray[np.float32]] = [model.logits("x", last=1), model.embed(["x"]), model.embed("x"), model.embed(np.array([1]))]
texts: list[str] = [*model.stream("x"), *(piece for piece in model.stream_chat(chat))]

async def ask() -> list[str]:
    awaited = [await model.agenerate("x"), await model.agenerate([1, 2]), *await model.agenerate(["x", "y"])]
    await model.achat(chat, max_token=5)  # type: ignore[call-overload]
    awaited += [await model.achat(chat), *await model.achat([chat, chat], tools=[])]
    async with model.astream_chat(chat) as pieces, contextlib.aclosing(model.astream("x")):
        texts = [piece.upper() async for piece in pieces] + [answer.text for answer in [*awaited, pieces.answer]]
    return texts + [piece async for piece in model.astream("x", max_tokens=3)]

with model.session() as session:
    saved: bytes = session.to_bytes()
smolrun.convert("a", "b", dtype="int4")
model.generate("x", max_token=5)  # type: ignore[call-overload]
"""


def test_the_types_are_those_that_a_checker_sees(tmp_path):
    """mypy --strict accepts a program that uses the package. It reports an ignored error that there is none of, too."""
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "cache", "use.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(package.FOLDER)}, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout


def test_every_public_name_is_in_the_guide():
    text = (ROOT / "docs/python.md").read_text()
    assert [name for name in smolrun.errors.CLASSES.values() if name.__name__ not in text] == []
    methods = [name for name in vars(smolrun.Model) if not name.startswith("_")]
    facts = {"close", "info", "stop_ids", "tool_style", "token_bytes", "token_text", "digest", "explain", "run", "request"}
    assert [name for name in methods if name not in facts and not re.search(rf"\b{name}\b", text)] == []
