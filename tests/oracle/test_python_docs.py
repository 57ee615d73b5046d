"""The Python code of the documents runs, one block after the other, with the bundled model in place of others."""

import os
import re
import shutil

import package  # noqa: F401
import pytest
import smolrun
from internal import ROOT


@pytest.mark.parametrize("page", ["docs/python.md", "python/README.md"])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "demo/model", tmp_path / "SmolLM2-135M-Instruct")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    names = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert blocks and capsys.readouterr().out and os.path.getsize("model.smol") > 10**6


def test_every_public_name_is_in_the_guide():
    text = (ROOT / "docs/python.md").read_text()
    assert [name for name in smolrun.errors.CLASSES.values() if name.__name__ not in text] == []
    methods = [name for name in vars(smolrun.Model) if not name.startswith("_")]
    facts = {"close", "info", "stop_ids", "tool_style", "token_bytes", "token_text", "digest", "explain", "run", "request", "astream_chat"}
    assert [name for name in methods if name not in facts and not re.search(rf"\b{name}\b", text)] == []
