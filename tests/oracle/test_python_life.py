"""The Python package in threads, processes, event loops and notebooks; what ends early, and what is freed."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import package
import pytest
import smolrun
from package import output_of, run_python
from smolrun._parts import make_job

PROMPTS = [f"{'Once upon a time there was a cat. ' * n}One day" for n in (1, 3, 9, 1, 2, 20, 4, 1)]
OPTIONS = {"max_tokens": 20, "temperature": 0.9, "seed": 3}
WAIT = 60  # seconds after which something hangs


@pytest.fixture(scope="module")
def model(blob):
    return smolrun.Model(blob)


@pytest.fixture(scope="module")
def expected(model):
    return [answer.ids for answer in model.generate(PROMPTS, **OPTIONS)]


# --- threads ---------------------------------------------------------------------------------------


def test_many_threads_use_one_model(model, expected):
    with ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(model.generate, prompt, **OPTIONS) for prompt in PROMPTS * 6]
        assert [job.result(WAIT).ids for job in jobs] == expected * 6


def test_the_interpreters_lock_is_free_while_a_model_computes(model):
    """Another thread counts while this one is in a single call, which releases the lock for 50 ms at a time at most."""
    counted, ended = 0, threading.Event()

    def count():
        nonlocal counted
        while not ended.is_set():
            counted += 1
            time.sleep(0)

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    before = counted
    model.logits([5] * 512)
    between = counted
    ended.set()
    thread.join(WAIT)
    assert between - before > 10


# --- processes ---------------------------------------------------------------------------------------


def in_child(model, connection, expected, session):
    try:
        assert [answer.ids for answer in model.generate(PROMPTS, **OPTIONS)] == expected
        assert [model.generate(prompt, **OPTIONS).ids for prompt in PROMPTS] == expected
        assert model.generate("x", regex="[a-c]{3}").text == "".join(model.stream("x", regex="[a-c]{3}"))
        with pytest.raises(smolrun.UsageError, match="forked"):
            session.generate()
        with model.session() as own:
            own.generate("Once", max_tokens=2)
        model.close()
        connection.send("done")
    except BaseException as error:
        connection.send(repr(error))


def test_a_model_works_after_a_fork(blob, expected):
    """Also in a child of a process whose threads are using it, and of a child."""
    with smolrun.Model(blob, prefix_cache=4 << 20) as model:
        model.generate("x", regex="[a-c]{3}")
        session = model.session()
        session.generate("Once", max_tokens=3)
        ended, fork = threading.Event(), multiprocessing.get_context("fork")

        def work():
            while not ended.is_set():
                model.generate("Once upon", **OPTIONS)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(4):
                ours, theirs = fork.Pipe()
                child = fork.Process(target=in_child, args=(model, theirs, expected, session))
                child.start()
                assert ours.poll(WAIT), "the child hangs"
                assert ours.recv() == "done"
                child.join(WAIT)
                assert child.exitcode == 0
        finally:
            ended.set()
        for thread in threads:
            thread.join(WAIT)
        assert model.generate(PROMPTS[0], **OPTIONS).ids == expected[0]
        session.generate(max_tokens=2)


def test_streams_of_the_parent_are_closed_in_a_child_though_locks_are_taken(model):
    """The locks of the stream and of its Cancel were taken by a thread that the child does not have."""
    cancel, taken, ended = smolrun.Cancel(), threading.Event(), threading.Event()
    stream = model.stream("Once upon a time", max_tokens=50, cancel=cancel)
    next(stream)

    def take():
        with cancel._lock, stream._guard:
            taken.set()
            ended.wait(WAIT)

    def child():
        stream.close()
        cancel.cancel()
        assert model.generate("Once", cancel=cancel).finish_reason == "cancelled"

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    taken.wait(WAIT)
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(10)
    hangs = process.is_alive()
    process.kill()
    ended.set()
    thread.join(WAIT)
    assert not hangs and process.exitcode == 0
    assert "".join(stream) and stream.answer.finish_reason == "length"


def ids_of(model, prompt):
    return model.generate(prompt, **OPTIONS).ids


def test_models_travel_to_spawned_processes(model, expected, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{package.FOLDER}:{Path(__file__).parent}")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert [job.result(WAIT) for job in [pool.submit(ids_of, model, prompt) for prompt in PROMPTS]] == expected


def test_a_pickle_is_a_path_and_a_digest(blob, tmp_path):
    import hashlib
    import shutil

    copy = tmp_path / "copy.smol"
    shutil.copy(blob, copy)
    with smolrun.Model(copy, n_threads=1, n_ctx=100) as model:
        data = pickle.dumps(model)
        assert len(data) < 1000 and hashlib.sha256(copy.read_bytes()).hexdigest() == model.digest
        again = pickle.loads(data)
        assert again.digest == model.digest and again.n_ctx == 100
    changed = bytearray(copy.read_bytes())
    changed[-1] ^= 1
    copy.unlink()
    copy.write_bytes(changed)
    with pytest.raises(smolrun.DamagedError, match="SHA-256"):
        pickle.loads(data)
    with pytest.raises(smolrun.DamagedError):
        smolrun.Model(copy, digest=model.digest)
    copy.unlink()
    with pytest.raises(smolrun.FileError):
        pickle.loads(data)
    answer = model_answer = smolrun.Model(blob).generate("Once", max_tokens=3, schema={"type": "string"})
    assert pickle.loads(pickle.dumps(answer)) == model_answer


def test_a_model_whose_file_was_replaced_is_not_pickled_as_another_one(demo_blob, tmp_path):
    """Nor is it used for a job."""
    place, other = tmp_path / "model.smol", tmp_path / "other.smol"
    place.write_bytes(demo_blob("int8").read_bytes())
    with smolrun.Model(place) as model, smolrun.Model(place) as known, smolrun.Model(place, digest=known.digest) as given:
        data = pickle.dumps(known)
        other.write_bytes(demo_blob("int4").read_bytes())
        other.replace(place)
        for use in (lambda: pickle.dumps(model), lambda: model.digest, lambda: make_job(model, {})):
            with pytest.raises(smolrun.FileError, match="replaced"):
                use()
        for one in (data, pickle.dumps(known), pickle.dumps(given)):
            with pytest.raises(smolrun.DamagedError, match="SHA-256"):
                pickle.loads(one)
        with pytest.raises(smolrun.DamagedError):
            make_job(known, {})
        assert model.generate("Once", max_tokens=5) == known.generate("Once", max_tokens=5)
        os.utime(place, (0, 0))
        with smolrun.Model(place) as again:
            assert pickle.loads(pickle.dumps(again)).digest == again.digest != known.digest


def test_a_file_that_is_replaced_while_a_pickle_is_opened_is_noticed(demo_blob, tmp_path, monkeypatch):
    place, other = tmp_path / "model.smol", tmp_path / "other.smol"
    place.write_bytes(demo_blob("int8").read_bytes())
    other.write_bytes(demo_blob("int4").read_bytes())
    with smolrun.Model(place) as model:
        data, opened = pickle.dumps(model), smolrun.Model.__init__

        def late(*arguments, **options):
            other.replace(place)
            opened(*arguments, **options)

        monkeypatch.setattr(smolrun.Model, "__init__", late)
        with pytest.raises(smolrun.DamagedError, match="SHA-256"):
            pickle.loads(data)


SUB_INTERPRETER = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters
code = "try:\\n import smolrun\\nexcept ImportError as error:\\n print(error)"
number = interpreters.create("legacy") if sys.version_info >= (3, 13) else interpreters.create(isolated=False) if sys.version_info >= (3, 12) else interpreters.create()
interpreters.run_string(number, f"import sys; sys.path[:] = {sys.path!r}\\n" + code)
"""


