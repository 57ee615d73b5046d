"""smolrun.batch: whatever happens to a run, its files are, byte by byte, what one `smolrun --jsonl` prints."""

import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time

import package
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import smolrun
from openai.types import Completion
from openai.types.chat import ChatCompletion
from checkpoints import make
from package import run_python
from programs import smolconv
from programs import smolrun as run_program
from serving import serving
from smolrun import _openai, _parts, _worker, batch
from test_jsonl import LIMIT, draw_request
from test_tools import FEW, USER, painter  # noqa: F401 (a fixture)
from tokenizers import Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE

OK, USAGE, FILE, STOPPED = 0, 2, 3, 130
HOSTILE = [
    b"", b"  \t\r", b"{", b"[1]", b"null", b'{"prompt": "\xff"}', b"\xff\xfe", b'{"prompt": "a", "prompt": "b"}', b"\0",
    b'{"prompt": "a\0b"}', b'{"prompt": ' + b"[" * 100_000, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b'{"prompt": "\\ud800", "max_tokens": 2}',
    b'{"prompt": "x", "max_tokens": 2, "id": "\\u0061"}\r', b' {"id": 7, "promt": "x"}', b'{"prompt": "", "max_tokens": 1e400}',
    b'{"prompt": "' + b"a" * LIMIT + b'"}', b" " * LIMIT, b" " * (LIMIT + 1), b"x" * LIMIT, b"x" * (LIMIT + 1), b"y" * (3 * LIMIT),
    b'{"prompt": "once", "max_tokens": 1, "id": "\\"usage\\": {"}', b'{"index": 3}',
]  # fmt: skip


def requests(n, seed=1, **more):
    rng = random.Random(seed)
    return [json.dumps({"id": i} | draw_request(rng) | more).encode() for i in range(n)]


def printed(blob, rows, *words):
    result = run_program(blob, "--jsonl", *words, input=b"\n".join(rows))
    assert result.returncode == OK, result.stderr
    return result.stdout


def parts(folder):
    return sorted(folder.glob("part-*.jsonl"))


def joined(folder):
    return b"".join(path.read_bytes() for path in parts(folder))


@pytest.fixture(scope="module")
def rows():
    found = requests(160)
    for i, line in enumerate(HOSTILE):
        found.insert(i * 5, line)
    return found


@pytest.fixture(scope="module")
def expected(blob, rows):
    return printed(blob, rows)


@pytest.fixture
def file(rows, tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(rows))  # the last line lacks its end
    return tmp_path / "rows.jsonl"


# --- the same bytes -------------------------------------------------------------------------------


@pytest.mark.quick
@pytest.mark.sample(2)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_writes_what_smolrun_prints(blob, file, expected, tmp_path, workers):
    report = batch.run(blob, file, tmp_path / "out", workers=workers)
    assert joined(tmp_path / "out") == expected
    found = [json.loads(line) for line in expected.splitlines()]
    assert [answer["index"] for answer in found] == list(range(len(found)))
    assert len(parts(tmp_path / "out")) > 6 and (tmp_path / "out/_SUCCESS").exists()
    assert {path.name[0] for path in (tmp_path / "out").iterdir()} == {"p", "_"}
    assert (report.rows, report.total, report.reused) == (len(found), len(found), 0)
    assert report.errors == sum("error" in answer for answer in found) > 15
    usage = [answer["usage"] for answer in found if "usage" in answer]
    assert report.completion_tokens == sum(one["completion_tokens"] for one in usage)
    assert report.prompt_tokens == sum(one["prompt_tokens"] for one in usage)


def test_a_line_of_100_megabytes_is_one_error_and_takes_no_memory(blob, tmp_path):
    with open(tmp_path / "rows", "wb") as file:
        file.write(b'{"prompt": "Once", "max_tokens": 2}\n{"prompt": "')
        for _ in range(100):
            file.write(b"a" * 1_000_000)
        file.write(b'"}\n{"prompt": "Once", "max_tokens": 2}\n')
    code = r"""
import re, smolrun.batch, sys
report = smolrun.batch.run(*sys.argv[1:], workers=2, rows_per_part=1)
peak = int(re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1])
print(report.rows, report.errors, peak < 100_000 or peak)"""
    assert package.output_of(code, blob, tmp_path / "rows", tmp_path / "out") == "3 1 True\n"
    first, second, third = (json.loads(line) for line in joined(tmp_path / "out").splitlines())
    assert "1 MiB" in second["error"]["message"] and first["ids"] == third["ids"]


