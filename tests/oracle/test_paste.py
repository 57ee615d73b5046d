"""Text pasted into smolrun chat in a terminal's bracketed paste mode; a saved session shows the messages."""

import os
import pty
import signal
import struct
import termios
from pathlib import Path

import pytest
from test_chat import OK, PROMPT, Terminal, shown, traceable
from test_sandbox import HARMLESS, refused_in

ON, OFF = b"\x1b[?2004h", b"\x1b[?2004l"
NEXT = rb"\x1b\[\?2004h(\x1b\[1m)?[.>](\x1b\[0m)? $"  # a line begins
SYSTEM, USER = 0, 1
MAX_MESSAGE = 1 << 20


def pasted(text):
    """Returns a paste as a terminal sends it: a carriage return for each line break."""
    data = text.encode() if isinstance(text, str) else text
    return b"\x1b[200~" + data.replace(b"\n", b"\r") + b"\x1b[201~"


def said(path, role=USER):
    """The messages of a saved session (format/SESSION.md, 5)."""
    data, texts = path.read_bytes(), []
    at = data.rindex(b"chat") + 4
    while len(data) - at > 8:
        of, size = struct.unpack_from("<II", data, at)
        if of > 2:  # the digest after it
            break
        texts += [data[at + 8 : at + 8 + size].decode()] if of == role else []
        at += 8 + size
    return texts


class Chat(Terminal):
    """A chat whose messages are known once it has ended."""

    def __init__(self, blob, folder, *words, **options):
        self.session = folder / "saved"
        words = ["-n", 1, "--session", self.session, *words]
        super().__init__(blob, *words, XDG_STATE_HOME=str(folder), NO_COLOR="1", **options)
        self.next = PROMPT if options.get("TERM") == "dumb" else NEXT
        self.until(PROMPT)

    def send(self, *keys):
        for key in keys:
            self.type(key)
        self.type("\r")
        return self.until(self.next)

    def end(self, role=USER):
        self.type(b"\x04")
        assert self.wait() == OK
        return said(self.session, role)


def history(folder):
    return (folder / "smol/chat_history").read_bytes()


LINES = "one\n\ttwo\n\nthree"


