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


def test_every_public_name_is_in_the_guide():
    text = (ROOT / "docs/python.md").read_text()
    assert [name for name in smolrun.errors.CLASSES.values() if name.__name__ not in text] == []
    methods = [name for name in vars(smolrun.Model) if not name.startswith("_")]
    facts = {"close", "info", "stop_ids", "tool_style", "token_bytes", "token_text", "digest", "explain", "run", "request"}
    assert [name for name in methods if name not in facts and not re.search(rf"\b{name}\b", text)] == []