def test_files_and_folders_are_read_in_their_order(blob, tmp_path):
    lines = requests(30)
    (tmp_path / "in").mkdir()
    for name, some in (("b.jsonl", lines[20:]), ("a.jsonl", lines[10:20]), (".hidden", [b"{"]), ("_SUCCESS", [])):
        (tmp_path / "in" / name).write_bytes(b"".join(line + b"\n" for line in some))
    (tmp_path / "first").write_bytes(b"\n".join(lines[:10]))
    batch.run(blob, [tmp_path / "first", tmp_path / "in"], tmp_path / "out", workers=2, rows_per_part=4)
    assert joined(tmp_path / "out") == printed(blob, lines)
    assert [path.read_bytes().count(b"\n") for path in parts(tmp_path / "out")] == [4, 4, 2] * 3


def test_settings_are_smolruns_options(blob, tmp_path):
    lines = [b'{"prompt": "Once"}', b'{"prompt": "The cat", "max_tokens": 3, "seed": 1}']
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    settings = {"max_tokens": 9, "temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1, "seed": 5,
                "stop": ["--x", "zz"], "n_ctx": 64, "kv": "f32"}  # fmt: skip
    words = ["-n", 9, "--temp", 1.5, "--top-k", 20, "--top-p", 0.9, "--min-p", 0.01, "--repeat-penalty", 1.1, "--seed", 5,
             "--stop", "--x", "--stop", "zz", "--ctx", 64, "--kv", "f32"]  # fmt: skip
    batch.run(blob, tmp_path / "rows", tmp_path / "out", **settings)
    assert joined(tmp_path / "out") == printed(blob, lines, *words)
    words[words.index("--stop") : words.index("zz") + 1] = ["--stop=--x", "--stop=zz"]
    result = command(blob, tmp_path / "rows", "-o", tmp_path / "out2", "--quiet", *words)
    assert (result.returncode, result.stderr) == (OK, "")
    assert joined(tmp_path / "out2") == joined(tmp_path / "out")
    batch.run(blob, tmp_path / "rows", tmp_path / "out3", max_tokens=None, n_ctx=40)
    assert joined(tmp_path / "out3") == printed(blob, lines, "-n", -1, "--ctx", 40)


def test_no_rows_are_no_parts(blob, tmp_path):
    (tmp_path / "rows").write_bytes(b"\n \n")
    report = batch.run(blob, tmp_path / "rows", tmp_path / "out")
    assert report.total == 0 and parts(tmp_path / "out") == [] and (tmp_path / "out/_SUCCESS").exists()


def test_a_folder_tells_how_far_a_run_is(blob, tmp_path):
    """Spark itself reports progress only at the end."""
    (tmp_path / "rows").write_bytes(b"\n".join(requests(20)))
    job, paths = _parts.start(blob, tmp_path / "rows", tmp_path / "out", 1, rows_per_part=5)
    shown, planned = [], job.plan(paths)
    counts = batch.Progress(planned, planned, 3.6, lambda report: shown.append((report.rows, str(report))))
    counts._every = 0.01
    with counts.watching(job, planned):
        wait_until(lambda: shown)
        list(_worker.Answerer(job).parts(planned[:3]))
        wait_until(lambda: shown[-1][0] == 15)
    assert shown[0][1] == "0 of 20 rows, 0.0 rows/s" and re.fullmatch(r"15 of 20 rows, [\d.]+ rows/s, [\d.]+ for 1,000 rows, \d+ s left", shown[-1][1])


# --- keys -----------------------------------------------------------------------------------------


def test_names_of_parts_are_digests_of_keys(blob, tmp_path):
    """docs/scale.md describes these names."""
    lines = requests(10)
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    batch.run(blob, tmp_path / "rows", tmp_path / "out", rows_per_part=4, temperature=0.5)
    identity = {"blob": hashlib.sha256(blob.read_bytes()).hexdigest(), "smolrun": smolrun.__version__, "row_format": "requests",
                "settings": {"temperature": 0.5}}  # fmt: skip
    start = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).digest()
    keys = [hashlib.sha256(start + line).digest() for line in lines]
    digests = [hashlib.sha256(b"".join(keys[i : i + 4])).hexdigest() for i in (0, 4, 8)]
    assert [path.name for path in parts(tmp_path / "out")] == [f"part-{i:09}-{digest[:32]}.jsonl" for i, digest in enumerate(digests)]