def test_lines_that_are_pasted_are_one_message(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.type(pasted(LINES + "\n"))  # copied with its last line's end
        assert b"token" not in chat.until(b"three")  # it waits for Enter
        chat.send()
        assert chat.end() == [LINES]
    assert history(tmp_path) == LINES.replace("\n", "\r").encode() + b"\n"


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"], ids=["CR", "LF", "CRLF"])
def test_lines_may_end_in_every_way(blob, tmp_path, end):
    with Chat(blob, tmp_path) as chat:
        chat.send(b"\x1b[200~" + LINES.replace("\n", end).encode() + b"\x1b[201~")
        assert chat.end() == [LINES]


def test_what_is_pasted_is_edited_before_and_after(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.send("What is this:", pasted("a\nb"), "\x01Well. \x05?\x7f!")  # Ctrl-A, Ctrl-E, backspace
        chat.send(pasted("one\ntwo\nthree"), "\x01\x1b[B\x1b[B>\x1b[A<")  # arrows go down and up
        chat.send(pasted("a\nb"), "\x02\x02", pasted("-\n-"), "\x15", pasted("only"))  # Ctrl-B, Ctrl-U
        assert chat.end() == ["Well. What is this:a\nb!", "one\nt<wo\n>three", "only"]


CONTROLS = bytes([*range(9), *range(11, 13), *range(14, 32), 127])
KERNEL = b"\x03\x1a\x1c"  # Ctrl-C is a case of its own; Ctrl-Z, Ctrl-\ are the terminal's


def test_nothing_in_it_is_a_key(blob, tmp_path):
    controls = bytes(c for c in CONTROLS if c not in KERNEL)
    with Chat(blob, tmp_path) as chat:
        chat.send(pasted(b"a" + controls + b"b\x1b[A\x1b[200~\x1b[3~\xc2\x9bc\x1b[201"))
        assert chat.end() == ["ab[A[200~[3~c[201"]


def test_bytes_that_are_no_text_are_replaced(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.send(pasted(b"a\xffb\xe6\x97"), pasted("日本語 ü 😀"))
        assert chat.end() == ["a\ufffdb\ufffd日本語 ü 😀"]


BLOCK = '"""\r'
TEXTS = {
    "command": ([pasted("/quit")], ["/quit"]),
    "comment": ([pasted("// a\n// b")], ["// a\n// b"]),
    "after a letter": (["x", pasted("/quit"), "\x01\x04"], ["/quit"]),
    "quotes": ([pasted('"""one\ntwo')], ['"""one\ntwo']),
    "quoted": ([pasted('"""one"""')], ['"""one"""']),
    "backslash": ([pasted("one\ntwo\\")], ["one\ntwo\\"]),
    "typed backslash": ([pasted("one\ntwo"), "\\\r", pasted("/three")], ["one\ntwo\n/three"]),
    "in a block": ([BLOCK, pasted('"""a\nb"""'), "\r", '"""'], ['"""a\nb"""']),
    "typed quotes": (['"""', pasted("a\nb\n"), '"""'], ["a\nb"]),
    "command in a block": ([BLOCK, pasted("\n/quit\n"), "\r", '"""'], ["/quit"]),
    "command after quotes": (['"""', pasted("/quit"), '"""'], ["/quit"]),
    "recalled": ([pasted('"""\n/quit\n"""'), "\r", "\x10"], ['"""\n/quit\n"""'] * 2),
    "recalled command": ([pasted("/* a */\nb"), "\r", "\x10"], ["/* a */\nb"] * 2),
    "removed": ([pasted("/quit"), "\x15/system\r", "/nonsense\x15", "hello"], ["hello"]),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("keys, messages", TEXTS.values(), ids=TEXTS)
def test_it_is_text_whatever_it_says(blob, tmp_path, keys, messages):
    with Chat(blob, tmp_path) as chat:
        for key in keys:
            chat.type(key)
            if key.endswith("\r" if isinstance(key, str) else b"\r"):
                chat.until(NEXT)
        chat.send()
        assert chat.end() == messages


def test_a_command_takes_what_is_pasted(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.send("/system ", pasted("You are\na painter."))
        assert "You are\na painter." in shown(chat.send("/system"))
        assert chat.end(SYSTEM) == ["You are\na painter."]


def test_it_is_remembered(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.send(pasted(LINES))
        chat.send("other")
        assert chat.end() == [LINES, "other"]
    (tmp_path / "saved").unlink()
    with Chat(blob, tmp_path) as chat:
        chat.send("\x1b[A\x1b[A")  # up, twice
        chat.send("\x1b[A\x1b[A\x1b[B\x1b[B", "new")  # and back
        chat.send("\x12two\x1b")  # Ctrl-R
        assert chat.end() == [LINES, "new", LINES]


def test_a_paste_ends_a_search(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.send("Hello there")
        chat.type("\x12Hel")
        chat.until(b"Hello there")
        chat.send(pasted("a\nb"))
        (_, message) = chat.end()
        assert sorted(message) == sorted("Hello therea\nb")


def test_a_long_line_is_not_lost_to_the_history(blob, tmp_path):
    """libedit would bring back its first 1,024 characters."""
    with Chat(blob, tmp_path) as chat:
        chat.send("before")
        chat.send(pasted("x" * 3000), "\x1b[A\x1b[B\x10\x0e")
        chat.end()
    assert history(tmp_path) == b"before\n" + b"x" * 3000 + b"\n"


# --- large ones -----------------------------------------------------------------------------------


def type_all(terminal, data):
    """While reading what is shown: neither side waits for the other."""
    os.set_blocking(terminal.master, False)
    while data:
        try:
            data = data[os.write(terminal.master, data[:4096]) :]
        except BlockingIOError:
            pass
        try:
            terminal.seen += os.read(terminal.master, 1 << 16)
        except BlockingIOError:
            pass
    os.set_blocking(terminal.master, True)


def test_a_message_of_a_mebibyte_may_be_pasted(blob, tmp_path):
    text = ("word " * 15 + "\n") * (MAX_MESSAGE // 76)
    text += "x" * (MAX_MESSAGE - len(text))
    with Chat(blob, tmp_path, "--ctx", 40) as chat:
        type_all(chat, pasted(text))
        assert "the context is full (40 tokens" in shown(chat.send())
        type_all(chat, pasted(text + "x"))  # one byte more
        chat.until(rb"smolrun: a message of more than 1 MiB[^\n]*\n> $")
        chat.send("Hello")
        type_all(chat, pasted(text))
        assert "a message of more than 1 MiB" in shown(chat.send("x"))
        assert chat.end() == ["Hello"]
    assert history(tmp_path) == b"Hello\n"  # others would have no room beside them




def test_what_follows_in_a_block_that_is_too_long_is_no_message(blob, tmp_path):
    half = pasted("x" * (MAX_MESSAGE // 2))
    with Chat(blob, tmp_path) as chat:
        for start, end in (('"""', '"""'), ("\\", "")):
            for line in (start, half, half, "never said", "/quit", end):
                type_all(chat, line if isinstance(line, bytes) else line.encode())
                chat.type("\\\r" if start == "\\" and line != end else "\r")
                text = chat.until(NEXT)
            assert b"smolrun: a message of more than 1 MiB" in text and text.endswith(b"> ")
        chat.send("Hello")
        assert chat.end() == ["Hello"]


def test_nor_is_it_where_lines_are_not_edited(blob, tmp_path):
    """Such text comes from a terminal without the mode, or where there is no libedit."""
    line = b"x" * 4000 + b"\n"
    with Chat(blob, tmp_path, TERM="dumb") as chat:
        for text in (b'"""\n' + line * 300 + b'"""\n', (line[:-1] + b"\\\n") * 300 + b"end\n"):
            type_all(chat, text)
            chat.until(rb"smolrun: a message of more than 1 MiB[^\n]*\n")
            chat.until(rb"> ")  # before and after it the terminal may still echo what was typed
        chat.send("Hello")
        assert chat.end() == ["Hello"]


# --- the mode -------------------------------------------------------------------------------------


def modes(output):
    """Returns whether the mode was switched on or off, each time that it was switched."""
    return [output[i : i + len(ON)] == ON for i in range(len(output)) if output[i:].startswith((ON, OFF))]


@pytest.fixture
def untouched():
    """The settings of a terminal before they are changed."""
    ends = pty.openpty()
    yield termios.tcgetattr(ends[0])
    for end in ends:
        os.close(end)


# A shell that reads on: what a terminal's first program has written is lost when it ends.
SHELL = ["bash", "-c", 'ulimit -c 0; "$@"; echo "over: $?"; read', "-"]


UNENDED = b"\x1b[200~never\rended"
WAYS_OUT = {
    "Ctrl-D": (b"\x04", None),
    "/quit": (b"/quit\r", None),
    "Ctrl-\\": (b"\x1c", None),
    "SIGTERM": (b"typed", signal.SIGTERM),
    "SIGTERM in a paste": (UNENDED, signal.SIGTERM),
    "SIGHUP": (b"typed", signal.SIGHUP),
    "SIGQUIT in a paste": (UNENDED, signal.SIGQUIT),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("keys, number", WAYS_OUT.values(), ids=WAYS_OUT)
def test_the_mode_is_on_from_the_first_line_on_and_never_afterwards(blob, tmp_path, untouched, keys, number):
    with Terminal(blob, "-n", 1, under=SHELL, XDG_STATE_HOME=str(tmp_path)) as terminal:
        assert modes(terminal.until(PROMPT)) == [True]
        terminal.type("Hello\r")
        assert modes(terminal.until(NEXT)) == [True]
        terminal.type("dropped\x03")
        assert modes(terminal.until(NEXT)) == [True]
        terminal.type(keys)
        if number:
            shell = terminal.process.pid
            os.kill(int(Path(f"/proc/{shell}/task/{shell}/children").read_text()), number)
        killed = keys == b"\x1c" or number == signal.SIGQUIT
        over = terminal.until(rb"over: \d+\r\n")
        assert over.endswith(b"over: 131\r\n" if killed else b"over: 0\r\n")
        assert modes(over)[-1] is False and termios.tcgetattr(terminal.master) == untouched


def test_a_terminal_that_knows_nothing_is_not_told(blob, tmp_path):
    with Terminal(blob, "-n", 1, under=SHELL, XDG_STATE_HOME=str(tmp_path), TERM="dumb") as terminal:
        output = terminal.until(PROMPT)
        terminal.type("Hello\n")
        output += terminal.until(PROMPT)
        terminal.type("/quit\n")
        assert b"\x1b" not in output + terminal.until(b"over: 0")


def test_the_mode_is_off_while_the_program_is_stopped(blob, tmp_path, untouched):
    under = ["bash", "-c", 'set -m; "$@"; echo stopped; read; fg >/dev/null; echo over; read', "-"]
    with Terminal(blob, "-n", 1, under=under, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        terminal.type(pasted("one\ntwo"))
        terminal.until(b"two")
        terminal.type(b"\x1a")
        assert modes(terminal.until(b"stopped")) == [False] and termios.tcgetattr(terminal.master) == untouched
        terminal.type("\n")
        again = terminal.until(rb"one\s+two")  # it is drawn anew
        assert set(modes(again)) == {True}
        terminal.type("!\r")
        assert modes(terminal.until(NEXT)) == [True]
        terminal.type(b"\x04")
        assert modes(terminal.until(b"over")) == [False]
    assert history(tmp_path) == b"one\rtwo!\n"


def test_ctrl_c_gets_out_of_a_paste_that_does_not_end(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.type(b"\x1b[200~never\rended")
        chat.type(b"\x03")
        chat.until(NEXT)
        chat.send("Hello")
        assert chat.end() == ["Hello"]


def test_ctrl_c_in_a_paste_drops_all_of_it(blob, tmp_path):
    with Chat(blob, tmp_path) as chat:
        chat.type(pasted(b"one\r\x03two\r/quit\r"))
        chat.until(NEXT)
        chat.send("Hello")
        assert chat.end() == ["Hello"]


def test_parts_of_its_mark_are_keys_as_ever(blob, tmp_path):
    """Home, sequences that end elsewhere, and an escape before a paste."""
    with Chat(blob, tmp_path) as chat:
        chat.send("bc\x1b[Ha")
        chat.send("x\x1b[20", "\x1b[200", pasted("y\nz"))
        chat.send("a\x1b", pasted("b\nc"))
        chat.send("\x1f\x1b\x1fd")  # the keys that stand for a paste do nothing by themselves
        output = chat.end()
        assert output[0] == "abc" and output[1].endswith("y\nz") and output[2:] == ["ab\nc", "d"]


def test_it_needs_no_call_that_the_sandbox_refuses(blob, tmp_path):
    """Ctrl-C ends a paste, and Ctrl-Z, which does nothing to a program without a shell, is typed too."""
    if not traceable():
        pytest.skip("nothing can be traced here")
    log = tmp_path / "log"
    with Chat(blob, tmp_path, under=["strace", "-f", "-qq", "-e", "signal=none", "-o", log]) as chat:
        chat.send(pasted("one\ntwo"), "\x1b[A!")
        chat.type(pasted("never\x03sent"))
        chat.until(NEXT)
        chat.type("x")
        chat.until(b"x")
        chat.type(b"\x1a")
        assert modes(chat.until(rb"2004l[\s\S]*2004h[\s\S]*> x")) == [False, True, True]
        chat.send()
        assert chat.end() == ["one!\ntwo", "x"]
    assert [call for call in refused_in(log) if not HARMLESS.match(call)] == []
