"""Runs the commands of the documentation. Every block between ``` has a kind:

    console   each line after a $ is a command, and the lines after it are its output; `...` stands for any
              output, and lines may be broken anywhere
    sh        each line is a command
    usage     how a command is called: its options must be those that --help lists

No other block may look like a command. A command runs in a folder with the files that it names; the bundled
model stands for every model, except where the page shows output of SmolLM2. Commands that cannot run are
listed with the reason, and what they name must exist."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import gguf_files
import pytest
from conftest import ROOT
from hub import Hub
from test_manual import COMMANDS, options_of

TEXTS = ["README.md", "CONTRIBUTING.md", "tests/fuzz/README.md"]
TEXTS += sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("docs/*.md"), *ROOT.glob("format/*.md")])
PAGES = TEXTS + sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/man/*.scd"))
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
CACHE = ".cache/huggingface/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct"
MARK = "\x1e"  # after each command's output, around its exit status

# the beginning of a command -> why it is not run
NOT_RUN = {
    "./scripts/check": "runs this",
    "make check": "runs a part of this",
    "make fuzz": "takes a quarter of an hour; the check runs each target for seconds",
    "build/fuzz/tests/fuzz_blob": "needs a finding of `make fuzz`",
    "libraries=$(./scripts/foreign-libraries": "cross-compiles for a minute; the check does (aarch64, armv7)",
    "make static": "cross-compiles too",
    "make bench": "compiles llama.cpp and measures for minutes",
    "smolserve smollm2.smol": "serves until it is ended; test_serve.py runs it",
    "curl http://127.0.0.1:8080": "asks it; so does test_serve.py",
    "minisign -G": "asks for a password; test_signing.py makes keys without one",
}  # fmt: skip
# kinds of blocks that another test runs
RUN_ELSEWHERE = {"sh home": "test_signing.py", "sh device": "test_signing.py", "python server": "test_serve.py", "sh server": "test_serve_operation.py", "python": "test_python_docs.py",
                 "python batch": "test_python_docs.py", "sh batch": "test_python_docs.py", "python ray": "test_python_scale.py", "python spark": "test_python_scale.py"}

# pattern of a command -> what runs before it
BEFORE = {
    r"smolconv( --dtype \w+)? \S*SmolLM2\S* smollm2": "rm -f smollm2.smol",
    r"smol-fetch --convert": "rm -f smollm2.smol",
    r"smolconv patch old": "rm -f new.smol",
    r"smolconv pack": "rm -f smollm2.smol.zst",
    r"smolconv delta old": "rm -f update.smoldelta",
    r"smolconv verify .*smollm2.stats": (
        "smolconv --quiet --dtype f32 SmolLM2-135M-Instruct f32.smol; "
        f"smolrun calibrate f32.smol {ROOT}/LICENSE -o smollm2.stats; "
        "smolconv --quiet --dtype int4 --calibration smollm2.stats SmolLM2-135M-Instruct int4.smol"
    ),
    r"smolconv unpack": "rm -f smollm2.smol; URL=file://$PWD/smollm2.smol.zst",
    r"^cc ": "[ -e smol ] || make install PREFIX=$HOME/smol; export PKG_CONFIG_PATH=$HOME/smol/lib/pkgconfig",
    r"\$URL.*smolconv patch": "URL=file://$PWD/update.smoldelta",
}  # fmt: skip
# text of a command -> its replacement here
INSTEAD = {
    "https://example.org/": "file://$PWD/",
    "digest HEX": "digest $(sha256sum FILE.smol | cut -d' ' -f1)",
    "/usr/share/smol/calibration.txt": "calibration.txt",
    "demo/calibration.txt": "calibration.txt",
    "-p 512 -n 128 --depth 1024": "-p 8 -n 4 --depth 9",
}
# commands with an exit status other than 0
STATUS = {
    "n=$(smolconv unpack --resume - smollm2.smol </dev/null)": 4,  # nothing has come yet
    "smolconv diff old.smol new.smol": 1,  # they differ
}  # fmt: skip


# --- the blocks of a page ------------------------------------------------------------------------------


def blocks(page):
    """[kind, text] of each block, and the text without blocks."""
    text, found = (ROOT / page).read_text(), []

    def take(match):
        found.append((match[2], match[3]))
        return ""

    rest = re.sub(r"^(`{3,})([^\n]*)\n(.*?)^\1$", take, text, flags=re.M | re.S)
    if page.endswith(".scd"):
        found = [("console", block) for _, block in found]
    return found, rest


def joined(text):
    """The lines of a text; a line that ends with a backslash is joined with the next."""
    return text.replace("\\\n", " ").splitlines()


def commands(page):
    """[command, its output] of all blocks that are run, in order."""
    found = []
    for kind, text in blocks(page)[0]:
        if kind == "sh":
            found += [[line, ""] for line in joined(text)]
        elif kind == "console":
            for line in joined(text):
                if line.startswith("$ "):
                    found.append([line[2:], ""])
                else:
                    found[-1][1] += line + "\n"
    return found


def reason_not_to_run(command):
    return next((why for start, why in NOT_RUN.items() if command.startswith(start)), None)


def looks_like_a_command(line):
    return re.match(r"\$ |(build/|\./|\S*bin/)?(smolconv|smolrun|smolserve)\b|(\./)?(scripts|tests|build)/\S+( |$)|"
                    r"(make|cc|curl|git|jq|sha256sum|export|sudo|apt|apt-get|python3?|pip|cd) ", line.strip())  # fmt: skip


@pytest.mark.parametrize("page", TEXTS)
def test_no_command_hides_in_another_kind_of_block(page):
    found, rest = blocks(page)
    assert {kind for kind, _ in found} <= {"console", "sh", "usage", "c", "json", "", *RUN_ELSEWHERE}
    others = [text for kind, text in found if kind == ""]
    others += re.findall(r"^ {4,}.*", rest, flags=re.M)  # indented, the other way to make a block
    for line in "\n".join(others).splitlines():
        assert not looks_like_a_command(line), line


def test_nothing_is_listed_that_no_page_has():
    everything = [command for page in PAGES for command, _ in commands(page)]
    for start in [*NOT_RUN, *STATUS]:
        assert any(command.startswith(start) for command in everything), start
    for pattern in BEFORE:
        assert any(re.search(pattern, command) for command in everything), pattern
    kinds = {kind for page in PAGES for kind, _ in blocks(page)[0]}
    assert kinds >= set(RUN_ELSEWHERE)


# --- files for the commands ----------------------------------------------------------------------------


def convert(*words):
    subprocess.run([ROOT / "build/smolconv", "--quiet", *words], check=True)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Every file that a command may name: the bundled model, with SmolLM2's context, for all models."""
    folder = tmp_path_factory.mktemp("shelf")
    model = shutil.copytree(ROOT / "demo/model", folder / "SmolLM2-135M-Instruct")
    config = model / "config.json"
    config.write_text(re.sub(r'("max_position_embeddings": )\d+', r"\g<1>8192", config.read_text()))
    changed = shutil.copytree(model, folder / "changed")
    (changed / "generation_config.json").write_text('{"temperature": 0.5}')
    gguf_files.write(folder / "SmolLM2-135M-Instruct-Q8_0.gguf", model, gguf_files.QUANT.F16)
    convert(model, folder / "FILE.smol")
    convert(changed, folder / "new.smol")
    convert("--dtype", "f32", model, folder / "f32.smol")
    for name in ("smollm2.smol", "model.smol", "old.smol", "int8.smol"):
        os.link(folder / "FILE.smol", folder / name)
    subprocess.run([ROOT / "build/smolconv", "pack", "--quiet", "FILE.smol", "smollm2.smol.zst"], check=True, cwd=folder)
    subprocess.run([ROOT / "build/smolconv", "delta", "--quiet", "old.smol", "new.smol", "update.smoldelta"], check=True, cwd=folder)
    text = (ROOT / "README.md").read_text()[:2000]
    requests = [line for line in (ROOT / "docs/running.md").read_text().splitlines() if line.startswith(('{"prompt', '{"messages'))]
    calibration = (ROOT / "demo/calibration.txt").read_text()[:3000]  # all of it takes seconds for each command
    files = {"text.txt": text, "calibration.txt": calibration, "prompt.txt": text[:200], "requests": "\n".join(requests), "input": "Hello\n",
             "program.c": (ROOT / "examples/generate.c").read_text()}  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(content)
    return folder