def test_another_jobs_folder_is_refused(blob, demo_blob, tmp_path):
    lines = requests(42)
    rows, out = tmp_path / "rows", tmp_path / "out"
    rows.write_bytes(b"\n".join(lines))
    batch.run(blob, rows, out, temperature=0.5)
    before = joined(out)

    def refused(message, *words, **settings):
        with pytest.raises(smolrun.UsageError, match=message):
            batch.run(*(words or (blob, rows, out)), **settings)
        assert joined(out) == before

    refused("whose temperature is 0.5, and not 0.7: choose another folder", temperature=0.7)
    refused("whose temperature is 0.5, and not null")
    refused("whose seed is null, and not 3", temperature=0.5, seed=3)
    refused("whose blob is ", demo_blob("int4"), rows, out, temperature=0.5)
    refused("whose rows_per_part is ", temperature=0.5, rows_per_part=3)
    refused('whose row_format is "requests", and not "openai"', temperature=0.5, row_format="openai")
    for changed in (lines[:-1], lines[:5], [*lines, lines[0]], [lines[1], lines[0], *lines[2:]], []):
        rows.write_bytes(b"\n".join(changed))
        refused("has answers to other rows", temperature=0.5)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/text").write_text("mine")
    refused("has files, but no _job", blob, rows, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["text"]
    (out / "_job").write_text("{")
    with pytest.raises(smolrun.DamagedError, match="_job: is damaged"):
        batch.run(blob, rows, out)


def test_rows_that_change_during_a_run_are_noticed(blob, tmp_path):
    """Before any answer to them is written."""
    (tmp_path / "rows").write_bytes(b"\n".join(requests(20)))
    job, paths = _parts.start(blob, tmp_path / "rows", tmp_path / "out", 1, rows_per_part=10)
    planned = job.plan(paths)
    (tmp_path / "rows").write_bytes(b"\n".join([*requests(10), *requests(10, seed=2)]))
    with pytest.raises(smolrun.FileError, match="rows 10 to 19 of the job: they have changed"):
        list(_worker.Answerer(job).parts(planned))
    assert [path.name for path in parts(tmp_path / "out")] == [planned[0].name]
    assert [name for name in os.listdir(tmp_path / "out") if name.endswith(".tmp")] == []


# --- what is killed -------------------------------------------------------------------------------


def command(*words, **options):
    code = "import sys; from smolrun.programs import main; sys.argv[1:1] = ['batch']; main()"
    return run_python(code, *words, **options)


def begin(blob, rows, out, *words):
    code = "import sys; from smolrun.programs import main; sys.argv[1:1] = ['batch']; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, blob, rows, "-o", out, "--rows-per-part", "8", *words], cwd="/",
        env={**os.environ, "PYTHONPATH": str(package.FOLDER)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def children(pid):
    path = f"/proc/{pid}/task/{pid}/children"
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        path = f"/proc/{pid}/task/{thread}/children"
        if os.path.exists(path):
            found += map(int, open(path).read().split())
    return found


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_killed_workers_lose_nothing(blob, tmp_path, monkeypatch):
    lines = requests(100)
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    rng, killed, take = random.Random(1), [], _worker.Worker._take

    def take_and_kill(self, line):
        answer = take(self, line)
        if rng.random() < 0.1:
            killed.append(self._process)
            self._process.kill()
        return answer

    monkeypatch.setattr(_worker.Worker, "_take", take_and_kill)
    report = batch.run(blob, tmp_path / "rows", tmp_path / "out", workers=2)
    assert joined(tmp_path / "out") == printed(blob, lines) and report.rows == len(lines)
    assert len(set(killed)) > 4


@pytest.mark.slow
def test_a_killed_run_continues_with_other_workers(blob, tmp_path):
    lines, out = requests(240, seed=3), tmp_path / "out"
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    before = {}
    for workers, more in (("1", 5), ("3", 8)):
        process = begin(blob, tmp_path / "rows", out, "--workers", workers, "--rows-per-part", "4")
        wait_until(lambda more=more: len(parts(out)) >= len(before) + more)
        workers = children(process.pid)
        process.kill()
        process.communicate()
        assert workers and len(parts(out)) < 60
        wait_until(lambda workers=workers: not any(os.path.exists(f"/proc/{pid}") for pid in workers))
        now = {path: path.stat() for path in parts(out)}
        assert all((now[path].st_ino, now[path].st_mtime_ns) == (old.st_ino, old.st_mtime_ns) for path, old in before.items())
        before = now
    result = command(blob, tmp_path / "rows", "-o", out, "--workers", 2)
    assert result.returncode == OK and re.match(r"240 of 240 rows, [\d.]+ rows/s, [\d.]+ tokens/s\n", result.stderr.splitlines(True)[-1])
    assert joined(out) == printed(blob, lines)
    assert all(path.stat().st_mtime_ns == old.st_mtime_ns for path, old in before.items())
    assert [name for name in os.listdir(out) if name.endswith(".tmp")] == []


def test_a_complete_run_is_not_repeated(blob, tmp_path, monkeypatch):
    (tmp_path / "rows").write_bytes(b"\n".join(requests(30)))
    batch.run(blob, tmp_path / "rows", tmp_path / "out", workers=2)
    monkeypatch.setattr(_worker.Worker, "_start", None)
    report = batch.run(blob, tmp_path / "rows", tmp_path / "out", workers=3)
    assert (report.total, report.reused, report.rows) == (30, 30, 0)


def test_ctrl_c_ends_the_workers(blob, tmp_path):
    (tmp_path / "rows").write_bytes(b"\n".join(requests(400)))
    process = begin(blob, tmp_path / "rows", tmp_path / "out", "--workers", "2")
    wait_until(lambda: len(parts(tmp_path / "out")) >= 2)
    workers = children(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == STOPPED and errors.endswith("smolrun: stopped: the same command continues\n"), errors
    assert "Traceback" not in errors and not any(os.path.exists(f"/proc/{pid}") for pid in workers)


@pytest.mark.slow
def test_runs_at_the_same_time_write_the_same(blob, tmp_path):
    lines, out = requests(80), tmp_path / "out"
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    processes = [begin(blob, tmp_path / "rows", out, "--workers", "1") for _ in range(3)]
    assert [(process.communicate(timeout=120), process.returncode)[1] for process in processes] == [OK] * 3
    assert joined(out) == printed(blob, lines)
    assert [name for name in os.listdir(out) if name.endswith(".tmp")] == []


def test_a_process_that_is_always_killed_ends_the_run(blob, tmp_path, monkeypatch):
    (tmp_path / "rows").write_bytes(b'{"prompt": "Once"}')
    job, paths = _parts.start(blob, tmp_path / "rows", tmp_path / "out", 1)
    monkeypatch.setattr(_parts.Job, "words", ["/bin/sh", "-c", "read line; kill -9 $$"])
    with pytest.raises(smolrun.SmolError, match=r"killed 10 times in a row \(signal 9\)"):
        list(_worker.Answerer(job).parts(job.plan(paths)))


def test_a_blob_that_is_replaced_ends_the_run(demo_blob, tmp_path):
    """Workers that start later would have another model."""
    blob, lines = tmp_path / "model.smol", requests(3)
    blob.write_bytes(demo_blob("int8").read_bytes())
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    job, paths = _parts.start(blob, tmp_path / "rows", tmp_path / "out", 1)
    blob.write_bytes(demo_blob("int4").read_bytes())
    with pytest.raises(smolrun.SmolError, match="SHA-256"):
        list(_worker.Answerer(job).parts(job.plan(paths)))
    assert parts(tmp_path / "out") == []


# --- what fails -----------------------------------------------------------------------------------


def test_log_probabilities_have_no_bytes_of_a_blob_that_replaced_the_jobs(demo_blob, tmp_path):
    blob = tmp_path / "model.smol"
    blob.write_bytes(demo_blob("int8").read_bytes())
    form = _openai.Form(_parts.make_job(blob, {}))
    assert form._bytes(300)
    form = _openai.Form(_parts.make_job(blob, {}))
    (tmp_path / "other").write_bytes(demo_blob("int4").read_bytes())
    (tmp_path / "other").replace(blob)
    with pytest.raises(smolrun.DamagedError, match="SHA-256"):
        form._bytes(300)


def test_a_full_disk_ends_the_run_and_a_later_one_continues(blob, tmp_path):
    """A limit on the size of files has the same effect."""
    lines = requests(60, logprobs=20, max_tokens=40)
    (tmp_path / "rows").write_bytes(b"\n".join(lines))
    words = (blob, tmp_path / "rows", "-o", tmp_path / "out", "--rows-per-part", 20, "--workers", 2)
    limit = (50_000, resource.RLIM_INFINITY)
    result = command(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    assert result.returncode == FILE and "out: cannot be written: File too large" in result.stderr, result.stderr
    assert parts(tmp_path / "out") == [] and os.listdir(tmp_path / "out") == ["_job"]
    assert command(*words).returncode == OK
    assert joined(tmp_path / "out") == printed(blob, lines)


def test_errors_have_the_status_of_smolrun(blob, tmp_path, capsys):
    (tmp_path / "rows").write_bytes(b"{}")
    (tmp_path / "file").write_bytes(b"")
    rows, out = tmp_path / "rows", tmp_path / "out"
    for status, message, *words in (
        (FILE, "none: cannot be read: No such file", blob, tmp_path / "none", "-o", out),
        (FILE, "none.smol: cannot be read", tmp_path / "none.smol", rows, "-o", out),
        (FILE, "file: cannot be written: ", blob, rows, "-o", tmp_path / "file"),
        (FILE, "cannot be written: ", blob, rows, "-o", "/proc/none"),
        (4, "rows: ", rows, rows, "-o", out),
        (USAGE, "null: is not a file", blob, "/dev/null", "-o", out),
        (USAGE, "--temp", blob, rows, "-o", out, "--temp", "-1"),
        (USAGE, "-n", blob, rows, "-o", out, "-n", "many"),
        (USAGE, "workers: must be at least 1", blob, rows, "-o", out, "--workers", 0),
        (USAGE, "rows_per_part: must be", blob, rows, "-o", out, "--rows-per-part", 0),
        (USAGE, "--template-arg: x: expected NAME=JSON", blob, rows, "-o", out, "--template-arg", "x"),
        (USAGE, "required: -o/--output", blob, rows),
    ):
        with pytest.raises(SystemExit) as ended:
            batch.main([str(word) for word in words])
        shown = capsys.readouterr().err
        assert (ended.value.code, message in shown) == (status, True), (words, shown)
        assert not out.exists()
    with pytest.raises(smolrun.UsageError, match="temprature: no such setting"):
        batch.run(blob, rows, out, temprature=1)


def test_the_command_is_pythons(blob, file, expected, tmp_path):
    words = [sys.executable, "-m", "smolrun", "batch", blob, file, "-o", tmp_path / "out", "--price", "2"]
    result = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(package.FOLDER)}, cwd="/", capture_output=True, text=True)
    assert result.returncode == OK and joined(tmp_path / "out") == expected
    found = re.search(r"([\d.]+) rows/s, .* errors, ([\d.]+) for 1,000 rows\n$", result.stderr)
    assert float(found[2]) == pytest.approx(2 / 3.6 / float(found[1]), rel=0.01)


# --- OpenAI's batch files -------------------------------------------------------------------------

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Who lives in the village?"}]
SAMPLING = {"temperature": 1.0, "seed": 7, "max_tokens": 12}


def row(custom_id, url, **body):
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": {"model": "demo"} | body}


def answer_file(blob, lines, folder, **settings):
    folder.mkdir()
    (folder / "rows").write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    report = batch.run(blob, folder / "rows", folder / "out", workers=2, rows_per_part=3, row_format="openai", **settings)
    found = [json.loads(line) for line in joined(folder / "out").splitlines()]
    assert all(list(one) == ["id", "custom_id", "response", "error"] and one["id"].startswith("batch_req_") for one in found)
    failed = [one for one in found if one["error"] or one["response"]["status_code"] != 200]
    assert report.errors == len(failed) and report.rows == len(lines) == len(found)
    used = [one["response"]["body"]["usage"]["completion_tokens"] for one in found if one not in failed]
    assert report.completion_tokens == sum(used)
    return found


def comparable(body):
    """Returns the members of an answer that two equal requests share."""
    usage = {name: value for name, value in body.get("usage", {}).items() if name != "prompt_tokens_details"}
    names = ("id", "created", "model", "seed", "system_fingerprint", "usage")
    return {name: value for name, value in body.items() if name not in names} | {"usage": usage}


BODIES = [
    (CHAT, {"messages": MESSAGES, **SAMPLING}),
    (CHAT, {"messages": MESSAGES, "temperature": 0, "max_completion_tokens": 5, "logprobs": True, "top_logprobs": 3, "user": "me", "n": 1, "verbosity": "medium"}),
    (CHAT, {"messages": MESSAGES, **SAMPLING, "logprobs": True, "stop": [" the"], "store": False, "metadata": {"a": "b"}, "prompt_cache_retention": "24h"}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Zoë"}, {"type": "text", "text": "日本"}]}], **SAMPLING}),
    (CHAT, {"messages": MESSAGES, **SAMPLING, "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", 1]}}}}),
    (COMPLETIONS, {"best_of": 1, "echo": False, "prompt": "Once upon a time", **SAMPLING, "logprobs": 4}),
    (COMPLETIONS, {"best_of": 1, "echo": False, "prompt": ["Once \U0001f600"], **SAMPLING, "logprobs": 0, "logit_bias": {"10": 5}}),
    (COMPLETIONS, {"prompt": "x" * 2000, **SAMPLING}),
    (CHAT, {"messages": MESSAGES, "temperature": 9e99}),
    (CHAT, {"messages": MESSAGES, "top_logprobs": 2, **SAMPLING}),
    (CHAT, {"messages": "hello", **SAMPLING}),
    (CHAT, {"messages": MESSAGES, "temprature": 1}),
    (CHAT, {"messages": MESSAGES, "stop": [""], **SAMPLING}),
]  # fmt: skip