def test_sub_interpreters_are_refused():
    result = run_python(SUB_INTERPRETER)
    assert "sub-interpreters are not supported" in result.stdout, result


# --- asyncio -----------------------------------------------------------------------------------------


def test_an_event_loop_is_not_blocked(model, expected):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def read(prompt):
        return "".join([piece async for piece in model.astream(prompt, **OPTIONS)])

    async def main():
        ticker = asyncio.ensure_future(tick())
        texts = await asyncio.gather(*(read(prompt) for prompt in PROMPTS))
        answers = await model.agenerate(PROMPTS, **OPTIONS)
        chat = await model.achat([{"role": "user", "content": "Hi"}], max_tokens=4)
        ticker.cancel()
        return texts, answers, chat

    texts, answers, chat = asyncio.run(asyncio.wait_for(main(), WAIT))
    assert [answer.ids for answer in answers] == expected and [answer.text for answer in answers] == texts
    assert chat == model.chat([{"role": "user", "content": "Hi"}], max_tokens=4) and ticks > 100


def test_a_stream_of_asyncio_has_its_answer_and_ends_when_it_is_left(model):
    async def main():
        whole = model.astream(PROMPTS[0], **OPTIONS)
        for _ in range(2):
            with pytest.raises(smolrun.UsageError, match="not complete"):
                whole.answer  # noqa: B018
            await anext(whole)
        first = asyncio.ensure_future(anext(whole))
        await asyncio.sleep(0)
        for other in (anext(whole), whole.aclose()):
            with pytest.raises(smolrun.UsageError, match="the stream is in use"):
                await other
        await first
        async with model.astream("Once upon a time", max_tokens=None, temperature=1) as left:
            await anext(left)
        assert left._begun[0]._closed
        dropped = model.astream("Once upon a time", max_tokens=None, temperature=1)
        await anext(dropped)
        stream = dropped._begun[0]
        del dropped
        while not stream._closed:  # until the loop has closed what nothing refers to
            await asyncio.sleep(0.01)
        async for _ in whole:
            pass
        return whole.answer

    assert asyncio.run(asyncio.wait_for(main(), WAIT)) == model.generate(PROMPTS[0], **OPTIONS)