@pytest.fixture()
def clone(tmp_path, shelf):
    """A writable copy of the tree, with the build of this one."""
    for name in ("build", "demo", "scripts", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "tools").mkdir()
    make = tmp_path / "tools/make"
    make.write_text(f'#!/bin/sh\nexec {shutil.which("make")} -s -C {ROOT} "$@"\n')
    make.chmod(0o755)
    (tmp_path / "tools/smol-fetch").symlink_to(ROOT / "scripts/smol-fetch")
    return tmp_path


def fill(folder, shelf):
    """Links all files of the shelf into a folder, so that a command may replace a name there."""
    for path in shelf.iterdir():
        if path.is_file():
            os.link(path, folder / path.name)
    for name in ("SmolLM2-135M-Instruct", "model", "checkpoint", CACHE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(shelf / "SmolLM2-135M-Instruct")
    snapshot = folder / CACHE / "snapshots/c0ffee"
    (folder / CACHE).unlink()
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(shelf / "SmolLM2-135M-Instruct")


# --- running --------------------------------------------------------------------------------------


@pytest.fixture()
def environment(tmp_path):
    kept = {k: v for k, v in os.environ.items() if k != "HF_TOKEN" and not k.startswith(("MAKE", "MFLAGS", "XDG_"))}
    path = f"{tmp_path}/tools:{ROOT}/build:{os.environ['PATH']}"
    with Hub({path.name: path.read_bytes() for path in (ROOT / "demo/model").iterdir()}, repo=MODEL) as hub:
        yield kept | {"PATH": path, "HOME": str(tmp_path), "HF_ENDPOINT": hub.url(), "no_proxy": "*"}


@pytest.fixture(scope="module")
def real(tmp_path_factory, request):
    """SmolLM2's own blob, made on first use."""

    def make():
        blob = Path(tmp_path_factory.getbasetemp()) / "real.smol"
        if not blob.exists():
            convert(request.getfixturevalue("rebuilt_model_dir"), blob)
        return blob

    return make


def run_all(folder, environment, listed):
    """[exit status, output] of each command, run in one shell, one after the other."""
    script = ["set -o pipefail"]
    for command in listed:
        script += [f"cd {folder}", *(what for pattern, what in BEFORE.items() if re.search(pattern, command))]
        for written, meant in INSTEAD.items():
            command = command.replace(written, meant)
        script += ["{", command, f"}} <{folder}/input 2>&1", f"printf '{MARK}%d{MARK}' $?"]
    result = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=environment, text=True, timeout=600, stdout=subprocess.PIPE,
    )  # fmt: skip
    pieces = result.stdout.split(MARK)
    return list(zip(map(int, pieces[1::2]), pieces[::2]))


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_every_command_does_what_the_page_says(page, clone, shelf, environment, real):
    if page == "docs/tutorial.md":  # which begins with a clone and makes the rest itself
        (clone / "input").touch()
    else:
        fill(clone, shelf)
    run = [(command, shown) for command, shown in commands(page) if not reason_not_to_run(command)]
    listed = [command.replace(" smollm2.smol", f" {real()}") if shown and " smollm2.smol" in command else command for command, shown in run]
    results = run_all(clone, environment, listed)
    assert len(results) == len(run)
    for (command, shown), (status, output) in zip(run, results):
        assert status == STATUS.get(command.split("  #")[0].rstrip(), 0), f"{command}\n{output}"
        if shown:
            pattern = ".*".join(re.escape(part) for part in "".join(shown.split()).split("..."))
            assert re.fullmatch(pattern, "".join(output.split()), flags=re.S), f"{command}\n{output}"


