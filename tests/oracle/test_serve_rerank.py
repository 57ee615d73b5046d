"""smolserve's /v1/rerank and /v2/rerank: the scores of smolrun embed --rerank and of transformers, in the form of Cohere, Jina and vLLM."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import programs
import pytest
from engine import convert
from package import smolrun
from serving import post_bytes, serving
from test_encoder import lines
from test_rerank import QUERY, bert_score, make_bert, make_modern, make_qwen
from transformers import Qwen3ForSequenceClassification

ROUTE = "/v1/rerank"
TEXTS = [*lines(30, seed=5), "same", "a [SEP] b", "", "same", "\u00e9\U0001f600 \u0000 z", "long " * 400]


@pytest.fixture(scope="module")
def made(training, tmp_path_factory):
    """Three rerankers, and what makes the reference's scores of the first."""
    folder = tmp_path_factory.mktemp("rerank")
    model, tokenizer = make_bert(folder / "b", training, seed=3, activation="linear.Identity")
    make_qwen(folder / "q", 1, Qwen3ForSequenceClassification)
    make_modern(folder / "m", 1)
    kinds = {"bert": "f32", "qwen": "int8", "modern": "int8"}
    blobs = [convert(folder / name[0], folder / f"{name}.smol", dtype) for name, dtype in kinds.items()]
    return blobs, model, tokenizer


@pytest.fixture(scope="module")
def server(made, blob):
    with serving([*made[0], blob], "--sequences", 2) as server:
        yield server


def rerank(server, model, texts=TEXTS, query=QUERY, **members):
    status, answer = server.post(ROUTE, {"model": model, "query": query, "documents": texts} | members)
    assert status == 200, answer
    return answer


def by_smolrun(blob, texts, query=QUERY):
    """(score, tokens) of each text."""
    assert not any("\n" in text for text in texts)
    out = programs.smolrun("embed", blob, "-", "--json", "--rerank", query, input="".join(f"{t}\n" for t in texts).encode())
    assert out.returncode == 0, out.stderr
    return [(row["score"], row["tokens"]) for row in map(json.loads, out.stdout.splitlines())]


def test_scores_are_those_of_smolrun(made, server):
    for blob in made[0]:
        expected = by_smolrun(blob, TEXTS)
        answer = rerank(server, blob.stem)
        order = sorted(range(len(TEXTS)), key=lambda i: (-expected[i][0], i))
        assert answer["results"] == [{"index": i, "relevance_score": expected[i][0]} for i in order]
        n = sum(tokens for _, tokens in expected)
        assert answer["usage"] == {"prompt_tokens": n, "total_tokens": n} and answer["model"] == blob.stem
        python = smolrun.Model(blob).rerank(QUERY, TEXTS)
        assert [np.float32(row["relevance_score"]) for row in answer["results"]] == [python[i] for i in order]
        assert len({score for score, _ in expected}) >= 30


def test_scores_are_those_of_transformers(made, server):
    (blob, *_), model, tokenizer = made
    expected = np.array([bert_score(model, tokenizer, "a query", text) for text in TEXTS[:12]])
    found = {row["index"]: row["relevance_score"] for row in rerank(server, blob.stem, TEXTS[:12], "a query")["results"]}
    assert np.abs([found[i] - expected[i] for i in range(12)]).max() <= 2e-5 * np.abs(expected).max()


def test_forms_of_a_request(made, server):
    name = made[0][0].stem
    whole = rerank(server, name)["results"]
    objects = [{"text": text, "image": None} if i % 2 else text for i, text in enumerate(TEXTS)]
    assert rerank(server, name, objects, user="me", rank_fields=[], max_tokens_per_doc=None)["results"] == whole
    with_texts = [row | {"document": {"text": TEXTS[row["index"]]}} for row in whole]
    assert rerank(server, name, objects, return_documents=True)["results"] == with_texts
    assert rerank(server, name, return_documents=False, top_n=None)["results"] == whole
    for n in (1, 7, len(TEXTS), 1000, 0):
        assert rerank(server, name, top_n=n)["results"] == whole[: n or None]
    same = [row["index"] for row in whole if TEXTS[row["index"]] == "same"]
    assert same == [30, 33]


