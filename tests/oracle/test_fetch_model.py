"""scripts/smol-fetch against a hub of our own: what it takes, and what it does when the network
breaks, the server lies or what comes is hostile. `sleep` is one that only takes notes."""
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import hub
import pytest
from checkpoints import make
from conftest import ROOT
from hub import COMMIT, REPO, Hub
from programs import smolconv
from test_embedder import make as make_embedder
from test_embedder import write_modules
from test_encoder import lines
from transformers import LlamaForCausalLM

INDEX = "model.safetensors.index.json"
OTHERS = {"README.md": b"# tiny", ".gitattributes": b"*", "pytorch_model.bin": b"pickle", "model.onnx": b""}
WEIGHTS = random.Random(1).randbytes(50 * 4096)
FILES = {"config.json": b"{}", "tokenizer.json": b"[]" * 500, "model.safetensors": WEIGHTS}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = make(tmp_path_factory.mktemp("tiny"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "x"}')
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return folder


@pytest.fixture(scope="module")
def sharded(tmp_path_factory, checkpoint):
    folder = tmp_path_factory.mktemp("sharded")
    LlamaForCausalLM.from_pretrained(checkpoint, dtype="auto").save_pretrained(folder, max_shard_size="60KB")
    shutil.copy(checkpoint / "tokenizer.json", folder)
    return folder


@pytest.fixture()
def tiny():
    """No model, but the names and kinds of files of one."""
    with Hub(FILES | OTHERS) as server:
        yield server


@pytest.fixture()
def tools(tmp_path):
    """A folder in front of PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "sleep").write_text(f'#!/bin/sh\necho "$@" >>{folder}/slept\n')
    (folder / "sleep").chmod(0o755)
    return folder


@pytest.fixture()
def start(tmp_path, tools):
    """start(server, words...): the running script; it fetches into tmp_path/model."""
    out = tmp_path / "model"

    def run(server, *words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **environment):
        inherited = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        inherited |= {"PATH": f"{tools}:{os.environ['PATH']}", "HF_ENDPOINT": server.url()}
        inherited.pop("HF_TOKEN", None)
        command = [ROOT / "scripts/smol-fetch", *(words or (REPO, out))]
        environment = inherited | environment
        return subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
        )

    return run


@pytest.fixture()
def fetch(start):
    """fetch(server, words...): its exit status and messages, when it is done."""

    def run(*arguments, **environment):
        process = start(*arguments, **environment)
        out, errors = process.communicate(timeout=60)
        assert out == ""
        assert all(line.startswith("smol-fetch: ") for line in errors.splitlines()), errors
        return process.returncode, errors

    return run


def slept(tools):
    notes = tools / "slept"
    return notes.read_text().split() if notes.exists() else []


def assert_fetched(result, folder, expected):
    assert result[0] == 0, result[1]
    assert contents(folder) == expected


def assert_fails(result, status, *parts):
    assert result[0] == status, result[1]
    for part in parts:
        assert part in result[1].splitlines()[-1], result[1]


# --- what is fetched ------------------------------------------------------------------------------


def test_exactly_what_smolconv_needs_is_fetched(tmp_path, fetch, checkpoint):
    expected = contents(checkpoint)
    with Hub(expected | OTHERS) as server:
        result = fetch(server)
    assert_fetched(result, tmp_path / "model", expected)
    assert sorted(server.names()) == sorted(expected) and len(expected) == 6
    assert f"6 files of commit {COMMIT}" in result[1]
    for name, folder in (("a", tmp_path / "model"), ("b", checkpoint)):
        assert smolconv("--quiet", folder, tmp_path / f"{name}.smol").returncode == 0
    assert (tmp_path / "a.smol").read_bytes() == (tmp_path / "b.smol").read_bytes()


def module(kind, path=""):
    return {"idx": 0, "name": "0", "path": path, "type": f"sentence_transformers.models.{kind}"}


MODULES = [module("Transformer"), module("Pooling", "1_Pooling"), module("Dense", "2_Dense"), module("Normalize", "3_Normalize")]


def with_modules(modules=MODULES):
    """The files of an embedding model, and others in their folders."""
    taken = {
        "modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": b'{"a": 1}', "2_Dense/config.json": b'{"b": 1}',
        "2_Dense/model.safetensors": WEIGHTS[:5000],
    }  # fmt: skip
    return FILES | taken, {"2_Dense/pytorch_model.bin": b"x", "onnx/model.onnx": b"x", "onnx/config.json": b"{}"}


def test_the_files_of_modules_are_fetched(tmp_path, fetch):
    files, others = with_modules()
    with Hub(files | OTHERS | others) as server:
        server.page_size = 4
        assert_fetched(fetch(server), tmp_path / "model", files)
        assert sorted(server.names()) == sorted(files)
        server.requests.clear()
        server.plans["1_Pooling/config.json"] = [hub.drop(3)]
        (tmp_path / "model/1_Pooling/config.json").write_text("{}")
        assert_fails(fetch(server), 3, "model/1_Pooling/config.json: differs from the Hub's")
        assert_fetched(fetch(server, "--force", REPO, tmp_path / "model"), tmp_path / "model", files)
        assert server.names() == ["1_Pooling/config.json"] * 2


def test_a_fetched_embedding_model_converts_as_the_original(tmp_path, fetch):
    make_embedder(tmp_path / "made", lines(20, seed=1))
    write_modules(tmp_path / "made", dense=[(20, "tanh", True)])
    with Hub(contents(tmp_path / "made")) as server:
        assert_fetched(fetch(server), tmp_path / "model", contents(tmp_path / "made"))
    for name in ("made", "model"):
        assert smolconv("--quiet", tmp_path / name, tmp_path / f"{name}.smol").returncode == 0
    assert (tmp_path / "made.smol").read_bytes() == (tmp_path / "model.smol").read_bytes()


@pytest.mark.sample(2)
@pytest.mark.parametrize("path", ["..", "../model", "/etc", "1_Pooling/../2_Dense", "", ".", "absent", "1_Pooling\n..", "onnx", None, 7])
def test_a_module_is_a_folder_of_the_repository_or_is_refused(tmp_path, fetch, path):
    files, others = with_modules([module("Transformer"), module("Dense", path)])
    with Hub(files | others) as server:
        assert_fails(fetch(server), 5, "which smolconv needs because of modules.json")
        assert server.names() == ["modules.json"]
    assert list(contents(tmp_path / "model")) == ["modules.json"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("text", ["{", "7", '"x"', "[7]", '[["a"]]'])
def test_modules_that_are_no_list_are_refused(fetch, text):
    with Hub(FILES | {"modules.json": text.encode()}) as server:
        assert_fails(fetch(server), 4, "modules.json is no list of modules")
        assert server.names() == ["modules.json"]


@pytest.mark.slow
def test_further_chat_templates_are_fetched(tmp_path, fetch):
    taken = {"chat_template.jinja": b"a", "additional_chat_templates/tool_use.jinja": b"b"}
    others = {"additional_chat_templates/README.md": b"c", "additional_chat_templates/old/x.jinja": b"d"}
    with Hub(FILES | taken | others) as server:
        assert_fetched(fetch(server), tmp_path / "model", FILES | taken)


def test_every_file_that_smolconv_reads_is_known():
    """An adapter's come from elsewhere, and vocab.json is only named in a message."""
    text = "".join(path.read_text() for path in (ROOT / "convert").rglob("*.c"))
    read = set(re.findall(r'"([a-z_-]+\.(?:json|jinja))"', text)) - {"adapter_config.json", "vocab.json"}
    script = (ROOT / "scripts/smol-fetch").read_text()
    assert read == set(re.search(r"^settings=\((.*?)\)", script, flags=re.M | re.S)[1].split())


def test_the_shards_that_the_index_names_are_fetched(tmp_path, fetch, sharded):
    assert len(list(sharded.glob("model-*.safetensors"))) == 3
    with Hub(contents(sharded) | OTHERS | {"other-00001-of-00001.safetensors": b"x"}) as server:
        assert_fetched(fetch(server), tmp_path / "model", contents(sharded))
    assert smolconv("--quiet", tmp_path / "model", tmp_path / "o.smol").returncode == 0


def test_of_both_kinds_of_weights_the_one_is_fetched_that_smolconv_reads(tmp_path, fetch, sharded):
    with Hub(contents(sharded) | FILES) as server:
        result = fetch(server)
    settings = {"generation_config.json": (sharded / "generation_config.json").read_bytes()}
    assert_fetched(result, tmp_path / "model", FILES | settings)


@pytest.mark.slow
def test_a_listing_may_have_many_pages(tmp_path, tiny, fetch):
    tiny.page_size = 2
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)


