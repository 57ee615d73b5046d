"""Clients from PyPI get from smolserve what smolrun --jsonl writes for the same requests: litellm, langchain-openai and
instructor, with the real model, in a process and an environment of their own. The openai package is used by the other
tests of the server, curl by that of its page of the documentation."""

import json
import os
import subprocess

import numpy as np
import pytest
from clients import KEY, MESSAGES, SETTINGS
from conftest import ROOT
from engine import convert
from package import smolrun
from serving import serving
from test_jsonl import answers
from test_rerank import make_bert

pytestmark = pytest.mark.slow

# that of SmolLM2, and calls
TEMPLATE = r"""{% if tools %}<|im_start|>system
You may call these functions: {{ tools | tojson }}<|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}{% if m.content or not loop.first %}{{ '\n' }}{% endif %}{{ '<tool_call>
{"name": "' + c.function.name + '", "arguments": ' }}{{ c.function.arguments | tojson }}{{ '}
</tool_call>' }}{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="module")
def real(real_model_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    (folder / "chat.jinja").write_text(TEMPLATE)
    command = [ROOT / "build/smolconv", "--quiet", "--chat-template", folder / "chat.jinja", real_model_dir, folder / "real.smol"]
    subprocess.run(command, check=True)
    return folder / "real.smol"


@pytest.fixture(scope="module")
def reranker(training, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reranker")
    make_bert(folder / "c", training, seed=1)
    return convert(folder / "c", folder / "reranker.smol", "int8")


@pytest.fixture(scope="module")
def server(real, reranker, tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"tester {KEY}\n")
    with serving([real, reranker], "--sequences", 4, "--api-keys", keys, api_key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def python():
    command = [ROOT / "scripts/venv", "--alone", ROOT / "tests/clients-requirements.txt"]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, timeout=900).stdout.strip()


@pytest.fixture(scope="module")
def used(server, python):
    def use(client, model=server.model):
        command = [python, ROOT / "tests/oracle/clients.py", client, f"http://127.0.0.1:{server.port}", model]
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "no_proxy": "*"}
        run = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=400)
        assert run.returncode == 0, run.stderr[-3000:]
        return json.loads(run.stdout)

    return use


def check_person(person):
    assert set(person) == {"name", "age"} and "Anna" in person["name"] and person["age"] == 34


@pytest.mark.parametrize("client", ["litellm", "langchain"])
def test_a_client_gets_what_smolrun_writes(server, real, used, client):
    found = used(client)
    (one,) = answers(real, [{"messages": MESSAGES} | SETTINGS], "--ctx", 2048)
    usage = [one["usage"]["prompt_tokens"], one["usage"]["completion_tokens"]]
    assert found["text"] == found["streamed"] == one["text"] and "sea" in one["text"]
    assert found["tokens"] == found["streamed_tokens"] == usage
    check_person(found["person"])
    assert found["call"] == ["paint", {"color": found["call"][1]["color"]}] and found["call"][1]["color"] in ("red", "blue")
    assert found["errors"] == [400, 401, 404]
    expected = server.client.embeddings.create(model=server.model, input="The sea").data[0].embedding
    assert np.array_equal(np.float32(found["embedding"]), np.float32(expected))


def test_rerankers_of_three_services_score_as_smolrun_does(used, reranker):
    texts = ["a hill", "the sea", "one"]
    scores = smolrun.Model(reranker).rerank("the sea", texts)
    best = sorted(range(3), key=lambda i: -scores[i])[:2]
    found = used("rerankers", "reranker")
    assert set(found["results"]) == {"cohere", "cohere v2", "jina_ai", "hosted_vllm"}
    for results in found["results"].values():
        assert [[i, np.float32(score), text] for i, score, text in results] == [[i, scores[i], texts[i]] for i in best]
    assert len(found["errors"]) == 4 and all("documents: the list is empty" in error for error in found["errors"])


def test_instructor_gets_objects_and_asks_again(used):
    found = used("instructor")
    check_person(found["person"])
    assert found["streamed"] == found["person"] and found["n_parts"] > 2
    assert found["retried"] == [2, True] and found["call"] is True
