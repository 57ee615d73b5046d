"""LangChain, the command line program llm and a notebook of Jupyter get from the package, through examples/python, what
smolrun.Model returns: with the real model, in a process and an environment of their own."""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import package
import pytest
import smolrun
from clients import MESSAGES, SETTINGS
from conftest import ROOT
from test_serve_clients import check_person, real  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def python():
    command = [ROOT / "scripts/venv", "--alone", ROOT / "tests/adapters-requirements.txt"]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=900).stdout.strip()


@pytest.fixture(scope="module")
def used(real, python):  # noqa: F811
    def use(name, *folders, **environment):
        environment |= {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, [package.FOLDER, *folders]))
        command = [python, ROOT / "tests/oracle/adapters.py", name, real]
        run = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=900)
        assert run.returncode == 0, run.stderr[-3000:]
        return json.loads(run.stdout)

    return use


@pytest.fixture(scope="module")
def model(real):  # noqa: F811
    return smolrun.Model(real)


def test_langchain_gets_what_the_package_returns(used, model):
    found, one = used("langchain"), model.chat(MESSAGES, **SETTINGS)
    assert [found["text"], found["streamed"], *found["async"], *found["batch"]] == [one.text] * 6 and found["n_pieces"] > 5
    assert found["tokens"] == found["streamed_tokens"] == [one.prompt_tokens, one.completion_tokens]
    check_person(found["person"])
    assert found["dictionary"] == found["person"] and "max_tokens" in found["cut off"]
    ((name, arguments, call_id),) = found["calls"]
    assert name == "paint" and arguments["color"] in ("red", "blue") and re.fullmatch("[a-z0-9]{9}", call_id)
    assert found["streamed_calls"] == found["calls"] and set(found["cut_calls"]) == {"paint"}
    assert found["stopped"] == one.text.partition("sea")[0] != one.text
    vector = model.embed("The sea")
    assert np.allclose(found["embedding"], vector / np.linalg.norm(vector), atol=1e-6) and "no named prompts" in found["refused"]


def test_llm_gets_what_the_package_returns(used, model, real, python, tmp_path):  # noqa: F811
    shutil.copytree(ROOT / "examples/python", tmp_path / "source")
    command = [python, "-m", "pip", "-qq", "install", "--no-deps", "--target", tmp_path / "plugin", tmp_path / "source"]
    subprocess.run(command, check=True, timeout=300)
    found = used("llm", tmp_path / "plugin", SMOL_MODELS=str(real.parent), LLM_USER_PATH=str(tmp_path / "llm"))
    one = model.chat(MESSAGES, **SETTINGS)
    assert found["text"] == found["whole"] == one.text and f": {real.stem}" in found["models"]
    more = [*MESSAGES, one.message, {"role": "user", "content": "And of the sky?"}]
    assert found["continued"] == model.chat(more, **SETTINGS).text
    system = {"role": "system", "content": "You answer in one word."}
    assert found["system"] == model.chat([system, *MESSAGES], max_tokens=8).text
    check_person(found["person"])
    assert re.fullmatch("[0-9]{3}", found["regex"]) and found["logged"] > 0 and found["tool"]


def test_a_notebook_shows_progress_and_probabilities(used, model):
    opened, explained, perplexity, streamed, awaited, generated = used("notebook")

    def written(outputs, name):
        return "".join(output["text"] for output in outputs if output["output_type"] == "stream" and output["name"] == name)

    def shown(outputs, kind="text/plain"):
        return outputs[-1]["data"][kind]

    assert re.search(r"\r(\d+) of \1 bytes\n$", written(opened, "stderr"))
    assert shown(explained, "text/html") == model.explain("The sea is blue.")._repr_html_() and "rank" in shown(explained, "text/html")
    assert written(perplexity, "stderr").endswith(f"{shown(perplexity)} of {shown(perplexity)} tokens\n")
    text = model.generate("The sea", max_tokens=5).text
    assert written(streamed, "stdout") == f"{text}\n" and shown(awaited) == shown(generated) == repr(text)