def test_our_hub_is_one_to_the_client_of_the_reference(tiny):
    """So what smol-fetch is tested with has the shape that the Hub has."""
    script = """if True:
        import json, sys
        from huggingface_hub import HfApi
        api, repo = HfApi(endpoint=sys.argv[1], token=False), sys.argv[2]
        commit = api.model_info(repo, revision="main").sha
        files = [(f.path, f.size, f.lfs.sha256 if f.lfs else f.blob_id) for f in api.list_repo_tree(repo, revision=commit, recursive=True)]
        print(json.dumps([commit, files]))
    """
    tiny.page_size = 2
    environment = dict(os.environ, HF_HUB_OFFLINE="0", HF_ENDPOINT=tiny.url(), no_proxy="*")
    words = [sys.executable, "-c", script, tiny.url(), REPO]
    commit, files = json.loads(subprocess.run(words, check=True, capture_output=True, env=environment).stdout)
    assert commit == COMMIT
    expected = [[e["path"], e["size"], e["lfs"]["oid"] if "lfs" in e else e["oid"]] for e in tiny.entries]
    assert files == expected and len(files) == len(tiny.files)
    git = subprocess.run(["git", "hash-object", "--stdin"], input=FILES["config.json"], capture_output=True, check=True)
    assert tiny.entries[0]["oid"] == git.stdout.decode().strip()


