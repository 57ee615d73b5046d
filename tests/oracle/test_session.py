"""Sessions through smolrun --session: text goes on to the bit, a prompt that is known is not evaluated
again, and what is no session of this blob is refused and left alone. (Every cut and every flipped bit:
tests/unit/test_session.c.)"""

import json
import os
import stat
import subprocess

import numpy as np
import pytest
import session_reader
from checkpoints import load_reference
from internal import BUILD, CONTEXT_FULL, DAMAGED, FILE, OK, ROOT, UNSUPPORTED
from programs import assert_refuses, smolrun

pytestmark = pytest.mark.quick

TEXT = "Once upon a time"
SAMPLED = ["--temp", "0.9", "--top-k", "50", "--seed", "7", "--repeat-penalty", "1.2"]
LAYERS, HEADS, HEAD_DIM = 6, 2, 28  # of the bundled model


def answer(*words, **options):
    done = smolrun(*words, "--json", **options)
    assert done.returncode == OK, done.stderr
    return json.loads(done.stdout)


def begin_chat(blob, file):
    done = smolrun("chat", blob, "-n", 4, "--session", file, input=b"An earlier question.\n")
    assert done.returncode == OK, done.stderr


@pytest.fixture
def file(tmp_path):
    return tmp_path / "session"


# --- exactness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv", ["f32", "f16", "int8", "int4"])
@pytest.mark.parametrize("sampling", [[], SAMPLED], ids=["greedy", "sampled"])
def test_a_text_in_parts_is_the_text_at_once(blob, file, kv, sampling):
    at_once = answer(blob, TEXT, "-n", 70, "--kv", kv, *sampling)
    ids, text = [], ""
    for i, n in enumerate((1, 30, 0, 2, 37)):
        words = [TEXT if i == 0 else "", "-n", n, "--kv", kv, "--session", file, "--threads", 1 + i % 2]
        part = answer(blob, *words, *(sampling if i == 0 else []))
        ids += part["ids"]
        text += part["text"]
    assert (ids, text) == (at_once["ids"], at_once["text"])


def test_text_after_a_session_follows_it(blob, file):
    first = answer(blob, TEXT, "-n", 5, "--session", file)
    second = answer(blob, " The end", "-n", 9, "--session", file)
    words = ["tokenize", blob]
    after = smolrun(*words, " The end").stdout.split()
    before = smolrun(*words, TEXT).stdout.split()
    assert second["session_tokens"] == len(before) + 4
    assert second["prompt_tokens"] == len(after) + 1
    held = session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM).ids.tolist()
    assert held == [*map(int, before), *first["ids"], *map(int, after), *second["ids"]]


def test_a_prompt_that_begins_with_the_session_is_the_whole_text(blob, file):
    longer = TEXT + ", there was a girl who"
    whole = answer(blob, longer, "-n", 20)
    cached = answer(blob, TEXT, "-n", 0, "--session", file)
    assert cached["ids"] == [] and cached["session_tokens"] == 0
    again = answer(blob, longer, "-n", 20, "--session", file)
    assert again["ids"] == whole["ids"]
    assert again["session_tokens"] == cached["prompt_tokens"]
    assert again["session_tokens"] + again["prompt_tokens"] == whole["prompt_tokens"]


def test_a_prompt_that_is_the_session_takes_one_token(blob, file):
    whole = answer(blob, TEXT, "-n", 20)
    answer(blob, TEXT, "-n", 0, "--session", file)
    again = answer(blob, TEXT, "-n", 20, "--session", file)
    assert again["ids"] == whole["ids"] and again["prompt_tokens"] == 1


def test_settings_come_from_the_session_unless_they_are_given(blob, file):
    def sampler():
        return session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM).header

    answer(blob, TEXT, "-n", 4, "--session", file, *SAMPLED)
    answer(blob, "", "-n", 3, "--session", file, "--top-k", 9)
    header = sampler()
    assert (header["top_k"], header["seed"], header["n_calls"]) == (9, 7, 7)
    assert header["temperature"] == np.float32(0.9)
    answer(blob, "", "-n", 3, "--session", file, "--seed", 8)
    assert (sampler()["seed"], sampler()["n_calls"]) == (8, 3)