def test_cancelled_tasks_end_their_generations(model):
    async def main():
        pieces = model.astream("Once upon a time", max_tokens=None, temperature=1)
        async for _ in pieces:
            break
        await pieces.aclose()
        task = asyncio.ensure_future(model.agenerate(["Once"] * 500, max_tokens=400, temperature=1))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    start = time.monotonic()
    asyncio.run(asyncio.wait_for(main(), WAIT))  # which waits for the threads
    assert time.monotonic() - start < WAIT
    assert model.generate("Once", max_tokens=3).finish_reason == "length"


# --- cancellation, Ctrl-C, progress --------------------------------------------------------------------


def test_a_stop_button_ends_a_generation(model):
    cancel = smolrun.Cancel()
    pieces = []
    for piece in (stream := model.stream("Once upon a time", max_tokens=400, temperature=1, cancel=cancel)):
        pieces.append(piece)
        if len(pieces) == 5:
            cancel.cancel()
    assert stream.answer.finish_reason == "cancelled" and stream.answer.text == "".join(pieces)
    assert model.generate("Once", cancel=cancel).finish_reason == "cancelled"  # it stays pressed
    with pytest.raises(smolrun.CancelledError):
        model.logits("Once upon", cancel=cancel)
    cancel.reset()
    assert model.generate("Once", max_tokens=3, cancel=cancel).finish_reason == "length"
    # pressed by another thread, in the middle of a batch
    threading.Timer(0.05, cancel.cancel).start()
    answers = model.generate(["Once"] * 400, max_tokens=400, temperature=1, cancel=cancel)
    assert answers[-1].finish_reason == "cancelled" and answers[-1].ids == []


INTERRUPTED = """
import signal, sys, threading, smolrun
signal.signal(signal.SIGINT, signal.default_int_handler)  # a check in the background ignores it
model = smolrun.Model(sys.argv[1])
try:
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", model.generate("Once", max_tokens=3).finish_reason)
"""


@pytest.mark.parametrize("call", [
    'model.generate("Once", max_tokens=400, temperature=1)', 'list(model.stream("Once", max_tokens=400, temperature=1))',
    'model.generate(["Once"] * 99, max_tokens=400)', "model.logits([5] * 512)"])  # fmt: skip
def test_ctrl_c_is_not_lost(blob, call):
    """The signal reaches the main thread, which is nearly always in the library."""
    assert output_of(INTERRUPTED.format(call=call), blob) == "interrupted length\n"


def test_progress_is_reported(blob, model, capsys):
    seen = []
    model.generate([5] * 300, max_tokens=2, progress=lambda *done: seen.append(done))
    assert seen[-1] == (300, 300) and seen == sorted(seen)
    seen.clear()
    model.generate(PROMPTS, max_tokens=2, progress=lambda *done: seen.append(done))
    assert seen == [(i + 1, len(PROMPTS)) for i in range(len(PROMPTS))]
    seen.clear()
    smolrun.Model(blob, digest=model.digest, progress=lambda *done: seen.append(done))
    assert not seen or seen[-1][0] == seen[-1][1]
    model.perplexity([5] * 200, progress=True)
    assert capsys.readouterr().err.endswith("200 of 200 tokens\n")

    def fail(done, total):
        raise RuntimeError("mine")

    for call in (lambda: model.generate([5] * 300, progress=fail), lambda: smolrun.Model(blob, verify="open", progress=fail)):
        try:
            call()
        except RuntimeError as error:
            assert str(error) == "mine"