def test_models_is_where_models_go(tmp_path, tiny, fetch, start):
    environment = dict(os.environ, HF_ENDPOINT=tiny.url(), no_proxy="*")
    script = ROOT / "scripts/smol-fetch"
    subprocess.run([script, REPO], check=True, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    assert contents(tmp_path / "models/tiny") == FILES


def test_all_files_are_of_the_commit_that_the_revision_names(tmp_path, tiny, fetch):
    assert_fetched(fetch(tiny, "--revision", "refs/pr/1", REPO, tmp_path / "model"), tmp_path / "model", FILES)
    paths = [path for path, _ in tiny.requests]
    assert paths[0] == f"/api/models/{REPO}/revision/refs%2Fpr%2F1"
    assert all(f"/{COMMIT}" in path for path in paths[1:])
    assert fetch(Hub(), "--revision", "a b", REPO)[0] == fetch(Hub(), "--revision=", REPO)[0] == 2


def test_what_smolconv_cannot_do_without_is_missed(tmp_path, fetch):
    for name, part in (("config.json", "no config.json"), ("tokenizer.json", "no tokenizer.json"),
                       ("model.safetensors", "neither model.safetensors nor")):  # fmt: skip
        files = FILES | OTHERS
        del files[name]
        with Hub(files) as server:
            assert_fails(fetch(server), 5, part)
    assert not (tmp_path / "model").exists()


def test_what_is_there_is_not_fetched_again(tmp_path, tiny, fetch):
    assert fetch(tiny)[0] == 0
    tiny.requests.clear()
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)
    assert tiny.names() == []