def test_all_zeros_but_a_temperature_are_the_library_s_defaults(blob, file):
    """A program may save such a session: in the library, a top_p of 0 means none."""
    answer(blob, TEXT, "-n", 4, "--session", file, "--temp", 1.5)
    saved = file.read_bytes()
    whole = answer(blob, "", "-n", 12, "--session", file)
    file.write_bytes(session_reader.rewritten(saved, LAYERS, HEADS, HEAD_DIM, top_p=0.0))
    assert answer(blob, "", "-n", 12, "--session", file)["ids"] == whole["ids"]


def test_a_full_context_goes_on_in_a_longer_one(blob, file):
    at_once = answer(blob, TEXT, "-n", 60)
    done = smolrun(blob, TEXT, "-n", 60, "--ctx", 24, "--session", file, "--ids")
    assert done.returncode == CONTEXT_FULL
    first = [int(word) for word in done.stdout.split()]
    assert_refuses(smolrun(blob, "", "--ctx", 23, "--session", file), CONTEXT_FULL, "24 tokens")
    rest = answer(blob, "", "-n", 60 - len(first), "--session", file)
    assert first + rest["ids"] == at_once["ids"]


# --- what is in it --------------------------------------------------------------------------------


@pytest.mark.parametrize("kv, tolerance", [("f32", 2e-4), ("f16", 2e-2), ("int8", 0.15), ("int4", 1)])
def test_keys_and_values_are_those_of_transformers(demo_blob, file, kv, tolerance):
    import torch

    blob = demo_blob("f32")
    text = (TEXT + ", there was a little girl named Lily. ") * 8
    answer(blob, text, "-n", 0, "--kv", kv, "--session", file)
    session = session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM)
    with torch.inference_mode():
        ids = torch.tensor([session.ids.tolist()])
        cache = load_reference(ROOT / "demo/model")(ids, use_cache=True).past_key_values
    n_blocks = -(-ids.shape[1] // 64)
    assert n_blocks > 1 and len(session.records) == n_blocks * LAYERS * HEADS
    for layer in range(LAYERS):
        held = [
            np.stack(
                [
                    np.concatenate(
                        [session.records[(b * LAYERS + layer) * HEADS + head][part] for b in range(n_blocks)]
                    )
                    for head in range(HEADS)
                ]
            )
            for part in (0, 1)
        ]
        expected = [cache.layers[layer].keys, cache.layers[layer].values]
        for got, reference in zip(held, expected, strict=True):
            assert np.abs(got - reference[0].numpy()).max() < tolerance * reference.abs().max()


def test_the_header_says_what_it_belongs_to(blob, file):
    answer(blob, TEXT, "-n", 6, "--session", file, "--kv", "int8")
    header = session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM).header
    assert header["front_digest"] == int.from_bytes(blob.read_bytes()[8:16], "little")
    assert header["file_size"] == blob.stat().st_size
    assert header["n_ids"] == header["n_positions"] + 1
    assert (header["kv"], header["n_calls"], header["seed"]) == (3, 6, 42)


def test_the_same_run_gives_the_same_bytes_on_every_kernel_set(blob, tmp_path):
    for i, isa in enumerate(("scalar", "")):
        environment = {**os.environ, "SMOL_ISA": isa} if isa else None
        words = [TEXT, "-n", 20, "--session", tmp_path / str(i), "--threads", 1 + i]
        assert smolrun(blob, *words, env=environment).returncode == OK
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes()


# --- refused --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(blob, tmp_path_factory):
    path = tmp_path_factory.mktemp("session") / "good"
    answer(blob, TEXT, "-n", 3, "--session", path)
    return path.read_bytes()


def assert_left_alone(blob, file, data, status, *parts, words=()):
    file.write_bytes(data)
    assert_refuses(smolrun(blob, "", "--session", file, *words), status, str(file), *parts)
    assert file.read_bytes() == data
    assert os.listdir(file.parent) == [file.name]


def test_what_is_no_session_is_left_alone(blob, file, good):
    for data in (b"", b"notes\n", b"\x89PNG\r\n\x1a\n" + bytes(200), blob.read_bytes()[:4096]):
        assert_left_alone(blob, file, data, DAMAGED, "not a session")


def test_damaged_sessions_are_refused(blob, file, good):
    for size in (8, 90, 96, 100, len(good) // 2, len(good) - 1):
        assert_left_alone(blob, file, good[:size], DAMAGED, "ends too early")
    assert_left_alone(blob, file, good + b"\0", DAMAGED, "after its end")
    for at in range(16, len(good), 97):
        flipped = good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :]
        assert_left_alone(blob, file, flipped, DAMAGED, "digest")


