"""smolserve and clients that are slow, broken or hostile: nothing crashes, and others are served."""

import fcntl
import json
import os
import re
import resource
import signal
import socket
import stat
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import openai
import pytest
from programs import assert_refuses, run
from serving import ENDLESS, Server, post_bytes, read_all, serving
from test_serve import ROUTE, user

LONG = {"type": "regex", "pattern": "[a-z ]{9000}"}  # an answer that does not end by itself


@pytest.fixture(scope="module")
def server(blob, slow_blob):
    with serving([blob, slow_blob], "--sequences", 4, "--connections", 100, "--max-body", 65536) as server:
        yield server
        assert server.chat("Hi", max_tokens=1)


def request(server, **members):
    return {"model": server.model, "messages": user("Hi"), "max_tokens": 3} | members


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


# --- broken requests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000,
        b"GET /health HTTP/1.1\r\n" + b"x" * 100_000, b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n" % ROUTE.encode(),
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n" % ROUTE.encode(),
        b"POST %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" % ROUTE.encode(),
        b"GET /%00%ff/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", os.urandom(10_000),
    ],
    ids=range(13),
)  # fmt: skip
def test_bytes_that_are_no_request_get_an_error_or_nothing(server, data):
    answer = server.raw(data)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), answer[:100]
    assert server.get("/health")[0] == 200


def test_large_bodies_are_refused(server):
    for size in (65537, 200_000, 100_000_000):
        data = post_bytes(ROUTE, b" " * min(size, 1_000_000)).replace(b"Content-Length: 1000000", b"Content-Length: %d" % size)
        with server.socket() as connection:
            try:
                connection.sendall(data)
            except OSError:
                assert size > 4 * 65536  # it does not read everything
            answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413") and b"65536 bytes" in answer


def test_any_limit_of_bodies_is_one(blob):
    for limit in (2**62 + 1, 2**64 - 1):
        with serving(blob, "--max-body", limit) as server:
            assert server.chat("Hi", max_tokens=1)


def test_chunked_bodies_have_the_same_limit(server):
    def chunked(body, n):
        head = post_bytes(ROUTE, b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        parts = [body[i : i + n] for i in range(0, len(body), n)]
        return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"

    body = json.dumps(request(server)).encode()
    with server.socket(chunked(body, 3)) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    with server.socket(chunked(body + b" " * 100_000, 1000)) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    with server.socket() as connection:
        try:
            connection.sendall(chunked(body + b" " * 10_000_000, 60_000))
            connection.recv(4096)
        except OSError:
            pass
    assert server.get("/health")[0] == 200


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 72", "Content-Length : 5", "Content-Length: 5\r\nX Y: z", "Transfer-Encoding : chunked", "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked",
        "Content-Length: 5\r\nHost: localhost", "Content-Length: 0x5", "Content-Length: +5", "Content-Length: 5, 5", "Content-Length:",
    ],
)  # fmt: skip
def test_a_request_of_unclear_length_ends_its_connection(server, lines):
    """Nothing after it is taken for a request, although some readers would see one there."""
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lines}\r\n\r\n".encode()
    with server.socket(head + b"0\r\n\r\n" + HEALTH) as connection:
        answer = read_all(connection, 5)
    assert answer.startswith(b"HTTP/1.1 400") and b'"ok"' not in answer, answer