# --- life ------------------------------------------------------------------------------------------------


def test_closed_models_are_refused(blob):
    model = smolrun.Model(blob)
    stream = model.stream("Once upon", max_tokens=20)
    next(stream)
    model.close()
    model.close()
    for call in (lambda: model.generate("Once"), lambda: model.tokenize("a"), lambda: model.info, model.session):
        with pytest.raises(smolrun.UsageError, match="closed"):
            call()
    assert "".join(stream)  # what began may end
    with pytest.raises(smolrun.FileError):
        smolrun.Model(blob.parent / "missing.smol")
    with pytest.raises(smolrun.DamagedError):
        smolrun.Model(__file__)
    with pytest.raises(smolrun.UsageError, match="n_ctx|context"):
        smolrun.Model(blob, n_ctx=10**6)


def test_streams_that_are_left_free_their_contexts(model):
    for _ in range(30):
        for _piece in model.stream("Once upon a time", max_tokens=50):
            break
    with model.stream("Once upon a time", max_tokens=50) as stream:
        next(stream)
        with pytest.raises(smolrun.UsageError, match="not complete"):
            stream.answer  # noqa: B018
    assert list(stream) == [] and len(model._idle) <= 4


CYCLES = """
import gc, os, sys, smolrun

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

def cycle():
    model = smolrun.Model(sys.argv[1], n_threads=1, prefix_cache=1 << 20)
    answer = model.generate("Once upon", max_tokens=2, regex="[ab]{9}", logprobs=2)
    session = model.session()
    model.tokenize("Once upon a time")
    stream = model.stream("Once")
    next(stream)
    session.me = session  # a cycle, which the collector frees in any order
    model.mine = session

for _ in range(300):  # until the C library's heap has its shape
    cycle()
gc.collect()
before = resident()
for _ in range(int(sys.argv[2])):
    cycle()
gc.collect()
print(resident() - before, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.parametrize("n", [80, pytest.param(10_000, marks=pytest.mark.slow)])
def test_opening_and_closing_leaves_nothing(blob, n):
    growth, threads, files = map(int, output_of(CYCLES, blob, n, timeout=580).split())
    assert growth < 32 << 20 and threads == 1 and files < 10, (growth, threads, files)


def test_importing_and_generating_take_little_and_not_even_numpy(blob):
    code = "model = smolrun.Model(sys.argv[1]); model.generate('Once'); model.generate(['a', [5, 6]], seed=1)\n"
    code = "import sys, smolrun\n" + code + "print(*sorted({n.partition('.')[0] for n in sys.modules} - before))"
    code = "import sys; before = {n.partition('.')[0] for n in sys.modules} | set(sys.stdlib_module_names)\n" + code
    assert [name for name in output_of(code, blob).split() if not name.startswith("_")] == ["smolrun"]
    names = "{'asyncio', 'ssl', 'subprocess', 'tempfile', 'multiprocessing', 'html'}"
    heavy = f"import sys; before = set(sys.modules)\nimport smolrun\nprint(*{names} & set(sys.modules) - before)"
    assert output_of(heavy) == "\n"  # scripts/measure-python tells the time


@pytest.mark.parametrize("signal_number", [signal.SIGTERM])
def test_a_process_that_ends_in_the_middle_ends(blob, signal_number):
    """Contexts and threads at the interpreter's end, in whatever order their names are deleted."""
    code = "import sys, smolrun\nmodel = smolrun.Model(sys.argv[1]); stream = model.stream('Once'); next(stream); session = model.session()"
    output_of(code, blob)
    endless = code + "\nprint('on', flush=True)\nwhile True: model.generate('Once', temperature=1)"
    environment = {**os.environ, "PYTHONPATH": str(package.FOLDER)}
    with subprocess.Popen([sys.executable, "-c", endless, str(blob)], env=environment, stdout=subprocess.PIPE, cwd="/") as process:
        assert process.stdout.readline() == b"on\n"
        process.send_signal(signal_number)
        assert process.wait(WAIT) == -signal_number
