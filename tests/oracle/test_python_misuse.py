"""Wrong use of the Python package ends in an error that says what is wrong, never in a crash, a hang or a wrong answer: values
of any type, objects closed or used by several threads, files that change, the collector of garbage at any time."""

import fractions
import gc
import os
import pickle
import re
import shutil
import threading
import time

import numpy as np
import package
import pytest
import smolrun
from package import output_of

USER = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module")
def model(blob):
    return smolrun.Model(blob, n_threads=2)


# --- values ----------------------------------------------------------------------------------------

VALUES = (None, True, -1, 0, 1.5, 2**31, 2**64, -(2**70), 10**400, float("nan"), float("inf"), "", "x", "\ud800", "a\0b", b"", b"\xff", bytearray(b"ab"), (),
          [], [""], [[]], [None], [-1], [1.5], ["a", 5], [5, "a"], {}, {"a": 1}, {1, 2}, {"type": ["x"]}, object(), np.zeros(2), np.zeros((2, 2), int),
          np.array(5), iter([1]), range(3), fractions.Fraction(1, 2), memoryview(b"ab"), re.compile("a"), [USER], {"role": "user"}, print)  # fmt: skip
OPTIONS = ("max_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "logit_bias", "seed",
           "stop", "logprobs", "schema", "regex", "choices", "grammar", "response_format", "json_space", "any_order", "cancel", "progress")  # fmt: skip
TOOL_OPTIONS = ("tools", "tool_choice", "parallel_tool_calls", "documents", "chat_template_kwargs", "continue_final_message")


def calls(model, blob, tmp_path):
    """Returns {name: a call of one argument}, for all arguments that there are."""
    found = {option: lambda value, option=option: model.generate("Once", **{"max_tokens": 2, option: value}) for option in OPTIONS}
    found |= {option: lambda value, option=option: model.chat([USER], **{"max_tokens": 2, option: value}) for option in TOOL_OPTIONS}
    opening = ("n_ctx", "n_threads", "kv", "sequences", "verify", "mmap", "digest", "prefix_cache", "progress")
    found |= {f"Model {name}": lambda value, name=name: smolrun.Model(blob, **{name: value}).close() for name in opening}
    found |= {
        "generate": lambda value: model.generate(value, max_tokens=2), "stream": lambda value: list(model.stream(value, max_tokens=2)),
        "chat": lambda value: model.chat(value, max_tokens=2), "content": lambda value: model.chat([USER | {"content": value}], max_tokens=2),
        "role": lambda value: model.chat([{"role": value, "content": ""}], max_tokens=2), "tokenize": model.tokenize,
        "detokenize": model.detokenize, "token_bytes": model.token_bytes, "token_text": model.token_text, "format_chat": model.format_chat,
        "tokenize_chat": model.tokenize_chat, "logits": model.logits, "last": lambda value: model.logits("Once", last=value),
        "embed": model.embed, "pooling": lambda value: model.embed("Once", pooling=value), "score": model.score,
        "score after": lambda value: model.score(value, prompt="Once"), "score prompt": lambda value: model.score("Once", prompt=value),
        "perplexity": model.perplexity, "n_ctx": lambda value: model.perplexity("Once upon", n_ctx=value), "Model": smolrun.Model,
        "run": lambda value: list(model.run(value)), "run one": lambda value: list(model.run([value])), "session": model.session,
        "truncate": model.session().truncate, "turn": lambda value: model.session().generate(value, max_tokens=2),
        "save": lambda value: isinstance(value, str) and value or model.session().save(value),
        "data": lambda value: setattr(session := model.session(), "data", value) or session.to_bytes(), "inspect": smolrun.inspect,
        "convert": lambda value: smolrun.convert(value, tmp_path / "out"), "dtype": lambda value: smolrun.convert(tmp_path, tmp_path / "out", dtype=value),
        "request": lambda value: model.request(messages=value), "special": lambda value: model.tokenize("Once", special=value),
        "whole": lambda value: model.tokenize("Once", whole=value), "show special": lambda value: model.detokenize([5], special=value),
        "add_generation_prompt": lambda value: model.tokenize_chat([USER], add_generation_prompt=value),
        "rerank": lambda value: model.rerank("Once", value),
    }  # fmt: skip
    return found


