"""smolserve whose blobs are replaced, damaged or cut off in use: no request is dropped, and what is
broken is not taken."""

import contextlib
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import ENDLESS, Server, post_bytes, read_all
from test_serve import ROUTE, by_smolrun, user

SECONDS = 60  # it takes two


@pytest.fixture
def live(blob, tmp_path):
    return shutil.copy(blob, tmp_path / "live.smol")


@contextlib.contextmanager
def serving(live, *words, **options):
    """A server that must end in order. Its messages are the test's to check."""
    server = Server([live], *words, **options)
    try:
        assert server.port, (server.line, server.messages())
        yield server
        assert server.stop() == 0
    finally:
        server.process.kill()
        server.process.wait()
        os.close(server.errors)


def replace(live, data):
    new = live.with_suffix(".new")
    new.write_bytes(data)
    new.rename(live)


def wait_until(reached, what):
    end = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def answer(server, text="Tell me", **members):
    return server.chat(text, max_tokens=20, temperature=0, **members)["choices"][0]["message"]["content"]


def expected(blob, text="Tell me"):
    return by_smolrun(blob, [{"messages": user(text), "max_tokens": 20, "temperature": 0}])[0]["text"]


def test_a_replaced_blob_is_taken_and_no_request_is_dropped(demo_blob, slow_blob, tmp_path):
    """The new blob has another dtype. A long answer continues with the old one, while other requests arrive all the time."""
    old, new = slow_blob, demo_blob("f32")
    live = shutil.copy(old, tmp_path / "live.smol")
    answers = {expected(old), expected(new)}
    found, stop = [], threading.Event()

    def ask_all_the_time(server):
        while not stop.is_set():
            found.append(server.post(ROUTE, {"messages": user("Tell me"), "max_tokens": 20, "temperature": 0}))

    with serving(live, "--sequences", 8, "--threads", 1) as server, ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask_all_the_time, server) for _ in range(3)]
        text = text_until_replaced(server, pool, lambda: replace(live, new.read_bytes()))
        assert answer(server) == expected(new)
        stop.set()
        for thread in asking:
            thread.result(SECONDS)
        assert server.get("/v1/models")[1]["data"][0]["dtype"] == "f32"
        assert {status for status, _ in found} == {200} and len(found) > 3
        assert {one["choices"][0]["message"]["content"] for _, one in found} == answers
        assert server.messages() == f"smolserve: {live}: replaced\n"
    # a shorter constraint changes nothing but the last tokens
    request = {"messages": user("Hi"), "temperature": 1, "seed": 3} | ENDLESS
    request["response_format"] = {"type": "regex", "pattern": f"[a-z ]{{{len(text)}}}"}
    (whole,) = by_smolrun(old, [request])
    assert text[:-50] == whole["text"][:-50] and len(text) == len(whole["text"])


def text_until_replaced(server, pool, act):
    """Returns the text written before, during and some time after the replacement of a blob, which starts once some text
    has been written."""
    members = {name: value for name, value in ENDLESS.items() if name != "response_format"}
    stream = server.client.chat.completions.create(
        model=server.model, messages=user("Hi"), stream=True, temperature=1, seed=3, extra_body={"response_format": ENDLESS["response_format"]}, **members
    )
    text, replaced, most = "", None, None
    for chunk in stream:
        text += chunk.choices[0].delta.content or ""
        if text and not replaced:
            act()
            replaced = pool.submit(server.wait_for, "smolserve_replaced_total", 1, SECONDS)
        if replaced and replaced.done():
            replaced.result()
            most = most or len(text) + 150
            if len(text) >= most:
                break
    stream.close()
    return text


