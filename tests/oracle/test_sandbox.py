"""smolrun in its sandbox: it is there, everything works in it, and nothing that works comes near its
bounds. (tests/unit/test_sandbox.c tries what is beyond them.)"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import threading
import time

import pytest
from internal import BUILD
from programs import limited

OK, USAGE, FILE, DAMAGED, UNSUPPORTED = 0, 2, 3, 4, 5
# Calls that C libraries try and can do without, and calls to terminals, which these tests do not have.
HARMLESS = re.compile(r"(<\.\.\. )?(clone3\b.*ENOSYS|ioctl\b.*ENOTTY)")


REQUESTS = b'{"prompt": "Once", "max_tokens": 5, "logprobs": 2}\n' * 12 + b"{}"
CHAT = b'Hello\n/system Be brief.\nHello\n/regen\n/save\n/save! \n/load\n"""a\nb"""\n/reset\n/help\n' + b"Why?\n" * 9


def run(program, words, **options):
    environment = {**os.environ, **options.pop("environment", {})}
    texts = {"--jsonl": REQUESTS, "chat": CHAT}
    options.setdefault("input", next((texts[word] for word in words if word in texts), b"Once upon"))
    return subprocess.run(
        [program, *map(str, words)], capture_output=True, env=environment, timeout=120, **options
    )


def smolrun(*words, **options):
    return run(BUILD / "smolrun", words, **options)


@pytest.fixture(params=["smolrun", "static/smolrun"])
def program(request):
    """Both C libraries."""
    if not (BUILD / request.param).exists():
        pytest.skip(f"{BUILD / request.param} is not there: make static")
    return BUILD / request.param


COMMANDS = """
BLOB Once -n 8
BLOB Once -n 8 --temp 0.8 --top-k 40 --top-p 0.9 --min-p 0.01 --repeat-penalty 1.1 --seed 7
BLOB Once -n 8 --stop zz --stop a --ctx 64 --threads 3 --kv int8 --ids
BLOB Once -n 8 --verify open --threads 1
BLOB Once -n 8 --verify off --no-mmap
BLOB Once -n 8 --require-digest DIGEST
BLOB -n 8 -
BLOB Once -n 600 --ctx 20
BLOB Once -n 8 --session OUT
BLOB --jsonl --sequences 3 --threads 2
chat BLOB -n 4
chat BLOB -n 8 --session OUT --ctx 90 --slide --temp 0.8 --threads 2
chat BLOB -n 8 --session OUT --ctx 60 --kv int8
chat BLOB -n 8 --session MISSING/OUT
tokenize BLOB Once
tokenize BLOB -
tokenize BLOB --decode 12,13
logits BLOB Once -o OUT --last 1 --threads 2
logits BLOB --tokens 5,6 -o OUT
logits BLOB Once -o MISSING/OUT
perplexity BLOB TEXT --json
perplexity BLOB - --ctx 2 --threads 2
perplexity BLOB TEXT --save-logits OUT
perplexity BLOB TEXT --kl-from SAVED
perplexity BLOB MISSING
perplexity BLOB TEXT --kl-from MISSING
perplexity BLOB FOLDER
explain BLOB Once -n 4 --given
explain BLOB - -n 4 --temp 1 --json
DAMAGED Once -n 8
MISSING Once
FOLDER Once
""".strip().splitlines()
TIMED = ["BLOB Once -n 8 --json", "bench BLOB -p 8 -n 4 --threads 2", "bench BLOB -p 4 -n 4 --json", "chat BLOB -n 2 --stats"]


@pytest.fixture
def words(blob, tmp_path):
    """words(line): a line of COMMANDS with the files of this test."""
    damaged = tmp_path / "damaged.smol"
    damaged.write_bytes(blob.read_bytes()[:-70000] + bytes(70000))
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("Once upon a time")
    saved = tmp_path / "saved"
    smolrun("perplexity", blob, tmp_path / "text", "--save-logits", saved)
    values = {
        "BLOB": str(blob),
        "DAMAGED": str(damaged),
        "MISSING": str(tmp_path / "missing"),
        "FOLDER": str(tmp_path / "folder"),
        "TEXT": str(tmp_path / "text"),
        "SAVED": str(saved),
        "OUT": str(tmp_path / "out"),
        "DIGEST": hashlib.sha256(blob.read_bytes()).hexdigest(),
    }
    return lambda line: [re.sub("[A-Z]{3,}", lambda m: values[m[0]], word) for word in line.split()]


# --- inside ---------------------------------------------------------------------------------------


@pytest.mark.sample(30)
@pytest.mark.parametrize("line", COMMANDS)
def test_everything_is_as_it_is_outside(program, words, line, tmp_path):
    words, out = words(line), tmp_path / "out"

    def result(environment):
        out.unlink(missing_ok=True)
        done = run(program, words, environment=environment)
        return done.returncode, done.stdout, done.stderr, out.exists() and out.read_bytes()

    assert result({}) == result({"SMOL_SANDBOX": "off"})


def refused_calls(program, words, log):
    tracer = ["strace", "-f", "-qq", "-e", "signal=none", "-o", log]
    done = run(tracer[0], [*tracer[1:], program, *words])
    if not log.exists() or b"ptrace" in done.stderr:
        pytest.skip(f"nothing can be traced here: {done.stderr.decode()}")
    return refused_in(log)


def refused_in(log):
    """The system calls that were refused once the sandbox was entered, of those that were traced."""
    calls = [re.sub(r"^\d+ +", "", line) for line in log.read_text().splitlines()]
    entered = max(i for i, call in enumerate(calls) if call.startswith("seccomp("))
    assert len(calls) > entered + 5 and calls[entered].endswith(" = 0")
    return [call for call in calls[entered:] if re.search(" = -1 (EPERM|EACCES|ENOSYS|ENOTTY)", call)]


# Inputs are opened before the sandbox is entered, so those that are missing end it outside.
ENTERING = [line for line in COMMANDS + TIMED if not re.search("FOLDER|MISSING( |$)", line)]


@pytest.mark.sample(30)
@pytest.mark.parametrize("line", ENTERING)
def test_no_call_that_is_needed_is_refused(program, words, line, tmp_path):
    refused = refused_calls(program, words(line), tmp_path / "log")
    assert [call for call in refused if not HARMLESS.match(call)] == []


def test_a_call_that_is_refused_is_seen(blob, tmp_path):
    """So that the test above can fail: glibc tries clone3 for threads, from 2.34 on."""
    if tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 34):
        pytest.skip("this C library tries nothing that is refused")
    words = [blob, "Once", "-n", "1", "--threads", "2"]
    assert "clone3" in "".join(refused_calls(BUILD / "smolrun", words, tmp_path / "log"))


def statuses(pid):
    """{field: value} of each thread."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            yield dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_it_is_on_unless_switched_off_in_every_thread(blob):
    for environment, seccomp, privileges in (({}, "2", "1"), ({"SMOL_SANDBOX": "off"}, "0", "0")):
        process = subprocess.Popen(
            [BUILD / "smolrun", blob, "-", "--threads", "3"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **environment},
        )  # fmt: skip
        deadline = time.monotonic() + 60
        while len(found := list(statuses(process.pid))) < 3:  # it then waits for its prompt
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.stdin.close()
        assert process.wait(60) == OK
        if environment == {} and found[0]["Seccomp"] == "0":
            pytest.skip("this kernel lets nobody filter system calls")
        assert [status["Seccomp"] for status in found] == [seccomp] * 3
        assert [status["NoNewPrivs"] for status in found] == [privileges] * 3


