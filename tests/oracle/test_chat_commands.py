"""Commands of smolrun chat: answers that resume, options that change, conversations in a folder, and what is shown."""

import re
import struct
import textwrap
import time

import package  # noqa: F401
import pytest
import smolrun
from test_chat import (
    CONTEXT_FULL, FILE, FIRST, OK, PROMPT, SECOND, SYSTEM, Terminal, USAGE, chat, run, shown,
)  # fmt: skip

SAMPLED = ["--temp", "1.2", "--seed", "5"]


def errors(blob, *lines, words=()):
    done = run("chat", blob, "-n", 4, *words, input="".join(f"{line}\n" for line in lines))
    assert done.returncode == OK
    return done.stderr


# --- /continue ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [[], SAMPLED], ids=["greedy", "sampled"])
def test_an_answer_that_resumes_is_the_answer_at_once(blob, sampling, tmp_path):
    at_once = chat(blob, FIRST, words=["-n", 12, *sampling])
    saved = ["--session", tmp_path / "saved"]
    parts = chat(blob, FIRST, "/continue", words=["-n", 4, *sampling])
    assert re.fullmatch("(.*)\n(.*)\n", parts, re.S).expand(r"\1\2") == run(
        blob, "--chat", FIRST, "-n", 8, *sampling
    ).stdout.rstrip("\n")
    first = chat(blob, FIRST, words=["-n", 4, *sampling, *saved])
    rest = chat(blob, "/continue", words=["-n", 8, *saved])  # on another day
    assert first.removesuffix("\n") + rest == at_once
    assert chat(blob, "/history", words=saved) == f"> {FIRST}\n{at_once}"


def test_a_resumed_answer_is_one_message_of_the_conversation(blob):
    whole = chat(blob, FIRST, SECOND, "/history", words=["-n", 8])
    parts = chat(blob, FIRST, "/continue", "/set n 8", SECOND, "/history", words=["-n", 4])
    assert parts.replace("\n", "") == whole.replace("\n", "")
    assert parts[parts.index("> ") :] == whole[whole.index("> ") :]


def test_a_complete_answer_does_not_resume(blob):
    complete = "the last answer is complete: /regen answers again\n"
    assert chat(blob, "/continue") == "there is no answer yet\n"
    assert chat(blob, FIRST, "/continue", words=["--stop", "e"]) == chat(blob, FIRST, words=["--stop", "e"]) + complete
    assert chat(blob, FIRST, "/reset", "/continue", words=["-n", 3]).endswith("\nthere is no answer yet\n")


def test_a_full_context_does_not_resume(blob):
    for seed in range(20):  # until an answer does not stop early
        words = ["--ctx", 40, "--temp", 100, "--seed", seed]
        done = run("chat", blob, *words, input=f"{FIRST}\n/continue\n")
        if done.returncode != OK:
            break
    assert done.returncode == CONTEXT_FULL and "full" in done.stderr
    assert done.stdout == run("chat", blob, *words, input=f"{FIRST}\n").stdout


def test_an_answer_ends_where_the_model_ends_it(blob):
    """Without -n: demo answers are short, so a seed is wanted that makes a long one."""
    for seed in range(20):
        sampling = ["--temp", 100, "--seed", seed]
        done = run("chat", blob, *sampling, input=FIRST + "\n")
        assert done.returncode == OK
        if done.stdout != run("chat", blob, *sampling, "-n", 256, input=FIRST + "\n").stdout:
            break
    endless = run(blob, "--chat", FIRST, *sampling, "-n", -1)
    assert done.stdout == endless.stdout and len(done.stdout) > 256


# --- /set -----------------------------------------------------------------------------------------


def test_set_lists_the_options(blob):
    listed = chat(blob, "/set", words=["--temp", "0.5", "--top-k", "7", "--seed", "18446744073709551615"])
    expected = [("temp", "0.5"), ("top-k", "7"), ("top-p", "1"), ("min-p", "0"), ("repeat-penalty", "1")]
    expected += [("seed", "18446744073709551615"), ("n", "24")]
    assert [tuple(line.split()) for line in listed.splitlines()] == expected
    assert run("chat", blob, input="/set\n").stdout.splitlines()[-1].split(None, 1) == ["n", "-1 (no limit)"]