def test_a_cache_goes_with_its_blob(demo_blob, live):
    with serving(live) as server:
        text = "Tell me a story " * 12
        for hit in (False, True):
            usage = server.chat(text, max_tokens=1)["usage"]
            assert (usage["prompt_tokens_details"]["cached_tokens"] > 0) == hit
        replace(live, demo_blob("f32").read_bytes())
        server.wait_for("smolserve_replaced_total", 1, SECONDS)
        assert server.chat(text, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        server.wait_for("smolserve_sequences", 0)
        assert answer(server) == expected(demo_blob("f32"))


def flip(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("kind", ["weights", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("text", "empty", "cut", "version"))])
def test_a_broken_replacement_is_refused(blob, live, kind):
    data = blob.read_bytes()
    broken = {
        "text": b"garbage" * 1000, "empty": b"", "cut": data[:-1000],
        "weights": flip(data, len(data) - 5000), "version": data[:8] + b"\x63" + data[9:],
    }  # fmt: skip
    with serving(live) as server:
        before = answer(server)
        replace(live, broken[kind])
        server.wait_for("smolserve_replacements_refused_total", 1, SECONDS)
        assert server.get("/health") == (200, {"status": "ok"}) and answer(server) == before
        assert server.messages().startswith("smolserve: the replacement is refused: ") and "live.smol" in server.messages()
        replace(live, data)  # in order again
        server.wait_for("smolserve_replaced_total", 1, SECONDS)
        assert answer(server) == before and server.messages().count("\n") == 2


def test_a_log_that_nobody_reads_delays_neither_a_replacement_nor_the_end(demo_blob, live):
    reader, errors = os.pipe()
    os.set_blocking(errors, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(errors, b"x" * 4096):
            pass
    os.set_blocking(errors, True)
    with serving(live, errors=errors) as server:
        replace(live, demo_blob("f32").read_bytes())
        server.wait_for("smolserve_replaced_total", 1, SECONDS)
        assert answer(server) == expected(demo_blob("f32"))
        assert server.metrics()["smolserve_log_lines_lost_total"] == 1
    os.close(reader)


@pytest.mark.slow
def test_a_missing_file_changes_nothing(live):
    with serving(live) as server:
        before = answer(server)
        live.unlink()
        time.sleep(2)
        assert answer(server) == before and server.get("/health")[0] == 200 and server.messages() == ""


@pytest.mark.parametrize("words", [[], pytest.param(["--no-mmap"], marks=pytest.mark.slow)])
def test_a_blob_cut_off_in_use_ends_requests_and_not_the_server(blob, live, words):
    """A copy in memory does not notice. Otherwise nothing is answered until the file is replaced."""
    with serving(live, *words) as server:
        before = answer(server)
        os.truncate(live, 65536)
        server.wait_for("smolserve_replacements_refused_total", 1, SECONDS)
        status, found = server.post(ROUTE, {"messages": user("Hi"), "max_tokens": 1})
        if words:
            assert status == 200 and server.get("/health")[0] == 200 and answer(server) == before
        else:
            assert status == 503 and found["error"]["code"] == "model_unreadable"
            assert server.get("/health") == (503, {"status": "unreadable"})
        replace(live, blob.read_bytes())
        server.wait_for("smolserve_replaced_total", 1, SECONDS)
        assert server.get("/health") == (200, {"status": "ok"}) and answer(server) == before


def test_requests_notice_a_blob_that_was_cut_off(slow_blob, tmp_path):
    """Before the watcher does: it waits until the file stays the same. Those in progress end."""
    live = shutil.copy(slow_blob, tmp_path / "live.smol")
    with serving(live) as server:
        body = {"model": server.model, "messages": user("Hi"), "n": 8} | ENDLESS
        busy = server.socket(post_bytes(ROUTE, body, Connection="close"))
        server.wait_for("smolserve_sequences", 8)
        os.truncate(live, 65536)
        assert read_all(busy).startswith(b"HTTP/1.1 500")
        statuses = [server.post(ROUTE, {"messages": user("Hi"), "max_tokens": 1})[0] for _ in range(2)]
        assert statuses in ([500, 503], [503, 503])
        assert server.get("/health")[0] == 503


def test_the_watcher_ends_with_the_server(live):
    def children(server):
        with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children") as file:
            return [int(word) for word in file.read().split()]

    def has_ended(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    for how in ("SIGTERM", "SIGKILL"):
        server = Server([live])
        (watcher,) = children(server)
        os.kill(watcher, 15)  # as a service manager does to all processes
        assert not has_ended(watcher)
        server.process.terminate() if how == "SIGTERM" else server.process.kill()
        server.process.wait(SECONDS)
        wait_until(lambda: has_ended(watcher), "the watcher goes on")
        os.close(server.errors)
