"""lm-eval from PyPI gets from smolrun.lm_eval what it gets from transformers, with the real model and the same tasks: choices,
texts and likelihoods. It runs in an environment of its own."""

import json
import os
import subprocess

import package
import pytest
from conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def run():
    command = [ROOT / "scripts/venv", "--alone", ROOT / "tests/lm-eval-requirements.txt"]
    python = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=1200).stdout.strip()

    def run(*words, **environment):
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(package.FOLDER)} | environment
        done = subprocess.run([python, *map(str, words)], env=environment, text=True, capture_output=True, timeout=2000)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def test_choices_are_those_of_transformers(run, real_model_dir):
    figures = json.loads(run(ROOT / "scripts/measure-tasks", "f32", "int8", "--model", real_model_dir, "--json"))
    assert figures["f32"]["items"] == 400 and figures["transformers"]["same_choices"] == 1
    assert figures["f32"]["same_choices"] >= 0.995 and figures["f32"]["same_texts"] >= 0.975
    assert abs(figures["f32"]["accuracy"] - figures["transformers"]["accuracy"]) <= 0.005 and figures["f32"]["accuracy"] > 0.6
    assert figures["f32"]["likelihood_difference"] < 1e-4 < figures["int8"]["likelihood_difference"] < 0.05
    assert figures["int8"]["same_choices"] > 0.95


def test_the_command_line_of_lm_eval(run, blob, tmp_path):
    """It is called with the chat template, with a context too short for some texts, and with batches."""
    run("-c", f"import sys, pathlib; sys.path.insert(0, '{ROOT}/scripts'); from tasks import facts; facts.write_tasks(pathlib.Path('{tmp_path}/tasks'), 40)")
    words = ["--tasks", "facts,questions,prose", "--include_path", tmp_path / "tasks", "--batch_size", 4, "--log_samples"]
    found = {}
    for name, more in {"plain": [], "chat": ["--apply_chat_template"], "short": ["--num_fewshot", "2"]}.items():
        length = {"short": ",max_length=48"}.get(name, "")
        run("-m", "smolrun.lm_eval", "--model", "smolrun", "--model_args", f"pretrained={blob}{length}", *words, *more,
            "--output_path", tmp_path / name, HF_HOME=str(tmp_path / "cache"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")  # fmt: skip
        (results,) = (tmp_path / name).rglob("results_*.json")
        found[name] = json.loads(results.read_text())["results"]
    assert all(0 <= one["facts"]["acc,none"] <= 1 and one["prose"]["word_perplexity,none"] > 1 for one in found.values())
    assert found["plain"]["prose"] != found["short"]["prose"]
    samples = [path.read_text() for path in (tmp_path / "chat").rglob("samples_questions_*.jsonl")]
    assert "<|im_start|>user" in samples[0]
