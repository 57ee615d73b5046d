"""smolrun --jsonl: many requests, each answered as if it had been the only one."""

import json
import os
import random
import re
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from engine import Model
from internal import BUILD, ROOT
from programs import smolconv, smolrun
from test_perplexity import log_softmax

OK, USAGE, FILE = 0, 2, 3
DEMO = ROOT / "demo/model"
CONTEXT = 512  # of the bundled model
LIMIT = 1 << 20  # bytes of a line
LONG = int(os.environ.get("SMOL_JSONL_LINES", 5000))  # make requests: 100000


def as_line(request):
    return request if isinstance(request, bytes) else json.dumps(request).encode()


def answers(blob, requests, *words):
    """The answers to requests, dictionaries or lines; all lines are answered."""
    result = smolrun(blob, "--jsonl", *words, input=b"\n".join(map(as_line, requests)) + b"\n")
    assert result.returncode == OK and result.stderr == b"", result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["index"] for answer in found] == list(range(len(found)))
    return found


def error_of(blob, line):
    """Returns the error of a line; the requests before and after it are answered."""
    good = {"prompt": "Once", "max_tokens": 2}
    first, bad, last = answers(blob, [good, line, good], "--sequences", 2)
    assert set(bad) - {"id"} == {"index", "error"} and set(bad["error"]) == {"code", "message"}
    assert first["ids"] == last["ids"] and len(first["ids"]) == 2
    return bad["error"]


# --- each as if alone -----------------------------------------------------------------------------

WORDS = "Once upon a time there was little cat who lived in the big house and she said no".split()


def draw_request(rng):
    text = " ".join(rng.choice(WORDS) for _ in range(rng.choice([1, 3, 20, 200])))
    request = {"max_tokens": rng.randint(0, 40), "seed": rng.randint(0, 2**63 - 1)}
    if rng.random() < 0.3:
        request["messages"] = [{"role": "user", "content": text}]
    else:
        request["prompt"] = text
    if rng.random() < 0.6:
        request["temperature"] = rng.choice([0.5, 1, 1.7])
        request["top_k"] = rng.choice([0, 5, 40])
        request["top_p"] = rng.choice([0, 0.8, 1])
        request["min_p"] = rng.choice([0, 0.05])
        request["repetition_penalty"] = rng.choice([1, 1.2])
    if rng.random() < 0.4:
        request["stop"] = rng.choice([".", [" the", "a t"], []])
    return request


def alone(blob, request):
    """Runs a request on smolrun's command line."""
    options = {
        "max_tokens": "-n", "seed": "--seed", "temperature": "--temp", "top_k": "--top-k",
        "top_p": "--top-p", "min_p": "--min-p", "repetition_penalty": "--repeat-penalty",
    }  # fmt: skip
    stop = request.get("stop", [])
    words = [word for text in ([stop] if isinstance(stop, str) else stop) for word in ("--stop", text)]
    for name, option in options.items():
        words += [option, request[name]] if name in request else []
    if "messages" in request:
        words += ["--chat", request["messages"][0]["content"]]
    else:
        words.append(request["prompt"])
    result = smolrun(blob, "--json", "--threads", 1, *words)
    assert result.returncode == OK, result.stderr
    return json.loads(result.stdout)


def test_each_answer_is_that_of_its_request_alone(blob):
    rng = random.Random(1)
    requests = [draw_request(rng) for _ in range(24)]
    expected = [alone(blob, request) for request in requests]
    for answer, one in zip(answers(blob, requests), expected, strict=True):
        assert set(answer) == {"index", "text", "ids", "finish_reason", "usage"}
        for name in ("text", "ids", "finish_reason"):
            assert answer[name] == one[name]
        assert answer["usage"] == {
            "prompt_tokens": one["prompt_tokens"],
            "completion_tokens": one["completion_tokens"],
            "total_tokens": one["prompt_tokens"] + one["completion_tokens"],
        }
    assert {one["finish_reason"] for one in expected} == {"stop", "length"}


