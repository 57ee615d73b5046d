"""The description of smolserve's interface, /openapi.json: schemathesis sends requests that are valid for it and requests
that are not, and compares the answers with it. A list of members in the sources finds what it forgets."""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from conftest import ROOT
from engine import convert
from serving import post_bytes, read_all, serving
from test_rerank import make_bert
from test_tools import painter  # noqa: F401 (a fixture)

DESCRIPTION = json.loads((ROOT / "smolserve/openapi.json").read_text())
KEY = "key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def server(painter, training, tmp_path_factory):  # noqa: F811
    """It has as many sequences as the description allows choices, a reranker too, and asks for a key."""
    folder = tmp_path_factory.mktemp("keys")
    keys = folder / "keys"
    keys.write_text(f"tester {KEY}\n")
    make_bert(folder / "reranker", training, seed=1)
    reranker = convert(folder / "reranker", folder / "reranker.smol", "int8")
    with serving([painter, reranker], "--sequences", 64, "--api-keys", keys, api_key=KEY) as server:
        yield server


def described(server):
    """The description with what only this server knows: its models, and the size of the vocabulary."""
    whole = copy.deepcopy(DESCRIPTION)
    whole["components"]["schemas"]["model_name"] = {"const": server.model}
    whole["components"]["schemas"]["reranker_name"] = {"const": "reranker"}
    whole["components"]["schemas"]["token"]["maximum"] = 1989
    whole["paths"]["/v1/models/{name}"]["get"]["parameters"][0]["schema"] = {"const": server.model}
    return whole


def schemathesis(server, description, folder, *words):
    """The exit status and the report."""
    (folder / "openapi.json").write_text(json.dumps(description))
    command = [Path(sys.executable).parent / "schemathesis", "run", "openapi.json", "--url", f"http://127.0.0.1:{server.port}",
               "--header", f"Authorization: Bearer {KEY}", "--exclude-checks", "positive_data_acceptance", "--no-color",
               "--generation-database", "none", "--request-timeout", "60", "--continue-on-failure", *map(str, words)]  # fmt: skip
    environment = os.environ | {"SCHEMATHESIS_HOOKS": "openapi_rules", "PYTHONPATH": str(ROOT / "tests/oracle"), "no_proxy": "*"}
    run = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=580)
    return run.returncode, run.stdout + run.stderr


def check_report(report, least):
    """All operations were tested, by a number of requests, without a failure."""
    n = sum(len(path) for path in DESCRIPTION["paths"].values())
    assert re.search(rf"Selected: {n}/{n}\n +Tested: {n}\n", report), report
    assert int(re.search(r"(\d+) generated, \1 passed", report)[1]) > least, report


def test_requests_made_from_the_description_are_answered_as_it_says(server, tmp_path):
    status, report = schemathesis(server, described(server), tmp_path, "--phases", "fuzzing", "--seed", 1, "--max-examples", 4)
    assert status == 0, report
    check_report(report, 25)


@pytest.mark.slow
def test_many_requests_made_from_the_description_are_answered_as_it_says(server, tmp_path):
    status, report = schemathesis(server, described(server), tmp_path, "--seed", 2, "--max-examples", 200)
    assert status == 0, report
    check_report(report, 3000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("components/schemas/model/properties/dtype", {"type": "integer"}),
        ("components/schemas/top_p/maximum", 2),
        ("components/schemas/chat_request/required", ["messages"]),
        ("components/schemas/chat_chunk/properties/object", {"const": "chunk"}),
    ],
)
def test_a_wrong_description_is_found(server, tmp_path, path, value):
    wrong = described(server)
    *folders, name = path.split("/")
    place = wrong
    for folder in folders:
        place = place[folder]
    assert place[name] != value
    place[name] = value
    status, report = schemathesis(server, wrong, tmp_path, "--phases", "coverage,fuzzing", "--seed", 1, "--max-examples", 30)
    assert status == 1 and "FAILURES" in report, report


# --- what the sources have ------------------------------------------------------------------------


def test_the_server_serves_its_description(server):
    status, headers, data = server.http("GET", "/openapi.json")  # without a key
    assert (status, headers["Content-Type"]) == (200, "application/json") and json.loads(data) == DESCRIPTION


def names_of_members():
    """Every name in the tables of members, and so every one that any endpoint knows."""
    texts = [path.read_text() for folder in ("smolserve", "cli/request") for path in (ROOT / folder).glob("*.[ch]")]
    return {name for text in texts for name in re.findall(r'\{\s*\\?\s*"(\w+)",\s+\w+', text)}


