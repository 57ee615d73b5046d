"""smolrun chat, through pipes and through a real terminal: answers are those of the whole conversation
asked at once, and what is known is not evaluated again."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import stat
import struct
import subprocess
import termios
import time

import pytest
from engine import blob_of
from internal import BUILD, ROOT
from programs import smolrun
from test_sandbox import HARMLESS, refused_in
from transformers import AutoTokenizer

OK, USAGE, FILE, DAMAGED, UNSUPPORTED, CONTEXT_FULL = 0, 2, 3, 4, 5, 8
FIRST, SECOND = "Where do you live?", "Tell me a story about a cat."
SYSTEM = "You are a painter."


def run(*words, **options):
    return smolrun(*words, text=True, **options)


def chat(blob, *lines, words=(), status=OK, **options):
    done = run("chat", blob, "-n", 24, *words, input="".join(f"{line}\n" for line in lines), **options)
    assert done.returncode == status, done.stderr
    return done.stdout


def known_and_read(output):
    """Returns the tokens of the last prompt that were known and that were evaluated, as /stats says."""
    return tuple(map(int, re.search(r"(\d+) tokens? known, (\d+) evaluated", output).groups()))


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(ROOT / "demo/model")


@pytest.fixture(scope="module")
def at_once(blob, tokenizer):
    """at_once(message, answer, message ...): (answer, number of its prompt's tokens), from nothing."""

    def ask(*texts, system=None, n=24):
        roles = ("user", "assistant")
        messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        done = run(blob, "-", "-n", n, "--json", input=prompt)
        assert done.returncode == OK, done.stderr
        answer = json.loads(done.stdout)
        return answer["text"], answer["prompt_tokens"]

    return ask


# --- pipes ----------------------------------------------------------------------------------------


def test_one_message_is_answered_as_by_chat_once(blob):
    once = run(blob, "--chat", FIRST, "-n", 24)
    assert chat(blob, FIRST) == once.stdout
    once = run(blob, "--chat", FIRST, "-n", 24, "--system", SYSTEM)
    assert chat(blob, FIRST, words=["--system", SYSTEM]) == once.stdout
    assert chat(blob, f"/system {SYSTEM}", FIRST) == once.stdout


def test_each_answer_is_that_to_the_whole_conversation(blob, at_once):
    first, _ = at_once(FIRST)
    second, n_prompt = at_once(FIRST, first, SECOND)
    third, _ = at_once(FIRST, first, SECOND, second, FIRST)
    output = chat(blob, FIRST, SECOND, "/stats", FIRST)
    before, _, rest = output.partition("prompt  ")
    assert before == f"{first}\n{second}\n" and rest.endswith(f"\n{third}\n")
    known, read = known_and_read(output)
    assert known + read == n_prompt


def test_a_turn_evaluates_only_its_new_tokens(blob, at_once, tokenizer):
    """The conversation's beginning is known up to where the answer stops, or was tokenized otherwise."""
    first, n_first = at_once(FIRST, n=3)
    _, n_second = at_once(FIRST, first, SECOND, n=3)
    output = chat(blob, FIRST, SECOND, "/stats", words=["-n", 3])
    known, read = known_and_read(output)
    assert known + read == n_second and known >= n_first + 2
    output = chat(blob, FIRST, "/regen", "/stats")
    assert known_and_read(output) == (n_first - 1, 1)


def test_regen_answers_again(blob):
    sampled = ["--temp", "1", "--seed", "3"]
    first, second = (
        chat(blob, FIRST, *again, words=[*sampled, "--stop", "\n"]) for again in ((), ("/regen",))
    )
    assert second.startswith(first) and second != first + first
    assert chat(blob, FIRST, "/regen") == 2 * chat(blob, FIRST)
    assert chat(blob, "/regen") == "there is no answer yet\n"


def test_reset_begins_anew_with_the_same_system_message(blob):
    words = ["--system", SYSTEM]
    once = chat(blob, SECOND, words=words)
    assert chat(blob, FIRST, "/reset", SECOND, words=words) == chat(blob, FIRST, words=words) + once


def test_lines_make_a_message(blob):
    done = run(blob, "--chat", "one\ntwo\n\nthree", "-n", 24)
    assert chat(blob, "one\\", "two\\", "\\", "three") == done.stdout
    assert chat(blob, '"""', "one", "two", "", "three", '"""') == done.stdout
    assert chat(blob, '"""one', "two", "", 'three"""') == done.stdout
    assert chat(blob, "", '"""one', "two", "", "three") == done.stdout  # and what is not closed
    assert chat(blob, "//help") == run(blob, "--chat", "/help", "-n", 24).stdout


def test_commands_say_what_they_do(blob):
    shown = chat(blob, "/help", "/system", "/nonsense", "/save", "/quit", "never said")
    for part in ("/regen", "no system message", "/nonsense: no such command: /help lists them", "--session FILE"):
        assert part in shown
    assert "read from a pipe" in shown


def test_lines_may_end_as_on_windows(blob):
    lines = ["/set n 8", FIRST, 'of two \\', "lines", '"""', SECOND, '"""', "/history"]
    expected = run("chat", blob, input="\n".join(lines))
    assert run("chat", blob, input="\r\n".join(lines)).stdout == expected.stdout
    assert expected.returncode == OK and "\r" not in expected.stdout


def test_commands_without_an_argument_refuse_one(blob):
    commands = ["/help", "/reset", "/regen", "/stats", "/quit"]
    refused = [f"{command}: takes no argument\n" for command in commands]
    assert chat(blob, *(f"{command} x y" for command in commands)) == "".join(refused)
    output = chat(blob, FIRST, "/reset all", "/regen", "/quit \t", "never said")  # which is done without it
    assert output == chat(blob, FIRST) + refused[1] + chat(blob, FIRST)


MAX_MESSAGE = 1 << 20


def test_a_message_has_at_most_a_mebibyte(blob, tmp_path):
    """A longer one is refused, be it one line or many; the conversation before it is kept."""
    words = ["--session", tmp_path / "saved"]
    line = "x" * (MAX_MESSAGE // 2)
    for long in ("x" * (MAX_MESSAGE + 1), f'"""{line}\n{line}"""', f"{line}\\\n{line}", "x\\\n" * MAX_MESSAGE):
        (tmp_path / "saved").unlink(missing_ok=True)
        done = run("chat", blob, "-n", 3, *words, input=f"{FIRST}\n{long}\n{SECOND}\n")
        assert done.returncode == USAGE and "a message of more than 1 MiB" in done.stderr
        assert done.stdout == chat(blob, FIRST, words=["-n", 3])
        assert known_and_read(chat(blob, "/regen", "/stats", words=[*words, "-n", 3]))[0] > 10
    done = run("chat", blob, "--ctx", 40, input="x" * MAX_MESSAGE)  # that many are read
    assert done.returncode == CONTEXT_FULL


def test_a_conversation_that_is_too_long_ends_a_pipe(blob):
    done = run("chat", blob, "--ctx", 40, "-n", 8, input=f"{FIRST}\n{SECOND * 4}\n{FIRST}\n")
    assert done.returncode == CONTEXT_FULL and "the context is full (40 tokens" in done.stderr
    assert done.stdout.count("\n") >= 1


def test_a_model_without_a_template_is_refused(tmp_path, blob):
    source = tmp_path / "model"
    shutil.copytree(ROOT / "demo/model", source)
    settings = json.loads((source / "tokenizer_config.json").read_text())
    del settings["chat_template"]
    (source / "tokenizer_config.json").write_text(json.dumps(settings))
    subprocess.run([BUILD / "smolconv", "--quiet", source, tmp_path / "a.smol"], check=True)
    done = run("chat", tmp_path / "a.smol", input="Hello\n")
    assert done.returncode == UNSUPPORTED and "template" in done.stderr


def test_stats_go_to_standard_error(blob):
    for done in (run("chat", blob, "--stats", input="Hello\n"), run(blob, "Hello", "--stats", "-n", 2)):
        assert done.returncode == OK and "tokens/s" not in done.stdout
        assert re.findall(r"^\w+", done.stderr, re.M) == "load prefill decode context sandbox memory".split()
    assert "decode    1 token in" in done.stderr


# --- the end of the context -----------------------------------------------------------------------

CTX, N_NEW = 128, 16
QUESTIONS = [f"{text} That was number {i}." for i, text in enumerate([FIRST, SECOND, "Why?"] * 4)]


@pytest.fixture(scope="module")
def slid(tokenizer, at_once):
    """slid(questions ...): what a chat with --slide answers, each from nothing; and how often it forgets."""

    def size(texts, system):
        messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        return len(ids)

    def answers(*questions, system=None):
        texts, answers, n_slides = [], [], 0
        for question in questions:
            texts.append(question)
            if size(texts, system) > CTX - N_NEW:
                n_slides += 1
                while size(texts, system) > (CTX - N_NEW) // 2 and len(texts) > 1:
                    texts = texts[2:]
            answer, n_prompt = at_once(*texts, system=system, n=N_NEW)
            assert n_prompt == size(texts, system)
            texts.append(answer)
            answers.append(answer + "\n")
        return answers, n_slides

    return answers


SLIDING = ["--slide", "--ctx", CTX, "-n", N_NEW]


@pytest.mark.parametrize("system", [None, SYSTEM])
def test_a_chat_goes_on_with_its_newest_turns(blob, slid, system):
    expected, n_slides = slid(*QUESTIONS, system=system)
    words = ["--system", system] if system else []
    assert chat(blob, *QUESTIONS, words=[*SLIDING, *words]) == "".join(expected) and n_slides >= 3
    chat(blob, *QUESTIONS, words=[*words, *SLIDING[1:]], status=CONTEXT_FULL)


def test_what_a_chat_has_forgotten_its_session_has_too(blob, slid, tmp_path):
    words = [*SLIDING, "--session", tmp_path / "saved"]
    parts = [chat(blob, *QUESTIONS[i : i + 4], words=words) for i in range(0, len(QUESTIONS), 4)]
    expected, _ = slid(*QUESTIONS)
    assert "".join(parts) == "".join(expected)
    kept = (tmp_path / "saved").read_bytes().count(b"That was number")
    assert 0 < kept < len(QUESTIONS) // 2
    assert chat(blob, "/regen", words=words) == expected[-1]


def test_a_long_answer_slides_as_a_prompts_does(blob, tokenizer):
    """It keeps the conversation, and of itself the newest half."""
    message = [{"role": "user", "content": FIRST}]
    prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    for seed in range(20):  # until one does not stop early
        words = ["--slide", "--ctx", 64, "-n", 300, "--temp", 100, "--seed", seed]
        once = json.loads(run(blob, "-", "--json", *words, input=prompt).stdout)
        if once["timings"]["slides"] >= 2:
            break
    assert once["timings"]["slides"] >= 2
    output = chat(blob, FIRST, SECOND, "/stats", words=words)
    assert output.startswith(once["text"] + "\n")
    second = [{"role": "user", "content": SECOND}]
    ids = tokenizer.apply_chat_template(second, add_generation_prompt=True, return_dict=False)
    assert sum(known_and_read(output)) == len(ids)  # the first answer is longer than the context


def test_a_message_that_does_not_fit_is_refused_as_ever(blob):
    words = ["chat", blob, "--ctx", 60, "-n", 8, "--slide"]
    done = run(*words, input=f"{FIRST}\n{SECOND * 9}\n")
    assert done.returncode == CONTEXT_FULL and "this message alone would take" in done.stderr
    assert done.stdout == run(*words, input=f"{FIRST}\n").stdout
    with_slide = run("chat", blob, "--ctx", 40, "-n", 8, input=f"{FIRST}\n{FIRST}\n{FIRST}\n")
    assert with_slide.returncode == CONTEXT_FULL and "--slide" in with_slide.stderr


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_goes_on_as_if_nothing_had_come_between(blob, tmp_path):
    words = ["--system", SYSTEM, "--temp", "0.8", "--seed", "11"]
    whole = chat(blob, FIRST, SECOND, FIRST, words=words)
    saved = ["--session", tmp_path / "saved"]
    parts = chat(blob, FIRST, words=[*words, *saved])
    parts += chat(blob, SECOND, words=saved)
    assert stat.S_IMODE((tmp_path / "saved").stat().st_mode) == 0o600
    output = chat(blob, FIRST, "/stats", words=saved)
    assert parts + output.partition("prompt  ")[0] == whole
    assert known_and_read(output)[0] > known_and_read(output)[1]
    assert os.listdir(tmp_path) == ["saved"]


def test_what_was_said_is_not_given_up_for_another_system_message(blob, tmp_path):
    path = tmp_path / "saved"
    words, saved = ["--system", SYSTEM], ["--session", path]
    whole = chat(blob, FIRST, SECOND, words=words)
    parts = chat(blob, FIRST, words=[*words, *saved])
    before = path.read_bytes()
    for other in ("Another one.", SYSTEM + " "):
        done = run("chat", blob, *saved, "--system", other, input=SECOND)
        assert done.returncode == USAGE and "another system message" in done.stderr
        assert path.read_bytes() == before
    assert parts + chat(blob, SECOND, words=[*words, *saved]) == whole
    chat(blob, FIRST, words=["--session", tmp_path / "plain"])
    done = run("chat", blob, "--session", tmp_path / "plain", *words, input=SECOND)
    assert done.returncode == USAGE and "no system message" in done.stderr


def test_a_conversation_is_not_given_up_for_a_text(blob, tmp_path):
    path, empty = tmp_path / "saved", tmp_path / "empty"
    chat(blob, FIRST, words=["-n", 3, "--session", path])
    before = path.read_bytes()
    for words in ([""], [SECOND], ["--chat", FIRST]):
        done = run(blob, *words, "-n", 2, "--session", path)
        assert (done.returncode, done.stdout) == (USAGE, "") and "has a conversation" in done.stderr
        assert path.read_bytes() == before
    chat(blob, words=["--session", empty])
    assert run(blob, "Once", "-n", 1, "--session", empty).returncode == OK


def test_a_session_without_a_question_takes_another_system_message(blob, tmp_path):
    """Such as one whose only use is to have read a long one."""
    saved = ["--session", tmp_path / "saved"]
    chat(blob, words=["--system", "Another one.", *saved])
    words = ["--system", SYSTEM]
    assert chat(blob, FIRST, words=[*words, *saved]) == chat(blob, FIRST, words=words)


def test_save_and_load(blob, tmp_path):
    words = ["--session", tmp_path / "here"]
    other = tmp_path / "other"
    output = chat(blob, FIRST, f"/save {other}", f"/save {other}", f"/load {other}", words=words)
    assert f"saved to {other}" in output and f"loaded {other}" in output
    assert output.count("saved to") == 1  # not over a file that is there
    assert f"{other}: exists already: /save! replaces it" in output
    assert sorted(os.listdir(tmp_path)) == ["here", "other"]
    assert chat(blob, f"/load {other}", SECOND, words=words).endswith(chat(blob, FIRST, SECOND)[-20:])


def test_save_replaces_a_session_where_that_is_wanted(blob, tmp_path):
    words = ["--session", tmp_path / "here"]
    (tmp_path / "notes").write_text("no session")
    chat(blob, FIRST, "/save other", words=words)
    before = (tmp_path / "other").read_bytes()
    output = chat(blob, SECOND, "/save! other", "/save! notes", "/save", "/save ./here", words=words, cwd=tmp_path)
    assert (tmp_path / "other").read_bytes() != before
    assert (tmp_path / "notes").read_text() == "no session"
    assert f"saved to {tmp_path}/other" in output and "notes" not in output
    assert f"saved to {tmp_path}/here" in output and "saved to ./here" in output  # its own: no question


def test_files_lie_in_the_folder_of_the_session(blob, tmp_path):
    (tmp_path / "talks" / "old").mkdir(parents=True)
    outside = tmp_path / "outside"
    shutil.copyfile(blob, outside)
    words = ["--session", tmp_path / "talks" / "here"]
    rule = f"can use files in {tmp_path}/talks/ and below only"
    for line in (f"/save {tmp_path}/x", "/save ./x", "/save ../x", f"/load {outside}"):
        done = run("chat", blob, *words, input=line + "\n", cwd=tmp_path)
        assert "ermission denied" in done.stderr and rule in done.stdout
    for line in ("/save beside", f"/save {tmp_path}/talks/old/below", "/save talks/from-here", "/load beside"):
        done = run("chat", blob, *words, input=line + "\n", cwd=tmp_path)
        assert done.stderr == "" and "talks/" in done.stdout and rule not in done.stdout
    done = run("chat", blob, *words, input="/save nowhere/x\n/load missing\n", cwd=tmp_path)
    assert done.stdout == "" and "No such file" in done.stderr and "missing: no such file" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["outside", "talks"]
    assert sorted(p.name for p in (tmp_path / "talks").iterdir()) == ["beside", "from-here", "here", "old"]


def test_what_was_reached_is_saved_when_an_error_ends_it(blob, tmp_path):
    words = ["-n", 8, "--ctx", 60, "--session", tmp_path / "saved"]
    first = chat(blob, FIRST, words=words[:4])
    chat(blob, FIRST, SECOND * 9, FIRST, words=words, status=CONTEXT_FULL)
    assert chat(blob, "/regen", words=words) == first
    with open("/dev/full", "w") as full:  # whose answer nobody could read
        words = [BUILD / "smolrun", "chat", blob, "-n", "4", "--session", tmp_path / "other"]
        done = subprocess.run(words, input=b"/system Be brief.\nHello\n", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == FILE and b"standard output" in done.stderr
    assert chat(blob, "/system", words=["--session", tmp_path / "other"]) == "Be brief.\n"


def test_a_session_that_could_not_be_saved_is_refused_before_anything_is_said(blob, tmp_path):
    done = run("chat", blob, "--session", tmp_path / "missing" / "saved", input="Hello\n")
    assert done.returncode == FILE and done.stdout == "" and "saved: cannot create" in done.stderr


def test_a_session_that_cannot_be_read_is_left_alone(blob, tmp_path):
    (tmp_path / "saved").write_text("precious")
    done = run("chat", blob, "--session", tmp_path / "saved", input="Hello\n")
    assert done.returncode == DAMAGED and (tmp_path / "saved").read_text() == "precious"


def test_empty_lines_of_a_block_take_no_time(blob):
    assert run("chat", blob, input='"""\n' + "\n" * 1_000_000 + '"""\n').stdout == ""


def test_a_text_is_not_given_up_for_a_conversation(blob, tmp_path):
    path = tmp_path / "saved"
    for words in ([0], [3, "--chat"]):
        assert run(blob, "Once", "-n", *words, "--session", path).returncode == OK
        before = path.read_bytes()
        done = run("chat", blob, "--session", path, input=FIRST)
        assert (done.returncode, done.stdout) == (USAGE, "") and "has a text and no conversation" in done.stderr
        assert path.read_bytes() == before
        path.unlink()


def test_a_text_is_not_loaded_as_a_conversation(blob, tmp_path):
    here, text = tmp_path / "here", tmp_path / "text"
    assert run(blob, "Once", "-n", 3, "--temp", 0, "--session", text).returncode == OK
    words = ["--session", here, "--temp", 0]
    done = run("chat", blob, "-n", 24, *words, input=f"{FIRST}\n/load {text}\n{SECOND}\n")
    assert f"{text}: a text without a conversation: this one goes on" in done.stderr and "loaded" not in done.stdout
    assert done.stdout.endswith(chat(blob, FIRST, SECOND, words=["--temp", 0])[-20:])


def test_what_the_command_line_says_wins_over_what_is_loaded(blob, tmp_path):
    here, other = tmp_path / "here", tmp_path / "other"
    sampled = ["--temp", 1.5, "--seed", 7]
    chat(blob, FIRST, words=["--session", other, *sampled])
    greedy = ["--session", here, "--temp", 0]
    loaded = chat(blob, f"/load {other}", SECOND, words=greedy)
    shutil.copyfile(other, here)
    assert loaded.endswith(chat(blob, SECOND, words=greedy))


def test_a_session_that_is_damaged_is_refused(blob, tmp_path):
    path = tmp_path / "saved"
    chat(blob, FIRST, words=["--session", path])
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    done = run("chat", blob, "--session", path, input="Hello\n")
    assert done.returncode == DAMAGED and done.stdout == ""
    assert path.read_bytes() == data[:-1]


# --- a terminal -----------------------------------------------------------------------------------


def take_terminal():
    """Prepares a child as a shell does, even if the tests themselves ignore signals (under nohup, say)."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """smolrun chat at a terminal, started by `under` (a tracer)."""

    def __init__(self, blob, *words, program=BUILD / "smolrun", under=(), columns=80, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "XDG_STATE_HOME")}
        self.process = subprocess.Popen(
            [*under, program, "chat", blob, *map(str, words)],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=take_terminal,
            env={**base, "TERM": "xterm", "LC_ALL": "C.UTF-8", **environment},
        )  # fmt: skip
        os.close(slave)
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def until(self, pattern):
        """Reads until the pattern is there, and returns all up to its end."""
        deadline = time.monotonic() + 60
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, (pattern, self.seen)
            try:
                data = os.read(self.master, 4096)
            except OSError:  # the other side is closed
                data = b""
            assert data, (pattern, self.seen)
            self.seen += data
        self.seen, text = self.seen[match.end() :], self.seen[: match.end()]
        return text

    def type(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def ask(self, text):
        """Types a line, and returns what is shown up to the next prompt."""
        self.type(text + "\n")
        return shown(self.until(PROMPT))

    def end(self):
        """Types Ctrl-D, which ends the chat."""
        self.type(b"\x04")
        assert self.wait() == OK

    def wait(self):
        """Returns the exit status, after everything that it writes was read."""
        try:
            while select.select([self.master], [], [], 60)[0] and os.read(self.master, 4096):
                pass
        except OSError:  # the other side is closed
            pass
        return self.process.wait(60)


def shown(text):
    """Returns the text without escape sequences."""
    return re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r", b"", text).decode()


PROMPT = rb">(\x1b\[0m)? (\x1b\[K)?(\^C)?$"  # the kernel shows ^C only once it has sent the signal
EDITED, PLAIN = {}, {"TERM": "dumb"}


@pytest.mark.parametrize("environment", [EDITED, PLAIN], ids=["edited", "plain"])
def test_a_terminal_chats(blob, tmp_path, environment):
    once = run(blob, "--chat", FIRST, "-n", 12).stdout
    with Terminal(blob, "-n", 12, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        terminal.until(PROMPT)
        assert once in terminal.ask(FIRST)
        text = terminal.ask("/help")
        assert ("edited with libedit" if environment is EDITED else "libedit is not installed") in text
        terminal.type("/quit\n")
        assert terminal.wait() == OK


@pytest.mark.parametrize("environment", [EDITED, PLAIN], ids=["edited", "plain"])
def test_ctrl_d_ends_it_and_ctrl_c_drops_a_line(blob, tmp_path, environment):
    with Terminal(blob, "-n", 5, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        terminal.until(PROMPT)
        terminal.type("never sent")
        terminal.until(rb"never sent")
        terminal.type(b"\x03")
        terminal.until(PROMPT)
        assert known_and_read(terminal.ask("/stats")) == (0, 0)
        terminal.end()


def traceable():
    return subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"]).returncode == 0


@pytest.mark.parametrize(
    ("environment", "late"),
    [(EDITED, "write:delay_exit"), (PLAIN, "write:delay_exit"), (PLAIN, "poll:delay_enter")],
    ids=["edited", "plain", "plain, in a look"],
)
def test_no_ctrl_c_is_missed_between_two_looks_at_the_input(blob, tmp_path, environment, late):
    """It comes while the line is written, or during the look that follows, which a tracer makes last."""
    if not traceable():
        pytest.skip("nothing can be traced here")
    under = ["strace", "-qq", "-o", tmp_path / "log", "-e", f"inject={late}=400000"]
    with Terminal(blob, under=under, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        terminal.until(rb">(\x1b\[0m)? ")  # and its write goes on
        if environment is EDITED:
            terminal.type("x")
            terminal.until(rb"x")
        terminal.type(b"\x03")
        terminal.until(rb"\n[^\n]*>(\x1b\[0m)? ")


def test_ctrl_c_ends_no_write_of_the_editor(blob, tmp_path):
    """It comes before a letter is written, which a tracer makes late."""
    if not traceable():
        pytest.skip("nothing can be traced here")
    under = ["strace", "-qq", "-o", tmp_path / "log", "-e", "inject=write:delay_enter=400000"]
    with Terminal(blob, under=under, XDG_STATE_HOME=str(tmp_path), **EDITED) as terminal:
        terminal.until(PROMPT)
        terminal.type("x")
        time.sleep(0.2)
        terminal.type(b"\x03")
        terminal.until(rb"x[^\n]*\n[^\n]*>(\x1b\[0m)? ")


@pytest.mark.parametrize("environment", [EDITED, PLAIN], ids=["edited", "plain"])
def test_ctrl_c_stops_an_answer_and_keeps_the_conversation(real_model_dir, tmp_path, environment):
    """A real model, as the bundled one has answered before anybody could press a key."""
    blob = blob_of(real_model_dir, "int8")
    with Terminal(blob, "-n", -1, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        terminal.until(PROMPT)
        terminal.type("Write a very long story about the sea.\n")
        # after the line, which the terminal and the editor may both show
        terminal.until(rb"sea\.[^\n]*\n(?![^\n]*Write)[^\n]*\w+ \w+")
        terminal.type(b"\x03")
        assert "[stopped: /continue resumes the answer]" in shown(terminal.until(PROMPT))
        terminal.type("And now about the mountains, just as long.\n")
        terminal.until(rb"long\.[^\n]*\n(?![^\n]*And)[^\n]*\w+ \w+")
        terminal.type(b"\x03")
        terminal.until(PROMPT)
        known, read = known_and_read(terminal.ask("/stats"))
        assert known > 30 and read < known  # the first message, and what was answered to it
        terminal.end()


@pytest.mark.parametrize("environment", [EDITED, PLAIN], ids=["edited", "plain"])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_that_goes_away_leaves_the_session(blob, tmp_path, environment, number):
    words = ["-n", 5, "--session", tmp_path / "saved"]
    with Terminal(blob, *words, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        terminal.until(PROMPT)
        terminal.ask(FIRST)
        terminal.type('"""never sent')
        terminal.until(b"sent")
        terminal.process.send_signal(number)
        assert terminal.wait() == OK
    assert chat(blob, "/regen", words=words) == chat(blob, FIRST, words=words[:2])
    assert b"never sent" not in (tmp_path / "saved").read_bytes()


def test_a_full_context_is_said_and_the_chat_goes_on(blob, tmp_path):
    with Terminal(blob, "-n", 4, "--ctx", 60, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        assert "the context is full (60 tokens" in terminal.ask(SECOND * 6)
        assert run(blob, "--chat", FIRST, "-n", 4).stdout.strip() in terminal.ask(FIRST)
        terminal.end()


def test_what_is_forgotten_is_said(blob, tmp_path):
    with Terminal(blob, *SLIDING, XDG_STATE_HOME=str(tmp_path)) as terminal:
        text = terminal.until(PROMPT)
        for question in QUESTIONS[:6]:
            terminal.type(question + "\n")
            text += terminal.until(PROMPT)
        assert re.search(r"\[the context was full: the oldest [246] messages are forgotten\]", shown(text))


def test_lines_are_edited_and_remembered(blob, tmp_path):
    history = tmp_path / "smol/chat_history"
    once = run(blob, "--chat", "Hello there", "-n", 6).stdout.strip()
    with Terminal(blob, "-n", 6, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        terminal.type("there\x01Hello \n")  # Ctrl-A: to the start of the line
        assert once in shown(terminal.until(PROMPT))
        terminal.end()
    assert history.read_text() == "Hello there\n"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert stat.S_IMODE(history.parent.stat().st_mode) == 0o700
    with Terminal(blob, "-n", 6, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        terminal.type(b"\x1b[A\n")  # up
        assert once in shown(terminal.until(PROMPT))
        terminal.type("/quit\n")
        assert terminal.wait() == OK
    assert history.read_text() == "Hello there\nHello there\n/quit\n"


def test_a_history_that_is_too_long_keeps_its_last_entries_whole(blob, tmp_path):
    history = tmp_path / "smol/chat_history"
    history.parent.mkdir()
    history.write_text("x" * (1 << 20) + "\nHello there\n")
    with Terminal(blob, "-n", 6, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        assert history.read_text() == "Hello there\n"
        terminal.type(b"\x1b[A\x1b[A\n")  # up to the first one
        assert run(blob, "--chat", "Hello there", "-n", 6).stdout.strip() in shown(terminal.until(PROMPT))
        terminal.end()
    assert history.read_text() == "Hello there\nHello there\n"


def resize(terminal, columns):
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def test_a_line_is_drawn_anew_in_another_width(blob, tmp_path):
    """A terminal that wraps text again moves the prompt (2 columns), from where the line (79 and 6 columns) is drawn."""
    once = run(blob, "--chat", "x" * 79 + "日本語", "-n", 6).stdout.strip()
    with Terminal(blob, "-n", 6, XDG_STATE_HOME=str(tmp_path), NO_COLOR="1") as terminal:
        terminal.until(PROMPT)
        terminal.type("x" * 79 + "日本語")
        terminal.until("語".encode())
        for columns, rows in ((40, 2), (86, 1), (44, 1), (29, 3), (28, 3)):  # two columns are not parted
            resize(terminal, columns)
            drawn = terminal.until(rb"\r\x1b\[J> x[\s\S]*?" + "語".encode())
            assert (b"\x1b[%dA\r\x1b[J" % rows) in drawn
        assert once in terminal.ask("")


def test_characters_beyond_ascii_are_edited(blob, tmp_path):
    with Terminal(blob, "-n", 1, XDG_STATE_HOME=str(tmp_path), LC_ALL="C") as terminal:
        terminal.until(PROMPT)
        terminal.type("Zoëü\x7f\n")  # the last one is taken back
        terminal.until(PROMPT)
        terminal.end()
    assert (tmp_path / "smol/chat_history").read_text() == "Zoë\n"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": ""}])
def test_there_is_colour_unless_it_is_not_wanted(blob, tmp_path, environment):
    with Terminal(blob, XDG_STATE_HOME=str(tmp_path), **environment) as terminal:
        text = terminal.until(PROMPT)
        assert (text.endswith(b"\x1b[1m>\x1b[0m ")) == (environment == {"NO_COLOR": ""})  # what is typed is plain
        if environment == {"TERM": "dumb"}:
            assert text.endswith(b"\r\n> ") and b"\x1b" not in text


def test_no_home_is_no_reason_to_fail(blob):
    with Terminal(blob, "-n", 1, HOME="/nonexistent") as terminal:
        terminal.until(PROMPT)
        terminal.ask("Hello")
        terminal.end()


EVIL = "\x1b]0;owned\x07\x9b31m\f\x08\x7f."


def byte_level(text):
    """Returns the text as in a vocabulary: bytes that cannot be shown are characters from U+0100 on."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return "".join(chr(b if b in shown else 256 + hidden.index(b)) for b in text.encode())


def parts(merge):
    return merge.split(" ") if isinstance(merge, str) else merge


def test_a_model_cannot_steer_the_terminal(blob, tmp_path):
    """A model whose greedy answer is made of control characters: its tokens' texts are exchanged."""
    source = tmp_path / "model"
    shutil.copytree(ROOT / "demo/model", source)
    path = source / "tokenizer.json"
    data = json.loads(path.read_text())
    answer = int(run(blob, "--chat", FIRST, "-n", 1, "--ids").stdout)
    model = data["model"]
    (name,) = (text for text, number in model["vocab"].items() if number == answer)
    del model["vocab"][name]
    model["vocab"][byte_level(EVIL)] = answer
    model["merges"] = [m for m in model["merges"] if name not in (*parts(m), "".join(parts(m)))]
    path.write_text(json.dumps(data))
    subprocess.run([BUILD / "smolconv", "--quiet", source, tmp_path / "a.smol"], check=True)
    piped = run("chat", tmp_path / "a.smol", "-n", 1, input=FIRST + "\n").stdout
    assert EVIL in piped  # as it is, where nothing is steered
    with Terminal(tmp_path / "a.smol", "-n", 1, XDG_STATE_HOME=str(tmp_path), TERM="dumb") as terminal:
        terminal.until(PROMPT)
        terminal.type(FIRST + "\n")
        text = terminal.until(PROMPT)
        assert "\ufffd]0;owned\ufffd\ufffd31m\ufffd\ufffd\ufffd." in text.decode()
        assert b"\x1b" not in text and b"\x07" not in text and b"\xc2\x9b" not in text


def test_a_session_cannot_steer_the_terminal(blob, tmp_path):
    """A stranger's system message, when it is shown."""
    path = tmp_path / "saved"
    chat(blob, FIRST, words=["--session", path, "--system", EVIL])
    words = ["--session", path]
    with Terminal(blob, *words, XDG_STATE_HOME=str(tmp_path), TERM="dumb") as terminal:
        terminal.until(PROMPT)
        terminal.type("/system\n")
        text = terminal.until(PROMPT)
        assert "\ufffd]0;owned\ufffd\ufffd31m\ufffd\ufffd\ufffd." in text.decode()
        assert b"\x1b" not in text and b"\x07" not in text and b"\xc2\x9b" not in text


def test_a_terminal_needs_no_call_that_the_sandbox_refuses(blob, tmp_path):
    """The chat has editing, a search of the history, another size of the terminal, Ctrl-Z and Ctrl-C."""
    if not traceable():
        pytest.skip("nothing can be traced here")
    (tmp_path / "smol").mkdir()
    (tmp_path / "smol/chat_history").write_text("x" * (1 << 20) + "\nHello there\n")  # to be cut down
    log = tmp_path / "log"
    under = ["strace", "-f", "-qq", "-e", "signal=none", "-o", log]
    words = ["-n", 4, "--slide", "--session", tmp_path / "saved"]
    with Terminal(blob, *words, under=under, XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.until(PROMPT)
        terminal.type("\x12Hello\x1b")
        terminal.until(rb"Hello there")
        resize(terminal, 40)
        terminal.type("\n")
        terminal.until(rb"2004h\x1b\[1m" + PROMPT)  # that of the next line: the new size may redraw this one
        for line in ("dropped\x03", "/save\n", "\x04"):
            terminal.type(line)
            if line != "\x04":
                terminal.until(PROMPT)
        assert terminal.wait() == OK
    assert (tmp_path / "saved").exists()
    assert [call for call in refused_in(log) if not HARMLESS.match(call)] == []


def test_the_program_does_without_libedit(blob):
    """It is neither linked nor loaded unless a chat is at a terminal."""
    needed = subprocess.run(["readelf", "-d", BUILD / "smolrun"], capture_output=True, text=True)
    assert "edit" not in needed.stdout
    traced = subprocess.run(
        ["strace", "-f", "-e", "trace=openat", BUILD / "smolrun", "chat", blob, "-n", "1"],
        input="Hello\n", capture_output=True, text=True,
    )  # fmt: skip
    if "ptrace" in traced.stderr:
        pytest.skip("nothing can be traced here")
    assert traced.returncode == OK and "edit" not in traced.stderr