def test_how_many_at_a_time_on_how_many_threads_with_guesses_or_not_changes_no_byte(blob):
    rng = random.Random(2)
    requests = [draw_request(rng) | {"logprobs": rng.randint(0, 20)} for _ in range(24)]
    text = b"\n".join(map(as_line, requests))  # the last line lacks its end
    ways = [(1, 1), (3, 2), (8, 3), (64, 1), (1, 2, "--lookup"), (5, 1, "--lookup")]
    found = {
        smolrun(blob, "--jsonl", "--sequences", n, "--threads", t, *more, input=text).stdout
        for n, t, *more in ways
    }
    assert len(found) == 1 and found.pop().count(b"\n") == len(requests)


def test_a_long_request_does_not_stall_the_others(demo_blob, tmp_path):
    """The first is answered while the second is tokenized; each write is a packet of its own."""
    requests = [{"prompt": "Once", "max_tokens": 2}, {"prompt": "a" * (LIMIT - 100)}]
    lines = tmp_path / "requests"
    lines.write_bytes(b"\n".join(map(as_line, requests)))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    words = [BUILD / "smolrun", demo_blob("int8"), "--jsonl", "--sequences", "2"]
    with ours, theirs, lines.open("rb") as file:
        subprocess.run(words, stdin=file, stdout=theirs, check=True)
        first, second = (json.loads(ours.recv(1 << 16)) for _ in requests)
    assert len(first["ids"]) == 2 and "error" in second


def test_greedy_ids_are_those_of_transformers(demo_blob, demo_tokenizer, demo_logits):
    prompts = ["Once upon a time", "The cat", "One day, a little girl named Lily"]
    requests = [{"prompt": prompt, "max_tokens": 20, "logprobs": 3} for prompt in prompts]
    for prompt, answer in zip(prompts, answers(demo_blob("f32"), requests), strict=True):
        ids = demo_tokenizer.encode(prompt).ids
        expected = log_softmax(demo_logits(ids + answer["ids"])[len(ids) - 1 : -1])
        assert len(answer["ids"]) > 5 and answer["ids"] == expected.argmax(-1).tolist()
        for row, shown in zip(expected, answer["logprobs"], strict=True):
            best = np.argsort(-row)[:3]
            assert [top["id"] for top in shown["top"]] == best.tolist()
            assert shown["id"] == best[0] and shown["logprob"] == shown["top"][0]["logprob"]
            found = [top["logprob"] for top in shown["top"]]
            np.testing.assert_allclose(found, row[best], atol=1e-4)


def test_logprobs_are_those_of_the_logits(blob, demo_tokenizer):
    request = {"prompt": "Once upon", "max_tokens": 5, "temperature": 2, "seed": 5, "logprobs": 4}
    (answer,) = answers(blob, [request])
    ids = demo_tokenizer.encode(request["prompt"]).ids + answer["ids"]
    with Model(blob) as model:
        expected = log_softmax(model.logits(ids)[-1 - len(answer["ids"]) : -1])
    for id_, row, shown in zip(answer["ids"], expected, answer["logprobs"], strict=True):
        assert shown["id"] == id_ and abs(shown["logprob"] - row[id_]) < 1e-9
        order = np.argsort(-row, kind="stable")[:4]
        assert [top["id"] for top in shown["top"]] == order.tolist()
        assert [top["logprob"] for top in shown["top"]] == pytest.approx(row[order], abs=1e-9)
    assert any(shown["id"] != shown["top"][0]["id"] for shown in answer["logprobs"])
    assert "".join(shown["text"] for shown in answer["logprobs"]) == answer["text"]
    for shown in (top for one in answer["logprobs"] for top in one["top"]):
        assert shown["text"] == demo_tokenizer.decode([shown["id"]], skip_special_tokens=False)


def test_the_command_line_says_what_a_request_does_not(blob):
    words = ("-n", 3, "--temp", 1, "--seed", 9, "--stop", "zz")
    (plain,) = answers(blob, [{"prompt": "The cat", "seed": None}], *words)
    (full,) = answers(
        blob, [{"prompt": "The cat", "max_tokens": 3, "temperature": 1, "seed": 9, "stop": "zz"}]
    )
    assert plain == full and len(plain["ids"]) == 3


TEMPLATE = (
    "{% for t in tools or [] %}{{ t.function.name }}: {{ t | tojson }}. {% endfor %}"
    "{% for d in documents or [] %}{{ d.title }} {% endfor %}"
    "{% if think %}Think! {% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
)
TOOL = {"type": "function", "function": {"name": "find_cat", "parameters": {}}}