def test_the_newer_path_answers_alike(made, server):
    body = {"model": made[0][0].stem, "query": QUERY, "documents": TEXTS, "top_n": 5}
    for members in ({}, {"return_documents": True}, {"max_tokens_per_doc": None}):
        status, answer = server.post("/v2/rerank", body | members)
        older = server.post(ROUTE, body | members)[1]
        assert status == 200 and answer.pop("id") != older.pop("id") and answer == older
        assert all(("document" in row) == bool(members.get("return_documents")) for row in answer["results"])
    status, answer = server.post("/v2/rerank", body | {"max_tokens_per_doc": 4096})
    assert (status, answer["error"]["param"]) == (400, "max_tokens_per_doc")


def test_requests_at_the_same_time_do_not_change_each_other(made, server):
    """Three models, and a chat with a fourth."""
    rng = random.Random(1)
    jobs = [(rng.choice(made[0]).stem, rng.sample(TEXTS, 9)) for _ in range(12)]
    expected = [rerank(server, *job)["results"] for job in jobs]
    body = {"model": "int8", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 200}
    with ThreadPoolExecutor(7) as pool:
        chat = pool.submit(server.post, "/v1/chat/completions", body)
        assert [answer["results"] for answer in pool.map(lambda job: rerank(server, *job), jobs)] == expected
        assert chat.result()[0] == 200


@pytest.mark.parametrize(
    ("members", "param", "message"),
    [
        ({"query": None}, "query", "missing"), ({"query": ["x"]}, "query", "expected a string"), ({"documents": None}, "documents", "missing"),
        ({"documents": []}, "documents", "empty"), ({"documents": "x"}, "documents", "expected a list"), ({"documents": [[1]]}, "documents", "strings, or objects"),
        ({"documents": ["x", 1]}, "documents", "strings, or objects"), ({"documents": ["x"] * 2049}, "documents", "more than 2048"),
        ({"documents": [{}]}, "documents", "no text"), ({"documents": [{"text": None}]}, "documents", "no text"), ({"documents": [{"text": 1}]}, "documents", "a string"),
        ({"documents": [{"text": "x", "title": "y"}]}, "documents", "one member"), ({"top_n": -1}, "top_n", "whole number"), ({"top_n": 1.5}, "top_n", "whole number"),
        ({"return_documents": 1}, "return_documents", "true or false"), ({"rank_fields": ["title"]}, "rank_fields", "not supported"),
        ({"max_tokens_per_doc": 9}, "max_tokens_per_doc", "not supported"), ({"input": "x"}, "input", "no such member"),
        ({"model": "int8"}, "model", "not a reranker"),
    ],
)  # fmt: skip
def test_wrong_requests_are_refused(server, members, param, message):
    status, answer = server.post(ROUTE, {"query": "x", "documents": ["y"]} | members)
    assert (status, answer["error"]["param"]) == (400, param) and message in answer["error"]["message"]
    assert answer["error"]["code"] == ("unsupported" if param == "model" else None)


def test_a_member_of_a_document_may_not_appear_twice(server):
    body = b'{"model": "bert", "query": "x", "documents": [{"text": "x", "text": "y"}]}'
    status, _, data = server.http("POST", ROUTE, body)
    assert status == 400 and "one member" in json.loads(data)["error"]["message"]


def test_a_reranker_makes_no_embeddings(server):
    status, answer = server.post("/v1/embeddings", {"model": "bert", "input": "x"})
    assert status == 400 and "/v1/rerank" in answer["error"]["message"]


def test_a_pair_that_is_longer_than_the_context_is_refused(made):
    with serving(made[0][0], "--ctx", 20) as server:
        status, answer = server.post(ROUTE, {"query": "x", "documents": ["y", "long " * 100]})
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (400, "context_length_exceeded", "documents")


def test_a_request_ends_when_its_client_goes_away_or_its_time_is_over(training, tmp_path):
    """Texts enough for many seconds."""
    sizes = {"hidden_size": 256, "num_hidden_layers": 6, "intermediate_size": 1024}
    make_bert(tmp_path / "c", training, seed=1, **sizes)
    blob = convert(tmp_path / "c", tmp_path / "slow.smol", "f32")
    body = {"model": "slow", "query": "a query", "documents": ["a long text " * 60] * 500}
    with serving(blob, "--threads", 1) as server:
        connection = server.socket(post_bytes(ROUTE, body))
        while not server.metrics()["smolserve_prompt_tokens_total"]:  # it has not begun
            time.sleep(0.02)
        connection.close()
        server.wait_for("smolserve_cancelled_total", 1)
        assert len(rerank(server, "slow", ["x"])["results"]) == 1
    with serving(blob, "--threads", 1, "--timeout", 1) as server:
        status, answer = server.post(ROUTE, body)
        assert (status, answer["error"]["code"]) == (504, "timeout")