def schemas_of(path):
    content = DESCRIPTION["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = DESCRIPTION["components"]["schemas"][content["$ref"].rsplit("/", 1)[1]]
    return schema.get("anyOf", [schema])


@pytest.mark.parametrize("path", [path for path, item in DESCRIPTION["paths"].items() if "post" in item])
def test_the_description_has_the_members_that_the_server_has(server, path):
    names, known = names_of_members(), set()
    assert {"messages", "temperature", "echo", "include", "tokens", "tools", "modalities"} <= names
    for name in names | {"no_member"}:
        status, answer = server.post(path, {name: 5} | {"model": server.model}, Authorization=f"Bearer {KEY}")
        assert status == 400 or name == "model", answer
        if "no such member" not in answer["error"]["message"]:
            known.add(name)
    for schema in schemas_of(path):
        assert set(schema["properties"]) == known and schema["additionalProperties"] is False


def test_every_code_of_an_error_is_described():
    sources = "".join(path.read_text() for path in (ROOT / "smolserve").glob("*.c"))
    codes = set(re.findall(r'smol_refuse\([^;"]*?\d{3},\s+(?:[^";]*\? )?"(\w+)"', sources))
    codes |= set(re.findall(r'\? "(\w+)" : "(\w+)",\n', sources)[0]) | set(re.findall(r'= \{\d{3}, "(\w+)"\}', sources))
    codes -= {"client_closed_request"}  # which nobody reads
    described = DESCRIPTION["components"]["schemas"]["error"]["properties"]["error"]["properties"]["code"]["enum"]
    assert {None} | codes == set(described)


def test_every_path_of_the_server_is_described():
    sources = "".join(path.read_text() for path in (ROOT / "smolserve").glob("*.c"))
    paths = set(re.findall(r'path = "(/[^"]*)"', sources)) | set(re.findall(r'\{"(/[^"]+)", "(?!text/html|text/css|image)', sources))
    assert paths | {"/v1/models", "/v1/models/{name}"} == set(DESCRIPTION["paths"])


def test_the_description_is_valid_openapi():
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f'"#/components/schemas/{name}"' in json.dumps(DESCRIPTION), f"{name}: not used"
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(DESCRIPTION)):
        place = DESCRIPTION
        for part in reference.split("/"):
            place = place[part]

    def unique(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    json.loads((ROOT / "smolserve/openapi.json").read_text(), object_pairs_hook=unique)


# --- found by schemathesis, in words --------------------------------------------------------------

USER = {"role": "user", "content": "Hello"}


@pytest.mark.parametrize(
    ("members", "part"),
    [
        ({"messages": [{"content": "x"}]}, "a message has no role"),
        ({"messages": [{"role": None, "content": "x"}]}, "`role` must be a string"),
        ({"messages": [{"role": "user", "content": {}}]}, "`content` must be a string"),
        ({"messages": [{"role": "assistant", "tool_calls": 5}]}, "`tool_calls` must be a list"),
        ({"messages": [{"role": "assistant", "tool_calls": [5]}]}, "an element of `tool_calls`"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "paint"}}]}]}, "an element of `tool_calls`"),
        ({"messages": [USER], "tools": [{"type": "custom", "name": "paint"}]}, "its type must be function"),
        ({"messages": [USER], "max_tokens": 1.5}, "whole number"),
        ({"messages": [USER], "max_tokens": 1e300}, "whole number"),
    ],
)
def test_wrong_conversations_are_refused(server, members, part):
    status, answer = server.post("/v1/chat/completions", members, Authorization=f"Bearer {KEY}")
    assert status == 400 and part in answer["error"]["message"]


def test_no_penalty_makes_a_score_infinite(server):
    for penalty in (3.4e38, 1.2e-38):
        for temperature in (0, 1e-38, 1):
            body = {"messages": [USER], "max_tokens": 9.0, "repetition_penalty": penalty, "temperature": temperature}
            status, answer = server.post("/v1/chat/completions", body, Authorization=f"Bearer {KEY}")
            assert status == 200, answer


# --- what HTTP asks for ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*(path.replace("{name}", "painter") for path in DESCRIPTION["paths"]), "/"])
def test_other_methods_are_refused_with_those_that_are_allowed(server, path):
    gets = path == "/" or "get" in DESCRIPTION["paths"].get(path, {"get": {}})
    for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"]:
        if method in (("GET", "HEAD") if gets else ("POST",)):
            continue
        status, headers, data = server.http(method, path, Authorization=f"Bearer {KEY}")
        assert (status, headers["Allow"]) == (405, "GET, HEAD" if gets else "POST")
        assert headers["Content-Type"] == "application/json"
        assert method == "HEAD" and data == b"" or json.loads(data)["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", [path for path, item in DESCRIPTION["paths"].items() if "get" in item])
def test_heads_have_the_headers_of_the_answer(server, path):
    path, key = path.replace("{name}", server.model), f"Bearer {KEY}"
    _, whole, data = server.http("GET", path, Authorization=key)
    status, headers, nothing = server.http("HEAD", path, Authorization=key)
    assert (status, headers["Content-Type"], nothing) == (200, whole["Content-Type"], b"")
    assert path == "/metrics" or int(headers["Content-Length"]) == len(data)


def test_bodies_must_be_json_of_a_known_size(server):
    request = post_bytes("/tokenize", {"model": server.model, "prompt": "x"}, Authorization=f"Bearer {KEY}", Connection="close")

    def ask(data):
        with server.socket(data) as connection:  # which stays open: a client that closes its side has gone
            return read_all(connection)

    assert ask(request).startswith(b"HTTP/1.1 200 ")
    for old, new, status in [
        (b"application/json", b"text/plain", 415),
        (b"application/json", b"application/jsonl", 415),
        (b"Content-Type: application/json\r\n", b"", 415),
        (b"application/json", b"Application/JSON; charset=utf-8", 200),
        (b"Content-Length", b"X-Length", 400),  # no body, in HTTP/1.1
        (KEY.encode(), KEY[1:].encode(), 401),
        (b"Host: localhost", b"Host: example.org", 403),
        (b"/tokenize", b"/tokenise", 404),
        (b'"x"', b'x""', 400),
    ]:
        assert old in request
        answer = ask(request.replace(old, new, 1))
        assert answer.startswith(b"HTTP/1.1 %d " % status), (new, answer)
    large = {"model": server.model, "prompt": "x" * (5 << 20)}
    assert server.http("POST", "/tokenize", large, Authorization=f"Bearer {KEY}")[0] == 413