def test_what_goes_with_messages_is_what_the_reference_template_gets(tmp_path):
    from transformers import PreTrainedTokenizerFast

    (tmp_path / "chat.jinja").write_text(TEMPLATE)
    blob = tmp_path / "chat.smol"
    smolconv(DEMO, blob, "--chat-template", tmp_path / "chat.jinja", check=True)
    reference = PreTrainedTokenizerFast.from_pretrained(DEMO)
    messages = [{"role": "user", "content": "Once upon a time"}]
    ways = [
        {}, {"tools": [TOOL], "tool_choice": "none"}, {"documents": [{"title": "A cat", "text": ""}]},
        {"chat_template_kwargs": {"think": True}}, {"tools": [], "chat_template_kwargs": {}},
        {"tools": [TOOL], "tool_choice": "none", "documents": [], "chat_template_kwargs": {"think": 1}},
    ]  # fmt: skip
    texts = []
    for way in ways:
        words = {**way, **way.get("chat_template_kwargs", {})}
        words.pop("chat_template_kwargs", None)
        words.pop("tool_choice", None)
        texts.append(reference.apply_chat_template(
            messages, chat_template=TEMPLATE, tokenize=False, **words))  # fmt: skip
    same = {"max_tokens": 8, "logprobs": 1}
    chats = answers(blob, [{"messages": messages} | way | same for way in ways])
    plain = answers(blob, [{"prompt": text} | same for text in texts])
    assert chats == plain and len(set(texts)) == 5
    thinks = ["--template-arg", "think=true"]
    for words, way in ((thinks, {}), (["--template-arg", "think=0", *thinks], {"chat_template_kwargs": {}}),
                       (["--template-arg", "think=0"], {"chat_template_kwargs": {"think": 1}})):  # fmt: skip
        assert answers(blob, [{"messages": messages} | way | same], *words) == [chats[3] | {"index": 0}]
    one = smolrun(blob, "--chat", "Once upon a time", *thinks, "-n", 8, "--ids")
    assert one.stdout.decode().split() == list(map(str, chats[3]["ids"])), one.stderr
    talk = smolrun("chat", blob, *thinks, "-n", 8, input=b"Once upon a time\n")
    assert talk.stdout.decode() == chats[3]["text"] + "\n", talk.stderr


@pytest.mark.parametrize("begun", ["1. Red\n2.", " ends with spaces  ", ""])
def test_an_answer_goes_on_where_the_last_message_ends(demo_blob, begun):
    from transformers import PreTrainedTokenizerFast

    reference = PreTrainedTokenizerFast.from_pretrained(DEMO)
    messages = [{"role": "user", "content": "Three colours?"}, {"role": "assistant", "content": begun}]
    same = {"max_tokens": 8, "logprobs": 1}
    texts = [
        reference.apply_chat_template(messages, tokenize=False, **way)
        for way in ({"continue_final_message": True}, {}, {"add_generation_prompt": True})
    ]
    ways = [
        {"continue_final_message": True}, {"continue_final_message": True, "add_generation_prompt": False},
        {"add_generation_prompt": False}, {}, {"continue_final_message": False, "add_generation_prompt": None},
    ]  # fmt: skip
    found = answers(demo_blob("int8"), [{"messages": messages} | way | same for way in ways])
    plain = answers(demo_blob("int8"), [{"prompt": text} | same for text in (texts[0], texts[0], texts[1], texts[2], texts[2])])
    assert found == plain