def test_another_word_than_off_is_wrong_usage(blob):
    for word in ("no", "OFF", "0", "off "):
        done = smolrun(blob, "Once", environment={"SMOL_SANDBOX": word})
        assert done.returncode == USAGE and b"SMOL_SANDBOX" in done.stderr
    assert smolrun(blob, "Once", "-n", "1", environment={"SMOL_SANDBOX": ""}).returncode == OK


def test_what_is_missing_is_told_and_may_be_required(blob):
    """This kernel may lack Landlock; then --sandbox require says so and runs nothing."""
    told = smolrun(blob, "Once", "-n", "1", "--stats").stderr.decode()
    (state,) = re.findall(r"^sandbox   (.*)$", told, re.M)
    assert re.fullmatch(r"on(; (files|system calls) are not restricted \((Landlock|seccomp): [\w ]+\))*", state)
    required = smolrun(blob, "Once", "-n", "1", "--sandbox", "require")
    if state == "on":
        assert required.returncode == OK
    else:
        said = f"smolrun: --sandbox require: {state[4:]}: use --sandbox on to run nevertheless\n"
        assert (required.returncode, required.stderr.decode()) == (UNSUPPORTED, said)
    for words, environment in ((["--sandbox", "off"], {}), ([], {"SMOL_SANDBOX": "off"})):
        told = smolrun(blob, "Once", "-n", "1", "--stats", *words, environment=environment).stderr
        assert b"\nsandbox   off\n" in told
    told = smolrun(blob, "Once", "-n", "1", "--stats", "--sandbox", "on", environment={"SMOL_SANDBOX": "off"}).stderr
    assert f"\nsandbox   {state}\n".encode() in told


def test_too_few_descriptors_are_not_called_a_missing_file(blob):
    for n in (4, 5):
        done = smolrun(blob, "Once", "-n", "1", preexec_fn=limited("NOFILE", n))
        if done.returncode != OK:
            assert done.returncode == FILE and b"Too many open files" in done.stderr.splitlines()[-1], done.stderr
    assert smolrun(blob, "Once", "-n", "1", preexec_fn=limited("NOFILE", 8)).returncode == OK


