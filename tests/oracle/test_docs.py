"""The documentation's commands, run: every ```console block of README.md and of the tutorial, in order,
each line behind a $ a command, what follows it, if anything does, what it shows. `...` stands for
anything there, and lines may be broken anywhere. The Hub is one of our own, and gives the bundled model for SmolLM2."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from hub import Hub

PAGES = ["README.md", "docs/tutorial.md"]
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def commands(page):
    """[command, what it shows]"""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", (ROOT / page).read_text(), flags=re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], ""])
            else:
                found[-1][1] += line + "\n"
    return found


@pytest.fixture()
def clone(tmp_path):
    """What looks like the tree, with what is built there already, and can be written to."""
    for name in ("build", "demo", "scripts", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "tools").mkdir()
    make = tmp_path / "tools/make"
    make.write_text(f'#!/bin/sh\nexec {shutil.which("make")} -s -C {ROOT} "$@"\n')
    make.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_every_command_does_what_the_page_says(clone, page):
    environment = {k: v for k, v in os.environ.items() if k != "HF_TOKEN" and not k.startswith(("MAKE", "MFLAGS"))}
    files = {path.name: path.read_bytes() for path in (ROOT / "demo/model").iterdir()}
    assert len(commands(page)) >= 4
    with Hub(files, repo=MODEL) as hub:
        environment |= {"PATH": f"{clone}/tools:{os.environ['PATH']}", "HF_ENDPOINT": hub.url(), "no_proxy": "*"}
        for command, shown in commands(page):
            result = subprocess.run(
                ["bash", "-c", command], cwd=clone, env=environment, text=True, timeout=120,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            assert result.returncode == 0, f"{command}\n{result.stdout}"
            if not shown:
                continue
            pattern = ".*".join(re.escape(part) for part in "".join(shown.split()).split("..."))
            found = "".join(result.stdout.split())
            assert re.fullmatch(pattern, found, flags=re.S), f"{command}\n{result.stdout}"