def test_contents_of_parts_are_for_templates_that_take_them(tmp_path):
    templates = {
        "parts": "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
        "text": "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}",
    }
    parts = [{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"}]
    request = {"messages": [{"role": "user", "content": parts}], "max_tokens": 4}
    found = {}
    for name, template in templates.items():
        (tmp_path / name).write_text(template)
        blob = tmp_path / f"{name}.smol"
        smolconv(DEMO, blob, "--chat-template", tmp_path / name, check=True)
        found[name] = answers(blob, [request, {"prompt": "Once upon a time", "max_tokens": 4}])
    taken, plain = found["parts"]
    assert taken == plain | {"index": 0}
    assert found["text"][0] == {"index": 0, "error": {"code": "usage", "message": (
        "chat template: line 1: cannot add a value of type list (content of message 1 is a list, and this "
        "model's template takes text only): give one text")}}  # fmt: skip
    assert found["text"][1] == plain


# --- lines ----------------------------------------------------------------------------------------


def test_blank_lines_are_no_requests_and_ids_come_back(blob):
    lines = [b"", b" \t", {"prompt": "a", "max_tokens": 1, "id": "x\u00e9\n"}, b"\r",
             {"prompt": "b", "max_tokens": 1, "id": -7}, b'{"id": 5, "prompt": 5}',
             b'{"prompt": 5, "id": "behind"}', b'{"oops": 1, "id": null, "prompt": "a"}',
             b'{"oops": 1, "id": 1, "id": 2}', b'{"top_k": -1, "id": [3]}']  # fmt: skip
    found = [answer.get("id") for answer in answers(blob, lines)]
    assert found == ["x\u00e9\n", -7, 5, "behind", None, 1, None]
    assert answers(blob, []) == []


def test_model_is_echoed_and_stream_may_only_be_false(blob):
    same = {"prompt": "Once", "max_tokens": 2}
    plain, named, lines = answers(blob, [same, same | {"model": "m\u0085", "stream": False}, same | {"stream": None}])
    assert named == plain | {"index": 1, "model": "m\u0085"} and lines == plain | {"index": 2}
    message = "stream: an answer is one line: leave it out, or set it to false"
    assert error_of(blob, as_line(same | {"stream": True})) == {"code": "usage", "message": message}


def test_json_that_is_no_object_is_not_called_invalid(blob):
    for line, message in ((b"[]", "request: expected an object (byte 0)"),
                          (b"{]", "request: not valid JSON: expected a string (byte 1)")):  # fmt: skip
        (answer,) = answers(blob, [line])
        assert answer["error"] == {"code": "usage", "message": message}


NEST = 5000
BAD_LINES = {
    "no JSON": (b"hello", "usage"),
    "a list": (b"[]", "usage"),
    "nothing to continue": (b"{}", "usage"),
    "two at once": (b'{"prompt": "a", "messages": []}', "usage"),
    "unknown": (b'{"prompt": "a", "max_token": 1}', "usage"),
    "twice": (b'{"prompt": "a", "prompt": "b"}', "usage"),
    "after it": (b'{"prompt": "a"} {"prompt": "b"}', "usage"),
    "unfinished": (b'{"prompt": "a"', "usage"),
    "NUL": (b'{"prompt": "a\0"}', "usage"),
    "NUL outside": (b'{"prompt": "a"}\0', "usage"),
    "not UTF-8": (b'{"prompt": "\xff"}', "usage"),
    "half a pair": (rb'{"prompt": "\ud800"}', "usage"),
    "the other half": (rb'{"prompt": "\udc00\ud800"}', "usage"),
    "type of prompt": (b'{"prompt": ["a"]}', "usage"),
    "type of messages": (b'{"messages": "a"}', "usage"),
    "type of tools": (b'{"messages": [{"role": "user", "content": "a"}], "tools": {}}', "usage"),
    "type of documents": (b'{"messages": [{"role": "user", "content": "a"}], "documents": 1}', "usage"),
    "type of variables": (
        b'{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": []}', "usage",
    ),
    "variables of the conversation": (
        b'{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"tools": []}}', "usage",
    ),
    "a prompt that is continued": (b'{"prompt": "a", "continue_final_message": true}', "usage"),
    "a prompt with a begun answer": (b'{"prompt": "a", "add_generation_prompt": false}', "usage"),
    "continued and begun": (
        b'{"messages": [{"role": "user", "content": "a"}], "continue_final_message": true, "add_generation_prompt": true}', "usage",
    ),
    "nothing to continue": (
        b'{"messages": [{"role": "assistant", "content": null}], "continue_final_message": true}', "usage",
    ),
    "no text to continue": (
        b'{"messages": [{"role": "assistant", "content": [{"type": "image"}]}], "continue_final_message": true}', "usage",
    ),
    "a word for a flag": (b'{"messages": [{"role": "user", "content": "a"}], "continue_final_message": "content"}', "usage"),
    "tools of a prompt": (b'{"prompt": "a", "tools": []}', "usage"),
    "no messages": (b'{"messages": []}', "usage"),
    "messages of texts": (b'{"messages": ["a"]}', "usage"),
    "negative": (b'{"prompt": "a", "max_tokens": -1}', "usage"),
    "real": (b'{"prompt": "a", "max_tokens": 1.5}', "usage"),
    "boolean": (b'{"prompt": "a", "max_tokens": true}', "usage"),
    "huge": (b'{"prompt": "a", "max_tokens": 4294967296}', "usage"),
    "beyond 63 bits": (b'{"prompt": "a", "seed": 9223372036854775808}', "usage"),
    "beyond 64 bits": (b'{"prompt": "a", "seed": 18446744073709551616}', "usage"),
    "many digits": (b'{"prompt": "a", "seed": ' + b"9" * 100000 + b"}", "usage"),
    "huge real": (b'{"prompt": "a", "temperature": 1e999}', "usage"),
    "temperature": (b'{"prompt": "a", "temperature": -0.1}', "usage"),
    "top_p": (b'{"prompt": "a", "top_p": 1.01}', "usage"),
    "penalty": (b'{"prompt": "a", "repetition_penalty": 0}', "usage"),
    "logprobs": (b'{"prompt": "a", "logprobs": 21}', "usage"),
    "stop": (b'{"prompt": "a", "stop": [""]}', "usage"),
    "NUL in stop": (rb'{"prompt": "a", "stop": "\u0000"}', "usage"),
    "many stops": (b'{"prompt": "a", "stop": [' + b'"a",' * 64 + b'"a"]}', "usage"),
    "id": (b'{"prompt": "a", "id": [1]}', "usage"),
    "type of model": (b'{"prompt": "a", "model": 1}', "usage"),
    "long model": (b'{"prompt": "a", "model": "' + b"m" * 256 + b'"}', "usage"),
    "type of stream": (b'{"prompt": "a", "stream": 0}', "usage"),
    "long id": (b'{"prompt": "a", "id": "' + b"i" * 256 + b'"}', "usage"),
    "deep": (b'{"prompt": ' + b"[" * NEST + b"]" * NEST + b"}", "usage"),
    "deeper": (b"[" * LIMIT, "usage"),
    "too long": (b'{"prompt": "' + b"a" * LIMIT + b'"}', "usage"),
    "ten times": (b'{"prompt": "' + b"a" * 10 * LIMIT + b'"}', "usage"),
    "a full context": (b'{"prompt": "' + b"cat " * 600 + b'"}', "context_full"),
    "many numbers": (b'{"messages": [' + b"0," * (LIMIT // 2 - 20) + b"0]}", "usage"),
}


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_gets_an_error_and_the_rest_goes_on(blob, name):
    line, code = BAD_LINES[name]
    assert error_of(blob, line)["code"] == code


def test_a_line_may_have_a_mebibyte(blob):
    start, end = b'{"prompt": "a", "max_tokens": 1', b"}"
    line = start + b" " * (LIMIT - len(start) - len(end)) + end
    assert len(answers(blob, [line, line + b"\n", line])) == 3
    assert "error" in answers(blob, [line[:-1] + b" }"])[0]


def test_a_text_that_fills_the_context_ends_there(blob):
    (answer,) = answers(blob, [{"prompt": "Once", "max_tokens": 99, "temperature": 1}], "--ctx", 16)
    assert answer["finish_reason"] in ("context_full", "stop")


# --- streams --------------------------------------------------------------------------------------


def test_answers_come_while_input_is_open(blob):
    """A reader that waits for an answer before it asks on is not kept waiting, nor does an open
    input hold up what was asked."""
    words = [BUILD / "smolrun", str(blob), "--jsonl"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for _ in range(3):
            process.stdin.write(b'{"prompt": "a", "max_tokens": 300, "repetition_penalty": 2}\n{"pro')
            process.stdin.flush()
            assert "ids" in json.loads(process.stdout.readline())
            process.stdin.write(b'mpt": "b", "max_tokens": 1}\n')
            process.stdin.flush()
            assert len(json.loads(process.stdout.readline())["ids"]) <= 1
        process.stdin.close()
        assert process.stdout.read() == b"" and process.wait() == OK


def peak_of(process):
    """Most memory that it has had; what a parent had before the exec does not count."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)[1]) * 1024


def test_memory_does_not_grow_with_the_input(blob):
    """Peak memory after few lines and after many, of all kinds; and a writer is held back when
    nobody reads the answers."""
    kinds = [b'{"prompt": "a b c", "max_tokens": 2, "logprobs": 2}', b"{", b'{"prompt": "'
             + b"x" * 3000, b'{"prompt": "a", "max_tokens": 30}']  # fmt: skip

    def peak(n):
        with subprocess.Popen(
            [BUILD / "smolrun", str(blob), "--jsonl", "--threads", "1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as process:  # fmt: skip
            pid = os.fork()
            if pid == 0:
                process.stdout.close()
                for i in range(n):
                    process.stdin.write(kinds[0 if i % 50 == 0 else 3 if i % 50 == 1 else 1 + i % 2] + b"\n")
                process.stdin.close()
                os._exit(0)
            time.sleep(0.2)  # unread answers pile up in the pipe, not in smolrun
            for _ in range(n):
                assert process.stdout.readline()
            found = peak_of(process)
            process.stdin.close()
            assert process.stdout.read() == b"" and process.wait() == OK
            os.waitpid(pid, 0)
        return found

    few, many = peak(200), peak(LONG)
    print(f"peak memory: {few} bytes for 200 lines, {many} for {LONG}")
    assert many < few + (1 << 20)


def test_a_reader_that_goes_away_ends_it_without_words(blob):
    lines = b'{"prompt": "a", "max_tokens": 1}\n' * 5000
    with subprocess.Popen(
        [BUILD / "smolrun", str(blob), "--jsonl"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.close()
        try:
            process.stdin.write(lines)
            process.stdin.close()
        except BrokenPipeError:
            pass
        assert process.stderr.read() == b"" and process.wait() == FILE


def test_input_that_cannot_be_read_is_a_failure(blob, tmp_path):
    with (tmp_path / "out").open("w") as out:  # not open for reading
        result = smolrun(blob, "--jsonl", stdin=out)
    assert result.returncode == FILE and b"standard input: cannot read" in result.stderr


@pytest.mark.parametrize(
    "words", ["a", "--chat", "--system x", "--session x", "--slide", "--ids", "--json", "--keep 3"]
)
def test_what_requests_say_is_not_said_twice(blob, words):
    result = smolrun(blob, "--jsonl", *words.split(), input=b"")
    assert result.returncode == USAGE and b"with --jsonl" in result.stderr


def test_sequences_are_for_requests(blob):
    assert smolrun(blob, "a", "--sequences", 2).returncode == USAGE


def test_biases_and_penalties_apply_to_what_is_generated(blob):
    plain = {"prompt": "Once upon a time there was a cat. The cat", "max_tokens": 30}
    (first,) = answers(blob, [plain])
    (banned,) = answers(blob, [plain | {"logit_bias": {str(first["ids"][0]): -100}}])
    assert first["ids"][0] not in banned["ids"]
    (forced,) = answers(blob, [plain | {"logit_bias": {str(first["ids"][3]): 100}}])
    assert forced["ids"] == [first["ids"][3]] * 30
    penalized = {"logit_bias": {str(first["ids"][3]): 100}, "presence_penalty": 2, "frequency_penalty": 2}
    (spread,) = answers(blob, [plain | penalized | {"max_tokens": 60}])
    assert spread["ids"][:30] == forced["ids"] and len(set(spread["ids"])) > 1  # 49 times 2, and 2, make up for 100
    (repelled,) = answers(blob, [plain | {"frequency_penalty": 2}])
    most = max(repelled["ids"].count(id) for id in repelled["ids"])
    assert most <= max(first["ids"].count(id) for id in first["ids"])


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"logit_bias": {"x": 1}}, "logit_bias: expected token ids"), ({"logit_bias": {"": 1}}, "logit_bias: expected token ids"),
        ({"logit_bias": {"1": 101}}, "from -100 to 100"), ({"logit_bias": []}, "an object"), ({"logit_bias": {"99999999999": 1}}, "token ids"),
        ({"logit_bias": {"999999": 1}}, "the vocabulary has"), ({"frequency_penalty": 2.1}, "from -2 to 2"), ({"presence_penalty": "1"}, "from -2 to 2"),
    ],
)  # fmt: skip
def test_wrong_biases_and_penalties_are_errors(blob, members, message):
    assert message in error_of(blob, {"prompt": "x"} | members)["message"]
