"""smolrun from outside: every command, option and exit status, on the bundled model."""

import json
import os
import re
import shutil
import socket
import subprocess

import numpy as np
import pytest
from blobs import spoiled
from internal import BUILD, CONTEXT_FULL, DAMAGED, FILE, MEMORY, OK, ROOT, UNSUPPORTED, USAGE
from programs import assert_fails, assert_refuses, limited, on_terminal, smolrun, wiped

pytestmark = pytest.mark.quick

PROMPT = "Once upon a time"
STOP_ID = 0  # of the bundled model, its bos too
VOCABULARY, CONTEXT = 1990, 512


def output(*arguments, **options):
    result = smolrun(*arguments, **options)
    assert result.returncode == OK, result.stderr
    assert result.stderr == b""
    return result.stdout.decode()


@pytest.fixture(scope="module")
def greedy(blob):
    """The greedy text that many tests vary."""
    return json.loads(output(blob, PROMPT, "-n", 60, "--json"))


# --- generating -------------------------------------------------------------------------------


def test_prints_the_completion_and_one_newline(blob, greedy):
    assert output(blob, PROMPT, "-n", 60) == greedy["text"] + "\n"


def test_the_public_interface_is_all_that_the_program_needs(blob, greedy):
    """The program works with the shared library, which exports nothing else."""
    shared = BUILD / "tests/smolrun-shared"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(shared.parent)}
    needed = subprocess.run(["readelf", "--wide", "--dynamic", shared], check=True, capture_output=True).stdout
    assert b"Shared library: [libsmol.so.0]" in needed
    done = subprocess.run([shared, blob, PROMPT, "-n", "20", "--ids"], env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (OK, b"")
    assert list(map(int, done.stdout.split())) == greedy["ids"][:20]


def test_ids_are_on_one_line(blob, greedy):
    assert output(blob, PROMPT, "-n", 60, "--ids") == " ".join(map(str, greedy["ids"])) + "\n"


def test_json_has_text_ids_reason_counts_and_timings(greedy, demo_tokenizer):
    assert set(greedy) == {
        "text", "ids", "finish_reason", "prompt_tokens", "completion_tokens", "timings",
    }  # fmt: skip
    assert demo_tokenizer.decode(greedy["ids"], skip_special_tokens=True) == greedy["text"]
    assert greedy["finish_reason"] == "length"
    assert greedy["prompt_tokens"] == len(demo_tokenizer.encode(PROMPT).ids)
    assert greedy["completion_tokens"] == len(greedy["ids"]) == 60
    assert set(greedy["timings"]) == {
        "load_ms", "first_token_ms", "prefill_tokens_per_second", "decode_tokens_per_second",
    }  # fmt: skip
    assert all(value > 0 for value in greedy["timings"].values())


def test_default_is_greedy_and_at_most_256_tokens(blob, greedy):
    result = json.loads(output(blob, PROMPT, "--json"))
    assert result["ids"][:60] == greedy["ids"]
    assert result["completion_tokens"] == 256 or result["finish_reason"] == "stop"


def test_f32_blob_continues_as_transformers_does(demo_blob, demo_tokenizer):
    import torch
    from transformers import AutoModelForCausalLM

    folder = ROOT / "demo/model"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for prompt in (PROMPT, "Hello", "Anna the baker"):
        ids = demo_tokenizer.encode(prompt).ids
        expected = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=50)
        expected = expected[0, len(ids) :].tolist()
        found = list(map(int, output(demo_blob("f32"), prompt, "-n", 50, "--ids").split()))
        assert found == [id for id in expected if id != STOP_ID]


def test_no_limit_ends_with_the_model_s_stop_token(blob):
    result = json.loads(output(blob, PROMPT, "-n", -1, "--json"))
    assert result["finish_reason"] == "stop"
    assert STOP_ID not in result["ids"]
    assert "<|endoftext|>" not in result["text"]


def test_no_tokens_are_no_text(blob):
    assert output(blob, PROMPT, "-n", 0) == "\n"
    result = json.loads(output(blob, PROMPT, "-n", 1, "--json"))
    assert result["completion_tokens"] == 1
    assert result["timings"]["decode_tokens_per_second"] is None


def test_a_seed_repeats_and_another_differs(blob):
    def sampled(*options):
        return output(blob, PROMPT, "-n", 40, "--temp", "1.2", *options)

    assert sampled("--seed", 7) == sampled("--seed", 7)
    assert sampled("--seed", 7) != sampled("--seed", 8)
    assert sampled() == sampled("--seed", 42)