def test_bodies_are_those_of_the_server(blob, tmp_path):
    found = answer_file(blob, [row(f"r{i}", url, **body) for i, (url, body) in enumerate(BODIES)], tmp_path / "job")
    assert [one["custom_id"] for one in found] == [f"r{i}" for i in range(len(BODIES))]
    n_ok = 0
    with serving(blob) as server:
        for (url, body), one in zip(BODIES, found, strict=True):
            status, answer = server.post(url, body)
            if one["error"]:  # refused before there is a body to answer
                assert status == 400 and one["error"]["code"] == "usage"
                continue
            response = one["response"]
            assert (response["status_code"], set(response)) == (status, {"status_code", "request_id", "body"})
            if status != 200:
                assert response["body"]["error"]["type"] == answer["error"]["type"]
                assert response["body"]["error"]["code"] == answer["error"]["code"]
                continue
            n_ok += 1
            assert comparable(response["body"]) == comparable(answer)
            (ChatCompletion if url == CHAT else Completion).model_validate(response["body"], strict=True)
            assert response["body"]["model"] == "demo" and response["body"]["created"] == 0
    assert n_ok >= 7


@pytest.fixture(scope="module")
def spaced(tmp_path_factory):
    """A blob with a tokenizer as that of Llama 2: a text gets a first token and a first blank, which it has not when decoded.
    The text of <x> is not shown."""
    folder = tmp_path_factory.mktemp("spaced")
    tokens = ["<unk>", "<s>", "<x>", *(f"<0x{i:02X}>" for i in range(256)), "▁", "a", "b", "é", "▁a", "ab", "\n"]
    tokenizer = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, [("▁", "a"), ("a", "b")], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(["<unk>", "<s>", "<x>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    make(folder / "model", vocab_size=len(tokens), bos_token_id=1, eos_token_id=0, num_hidden_layers=1)
    tokenizer.save(str(folder / "model/tokenizer.json"))
    assert smolconv(folder / "model", folder / "spaced.smol", "--quiet").returncode == 0
    return folder / "spaced.smol"


def test_offsets_are_places_in_the_text(spaced, tmp_path):
    """That lacks the tokens that only the model sees, and a first blank."""
    with smolrun.Model(spaced) as model:
        bias = {str(model.tokenize(token, whole=False)[-1]): 100 for token in ("<x>", "xa", "xb", "xé", " a", "ab")}
        ids = model.tokenize("ab é\n")
    bodies = [{"prompt": prompt, "seed": seed, "temperature": 9, "max_tokens": 12, "logprobs": 1, "logit_bias": bias, "echo": echo}
              for seed in range(4) for prompt in ("", "ab é<x> a", ids) for echo in (False, True)]  # fmt: skip
    found = answer_file(spaced, [row(f"r{i}", COMPLETIONS, **body) for i, body in enumerate(bodies)], tmp_path / "job")
    n_stripped = 0
    with serving(spaced) as server:
        for body, one in zip(bodies, found, strict=True):
            status, answer = server.post(COMPLETIONS, body)
            assert status == 200, answer
            (choice,), text = answer["choices"], answer["choices"][0]["text"]
            for at, token in zip(choice["logprobs"]["text_offset"], choice["logprobs"]["tokens"], strict=True):
                n_stripped += at == 0 and token == " a" and text[:1] == "a"
                stripped = token[:1] == " " and at <= len(body["prompt"]) and text[at:].startswith(token[1:])
                assert text[at:].startswith(token) or token in ("<s>", "<x>") or stripped, (at, token, choice)
            client = server.client.completions.create(model=server.model, stream=True, extra_body=body, prompt=body["prompt"])
            assert sum((chunk.choices[0].logprobs.text_offset for chunk in client), []) == choice["logprobs"]["text_offset"]
            if one["response"] is not None and not body["echo"] and body["prompt"] != ids:
                assert comparable(one["response"]["body"]) == comparable(answer)
    assert n_stripped > 4  # generated ones too


def test_calls_of_tools_are_those_of_the_server(painter, tmp_path):  # noqa: F811
    body = {"messages": [USER], "tools": FEW, "tool_choice": "required", "seed": 3, "temperature": 1, "max_tokens": 300}
    (one,) = answer_file(painter, [row("a", CHAT, **body)], tmp_path / "job")
    with serving(painter) as server:
        _, answer = server.post(CHAT, body)
    assert comparable(one["response"]["body"]) == comparable(answer)
    assert ChatCompletion.model_validate(one["response"]["body"]).choices[0].message.tool_calls


def test_rows_that_are_none_of_a_batch_file_are_errors(blob, tmp_path):
    good = row("a", CHAT, messages=MESSAGES, max_tokens=2)
    cases = [
        (b"{", "not valid JSON"), (b"\xff", "not valid UTF-8 (byte 0)"), (b"[]", "expected an object"), (b"[" * 100_000, "nested too deeply"),
        (b'{"custom_id": "a", "custom_id": "b"}', "custom_id: appears twice"), (b"x" * (2 * LIMIT), "a line of more than 1 MiB"),
        (b'{"custom_id": "a", "body": {"n": 1, "n": 2}}', "n: appears twice"), (b'{"a": NaN}', "not valid JSON: NaN"),
        ({**good, "custom_id": 5}, "custom_id: expected a string"), ({**good, "method": "GET"}, "method: expected POST"),
        ({**good, "url": "/v1/embeddings"}, "url: expected /v1/chat/completions or"), ({**good, "body": []}, "body: expected an object"),
        ({**good, "extra": 1}, "extra: no such member"), (row("a", CHAT, messages=MESSAGES, n=2), "n: not supported, except 1"),
        (row("a", CHAT, messages=MESSAGES, stream=True), "stream: not supported, except false"),
        (row("a", COMPLETIONS, prompt=["a", "b"]), "prompt: expected a text"), (b"1" * 5000, "not valid JSON"),
        (row("a", CHAT, messages=MESSAGES, prompt="x"), "prompt: no such member"), (row("a", CHAT, prompt="x"), "prompt: no such member"),
    ]  # fmt: skip
    found = answer_file(blob, [line for pair in cases for line in (pair[0], good)], tmp_path / "job")
    for (_, message), one, after in zip(cases, found[::2], found[1::2]):
        assert one["response"] is None and one["error"]["code"] == "usage" and message in one["error"]["message"], (message, one)
        assert after["custom_id"] == "a" and after["response"]["status_code"] == 200  # each, although the id is not new


def test_lone_surrogates_in_rows_are_refused_as_by_smolrun(blob, tmp_path):
    line = rb'{"custom_id": "\ud800", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a\ud800b", "max_tokens": 2}}'
    (one,) = answer_file(blob, [line], tmp_path / "job")
    refused = json.loads(printed(blob, [rb'{"prompt":"a\ud800b","max_tokens":2}']))
    assert one["response"]["body"]["error"]["message"] == refused["error"]["message"]


# --- Parquet --------------------------------------------------------------------------------------


def as_lines(requests):
    """Returns the lines that docs/scale.md describes for the rows of tables: compact JSON without nulls."""
    return [json.dumps({k: v for k, v in one.items() if v is not None}, ensure_ascii=False, separators=(",", ":")).encode() for one in requests]


def test_parquet_is_read_as_json_lines(blob, tmp_path):
    rng = random.Random(5)
    rows = [{"id": f"r{i}", "prompt": rng.choice(["Once", "Zoë 日本\n\"x\"", "", None]), "max_tokens": rng.choice([None, 3, 9]),
             "temperature": rng.choice([None, 1.0]), "seed": i, "stop": rng.choice([None, [], ["a", "."]])} for i in range(90)]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet", row_group_size=17)
    batch.run(blob, tmp_path / "rows.parquet", tmp_path / "out", workers=2, rows_per_part=11)
    assert joined(tmp_path / "out") == printed(blob, as_lines(rows))
    assert len(parts(tmp_path / "out")) == 9


def test_conversations_in_parquet(blob, tmp_path):
    """Conversations are structs, of which nulls are no members, or JSON texts, beside JSON lines in one job."""
    messages = [[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}], [{"role": "user", "content": "Who?"}]]
    structs = [{"messages": [{**one, "name": None} for one in some], "max_tokens": 4} for some in messages]
    texts = {"messages": [json.dumps(some) for some in messages], "logit_bias": ['{"10": 2}', None], "max_tokens": [4, 4]}
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(structs), tmp_path / "in/a")
    pq.write_table(pa.table(texts), tmp_path / "in/b")
    (tmp_path / "in/c").write_bytes(b'{"prompt": "Once", "max_tokens": 2}\n')
    pq.write_table(pa.table({"prompt": ["x"], "max_tokens": [2], "logit_bias": pa.array([[("10", 2.0)]], pa.map_(pa.string(), pa.float64()))}), tmp_path / "in/d")
    batch.run(blob, tmp_path / "in", tmp_path / "out")
    plain = [{"messages": some, "max_tokens": 4} for some in messages]
    lines = as_lines([*plain, {"messages": messages[0], "logit_bias": {"10": 2}, "max_tokens": 4}, plain[1]])
    lines += [b'{"prompt": "Once", "max_tokens": 2}', *as_lines([{"prompt": "x", "max_tokens": 2, "logit_bias": {"10": 2.0}}])]
    assert joined(tmp_path / "out") == printed(blob, lines)
    assert b"error" not in joined(tmp_path / "out")