def test_values_of_any_type_are_answered_or_refused(model, blob, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused, wrong = 0, []
    for name, call in calls(model, blob, tmp_path).items():
        for value in VALUES:
            try:
                call(value)
            except smolrun.SmolError as error:
                refused += 1
                assert len(str(error)) > 8, (name, value)
            except TypeError as error:
                if value is not print:  # which can be called, but not stored as JSON
                    wrong.append((name, repr(value)[:60], repr(error)[:200]))
            except BaseException as error:
                wrong.append((name, repr(value)[:60], repr(error)[:200]))
    assert wrong == [], "\n".join(map(str, wrong))
    assert refused > 1000
    assert model.generate("Once", max_tokens=3).finish_reason == "length"


@pytest.mark.parametrize("call, part", [
    (lambda model: model.generate(5), "prompt: must be a text"), (lambda model: model.generate(["a", None]), "prompt 1: not a list of token ids"),
    (lambda model: model.chat([[USER], [{"role": "fly", "content": ""}]]), "prompt 1"), (lambda model: model.generate("a", regex=5), "regex: must be a text"),
    (lambda model: model.generate("a", choices="yes"), "choices: must be a list"), (lambda model: model.tokenize("a", whole="no"), "whole: must be True"),
    (lambda model: model.format_chat([USER], add_generation_prompt=1), "add_generation_prompt: must be True"), (lambda model: model.perplexity([1, 5000]), "token id 5000"),
    (lambda model: model.score([1, 1, 5000]), "token id 5000"), (lambda model: model.session().truncate(-1), "n: must be a whole number"),
    (lambda model: model.generate("a", seed=-1), "seed: must be a whole number from 0 to 18446744073709551615, found -1"),
    (lambda model: model.generate("a", top_p="1"), "top_p: must be a number from 0 to 1, found '1'"),
    (lambda model: smolrun.Model(model.path, n_ctx=2**32 + 5), "n_ctx"), (lambda model: smolrun.Model("a\0b"), "path"),
    (lambda model: model.generate("a", max_new_tokens=5), "use max_tokens"), (lambda model: model.generate("a", do_sample=True), "temperature"),
    (lambda model: model.chat([USER], stream=True), "stream_chat"), (lambda model: smolrun.convert("a\0b", "x"), "source"),
    (lambda model: list(model.run([5])), "Model.request")], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_errors_name_the_argument(model, call, part):
    with pytest.raises(smolrun.UsageError, match=part):
        call(model)


def test_token_ids_may_be_numpys(model):
    ids = model.tokenize("Once upon a time")
    expected = model.generate(ids, max_tokens=4)
    for kind in (np.int64, np.int32, np.uint16):
        array = np.array(ids, kind)
        assert model.generate(array, max_tokens=4) == model.generate(list(array), max_tokens=4) == expected
        assert model.generate(np.stack([array, array]), max_tokens=4) == [expected] * 2
        assert model.detokenize(array) == "Once upon a time" and model.token_text(array[0]) == model.token_text(ids[0])
        assert np.array_equal(model.logits(array), model.logits(ids))
        assert model.score(array).sum == model.score(ids).sum
    options = {"max_tokens": np.int64(4), "temperature": np.float32(0.5), "seed": np.uint64(7), "logit_bias": {np.int64(5): np.float64(2)}}
    assert model.generate(ids, **options) == model.generate(ids, max_tokens=4, temperature=0.5, seed=7, logit_bias={5: 2})


def test_several_texts_are_scored_as_each_alone(model):
    texts = [" a time", " a cat", " a time", ".", " a time there was", [5, 6]]
    together = model.score(texts, prompt="Once upon")
    for text, score in zip(texts, together):
        alone = model.score(text, prompt="Once upon")
        assert alone.ids == score.ids and alone.logprobs.tobytes() == score.logprobs.tobytes() and alone.top == score.top
    assert model.score([]) == [] and len(model.score(["Once upon", "a time"])) == 2


def test_what_belongs_to_a_process_is_not_pickled(model):
    for one in (smolrun.Cancel(), model.session(), model.stream("Once")):
        with pytest.raises(smolrun.UsageError, match="cannot be pickled"):
            pickle.dumps(one)
    for error in smolrun.errors.CLASSES.values():
        assert str(pickle.loads(pickle.dumps(error("what and where")))) == "what and where"


# --- several threads -------------------------------------------------------------------------------

THREADS = """
import sys, threading, time, smolrun
model = smolrun.Model(sys.argv[1], n_threads=2)
prompt, options = "Once upon a time " * 20, {{"max_tokens": 60, "temperature": 1}}
errors = []

def in_thread(call):
    def run():
        try:
            call()
        except smolrun.SmolError as error:
            errors.append(str(error))
    thread = threading.Thread(target=run)
    thread.start()
    return thread

for i in range({n}):
    {body}
print(model.generate("Once", max_tokens=3).finish_reason, *sorted({{error[:26] for error in errors}}), sep="|")
"""
CLOSING = """thread = in_thread(lambda: {use})
    time.sleep(0.0007 * (i % 10))
    {close}
    thread.join()"""


@pytest.mark.parametrize("n, body, expected", [
    (60, "stream = model.stream(prompt, **options)\n    " + CLOSING.format(use="list(stream)", close="stream.close()"), {""}),
    (60, "session = model.session()\n    " + CLOSING.format(use="session.generate(prompt, **options)", close="session.close()"),
     {"", "the object was closed: ope"}),
    (40, "other = smolrun.Model(model.path)\n    " + CLOSING.format(
        use="[(other.generate('Once', max_tokens=9), other.logits('a b'), other.tokenize('a ' * 999), other.embed('a'), other.score('a b'), other.info, other.stop_ids, "
            "other.generate('x', regex='[ab]{3}'), other.session().to_bytes()) for _ in range(99)]", close="other.close()"),
     {"the object was closed: ope"}),
    (3, "stream = model.stream(prompt, **options)\n    threads = [in_thread(lambda: list(stream)) for _ in range(4)]\n"
     "    [thread.join() for thread in threads]", {"", "the stream is in use, by a"}),
    (9, "session = model.session()\n    threads = [in_thread(lambda: session.generate('Once', **options)) for _ in range(4)]\n"
     "    [thread.join() for thread in threads]", {"", "the session is in use, by "})],
    ids=["stream closed", "session closed", "model closed", "stream shared", "session shared"])  # fmt: skip
def test_threads_that_share_what_they_must_not(blob, n, body, expected):
    found = output_of(THREADS.format(n=n, body=body), blob).rstrip("\n").split("|")
    assert found[0] == "length" and set(found[1:]) <= expected, found


def test_a_stream_of_a_session_ends_when_the_session_is_used(model):
    with model.session() as session:
        first = session.stream("Once upon a time", max_tokens=9)
        next(first)
        second = session.generate(" there", max_tokens=5)
        assert list(first) == [] and second.finish_reason == "length"
        with pytest.raises(smolrun.UsageError, match="not complete"):
            first.answer  # noqa: B018
        last = session.stream(max_tokens=9)
        next(last)
    with pytest.raises(smolrun.UsageError, match="closed"):
        next(last)


def test_a_stream_closed_by_a_signal_handler_ends(blob):
    code = """
import signal, sys, smolrun
model = smolrun.Model(sys.argv[1])
stream = model.stream("Once upon a time", max_tokens=None, temperature=1)
signal.signal(signal.SIGALRM, lambda *_: stream.close())
for i in range(20):
    signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0007 * i)
    for piece in stream:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)  # the answer may have ended first; at exit an alarm kills
    stream = model.stream("Once upon a time", max_tokens=None, temperature=1)
print("ended")
"""
    assert output_of(code, blob) == "ended\n"


def test_a_cancelled_task_leaves_the_callers_button_alone(model):
    import asyncio

    async def main():
        cancel = smolrun.Cancel()
        first = asyncio.ensure_future(model.agenerate(["Once"] * 300, max_tokens=400, temperature=1, cancel=cancel))
        second = asyncio.ensure_future(model.agenerate("Once", max_tokens=20, cancel=cancel))
        await asyncio.sleep(0.05)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert not cancel.cancelled and (await second).finish_reason == "length"
        cancel.cancel()
        assert (await model.agenerate("Once", max_tokens=20, cancel=cancel)).finish_reason == "cancelled"
        assert [piece async for piece in model.astream("Once", max_tokens=20, cancel=cancel)] == []

    asyncio.run(asyncio.wait_for(main(), 60))


def test_cancellation_ends_calls_of_any_kind(model):
    long = [5] * 512
    for call in (model.logits, model.embed, lambda ids, cancel: model.score(ids, cancel=cancel), lambda ids, cancel: model.perplexity(ids, cancel=cancel)):
        cancel = smolrun.Cancel()
        cancel.cancel()
        with pytest.raises(smolrun.CancelledError):
            call(long, cancel=cancel)
        call(long, cancel=None)
    cancel = smolrun.Cancel()
    threading.Timer(0.05, cancel.cancel).start()
    with pytest.raises(smolrun.CancelledError):
        model.embed([long] * 2000, cancel=cancel)
    cancel.reset()
    assert model.embed([[5], [6]], cancel=cancel).shape[0] == 2


# --- garbage, memory, files ------------------------------------------------------------------------


def test_the_collector_of_garbage_may_run_at_any_time(model):
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for i in range(60):
            stream = model.stream("Once", max_tokens=20)
            next(stream)
            ring = [stream, model.session()]
            ring.append(ring)
            del stream, ring
            model.generate("x", regex=f"[ab]{{{i % 40 + 1}}}", max_tokens=2)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(model._idle) <= 4


@pytest.mark.parametrize("change, kind", [("os.truncate(path, 70000)", "FileError"), ("os.truncate(path, 0)", "FileError"),
    ("os.replace(other, path)", "length"), ("os.unlink(path)", "length")], ids=str)  # fmt: skip
def test_a_file_that_changes_while_it_is_mapped(blob, tmp_path, change, kind):
    """Another file in its place leaves the mapped one as it was."""
    code = f"""
import os, shutil, sys, smolrun
path, other = sys.argv[2] + "/changed.smol", sys.argv[2] + "/other"
shutil.copy(sys.argv[1], path)
open(other, "wb").write(b"x" * 9999)
model = smolrun.Model(path, verify="open")
session = model.session()
session.generate("Once", max_tokens=2)
{change}
for call in (lambda: model.generate("Once upon a time", max_tokens=4), lambda: session.generate(max_tokens=4)):
    try:
        print(call().finish_reason)
    except smolrun.SmolError as error:
        print(type(error).__name__)
"""
    assert output_of(code, blob, tmp_path) == f"{kind}\n{kind}\n"


def test_too_little_memory_is_an_error(blob):
    """With limits around what is needed, calls return what they should or raise OutOfMemoryError, and the process goes on."""
    code = """
import os, resource, sys, numpy as np, smolrun
model = smolrun.Model(sys.argv[1], n_threads=1)
expected, whole = model.logits([5] * 512), resource.getrlimit(resource.RLIMIT_AS)
session, text = model.session(), model.generate("Once", max_tokens=300).text
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE")
outcomes = set()
for more in range(0, 16 << 20, 1 << 20):
    for call, right in ((lambda: model.logits([5] * 512), expected), (lambda: model.generate("Once", max_tokens=300).text, text)):
        resource.setrlimit(resource.RLIMIT_AS, (used + more, whole[1]))
        try:
            found = call()
        except smolrun.OutOfMemoryError:
            found = None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, whole)
        outcomes.add("memory" if found is None else "right" if np.array_equal(found, right) else "wrong")
        del found
assert model.generate("Once", max_tokens=300).text == text
print(*sorted(outcomes))
"""
    assert output_of(code, blob) == "memory right\n"


def test_a_child_that_is_forked_while_a_stream_is_read(blob):
    code = """
import os, sys, warnings, smolrun
warnings.simplefilter("ignore")  # Python 3.12 warns of threads, of which the model's do nothing in a child
model = smolrun.Model(sys.argv[1], n_threads=2)
cancel = smolrun.Cancel()
stream = model.stream("Once upon a time", max_tokens=40, cancel=cancel)
next(stream)
child = os.fork()
if child == 0:
    cancel.cancel()
    try:
        next(stream)
    except smolrun.UsageError as error:
        assert "forked" in str(error)
        stream.close()
        print(model.generate("Once", max_tokens=3).finish_reason, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(len(list(stream)) > 9, stream.answer.finish_reason)
"""
    assert output_of(code, blob) == "length\nTrue length\n"


def test_names_of_files_are_any_that_the_system_takes(blob, tmp_path):
    for name in ("Zoë 日本 \U0001f600", "a\nb", os.fsdecode(b"\xff\xfe"), "-x", "%s"):
        folder = tmp_path / name
        folder.mkdir()
        path = folder / name
        shutil.copy(blob, path)
        with smolrun.Model(path) as model, model.session() as session:
            session.generate("Once", max_tokens=2)
            session.save(folder / f"{name}.session")
            assert model.session(folder / f"{name}.session").ids == session.ids
            assert pickle.loads(pickle.dumps(model)).path == str(path) == smolrun.Model(os.fsencode(path)).path
        assert smolrun.inspect(path)


def test_progress_that_raises_ends_the_call(model):
    def fail(done, total):
        raise RuntimeError("mine")

    stream = model.stream([5] * 300, max_tokens=2, progress=fail)
    with pytest.raises(RuntimeError, match="mine"):
        next(stream)
    assert list(stream) == []
    with pytest.raises(RuntimeError, match="mine"):
        model.perplexity([5] * 300, progress=fail)
    start = time.monotonic()
    assert model.generate("Once", max_tokens=3).finish_reason == "length" and time.monotonic() - start < 60
    assert threading.active_count() < 20 and package.FOLDER