@pytest.mark.parametrize(
    "options", [("--top-k", 1), ("--top-p", 0), ("--top-p", "1e-6"), ("--min-p", 1)]
)
def test_filters_that_leave_the_best_token_are_greedy(blob, greedy, options):
    assert output(blob, PROMPT, "-n", 60, "--temp", 3, *options) == greedy["text"] + "\n"


@pytest.mark.parametrize("options", [("--top-k", 0), ("--top-p", 1), ("--min-p", 0)])
def test_filters_that_leave_everything_change_nothing(blob, options):
    arguments = blob, PROMPT, "-n", 40, "--temp", 1
    assert output(*arguments, *options) == output(*arguments)


def test_repeat_penalty_weakens_what_was_there(blob, greedy):
    assert output(blob, PROMPT, "-n", 60, "--repeat-penalty", 1) == greedy["text"] + "\n"
    ids = output(blob, PROMPT, "-n", 60, "--repeat-penalty", "1e30", "--ids").split()
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_do_not_change_the_text(blob, greedy, threads):
    assert output(blob, PROMPT, "-n", 60, "--threads", threads) == greedy["text"] + "\n"


@pytest.mark.parametrize(
    "options",
    [
        ("--no-mmap",),
        ("--verify", "first"),
        ("--verify", "open"),
        ("--verify", "off"),
        ("--kv", "f16"),
    ],
)
def test_how_the_blob_is_read_does_not_change_the_text(blob, greedy, options):
    assert output(blob, PROMPT, "-n", 60, *options) == greedy["text"] + "\n"


def test_kernel_sets_do_not_change_the_text(blob, greedy):
    environment = {**os.environ, "SMOL_ISA": "scalar"}
    assert output(blob, PROMPT, "-n", 60, env=environment) == greedy["text"] + "\n"


@pytest.mark.parametrize("kv", ["f32", "f16", "int8", "int4"])
def test_every_kv_type_runs(blob, kv):
    assert len(output(blob, PROMPT, "-n", 20, "--kv", kv, "--ids").split()) == 20


# --- stop strings -----------------------------------------------------------------------------


def test_text_ends_before_the_first_stop_string(blob, greedy):
    text = greedy["text"]
    for stop in (text[10:18], text[25:27], text[-9:-2]):
        result = json.loads(
            output(blob, PROMPT, "-n", 60, "--json", "--stop", stop, "--stop", "@@")
        )
        assert result["text"] == text[: text.index(stop)]
        assert result["finish_reason"] == "stop"
    assert output(blob, PROMPT, "-n", 60, "--stop", "absent") == text + "\n"


def test_a_stop_string_that_does_not_complete_is_printed(blob, greedy):
    stop = greedy["text"][-4:] + "?!"
    assert output(blob, PROMPT, "-n", 60, "--stop", stop) == greedy["text"] + "\n"


def test_an_empty_or_broken_stop_string_is_wrong_usage(blob):
    assert_fails(smolrun(blob, PROMPT, "--stop", ""), USAGE, "stop string", "empty")
    result = smolrun(blob, PROMPT, "--stop", os.fsdecode(b"\xff"))
    assert_fails(result, USAGE, "UTF-8")


# --- prompts ----------------------------------------------------------------------------------


def test_prompt_from_standard_input_is_taken_as_it_is(blob, greedy):
    assert output(blob, "-", "-n", 60, input=PROMPT.encode()) == greedy["text"] + "\n"
    with_newline = json.loads(output(blob, "-", "-n", 1, "--json", input=b"Hello\n"))
    without = json.loads(output(blob, "Hello", "-n", 1, "--json"))
    assert with_newline["prompt_tokens"] == without["prompt_tokens"] + 1


def test_an_empty_prompt_starts_from_bos(blob):
    for result in (
        output(blob, "", "-n", 5, "--json"),
        output(blob, "-", "-n", 5, "--json", input=b""),
        output(blob, "<|endoftext|>", "-n", 5, "--json"),
    ):
        assert json.loads(result)["prompt_tokens"] == 1
    assert output(blob, "", "-n", 5) == output(blob, "<|endoftext|>", "-n", 5)


def test_an_empty_prompt_without_bos_is_wrong_usage(tmp_path, blob):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (ROOT / "demo/model").iterdir():
        (folder / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps({**config, "bos_token_id": None}))
    out = tmp_path / "no-bos.smol"
    subprocess.run([BUILD / "smolconv", "--quiet", folder, out], check=True)
    assert_fails(smolrun(out, ""), USAGE, "bos")
    assert smolrun(out, PROMPT, "-n", "3").returncode == OK


def test_a_prompt_after_two_dashes_may_look_like_an_option(blob):
    assert output("-n", 3, "--", blob, "--json") == output(blob, "-n", 3, "-", input=b"--json")