def test_a_file_of_the_users_is_replaced_only_by_force(tmp_path, tiny, fetch):
    assert fetch(tiny)[0] == 0
    tiny.requests.clear()
    (tmp_path / "model/config.json").write_text("[]")
    assert_fails(fetch(tiny), 3, "model/config.json: differs from the Hub's", "--force")
    assert tiny.names() == [] and (tmp_path / "model/config.json").read_text() == "[]"
    assert_fetched(fetch(tiny, "--force", REPO, tmp_path / "model"), tmp_path / "model", FILES)
    assert tiny.names() == ["config.json"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["chat_template.jinja", INDEX, "old.safetensors", "additional_chat_templates/old.jinja"])
def test_what_is_left_of_another_revision_is_named(tmp_path, tiny, fetch, name):
    (tmp_path / "model" / name).parent.mkdir(parents=True)
    (tmp_path / "model" / name).write_text("x")
    assert_fails(fetch(tiny, "--force", REPO, tmp_path / "model"), 3, f"{name}: not part of this model")


def test_wrong_usage_is_wrong_usage(tmp_path, fetch):
    for words in (["a"], ["a/b/c"], ["../b"], ["a/.."], [REPO, "b", "c"], ["--quiet", REPO], ["--revision"], ["--convert"], ["a/b\x1b"]):
        assert fetch(Hub(), *words)[0] == 2
    assert fetch(Hub(), HF_ENDPOINT="ftp://somewhere")[0] == 2
    assert fetch(Hub(), HF_ENDPOINT='http://a"b')[0] == 2
    assert fetch(Hub(), HF_TOKEN='a"\nurl = "file:///etc/passwd')[0] == 2


@pytest.mark.parametrize("there, missing, packages", [
    ((), "curl jq flock", "curl jq util-linux"), (["flock"], "curl jq", "curl jq"), (["curl", "flock"], "jq", "jq"),
])  # fmt: skip
def test_all_tools_that_are_missing_are_named_at_once(tmp_path, fetch, there, missing, packages):
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname", *there):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    result = fetch(Hub(), PATH=str(tmp_path / "bin"))
    assert result == (3, f"smol-fetch: missing: {missing}: on Debian, sudo apt-get install {packages}\n")


def test_help_is_printed_and_names_every_option(start, tiny):
    for flag in ("-h", "--help"):
        process = start(tiny, flag)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and errors == "" and tiny.requests == []
        assert out.startswith("usage: smol-fetch ")
    script = (ROOT / "scripts/smol-fetch").read_text()
    assert set(re.findall(r"--[a-z]+", out)) == set(re.findall(r"^    (?:-h \| )?(--[a-z]+)\)", script, flags=re.M))


# --- conversion and chat --------------------------------------------------------------------------


def test_a_model_is_fetched_converted_and_chatted_with_by_one_command(tmp_path, start):
    """The second time nothing is downloaded or converted."""
    with Hub(contents(ROOT / "demo/model")) as server:
        for again in (False, True):
            server.requests.clear()
            process = start(server, "--chat", REPO, tmp_path / "model", stdin=subprocess.PIPE, HF_TOKEN="hf_secret")
            out, errors = process.communicate("Hello\n", timeout=60)
            assert process.returncode == 0, errors
            assert out.strip()
            assert (f"{tmp_path}/model.smol: already there" in errors) == again
            assert bool(server.names()) != again
    assert smolconv("verify", tmp_path / "model.smol").returncode == 0


def test_a_blob_is_converted_where_convert_says_and_replaced_by_force_only(tmp_path, fetch, start):
    blob = tmp_path / "out.smol"
    words = ("--convert", blob, REPO, tmp_path / "model")
    with Hub(contents(ROOT / "demo/model")) as server:
        assert start(server, *words).wait(60) == 0
        made = blob.read_bytes()
        blob.write_bytes(b"mine")
        os.utime(blob, (0, 0))
        process = start(server, *words)
        assert "--force" in process.communicate(timeout=60)[1] and process.returncode == 3
        assert blob.read_bytes() == b"mine"
        assert start(server, "--force", *words).wait(60) == 0
        assert blob.read_bytes() == made
    assert not (tmp_path / "model.smol").exists()


