"""Text typed into smolrun chat while an answer is written. The model is the real one, because it is slow enough."""

import os
import random
import signal
import termios
from pathlib import Path

import pytest
from engine import blob_of
from test_chat import OK, PROMPT, Terminal
from test_paste import NEXT, SHELL, modes, pasted, said, type_all, untouched

STORY = "Write a very long story about the sea."
WORDS = rb"(\w+\W+){9}"
ANSWERED = rb"sea\.[^\n]*\n(?![^\n]*Write)[^\n]*" + WORDS  # after the line, which may be drawn again
assert untouched  # a fixture


@pytest.fixture
def answering(real_model_dir, tmp_path):
    """Starts a chat, and waits until it is answering."""

    def start(*words, **options):
        blob = blob_of(real_model_dir, "int8")
        terminal = Terminal(blob, "-n", -1, *words, XDG_STATE_HOME=str(tmp_path), NO_COLOR="1", **options)
        terminal.until(NEXT)
        terminal.type(STORY + "\r")
        terminal.until(ANSWERED)
        return terminal

    return start


def test_it_is_for_the_next_line(answering, tmp_path):
    """The text is not shown earlier. Keys have their usual meaning: a paste is one text, and Ctrl-D ends the chat."""
    with answering("--session", tmp_path / "saved") as terminal:
        terminal.type(pasted("one\n/quit\ntwo") + b"\r")
        assert b"quit" not in terminal.until(WORDS * 3)
        terminal.type(b"\x03")
        terminal.until(rb"\[stopped: /continue resumes the answer\]")
        terminal.until(rb"two[^\n]*\n(?![^\n]*two)[^\n]*\w+ \w+")
        terminal.type(b"\x04\x03")
        assert terminal.wait() == OK
    assert said(tmp_path / "saved") == [STORY, "one\n/quit\ntwo"]


def test_none_of_it_is_lost(blob, tmp_path):
    """Whenever it comes: the bundled model answers while it does."""
    messages = [f"Message {i}." for i in range(12)]
    keys, rng = "".join(f"{message}\r" for message in messages).encode() + b"\x04", random.Random(5)
    with Terminal(blob, "-n", 1, "--session", tmp_path / "saved", XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        while keys:
            size = rng.choice([1, 2, 20])
            type_all(terminal, keys[:size])
            keys = keys[size:]
        assert terminal.wait() == OK
    assert said(tmp_path / "saved") == messages


def test_ctrl_c_stops_the_answer_however_much_it_is(answering, tmp_path):
    with answering("--session", tmp_path / "saved") as terminal:
        type_all(terminal, pasted("word " * 10000 + "end"))
        terminal.type(b"\x03")
        terminal.until(rb"\[stopped: /continue resumes the answer\]")
        terminal.until(b"end")
        terminal.type(b"\x03")
        terminal.until(NEXT)
        terminal.end()
    assert said(tmp_path / "saved") == [STORY]


def test_the_terminal_is_as_it_was_while_an_answer_is_stopped(answering, untouched):
    under = ["bash", "-c", 'set -m; "$@"; echo stopped; read; fg >/dev/null; echo over; read', "-"]
    with answering(under=under) as terminal:
        terminal.type(b"\x1a")
        assert modes(terminal.until(b"stopped")) == [False] and termios.tcgetattr(terminal.master) == untouched
        terminal.type("\n")
        assert modes(terminal.until(WORDS)) == [True]
        terminal.type("unseen\x03")
        assert b"unseen" not in terminal.until(rb"\[stopped: /continue resumes the answer\]")
        terminal.until(b"unseen")
        terminal.type(b"\x15\x04")
        assert modes(terminal.until(b"over")) == [False] and termios.tcgetattr(terminal.master) == untouched


WAYS_OUT = {"Ctrl-\\": (b"\x1c", None), "SIGQUIT": (b"", signal.SIGQUIT), "SIGTERM": (b"typed", signal.SIGTERM)}


@pytest.mark.parametrize("keys, number", WAYS_OUT.values(), ids=WAYS_OUT)
def test_the_terminal_is_as_it_was_afterwards(answering, untouched, keys, number):
    with answering(under=SHELL) as terminal:
        terminal.type(keys)
        if number:
            shell = terminal.process.pid
            os.kill(int(Path(f"/proc/{shell}/task/{shell}/children").read_text()), number)
        over = terminal.until(rb"over: \d+\r\n")
        assert over.endswith(b"over: 0\r\n" if number == signal.SIGTERM else b"over: 131\r\n")
        assert modes(over) == [False] and termios.tcgetattr(terminal.master) == untouched