def test_hostile_parquet(blob, tmp_path):
    rows, out = tmp_path / "rows.parquet", tmp_path / "out"
    bad = pa.array([b"\xff\xfe", b"Once", None, b"a" * (LIMIT + 5)], pa.binary())
    invalid = pa.Array.from_buffers(pa.string(), 4, bad.buffers())
    table = pa.table({"prompt": invalid, "max_tokens": [2] * 4, "url": ["u"] * 4})
    pq.write_table(table, rows)
    with pytest.raises(smolrun.UsageError, match="column url is not a member of a request"):
        batch.run(blob, rows, out)
    with pytest.raises(smolrun.UsageError, match="has no column messages; it has prompt, max_tokens, url"):
        batch.run(blob, rows, out, columns=["messages"])
    with pytest.raises(smolrun.UsageError, match="columns: url is not a member"):
        batch.run(blob, rows, out, columns=["prompt", "url"])
    batch.run(blob, rows, out, columns=["prompt", "max_tokens"])
    first, second, third, fourth = (json.loads(line) for line in joined(out).splitlines())
    assert "UTF-8" in first["error"]["message"] and len(second["ids"]) == 2
    assert "either a prompt or messages" in third["error"]["message"] and "1 MiB" in fourth["error"]["message"]
    whole = rows.read_bytes()
    for data in (whole[:-40], whole[:8], b"PAR1", whole[:100] + bytes(200) + whole[300:]):
        rows.write_bytes(data)
        with pytest.raises(smolrun.DamagedError, match=r"rows\.parquet: cannot be read as Parquet"):
            batch.run(blob, rows, tmp_path / "out2", columns=["prompt"])