OPTIONS = ["--temp", "1.5", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01", "--repeat-penalty", "1.3", "--seed", "9"]


def test_an_option_that_is_set_counts_as_on_the_command_line(blob):
    lines = [f"/set {name[2:]} {value}" for name, value in zip(OPTIONS[::2], OPTIONS[1::2], strict=True)]
    expected = chat(blob, FIRST, SECOND, words=OPTIONS)
    assert chat(blob, *lines, FIRST, SECOND) == expected != chat(blob, FIRST, SECOND)
    assert chat(blob, "/set temp=1.5", "/set temp 0", FIRST) == chat(blob, FIRST)  # the last one counts
    assert chat(blob, "/set n 3", FIRST) == chat(blob, FIRST, words=["-n", 3])


def test_blanks_after_a_command_are_no_part_of_it(blob, tmp_path):
    assert chat(blob, "/set temp 0.25 ", "/set \t").splitlines()[0].split() == ["temp", "0.25"]
    assert chat(blob, FIRST, "/quit  ", SECOND) == chat(blob, FIRST)
    chat(blob, FIRST, "/save one \t", words=["--save-dir", tmp_path])
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_what_cannot_be_set_changes_nothing(blob):
    lines = ["/set temp -1", "/set temp warm", "/set foo 1", "/set temp", "/set seed -1", "/set n many", "/set top-p 2"]
    assert chat(blob, "/set temp 1.5", *lines, "/set").splitlines()[0].split() == ["temp", "1.5"]
    said = errors(blob, *lines).splitlines()
    assert len(said) == len(lines) and all(line.startswith("smolrun: ") for line in said)
    assert "no such option" in said[2] and "value is missing" in said[3] and "--top-p" in said[6]


def test_what_is_set_wins_over_what_is_loaded(blob, tmp_path):
    words = ["--save-dir", tmp_path]
    chat(blob, FIRST, "/save hot", words=[*words, *SAMPLED])
    lines = chat(blob, "/load hot", "/set", "/set temp 0.25", "/load hot", "/set", words=words).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("temp")] == ["1.2", "0.25"]


# --- conversations in a folder --------------------------------------------------------------------


def test_save_dir_keeps_conversations_by_name(blob, tmp_path):
    folder = tmp_path / "talks"  # made on the way
    words = ["--save-dir", folder]
    first = chat(blob, "/save", FIRST, "/save one", "/save one", "/reset", SECOND, "/save two", words=words)
    assert first.startswith("name the conversation: /save NAME") and f"saved to {folder}/one\n" in first
    assert f"{folder}/one: exists already: /save! replaces it" in first
    assert sorted(p.name for p in folder.iterdir()) == ["one", "two"]
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in folder.iterdir()) and folder.stat().st_mode & 0o777 == 0o700
    loaded = chat(blob, "/load one", SECOND, words=words)
    assert loaded == f"loaded {folder}/one\n" + chat(blob, FIRST, SECOND).split("\n", 1)[1]
    assert "no such file" in errors(blob, "/load three", words=words)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["talks"]


def test_what_is_loaded_is_not_the_rest_of_an_answer(blob, tmp_path):
    """A text of `smolrun --session`, or nothing if the file is damaged, is in the context then: the conversation stays."""
    words = ["--save-dir", tmp_path]
    run(blob, "Once upon a time", "-n", 4, "--session", tmp_path / "story", check=True)
    (tmp_path / "damaged").write_bytes((tmp_path / "story").read_bytes()[:-1])
    once, resumed = chat(blob, FIRST, words=["-n", 3]), chat(blob, FIRST, "/continue", words=["-n", 3])
    for name in ("story", "damaged"):
        done = run("chat", blob, "-n", 3, *words, input=f"{FIRST}\n/load {name}\n/continue\n/history\n")
        assert (done.returncode, "damaged" in done.stderr) == (OK, name == "damaged")
        told = done.stdout.replace(f"loaded {tmp_path}/story\n", "")
        assert told == f"{once}the last answer is complete: /regen answers again\n> {FIRST}\n{once}"
        answers = chat(blob, FIRST, f"/load {name}", SECOND, words=["-n", 3, *words])
        assert answers.endswith(chat(blob, FIRST, SECOND, words=["-n", 3]).removeprefix(once))
    missing = chat(blob, FIRST, "/load missing", "/continue", words=["-n", 3, *words])
    assert missing == resumed  # nothing was loaded


def stop(terminal, line):
    """Types a line, and Ctrl-C once it was read, while the conversation is tokenized. Returns what is written."""
    text, delay = b"", 0.1
    while b"[stopped" not in text:  # too early, or too late: the context was found to be too small
        assert 0.001 < delay < 1, text
        terminal.type(line + "\n")
        terminal.until(line.encode() + rb"\r\n")
        time.sleep(delay)
        terminal.type(b"\x03")
        text = terminal.until(PROMPT)
        delay *= 0.6 if b"is full" in text else 1.4
    return text