def test_a_chunked_request_needs_the_protocol_that_has_chunks(server):
    data = post_bytes(ROUTE, b"0\r\n\r\n").replace(b"Content-Length: 5", b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0")
    with server.socket(data) as connection:
        assert read_all(connection, 5).startswith(b"HTTP/1.1 400")


def test_a_client_that_asks_before_it_sends_is_told_at_once(server):
    body = json.dumps(request(server)).encode()
    for path, size, status in ((ROUTE, 65537, b"413"), ("/nothing", 5, b"404"), (ROUTE, len(body), b"100")):
        head = post_bytes(path, b"", Expect="100-continue").replace(b"Content-Length: 0", b"Content-Length: %d" % size)
        with server.socket(head) as connection:
            assert connection.recv(4096).startswith(b"HTTP/1.1 " + status)
            if status == b"100":
                connection.sendall(body)
                assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_compressed_bodies_are_refused(server):
    for coding, expected in (("gzip", 415), ("identity", 200)):
        assert server.http("POST", ROUTE, request(server), Content_Encoding=coding)[0] == expected


def test_requests_on_one_connection_are_answered_in_order(server):
    good, bad = post_bytes(ROUTE, request(server)), post_bytes(ROUTE, b"{")
    with server.socket(good + bad + good) as connection:
        data = b""
        while data.count(b"HTTP/1.1") < 3 or not data.endswith(b"}\n"):
            data += connection.recv(1 << 16)
    assert [part[:4] for part in data.split(b"HTTP/1.1 ")[1:]] == [b"200 ", b"400 ", b"200 "]


def slow_format(name):
    """An intersection of languages whose automata are large."""
    patterns = [{"type": "string", "pattern": f"[ab]*a[ab]{{{i}}}"} for i in range(1, 14)]
    return {"type": "json_schema", "json_schema": {"name": "slow", "schema": {"title": name, "allOf": patterns}}}


def test_requests_do_not_wait_for_constraints_that_take_long_to_compile(server):
    with ThreadPoolExecutor(8) as pool:
        compiled = [pool.submit(server.http, "POST", ROUTE, request(server, response_format=slow_format(f"number {i}"))) for i in range(4)]
        time.sleep(0.1)
        for _ in range(5):
            assert server.chat("Hi", max_tokens=3)
        assert not all(answer.done() for answer in compiled)
        assert {answer.result()[0] for answer in compiled} <= {200, 400}


# --- slow and broken clients ----------------------------------------------------------------------


def test_resets_at_any_moment_harm_nobody(server):
    body = post_bytes(ROUTE, request(server, stream=True, max_tokens=200, response_format=LONG))
    with ThreadPoolExecutor(1) as pool:
        alone = pool.submit(server.chat, "Tell me", max_tokens=100, temperature=0)
        for i in range(60):
            connection = server.socket(body[: 10 * i] if i % 2 else body)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(0.001 * (i % 7))
            connection.close()
        found = alone.result()
    assert found["choices"] == server.chat("Tell me", max_tokens=100, temperature=0)["choices"]
    server.wait_for("smolserve_sequences", 0)
    server.wait_for("smolserve_waiting", 0)


def test_connections_that_end_within_a_request_are_closed(blob):
    """Also where the last bytes and the end arrive together."""
    with serving(blob) as server:
        part = post_bytes(ROUTE, b"{}").replace(b"Content-Length: 2", b"Content-Length: 999")
        for i in range(100):
            connection = server.socket(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(4096)
            connection.sendall(part if i % 2 else part[:-5])
            connection.close()
        for _ in range(3):
            assert server.raw(b"\x16\x03\x01") == b""
        server.wait_for("smolserve_connections", 1, 15)


@pytest.mark.slow
def test_a_client_that_never_reads_is_cut_off_and_stalls_nobody(blob):
    with serving(blob, "--sequences", 2) as server:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect(("127.0.0.1", server.port))
        body = request(server, stream=True, max_tokens=450, n=2, logprobs=True, top_logprobs=20, response_format=LONG)
        connection.sendall(post_bytes(ROUTE, body))
        server.wait_for("smolserve_completion_tokens_total", 900)  # generated, and not sent
        assert server.chat("Hi", max_tokens=3)
        server.wait_for("smolserve_connections", 1)  # that of the metrics
        connection.close()


def test_what_a_client_reads_late_comes_in_pieces(blob):
    """None of which keeps the thread of all connections for long; together they are everything."""
    body = {"seed": 1, "n": 16, "logprobs": True, "top_logprobs": 20, "max_tokens": 120, "response_format": LONG}
    with serving(blob) as server:
        status, whole = server.post(ROUTE, request(server, **body))
        assert status == 200
        n_tokens = whole["usage"]["completion_tokens"]
        connection = HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", ROUTE, json.dumps(request(server, stream=True, **body)), {"Content-Type": "application/json"})
        server.wait_for("smolserve_completion_tokens_total", 2 * n_tokens, 120)  # generated, and not sent
        lines = connection.getresponse().read().splitlines()
        connection.close()
    contents, parts, ends, longest = [""] * 16, [[] for _ in range(16)], [None] * 16, 0
    for choice in (json.loads(line[6:])["choices"][0] for line in lines if line.startswith(b"data: {")):
        index, piece = choice["index"], choice["logprobs"]["content"]
        assert len(piece) <= 17 and ends[index] is None
        longest = max(longest, len(piece))
        contents[index] += choice["delta"].get("content", "")
        parts[index] += piece
        ends[index] = choice["finish_reason"]
    assert longest > 1  # otherwise nothing was late
    choices = whole["choices"]
    assert contents == [choice["message"]["content"] for choice in choices]
    assert parts == [choice["logprobs"]["content"] for choice in choices]
    assert ends == [choice["finish_reason"] for choice in choices]


@pytest.mark.slow
def test_a_slow_request_is_cut_off(blob):
    """Even if something arrives all the time."""
    with serving(blob) as server:
        start = time.monotonic()
        with server.socket(b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % ROUTE.encode()) as connection:
            connection.settimeout(0.5)
            with pytest.raises(OSError):
                while time.monotonic() < start + 60:
                    connection.sendall(b"X: y\r\n")
                    try:
                        if connection.recv(100) == b"":
                            raise ConnectionResetError
                    except TimeoutError:
                        pass
        assert 25 < time.monotonic() - start < 40


def test_idle_connections_make_room_for_others(server):
    idle = []
    for _ in range(300):  # three times as many as it keeps
        idle.append(server.socket())
    busy = server.socket(post_bytes(ROUTE, request(server, **ENDLESS | {"model": "slow", "max_tokens": 400})))
    idle += [server.socket() for _ in range(300)]
    assert server.get("/health")[0] == 200 and server.chat("Hi", max_tokens=1)
    assert busy.recv(100).startswith(b"HTTP/1.1 200")
    assert server.metrics()["smolserve_connections"] <= 164
    for connection in [*idle, busy]:
        connection.close()


@pytest.mark.slow
def test_ten_thousand_idle_connections_stall_nobody(blob):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = min(10_000, limits[1] - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    idle = []
    try:
        with serving(blob, "--connections", n + 10) as server:
            expected = server.chat("Hi", max_tokens=20, temperature=0)["choices"]
            before = resident(server)
            idle += [server.socket() for _ in range(n)]
            start = time.monotonic()
            assert server.chat("Hi", max_tokens=20, temperature=0)["choices"] == expected
            assert time.monotonic() < start + 20  # idle ones go after 30
            assert n > 5000 and server.metrics()["smolserve_connections"] > n
            assert resident(server) < before + n * 20_000
            server.wait_for("smolserve_connections", 1)  # after 30 seconds they are closed
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_signal_ends_at_once(slow_blob, stream):
    server = Server([slow_blob])
    try:
        connection = server.socket(post_bytes(ROUTE, request(server, n=8, stream=stream, **ENDLESS)))
        server.wait_for("smolserve_sequences", 8)
        server.drain()
        assert server.stop() == -signal.SIGTERM
        connection.close()
    finally:
        server.process.kill()


def test_memory_does_not_grow(server):
    def ask(i):
        body = request(server, stream=i % 2 == 0, n=1 + i % 3, temperature=1, max_tokens=30, logprobs=i % 5 == 0)
        if i % 7 == 0:
            server.socket(post_bytes(ROUTE, body)).close()
        elif i % 11 == 0:
            assert server.http("POST", ROUTE, b"{" * i)[0] == 400
        else:
            assert server.http("POST", ROUTE, body)[0] == 200

    n = 300 if os.environ.get("SMOL_TEST_ALL") else 100
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(n)))
        before = resident(server)
        list(pool.map(ask, range(4 * n)))
    assert resident(server) < before + (4 << 20)


# --- access ---------------------------------------------------------------------------------------


def test_other_hosts_are_refused(blob):
    with serving(blob, "--server-name", "llm.example.org") as server:
        for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8080", "192.0.2.9", "llm.example.org:443"):
            assert server.get("/health", Host=host)[0] == 200
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1", "a b", "localhost:x"):
            status, _, data = server.http("GET", "/health", Host=host)
            assert status in (400, 403), host
        assert server.raw(b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")


@pytest.fixture
def keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# who\n\nalice secret-of-alice\nbob secret-of-bob 1\n")
    return file


def test_only_those_with_a_key_are_answered(blob, keys):
    with serving(blob, "--api-keys", keys, api_key="secret-of-alice") as server:
        assert server.client.chat.completions.create(model=server.model, messages=user("Hi"), max_tokens=1)
        assert server.get("/health")[0] == 200
        for key in (None, "Bearer secret-of-alic", "Bearer secret-of-alicee", "secret-of-alice", "Bearer ", "Basic x", "Bearer " + "x" * 5000):
            headers = {"Authorization": key} if key else {}
            for path in ("/v1/models", "/metrics"):
                status, answer, data = server.http("GET", path, **headers)
                assert (status, answer["WWW-Authenticate"]) == (401, "Bearer")
                assert json.loads(data)["error"]["code"] == "invalid_api_key"
            assert server.http("POST", ROUTE, request(server), **headers)[0] == 401
        with pytest.raises(openai.AuthenticationError):
            server.client.with_options(api_key="wrong-one").models.list()


def wait_with_key(server, name, value):
    end = time.monotonic() + 60
    while f"{name} {value}\n" not in server.http("GET", "/metrics", Authorization="Bearer secret-of-bob")[2].decode():
        assert time.monotonic() < end


def test_clients_get_their_turns_with_embeddings_too(slow_blob, keys):
    with serving(slow_blob, "--api-keys", keys) as server:
        body = {"model": server.model, "input": ["a long text " * 40] * 1000}
        text = {"model": server.model, "prompt": body["input"][0]}
        n_tokens = 1000 * json.loads(server.http("POST", "/tokenize", text, Authorization="Bearer secret-of-bob")[2])["count"]
        many = post_bytes("/v1/embeddings", body, Authorization="Bearer secret-of-alice")
        alice = [server.socket(many)]
        wait_with_key(server, "smolserve_prompt_tokens_total", n_tokens)
        alice += [server.socket(many) for _ in range(3)]
        wait_with_key(server, "smolserve_waiting", 3)
        with ThreadPoolExecutor(1) as pool:
            bob = pool.submit(server.http, "POST", "/v1/embeddings", body | {"input": "x"}, Authorization="Bearer secret-of-bob")
            wait_with_key(server, "smolserve_waiting", 4)
            for _ in range(2):  # requests become tokens in the order of their arrival: bob's has by now
                assert server.http("POST", "/tokenize", text | {"prompt": "x"}, Authorization="Bearer secret-of-alice")[0] == 200
            alice.pop(0).close()
            assert bob.result()[0] == 200  # bob came last, and was next
        wait_with_key(server, "smolserve_waiting", 2)
        for connection in alice:
            connection.close()
        wait_with_key(server, "smolserve_cancelled_total", 4)


def test_clients_get_their_turns_with_new_constraints_too(blob, keys):
    with serving(blob, "--api-keys", keys) as server:
        def ask(name, number):
            body = request(server, max_tokens=1, response_format=slow_format(f"{name} {number}"))
            return server.socket(post_bytes(ROUTE, body, Authorization=f"Bearer secret-of-{name}"))

        alice = [ask("alice", i) for i in range(8)]
        with ask("bob", 0) as bob:
            assert bob.recv(4096).startswith(b"HTTP/1.1 200")  # bob came last, and was one of the next
        metrics = server.http("GET", "/metrics", Authorization="Bearer secret-of-bob")[2].decode()
        assert int(re.search(r"^smolserve_waiting (\d+)$", metrics, re.M)[1]) >= 3
        for connection in alice:
            connection.close()


def test_a_key_may_have_a_limit_and_clients_get_their_turns(slow_blob, keys):
    with serving(slow_blob, "--api-keys", keys, "--sequences", 2) as server:
        def ask(name):
            return server.http("POST", ROUTE, request(server), Authorization=f"Bearer secret-of-{name}")

        def endless(n):
            body = post_bytes(ROUTE, request(server, **ENDLESS), Authorization="Bearer secret-of-alice")
            return [server.socket(body) for _ in range(n)]

        def metric(name, value):
            wait_with_key(server, name, value)

        alice = endless(2)
        metric("smolserve_sequences", 2)
        alice += endless(6)
        metric("smolserve_waiting", 6)
        with ThreadPoolExecutor(1) as pool:
            bob = pool.submit(ask, "bob")
            metric("smolserve_waiting", 7)
            status, _, data = ask("bob")
            assert status == 429 and "1 requests at a time" in json.loads(data)["error"]["message"]
            alice.pop(0).close()
            assert bob.result()[0] == 200  # bob came last, and was next
        metric("smolserve_waiting", 5)
        for connection in alice:
            connection.close()
        assert ask("bob")[0] == ask("alice")[0] == 200


def test_a_request_that_was_answered_counts_no_more_for_its_key(blob, keys):
    """Whoever has read a whole answer may send the next request at once, on another connection."""
    with serving(blob, "--api-keys", keys) as server:
        for thread in os.listdir(f"/proc/{server.process.pid}/task"):  # so that one often runs late
            os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
        for i in range(600):
            body = request(server, max_tokens=1, stream=i % 2 == 0)
            assert server.http("POST", ROUTE, body, Authorization="Bearer secret-of-bob")[0] == 200, i


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no keys"), ("alice", "NAME KEY"), ("a short", "8 to 128"), ("a b c d e", "NAME KEY"), (f"{'x' * 33} 12345678", "32"),
     ("a 12345678 0", "LIMIT"), ("a 12345678 x", "LIMIT"), ("a 12345678\nb 12345678", "twice (line 2)")],
)  # fmt: skip
def test_wrong_files_of_keys_are_refused(blob, tmp_path, text, message):
    (tmp_path / "keys").write_text(text)
    assert_refuses(run("smolserve", [blob, "--port", 0, "--api-keys", tmp_path / "keys"]), 2, "keys: ", message)