def test_the_programs_are_looked_for_before_the_download(tmp_path, tiny):
    """Beside the script, as where they are installed, and in PATH."""
    (tmp_path / "bin").mkdir()
    script = shutil.copy(ROOT / "scripts/smol-fetch", tmp_path / "bin")
    def run(*words):
        environment = os.environ | {"HF_ENDPOINT": tiny.url()}
        return subprocess.run([script, *words, REPO, tmp_path / "model"], env=environment, capture_output=True, text=True)

    result = run("--chat")
    assert result.returncode == 3 and "smolconv: not found beside smol-fetch or in PATH" in result.stderr
    assert tiny.requests == []
    for name in ("smolconv", "smolrun"):
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    result = run("--chat")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"smolconv {tmp_path}/model {tmp_path}/model.smol\nsmolrun chat {tmp_path}/model.smol\n"


def test_a_model_that_cannot_be_converted_has_the_status_of_the_conversion(tmp_path, tiny, start):
    process = start(tiny, "--chat", REPO, tmp_path / "model")
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 4 and "smolconv: " in errors.splitlines()[-1]


# --- the network ----------------------------------------------------------------------------------


def test_a_connection_that_drops_is_continued(tmp_path, tiny, fetch, tools):
    tiny.plans["model.safetensors"] = [hub.drop(1000), hub.drop(0), hub.drop(0), hub.drop(5000)]
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)
    ranges = [headers.get("Range") for headers in tiny.asked("model.safetensors")]
    assert ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=1000-", "bytes=6000-"]
    assert slept(tools) == ["1", "2", "4", "1"]


def test_a_call_that_was_killed_is_continued_by_the_next(tmp_path, tiny, start, fetch):
    arrived, go_on = threading.Event(), threading.Event()
    tiny.plans["model.safetensors"] = [hub.held(8192, arrived, go_on)]
    process = start(tiny)
    assert arrived.wait(60)
    part = tmp_path / "model/model.safetensors.part"
    while not part.exists() or part.stat().st_size < 8192:
        assert process.poll() is None
    assert fetch(tiny)[1].endswith("another smol-fetch is downloading into it\n")
    process.send_signal(signal.SIGKILL)
    go_on.set()
    process.communicate()
    kept = part.stat().st_size
    assert not (tmp_path / "model/model.safetensors").exists()
    while fetch(tiny)[1].endswith("another smol-fetch is downloading into it\n"):
        pass  # until curl has noticed
    assert contents(tmp_path / "model") == FILES
    asked = [headers.get("Range") for headers in tiny.asked("model.safetensors")]
    assert kept >= 8192 and asked[0] is None and len(asked) <= 2


@pytest.mark.slow
def test_a_server_that_fails_is_given_up_after_five_tries(tmp_path, tiny, fetch, tools):
    tiny.plans["model.safetensors"] = [hub.drop(700)] + [hub.status(503)] * 4
    assert_fails(fetch(tiny), 3, "model.safetensors: failed after 5 attempts")
    assert slept(tools) == ["1", "2", "4", "8"]
    assert (tmp_path / "model/model.safetensors.part").stat().st_size == 700
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)
    assert tiny.asked("model.safetensors")[-1]["Range"] == "bytes=700-"


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", ["revision", "tree", "config.json"])
def test_a_server_that_throttles_is_obeyed(tmp_path, tiny, fetch, tools, what):
    tiny.plans[what] = [
        hub.status(429, Retry_After="77"), hub.status(429, Retry_After="1000000000"),
        hub.status(429, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"), hub.status(500, Retry_After="0"),
    ]  # fmt: skip
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)
    assert slept(tools) == ["77", "300", "4", "8"]