def conversation(*texts):
    """The data of a session, format/SESSION.md, 5."""
    return b"chat" + b"".join(struct.pack("=II", 1 + i % 2, len(text)) + text for i, text in enumerate(texts))


def test_ctrl_c_while_a_message_is_tokenized_leaves_no_other_answer(blob, tmp_path):
    """The conversation before it is made so long that this takes its time. With /regen, the answer stays."""
    long = conversation(b"word " * (1 << 19), b"Mine.")
    with smolrun.Model(blob) as model, model.session() as session:
        session.generate("Once upon a time", max_tokens=4)
        session.data = long
        session.save(tmp_path / "long")
        with Terminal(blob, "-n", 8, "--save-dir", tmp_path, XDG_STATE_HOME=str(tmp_path), TERM="dumb") as terminal:
            for line in (SECOND, "/load long"):
                terminal.until(PROMPT)
                terminal.type(line + "\n")
            terminal.until(PROMPT)
            stop(terminal, "/regen")
            terminal.type("/save same\n/load long\n")
            terminal.until(rb"loaded[^\n]*\n> $")
            assert b"[stopped]" in stop(terminal, "Hello")
            terminal.type("/continue\n")
            assert b"the last answer is complete" in terminal.until(PROMPT)
            terminal.type("/save longer\n")
            terminal.until(rb"saved[^\n]*\n> $")
        assert model.session(tmp_path / "same").data == long
        assert model.session(tmp_path / "longer").data == long + conversation(b"Hello", b"").removeprefix(b"chat")


def test_save_dir_is_the_only_folder(blob, tmp_path):
    (tmp_path / "talks").mkdir()
    done = run("chat", blob, "--save-dir", tmp_path / "talks", input=f"/save {tmp_path}/beside\n")
    assert "ermission denied" in done.stderr and f"can use files in {tmp_path}/talks and below only" in done.stdout
    assert [p.name for p in tmp_path.iterdir()] == ["talks"]


def test_a_save_dir_that_cannot_be_is_refused(blob, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "missing" / "folder"):
        done = run("chat", blob, "--save-dir", folder, input=FIRST)
        assert (done.returncode, done.stdout) == (FILE, "") and f"{folder}: not a folder" in done.stderr
    done = run("chat", blob, "--save-dir", tmp_path, "--session", tmp_path / "x", input=FIRST)
    assert (done.returncode, done.stdout) == (USAGE, "") and "--save-dir and --session" in done.stderr


# --- what is shown --------------------------------------------------------------------------------


def test_history_shows_the_conversation(blob):
    first, second = chat(blob, FIRST), chat(blob, FIRST, SECOND).split("\n", 1)[1]
    output = chat(blob, "/history", FIRST, "/history", '"""one', 'two"""', "/history", words=["--system", SYSTEM])
    assert output.startswith(f"[system]\n{SYSTEM}\n")
    assert "\n> one\n. two\n" in output
    output = chat(blob, FIRST, SECOND, "/history")
    assert output == first + second + f"> {FIRST}\n{first}> {SECOND}\n{second}"
    assert chat(blob, "/history") == "nothing has been said yet\n"
    assert chat(blob, FIRST, "/exit", "never said") == first


def open_chat(blob, tmp_path, *words, columns=80):
    return Terminal(blob, *words, columns=columns, XDG_STATE_HOME=str(tmp_path), NO_COLOR="1", TERM="dumb")


def test_the_greeting_says_how_to_save(blob, tmp_path):
    for words, part in (
        ([], "cannot be saved: for that, start with --save-dir DIR"),
        (["--save-dir", tmp_path / "talks"], f"/save NAME saves the conversation in {tmp_path}/talks"),
        (["--session", tmp_path / "talk"], "talk: the conversation is saved there at the end"),
    ):
        with open_chat(blob, tmp_path, *words) as terminal:
            assert part in shown(terminal.until(PROMPT))
            terminal.type("/quit\n")
            assert terminal.wait() == OK


def test_a_restored_conversation_shows_its_last_turns(blob, tmp_path):
    words = ["--session", tmp_path / "talk", "-n", 4]
    questions = [f"Question {i}?" for i in range(4)]
    answers = chat(blob, *questions, words=words).splitlines()
    with open_chat(blob, tmp_path, *words) as terminal:
        text = shown(terminal.until(PROMPT))
        assert "talk: resumed, 8 messages" in text and "[4 earlier messages: /history shows all]" in text
        assert text.endswith("".join(f"> {questions[i]}\n{answers[i]}\n" for i in (2, 3)) + "> ")
        assert questions[1] not in text


