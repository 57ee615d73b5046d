#!/usr/bin/env python3
"""Sends requests to smolserve again and again, and each time another allocation of those that a request causes fails
(shim.c), for every one until there are no more; alone, and with all that follow it.

    tests/fault/sweep_server.py BUILD [--first N] [--stride N] [--only TEXT] [--sanitized]

Whatever fails, the request is answered as if nothing had, or refused with an error of the server's, or its connection is
closed; the next request gets the right answer, and the server counts nothing as in progress, needs no more memory than
before, and ends in order. The same requests to a server without faults tell what is right. The options are those of
sweep.py."""

import errno
import http.client
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tiny
from sweep import parse, sample

LIMIT = 30  # seconds for an answer
SLACK = 4 << 20  # bytes
CHAT = "/v1/chat/completions"
COLOR = {"type": "object", "properties": {"c": {"enum": ["ab", "ba"]}}, "required": ["c"]}


def user(k):
    return [{"role": "user", "content": f"abc {k}"}]


def schema(k):
    """A constraint that no request before has had."""
    return {"type": "json_schema", "json_schema": {"name": "c", "schema": COLOR | {"title": str(k)}}}


def tool(k):
    return {"type": "function", "function": {"name": f"t{k}", "parameters": COLOR}}


def thoughts(k):
    """Reasoning of an earlier turn, in the form of a response."""
    return [*user(0), {"type": "reasoning", "summary": [{"type": "summary_text", "text": "ab"}]}, {"role": "assistant", "content": "ba"}, *user(k)]