# --- the names that files have --------------------------------------------------------------------


def test_a_blob_may_be_named_in_every_way(blob, tmp_path):
    expected = smolrun(blob, "Once", "-n", "4").stdout
    shutil.copy(blob, tmp_path / "a.smol")
    os.symlink("a.smol", tmp_path / "link.smol")
    os.symlink(tmp_path, tmp_path / "folder")
    for name in ("a.smol", "./a.smol", "link.smol", "folder/./link.smol"):
        done = smolrun(name, "Once", "-n", "4", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (OK, expected), done.stderr
    with open(blob, "rb") as file:
        done = smolrun(f"/dev/fd/{file.fileno()}", "Once", "-n", "4", pass_fds=[file.fileno()])
    assert (done.returncode, done.stdout) == (OK, expected), done.stderr


@pytest.mark.parametrize("sandbox", ["on", "off"])
def test_a_blob_that_is_replaced_while_smolrun_starts_is_opened_once(blob, tmp_path, sandbox):
    """Another file is renamed over it right after the first open; what was opened is what runs."""
    expected = smolrun(blob, "Once", "-n", "4").stdout
    shutil.copy(blob, tmp_path / "a.smol")
    (tmp_path / "a.smol.new").write_bytes(b"no blob")
    environment = {"LD_PRELOAD": str(BUILD / "tests/change.so"), "CHANGE": f"1 swap 0 {tmp_path / 'a.smol'}"}
    done = smolrun(tmp_path / "a.smol", "Once", "-n", "4", "--sandbox", sandbox, environment=environment)
    assert (done.returncode, done.stdout) == (OK, expected), done.stderr
    assert (tmp_path / "a.smol").read_bytes() == b"no blob"


def test_a_blob_may_be_replaced_all_the_time(blob, tmp_path):
    expected = smolrun(blob, "Once", "-n", "2").stdout
    path, copies = tmp_path / "a.smol", [tmp_path / "b.smol", tmp_path / "c.smol"]
    for name in (path, *copies):
        shutil.copy(blob, name)
    ended, replaced = threading.Event(), 0

    def replace():
        nonlocal replaced
        while not ended.is_set():
            os.link(copies[replaced % 2], tmp_path / "next")
            os.replace(tmp_path / "next", path)
            replaced += 1

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(50):
            done = smolrun(path, "Once", "-n", "2", "--threads", "1")
            assert (done.returncode, done.stdout) == (OK, expected), done.stderr
    finally:
        ended.set()
        thread.join()
    assert replaced > 50


def test_an_output_may_be_named_in_every_way(blob, tmp_path):
    (tmp_path / "sub").mkdir()
    os.symlink("sub", tmp_path / "link")
    names = ("out", "./out", "sub/out", "link/out", "sub/../out", str(tmp_path / "out"))
    for name in names:
        for _ in range(2):  # made, then replaced
            done = smolrun("logits", blob, "Once", "-o", name, cwd=tmp_path)
            assert done.returncode == OK, done.stderr
        assert len((tmp_path / name).read_bytes()) == 4 * 1990
        (tmp_path / name).unlink()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["link", "sub"]


def test_the_blob_may_lie_where_the_output_goes(blob, tmp_path):
    shutil.copy(blob, tmp_path / "a.smol")
    done = smolrun("logits", "a.smol", "Once", "-o", "out", cwd=tmp_path)
    assert done.returncode == OK, done.stderr


@pytest.mark.parametrize("command", [("tokenize", "BLOB", "Once"), ("BLOB", "Once", "-n", "2"), ("BLOB", "--jsonl")])
def test_the_blob_is_opened_once_before_the_sandbox(command, blob, tmp_path):
    """So a file renamed over it while smolrun starts is never refused."""
    log = tmp_path / "log"
    words = [blob if word == "BLOB" else word for word in command]
    tracer = ["strace", "-f", "-qq", "-e", "trace=openat,seccomp,landlock_restrict_self", "-o", log]
    done = run(tracer[0], [*tracer[1:], BUILD / "smolrun", *words], input=b'{"prompt": "Once", "max_tokens": 1}\n')
    if not log.exists() or b"ptrace" in done.stderr:
        pytest.skip(f"nothing can be traced here: {done.stderr.decode()}")
    assert done.returncode == OK, done.stderr
    calls = log.read_text().splitlines()
    opened = [i for i, call in enumerate(calls) if f'"{blob}"' in call]
    entered = [i for i, call in enumerate(calls) if "seccomp(" in call or "landlock_restrict_self(" in call]
    assert len(opened) == 1 and opened[0] < min(entered), calls