def test_a_long_message_is_shown_by_its_end(blob, tmp_path):
    words = ["--session", tmp_path / "talk", "-n", 1, "--ctx", 512]
    end = ("Once upon a time there was a little girl " * 60)[:1999]
    chat(blob, "start é" + end, words=words)  # 2,000 bytes begin within a character
    with open_chat(blob, tmp_path, *words, columns=0) as terminal:
        text = shown(terminal.until(PROMPT))
        assert f"[...]\n> {end}\n" in text and "start" not in text


TEXTS = {
    "words": "The quick brown fox jumps over the lazy dog, again and again, until the evening comes. " * 3,
    "edge": "1234567890 123456789 12345678901234567 x " + "y" * 17 + " " + "z" * 18,
    "accents": "e\u0301le\u0300ve " * 12 + "café " * 9,
}


@pytest.fixture(scope="module")
def told(blob, tmp_path_factory):
    """The session of a conversation with such a question, so that a terminal shows a text of ours."""

    def session(text):
        path = tmp_path_factory.mktemp("told") / "talk"
        chat(blob, text, words=["--session", path, "-n", 0])
        return path

    return session


def screen(blob, path, tmp_path, columns):
    """Returns the lines in which /history shows the question."""
    with open_chat(blob, tmp_path, "--session", path, columns=columns) as terminal:
        terminal.until(PROMPT)
        terminal.type("/history\n")
        output = terminal.until(rb"history\r\n[\s\S]*\n> $")
        return output.decode().split("/history\r\n")[1].split("\r\n")[:-2]


def test_the_terminal_breaks_words_that_are_longer_than_a_line(blob, told, tmp_path):
    text = "a " + "w" * 50 + " b " + "v" * 19 + " " + "u" * 20 + " " + "t" * 21 + " c"
    for columns, expected in (
        (20, ["> a", "w" * 50 + " b", "v" * 19, "u" * 20, "t" * 21 + " c"]),
        (21, ["> a", "w" * 50 + " b", "v" * 19, "u" * 20, "t" * 21, "c"]),
        (53, ["> a", "w" * 50 + " b", "v" * 19 + " " + "u" * 20, "t" * 21 + " c"]),
    ):
        assert screen(blob, told(text), tmp_path, columns) == expected


@pytest.mark.sample(4)
@pytest.mark.parametrize("columns", [20, 33, 80])
@pytest.mark.parametrize("name", TEXTS)
def test_words_are_not_broken_at_the_edge(blob, told, tmp_path, name, columns):
    """Lines are those of Python's textwrap."""
    text = TEXTS[name].strip()
    lines = screen(blob, told(text), tmp_path, columns)
    plain = ("> " + text).replace("\u0301", "").replace("\u0300", "")  # these take no column
    expected = textwrap.wrap(plain, columns, break_long_words=False, break_on_hyphens=False)
    assert [line.replace("\u0301", "").replace("\u0300", "") for line in lines] == expected


def test_wide_characters_are_never_parted_from_their_marks(blob, told, tmp_path):
    text = "日本語の文章は" * 5 + " abc 語\u3099語\u3099"
    for columns in (20, 21):
        lines = screen(blob, told(text), tmp_path, columns)
        assert "".join(lines).replace(" ", "") == ("> " + text).replace(" ", "")
        widths = [sum(0 if c == "\u3099" else 2 if c > "\u2e80" else 1 for c in line) for line in lines]
        assert all(width <= columns for width in widths) and all(width >= columns - 1 for width in widths[:-2])
        assert not any(line.startswith("\u3099") for line in lines)


def test_answers_are_wrapped_and_pipes_get_the_plain_text(blob, tmp_path):
    once = run(blob, "--chat", FIRST, "-n", 24).stdout.rstrip("\n")
    assert " " in once and len(once) > 20
    with open_chat(blob, tmp_path, "-n", 24, columns=20) as terminal:
        terminal.until(PROMPT)
        terminal.type(FIRST + "\n")
        output = terminal.until(rb"\?\r\n[\s\S]*\n> $").decode().split("?\r\n", 1)[1]
    lines = output.replace("\r", "").split("\n")[:-1]
    lines = [line for line in lines if not line.startswith("[cut off")]
    assert lines == [part for line in once.split("\n") for part in textwrap.wrap(line, 20, break_on_hyphens=False)]
    assert chat(blob, FIRST) == once + "\n"