def test_a_unix_socket_is_its_owners(blob, tmp_path):
    path = tmp_path / "socket"
    for _ in range(2):  # the second time, the socket is there already
        with serving_unix(blob, path) as ask:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert ask("GET", "/health")[0] == 200
            status, data = ask("POST", ROUTE, json.dumps({"model": blob.stem, "messages": user("Hi"), "max_tokens": 3}))
            assert status == 200 and json.loads(data)["usage"]["completion_tokens"] == 3
            refused = run("smolserve", [blob, "--unix", path])
            assert_refuses(refused, 3, "in use")
    assert_refuses(run("smolserve", [blob, "--unix", "x" * 200]), 2, "--unix")


def serving_unix(blob, path):
    import signal
    import subprocess
    from contextlib import contextmanager

    from internal import BUILD

    @contextmanager
    def serve():
        process = subprocess.Popen([BUILD / "smolserve", blob, "--unix", path], stdout=subprocess.PIPE, text=True)

        def ask(method, target, body=None):
            connection = HTTPConnection("localhost")
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(path))
            connection.request(method, target, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

        try:
            assert process.stdout.readline() == f"listening on unix:{path}\n"
            yield ask
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()

    return serve()


def test_a_socket_of_systemd_is_used(blob):
    import subprocess

    from internal import BUILD

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    command = f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
    words = ["bash", "-c", command, "sh", BUILD / "smolserve", blob]
    for _ in range(2):  # the connection of the second time waits until there is a process
        connection = HTTPConnection("127.0.0.1", port)
        connection.connect()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, pass_fds=[listener.fileno()])
        try:
            assert process.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
    listener.close()


