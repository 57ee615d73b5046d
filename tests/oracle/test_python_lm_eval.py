"""lm-eval from PyPI gets from smolrun.lm_eval what it gets from transformers, with the real model and the same tasks: choices,
texts and likelihoods. It runs in an environment of its own."""

import json
import os
import subprocess

import package
import pytest
from conftest import ROOT
from serving import serving

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


CLIENT = """
import sys
from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from smolrun.lm_eval import SmolLM
blob, url, tokenizer = sys.argv[1:]
pairs = [("Once upon a time", " there was a girl"), ("The cat sat on", " the mat."), ("She said", ' "Hello"'), ("a", "b")]
questions = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(pairs)]
texts = [Instance("generate_until", {}, ("Once upon a time", {"until": ["."], "max_gen_toks": 40}), 0)]
expected, own = SmolLM(blob).loglikelihood(questions), SmolLM(blob).generate_until(texts)
for words in ({}, {"batch_size": 3}, {"num_concurrent": 3}, {"tokenized_requests": False}):
    client = LocalCompletionsAPI(base_url=url, model="f32", tokenizer=tokenizer, max_length=512, **words)
    for (found, greedy), (score, best) in zip(client.loglikelihood(questions), expected, strict=True):
        assert abs(found - score) < 1e-4 and greedy == best, (words, found, score)
    assert client.generate_until(texts) == own
"""


def test_local_completions_of_smolserve_are_those_of_smolrun(run, demo_blob):
    """lm-eval's own client, which asks for echoed prompts."""
    with serving(demo_blob("f32"), "--sequences", 4) as server:
        url = f"http://127.0.0.1:{server.port}/v1/completions"
        run("-c", CLIENT, demo_blob("f32"), url, ROOT / "demo/model", HF_HUB_OFFLINE="1", no_proxy="*")
