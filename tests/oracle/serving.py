"""smolserve as a process, and requests to it: with the openai package, as JSON, and as raw bytes."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from http.client import HTTPConnection

from internal import BUILD
from openai import OpenAI


# Members of a request to slow_blob whose answer no test waits for.
ENDLESS = {"max_tokens": 8000, "response_format": {"type": "regex", "pattern": "[a-z ]{30000}"}}


class Server:
    """A running smolserve, on a free port."""

    def __init__(self, blobs, *words, api_key="none", errors=None, program=BUILD / "smolserve"):
        self.errors = os.memfd_create("errors") if errors is None else errors
        self.process = subprocess.Popen(
            [program, *map(str, blobs), "--port", "0", *map(str, words)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True,
        )  # fmt: skip
        self.line = self.process.stdout.readline()
        found = re.fullmatch(r"listening on http://127\.0\.0\.1:(\d+)\n", self.line)
        self.port = int(found[1]) if found else None
        self.model = blobs[0].stem if blobs else None
        self.client = OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key=api_key, max_retries=0)

    def messages(self):
        """Returns what it has printed to standard error."""
        return os.pread(self.errors, 1 << 20, 0).decode()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.stdout.read()
        return self.process.wait(60)

    def drain(self):
        """The first signal; returns when it has been noticed."""
        self.process.terminate()
        end = time.monotonic() + 60
        while True:
            try:
                self.socket().close()
            except ConnectionError:  # refused, or reset while it was being made
                return
            assert time.monotonic() < end, "it takes connections"

    # --- requests ---

    def http(self, method, path, body=None, **headers):
        """(status, headers, body) of an answer. A body that is not bytes is sent as JSON."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), data

    def post(self, path, body, **headers):
        """(status, JSON) of an answer; the model is added to the body of a request."""
        if isinstance(body, dict):
            body = {"model": self.model} | body
        status, _, data = self.http("POST", path, body, **headers)
        return status, json.loads(data)

    def get(self, path, **headers):
        status, _, data = self.http("GET", path, **headers)
        return status, json.loads(data)

    def chat(self, text, **members):
        body = {"messages": [{"role": "user", "content": text}]} | members
        status, answer = self.post("/v1/chat/completions", body)
        assert status == 200, answer
        return answer

    def metrics(self):
        """name{labels} -> value"""
        _, _, data = self.http("GET", "/metrics")
        rows = [line.rsplit(" ", 1) for line in data.decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in rows}

    def wait_for(self, name, value, seconds=60):
        """Waits until a metric has a value."""
        end = time.monotonic() + seconds
        while (found := self.metrics().get(name)) != value:
            assert time.monotonic() < end, f"{name} is {found}, not {value}"
            time.sleep(0.02)

    def socket(self, data=b""):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(data)
        return connection

    def raw(self, data):
        """Sends bytes, and returns the answer up to the end of the connection."""
        with self.socket() as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it has closed the connection already
            return read_all(connection)


def read_all(connection, seconds=60):
    """Everything until the other side closes, or resets, the connection."""
    data = b""
    while select.select([connection], [], [], seconds)[0]:
        try:
            part = connection.recv(1 << 16)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part
    raise TimeoutError(f"open after {seconds} s: {data!r}")


def post_bytes(path, body, **headers):
    """A request as bytes."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def serving(blobs, *words, **options):
    """A server that must end in order, and print nothing to standard error."""
    server = Server(blobs if isinstance(blobs, list) else [blobs], *words, **options)
    try:
        assert server.port, (server.line, server.messages())
        yield server
        assert server.stop() == 0
        assert server.messages() == ""
    finally:
        server.process.kill()
        server.process.wait()
        os.close(server.errors)