def test_prompt_bytes_that_are_not_utf8_are_replaced_with_a_warning(blob):
    broken = smolrun(blob, "-", "-n", 5, input=b"a\xff\xe2\x82b")
    assert broken.returncode == OK
    assert broken.stderr.startswith(b"smolrun: warning: ")
    assert b"not UTF-8 (from byte 1 on)" in broken.stderr
    assert broken.stdout.decode() == output(blob, "a\ufffd\ufffdb", "-n", 5)


def test_standard_input_that_cannot_be_read_is_a_file_error(blob, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    assert_fails(smolrun(blob, "-", stdin=folder), FILE, "standard input")
    os.close(folder)


# --- the end of the context -------------------------------------------------------------------


def test_a_full_context_ends_the_text_with_status_8(blob, greedy):
    result = smolrun(blob, PROMPT, "--ctx", 20)
    assert_fails(result, CONTEXT_FULL, "context is full")
    text = result.stdout.decode()
    assert text.endswith("\n") and len(text) > 20 and greedy["text"].startswith(text[:-1])

    result = smolrun(blob, PROMPT, "--ctx", 20, "--json")
    assert_fails(result, CONTEXT_FULL)
    document = json.loads(result.stdout)
    assert document["finish_reason"] == "context_full"
    # the last token needs no place
    assert document["prompt_tokens"] + document["completion_tokens"] == 21


def test_a_prompt_longer_than_the_context_is_status_8(blob):
    result = smolrun(blob, PROMPT, "--ctx", 2)
    assert_fails(result, CONTEXT_FULL)
    assert result.stdout == b""
    assert_fails(smolrun(blob, PROMPT * 1000), CONTEXT_FULL)


def test_a_context_longer_than_the_model_s_is_wrong_usage(blob):
    assert_fails(smolrun(blob, PROMPT, "--ctx", CONTEXT + 1), USAGE, str(CONTEXT))
    assert smolrun(blob, PROMPT, "--ctx", CONTEXT, "-n", 1).returncode == OK


def recommended(tmp_path, **values):
    """The bundled model with a generation_config.json that recommends how to sample."""
    source = shutil.copytree(ROOT / "demo/model", tmp_path / "checkpoint")
    path = source / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    subprocess.run([BUILD / "smolconv", "--quiet", source, tmp_path / "a.smol"], check=True)
    return tmp_path / "a.smol"


def test_model_defaults_are_those_of_generation_config_and_options_win(tmp_path):
    blob = recommended(tmp_path, do_sample=True, temperature=0.9, top_k=30, top_p=0.9, repetition_penalty=1.1)
    full = ["--temp", "0.9", "--top-k", 30, "--top-p", "0.9", "--repeat-penalty", "1.1", "--seed", 5]
    assert output(blob, PROMPT, "--model-defaults", "--seed", 5) == output(blob, PROMPT, *full)
    assert output(blob, PROMPT) == output(blob, PROMPT, "--temp", 0) != output(blob, PROMPT, *full)
    for words in (["--temp", "0.4"], ["--top-k", 3], ["--seed", 6], ["--top-p", "0.5"]):
        assert output(blob, PROMPT, *words, "--seed", 5, "--model-defaults") == output(
            blob, PROMPT, *full[:-2], *words, "--seed", 5
        )
    requests = b'{"prompt": "Once upon a time"}\n{"prompt": "Once upon a time", "temperature": 0.4}\n'
    found = [json.loads(line)["text"] for line in output(
        blob, "--jsonl", "--model-defaults", "--seed", 5, input=requests).splitlines()]  # fmt: skip
    assert [text + "\n" for text in found] == [output(blob, PROMPT, *full), output(blob, PROMPT, *full, "--temp", "0.4")]
    explained = json.loads(output("explain", blob, PROMPT, "--model-defaults", "--seed", 5, "--json"))
    assert [token["id"] for token in explained["tokens"]] == json.loads(
        output(blob, PROMPT, *full, "-n", 32, "--json"))["ids"]  # fmt: skip


def test_model_defaults_without_recommendations_are_greedy(blob, greedy):
    assert output(blob, PROMPT, "-n", 60, "--model-defaults") == greedy["text"] + "\n"


def test_a_terminal_is_told_how_far_a_long_prompt_is_read(blob):
    """Once reading takes more than a second: each look at the clock does, or none."""
    words = (blob, "Once " * 200, "-n", 2, "--threads", 1)
    slow, fast = ({"LD_PRELOAD": str(BUILD / "tests/clock.so"), "CLOCK_STEP": step} for step in "10")
    drawn, rest = wiped(on_terminal(words, errors=subprocess.STDOUT, **slow))
    n = len(output("tokenize", blob, "Once " * 200).split())
    counts = [int(re.fullmatch(rf"reading the prompt: (\d+) of {n} tokens", text)[1]) for text in drawn]
    assert counts and counts == sorted(set(counts)) and 0 < counts[-1] < n
    assert rest == output(*words)
    assert "reading" not in on_terminal(words, errors=subprocess.STDOUT, **fast)
    assert smolrun(*words, env={**os.environ, **slow}).stderr == b""


# --- usage ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["tokenize"], ["logits"], ["bench"], ["perplexity"], ["explain"]])
def test_help_and_version(command):
    for word in ("--help", "-h"):
        text = output(*command, word)
        assert text.startswith(" ".join(["usage: smolrun", *command]))
        assert max(map(len, text.splitlines())) <= 100
    assert re.fullmatch(r"smolrun \d+\.\d+\.\d+\n", output(*command, "--version"))


@pytest.mark.parametrize("command", [[], ["tokenize"], ["logits"], ["bench"]])
def test_without_arguments_usage_goes_to_standard_error(command):
    result = smolrun(*command)
    assert result.returncode == USAGE
    assert result.stdout == b"" and result.stderr.startswith(b"usage: smolrun")


def test_without_arguments_and_with_help_the_commands_are_listed():
    text = output("help")
    assert smolrun().stderr.decode() == text
    commands = re.findall(r"^  smolrun ([a-z]+)", text, re.M)
    files = (ROOT / "smolrun").rglob("command_*.c")
    assert set(commands) == {file.stem.removeprefix("command_") for file in files} - {"generate"}


def test_help_names_every_option_and_no_other():
    options = """-n --model-defaults --temp --top-k --top-p --min-p --repeat-penalty --seed --stop
        --json-schema --regex --grammar --choices --json-space --any-order --ctx --slide
        --keep --lookup --threads --kv --chat --system --template-arg --reasoning-budget --session --jsonl --sequences --ids --json --stats --verify
        --no-mmap --require-digest --sandbox -h --version""".split()
    assert re.findall(r"^  (--?[a-z-]+)", output("--help"), re.M) == options


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["--temp", "x"], ["--temp: ", '"x" is not a number']),
        (["--temp", "-1"], ["--temp: ", "out of range"]),
        (["--temp", "nan"], ["--temp: "]),
        (["--temp", "0x1p3"], ["--temp: "]),
        (["--temp"], ["--temp: ", "missing"]),
        (["--top-k", "-1"], ["--top-k: "]),
        (["--top-p", "1.01"], ["--top-p: ", "from 0 to 1"]),
        (["--min-p", "2"], ["--min-p: "]),
        (["--repeat-penalty", "0"], ["--repeat-penalty: ", "above 0"]),
        (["--seed", "1.5"], ["--seed: "]),
        (["--seed", "18446744073709551616"], ["--seed: "]),
        (["-n", "-2"], ["-n: ", "from 0 to 4294967295, nor -1"]),
        (["-n", "many"], ["-n: "]),
        (["-n"], ["-n: ", "missing"]),
        (["--ctx", "0"], ["--ctx: "]),
        (["--threads", "0"], ["--threads: "]),
        (["--threads", "257"], ["--threads: "]),
        (["--kv", "f64"], ["--kv: ", "f32, f16, int8, int4"]),
        (["--verify", "never"], ["--verify: ", "first, open, off"]),
        (["--json=1"], ["--json: ", "takes no value"]),
        (["--unknown"], ["--unknown: unknown option"]),
        (["--unknown=3"], ["--unknown"]),
        (["--no-mm"], ["--no-mm: unknown option: write --no-mmap"]),
        (["--n", "3"], ["--n: unknown option: write -n"]),
        (["--see=3"], ["--see: unknown option: write --seed"]),
        (["--vers"], ["--vers: unknown option: write --version"]),
        (["-x"], ["-x: unknown option: see --help"]),
        (["--temperature", "1"], ["--temperature: unknown option: write --temp"]),
        (["--max-tokens=3"], ["--max-tokens: unknown option: write -n"]),
        (["-sys", "x"], ["-sys: unknown option: write --system"]),
        (["-m", "x"], ["-m: unknown option: write FILE.smol alone"]),
        (["--sead", "3"], ["--sead: unknown option: write --seed"]),
        (["-n", "3", "-é"], ["smolrun: -é: unknown option"]),
        (["-n", "3", "-ix"], ["-i: unknown option"]),
        (["--system", "x"], ["--system is for a chat"]),
        (["--template-arg", "x=1"], ["--template-arg is for a chat"]),
        (["--chat", "--template-arg", "x"], ['--template-arg "x": must be NAME=JSON']),
        (["--chat", "--template-arg", "x=False"], ["--template-arg x: not valid JSON: ", "(byte 0)"]),
        (["--chat", "--template-arg", 'x=1, "y": 2'], ["--template-arg x: not valid JSON: ", "(byte 1)"]),
        (["--chat", "--template-arg", '=1'], ['--template-arg "=1": must be NAME=JSON']),
        (["--chat", "--template-arg", '1x=1'], ["must be NAME=JSON"]),
        *((["--chat", "--template-arg", f"{name}=[]"], [f"variable {name} belongs to the conversation"])
          for name in ("messages", "tools", "documents", "add_generation_prompt")),
        (["upon", "a"], ["one argument too many", "quotes around a text with spaces"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_wrong_usage_is_named(blob, arguments, parts):
    result = smolrun(blob, "Once", *arguments)
    assert_fails(result, USAGE, *parts)
    assert result.stdout == b""


@pytest.mark.parametrize("words", [["--system", "x"], ["--template-arg", "x=1"]])
def test_options_of_a_chat_need_one_in_a_session_too(blob, tmp_path, words):
    session = ["-n", 1, "--session", tmp_path / "saved"]
    output(blob, PROMPT, *session)
    assert_fails(smolrun(blob, "and", *session, *words), USAGE, f"{words[0]} is for a chat")


def test_a_command_that_there_is_not_is_named(blob, tmp_path):
    said = "foo: no such file or command: smolrun --help lists the commands"
    assert_fails(smolrun("foo", blob, "hi"), USAGE, said)
    for words in (["foo"], ["foo", blob], ["foo", "--json", "hi"], ["--jsonl", "foo"]):
        assert_fails(smolrun(*words), FILE, said)
    for word in ("./foo", "foo.smol", "-", ""):
        assert_fails(smolrun("--", word, "hi"), FILE, f"{word}: cannot open")
    assert_fails(smolrun("bench", "foo"), FILE, "foo: cannot open")
    assert_fails(smolrun(blob, "hi", "you"), USAGE, "one argument too many")
    (tmp_path / "foo").symlink_to(blob)
    assert smolrun("foo", PROMPT, "-n", 1, cwd=tmp_path).returncode == OK


def test_a_missing_prompt_or_file_is_wrong_usage(blob):
    assert_fails(smolrun(blob), USAGE, "prompt")
    assert_fails(smolrun("--json"), USAGE, "FILE.smol")
    assert_fails(smolrun("bench", "--json"), USAGE, "FILE.smol")


@pytest.mark.parametrize(
    "words",
    ["{blob} - --json-schema -", "{blob} - --grammar -", "{blob} --jsonl --json-schema -", "chat {blob} --grammar -",
     "perplexity {blob} - --kl-from -", "calibrate {blob} x - y - -o {blob}.stats"],
)  # fmt: skip
def test_standard_input_is_read_only_once(blob, words):
    """A second reader would find it empty."""
    result = smolrun(*words.format(blob=blob).split(), input=b"{}")
    assert_refuses(result, USAGE, "standard input can be read only once")


def test_too_many_stop_strings_are_wrong_usage(blob):
    assert_fails(smolrun(blob, "x", *["--stop", "y"] * 65), USAGE, "--stop: ")
    assert smolrun(blob, "x", "-n", 1, *["--stop", "y"] * 64).returncode == OK


def test_numbers_are_read_the_same_in_every_locale(blob):
    arguments = blob, PROMPT, "-n", 20, "--temp", "0.5"
    foreign = {**os.environ, "LC_ALL": "de_DE.UTF-8"}
    assert output(*arguments, env=foreign) == output(*arguments)
    assert_fails(smolrun(blob, PROMPT, "--temp", "0,5", env=foreign), USAGE)


# --- files ------------------------------------------------------------------------------------


def test_a_missing_file_is_status_3(tmp_path):
    assert_fails(smolrun(tmp_path / "no.smol", "x"), FILE, "no.smol")
    assert_fails(smolrun("chatter", "x"), FILE, "chatter: ")  # not a sub-command: a file
    assert_fails(smolrun(tmp_path, "x"), FILE, "folder")


@pytest.mark.parametrize("option", ["--verify=first", "--verify=open", "--no-mmap"])
def test_a_damaged_blob_is_status_4(blob, tmp_path, option):
    damaged = spoiled(blob, tmp_path / "damaged.smol", -5000)
    assert_fails(smolrun(damaged, PROMPT, option), DAMAGED, "damaged.smol")
    damaged.write_bytes(blob.read_bytes()[: blob.stat().st_size // 2])
    assert_fails(smolrun(damaged, PROMPT, option), DAMAGED, "damaged.smol")
    damaged.write_bytes(b"")
    assert_fails(smolrun(damaged, PROMPT, option), DAMAGED, "damaged.smol")


def test_the_stack_that_is_needed_is_checked_and_suffices(blob):
    def with_stack(kib, *words, **options):
        return smolrun(*words, preexec_fn=limited("STACK", kib << 10), **options)

    said = "the stack is limited to 64 KiB, but 128 KiB are needed: raise the limit (ulimit -s 8192)"
    assert_fails(with_stack(64, blob, "Once"), MEMORY, said)
    nested = {"role": "user", "content": "Once", "x": json.loads("[" * 50 + "1" + "]" * 50)}
    requests = [{"messages": [nested], "max_tokens": 4}, {"prompt": "Once " * 200, "max_tokens": 4, "logprobs": 20}]
    text = "\n".join(map(json.dumps, requests * 30)).encode()
    done = with_stack(128, blob, "--jsonl", "--sequences", 64, "--threads", 3, input=text)
    assert done.returncode == OK and b'"error"' not in done.stdout
    for words in (["--chat", "Once"], ["Once " * 200], ["Once", "--json"]):
        assert with_stack(128, blob, *words, "-n", 4, "--threads", 3).returncode == OK
    for words in (["explain", blob, "Once", "-n", 4], ["bench", blob, "-p", 256, "-n", 4, "--sequences", 64],
                  ["perplexity", blob, "-"], ["tokenize", blob, "Once " * 1000], ["chat", blob, "-n", 4]):  # fmt: skip
        assert with_stack(128, *words, input=b"Once upon a time " * 50).returncode == OK


def test_an_unknown_kernel_set_fails(blob):
    result = smolrun(blob, PROMPT, env={**os.environ, "SMOL_ISA": "none"})
    assert result.returncode in (USAGE, UNSUPPORTED) and b"SMOL_ISA" in result.stderr


def test_a_full_disk_is_status_3(blob):
    for arguments in ([PROMPT], [PROMPT, "--json"], [PROMPT, "--ids"]):
        with open("/dev/full", "wb") as full:
            command = [BUILD / "smolrun", blob, *arguments]
            result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120)
        assert_fails(result, FILE, "standard output")
    with open("/dev/full", "wb") as full:
        command = [BUILD / "smolrun", "tokenize", blob, "x"]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=120)
    assert_fails(result, FILE, "standard output")


def test_a_reader_that_goes_away_is_status_3_without_words(blob):
    """It is gone before the first word: later, the program might be done before we are."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [BUILD / "smolrun", blob, PROMPT, "-n", "-1"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=120)
    os.close(writer)
    assert result.returncode == FILE
    assert result.stderr == b""


def test_text_is_streamed(blob):
    """Each write stays a message of its own, so this does not depend on who is faster."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader:
        with writer:
            process = subprocess.Popen(
                [BUILD / "smolrun", blob, PROMPT, "-n", "100"], stdout=writer
            )
        pieces = []
        while piece := reader.recv(65536):
            pieces.append(piece)
    assert process.wait() == OK
    assert len(pieces) > 50
    for piece in pieces:
        piece.decode()  # whole characters


# --- tokenize ---------------------------------------------------------------------------------

TEXTS = ["Hello, café 12", "", " ", "a\nb", "<|im_start|>user", "naïve 😀 ", "12345", "\u00a0x"]


@pytest.mark.parametrize("text", TEXTS)
def test_tokenize_agrees_with_tokenizers(blob, demo_tokenizer, text):
    ids = demo_tokenizer.encode(text).ids
    assert output("tokenize", blob, text) == " ".join(map(str, ids)) + "\n"
    assert output("tokenize", blob, "-", input=text.encode()) == " ".join(map(str, ids)) + "\n"


@pytest.mark.parametrize("text", TEXTS)
def test_decode_agrees_with_tokenizers(blob, demo_tokenizer, text):
    ids = demo_tokenizer.encode(text).ids
    expected = demo_tokenizer.decode(ids, skip_special_tokens=False) + "\n"
    assert output("tokenize", blob, "--decode", " ".join(map(str, ids))) == expected
    assert (
        output("tokenize", blob, "--decode", "-", input=",\n".join(map(str, ids)).encode())
        == expected
    )


def test_decoded_text_cannot_steer_the_terminal(blob):
    evil = "\x1b]0;owned\x07 \x9b31m\tred"
    words = "tokenize", blob, "--decode", output("tokenize", blob, evil)
    assert output(*words) == evil + "\n"
    assert on_terminal(words).expandtabs() == "\ufffd]0;owned\ufffd \ufffd31m\tred\n".expandtabs()


def test_decode_replaces_what_is_not_utf8(blob, demo_tokenizer):
    first = output("tokenize", blob, "é").split()  # maybe one token, maybe a token per byte
    ids = output("tokenize", blob, "\u1e9e").split()
    assert len(ids) > 1, "this character should take several tokens"
    assert output("tokenize", blob, "--decode", " ".join([ids[0], *first])) == "\ufffdé\n"


def test_embeddings_for_numpy_are_printed_whole_or_not_at_all(blob):
    """The tiny model has no token before a text, so an empty line has none."""
    for good in (1, 40):  # a group of lines, and more
        result = smolrun("embed", blob, "-", "--npy", input=b"one\n" * good + b"\nlast\n")
        assert_fails(result, USAGE, f"line {good + 1} has no tokens")


@pytest.mark.parametrize("words, text", [([], b""), (["--npy"], b"an answer")], ids=["empty", "npy"])
def test_scores_are_those_of_a_reranker(blob, words, text):
    result = smolrun("embed", blob, "-", "--rerank", "a question", *words, input=text)
    assert_refuses(result, 5, "not a reranker")


def test_ids_are_members_of_an_object(blob):
    assert_fails(smolrun(blob, PROMPT, "--ids", "--json"), USAGE, "--ids: leave it out")


def test_tokenize_refuses_what_makes_no_sense(blob):
    assert_fails(smolrun("tokenize", blob), USAGE, "TEXT or --decode")
    assert_fails(smolrun("tokenize", blob, "x", "--decode", "1"), USAGE, "TEXT or --decode")
    assert_fails(smolrun("tokenize", blob, "--decode", "1 x"), USAGE, '"x"')
    assert_fails(smolrun("tokenize", blob, "--decode", "-5"), USAGE)
    for id in (VOCABULARY, 2**32, 2**64 + 1):
        said = f"token id {id} (item 2 of the list): the vocabulary has ids 0 to {VOCABULARY - 1}"
        assert_fails(smolrun("tokenize", blob, "--decode", f"1 {id}"), USAGE, said)
    assert_fails(smolrun("tokenize", blob, "x", "--temp", "1"), USAGE, "--temp")


# --- logits -----------------------------------------------------------------------------------


def logits(path, *arguments, **options):
    assert output("logits", *arguments, "-o", path, **options) == ""
    return np.fromfile(path, "<f4").reshape(-1, VOCABULARY)


def test_logits_have_a_row_for_each_token(blob, demo_tokenizer, tmp_path):
    text = "Anna the baker gave Felix a bun. " * 10
    ids = demo_tokenizer.encode(text).ids
    rows = logits(tmp_path / "rows", blob, text)
    assert rows.shape == (len(ids), VOCABULARY) and np.isfinite(rows).all()
    by_ids = logits(tmp_path / "ids", blob, "--tokens", " ".join(map(str, ids)))
    assert by_ids.tobytes() == rows.tobytes()
    by_input = logits(tmp_path / "input", blob, "-", input=text.encode())
    assert by_input.tobytes() == rows.tobytes()


def test_last_logits_are_the_end_of_all(blob, tmp_path):
    rows = logits(tmp_path / "rows", blob, PROMPT)
    for last in (1, 2, len(rows), 10**9):
        tail = logits(tmp_path / "tail", blob, PROMPT, "--last", last)
        assert tail.tobytes() == rows[-last:].tobytes()


def test_logits_do_not_depend_on_threads(blob, tmp_path):
    one = logits(tmp_path / "one", blob, PROMPT, "--threads", 1)
    assert logits(tmp_path / "three", blob, PROMPT, "--threads", 3).tobytes() == one.tobytes()


def test_logits_agree_with_generation(blob, demo_tokenizer, tmp_path, greedy):
    ids = demo_tokenizer.encode(PROMPT).ids + greedy["ids"]
    rows = logits(tmp_path / "rows", blob, "--tokens", " ".join(map(str, ids)))
    assert rows[-len(greedy["ids"]) - 1 : -1].argmax(1).tolist() == greedy["ids"]


def test_logits_of_f32_agree_with_transformers(demo_blob, demo_tokenizer, demo_logits, tmp_path):
    expected = demo_logits(demo_tokenizer.encode(PROMPT).ids)
    np.testing.assert_allclose(
        logits(tmp_path / "rows", demo_blob("f32"), PROMPT), expected, atol=2e-4
    )


def test_empty_text_gives_the_logits_after_bos(blob, tmp_path):
    rows = logits(tmp_path / "rows", blob, "")
    assert rows.tobytes() == logits(tmp_path / "bos", blob, "--tokens", str(STOP_ID)).tobytes()


def test_logits_replace_an_existing_file_whole_or_not_at_all(blob, tmp_path):
    target = tmp_path / "rows"
    target.write_bytes(b"before")
    assert_fails(smolrun("logits", blob, "--tokens", "1 2 3 99999", "-o", target), USAGE)
    assert_fails(smolrun("logits", blob, "x " * 600, "-o", target), CONTEXT_FULL)
    assert target.read_bytes() == b"before"
    assert logits(target, blob, "--tokens", "1 2 3").shape == (3, VOCABULARY)
    assert os.listdir(tmp_path) == ["rows"]


def test_logits_refuse_what_makes_no_sense(blob, tmp_path):
    target = tmp_path / "rows"
    assert_fails(smolrun("logits", blob, "x"), USAGE, "-o")
    assert_fails(smolrun("logits", blob, "-o", target), USAGE, "TEXT or --tokens")
    assert_fails(smolrun("logits", blob, "x", "--tokens", "1", "-o", target), USAGE)
    assert_fails(smolrun("logits", blob, "--tokens", "", "-o", target), USAGE, "--tokens")
    assert_fails(smolrun("logits", blob, "x", "-o", target, "--last", "0"), USAGE, "--last")
    assert_fails(smolrun("logits", blob, "x", "-o", tmp_path / "no" / "rows"), FILE, "rows")
    assert_fails(smolrun("logits", blob, "x", "-o", tmp_path), FILE)
    assert os.listdir(tmp_path) == []


def test_logits_on_a_full_disk_leave_nothing(blob, tmp_path):
    result = smolrun("logits", blob, PROMPT, "-o", tmp_path / "rows", preexec_fn=limited("FSIZE", 10000))
    assert_fails(result, FILE, "rows")
    assert os.listdir(tmp_path) == []


# --- bench ------------------------------------------------------------------------------------


def test_bench_json_has_what_others_read(blob):
    arguments = ["-p", 32, "-n", 8, "--depth", 16, "--threads", 1, "--kv", "int8", "--json"]
    report = json.loads(output("bench", blob, *arguments))
    expected = {"prefill_tokens": 32, "decode_tokens": 8, "depth": 16, "threads": 1, "kv": "int8",
                "dtype": "int8", "runs": 5}  # fmt: skip
    assert {key: report[key] for key in expected} == expected
    assert report["isa"] in ("scalar", "avx2", "avxvnni", "avx512", "avx512vbmi", "avx512amx", "neon", "dotprod", "i8mm")
    for key in ("load_ms", "first_token_ms", "peak_rss_bytes"):
        assert report[key] > 0
    for phase in ("prefill", "decode"):
        rate = f"{phase}_tokens_per_second"
        assert 0 < report[rate + "_min"] <= report[rate] <= report[rate + "_max"]


def test_bench_text_names_every_figure(blob):
    text = output("bench", blob, "-p", 8, "-n", 4)
    for word in ("load", "first token", "prefill", "decode", "GB/s", "peak memory"):
        assert word in text


def test_bench_tells_a_terminal_which_phase_it_runs(blob):
    arguments = ["bench", blob, "-p", 8, "-n", 4, "--depth", 3, "--sequences", 2]
    drawn, rest = wiped(on_terminal(arguments, errors=subprocess.STDOUT))
    phases = ["first token", "depth", *["prefill"] * 6, *["decode", "decode together"] * 6]
    assert drawn == [f"step {i} of 20: {phase}" for i, phase in enumerate(phases, 1)]
    assert rest.startswith(f"{blob}: ")
    cut, _ = wiped(on_terminal(arguments, errors=subprocess.STDOUT, columns=20))  # drawn in one row there too
    assert cut == [text[:19].rstrip() for text in drawn]
    assert on_terminal([*arguments, "--json"], errors=subprocess.STDOUT).startswith("{")


def test_bench_defaults_shrink_to_the_context_but_requests_do_not(blob):
    report = json.loads(output("bench", blob, "--depth", CONTEXT - 10, "--json"))
    assert (report["prefill_tokens"], report["decode_tokens"]) == (10, 10)
    assert_fails(smolrun("bench", blob, "-p", CONTEXT + 1), CONTEXT_FULL)
    assert_fails(smolrun("bench", blob, "-n", 20, "--depth", CONTEXT - 10), CONTEXT_FULL)
    assert_fails(smolrun("bench", blob, "--depth", CONTEXT), CONTEXT_FULL)


def test_bench_refuses_what_makes_no_sense(blob):
    assert_fails(smolrun("bench", blob, "-p", 0), USAGE, "-p")
    assert_fails(smolrun("bench", blob, "a prompt"), USAGE, "one argument too many")