def call(k):
    """Functions in the form of a response, and a call with its result."""
    made = {"type": "function_call", "call_id": f"c{k}", "name": f"t{k}", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": f"c{k}", "output": "ab"}
    return {"input": [*user(0), made, result], "tools": [tool(k)["function"] | {"type": "function"}], "tool_choice": "required", "max_output_tokens": 60}


def blocks(k):
    """A conversation of Anthropic's form with a call and its result."""
    turns = [[{"type": "text", "text": "ab"}, {"type": "text", "text": f"{k}"}],
             [{"type": "thinking", "thinking": "ab"}, {"type": "text", "text": "a"}, {"type": "tool_use", "id": f"c{k}", "name": f"t{k}", "input": {}}],
             [{"type": "tool_result", "tool_use_id": f"c{k}", "content": [{"type": "text", "text": "ab"}]}, {"type": "text", "text": "b"}]]  # fmt: skip
    messages = [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    function = tool(k)["function"]
    tools = [{"name": function["name"], "input_schema": function["parameters"]}]
    return {"system": [{"type": "text", "text": "ba"}], "messages": messages, "tools": tools, "stop_sequences": ["zz"]}


SETTINGS = {"max_tokens": 6, "temperature": 1, "seed": 5}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
LOGPROBS = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
THINKS = {"thinks": True}
SHARED = [{"role": "user", "content": "abc 12 ab " * 15}]  # in the cache of prefixes, from the second time on

# name -> path and body, where the k-th is unlike the others if possible
REQUESTS = {
    "chat": (CHAT, lambda k: {"messages": user(k), "logprobs": True, "top_logprobs": 2, "stop": ["zz"], "logit_bias": {"5": 1}}),
    "chat streamed": (CHAT, lambda k: {"messages": user(k), "n": 2, "logprobs": True} | STREAM),
    "prefix": (CHAT, lambda k: {"messages": SHARED}),
    "schema": (CHAT, lambda k: {"messages": user(0), "response_format": schema(k), "max_tokens": 20}),
    "regex": (CHAT, lambda k: {"messages": user(0), "response_format": {"type": "regex", "pattern": f"(ab|ba){{1,{k + 2}}}"}} | STREAM),
    "tools": (CHAT, lambda k: {"messages": user(0), "tools": [tool(k)], "tool_choice": "required", "max_tokens": 60}),
    "tools streamed": (CHAT, lambda k: {"messages": user(0), "tools": [tool(k)], "tool_choice": "required", "max_tokens": 60} | STREAM),
    "completions": ("/v1/completions", lambda k: {"prompt": [f"abc {k}", "ba"], "logprobs": 1}),
    "completions streamed": ("/v1/completions", lambda k: {"prompt": f"abc {k}", "n": 2} | STREAM),
    "echo": ("/v1/completions", lambda k: {"prompt": [f"abc {k}", [5, 6]], "echo": True, "logprobs": 1}),
    "echo streamed": ("/v1/completions", lambda k: {"prompt": f"abc {k}", "echo": True, "logprobs": 1} | STREAM),
    "reasoning": (CHAT, lambda k: {"messages": user(k), "chat_template_kwargs": THINKS}),
    "reasoning limited": (CHAT, lambda k: {"messages": user(k), "chat_template_kwargs": THINKS, "reasoning_effort": "none", "max_tokens": 12,
                                            "response_format": {"type": "regex", "pattern": "[a-f]{3}"}}),
    "reasoning streamed": ("/v1/responses", lambda k: {"input": thoughts(k), "chat_template_kwargs": THINKS, "max_output_tokens": 6, "stream": True}),
    "responses": ("/v1/responses", lambda k: {"input": f"abc {k}", "instructions": "ab", "max_output_tokens": 6}),
    "responses streamed": ("/v1/responses", lambda k: {"input": user(k), "max_output_tokens": 6, "stream": True}),
    "log-probabilities": ("/v1/responses", lambda k: {"input": user(k), "max_output_tokens": 6} | LOGPROBS),
    "log-probabilities streamed": ("/v1/responses", lambda k: {"input": user(k), "max_output_tokens": 6, "stream": True} | LOGPROBS),
    "shortened": ("/v1/responses", lambda k: {"input": [*user(k), {"role": "assistant", "content": "x" * 600}, *user(k)], "truncation": "auto"}),
    "response with calls": ("/v1/responses", call),
    "response with calls streamed": ("/v1/responses", lambda k: call(k) | {"stream": True}),
    "message": ("/v1/messages", lambda k: blocks(k) | {"thinking": {"type": "enabled", "budget_tokens": 3}, "output_config": {"effort": "medium"}}),
    "message with calls": ("/v1/messages", lambda k: blocks(k) | {"tool_choice": {"type": "any"}, "max_tokens": 60}),
    "message streamed": ("/v1/messages", lambda k: blocks(k) | {"tool_choice": {"type": "any"}, "max_tokens": 60, "stream": True}),
    "counted": ("/v1/messages/count_tokens", blocks),
    "embeddings": ("/v1/embeddings", lambda k: {"input": [f"abc {k}", "ab"]}),
    "rerank": ("/v1/rerank", lambda k: {"model": "ranker", "query": f"abc {k}", "documents": ["ab", {"text": "ba c"}], "return_documents": True}),
    "tokenize": ("/tokenize", lambda k: {"messages": user(k)}),
    "detokenize": ("/detokenize", lambda k: {"tokens": [5, 6, k % 50]}),
    "refused": (CHAT, lambda k: {"messages": user(k), "temperature": -1}),
    "too long": (CHAT, lambda k: {"messages": [{"role": "user", "content": "x" * 600}]}),
    "health": ("/health", None),
    "models": ("/v1/models", None),
    "page": ("/", None),
}  # fmt: skip


# --- a server -------------------------------------------------------------------------------------


class Server:
    """smolserve, with the shim if `report` is a file."""

    def __init__(self, program, blobs, shim=None, report=None, from_on=False):
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ)
        if report:
            environment |= {"SMOL_FAULT": f"memory {errno.ENOMEM} 0 {int(from_on)}", "SMOL_FAULT_REPORT": str(report)}
            environment |= {"LD_PRELOAD": str(shim)} if shim else {"SMOL_SANDBOX": "off"}
        command = [program, *blobs, "--port", "0", "--sequences", "4", "--threads", "1", "--timeout", "60"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, env=environment)
        line = self.process.stdout.readline()
        self.port = int(re.fullmatch(rb"listening on http://127\.0\.0\.1:(\d+)\n", line)[1])
        if report:
            with open(report, "r+b") as file:
                self.report = mmap.mmap(file.fileno(), 0)

    def arm(self, k):
        """Makes the k-th allocation from now on fail, or it and all after it; 0: none."""
        struct.pack_into("<Q", self.report, 32, k)
        struct.pack_into("<Q", self.report, 0, 0)

    def counted(self):
        return struct.unpack_from("<Q", self.report)[0]

    def resident(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def ask(self, name, k):
        """(status, body) of an answer; None: the connection was closed before its end."""
        path, body = REQUESTS[name]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        try:
            if body:
                data = json.dumps({"model": "chat"} | SETTINGS_OF.get(path, {}) | body(k))
                connection.request("POST", path, data, {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except (http.client.HTTPException, ConnectionError):
            return None
        finally:
            connection.close()

    def metrics(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def stop(self):
        """Returns None if it ends with status 0 and has printed no error, otherwise a complaint."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.errors.seek(0)
        errors = self.errors.read().decode()
        return f"ended with status {status}: {errors}" if status or errors else None


SETTINGS_OF = {CHAT: SETTINGS, "/v1/completions": SETTINGS, "/v1/responses": {"temperature": 1, "seed": 5}, "/v1/messages": SETTINGS}


# --- answers --------------------------------------------------------------------------------------


def essence(data):
    """An answer without what differs each time: ids, times, how the text is cut into events, what was cached."""
    if not data.startswith(b"data: ") and not data.startswith(b"event: "):
        return re.sub(rb'"(id|created|created_at|cached_tokens|input_tokens|cache_read_input_tokens)": ("[a-z_-]*[0-9a-f]{24}"|\d+)', rb"\1", data)
    events = [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {")]
    texts = {}
    for event in events:
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            calls = "".join(call["function"]["arguments"] for call in delta.get("tool_calls") or [])
            texts[choice["index"]] = texts.get(choice["index"], "") + (choice.get("text") or delta.get("content") or calls)
        delta = event.get("delta", "")
        delta = delta if isinstance(delta, str) else delta.get("text", delta.get("partial_json", ""))
        texts["delta"] = texts.get("delta", "") + delta
    done = [event["response"]["output"][0]["content"] for event in events if event.get("type") in ("response.completed", "response.incomplete")]
    return texts, done, data.endswith(b"[DONE]\n\n")


def complaint(got, right):
    """Returns a complaint about an answer, or None."""
    if got is None:
        return None
    status, data = got
    if status in (500, 503):
        error = json.loads(data)["error"]
        return None if error["type"] in ("server_error", "api_error", "overloaded_error") and error["message"] else f"{got}"
    if status == right[0] == 200 and b'"code": "out_of_memory"' in data:
        return None  # the last event of a stream
    return None if status == right[0] and essence(data) == essence(right[1]) else f"{got}, not {right}"


# --- the sweep ------------------------------------------------------------------------------------


def wait_until_idle(server):
    end = time.monotonic() + LIMIT
    while any(server.metrics()[f"smolserve_{name}"] != "0" for name in ("sequences", "waiting")):
        if time.monotonic() > end:
            return "is not idle"
    return None


def sweep(server, clean, name, first, stride):
    """Returns the number of faults and what was wrong with them."""
    wrong = []
    server.ask(name, 1 << 20)
    server.arm(0)
    server.ask(name, 0)
    numbers = sample(server.counted() + 10, first, stride)
    for k in numbers:
        right = clean.ask(name, k)
        server.arm(k)
        problem = complaint(server.ask(name, k), right)
        server.arm(0)
        again = server.ask(name, k)
        if not problem and (again is None or again[0] != right[0] or essence(again[1]) != essence(right[1])):
            problem = f"afterwards {again}, not {right}"
        if problem:
            wrong.append(f"{name}: allocation {k}: {problem}")
        if server.process.poll() is not None:
            return len(numbers), [*wrong, f"{name}: allocation {k}: the server ends"]
    return len(numbers), wrong


def sweep_all(server, clean, options):
    passed, wrong = 0, []
    for name in REQUESTS:
        server.ask(name, 0)
    before = server.resident()
    for name in [name for name in REQUESTS if options.only in name]:
        n, found = sweep(server, clean, name, options.first, options.stride)
        passed, wrong = passed + n - len(found), wrong + found
        if server.process.poll() is not None:
            return passed, wrong
    if problem := wait_until_idle(server):
        wrong.append(problem)
    if not options.sanitized and server.resident() > before + SLACK:
        wrong.append(f"memory grows from {before} to {server.resident()} bytes")
    if problem := server.stop():
        wrong.append(problem)
    return passed, wrong


def make_blobs(build, folder):
    """Makes one with a template that renders calls as Hermes' models do, and can begin reasoning, and a reranker."""
    (folder / "template").write_text(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ '<tool_call>\\n' }}{{ c.function | tojson }}"
        "{{ '\\n</tool_call>' }}{% endfor %}{% endfor %}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
        "{% if thinks %}<think>{% endif %}"
    )
    source = tiny.make(folder / "tiny", 32, 0)
    chat, ranker = folder / "chat.smol", folder / "ranker.smol"
    subprocess.run([build / "smolconv", "--quiet", "--chat-template", folder / "template", source, chat], check=True)
    subprocess.run([build / "smolconv", "--quiet", tiny.rank(source, folder / "ranker"), ranker], check=True)
    return chat, ranker


def main():
    options = parse()
    build, passed, wrong = options.build.resolve(), 0, []
    program = build / ("fault/smolserve" if options.sanitized else "smolserve")
    shim = None if options.sanitized else build / "tests/fault.so"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        blobs = make_blobs(build, folder)
        clean = Server(build / "smolserve", blobs)
        for from_on in (False, True):
            server = Server(program, blobs, shim, folder / "report", from_on)
            try:
                n, found = sweep_all(server, clean, options)
            finally:
                server.process.kill()
            passed, wrong = passed + n, wrong + found
        clean.process.kill()
    print("\n".join(wrong))
    print(f"{passed} passed, {len(wrong)} failed")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