# --- the program on the first page ----------------------------------------------------------------


def test_the_program_of_the_readme_writes_what_smolrun_writes(tmp_path, shelf):
    (source,) = [text for kind, text in blocks("README.md")[0] if kind == "c"]
    (tmp_path / "program.c").write_text(source)
    libraries = ["-I", ROOT, ROOT / "build/libsmol.a", "-lm", "-pthread"]
    command = ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program", "program.c", *libraries]
    subprocess.run(command, cwd=tmp_path, check=True)
    os.link(shelf / "smollm2.smol", tmp_path / "smollm2.smol")
    written = subprocess.run([tmp_path / "program"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    words = [ROOT / "build/smolrun", "smollm2.smol", "Once upon a time", "-n", "40"]
    expected = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert written + "\n" == expected and len(written) > 20


# --- pictures of terminals ------------------------------------------------------------------------


@pytest.mark.slow
def test_the_pictures_show_what_the_commands_show(real, tmp_path):
    """If not: make pictures."""
    subprocess.run([ROOT / "scripts/record", ROOT / "build", real(), tmp_path], check=True)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text() for path in ROOT.glob("docs/terminal-*.svg")}
    texts = "".join((ROOT / page).read_text() for page in TEXTS)
    assert all(f"{name})" in texts for name in drawn)


# --- commands that are not run -----------------------------------------------------------------------


def check_options(program, words):
    """The options among the words are of the program, or of its command that they name."""
    name = next((word for word in words[:1] if (program, word) in COMMANDS), "")
    known = options_of(program, name)
    for word in words:
        flag = re.match(r"\[?(--?[a-z][a-z-]*)", word)
        assert not flag or flag[1] in known, f"{program} {name}: {word}"
    return name


def check_make(words):
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        variable = re.match(r"([A-Z_]+)=|", word)[1]
        if re.fullmatch(r"[\w-]+", word):
            assert re.search(rf"^[^#\t=]*\b{re.escape(word)}\b[^=]*:", makefile, flags=re.M), f"make {word}"
        elif variable:
            assert re.search(rf"\b{variable}\b", makefile), f"make {word}"


def check_exists(text):
    """Checks that what a command of ours names exists: program and options, target, script, step."""
    text = re.sub(r"^\S*=\$\(|^\"?\$\((\./)?scripts/venv\)\"? |  #.*|[();]| && .*", "", text)
    program, *words = text.split() or [""]
    program = re.sub(r"^(\./|build/)(?=smol|scripts)", "", program)
    if program in ("smolconv", "smolrun", "smolserve"):
        check_options(program, words)
    elif program == "make":
        check_make(words)
    elif re.match(r"(scripts|tests)/", program):
        assert any(ROOT.glob(program)), program
        if program == "scripts/check" and words and not words[0].isupper():
            known = words[0] if words[0].startswith("--") else f"\nstep_{words[0]}() "
            assert known in (ROOT / program).read_text(), text
    else:
        assert program in ("minisign", "curl", "build/fuzz/tests/fuzz_blob") or not reason_not_to_run(text), text


def test_what_is_not_run_exists():
    for page in PAGES:
        for command, _ in commands(page):
            if reason_not_to_run(command):
                check_exists(command)


@pytest.mark.parametrize("page", TEXTS)
def test_what_is_mentioned_exists(page):
    """Commands within the text, between backticks."""
    for span in re.findall(r"`([^`]+)`", blocks(page)[1]):
        if looks_like_a_command(span):
            check_exists(" ".join(span.split()))


# --- how commands are called ----------------------------------------------------------------------


def usages(page):
    """Each call of the usage blocks, on one line."""
    return [re.sub(r"\n +", " ", call) for kind, text in blocks(page)[0] if kind == "usage"
            for call in re.findall(r"^\S.*(?:\n +.*)*", text, flags=re.M)]  # fmt: skip


def test_usages_have_existing_options_and_one_page_has_every_command():
    found = set()
    for page in TEXTS:
        for usage in usages(page):
            program, *words = usage.split()
            if program == "scripts/smol-fetch":
                text = (ROOT / program).read_text()
                assert all(f"\n    {flag})" in text for flag in re.findall(r"--\w+", usage)), usage
                continue
            name = check_options(program, [word for word in words if "-" in word or (program, word) in COMMANDS])
            if page == "docs/commands.md":
                found.add((program, name))
    assert found == set(COMMANDS)