def test_sessions_of_others_are_refused(blob, demo_blob, file, good):
    other = demo_blob("bf16")
    assert_left_alone(other, file, good, UNSUPPORTED, "a blob other than")
    assert_left_alone(blob, file, good, UNSUPPORTED, "f16, not int8", words=["--kv", "int8"])
    edited = session_reader.edited
    assert_left_alone(blob, file, edited(good, major=2), UNSUPPORTED, "version 2.0")
    assert_left_alone(blob, file, edited(good, minor=2), UNSUPPORTED, "version 1.2")


def test_sizes_that_are_made_up_cost_nothing(blob, file, good):
    for changes in (
        {"n_ids": 2**32 - 1, "n_positions": 2**32 - 1},
        {"n_ids": 2**32 - 1},
        {"n_data": 2**32 - 1},
        {"n_data": 2**26},
        {"n_ids": 512, "n_positions": 512},
    ):
        status = CONTEXT_FULL if changes.get("n_positions", 0) > 512 else DAMAGED
        assert_left_alone(blob, file, session_reader.edited(good, **changes), status)


# --- files ----------------------------------------------------------------------------------------


def test_only_its_owner_may_read_it(blob, file):
    for _ in range(2):
        answer(blob, TEXT, "-n", 1, "--session", file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(file.parent) == [file.name]


def test_places_where_no_file_can_be_are_refused(blob, tmp_path):
    assert_refuses(smolrun(blob, TEXT, "--session", tmp_path), FILE, "not a regular file")
    os.mkfifo(tmp_path / "pipe")
    done = smolrun(blob, TEXT, "--session", tmp_path / "pipe")
    assert_refuses(done, FILE, "not a regular file")
    # before anything is computed, as it would be lost
    done = smolrun(blob, TEXT, "-n", 1, "--session", tmp_path / "missing/session")
    assert_refuses(done, FILE, "missing/session: cannot create")
    assert_refuses(smolrun(blob, TEXT, "-n", 1, "--session", ""), FILE, "empty name")


def test_a_link_stays_and_what_it_leads_to_is_the_session(blob, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "here/link", tmp_path / "there/session"
    answer(blob, TEXT, "-n", 5, "--session", target)
    link.symlink_to("../there/second")
    (tmp_path / "there/second").symlink_to("session")
    answer(blob, "", "-n", 5, "--session", link)
    at_once = tmp_path / "at once"
    answer(blob, TEXT, "-n", 10, "--session", at_once)
    assert target.read_bytes() == at_once.read_bytes() and not target.is_symlink()
    assert os.readlink(link) == "../there/second" and os.listdir(tmp_path / "here") == ["link"]
    begin_chat(blob, tmp_path / "chat")
    (tmp_path / "chat").replace(target)
    said = smolrun("chat", blob, "--session", link, input=b"/save\n/save other\n")
    assert said.stdout.decode() == f"saved to {target}\nsaved to {tmp_path}/there/other\n"
    assert link.is_symlink() and sorted(os.listdir(tmp_path / "there")) == ["other", "second", "session"]


@pytest.mark.parametrize("to", ["nowhere", "link"])
def test_a_link_that_leads_nowhere_is_refused_before_anything_is_said(blob, tmp_path, to):
    (tmp_path / "link").symlink_to(to)
    for command in ([], ["chat"]):
        result = smolrun(*command, blob, *([] if command else [TEXT]), "--session", tmp_path / "link", input=b"Hi\n")
        assert_refuses(result, FILE, "link: ", "a link that leads nowhere" if to == "nowhere" else "cannot look for it")
    assert os.listdir(tmp_path) == ["link"]



def test_a_run_that_fails_saves_nothing(blob, file, good):
    file.write_bytes(good)
    assert smolrun(blob, TEXT * 200, "--session", file).returncode == CONTEXT_FULL
    assert file.read_bytes() == good


def test_an_empty_prompt_starts_from_bos_where_there_is_no_session(blob, file):
    assert answer(blob, "", "-n", 9, "--session", file)["ids"] == answer(blob, "", "-n", 9)["ids"]


# --- several processes ----------------------------------------------------------------------------


class Chat:
    """smolrun chat with a session, one message at a time: a process that lives as long as a test wants."""

    def __init__(self, blob, file):
        self.process = subprocess.Popen(
            [BUILD / "smolrun", "chat", blob, "-n", "4", "--stop", "\n", "--session", file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def end(self):
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def test_a_session_in_use_is_refused(blob, file):
    begin_chat(blob, file)
    chat = Chat(blob, file)
    assert chat.say("First question.")
    for words in ([blob, "", "-n", 3], ["chat", blob]):  # the second process says nothing and changes nothing
        before = file.read_bytes()
        done = smolrun(*words, "--session", file, input=b"Second question.\n")
        assert_refuses(done, FILE, f"{file}: another process uses this session")
        assert file.read_bytes() == before
    chat.say("/save")  # by another file in its place, which is in use just so
    assert_refuses(smolrun(blob, "", "-n", 3, "--session", file), FILE, "another process uses this session")
    assert chat.end() == (OK, "") and b"First question." in file.read_bytes()
    assert smolrun("chat", blob, "--session", file).returncode == OK
    assert os.listdir(file.parent) == [file.name]


def test_a_session_that_another_process_began_is_kept_beside_it(blob, file):
    chat = Chat(blob, file)
    chat.say("First question.")
    done = smolrun("chat", blob, "-n", 4, "--session", file, input=b"Second question.\n")
    assert done.returncode == OK, done.stderr
    theirs = file.read_bytes()
    status, errors = chat.end()
    moved = file.with_name("session.2")
    assert (status, file.read_bytes()) == (FILE, theirs) and b"Second question." in theirs
    assert errors == f"smolrun: {file}: another process has saved a session there meanwhile: this one is in {moved}\n"
    assert b"First question." in moved.read_bytes() and stat.S_IMODE(moved.stat().st_mode) == 0o600


def test_a_session_that_has_moved_is_saved_there_from_then_on(blob, file):
    file.with_name("session.2").write_text("notes")  # a name that is taken
    chat = Chat(blob, file)
    chat.say("First question.")
    answer(blob, TEXT, "-n", 3, "--session", file)
    theirs, moved = file.read_bytes(), file.with_name("session.3")
    chat.process.stdin.write("/save\nThird question.\n/save\n")
    status, errors = chat.end()
    assert status == OK and errors.count("\n") == 1 and str(moved) in errors
    assert file.read_bytes() == theirs and b"Third question." in moved.read_bytes()
    assert sorted(os.listdir(file.parent)) == ["session", "session.2", "session.3"]


def test_a_session_that_is_replaced_in_use_is_kept_beside_it(blob, file):
    """The program that replaces it ignores locks."""
    begin_chat(blob, file)
    chat = Chat(blob, file)
    chat.say("First question.")
    other = file.with_name("other")
    answer(blob, TEXT, "-n", 5, "--session", other)
    other.replace(file)
    theirs = file.read_bytes()
    assert chat.end()[0] == FILE and file.read_bytes() == theirs
    assert b"First question." in file.with_name("session.2").read_bytes()


def test_of_many_processes_none_loses_what_another_has_saved(blob, file):
    """Each adds 3 tokens, or fails and tells where its own are: the sum is known, whatever the order."""
    answer(blob, TEXT, "-n", 1, "--session", file)
    n = len(session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM).ids)
    words = [BUILD / "smolrun", blob, "", "-n", "3", "--temp", "2", "--session", file]
    for _ in range(4):
        processes = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
        n += 3 * [process.wait(60) for process in processes].count(OK)
        assert len(session_reader.read(file.read_bytes(), LAYERS, HEADS, HEAD_DIM).ids) == n


# --- chats ----------------------------------------------------------------------------------------


def test_a_chat_evaluates_only_what_the_session_lacks(blob, file):
    words = ["--chat", "--system", "You answer in few words.", "-n", 12]
    alone = answer(blob, "Name a fruit.", *words)
    answer(blob, "Name a city.", *words, "--session", file)
    cached = answer(blob, "Name a fruit.", *words, "--session", file)
    assert cached["ids"] == alone["ids"]
    assert cached["session_tokens"] + cached["prompt_tokens"] == alone["prompt_tokens"]
    assert cached["prompt_tokens"] < alone["prompt_tokens"] / 2