def test_logs_have_no_content(blob):
    server = Server([blob], "--log")
    try:
        server.chat("a secret thing", max_tokens=2)
        server.http("GET", "/secret%0apath")
        assert server.stop() == 0
        first, second = server.messages().splitlines()
        assert first.startswith(f"smolserve: POST {ROUTE} 200 id=chatcmpl-") and "secret thing" not in first
        assert second == "smolserve: GET /secret?path 404"
    finally:
        server.process.kill()


def ask_much(errors, blob):
    """Returns how many lines of its log a server that writes it there has lost."""
    server = Server([blob], "--log", errors=errors)
    try:
        expected = server.chat("Hi", max_tokens=5, temperature=0)["choices"]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: server.get("/health"), range(300)))
        assert server.chat("Hi", max_tokens=5, temperature=0)["choices"] == expected
        lost = server.metrics()["smolserve_log_lines_lost_total"]
        assert server.stop() == 0
        return lost
    finally:
        server.process.kill()
        server.process.wait()


def test_a_full_disk_for_the_log_stops_nothing(blob):
    with open("/dev/full", "wb") as full:
        assert 302 <= ask_much(full, blob) <= 303


def test_a_log_that_nobody_reads_stops_nothing(blob):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
    assert 150 < ask_much(writer, blob) < 303
    os.close(writer)
    with open(reader, "rb") as file:
        lines = file.read().splitlines()
    assert len(lines) > 5 and all(line.startswith(b"smolserve: ") and line.split()[3] == b"200" for line in lines)


def test_the_process_can_open_nothing(server):
    """The sandbox is in force while it serves."""
    status = dict(line.split(":\t") for line in open(f"/proc/{server.process.pid}/status").read().splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    if os.uname().machine in ("x86_64", "aarch64"):
        assert status["Seccomp"] == "2"