@pytest.mark.slow
def test_a_connection_that_stalls_is_given_up(tmp_path, tiny, fetch, tools):
    """After a minute; here after a second."""
    (tools / "curl").write_text(f'#!/bin/sh\nexec {shutil.which("curl")} "$@" --speed-time 1\n')
    (tools / "curl").chmod(0o755)
    arrived, go_on = threading.Event(), threading.Event()
    tiny.plans["model.safetensors"] = [hub.held(4000, arrived, go_on)]
    result = fetch(tiny)
    go_on.set()
    assert_fetched(result, tmp_path / "model", FILES)
    assert tiny.asked("model.safetensors")[1]["Range"] == "bytes=4000-"


def test_nobody_there_is_an_error(fetch):
    server = Hub()
    server.server.server_close()
    assert_fails(fetch(server), 3, f"{REPO}: failed after 5 attempts")


def test_what_is_refused_is_refused_at_once(tmp_path, tiny, fetch, tools):
    for code, part in ((401, "HF_TOKEN"), (403, "HF_TOKEN"), (404, "check the name"), (410, "HTTP status 410")):
        tiny.plans["tree"] = [hub.status(code, X_Error_Message="Gated \x1b[31m model")]
        assert_fails(fetch(tiny), 3, REPO, part, f"{code}, Gated ?[31m model")
    assert slept(tools) == [] and not (tmp_path / "model").exists()
    assert_fails(fetch(tiny, "someone/else"), 3, "someone/else: HTTP status 404")


def test_a_disk_that_is_full_is_an_error(tmp_path, tiny, fetch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json.part").symlink_to("/dev/full")
    assert_fails(fetch(tiny), 3, "config.json.part: cannot write: No space left on device")
    (tmp_path / "file").write_text("")
    assert_fails(fetch(tiny, REPO, tmp_path / "file/model"), 3, "cannot create")


def test_progress_is_shown_on_a_terminal(tmp_path, tiny, start, tools):
    (tools / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.05\n")
    size = len(WEIGHTS)
    arrived, go_on = threading.Event(), threading.Event()
    tiny.plans["model.safetensors"] = [hub.held(size // 2, arrived, go_on)]
    terminal, other = pty.openpty()
    process = start(tiny, stderr=other)
    os.close(other)
    shown = b""
    while not re.search(rb"\rmodel\.safetensors: (4[5-9]|50) % of 204 KB, [0-9]+ KB/s", shown):
        shown += os.read(terminal, 4096)
    go_on.set()
    assert process.wait(60) == 0
    os.close(terminal)


# --- lies -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_length_that_is_a_lie_does_no_harm(tmp_path, tiny, fetch):
    tiny.plans["model.safetensors"] = [hub.shorter(900), hub.longer, hub.drop(2000), hub.shorter(0)]
    tiny.plans["config.json"] = [hub.longer]
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)


def test_more_than_was_listed_is_no_file(tmp_path, tiny, fetch):
    tiny.plans["config.json"] = [hub.longer] * 9
    assert_fails(fetch(tiny), 4, "config.json: ", "not with the digest")
    assert contents(tmp_path / "model") == {}
    tiny.plans["tree"] = [hub.longer]
    assert_fails(fetch(tiny), 4, "too long")


@pytest.mark.slow
def test_a_server_without_ranges_begins_again(tmp_path, tiny, fetch):
    tiny.plans["model.safetensors"] = [hub.drop(1000), hub.whole, hub.whole]
    result = fetch(tiny)
    assert_fetched(result, tmp_path / "model", FILES)
    assert "the server does not resume files: starting again" in result[1]


def test_a_web_page_is_not_a_file(tmp_path, tiny, fetch):
    tiny.plans["model.safetensors"] = [hub.page, hub.drop(1000), hub.page]
    tiny.plans["config.json"] = [hub.page]
    tiny.plans["tree"] = [hub.page]
    result = fetch(tiny)
    assert_fetched(result, tmp_path / "model", FILES)
    assert result[1].count("received a web page instead") == 4
    assert tiny.asked("model.safetensors")[-1]["Range"] == "bytes=1000-"  # pages cost nothing


@pytest.mark.slow
def test_web_pages_only_are_given_up(tmp_path, tiny, fetch):
    tiny.plans["model.safetensors"] = [hub.page] * 5
    assert_fails(fetch(tiny), 3, "model.safetensors: failed after 5 attempts")
    assert (tmp_path / "model/model.safetensors.part").stat().st_size == 0


def test_bytes_that_are_not_those_published_get_no_name(tmp_path, tiny, fetch):
    for name in ("config.json", "model.safetensors"):  # git's digest, SHA-256
        tiny.plans[name] = [hub.damaged] * 3
        assert_fails(fetch(tiny), 4, f"{name}: ", "not with the digest that the Hub publishes")
        assert not list((tmp_path / "model").glob(f"{name}*"))
        tiny.plans[name] = [hub.damaged]
        result = fetch(tiny)
        assert (result[0], (tmp_path / "model" / name).read_bytes()) == (0, FILES[name])
        shutil.rmtree(tmp_path / "model")


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [0, 1000, None, 1 << 20])
def test_a_part_of_something_else_is_found_out(tmp_path, tiny, fetch, size):
    (tmp_path / "model").mkdir()
    size = len(WEIGHTS) if size is None else size
    (tmp_path / "model/model.safetensors.part").write_bytes(bytes(size))
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)


@pytest.mark.slow
def test_a_part_that_is_whole_needs_only_its_name(tmp_path, tiny, fetch):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.safetensors.part").write_bytes(WEIGHTS)
    assert_fetched(fetch(tiny), tmp_path / "model", FILES)
    assert "model.safetensors" not in tiny.names()


# --- hostile answers ------------------------------------------------------------------------------

CONFIG = {"type": "file", "oid": "0" * 40, "size": 3, "path": "config.json"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "listing",
    [CONFIG | {"path": path} for path in ("../config.json", "/etc/passwd", "a/../b", "a//b", "a/", "a/.", "a\\b", "..", ".", "", "a\nb", "\x7f", 7, None)]
    + [CONFIG | {"size": size} for size in (-1, 0.5, "3", None, 1e300, [])]
    + [CONFIG | {"oid": oid} for oid in ("", "0" * 39, "0" * 64 + "\n", "G" * 40, "$(id)", None, 0)]
    + [CONFIG | {"lfs": lfs} for lfs in ([], "x", {"oid": "0" * 63, "size": 3}, {"oid": "0" * 64, "size": "x"})]
    + ["entry", None, 3],
)  # fmt: skip
def test_a_listing_that_makes_no_sense_is_refused(tmp_path, tiny, fetch, listing):
    tiny.entries.append(listing)
    assert_fails(fetch(tiny), 4, "invalid name, size or digest")
    assert not (tmp_path / "model").exists() and tiny.names() == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["", "null", '"x"', "{", '{"error": "x"}', "[[]]"])
def test_what_is_no_listing_is_refused(tmp_path, tiny, fetch, text):
    tiny.plans["tree"] = [lambda handler, content: handler.reply(text.encode())]
    assert_fails(fetch(tiny), 4 if text else 5, REPO)
    tiny.plans["revision"] = [lambda handler, content: handler.reply(text.encode())]
    assert_fails(fetch(tiny), 4, "names no commit")


@pytest.mark.slow
def test_a_file_that_is_listed_twice_is_refused(tmp_path, tiny, fetch):
    tiny.entries.append(CONFIG)
    assert_fails(fetch(tiny), 4, "config.json appears twice")


def test_a_commit_is_nothing_but_a_commit(tiny, fetch):
    for commit in ("../../x", COMMIT + "/x", COMMIT.upper(), "", 7):
        answer = json.dumps({"sha": commit}).encode()
        tiny.plans["revision"] = [lambda handler, content: handler.reply(answer)]
        assert_fails(fetch(tiny), 4, "names no commit")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "shard", ["../model.safetensors", "/etc/passwd", "absent.safetensors", "pytorch_model.bin", "config.json", "", "deep/x.safetensors",
              "model-00001-of-00003.safetensors\nconfig.json", 7, None]
)  # fmt: skip
def test_an_index_names_files_of_the_repository_or_is_refused(tmp_path, fetch, sharded, shard):
    files = contents(sharded) | OTHERS | {"deep/x.safetensors": b"x"}
    index = json.loads(files[INDEX])
    index["weight_map"]["model.norm.weight"] = shard
    with Hub(files | {INDEX: json.dumps(index).encode()}) as server:
        part = "names a shard that does not exist" if isinstance(shard, str) else "no weight_map"
        assert_fails(fetch(server), 4, part)
        assert server.names() == [INDEX]


@pytest.mark.slow
def test_a_listing_that_goes_on_for_ever_does_not(tiny, fetch):
    def again(handler, content):
        handler.reply(b"[]", Link=f'<{tiny.url()}/x?cursor=1>; rel="next"')

    tiny.plans["tree"] = [again] * 200
    tiny.page_size = 0
    assert_fails(fetch(tiny), 5, "too many files for a model")


def test_settings_of_any_size_are_not_fetched(tmp_path, tiny, fetch):
    tiny.entries = [e | {"size": 1 << 40} if e["path"] == "tokenizer.json" else e for e in tiny.entries]
    assert_fails(fetch(tiny), 5, "tokenizer.json has 1099511627776 bytes")
    assert tiny.names() == []


# --- redirects, and the token ---------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_token_goes_to_the_hub_and_to_no_other(tmp_path, tiny, fetch, host):
    with Hub(FILES) as other:
        target = f"/{REPO}/resolve/{COMMIT}/model.safetensors"
        tiny.plans["model.safetensors"] = [hub.redirect(other.url(host) + target)] * 2
        tiny.plans["config.json"] = [hub.redirect(f"/{REPO}/resolve/{COMMIT}/config.json?again")]
        other.plans["model.safetensors"] = [hub.drop(3000)]
        assert_fetched(fetch(tiny, HF_TOKEN="hf_secret"), tmp_path / "model", FILES)
        assert [headers.get("Range") for headers in other.asked("model.safetensors")] == [None, "bytes=3000-"]
        assert "secret" not in str(other.requests)
    assert len(tiny.requests) == 7
    assert {headers.get("Authorization") for _, headers in tiny.requests} == {"Bearer hf_secret"}


def test_nobody_sees_the_token_among_the_processes(tmp_path, tiny, start):
    arrived, go_on = threading.Event(), threading.Event()
    tiny.plans["model.safetensors"] = [hub.held(10, arrived, go_on)]
    process = start(tiny, HF_TOKEN="hf_secret")
    assert arrived.wait(60)
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            pass  # it has ended
    go_on.set()
    assert process.wait(60) == 0
    assert any(b"resolve" in line and tiny.url().encode() in line for line in lines)
    assert not any(b"hf_secret" in line for line in lines)


@pytest.mark.slow
def test_redirects_lead_to_http_and_end(tmp_path, tiny, fetch):
    for url in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/"):
        tiny.plans["config.json"] = [hub.redirect(url)]
        assert_fails(fetch(tiny), 3, "config.json: curl: (1) Protocol")
    tiny.plans["config.json"] = [hub.redirect(f"/{REPO}/resolve/{COMMIT}/config.json")] * 99
    assert_fails(fetch(tiny), 3, "config.json: curl: (47) Maximum")
    assert not list((tmp_path / "model").glob("config.json"))
